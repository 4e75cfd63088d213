# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/lint/templates.sh, case by case."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_templates():
    out = subprocess.run(["bash", str(ROOT / "tests/lint/templates.sh")],
                         capture_output=True, text=True, timeout=600)
    bad = re.findall(r"^not ok .*$", out.stdout, flags=re.M)
    good = re.findall(r"^ok ", out.stdout, flags=re.M)
    assert out.returncode == 0 and not bad, "\n".join(bad) + out.stderr[-2000:]
    assert len(good) > 100
