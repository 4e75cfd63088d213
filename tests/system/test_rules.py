# SPDX-License-Identifier: GPL-3.0-or-later
"""A rule of the people map: who is in the Unix group is a person, who leaves it
is not.
"""
import json
import os
import pathlib

import pytest

from site_under_test import ROOT, Person, run

GROUP = "sluice-test-lab"
LOGIN = "sluice-carol"


@pytest.fixture
def admin(site):
    def call(*args, check=True):
        return run([str(site.state / "bin/sluice-admin"), "--config",
                    str(site.state / "etc/sluice.yaml"), *args], check=check)
    return call


@pytest.fixture
def carol(site, admin):
    """A Unix account in a Unix group, made here, and a rule for the group."""
    config = site.state / "etc/sluice.yaml"
    before = config.read_text()
    assert before.rstrip().splitlines()[-1].startswith("  "), \
        "people: is no longer the last section"
    token = site.state / "tokens/carol"
    run(["groupadd", GROUP])
    run(["useradd", "--create-home", "--shell", "/bin/bash", "--groups", GROUP,
         LOGIN])
    try:
        run([str(ROOT / "deploy/fleet/fleet"), "add-user", LOGIN, "--account",
             "research", "--state", str(site.state)])
        write(config, before.rstrip() + "\n  rules:\n    - {unix_group: "
              f"{GROUP}, groups: [canary], slurm_account: research}}\n")
        shown = admin("apply", "--yes").stdout
        assert LOGIN in shown  # who gains what is shown
        admin("account", "add", LOGIN)
        admin("token", "issue", "--person", LOGIN, "--out", str(token))
        person = Person.__new__(Person)
        site.env["SLUICE_CAROL_TOKEN_FILE"] = str(token)
        person.__init__(site, "carol")
        yield person
    finally:
        write(config, before)
        admin("apply", "--yes")
        token.unlink(missing_ok=True)
        run(["rm", "-rf", str(site.jobs / LOGIN)])
        run(["sacctmgr", "-i", "delete", "user", LOGIN], check=False,
            env={**os.environ, "SLURM_CONF": site.slurm_conf})
        run(["userdel", "--remove", LOGIN], check=False)
        run(["groupdel", GROUP], check=False)


def write(config, text):
    """In place: owner and mode stay."""
    with open(config, "r+") as f:
        f.write(text)
        f.truncate()


def resolved(site):
    """What the spawner's helper says of the accounts, asked as it asks."""
    current = pathlib.Path(os.readlink(site.state / "store/current")).name
    out = run(["setpriv", "--reuid=sluice-spawn", "--regid=sluice-spawn",
               "--groups=sluice", "--inh-caps=-all",
               str(site.state / "libexec/sluice/sluice-resolve"), "--config",
               str(site.state / "etc/sluice.yaml"), current])
    return json.loads(out.stdout)["accounts"]


def test_a_member_is_a_person_until_she_leaves(site, admin, carol):
    me = carol.get("/v1/me").json()
    assert me["principal"] == LOGIN and me["account"] == LOGIN
    assert me["roles"] == ["researcher"] and me["workflows"] == ["gpu-canary"]
    done = carol.finished("gpu-canary")
    assert done["state"] == "COMPLETE", done
    assert done["owner"]["account"] == LOGIN
    run(["gpasswd", "-d", LOGIN, GROUP])
    assert resolved(site)[LOGIN] == {"error": "account_not_member"}
    # The next apply drops her from the map.
    admin("apply", "--yes")
    answer = carol.get("/v1/me")
    assert answer.status_code == 401
    assert answer.json()["code"] == "person_unknown"
