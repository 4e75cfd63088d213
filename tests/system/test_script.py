# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that Slurm holds is the generation's, and only that."""
import hashlib
import json
import re
import sqlite3

import pytest


@pytest.fixture(scope="module")
def pending(site):
    """One job of each GPU workflow, still in Slurm."""
    alice = site.person("alice")
    jobs = [alice.running(alice.job("gpu-canary", {"gpus": 2,
                                                   "hold_seconds": 120}))]
    yield jobs
    for job in jobs:
        alice.post(f"/v1/jobs/{job['id']}/cancel")
        alice.wait(job)


def held_script(site, job):
    return site.slurm("scontrol", "write", "batch_script",
                      str(job["slurm"]["job_id"]), "-").stdout


def test_slurm_holds_what_script_shows(site, alice, pending):
    for job in pending:
        shown = alice.get(f"/v1/jobs/{job['id']}/script")
        assert shown.status_code == 200
        held = held_script(site, job)
        assert held.rstrip("\n") == shown.text.rstrip("\n")
        db = sqlite3.connect(f"file:{site.state}/db/sluice.db?mode=ro",
                             uri=True)
        (stored,) = db.execute(
            "SELECT script_sha256 FROM job WHERE ulid = ?",
            (job["id"].removeprefix("job_"),)).fetchone()
        assert stored == hashlib.sha256(shown.content).hexdigest()


def test_template_and_prelude_stand_in_it_byte_for_byte(site, alice, pending):
    text = alice.get(f"/v1/jobs/{pending[0]['id']}/script").text
    templates = site.state / "share/sluice/templates"
    assert (templates / "prelude.sh").read_text() in text
    assert (templates / "gpu-canary.sh").read_text() in text


def test_no_parameter_value_is_in_the_script(site, alice):
    job = alice.job("media-probe", {"input": "sample.mp4"})
    assert "sample.mp4" not in alice.get(f"/v1/jobs/{job['id']}/script").text
    alice.wait(job)


def test_sbatch_agrees_with_the_limits(site, alice, pending, tmp_path):
    """The #SBATCH lines mean what the job_desc fields mean."""
    tmp_path.chmod(0o755)
    for job in pending:
        script = tmp_path / "script.sh"
        script.write_text(alice.get(f"/v1/jobs/{job['id']}/script").text)
        script.chmod(0o644)
        for parent in list(script.parents)[:-1]:
            if not parent.stat().st_mode & 0o005:
                parent.chmod(parent.stat().st_mode | 0o055)
        test = alice.shell(f"sbatch --test-only {script}", check=False)
        assert test.returncode == 0, test.stderr
        by_hand = re.search(
            r"\d+", alice.shell(
                f"sbatch --parsable --hold {script}").stdout).group()
        fields = ("Partition", "NumNodes", "NumTasks", "CPUs/Task", "TimeLimit",
                  "MinMemoryNode", "Requeue", "TresPerNode", "ReqTRES",
                  "JobName")

        def shown(job_id):
            out = site.slurm("scontrol", "-o", "show", "job", job_id).stdout
            got = dict(re.findall(r"(\S+?)=(\S*)", out))
            if "ReqTRES" not in got:
                got["ReqTRES"] = got.get("TRES")
            # A pending job shows its range, a running one what it has.
            got["NumNodes"] = got["NumNodes"].split("-")[0]
            return {f: got.get(f) for f in fields}
        try:
            assert shown(by_hand) == shown(str(job["slurm"]["job_id"]))
        finally:
            site.slurm("scancel", by_hand)


# Why these differ between sbatch's environment and ours.
ENVIRONMENT_DIFFERENCES = {
    r"SLUICE_.*": "ours",
    r"SLURM_(JOB_ID|JOBID|JOB_START_TIME|JOB_END_TIME)": "another job",
    r"SLURM_(TASK_PID|JOB_NODELIST|NODELIST|STEP_.*|STEPID|GTIDS|SRUN_COMM_.*|"
    r"LAUNCH_NODE_IPADDR|TOPOLOGY_ADDR.*|NODEID|NODE_ALIASES|NODENAME)":
        "another allocation",
    r"SLURMD_NODENAME|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|"
    r"ROCR_VISIBLE_DEVICES|ZE_AFFINITY_MASK|SLURM_JOB_GPUS|SLURM_STEP_GPUS":
        "another allocation",
    r"SLURM_SUBMIT_DIR|PWD|OLDPWD": "another folder",
    r"SLURM_JOB_NAME": "another name",
    r"SLURM_UMASK": "0077 whatever the submitter's is: logs and results are the "
                    "owner's",
    r"SLURM_SUBMIT_HOST|SLURM_PRIO_PROCESS|SLURM_RLIMIT_.*": "the submitter's",
    r"SLURM_CONF": "sbatch copies the caller's",
    r"PATH|LANG|LC_.*|TZ|TERM|SHLVL|_|HOME|USER|LOGNAME|SHELL|TMPDIR|"
    r"PYTHONNOUSERSITE|MAIL|HOSTNAME": "the caller's shell",
    r"ENVIRONMENT": "set by slurmstepd for batch jobs alike",
}


def unexplained(ours, theirs):
    """Names with a different value, or in one only, without a reason."""
    names = {n for n in set(ours) | set(theirs)
             if ours.get(n) != theirs.get(n)}
    return {n: (ours.get(n), theirs.get(n)) for n in names
            if not any(re.fullmatch(p, n) for p in ENVIRONMENT_DIFFERENCES)}


@pytest.mark.usefixtures("pending")
def test_environment_in_the_job_and_inside_srun(site, alice, env_workflow):
    """One script by sbatch and by us: every difference is named above."""
    ours, theirs = env_workflow
    for place in ("batch", "srun"):
        assert ours[place] and theirs[place]
        assert unexplained(ours[place], theirs[place]) == {}, place
        assert ours[place]["SLURM_NTASKS"] == theirs[place]["SLURM_NTASKS"]


@pytest.fixture
def env_workflow(site, alice, tmp_path):
    """A workflow that prints its environment, in a generation of its own: the
    shipped ones do not. The former generation is put back."""
    from site_under_test import run, wait_for
    share = site.state / "share/sluice"
    yaml = share / "workflows/test-environment.yaml"
    body = share / "templates/test-environment.sh"
    yaml.write_text("""version: 1
workflows:
  test-environment:
    title: {en: "Environment", zh: "环境"}
    template: test-environment.sh
    allow: {groups: [canary]}
    resources: {partition: v100, nodes: 1, tasks: 2, tasks_per_node: 2, cpus_per_task: 1,
                mem_per_node: 1G, gpus_per_node: {type: v100, count: 2}, time: "00:05:00"}
    receipts: ["batch.env", "srun.env"]
""")
    body.write_text("env -0 > \"$SLUICE_RESULTS_DIR/batch.env\"\n"
                    "srun -n 1 env -0 > \"$SLUICE_RESULTS_DIR/srun.env\"\n")
    admin = [str(site.state / "bin/sluice-admin"), "--config",
             str(site.state / "etc/sluice.yaml")]
    try:
        run(admin + ["apply", "--yes"])
        job = alice.finished("test-environment")
        assert job["state"] == "COMPLETE", job
        results = site.run_dir(alice, job) / "results"
        ours = {p: parse(results / f"{p}.env") for p in ("batch", "srun")}
        script = site.run_dir(alice, job) / "script.sh"
        hand = site.state / "jobs" / alice.account / "by-hand"
        alice.shell(f"mkdir -m 700 {hand} && cp {script} {hand}/s.sh")
        text = (hand / "s.sh").read_text()
        head = [ln for ln in text.splitlines() if ln.startswith("#SBATCH")]
        (hand / "s.sh").write_text("\n".join(
            ["#!/bin/bash", *head, f"SLUICE_RESULTS_DIR={hand}"]) + "\n" +
            body.read_text())
        job_id = alice.shell(
            f"cd {hand} && sbatch --parsable -o {hand}/out s.sh"
        ).stdout.strip()
        wait_for(lambda: "COMPLETED" in site.slurm(
            "sacct", "-X", "-n", "-o", "State", "-j", job_id).stdout, 60)
        theirs = {p: parse(hand / f"{p}.env") for p in ("batch", "srun")}
        alice.shell(f"rm -r {hand}")
        yield ours, theirs
    finally:
        yaml.unlink(missing_ok=True)
        body.unlink(missing_ok=True)
        run(admin + ["apply", "--yes"])


def parse(path):
    return dict(e.split("=", 1) for e in path.read_text().split("\0") if e)


def test_a_pending_job_keeps_its_generation(site, alice):
    assert json.loads(alice.get("/v1/me").text)["generation"]
