# SPDX-License-Identifier: GPL-3.0-or-later
"""Full control of the HTTP process gives no job of its own."""
import grp
import json
import os
import pathlib

import pytest

from site_under_test import run

SUBMIT = """
import subprocess, sys
out = subprocess.run(["sbatch", "-A", "research", "-p", "v100", "--wrap", "id"],
                     capture_output=True, text=True)
print(out.stdout + out.stderr)
sys.exit(0 if "Submitted" in out.stdout else 3)
"""


def as_sluice(site, program, enter=False):
    """A Python program as uid sluice; `enter`: in sluiced's own namespaces,
    with what it can reach."""
    command = ["setpriv", "--reuid=sluice", "--regid=sluice", "--clear-groups",
               "--inh-caps=-all", "env", "-i", "PATH=/usr/bin:/bin",
               f"SLURM_CONF={site.slurm_conf}", "/usr/bin/python3", "-c",
               program]
    if enter:
        command = ["nsenter", "-t", str(site.pid("sluiced")), "-m",
                   *command]
    return run(command, check=False)


@pytest.mark.parametrize("enter", [True, False])
def test_uid_sluice_gets_no_job_out_of_slurm(site, enter):
    before = site.slurm("squeue", "-h", "-o", "%i %u").stdout
    out = as_sluice(site, SUBMIT, enter)
    assert out.returncode == 3, out.stdout + out.stderr
    after = site.slurm("squeue", "-h", "-o", "%i %u").stdout
    assert "sluice\n" not in after.replace(before, "")


def test_the_munge_socket_is_hidden_from_sluiced(site):
    program = f"""
import socket, sys
for path in ("{site.state}/run/munge/munge.socket", "/run/munge/munge.socket.2"):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path); sys.exit("reached " + path)
    except OSError:
        pass
"""
    out = as_sluice(site, program, enter=True)
    assert out.returncode == 0, out.stderr


def test_sluiced_refuses_to_start_where_munge_is_reachable(site):
    out = run(["setpriv", "--reuid=sluice", "--regid=sluice", "--clear-groups",
               "--inh-caps=-all",
               str(site.state / "libexec/sluice/sluiced"), "--config",
               str(site.state / "etc/sluice.yaml")], check=False, timeout=20)
    assert out.returncode != 0
    assert "isolation_munge" in out.stderr


def speak(site, uid_account, frame, receive=True):
    """One frame to the spawner as some account; its answer frames."""
    program = f"""
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(20)
s.connect("{site.state}/run/spawn/spawn.sock")
s.send({json.dumps(json.dumps(frame))}.encode())
for _ in range(8):
    data = s.recv(70000)
    if not data: break
    print(data.decode())
    if '"result"' in data.decode(): break
"""
    return run(["setpriv", f"--reuid={uid_account}", f"--regid={uid_account}",
                "--clear-groups", "--inh-caps=-all", "/usr/bin/python3", "-c",
                program], check=False)


def frame(site, **changes):
    ulid = "01JZ" + os.urandom(11).hex().upper()[:22]
    current = pathlib.Path(os.readlink(site.state / "store/current")).name
    base = {"v": 1, "request": ulid, "ulid": ulid, "actor": "alice",
            "token": None, "verb": "submit", "generation": current,
            "args": {"workflow": "gpu-canary", "params": {}, "secrets": {}}}
    base.update(changes)
    return base


def refused(out):
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    results = [a for a in answers if a.get("event") == "result"]
    return not results or all(not a["ok"] for a in results)


@pytest.mark.parametrize("changes", [
    {},                                              # no token
    {"token": "a.b.c"},                              # a bad one
    {"actor": "root"}, {"actor": "system"},
    {"verb": "run"}, {"verb": "prepare"},
    {"extra": 1},
], ids=str)
def test_raw_frames_get_nothing(site, changes):
    before = site.slurm("squeue", "-h", "-o", "%i").stdout
    out = speak(site, "sluice", frame(site, **changes))
    assert refused(out), out.stdout
    assert site.slurm("squeue", "-h", "-o", "%i").stdout == before


def test_bobs_token_submits_nothing_as_alice(site, bob):
    out = speak(site, "sluice", frame(site, token=bob.token))
    assert refused(out), out.stdout


def test_a_captured_frame_sent_again_makes_no_second_job(site, alice):
    again = frame(site, token=alice.token)
    first = speak(site, "sluice", again)
    assert not refused(first), first.stdout
    second = speak(site, "sluice", again)
    name = f"gpu-canary.{again['ulid'].lower()}"
    out = site.slurm("squeue", "-h", "-t", "all", "-o", "%j").stdout.split()
    assert out.count(name) == 1, second.stdout
    site.slurm("scancel", "--name", name)


def test_other_uids_are_not_heard(site):
    for account in ("sluice-alice", "nobody"):
        out = speak(site, account, frame(site))
        assert out.returncode != 0 or not out.stdout.strip()


def test_alice_cannot_reach_the_spawner_socket(site, alice):
    out = alice.shell(f"ls {site.state}/run/spawn", check=False)
    assert out.returncode != 0


def test_watch_cannot_open_the_database(site):
    out = run(["setpriv", "--reuid=sluice-watch", "--clear-groups",
               "--regid=sluice-watch", "--inh-caps=-all", "cat",
               str(site.state / "db/sluice.db")], check=False)
    assert out.returncode != 0 and "Permission denied" in out.stderr


def test_a_second_sluiced_stops(site, tmp_path):
    """In the first one's own mount namespace, on another port and socket: it
    is the database that says no."""
    second = site.state / "etc/second.yaml"
    text = (site.state / "etc/sluice.yaml").read_text()
    port = site.url.rsplit(":", 1)[1]
    second.write_text(text.replace(f"127.0.0.1:{port}", "127.0.0.1:18999")
                      .replace("/local.sock", "/second.sock"))
    os.chown(second, 0, grp.getgrnam("sluice").gr_gid)
    second.chmod(0o640)
    try:
        out = run(["nsenter", "-t", str(site.pid("sluiced")), "-m",
                   "setpriv", "--reuid=sluice", "--regid=sluice",
                   "--clear-groups", "--inh-caps=-all",
                   str(site.state / "libexec/sluice/sluiced"), "--config",
                   str(second)], check=False, timeout=20)
    finally:
        second.unlink()
    assert out.returncode != 0 and "db_in_use" in out.stderr, out.stderr
