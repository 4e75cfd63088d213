# shellcheck shell=bash
# Sluice's prelude: the same text in every job, between the #SBATCH lines and
# the template. It knows the job only from its environment:
#
#   SLUICE_JOB_ID SLUICE_WORKFLOW SLUICE_RUN_DIR SLUICE_RESULTS_DIR
#   SLUICE_REQUEUE (0|1)  SLUICE_HAS_SIDECAR (0|1)
#   SLUICE_SECRETS SLUICE_MODULES SLUICE_LISTS SLUICE_PATHS_SHA256
#                                    names, separated by blanks; may be empty
#   SLUICE_INPUTS_DIR SLUICE_MODELS_DIR
#                                    the site's folders, for templates
#   SLUICE_RECEIPTS                  patterns below results/, one a line
#   SLUICE_P_<name>                  a parameter; a path is absolute
#   SLUICE_P_<list>_0 … _COUNT       a list's elements and their number
#   SLUICE_P_<path>_SHA256           what a path's file must hash to
#   SLUICE_P_<list>_<i>_SHA256       the same for a list of paths
#
# It offers to the template:
#
#   sluice_list NAME                 fills the array SLUICE_LIST
#   has_secret NAME                  true when this secret was given
#   with_secret NAME command …       runs command with that secret exported
#   sluice_receipt FILE              writes results/FILE from stdin, at once
#   sluice_fail CODE EN ZH [CLASS]   ends the job with a sentence
#   sluice_on_exit FUNCTION          runs it when the job ends, however it does
#   sluice_json_string VALUE         prints VALUE as a JSON string
#
# Values are data. None stands in arithmetic, eval, declare or a command's
# text; a name becomes part of a variable's name only after it has matched the
# pattern of names. A template sets no EXIT trap of its own: sluice_on_exit.

set -euo pipefail
shopt -s inherit_errexit

SLUICE_LIST=()
_sluice_hooks=()
_sluice_missing=()
_sluice_secret_file=
# The job's status when it stopped with a sentence.
_sluice_status=70

_sluice_is_name() {
    [[ ${1-} =~ ^[A-Za-z_][A-Za-z0-9_]{0,63}$ ]]
}

# Is the word $1 one of the words of $2?
_sluice_has_word() {
    local -a words=()
    local word
    read -r -a words <<<"$2"
    for word in "${words[@]}"; do
        [[ $word == "$1" ]] && return 0
    done
    return 1
}

# Prints $1 as a JSON string: at most its first 2,000 bytes; what is not UTF-8,
# or is cut in the middle, becomes U+FFFD, and control bytes are escaped, for
# the words of other programs end up in here too.
sluice_json_string() {
    local -a bytes=()
    local out='' piece byte first need low high i=0 j
    IFS=$' \n' read -r -d '' -a bytes < <(
        printf '%s' "${1-}" | head -c 2000 | od -An -v -tu1
    ) || true
    while ((i < ${#bytes[@]})); do
        byte=${bytes[i]}
        first=$i
        i=$((i + 1))
        if ((byte < 0x20 || byte == 0x7f)); then
            printf -v piece '\\x5cu%04x' "$byte"
            out+=$piece
            continue
        elif ((byte == 0x22 || byte == 0x5c)); then
            printf -v piece '\\x5c\\x%02x' "$byte"
            out+=$piece
            continue
        fi
        need=-1 low=0x80 high=0xbf
        case $byte in
            224) need=2 low=0xa0 ;;
            237) need=2 high=0x9f ;;
            240) need=3 low=0x90 ;;
            244) need=3 high=0x8f ;;
            *)
                if ((byte < 0x80)); then
                    need=0
                elif ((byte >= 0xc2 && byte <= 0xdf)); then
                    need=1
                elif ((byte >= 0xe1 && byte <= 0xef)); then
                    need=2
                elif ((byte >= 0xf1 && byte <= 0xf3)); then
                    need=3
                fi
                ;;
        esac
        for ((j = 0; j < need; j++)); do
            ((i < ${#bytes[@]} && bytes[i] >= low && bytes[i] <= high)) ||
                break
            low=0x80 high=0xbf
            i=$((i + 1))
        done
        if ((need < 0 || j < need)); then
            out+='\xef\xbf\xbd'
            continue
        fi
        for ((j = first; j < i; j++)); do
            printf -v piece '\\x%02x' "${bytes[j]}"
            out+=$piece
        done
    done
    printf '"%b"' "$out"
}

# Writes results/$1 from stdin: complete under its name, or not there at all.
# Give it a finished text; a producer that fails in a pipe is seen too late.
sluice_receipt() {
    local file=${1-} folder target temporary
    if [[ $# -ne 1 || -z $file || $file == /* || /$file/ == */../* ||
        /$file/ == */./* || $file == */ ]]; then
        echo "sluice: a receipt's name is a path below results/" >&2
        return 1
    fi
    target=$SLUICE_RESULTS_DIR/$file
    folder=${target%/*}
    mkdir -p -- "$folder" || return 1
    temporary=$(mktemp -- "$folder/.receipt.XXXXXXXX") || return 1
    if cat >"$temporary" && sync -- "$temporary" &&
        mv -fT -- "$temporary" "$target"; then
        return 0
    fi
    rm -f -- "$temporary"
    return 1
}

# Ends the job with a stable code, a sentence in both languages, and the class
# of the error: infra program timeout memory receipt upstream denied. The
# first sentence is kept. In a subshell it ends that; the EXIT trap sees to it
# that the job fails all the same.
sluice_fail() {
    local code=${1-} en=${2-} zh=${3-} class=${4-program} text
    [[ $code =~ ^[a-z][a-z0-9_]{0,63}$ ]] || code=template_error
    [[ $class =~ ^(infra|program|timeout|memory|receipt|upstream|denied)$ ]] ||
        class=program
    printf 'sluice: %s: %s / %s\n' "$code" "$en" "$zh" >&2
    if [[ ! -e $SLUICE_RESULTS_DIR/sluice-error.json ]]; then
        printf -v text '{"code":"%s","en":%s,"zh":%s,"error_class":"%s"}' \
            "$code" "$(sluice_json_string "$en")" \
            "$(sluice_json_string "$zh")" "$class"
        printf '%s\n' "$text" | sluice_receipt sluice-error.json ||
            echo "sluice: the error receipt could not be written" >&2
    fi
    exit "$_sluice_status"
}

# Fills SLUICE_LIST with the elements of the list parameter $1.
sluice_list() {
    local name=${1-} variable count i
    if ! _sluice_is_name "$name" ||
        ! _sluice_has_word "$name" "${SLUICE_LISTS-}"; then
        sluice_fail template_error \
            "the template asks for a list that is no parameter" \
            "模板读取了一个不是列表参数的名称"
    fi
    SLUICE_LIST=()
    variable=SLUICE_P_${name}_COUNT
    count=${!variable-}
    [[ $count =~ ^(0|[1-9][0-9]{0,4})$ ]] ||
        sluice_fail environment_broken \
            "the number of elements of the list $name is missing" \
            "列表 $name 的元素个数缺失" infra
    for ((i = 0; i < count; i++)); do
        variable=SLUICE_P_${name}_$i
        [[ -n ${!variable+set} ]] ||
            sluice_fail environment_broken \
                "element $i of the list $name is missing" \
                "列表 $name 的第 $i 个元素缺失" infra
        SLUICE_LIST+=("${!variable}")
    done
}

# Registers a function of the template for the end of the job; the last one
# registered runs first. It runs in a subshell.
sluice_on_exit() {
    _sluice_is_name "${1-}" || sluice_fail template_error \
        "sluice_on_exit wants the name of a function" \
        "sluice_on_exit 需要一个函数名"
    _sluice_hooks=("$1" "${_sluice_hooks[@]}")
}

# --- secrets ----------------------------------------------------------------
# The sidecar holds one NAME=<base64> a line. It is read, never sourced, and a
# value lives only in the subshell of with_secret: not in this shell, not in
# argv, not in a here-string (which may become a file).

_sluice_secret_ready() {
    if ! _sluice_is_name "${1-}" ||
        ! _sluice_has_word "$1" "${SLUICE_SECRETS-}"; then
        sluice_fail secret_undeclared \
            "the template asks for a secret that its workflow does not declare" \
            "模板读取了工作流没有声明的密钥"
    fi
    [[ $SLUICE_HAS_SIDECAR == 1 ]] || return 1
    [[ -f $_sluice_secret_file && ! -L $_sluice_secret_file ]] ||
        sluice_fail sidecar_gone \
            "the job's secrets file is gone" "作业的密钥文件已不存在" infra
}

has_secret() {
    _sluice_secret_ready "${1-}" || return 1
    grep -q -- "^$1=" "$_sluice_secret_file"
}

# Puts the secret $1 into _sluice_secret. Only for the subshell below.
_sluice_secret_read() {
    local line encoded='' found=0
    while IFS= read -r line || [[ -n $line ]]; do
        if [[ $line == "$1="* ]]; then
            encoded=${line#*=}
            found=1
            break
        fi
    done <"$_sluice_secret_file"
    [[ $found == 1 && $encoded =~ ^[A-Za-z0-9+/]*={0,2}$ ]] || return 1
    # The x keeps a value's own line feeds at its end.
    _sluice_secret=$(printf '%s' "$encoded" | base64 -d && printf x) || return 1
    _sluice_secret=${_sluice_secret%x}
}

with_secret() {
    local name=${1-}
    [[ $# -ge 2 ]] || sluice_fail template_error \
        "with_secret wants a name and a command" \
        "with_secret 需要密钥名称和命令"
    shift
    (
        set +x
        ulimit -c 0
        _sluice_secret_ready "$name" || sluice_fail secret_missing \
            "the secret $name was not given" "没有提供密钥 $name"
        _sluice_secret_read "$name" || sluice_fail secret_missing \
            "the secret $name is not in the job's secrets file" \
            "作业的密钥文件中没有密钥 $name"
        export "$name=$_sluice_secret"
        unset -v _sluice_secret
        "$@"
    )
}

# --- receipts ---------------------------------------------------------------

# Is $1, below results/, a plain file with one name, reached through no
# symlink? Whoever reads it later takes nothing else.
_sluice_is_receipt() {
    local path=$SLUICE_RESULTS_DIR rest=$1 links
    while [[ $rest == */* ]]; do
        path+=/${rest%%/*}
        rest=${rest#*/}
        [[ -d $path && ! -L $path ]] || return 1
    done
    path+=/$rest
    [[ -f $path && ! -L $path ]] || return 1
    links=$(stat -c %h -- "$path") || return 1
    [[ $links == 1 ]]
}

# Is there at least one receipt for the pattern $1, which has no braces left?
_sluice_receipt_found() {
    local pattern=$1 folder='' base entry
    [[ $pattern == *'*'* ]] || {
        _sluice_is_receipt "$pattern"
        return
    }
    base=${pattern##*/}
    [[ $pattern == */* ]] && folder=${pattern%/*}/
    [[ $folder != *'*'* ]] || return 1
    while IFS= read -r -d '' entry; do
        entry=${entry##*/}
        # The pattern's own letters are checked: * is the only special one.
        # shellcheck disable=SC2053
        if [[ $entry == $base ]] && _sluice_is_receipt "$folder$entry"; then
            return 0
        fi
    done < <(find "$SLUICE_RESULTS_DIR/$folder" -mindepth 1 -maxdepth 1 \
        -type f ! -name '.*' -print0 2>/dev/null)
    return 1
}

# Appends to _sluice_missing what the pattern $1 promises and is not there.
# {a..b} counts upwards; a leading zero in a or b pads to the longer of both.
_sluice_receipts_missing() {
    local pattern=$1 head tail from to width i number
    local brace='^([^{}]*)\{([0-9]{1,5})\.\.([0-9]{1,5})\}(.*)$'
    if [[ $pattern =~ $brace ]]; then
        head=${BASH_REMATCH[1]} from=${BASH_REMATCH[2]}
        to=${BASH_REMATCH[3]} tail=${BASH_REMATCH[4]} width=1
        if [[ $from == 0?* || $to == 0?* ]]; then
            width=${#from}
            ((${#to} <= width)) || width=${#to}
        fi
        ((10#$from <= 10#$to)) || {
            _sluice_missing+=("$pattern")
            return 0
        }
        for ((i = 10#$from; i <= 10#$to; i++)); do
            printf -v number '%0*d' "$width" "$i"
            _sluice_receipts_missing "$head$number$tail"
        done
        return 0
    fi
    if [[ ! $pattern =~ ^[A-Za-z0-9_.*/-]{1,255}$ || $pattern == /* ||
        /$pattern/ == */../* ]] || ! _sluice_receipt_found "$pattern"; then
        _sluice_missing+=("$pattern")
    fi
}

_sluice_check_receipts() {
    local pattern list
    _sluice_missing=()
    while IFS= read -r pattern; do
        [[ -z $pattern ]] || _sluice_receipts_missing "$pattern"
    done <<<"${SLUICE_RECEIPTS-}"
    ((${#_sluice_missing[@]} > 0)) || return 0
    printf -v list '%s, ' "${_sluice_missing[@]:0:10}"
    list=${list%, }
    ((${#_sluice_missing[@]} <= 10)) || list+=", …"
    sluice_fail receipt_missing \
        "the program ended without an error, but these receipts are missing: $list" \
        "程序正常结束，但缺少以下凭据：$list" receipt
}

# --- the end of the job -----------------------------------------------------

_sluice_finish() {
    local status=$? hook
    # Slurm's TERM reaches every process of the job: what follows, and its
    # children, run on until KILL.
    trap '' TERM INT HUP
    trap - EXIT
    set +e
    for hook in "${_sluice_hooks[@]}"; do
        ("$hook") || echo "sluice: the exit function $hook failed" >&2
    done
    # Only where Slurm may not run this job again; else it goes when the job
    # is final, for nobody could write it a second time.
    if [[ $SLUICE_REQUEUE == 0 ]]; then
        rm -f -- "$_sluice_secret_file"
    fi
    if [[ $status == 0 ]]; then
        if [[ -e $SLUICE_RESULTS_DIR/sluice-error.json ]]; then
            status=$_sluice_status
        else
            (_sluice_check_receipts)
            status=$?
        fi
    fi
    exit "$status"
}

# --- the start of the job ---------------------------------------------------

# Without its folder a job can't even say why it stops.
_sluice_start_folder() {
    local variable
    for variable in SLUICE_JOB_ID SLUICE_WORKFLOW SLUICE_RUN_DIR \
        SLUICE_RESULTS_DIR SLUICE_REQUEUE SLUICE_HAS_SIDECAR; do
        [[ -n ${!variable-} ]] || {
            echo "sluice: $variable is not set: not a job of Sluice's" >&2
            exit "$_sluice_status"
        }
    done
    if [[ $SLUICE_RUN_DIR != /* || ! -d $SLUICE_RUN_DIR ||
        -L $SLUICE_RESULTS_DIR || ! -d $SLUICE_RESULTS_DIR ]] ||
        ! cd -- "$SLUICE_RUN_DIR"; then
        echo "sluice: the run folder is not there on this node" >&2
        exit "$_sluice_status"
    fi
    _sluice_secret_file=$SLUICE_RUN_DIR/secrets.env
}

# Attempt n > 0 of a requeued job keeps the earlier attempts' logs.
_sluice_start_logs() {
    local attempt=${SLURM_RESTART_COUNT:-0}
    [[ $attempt =~ ^[1-9][0-9]{0,5}$ ]] || return 0
    exec >>"$SLUICE_RUN_DIR/stdout.$attempt.log" \
        2>>"$SLUICE_RUN_DIR/stderr.$attempt.log"
}

_sluice_start_sidecar() {
    [[ $SLUICE_HAS_SIDECAR == 1 ]] || return 0
    [[ -f $_sluice_secret_file && ! -L $_sluice_secret_file &&
        -r $_sluice_secret_file ]] ||
        sluice_fail sidecar_gone \
            "the job's secrets file is gone, so the job stopped before any work" \
            "作业的密钥文件已不存在，作业在开始工作之前停止" infra
}

# `module` is a function that login shells get; a batch script fetches it.
_sluice_find_module() {
    local file
    for file in /etc/profile.d/lmod.sh /etc/profile.d/modules.sh \
        /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do
        ! declare -F module >/dev/null || return 0
        # Their text is not written for nounset and errexit.
        if [[ -r $file ]]; then
            set +eu
            # shellcheck disable=SC1090
            . "$file"
            set -eu
        fi
    done
    declare -F module >/dev/null
}

_sluice_start_modules() {
    local -a modules=()
    local name status
    read -r -a modules <<<"${SLUICE_MODULES-}"
    ((${#modules[@]} > 0)) || return 0
    _sluice_find_module || sluice_fail modules_absent \
        "this node has no module command, and the workflow needs modules" \
        "该节点没有 module 命令，而工作流需要加载模块" infra
    for name in "${modules[@]}"; do
        status=1
        if [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._+/-]{0,127}$ ]]; then
            set +eu
            module load "$name"
            status=$?
            set -eu
        fi
        [[ $status == 0 ]] || sluice_fail module_failed \
            "the module $name could not be loaded on this node" \
            "无法在该节点上加载模块 $name" infra
    done
}

# Compares one file with the hash it was promised to have. $1 the parameter
# (for the sentence), $2 the variable that holds the path.
_sluice_check_hash() {
    local expected_name=${2}_SHA256 path expected actual
    path=${!2-}
    expected=${!expected_name-}
    [[ $path == /* && $expected =~ ^[0-9a-f]{64}$ ]] ||
        sluice_fail environment_broken \
            "the path or the hash of the input $1 is missing" \
            "输入 $1 的路径或哈希缺失" infra
    actual=$(sha256sum <"$path") || sluice_fail input_unreadable \
        "the input $1 can't be read on this node" \
        "无法在该节点上读取输入 $1"
    [[ ${actual%% *} == "$expected" ]] || sluice_fail input_changed \
        "the input $1 is not the file that was submitted: its SHA-256 differs" \
        "输入 $1 与提交时的文件不同：SHA-256 不一致"
}

_sluice_start_inputs() {
    local -a names=()
    local name i
    read -r -a names <<<"${SLUICE_PATHS_SHA256-}"
    for name in "${names[@]}"; do
        _sluice_is_name "$name" || sluice_fail environment_broken \
            "the list of hashed inputs is broken" \
            "需校验哈希的输入列表已损坏" infra
        if _sluice_has_word "$name" "${SLUICE_LISTS-}"; then
            sluice_list "$name"
            for ((i = 0; i < ${#SLUICE_LIST[@]}; i++)); do
                _sluice_check_hash "$name" "SLUICE_P_${name}_$i"
            done
        else
            _sluice_check_hash "$name" "SLUICE_P_$name"
        fi
    done
    SLUICE_LIST=()
}

_sluice_start_folder
_sluice_start_logs
# Bash runs the EXIT trap on these signals anyway, but with a status of 0.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap _sluice_finish EXIT
rm -f -- "$SLUICE_RESULTS_DIR/sluice-error.json"
_sluice_start_sidecar
_sluice_start_modules
_sluice_start_inputs

# --- the template -----------------------------------------------------------
