# SPDX-License-Identifier: GPL-3.0-or-later
"""The running Sluice that system tests speak to, and its Slurm beside it."""
import contextlib
import json
import os
import pathlib
import pwd
import shlex
import signal
import subprocess
import time

import requests

ROOT = pathlib.Path(__file__).resolve().parents[2]
FINAL = {"COMPLETE", "ERROR", "CANCELED"}


def run(command, check=True, **kwargs):
    kwargs.setdefault("timeout", 1500)
    return subprocess.run(command, check=check, capture_output=True, text=True,
                          **kwargs)


def wait_for(what, seconds=30, every=0.2):
    """Call until it returns something true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        got = what()
        if got:
            return got
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(every)


class Person:
    def __init__(self, site, name):
        self.site, self.name = site, name
        self.account = "sluice-" + name
        self.token_file = site.token_file(name)
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = "Bearer " + self.token

    @property
    def token(self):
        return pathlib.Path(self.token_file).read_text().strip()

    @property
    def uid(self):
        return pwd.getpwnam(self.account).pw_uid

    def request(self, method, path, **kwargs):
        kwargs.setdefault("timeout", 70)
        return self.session.request(method, self.site.url + path, **kwargs)

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, **kwargs):
        return self.request("POST", path, **kwargs)

    def submit(self, workflow, params=None, secrets=None, **kwargs):
        body = {"workflow": workflow, "params": params or {}}
        if secrets:
            body["secrets"] = secrets
        return self.post("/v1/jobs", json=body, **kwargs)

    def job(self, workflow, params=None, secrets=None):
        """Submit; the document of the accepted job."""
        answer = self.submit(workflow, params, secrets)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def status(self, job):
        answer = self.get(f"/v1/jobs/{job['id']}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, job, until=lambda j: j["state"] in FINAL, seconds=90):
        end = time.monotonic() + seconds
        while True:
            now = self.status(job)
            if until(now):
                return now
            assert time.monotonic() < end, json.dumps(now, indent=1)
            time.sleep(0.3)

    def finished(self, workflow, params=None, secrets=None, seconds=90):
        return self.wait(self.job(workflow, params, secrets), seconds=seconds)

    def running(self, job, seconds=60):
        return self.wait(job, lambda j: j["state"] == "RUNNING" and
                         j["slurm"]["state"] == "RUNNING", seconds)

    def cli(self, *args, check=True, env=None, **kwargs):
        """The client as a person types it."""
        return run([str(self.site.state / "bin/sluice"), *args], check=check,
                   env={"PATH": os.environ["PATH"], "SLUICE_URL": self.site.url,
                        "SLUICE_TOKEN_FILE": str(self.token_file),
                        **(env or {})}, **kwargs)

    def shell(self, command, check=True):
        """A command line as this person's Unix account."""
        return run(["setpriv", f"--reuid={self.account}",
                    f"--regid={self.account}", "--init-groups", "--inh-caps=-all",
                    "env", "-i", "-C", "/", "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
                    f"SLURM_CONF={self.site.slurm_conf}",
                    "bash", "-c", command], check=check)


class Site:
    def __init__(self, state, quickstart):
        self.state, self.quickstart = pathlib.Path(state).resolve(), quickstart
        self.env = self._env()
        self.url = self.env["SLUICE_URL"]
        self.slurm_conf = self.env["SLURM_CONF"]
        self.jobs = self.state / "jobs"
        self.people = {}

    def _env(self):
        out = run(["bash", "-c", f". {shlex.quote(str(self.state))}/env && env -0"],
                  env={"PATH": os.environ["PATH"]}).stdout
        return dict(e.split("=", 1) for e in out.split("\0") if "=" in e)

    def token_file(self, name):
        variable = {"alice": "SLUICE_TOKEN_FILE"}.get(
            name, f"SLUICE_{name.upper()}_TOKEN_FILE")
        return self.env[variable]

    def person(self, name):
        return self.people.setdefault(name, Person(self, name))

    # --- Slurm's own word ---

    def slurm(self, *command, check=True, **kwargs):
        return run(list(command), check=check,
                   env={"PATH": os.environ["PATH"],
                        "SLURM_CONF": self.slurm_conf}, **kwargs)

    def sacct(self, job, fields="JobIDRaw,State,Start,End,AllocTRES,Submit",
              closed=True):
        """slurmdbd's rows of a job, duplicates included, as dicts."""
        def ask():
            out = self.slurm("sacct", "-D", "-X", "-n", "-P", "--noconvert",
                             "-o", fields, "-j", str(job["slurm"]["job_id"])
                             ).stdout
            rows = [dict(zip(fields.split(","), line.split("|")))
                    for line in out.splitlines()]
            done = rows and all(r.get("End") not in ("Unknown", "") and
                                r.get("State") not in ("RUNNING", "PENDING")
                                for r in rows)
            return rows if rows and (done or not closed) else None
        return wait_for(ask, 30)

    def run_dir(self, person, job):
        return self.jobs / person.account / job["id"].removeprefix("job_")

    # --- our processes ---

    def pid(self, name):
        return int((self.state / "run" / f"{name}.pid").read_text().split()[0])

    def workers(self, person, kinds=("sluice-slurm", "sluice-files")):
        """Pids of this person's workers that run this site's programs."""
        programs = {str(self.state / "libexec/sluice" / k).encode()
                    for k in kinds} | {k.encode() for k in kinds}
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                folder = pathlib.Path("/proc", entry)
                words = (folder / "cmdline").read_bytes().split(b"\0")
                mine = f"Uid:\t{person.uid}\t" in \
                    (folder / "status").read_text()
                exe = os.readlink(folder / "exe")
            except OSError:
                continue
            if mine and programs & set(words[:2]) and \
                    (exe.startswith(str(self.state)) or
                     str(self.state).encode() in b"\0".join(words)):
                found.append(int(entry))
        return found

    def signal(self, name, sig):
        os.kill(self.pid(name), sig)

    def restart(self):
        """Only what is missing is started again."""
        out = run(self.quickstart + ["--no-job"], check=False)
        assert out.returncode == 0, out.stdout + out.stderr
        wait_for(self.ready, 30)

    def ready(self):
        try:
            return requests.get(self.url + "/readyz", timeout=5
                                ).json().get("ready")
        except (requests.RequestException, ValueError):
            return False

    @contextlib.contextmanager
    def stopped(self, name):
        """SIGSTOP one part, and SIGCONT it whatever happens."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def logs(self):
        return b"".join(p.read_bytes() for p in self.state.glob("log/*")
                        if p.is_file())


def seconds_of(row):
    """GPU-seconds of one sacct row: typed GPUs x (End - Start)."""
    gpus = sum(int(v) for k, _, v in
               (t.partition("=") for t in row["AllocTRES"].split(","))
               if k.startswith("gres/gpu:"))
    if row["Start"] in ("Unknown", "None", ""):
        return 0
    start, end = (time.mktime(time.strptime(row[k], "%Y-%m-%dT%H:%M:%S"))
                  for k in ("Start", "End"))
    return int(gpus * max(0, end - start))
