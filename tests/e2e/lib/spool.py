# SPDX-License-Identifier: Apache-2.0
"""An agent's spool as it lies on disk: SEQUENCE-SAMPLES.otlp, see otlp/spool.h."""
import os
import re

from .scenario import wait_for

NAME = re.compile(r"^([0-9a-f]{16})-(0|[1-9]\d*)\.otlp$")


def samples_of(path):
    return int(NAME.match(os.path.basename(path))[2])


class Spool:
    def __init__(self, s, name="spool"):
        self.folder = s.path(name)

    def files(self):
        """Oldest first."""
        try:
            names = [e.name for e in os.scandir(self.folder) if NAME.match(e.name) and e.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        return [os.path.join(self.folder, name) for name in sorted(names)]

    def samples(self):
        return sum(map(samples_of, self.files()))

    def wait(self, n):
        wait_for(lambda: len(self.files()) >= n, 60, f"{n} requests on disk")
