# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# Folders, configuration, keys and tokens. Expects $state, $mode, $port.
#
# In people mode root owns what decides; in self mode one account owns all.

readonly workflows_groups='[canary, fleet, media]'

# owner: who owns configuration; as_owner: runs a command as that account.
config_accounts() {
    if [[ $mode == self ]]; then
        owner=sluice-alice
        web=sluice-alice spawn=sluice-alice watch=sluice-alice
        people=(alice)
    else
        owner=root
        web=sluice spawn=sluice-spawn watch=sluice-watch
        people=(alice bob operator auditor)
    fi
    group=$(id -gn "$web")
    owner_group=$(id -gn "$owner")
}

as_owner() {
    local prefix
    mapfile -t prefix < <(as_account "$owner")
    "${prefix[@]}" env -C / "$@"
}

make_folders() {
    install -d -m 0755 "$state/inputs" "$state/models"
    install -d -m 0755 -o "$owner" -g "$owner_group" \
        "$state/jobs" "$state/tokens"
    install -d -m 0755 -o "$owner" -g "$group" "$state/store"
    install -d -m 0750 -o "$owner" -g "$group" "$state/etc/keys"
    install -d -m 0700 -o "$web" -g "$group" "$state/db"
    install -d -m 0755 -o "$web" -g "$group" "$state/run/sluiced"
    install -d -m 0700 -o "$spawn" -g "$(id -gn "$spawn")" "$state/spawn"
    install -d -m 0750 -o "$spawn" -g "$group" "$state/run/spawn"
    ln -sfn spawn/watch.pid "$state/run/watch.pid"
    ln -sfn sluiced/local.sock "$state/run/local.sock"
    mark "$state/jobs/.sluice-jobs-root" "$owner" 'Run folders of Sluice.'
    mark "$state/models/.sluice-models" root 'Models: jobs read, never write.'
}

# mark FILE OWNER TEXT: a small file that everybody can read.
mark() {
    if [[ -e $1 ]]; then return 0; fi
    printf '%s\n' "$3" >"$1"
    chown "$2:" "$1"
}

# Four seconds: 100 frames and a tone.
make_sample() {
    local file=$state/inputs/sample.mp4 video=mpeg4
    if [[ -s $file ]]; then return 0; fi
    if [[ $(ffmpeg -hide_banner -encoders 2>/dev/null) == *' libx264 '* ]]; then
        video=libx264
    fi
    ffmpeg -hide_banner -loglevel error -y -nostdin \
        -f lavfi -i testsrc=size=320x180:rate=25:duration=4 \
        -f lavfi -i sine=frequency=440:sample_rate=48000:duration=4 \
        -c:v "$video" -pix_fmt yuv420p -c:a aac -shortest \
        -f mp4 "$file.new" || die 'ffmpeg could not make the sample'
    chmod 0644 "$file.new"
    mv "$file.new" "$file"
}

# --- sluice.yaml --------------------------------------------------------------

config_people() {
    if [[ $mode == self ]]; then
        cat <<END
people:
  alice:
    account: sluice-alice
    slurm_account: research
    roles: [researcher, operator, auditor]
    groups: $workflows_groups
    proof: token
END
        return
    fi
    cat <<END
people:
  alice:
    account: sluice-alice
    slurm_account: research
    roles: [researcher]
    groups: $workflows_groups
    proof: token
  bob:
    account: sluice-bob
    slurm_account: research
    roles: [researcher]
    groups: $workflows_groups
    proof: token
  operator: {roles: [operator], proof: token}
  auditor: {roles: [auditor], proof: token}
END
}

config_text() {
    cat <<END
# Written once by deploy/quickstart; what you change here stays.
# \`people\` takes effect through: sluice-admin --config THIS apply
version: 1
mode: $mode
state_dir: $state
cluster: {name: sluice, slurm_conf: $state/etc/slurm.conf}
accounts: {sluice: $web, spawn: $spawn, watch: $watch, min_uid: 1000}
listen:
  loopback: "127.0.0.1:$port"
  local: $state/run/sluiced/local.sock
paths:
  db: $state/db/sluice.db
  store: $state/store
  spawn_dir: $state/spawn
  run_dir: $state/run
  keys: $state/etc/keys
  libexec: $state/libexec/sluice
  workflows: $state/share/sluice/workflows
  templates: $state/share/sluice/templates
jobs:
  root: $state/jobs
  kind: directory
  marker: .sluice-jobs-root
  inputs: $state/inputs
  models: $state/models
END
    config_people
}

write_config() {
    local file=$state/etc/sluice.yaml
    if [[ ! -e $file ]]; then
        config_text >"$file.new"
    elif ! grep -qF "\"127.0.0.1:$port\"" "$file"; then
        sed -E "s/\"127\\.0\\.0\\.1:[0-9]+\"/\"127.0.0.1:$port\"/" \
            "$file" >"$file.new"
    else
        return 0
    fi
    chown "$owner:$group" "$file.new"
    chmod 0640 "$file.new"
    mv "$file.new" "$file"
}

# The file to be sourced.
write_env() {
    local name
    {
        echo "export SLUICE_URL=http://127.0.0.1:$port"
        for name in "${people[@]}"; do
            echo "export $(token_variable "$name")=$(token_file "$name")"
        done
        echo "export SLUICE_CONFIG=$state/etc/sluice.yaml"
        echo "export SLURM_CONF=$state/etc/slurm.conf"
        # shellcheck disable=SC2016 # expanded by who sources it
        printf 'case ":$PATH:" in *":%s:"*) ;; *) ' "$state/bin"
        # shellcheck disable=SC2016
        printf 'export PATH="%s:$PATH" ;; esac\n' "$state/bin"
    } >"$state/env.new"
    mv "$state/env.new" "$state/env"
}

# --- keys and tokens ----------------------------------------------------------

admin() {
    as_owner "$state/bin/sluice-admin" --config "$state/etc/sluice.yaml" "$@"
}

token_file() {
    echo "$state/tokens/$1"
}

token_variable() {
    if [[ $1 == alice ]]; then
        echo SLUICE_TOKEN_FILE
    else
        echo "SLUICE_${1^^}_TOKEN_FILE"
    fi
}

# The Unix account that may read a person's token.
token_owner() {
    case $1 in
    alice | bob) echo "sluice-$1" ;;
    *) echo "$owner" ;;
    esac
}

token_roles() {
    case $mode/$1 in
    self/*) echo --role researcher --role operator --role auditor ;;
    */operator) echo --role operator ;;
    */auditor) echo --role auditor ;;
    *) echo --role researcher ;;
    esac
}

# Tokens live for 30 days; one that is older than 20 is replaced.
token_issue() {
    local name=$1 file roles
    file=$(token_file "$name")
    if [[ -s $file && ! $(find "$file" -mtime +20) ]]; then return 0; fi
    read -ra roles < <(token_roles "$name")
    rm -f "$file"
    admin token issue --person "$name" "${roles[@]}" --expires 30d \
        --out "$file"
    chown "$(token_owner "$name"):" "$file"
}

issue_all() {
    local name
    for name in "${people[@]}"; do token_issue "$name"; done
}

job_folders() {
    local name
    for name in "${people[@]}"; do
        case $name in
        alice | bob) admin account add "sluice-$name" ;;
        esac
    done
}
