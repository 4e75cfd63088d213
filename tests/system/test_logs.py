# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs by offset: nothing twice, nothing lost, no UTF-8 character split."""
import os


def spoil(site, alice, job, data):
    """Append to a finished job's log as its owner."""
    path = site.run_dir(alice, job) / "stdout.log"
    with open(path, "ab") as f:
        f.write(data)
    return path


def test_pages_join_to_the_whole(site, alice):
    job = alice.finished("gpu-canary")
    path = spoil(site, alice, job, ("文字" * 5000).encode())
    got, offset = b"", 0
    while True:
        answer = alice.get(f"/v1/jobs/{job['id']}/logs",
                           params={"offset": offset, "limit": 1000},
                           headers={"Accept": "text/plain"})
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        answer.content.decode()  # no character is split
        got += answer.content
        following = int(answer.headers["X-Sluice-Next-Offset"])
        if following == offset:
            break
        offset = following
    assert got == path.read_bytes()
    assert answer.headers["X-Sluice-Complete"] == "true"


def test_json_form_replaces_what_is_not_utf8_and_text_keeps_it(site, alice):
    job = alice.finished("gpu-canary")
    spoil(site, alice, job, b"\xff\xfe\x00end\n")
    page = alice.get(f"/v1/jobs/{job['id']}/logs").json()
    assert "\ufffd" in page["text"] and page["text"].endswith("end\n")
    text = alice.get(f"/v1/jobs/{job['id']}/logs",
                     headers={"Accept": "text/plain"})
    assert text.content.endswith(b"\xff\xfe\x00end\n")


def test_a_log_that_became_a_link_is_not_followed(site, alice):
    job = alice.finished("gpu-canary")
    path = site.run_dir(alice, job) / "stdout.log"
    path.unlink()
    os.symlink("/etc/passwd", path)
    answer = alice.get(f"/v1/jobs/{job['id']}/logs")
    assert answer.status_code >= 400 and "root:" not in answer.text


def test_artifacts_list_and_stream(site, alice):
    job = alice.finished("gpu-canary")
    big = site.run_dir(alice, job) / "results/big.bin"
    data = os.urandom(3 * 1024 * 1024 + 17)
    big.write_bytes(data)
    os.chown(big, alice.uid, alice.uid)
    listed = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    paths = {a["path"] for a in listed}
    assert "results/big.bin" in paths and "results/canary.json" in paths
    assert "secrets.env" not in paths
    got = alice.get(f"/v1/jobs/{job['id']}/artifacts/results/big.bin")
    assert got.content == data
    assert got.headers["Content-Disposition"].startswith("attachment")
    assert got.headers["Content-Security-Policy"] == "sandbox"
