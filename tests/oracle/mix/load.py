# SPDX-License-Identifier: Apache-2.0
"""A load of the host mix: commands that are repeated, and the names of the executables that they run."""
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys


class Skip(Exception):
    """The load cannot run here; the text is the reason."""


@dataclasses.dataclass
class Load:
    """`programs`: names of executables, exactly, that belong to it. `loops`: shell commands, each repeated in a process group
    of its own. `services`: commands that run for the whole time, started before the loops. `jit`: makes code at run time."""
    programs: set
    loops: list
    services: list = dataclasses.field(default_factory=list)
    jit: bool = False


class Work:
    """A load's folder and inputs, from the seed."""

    def __init__(self, folder, seed, name):
        self.folder, self.rng = folder, random.Random(f"{seed}/{name}")
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def need(self, name, *more):
        path = next((shutil.which(n) for n in (name, *more) if shutil.which(n)), None)
        if not path:
            raise Skip(f"{name} is not installed")
        return path

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb" if isinstance(text, bytes) else "w") as f:
            f.write(text)
        return self.path(name)

    def run(self, *argv, **options):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=600,
                              cwd=options.pop("cwd", self.folder), **options)
        if done.returncode:
            raise Skip(f"{' '.join(argv)[:80]}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def text(self, n_bytes):
        """Words that compress about as well as prose does."""
        words = ["".join(self.rng.choices("etaoinshrdlucmfwypvbgk", k=self.rng.randint(2, 9))) for _ in range(3000)]
        parts, size = [], 0
        while size < n_bytes:
            line = " ".join(self.rng.choices(words, weights=range(3000, 0, -1), k=12))
            parts.append(line)
            size += len(line) + 1
        return "\n".join(parts)[:n_bytes] + "\n"

    def free_port(self):
        import socket
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]


class Running:
    """The processes of one load. `stop` ends every process group that was started here, and nothing else."""

    def __init__(self, name, load, folder):
        self.name, self.log, self.processes = name, open(os.path.join(folder, "log"), "w"), []
        for command in load.services:
            self._start(command, folder)
        for i, command in enumerate(load.loops):
            self._start(f"cd {folder}; n=0; while :; do n=$((n + 1)); ( {command} ) >/dev/null || sleep 0.2; "
                        f"echo $n > runs{i}; done", folder)

    def _start(self, command, folder):
        self.processes.append(subprocess.Popen(["/bin/sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=self.log,
                                               stderr=self.log, start_new_session=True))

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for p in reversed(self.processes):
                try:
                    os.killpg(p.pid, number)
                except ProcessLookupError:
                    pass
            for p in self.processes:
                try:
                    p.wait(5)
                except subprocess.TimeoutExpired:
                    print(f"host_mix: {self.name} does not end, killed", file=sys.stderr)
        self.log.close()
