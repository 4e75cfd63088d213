# SPDX-License-Identifier: GPL-3.0-or-later
"""Two people on one machine: nobody is somebody else."""
import os
import pwd
import stat

import pytest


@pytest.fixture(scope="module")
def pair(site):
    """A running job of alice's with a secret, and one of bob's."""
    alice, bob = site.person("alice"), site.person("bob")
    hers = alice.job("gpu-canary", {"hold_seconds": 300},
                     {"CANARY_TOKEN": "alice-secret-" + os.urandom(8).hex()})
    his = bob.job("gpu-canary", {"hold_seconds": 300})
    yield alice.running(hers), bob.running(his)
    for person, job in ((alice, hers), (bob, his)):
        person.post(f"/v1/jobs/{job['id']}/cancel")
        person.wait(job)


def test_each_job_runs_as_its_own_uid(site, alice, bob, pair):
    for person, job in zip((alice, bob), pair):
        out = site.slurm("scontrol", "-o", "show", "job",
                         str(job["slurm"]["job_id"])).stdout
        assert f"UserId={person.account}({person.uid})" in out
        folder = site.run_dir(person, job)
        assert folder.stat().st_uid == person.uid
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("path", ["", "/script", "/attempts", "/logs",
                                  "/artifacts", "/artifacts/stdout.log"])
def test_the_others_job_is_absent(bob, pair, path):
    hers, _ = pair
    answer = bob.get(f"/v1/jobs/{hers['id']}{path}")
    absent = bob.get(f"/v1/jobs/job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ{path}")
    assert answer.status_code == absent.status_code == 404
    a, b = answer.json(), absent.json()
    a.pop("request_id"), b.pop("request_id")
    assert a == b


@pytest.mark.parametrize("act", ["cancel", "hold", "release"])
def test_the_others_job_cannot_be_touched(alice, bob, pair, act):
    hers, _ = pair
    assert bob.post(f"/v1/jobs/{hers['id']}/{act}").status_code == 404
    assert alice.status(hers)["state"] == "RUNNING"


def test_the_others_folder_is_closed_on_disk(site, bob, alice, pair):
    hers, _ = pair
    folder = site.run_dir(alice, hers)
    for name in ("", "/script.sh", "/stdout.log", "/secrets.env"):
        out = bob.shell(f"ls -la {folder}{name} || cat {folder}{name}",
                        check=False)
        assert out.returncode != 0 and "Permission denied" in out.stderr


def test_nobody_can_signal_trace_or_read_our_processes(site, alice, bob, pair):
    alice.get(f"/v1/jobs/{pair[0]['id']}/logs")  # her worker is warm
    targets = site.workers(alice)
    assert targets, "alice has no live worker"
    targets += [site.pid("sluiced"), site.pid("sluice-spawnd"),
                site.pid("watch")]
    for pid in targets:
        program = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
try:
    os.kill({pid}, 0); sys.exit("signalled")
except PermissionError:
    pass
if libc.ptrace(16, {pid}, 0, 0) == 0: sys.exit("traced")
for name in ("mem", "environ", "maps"):
    try:
        open("/proc/{pid}/" + name, "rb").read(1); sys.exit("read " + name)
    except PermissionError:
        pass
"""
        out = bob.shell(f"/usr/bin/python3 -c '{program}'", check=False)
        assert out.returncode == 0, (pid, out.stderr)


def test_workers_hold_no_capability_and_nothing_of_ours(site, alice, pair):
    alice.get(f"/v1/jobs/{pair[0]['id']}/logs")
    workers = site.workers(alice)
    assert workers
    for pid in workers:
        status = open(f"/proc/{pid}/status").read()
        values = dict(line.split(":\t", 1) for line in status.splitlines()
                      if ":\t" in line)
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(values[caps], 16) == 0, (pid, caps)
        assert values["NoNewPrivs"] == "1"
        assert set(values["Uid"].split()) == {str(alice.uid)}
        environ = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
        names = {e.split(b"=")[0] for e in environ if e}
        assert names <= {b"SLURM_CONF", b"PATH", b"LANG", b"TZ"}
        files = {os.readlink(f"/proc/{pid}/fd/{n}")
                 for n in os.listdir(f"/proc/{pid}/fd")}
        assert not [f for f in files if "sluice.db" in f or "record" in f]


def test_no_daemon_of_ours_runs_as_root(site):
    for name, account in (("sluiced", "sluice"),
                          ("sluice-spawnd", "sluice-spawn"),
                          ("watch", "sluice-watch")):
        uid = pwd.getpwnam(account).pw_uid
        assert uid in {int(u) for u in open(
            f"/proc/{site.pid(name)}/status").read().split("Uid:")[1]
            .split("\n")[0].split()}


def test_only_the_slurm_binary_maps_libslurm(site):
    for name, maps in (("sluiced", False), ("sluice-spawnd", False),
                       ("watch", True)):
        text = open(f"/proc/{site.pid(name)}/maps").read()
        assert ("libslurm" in text) is maps, name


def test_an_operator_cancels_for_others_and_it_is_audited(
        site, alice, operator, auditor):
    job = alice.job("gpu-canary", {"hold_seconds": 300})
    alice.running(job)
    answer = operator.post(f"/v1/jobs/{job['id']}/cancel")
    assert answer.status_code == 200, answer.text
    assert alice.wait(job)["state"] == "CANCELED"
    rows = auditor.get("/v1/audit", params={"job": job["id"]}).json()["rows"]
    mine = alice.get("/v1/me").json()["principal_id"]
    cancel = [r for r in rows if r["action"] == "job.cancel" and
              r["kind"] == "decided"]
    assert cancel and all(r["principal"] != mine for r in cancel)
    assert operator.submit("gpu-canary").status_code in (403, 404)
    assert auditor.post(f"/v1/jobs/{job['id']}/cancel"
                        ).status_code in (403, 404)


def test_local_socket_proves_nothing_for_an_entry_that_asks_for_a_token(
        site, alice):
    out = alice.shell(
        f"curl -s -H 'X-Sluice: 1' --unix-socket {site.state}/run/local.sock "
        "-X POST -H 'Content-Type: application/json' "
        "-d '{\"workflow\":\"gpu-canary\",\"params\":{}}' "
        "http://localhost/v1/jobs")
    assert '"token_required"' in out.stdout, out.stdout


def test_revocation_holds_for_the_next_request(site, alice):
    admin = [str(site.state / "bin/sluice-admin"), "--config",
             str(site.state / "etc/sluice.yaml")]
    from site_under_test import run
    token = site.state / "short.token"
    run(admin + ["token", "issue", "--person", "alice", "--expires", "1h",
                 "--out", str(token)])
    try:
        head = {"Authorization": "Bearer " + token.read_text().strip()}
        me = alice.get("/v1/me", headers=head)
        assert me.status_code == 200
        run(admin + ["token", "revoke", me.json()["token_id"]])
        answer = alice.get("/v1/me", headers=head)
        assert answer.status_code == 401
        assert answer.json()["code"] == "token_revoked"
        assert alice.get("/v1/me").status_code == 200
    finally:
        token.unlink()
