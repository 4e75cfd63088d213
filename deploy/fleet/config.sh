# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # shared with the script that sources this
# The files of the reference fleet: 14 nodes, 112 V100, 1120 CPUs,
# 2,576,000 MiB. Expects $state, $cluster, $slurm_user, $base_port, $host.
# Each file is written once; what somebody changed in it later stays.

# Ports of the block that begins at base_port.
readonly port_count=16
ctld_port() { echo "$base_port"; }
dbd_port() { echo $((base_port + 1)); }
slurmd_port() { echo $((base_port + 2)); }

# write_once FILE OWNER MODE: the text on standard input, if there is none yet.
write_once() {
    local file=$1 owner=$2 mode=$3
    if [[ -e $file ]]; then cat >/dev/null; return 0; fi
    (umask 077 && cat >"$file.new")
    chown "$owner" "$file.new"
    chmod "$mode" "$file.new"
    mv "$file.new" "$file"
}

slurm_version() {
    slurmctld -V | sed -nE 's/^.* ([0-9]+)\.([0-9]+).*/\1\2/p'
}

# A requeued job waits until its first credential has expired (cred_expire). A
# short ttl makes a delayed request expire; munge's own is 300 seconds.
auth_info() {
    printf 'socket=%s,cred_expire=%s' "$1" "${FLEET_CRED_EXPIRE:-30}"
    printf '%s' "${FLEET_AUTH_TTL:+,ttl=$FLEET_AUTH_TTL}"
}

write_slurm_conf() {
    local munge=$state/run/munge/munge.socket first
    first=$(slurmd_port)
    write_once "$state/etc/slurm.conf" root: 0644 <<END
# The reference fleet on one machine.
ClusterName=$cluster
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(ctld_port)
SlurmUser=$slurm_user
SlurmdUser=root
StateSaveLocation=$state/slurm/ctld
SlurmdSpoolDir=$state/slurm/spool-%n
SlurmctldPidFile=$state/run/slurm/slurmctld.pid
SlurmdPidFile=$state/run/slurm/%n.pid

# Credentials. The socket is named twice: sacctmgr and slurmctld ask the
# second one when they talk to slurmdbd.
AuthType=auth/munge
CredType=cred/munge
AuthInfo=$(auth_info "$munge")
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$(dbd_port)
AccountingStoragePass=$munge

# Who may what. Without these two a test would test neither.
AccountingStorageEnforce=associations,limits
PrivateData=jobs,usage
AccountingStorageTRES=gres/gpu,gres/gpu:v100
AccountingStoreFlags=job_comment,job_env,job_script
JobAcctGatherType=jobacct_gather/none

# Fourteen slurmd on one machine, without cgroups of their own.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
PropagateResourceLimits=NONE
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2300
GresTypes=gpu

# Small jobs start at once; everything else keeps Slurm's defaults.
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
MessageTimeout=${FLEET_MESSAGE_TIMEOUT:-10}
MinJobAge=${FLEET_MIN_JOB_AGE:-300}
KillWait=${FLEET_KILL_WAIT:-5}
SlurmctldTimeout=120
SlurmdTimeout=${FLEET_SLURMD_TIMEOUT:-120}
InactiveLimit=0
JobRequeue=1
SlurmctldDebug=info
SlurmdDebug=info
${FLEET_EXTRA_CONF:-}
NodeName=gpu[01-14] NodeHostname=$host NodeAddr=127.0.0.1 \
Port=[$first-$((first + 13))] Sockets=2 CoresPerSocket=20 ThreadsPerCore=2 \
RealMemory=184000 Gres=gpu:v100:8 State=UNKNOWN
PartitionName=v100 Nodes=gpu[01-14] Default=YES State=UP \
DefaultTime=01:00:00 MaxTime=7-00:00:00
PartitionName=down Nodes=gpu[01-14] Default=NO State=DOWN \
DefaultTime=01:00:00 MaxTime=7-00:00:00
END
}

write_slurmdbd_conf() {
    write_once "$state/etc/slurmdbd.conf" "$slurm_user:" 0600 <<END
AuthType=auth/munge
AuthInfo=socket=$state/run/munge/munge.socket
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$(dbd_port)
SlurmUser=$slurm_user
PidFile=$state/run/slurm/slurmdbd.pid
PrivateData=jobs,usage
DebugLevel=info
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm_acct
StorageUser=$slurm_user
END
}

write_gres_conf() {
    write_once "$state/etc/gres.conf" root: 0644 <<END
Name=gpu Type=v100 File=$state/dev/nvidia[0-7]
END
}

# Slurm before 23 has no "disabled"; its cgroup/v1 does nothing when no other
# plugin asks for cgroups.
write_cgroup_conf() {
    local plugin=disabled
    if (($(slurm_version) < 2300)); then plugin=cgroup/v1; fi
    write_once "$state/etc/cgroup.conf" root: 0644 <<<"CgroupPlugin=$plugin"
}

write_munge_key() {
    local key=$state/etc/munge.key
    if [[ -e $key ]]; then return 0; fi
    rm -f "$key.new"
    (umask 077 && mungekey -c -k "$key.new")
    chown munge: "$key.new"
    chmod 0400 "$key.new"
    mv "$key.new" "$key"
}

# Device files that do nothing stand for the cards; plain files do where
# devices can't be made.
make_devices() {
    local i device
    for i in 0 1 2 3 4 5 6 7; do
        device=$state/dev/nvidia$i
        if [[ -e $device ]]; then continue; fi
        mknod -m 0666 "$device" c 1 3 2>/dev/null || : >"$device"
    done
}

make_folders() {
    local i
    install -d -m 0755 "$state" "$state/etc" "$state/run" "$state/log" \
        "$state/dev" "$state/slurm"
    install -d -m 0755 -o munge -g munge "$state/run/munge"
    install -d -m 0700 -o munge -g munge "$state/run/munge-seed"
    install -d -m 0755 -o "$slurm_user" "$state/run/slurm"
    install -d -m 0755 -o mysql -g mysql "$state/run/mysql"
    install -d -m 0700 -o mysql -g mysql "$state/mysql"
    ln -sfn mysql/mysql.sock "$state/run/mysql.sock"
    install -d -m 0700 -o "$slurm_user" "$state/slurm/ctld"
    for i in "${nodes[@]}"; do install -d -m 0755 "$state/slurm/spool-$i"; done
}

write_files() {
    write_munge_key
    make_devices
    write_slurmdbd_conf
    write_gres_conf
    write_cgroup_conf
    write_slurm_conf
}
