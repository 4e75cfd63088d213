# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret lives in one 0600 sidecar until the job is final, and nowhere else."""
import os
import pathlib
import stat
import subprocess

import pytest

SECRET = "s3cret-" + os.urandom(12).hex()


@pytest.fixture(scope="module")
def secret_job(site):
    alice = site.person("alice")
    job = alice.job("gpu-canary", {"hold_seconds": 25},
                    {"CANARY_TOKEN": SECRET})
    return alice.running(job)


def test_the_sidecar_is_0600_and_the_owners(site, alice, secret_job):
    sidecar = site.run_dir(alice, secret_job) / "secrets.env"
    info = sidecar.stat()
    assert stat.S_IMODE(info.st_mode) == 0o600
    assert info.st_uid == alice.uid


def test_slurm_never_saw_it(site, alice, secret_job):
    job_id = str(secret_job["slurm"]["job_id"])
    seen = site.slurm("scontrol", "show", "job", "-d", job_id).stdout
    seen += site.slurm("scontrol", "write", "batch_script", job_id, "-").stdout
    seen += site.slurm("sacct", "-j", job_id, "-P", "-o", "ALL").stdout
    assert SECRET not in seen
    # slurmctld's state (environment and script files of the batch record), and
    # slurmd's spool, byte for byte.
    found = subprocess.run(
        ["grep", "-rlaF", SECRET, str(site.state / "slurm"),
         str(site.state / "mysql"), str(site.state / "log"),
         str(site.state / "db"), str(site.state / "spawn"),
         str(site.state / "store"), str(site.state / "etc")],
        capture_output=True, text=True).stdout
    assert found == ""


def test_no_process_shows_it(secret_job):
    holders = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        for name in ("cmdline", "environ"):
            try:
                data = pathlib.Path(f"/proc/{entry}/{name}").read_bytes()
            except OSError:
                continue
            if SECRET.encode() in data:
                holders.append((entry, name, data[:80]))
    assert not holders


def test_no_answer_of_the_api_echoes_it(alice, auditor, secret_job):
    job = secret_job["id"]
    for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/script", "/v1/jobs",
                 f"/v1/jobs/{job}/logs", f"/v1/jobs/{job}/logs?stream=stderr",
                 f"/v1/jobs/{job}/artifacts", f"/v1/audit?job={job}"):
        assert SECRET not in alice.get(path).text
    for name in ("secrets.env", "results/../secrets.env"):
        answer = alice.get(f"/v1/jobs/{job}/artifacts/{name}")
        assert answer.status_code >= 400 and SECRET not in answer.text


def test_errors_do_not_repeat_it(site, alice):
    answer = alice.submit("gpu-canary", {"gpus": 99},
                          {"CANARY_TOKEN": SECRET + "x" * 9000})
    assert answer.status_code >= 400 and SECRET not in answer.text
    answer = alice.submit("gpu-canary", {}, {"OTHER": SECRET})
    assert answer.status_code == 422 and SECRET not in answer.text


def test_it_arrived_and_is_gone_when_the_job_is_final(site, alice, secret_job):
    done = alice.wait(secret_job)
    assert done["state"] == "COMPLETE", done
    receipt = alice.get(
        f"/v1/jobs/{done['id']}/artifacts/results/canary.json").json()
    assert receipt["secret"] == "present"
    folder = site.run_dir(alice, done)
    assert not (folder / "secrets.env").exists()
    left = subprocess.run(["grep", "-rlaF", SECRET, str(folder)],
                          capture_output=True, text=True).stdout
    assert left == ""


def test_a_cancelled_job_leaves_no_sidecar(site, alice):
    job = alice.job("gpu-canary", {"hold_seconds": 300},
                    {"CANARY_TOKEN": SECRET})
    alice.running(job)
    alice.post(f"/v1/jobs/{job['id']}/cancel")
    assert alice.wait(job)["state"] == "CANCELED"
    assert not (site.run_dir(alice, job) / "secrets.env").exists()


def test_a_job_whose_sidecar_is_gone_stops_at_once(site, alice):
    blocker = alice.job("fleet-acceptance")
    job = alice.job("gpu-canary", {"gpus": 8}, {"CANARY_TOKEN": SECRET})
    alice.post(f"/v1/jobs/{job['id']}/hold")
    (site.run_dir(alice, job) / "secrets.env").unlink()
    alice.post(f"/v1/jobs/{job['id']}/release")
    done = alice.wait(job, seconds=180)
    alice.wait(blocker, seconds=180)
    assert done["state"] == "ERROR", done
    assert done["reason"]["en"]
