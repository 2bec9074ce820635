# SPDX-License-Identifier: Apache-2.0
"""Records a program with proflet and reads the OTLP and folded files back, by the decoder of tests/support."""
import collections
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
import otlp_conformance  # noqa: E402

# Frames are leaf first; `name` is proflet's, `inlined` has those of calls that were inlined there, innermost first.
Frame = collections.namedtuple("Frame", "kind module address name inlined", defaults=[()])
OMITTED = re.compile(r"^samples: .* shortened=(\d+) frames_omitted=(\d+)", re.M)
Sample = collections.namedtuple("Sample", "process pid tid thread frames count times resource")


class Profile:
    def __init__(self, data):
        problems = []
        request = otlp_conformance.Decoder(lambda rule, where, what: problems.append(what)).message("Request", data, "request")
        if problems:
            raise RuntimeError(f"OTLP file: {problems[0]}")
        self.d = request["dictionary"]
        self.strings = self.d["string_table"]
        self.locations = [self._frame(x) for x in self.d["location_table"]]
        self.samples = [self._sample(s, self._resource(rp)) for rp in request["resource_profiles"] for sp in rp["scope_profiles"]
                        for p in sp["profiles"] for s in p["samples"]]

    def _attributes(self, indices):
        result = {}
        for i in indices:
            a = self.d["attribute_table"][i]
            value = a["value"] or {}
            result[self.strings[a["key_strindex"]]] = value.get("string_value") or value.get("int_value")
        return result

    def _frame(self, location):
        names = [self.strings[self.d["function_table"][line["function_index"]]["name_strindex"]] for line in location["lines"]]
        mapping = self.d["mapping_table"][location["mapping_index"]]
        kind = self._attributes(location["attribute_indices"]).get("profile.frame.type", "")
        *inlined, name = names or [""]
        return Frame(kind, self.strings[mapping["filename_strindex"]], location["address"], name, tuple(inlined))

    @staticmethod
    def _resource(rp):
        return {a["key"]: (a["value"] or {}).get("string_value") for a in rp["resource"]["attributes"]}

    def _sample(self, s, resource):
        attributes = self._attributes(s["attribute_indices"])
        frames = tuple(self.locations[i] for i in self.d["stack_table"][s["stack_index"]]["location_indices"])
        times = s["timestamps_unix_nano"]
        return Sample(attributes.get("process.executable.name", "?"), attributes.get("process.pid"),
                      attributes.get("thread.id"), attributes.get("thread.name", "?"), frames, sum(s["values"]) or len(times), times, resource)


def read_folded(path):
    result = collections.Counter()
    with open(path, encoding="utf-8") as f:
        for line in f:
            text, _, n = line.rstrip("\n").rpartition(" ")
            result[text] += int(n)
    return result


def fold(sample):
    """The folded line that proflet writes for a sample, from the OTLP frames. It begins with the name of the main thread (`sh`
    where the executable is `dash`), which the threads of these programs inherit."""
    names = [f"{f.address:#x}" if name == "[anonymous]" else name.replace(";", ":") + ("_[k]" if f.kind == "kernel" else "")
             for f in reversed(sample.frames) for name in (f.name, *reversed(f.inlined))]
    return ";".join([sample.thread] + names)


def end_group(process):
    """The process and what it left behind: children of a fork."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def start(argv, log, program):
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                            env=dict(os.environ, **program.env))


def record(proflet, base, program, hz, seconds):
    """Records the program for `seconds`; returns (Profile, folded lines, (stacks with omitted frames, omitted frames))."""
    argv = [proflet, "record", "-f", "-F", str(hz), "-d", f"{seconds * 1000:.0f}ms", "--format", "folded,otlp", "-o", base]
    processes = []
    with open(base + ".log", "w", encoding="utf-8") as log:
        try:
            if program.attach:
                processes.append(start(program.argv, log, program))
                time.sleep(0.5)  # until it is where it stays
                argv += ["-p", str(processes[0].pid)]
            else:
                argv += ["--", *program.argv]
            processes.append(start(argv, log, program))
            code = processes[-1].wait(seconds + 1200)  # ends what hangs
        finally:
            for process in processes:
                end_group(process)
    with open(base + ".log", encoding="utf-8", errors="replace") as f:
        text = f.read()
    if code:
        raise RuntimeError(f"proflet record: exit {code}: {text[-800:]}")
    omitted = OMITTED.search(text)
    with open(base + ".otlp", "rb") as f:
        return Profile(f.read()), read_folded(base + ".folded"), tuple(map(int, omitted.groups())) if omitted else (0, 0)
