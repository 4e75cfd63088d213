# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for sluice-spawnd: starts the workers and watch as an account,
speaks broker/proto.h sections 3 and 4 with them. Needs root."""
import array
import json
import os
import pwd
import select
import socket
import time

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid():
    n = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(CROCKFORD[(n >> (5 * i)) & 31] for i in range(25, -1, -1))


def job_name(workflow, the_ulid):
    return f"{workflow}.{the_ulid.lower()}"


def become(account):
    entry = pwd.getpwnam(account)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)


class Process:
    """One worker, or watch, and our end of its control socket."""

    def __init__(self, argv, account, env, catalog=None):
        ours, theirs = socket.socketpair(socket.AF_UNIX,
                                         socket.SOCK_SEQPACKET)
        folder = os.open(catalog, os.O_RDONLY) if catalog else -1
        self.pid = os.fork()
        if self.pid == 0:
            self._child(theirs, folder, account, argv, env)
        theirs.close()
        if folder >= 0:
            os.close(folder)
        self.sock = ours
        self.frames = []

    @staticmethod
    def _child(theirs, folder, account, argv, env):
        try:
            high = [os.dup2(theirs.fileno(), 200, inheritable=False),
                    os.dup2(folder, 201, inheritable=False)
                    if folder >= 0 else -1]
            os.dup2(high[0], 3)
            if high[1] >= 0:
                os.dup2(high[1], 4)
            os.closerange(5 if folder >= 0 else 4, 200)
            become(account)
            os.execve(argv[0], argv, env)
        finally:
            os._exit(127)

    def send(self, frame, fds=()):
        data = json.dumps(frame).encode()
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                  array.array("i", fds))] if fds else []
        self.sock.sendmsg([data], extra)

    def recv(self, timeout=30):
        if not select.select([self.sock], [], [], timeout)[0]:
            raise TimeoutError("no frame came")
        data = self.sock.recv(1 << 17)
        if not data:
            raise EOFError("the process has closed its socket")
        return json.loads(data)

    def end(self):
        self.sock.close()
        return os.waitpid(self.pid, 0)[1]


class Worker(Process):
    def __init__(self, program, account, site, catalog, slurm_conf):
        argv = [program]
        if program.endswith("sluice-slurm"):
            argv += ["worker"]
        argv += ["--jobs-root", site["jobs"], "--inputs", site["inputs"],
                 "--models", site["models"]]
        if program.endswith("sluice-slurm"):
            argv += ["--cluster", site["cluster"]]
        env = {"SLURM_CONF": slurm_conf, "PATH": "/usr/bin:/bin",
               "LANG": "C.UTF-8", "TZ": "UTC"}
        super().__init__(argv, account, env, catalog)
        entry = pwd.getpwnam(account)
        self.uid = entry.pw_uid
        self.person = {"name": account, "account": account,
                       "home": entry.pw_dir, "shell": entry.pw_shell,
                       "slurm_account": None, "qos": None}
        self.count = 0

    def start(self, verb, args, the_ulid=None, job=None, pipe=False):
        """Sends a request; the read end of its pipe, or None."""
        self.count += 1
        frame = {"v": 1, "request": f"r{self.count}", "verb": verb,
                 "ulid": the_ulid, "args": args, "person": self.person,
                 "job": job}
        if not pipe:
            self.send(frame)
            return None
        r, w = os.pipe()
        self.send(frame, [w])
        os.close(w)
        return r

    def finish(self, timeout=30):
        """(result frame, stages seen)"""
        stages = []
        while True:
            frame = self.recv(timeout)
            if frame["event"] == "result":
                return frame, stages
            stages.append(frame["stage"])

    def ask(self, verb, args, the_ulid=None, job=None, pipe=False,
            timeout=30):
        """(result frame, stages, bytes of the pipe)"""
        r = self.start(verb, args, the_ulid, job, pipe)
        data = b""
        if r is not None:
            while True:
                chunk = os.read(r, 65536)
                if not chunk:
                    break
                data += chunk
            os.close(r)
        frame, stages = self.finish(timeout)
        return frame, stages, data


class Watch(Process):
    def __init__(self, program, account, cluster, slurm_conf, poll_ms=1000):
        argv = [program, "watch", "--poll-ms", str(poll_ms), "--cluster",
                cluster]
        env = {"SLURM_CONF": slurm_conf, "PATH": "/usr/bin:/bin",
               "LANG": "C.UTF-8", "TZ": "UTC"}
        super().__init__(argv, account, env)
        self.count = 0
        self.events = []

    def next(self, wanted, timeout=30):
        """The next frame for which wanted(frame); the others are kept in
        self.events."""
        end = time.monotonic() + timeout
        while True:
            frame = self.recv(max(0.01, end - time.monotonic()))
            self.events.append(frame)
            if wanted(frame):
                return frame

    def ask(self, kind, timeout=30, **fields):
        self.count += 1
        name = f"a{self.count}"
        self.send({"v": 1, "ask": kind, "id": name, **fields})
        return self.next(lambda f: f["event"] == "answer" and
                         f["id"] == name, timeout)

    def peer(self):
        """A new peer's own socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX,
                                         socket.SOCK_SEQPACKET)
        self.send({"v": 1, "event": "peer"}, [theirs.fileno()])
        theirs.close()
        return ours
