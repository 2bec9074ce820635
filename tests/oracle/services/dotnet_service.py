# SPDX-License-Identifier: Apache-2.0
"""An application of ASP.NET Core 9, compiled by Roslyn, on the runtime of a package of npm (../dotnet/builds.py)."""
import os
import shutil
import tempfile

from service import CACHE, HERE, Clients, Service, builds_of

builds = builds_of("dotnet")


class AspNet(Service):
    name, kind, port = "aspnet", "dotnet", 18455
    paths = ["/orders/40", "/words/300", "/orders/90", ("POST", "/sum", '{"values": [3, 1, 4, 1, 5, 9, 2, 6], "name": "pi"}')]
    program = os.path.join(CACHE, "Server.exe")

    @classmethod
    def prepare(cls):
        os.makedirs(CACHE, exist_ok=True)
        builds.compile_sources(cls.program, [os.path.join(HERE, "Server.cs")])

    def start(self):
        self.runtime = tempfile.mkdtemp(prefix="aspnet-", dir=CACHE)  # its files are links to those of the cache
        command = builds.put_in(self.runtime, self.program)
        self.clients = Clients(self, self.port, self.paths)
        self.spawn([command, str(self.port)], env=builds.ENVIRONMENT)
        self.wait_for(self.clients.answers)

    def work(self, end):
        self.clients.work(end)

    def kill(self):
        super().kill()
        shutil.rmtree(self.runtime, ignore_errors=True)
