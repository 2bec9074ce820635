# SPDX-License-Identifier: Apache-2.0
"""Signals, threads, processes, libraries that come and go, other languages."""
import glob
import os
import shutil

from .cases_flow import ANY, SPIN, WALK, chains, program, source_of
from .chain import GLOBALS, HEADER, KINDS
from .work import LIBC, SIGNAL, START, THREAD, Program, Skip, main_of, stack, stacks

HANDLER = HEADER + """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
C_BEGIN
unsigned long g_enter(unsigned long x); unsigned long h_enter(unsigned long x);
FN static void on_signal(int s, siginfo_t *i, void *u) { unsigned long x = (i && u) + ENTER_G((unsigned long)s); HIDE(x); }
FN static void on_plain(int s) { unsigned long x = ENTER_G((unsigned long)s); HIDE(x); }
FN static void on_second(int s) { unsigned long x = ENTER_H((unsigned long)s); HIDE(x); }
static void alternate(void)
{
	stack_t st;
	memset(&st, 0, sizeof st);
	st.ss_size = 4 << 20;
	st.ss_sp = mmap(0, st.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&st, 0);
}
static void install(int signo, int flags)
{
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	if (flags & SA_SIGINFO)
		sa.sa_sigaction = on_signal;
	else
		sa.sa_handler = signo == SIGTRAP ? on_second : on_plain;
	sa.sa_flags = flags;
	sigaction(signo, &sa, 0);
}
static void every_ms(void)
{
	struct itimerval t = {{0, 1000}, {0, 1000}};
	setitimer(ITIMER_REAL, &t, 0);
}
C_END
"""
BEGIN = {"siginfo": "install(SIGILL, SA_SIGINFO);", "plain": "install(SIGILL, 0);",
         "altstack": "alternate(); install(SIGILL, SA_SIGINFO | SA_ONSTACK);"}


def handler_text(h=False):
    return HANDLER.replace("ENTER_G", "g_enter").replace("ENTER_H", "h_enter" if h else "(unsigned long)")


def signal(work, how):
    """A fault in the leaf; its handler holds another chain."""
    f, g = chains(work, "f", "g", f='__asm__ volatile("ud2");')
    handler = "on_plain" if how == "plain" else "on_signal"
    return program(work, SPIN, [handler_text() + GLOBALS + source_of(f, g) + main_of(f, BEGIN[how])],
                   [stack(START, f.frames, SIGNAL, [handler], g.frames)], [f, g], extra={handler})


def signal_nested(work):
    """A handler on another stack that is itself interrupted."""
    f, g, h = chains(work, "f", "g", "h", f='__asm__ volatile("ud2");', g='__asm__ volatile("int3");')
    begin = BEGIN["altstack"] + " install(SIGTRAP, 0);"
    return program(work, SPIN, [handler_text(True) + GLOBALS + source_of(f, g, h) + main_of(f, begin)],
                   [stack(START, f.frames, SIGNAL, ["on_signal"], g.frames, SIGNAL, ["on_second"], h.frames)], [f, g, h],
                   extra={"on_signal", "on_second"})


def signal_anywhere(work, altstack=False, compiler="gcc", flags=("-O2", "-fomit-frame-pointer")):
    """A timer interrupts the walk at any instruction, prologues among them; its handler holds another chain for a while."""
    f, = chains(work, "f", functions=15, depth=20)
    g, = chains(work, "g", g="WORK(200000)")
    begin = "alternate(); install(SIGALRM, SA_SIGINFO | SA_ONSTACK); every_ms();" if altstack else "install(SIGALRM, SA_SIGINFO); every_ms();"
    tails = [["on_signal"]] + [["on_signal"] + x for x in g.walks()]
    main = main_of(f, begin).replace("alarm(300);", "")
    interrupted = stacks(START, [["main"][:0] + x for x in f.walks()])
    expect = [interrupted, stacks(interrupted + ";" + SIGNAL, tails), stacks(START + ";" + SIGNAL, tails), START + ANY,
              stacks(START, f.walks(), ANY), interrupted + ";" + SIGNAL]
    return program(work, WALK, [handler_text() + GLOBALS + source_of(f, g) + main], expect, [f, g], extra={"on_signal"},
                   flags=["-D_GNU_SOURCE", *flags], compiler=compiler)


RESTORER = """
__asm__(".pushsection .text.restorer,\\"ax\\",@progbits\\n.p2align 6\\n.zero 32\\n.globl restorer\\n.type restorer,@function\\n"
	"restorer: mov $15,%eax\\nsyscall\\n.size restorer,.-restorer\\n.zero 32\\n.popsection\\n");
C_BEGIN
void restorer(void);
static void install_raw(void)
{
	struct { void (*handler)(int, siginfo_t *, void *); unsigned long flags; void (*restorer)(void); unsigned long mask; } sa =
		{on_signal, SA_SIGINFO | 0x04000000, restorer, 0};
	syscall(SYS_rt_sigaction, SIGILL, &sa, 0, 8);
}
C_END
"""


def signal_own_restorer(work):
    """A trampoline without call-frame information, as other C libraries have it: known by its code only."""
    f, g = chains(work, "f", "g", f='__asm__ volatile("ud2");')
    return program(work, SPIN, [handler_text() + RESTORER + GLOBALS + source_of(f, g) + main_of(f, "install_raw();")],
                   [stack(START, f.frames, "(?:restorer|<flow>)", ["on_signal"], g.frames)], [f, g], extra={"on_signal"})


THREADS = HEADER + """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
C_BEGIN
unsigned long a_enter(unsigned long x); unsigned long b_enter(unsigned long x); unsigned long c_enter(unsigned long x);
FN static void *thread_a(void *p) { for (;;) { unsigned long x = a_enter((unsigned long)p); HIDE(x); } return 0; }
FN static void *thread_b(void *p) { for (;;) { unsigned long x = b_enter((unsigned long)p); HIDE(x); } return 0; }
FN static void *thread_c(void *p) { for (;;) { unsigned long x = c_enter((unsigned long)p); HIDE(x); } return 0; }
C_END
int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t t;
	alarm(300);
	spinning = argc > 1 && !strcmp(argv[1], "spin");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16 << 20);
	pthread_create(&t, &attr, thread_a, 0);
	pthread_create(&t, &attr, thread_b, 0);
	pthread_create(&t, &attr, thread_c, 0);
	for (;;)
		pause();
}
"""


def threads(work, mode):
    used = chains(work, "a", "b", "c", depth=30, functions=15)
    heads = [f"thread_{c.prefix}" for c in used]
    expect = [stack(THREAD, [h], c.frames) if mode == SPIN else stacks(stack(THREAD, [h]), c.walks()) for c, h in zip(used, heads)]
    expect += [] if mode == SPIN else [stack(THREAD, [h]) for h in heads]
    return program(work, mode, [THREADS + GLOBALS + source_of(*used)], expect, used, extra=set(heads))


CHILD = HEADER + """
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
C_BEGIN
unsigned long g_enter(unsigned long x);
FN static int child_main(void *p) { prctl(PR_SET_PDEATHSIG, SIGKILL); unsigned long x = g_enter((unsigned long)p); HIDE(x); return 0; }
FN static unsigned long by_clone(unsigned long x)
{
	static char *stack;
	if (!stack)
		stack = (char *)mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + (8 << 20);
	int pid = clone(child_main, stack, CLONE_VM | SIGCHLD, (void *)x);
	waitpid(pid, 0, 0);
	return x;
}
FN static unsigned long by_fork(unsigned long x)
{
	int pid = fork();
	if (pid == 0) {
		child_main((void *)x);
		_exit(0);
	}
	waitpid(pid, 0, 0);
	return x;
}
FN static unsigned long by_vfork(unsigned long x)
{
	if (vfork() == 0) {
		child_main((void *)x);
		_exit(0);
	}
	return x;
}
C_END
"""


def child(work, how, mode):
    """The child holds its chain, or runs it for some 30 ms and is followed by another."""
    f, g = chains(work, "f", "g", f=f"x += by_{how}(x);", g="do { WORK(50000000) } while (spinning);" if mode == WALK else
                  "do { WORK(20) } while (spinning);")
    base = [] if how == "clone" else [START] + f.frames + [f"by_{how}"]
    head = stack(r"<libc\.so\.6>") if how == "clone" else stack(START, f.frames, [f"by_{how}"])
    expect = [stacks(head + ";child_main", g.walks()), head + ";child_main" + ANY]
    if base:
        expect.append(stack(START, f.frames, [f"by_{how}"]) + ANY)
    expect += [stacks(START, f.walks()), stack(START, f.frames, [f"by_{how}"]) + ANY]
    return program(work, mode, [CHILD + GLOBALS + source_of(f, g) + main_of(f)], expect, [f, g], extra={"child_main"})


LIBRARIES = HEADER + """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
C_BEGIN
FN static void use(const char *path, const char *name, long times)
{
	void *h = dlopen(path, RTLD_NOW);
	unsigned long (*enter)(unsigned long) = h ? (unsigned long (*)(unsigned long))dlsym(h, name) : NULL;
	if (!enter) {
		puts(dlerror());
		exit(1);
	}
	for (long i = 0; i < times; i++) {
		unsigned long x = enter(1);
		HIDE(x);
	}
	dlclose(h);
}
C_END
int main(int argc, char **argv)
{
	long times = argc > 3 ? atol(argv[3]) : 1000;
	alarm(300);
	for (;;) {
		use(argv[1], "a_enter", times);
		use(argv[2], "b_enter", times);
	}
}
"""


SMALL = tuple(k for k in KINDS if k not in ("huge", "medium"))
# What runs when a library comes and goes.
INIT = ANY + r"(?:;(?:_init|_fini|frame_dummy|register_tm_clones|deregister_tm_clones|__do_global_dtors_aux|_dl_relocate_static_pie|<lib[ab]\.so>))?" + ANY


def libraries(work, times, link=(), compiler="gcc", depth=25, kinds=KINDS, **options):
    """Two libraries that take turns, `times` walks each: at the same addresses, other functions."""
    a, b = chains(work, "a", "b", functions=15, depth=depth, kinds=kinds)
    paths = [work.cc(f"lib{c.prefix}.so", [HEADER + GLOBALS.replace("volatile", "__attribute__((visibility(\"hidden\"))) volatile") +
                                           c.source()], ["-O2", "-fomit-frame-pointer", "-fPIC", "-shared"], link, compiler)
             for c in (a, b)]
    main = work.cc("flow", [LIBRARIES], ["-O2", "-fomit-frame-pointer", "-D_GNU_SOURCE"], link=["-ldl"])
    expect = [stacks(START + ";use", a.walks() + b.walks()), START + ";use" + INIT]
    return Program([main, *paths, str(times)], expect, {"use"} | a.functions | b.functions | set(a.side_calls().values()) |
                   set(b.side_calls().values()), [main, *paths], **options)


def turns(work, times, **options):
    """The agent hears of a change after it has happened. What was sampled in between is walked again from the 16 KiB of stack
    that the samples of such a process bring, so these functions have small frames."""
    return libraries(work, times, depth=15, kinds=SMALL, **options)


GO = """package main

import "os"

var spin = len(os.Args) > 1 && os.Args[1] == "spin"

{functions}
//go:noinline
func leaf(x uint64) uint64 {{
	for first := true; first || spin; first = false {{
		for i := 0; i < 50; i++ {{
			x = x*6364136223846793005 + 1442695040888963407
		}}
	}}
	return x
}}

func main() {{
	for {{
		f0(1)
	}}
}}
"""


def go(work, mode):
    binary = shutil.which("go") or next(iter(glob.glob("/usr/local/go/bin/go")), None)
    if not binary:
        raise Skip("go is not installed")
    n = 20
    names = [f"main.f{i}" for i in range(n)] + ["main.leaf"]
    functions = "".join(f"""//go:noinline
func f{i}(x uint64) uint64 {{
	var a [{work.rng.randrange(1, 40)}]uint64
	a[x%uint64(len(a))] = x
	x = {f'f{i + 1}' if i + 1 < n else 'leaf'}(x + 1)
	return x + a[x%uint64(len(a))]
}}

""" for i in range(n))
    source = work.write("main.go", GO.format(functions=functions))
    work.run([binary, "build", "-o", work.path("flow"), source], env=dict(os.environ, GO111MODULE="off", GOFLAGS=""))
    root = r"runtime\.goexit(?:\.abi0)?;runtime\.main;main\.main"
    # on top the runtime: more stack, and the handler of the signal that preempts (its return has no size for nm)
    top = r"(?:;runtime\.[^;]*)*(?:;<flow>;runtime\.sigtramp[^;]*(?:;[^;<]+)*)?"
    expect = [stack(root, names) + top] if mode == SPIN else \
        [stacks(root, [names[:k] for k in range(1, len(names) + 1)], top), root + top]
    return Program([work.path("flow"), *mode], expect, set(names), [work.path("flow")], names=False)


def rust(work, mode):
    work.need("rustc")
    n = 20
    names = [f"f{i}" for i in range(n)] + ["leaf"]
    functions = "".join(f"""#[no_mangle] #[inline(never)] pub extern "C" fn f{i}(x: u64) -> u64 {{
    let mut a = [x; {work.rng.randrange(1, 60)}]; black_box(&mut a);
    let y = {names[i + 1]}(x + 1); black_box(&mut a);
    y.wrapping_add(a[(y % a.len() as u64) as usize])
}}
""" for i in range(n))
    source = work.write("main.rs", "use std::hint::black_box;\nstatic mut SPIN: bool = false;\n" + functions + """
#[no_mangle] #[inline(never)] pub extern "C" fn leaf(mut x: u64) -> u64 {
    loop {
        for _ in 0..50 { x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407)); }
        if unsafe { !SPIN } { return x; }
    }
}
fn main() {
    unsafe { SPIN = std::env::args().nth(1).map_or(false, |a| a == "spin"); }
    loop { black_box(f0(1)); }
}
""")
    work.run(["rustc", "-C", "opt-level=3", "-o", work.path("flow"), source])
    root = START + r";(?:[^;]+;){2,10}?"
    expect = [root + stack(names)] if mode == SPIN else [root + "(?:" + "|".join(stack(names[:k]) for k in range(1, n + 2)) + ")"]
    return Program([work.path("flow"), *mode], expect, set(names), [work.path("flow")], names=False)


CASES = {f"signal {how}": lambda w, how=how: signal(w, how) for how in BEGIN}
CASES["signal nested"] = signal_nested
CASES["signal own restorer"] = signal_own_restorer
CASES["signal anywhere"] = signal_anywhere
CASES["signal anywhere altstack"] = lambda w: signal_anywhere(w, altstack=True)
CASES["signal anywhere -O0"] = lambda w: signal_anywhere(w, flags=("-O0",))
CASES["signal anywhere clang"] = lambda w: signal_anywhere(w, compiler="clang-19")
for word, m in (("spin", SPIN), ("walk", WALK)):
    CASES[f"threads {word}"] = lambda w, m=m: threads(w, m)
    for h in ("vfork", "fork", "clone"):
        CASES[f"{h} {word}"] = lambda w, h=h, m=m: child(w, h, m)
    CASES[f"go {word}"] = lambda w, m=m: go(w, m)
    CASES[f"rust {word}"] = lambda w, m=m: rust(w, m)
CASES["dlopen"] = lambda w: libraries(w, 1 << 40)
CASES["dlopen dlclose"] = lambda w: turns(w, 100000)
CASES["dlopen dlclose fast"] = lambda w: turns(w, 2000)
CASES["dlopen dlclose large frames"] = lambda w: libraries(
    w, 50000, incomplete="sampled between a change of mappings and its publication, with more than 16 KiB of stack", cut_share=0.1)
QUICK = ("signal altstack", "signal nested", "signal anywhere", "threads walk", "vfork spin", "dlopen dlclose")
