# SPDX-License-Identifier: Apache-2.0
"""A program on a terminal of its own: a pty with a size, keys that are typed, and the screen as it was drawn last."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

from .machine import HANG_FACTOR, unhurried
from .scenario import stop

SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
HOME = "\x1b[H"  # begins each frame


class Terminal:
    def __init__(self, s, argv, columns=100, lines=30, env=None):
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.before = self.attributes()
        self.text = ""
        self.process = subprocess.Popen(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                        env={**os.environ, "TERM": "xterm-256color", **(env or {})})
        s.defer(lambda: stop(self.process))

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def attributes(self):
        return termios.tcgetattr(self.slave)

    def restored(self):
        """As it was before the program, on the main screen, with a cursor and lines that wrap."""
        return self.attributes() == self.before and all(
            self.text.rfind(off) >= self.text.rfind(on)
            for on, off in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?7l", "\x1b[?7h")))

    def send(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds=0.05):
        """Takes what the program has written. False: nothing came."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.text += os.read(self.master, 65536).decode(errors="replace")
        return True

    def screen(self):
        """The lines of the last whole frame; without the styles, and blanks at the end of lines."""
        while self.read(0.02):
            pass
        frame = self.text.rpartition(HOME)
        return [SEQUENCE.sub("", line).rstrip() for line in frame[2].split("\r\n")] if frame[1] else []

    def wait(self, wanted, what, seconds=20):
        """The first screen for which wanted(lines) holds."""
        end = unhurried() + HANG_FACTOR * seconds
        while unhurried() < end:
            lines = self.screen()
            if lines and wanted(lines):
                return lines
            if self.process.poll() is not None and not self.read():
                break
        raise TimeoutError(f"{what}: not in time; the screen is\n" + "\n".join(self.screen() or [self.text[-2000:]]))

    def end(self, seconds=20):
        """Waits for the program's end while its output is read; returns its exit code."""
        end = unhurried() + HANG_FACTOR * seconds
        while self.process.poll() is None and unhurried() < end:
            self.read()
        while self.read(0.02):
            pass
        return self.process.poll()
