# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# Messages, waiting, and processes that are known by more than their number.
# Sourced by deploy/fleet/fleet and by deploy/quickstart. Expects $state, the
# state folder, and $program, the name that messages begin with.
#
# A part NAME that runs has two files in STATE/run: NAME.pid, its number, and
# started/NAME, "PID START BOOT": when the kernel started it and in which boot.
# A recycled number differs in START, so it is never taken for the part.

say() {
    printf '%s: %s\n' "$program" "$*"
}

die() {
    printf '%s: %s\n' "$program" "$*" >&2
    exit 1
}

# wait_until SECONDS COMMAND…: tries the command ten times a second.
wait_until() {
    local end=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        if ((SECONDS >= end)); then return 1; fi
        sleep 0.1
    done
}

# --- the state folder ---------------------------------------------------------

# Unix sockets end at 107 bytes; the longest below the state folder is that of
# a job step, STATE/slurm/spool-gpuNN/gpuNN_12345678.4294967291, 44 bytes.
readonly state_path_max=60

# Prints why a state folder can't be at this path; nothing when it can.
path_problem() {
    local path=$1 dir mode owner
    if [[ ! $path =~ ^/[A-Za-z0-9._/+-]+$ ]]; then
        echo "the path may hold only letters, digits and . _ / + -"
        return
    fi
    if ((${#path} > state_path_max)); then
        echo "the path has ${#path} bytes; sockets allow $state_path_max"
        return
    fi
    dir=$path
    while [[ $dir != / ]]; do
        dir=$(dirname "$dir")
        [[ -e $dir ]] || continue
        read -r mode owner < <(stat -Lc '%a %u' "$dir")
        if ((owner != 0)); then
            echo "$dir is not root's"
            return
        fi
        if ((!(8#$mode & 8#001))); then
            echo "service accounts can't enter $dir (mode $mode)"
            return
        fi
        if ((8#$mode & 8#022 && !(8#$mode & 8#1000))); then
            echo "others can write to $dir (mode $mode)"
            return
        fi
    done
}

# --- processes ----------------------------------------------------------------

boot_id() {
    cat /proc/sys/kernel/random/boot_id
}

# Prints state and start time of a process: fields 3 and 22 of its stat, which
# are counted after the last ")" because a process names itself.
process_stat() {
    local line fields
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    read -ra fields <<<"${line##*) }"
    printf '%s %s\n' "${fields[0]}" "${fields[19]}"
}

# process_is PID START: that very process, and not yet a zombie.
process_is() {
    local stat
    stat=$(process_stat "$1") || return 1
    [[ ${stat#* } == "$2" && ${stat% *} != [ZX] ]]
}

# Prints "PID START" of a part that runs; fails when it does not.
part_process() {
    local pid start boot
    read -r pid start boot 2>/dev/null <"$state/run/started/$1" || return 1
    [[ $boot == "$(boot_id)" ]] || return 1
    process_is "$pid" "$start" || return 1
    printf '%s %s\n' "$pid" "$start"
}

part_alive() {
    part_process "$1" >/dev/null
}

# Each file appears whole or not at all.
record_file() {
    printf '%s\n' "$2" >"$1.$BASHPID"
    mv "$1.$BASHPID" "$1"
}

part_record() {
    local name=$1 pid=$2 stat
    stat=$(process_stat "$pid") || return 1
    mkdir -p "$state/run/started"
    record_file "$state/run/started/$name" "$pid ${stat#* } $(boot_id)"
    record_file "$state/run/$name.pid" "$pid"
}

part_forget() {
    rm -f "$state/run/$1.pid" "$state/run/started/$1"
}

# part_spawn NAME COMMAND…: starts it in a session of its own, with an empty
# environment but for PATH, LANG and SLURM_CONF, signals as they are by default
# (the shell lets what it starts behind itself ignore SIGINT), and the log as
# its output. Descriptor 9 is the lock of the fleet, 8 that of the quickstart.
# It is recorded by itself, before it becomes the part, so that none runs
# unrecorded; and by us, so that it is when we go on.
part_spawn() {
    local name=$1 log=$state/log/$1.log
    shift
    (umask 027 && : >>"$log")
    (
        part_record "$name" "$BASHPID"
        exec env -i --default-signal LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            "SLURM_CONF=$state/etc/slurm.conf" setsid "$@"
    ) </dev/null >>"$log" 2>&1 8>&- 9>&- &
    part_record "$name" "$!" || part_died "$name"
}

part_died() {
    die "$1 ended: $(tail -n 3 "$state/log/$1.log")
see $state/log/$1.log"
}

# Prints setpriv and the arguments that make a command run as that account.
as_account() {
    printf '%s\n' setpriv "--reuid=$1" "--regid=$(id -g "$1")" \
        --init-groups --inh-caps=-all --
}

# part_wait NAME SECONDS COMMAND…: until the command succeeds; stops early
# when the part dies.
part_wait() {
    local name=$1 end=$((SECONDS + $2 + 1)) words=$state/run/last-words
    shift 2
    until "$@" 2>"$words"; do
        part_alive "$name" || part_died "$name"
        ((SECONDS < end)) || die "$name does not answer: $(tail -n 2 "$words")
see $state/log/$name.log"
        sleep 0.05
    done
    rm -f "$words"
}

# True once none of the "PID START" lines is a live process.
processes_gone() {
    local pid start
    while read -r pid start; do
        if process_is "$pid" "$start"; then return 1; fi
    done <<<"$1"
}

# processes_signal SIGNAL LINES: each is looked at again right before.
processes_signal() {
    local pid start
    while read -r pid start; do
        if process_is "$pid" "$start"; then
            kill "-$1" "$pid" 2>/dev/null || true
        fi
    done <<<"$2"
}

# processes_end SECONDS LINES: SIGTERM, and SIGKILL after so many seconds.
# SIGCONT because a stopped process would not see the first.
processes_end() {
    local seconds=$1 lines=$2
    [[ $lines ]] || return 0
    processes_signal TERM "$lines"
    processes_signal CONT "$lines"
    wait_until "$seconds" processes_gone "$lines" && return 0
    processes_signal KILL "$lines"
    wait_until 5 processes_gone "$lines"
}

# parts_stop SECONDS NAME…: ends these parts together.
parts_stop() {
    local seconds=$1 name lines='' line
    shift
    for name in "$@"; do
        if line=$(part_process "$name"); then lines+=${lines:+$'\n'}$line; fi
    done
    processes_end "$seconds" "$lines" ||
        die "could not end: $(tr '\n' ';' <<<"$lines")"
    for name in "$@"; do part_forget "$name"; done
}

# part_status NAME: one line; fails when it is down.
part_status() {
    local process
    if process=$(part_process "$1"); then
        printf '%-14s up    %s\n' "$1" "${process% *}"
    else
        printf '%-14s down\n' "$1"
        return 1
    fi
}
