# SPDX-License-Identifier: Apache-2.0
"""Programs whose compilers or libraries write no call-frame information: Free Pascal, tcc, musl, fibers of Boost, and programs of
the distribution without symbols (busybox, LuaJIT). Of the latter only the ends of a stack are known, and which module has each
frame: that no caller is missing is proven by run_shadow, which steps the same programs."""
import os
import shutil

from . import pascal
from .cases_code import MUSL_START
from .cases_layout import with_copy
from .chain import GLOBALS, HEADER
from .work import START, Program, Skip, main_of, stacks

HERE = os.path.dirname(os.path.abspath(__file__))
WORK_PROGRAM = os.path.join(HERE, "..", "programs", "cwork.c")
NOT_ALL = "code is analysed, and not all of it is understood"

# --- Free Pascal

PASCAL_START = r"_start;(?:[^;]+;){0,2}main"
PASCAL_LIBRARY = r"(?:;(?:SYSTEM|FPC_|fpc_|SI_|P\$CODE_\$\$_F\d+_CLASS)[^;]*)*"  # strings, exceptions, memory


def pascal_chain(work, *flags, strip=False):
    work.need("fpc")
    c = pascal.PascalChain(work.rng)
    work.run(["fpc", *flags, "-Xs-", work.write("code.pas", c.source())])
    program = Program([work.path("code"), "walk"], [stacks(PASCAL_START, c.walks(), PASCAL_LIBRARY)], c.functions, [work.path("code")],
                      incomplete=NOT_ALL, cut_share=0.05)
    return with_copy(program, lambda path: work.run(["strip", "-s", path])) if strip else program


# --- tcc

TCC_KINDS = ("small", "regs", "alloca", "vla", "args", "varargs", "struct", "early", "medium", "huge", "pushes")
TCC_LIBRARY = r"(?:;(?:alloca|p3|__va_arg|\w+@plt))?"


def tcc(work, *flags, strip=False):
    work.need("tcc")
    c = work.chain(functions=15, depth=30, kinds=TCC_KINDS)
    source = work.write("code.c", HEADER + GLOBALS + c.source() + main_of(c))
    work.run(["tcc", "-g", *flags, "-o", work.path("code"), source])
    program = Program([work.path("code"), "walk"], [stacks(START, c.walks(), TCC_LIBRARY + r"(?:;<plt>)?(?:;<libc\.so\.6>)*")],
                      c.functions | set(c.side_calls().values()), [work.path("code")], incomplete=NOT_ALL, cut_share=0.05)
    return with_copy(program, lambda path: work.run(["strip", "-s", path])) if strip else program


# --- musl

LIBC = r"(?:;[^;]+)*"  # functions of musl; its callers and what it calls back are known
SORT = r"do_sort(?:" + LIBC + r";do_compare|" + LIBC + ")"
ON_SIGNAL = r"do_signal(?:" + LIBC + r";on_signal|" + LIBC + ")"
THREAD = r"(?:[^;]+;){1,2}in_thread(?:;" + SORT + r"|;do_print" + LIBC + ")?"
THREAD_END = r"__clone(?:;start(?:;__pthread_exit" + LIBC + ")?)?"
OWN = r"<libc\.so>(?:;<libc\.so>)*"  # the dynamic one's loader, and the end of a thread


def musl(work, *flags, strip=False):
    work.need("musl-gcc")
    work.run(["musl-gcc", "-O2", "-fomit-frame-pointer", *flags, "-o", work.path("code"), WORK_PROGRAM])
    inside = [SORT, ON_SIGNAL] + [f"do_{n}{LIBC}" for n in ("malloc", "copy", "print", "thread")]
    expect = [MUSL_START + r"(?:;do_all)?", MUSL_START + r";(?:do_start" + LIBC + "|do_all;(?:" + "|".join(inside) + "))", THREAD,
              OWN if "-static" not in flags else THREAD_END]
    program = Program([work.path("code")], expect, {"main"}, [work.path("code")], names=False, phase=".", incomplete=NOT_ALL, cut_share=0.005,
                      passing=[r"_start(?:;(?!do_|main)[^;]+)*"])
    return with_copy(program, lambda path: work.run(["strip", "-s", path])) if strip else program


# --- fibers

FIBER_MAIN = """
#include <boost/context/fiber.hpp>
#include <unistd.h>
C_BEGIN unsigned long @ENTER@(unsigned long x); C_END
int main()
{
	alarm(300);
	spinning = 0;
	boost::context::fiber f(std::allocator_arg, boost::context::fixedsize_stack(8 << 20), [](boost::context::fiber &&back) {
		for (;;) {
			for (int i = 0; i < 100; i++)
				@ENTER@(1);
			back = std::move(back).resume();
		}
		return std::move(back);
	});
	for (;;)
		f = std::move(f).resume();
}
"""


def fiber(work, *link):
    if not os.path.exists("/usr/include/boost/context/fiber.hpp"):
        raise Skip("Boost.Context is not installed")
    c = work.chain(functions=15, depth=30)
    program = work.cc("code", [HEADER + GLOBALS + c.source() + FIBER_MAIN.replace("@ENTER@", c.entry)],
                      ["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-std=c++17", "-Wno-psabi",
                       "-Wno-unused-parameter"], link, compiler="g++")
    # make_fcontext's label, Boost's own function of the fiber, and, where it is not inlined, the lambda
    return Program([program], [stacks(r"(?:make_fcontext|<libboost_context\.so\.[\d.]+>)(?:;[^;]*boost[^;]*)*(?:;[^;]*main[^;]*)*", c.walks())],
                   c.functions | set(c.side_calls().values()), [program], incomplete=NOT_ALL, cut_share=0.05)


# --- programs of the distribution

LOOPS = {
    "sha256sum": ["sha256sum", "/dev/zero"],
    "gzip": ["sh", "-c", "busybox gzip -c /dev/zero > /dev/null"],
    "sh": ["sh", "-c", "while :; do i=$(((i + 7919) % 1013)); case $i in *7) x=${x#???}a$i;; *) x=${x}b;; esac; [ ${#x} -gt 500 ] && x=; done"],
    "sort": ["sh", "-c", "busybox seq 1 200000 | busybox awk '{print $1 * 7919 % 100003}' > numbers; while :; do busybox sort -n numbers > /dev/null; done"],
    "awk": ["awk", "BEGIN { while (1) { s = s (i++ % 7); a[i % 997] += i; if (length(s) > 200) { n += gsub(/[1-3]+/, \"x\", s); s = \"\" } } }"],
}


def busybox_binary(work, static):
    """Debian's static busybox, or, where apt has it, the other one, which is not installed beside it."""
    if static:
        work.need("busybox")
        return shutil.which("busybox")
    try:
        work.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "busybox"])
        package = next(n for n in os.listdir(work.folder) if n.endswith(".deb"))
        work.run(["dpkg-deb", "-x", package, work.path("package")])
    except (RuntimeError, FileNotFoundError) as e:
        raise Skip("apt does not have busybox") from e
    found = [os.path.join(d, "busybox") for d, _, names in os.walk(work.path("package")) if "busybox" in names]
    return next(p for p in found if os.path.isfile(p) and os.path.getsize(p) > 100000)


def busybox(work, loop, static=True):
    path = busybox_binary(work, static)
    folder = work.path("bin")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(path, os.path.join(folder, "busybox"))
    start = "_start" if static else r"_start(?:;<libc\.so\.6>){1,3}"
    own = start + r"(?:;<(?:busybox|libc\.so\.6|libresolv\.so\.2|plt)>)*"
    # exit calls the dynamic linker, and that the destructors
    expect = ["_start", own] if static else ["_start", own, own + r"(?:;<libc\.so\.6>){2}(?:;<ld-linux-x86-64\.so\.2>)+(?:;<busybox>)*"]
    return Program(["env", "-C", folder, os.path.join(folder, "busybox"), *LOOPS[loop]], expect,
                   set(), [os.path.join(folder, "busybox")], env={"PATH": folder + ":" + os.environ["PATH"]}, names=False, phase=r"busybox|_start|<\[vdso\]>",
                   incomplete=NOT_ALL, cut_share=0.05)


LUA = """local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
while true do
  local t, n = {}, 0
  for i = 1, 300 do t[i] = string.format("%d-%s", (i * 7919) % 1013, ("x"):rep(i % 13)) end
  table.sort(t, function(a, b) return a < b end)
  for _, s in ipairs(t) do s:gsub("%d", function(d) n = n + d end) end
  local co = coroutine.wrap(function() for i = 1, 50 do coroutine.yield(fib(i % 12)) end end)
  for i = 1, 50 do n = n + co(); pcall(error, "x") end
end
"""


def luajit(work):
    work.need("luajit")
    path = os.path.realpath(shutil.which("luajit"))
    return Program([path, "-joff", work.write("loop.lua", LUA)], [r"_start(?:;<libc\.so\.6>){1,3}(?:;<(?:luajit|libluajit[^>]*|libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux-x86-64\.so\.2|plt)>)*"],
                   set(), [path], names=False, phase="luajit", incomplete=NOT_ALL, cut_share=0.05)


CASES = {f"code pascal {o}": lambda w, o=o: pascal_chain(w, f"-{o}") for o in ("O-", "O1", "O2", "O3", "O4")}
CASES["code pascal stripped"] = lambda w: pascal_chain(w, "-O2", strip=True)
CASES["code pascal checks"] = lambda w: pascal_chain(w, "-O1", "-Crtoi", "-gl")
CASES["code tcc"] = tcc
CASES["code tcc stripped"] = lambda w: tcc(w, strip=True)
CASES["code musl library"] = musl
CASES["code musl library static"] = lambda w: musl(w, "-static")
CASES["code musl library stripped"] = lambda w: musl(w, "-static", strip=True)
CASES["code fiber"] = lambda w: fiber(w, "-lboost_context")
CASES["code fiber static"] = lambda w: fiber(w, "-l:libboost_context.a")
for _loop in LOOPS:
    CASES[f"code busybox {_loop}"] = lambda w, n=_loop: busybox(w, n)
    CASES[f"code busybox dynamic {_loop}"] = lambda w, n=_loop: busybox(w, n, static=False)
CASES["code luajit"] = luajit
QUICK = ("code pascal O2", "code tcc", "code musl library static", "code fiber", "code busybox awk", "code luajit")
