#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives sluice-slurm and sluice-files against a running fleet.

usage: slurm_drive.py --bin DIR --fleet DIR --account A --operator OP
                      [--other B] [--unknown U] [--slow]

A and OP must have associations (OP: Operator); B likewise, U none. --slow adds
the tests that stop slurmctld and slurmdbd of that fleet. Prints one line a
check and, last, the counts."""
import argparse
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_spawner as sp  # noqa: E402

TEMPLATE = """
printf 'out %s\\n' "$SLUICE_P_text"
echo err >&2
env | sort >"$SLUICE_RESULTS_DIR/env.txt"
printf '{"ok":true,"gpus":"%s"}' "$SLUICE_P_gpus" | sluice_receipt done.json
sleep "$SLUICE_P_seconds"
"""

RESOURCES = {"partition": "v100", "nodes": 1, "tasks": 1, "tasks_per_node": 1,
             "cpus_per_task": 1, "mem_per_node": "512M",
             "gpus_per_node": {"type": "v100", "count": {"param": "gpus"}},
             "time": "00:02:30", "requeue": False}
PARAMS = {"gpus": {"type": "integer", "min": 1, "max": 8, "default": 2},
          "seconds": {"type": "integer", "min": 0, "max": 600, "default": 0},
          "text": {"type": "string", "max_bytes": 100, "default": "x y"},
          "input": {"type": "path", "under": "inputs", "exists": "file",
                    "max_bytes": 200, "optional": True}}


def workflow(**changes):
    w = {"title": {"en": "drive", "zh": "试"}, "template": "drive.sh",
         "allow": {"groups": [], "users": ["*"], "tags": []},
         "resources": dict(RESOURCES), "params": dict(PARAMS),
         "secrets": ["TOKEN"], "modules": [],
         "environment": {"PATH": "/usr/bin:/bin"}, "share": "none",
         "receipts": ["done.json"]}
    w["allow"]["users"] = ["drive"]
    w["resources"].update(changes.pop("resources", {}))
    w.update(changes)
    return w


WORKFLOWS = {
    "drive": workflow(),
    "drive-partition": workflow(resources={"partition": "nosuch"}),
    "drive-account": workflow(resources={"account": "nosuch"}),
    "drive-qos": workflow(resources={"qos": "nosuch"}),
    "drive-time": workflow(resources={"time": "8-00:00:00"}),
    "drive-many": workflow(resources={"nodes": 99}),
    "drive-type": workflow(resources={"gpus_per_node":
                                      {"type": "a100", "count": 1}}),
    "drive-missing": workflow(receipts=["absent.json", "d*.json"]),
}


class Drive:
    def __init__(self, args):
        self.args = args
        self.conf = os.path.join(args.fleet, "etc/slurm.conf")
        with open(self.conf) as f:
            text = f.read()
        self.cluster = re.search(r"^ClusterName=(\S+)", text, re.M).group(1)
        self.passed = self.failed = 0
        self.workers = []
        self.top = tempfile.mkdtemp(prefix="slt-drive-", dir="/var/lib")
        self.make_site()

    def make_site(self):
        os.chmod(self.top, 0o755)
        self.site = {"cluster": self.cluster}
        for name in ("jobs", "inputs", "models"):
            self.site[name] = os.path.join(self.top, name)
            os.mkdir(self.site[name], 0o755)
        open(os.path.join(self.site["jobs"], ".sluice-jobs-root"), "w").close()
        with open(os.path.join(self.site["inputs"], "in.txt"), "w") as f:
            f.write("12345")
        for account in filter(None, (self.args.account, self.args.other,
                                     self.args.unknown)):
            folder = os.path.join(self.site["jobs"], account)
            os.mkdir(folder, 0o700)
            entry = pwd.getpwnam(account)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            os.chmod(folder, 0o700)
        self.catalog = os.path.join(self.top, "catalog")
        templates = os.path.join(self.catalog, "templates")
        os.makedirs(templates)
        here = os.path.dirname(os.path.abspath(__file__))
        shutil.copy(os.path.join(here, "../../templates/prelude.sh"),
                    templates)
        with open(os.path.join(templates, "drive.sh"), "w") as f:
            f.write(TEMPLATE)
        with open(os.path.join(self.catalog, "workflows.json"), "w") as f:
            json.dump({"version": 1, "workflows": WORKFLOWS}, f)

    def worker(self, kind, account=None):
        w = sp.Worker(os.path.join(self.args.bin, kind),
                      account or self.args.account, self.site, self.catalog,
                      self.conf)
        self.workers.append(w)
        return w

    def check(self, name, good, shown=None):
        if good:
            self.passed += 1
        else:
            self.failed += 1
        extra = "" if shown is None and good else f"  {shown}"
        print(("ok   " if good else "FAIL ") + name + extra, flush=True)

    def sacct(self, *argv):
        env = {"SLURM_CONF": self.conf, "PATH": "/usr/bin:/bin"}
        return subprocess.run(argv, env=env, capture_output=True,
                              text=True).stdout

    def pid(self, part):
        for path in (f"run/{part}.pid", f"run/slurm/{part}.pid"):
            full = os.path.join(self.args.fleet, path)
            if os.path.exists(full):
                return int(open(full).read().split()[0])
        raise FileNotFoundError(part)

    # --- the checks -------------------------------------------------------

    def submit(self, files, slurm, name="drive", params=None, secrets=None):
        u = sp.ulid()
        p, _, _ = files.ask("prepare", {"workflow": name,
                                        "params": params or {},
                                        "secrets": secrets}, u)
        if not p["ok"]:
            return u, p, None, []
        s, stages, _ = slurm.ask("submit", {
            "workflow": name, "params": params or {},
            "has_sidecar": p["result"]["has_sidecar"]}, u)
        return u, p, s, stages

    def job(self, u, s=None, name="drive", submit_time=None, uid=None):
        return {"workflow": name, "name": sp.job_name(name, u),
                "job_id": s["result"]["job_id"] if s else None,
                "submit_time": submit_time,
                "uid": self.workers[0].uid if uid is None else uid}

    def plan(self, files, slurm):
        p, _, script = slurm.ask("plan", {"workflow": "drive", "params": {},
                                          "has_sidecar": False}, pipe=True)
        self.check("plan: will run", p["ok"] and p["result"]["will_run"], p)
        r = p["result"]
        self.check("plan: script digest", hashlib.sha256(script).hexdigest()
                   == r["script_sha256"])
        self.check("plan: default account and qos are known",
                   r["account"] is not None and r["qos"] == "normal",
                   (r["account"], r["qos"]))
        self.check("plan: start estimate is near", r["start_estimate"] and
                   abs(r["start_estimate"] - time.time()) < 400,
                   r["start_estimate"])
        for name, code in (("drive-partition", "slurm_invalid_partition"),
                           ("drive-many", "slurm_too_many"),
                           ("drive-time", "slurm_")):
            p, _, _ = slurm.ask("plan", {"workflow": name, "params": {},
                                         "has_sidecar": False}, pipe=True)
            e = p["result"]["slurm_error"]
            # Without EnforcePartLimits Slurm plans a time over the limit.
            self.check(f"plan: {name} is refused in the answer", p["ok"] and
                       (not p["result"]["will_run"] or name == "drive-time"),
                       e)
        c, _, _ = files.ask("check", {"workflow": "drive",
                                      "params": {"input": "in.txt"}})
        self.check("check: path", c["ok"] and c["result"]["paths"] ==
                   [{"param": "input", "index": None, "bytes": 5}], c)
        c, _, _ = files.ask("check", {"workflow": "drive",
                                      "params": {"input": "no.txt"}})
        self.check("check: missing path", not c["ok"] and
                   c["error"]["code"] == "path_missing" and
                   c["error"]["pointer"] == "/params/input", c)

    def refusals(self, files, slurm):
        for name, code in (("drive-partition", "slurm_invalid_partition"),
                           ("drive-account", "slurm_invalid_account"),
                           ("drive-qos", "slurm_invalid_qos"),
                           ("drive-type", None)):
            u, p, s, stages = self.submit(files, slurm, name)
            good = s is not None and not s["ok"] and \
                s["error"]["class"] == "slurm" and \
                (code is None or s["error"]["code"] == code)
            self.check(f"submit: {name} is a definite no", good,
                       s and s.get("error") or p)
        for name in ("drive-time", "drive-many"):
            u, p, s, stages = self.submit(files, slurm, name)
            self.check(f"submit: {name} is a warning, or a no",
                       s["ok"] and s["result"]["warning"] is not None or
                       not s["ok"], s.get("error") or s["result"]["warning"])
            if s["ok"]:
                slurm.ask("cancel", {}, u, self.job(u, s, name))

    def life(self, files, slurm, watch):
        """A job from end to end, with a secret; its numbers."""
        u, p, s, stages = self.submit(files, slurm, params={"seconds": 3},
                                      secrets={"TOKEN": "s3cret"})
        self.check("submit: accepted", s and s["ok"], s or p)
        self.check("submit: stages", stages == ["init", "sending"], stages)
        self.check("submit: same script from both workers",
                   p["result"]["script_sha256"] ==
                   s["result"]["script_sha256"])
        job_id, name = s["result"]["job_id"], sp.job_name("drive", u)
        a = watch.ask("job", job_id=job_id)
        told = a["slurmctld"]["jobs"]
        self.check("watch: asked at once, name, uid and digest agree",
                   len(told) == 1 and told[0]["name"] == name and
                   told[0]["uid"] == slurm.uid and
                   told[0]["script_sha256"] == s["result"]["script_sha256"],
                   told)
        self.check("watch: limits as sent",
                   told[0]["time_limit_seconds"] == 180 and
                   told[0]["account"] is not None and
                   told[0]["qos"] == "normal" and told[0]["nodes"] == 1,
                   told[0])
        run = os.path.join(self.site["jobs"], self.args.account, u)
        self.check("prepare: modes", oct(os.stat(run).st_mode)[-4:] == "0700"
                   and all(oct(os.stat(os.path.join(run, f)).st_mode)[-3:] ==
                           "600" for f in ("script.sh", "params.json",
                                           "secrets.env")))
        end = watch.next(lambda f: f["event"] == "job" and
                         f["job"]["job_id"] == job_id and
                         f["job"]["state"] == "COMPLETED" and
                         "COMPLETING" not in f["job"]["flags"], 60)["job"]
        self.check("watch: ended well, TRES by name", end["exit_code"] == 0 and
                   end["tres_alloc"].get("gres/gpu:v100") == 2 and
                   end["tres_alloc"].get("gres/gpu") == 2 and
                   end["tres_alloc"].get("mem") == 512, end["tres_alloc"])
        job = self.job(u, s)
        f1, _, data = files.ask("finish", {}, u, job, pipe=True)
        # requeue: false, so the prelude's EXIT trap has removed it already.
        self.check("finish: no sidecar, the receipt", f1["ok"] and
                   f1["result"]["sidecar"] == "absent" and
                   f1["result"]["missing"] == [] and
                   f1["result"]["failure"] is None and
                   data == b'{"ok":true,"gpus":"2"}', (f1, data))
        f2, _, _ = files.ask("finish", {}, u, job, pipe=True)
        self.check("finish: idempotent", f2["ok"] and
                   f2["result"]["sidecar"] == "absent" and
                   f2["result"]["receipts"] == f1["result"]["receipts"], f2)
        log, _, data = files.ask("log", {"stream": "stdout", "attempt": 0,
                                         "offset": 0, "limit": 1000}, u, job,
                                 pipe=True)
        self.check("log: text", data == b"out x y\n" and
                   log["result"]["size"] == 8, (log, data))
        self.check("log: mode 0600", oct(os.stat(os.path.join(
            run, "stdout.log")).st_mode)[-3:] == "600")
        files.ask("artifacts", {}, u, job, pipe=True)
        _, _, data = files.ask("artifacts", {}, u, job, pipe=True)
        self.check("artifacts: list", [r["path"] for r in json.loads(data)] ==
                   ["results/done.json", "results/env.txt", "stderr.log",
                    "stdout.log"], data)
        self.accounting(watch, u, s, end)

    def accounting(self, watch, u, s, end):
        job_id, name = s["result"]["job_id"], sp.job_name("drive", u)
        since = end["submit_time"] - 60
        for _ in range(30):
            a = watch.ask("accounting", job_id=job_id, name=name,
                          uid=self.workers[0].uid, since=since)
            rows = a["slurmdbd"]["rows"]
            if rows and rows[-1]["end"]:
                break
            time.sleep(1)
        r = rows[-1]
        out = self.sacct("sacct", "-nPX", "-j", str(job_id), "-o",
                         "ElapsedRaw,AllocTRES,State,Account,QOS").strip()
        elapsed, tres, state, account, qos = out.split("|")
        self.check("accounting: row equals sacct's",
                   r["end"] - r["start"] == int(elapsed) and
                   r["state"] == state and r["account"] == account and
                   r["qos"] == qos and
                   f"gres/gpu:v100={r['tres_alloc']['gres/gpu:v100']}" in tres
                   and r["tres_alloc"]["gres/gpu"] == 2, (r, out))
        a = watch.ask("find", uid=self.workers[0].uid, name=name, since=since)
        self.check("find: both sources have it",
                   len(a["slurmctld"]["jobs"]) == 1 and
                   len(a["slurmdbd"]["rows"]) == 1, a)
        a = watch.ask("find", uid=self.workers[0].uid + 1, name=name,
                      since=since)
        self.check("find: another uid's name is not found",
                   a["slurmctld"] == {"ok": True, "jobs": []} and
                   a["slurmdbd"] == {"ok": True, "rows": []}, a)
        a = watch.ask("accounting", job_id=job_id, name=name,
                      uid=self.workers[0].uid, since=since + 7200)
        self.check("accounting: an older row of the same id is another job's",
                   a["slurmdbd"] == {"ok": True, "rows": []}, a)

    def control(self, files, slurm, watch):
        u, p, s, _ = self.submit(files, slurm, params={"seconds": 300})
        job = self.job(u, s)
        c, stages, _ = slurm.ask("cancel", {}, u, job)
        self.check("cancel", c["ok"] and c["result"] == {"already": False} and
                   stages == ["sending"], c)
        end = watch.next(lambda f: f["event"] == "job" and f["job"]["job_id"]
                         == s["result"]["job_id"] and f["job"]["state"] ==
                         "CANCELLED" and not f["job"]["flags"], 40)["job"]
        c, _, _ = slurm.ask("cancel", {}, u, job)
        self.check("cancel: again", c["ok"] and c["result"]["already"], c)
        wrong = dict(job, name=sp.job_name("drive", sp.ulid()))
        c, _, _ = slurm.ask("cancel", {}, u, wrong)
        self.check("cancel: another name of the same id is not it",
                   c["ok"] and c["result"]["already"], c)
        wrong["uid"] = slurm.uid + 1
        c, _, _ = slurm.ask("cancel", {}, u, wrong)
        self.check("cancel: another's job is refused", not c["ok"] and
                   c["error"]["code"] == "worker_identity", c)
        wrong = self.job(sp.ulid())
        c, _, _ = slurm.ask("cancel", {}, u, wrong)
        self.check("cancel: an unknown name is not found", not c["ok"] and
                   c["error"]["code"] == "slurm_job_not_found", c)
        self.hold(files, slurm, watch)

    def hold(self, files, slurm, watch):
        fill = [self.submit(files, slurm, params={"gpus": 8, "seconds": 60})
                for _ in range(15)]
        u, p, s, _ = fill[-1]
        job = self.job(u, None)  # by name
        for verb, wants in (("hold", True), ("release", False)):
            r, _, _ = slurm.ask(verb, {}, u, job)
            self.check(f"{verb}: by exact name", r["ok"] and
                       r["result"] == {"already": False}, r)
            r, _, _ = slurm.ask(verb, {}, u, job)
            self.check(f"{verb}: again", r["ok"] and r["result"]["already"], r)
            a = watch.ask("job", job_id=s["result"]["job_id"])
            j = a["slurmctld"]["jobs"][0]
            self.check(f"{verb}: seen by watch", j["priority_held"] == wants
                       and j["state"] == "PENDING", (j["reason"],
                                                     j["priority_held"]))
        first = fill[0][2]["result"]["job_id"]
        watch.next(lambda f: f["event"] == "job" and f["job"]["job_id"] ==
                   first and f["job"]["state"] == "RUNNING", 20)
        r, _, _ = slurm.ask("hold", {}, fill[0][0],
                            self.job(fill[0][0], fill[0][2]))
        self.check("hold: a running job", not r["ok"] and
                   r["error"]["code"] == "job_not_pending", r)
        for u, p, s, _ in fill:
            r, _, _ = slurm.ask("cancel", {}, u, self.job(u, s))
            if not r["ok"]:
                self.check("cancel of the filling", False, r)

    def failure(self, files, slurm, watch):
        u, p, s, _ = self.submit(files, slurm, "drive-missing")
        watch.next(lambda f: f["event"] == "job" and f["job"]["job_id"] ==
                   s["result"]["job_id"] and f["job"]["state"] == "FAILED",
                   60)
        f, _, data = files.ask("finish", {}, u,
                               self.job(u, s, "drive-missing"), pipe=True)
        self.check("finish: missing receipt, the prelude's sentence",
                   f["ok"] and f["result"]["missing"] == ["absent.json"] and
                   f["result"]["failure"]["error_class"] == "receipt" and
                   len(f["result"]["receipts"]) == 1, f)

    def strangers(self, watch):
        if self.args.unknown:
            files = self.worker("sluice-files", self.args.unknown)
            slurm = self.worker("sluice-slurm", self.args.unknown)
            u, p, s, _ = self.submit(files, slurm)
            self.check("no association: a definite no", not s["ok"] and
                       s["error"]["class"] == "slurm", s)
        if self.args.other:
            files = self.worker("sluice-files", self.args.other)
            mine = self.worker("sluice-files")
            r, _, _ = mine.ask("prepare", {"workflow": "drive", "params": {}},
                               "0" * 26)
            r2, _, _ = mine.ask("prepare", {"workflow": "drive",
                                            "params": {}}, "0" * 26)
            self.check("prepare: the second of a ULID is refused", r["ok"] and
                       r2["error"]["code"] == "run_exists", r2)
            files.person["account"] = self.args.account
            r, _, _ = files.ask("artifacts", {}, "0" * 26,
                                self.job("0" * 26, uid=files.uid), pipe=True)
            self.check("another's folder is refused", not r["ok"] and
                       r["error"]["code"] == "account_folder", r)

    def peers(self, watch, slurm, files):
        one = watch.peer()
        one.settimeout(20)
        seen = []
        while not seen or seen[-1]["event"] != "synced":
            seen.append(json.loads(one.recv(1 << 17)))
        self.check("peer: snapshot, then synced",
                   len([f for f in seen if f["event"] == "job"]) > 10,
                   len(seen))
        one.sendall(json.dumps({"v": 1, "ask": "job", "id": "p",
                                "job_id": 999999}).encode())
        while seen[-1]["event"] != "answer":
            seen.append(json.loads(one.recv(1 << 17)))
        self.check("peer: an unknown id is an empty, true answer",
                   seen[-1]["slurmctld"] == {"ok": True, "jobs": []}, seen[-1])
        one.sendall(b'{"v":1,"event":"peer"}')
        gone = False
        try:
            while one.recv(1 << 17):
                pass
            gone = True
        except OSError as e:
            gone = isinstance(e, ConnectionError)
        self.check("peer: one that is no spawner and hands in peers is dropped",
                   gone)

    def speed(self, files, slurm):
        """Warm submits, and what the pieces take."""
        prep, sub, ids = [], [], []
        for _ in range(60):
            t0 = time.perf_counter()
            u = sp.ulid()
            p, _, _ = files.ask("prepare", {"workflow": "drive",
                                            "params": {}}, u)
            t1 = time.perf_counter()
            s, _, _ = slurm.ask("submit", {"workflow": "drive", "params": {
                "seconds": 300}, "has_sidecar": False}, u)
            t2 = time.perf_counter()
            prep.append((t1 - t0) * 1e3)
            sub.append((t2 - t1) * 1e3)
            ids.append((u, s))
        cold, first = [], []
        for pause in (0, 0.2) * 5:
            u = sp.ulid()
            files.ask("prepare", {"workflow": "drive", "params": {}}, u)
            t0 = time.perf_counter()
            fresh = self.worker("sluice-slurm")
            time.sleep(pause)
            t1 = time.perf_counter() if pause else t0
            s, _, _ = fresh.ask("submit", {"workflow": "drive", "params": {},
                                           "has_sidecar": False}, u)
            (first if pause else cold).append((time.perf_counter() - t1) * 1e3)
            ids.append((u, s))
        print(f"     prepare median {statistics.median(prep):.2f} ms, submit "
              f"median {statistics.median(sub):.2f} ms; first submit of a "
              f"worker {statistics.median(first):.2f} ms, from fork "
              f"{statistics.median(cold):.2f} ms")
        t0 = time.perf_counter()
        for u, s in ids:
            slurm.ask("cancel", {}, u, self.job(u, s))
        print(f"     cancel {(time.perf_counter() - t0) * 1e3 / len(ids):.2f}"
              " ms each")

    def outages(self, files, slurm, watch):
        ctld, dbd = self.pid("slurmctld"), self.pid("slurmdbd")
        os.kill(ctld, signal.SIGSTOP)
        try:
            t0 = time.monotonic()
            fresh = self.worker("sluice-slurm")
            u, p, s, stages = self.submit(files, fresh)
            took = time.monotonic() - t0
            self.check("slurmctld stopped: unknown within 14 s, cold worker",
                       not s["ok"] and s["error"]["class"] == "unknown" and
                       s["error"]["code"] == "slurm_no_answer" and
                       s["stage"] == "sending" and took < 14, (s, took))
            f = watch.next(lambda f: f["event"] == "poll" and
                           not f["slurmctld"], 30)
            self.check("slurmctld stopped: watch says so", f["error"]["code"]
                       == "slurm_no_answer" and f["slurmdbd"], f)
            t0 = time.monotonic()
            a = watch.ask("accounting", job_id=1, name="x", uid=1, since=0,
                          timeout=40)
            self.check("slurmctld stopped: accounting answers",
                       a["slurmdbd"]["ok"], (a, time.monotonic() - t0))
        finally:
            os.kill(ctld, signal.SIGCONT)
        name = sp.job_name("drive", u)
        watch.next(lambda f: f["event"] == "poll" and f["slurmctld"], 30)
        a = watch.ask("find", uid=slurm.uid, name=name, since=0)
        self.check("after it continues: the unknown job is found by name",
                   len(a["slurmctld"]["jobs"]) == 1 and
                   a["slurmctld"]["jobs"][0]["script_sha256"] ==
                   p["result"]["script_sha256"], a)
        slurm.ask("cancel", {}, u, self.job(u))
        os.kill(dbd, signal.SIGSTOP)
        try:
            f = watch.next(lambda f: f["event"] == "poll" and
                           not f["slurmdbd"], 60)
            self.check("slurmdbd stopped: watch says so and polls on",
                       f["slurmctld"], f)
            polls = [watch.next(lambda f: f["event"] == "poll")
                     for _ in range(5)]
            gaps = [b["at_ms"] - a["at_ms"] for a, b in zip(polls, polls[1:])]
            self.check("slurmdbd stopped: a poll a second", max(gaps) < 1500,
                       gaps)
            a = watch.ask("accounting", job_id=1, name="x", uid=1, since=0)
            self.check("slurmdbd stopped: not ok, never an empty truth",
                       not a["slurmdbd"]["ok"], a)
        finally:
            os.kill(dbd, signal.SIGCONT)
        watch.next(lambda f: f["event"] == "poll" and f["slurmdbd"], 60)
        self.check("slurmdbd continues: watch says so", True)

    def run(self):
        watch = sp.Watch(os.path.join(self.args.bin, "sluice-slurm"),
                         self.args.operator, self.cluster, self.conf)
        watch.next(lambda f: f["event"] == "synced")
        files, slurm = self.worker("sluice-files"), self.worker("sluice-slurm")
        self.plan(files, slurm)
        self.refusals(files, slurm)
        self.life(files, slurm, watch)
        self.control(files, slurm, watch)
        self.failure(files, slurm, watch)
        self.strangers(watch)
        self.peers(watch, slurm, files)
        self.speed(files, slurm)
        if self.args.slow:
            self.outages(files, slurm, watch)
        for w in self.workers:
            self.check("worker ends well", w.end() == 0)
        self.check("watch ends well", watch.end() == 0)


def main():
    p = argparse.ArgumentParser()
    for name in ("--bin", "--fleet", "--account", "--operator"):
        p.add_argument(name, required=True)
    p.add_argument("--other")
    p.add_argument("--unknown")
    p.add_argument("--slow", action="store_true")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    drive = Drive(args)
    try:
        drive.run()
    finally:
        if not args.keep:
            shutil.rmtree(drive.top, ignore_errors=True)
        print(f"{drive.passed} passed, {drive.failed} failed")
    return 1 if drive.failed else 0


if __name__ == "__main__":
    sys.exit(main())
