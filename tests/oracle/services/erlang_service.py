# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ of Debian 12 in a chroot, with producers and consumers by pika."""
import os
import shutil
import subprocess
import sys
import time

import debian
from service import CACHE, HERE, Service, run

PIKA = "pika==1.4.4"
PACKAGES = ["rabbitmq-server", "dash", "coreutils", "sed", "grep", "hostname", "mawk"]
INSIDE = 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'
FILES = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/hosts": "127.0.0.1 localhost\n"}


class RabbitMq(Service):
    name, kind, port = "rabbitmq", "beam", 18456
    clients = 2

    @classmethod
    def prepare(cls):
        cls.root_folder = debian.fetch("bookworm", PACKAGES, os.path.join(CACHE, "rabbitmq"))
        cls.venv = os.path.join(CACHE, PIKA)
        if not os.path.exists(os.path.join(cls.venv, "complete")):
            run(sys.executable, "-m", "venv", cls.venv)
            run(os.path.join(cls.venv, "bin", "pip"), "install", "-q", PIKA)
            open(os.path.join(cls.venv, "complete"), "w").close()

    def start(self):
        state = os.path.join(self.root_folder, "state")
        shutil.rmtree(state, ignore_errors=True)
        for folder in ("state", "proc", "dev", "tmp", "etc"):
            os.makedirs(os.path.join(self.root_folder, folder), exist_ok=True)
        for name, program in (("sh", "dash"), ("awk", "mawk")):  # as the packages' own scripts would make them
            link = os.path.join(self.root_folder, "usr", "bin", name)
            if not os.path.lexists(link):
                os.symlink(program, link)
        for path, text in FILES.items():
            with open(os.path.join(self.root_folder, path), "w", encoding="ascii") as f:
                f.write(text)
        environment = {"HOME": "/state", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "RABBITMQ_NODENAME": "rabbit@localhost",
                       "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(self.port + 1),
                       "ERL_EPMD_PORT": str(self.port + 2), "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_MNESIA_BASE": "/state/mnesia",
                       "RABBITMQ_LOG_BASE": "/state/log", "RABBITMQ_LOGS": "-", "RABBITMQ_ENABLED_PLUGINS_FILE": "/state/plugins"}
        argv = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", INSIDE, self.root_folder, "/usr/lib/rabbitmq/bin/rabbitmq-server"]
        self.spawn(argv, environment)
        self.wait_for(lambda: self.client("--once").wait() == 0)

    def client(self, *arguments):
        python = os.path.join(self.venv, "bin", "python3")
        return subprocess.Popen([python, os.path.join(HERE, "queues.py"), str(self.port), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)

    def work(self, end):
        working = [self.client("--seconds", str(end - time.monotonic()), "--queue", f"q{i}") for i in range(self.clients)]
        for process in working:
            out, _ = process.communicate()
            self.counts["messages"] += int(out.split()[0]) if process.returncode == 0 and out.strip() else 0

    def account(self):
        return f"{self.counts['messages']} messages", self.counts["messages"] > 1000
