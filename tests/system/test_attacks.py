# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hostile person tried, and what it may cost: himself."""
import contextlib
import os
import signal
import subprocess
import threading
import time

import pytest

from site_under_test import Person, run, seconds_of, wait_for

KILL_ALL = """
import os, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    try:
        os.kill(-1, 9)
    except OSError:
        pass
"""

# A person can trace his worker before it is not dumpable any more, and speak in
# its place. Here a wrapper does, for alice alone.
WORKER = """#!/usr/bin/python3
import json, os, socket, sys
REAL = {real!r}
if sys.argv[1:2] != ["worker"] or os.getuid() != {uid}:
    os.execv(REAL, ["sluice-slurm"] + sys.argv[1:])
s = socket.socket(fileno=3)
s.setblocking(True)
while True:
    data = s.recv(70000)
    if not data:
        break
    ask = json.loads(data)
    send = lambda o: s.send(json.dumps(o, separators=(",", ":")).encode())
    send({{"v": 1, "event": "stage", "request": ask["request"],
          "stage": "sending"}})
    {then}
"""
LONG = """
    answer = {"v": 1, "event": "result", "request": ask["request"], "ok": True,
              "result": {"job_id": 777777, "script_sha256": "0" * 64,
                         "limits": {"p": ""}, "warning": None, "message": None}}
    room = 65536 - len(json.dumps(answer, separators=(",", ":")))
    answer["result"]["limits"]["p"] = "x" * room
    send(answer)
"""
DIE = """
    os._exit(1)
"""


@contextlib.contextmanager
def imitated(site, person, then):
    """Sluice-slurm workers of this person do `then` instead."""
    program = site.state / "libexec/sluice/sluice-slurm"
    real = program.with_name("sluice-slurm.real")
    program.rename(real)
    try:
        program.write_text(WORKER.format(real=str(real), uid=person.uid,
                                         then=then.strip()))
        program.chmod(0o755)
        end_workers(person)
        yield
    finally:
        real.replace(program)
        end_workers(person)


def end_workers(person):
    for pid in person.site.workers(person):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(1)


def slurm_name(job):
    return "gpu-canary." + job["id"].removeprefix("job_").lower()


def many_under(person, name, n=170):
    """n held jobs of this person under one name, by hand."""
    person.shell(
        f"cd /tmp; for i in $(seq {n}); do sbatch -Q -H -A research -p v100 "
        f"-J {name} -o /dev/null --wrap true & (( i % 8 )) || wait; done; wait")


def cancel_all(site, person):
    person.shell("scancel -u $(id -un)", check=False)
    wait_for(lambda: not site.slurm("squeue", "-h", "-u", person.account).stdout,
             60)


def booked_as_slurm_says(site, person, job, seconds=40):
    rows = site.sacct(job)
    want = sum(seconds_of(r) for r in rows)
    wait_for(lambda: person.status(job)["gpu_seconds"] == want, seconds)
    return want


def test_who_kills_his_workers_as_they_start_stops_nobody_else(site, alice, bob):
    """Between setresuid and the report of it a worker can already be killed by
    its person: that is not the spawner's own trouble."""
    mine = alice.finished("gpu-canary")
    his = bob.finished("gpu-canary")
    seconds = 30
    killer = subprocess.Popen(
        ["setpriv", f"--reuid={alice.account}", f"--regid={alice.account}",
         "--init-groups", "/usr/bin/python3", "-c", KILL_ALL, str(seconds)])
    end = time.monotonic() + seconds

    def hammer():
        person = Person(site, "alice")
        while time.monotonic() < end:
            person.get(f"/v1/jobs/{mine['id']}/logs")
            time.sleep(0.02)

    threads = [threading.Thread(target=hammer) for _ in range(2)]
    for t in threads:
        t.start()
    codes = []
    while time.monotonic() < end:
        time.sleep(3)
        codes.append(bob.get(f"/v1/jobs/{his['id']}/logs").status_code)
    for t in threads:
        t.join()
    killer.wait()
    assert set(codes) == {200}, codes
    # her own brake is hers: it passes
    wait_for(lambda: alice.get(f"/v1/jobs/{mine['id']}/logs").status_code == 200,
             60, 1)


def test_a_workers_long_answer_costs_one_request(site, alice, bob):
    with imitated(site, alice, LONG):
        bobs, people = [], [Person(site, "bob") for _ in range(6)]
        threads = [threading.Thread(
            target=lambda p=p: bobs.append(p.submit("gpu-canary")))
            for p in people]
        first = alice.submit("gpu-canary")
        for t in threads:
            t.start()
        alice.submit("gpu-canary")
        for t in threads:
            t.join()
    assert [a.status_code for a in bobs] == [201] * 6
    assert first.status_code in (202, 503), first.text
    # and the connection is not lost later, when the outcome is asked
    log = site.state / "log/sluiced.log"
    before = log.read_text().count("spawner_connected")
    time.sleep(5)
    assert log.read_text().count("spawner_connected") == before
    for a in bobs:
        bob.wait(a.json())


def test_many_jobs_of_one_name_dont_end_watch(site, alice, bob):
    with imitated(site, alice, DIE):
        lost = alice.submit("gpu-canary")
    assert lost.status_code == 202
    alice.get("/v1/me")
    job = alice.job("gpu-canary", {"hold_seconds": 5})
    running = alice.running(job)
    alice.shell(f"scontrol update jobid={running['slurm']['job_id']} name=foo")
    log = site.state / "log/sluiced.log"
    watch, lost_before = site.pid("watch"), log.read_text().count("watch_lost")
    try:
        many_under(alice, slurm_name(job))
        many_under(alice, slurm_name(lost.json()))
        end = time.monotonic() + 20
        while time.monotonic() < end:
            assert site.pid("watch") == watch
            time.sleep(0.5)
        assert log.read_text().count("watch_lost") == lost_before
        assert bob.finished("gpu-canary")["state"] == "COMPLETE"
    finally:
        cancel_all(site, alice)


@pytest.mark.parametrize("body", [
    '{"workflow": "gpu-canary", "secrets": {"CANARY_TOKEN": "SeCrEt4711\\u0000"}}',
    '{"workflow": "gpu-canary", "secrets": {"CANARY_TOKEN": "x" "SeCrEt4711"}}',
    '{"workflow": "gpu-canary", "secrets": {"CANARY_TOKEN" "SeCrEt4711"}}',
    '{"workflow": "gpu-canary", "secrets": {"CANARY_TOKEN": SeCrEt4711}}',
])
def test_a_syntax_error_repeats_no_secret(site, alice, body):
    answer = alice.post("/v1/jobs", data=body,
                        headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "SeCrEt4711" not in answer.text, answer.text
    assert b"SeCrEt4711" not in site.logs()


@pytest.mark.parametrize("new", ["innocent",
                                 "gpu-canary.01jz0000000000000000000000"])
def test_a_renamed_job_is_followed_and_booked(site, alice, new):
    job = alice.running(alice.job("gpu-canary", {"gpus": 2, "hold_seconds": 5}))
    alice.shell(f"scontrol update jobid={job['slurm']['job_id']} name={new}")
    end = alice.wait(job, seconds=60)
    assert end["state"] == "COMPLETE", end
    assert booked_as_slurm_says(site, alice, end) > 0


def test_two_jobs_that_swapped_names_are_each_booked(site, alice):
    x = alice.job("gpu-canary", {"gpus": 8, "hold_seconds": 8})
    y = alice.job("gpu-canary", {"gpus": 1, "hold_seconds": 8})
    x, y = alice.running(x), alice.running(y)
    alice.shell(f"scontrol update jobid={x['slurm']['job_id']} "
                f"name={slurm_name(y)} && scontrol update "
                f"jobid={y['slurm']['job_id']} name={slurm_name(x)}")
    for job in (x, y):
        end = alice.wait(job, seconds=60)
        assert end["slurm"]["job_id"] == job["slurm"]["job_id"]
        assert booked_as_slurm_says(site, alice, end) > 0


def test_a_requeue_after_the_end_is_noticed_and_booked(site, alice, auditor):
    job = alice.running(alice.job("gpu-canary", {"gpus": 4, "hold_seconds": 3}))
    number = job["slurm"]["job_id"]
    alice.shell(f"scontrol update jobid={number} requeue=1")
    first = alice.wait(job)["gpu_seconds"]
    alice.shell(f"scontrol requeue {number}")
    wait_for(lambda: len(site.sacct(job, closed=False)) == 2, 90, 1)
    wait_for(lambda: site.slurm("squeue", "-h", "-t", "PD,R,CG", "-j",
                                str(number), check=False).stdout == "", 90, 1)
    assert booked_as_slurm_says(site, alice, job) > first
    assert alice.status(job)["attempts"] == 2
    rows = auditor.get("/v1/audit", params={"job": job["id"]}).json()["rows"]
    assert any(r["code"] == "requeued_after_end" for r in rows)


def test_thousands_of_log_files_are_listed_in_bounds(site, alice):
    job = alice.finished("gpu-canary")
    folder = site.run_dir(alice, job)
    alice.shell(f"cd {folder} && seq -f 'stdout.%.0f.log' 60000 | xargs touch")
    try:
        answer = alice.get(f"/v1/jobs/{job['id']}/artifacts")
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["artifacts"]) <= 1100
    finally:
        run(["find", str(folder), "-name", "stdout.*.log", "-delete"])


def test_who_stops_his_workers_delays_nobody_else(site, alice, bob):
    stopper = subprocess.Popen(
        ["setpriv", f"--reuid={alice.account}", f"--regid={alice.account}",
         "--init-groups", "/usr/bin/python3", "-c",
         KILL_ALL.replace("-1, 9", "-1, 19"), "8"])
    time.sleep(0.5)
    people = [Person(site, "alice") for _ in range(60)]
    threads = [threading.Thread(target=p.submit, args=("gpu-canary",))
               for p in people]
    try:
        for t in threads:
            t.start()
        time.sleep(1)
        start = time.monotonic()
        answer = bob.submit("gpu-canary")
        assert answer.status_code == 201, answer.text
        assert time.monotonic() - start < 5
    finally:
        stopper.kill()
        stopper.wait()
        end_workers(alice)
        for t in threads:
            t.join()
    wait_for(lambda: alice.submit("gpu-canary").status_code == 201, 90, 2)
