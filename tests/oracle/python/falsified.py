# SPDX-License-Identifier: Apache-2.0
"""Samples that are right, and each kind of wrong ones: does the judge (tests/e2e/lib/language_chains.py) find out which is which?"""
import json
import os
import subprocess
import sys
import tempfile

from lib import language_chains, profiles

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = ["_start", "__libc_start_main", "main", "Py_RunMain"]  # below the first language frame


def native(name):
    return profiles.Frame(name, 0x1000, "/usr/bin/python3", "native")


def language(name, file, first, line):
    return profiles.Frame(name, 0, "", "cpython", file, first, line)


def sample(chain, count=1, between=None, is_main=True):
    """A sample with the places of a chain, root first; `between`: {index: names of native frames above its caller}."""
    frames = [native(n) for n in NATIVE]
    for i, place in enumerate(chain):
        frames += [native(n) for n in (between or {}).get(i, [])]
        frames.append(language(*place))
    return profiles.Sample({}, {"process.pid": 1, "thread.id": 1 if is_main else 2}, tuple(reversed(frames)), count, "", ())


class Right:
    """The sample of a situation as it should be."""

    def __init__(self, truth, name):
        self.truth, self.name, self.chain, self.between = truth, name, [], {}
        for step in truth.situations[name]:
            if "files" in step:
                if step["optional"]:
                    continue
                file = next(f for f in step["files"] if len(truth.content["library"].get(f, [])) > 1)
                function, first, last = truth.content["library"][file][1]
                self.chain.append((function, file, first, last))
                continue
            if step["between"]:
                self.between[len(self.chain)] = ["_PyFunction_Vectorcall", "list_sort_impl", "qsort"]
            self.chain.append((step["name"], step["file"], step["first"], step["lines"][-1]))

    def sample(self, chain=None, between=None):
        return sample(chain or self.chain, between=self.between if between is None else between)

    def without(self, i):
        chain = self.chain[:i] + self.chain[i + 1:]
        between = {k - (k > i): v for k, v in self.between.items() if k != i}
        return self.sample(chain, between)

    def changed(self, i, **fields):
        place = dict(zip(("name", "file", "first", "line"), self.chain[i]), **fields)
        return self.sample(self.chain[:i] + [tuple(place.values())] + self.chain[i + 1:])


def cases(truth):
    """Yields (what it is, the class that it must have, sample)."""
    for name in truth.situations:
        yield f"right: {name}", "exact", Right(truth, name).sample()
    plain, sort = Right(truth, "s01_plain"), Right(truth, "s20_sorted")
    n = len(plain.chain)
    yield "no leaf", "missing", plain.without(n - 1)
    for i in range(1, n - 1):
        yield f"without frame {i}", "missing", plain.without(i)
    yield "no root", "missing", plain.without(0)
    yield "a key function without its leaf is on its way", "missing", sort.without(len(sort.chain) - 1)
    yield "no key function", "missing", sort.without(len(sort.chain) - 2)
    yield "no frames of the recursion", "missing", Right(truth, "s02_deep").without(20)
    yield "a frame twice", "extra", plain.sample(plain.chain[:2] + plain.chain[1:])
    yield "two frames exchanged", "order", plain.sample(plain.chain[:2] + [plain.chain[3], plain.chain[2]] + plain.chain[4:])
    yield "upside down", "order", plain.sample(plain.chain[::-1])
    yield "a wrong name", "name", plain.changed(3, name="s01_x")
    yield "the name of another situation", "name", plain.changed(3, name="s20_key")
    yield "a wrong file", "file", plain.changed(3, file="/usr/lib/other.py")
    yield "no file", "file", plain.changed(3, file="")
    yield "a wrong first line", "first line", plain.changed(3, first=plain.chain[3][2] + 1)
    yield "no first line", "first line", plain.changed(3, first=0)
    yield "a caller's line one further", "line", plain.changed(3, line=plain.chain[3][3] + 1)
    yield "a caller's first line", "line", plain.changed(3, line=plain.chain[3][2])
    yield "no line", "line", plain.changed(3, line=0)
    yield "the leaf at another function's line", "line", plain.changed(n - 1, line=plain.chain[3][3])
    yield "the leaf at its first line", "exact", plain.changed(n - 1, line=plain.chain[n - 1][2])
    yield "no language frames", "none", sample([])
    ends = sample([])._replace(frames=(profiles.Frame("do_exit", 1, "", "kernel"),))
    yield "a process that ends", "between", ends
    thread = sample([], is_main=False)
    yield "a thread without frames, which does not begin", "none", thread
    yield "a thread that begins", "between", thread._replace(frames=(native("pythread_wrapper"), native("clone3")))
    yield "native code where Python calls Python", "place" if truth.situations["s01_plain"][-1]["direct"] else "exact", \
        plain.sample(between={n - 1: ["PyObject_Vectorcall"]})
    yield "no native code where C calls Python", "place", sort.sample(between={})
    yield "all native code below", "place", sort.sample(between={1: ["list_sort_impl"]})
    yield "no native root", "place", sort.sample()._replace(frames=sort.sample().frames[:-len(NATIVE)])
    yield "the loop is shown", "loop", sort.sample(between={len(sort.chain) - 2: ["list_sort_impl", "_PyEval_EvalFrameDefault"]})
    yield "on the way", "between", plain.sample([plain.chain[0], (*plain.chain[1][:3], plain.chain[1][3] - 1)])
    yield "an import", "foreign", plain.sample(plain.chain[:2] + [("load", "/usr/lib/python3/elsewhere.py", 1, 2)])
    cut = plain.sample(plain.chain[2:])
    deep = Right(truth, "s02_deep")
    yield "a recursion that has begun", "between", deep.sample(deep.chain[:20])
    yield "a recursion without its leaf", "missing", deep.without(len(deep.chain) - 1)
    yield "cut, and it says so", "cut", cut._replace(frames=cut.frames[:-len(NATIVE)] + (native("[truncated: depth limit]"),))
    yield "cut, and it does not say so", "missing", plain.sample(plain.chain[2:])
    yield "cut, and what is left is wrong", "name", cut._replace(frames=(language("s01_x", *plain.chain[2][1:]),) + cut.frames[:2] + (native("[truncated: depth limit]"),))


def faults_found(truth):
    """Yields (what it is, whether `faults` found it out) for what only shows in numbers."""
    def judged(*samples):
        judge = language_chains.Judge(truth)
        for x, n in samples:
            judge.add(x._replace(count=n))
        return " ".join(judge.faults(1000, seen=False))

    plain, sort = Right(truth, "s01_plain"), Right(truth, "s20_sorted")
    key = len(sort.chain) - 2
    yield "all right", not judged((plain.sample(), 1000))
    yield "one wrong of 2000 is allowed", not judged((plain.sample(), 2000), (plain.without(2), 1))
    yield "three wrong of 2000 are not", "exact" in judged((plain.sample(), 2000), (plain.without(2), 3))
    yield "too few samples", "wanted 1000" in judged((plain.sample(), 999))
    yield "too many on the way", "between" in judged((plain.sample(), 2000), (plain.sample(plain.chain[:1]), 50))
    yield "too many foreign", "foreign" in judged((plain.sample(), 1000), (plain.sample(plain.chain[:2] + [("f", "/x.py", 1, 1)]), 50))
    no_leaf = sort.sample(sort.chain[:-2])
    yield "leaves behind C code are missing", "s20_sorted" in judged((plain.sample(), 50000), (sort.sample(), 200), (no_leaf, 60))
    yield "a witness that is often elsewhere", "sort" in judged((sort.sample(), 1000), (sort.sample(between={key: ["PyObject_Vectorcall"]}), 50))
    yield "a witness that has no name in this build", not judged((sort.sample(between={key: ["0x123"]}), 1000))
    yield "a situation never seen", any("never exact" in f for f in language_chains.Judge(truth).faults(0))


def run():
    """→ [whether it passed]"""
    with tempfile.TemporaryDirectory(prefix="falsified-") as folder:
        path = os.path.join(folder, "truth")
        subprocess.run([sys.executable, os.path.join(HERE, "chains.py"), path, "--seconds", "0"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as f:
            assert json.load(f)["situations"]
        truth = language_chains.Truth(path)
    wrong = []
    n = 0
    for what, wanted, x in cases(truth):
        found, _, note = language_chains.Judge(truth).classify(x)
        n += 1
        if found != wanted:
            wrong.append(f"{what}: found {found} ({note}), wanted {wanted}")
    for what, ok in faults_found(truth):
        n += 1
        if not ok:
            wrong.append(what)
    print(f"{'FAIL' if wrong else 'PASS'} falsified samples: {n - len(wrong)} of {n} as expected", flush=True)
    for text in wrong:
        print(f"     {text[:300]}", flush=True)
    return [not wrong]
