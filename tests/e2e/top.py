#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`proflet top` on a terminal: a busy program is seen with the right share, keys do what they say, and every way out leaves the
terminal as it was; where there is no terminal, it is plain tables."""
import os
import re
import secrets
import signal
import subprocess
import time

from lib import cgroups, programs
from lib.machine import History, cpu_history, hang_limit, wait_exit
from lib.scenario import PROFLET, Scenario, Skip
from lib.terminal import Terminal

ROWS = 4  # index of the first row on a screen: title, account, tabs, heads
LEAVE = "\x1b[?1049l"


def busy_seconds():
    """Of all CPUs: all but idle, iowait and steal."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:]]
    return (v[0] + v[1] + v[2] + v[5] + v[6]) / os.sysconf("SC_CLK_TCK")


def has_row(pattern):
    return lambda lines: len(lines) > ROWS and re.match(pattern, lines[ROWS])


def seconds_shown(lines):
    m = re.search(r"last (\d+) s\b", lines[2])
    return int(m.group(1)) if m else 0


def check_views(s, t, pid, history):
    lines = t.wait(has_row(r"> *(9\d|100)\.\d +(9\d|100)\.\d  f8 +chain$"), "f8 on the first line")
    s.check("functions: the program's is first, with all of its samples", True, lines[ROWS].strip())
    s.check("header: samples, losses, incomplete stacks, processes",
            re.match(r"CPU \d+% of \d+  \d+ samples/s  lost \d+.*incomplete \d+\.\d%  1 of \d+ processes ran", lines[1]), lines[1])
    t.wait(lambda lines: seconds_shown(lines) >= 2, "two seconds of samples")
    t.send("2")
    lines = t.wait(has_row(rf"> *100\.0 +\d+\.\d +{pid}  chain .* (100|9\d)% f8$"), "the process")
    now, seconds = time.time(), max(1, seconds_shown(lines))
    share = 100 * history.between(now - seconds, now) / seconds
    shown = float(lines[ROWS][1:].split()[1])
    s.check("processes: CPU% is what the kernel counts, within 20", abs(shown - share) <= 20, f"{shown} %, {share:.1f} %")
    t.send("\t")
    lines = t.wait(has_row(r"> *100\.0 +\d+\.\d +1  host "), "the containers")
    s.check("containers: the host, with its top function", lines[ROWS].endswith("f8"), lines[ROWS].strip())


def check_keys(s, t):
    t.send("\x1b[")  # a sequence that is cut in two; where other programs have the CPU, it is one that never comes
    time.sleep(0.05)
    t.send("Z\x1b[Z1s")
    lines = t.wait(lambda lines: ">TOTAL%" in lines[3], "sorted by total")
    rows = [[float(x) for x in line[1:].split()[:2]] for line in lines[ROWS:-1] if line]
    totals = [total for _, total in rows]
    s.check("s: sorted by total, callers of the leaf above what is seldom", totals == sorted(totals, reverse=True) and
            sum(total >= 90 and own < 10 for own, total in rows) >= len(programs.CHAIN) - 1, f"{len(rows)} rows")
    t.send("/F8")
    t.wait(lambda lines: lines[-1].startswith("filter: F8"), "the filter is typed")
    t.send("\r")
    lines = t.wait(lambda lines: "1-1 of 1" in lines[2], "one row")
    s.check("/: only rows with the text", "  f8 " in lines[ROWS] and not any(lines[ROWS + 1:-1]), lines[ROWS].strip())
    t.send("/\x15\rc")
    t.wait(lambda lines: "since start, " in lines[2], "since the start")
    t.send("p")
    t.wait(lambda lines: " paused " in lines[2], "paused")
    t.send("p?")
    lines = t.wait(lambda lines: any("any other key goes back" in line for line in lines), "help")
    s.check("c, p, ?: since start, pause, help", True)
    t.send("x")


def check_sizes(s, t):
    for columns, n in ((60, 12), (25, 5), (120, 40)):
        t.resize(columns, n)
        lines = t.wait(lambda lines, n=n: len(lines) == n, f"{n} lines")
        s.check(f"{columns}x{n}: lines fit, and have a row of functions",
                max(map(len, lines)) <= columns and any(re.match(r"[> ] *\d+\.\d +\d+\.\d  \S", line) for line in lines))


def check_drill_down(s, t, pid):
    """Down to the callers of the leaf, and back, in the order of a person who looks for what takes the time."""
    t.send("2")
    t.wait(has_row(rf".* {pid}  chain"), "the processes")
    t.send("\r")
    lines = t.wait(lambda lines: f"processes › chain {pid}" in lines[2] and has_row(r"> *(9\d|100)\.\d +(9\d|100)\.\d  f8 ")(lines), "its functions")
    s.check("Enter on a process: its functions, and the path to them", True, lines[2])
    t.send("\r")
    lines = t.wait(lambda lines: "› f8" in lines[2] and has_row(r"> *(9\d|100)\.\d +(9\d|100)\.\d  called by  f7 ")(lines), "its callers")
    s.check("Enter on a function: f7 calls f8, which runs itself", any(re.match(r" *(9\d|100)\.\d +\S+  itself     f8 ", line) for line in lines), lines[ROWS])
    t.send("\r")
    lines = t.wait(lambda lines: "› f8 › f7" in lines[2] and has_row(r".*called by  f6 ")(lines), "callers of the caller")
    s.check("Enter on a caller: its callers and callees", any(re.search(r"  calls      f8 ", line) for line in lines), lines[2])
    t.resize(40, 10)
    lines = t.wait(lambda lines: len(lines) == 10 and len(lines) > ROWS and "f6" in lines[ROWS], "a small screen")
    s.check("40x10: the path's end and the first caller are there", max(map(len, lines)) <= 40 and "f7" in lines[2], lines[2])
    t.resize(100, 30)
    t.send("\x7f\x1b")
    time.sleep(0.5)
    t.send("\x7f")
    lines = t.wait(lambda lines: "[2 processes]" in lines[2], "back")
    s.check("Backspace, Esc: back, step by step", has_row(rf">.* {pid}  chain")(lines))
    t.send("1")


def check_recording(s, pid):
    """What is written is what was shown: the samples of the process, and nothing silently replaced."""
    folder = s.path("written")
    os.mkdir(folder)
    t = Terminal(s, ["sh", "-c", f'cd "{folder}" && exec "{PROFLET}" top -p {pid}'], columns=160)
    t.wait(lambda lines: seconds_shown(lines) >= 3, "three seconds")
    t.send("pw")
    t.wait(lambda lines: lines[-1].startswith("write to: proflet-top "), "the proposed name")
    t.send("\r")
    lines = t.wait(lambda lines: lines[-1].startswith("wrote "), "what was written")
    names = [f"proflet-top.{e}" for e in ("html", "folded", "pb.gz", "otlp")]
    s.check("w: says what it wrote, in all formats", all(n in lines[-1] for n in names) and sorted(os.listdir(folder)) == sorted(names), lines[-1])
    shown = int(re.match(r"wrote (\d+) samples", lines[-1]).group(1))
    for name in names[1:]:
        s.run([PROFLET, "show", "-f", "-o", s.path("shown.folded"), os.path.join(folder, name)])
        with open(s.path("shown.folded")) as f:
            text = f.read()
        stacks = [line.rpartition(" ") for line in text.splitlines()]
        s.check(f"{name}: all {shown} samples, with the chain", sum(int(n) for _, _, n in stacks) == shown and
                sum(int(n) for stack, _, n in stacks if stack.endswith("f7;f8")) >= 0.8 * shown, text[:300])
    t.send("w\x15proflet-top\r")
    lines = t.wait(lambda lines: "is there already" in lines[-1], "a refusal")
    s.check("a name that exists: refused", True, lines[-1])
    t.send("w")
    lines = t.wait(lambda lines: lines[-1].startswith("write to: proflet-top"), "the question again")
    t.send("\x15f8.folded\r")
    lines = t.wait(lambda lines: lines[-1].startswith("wrote "), "one file")
    s.check("a name with an extension: that file alone", lines[-1].endswith(": f8.folded") and os.listdir(folder).count("f8.folded") == 1, lines[-1])
    t.send("q")
    s.check("q: the names are behind the screen", t.end() == 0 and all(n in t.text.rpartition(LEAVE)[2] for n in names) and t.restored(),
            t.text.rpartition(LEAVE)[2])


def check_screen(s, pid):
    history = cpu_history(s, pid)
    t = Terminal(s, [PROFLET, "top", "-p", str(pid)])
    check_views(s, t, pid, history)
    s.check("the screen is the alternate one, and input raw", "\x1b[?1049h" in t.text and t.attributes() != t.before)
    s.check("colours", "\x1b[7m" in t.text)
    check_keys(s, t)
    check_drill_down(s, t, pid)
    check_sizes(s, t)
    t.send("q")
    s.equal("q: exit code", t.end(), 0)
    s.check("q: the terminal is as it was", t.restored())
    s.equal("q: written behind the screen", t.text.rpartition(LEAVE)[2], "")


def check_ways_out(s, pid):
    argv = ["sh", "-c", f'ulimit -c 0; exec "{PROFLET}" top --by processes -p {pid}']
    ways = {
        "Ctrl-C": lambda t: t.send("\x03"),
        "Esc": lambda t: t.send("\x1b"),
        "SIGTERM": lambda t: t.process.terminate(),
        "SIGHUP": lambda t: t.process.send_signal(signal.SIGHUP),
        "a crash": lambda t: t.process.send_signal(signal.SIGSEGV),
    }
    terminals = {what: Terminal(s, argv, env={"NO_COLOR": "1"} if what == "Esc" else None) for what in ways}
    for what, way in ways.items():
        t = terminals[what]
        t.wait(has_row(rf".* {pid}  chain"), what)
        way(t)
        code = -signal.SIGSEGV if what == "a crash" else 0
        s.check(f"{what}: exit code {code}, the terminal is as it was", t.end() == code and t.restored(), f"exit {t.process.poll()}")
    s.check("NO_COLOR: no styles", not re.search(r"\x1b\[[\d;]*[1-9]m", terminals["Esc"].text))


def check_stop_and_input(s, pid):
    """Ctrl-Z under a shell with job control, which goes on with it at once; and a terminal that goes away."""
    script = f'set -m; "{PROFLET}" top -p {pid}; echo "stopped=$?"; stty -a | grep -o " -\\?icanon"; fg > /dev/null; echo "ended=$?"'
    t, gone = Terminal(s, ["bash", "-c", script]), Terminal(s, [PROFLET, "top", "-p", str(pid)])
    t.wait(has_row(r".*  f8 "), "the screen")
    t.send("\x1a")
    t.wait(lambda lines: t.text.count("\x1b[?1049h") == 2 and has_row(r".*  f8 ")(lines), "the screen again")
    between = t.text.partition(LEAVE)[2].partition("\x1b[?1049h")[0]
    s.check("Ctrl-Z: stopped, with a usable terminal", "stopped=148" in between and re.search(r"(?<!-)icanon", between), " ".join(between.split()))
    t.send("q")
    t.end()
    s.check("fg: the screen is back, and q ends it", t.text.rstrip().endswith("ended=0") and t.restored(), t.text.rpartition(LEAVE)[2].strip())
    gone.wait(has_row(r".*  f8 "), "the screen")
    os.close(gone.slave)
    os.close(gone.master)
    s.equal("the terminal goes away: exit code", wait_exit(gone.process, 10), 0)


def start_contained(s, program):
    """The same program in a container's group. None: no group can be made here."""
    ident = secrets.token_hex(32)
    try:
        group = cgroups.make(s, f"proflet-e2e-{secrets.token_hex(4)}/{ident}")
    except Skip as e:
        s.skip("a program in a container", e)
        return None
    return cgroups.start(s, group, [program, programs.LIFE], "contained").pid, ident[:12]


def check_plain(s, program, pid):
    contained = start_contained(s, program)
    dumb = Terminal(s, [PROFLET, "top", "-d", "1s", "-p", str(pid)], env={"TERM": "dumb"})
    cpu, busy = cpu_history(s, pid), History(busy_seconds)
    s.defer(busy.end)
    done = subprocess.run([PROFLET, "top", "-d", "2s", "-n", "1000", "--by", "processes"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=hang_limit(30))
    now = time.time()
    share = 100 * cpu.between(now - 2, now) / busy.between(now - 2, now)
    tables = done.stdout.split("\n\n")[:-1]
    s.check("a pipe: a table for each second, exit code 0", done.returncode == 0 and len(tables) == 2, f"exit {done.returncode}, {len(tables)}")
    s.check("a pipe: no escape sequences", "\x1b" not in done.stdout + done.stderr)
    row = re.search(rf"^ *(\d+\.\d) +\d+\.\d +{pid}  chain ", tables[-1], re.M)
    s.check("the whole host: the program's share is what the kernel counts, within 10",
            row and abs(float(row.group(1)) - share) <= 10, f"{row and row.group(1)} %, {share:.1f} %")
    if contained:
        row = re.search(rf"^.* {contained[0]}  chain +(\S+) +\d+% ", tables[-1], re.M)
        if not s.equal("a program in a container: its row says which", row and row.group(1), contained[1]):
            s.note(done.stdout)
    s.check("TERM=dumb: a table without escape sequences", dumb.end() == 0 and "\x1b" not in dumb.text and
            re.search(r" f8 +chain", dumb.text) and dumb.restored())


def check_refused(s):
    t = Terminal(s, [PROFLET, "top", "-p", "4194305"])
    s.check("a process that is not there: exit code 1, a line, the terminal untouched",
            t.end() == 1 and t.text == "proflet: there is no process 4194305\r\n" and t.restored(), t.text.strip())
    done = s.run([PROFLET, "top", "--by", "users"], check=False)
    s.check("a view that is not there: exit code 2, a line",
            done.returncode == 2 and "--by" in done.stderr and "containers" in done.stderr, done.stderr.strip())


def body(s):
    s.need_root()
    s.need_proflet()
    program = programs.build_c(s, "chain")
    chain = s.start([program, programs.LIFE], "chain")
    check_refused(s)
    check_screen(s, chain.pid)
    check_recording(s, chain.pid)
    check_ways_out(s, chain.pid)
    check_stop_and_input(s, chain.pid)
    check_plain(s, program, chain.pid)


if __name__ == "__main__":
    Scenario("top").execute(body)
