# SPDX-License-Identifier: Apache-2.0
"""Judges samples of tests/oracle/python/chains.py and php/chains.php: are the language's frames the chain that the program was in?

A sample is right if its language frames are, from the root to the leaf, the chain of one situation: each with its name, file, first
line, and a line at which that function waits for the next one. Whatever else a sample is has a class of its own:

    between    on the way from one situation to the next: known functions, the right root, and not the leaf that takes the time
    missing, extra, order, name, file, first line, line       what is wrong with it, by the chain that is nearest
    none       no language frame at all
    unnamed    the chain is right, but for a function whose code may be freed at any time, which has no name (of .NET: what a window ends with)
    place      the chain is right, and the native frames do not stand where they belong
    loop       the interpreter's own loop is shown
    cut        the sample says that it is truncated, and what there is of the chain is right
    elsewhere  a thread that never runs the language
    foreign    a function that is neither the program's nor of the modules that it uses: imports, the end; not judged
"""
import collections
import json
import math
import re

from . import profiles

WRONG = ("missing", "extra", "order", "name", "file", "first line", "line", "none", "place", "loop")
EXACT = 0.999  # of those that are exact or wrong
# From so many samples on. Of fewer, two that were taken at a call, before its function ran, can be more than 0.1 % by chance.
SHARE_IS_EXACT = 2000
BETWEEN, FOREIGN, NAMED, UNNAMED = 0.01, 0.02, 0.99, 0.02
UNKNOWN = "[unknown function]"
BETWEEN_IN_ONE, ENOUGH = 0.2, 100  # of a situation that has so many samples: processes are forked there, too
ENDS = re.compile(r"^(do_exit|do_group_exit|exit_mmap)$")
ENDED = re.compile(r"^(PyThreadState_Clear|tstate_delete_common)$")  # a thread's functions have returned
# Functions of CPython's loop that run for a moment at a call and a return, where the compiler has not inlined them
AT_CALLS = re.compile(r"^(_PyEvalFramePushAndInit|_PyEval_FrameClearAndPop|_PyDict_LoadGlobal|do_super_lookup)\b")
SITUATION = re.compile(r"[sS](\d\d)")
Place = collections.namedtuple("Place", "name file first line at")  # a language frame; `at`: its index in the stack, leaf first


def language_frames(sample, language="cpython"):
    """Root first. Those of a Java virtual machine's own stubs are none: their names have no dot."""
    places = [Place(f.name, f.source, f.first_line, f.line, i) for i, f in reversed(list(enumerate(sample.frames)))
              if f.kind == language and ("." in f.name or language != "jvm")]
    return without_handling(places) if language == "dotnet" else places


DOTNET_STUB = re.compile(r"^IL_STUB|^stub$")
DOTNET_HANDLING = re.compile(r"^System\.Runtime\.EH\.|^System\.Runtime\.ExceptionServices\.InternalCalls\.")


def without_handling(places):
    """Those of .NET as if the runtime did not handle exceptions by functions of the language: a handler, which is a function of its own
    with the method's name, stands in the place of the method, and what has thrown is gone."""
    shown, handled = [], False
    for p in places:
        if DOTNET_STUB.search(p.name):
            continue
        if DOTNET_HANDLING.search(p.name):
            handled = True
            continue
        before = next((i for i in reversed(range(len(shown))) if shown[i].name == p.name), None) if handled else None
        if before is not None:
            del shown[before:]
        elif shown and p.name == shown[-1].name and "Finally" in p.name:
            shown.pop()
        handled = False
        shown.append(p)
    return shown


def settled(samples, pids, seconds):
    """Those of these processes that were taken later than so many seconds after the first of all."""
    samples = list(samples)
    begin = min((t for x in samples for t in x.times), default=0) + int(seconds * 1e9)
    for x in samples:
        n = sum(t >= begin for t in x.times)
        if n and x.attributes.get("process.pid") in pids:
            yield x._replace(count=n)


def of_main_thread(sample):
    """Also if the thread is not known."""
    return sample.attributes.get("thread.id") in (None, sample.attributes.get("process.pid"))


# How much of a step must fit, most first; the name of a level is what is wrong if only the next one fits.
LEVELS = [
    ("exact", lambda s, p: s["name"] == p.name and s["file"] == p.file and s["first"] == p.first and at_line(s, p)),
    ("unnamed", lambda s, p: LEVELS[0][1](s, p) or (s.get("freed", False) and p.name == UNKNOWN)),
    ("line", lambda s, p: s["name"] == p.name and s["file"] == p.file and s["first"] == p.first),
    ("first line", lambda s, p: s["name"] == p.name and s["file"] == p.file),
    ("file", lambda s, p: s["name"] == p.name),
]


def at_line(step, place):
    return place.line in step["lines"] or (step["leaf"] and place.line == step["first"])


def in_files(step, place):
    return place.file in step["files"]


def match(steps, places, fits):
    """→ for each step the index of its last place, or None. A step of files takes as many places as fit."""
    if not steps:
        return None if places else []
    first = steps[0]
    if "files" not in first:
        if not places or not fits(first, places[0]):
            return None
        return match_rest(steps, places, fits, 1)
    n = 0
    while n < len(places) and in_files(first, places[n]):
        n += 1
    for taken in range(n, -1 if first["optional"] else 0, -1):
        found = match_rest(steps, places, fits, taken)
        if found is not None:
            return found
    return None


def match_rest(steps, places, fits, taken):
    found = match(steps[1:], places[taken:], fits)
    return None if found is None else [taken - 1] + [i + taken for i in found]


def is_subsequence(few, many):
    it = iter(many)
    return all(any(x == y for y in it) for x in few)


class Truth:
    """What the program wrote before it began."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.content = json.load(f)
        self.path, self.pid = path, self.content["pid"]
        self.language, self.loop = self.content.get("language", "cpython"), self.content.get("loop")
        self.elsewhere = set(self.content.get("elsewhere", ()))  # first functions of the runtime's own threads
        self.rare = {name for name, s in self.content["situations"].items() if s.get("rare")}  # which may not be seen
        self.unknown_in = self.content.get("unknown_in")  # native functions in which no language frame can be found
        self.situations = {n: s["chain"] for n, s in self.content["situations"].items()}
        self.ids = {n: self._ids(n, chain) for n, chain in self.situations.items()}
        self.threads = {n for n, s in self.content["situations"].items() if s["thread"]}
        self.known = {}  # (file, name) → [(first, last)]
        own = self.content["own"]
        for file, name, first, last in own + [[f, *x] for f, scopes in self.content["library"].items() for x in scopes]:
            self.known.setdefault((file, name), []).append((first, last))
        self.own_files = {x[0] for x in own}
        self.files = self.own_files | set(self.content["library"])
        self.root = next(iter(c for n, c in self.situations.items() if n not in self.threads))[:2]

    @staticmethod
    def _ids(name, chain):
        return set(SITUATION.findall(name)) | {m for s in chain if "name" in s for m in SITUATION.findall(s["name"] + s["file"].rpartition("/")[2])}

    def is_loop(self, name):
        """CPython's instructions may be functions of their own."""
        return self.loop in name if self.loop else "_PyEval_EvalFrameDefault" in name or name.startswith("_TAIL_CALL_")

    def pids(self):
        """Of the program and of all that it has forked."""
        with open(self.path + ".children", encoding="ascii") as f:
            return {self.pid, *map(int, f.read().split())}

    def candidates(self, places):
        ids = {m for p in places for m in SITUATION.findall(p.name + p.file.rpartition("/")[2])}
        found = [n for n in self.situations if ids & self.ids[n]]
        return found or list(self.situations)

    def leaves(self, names):
        return {(c[-1]["name"], c[-1]["file"]) for c in (self.situations[n] for n in names)}


class Judge:
    """Takes samples (of lib.profiles) and counts; `faults` says what must not be."""

    def __init__(self, truth, native=True):
        """`native`: there are native frames between the language's."""
        self.truth, self.native = truth, native
        self.counts = collections.Counter()
        self.table = collections.defaultdict(collections.Counter)  # situation → class → samples
        self.named = collections.defaultdict(collections.Counter)  # (situation, step) → whether a witness has its name
        self.examples = collections.defaultdict(list)
        self.cache = {}

    def add(self, sample):
        verdict, situation, note = self.classify(sample)
        self.counts[verdict] += sample.count
        self.table[situation][verdict] += sample.count
        if verdict in WRONG + ("foreign",) and len(self.examples[verdict]) < 3:
            self.examples[verdict].append(f"{situation}: {note}")

    def classify(self, sample):
        """→ (class, situation, what is wrong)"""
        if self.truth.unknown_in and any(re.search(self.truth.unknown_in, f.name) for f in sample.frames):
            return "foreign", "-", show(sample)
        places = language_frames(sample, self.truth.language)
        if any(self.truth.is_loop(f.name) for f in self._without_loops(sample, places)):
            return "loop", "-", f"{profiles.ending(sample)}: {show(sample)}"
        if not places and self.truth.content.get("native_threads") and profiles.ending(sample) == "complete":
            return "elsewhere", "-", ""  # its frames are on the native stack, all of which was walked
        if not places:
            return ("between" if is_outside(sample) else "none"), "-", show(sample)
        if places[0].name in self.truth.elsewhere:
            return "elsewhere", "-", ""
        truncated = profiles.ending(sample) != "complete"
        key = truncated, tuple(p[:4] for p in places)
        if key not in self.cache:
            self.cache[key] = self._chain(places, truncated)
        verdict, situation, note, found = self.cache[key]
        if verdict == "missing" and self._is_beginning(situation, places) and any(AT_CALLS.match(f.name) for f in sample.frames[:places[-1].at]):
            return "between", situation, ""
        if verdict == "exact" and self.native:
            fault = self._place(sample, places, situation, found)
            if fault:
                return "place", situation, fault
        return verdict, situation, note

    def _without_loops(self, sample, places):
        """The frames that are not the loop's. Above the innermost function may be one that runs no function any more, or not yet."""
        return sample.frames[places[-1].at:] if places and self.truth.content.get("idle_loops") else sample.frames

    def _chain(self, places, truncated):
        names = self.truth.candidates(places)
        for level, fits in LEVELS:
            for n in names:
                found = match(self.truth.situations[n], places, fits)
                if found is not None:
                    return level, n, self._difference(n, places, found), found
        if truncated:
            for n in names:
                if self._is_cut(n, places):
                    return "cut", n, "", None
        at_leaf = (places[-1].name, places[-1].file) in self.truth.leaves(names)
        if at_leaf or any(self._lacks_its_leaf(self.truth.situations[n], places) for n in names):
            return self._nearest(names, places)
        strangers = [p for p in places if p.file not in self.truth.files]
        if strangers:
            return "foreign", "-", f"{[tuple(p[:4]) for p in strangers[:3]]}", None
        if not self._is_on_the_way(places):
            return self._nearest(names, places)
        return "between", names[0] if len(names) < len(self.truth.situations) else "-", "", None

    def _difference(self, n, places, found):
        for step, i in zip(self.truth.situations[n], found):
            if "files" not in step and not LEVELS[0][1](step, places[i]):
                return f"{tuple(places[i][:4])}, wanted {step['name'], step['file'], step['first'], step['lines']}"
        return ""

    def _is_cut(self, n, places):
        chain = self.truth.situations[n]
        return any(match(chain[k:], places, LEVELS[0][1]) is not None for k in range(1, len(chain)))

    def _is_on_the_way(self, places):
        """Known functions, their lines in them, below the right root."""
        if not all(map(self._is_known, places)):
            return False
        root = [p[:2] for p in places[:2]]
        wanted = [(s["name"], s["file"]) for s in self.truth.root][:len(root)]
        threads = [self.truth.situations[n][0] for n in self.truth.threads]
        return root == wanted or any(places[0].file in s["files"] if "files" in s else s["name"] == places[0].name for s in threads)

    def _is_known(self, p):
        return any(p.first == first and first <= (p.line or first) <= last for first, last in self.truth.known.get((p.file, p.name), []))

    @staticmethod
    def _lacks_its_leaf(chain, places):
        """The chain's beginning, and its last function waits for one of Python's that it calls without any code between."""
        for k in range(2, len(chain)):
            following = chain[k]
            if "files" in following or following["between"] or following.get("prepared") or "files" in chain[k - 1] or chain[k - 1]["leaf"]:
                continue
            if following["name"] != chain[k - 1]["name"]:  # a recursion has begun, or returns
                if match(chain[:k], places, LEVELS[0][1]) is not None:
                    return True
        return False

    def _is_beginning(self, n, places):
        """Its program's functions are the chain's first ones."""
        steps = [s["name"] for s in self.truth.situations[n] if "name" in s]
        own = [p.name for p in places if p.file in self.truth.own_files]
        return own == steps[:len(own)]

    def _nearest(self, names, places):
        got = [p.name for p in places]
        own = [p.name for p in places if p.file in self.truth.own_files]
        for kind in ("order", "missing", "extra"):
            for n in names:
                steps = [s["name"] for s in self.truth.situations[n] if "name" in s]
                if (kind == "order" and sorted(steps) == sorted(own)) or (kind == "missing" and is_subsequence(own, steps)) or \
                        (kind == "extra" and is_subsequence(steps, got)):
                    return kind, n, f"{got[-8:]}, wanted {steps[-8:]}", None
        return "name", names[0] if len(names) == 1 else "-", f"{[tuple(p[:4]) for p in places[-6:]]}", None

    def _place(self, sample, places, n, found):
        """What stands between the functions of an exact chain, in the sample that has it whole."""
        if profiles.ending(sample) != "complete":
            return ""
        before = None
        for number, (step, i) in enumerate(zip(self.truth.situations[n], found)):
            between = native_between(sample, places, i) if before is not None else []
            if "files" in step or before is None:
                pass
            elif step["direct"] and between:
                return f"native frames above {places[i - 1].name}: {[f.name for f in between]}"
            elif step["between"]:
                if not between:
                    return f"no native frame between {places[i - 1].name} and {places[i].name}"
                self.named[n, number][any(re.search(step["between"], f.name) for f in between)] += sample.count
            before = i
        if places[0].at == len(sample.frames) - 1 and not self.truth.content["situations"][n].get("own_stack"):
            return "no native frame is the root"
        return ""

    # --- results
    def total(self):
        return sum(self.counts.values())

    def wrong(self):
        return sum(self.counts[c] for c in WRONG)

    def exact_share(self):
        judged = self.counts["exact"] + self.wrong()
        return self.counts["exact"] / judged if judged else 0.0

    def is_exact(self, exact=EXACT):
        """Whether enough are exact. With few samples, as many may lack the innermost function as chance gives."""
        judged, missing = self.counts["exact"] + self.wrong(), self.counts["missing"]
        if not judged or judged >= SHARE_IS_EXACT:
            return self.exact_share() >= exact
        return missing <= at_most(1 - exact, judged) and self.wrong() - missing <= (1 - exact) * judged

    def faults(self, least, exact=EXACT, seen=True):
        """→ what must not be, as text. `least`: so many samples; `seen`: each situation must have some."""
        n = self.total()
        if n < least:
            yield f"{n} samples, wanted {least}"
        if not self.is_exact(exact):
            yield f"{100 * self.exact_share():.3f} % exact, wanted {100 * exact:.1f} %"
        for what, limit in (("between", BETWEEN), ("foreign", FOREIGN), ("unnamed", UNNAMED), ("cut", 0.0)):
            if self.counts[what] > at_most(limit, n):
                yield f"{what}: {self.counts[what]} of {n}, at most {100 * limit:.0f} % ({at_most(limit, n):.0f})"
        for (situation, number), found in self.named.items():
            if found[True] and found[True] < NAMED * found.total():
                yield f"{situation}: {self.truth.situations[situation][number]['between']} stands in {found[True]} of {found.total()}"
        for situation, row in self.table.items():
            if situation != "-" and row.total() >= ENOUGH and row["between"] > BETWEEN_IN_ONE * row.total():
                yield f"{situation}: between {row['between']} of {row.total()}"
        missing = [s for s in self.truth.situations if not self.table[s]["exact"] and s not in self.truth.rare]
        if seen and missing:
            yield f"never exact: {', '.join(missing)}"

    def summary(self):
        return ", ".join(f"{c} {v}" for c, v in self.counts.most_common()) or "no samples"

    def lines(self):
        """A table: situation, samples, by class."""
        for name in [*self.truth.situations, "-"]:
            row = self.table.get(name)
            if row:
                yield f"{name:<20} {row.total():>7}  " + ", ".join(f"{c} {v}" for c, v in row.most_common())
        for kind, notes in self.examples.items():
            for note in notes:
                yield f"{kind}: {note}"


def at_most(share, n):
    """How many of n samples may have what each has with this probability, by four standard deviations: few samples say little."""
    return share * n + 4 * math.sqrt(share * n)


def native_between(sample, places, i):
    """Native frames between a place and its caller, which is nearer to the root."""
    return [f for f in sample.frames[places[i].at + 1:places[i - 1].at] if f.kind != "kernel"]


def is_outside(sample):
    """The thread begins or ends, or its process does: it has no Python frame yet, or no memory any longer."""
    if any(f.kind == "kernel" and ENDS.search(f.name) for f in sample.frames):
        return True
    if any(ENDED.search(f.name) for f in sample.frames):
        return True
    return not of_main_thread(sample) and any(re.search("thread|clone", f.name) for f in sample.frames)


def show(sample):
    return " < ".join(f.name for f in sample.frames[:12])
