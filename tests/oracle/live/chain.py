# SPDX-License-Identifier: Apache-2.0
"""Generates C functions that call each other in an order known beforehand.

A chain is a path through N functions: path[0] calls path[1], and so on, the last one calls the leaf. The functions differ
in what a compiler does with their frames: size, alloca, alignment, registers to save, arguments on the stack, blocks that are
moved away. In a chain without immediate repetition an unwinder that skips a frame, or invents one, shows another stack.
The text compiles as C and as C++.
"""
import random

HEADER = """\
#include <alloca.h>
#include <stdarg.h>
#include <stddef.h>
#ifdef __cplusplus
#define C_BEGIN extern "C" {
#define C_END }
#else
#define C_BEGIN
#define C_END
#endif
#if defined(__clang__)
#define FN __attribute__((noinline, used))
#elif defined(__TINYC__)  /* which inlines nothing */
#define FN
#else
#define FN __attribute__((noinline, noclone, noipa, used))
#endif
#define HIDE(x) __asm__ volatile("" : "+r"(x))
#define USE(p) __asm__ volatile("" : : "r"(p) : "memory")
#define WORK(n) for (int i_ = 0; i_ < (n); i_++) { x = x * 6364136223846793005ul + 1442695040888963407ul; HIDE(x); }
#ifdef __TINYC__
#define UNLIKELY(c) (c)
#else
#define UNLIKELY(c) __builtin_expect_with_probability(!!(c), 0, 1.0)
#endif
typedef unsigned long (*link_fn)(const unsigned char *path, unsigned long x);
C_BEGIN
extern volatile int spinning;  /* the leaf never returns */
extern volatile int always;    /* 1 */
C_END
"""

LEAF = "do { WORK(20) } while (spinning);"

GLOBALS = "C_BEGIN volatile int spinning, always = 1; C_END\n"

KINDS = ("small", "regs", "alloca", "vla", "align", "align_alloca", "args", "align_args", "varargs", "struct", "cold", "early",
         "medium", "huge", "pushes")

TEMPLATES = {
    "small": """unsigned char frame[{size}]; USE(frame); WORK({w})
	{call}
	USE(frame); WORK({w2})
	return x + frame[x % sizeof(frame)];""",
    "regs": """unsigned long a = x + 1, b = x * 3, c = x ^ 5, d = x + 7, e = x * 11, f = x - 13;
	HIDE(a); HIDE(b); HIDE(c); HIDE(d); HIDE(e); HIDE(f); WORK({w})
	{call}
	HIDE(a); HIDE(b); HIDE(c); HIDE(d); HIDE(e); HIDE(f); WORK({w2})
	return x + a + b + c + d + e + f;""",
    "alloca": """unsigned char *p = (unsigned char *)alloca({size} + (x & 1023)); USE(p); WORK({w})
	{call}
	USE(p); WORK({w2})
	return x + p[x % {size}];""",
    "vla": """size_t n = {size} + (x & 511); unsigned char frame[n]; USE(frame); WORK({w})
	{call}
	USE(frame); WORK({w2})
	return x + frame[x % n];""",
    "align": """unsigned char frame[{size}] __attribute__((aligned({alignment}))); USE(frame); WORK({w})
	{call}
	USE(frame); WORK({w2})
	return x + frame[x % sizeof(frame)];""",
    "align_alloca": """unsigned char frame[{size}] __attribute__((aligned({alignment}))); USE(frame);
	unsigned char *p = (unsigned char *)alloca({size} + (x & 255)); USE(p); WORK({w})
	{call}
	USE(frame); USE(p); WORK({w2})
	return x + frame[x % sizeof(frame)] + p[x % {size}];""",
    "cold": """unsigned char frame[{size}]; USE(frame); WORK({w})
	if (UNLIKELY(always)) {{ WORK({w2}) {call} WORK({w}) }}
	USE(frame);
	return x + frame[x % sizeof(frame)];""",
    "early": """if (__builtin_expect(x == 42, 0)) return 7;
	WORK({w})
	if (path == NULL) return x;
	unsigned long a = x + 1, b = x * 3; HIDE(a); HIDE(b);
	{call}
	HIDE(a); HIDE(b); WORK({w2})
	return x + a + b;""",
    "pushes": """WORK({w})
	x += {name}_many(x, 2, 3, 4, 5, 6, {name}_many(x + 1, 2, 3, 4, 5, 6, 7, 8, 9), 8, 9);
	{call}
	WORK({w2})
	return x + {name}_many(x, x, x, x, x, x, x, x, x);""",
}
TEMPLATES["medium"] = TEMPLATES["huge"] = TEMPLATES["small"]

# Functions that pass the call on through a helper, so that the helper's frame is part of the chain.
HELPERS = {
    "args": ("unsigned long arg1, unsigned long arg2, unsigned long arg3, unsigned long arg4, unsigned long arg5, unsigned long arg6",
             "1, 2, 3, 4, 5, 6", "", "x + arg1 + arg2 + arg3 + arg4 + arg5 + arg6"),
    "align_args": ("unsigned long arg1, unsigned long arg2, unsigned long arg3, unsigned long arg4, unsigned long arg5, unsigned long arg6",
                   "1, 2, 3, 4, 5, 6", "unsigned char frame[{size}] __attribute__((aligned({alignment}))); USE(frame);",
                   "x + arg1 + arg2 + arg3 + arg4 + arg5 + arg6 + frame[x % sizeof(frame)]"),
    "varargs": ("...", "1, 2.0, 3", "va_list ap; va_start(ap, x); WORK(1) x += (unsigned long)va_arg(ap, int); va_end(ap);", "x + 1"),
}


class Chain:
    """`functions`: names of all functions, leaf included; `frames`: the whole chain's names, root first, leaf last.
    The argument `leaf` is what the leaf does: spin while `spinning`, unless it says something else."""

    def __init__(self, rng, prefix="f", functions=12, depth=24, kinds=KINDS, huge_bytes=90000, static=True, indirect=0.25,
                 leaf=LEAF, section=None):
        self.prefix, self.rng, self.static = prefix, rng, static
        self.entry, self.leaf = f"{prefix}_enter", f"{prefix}_leaf"
        self.kinds = [kinds[i % len(kinds)] for i in range(functions)]
        rng.shuffle(self.kinds)
        self.indirect, self.huge_bytes, self.leaf_text, self.section = indirect, huge_bytes, leaf, section
        self.path = self._path(functions, depth)
        self.names = [f"{prefix}{i}" for i in range(functions)]
        self.frames = [self.entry]
        for f in self.path:
            self.frames += self._frames_of(f)
        self.frames.append(self.leaf)
        self.functions = set(self.frames)

    def _path(self, functions, depth):
        """Every function about equally often, but those with huge frames at most eight times; no function twice in a row."""
        path, huge = [], 0
        while len(path) < depth:
            f = len(path) if len(path) < functions else self.rng.randrange(functions)
            if functions > 1 and path and path[-1] == f:
                continue
            if self.kinds[f] == "huge":
                if huge == 8:
                    continue
                huge += 1
            path.append(f)
        return path

    def _frames_of(self, f):
        name = f"{self.prefix}{f}"
        return [name, name + "_help"] if self.kinds[f] in HELPERS else [name]

    def prefixes(self):
        """The stacks that one sees while the chain is called and returns: the frames up to each one of them."""
        return [self.frames[:n] for n in range(1, len(self.frames) + 1)]

    def source(self):
        qualifier = "static " if self.static else ""
        if self.section:
            qualifier = f'__attribute__((section("{self.section}"))) ' + qualifier
        names = self.names + [self.leaf]
        text = ["C_BEGIN"] + [f"{qualifier}unsigned long {n}(const unsigned char *path, unsigned long x);" for n in names]
        text.append(f"__attribute__((unused)) static const link_fn {self.prefix}_table[] = {{{', '.join(names)}}};")
        path = self.path[1:] + [len(self.names)]
        text.append(f"static const unsigned char {self.prefix}_path[] = {{{', '.join(map(str, path))}}};")
        text += [self._function(i, qualifier) for i in range(len(self.names))]
        text.append(f"""FN {qualifier}unsigned long {self.leaf}(const unsigned char *path, unsigned long x)
{{
	{self.leaf_text}
	return x + (path == NULL);
}}
unsigned long {self.entry}(unsigned long x);
FN unsigned long {self.entry}(unsigned long x)
{{
	return {self.names[self.path[0]]}({self.prefix}_path, x) + 1;
}}
C_END""")
        return "\n".join(text) + "\n"

    def _call(self, f):
        """How function f calls what comes next: through the table, directly, or one of several."""
        following = {self.path[i + 1] if i + 1 < len(self.path) else len(self.names) for i, g in enumerate(self.path) if g == f}
        names = self.names + [self.leaf]
        if self.rng.random() < self.indirect or not following:
            return f"x = {self.prefix}_table[*path](path + 1, x) + 1;"
        if len(following) == 1:
            return f"x = {names[following.pop()]}(path + 1, x) + 1;"
        cases = "".join(f" case {g}: x = {names[g]}(path + 1, x) + 1; break;" for g in sorted(following))
        return f"switch (*path) {{{cases} }}"

    def _function(self, f, qualifier):
        rng, kind, name = self.rng, self.kinds[f], self.names[f]
        size = {"huge": self.huge_bytes + 16 * rng.randrange(1000), "medium": rng.randrange(1000, 9000)}.get(kind, rng.randrange(16, 400))
        values = {"size": size, "alignment": rng.choice((32, 64, 128)), "w": rng.randrange(1, 6), "w2": rng.randrange(1, 6),
                  "name": name, "call": self._call(f)}
        head = f"FN {qualifier}unsigned long {name}(const unsigned char *path, unsigned long x)"
        if kind in HELPERS:
            parameters, arguments, begin, result = (t.format(**values) for t in HELPERS[kind])
            return f"""FN {qualifier}unsigned long {name}_help(const unsigned char *path, unsigned long x, {parameters})
{{
	{begin} WORK({values['w']})
	{values['call']}
	WORK({values['w2']})
	return {result};
}}
{head}
{{
	return {name}_help(path, x + 1, {arguments}) + 1;
}}"""
        if kind == "struct":
            return f"""struct {name}_s {{ unsigned long v[{size // 8 + 3}]; }};
FN {qualifier}struct {name}_s {name}_made(unsigned long x)
{{
	struct {name}_s s; USE(&s); s.v[1] = x; USE(&s);
	return s;
}}
{head}
{{
	struct {name}_s s = {name}_made(x); USE(&s);
	{values['call']}
	USE(&s);
	return x + s.v[1];
}}"""
        many = ""
        if kind == "pushes":
            many = f"""FN {qualifier}unsigned long {name}_many(unsigned long a, unsigned long b, unsigned long c, unsigned long d,
	unsigned long e, unsigned long f, unsigned long g, unsigned long h, unsigned long i)
{{
	HIDE(a);
	return a + b + c + d + e + f + g + h + i;
}}
"""
        return many + head + "\n{\n\t" + TEMPLATES[kind].format(**values) + "\n}"

    def side_calls(self):
        """Leaves besides the chain's: {caller's name: leaf}."""
        result = {}
        for i, kind in enumerate(self.kinds):
            if kind == "struct":
                result[self.names[i]] = self.names[i] + "_made"
            elif kind == "pushes":
                result[self.names[i]] = self.names[i] + "_many"
        return result

    def walks(self):
        """All stacks of a walk, side calls included."""
        side, result = self.side_calls(), []
        for stack in self.prefixes():
            result.append(stack)
            if stack[-1] in side:
                result.append(stack + [side[stack[-1]]])
        return result


def make(seed, name, **options):
    return Chain(random.Random(f"{seed}/{name}"), **options)
