# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU-seconds equal slurmdbd's own rows, to the second, however a job ends."""
import pytest

from site_under_test import seconds_of, wait_for


def settled(alice, job):
    """The job document once slurmdbd's figures are in."""
    return wait_for(lambda: (lambda j: j if j["source"] == "slurmdbd" else None)
                    (alice.status(job)), 60)


def check(site, alice, job, state, slurm_state):
    done = settled(alice, job)
    rows = site.sacct(done)
    assert done["state"] == state, done
    assert slurm_state in rows[-1]["State"]
    assert done["gpu_seconds"] == sum(map(seconds_of, rows)), (done, rows)
    attempts = alice.get(f"/v1/jobs/{job['id']}/attempts").json()["attempts"]
    assert sum(a["gpu_seconds"] for a in attempts) == done["gpu_seconds"]
    assert len(attempts) == len(rows)
    return done


def test_completed(site, alice):
    job = alice.finished("gpu-canary", {"gpus": 4, "hold_seconds": 3})
    done = check(site, alice, job, "COMPLETE", "COMPLETED")
    assert done["gpu_seconds"] >= 12


def test_cancelled_while_running(site, alice):
    job = alice.job("gpu-canary", {"gpus": 2, "hold_seconds": 300})
    alice.running(job)
    alice.post(f"/v1/jobs/{job['id']}/cancel")
    alice.wait(job)
    check(site, alice, job, "CANCELED", "CANCELLED")


def test_cancelled_before_it_started_costs_nothing(site, alice):
    blocker = alice.job("fleet-acceptance")
    job = alice.job("gpu-canary", {"gpus": 8})
    alice.post(f"/v1/jobs/{job['id']}/hold")
    alice.post(f"/v1/jobs/{job['id']}/cancel")
    done = alice.wait(job)
    assert done["state"] == "CANCELED" and done["gpu_seconds"] == 0
    alice.wait(blocker, seconds=180)


def test_timed_out(site, alice):
    job = alice.job("gpu-canary", {"gpus": 2, "hold_seconds": 300})
    running = alice.running(job)
    site.slurm("scontrol", "update", f"JobId={running['slurm']['job_id']}",
               "TimeLimit=1")
    done = alice.wait(job, seconds=200)
    assert done["error_class"] == "timeout"
    check(site, alice, job, "ERROR", "TIMEOUT")


def test_failed(site, alice):
    bad = site.state / "inputs/not-media.mp4"
    bad.write_bytes(b"this is not a film" * 100)
    bad.chmod(0o644)
    try:
        job = alice.finished("media-probe", {"input": bad.name})
    finally:
        bad.unlink()
    check(site, alice, job, "ERROR", "FAILED")


def test_failed_with_gpus(site, alice):
    models = site.state / "models"
    models.chmod(0o777)
    try:
        job = alice.finished("gpu-canary", {"gpus": 3})
    finally:
        models.chmod(0o755)
    check(site, alice, job, "ERROR", "FAILED")


def test_each_attempt_of_a_requeued_job_is_counted_once(site, alice):
    job = alice.job("gpu-canary", {"gpus": 2, "hold_seconds": 5})
    running = alice.running(job)
    requeued = site.slurm("scontrol", "requeue",
                          str(running["slurm"]["job_id"]), check=False)
    if requeued.returncode != 0:  # requeue: false is Slurm's own refusal
        assert "not" in requeued.stderr.lower() or requeued.stderr
        alice.wait(job)
        check(site, alice, job, "COMPLETE", "COMPLETED")
        return
    alice.wait(job, seconds=200)
    done = settled(alice, job)
    rows = site.sacct(done)
    assert done["gpu_seconds"] == sum(map(seconds_of, rows))
    assert done["attempts"] == len(rows) == 2


def test_usage_is_the_sum_of_the_jobs(alice):
    usage = alice.get("/v1/usage").json()
    assert usage["gpu_seconds"] == sum(u["gpu_seconds"]
                                       for u in usage["usage"])
    jobs, cursor = [], None
    while True:
        page = alice.get("/v1/jobs", params={"limit": 100, **(
            {"cursor": cursor} if cursor else {})}).json()
        jobs += page["jobs"]
        cursor = page["next"]
        if cursor is None:
            break
    final = [j for j in jobs if j["gpu_seconds"] is not None]
    assert usage["gpu_seconds"] == sum(j["gpu_seconds"] for j in final)


@pytest.mark.parametrize("who", ["alice", "operator"])
def test_usage_of_everybody_needs_a_role(site, who):
    answer = site.person(who).get("/v1/usage?all=true")
    assert answer.status_code == (403 if who == "alice" else 200)
