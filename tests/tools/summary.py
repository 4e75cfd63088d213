# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of tests/run: time by suite, what failed, and the count.

Reads the JUnit files that ctest and pytest wrote and budget.tsv (name, seconds,
exit status). A suite that ended badly without naming a failed test counts as
one failure, so that nothing can fail silently.
"""
import pathlib
import sys
import xml.etree.ElementTree as xml


def cases(path):
    for case in xml.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname', '')}::{case.get('name')}"
        if "failure" in kinds or "error" in kinds or \
                case.get("status") == "fail":
            yield name, "failed"
        elif "skipped" in kinds or case.get("status") in ("notrun", "disabled"):
            yield name, "skipped"
        else:
            yield name, "passed"


def main(folder):
    folder = pathlib.Path(folder)
    count = {"passed": 0, "failed": 0, "skipped": 0}
    print("\n== time by suite")
    for line in (folder / "budget.tsv").read_text().splitlines():
        name, seconds, status = line.split("\t")
        report = folder / f"{name}.xml"
        seen = list(cases(report)) if report.exists() else []
        for case, result in seen:
            count[result] += 1
            if result != "passed":
                print(f"  {result}: {name}: {case}")
        if status != "0" and not any(r == "failed" for _, r in seen):
            count["failed"] += 1
            print(f"  failed: {name}: the suite ended with status {status}")
        print(f"{int(seconds):6d} s  {name}: {len(seen)} tests")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 0 if count["failed"] == 0 and count["passed"] > 0 else 1


sys.exit(main(sys.argv[1]))
