# SPDX-License-Identifier: GPL-3.0-or-later
"""The client: exit codes, JSON, waiting, secrets from files."""
import json
import os
import subprocess


def test_submit_waits_and_says_so_with_its_exit_code(site, alice):
    out = alice.cli("--json", "submit", "gpu-canary", "gpus=2", "--wait")
    job = json.loads(out.stdout)
    assert job["state"] == "COMPLETE" and job["params"]["gpus"] == 2


def test_job_error_is_1(site, alice):
    models = site.state / "models"
    models.chmod(0o777)
    try:
        out = alice.cli("submit", "gpu-canary", "--wait", check=False)
    finally:
        models.chmod(0o755)
    assert out.returncode == 1 and "ERROR" in out.stdout


def test_usage_is_2(alice):
    for args in (("submit",), ("nonsense",), ("status",), ("submit",
                 "gpu-canary", "--secret", "CANARY_TOKEN=inline")):
        out = alice.cli(*args, check=False)
        assert out.returncode == 2, args
        assert out.stderr


def test_refused_is_3_and_says_where(alice):
    out = alice.cli("submit", "gpu-canary", "gpus=9", check=False)
    assert out.returncode == 3
    assert "/params/gpus" in out.stderr and "param_range" in out.stderr


def test_unreachable_is_4(alice):
    out = alice.cli("me", check=False, env={"SLUICE_URL": "http://127.0.0.1:9"})
    assert out.returncode == 4


def test_secret_from_a_file(site, alice, tmp_path):
    secret = tmp_path / "token"
    secret.write_text("tell-nobody\n")
    out = alice.cli("--json", "submit", "gpu-canary", "--secret",
                    f"CANARY_TOKEN=@{secret}", "--wait")
    job = json.loads(out.stdout)
    shown = alice.cli("artifacts", job["id"], "results/canary.json").stdout
    assert json.loads(shown)["secret"] == "present"


def test_the_same_key_again_is_the_same_job(alice, key):
    one = json.loads(alice.cli("--json", "submit", "gpu-canary",
                               "--idempotency-key", key).stdout)
    two = json.loads(alice.cli("--json", "submit", "gpu-canary",
                               "--idempotency-key", key).stdout)
    assert one["id"] == two["id"]


def test_logs_script_list_usage_audit(site, alice):
    job = json.loads(alice.cli("--json", "submit", "gpu-canary",
                               "--wait").stdout)
    assert alice.cli("logs", "-f", job["id"]).stdout
    assert alice.cli("script", job["id"]).stdout.startswith("#!/bin/bash\n")
    assert job["id"] in alice.cli("list", "--workflow", "gpu-canary").stdout
    assert "GPU-seconds" in alice.cli("usage").stdout
    assert "job.submit" in alice.cli("audit", "--job", job["id"]).stdout
    assert "\033[" not in alice.cli("status", job["id"]).stdout


def test_chinese(alice):
    out = alice.cli("describe", "gpu-canary", env={"LANG": "zh_CN.UTF-8"})
    assert any("\u4e00" <= ch <= "\u9fff" for ch in out.stdout)
    out = alice.cli("submit", "no-such", check=False,
                    env={"LANG": "zh_CN.UTF-8"})
    assert out.returncode == 3
    assert any("\u4e00" <= ch <= "\u9fff" for ch in out.stderr)


def test_local_socket(site, alice):
    """Over local.sock the uid is proof enough to read, and the client checks
    who holds the socket."""
    out = alice.shell(
        f"SLUICE_URL=unix:{site.state}/run/local.sock "
        f"{site.state}/bin/sluice --json me")
    assert json.loads(out.stdout)["principal"] == "alice"
    path = f"/tmp/sluice-fake-{os.getpid()}.sock"
    program = (f"import os, socket\ns = socket.socket(socket.AF_UNIX)\n"
               f"os.umask(0)\ns.bind({path!r})\ns.listen()\n"
               "print('listening', flush=True)\n"
               "c, _ = s.accept()\nc.settimeout(10)\nprint(c.recv(10000))\n")
    fake = subprocess.Popen(
        ["setpriv", f"--reuid={alice.account}", f"--regid={alice.account}",
         "--clear-groups", "/usr/bin/python3", "-c", program],
        stdout=subprocess.PIPE, text=True)
    try:
        assert fake.stdout.readline() == "listening\n"
        me = site.person("bob").shell(
            f"SLUICE_URL=unix:{path} {site.state}/bin/sluice me", check=False)
        heard = fake.communicate(timeout=20)[0]
    finally:
        fake.kill()
        os.unlink(path)
    assert me.returncode == 4 and "server_uid" in me.stderr
    assert heard == "b''\n"  # not a byte was sent
