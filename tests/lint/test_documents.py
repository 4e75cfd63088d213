# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documents name exists: tests in SECURITY.md, error codes in api.md."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_each_test_that_security_names_exists():
    text = (ROOT / "SECURITY.md").read_text()
    current, missing, seen = None, [], 0
    for name, function in re.findall(
            r"`(?:tests/)?(?:\w+/)?(test_\w+\.(?:py|c))?(?:::(\w+))?`", text):
        if not name and not function:
            continue
        current = name or current
        found = list((ROOT / "tests").rglob(current))
        seen += 1
        if not found or function and not re.search(
                rf"\b{function}\(", found[0].read_text()):
            missing.append(f"{current}::{function}")
    assert seen > 40 and not missing, missing


def test_each_code_that_the_api_page_names_is_raised():
    source = "\n".join(p.read_text() for f in
                       ("base", "auth", "workflows", "templates", "audit",
                        "broker") for p in (ROOT / f).rglob("*.[ch]"))
    rows = re.findall(r"^\| \d{3} \| `([a-z0-9_ ]+)` \|",
                      (ROOT / "docs/api.md").read_text(), flags=re.M)
    codes = {c for row in rows for c in row.split()}
    assert len(codes) > 100
    missing = sorted(c for c in codes if f'"{c}"' not in source)
    assert not missing, missing
