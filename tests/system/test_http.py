# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP contract: identity, idempotency, validators, problems, long polls."""
import concurrent.futures
import json
import socket
import sqlite3
import threading
import time

import jsonschema
import pytest
import requests


def problem(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert answer.json()["status"] == status
    return answer.json()


def test_health_and_readiness_need_no_identity(site):
    assert requests.get(site.url + "/healthz", timeout=5).json() == \
        {"status": "ok"}
    ready = requests.get(site.url + "/readyz", timeout=5)
    assert ready.status_code == 200 and ready.json()["mode"] == "people"


def test_no_token_is_401(site):
    answer = requests.get(site.url + "/v1/me", timeout=5)
    problem(answer, 401, "token_missing")
    assert "Bearer" in answer.headers["WWW-Authenticate"]


def test_forged_token_is_401(site, alice):
    head, body, _ = alice.token.split(".")
    answer = requests.get(site.url + "/v1/me", timeout=5, headers={
        "Authorization": f"Bearer {head}.{body}.{'A' * 86}"})
    problem(answer, 401, "token_signature")


def test_me_says_who_and_what(alice, operator):
    me = alice.get("/v1/me").json()
    assert me["principal"] == "alice" and me["roles"] == ["researcher"]
    assert set(me["workflows"]) == {"gpu-canary", "fleet-acceptance",
                                    "media-probe"}
    assert operator.get("/v1/me").json()["account"] is None


def test_workflows_and_schema(alice, operator):
    names = [w["name"] for w in alice.get("/v1/workflows").json()["workflows"]]
    assert "gpu-canary" in names
    schema = alice.get("/v1/workflows/gpu-canary/schema").json()
    assert schema["properties"]["gpus"]["maximum"] == 8
    assert schema["additionalProperties"] is False
    problem(operator.get("/v1/workflows/gpu-canary"), 404,
            "workflow_not_found")


@pytest.mark.parametrize("params, pointer, code", [
    ({"gpus": 9}, "/params/gpus", "param_range"),
    ({"gpus": "2"}, "/params/gpus", "param_type"),
    ({"gpus": 1.0}, "/params/gpus", "param_type"),
    ({"gpu": 1}, "/params/gpu", "param_unknown"),
])
def test_bad_parameters_name_their_place(alice, params, pointer, code):
    p = problem(alice.submit("gpu-canary", params), 422, code)
    assert p["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("params, good", [
    ({}, True), ({"gpus": 8, "hold_seconds": 0}, True), ({"gpus": 0}, False),
    ({"gpus": 9}, False), ({"gpus": "1"}, False), ({"gpus": None}, False),
    ({"hold_seconds": 601}, False), ({"other": 1}, False)])
def test_schema_and_server_agree(alice, params, good):
    """Another implementation of JSON Schema says what the server says."""
    schema = alice.get("/v1/workflows/gpu-canary/schema").json()
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(params) is good
    answer = alice.post("/v1/jobs?dry_run=true", json={
        "workflow": "gpu-canary", "params": params})
    assert (answer.status_code == 200) is good, answer.text


def test_unknown_and_forbidden_workflows_look_the_same(alice, operator):
    unknown = alice.submit("no-such-thing")
    problem(unknown, 404, "workflow_not_found")


def test_unknown_key_in_the_body_is_refused(alice):
    answer = alice.post("/v1/jobs", json={"workflow": "gpu-canary",
                                          "params": {}, "account": "root"})
    problem(answer, 400, "json_unknown_key")


@pytest.mark.parametrize("headers, status, code", [
    ({"Content-Type": "text/plain"}, 415, "http_content_type"),
    ({"Host": "evil.example"}, 421, "http_host"),
    ({"Origin": "https://evil.example"}, 403, "http_origin"),
    ({"Sec-Fetch-Site": "cross-site"}, 403, "http_origin"),
    ({"Tailscale-User-Login": "bob@example.com"}, 400, "http_identity_header"),
])
def test_gate(alice, headers, status, code):
    answer = alice.post("/v1/jobs", data=b"{}",
                        headers={"Content-Type": "application/json", **headers})
    problem(answer, status, code)


def test_wrong_method_names_the_right_ones(alice):
    answer = alice.request("POST", "/v1/me", data=b"")
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET"


def raw(site, data):
    host, port = site.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 5) as s:
        s.sendall(data)
        s.settimeout(5)
        got = b""
        while True:
            try:
                more = s.recv(65536)
            except (socket.timeout, ConnectionResetError):
                break
            if not more:
                break
            got += more
    return got


@pytest.mark.parametrize("lines", [
    b"Content-Length: 2\r\nContent-Length: 40\r\n",
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
])
def test_smuggling_is_refused_and_closed(site, lines):
    got = raw(site, b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lines +
              b"\r\n{}GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert got.count(b"HTTP/1.1 ") == 1 and b" 400 " in got.split(b"\r\n")[0]


@pytest.mark.parametrize("target", ["/v1/jobs/..%2f..%2fx", "/v1/../healthz",
                                    "/healthz%00", "http://127.0.0.1/healthz"])
def test_doubtful_targets_are_refused(site, target):
    got = raw(site, f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
              .encode())
    assert got.startswith(b"HTTP/1.1 400 "), got[:80]


def test_same_key_same_answer(alice, key):
    first = alice.submit("gpu-canary", headers={"Idempotency-Key": key})
    again = alice.submit("gpu-canary", headers={"Idempotency-Key": key})
    assert first.status_code == again.status_code == 201
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["Location"] == first.headers["Location"]
    problem(alice.submit("gpu-canary", {"gpus": 2},
                         headers={"Idempotency-Key": key}),
            422, "idempotency_key_reused")


def test_a_key_is_one_persons(alice, bob, key):
    mine = alice.submit("gpu-canary", headers={"Idempotency-Key": key}).json()
    his = bob.submit("gpu-canary", headers={"Idempotency-Key": key}).json()
    assert mine["id"] != his["id"]


def test_fifty_parallel_posts_make_one_job(site, alice, key):
    def post(_):
        return requests.post(
            site.url + "/v1/jobs", timeout=30,
            json={"workflow": "gpu-canary", "params": {}},
            headers={"Idempotency-Key": key,
                     "Authorization": "Bearer " + alice.token})
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(post, range(50)))
    codes = {a.status_code for a in answers}
    ids = {a.json()["id"] for a in answers if a.status_code == 201}
    assert codes <= {201, 409} and len(ids) == 1
    assert all("Retry-After" in a.headers for a in answers
               if a.status_code == 409)
    job = alice.wait({"id": ids.pop()})
    name = f"gpu-canary.{job['id'].removeprefix('job_').lower()}"
    out = site.slurm("sacct", "-X", "-n", "-P", "-o", "JobIDRaw",
                     "--name", name).stdout.split()
    assert len(out) == 1


def test_etag_and_not_modified(alice):
    job = alice.finished("gpu-canary")
    first = alice.get(f"/v1/jobs/{job['id']}")
    etag = first.headers["ETag"]
    assert etag.startswith('"')
    again = alice.get(f"/v1/jobs/{job['id']}",
                      headers={"If-None-Match": etag})
    assert again.status_code in (200, 304)
    if again.status_code == 304:
        assert again.content == b""


def test_long_poll_returns_on_change(alice):
    job = alice.job("gpu-canary", {"hold_seconds": 60})
    alice.running(job)
    now = alice.get(f"/v1/jobs/{job['id']}")
    box = []

    def poll():
        start = time.monotonic()
        alice2 = requests.get(
            f"{alice.site.url}/v1/jobs/{job['id']}?wait=30", timeout=40,
            headers={"Authorization": "Bearer " + alice.token,
                     "If-None-Match": now.headers["ETag"]})
        box.append((time.monotonic() - start, alice2))
    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(1)
    alice.post(f"/v1/jobs/{job['id']}/cancel")
    thread.join(40)
    took, answer = box[0]
    assert answer.status_code == 200 and took < 20
    assert alice.wait(job)["state"] == "CANCELED"


def test_cancel_of_an_ended_job_changes_nothing(alice):
    job = alice.finished("gpu-canary")
    answer = alice.post(f"/v1/jobs/{job['id']}/cancel")
    assert answer.status_code == 200 and answer.json()["state"] == "COMPLETE"


def test_hold_and_release(site, alice):
    blocker = alice.job("fleet-acceptance", {})
    job = alice.job("gpu-canary", {"gpus": 8})
    held = alice.post(f"/v1/jobs/{job['id']}/hold")
    assert held.status_code == 200, held.text
    alice.wait(job, lambda j: j["detail"] == "held" or
               j["state"] != "PENDING", 30)
    released = alice.post(f"/v1/jobs/{job['id']}/release")
    assert released.status_code == 200, released.text
    assert alice.wait(job, seconds=120)["state"] == "COMPLETE"
    alice.wait(blocker, seconds=180)


def test_dry_run_starts_nothing(site, alice):
    before = alice.get("/v1/jobs").json()["jobs"]
    answer = alice.post("/v1/jobs?dry_run=true",
                        json={"workflow": "gpu-canary", "params": {"gpus": 4}})
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["script"].startswith("#!/bin/bash\n#SBATCH")
    assert plan["resources"]["gpus"] == 4 and plan["will_run"] is True
    after = alice.get("/v1/jobs").json()["jobs"]
    assert [j["id"] for j in before] == [j["id"] for j in after]


def test_list_pages_and_filters(alice):
    for _ in range(3):
        alice.job("gpu-canary")
    first = alice.get("/v1/jobs?limit=2").json()
    assert len(first["jobs"]) == 2 and first["next"]
    second = alice.get("/v1/jobs", params={"limit": 2,
                                           "cursor": first["next"]}).json()
    ids = [j["id"] for j in first["jobs"] + second["jobs"]]
    assert len(set(ids)) == len(ids) and ids == sorted(ids, reverse=True)
    only = alice.get("/v1/jobs?workflow=media-probe").json()["jobs"]
    assert all(j["workflow"] == "media-probe" for j in only)


def test_slurms_refusal_is_passed_on(site, alice):
    site.slurm("scontrol", "update", "PartitionName=v100", "State=DOWN")
    try:
        site.slurm("scontrol", "update", "PartitionName=v100",
                   "State=INACTIVE")
        answer = alice.submit("gpu-canary")
    finally:
        site.slurm("scontrol", "update", "PartitionName=v100", "State=UP")
    assert answer.status_code == 422, answer.text
    p = answer.json()
    assert p["code"].startswith("slurm_")
    assert p["slurm"]["errno"] > 0 and p["slurm"]["message"]


def test_refusals_before_identity_are_counted_in_the_audit(site, auditor):
    for _ in range(3):
        requests.get(site.url + "/v1/me", timeout=5)
    db = sqlite3.connect(f"file:{site.state}/db/sluice.db?mode=ro", uri=True)

    def rows():
        return [json.loads(leaf) for (leaf,) in db.execute(
            "SELECT leaf FROM audit ORDER BY seq") if
            json.loads(leaf)["kind"] == "refused"]
    end = time.monotonic() + 90
    while not any(r["code"] == "token_missing" for r in rows()):
        assert time.monotonic() < end
        time.sleep(1)


def test_labels_filter_the_list(alice, key):
    answer = alice.post("/v1/jobs", json={
        "workflow": "gpu-canary", "params": {},
        "labels": {"project": key, "kind": "a:b"}})
    assert answer.status_code == 201, answer.text
    mine = answer.json()["id"]
    for label in (f"project:{key}", f"project={key}", "kind:a:b"):
        jobs = alice.get("/v1/jobs", params={"label": label}).json()["jobs"]
        assert mine in [j["id"] for j in jobs], label
    assert alice.get("/v1/jobs", params={"label": "project:other"}
                     ).json()["jobs"] == []
    bad = alice.post("/v1/jobs", json={"workflow": "gpu-canary",
                                       "labels": {"a\"b": "x"}})
    problem(bad, 400, "label_invalid")


def test_one_range_of_an_artifact(site, alice):
    job = alice.finished("gpu-canary")
    path = f"/v1/jobs/{job['id']}/artifacts/results/canary.json"
    whole = alice.get(path)
    size = len(whole.content)
    part = alice.get(path, headers={"Range": "bytes=2-9"})
    assert part.status_code == 206 and part.content == whole.content[2:10]
    assert part.headers["Content-Range"] == f"bytes 2-9/{size}"
    beyond = alice.get(path, headers={"Range": f"bytes={size}-"})
    problem(beyond, 416, "range_not_satisfiable")
