# shellcheck shell=bash
# shellcheck disable=SC2154 # shared with the script that sources this
# The workflows and templates that come with Sluice, in a folder where people
# put theirs beside them: an edited file is kept, as dpkg keeps conffiles.
# Expects $state.

# "DIGEST  PATH" of each shipped file as it was installed.
shipped_list() {
    echo "$state/etc/shipped"
}

shipped_digest() {
    sha256sum <"$(shipped_list)"
}

# Right after an install, before edits are put back.
shipped_remember() {
    local list
    list=$(shipped_list)
    (cd "$state/share/sluice" &&
        sed "s|^$state/share/sluice/||" "$repo/build/release/install_manifest.txt" |
        grep -E '^(workflows|templates)/' | sort | xargs sha256sum) >"$list.new"
    mv "$list.new" "$list"
}

# Copies what differs from what was installed to share/edited.
edits_put_aside() {
    local digest path now list
    list=$(shipped_list)
    rm -rf "$state/share/edited"
    [[ -f $list ]] || return 0
    while read -r digest path; do
        [[ -f $state/share/sluice/$path ]] || continue
        now=$(sha256sum <"$state/share/sluice/$path")
        if [[ ${now%% *} != "$digest" ]]; then
            install -D -m 0644 "$state/share/sluice/$path" \
                "$state/share/edited/$path"
        fi
    done <"$list"
}

edits_put_back() {
    local path
    [[ -d $state/share/edited ]] || return 0
    while read -r path; do
        echo "kept as edited: share/sluice/$path"
        install -m 0644 "$state/share/edited/$path" "$state/share/sluice/$path"
    done < <(cd "$state/share/edited" && find . -type f -printf '%P\n')
    rm -rf "$state/share/edited"
}
