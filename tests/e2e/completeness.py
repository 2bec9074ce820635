#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many samples of real programs end at the root: OpenSSL (hand-written assembly, CFA expressions), interpreters, a
database, git, Go, and recursions of known depth. At least 97 % of each; the report names the reasons of the rest.
"""
import collections
import os
import shutil
import signal

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.profiles import ending, names, share, total
from lib.scenario import ROOT, Scenario, stop

SECONDS, CPU = 20, 4  # of the recording; of each program in it: what comes before its language is known weighs little
AT_LEAST = 0.97
EXACT_AT_LEAST = 0.99
MIN_SAMPLES = 50
DEPTHS = (20, 140, 400)
PYTHON = """
import json
def fold(n):
    return sorted(json.loads(json.dumps([fold(n - 1), n, str(n)])), key=str) if n else []
while True:
    fold(60)
"""
PERL = "sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) } while (1) { f(20); join ',', sort map { $_ * 7 % 1000 } 1 .. 2000 }"
RUBY = "def f(n) n < 2 ? n : f(n - 1) + f(n - 2) end; loop { f(18); (1..2000).map { |x| x * 7919 % 10007 }.sort.join(',') }"
PHP = """function f($n) { return $n < 2 ? $n : f($n - 1) + f($n - 2); }
while (1) { f(18); $a = range(1, 2000); usort($a, fn($x, $y) => $x * 7 % 1000 <=> $y * 7 % 1000); }"""
SQL = """WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 2000000000)
SELECT max(hex(x * 7919 % 10007) || substr('abcdefgh', x % 8)) FROM c WHERE x % 3 <> 1;"""
GIT = "while :; do git -C \"$1\" repack -q -a -d -f --window=200 --depth=200; done"


def gives_way(s, argv):
    """As programs that run for programs.LIFE do: all get the same share of the CPUs."""
    return ["nice", "-n", str(s.busy_nice), *argv]


def start_git(s):
    """A repository of our own sources that is packed again and again; git runs as many short processes."""
    folder = s.folder("repository")
    for name in ("agent", "bpf", "otlp", "tests"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name), symlinks=True,
                        ignore=shutil.ignore_patterns("corpus", "fixtures"))
    env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-C", folder, "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        s.run(git + argv, env=env)
    return s.start(gives_way(s, ["sh", "-c", GIT, "sh", folder]), "git", env=env, session=True, end=stop_group)


def stop_group(process):
    """The shell and the git that it runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def start_programs(s):
    """Starts everything; returns the executables' names that must be seen, the processes that run all the time, and what ends all."""
    deep, gospin = programs.build_c(s, "deep"), programs.build_go(s)
    wanted, lasting, ends = [], [], []

    def start(name, argv):
        process = s.start(argv if argv[-1] == programs.LIFE else gives_way(s, argv), name)
        lasting.append(process.pid)
        ends.append(lambda: stop(process))
        wanted.append(os.path.basename(os.path.realpath(shutil.which(argv[0]))))

    start("speed", ["openssl", "speed", "-seconds", "1000", "sha512"])
    start("dgst", ["openssl", "dgst", "-sha512", "/dev/zero"])
    start("python", [shutil.which("python3"), "-c", PYTHON])
    start("perl", ["perl", "-e", PERL])
    start("ruby", ["ruby", "--disable-gems", "-e", RUBY])
    start("php", ["php", "-n", "-r", PHP])
    start("sqlite", ["sqlite3", ":memory:", SQL])
    start("node", ["node", "-e", programs.NODE])  # its code is in no list; the script itself is compiled while it runs
    start("gospin", [gospin, programs.LIFE])
    for depth in DEPTHS:
        start(f"deep{depth}", [shutil.copy(deep, s.path(f"deep{depth}")), str(depth), programs.LIFE])
    if shutil.which("git"):
        git = start_git(s)
        ends.append(lambda: stop_group(git))
        wanted.append("git")
    return sorted(set(wanted)), lasting, ends


def report(s, by_program):
    s.note(f"{'program':<16} {'samples':>8} {'complete':>9}  reasons of the rest")
    for program, endings in sorted(by_program.items(), key=lambda x: -sum(x[1].values())):
        n = sum(endings.values())
        rest = ", ".join(f"{reason} {k}" for reason, k in endings.most_common() if reason != "complete")
        s.note(f"{program:<16} {n:>8} {100.0 * endings['complete'] / n:>8.2f}%  {rest or '-'}")


def check_recursion(s, samples, depth):
    mine = [x for x in samples if x.attributes.get("process.executable.name") == f"deep{depth}"]
    known = ["bottom", *(f"level{i % 8 + 1}" for i in reversed(range(depth - 1))), "main"]
    n = total(mine)
    exact = total([x for x in mine if programs.user_names(x)[:depth + 1] == known and ending(x) == "complete"])
    for x in [x for x in mine if programs.user_names(x)[:depth + 1] != known or ending(x) != "complete"][:3]:
        s.note(f"recursion of {depth}: {x.count} samples: {ending(x)}, {len(x.frames)} frames, {' < '.join(programs.user_names(x)[:4])}")
    s.check(f"recursion of {depth}: complete, exactly {depth} frames", n > 0 and exact >= EXACT_AT_LEAST * n, share(exact, n))
    for x in [x for x in mine if programs.user_names(x)[:depth + 1] != known][:3]:
        s.note(f"another stack, {x.count} times: {len(names(x))} frames, {' < '.join(names(x)[:4])} … {names(x)[-1]}")


def body(s):
    s.need_root()
    s.need("openssl", "python3", "perl", "ruby", "php", "sqlite3", "node")
    s.need_proflet()
    collector = Collector(s)
    recorder = Recorder(s, collector)
    wanted, lasting, ends = start_programs(s)
    agent = Agent(s, recorder.endpoint())
    samples = agent.samples_of(collector, SECONDS, lasting, cpu=CPU)
    for end in ends:  # the judges need the CPUs
        end()
    by_program = collections.defaultdict(collections.Counter)
    for x in samples:
        by_program[x.attributes.get("process.executable.name", "?")][ending(x)] += x.count
    report(s, by_program)
    for program in wanted:
        endings = by_program[program]
        n = sum(endings.values())
        s.check(f"{program}: samples that end at the root", n >= MIN_SAMPLES and endings["complete"] >= AT_LEAST * n,
                share(endings["complete"], n))
    for depth in DEPTHS:
        check_recursion(s, samples, depth)
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())


if __name__ == "__main__":
    Scenario("completeness").execute(body)
