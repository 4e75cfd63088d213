# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# How each part of the fleet is started, and when it is ready.
# Expects what config.sh does, and $nodes.

# A client that finds no answer would wait for minutes.
client() {
    SLURM_CONF=$state/etc/slurm.conf timeout "${client_seconds:-3}" "$@" \
        </dev/null
}

# start_as NAME ACCOUNT COMMAND…
start_as() {
    local name=$1 prefix
    mapfile -t prefix < <(as_account "$2")
    shift 2
    part_spawn "$name" "${prefix[@]}" "$@"
}

# --- munged -------------------------------------------------------------------

munged_answers() {
    munge -n -S "$state/run/munge/munge.socket" >/dev/null
}

# Slurm checks the clock only; the seed and lock files stay in our folders.
start_munged() {
    local run=$state/run
    start_as munged munge munged --foreground \
        --key-file="$state/etc/munge.key" \
        --socket="$run/munge/munge.socket" \
        --pid-file="$run/munge/munged.pid" \
        --seed-file="$run/munge-seed/munged.seed" \
        --log-file="$run/munge/munged.log"
    part_wait munged 10 munged_answers
}

# --- mariadbd -----------------------------------------------------------------

# The folder is complete only once its marker is there.
make_database() {
    local data=$state/mysql
    if [[ -e $data/.complete ]]; then return 0; fi
    find "$data" -mindepth 1 -delete
    (umask 027 && : >>"$state/log/mariadbd.log")
    mariadb-install-db --no-defaults --user=mysql --datadir="$data" \
        --auth-root-authentication-method=socket --skip-test-db \
        --skip-name-resolve >>"$state/log/mariadbd.log" 2>&1 ||
        die "mariadb-install-db failed; see $state/log/mariadbd.log"
    touch "$data/.complete"
}

sql() {
    timeout 5 mariadb --no-defaults -S "$state/run/mysql.sock" \
        -u root -N -e "$1"
}

mariadbd_answers() {
    sql 'SELECT 1' >/dev/null
}

start_mariadbd() {
    make_database
    start_as mariadbd mysql mariadbd --no-defaults --datadir="$state/mysql" \
        --socket="$state/run/mysql/mysql.sock" --skip-networking \
        --pid-file="$state/run/mysql/mariadbd.pid" \
        --innodb-buffer-pool-size=128M --innodb-lock-wait-timeout=900 \
        --innodb-flush-log-at-trx-commit=2
    part_wait mariadbd 30 mariadbd_answers
    # slurmdbd proves by its uid who it is; there is no password.
    sql "CREATE DATABASE IF NOT EXISTS slurm_acct;
         CREATE USER IF NOT EXISTS '$slurm_user'@'localhost'
             IDENTIFIED VIA unix_socket;
         GRANT ALL ON slurm_acct.* TO '$slurm_user'@'localhost'" ||
        die "the accounting database was not made; see $state/log/mariadbd.log"
}

# --- slurmdbd -----------------------------------------------------------------

slurmdbd_answers() {
    client sacctmgr -n show cluster >/dev/null
}

start_slurmdbd() {
    start_as slurmdbd "$slurm_user" \
        env "MYSQL_UNIX_PORT=$state/run/mysql/mysql.sock" slurmdbd -D
    part_wait slurmdbd 40 slurmdbd_answers
    add_cluster
}

# slurmctld without state and without its cluster in slurmdbd ends at once.
add_cluster() {
    if [[ $(client sacctmgr -nP show cluster "$cluster" format=cluster) ]]; then
        return 0
    fi
    client_seconds=30 client sacctmgr -i add cluster "$cluster" >/dev/null ||
        die "slurmdbd did not take the cluster; see $state/log/slurmdbd.log"
}

# --- slurmctld and slurmd -----------------------------------------------------

slurmctld_answers() {
    [[ $(client scontrol ping) == *' is UP'* ]]
}

start_slurmctld() {
    start_as slurmctld "$slurm_user" slurmctld -D -f "$state/etc/slurm.conf"
    part_wait slurmctld 30 slurmctld_answers
}

start_slurmd() {
    part_spawn "slurmd-$1" slurmd -D -N "$1" -f "$state/etc/slurm.conf"
}

start_part() {
    case $1 in
    slurmd-*) start_slurmd "${1#slurmd-}" ;;
    *) "start_$1" ;;
    esac
}

# --- what jobs leave ----------------------------------------------------------

cancel_jobs() {
    local jobs
    jobs=$(client squeue -h -a -o %A 2>/dev/null | sort -u) || return 0
    if [[ -z $jobs ]]; then return 0; fi
    # shellcheck disable=SC2086 # one number a word
    client scancel $jobs 2>/dev/null || true
    wait_until 8 no_jobs || true
}

no_jobs() {
    [[ -z $(client squeue -h -a -o %A 2>/dev/null) ]]
}

# Prints "PID START" of the step daemons of this fleet, which inherit slurmd's
# environment, and of processes that its jobs left.
leftovers() {
    local environ pid start
    for environ in /proc/[0-9]*/environ; do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        if is_leftover "$pid" && start=$(process_stat "$pid"); then
            printf '%s %s\n' "$pid" "${start#* }"
        fi
    done
}

is_leftover() {
    grep -qzxF "SLURM_CONF=$state/etc/slurm.conf" "/proc/$1/environ" \
        2>/dev/null || return 1
    case $(readlink "/proc/$1/exe" 2>/dev/null) in
    */slurmstepd | */slurmstepd-*) return 0 ;;
    esac
    grep -qz '^SLURM_JOB_ID=' "/proc/$1/environ" 2>/dev/null
}
