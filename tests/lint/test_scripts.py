# SPDX-License-Identifier: GPL-3.0-or-later
"""Shell scripts pass bash -n and shellcheck; the project speaks of itself."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"],
                         cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / p for p in out.stdout.split("\n") if p]


def is_shell(path):
    if path.suffix == ".sh":
        return True
    if path.suffix or not path.is_file():
        return False
    with open(path, "rb") as f:
        return re.match(rb"#!.*\b(ba)?sh\b", f.readline()) is not None


@pytest.mark.parametrize("script", [p for p in tracked() if is_shell(p)],
                         ids=lambda p: str(p.relative_to(ROOT)))
def test_shell(script):
    subprocess.run(["bash", "-n", str(script)], check=True)
    subprocess.run(["shellcheck", "-x", "-P", "SCRIPTDIR", str(script)],
                   check=True, cwd=ROOT)


# Words are split so that this file does not name them itself.
FOREIGN = [r"/wo" + r"rk/", r"deb\.debian\." + "org", r"pypi\." + "org",
           r"crates\." + "io", r"registry\.npm" + "js", r"iss" + r"ue #?\d",
           r"(desi" + r"gn|libslurm|ledger|facts|style|tailnet-lab)\.md",
           r"desi" + r"gn section"]


def test_the_project_speaks_of_itself():
    found = []
    for path in tracked():
        if not path.is_file() or path.suffix in (".png", ".mp4"):
            continue
        text = path.read_text(errors="replace")
        for word in FOREIGN:
            for m in re.finditer(word, text, flags=re.I):
                line = text.count("\n", 0, m.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {m[0]}")
    assert not found, "\n".join(found)
