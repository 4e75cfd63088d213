# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# The Unix accounts, which all quickstarts of a machine share. The folder
# below remembers who uses them (a line for each state folder) and which of
# them a quickstart made; the last one that goes takes those away again.

readonly shared=/var/lib/sluice-quickstart

# Prints the accounts a mode needs, one a line: name and kind.
accounts_wanted() {
    if [[ $mode == self ]]; then
        echo 'sluice-alice person'
    else
        printf '%s\n' 'sluice service' 'sluice-spawn service' \
            'sluice-watch service' 'sluice-alice person' 'sluice-bob person'
    fi
}

accounts_missing() {
    local name kind
    while read -r name kind; do
        getent passwd "$name" >/dev/null || printf '%s %s\n' "$name" "$kind"
    done < <(accounts_wanted)
}

# accounts_locked COMMAND…: the folder itself is the lock, so none is left.
accounts_locked() {
    (
        flock 7
        "$@" 7>&-
    ) 7<"${shared%/*}"
}

account_make() {
    local name=$1 kind=$2
    if [[ $kind == service ]]; then
        useradd --system --user-group --no-create-home \
            --home-dir /nonexistent --shell /usr/sbin/nologin "$name"
    else
        useradd --user-group --no-create-home --home-dir "$shared/home/$name" \
            --shell /bin/bash "$name"
        install -d -m 0700 -o "$name" -g "$name" "$shared/home/$name"
    fi
}

accounts_take() {
    local name kind
    install -d -m 0755 "$shared" "$shared/home"
    touch "$shared/states" "$shared/made"
    grep -qxF "$state" "$shared/states" || echo "$state" >>"$shared/states"
    while read -r name kind; do
        # Noted first: an account that was made is never forgotten.
        grep -qxF "$name" "$shared/made" || echo "$name" >>"$shared/made"
        account_make "$name" "$kind"
    done < <(accounts_missing)
}

# Whether another state folder that still exists uses the accounts.
accounts_needed() {
    local line
    while read -r line; do
        if [[ $line != "$state" && -f $line/etc/quickstart ]]; then
            return 0
        fi
    done <"$shared/states"
    return 1
}

account_remove() {
    local name=$1
    if getent passwd "$name" >/dev/null; then
        userdel "$name" 2>&1 || return 1
    fi
    if getent group "$name" >/dev/null; then groupdel "$name"; fi
}

accounts_give_back() {
    local name left=
    if [[ ! -f $shared/states ]]; then return 0; fi
    sed -i "\\|^$state\$|d" "$shared/states"
    if accounts_needed; then return 0; fi
    while read -r name; do
        account_remove "$name" || left+=" $name"
    done <"$shared/made"
    [[ -z $left ]] || die "still in use, so not removed:$left"
    rm -rf --one-file-system "$shared"
}
