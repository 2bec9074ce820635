#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What proflet refuses: without privilege exit 3 and exactly the missing capabilities; wrong configuration exit 2, one line
with the place, the key, what was found and what is accepted.
"""
import os
import re
import shutil

from lib.scenario import PROFLET, Scenario

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
ALL = ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "syslog", "checkpoint_restore", "ipc_lock"]
REQUIRED = ["CAP_BPF", "CAP_PERFMON"]  # nothing loads or attaches without them
CAPABILITY = re.compile(r"CAP_[A-Z_]+")

# (name, file, options, what the line must match): an unknown key, wrong types and ranges, bad endpoints
CONFIGURATIONS = (
    ("unknown key", "window: 5s\nsampling:\n  frequencyy: 97\n", [], r"{file}:3\b.*sampling\.frequencyy.*sampling\.frequency\b"),
    ("unknown section", "samplling:\n  frequency: 97\n", [], r"{file}:1\b.*samplling"),
    ("wrong type", "sampling:\n  frequency: fast\n", [], r"{file}:2\b.*sampling\.frequency.*fast.*\d"),
    ("a list where a number belongs", "sampling:\n  frequency: [1, 2]\n", [], r"{file}:2\b.*sampling\.frequency"),
    ("out of range", "window: 5s\nsampling:\n  frequency: 1000000\n", [], r"{file}:3\b.*sampling\.frequency.*1000000.*\d"),
    ("a duration without unit", "window: 10\n", [], r"{file}:1\b.*window.*10.*(10s|1m|duration)"),
    ("not in the list", "protocol: carrier-pigeon\n", [], r"{file}:1\b.*protocol.*carrier-pigeon.*grpc.*http/protobuf"),
    ("not YAML", "window: [\n", [], r"{file}:[12]\b"),
    ("bad endpoint", "\nendpoint: ftp://collector:4317\n", [], r"{file}:2\b.*endpoint.*ftp://collector:4317.*http"),
    ("endpoint without host", "endpoint: http://:4317\n", [], r"{file}:1\b.*endpoint.*http://:4317"),
    ("endpoint with a bad port", "endpoint: http://collector:70000\n", [], r"{file}:1\b.*endpoint.*70000"),
    ("bad option value", "", ["--sampling.frequency", "fast"], r"--sampling\.frequency.*fast.*\d"),
    ("unknown option", "", ["--no-such-option"], r"--no-such-option"),
    ("bad endpoint as option", "", ["--endpoint", "collector"], r"--endpoint.*collector"),
)


def refused(s, name, text, options, pattern):
    path = s.path("proflet.yaml")
    with open(path, "w") as f:
        f.write(text)
    done = s.run([PROFLET, "run", *(["--config", path] if text else []), *options], check=False, seconds=20)
    lines = done.stderr.splitlines()
    ok = done.returncode == 2 and len(lines) == 1 and re.search(pattern.format(file=re.escape(path)), lines[0])
    s.check(f"{name}: exit 2, one line", ok, f"exit {done.returncode}: {done.stderr.strip()[:300]}")


def without_file(s):
    done = s.run([PROFLET, "run", "--config", s.path("missing.yaml")], check=False, seconds=20)
    s.check("missing configuration file: exit 2, one line", done.returncode == 2 and len(done.stderr.splitlines()) == 1
            and "missing.yaml" in done.stderr, f"exit {done.returncode}: {done.stderr.strip()[:300]}")


def unprivileged(s):
    s.need_root()
    s.need("setpriv")
    os.chmod(s.tmp, 0o755)
    program = shutil.copy(PROFLET, s.path("proflet"))
    os.chmod(program, 0o755)

    def attempt(capabilities):
        grant = ",".join(f"+{c}" for c in capabilities)
        extra = ["--inh-caps", grant, "--ambient-caps", grant] if capabilities else []
        return s.run(NOBODY + extra + [program, "run", "--endpoint", "http://127.0.0.1:1"], check=False, seconds=20)

    done = attempt([])
    named = set(CAPABILITY.findall(done.stderr))
    s.equal("no capabilities: exit code", done.returncode, 3)
    s.check("no capabilities: the missing ones are named", set(REQUIRED) <= named, " ".join(sorted(named)))
    for missing in REQUIRED:
        done = attempt([c for c in ALL if "CAP_" + c.upper() != missing])
        named = set(CAPABILITY.findall(done.stderr))
        s.equal(f"all but {missing}: exit code", done.returncode, 3)
        s.equal(f"all but {missing}: exactly it is named", sorted(named), [missing])
    done = s.run(NOBODY + [program, "record", "-d", "1s", "-o", "/tmp/x"], check=False, seconds=20)
    s.equal("record without capabilities: exit code", done.returncode, 3)
    done = s.run(NOBODY + [program, "check"], check=False, seconds=20)
    s.check("check without capabilities says so and fails", done.returncode not in (0, 2) and "CAP_BPF" in done.stdout,
            f"exit {done.returncode}")


def nothing_to_record(s):
    """What cannot be recorded is an error, with exit 1 and one line, and leaves no files."""
    s.need_root()
    for name, arguments, says in (
            ("a command that is not there", ["--", "/nonexistent"], "/nonexistent: No such file or directory"),
            ("a process that is not there", ["-p", "4194300"], "there is no process 4194300")):
        done = s.run([PROFLET, "record", "-o", s.path("nothing"), *arguments], check=False, seconds=30)
        s.equal(f"record {name}: exit code", done.returncode, 1)
        s.check(f"record {name}: one line", says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr.strip()[:200])
        s.check(f"record {name}: no file", not os.path.exists(s.path("nothing.html")))


def body(s):
    s.need_proflet()
    for case in CONFIGURATIONS:
        refused(s, *case)
    without_file(s)
    unprivileged(s)
    nothing_to_record(s)


if __name__ == "__main__":
    Scenario("refusals").execute(body)
