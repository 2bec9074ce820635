# SPDX-License-Identifier: Apache-2.0
"""How fast this machine is now, for tests that must hold on a busy one, too.

A thread looks, ten times a second, how many threads want a CPU and how late its own sleep returns. From both it keeps a clock,
unhurried(), which advances as the wall clock does while a CPU is free, and more slowly while none is: at a third of the speed
beside two busy programs for each CPU. Three rules for tests follow:

- A limit that only ends what hangs counts by this clock, times HANG_FACTOR (wait_for, wait_exit, communicate, hang_limit).
- A promise of time, such as "fails within 10 s", is judged by a clock that only other programs slow down, not those of the test
  itself (PromiseClock). On a quiet machine that is the wall clock.
- A number of samples follows from the CPU time that the programs got (cpu_seconds, wait_for_cpu, History), not from the time
  that has passed.
"""
import bisect
import os
import subprocess
import threading
import time

LOOK = 0.1  # s between two looks
ON_TIME = 1.1  # a sleep that took no longer than this, times LOOK, was not late
RECENT = 5.0  # s
HANG_FACTOR = 3  # disks and caches make slow, too
CPUS = len(os.sched_getaffinity(0))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def running():
    """How many threads run or wait for a CPU; who calls is one of them."""
    try:
        return int(read("/proc/loadavg").split()[3].partition("/")[0])
    except (OSError, IndexError, ValueError):
        return 1


def running_of_ours():
    """Those of this scenario and of all programs that it has started."""
    n, left = 0, [os.getpid()]
    while left:
        folder = f"/proc/{left.pop()}/task"
        try:
            for task in os.listdir(folder):
                n += read(f"{folder}/{task}/stat").rpartition(")")[2].split()[0] == "R"
                left += map(int, read(f"{folder}/{task}/children").split())
        except OSError:  # it has ended meanwhile
            continue
    return n


def threads_per_cpu():
    """How many threads share a CPU if one more wants to run: 1 where a CPU is free."""
    return max(1.0, running() / CPUS)


def others_per_cpu():
    """The same if there were no other thread of this scenario."""
    return max(1.0, (running() - running_of_ours() + 1) / CPUS)


class History:
    """A number that only grows, read again and again from now on: how much it grew over any stretch of a test."""

    def __init__(self, read, every=0.05):
        self.read, self.every = read, every
        self.times, self.values = [], []  # Unix time, value
        self.ended = False
        self._note()
        threading.Thread(target=self._run, daemon=True).start()

    def _note(self):
        before, value = time.time(), self.read()
        self.values.append(value)
        self.times.append((before + time.time()) / 2)  # last: whoever reads finds a value for each time

    def _run(self):
        while not self.ended:
            time.sleep(self.every)
            try:
                self._note()
            except OSError:  # its process has ended
                return

    def end(self):
        self.ended = True

    def at(self, unix):
        """The value at that Unix time, interpolated; the first or last one outside of what was read."""
        n = len(self.times)
        i = bisect.bisect(self.times, unix, 0, n)
        if i in (0, n):
            return self.values[min(i, n - 1)]
        part = (unix - self.times[i - 1]) / (self.times[i] - self.times[i - 1])
        return self.values[i - 1] + part * (self.values[i] - self.values[i - 1])

    def between(self, begin, end):
        return self.at(end) - self.at(begin)


class _Clock:
    """Wall time divided by how many share a CPU meanwhile, without the time by which a sleep was late."""

    def __init__(self, per_cpu):
        self.looked, self.value, self.per_cpu = time.monotonic(), 0.0, per_cpu

    def __call__(self):
        now = time.monotonic()
        elapsed, self.looked = now - self.looked, now
        in_time = elapsed if elapsed <= ON_TIME * LOOK else LOOK
        self.value += in_time / self.per_cpu()
        return self.value


_history, _lock = None, threading.Lock()


def _clock():
    global _history
    with _lock:
        if not _history:
            _history = History(_Clock(threads_per_cpu), LOOK)
    return _history


def unhurried():
    """Seconds, from any start, as they count for one who competes for a CPU; exact to LOOK."""
    return _clock().values[-1]


def slowness():
    """How many times as slow as a quiet machine this one was in the last seconds; at least 1."""
    clock = _clock()
    now = clock.times[-1]
    begin = max(clock.times[0], now - RECENT)
    counted = clock.between(begin, now)
    return max(1.0, (now - begin) / counted) if counted > LOOK else threads_per_cpu()


class PromiseClock(History):
    """Seconds as they count for a promise. Make one before the promise is given; exact to LOOK."""

    def __init__(self, s):
        super().__init__(_Clock(others_per_cpu), LOOK)
        s.defer(self.end)

    def now(self):
        return self.values[-1]


# --- limits that end what hangs
def wait_for(condition, seconds, what):
    """Returns the condition's first true value; TimeoutError naming `what` after so many seconds of a quiet machine, and more."""
    begin, end = time.monotonic(), unhurried() + HANG_FACTOR * seconds
    while True:
        value = condition()
        if value:
            return value
        if unhurried() > end:
            raise TimeoutError(f"{what}: not within {time.monotonic() - begin:.0f} s, of which a program that computes got "
                               f"{HANG_FACTOR * seconds:.0f} s")
        time.sleep(0.05)


def hang_limit(seconds):
    """A limit in wall time, for calls that take one: for what is done in so many seconds on a quiet machine."""
    return HANG_FACTOR * seconds * max(4.0, 2 * slowness())


def wait_exit(process, seconds, what="the program's end"):
    """Returns the exit code."""
    wait_for(lambda: process.poll() is not None, seconds, what)
    return process.returncode


def communicate(process, seconds, what):
    """(output, errors) of a process once it has ended. What does not end is killed: TimeoutError."""
    end = unhurried() + HANG_FACTOR * seconds
    try:
        while True:
            try:
                return process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                if unhurried() > end:
                    raise TimeoutError(f"{what}: does not end")
    except BaseException:
        process.kill()
        process.wait()
        raise


# --- time that programs got
def cpu_seconds(pid):
    """CPU time of a process, to the nanosecond and with its ended threads (its CPU clock, see clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def cpu_history(s, *pids):
    """The CPU time of these processes together, until the scenario ends or one of them does."""
    history = History(lambda: sum(map(cpu_seconds, pids)))
    s.defer(history.end)
    return history


class CpuTime:
    """CPU time that each process gets from now on."""

    def __init__(self, pids):
        self.begin = {pid: cpu_seconds(pid) for pid in pids}

    def least(self):
        return min((cpu_seconds(pid) - begin for pid, begin in self.begin.items()), default=float("inf"))

    def wait(self, seconds):
        """Until each has got so much; an error where one has ended."""
        wait_for(lambda: self.least() >= seconds, 30 + 10 * seconds * len(self.begin), f"{seconds} s of CPU time for each program")


def wait_for_cpu(pids, seconds):
    """Until each of these processes has got so much CPU time from now on."""
    CpuTime(pids).wait(seconds)
