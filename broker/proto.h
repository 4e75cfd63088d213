/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * THE WIRE between our processes. Every frame is a JSON object (base/wire.h),
 * at most 64 KiB, unknown keys refused, type checked before content.
 *
 * 1. sluiced -> sluice-spawnd   (run/spawn/spawn.sock, SOCK_SEQPACKET, 0660
 *    sluice-spawn:sluice; SO_PEERCRED uid = sluice for verbs, 0 for `admin`)
 *
 *    {"v":1, "request":"<ULID>", "ulid":"<ULID>"|null,
 *     "actor":"<person>"|"system", "token":"<JWT>"|null,
 *     "verb":"submit", "args":{...}, "generation":"<sha256>"}  [+ 1 fd]
 *
 *    request is unique per connection and names the answer. There is never a
 *    uid, a path of the host, an environment or a script in it.
 *
 *    verb       args                                    fd   actor
 *    plan       {workflow, params, secrets:[names]}     w    person
 *    submit     {workflow, params, secrets:{n:v}}       -    person
 *    finish     {}                                      w    system
 *    cancel     {}     (system only where watch's word supports it)
 *    hold       {}                                      -    person|system
 *    release    {}                                      -    person
 *    log        {stream:"stdout"|"stderr", attempt:0.., w    person
 *                offset, limit}
 *    artifacts  {}                                      w    person
 *    artifact   {path, offset, limit}                   w    person
 *    outcome    {}                                      -    system
 *
 *    {"v":1, "watch":true}   another watch peer socket, please: the last one
 *    was lost (watch drops a peer that is slow to read). Answered by the event
 *    "watch", now or when there is a watch.
 *
 *    "w": the write end of the request's pipe: script, receipts, log and
 *    artifact bytes go there, never through a frame. The worker closes it at
 *    the end, before its result frame.
 *
 * 2. sluice-spawnd -> sluiced
 *
 *    {"v":1,"event":"hello","generation":"<sha256>","mode":"people"|"self"}
 *    {"v":1,"event":"watch"}                      + fd: the watch peer socket
 *    {"v":1,"event":"stage","request":R,"stage":"init"|"sending"}
 *    {"v":1,"event":"result","request":R,"ok":true,"result":{...}}
 *    {"v":1,"event":"result","request":R,"ok":false,"stage":S,"error":{...}}
 *       S = "none" (refused by the spawner, nothing started), "init" (a worker
 *       had it; nothing was sent to slurmctld) or "sending" (sent, or perhaps:
 *       for a submit the outcome is unknown). error as wire_err_put.
 *
 *    results:
 *    plan      {script_sha256, limits:{...}, account, qos, start_estimate|null,
 *               will_run:bool, slurm_error:{...}|null}   script on the pipe
 *    submit    {job_id, script_sha256, limits:{...}, run_dir_created:true,
 *               paths:[{param,index,bytes}], warning:{code,name,text}|null,
 *               message|null}          (a claim until watch confirms it)
 *    finish    {sidecar:"removed"|"absent"|"failed", receipts:[{path,bytes,
 *               sha256,truncated}], missing:[pattern], failure:{code,en,zh,
 *               error_class}|null}   receipts' bytes on the pipe, in order, at
 *               most PROTO_RECEIPT_MAX each
 *    cancel hold release   {already:bool}
 *    log       {size, offset, bytes, attempt}
 *    artifacts {count}  a JSON array [{path,bytes,mtime}] on the pipe
 *    artifact  {size, offset, bytes}
 *    outcome   {known:false} | {known:true, running:true}
 *              | {known:true, running:false, answer:<kept result frame>|null}
 *
 * 3. sluice-spawnd <-> worker (fd 3, socketpair; fd 4 is the catalog folder)
 *
 *    {"v":1,"request":R,"verb":V,"ulid":U|null,"args":{...},
 *     "person":{name,account,home,shell,slurm_account,qos},
 *     "job":{workflow,job_id,submit_time,name,uid}|null}  [+ the request's fd]
 *    Answers: stage and result frames of 2., without "hello" and "watch".
 *    verbs of sluice-files:  check prepare finish log artifacts artifact
 *       check    {workflow,params}          -> {paths:[...]}
 *       prepare  {workflow,params,secrets}  -> {script_sha256, paths:[...],
 *                                               has_sidecar}
 *    verbs of sluice-slurm worker:  plan submit cancel hold release
 *       plan     {workflow,params,has_sidecar}
 *       submit   {workflow,params,has_sidecar}
 *    The spawner does `check` then `plan`, and `prepare` then `submit`, and
 *    merges the results.
 *
 * 4. watch (fd 3 to the spawner; peers arrive there as {"event":"peer"} + fd)
 *
 *    watch -> spawner and every peer:
 *    {"v":1,"event":"poll","at_ms":T,"slurmctld":bool,"slurmdbd":bool,
 *     "error":{...}|null,"jobs":N,"took_ms":N,"message_timeout_seconds":N}
 *    {"v":1,"event":"job","at_ms":T,"job":JOB}     first sight and each change
 *    {"v":1,"event":"gone","at_ms":T,"job_id":N,"name":S,"submit_time":T}
 *    {"v":1,"event":"synced"}    to a new peer, after a full snapshot
 *    JOB = {job_id, name, uid, submit_time, state, flags:[...], state_number,
 *      reason, start_time|null, end_time|null, eligible_time|null,
 *      exit_code|null, exit_signal|null, restarts, partition, account, qos,
 *      nodes, node_list, tres_alloc, tres_req, time_limit_seconds|null,
 *      script_sha256|null, comment, priority_held:bool}
 *    Only jobs whose name is one of ours (id_slurm_name_parse) are told.
 *    state: Slurm's base state word (PENDING RUNNING SUSPENDED COMPLETED
 *      CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE
 *      OUT_OF_MEMORY); flags: COMPLETING REQUEUED CONFIGURING ...
 *
 *    spawner or peer -> watch, answered in order of completion:
 *    {"v":1,"ask":"job","id":"x","job_id":N}
 *    {"v":1,"ask":"find","id":"x","uid":N,"name":S,"since":T}
 *    {"v":1,"ask":"accounting","id":"x","job_id":N,"uid":N,"name":S,"since":T,
 *     "until":T}   until, optional: the last submit time seen of it; a row of
 *     another name of ours counts up to there (its owner renamed the job)
 *    {"v":1,"event":"answer","id":"x","slurmctld":{"ok":bool,"jobs":[JOB]},
 *     "slurmdbd":{"ok":bool,"rows":[ROW]}}   a source not asked is null
 *    ROW = {db_index:"text", job_id, name, uid, submit, start|null, end|null,
 *      eligible|null, state, state_number, exit_code, exit_signal, account,
 *      partition, qos, nodes, node_list, tres_alloc:{"gres/gpu":N,...} by
 *      name, tres_req:{...}, suspended_seconds, restarts|null, cluster}
 *
 * 5. sluice-verify --config FILE GENERATION
 *    (fd 0: socketpair to the spawner, SOCK_SEQPACKET, read and written; uid
 *    and group as the spawner's, no capabilities; ends with its peer. Keys:
 *    those of GENERATION; revocations: keys/revoked.json, looked at each time)
 *    {"v":1,"id":"x","token":"<JWT>"} ->
 *    {"v":1,"id":"x","ok":true,"person":S,"token_id":S,"roles":[...],
 *     "workflows":[...],"gpus":N,"expires_at":T} | {...,"ok":false,"error":{}}
 *
 * 6. sluice-resolve --config FILE GENERATION
 *    (uid and group as the spawner's, no capabilities) writes one frame's worth
 *    of JSON on fd 1, in one write(2), and ends with 0; any other end: nothing
 *    was resolved.
 *    {"v":1,"accounts":{"<account>":{"uid":N,"gid":N,"groups":[N],"home":S,
 *     "shell":S} | {"error":S}}}
 *    error: account_unknown account_lookup (NSS failed: keep what was known)
 *     account_uid account_service account_shell account_group account_expired
 *     account_home account_self account_too_large account_not_member
 *
 * 7. root -> sluice-spawnd / sluiced admin sockets
 *    {"v":1,"admin":"load","id":"<sha256>"}    -> {"v":1,"ok":bool,"error"}
 *    {"v":1,"admin":"switch","id":"<sha256>"}  -> likewise
 *    {"v":1,"admin":"status"}                  -> {"v":1,"ok":true,...}
 */
#ifndef BROKER_PROTO_H
#define BROKER_PROTO_H

enum {
    PROTO_VERSION = 1,
    PROTO_RECEIPT_MAX = 64 * 1024,
    PROTO_RECEIPTS_MAX = 64,
    PROTO_LOG_MAX = 1024 * 1024,    /* limit of one log read */
    PROTO_ACCOUNT_GROUPS_MAX = 128, /* sluice-resolve refuses who is over */
    PROTO_ACCOUNT_TEXT_MAX = 255,   /* home, shell: likewise */
    PROTO_FD_CONTROL = 3,           /* in a worker, and in watch */
    PROTO_FD_CATALOG = 4
};

enum proto_verb {
    VERB_PLAN,
    VERB_SUBMIT,
    VERB_FINISH,
    VERB_CANCEL,
    VERB_HOLD,
    VERB_RELEASE,
    VERB_LOG,
    VERB_ARTIFACTS,
    VERB_ARTIFACT,
    VERB_OUTCOME,
    VERB_CHECK,
    VERB_PREPARE,
    VERB_COUNT
};
const char *proto_verb_name(enum proto_verb v);
int proto_verb_parse(const char *name); /* enum proto_verb, or -1 */

enum proto_stage { STAGE_NONE, STAGE_INIT, STAGE_SENDING };
const char *proto_stage_name(enum proto_stage s);
int proto_stage_parse(const char *name);

#endif
