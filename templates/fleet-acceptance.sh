# shellcheck shell=bash
# Every node of the fleet in one job. Each task says where it runs and which
# cards it sees; the batch step counts and compares. The receipt
# acceptance.json exists only if every number is right.

: "${SLUICE_P_nodes:?}" "${SLUICE_P_gpus_per_node:?}"

# Runs on every node, by itself: it may use nothing else of this file. One
# line, fields separated by tabs, "-" for what is not there:
#   report  task  node  cards  UUIDs by the driver  cgroup
acceptance_task() {
    local line cgroup=- uuids=-
    while IFS= read -r line; do
        if [[ $line =~ :(/[A-Za-z0-9_./:@-]*/job_[0-9]+[A-Za-z0-9_./:@-]*)$ ]]; then
            cgroup=${BASH_REMATCH[1]}
            break
        fi
    done </proc/self/cgroup
    if command -v nvidia-smi >/dev/null; then
        uuids=$(timeout 60 nvidia-smi -i "${CUDA_VISIBLE_DEVICES-}" \
            --query-gpu=uuid --format=csv,noheader 2>&1 |
            grep '^GPU-' | tr '\n' ,)
        uuids=${uuids%,}
    fi
    printf 'report\t%s\t%s\t%s\t%s\t%s\n' "${SLURM_PROCID:--}" \
        "${SLURMD_NODENAME:--}" "${CUDA_VISIBLE_DEVICES:--}" "${uuids:-none}" \
        "$cgroup"
}

acceptance_wrong() {
    acceptance_code=$1
    acceptance_en=$2
    acceptance_zh=$3
    return 1
}

# Judges one task's line, and adds it to the sums of acceptance_count.
acceptance_line() {
    local task node cards uuids cgroup rest device devices_json=''
    local -a fields uuid_fields
    IFS=$'\t' read -r _ task node cards uuids cgroup rest <<<"$1"
    if [[ -n $rest || ! $task =~ ^[0-9]{1,5}$ ||
        ! $node =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$ || -z $cgroup ]]; then
        acceptance_wrong fleet_report_broken \
            "the report of a task can't be read: ${1//$'\t'/ }" \
            "无法解析某个任务的报告：${1//$'\t'/ }"
        return
    fi
    if [[ -n ${acceptance_nodes[$node]-} ]]; then
        acceptance_wrong fleet_node_twice \
            "the node $node reported twice (tasks ${acceptance_nodes[$node]} and $task): a node was used for two tasks" \
            "节点 $node 报告了两次（任务 ${acceptance_nodes[$node]} 与 $task）：同一节点运行了两个任务"
        return
    fi
    if [[ -n ${acceptance_tasks[$task]-} ]]; then
        acceptance_wrong fleet_task_twice \
            "the task $task reported twice (on ${acceptance_tasks[$task]} and $node)" \
            "任务 $task 报告了两次（在 ${acceptance_tasks[$task]} 与 $node 上）"
        return
    fi
    acceptance_nodes[$node]=$task
    acceptance_tasks[$task]=$node

    fields=()
    if [[ $cards =~ ^[A-Za-z0-9_:/]([A-Za-z0-9_:/,-]*[A-Za-z0-9_:/])?$ &&
        $cards != *,,* ]]; then
        IFS=, read -r -a fields <<<"$cards"
    fi
    if [[ ${#fields[@]} != "$acceptance_gpus" ]]; then
        acceptance_wrong fleet_cards_wrong \
            "the node $node shows ${#fields[@]} cards, $acceptance_gpus were asked for" \
            "节点 $node 可见 ${#fields[@]} 张显卡，申请的是 $acceptance_gpus 张"
        return
    fi
    for device in "${fields[@]}"; do
        # An index is one node's own; a UUID is the whole fleet's.
        [[ $device == GPU-* ]] || device=$node/$device
        if [[ -n ${acceptance_cards[$device]-} ]]; then
            acceptance_wrong fleet_card_twice \
                "the card $device was reported twice (on ${acceptance_cards[$device]} and $node)" \
                "显卡 $device 被报告了两次（在 ${acceptance_cards[$device]} 与 $node 上）"
            return
        fi
        acceptance_cards[$device]=$node
        devices_json+=,$(sluice_json_string "${device##*/}")
    done

    if [[ $uuids != - ]]; then
        uuid_fields=()
        if [[ $uuids =~ ^GPU-[A-Za-z0-9-]+(,GPU-[A-Za-z0-9-]+)*$ ]]; then
            IFS=, read -r -a uuid_fields <<<"$uuids"
        fi
        if [[ ${#uuid_fields[@]} != "$acceptance_gpus" ]]; then
            acceptance_wrong fleet_driver_wrong \
                "the driver of the node $node shows ${#uuid_fields[@]} cards, $acceptance_gpus were asked for" \
                "节点 $node 的驱动显示 ${#uuid_fields[@]} 张显卡，申请的是 $acceptance_gpus 张"
            return
        fi
        for device in "${uuid_fields[@]}"; do
            if [[ -n ${acceptance_uuids[$device]-} ]]; then
                acceptance_wrong fleet_card_twice \
                    "the card $device was reported twice (on ${acceptance_uuids[$device]} and $node)" \
                    "显卡 $device 被报告了两次（在 ${acceptance_uuids[$device]} 与 $node 上）"
                return
            fi
            acceptance_uuids[$device]=$node
        done
    fi

    if [[ $cgroup == - ]]; then
        cgroup=null
    else
        acceptance_cgroups=$((acceptance_cgroups + 1))
        cgroup=$(sluice_json_string "$cgroup")
    fi
    acceptance_json+=$(printf ',{"task":%s,"node":%s,"devices":[%s],"cgroup":%s}' \
        "$task" "$(sluice_json_string "$node")" "${devices_json#,}" "$cgroup")
}

# Counts the reports in the file $1 against $2 nodes with $3 cards each and,
# where the names are known, against the nodes $4…. True with acceptance_json,
# or false with acceptance_code, _en and _zh.
acceptance_count() {
    local file=$1 nodes=$2 line name missing='' missing_note_en='' missing_note_zh=''
    acceptance_gpus=$3
    shift 3
    local -A allotted=()
    declare -gA acceptance_nodes=() acceptance_tasks=() acceptance_cards=() \
        acceptance_uuids=()
    acceptance_json='' acceptance_cgroups=0
    for name in "$@"; do
        allotted[$name]=1
    done
    while IFS= read -r line || [[ -n $line ]]; do
        [[ $line == report$'\t'* ]] || continue
        acceptance_line "$line" || return 1
    done <"$file"
    if (($# > 0)); then
        for name in "${!acceptance_nodes[@]}"; do
            [[ -n ${allotted[$name]-} ]] || {
                acceptance_wrong fleet_node_foreign \
                    "the node $name reported, but it is not one of this job's" \
                    "节点 $name 上报了结果，但它不属于本作业"
                return
            }
        done
        for name in "$@"; do
            [[ -n ${acceptance_nodes[$name]-} ]] || missing+=" $name"
        done
    fi
    if [[ -n $missing ]]; then
        missing_note_en=". Missing:$missing"
        missing_note_zh="。缺少：${missing# }"
    fi
    if [[ ${#acceptance_nodes[@]} != "$nodes" || -n $missing ]]; then
        acceptance_wrong fleet_nodes_wrong \
            "${#acceptance_nodes[@]} of $nodes nodes reported$missing_note_en" \
            "$nodes 个节点中有 ${#acceptance_nodes[@]} 个上报$missing_note_zh"
        return
    fi
    acceptance_json=${acceptance_json#,}
}

acceptance_main() {
    local reports=$SLUICE_RESULTS_DIR/reports.txt status=0 hosts='' receipt
    local -a allotted=()
    [[ $SLUICE_P_nodes =~ ^[1-9][0-9]{0,3}$ &&
        $SLUICE_P_gpus_per_node =~ ^[1-9][0-9]?$ ]] || sluice_fail params_wrong \
        "the parameters are not the ones of the workflow" \
        "参数与工作流的定义不符"
    [[ ${SLURM_JOB_NUM_NODES-$SLUICE_P_nodes} == "$SLUICE_P_nodes" ]] ||
        sluice_fail fleet_nodes_wrong \
            "$SLUICE_P_nodes nodes were asked for, Slurm gave $SLURM_JOB_NUM_NODES" \
            "申请了 $SLUICE_P_nodes 个节点，Slurm 分配了 $SLURM_JOB_NUM_NODES 个" \
            receipt
    if [[ -n ${SLURM_JOB_NODELIST-} ]]; then
        hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || hosts=
    fi
    [[ -z $hosts ]] || mapfile -t allotted <<<"$hosts"

    # The text of the function is fixed; a node gets no value in it.
    srun --nodes="$SLUICE_P_nodes" --ntasks="$SLUICE_P_nodes" \
        --ntasks-per-node=1 --input=none --kill-on-bad-exit=0 \
        /bin/bash -c "$(declare -f acceptance_task); acceptance_task" \
        >"$reports" || status=$?
    acceptance_count "$reports" "$SLUICE_P_nodes" "$SLUICE_P_gpus_per_node" \
        "${allotted[@]}" ||
        sluice_fail "$acceptance_code" "$acceptance_en" "$acceptance_zh" receipt
    [[ $status == 0 ]] || sluice_fail fleet_step_failed \
        "every node reported, but the step on them ended with status $status" \
        "所有节点都已上报，但作业步以状态 $status 结束" receipt

    receipt=$(
        printf '{"version":1,"job":%s,"nodes":%s,"gpus_per_node":%s,' \
            "$(sluice_json_string "$SLUICE_JOB_ID")" "$SLUICE_P_nodes" \
            "$SLUICE_P_gpus_per_node"
        printf '"gpus":%s,"cgroups":%s,"tasks":[%s]}' \
            "${#acceptance_cards[@]}" "$acceptance_cgroups" "$acceptance_json"
    )
    printf '%s\n' "$receipt" | sluice_receipt acceptance.json
    echo "fleet-acceptance: ${#acceptance_nodes[@]} nodes," \
        "${#acceptance_cards[@]} cards"
}

acceptance_main
