# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# Numbered steps with their times. What a step prints goes to the log, unless
# it is one whose output is the point. Expects $log.

steps=()
step_number=0

# steps_add TITLE FUNCTION [show]
steps_add() {
    steps+=("$1|$2|${3-}")
}

now_ms() {
    local now=$EPOCHREALTIME
    echo "${now%[.,]*}${now:(-6):3}"
}

# seconds MILLISECONDS: "3.2"
seconds() {
    printf '%d.%d' $(($1 / 1000)) $(($1 % 1000 / 100))
}

# Not called in a condition: that would turn `set -e` off inside the step.
steps_run() {
    local step title function show
    local begun
    begun=$(now_ms)
    for step in "${steps[@]}"; do
        IFS='|' read -r title function show <<<"$step"
        step_number=$((step_number + 1))
        step_run "$title" "$function" "$show"
    done
    total_ms=$(($(now_ms) - begun))
}

# A command of ours that fails is named; programs of ours say why themselves.
step_body() {
    set -eE
    trap 'echo "failed: $BASH_COMMAND (${BASH_SOURCE[0]##*/}:$LINENO)"
        exit 1' ERR
    "$1"
}

step_run() {
    local title=$1 function=$2 show=$3 begun size code=0
    local label="[$step_number/${#steps[@]}] $title"
    begun=$(now_ms)
    size=$(stat -c %s "$log")
    printf '%s\n' "== $label" >>"$log"
    if [[ $show ]]; then
        printf '%s …\n' "$label"
        set +e
        (step_body "$function") 2>&1 | tee -a "$log"
        code=${PIPESTATUS[0]}
        set -e
        label='    done'
    else
        printf '%s … ' "$label"
        set +e
        (step_body "$function") >>"$log" 2>&1
        code=$?
        set -e
        label=
    fi
    begun=$(($(now_ms) - begun))
    if ((code != 0)); then step_failed "$title" "$begun" "$size"; fi
    printf '%s%s s\n' "${label:+$label, }" "$(seconds "$begun")"
}

step_failed() {
    printf 'failed after %s s\n' "$(seconds "$2")"
    {
        printf '%s: step %d (%s) failed:\n' "$program" "$step_number" "$1"
        tail -c "+$(($3 + 1))" "$log" | grep -vE '^( *|== .*)$' |
            tail -n 4 |
            sed 's/^/    /'
        printf 'log: %s\n' "$log"
    } >&2
    exit 1
}
