# SPDX-License-Identifier: GPL-3.0-or-later
"""The workers and the poller driven alone, by a stand-in for the spawner, on
the real Slurm: what each verb answers, field by field.
"""
import re

from site_under_test import ROOT, run


def test_each_verb_of_the_workers_and_each_ask_of_watch(site):
    out = run(["/usr/bin/python3", str(ROOT / "tests/tools/slurm_drive.py"),
               "--bin", str(site.state / "libexec/sluice"),
               "--fleet", str(site.state), "--account", "sluice-alice",
               "--operator", "sluice-watch", "--other", "sluice-bob",
               "--unknown", "sluice"], check=False)
    assert out.returncode == 0, out.stdout[-3000:] + out.stderr[-2000:]
    passed, failed = re.search(r"(\d+) passed, (\d+) failed",
                               out.stdout).groups()
    assert int(passed) >= 50 and failed == "0", out.stdout[-500:]
