# SPDX-License-Identifier: Apache-2.0
"""A Python program whose call chain is known at all times. It runs on CPython 3.8 to 3.15 and needs no package.

    python3 chains.py TRUTH [--seconds N] [--slice MS] [--only GLOB] [--observe FILE]

It runs one situation after the other, each for a slice of time, again and again. The functions of a situation are named after it,
and say in this file where they are while it runs: the line marked `# call` or `# call:LABEL` is where a function waits for the next
one, those marked `# burn` are the loop that takes the time. What the chains are is computed before the first situation begins, from
the text of this file alone (ast), and written to TRUTH as JSON; the interpreter is not asked about its frames. TRUTH.children gets a
line for each process that is forked. See `Truth` for the form.

--observe: a thread of its own notes what sys._current_frames() says of the others, for a test of this file without a profiler.
"""
import _thread
import argparse
import ast
import asyncio
import contextlib
import copy
import ctypes
import fnmatch
import functools
import gc
import hashlib
import importlib
import itertools
import json
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import weakref
import zlib

clock = time.process_time  # on a busy machine, too, a situation has its share of the samples
PIECE = 0.002  # s that a callback burns
BYTES = bytes(range(256)) * (32 << 12)  # 32 MiB
FOLDER = tempfile.mkdtemp(prefix="chains-")
CHILDREN = None  # file with the ids of forked processes
SITUATIONS = []  # (name, steps, on a thread of its own)


def situation(*steps, thread=False, above=None):
    """Declares the chain of a situation, root first; the first step names the function that begins it.

    A step is NAME or NAME@LABEL: a function by its qualified name, and the label of its calls. In front of it:
    "~WORDS " C code that matches the regular expression stands between it and its caller, "=" nothing stands between them (3.11 and
    later), "<12 " only before 3.12. "FILE:" the source, if it is not this one. NAME^CLASS: at the first line of a class in it, NAME!first:
    at its own first line. "+FILES": one or more functions of files of the library ("?" or none). `thread`: the chain begins at the first
    step, not at the main program; `above`: the situation's name, if the first step does not have it."""
    SITUATIONS.append((above or re.sub("@.*", "", steps[0]), steps, thread))


# --- the leaf of most
def burn(end):
    x = 0  # burn
    while clock() < end:  # burn
        for i in range(200):  # burn
            x = (x * 31 + i) % 1000003  # burn
    return x  # burn


# --- Python that calls Python
def s01_plain(end):
    return s01_b(end)  # call


def s01_b(end):
    return s01_c(end)  # call


def s01_c(end):
    return burn(end)  # call


situation("s01_plain", "=s01_b", "=s01_c", "=burn")


def s02_deep(end, n=49):
    if n:
        return s02_deep(end, n - 1)  # call:deep
    return burn(end)  # call:last


situation("s02_deep@deep", *["=s02_deep@deep"] * 48, "=s02_deep@last", "=burn")


# before 3.11, each has three native frames, and a stack has no more than 1,024
S03_DEPTH = 299 if sys.version_info >= (3, 11) else 199


def s03_deeper(end, n=S03_DEPTH):
    if n:
        return s03_deeper(end, n - 1)  # call:deep
    return burn(end)  # call:last


situation("s03_deeper@deep", *["=s03_deeper@deep"] * (S03_DEPTH - 1), "=s03_deeper@last", "=burn")


def s04_closure(end):
    kept = end

    def inner():
        def innermost():
            return burn(kept)  # call
        return innermost()  # call
    return inner()  # call


situation("s04_closure", "=s04_closure.<locals>.inner", "=s04_closure.<locals>.inner.<locals>.innermost", "=burn")


def s05_decorate(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)  # call
    return wrapper


@s05_decorate
@s05_decorate
def s05_decorated(end):
    return burn(end)  # call


def s05_calls(end):
    return s05_decorated(end)  # call


situation("s05_calls", "s05_decorate.<locals>.wrapper", "s05_decorate.<locals>.wrapper", "s05_decorated", "burn")


def s06_lambda(end):
    f = lambda e: burn(e)  # noqa: E731  # call:lambda
    return f(end)  # call:own


situation("s06_lambda@own", "=s06_lambda.<locals>.<lambda>@lambda", "=burn")


def s07_own_leaf(end):
    x, words = 0, []  # burn
    while clock() < end:  # burn
        words = [str(x), *words[:20]]  # burn
        x = x * 7 % 1009 + len("".join(words))  # burn
    return x  # burn


situation("s07_own_leaf")


# lines further apart than a byte can say, forwards and backwards
S08_TEXT = """def s08_far(end):
    x = 1
""" + 300 * "\n" + """    return s08_back(end,  # call
                    x)


def s08_back(end, x):
    return (s08_last(  # call
""" + 150 * "\n" + """        end) +  # not here
        x)


def s08_last(end):
    for x in (1,
""" + 200 * "\n" + """              2):
        if x == 2:
            return burn(end)  # call
"""
S08 = {"burn": burn}
exec(compile(S08_TEXT, "<s08 text>", "exec"), S08)


def s08_long(end):
    return S08["s08_far"](end)  # call


situation("s08_long", "<s08 text>:s08_far", "<s08 text>:s08_back", "<s08 text>:s08_last", "burn")


# --- classes
class S10Base:
    def __init__(self, end=0.0):
        self.end = end

    def run(self):
        return burn(self.end)  # call


class S10Derived(S10Base):
    def run(self):
        return super().run()  # call


def s10_super(end):
    return S10Derived(end).run()  # call


situation("s10_super", "S10Derived.run", "S10Base.run", "burn")


class S11Kinds:
    end = 0.0

    @classmethod
    def s11_class(cls, end):
        return cls.s11_static(end)  # call

    @staticmethod
    def s11_static(end):
        return burn(end)  # call

    @property
    def s11_property(self):
        return self.s11_class(S11Kinds.end)  # call


def s11_kinds(end):
    S11Kinds.end = end
    return S11Kinds().s11_property  # call


situation("s11_kinds", "S11Kinds.s11_property", "S11Kinds.s11_class", "S11Kinds.s11_static", "burn")


class S12Operators:
    end = 0.0

    def __add__(self, other):
        return self[other]  # call

    def __getitem__(self, key):
        return -self  # call

    def __neg__(self):
        return self(1)  # call

    def __call__(self, n):
        return n in self  # call

    def __contains__(self, n):
        return bool(burn(S12Operators.end))  # call


def s12_operators(end):
    S12Operators.end = end
    return S12Operators() + 1  # call


situation("s12_operators", "S12Operators.__add__", "S12Operators.__getitem__", "~. S12Operators.__neg__",
          "S12Operators.__call__", "~. S12Operators.__contains__", "burn")


class S13Attributes:
    def __getattr__(self, name):
        if name.startswith("s13"):
            self.other = name  # call
        raise AttributeError(name)

    def __setattr__(self, name, value):
        burn(S12Operators.end)  # call


def s13_attributes(end):
    S12Operators.end = end
    return getattr(S13Attributes(), "s13_missing", 0)  # call


situation("s13_attributes", "~. S13Attributes.__getattr__", "~. S13Attributes.__setattr__", "burn")


def s14_class_body(end):
    class S14:
        done = burn(end)  # call:body
    return S14


def s14_begin(end):
    return s14_class_body(end)  # call


# where the function is while the body runs: the first line of the class
situation("s14_begin", "s14_class_body^S14", "~. s14_class_body.<locals>.S14@body", "burn")


class S15Meta(type):
    def __new__(mcs, name, bases, content, end=0.0):
        burn(end)  # call
        return super().__new__(mcs, name, bases, content)

    def __init__(cls, name, bases, content, end=0.0):
        super().__init__(name, bases, content)


def s15_metaclass(end):
    return S15Meta("S15", (), {}, end=end)  # call


situation("s15_metaclass", "~. S15Meta.__new__", "burn")


class S16Hash:
    def __hash__(self):
        return 7

    def __eq__(self, other):
        burn(clock() + PIECE)  # call
        return False


def s16_dictionary(end):
    known = {S16Hash(): 1}
    while clock() < end:
        known.get(S16Hash())  # call


situation("s16_dictionary", "~. S16Hash.__eq__", "burn")


class S17Text:
    def __str__(self):
        burn(clock() + PIECE)  # call
        return ""


def s17_format(end):
    x = S17Text()
    while clock() < end:
        "{}".format(x)  # call


situation("s17_format", "~. S17Text.__str__", "burn")


# --- C that calls Python
def s20_sorted(end):
    while clock() < end:
        sorted(range(8), key=s20_key)  # call


def s20_key(x):
    burn(clock() + PIECE)  # call
    return -x


situation("s20_sorted", "~sort s20_key", "burn")


def s21_nested(end, n=40):
    if n:
        return sorted([0], key=lambda _: s21_nested(end, n - 1))  # call:deep
    return burn(end)  # call:last


situation("s21_nested@deep", *["~sort s21_nested.<locals>.<lambda>@deep", "=s21_nested@deep"] * 39,
          "~sort s21_nested.<locals>.<lambda>@deep", "=s21_nested@last", "=burn")


def s22_json(end):
    while clock() < end:
        json.dumps([s22_json, s22_json], default=s22_default)  # call


def s22_default(x):
    burn(clock() + PIECE)  # call
    return None


situation("s22_json", "+json", "~. s22_default", "burn")


def s23_reduce(end):
    return functools.reduce(s23_step, range(1000), end)  # call


def s23_step(end, _):
    if clock() < end:
        burn(end)  # call
    return end


situation("s23_reduce", "~. s23_step", "burn")


def s24_map(end):
    return list(filter(s24_keep, map(s24_each, [end])))  # call


def s24_each(end):
    burn(clock() + (end - clock()) / 2)  # call
    return end


def s24_keep(end):
    return burn(end)  # call


situation("s24_map", "~. s24_each", "burn")
situation("s24_map", "~. s24_keep", "burn", above="s24_map 2")


def s25_max(end):
    return max([end], key=s25_key)  # call


def s25_key(end):
    return burn(end)  # call


situation("s25_max", "~. s25_key", "burn")


def s26_re_sub(end):
    while clock() < end:
        re.sub("a", s26_replace, "bab")  # call


def s26_replace(match):
    burn(clock() + PIECE)  # call
    return "c"


situation("s26_re_sub", "+re", "~. s26_replace", "burn")


def s27_partial(end):
    return functools.partial(s27_target, 1)(end)  # call


def s27_target(_, end):
    return burn(end)  # call


situation("s27_partial", "~. s27_target", "burn")


@functools.lru_cache(maxsize=2)
def s28_cached(end):
    return burn(end)  # call


def s28_cache(end):
    return s28_cached(end)  # call


situation("s28_cache", "~. s28_cached", "burn")

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LIBRARY = ctypes.CDLL(None)


def s29_ctypes(end):
    array = (ctypes.c_int * 2)(2, 1)
    while clock() < end:
        LIBRARY.qsort(array, 2, 4, S29_COMPARE)  # call


def s29_compare(a, b):
    burn(clock() + PIECE)  # call
    return 0


S29_COMPARE = COMPARE(s29_compare)
situation("s29_ctypes", "~qsort|ffi|msort s29_compare", "burn")


def s30_pickle(end):
    while clock() < end:
        pickle.dumps(S30Reduced())  # call


class S30Reduced:
    def __reduce__(self):
        burn(clock() + PIECE)  # call
        return int, ()


situation("s30_pickle", "~. S30Reduced.__reduce__", "burn")


def s31_copy(end):
    S31.end = end
    return copy.copy(S31())  # call


class S31:
    end = 0.0

    def __copy__(self):
        return burn(S31.end)  # call


situation("s31_copy", "+copy", "S31.__copy__", "burn")


def s32_starmap(end):
    for _ in itertools.starmap(s32_each, [(end, 1)]):  # call
        pass


def s32_each(end, _):
    return burn(end)  # call


situation("s32_starmap", "~. s32_each", "burn")


def s33_signal(end):
    before = signal.signal(signal.SIGUSR2, s33_handler)
    while clock() < end:  # call
        signal.raise_signal(signal.SIGUSR2)  # call
    signal.signal(signal.SIGUSR2, before)


def s33_handler(*_):
    burn(clock() + PIECE)  # call


situation("s33_signal", "+signal?", "~. s33_handler", "burn")


# --- C at the top
def s35_sha256(end):
    while clock() < end:  # burn
        hashlib.sha256(BYTES).digest()  # burn


situation("s35_sha256")


def s36_zlib(end):
    while clock() < end:  # burn
        zlib.crc32(BYTES)  # burn
        zlib.compress(BYTES[:1 << 18])  # burn


situation("s36_zlib")
S37 = re.compile("(a|aa)+b")


def s37_re(end):
    while clock() < end:  # burn
        S37.match("a" * 22)  # burn


situation("s37_re")


def s38_sum(end):
    data = list(range(50000))  # burn
    while clock() < end:  # burn
        sum(data)  # burn
        data.sort(reverse=True)  # burn
        data.reverse()  # burn


situation("s38_sum")


# --- generators, comprehensions, coroutines
def s40_generators(end):
    for _ in s40_outer(end):  # call
        pass


def s40_outer(end):
    for x in s40_inner(end):  # call
        yield x


def s40_inner(end):
    while clock() < end:
        yield burn(end)  # call


situation("s40_generators", "s40_outer", "s40_inner", "burn")


def s41_yield_from(end):
    return list(s41_outer(end))  # call


def s41_outer(end):
    yield from s41_inner(end)  # call


def s41_inner(end):
    yield burn(end)  # call


situation("s41_yield_from", "~. s41_outer", "s41_inner", "burn")


def s42_sum(end):
    return sum(burn(e) for e in [end])  # call


situation("s42_sum", "~. s42_sum.<locals>.<genexpr>", "burn")


def s43_comprehension(end):
    return [burn(e) for e in [end]]  # call


situation("s43_comprehension", "<12 s43_comprehension.<locals>.<listcomp>", "burn")


def s44_dict_set(end):
    return {1: {burn(e) for e in [end]} for _ in range(1)}  # call


situation("s44_dict_set", "<12 s44_dict_set.<locals>.<dictcomp>", "<12 s44_dict_set.<locals>.<dictcomp>.<setcomp>", "burn")


def s45_send(end):
    coroutine = s45_top(end)
    try:
        coroutine.send(None)  # call
    except StopIteration:
        pass


async def s45_top(end):
    return await s45_middle(end)  # call


async def s45_middle(end):
    return await s45_bottom(end)  # call


async def s45_bottom(end):
    return burn(end)  # call


situation("s45_send", "s45_top", "s45_middle", "s45_bottom", "burn")


def s46_throw(end):
    generator = s46_waits(end)
    next(generator)
    generator.close()  # call


def s46_waits(end):
    try:
        yield 1
    finally:
        burn(end)  # call


situation("s46_throw", "~. s46_waits", "burn")


def s47_asyncio(end):
    asyncio.run(s47_top(end))  # call


async def s47_top(end):
    await asyncio.sleep(0)
    await s47_bottom(end)  # call


async def s47_bottom(end):
    burn(end)  # call


situation("s47_asyncio", "+asyncio", "~. s47_top", "s47_bottom", "burn")


def s48_tasks(end):
    asyncio.run(s48_main(end))  # call


async def s48_main(end):
    await asyncio.gather(*[asyncio.ensure_future(s48_task(end, i)) for i in range(3)])


async def s48_task(end, i):
    while clock() < end:
        s48_work(i)  # call
        await asyncio.sleep(0)


def s48_work(i):
    burn(clock() + PIECE)  # call


situation("s48_tasks", "+asyncio", "~. s48_task", "s48_work", "burn")


def s49_async_for(end):
    coroutine = s49_top(end)
    try:
        coroutine.send(None)  # call
    except StopIteration:
        pass


async def s49_top(end):
    async for _ in s49_numbers(end):  # call
        pass


async def s49_numbers(end):
    yield burn(end)  # call


situation("s49_async_for", "s49_top", "~. s49_numbers", "burn")


# --- control flow
class S50Manager:
    def __init__(self, end):
        self.end = end

    def __enter__(self):
        burn(clock() + (self.end - clock()) / 2)  # call
        return self

    def __exit__(self, *_):
        burn(self.end)  # call
        return True


def s50_with(end):
    with S50Manager(end):  # call
        raise ValueError  # call:body


# where the function is while __exit__ runs: until 3.9 the last line of the block
situation("s50_with", "S50Manager.__enter__", "burn")
situation("s50_with@body" if sys.version_info < (3, 10) else "s50_with", "S50Manager.__exit__", "burn", above="s50_with 2")


@contextlib.contextmanager
def s51_managed(end):
    try:
        yield
    finally:
        burn(end)  # call


def s51_contextlib(end):
    with s51_managed(end):  # call
        pass  # call:body


situation("s51_contextlib@body" if sys.version_info < (3, 10) else "s51_contextlib", "+contextlib", "~. s51_managed", "burn")


def s52_exceptions(end):
    try:
        s52_raises(end)
    except KeyError as e:
        s52_handles(end, e)  # call


def s52_raises(end):
    try:
        raise ValueError
    except ValueError as e:
        raise KeyError from e


def s52_handles(end, _):
    try:
        {}[1]
    except KeyError:
        return burn(end)  # call


situation("s52_exceptions", "s52_handles", "burn")


def s53_finally(end):
    try:
        s53_unwinds(end)  # call
    except ValueError:
        pass


def s53_unwinds(end):
    try:
        raise ValueError
    finally:
        burn(end)  # call


situation("s53_finally", "s53_unwinds", "burn")

S54_TEXT = "def s54_made(end):\n    return burn(end)  # call\n\n\ns54_made(end)  # call\n"


def s54_exec(end):
    exec(compile(S54_TEXT, "<s54 text>", "exec"), {"burn": burn, "end": end})  # call


situation("s54_exec", "~. <s54 text>:<module>", "<s54 text>:s54_made", "burn")
S55_CODE = compile("burn(end)  # call", "<s55 text>", "eval")


def s55_eval(end):
    return eval(S55_CODE, {"burn": burn, "end": end})  # call


situation("s55_eval", "~. <s55 text>:<module>", "burn")
S56_MODULE = "import chains_shared\nchains_shared.burn(chains_shared.end)  # call\n"


def s56_import(end):
    sys.modules["chains_shared"].end = end
    sys.modules.pop("s56_module", None)
    importlib.import_module("s56_module")  # call


situation("s56_import", "+importlib", "~. s56_module:<module>", "burn")


def s57_profiled(end):
    S57.end = end
    sys.setprofile(s57_profiler)
    try:
        s57_event(end)  # call
    finally:
        sys.setprofile(None)


def s57_event(end):
    return end


def s57_profiler(frame, event, _):
    if event == "call" and frame.f_code is s57_event.__code__:
        burn(S57.end)  # call


class S57:
    end = 0.0


situation("s57_profiled", "s57_event!first", "~. s57_profiler", "burn")


# --- the end of objects
class S60Dies:
    def __init__(self, end):
        self.end = end

    def __del__(self):
        burn(self.end)  # call


def s60_del(end):
    x = S60Dies(end)
    del x  # call


situation("s60_del", "~. S60Dies.__del__", "burn")


def s61_weakref(end):
    x = S61()
    kept = weakref.ref(x, lambda _: burn(end))  # call:callback
    del x  # call:own
    return kept


class S61:
    pass


situation("s61_weakref@own", "~. s61_weakref.<locals>.<lambda>@callback", "burn")


def s62_collected(end):
    x = S60Dies(end)
    x.itself = x
    del x
    gc.collect()  # call


situation("s62_collected", "~. S60Dies.__del__", "burn")


# --- threads and processes
def s70_threads(end):
    threads = [threading.Thread(target=s70_worker, args=(end, i)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def s70_worker(end, i):
    return burn(end)  # call


situation("+threading", "s70_worker", "burn", thread=True, above="s70_threads")


class S71Thread(threading.Thread):
    def __init__(self, end):
        super().__init__()
        self.end = end

    def run(self):
        sorted([1], key=self.s71_key)  # call

    def s71_key(self, _):
        return burn(self.end)  # call


def s71_subclass(end):
    t = S71Thread(end)
    t.start()
    t.join()


situation("+threading", "S71Thread.run", "~sort S71Thread.s71_key", "burn", thread=True, above="s71_subclass")


def s72_raw(end):
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(s72_worker, (end, done))
    done.acquire()


def s72_worker(end, done):
    try:
        s72_work(end)  # call
    finally:
        done.release()


def s72_work(end):
    hash_once(end)  # call


def hash_once(end):
    while clock() < end:  # burn
        hashlib.sha256(BYTES[:1 << 22]).digest()  # burn


situation("s72_worker", "s72_work", "hash_once", thread=True, above="s72_raw")


def s73_fork(end):
    left = end - clock()
    child = os.fork()
    if not child:
        s73_child(clock() + left)  # call
    note_child(child)
    os.waitpid(child, 0)


def note_child(child):
    os.write(CHILDREN, b"%d\n" % child)


def s73_child(end):
    try:
        burn(end)  # call
    finally:
        os._exit(0)


situation("s73_fork", "s73_child", "burn")


# --- the truth
def body_scopes(tree, inline_comprehensions):
    """Yields (qualified name, first line, last line, node) of all code objects below a module."""
    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            name = None
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = child.name
            elif isinstance(child, ast.Lambda):
                name = "<lambda>"
            elif isinstance(child, ast.GeneratorExp):
                name = "<genexpr>"
            elif not inline_comprehensions:
                name = {ast.ListComp: "<listcomp>", ast.SetComp: "<setcomp>", ast.DictComp: "<dictcomp>"}.get(type(child))
            if name is None:
                yield from walk(child, prefix)
                continue
            first = min([child.lineno] + [d.lineno for d in getattr(child, "decorator_list", [])])
            yield prefix + name, first, child.end_lineno, child
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, prefix + name + (".<locals>." if function else "."))
    yield from walk(tree, "")


MARK = re.compile(r"# (call|burn)(?::(\w+))?$")


class Source:
    """The code objects of a text, by qualified name, with the lines that are marked in each."""

    def __init__(self, file, text):
        self.file = file
        lines = text.split("\n")
        tree = ast.parse(text)
        begin = 1 if sys.version_info >= (3, 10) or not tree.body else tree.body[0].lineno
        scopes = [("<module>", begin, len(lines), None), *body_scopes(tree, sys.version_info >= (3, 12))]
        self.scopes = [(name, first, last) for name, first, last, _ in scopes]
        self.functions = {}
        for name, first, last, _ in scopes:
            marked = {}
            for number in range(first, last + 1):
                found = MARK.search(lines[number - 1])
                if found and not any(first < f <= number <= z and f != z for _, f, z in self.scopes):
                    marked.setdefault(found[2] or found[1], []).append(number)
            self.functions.setdefault(name, (first, last, marked))


class Truth:
    """As JSON: {python, pid, situations, library}.

    A situation is {chain, thread}; a chain is a list of steps, root first, each
      {name, file, first, last, lines, between, direct}: a function, the lines at which it may stand, and what native frames stand
          between it and its caller: a regular expression, with `direct` none at all; `leaf`: it may stand on its first line, too;
      or {files, optional}: one or more functions of files of the library, in any order.
    library: {file: [[name, first line, last line], …]}. Names are qualified from 3.11 on."""

    def __init__(self):
        self.qualified = sys.version_info >= (3, 11)
        self.own = os.path.abspath(__file__)
        with open(self.own, encoding="utf-8") as f:
            text = f.read()
        module = os.path.join(FOLDER, "s56_module.py")
        self.sources = {"": Source(self.own, text), "<s08 text>": Source("<s08 text>", S08_TEXT), "<s54 text>": Source("<s54 text>", S54_TEXT),
                        "<s55 text>": Source("<s55 text>", "burn(end)  # call"), "s56_module": Source(module, S56_MODULE)}
        self.library, self.groups = {}, {}
        for group, modules in {"threading": [threading], "json": [json, json.encoder], "re": [re, sys.modules.get("re._compiler")],
                               "asyncio": [m for n, m in sorted(sys.modules.items()) if n.startswith(("asyncio", "selectors"))],
                               "contextlib": [contextlib], "copy": [copy], "signal": [signal],
                               "importlib": [importlib, "importlib._bootstrap", "importlib._bootstrap_external"]}.items():
            self.groups[group] = [self.add_library(m) for m in modules if m]
        for name in ("enum", "weakref", "os", "_weakrefset", "functools", "contextvars", "concurrent.futures.thread", "logging", "random"):
            if name in sys.modules:
                self.add_library(sys.modules[name])

    def add_library(self, module):
        """A module's functions; frozen ones have the name that is frozen with them."""
        if isinstance(module, str):
            path, file = os.path.join(os.path.dirname(importlib.__file__), module.split(".")[1] + ".py"), f"<frozen {module}>"
        else:
            path = file = getattr(module, "__file__", None)
            code = next((getattr(v, "__code__", None) for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__
                         and getattr(v, "__code__", None) and v.__code__.co_filename.startswith("<frozen")), None)
            if code is not None:
                file = code.co_filename
        if path and path.endswith(".py") and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.library[file] = [[self.shown(n), a, z] for n, a, z in Source(file, f.read()).scopes]
        return file

    def shown(self, name):
        return name if self.qualified else name.rpartition(".")[2]

    def step(self, text):
        """→ the step as JSON; None: not in this version"""
        if text.startswith("<12 "):
            if sys.version_info >= (3, 12):
                return None
            text = text[4:]
        if text.startswith("+"):
            return {"files": self.groups[text[1:].rstrip("?")], "optional": text.endswith("?")}
        found = re.fullmatch(r"(?:~(\S+) |(=)?)(?:(<s\d+ text>|\w+):)?([^@^!]+)(?:@(\w+)|\^(\w+)|(!first))?", text)
        between, direct, source, name, label, inner, first_only = found.groups()
        source = self.sources[source or ""]
        first, last, marked = source.functions[name]
        if inner:
            lines = [source.functions[f"{name}.<locals>.{inner}"][0]]
        elif first_only:
            lines = [first]
        else:
            lines = marked[label] if label else marked.get("burn") or marked["call"]
        return {"name": self.shown(name), "file": source.file, "first": first, "last": last, "lines": lines, "between": between,
                "direct": bool(direct) and self.qualified, "leaf": "burn" in marked}

    def chain(self, steps, thread):
        before = [] if thread else ["<module>@program", "main"]
        return [x for x in map(self.step, before + list(steps)) if x]

    def situations(self, pattern):
        return {name: {"chain": self.chain(steps, thread), "thread": thread} for name, steps, thread in SITUATIONS
                if fnmatch.fnmatchcase(name, pattern)}

    def own_functions(self):
        return [[source.file, self.shown(name), first, last] for source in self.sources.values() for name, first, last in source.scopes]

    def write(self, path, pattern):
        content = {"python": sys.version, "pid": os.getpid(), "situations": self.situations(pattern), "library": self.library,
                   "own": self.own_functions()}
        with open(path + ".part", "w", encoding="utf-8") as f:
            json.dump(content, f)
        os.rename(path + ".part", path)


# --- an observation from inside
def observe(path, end):
    """Notes the chains of all other threads, and writes each with its number; files, names and lines as the frames say."""
    me, seen, text = threading.get_ident(), {}, "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    while time.monotonic() < end:
        time.sleep(0.0007)
        for ident, frame in sys._current_frames().items():
            chain = []
            while frame is not None and ident != me:
                code = frame.f_code
                chain.append((getattr(code, text), code.co_filename, code.co_firstlineno, frame.f_lineno or 0))
                frame = frame.f_back
            if chain:
                key = (ident == threading.main_thread().ident, tuple(reversed(chain)))
                seen[key] = seen.get(key, 0) + 1
    with open(path + ".part", "w", encoding="utf-8") as f:
        json.dump([[is_main, chain, n] for (is_main, chain), n in seen.items()], f)
    os.rename(path + ".part", path)
    os._exit(0)


def prepare(args):
    global CHILDREN
    CHILDREN = os.open(args.truth + ".children", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    sys.dont_write_bytecode = True
    sys.setrecursionlimit(10000)
    sys.modules["chains_shared"] = sys.modules["__main__"]
    sys.path.insert(0, FOLDER)
    with open(os.path.join(FOLDER, "s56_module.py"), "w", encoding="utf-8") as f:
        f.write(S56_MODULE)
    entries = []
    for name, _, _ in SITUATIONS:
        entry = globals()[name.split(" ")[0]]
        if fnmatch.fnmatchcase(name, args.only) and entry not in entries:
            entries.append(entry)
    for entry in entries:  # what is loaded at the first use is loaded
        entry(clock() + 0.01)
    gc.freeze()  # a collection takes no time
    Truth().write(args.truth, args.only)
    if args.observe:
        threading.Thread(target=observe, args=(args.observe, time.monotonic() + args.seconds), daemon=True).start()
        sys.setswitchinterval(0.0005)
    return entries


def main():
    p = argparse.ArgumentParser()
    p.add_argument("truth")
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--slice", type=float, default=60, help="ms")
    p.add_argument("--only", default="*")
    p.add_argument("--observe")
    args = p.parse_args()
    entries, end, part = prepare(args), time.monotonic() + args.seconds, args.slice / 1000
    while time.monotonic() < end:
        for entry in entries:
            until = clock() + part
            entry(until)  # call


if __name__ == "__main__":
    main()  # call:program
