# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job, from a bearer token to GPU-seconds, through every real part."""
import hashlib
import shutil
import subprocess

import pytest

from site_under_test import seconds_of

DOCUMENT = {
    "id", "workflow", "params", "state", "detail", "reason", "error_class",
    "owner", "cluster", "slurm", "created_at", "submitted_at", "started_at",
    "ended_at", "observed_at", "stale", "exit", "resources", "attempts",
    "gpu_seconds", "source", "receipts", "links"}


def test_canary_goes_through_every_part(site, alice, auditor):
    job = alice.job("gpu-canary", {"gpus": 2})
    assert job["state"] in ("PENDING", "RUNNING")
    done = alice.wait(job)
    assert done["state"] == "COMPLETE", done
    assert DOCUMENT <= set(done)
    assert done["owner"] == {"principal": "alice", "account": alice.account}
    assert done["slurm"]["state"] == "COMPLETED"
    assert done["resources"]["effective"]["gpus"] == 2
    assert done["resources"]["effective"]["gpu_type"] == "v100"
    assert done["exit"] == {"code": 0, "signal": None}
    assert done["source"] == "slurmdbd" and not done["stale"]
    assert [r["path"] for r in done["receipts"]] == ["results/canary.json"]
    rows = site.sacct(done)
    assert done["gpu_seconds"] == sum(map(seconds_of, rows))

    log = alice.get(f"/v1/jobs/{job['id']}/logs").json()
    assert log["complete"] and log["text"]
    audit = auditor.get("/v1/audit", params={"job": job["id"]}).json()["rows"]
    kinds = [(r["kind"], r["action"]) for r in audit]
    assert ("decided", "job.submit") in kinds
    assert ("outcome", "job.submit") in kinds
    decided = next(r for r in audit if r["kind"] == "decided")
    outcome = next(r for r in audit if r["kind"] == "outcome")
    assert decided["request"] == outcome["request"]
    assert decided["seq"] < outcome["seq"] and outcome["code"] == "ok"


def test_absent_facts_are_null_not_zero(site, alice):
    job = alice.job("gpu-canary", {"gpus": 8, "hold_seconds": 120})
    try:
        now = alice.status(job)
        assert DOCUMENT <= set(now)
        assert now["ended_at"] is None and now["gpu_seconds"] is None
        assert now["exit"] == {"code": None, "signal": None} or \
            now["exit"] is None
    finally:
        alice.post(f"/v1/jobs/{job['id']}/cancel")
    assert alice.wait(job)["state"] == "CANCELED"


def test_fleet_acceptance_on_all_nodes(site, alice):
    done = alice.finished("fleet-acceptance", seconds=180)
    assert done["state"] == "COMPLETE", done
    assert done["resources"]["effective"]["nodes"] == 14
    assert done["resources"]["effective"]["gpus"] == 112
    receipt = alice.get(
        f"/v1/jobs/{done['id']}/artifacts/results/acceptance.json").json()
    assert receipt["nodes"] == 14
    assert done["gpu_seconds"] == sum(map(seconds_of, site.sacct(done)))


def test_media_probe_counts_exactly(site, alice):
    sample = site.state / "inputs/sample.mp4"
    done = alice.finished("media-probe", {"input": "sample.mp4"})
    assert done["state"] == "COMPLETE", done
    assert done["gpu_seconds"] == 0
    receipt = alice.get(
        f"/v1/jobs/{done['id']}/artifacts/results/probe.json").json()
    assert receipt["sha256"] == \
        hashlib.sha256(sample.read_bytes()).hexdigest()
    frames = subprocess.run(
        ["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0",
         "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0",
         str(sample)], check=True, capture_output=True, text=True).stdout
    assert receipt["frames"] == int(frames.strip().strip(","))


@pytest.mark.parametrize("damage", ["truncated", "corrupt"])
def test_media_probe_names_what_is_wrong(site, alice, damage):
    sample = (site.state / "inputs/sample.mp4").read_bytes()
    bad = site.state / "inputs" / f"{damage}.mp4"
    middle = len(sample) // 2
    bad.write_bytes(sample[:middle] if damage == "truncated" else
                    sample[:middle - 2000] + b"\xff" * 4000 +
                    sample[middle + 2000:])
    bad.chmod(0o644)
    try:
        done = alice.finished("media-probe", {"input": bad.name})
    finally:
        bad.unlink()
    assert done["state"] == "ERROR"
    assert done["error_class"] == "receipt" or \
        done["error_class"] == "program"
    assert done["reason"]["en"] and done["reason"]["zh"]
    assert not any(r["path"] == "results/probe.json" for r in done["receipts"])


def test_missing_input_is_refused_before_a_job_exists(site, alice):
    answer = alice.submit("media-probe", {"input": "nothing-here.mp4"})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["errors"][0]["pointer"] == "/params/input"
    assert problem["code"] == "path_missing"


def test_model_folder_is_read_only_to_the_job(site, alice):
    """The canary fails when it can write where it must not."""
    models = site.state / "models"
    before = models.stat()
    models.chmod(0o777)
    try:
        done = alice.finished("gpu-canary")
    finally:
        models.chmod(before.st_mode & 0o7777)
    assert done["state"] == "ERROR", done
    assert shutil.disk_usage(models)  # still there
