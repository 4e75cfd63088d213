# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# Where the state folder is, and what the quickstart remembers in it.
# Expects $repo and $named, the folder as it was asked for; sets $state.

# A folder that service accounts can't reach, or whose sockets would have too
# long a name, lives in /var/lib, and the folder asked for is a link to it.
state_resolve() {
    local hash
    named=$(realpath -ms -- "$named")
    if [[ -L $named ]]; then
        state=$(realpath -m -- "$named")
    elif [[ -z $(path_problem "$(realpath -m -- "$named")") ]]; then
        state=$(realpath -m -- "$named")
    else
        hash=$(printf '%s' "$named" | sha256sum)
        state=/var/lib/sluice-quickstart-${hash:0:12}
    fi
}

# Why the folder can't be used; nothing when it can.
state_problem() {
    local problem
    problem=$(path_problem "$state")
    if [[ $problem ]]; then
        echo "$problem"
    elif [[ -e $state && ! -d $state ]]; then
        echo "$state is not a folder"
    elif [[ -d $state && ! -f $state/etc/quickstart ]] &&
        [[ $(find "$state" -mindepth 1 -maxdepth 1 -print -quit) ]]; then
        echo "$state holds something else"
    elif [[ $state != "$named" && -e $named && ! -L $named &&
        $(realpath -m -- "$named") != "$state" ]]; then
        echo "$named is in the way of a link to $state"
    fi
}

state_make() {
    local problem
    problem=$(state_problem)
    [[ -z $problem ]] || die "can't use $named: $problem"
    install -d -m 0755 "$state" "$state/etc" "$state/run" "$state/log"
    if [[ ! -f $state/etc/quickstart ]]; then : >"$state/etc/quickstart"; fi
    if [[ $(realpath -m -- "$named") != "$state" ]]; then
        mkdir -p "$(dirname "$named")"
        ln -s "$state" "$named"
    fi
}

# Two quickstarts of one state folder take turns.
state_lock() {
    exec 8>"$state/run/quickstart.lock"
    flock -w 600 8 || die "another quickstart works on $state"
}

state_remove() {
    if [[ -f $state/etc/quickstart ]]; then
        rm -rf --one-file-system "$state"
    fi
    if [[ -L $named && ! -e $named ]]; then rm -f "$named"; fi
}

# --- settings: KEY=VALUE lines in STATE/etc/quickstart ------------------------

setting() {
    sed -n "s/^$1=//p" "$state/etc/quickstart" 2>/dev/null || true
}

setting_keep() {
    local file=$state/etc/quickstart
    {
        grep -v "^$1=" "$file" || true
        printf '%s=%s\n' "$1" "$2"
    } >"$file.new"
    mv "$file.new" "$file"
}
