# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# The main job: alice submits through the HTTP API with the client, and what
# Sluice knows about the job is shown.

# client_of PERSON COMMAND…: the client, as that person's Unix account.
client_of() {
    local person=$1 prefix
    shift
    mapfile -t prefix < <(as_account "$(token_owner "$person")")
    "${prefix[@]}" env -C / "SLUICE_URL=http://127.0.0.1:$port" \
        "SLUICE_TOKEN_FILE=$(token_file "$person")" \
        "$state/bin/sluice" "$@"
}

# Who may read the audit.
auditor() {
    if [[ $mode == self ]]; then echo alice; else echo auditor; fi
}

# show_command WORDS…: what is typed, as a person would type it.
show_command() {
    printf '    $ sluice %s\n' "$*"
}

indent() {
    sed 's/^/    /'
}

# Prints the facts of a finished job; fails unless it completed.
show_job() {
    local id=$1 job
    job=$(client_of alice --json status "$id")
    show_command logs "$id"
    client_of alice logs "$id" | tail -n 4 | indent
    show_command audit --job "$id"
    client_of "$(auditor)" audit --job "$id" | indent
    jq -r '"    state        \(.state)",
        "    Slurm job    \(.slurm.job_id) on \(.cluster)",
        (.resources.effective |
            "    effective    \(.nodes) nodes, \(.gpus) GPUs"),
        (.receipts[]? | "    receipt      \(.path // .)"),
        "    GPU-seconds  \(.gpu_seconds)"' <<<"$job"
    [[ $(jq -r .state <<<"$job") == COMPLETE ]] ||
        die "the job ended as $(jq -r '"\(.state): \(.reason.en)"' <<<"$job")"
}

run_job() {
    local id
    show_command submit "$@"
    id=$(client_of alice --json submit "$@" | jq -er .id) ||
        die 'the submit was refused'
    show_command status "$id" --wait
    client_of alice status "$id" --wait | indent || true
    show_job "$id"
}

step_canary() {
    config_accounts
    run_job gpu-canary gpus=2
}

step_acceptance() {
    config_accounts
    run_job fleet-acceptance
}
