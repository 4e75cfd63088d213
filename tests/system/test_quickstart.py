# SPDX-License-Identifier: GPL-3.0-or-later
"""The quickstart beside the one under test: self mode, a taken port, a second
run, a failing step. Each has a state folder, a fleet and ports of its own.
"""
import os
import pathlib
import socket
import subprocess

import pytest

from site_under_test import ROOT, Site, run

QUICKSTART = str(ROOT / "deploy/quickstart")


@pytest.fixture
def own_state():
    state = pathlib.Path(f"/var/lib/sluice-own-{os.getpid()}")
    yield state
    out = run([QUICKSTART, "--state", str(state), "down"], check=False)
    assert out.returncode == 0, out.stdout + out.stderr
    assert not state.exists()


def test_self_mode_is_one_account_one_person_one_token(own_state):
    out = run([QUICKSTART, "--state", str(own_state), "--port", "18180",
               "--self"], check=False)
    assert out.returncode == 0, out.stdout + out.stderr
    assert out.stdout.count("COMPLETE") >= 2
    site = Site(own_state, [QUICKSTART, "--state", str(own_state)])
    assert "SLUICE_TOKEN_FILE" in site.env
    for name in ("BOB", "OPERATOR", "AUDITOR"):
        assert f"SLUICE_{name}_TOKEN_FILE" not in site.env
    alice = site.person("alice")
    assert alice.get("/v1/me").json()["mode"] == "self"
    ready = alice.get("/readyz").json()
    assert ready["mode"] == "self" and "one account" in ready["boundary"]
    for name in ("sluiced", "sluice-spawnd", "watch"):
        assert os.stat(f"/proc/{site.pid(name)}").st_uid in (alice.uid, 0)
        with open(f"/proc/{site.pid(name)}/status") as f:
            assert f"Uid:\t{alice.uid}\t" in f.read()


def test_a_taken_port_is_left_alone_and_said(own_state):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 18280))
        taken.listen()
        out = run([QUICKSTART, "--state", str(own_state), "--port", "18280",
                   "--no-job"], check=False)
    assert out.returncode == 0, out.stdout + out.stderr
    assert "18280" in out.stdout and "18281" in out.stdout
    site = Site(own_state, [QUICKSTART, "--state", str(own_state)])
    assert site.url == "http://127.0.0.1:18281"


def test_a_second_run_reverts_no_edit_and_applies_no_draft(own_state):
    quickstart = [QUICKSTART, "--state", str(own_state), "--port", "18380"]
    run(quickstart + ["--no-job"])
    site = Site(own_state, quickstart)
    folder = own_state / "share/sluice/workflows"
    canary = folder / "gpu-canary.yaml"
    edited = canary.read_text().replace("max: 8", "max: 4")
    assert edited != canary.read_text()
    canary.write_text(edited)
    (folder / "draft.yaml").write_text(canary.read_text()
                                       .replace("gpu-canary:", "draft:"))
    generation = site.person("alice").get("/v1/me").json()["generation"]
    out = run(quickstart)
    assert canary.read_text() == edited
    assert (folder / "draft.yaml").exists()
    assert site.person("alice").get("/v1/me").json()["generation"] == \
        generation
    assert out.stdout.count("COMPLETE") >= 2


def test_a_failing_step_is_named_with_its_log(own_state, tmp_path):
    """cmake that fails: the step, the reason and the log are told."""
    broken = tmp_path / "cmake"
    broken.write_text("#!/bin/sh\necho 'cmake: stand-in that fails' >&2\n"
                      "exit 1\n")
    broken.chmod(0o755)
    out = subprocess.run(
        [QUICKSTART, "--state", str(own_state)], capture_output=True,
        text=True, timeout=300,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert out.returncode != 0
    assert "build" in out.stderr and "stand-in that fails" in out.stderr
    assert "quickstart.log" in out.stderr


@pytest.mark.parametrize("args, word", [
    (["--port"], "value"), (["--port", "x"], "number"), (["sideways"],
                                                          "sideways")])
def test_wrong_arguments_are_refused_before_anything_is_done(args, word):
    out = run([QUICKSTART, *args], check=False, timeout=20)
    assert out.returncode != 0 and word in out.stderr


def test_status_names_each_part(site):
    out = run(site.quickstart + ["status"])
    for name in ("sluiced", "sluice-spawnd", "watch", "munged", "mariadbd",
                 "slurmdbd", "slurmctld", "slurmd-gpu01", "slurmd-gpu14"):
        line = next(ln for ln in out.stdout.splitlines()
                    if ln.startswith(name + " "))
        assert " up " in line, line
