#!/bin/bash
# The prelude and the templates, run as jobs in a folder of their own with an
# environment made by hand: no Slurm. srun, scontrol, nvidia-smi and module are
# stand-ins here; ffmpeg and every other program are the real ones.
#
# usage: templates.sh [-k PATTERN]     prints TAP; not 0 when a check failed
#
# Bodies of jobs and payloads are single-quoted: another shell reads them.
# shellcheck disable=SC2016
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
templates=$root/templates
only=
while getopts k: option; do
    case $option in
        k) only=$OPTARG ;;
        *) exit 2 ;;
    esac
done

for tool in ffmpeg ffprobe jq shellcheck setpriv; do
    command -v "$tool" >/dev/null || {
        echo "Bail out! $tool is needed"
        exit 1
    }
done

tmp=$(mktemp -d /tmp/templates-test.XXXXXX)
trap 'rm -rf -- "$tmp"' EXIT
chmod 0755 "$tmp"

# Root may write everywhere, so that "can't be written" would prove nothing.
as_account=()
account_uid=$(id -u)
if [[ $account_uid == 0 ]]; then
    account_uid=$(id -u nobody)
    as_account=(setpriv "--reuid=$account_uid"
        "--regid=$(id -g nobody)" --clear-groups)
fi

# check TEXT COMMAND … : one line of TAP, numbered at the end.
check() {
    local text=$1
    shift
    if "$@"; then
        echo "ok - $text"
    else
        echo "not ok - $text"
        if [[ -n ${job-} && -d $job ]]; then
            sed 's/^/# /' "$job/stderr.log" 2>/dev/null | tail -n 15 || true
            sed 's/^/# /' "$job/results/sluice-error.json" 2>/dev/null || true
        fi
    fi
}

not() { ! "$@"; }

# --- a job without Slurm ------------------------------------------------------

job=
rc=
declare -A job_env

# new_job WORKFLOW: a fresh run folder, and the environment it is promised.
new_job() {
    local entry user home shell ulid=01JZZZZZZZZZZZZZZZZZZZZZZZ
    job=$(mktemp -d "$tmp/job.XXXXXX")
    mkdir "$job/results"
    entry=$(getent passwd "$account_uid")
    IFS=: read -r user _ _ _ _ home shell <<<"$entry"
    job_env=(
        [SLUICE_JOB_ID]=job_$ulid
        [SLUICE_WORKFLOW]=$1
        [SLUICE_RUN_DIR]=$job
        [SLUICE_RESULTS_DIR]=$job/results
        [SLUICE_REQUEUE]=0
        [SLUICE_HAS_SIDECAR]=0
        [SLUICE_SECRETS]=""
        [SLUICE_MODULES]=""
        [SLUICE_LISTS]=""
        [SLUICE_PATHS_SHA256]=""
        [SLUICE_RECEIPTS]=""
        [SLUICE_MODELS_DIR]=$tmp/models
        [SLUICE_INPUTS_DIR]=$tmp/inputs
        [PATH]=/usr/local/bin:/usr/bin:/bin
        [HOME]=$home [USER]=$user [LOGNAME]=$user [SHELL]=$shell
        [LANG]=C.UTF-8 [PYTHONNOUSERSITE]=1
        [SLURM_JOB_ID]=7 [SLURM_JOB_NAME]=$1.${ulid,,}
        [SLURMD_NODENAME]=gpu01
    )
}

# sidecar NAME VALUE … : the secrets file, as it is written at submit.
sidecar() {
    job_env[SLUICE_HAS_SIDECAR]=1
    (umask 077 && : >"$job/secrets.env")
    while (($# >= 2)); do
        printf '%s=%s\n' "$1" "$(printf '%s' "$2" | base64 -w0)" \
            >>"$job/secrets.env"
        shift 2
    done
}

# render BODY-FILE: what Slurm gets.
render() {
    printf '#!/bin/bash\n#SBATCH --job-name=test\n'
    cat "$templates/prelude.sh" "$1"
}

# The command of a job whose script is rendered from the file $1.
prepare_job() {
    local name
    render "$1" >"$job/script.sh"
    [[ -z ${as_account[*]} ]] || chown -R "$account_uid" "$job"
    command=("${as_account[@]}" env -i)
    for name in "${!job_env[@]}"; do
        command+=("$name=${job_env[$name]}")
    done
    command+=(/bin/bash "$job/script.sh")
}

run_job() {
    local -a command
    prepare_job "$1"
    rc=0
    (cd / && umask 077 && exec "${command[@]}") \
        >"$job/stdout.log" 2>"$job/stderr.log" || rc=$?
}

# run_body: the template is the text on stdin.
run_body() {
    cat >"$tmp/body.sh"
    run_job "$tmp/body.sh"
}

error_code() {
    jq -r .code "$job/results/sluice-error.json" 2>/dev/null || echo none
}

error_class() {
    jq -r .error_class "$job/results/sluice-error.json" 2>/dev/null || echo none
}

# failed_with CODE [CLASS]: the job failed, and its error receipt says so in
# two languages, in valid UTF-8.
failed_with() {
    local file=$job/results/sluice-error.json
    [[ $rc != 0 && $(error_code) == "$1" ]] || {
        echo "# rc $rc, code $(error_code), wanted $1"
        return 1
    }
    [[ $(error_class) == "${2-$(error_class)}" ]] || {
        echo "# class $(error_class), wanted $2"
        return 1
    }
    iconv -f UTF-8 -t UTF-8 "$file" >/dev/null &&
        jq -e '(.en | length > 9) and (.zh | length > 3) and
            (keys == ["code","en","error_class","zh"])' "$file" >/dev/null
}

succeeded() {
    [[ $rc == 0 && ! -e $job/results/sluice-error.json ]] || {
        echo "# rc $rc, code $(error_code)"
        return 1
    }
}

# receipt FILE FILTER: the receipt is JSON for which the jq filter is true.
receipt() {
    jq -e "$2" "$job/results/$1" >/dev/null
}

said() {
    grep -qF -- "$1" "$job/stdout.log"
}

# Every payload would leave a file of this name if anything ran it.
nothing_ran() {
    local found
    found=$(find "$tmp" "$PWD" / /tmp "$HOME" -maxdepth 1 -name PWNED 2>/dev/null
        find "$tmp" -name PWNED) || true
    [[ -z $found ]] || {
        echo "# $found"
        return 1
    }
}

# The first twelve are the sharp ones.
payloads=(
    'a[$(touch PWNED)]'
    '$(touch PWNED)'
    '`touch PWNED`'
    "'; touch PWNED; '"
    '"; touch PWNED; "'
    '; touch PWNED #'
    $'x\ntouch PWNED\n'
    'SLUICE_LIST[$(touch PWNED)]'
    '${x:=$(touch PWNED)}'
    '(touch PWNED)'
    '| touch PWNED'
    '-rf'
    '--help'
    '-'
    '*'
    '{1..3}'
    '~'
    $'\\'
    '%s%n%b\x41'
    ' leading and trailing '
    ''
    '!!'
    $'\e[31mred\r'
    '1+1'
    '显卡'
)

# --- the files as they are ----------------------------------------------------

test_lint() {
    local file name
    for file in "$templates"/*.sh; do
        name=${file##*/}
        check "$name passes bash -n" bash -n "$file"
        check "$name passes shellcheck" shellcheck -s bash "$file"
        check "$name has no carriage return" not grep -q $'\r' "$file"
        check "$name ends with a line feed" test -z "$(tail -c 1 "$file")"
        check "$name has no shebang of its own" not grep -q '^#!' "$file"
        [[ $name != prelude.sh ]] || continue
        check "$name sets no trap" not grep -qE '^[^#]*\btrap\b' "$file"
        check "$name has no eval" not grep -qE '^[^#]*\beval\b' "$file"
        render "$file" >"$tmp/rendered.sh"
        check "$name behind the prelude passes bash -n" bash -n "$tmp/rendered.sh"
        check "$name behind the prelude passes shellcheck" \
            shellcheck -s bash "$tmp/rendered.sh"
    done
}

# --- the prelude --------------------------------------------------------------

test_prelude_start() {
    new_job t
    run_body <<<'echo "body in $PWD"'
    check "an empty job runs in its run folder" succeeded
    check "and its body ran there" said "body in $job"

    new_job t
    unset 'job_env[SLUICE_RUN_DIR]'
    run_body <<<'echo body'
    check "no environment of Sluice's: no work" test "$rc" = 70
    check "and the body did not run" not said body

    new_job t
    rmdir "$job/results"
    run_body <<<'echo body'
    check "no results folder: no work" test "$rc" = 70
    check "and the folder was not made" not test -e "$job/results"

    new_job t
    run_body <<<'false; echo after'
    check "a failing command ends the job with its status" test "$rc" = 1
    new_job t
    run_body <<<'exit 9'
    check "the body's status is the job's" test "$rc" = 9
    new_job t
    run_body <<<'x=$(false; echo y); echo "after $x"'
    check "a failing command inside a substitution too" test "$rc" = 1
}

test_prelude_logs() {
    local count
    new_job t
    job_env[SLURM_RESTART_COUNT]=2
    run_body <<<'echo out; echo err >&2'
    check "attempt 2 writes stdout.2.log" grep -qx out "$job/stdout.2.log"
    check "attempt 2 writes stderr.2.log" grep -qx err "$job/stderr.2.log"
    check "its logs are private" test "$(stat -c %a "$job/stdout.2.log")" = 600
    check "attempt 2 leaves stdout.log alone" test ! -s "$job/stdout.log"
    for count in 0 '' "${payloads[@]}"; do
        new_job t
        job_env[SLURM_RESTART_COUNT]=$count
        run_body <<<'echo out'
        [[ $(cat "$job/stdout.log") == out &&
            $(find "$job" -name 'std*.log' | wc -l) == 2 ]] ||
            check "SLURM_RESTART_COUNT='$count' is attempt 0" false
    done
    check "SLURM_RESTART_COUNT is never evaluated" nothing_ran
}

test_prelude_values() {
    local i value
    new_job t
    job_env[SLUICE_LISTS]="other x"
    job_env[SLUICE_P_x_COUNT]=${#payloads[@]}
    for i in "${!payloads[@]}"; do
        job_env[SLUICE_P_x_$i]=${payloads[i]}
    done
    run_body <<<'sluice_list x; printf "%s\0" "${SLUICE_LIST[@]}" >results/list'
    check "a list of payloads is read" succeeded
    printf '%s\0' "${payloads[@]}" >"$tmp/wanted"
    check "every element arrives byte for byte" \
        cmp -s "$tmp/wanted" "$job/results/list"
    check "no element was run" nothing_ran

    new_job t
    job_env[SLUICE_LISTS]=x
    job_env[SLUICE_P_x_COUNT]=0
    run_body <<<'sluice_list x; echo "n=${#SLUICE_LIST[@]}"'
    check "an empty list has no element" said "n=0"

    new_job t
    job_env[SLUICE_LISTS]=x
    job_env[SLUICE_P_x_COUNT]=2
    job_env[SLUICE_P_x_0]=a
    run_body <<<'sluice_list x'
    check "a missing element ends the job" failed_with environment_broken infra

    for value in "${payloads[@]}" 01 99999999; do
        new_job t
        job_env[SLUICE_LISTS]=x
        job_env[SLUICE_P_x_COUNT]=$value
        job_env[SLUICE_P_x_0]=a
        run_body <<<'sluice_list x'
        failed_with environment_broken || {
            check "SLUICE_P_x_COUNT='$value' is refused" false
        }
        new_job t
        job_env[value]=$value
        job_env[SLUICE_LISTS]="x $value"
        run_body <<<'sluice_list "$value"'
        failed_with template_error || {
            check "sluice_list '$value' is refused" false
        }
    done
    check "names and counts are never evaluated" nothing_ran
}

test_prelude_receipts() {
    local pattern
    new_job t
    job_env[SLUICE_RECEIPTS]=$'done.json\nseg-{0..2}/done.json\nlog/*.txt'
    run_body <<<'for i in 0 1 2; do echo "{}" | sluice_receipt "seg-$i/done.json"; done
        echo x | sluice_receipt log/a.txt; echo "{}" | sluice_receipt done.json'
    check "all receipts are there" succeeded
    check "sluice_receipt leaves no other file" \
        test "$(find "$job/results" -type f | wc -l)" = 5
    check "a receipt is private" \
        test "$(stat -c %a "$job/results/done.json")" = 600

    new_job t
    job_env[SLUICE_RECEIPTS]='seg-{0..2}/done.json'
    run_body <<<'for i in 0 2; do echo "{}" | sluice_receipt "seg-$i/done.json"; done'
    check "one of three is missing" failed_with receipt_missing receipt
    check "the sentence names it" \
        receipt sluice-error.json '.en | test("seg-1/done.json$")'

    new_job t
    job_env[SLUICE_RECEIPTS]='s{08..10}-{0..1}'
    run_body <<<'for i in 08 09 10; do for j in 0 1; do echo | sluice_receipt "s$i-$j"; done; done'
    check "two braces, padded" succeeded
    new_job t
    job_env[SLUICE_RECEIPTS]='s{3..1}'
    run_body <<<'echo | sluice_receipt s1'
    check "a range downwards promises nothing that could be there" \
        failed_with receipt_missing

    new_job t
    job_env[SLUICE_RECEIPTS]='a/*.json'
    run_body <<<'mkdir results/a results/a/x.json; : >results/a/.y.json; : >results/a/z.txt'
    check "* takes no folder, no hidden file, no other name" \
        failed_with receipt_missing

    for pattern in 'ln -s /etc/passwd results/r' 'ln script.sh results/r' \
        'mkdir results/r' 'mkfifo results/r' 'ln -s nothing results/r'; do
        new_job t
        job_env[SLUICE_RECEIPTS]=r
        run_body <<<"$pattern"
        check "no receipt: $pattern" failed_with receipt_missing receipt
    done
    new_job t
    job_env[SLUICE_RECEIPTS]=d/r
    run_body <<<'mkdir e; : >e/r; ln -s ../e results/d'
    check "a symlink on the way is no receipt" failed_with receipt_missing

    for pattern in "${payloads[@]:0:12}" ../script.sh /etc/passwd 'a/../../script.sh' \
        '{0..$(touch PWNED)}' '{a[$(touch PWNED)]..3}' '*/script.sh'; do
        [[ -n ${pattern//[$' \n']/} ]] || continue
        new_job t
        job_env[SLUICE_RECEIPTS]=$pattern
        run_body <<<true
        failed_with receipt_missing receipt || {
            check "the pattern '$pattern' finds nothing" false
        }
    done
    check "patterns are never evaluated" nothing_ran

    new_job t
    job_env[SLUICE_RECEIPTS]=r
    run_body <<<'exit 3'
    check "a failed body keeps its status, receipts or not" test "$rc" = 3
    check "and gets no receipt_missing" test "$(error_code)" = none

    for pattern in ../r /tmp/r a/../../r . .. '' a/; do
        new_job t
        job_env[where]=$pattern
        run_body <<<'echo x | sluice_receipt "$where"'
        check "sluice_receipt refuses '$pattern'" test "$rc" = 1
    done
    new_job t
    run_body <<<'(ulimit -f 0; trap "" XFSZ; echo x | sluice_receipt r) || true; ls -A results'
    check "a receipt that can't be written is not there, nor its draft" \
        test ! -s "$job/stdout.log"
}

test_prelude_fail() {
    local text
    new_job t
    run_body <<<'sluice_fail no_luck "It did not work." "没有成功。" upstream; echo after'
    check "sluice_fail ends the job" failed_with no_luck upstream
    check "with status 70" test "$rc" = 70
    check "and nothing after it runs" not said after
    check "the sentence is on stderr too" \
        grep -q 'no_luck: It did not work. / 没有成功。' "$job/stderr.log"

    new_job t
    run_body <<<'(sluice_fail inner "The first sentence" "第一句话") || true; exit 0'
    check "a sentence in a subshell fails the job all the same" failed_with inner
    new_job t
    run_body <<<'(sluice_fail first "The first sentence" "第一句话") || true
        sluice_fail second "The second sentence" "第二句话"'
    check "the first sentence is kept" failed_with first

    for text in "${payloads[@]}" $'bad \xff\xfe \xc3' $'\xed\xa0\x80\xf4\x90\x80\x80' \
        $'tab\tand\x01\x7f' $'\xe6\x98\xbe\xe6'; do
        new_job t
        job_env[text]=$text
        run_body <<<'sluice_fail odd "sentence with $text" "句子里有 $text" infra'
        failed_with odd infra || check "a sentence with '$text'" false
    done
    check "sentences of any bytes are valid JSON, and not run" nothing_ran
    new_job t
    job_env[text]=$'"\\\n\t\u663e\x01'
    run_body <<<'sluice_fail odd "$text: a sentence" "句子里有"'
    check "a sentence is exact" receipt sluice-error.json \
        '.en == "\"\\\n\t\u663e\u0001: a sentence"'
    new_job t
    run_body <<<'printf -v text "%05000d" 0; sluice_fail long "$text" "很长的句子"'
    check "a sentence has an end" receipt sluice-error.json '.en | length == 2000'
    new_job t
    run_body <<<'sluice_fail "Not a code" "A good sentence" "一个好句子" fun'
    check "codes and classes are of the known form" \
        failed_with template_error program
    new_job t
    mkdir -p "$job/results"
    echo '{"code":"old"}' >"$job/results/sluice-error.json"
    run_body <<<true
    check "an earlier attempt's error receipt is gone" succeeded
}

test_prelude_secrets() {
    local value i=0
    for value in "${payloads[@]}" $'line\nline\n\n' 'tail\n' \
        "$(head -c 6000 /dev/zero | tr '\0' s)"; do
        new_job t
        job_env[SLUICE_SECRETS]='OTHER TOKEN'
        sidecar OTHER "other" TOKEN "$value" TOKEN2 x
        printf '%s' "$value" >"$tmp/wanted"
        run_body <<<'show() { printf "%s" "$TOKEN" >results/value; }
            with_secret TOKEN show'
        if ! cmp -s "$tmp/wanted" "$job/results/value" || ! succeeded; then
            check "the secret '${value:0:20}' arrives byte for byte" false
        fi
        i=$((i + 1))
    done
    check "$i secrets arrive byte for byte" true
    check "no secret was run" nothing_ran

    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    sidecar TOKEN 'hunter2hunter2'
    run_body <<<'set -x
        with_secret TOKEN env >results/with
        with_secret TOKEN bash -c '\''tr "\0" "\n" </proc/$PPID/cmdline; cat /proc/$$/cmdline'\'' >results/argv
        has_secret TOKEN && echo has
        set +x
        env >results/without; set >results/shell; declare -p >>results/shell
        with_secret TOKEN sh -c "ulimit -c" >results/core'
    check "with_secret runs" succeeded
    check "has_secret sees it" said has
    check "the command has it" grep -qx TOKEN=hunter2hunter2 "$job/results/with"
    check "another command does not" not grep -q hunter2 "$job/results/without"
    check "nor does the shell's own memory of variables" \
        not grep -q hunter2 "$job/results/shell"
    check "it is in no argv" not grep -aq hunter2 "$job/results/argv"
    check "set -x does not print it" not grep -q hunter2 "$job/stderr.log"
    check "nor its coded form" not grep -qF \
        "$(printf hunter2hunter2 | base64)" "$job/stderr.log"
    check "its command leaves no core" grep -qx 0 "$job/results/core"
    check "requeue: false removes the sidecar" test ! -e "$job/secrets.env"

    new_job t
    job_env[SLUICE_SECRETS]='A B'
    sidecar A aa B bb
    run_body <<<'show() { echo "$A$B"; }; with_secret A with_secret B show'
    check "two secrets for one command" said aabb

    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    sidecar TOKEN x OTHER y
    run_body <<<'with_secret OTHER env'
    check "a name that is not declared is refused" failed_with secret_undeclared
    new_job t
    job_env[SLUICE_SECRETS]='TOKEN OTHER'
    sidecar OTHER y
    run_body <<<'has_secret TOKEN || echo absent; with_secret TOKEN env'
    check "has_secret is false for one that was not given" said absent
    check "with_secret then ends the job" failed_with secret_missing
    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    run_body <<<'has_secret TOKEN || echo absent'
    check "no secrets file at all, and none was written: absent" said absent
    check "and no failure" succeeded
    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    sidecar
    printf 'TOKEN=$(touch PWNED)\ntouch PWNED\n' >"$job/secrets.env"
    run_body <<<'with_secret TOKEN env'
    check "a sidecar is never sourced" failed_with secret_missing
    for value in "${payloads[@]}"; do
        new_job t
        job_env[SLUICE_SECRETS]="TOKEN $value"
        job_env[name]=$value
        sidecar TOKEN x
        run_body <<<'with_secret "$name" env'
        failed_with secret_undeclared ||
            check "with_secret '$value' is refused" false
    done
    check "names of secrets are never evaluated" nothing_ran
    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    sidecar TOKEN x
    run_body <<<'with_secret TOKEN sh -c "exit 4"'
    check "the command's status is with_secret's" test "$rc" = 4

    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    job_env[SLUICE_HAS_SIDECAR]=1
    run_body <<<'echo body'
    check "a sidecar that is gone ends the job" failed_with sidecar_gone infra
    check "before any work" not said body
    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    job_env[SLUICE_HAS_SIDECAR]=1
    ln -s /etc/hostname "$job/secrets.env"
    run_body <<<'echo body'
    check "a symlink is no sidecar" failed_with sidecar_gone infra

    new_job t
    job_env[SLUICE_SECRETS]='TOKEN'
    job_env[SLUICE_REQUEUE]=1
    sidecar TOKEN x
    run_body <<<'exit 5'
    check "requeue: true keeps the sidecar" test -e "$job/secrets.env"
    new_job t
    sidecar TOKEN x
    run_body <<<'sluice_fail stop "A sentence here" "一个句子"'
    check "requeue: false removes it from a failed job too" \
        test ! -e "$job/secrets.env"
}

# Sends TERM to a running job, to its group as Slurm does.
test_prelude_signals() {
    local requeue pid tries
    local -a command
    for requeue in 0 1; do
        new_job t
        job_env[SLUICE_REQUEUE]=$requeue
        job_env[SLUICE_RECEIPTS]=never
        sidecar TOKEN x
        cat >"$tmp/body.sh" <<'END'
bye() { echo bye >bye; }
last() { false; }
sluice_on_exit bye
sluice_on_exit last
echo started
sleep 60
echo after
END
        prepare_job "$tmp/body.sh"
        cd /
        setsid "${command[@]}" >"$job/stdout.log" 2>"$job/stderr.log" &
        pid=$!
        for ((tries = 0; tries < 100; tries++)); do
            ! said started || break
            sleep 0.1
        done
        kill -TERM -- "-$pid"
        rc=0
        wait "$pid" || rc=$?
        cd - >/dev/null
        check "TERM ends the job with 143 (requeue $requeue)" test "$rc" = 143
        check "its exit functions ran (requeue $requeue)" test -s "$job/bye"
        check "one that fails is told (requeue $requeue)" \
            grep -q 'exit function last failed' "$job/stderr.log"
        check "its sidecar is removed only without requeue (requeue $requeue)" \
            test "$requeue" = "$(find "$job" -name secrets.env | wc -l)"
        check "it is not told to lack receipts (requeue $requeue)" \
            test "$(error_code)" = none
    done
}

test_prelude_inputs() {
    local value hash file
    hash=$(printf data | sha256sum)
    hash=${hash%% *}
    new_job t
    file=$job/'in $(touch PWNED) -x'
    printf data >"$file"
    job_env[SLUICE_PATHS_SHA256]='one many'
    job_env[SLUICE_LISTS]=many
    job_env[SLUICE_P_one]=$file
    job_env[SLUICE_P_one_SHA256]=$hash
    job_env[SLUICE_P_many_COUNT]=2
    job_env[SLUICE_P_many_0]=$file
    job_env[SLUICE_P_many_0_SHA256]=$hash
    job_env[SLUICE_P_many_1]=$file
    job_env[SLUICE_P_many_1_SHA256]=$hash
    run_body <<<'echo body'
    check "inputs with the right hash pass" succeeded
    job_env[SLUICE_P_many_1_SHA256]=${hash/[0-9a-f]/0}
    [[ ${hash:0:1} != 0 ]] || job_env[SLUICE_P_many_1_SHA256]=1${hash:1}
    run_body <<<'echo body'
    check "one element with another hash ends the job" failed_with input_changed
    check "before any work" not said body
    unset 'job_env[SLUICE_P_many_1_SHA256]'
    run_body <<<'echo body'
    check "a hash that is missing ends the job" failed_with environment_broken
    job_env[SLUICE_P_many_1_SHA256]=$hash
    job_env[SLUICE_P_one]=$job/absent
    run_body <<<'echo body'
    check "a file that is missing ends the job" failed_with input_unreadable
    for value in "${payloads[@]:0:12}"; do
        new_job t
        job_env[SLUICE_PATHS_SHA256]=one
        job_env[SLUICE_P_one]=$value
        job_env[SLUICE_P_one_SHA256]=$value
        run_body <<<'echo body'
        failed_with environment_broken ||
            check "the hash '$value' is refused" false
        [[ -n ${value//[$' \n']/} ]] || continue
        job_env[SLUICE_PATHS_SHA256]=$value
        run_body <<<'echo body'
        [[ $rc == 70 ]] || check "the name '$value' is refused" false
    done
    check "paths, hashes and their names are never evaluated" nothing_ran
}

test_prelude_modules() {
    local value
    if [[ ! -e /etc/profile.d/modules.sh && ! -e /etc/profile.d/lmod.sh ]]; then
        new_job t
        job_env[SLUICE_MODULES]=cuda
        run_body <<<'echo body'
        check "no module command: a sentence" failed_with modules_absent infra
        check "before any work" not said body
    fi
    # A stand-in for the module command of a site.
    local standin='() { [ "$2" != broken ] && export LOADED="${LOADED-} $2"; }'
    new_job t
    job_env["BASH_FUNC_module%%"]=$standin
    job_env[SLUICE_MODULES]='cuda/12.9 gcc'
    run_body <<<'echo "loaded$LOADED"'
    check "modules are loaded in their order" said 'loaded cuda/12.9 gcc'
    job_env[SLUICE_MODULES]='cuda/12.9 broken gcc'
    run_body <<<'echo body'
    check "one that fails ends the job" failed_with module_failed infra
    check "the sentence names it" receipt sluice-error.json '.en | test("broken")'
    for value in "${payloads[@]}"; do
        [[ -n ${value//[$' \n']/} && $value != *[[:alnum:]]* ]] || continue
        new_job t
        job_env["BASH_FUNC_module%%"]=$standin
        job_env[SLUICE_MODULES]=$value
        run_body <<<'echo body'
        failed_with module_failed || check "the module '$value' is refused" false
    done
    check "names of modules are never evaluated" nothing_ran
}

# --- gpu-canary ---------------------------------------------------------------

new_canary() {
    new_job gpu-canary
    job_env[SLUICE_SECRETS]=CANARY_TOKEN
    job_env[SLUICE_RECEIPTS]=canary.json
    job_env[SLUICE_P_gpus]=${1-1}
    job_env[SLUICE_P_hold_seconds]=0
    job_env[SLURM_GPUS_ON_NODE]=${1-1}
    job_env[CUDA_VISIBLE_DEVICES]=${2-0}
}

run_canary() {
    run_job "$templates/gpu-canary.sh"
}

test_canary() {
    local value name
    mkdir -p "$tmp/models"
    echo models >"$tmp/models/.sluice-models"
    chmod 0555 "$tmp/models"

    new_canary
    run_canary
    check "one card" succeeded
    check "the receipt says so" receipt canary.json \
        '.gpus == 1 and .devices == ["0"] and .secret == "absent"
            and .secret_bytes == null and .attempt == 0 and .node == "gpu01"
            and .models == "read_only" and .driver_devices == null'
    check "no probe is left" test -z "$(find "$job" "$tmp/models" -name '.probe*')"
    new_canary 8 0,1,2,3,4,5,6,7
    run_canary
    check "eight cards are eight fields, not seven commas" \
        receipt canary.json '.gpus == 8 and (.devices | length) == 8'
    new_canary 2 GPU-aa11,GPU-bb22
    run_canary
    check "cards may be UUIDs" receipt canary.json '.devices[1] == "GPU-bb22"'

    new_canary
    sidecar CANARY_TOKEN 'sesame sesame'
    run_canary
    check "a secret arrives" receipt canary.json \
        '.secret == "present" and .secret_bytes == 13'
    check "and is told nowhere" not grep -rq sesame "$job"
    new_canary
    sidecar CANARY_TOKEN x
    chmod 0644 "$job/secrets.env"
    run_canary
    check "a sidecar that others could read" failed_with sidecar_not_private infra
    new_canary
    sidecar CANARY_TOKEN ''
    run_canary
    check "an empty secret" failed_with secret_empty
    check "its receipt is not there" test ! -e "$job/results/canary.json"

    for value in 0,1,2,3,4,5,6 0,1,2,3,4,5,6,7,8; do
        new_canary 8 "$value"
        run_canary
        check "wrong number of cards: $value" failed_with gpus_wrong_number infra
        check "its receipt is not there" test ! -e "$job/results/canary.json"
    done
    new_canary 2 0,0
    run_canary
    check "a card listed twice" failed_with gpus_repeated
    for value in '' ',' '0,' ',0' '0,,1' NoDev; do
        new_canary 2 "$value"
        run_canary
        check "CUDA_VISIBLE_DEVICES='$value' is not two cards" test "$rc" = 70
    done
    new_canary 2 0,1
    job_env[SLURM_GPUS_ON_NODE]=1
    run_canary
    check "Slurm's own count differs" failed_with gpus_wrong_number

    for name in BASH_ENV LD_PRELOAD LD_LIBRARY_PATH PYTHONPATH SLURM_JWT \
        CANARY_TOKEN; do
        new_canary
        job_env[$name]=/nonexistent
        run_canary
        check "$name in the environment" failed_with environment_wrong infra
    done
    new_canary
    job_env["BASH_FUNC_stat%%"]='() { echo 700 0; }'
    run_canary
    check "a function in the environment" failed_with environment_wrong
    for name in HOME USER LOGNAME SLURM_JOB_NAME PYTHONNOUSERSITE; do
        new_canary
        job_env[$name]=/another
        run_canary
        check "another $name" failed_with environment_wrong
    done
    for name in HOME USER LANG SLURM_JOB_ID; do
        new_canary
        unset 'job_env[$name]'
        run_canary
        check "no $name" failed_with environment_wrong
    done

    new_canary
    chmod 0755 "$job"
    run_canary
    check "a run folder that others can enter" failed_with folder_not_private infra

    new_canary
    rm -f "$tmp/models/.sluice-models"
    run_canary
    check "no marker in the model folder" failed_with models_unreadable infra
    echo models >"$tmp/models/.sluice-models"
    chmod 0777 "$tmp/models"
    new_canary
    run_canary
    check "a model folder that can be written" failed_with models_writable infra
    check "and nothing is left in it" test "$(find "$tmp/models" -type f | wc -l)" = 1
    chmod 0555 "$tmp/models"
    new_canary
    job_env[SLUICE_MODELS_DIR]=$tmp/no-models
    run_canary
    check "no model folder" failed_with models_absent infra

    # A stand-in for the driver's tool: three cards, and a note on stderr.
    mkdir -p "$tmp/driver"
    cat >"$tmp/driver/nvidia-smi" <<'END'
#!/bin/sh
echo 'note about one card' >&2
echo GPU-1; echo GPU-2; echo GPU-3
END
    chmod 0755 "$tmp/driver/nvidia-smi"
    new_canary 3 0,1,2
    job_env[PATH]=$tmp/driver:${job_env[PATH]}
    run_canary
    check "the driver agrees" receipt canary.json '.driver_devices == 3'
    new_canary 2 0,1
    job_env[PATH]=$tmp/driver:${job_env[PATH]}
    run_canary
    check "the driver shows another number" failed_with driver_wrong_number infra

    new_canary
    job_env[SLUICE_P_hold_seconds]=1
    SECONDS=0
    run_canary
    check "it holds as long as it was told" test "$SECONDS" -ge 1
    check "the receipt says so" receipt canary.json '.held_seconds == 1'

    for value in "${payloads[@]:0:12}"; do
        new_canary
        job_env[SLUICE_P_gpus]=$value
        run_canary
        [[ $rc != 0 ]] || check "gpus='$value' is refused" false
        new_canary
        job_env[SLUICE_P_hold_seconds]=$value
        run_canary
        [[ $rc != 0 ]] || check "hold_seconds='$value' is refused" false
        new_canary
        job_env[CUDA_VISIBLE_DEVICES]=$value
        run_canary
        # One odd word is a card's name as far as bash can tell.
        [[ $rc != 0 || $value =~ ^[A-Za-z0-9_:/-]+$ ]] ||
            check "CUDA_VISIBLE_DEVICES='$value' is refused" false
        # All of them at once in what is only ever compared.
        new_canary
        for name in SLURM_GPUS_ON_NODE SLURM_JOB_NAME SLUICE_MODELS_DIR USER \
            SLURMD_NODENAME; do
            job_env[$name]=$value
        done
        run_canary
        [[ $rc != 0 ]] || check "an environment of '$value' is refused" false
    done
    check "gpu-canary evaluates no value" nothing_ran
    rm -rf "$tmp/models"
}

# --- fleet-acceptance ---------------------------------------------------------

# Stand-ins for srun and scontrol on one machine: `spoil` is a sed script that
# is applied to the lines "task node cards", one for each task to run.
make_fleet() {
    mkdir -p "$tmp/fleet"
    cat >"$tmp/fleet/scontrol" <<'END'
#!/bin/bash
for ((i = 1; i <= SLURM_JOB_NUM_NODES; i++)); do printf 'gpu%02d\n' "$i"; done
END
    cat >"$tmp/fleet/srun" <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
cards=$(seq -s, 0 $((STANDIN_CARDS - 1)))
for ((i = 0; i < SLURM_JOB_NUM_NODES; i++)); do
    printf '%d gpu%02d %s\n' "$i" $((i + 1)) "$cards"
done | sed -E "${STANDIN_SPOIL-}" | while read -r task node cards; do
    SLURM_PROCID=$task SLURMD_NODENAME=$node CUDA_VISIBLE_DEVICES=$cards "$@"
done
exit "${STANDIN_STATUS-0}"
END
    chmod 0755 "$tmp/fleet/srun" "$tmp/fleet/scontrol"
}

# new_fleet NODES CARDS [SPOIL]
new_fleet() {
    new_job fleet-acceptance
    job_env[SLUICE_RECEIPTS]=acceptance.json
    job_env[SLUICE_P_nodes]=$1
    job_env[SLUICE_P_gpus_per_node]=$2
    job_env[SLURM_JOB_NUM_NODES]=$1
    job_env[SLURM_JOB_NODELIST]="gpu[01-14]"
    job_env[STANDIN_CARDS]=$2
    job_env[STANDIN_SPOIL]=${3-}
    job_env[PATH]=$tmp/fleet:/usr/bin:/bin
}

run_fleet() {
    run_job "$templates/fleet-acceptance.sh"
}

spoiled() {
    local text=$1 code=$2 word=$3
    shift 3
    new_fleet "$@"
    run_fleet
    check "$text" failed_with "$code" receipt
    check "a person understands: $(jq -r .en "$job/results/sluice-error.json")" \
        receipt sluice-error.json "(.en | test(\"$word\")) and (.zh | test(\"$word\"))"
    check "no receipt" test ! -e "$job/results/acceptance.json"
}

test_fleet() {
    local value
    make_fleet
    new_fleet 14 8
    run_fleet
    check "fourteen nodes with eight cards (srun is a stand-in)" succeeded
    check "112 cards" receipt acceptance.json \
        '.nodes == 14 and .gpus == 112 and .gpus_per_node == 8 and
            (.tasks | length) == 14 and
            ([.tasks[].devices | length] | unique) == [8] and
            ([.tasks[].node] | unique | length) == 14'
    check "one line for each task" \
        test "$(grep -c '^report' "$job/results/reports.txt")" = 14
    new_fleet 1 1
    run_fleet
    check "one node, one card" receipt acceptance.json '.gpus == 1'

    spoiled "one node too few" fleet_nodes_wrong gpu03 14 8 '/ gpu03 /d'
    spoiled "no node at all" fleet_nodes_wrong gpu01 2 1 d
    spoiled "one card too few" fleet_cards_wrong gpu05 14 8 '/ gpu05 /s/,7$//'
    spoiled "one card too many" fleet_cards_wrong gpu05 14 8 '/ gpu05 /s/$/,8/'
    spoiled "one node without cards" fleet_cards_wrong gpu02 3 1 '/ gpu02 /s/ 0$//'
    spoiled "one node twice" fleet_node_twice gpu01 14 8 's/ gpu02 / gpu01 /'
    spoiled "one task twice" fleet_task_twice gpu02 14 8 's/^1 /0 /'
    spoiled "one card twice" fleet_card_twice gpu04/6 14 8 '/ gpu04 /s/7$/6/'
    spoiled "a UUID on two nodes" fleet_card_twice GPU-a 2 1 's/0$/GPU-a/'
    spoiled "a foreign node" fleet_node_foreign gpu99 2 1 's/ gpu02 / gpu99 /'
    spoiled "a report that can't be read" fleet_report_broken '' 2 1 \
        's/ gpu02 / gpu;02 /'

    new_fleet 2 1
    job_env[STANDIN_STATUS]=3
    run_fleet
    check "a step that failed" failed_with fleet_step_failed receipt
    new_fleet 2 1
    job_env[SLURM_JOB_NUM_NODES]=3
    run_fleet
    check "Slurm gave another number of nodes" failed_with fleet_nodes_wrong receipt
    new_fleet 2 1 '/ gpu02 /d'
    unset 'job_env[SLURM_JOB_NODELIST]'
    run_fleet
    check "a node too few is seen without the names too" \
        failed_with fleet_nodes_wrong receipt
    new_fleet 2 3
    job_env[PATH]=$tmp/driver:${job_env[PATH]}
    mkdir -p "$tmp/driver"
    printf '#!/bin/sh\necho note >&2\nfor i in 1 2 3; do echo GPU-$SLURM_PROCID-$i; done\n' \
        >"$tmp/driver/nvidia-smi"
    chmod 0755 "$tmp/driver/nvidia-smi"
    run_fleet
    check "the driver's UUIDs are all different (a stand-in)" succeeded
    printf '#!/bin/sh\nfor i in 1 2 3; do echo GPU-$i; done\n' \
        >"$tmp/driver/nvidia-smi"
    run_fleet
    check "the driver's UUIDs repeat" failed_with fleet_card_twice receipt
    printf '#!/bin/sh\nexit 1\n' >"$tmp/driver/nvidia-smi"
    run_fleet
    check "a driver that does not answer" failed_with fleet_driver_wrong receipt

    for value in "${payloads[@]:0:12}"; do
        new_fleet 2 1
        job_env[SLUICE_P_nodes]=$value
        run_fleet
        [[ $rc != 0 ]] || check "nodes='$value' is refused" false
        new_fleet 2 1
        job_env[SLUICE_P_gpus_per_node]=$value
        run_fleet
        [[ $rc != 0 ]] || check "gpus_per_node='$value' is refused" false
    done
    check "fleet-acceptance evaluates no parameter" nothing_ran
}

# The counting alone, on reports that no shell has made.
test_fleet_count() {
    local value
    sed '/^acceptance_main$/d' "$templates/fleet-acceptance.sh" >"$tmp/count.sh"
    cat >>"$tmp/count.sh" <<'END'
acceptance_count "$SLUICE_RUN_DIR/in" "$SLUICE_P_nodes" "$SLUICE_P_gpus_per_node" ||
    sluice_fail "$acceptance_code" "$acceptance_en" "$acceptance_zh" receipt
END
    new_fleet 2 2
    job_env[SLUICE_RECEIPTS]=
    printf 'noise\nreport\t1\tgpu02\t0,1\t-\t/slurm/job_7/step_0\nreport\t0\tgpu01\t2,3\t-\t-' \
        >"$job/in"
    run_job "$tmp/count.sh"
    check "noise and a missing last line feed are no matter" succeeded
    for value in "${payloads[@]}"; do
        new_fleet 2 1
        printf 'report\t0\t%s\t0\t-\t-\nreport\t1\tgpu02\t%s\t-\t-\nreport\t%s\tgpu03\t0\t%s\t%s\n' \
            "$value" "$value" "$value" "$value" "$value" >"$job/in"
        run_job "$tmp/count.sh"
        [[ $rc == 70 ]] || check "a report of '$value' is refused" false
        new_fleet 1 1
        printf 'report\t0\tgpu01\t%s\t%s\t-\n' 0 "$value" >"$job/in"
        run_job "$tmp/count.sh"
        [[ $rc == 70 || $value == - ]] || check "UUIDs of '$value' are refused" false
    done
    check "what a node reports is never evaluated" nothing_ran
}

# --- media-probe --------------------------------------------------------------

run_media() {
    new_job media-probe
    job_env[SLUICE_RECEIPTS]=probe.json
    job_env[SLUICE_P_input]=$1
    run_job "$templates/media-probe.sh"
}

test_media() {
    local inputs=$tmp/inputs size name value words
    mkdir -p "$inputs"
    ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=160x120:rate=30000/1001 \
        -f lavfi -i sine=frequency=440:sample_rate=48000 -t 2 -c:v libx264 \
        -pix_fmt yuv420p -c:a pcm_s16le "$inputs/sample.mkv"
    ffmpeg -nostdin -v error -i "$inputs/sample.mkv" -frames:v 48 -c:v libx264 \
        -pix_fmt yuv420p -c:a aac "$inputs/sample.mp4"
    ffmpeg -nostdin -v error -i "$inputs/sample.mp4" -c copy \
        -movflags faststart "$inputs/fast.mp4"
    ffmpeg -nostdin -v error -i "$inputs/sample.mkv" -vn -c:a flac "$inputs/a.flac"
    ffmpeg -nostdin -v error -i "$inputs/sample.mkv" -an -c:v copy "$inputs/v.mp4"

    run_media "$inputs/sample.mkv"
    check "a good file passes" succeeded
    check "frames, rate and samples are exact" receipt probe.json \
        '.frames == 60 and .frame_rate == "30000/1001" and
            .audio_samples == 96000 and .audio.sample_rate == 48000 and
            .video.width == 160 and .video.codec == "h264"'
    check "its hash and size are the file's" receipt probe.json \
        ".sha256 == \"$(sha256sum "$inputs/sample.mkv" | cut -d' ' -f1)\" and
            .bytes == $(stat -c %s "$inputs/sample.mkv")"
    check "its duration is a text and an integer" receipt probe.json \
        '.duration == "2.002000" and .duration_us == 2002000'
    run_media "$inputs/sample.mp4"
    check "an mp4 passes" receipt probe.json '.frames == 48 and .audio.codec == "aac"'
    run_media "$inputs/a.flac"
    check "audio alone" receipt probe.json \
        '.frames == null and .video == null and .audio_samples == 96000'
    run_media "$inputs/v.mp4"
    check "video alone" receipt probe.json \
        '.frames == 60 and .audio == null and .audio_samples == null'

    # The index of an MP4 stands at its end: cut in every part of it.
    size=$(stat -c %s "$inputs/sample.mp4")
    for value in 1 7 8 9 100 500 1000 1500 2000; do
        head -c "$((size - value))" "$inputs/sample.mp4" >"$inputs/short.mp4"
        run_media "$inputs/short.mp4"
        failed_with media_truncated ||
            check "$value bytes too short is seen" false
    done
    cp "$inputs/fast.mp4" "$inputs/long.mp4"
    printf 'more' >>"$inputs/long.mp4"
    run_media "$inputs/long.mp4"
    check "four bytes too many" failed_with media_truncated

    for name in sample.mkv sample.mp4 fast.mp4 a.flac v.mp4; do
        size=$(stat -c %s "$inputs/$name")
        for value in 30 60 95; do
            head -c "$((size * value / 100))" "$inputs/$name" >"$inputs/cut-$name"
            run_media "$inputs/cut-$name"
            check "$name cut at $value % ($(error_code))" test "$rc" = 70
            check "no receipt" test ! -e "$job/results/probe.json"
            [[ $name == a.flac ]] ||
                check "it says that the end is missing" failed_with media_truncated
        done
        { head -c "$((size / 2))" "$inputs/$name" &&
            printf 'damage %.0s' {1..300} &&
            tail -c +"$((size / 2 + 2101))" "$inputs/$name"; } >"$inputs/bad-$name"
        [[ $name != sample.mkv ]] || continue
        run_media "$inputs/bad-$name"
        check "$name damaged in the middle" failed_with media_damaged
        words=$(jq -r .en "$job/results/sluice-error.json")
        check "it says what is wrong, and no path or address: $words" \
            not grep -qE "$tmp| @ 0x" <<<"$words"
    done

    : >"$inputs/empty.mp4"
    run_media "$inputs/empty.mp4"
    check "an empty file" failed_with media_empty
    echo "this is no film" >"$inputs/text.mp4"
    run_media "$inputs/text.mp4"
    check "a text file" failed_with media_damaged
    run_media "$inputs/absent.mp4"
    check "no file" failed_with media_unreadable
    run_media "$inputs"
    check "a folder" failed_with media_unreadable
    run_media sample.mkv
    check "a path that is not absolute" failed_with media_unreadable
    printf '#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n' \
        >"$inputs/list.m3u8"
    run_media "$inputs/list.m3u8"
    check "a playlist fetches nothing" test "$rc" = 70
    new_job media-probe
    job_env[SLUICE_RECEIPTS]=probe.json
    job_env[SLUICE_P_input]=$inputs/sample.mp4
    job_env[PATH]=$tmp/driver
    mkdir -p "$tmp/bare"
    for name in bash sh env cat mktemp mkdir mv rm sync od head stat; do
        ln -sf "$(command -v "$name")" "$tmp/bare/$name"
    done
    job_env[PATH]=$tmp/bare
    run_job "$templates/media-probe.sh"
    check "no ffmpeg in the PATH" failed_with tool_missing infra

    mkdir "$inputs/odd"
    for value in "${payloads[@]}"; do
        name=${value//\//_}.mkv
        ln "$inputs/sample.mkv" "$inputs/odd/$name"
        run_media "$inputs/odd/$name"
        receipt probe.json '.frames == 60' || check "a file named '$name'" false
        run_media "$value"
        [[ $rc != 0 ]] || check "input='$value' is refused" false
    done
    check "${#payloads[@]} odd names are probed, and none is run" nothing_ran
}

tests=(test_lint test_prelude_start test_prelude_logs test_prelude_values
    test_prelude_receipts test_prelude_fail test_prelude_secrets
    test_prelude_signals test_prelude_inputs test_prelude_modules test_canary
    test_fleet test_fleet_count test_media)
# Each in a process and a folder of its own, as many at once as there are
# processors.
base=$tmp
chosen=()
for name in "${tests[@]}"; do
    [[ $name != *"$only"* ]] || chosen+=("$name")
done
for name in "${chosen[@]}"; do
    while (($(jobs -pr | wc -l) >= $(nproc))); do
        wait -n || true
    done
    (
        trap - EXIT
        tmp=$base/$name
        mkdir "$tmp"
        "$name"
        : >"$base/$name.done"
    ) >"$base/$name.tap" 2>&1 &
done
wait
for name in "${chosen[@]}"; do
    echo "# $name"
    cat "$base/$name.tap"
    [[ -e $base/$name.done ]] || echo "not ok - $name came to its end"
done >"$base/all.tap"
awk '
    /^ok - / { number++; sub(/^ok/, "ok " number) }
    /^not ok - / { number++; failed++; sub(/^not ok/, "not ok " number) }
    { print }
    END {
        print "1.." number + 0
        print "# " number - failed " passed, " failed + 0 " failed"
        exit failed > 0 || number == 0
    }' "$base/all.tap"
