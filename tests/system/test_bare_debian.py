# SPDX-License-Identifier: GPL-3.0-or-later
"""The README's two commands in a bare Debian 12 root, and nothing left over.

The root is made by debootstrap from the mirror that this machine's apt uses and
kept as a tarball in /var/cache/sluice-tests, the one folder that outlives a
run. Everything runs in mount and PID namespaces of its own, so that whatever a
mistake left behind would end with them; that nothing is left is looked at
inside, before they end.
"""
import os
import pathlib
import shutil
import subprocess

import pytest

from site_under_test import ROOT, run

CACHE = pathlib.Path("/var/cache/sluice-tests")
SUITE = "bookworm"


def mirror():
    """The URI from which apt gets the base system."""
    out = run(["apt-get", "indextargets", "--format",
               "$(CODENAME) $(REPO_URI)", "Created-By: Packages"]).stdout
    for line in out.splitlines():
        codename, uri = line.split()
        if codename == SUITE:
            return uri
    pytest.fail(f"apt has no source for {SUITE}")


def bare_root(folder):
    tarball = CACHE / f"{SUITE}.tar"
    if not tarball.exists():
        CACHE.mkdir(exist_ok=True)
        fresh = folder.with_name(folder.name + ".new")
        run(["debootstrap", "--variant=minbase", SUITE, str(fresh), mirror()])
        run(["tar", "-C", str(fresh), "-cf", str(tarball) + ".new", "."])
        shutil.rmtree(fresh)
        os.rename(str(tarball) + ".new", tarball)
    folder.mkdir()
    run(["tar", "-C", str(folder), "-xpf", str(tarball)])


def like_this_machine(folder):
    """Name resolution, proxies, keys and sources as this machine's apt has
    them: its client is configured, the root's is not."""
    for path in ("etc/resolv.conf", "etc/hosts", "etc/hostname"):
        if os.path.exists("/" + path):
            shutil.copy("/" + path, folder / path)
    shutil.copytree("/etc/ssl/certs", folder / "etc/ssl/certs", symlinks=False,
                    dirs_exist_ok=True, ignore_dangling_symlinks=True)
    for path in pathlib.Path("/etc/apt/apt.conf.d").iterdir():
        if "proxy" in path.read_text(errors="replace").lower():
            shutil.copy(path, folder / "etc/apt/apt.conf.d" / path.name)
    uri = mirror()
    (folder / "etc/apt/sources.list").write_text(
        f"deb {uri} {SUITE} main\n")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = pathlib.Path(f"/var/tmp/sluice-bare-{os.getpid()}")
    bare_root(folder)
    like_this_machine(folder)
    clone = folder / "home/sluice"
    run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clone)])
    # What is being tested is this tree, committed or not.
    diff = run(["git", "-C", str(ROOT), "ls-files", "-co",
                "--exclude-standard", "-z"]).stdout.split("\0")
    for name in filter(None, diff):
        source, target = ROOT / name, clone / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    yield folder
    shutil.rmtree(folder)


SCRIPT = r"""
set -eu
mount --bind "$1" "$1"
mount --make-rprivate "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/tmp"
exec chroot "$1" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SLUICE_TEST_KEEP=0 bash -c "$2"
"""


def inside(root, command, timeout):
    """A command in the root; its own mounts and processes end with it."""
    out = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child",
         "--propagation", "private", "bash", "-c", SCRIPT, "inside",
         str(root), command],
        capture_output=True, text=True, timeout=timeout)
    print(out.stdout[-8000:], out.stderr[-4000:])
    return out


# The account files are written when accounts come and go; what is in them is
# compared instead.
STATE_OF_THE_MACHINE = r"""
look() {
    ps -eo comm= | grep -vE '^(bash|ps|sort|grep|look)$' | sort
    echo "== mounts"; cut -d ' ' -f 2,3 /proc/self/mounts | sort
    echo "== accounts"; cut -d : -f 1,3 /etc/passwd /etc/group | sort
    echo "== files"
    find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /run \
        -o -path /home/sluice/build -o -path /var/lib/apt \
        -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg \
        -o -path /root -o -name '__pycache__' \
        -o -regex '/etc/\(passwd\|shadow\|group\|gshadow\|subuid\|subgid\)-?' \
        \) -prune -o -type f -newer \
        /tmp/mark -print 2>/dev/null | sort
}
"""

FIRST = STATE_OF_THE_MACHINE + r"""
set -e
cd /home/sluice
apt-get -q update >/tmp/apt.log 2>&1
./deploy/fleet/packages runtime build >>/tmp/apt.log 2>&1
touch /tmp/mark
look > /tmp/before
./deploy/quickstart
echo "== second"
before=$(sha256sum build/quickstart/etc/munge.key build/quickstart/etc/keys/*)
./deploy/quickstart
[ "$before" = "$(sha256sum build/quickstart/etc/munge.key \
    build/quickstart/etc/keys/*)" ] || { echo 'A SECOND KEY'; exit 1; }
[ "$(pgrep -c slurmctld)" = 1 ] || { echo 'A SECOND FLEET'; exit 1; }
start=$(date +%s)
./deploy/quickstart --no-job
echo "== no-job took $(($(date +%s) - start)) s"
[ $(($(date +%s) - start)) -lt 10 ]
./deploy/quickstart status
./deploy/quickstart down
sleep 1
look > /tmp/after
diff /tmp/before /tmp/after && echo "== nothing is left"
"""


@pytest.mark.timeout(2000)
def test_quickstart_twice_then_down_leaves_nothing(root):
    out = inside(root, FIRST, 1800)
    assert out.returncode == 0, out.stdout[-3000:] + out.stderr[-3000:]
    assert "== nothing is left" in out.stdout
    first, _, second = out.stdout.partition("== second")
    for half in (first, second):
        assert half.count("COMPLETE") >= 2, half[-3000:]
    assert "112" in first


@pytest.mark.timeout(1600)
def test_quick_tests_in_it(root):
    out = inside(root, "cd /home/sluice && ./tests/run --quick", 1500)
    last = out.stdout.strip().splitlines()[-1]
    assert out.returncode == 0 and " 0 failed" in last, out.stdout[-3000:]


def test_without_root_it_says_what_it_needs_and_stops(root):
    out = inside(root, "cd /home/sluice && chmod -R a+rX . && "
                 "setpriv --reuid=65534 --regid=65534 --clear-groups "
                 "./deploy/quickstart", 60)
    assert out.returncode == 1 and "needs root" in out.stderr
