# SPDX-License-Identifier: GPL-3.0-or-later
"""One Sluice with its own Slurm fleet for the whole run, made by the same
script that users type (deploy/quickstart), in a state folder of its own.
"""
import os
import pathlib
import subprocess
import uuid

import pytest

from site_under_test import ROOT, Site, run


@pytest.fixture(scope="session")
def site():
    state = pathlib.Path(f"/var/lib/sluice-test-{os.getpid()}")
    quickstart = [str(ROOT / "deploy/quickstart"), "--state", str(state)]
    keep = os.environ.get("SLUICE_TEST_KEEP") == "1"
    given = os.environ.get("SLUICE_TEST_STATE")
    if given:  # somebody's running quickstart, for writing tests
        yield Site(given, quickstart[:2] + [given])
        return
    up = run(quickstart + ["--port", "18080", "--no-job"], check=False)
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        yield Site(state, quickstart)
    finally:
        if not keep:
            down = run(quickstart + ["down"], check=False)
            assert down.returncode == 0, down.stdout + down.stderr
            assert not state.exists()


@pytest.fixture
def alice(site):
    return site.person("alice")


@pytest.fixture
def bob(site):
    return site.person("bob")


@pytest.fixture
def operator(site):
    return site.person("operator")


@pytest.fixture
def auditor(site):
    return site.person("auditor")


@pytest.fixture
def key():
    return str(uuid.uuid4())


@pytest.fixture(autouse=True)
def healthy(request):
    """A test that broke a part must have put it right again; and a sanitizer's
    report in a daemon's log is a failure of whatever test ran."""
    yield
    if "site" not in request.fixturenames:
        return
    s = request.getfixturevalue("site")
    for log in s.state.glob("log/slui*.log"):
        text = log.read_text(errors="replace")
        for word in ("ERROR: AddressSanitizer", "runtime error:",
                     "WARNING: ThreadSanitizer"):
            assert word not in text, f"{log}: {word}"


def pytest_sessionstart(session):
    if os.geteuid() != 0 and not session.config.option.collectonly:
        pytest.exit("the system tests need root", returncode=1)
    subprocess.run(["true"], check=True)
