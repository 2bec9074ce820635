# SPDX-License-Identifier: Apache-2.0
"""Control flow besides call and return: jumps, exceptions, tail calls, contexts, callbacks, what runs before and after main."""
from .chain import GLOBALS, HEADER, KINDS
from .work import LIBC, START, Program, main_of, stack, stacks

FLAGS = ["-O2", "-fomit-frame-pointer", "-D_GNU_SOURCE"]
# the unwinding library, libc, the dynamic linker, a PLT
ANY = r"(?:;<(?:plt|libc\.so\.6|libgcc_s\.so\.1|libstdc\+\+\.so[.0-9]*|ld-linux-x86-64\.so\.2)>)*"
DECLARE = "C_BEGIN unsigned long {0}(unsigned long x); C_END\n"
SPIN, WALK = ["spin"], ["walk"]


def chains(work, *prefixes, depth=12, functions=10, kinds=KINDS, **leaves):
    return [work.chain(p, functions=functions, depth=depth, kinds=kinds, **({"leaf": leaves[p]} if p in leaves else {}))
            for p in prefixes]


def program(work, mode, texts, expect, used, compiler="gcc", flags=FLAGS, link=(), extra=(), **options):
    path = work.cc("flow", texts, [*flags, "-pthread"], link=link, compiler=compiler)
    functions = set(extra)
    for c in used:
        functions |= c.functions | set(c.side_calls().values())
    return Program([path, *mode], expect, functions, [path, *options.pop("elves", [])], passing=[stacks(START, used[0].walks())],
                   **options)


def source_of(*used):
    return "".join(c.source() for c in used)


JUMPER = HEADER + """
#include <setjmp.h>
static jmp_buf env;
C_BEGIN unsigned long g_enter(unsigned long x); unsigned long h_enter(unsigned long x);
FN unsigned long jumper(unsigned long x)
{
	volatile unsigned long y = x;
	if (setjmp(env) == 0)
		return g_enter(y) + 1;
	return h_enter(y) + 1;
}
C_END
"""


def jump(work, mode):
    f, g, h = chains(work, "f", "g", "h", f="x += jumper(x);", g="WORK(20) longjmp(env, 1);")
    base = f.frames + ["jumper"]
    if mode == SPIN:
        expect = [stack(START, base, h.frames), stacks(START, [base + g.frames], ANY)]
    else:
        expect = [stacks(START, f.walks()), stacks(START, [base], ANY), stacks(START, [base + x for x in g.walks() + h.walks()]),
                  stacks(START, [base + g.frames], ANY)]
    return program(work, mode, [JUMPER + GLOBALS + source_of(f, g, h) + main_of(f)], expect, [f, g, h], extra={"jumper"})


CATCHER = HEADER + """
C_BEGIN
unsigned long g_enter(unsigned long x); unsigned long h_enter(unsigned long x);
C_END
struct guard { unsigned long x; FN ~guard(); };
guard::~guard() { if (x) { unsigned long y = IN_GUARD(x); HIDE(y); x = y; } }
extern "C" FN unsigned long guarded(unsigned long x)
{
	guard a = {x};
	return g_enter(x) + 1;
}
extern "C" FN unsigned long catcher(unsigned long x)
{
	unsigned long y = x;
	try {
		y += guarded(x);
	} catch (unsigned long v) {
		y += IN_CATCH(v) + 1;
	}
	return y + 1;
}
"""


def catcher(work, mode, where, compiler="g++"):
    """`where`: what calls the last chain, the handler or the destructor."""
    f, g, h = chains(work, "f", "g", "h", f="x += catcher(x);", g="WORK(20) if (always) throw x;")
    text = CATCHER.replace("IN_GUARD", "h_enter" if where == "guard" else "(unsigned long)") \
        .replace("IN_CATCH", "h_enter" if where == "catch" else "(unsigned long)")
    base, destructor = f.frames + ["catcher"], "_ZN5guardD2Ev"
    inner = base + (["guarded", destructor] if where == "guard" else [])
    thrown = stacks(START, [base, base + ["guarded"], base + ["guarded"] + g.frames], ANY)
    if mode == SPIN:
        expect = [stack(START, inner, h.frames), thrown]
    else:
        lists = [base + ["guarded"] + x for x in g.walks()] + [inner + x for x in h.walks()] + f.walks()
        lists += [base, base + ["guarded"], base + ["guarded", destructor]]
        expect = [stacks(START, lists), thrown]
    return program(work, mode, [text + GLOBALS + source_of(f, g, h) + main_of(f)], expect, [f, g, h], compiler=compiler,
                   extra={"catcher", "guarded", destructor})


TERMINATE = """#include <exception>
extern "C" unsigned long h_enter(unsigned long x);
extern "C" __attribute__((noinline, used)) void on_terminate() { h_enter(1); __builtin_trap(); }
"""


def terminate(work):
    f, h = chains(work, "f", "h", f="if (always) throw x;")
    return program(work, SPIN, [TERMINATE + HEADER + GLOBALS + source_of(f, h) + main_of(f, "std::set_terminate(on_terminate);")],
                   [stack(START, f.frames, r"(?:<libstdc\+\+\.so[.0-9]*>;){1,4}on_terminate", h.frames),
                    stacks(START, [f.frames], ANY)], [f, h], compiler="g++",
                   extra={"on_terminate"})


TAIL = """
C_BEGIN
unsigned long f_enter(unsigned long x);
FN unsigned long tail3(unsigned long x) { WORK(3) return f_enter(x + 1); }
FN unsigned long tail4(unsigned long x) { unsigned char b[3000]; USE(b); WORK(3) USE(b); return x + b[0]; }
FN unsigned long tail2(unsigned long x) { unsigned long a = x * 3; HIDE(a); WORK(3) x += tail4(x); return tail3(x + a); }
FN unsigned long tail1(unsigned long x) { WORK(3) return tail2(x + 1); }
C_END
"""


def tail_calls(work, mode):
    """Callers that jump (tail calls) are not on the stack and must not be reported."""
    f, = chains(work, "f")
    main = main_of(f).replace("f_enter", "tail1")
    lists = f.walks() + [["tail1"], ["tail2"], ["tail3"], ["tail2", "tail4"]]
    expect = [stack(START, f.frames)] if mode == SPIN else [stacks(START, lists)]
    return program(work, mode, [HEADER + GLOBALS + f.source() + TAIL + main], expect, [f], extra={"tail1", "tail2", "tail3", "tail4"})


QSORT = """#include <stdlib.h>
C_BEGIN
unsigned long g_enter(unsigned long x);
static int compare(const void *a, const void *b)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
	return (int)(g_enter(*x) & 1) + *x - *y;
}
C_END
"""


def qsort(work, mode):
    f, g = chains(work, "f", "g", f="static unsigned char a[64]; for (int i = 0; i < 64; i++) a[i] = (unsigned char)(x >> i); qsort(a, 64, 1, compare);")
    lists = [["compare"] + x for x in g.walks()] + [["compare"]]
    middle = stack(START, f.frames, r"<libc\.so\.6>(?:;<libc\.so\.6>)*")
    expect = [stack(middle, ["compare"], g.frames)] if mode == SPIN else \
        [stacks(START, f.walks()), stacks(START, [f.frames], ANY), stacks(middle, lists)]
    return program(work, mode, [HEADER + QSORT + GLOBALS + source_of(f, g) + main_of(f)], expect, [f, g], extra={"compare"})


CONTEXT = HEADER + """
#include <ucontext.h>
static ucontext_t outer, inner;
static char context_stack[4 << 20] __attribute__((aligned(16)));
C_BEGIN
unsigned long g_enter(unsigned long x);
FN void context_main(void)
{
	for (;;) {
		unsigned long x = g_enter(1);
		HIDE(x);
	}
}
FN unsigned long context_run(unsigned long x)
{
	swapcontext(&outer, &inner);
	HIDE(x);
	return x;
}
C_END
"""
CONTEXT_BEGIN = """getcontext(&inner); inner.uc_stack.ss_sp = context_stack; inner.uc_stack.ss_size = sizeof context_stack;
	inner.uc_link = &outer; makecontext(&inner, context_main, 0);"""


def context(work, mode):
    """A coroutine's root is the function that it starts with; glibc's __start_context may show below it."""
    f, g = chains(work, "f", "g", f="x = context_run(x) + 1;", g="do { WORK(20) } while (spinning); swapcontext(&inner, &outer);")
    root = r"(?:<libc\.so\.6>;)?context_main"
    if mode == SPIN:
        expect = [stack(root, g.frames)]
    else:
        expect = [stacks(root, g.walks()), stacks(root, [g.frames], LIBC), root, stacks(START, f.walks()),
                  stacks(START, [f.frames + ["context_run"]], LIBC)]
    return program(work, mode, [CONTEXT + GLOBALS + source_of(f, g) + main_of(f, CONTEXT_BEGIN)], expect, [f, g],
                   extra={"context_main", "context_run"})


def before_main(work):
    f, = chains(work, "f")
    hook = "__attribute__((constructor, used)) static void hook(void) { spinning = 1; f_enter(1); HIDE_NOTHING }\n"
    return program(work, SPIN, [HEADER + GLOBALS + f.source() + hook.replace("HIDE_NOTHING", "always = 1;") + main_of(f)],
                   [stack(r"_start;(?:<libc\.so\.6>;){1,3}hook", f.frames)], [f], extra={"hook"})


def after_main(work):
    f, g = chains(work, "f", "g", f="exit((int)x);")
    hook = "#include <stdlib.h>\n" + HEADER + DECLARE.format("g_enter") + "FN static void hook(void) { g_enter(1); always = 1; }\n"
    return program(work, SPIN, [hook + GLOBALS + source_of(f, g) + main_of(f, "atexit(hook);")],
                   [stack(START, f.frames, r"(?:<libc\.so\.6>;){1,3}hook", g.frames)], [f, g], extra={"hook"})


NEVER = HEADER + DECLARE.format("g_enter") + """
C_BEGIN FN __attribute__((noreturn)) void never(unsigned long x) { for (;;) x = g_enter(x); } C_END
"""


def noreturn(work, mode):
    """The call is the caller's last instruction: its return address lies in the next function."""
    f, g = chains(work, "f", "g", f="never(x);")
    base = f.frames + ["never"]
    expect = [stack(START, base, g.frames)] if mode == SPIN else [stacks(START, [base] + [base + x for x in g.walks()])]
    return program(work, mode, [NEVER + GLOBALS + source_of(f, g) + main_of(f)], expect, [f, g], extra={"never"})


JIT = HEADER + """
#include <string.h>
#include <sys/mman.h>
C_BEGIN unsigned long g_enter(unsigned long x); C_END
typedef unsigned long (*jit_fn)(unsigned long x, unsigned long y, unsigned long (*f)(unsigned long x));
static jit_fn jit;
static void jit_make(void)
{
	static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd2, 0x5d, 0xc3}; /* push, mov, call *rdx, pop, ret */
	void *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof code);
	jit = (jit_fn)p;
}
"""


def jit(work, flags=FLAGS):
    f, g = chains(work, "f", "g", f="x = jit(x, x, g_enter) + 1;")
    return program(work, SPIN, [JIT + GLOBALS + source_of(f, g) + main_of(f, "jit_make();")],
                   [stack(START, f.frames, r"<[^>]*>", g.frames)], [f, g], flags=flags, names=True)


ASSEMBLY = """
__asm__(".pushsection .text.asm,\\"ax\\",@progbits\\n.p2align 6\\n.zero 32\\n.globl no_cfi\\n.type no_cfi,@function\\n"
	"no_cfi: push %rbp\\nmov %rsp,%rbp\\nsub $64,%rsp\\ncall *%rdx\\nleave\\nret\\n.size no_cfi,.-no_cfi\\n.zero 32\\n.popsection\\n");
C_BEGIN unsigned long no_cfi(unsigned long x, unsigned long y, unsigned long (*f)(unsigned long x));
unsigned long g_enter(unsigned long x); C_END
"""


def assembly(work):
    """Assembly with a frame pointer and without call-frame information, among functions that have it."""
    f, g = chains(work, "f", "g", f="x = no_cfi(x, x, g_enter) + 1;")
    return program(work, SPIN, [HEADER + ASSEMBLY + GLOBALS + source_of(f, g) + main_of(f)],
                   [stack(START, f.frames, ["no_cfi"], g.frames)], [f, g], extra={"no_cfi"})


CASES = {}
for word, m in (("spin", SPIN), ("walk", WALK)):
    CASES[f"longjmp {word}"] = lambda w, m=m: jump(w, m)
    CASES[f"exception in catch {word}"] = lambda w, m=m: catcher(w, m, "catch")
    CASES[f"exception in destructor {word}"] = lambda w, m=m: catcher(w, m, "guard")
    CASES[f"tail calls {word}"] = lambda w, m=m: tail_calls(w, m)
    CASES[f"qsort {word}"] = lambda w, m=m: qsort(w, m)
    CASES[f"context {word}"] = lambda w, m=m: context(w, m)
    CASES[f"noreturn {word}"] = lambda w, m=m: noreturn(w, m)
CASES["exception in destructor clang walk"] = lambda w: catcher(w, WALK, "guard", compiler="clang++-19")
CASES["exception terminate"] = terminate
CASES["constructor"] = before_main
CASES["atexit"] = after_main
CASES["jit frame pointer"] = jit
CASES["assembly without cfi"] = assembly
QUICK = ("longjmp walk", "exception in destructor walk", "tail calls walk", "qsort walk", "context spin", "noreturn spin",
         "constructor", "jit frame pointer", "assembly without cfi")
