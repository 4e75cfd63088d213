# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts die or hang in the middle of a submit: no job twice, none lost, right
again after the restart, and an answer in time.
"""
import calendar
import concurrent.futures
import os
import signal
import socket
import threading
import time

import pytest
import requests

from site_under_test import FINAL, ROOT, run, wait_for


def names_in_slurm(site, since):
    out = site.slurm("sacct", "-X", "-n", "-P", "-o", "JobName%80,JobIDRaw",
                     "-S", since).stdout
    return [line.split("|")[0] for line in out.splitlines()]


def test_slurmctld_stopped(site, alice):
    """202 and UNKNOWN within 15 s; status answers; one job after it goes on."""
    start = time.strftime("%Y-%m-%dT%H:%M:%S")
    with site.stopped("slurmctld"):
        before = time.monotonic()
        answer = alice.submit("gpu-canary")
        took = time.monotonic() - before
        assert answer.status_code == 202, answer.text
        assert took < 15
        job = answer.json()
        assert job["state"] == "UNKNOWN" and job["reason"]["zh"]
        wait_for(lambda: alice.status(job)["stale"], 20)
        before = time.monotonic()
        assert alice.get("/v1/jobs").status_code == 200
        assert time.monotonic() - before < 1
    done = alice.wait(job, seconds=120)
    assert done["state"] == "COMPLETE", done
    name = f"gpu-canary.{job['id'].removeprefix('job_').lower()}"
    assert names_in_slurm(site, start).count(name) == 1


@pytest.mark.parametrize("part", ["sluiced", "sluice-spawnd", "watch",
                                  "worker"])
def test_killed_in_the_middle_of_submits(site, alice, part):
    """20 submits with their keys; the part is killed among them; each key is
    sent again until it is answered: one Slurm job for each, never two; none
    only for a submit that was in flight then, and it says so."""
    start = time.strftime("%Y-%m-%dT%H:%M:%S")
    keys = [f"fault-{part}-{time.time_ns()}-{i}" for i in range(20)]
    alice.job("gpu-canary")  # a warm worker

    def post(key):
        for _ in range(120):
            try:
                answer = requests.post(
                    site.url + "/v1/jobs", timeout=30,
                    json={"workflow": "gpu-canary", "params": {}},
                    headers={"Idempotency-Key": key,
                             "Authorization": "Bearer " + alice.token})
            except requests.RequestException:
                time.sleep(0.5)
                continue
            if answer.status_code in (201, 202):
                return answer.json()["id"]
            time.sleep(0.5)
        pytest.fail(f"no answer for {key}: {answer.status_code} {answer.text}")

    def kill():
        time.sleep(0.05)
        for pid in victims(site, alice, part):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(1)
        if part in ("sluiced", "sluice-spawnd"):
            site.restart()
    killer = threading.Thread(target=kill)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        killer.start()
        ids = list(pool.map(post, keys))
    killer.join()
    assert len(set(ids)) == len(keys)
    wait_for(site.ready, 60)
    # Sent by a worker that died before slurmctld had it: that submit is not
    # made again; it says so, and Slurm shows no job of its name.
    ended = [settled(alice, job_id) for job_id in ids]
    names = names_in_slurm(site, start)
    for job in ended:
        name = f"gpu-canary.{job['id'].removeprefix('job_').lower()}"
        assert names.count(name) == (job["state"] == "COMPLETE"), job
    states = [j["state"] for j in ended]
    assert set(states) <= {"COMPLETE", "UNKNOWN", "ERROR"}, states
    assert all(j["reason"]["code"] == "submit_not_sent" for j in ended
               if j["state"] == "ERROR"), ended
    assert states.count("COMPLETE") >= (20 if part == "watch" else 16), states


def settled(alice, job_id):
    """The job when it is final, or when it has been looked for in vain."""
    def look():
        job = alice.status({"id": job_id})
        lost = job["state"] == "UNKNOWN" and job["reason"] and \
            job["reason"]["code"] == "submit_not_found" and \
            age_seconds(job) > 45
        return job if job["state"] in FINAL or lost else None
    return wait_for(look, 180)


def age_seconds(job):
    made = time.strptime(job["created_at"], "%Y-%m-%dT%H:%M:%SZ")
    return time.time() - calendar.timegm(made)


def victims(site, alice, part):
    if part != "worker":
        return [site.pid(part)]
    return site.workers(alice, ("sluice-slurm",))


def test_watch_dead_leaves_the_api_answering(site, alice):
    job = alice.finished("gpu-canary")
    pid = site.pid("watch")
    site.signal("watch", signal.SIGKILL)
    assert alice.status(job)["state"] == "COMPLETE"
    wait_for(lambda: (site.state / "run/watch.pid").exists() and
             site.pid("watch") != pid, 30)
    wait_for(site.ready, 30)
    assert alice.finished("gpu-canary")["state"] == "COMPLETE"


def test_slurmdbd_stopped_the_job_ends_on_slurmctlds_figures(site, alice):
    with site.stopped("slurmdbd"):
        done = alice.finished("gpu-canary", {"gpus": 2}, seconds=120)
        assert done["state"] == "COMPLETE" and done["source"] == "slurmctld"
        first = done["gpu_seconds"]
    fixed = wait_for(lambda: (lambda j: j if j["source"] == "slurmdbd"
                              else None)(alice.status(job=done)), 180)
    assert abs(fixed["gpu_seconds"] - first) <= 2


def test_a_worker_that_is_stopped_costs_one_request(site, alice, bob):
    alice.finished("gpu-canary")
    for pid in victims(site, alice, "worker"):
            os.kill(pid, signal.SIGSTOP)
    before = time.monotonic()
    answer = alice.submit("gpu-canary")
    assert answer.status_code in (201, 202, 503)
    assert time.monotonic() - before < 16
    assert bob.finished("gpu-canary")["state"] == "COMPLETE"
    if answer.status_code in (201, 202):
        job = answer.json()
        last = wait_for(lambda: (lambda j: j if j["state"] in FINAL |
                                 {"UNKNOWN"} else None)(alice.status(job)), 90)
        assert last["state"] in ("COMPLETE", "UNKNOWN")
    assert wait_for(lambda: alice.submit("gpu-canary").status_code == 201, 60)


def test_spawner_gone_is_503_and_comes_back(site, alice):
    site.signal("sluice-spawnd", signal.SIGKILL)
    answer = alice.submit("gpu-canary")
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert alice.get("/v1/jobs").status_code == 200
    site.restart()
    assert alice.finished("gpu-canary")["state"] == "COMPLETE"


def test_slurmctld_forgets_a_job_that_it_acknowledged(site, alice, bob):
    """State is saved every few seconds: after kill -9 the job can be gone and
    its id be dealt out again. Nothing is sent again, and nobody's figures are
    taken for another's."""
    fleet = [str(ROOT / "deploy/fleet/fleet")]
    job = alice.job("gpu-canary", {"gpus": 1, "hold_seconds": 30})
    site.signal("slurmctld", signal.SIGKILL)
    run(fleet + ["start", "slurmctld", "--state", str(site.state)])
    run(fleet + ["wait", "--state", str(site.state)])
    his = bob.finished("gpu-canary", {"gpus": 2}, seconds=120)
    assert his["state"] == "COMPLETE"
    now = alice.wait(job, lambda j: j["state"] in FINAL | {"UNKNOWN"}, 150)
    name = f"gpu-canary.{job['id'].removeprefix('job_').lower()}"
    rows = site.slurm("sacct", "-D", "-X", "-n", "-P", "-o",
                      "JobName%80,JobIDRaw", "-S", "now-1hour").stdout
    assert sum(line.startswith(name) for line in rows.splitlines()) <= 1
    if now["state"] == "UNKNOWN":
        assert now["reason"]["en"] and now["gpu_seconds"] is None
        alice.post(f"/v1/jobs/{job['id']}/cancel")
    else:
        assert now["state"] == "COMPLETE", now


def test_a_flood_of_half_open_connections_leaves_others_served(site, alice):
    host, port = site.url.removeprefix("http://").split(":")
    flood = []
    try:
        for _ in range(300):
            s = socket.socket()
            s.settimeout(2)
            try:
                s.connect((host, int(port)))
                s.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            except OSError:
                pass
            flood.append(s)
        out = alice.shell(
            f"SLUICE_URL=unix:{site.state}/run/local.sock "
            f"{site.state}/bin/sluice --json me")
        assert '"alice"' in out.stdout
    finally:
        for s in flood:
            s.close()
    assert alice.get("/healthz").status_code == 200
