# SPDX-License-Identifier: GPL-3.0-or-later
"""The house rules that a compiler does not hold: who may include whom, which
third-party header lives where, which calls are banned, headers on their own.

Each check runs over the tree, and once over a planted offence: a check that
cannot fail is not a check.
"""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["base", "workflows", "templates", "auth", "audit", "broker", "cli"]

# Folder -> folders it may include from (docs/architecture.md, "Folders").
ARROWS = {
    "base": {"base"},
    "workflows": {"base", "workflows"},
    "templates": {"base", "workflows", "templates"},
    "auth": {"base", "workflows", "auth"},
    "audit": {"base", "audit"},
    "broker": {"base", "workflows", "templates", "auth", "audit", "broker"},
    "cli": {"base", "cli"},
}
# Inside broker/: room -> rooms it may include from ("" is broker/ itself: what
# all rooms share, so it knows none of them; the programs, "main", know all).
ROOMS = {
    "main": {"", "jobs", "http", "spawn", "files", "slurm", "admin"},
    "": {""},
    "http": {"", "http", "jobs"},
    "jobs": {"", "jobs"},
    "spawn": {"", "spawn"},
    "files": {"", "files"},
    "slurm": {"", "slurm"},
    "admin": {"", "admin"},
}
# Third-party header -> where it may be named (path prefixes).
THIRD_PARTY = {
    "microhttpd.h": ["broker/http/"],
    "slurm/": ["broker/slurm/"],
    "jwt.h": ["auth/token.c"],
    "yaml.h": ["base/yaml.c"],
    "sqlite3.h": ["base/db.c"],
    "openssl/": ["base/crypto.c"],
    "curl/": ["cli/client.c"],
    "sys/capability.h": ["broker/spawn/"],
}
BANNED = ["strcpy", "strcat", "sprintf", "vsprintf", "strncpy", "strncat",
          "strtok", "atoi", "atol", "atoll", "system", "popen", "gets",
          "alloca", "setjmp", "longjmp", "tmpnam", "mktemp"]


def sources(pattern="*.[ch]"):
    return [p for f in FOLDERS for p in sorted((ROOT / f).rglob(pattern))]


def code_of(text):
    """The text without comments and string literals."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text,
                  flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(\\.|[^"\\\n])*"', '""', text)


def includes(text):
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text,
                      flags=re.M)


def room_of(path):
    parts = path.split("/")
    if re.fullmatch(r"broker/sluice[^/]*\.c", path):
        return "main"
    return parts[1] if len(parts) > 2 else ""


def arrow_faults(path, text):
    folder = path.split("/")[0]
    for quote, name in includes(text):
        if quote != '"':
            continue
        target = name.split("/")[0]
        if "/" not in name or target not in ARROWS:
            yield f"{path}: \"{name}\" is not a path from the root"
        elif target not in ARROWS[folder]:
            yield f"{path}: {folder}/ must not include {name}"
        elif folder == "broker" and target == "broker" and \
                room_of(name) not in ROOMS[room_of(path)]:
            yield f"{path}: broker/{room_of(path)} must not include {name}"


def third_party_faults(path, text):
    for quote, name in includes(text):
        for header, homes in THIRD_PARTY.items():
            hit = name.startswith(header) if header.endswith("/") \
                else name == header
            if quote == "<" and hit and \
                    not any(path.startswith(h) for h in homes):
                yield f"{path}: <{name}> is named outside {homes}"


def banned_faults(path, text):
    code = code_of(text)
    for word in BANNED:
        for m in re.finditer(rf"(?<![\w.>]){word}\s*\(", code):
            line = code.count("\n", 0, m.start()) + 1
            yield f"{path}:{line}: {word}() is banned"


def style_faults(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 80:
            yield f"{path}:{number}: longer than 80 columns"
        if "\t" in line or line.rstrip() != line:
            yield f"{path}:{number}: a tab or trailing blanks"
    if "SPDX-License-Identifier: GPL-3.0-or-later" not in text[:200]:
        yield f"{path}: no SPDX line"
    for word in ("TODO", "FIXME", "XXX"):
        if re.search(rf"\b{word}\b", text):
            yield f"{path}: {word}"


CHECKS = [arrow_faults, third_party_faults, banned_faults, style_faults]
PLANTED = [
    (arrow_faults, "audit/x.c", '#include "auth/token.h"\n'),
    (arrow_faults, "broker/config.c", '#include "broker/jobs/store.h"\n'),
    (arrow_faults, "broker/jobs/x.c", '#include "broker/http/route.h"\n'),
    (third_party_faults, "broker/jobs/x.c", "#include <slurm/slurm.h>\n"),
    (banned_faults, "base/x.c", "void f(char *a) { strcpy (a, a); }\n"),
    (style_faults, "base/x.c", "int x; \n"),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_tree(check):
    faults = [f for p in sources()
              for f in check(str(p.relative_to(ROOT)), p.read_text())]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("check,path,text", PLANTED)
def test_planted_offence_is_found(check, path, text):
    assert list(check(path, text))


def test_programs_know_every_room():
    assert not list(arrow_faults("broker/sluiced.c",
                                 '#include "broker/http/server.h"\n'))


@pytest.mark.parametrize(
    "header", sources("*.h"), ids=lambda p: str(p.relative_to(ROOT)))
def test_header_compiles_alone(header, tmp_path):
    unit = tmp_path / "alone.c"
    name = header.relative_to(ROOT)
    unit.write_text(f'#include "{name}"\n#include "{name}"\n'
                    "extern int alone;\n")
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra",
                    "-Werror", "-fsyntax-only", f"-I{ROOT}", str(unit)],
                   check=True)


def test_clang_format_decides():
    files = [str(p) for p in sources()] + \
        [str(p) for p in sorted((ROOT / "tests/unit").glob("*.[ch]"))]
    subprocess.run(["clang-format", "--dry-run", "-Werror", *files], check=True)


def test_link_lists_agree_with_arrows():
    """No program that may not map a library links it (design of processes)."""
    build = ROOT / "build/debug"
    if not (build / "sluiced").exists():
        pytest.fail("nothing is built: run tests/run, which builds first")

    def needed(program):
        out = subprocess.run(["readelf", "-d", str(build / program)],
                             check=True, capture_output=True, text=True)
        return re.findall(r"\(NEEDED\).*\[(.*?)\]", out.stdout)

    without = {
        "sluiced": ["libslurm"],
        "sluice-spawnd": ["libslurm", "libmicrohttpd", "libjwt", "libcurl"],
        "sluice-files": ["libslurm", "libmicrohttpd", "libjwt", "libcurl"],
        "sluice-slurm": ["libmicrohttpd", "libjwt", "libcurl"],
        "sluice-verify": ["libslurm", "libmicrohttpd"],
        "sluice-resolve": ["libslurm", "libmicrohttpd", "libjwt"],
        "sluice-admin": ["libslurm", "libmicrohttpd"],
        "sluice": ["libslurm", "libmicrohttpd", "libjwt", "libsqlite3"],
    }
    for program, libraries in without.items():
        found = needed(program)
        assert found, program
        for library in libraries:
            assert not [n for n in found if n.startswith(library)], \
                f"{program} links {library}"
    assert [n for n in needed("sluice-slurm") if n.startswith("libslurm")]
