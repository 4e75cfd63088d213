# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# Sluice's own two daemons. Expects what config_accounts sets.

readonly spawn_caps='-all,+setuid,+setgid,+kill,+setpcap'

daemon() {
    printf '%s\n' "$state/libexec/sluice/$1" --config "$state/etc/sluice.yaml"
}

# The spawner may become the people of its table, and signal them; nothing else
# of root's power reaches it.
start_spawnd() {
    local words limits
    mapfile -t words < <(daemon sluice-spawnd)
    if [[ $mode == self ]]; then
        mapfile -t limits < <(as_powerless "$spawn")
    else
        limits=(setpriv "--reuid=$spawn" "--regid=$(id -g "$spawn")"
            "--groups=$(id -g "$web")" "--inh-caps=$spawn_caps"
            "--ambient-caps=$spawn_caps" "--bounding-set=$spawn_caps" --)
    fi
    part_spawn sluice-spawnd "${limits[@]}" "${words[@]}"
    part_wait sluice-spawnd 15 test -S "$state/run/spawn/spawn.sock"
}

# Prints a prefix: this account, no groups, no capability, now or later.
as_powerless() {
    printf '%s\n' setpriv "--reuid=$1" "--regid=$(id -g "$1")" \
        --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs --
}

# sluiced sees an empty folder where munge's socket is, so that it can prove
# itself to no Slurm daemon. The mount is its own and ends with it.
# shellcheck disable=SC2016 # expanded by the inner shell
readonly hide_munge='
    set -eu
    for folder in "$1" /run/munge; do
        if [ -d "$folder" ]; then
            mount -t tmpfs -o ro,size=4k,mode=0555 tmpfs "$folder"
        fi
    done
    shift
    exec "$@"'

munge_folders() {
    local folder
    for folder in "$state/run/munge" /run/munge; do
        if [[ -d $folder ]]; then echo "$folder"; fi
    done
}

# Prints how the new mount namespace is kept from telling others of its mounts.
# Where "/" is no mount of its own (a plain chroot) it can't be made private as
# a whole; then the folders become mounts, of themselves, that are.
hide_propagation() {
    local folder
    if unshare --mount --propagation=private true 2>/dev/null; then
        echo private
        return 0
    fi
    while read -r folder; do
        if mountpoint -q "$folder"; then continue; fi
        echo "$folder" >>"$state/run/mounts"
        mount --bind "$folder" "$folder"
        mount --make-private "$folder"
    done < <(munge_folders)
    echo unchanged
}

hide_undo() {
    local folder
    if [[ ! -f $state/run/mounts ]]; then return 0; fi
    while read -r folder; do
        if mountpoint -q "$folder"; then umount "$folder"; fi
    done <"$state/run/mounts"
    rm -f "$state/run/mounts"
}

start_sluiced() {
    local words limits propagation hide=()
    mapfile -t words < <(daemon sluiced)
    mapfile -t limits < <(as_powerless "$web")
    if [[ $mode == people ]]; then
        propagation=$(hide_propagation)
        hide=(unshare --mount "--propagation=$propagation"
            sh -c "$hide_munge" sh "$state/run/munge")
    fi
    part_spawn sluiced "${hide[@]}" "${limits[@]}" "${words[@]}"
    part_wait sluiced 20 sluiced_ready
}

sluiced_ready() {
    curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$port/readyz"
}

start_daemons() {
    part_alive sluice-spawnd || start_spawnd
    part_alive sluiced || start_sluiced
    part_wait sluiced 20 sluiced_ready
}

# --- end ----------------------------------------------------------------------

# Prints "PID START" of whatever runs a program of this state folder.
own_processes() {
    local exe pid stat
    for exe in /proc/[0-9]*/exe; do
        pid=${exe#/proc/}
        pid=${pid%/exe}
        case $(readlink "$exe" 2>/dev/null) in
        "$state"/libexec/* | "$state"/bin/*)
            if stat=$(process_stat "$pid"); then
                printf '%s %s\n' "$pid" "${stat#* }"
            fi
            ;;
        esac
    done
}

stop_daemons() {
    parts_stop 10 sluiced
    parts_stop 10 sluice-spawnd
    processes_end 3 "$(own_processes)" || die 'a program of ours did not end'
}

# watch is the spawner's child and writes its own number.
watch_status() {
    local pid
    if ((EUID != 0)); then # its number is behind the spawner's own folder
        printf '%-14s ?     (only root sees it)\n' watch
        return 0
    fi
    if read -r pid 2>/dev/null <"$state/run/watch.pid" &&
        [[ $(readlink "/proc/$pid/exe" 2>/dev/null) == "$state"/libexec/* ]]
    then
        printf '%-14s up    %s\n' watch "$pid"
    else
        printf '%-14s down\n' watch
        return 1
    fi
}
