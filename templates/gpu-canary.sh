# shellcheck shell=bash
# One node, one to eight cards: is what the job was promised really there?
# The receipt canary.json exists only if every check has passed.

: "${SLUICE_P_gpus:?}" "${SLUICE_P_hold_seconds:?}"

# The number of visible cards, counted as fields: seven commas are eight cards.
canary_devices() {
    local device seen=,
    canary_device=()
    if [[ ! ${CUDA_VISIBLE_DEVICES-} =~ ^[A-Za-z0-9_:/-]+(,[A-Za-z0-9_:/-]+)*$ ]]; then
        sluice_fail gpus_not_visible \
            "CUDA_VISIBLE_DEVICES names no cards: '${CUDA_VISIBLE_DEVICES-}'" \
            "CUDA_VISIBLE_DEVICES 没有列出显卡：'${CUDA_VISIBLE_DEVICES-}'" infra
    fi
    IFS=, read -r -a canary_device <<<"$CUDA_VISIBLE_DEVICES"
    for device in "${canary_device[@]}"; do
        [[ $seen != *",$device,"* ]] || sluice_fail gpus_repeated \
            "the card $device is listed twice in CUDA_VISIBLE_DEVICES" \
            "CUDA_VISIBLE_DEVICES 重复列出显卡 $device" infra
        seen+=$device,
    done
    [[ ${#canary_device[@]} == "$SLUICE_P_gpus" ]] || sluice_fail gpus_wrong_number \
        "$SLUICE_P_gpus cards were asked for, ${#canary_device[@]} are visible" \
        "申请了 $SLUICE_P_gpus 张显卡，实际可见 ${#canary_device[@]} 张" infra
    [[ ${SLURM_GPUS_ON_NODE-$SLUICE_P_gpus} == "$SLUICE_P_gpus" ]] ||
        sluice_fail gpus_wrong_number \
            "$SLUICE_P_gpus cards were asked for, Slurm gave $SLURM_GPUS_ON_NODE" \
            "申请了 $SLUICE_P_gpus 张显卡，Slurm 分配了 $SLURM_GPUS_ON_NODE 张" infra
}

# What the driver sees, where there is one. NVML's words about one card may go
# to either stream, so only lines that are a UUID count.
canary_driver() {
    local text
    local -a uuids
    canary_driver_devices=null
    command -v nvidia-smi >/dev/null || return 0
    text=$(timeout 60 nvidia-smi -i "$CUDA_VISIBLE_DEVICES" \
        --query-gpu=uuid --format=csv,noheader 2>&1) || sluice_fail driver_failed \
        "nvidia-smi failed on this node: ${text##*$'\n'}" \
        "nvidia-smi 在该节点上失败：${text##*$'\n'}" infra
    mapfile -t uuids < <(grep '^GPU-' <<<"$text" | sort -u)
    [[ ${#uuids[@]} == "$SLUICE_P_gpus" ]] || sluice_fail driver_wrong_number \
        "$SLUICE_P_gpus cards were asked for, the driver shows ${#uuids[@]}" \
        "申请了 $SLUICE_P_gpus 张显卡，驱动显示 ${#uuids[@]} 张" infra
    canary_driver_devices=${#uuids[@]}
}

canary_bad_environment() {
    sluice_fail environment_wrong \
        "the job's environment is not the one it was promised: $1" \
        "作业环境与约定不符：$2" infra
}

# The account's own names, and nothing that changes what a program does.
canary_environment() {
    local name entry user home shell ulid
    while IFS= read -r name; do
        case $name in
            BASH_ENV | ENV | LD_* | SHELLOPTS | BASHOPTS | GCONV_PATH | \
                PYTHONPATH | PYTHONHOME | PYTHONSTARTUP | PERL5LIB | PERL5OPT | \
                NODE_OPTIONS | SLURM_JWT)
                canary_bad_environment "$name is set" "设置了 $name"
                ;;
        esac
        [[ " ${SLUICE_SECRETS-} " != *" $name "* ]] || canary_bad_environment \
            "the secret $name stands in it" "密钥 $name 出现在环境变量中"
    done < <(compgen -e)
    [[ -z $(declare -Fx) ]] || canary_bad_environment \
        "it brings functions" "其中带有函数"

    entry=$(getent passwd "$(id -u)") || canary_bad_environment \
        "this node does not know the account" "该节点不认识此账户"
    IFS=: read -r user _ _ _ _ home shell <<<"$entry"
    [[ ${USER-} == "$user" && ${LOGNAME-} == "$user" ]] ||
        canary_bad_environment "USER or LOGNAME is wrong" "USER 或 LOGNAME 不正确"
    [[ ${HOME-} == "$home" ]] ||
        canary_bad_environment "HOME is wrong" "HOME 不正确"
    [[ -z $shell || ${SHELL-} == "$shell" ]] ||
        canary_bad_environment "SHELL is wrong" "SHELL 不正确"
    [[ -n ${PATH-} && -n ${LANG-} && -n ${SLURM_JOB_ID-} ]] ||
        canary_bad_environment "PATH, LANG or SLURM_JOB_ID is missing" \
            "缺少 PATH、LANG 或 SLURM_JOB_ID"
    [[ ${PYTHONNOUSERSITE-} == 1 ]] ||
        canary_bad_environment "PYTHONNOUSERSITE is not 1" "PYTHONNOUSERSITE 不是 1"
    ulid=${SLUICE_JOB_ID#job_}
    [[ ${SLURM_JOB_NAME-} == "$SLUICE_WORKFLOW.${ulid,,}" ]] ||
        canary_bad_environment "SLURM_JOB_NAME is another" "SLURM_JOB_NAME 不符"
    [[ $(umask) == 0077 ]] ||
        canary_bad_environment "the umask is $(umask), not 0077" \
            "umask 为 $(umask)，应为 0077"
}

# The run folder is ours alone, and takes a write, a read and a removal.
canary_folder() {
    local mode probe=$SLUICE_RUN_DIR/.probe text="verified $SLUICE_JOB_ID"
    mode=$(stat -c '%a %u' -- "$SLUICE_RUN_DIR")
    [[ $mode == "700 $(id -u)" && ! -L $SLUICE_RUN_DIR ]] ||
        sluice_fail folder_not_private \
            "the run folder is not this account's alone (mode and owner: $mode)" \
            "运行目录不是该账户私有（权限与属主：$mode）" infra
    if ! printf '%s\n' "$text" >"$probe" || ! sync -- "$probe" ||
        [[ $(cat -- "$probe") != "$text" ]] || ! rm -- "$probe" ||
        [[ -e $probe ]]; then
        sluice_fail folder_broken \
            "a file could not be written, read and removed in the run folder" \
            "无法在运行目录中写入、读取并删除文件" infra
    fi
}

# The models can be read, and can't be changed from here.
canary_models() {
    local folder=${SLUICE_MODELS_DIR-} marker probe
    marker=$folder/.sluice-models
    [[ $folder == /* && -d $folder ]] || sluice_fail models_absent \
        "the model folder is not there on this node" \
        "该节点上没有模型目录" infra
    if [[ ! -f $marker ]] || ! cat -- "$marker" >/dev/null; then
        sluice_fail models_unreadable \
            "the marker of the model folder can't be read" \
            "无法读取模型目录的标记文件" infra
    fi
    probe=$folder/.probe-${SLUICE_JOB_ID#job_}
    if (: >"$probe") 2>/dev/null; then
        rm -f -- "$probe"
        sluice_fail models_writable \
            "the model folder can be written from a job, it must be read-only" \
            "作业可以写入模型目录，而它必须是只读的" infra
    fi
}

# How many bytes of the secret have arrived. Nothing else of it is told.
canary_secret_bytes() {
    printf '%s' "${CANARY_TOKEN-}" | wc -c
}

canary_secret() {
    local mode
    canary_token=absent
    canary_token_bytes=null
    has_secret CANARY_TOKEN || return 0
    mode=$(stat -c '%a %u %h' -- "$SLUICE_RUN_DIR/secrets.env")
    [[ $mode == "600 $(id -u) 1" ]] || sluice_fail sidecar_not_private \
        "the secrets file is not this account's alone (mode, owner, links: $mode)" \
        "密钥文件不是该账户私有（权限、属主、链接数：$mode）" infra
    canary_token_bytes=$(with_secret CANARY_TOKEN canary_secret_bytes)
    [[ $canary_token_bytes =~ ^[1-9][0-9]*$ ]] || sluice_fail secret_empty \
        "the secret CANARY_TOKEN arrived empty" \
        "密钥 CANARY_TOKEN 到达时为空" infra
    canary_token=present
}

canary_cgroup() {
    local line
    while IFS= read -r line; do
        if [[ $line =~ /job_[0-9]+ ]]; then
            sluice_json_string "${line##*:}"
            return
        fi
    done </proc/self/cgroup
    printf null
}

canary_main() {
    local devices='' device receipt attempt=${SLURM_RESTART_COUNT:-0}
    [[ $SLUICE_P_gpus =~ ^[1-9][0-9]?$ &&
        $SLUICE_P_hold_seconds =~ ^(0|[1-9][0-9]{0,2})$ &&
        $attempt =~ ^[0-9]{1,6}$ ]] || sluice_fail params_wrong \
        "the parameters are not the ones of the workflow" \
        "参数与工作流的定义不符"
    canary_environment
    canary_devices
    canary_driver
    canary_folder
    canary_models
    canary_secret
    echo "gpu-canary: all checks passed on ${SLURMD_NODENAME-$(uname -n)}," \
        "${#canary_device[@]} card(s): $CUDA_VISIBLE_DEVICES"
    sleep "$SLUICE_P_hold_seconds"

    for device in "${canary_device[@]}"; do
        devices+=,$(sluice_json_string "$device")
    done
    receipt=$(
        printf '{"version":1,"job":%s,"node":%s,' \
            "$(sluice_json_string "$SLUICE_JOB_ID")" \
            "$(sluice_json_string "${SLURMD_NODENAME-$(uname -n)}")"
        printf '"attempt":%s,"gpus":%s,"devices":[%s],"driver_devices":%s,' \
            "$attempt" "${#canary_device[@]}" "${devices#,}" \
            "$canary_driver_devices"
        printf '"cgroup":%s,"environment":"ok","run_folder":"private",' \
            "$(canary_cgroup)"
        printf '"models":"read_only","secret":"%s","secret_bytes":%s,' \
            "$canary_token" "$canary_token_bytes"
        printf '"held_seconds":%s}' "$SLUICE_P_hold_seconds"
    )
    printf '%s\n' "$receipt" | sluice_receipt canary.json
    echo "gpu-canary: receipt written"
}

canary_main
