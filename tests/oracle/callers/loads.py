# SPDX-License-Identifier: Apache-2.0
"""Programs beside those of the host mix: more languages, and steps between frames that are no calls."""
import os
import shutil
import sys

from mix.load import Load, Skip

# Signals on two stacks, contexts that switch, longjmp out of a handler and out of calls, threads, tail calls, vfork.
STEPS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static volatile unsigned long sink;
static sigjmp_buf out;
static ucontext_t back, coroutine;
static char stack[65536], alternative[65536];
extern char **environ;
static __attribute__((noinline)) void spin(int n) { for (int i = 0; i < n; i++) sink += (unsigned long)i * 2654435761u; }
static __attribute__((noinline)) int by_tail(int n) { spin(n); sink++; return n & 1; }
__attribute__((noinline)) int tail(int n) { sink += 3; return by_tail(n + 1); }
static void handler(int s) { (void)s; spin(2000); sink += (unsigned long)tail(300); }
static void leaves(int s) { (void)s; spin(500); siglongjmp(out, 1); }
static void yields(void) { for (;;) { spin(3000); swapcontext(&coroutine, &back); } }
static __attribute__((noinline)) void deep(int n, jmp_buf *b) { spin(50); if (!n) longjmp(*b, 1); deep(n - 1, b); sink++; }
static int compare(const void *a, const void *b) { spin(3); return *(const int *)a - *(const int *)b; }
static void *thread(void *p) { int v[512]; for (int k = 0; k < 30; k++) { for (int i = 0; i < 512; i++) v[i] = rand(); qsort(v, 512, sizeof *v, compare); } return p; }
static void spawn(void) { char *a[] = {"true", NULL}; pid_t p; if (!posix_spawn(&p, "/bin/true", NULL, NULL, a, environ)) waitpid(p, NULL, 0); }
int main(void)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval every = {{0, 900}, {0, 900}};
	stack_t ss = {.ss_sp = alternative, .ss_size = sizeof alternative};
	sigaltstack(&ss, NULL);
	sigaction(SIGPROF, &sa, NULL);
	sa.sa_flags = SA_NODEFER; sigaction(SIGUSR2, &sa, NULL);
	sa.sa_handler = leaves; sigaction(SIGUSR1, &sa, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack; coroutine.uc_stack.ss_size = sizeof stack;
	makecontext(&coroutine, yields, 0);
	for (int round = 0; round < 400; round++) {
		jmp_buf b;
		pthread_t t;
		for (int i = 0; i < 200; i++) swapcontext(&back, &coroutine);
		for (int i = 0; i < 50; i++) { if (!setjmp(b)) deep(20, &b); if (!sigsetjmp(out, 1)) raise(SIGUSR1); raise(SIGUSR2); }
		pthread_create(&t, NULL, thread, NULL); spin(100000); pthread_join(t, NULL);
		sink += (unsigned long)tail(2000);
		char text[64]; snprintf(text, sizeof text, "%lu", sink); sink += strtoul(text, NULL, 10);
		if (round % 20 == 0) spawn();
	}
	return 0;
}
"""
MAKE = """N := $(shell seq 1 1500)
DEEP = $(if $(filter $(1),0),x,$(call DEEP,$(word $(1),0 0 1 2 3 4 5 6 7 8 9))$(subst a,b,$(1)))
all: $(addprefix t,$(N))
	@:
t%: ; @:$(call DEEP,9)$(sort $(filter %7,$(N)))$(patsubst %1,x%y,$(wordlist 1,300,$(N)))
"""
GUILE = """(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (work k) (let loop ((i 0) (l '())) (if (< i 20000) (loop (+ i 1) (cons (number->string (modulo (* i 7919) 997) 16) l)) (sort l string<?))))
(do ((i 0 (+ i 1))) ((= i 12)) (display (+ (fib 22) (length (work i)) (string-length (number->string (expt 7 2000)))))
  (catch #t (lambda () (error "x")) (lambda args 0)) (call/cc (lambda (k) (k 1))))
"""
OCAML = """let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
module M = Map.Make(String)
let work r = let m = ref M.empty in for i = 0 to 20000 do m := M.add (string_of_int (i * 7919 mod 4099)) (float i /. 3.) !m done;
  let l = M.fold (fun k v a -> (Printf.sprintf "%s%g" k v) :: a) !m [] in
  let h = Hashtbl.create 10 in List.iter (fun k -> Hashtbl.replace h k (String.length k)) (List.sort compare l);
  (try raise Not_found with Not_found -> ()); Hashtbl.length h + fib 24 + r
let () = for r = 1 to 20 do print_int (work r) done
"""
ERLANG = """-module(load).
-export([main/1]).
fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).
work(R) -> L = [{I * 7919 rem 4099, integer_to_list(I)} || I <- lists:seq(1, 20000)], M = maps:from_list(L),
  S = lists:sort(fun({A, _}, {B, _}) -> A =< B end, L), B = term_to_binary(S), C = zlib:compress(B), _ = erlang:md5(C), _ = binary_to_term(B),
  _ = re:run(integer_to_binary(1 bsl 3000), "([0-9])\\\\1", [global]), maps:size(M) + fib(20) + R.
main(_) -> [work(R) || R <- lists:seq(1, 15)], halt().
"""
# A boot sector: real mode, writes memory, and asks the BIOS now and then, so that qemu both runs and makes code.
BOOT = bytes.fromhex("31c08ed8bc007cb9ffffbb0010 8907 4383c00381fb00f072f5 b80e41 49 75ec b90000 b40ebb0700b02ecd10 ebe0".replace(" ", ""))


def steps(flags, name):
    def make(w):
        w.run(w.need("gcc"), *flags, "-pthread", "-o", w.path(name), w.write("steps.c", STEPS))
        return Load({name, "true"}, [w.path(name)])
    return make


def gnu_make(w):
    w.write("Makefile", MAKE)
    return Load({"make"}, [f"{w.need('make')} -s"])


def guile(w):
    w.write("a.scm", GUILE)
    exe = w.need("guile", "guile-3.0")
    return Load({os.path.basename(os.path.realpath(exe)), "guile"}, [f"{exe} --no-auto-compile a.scm"], jit=True)


def luajit(w):
    from mix.loads_script import LUA
    w.write("a.lua", LUA.replace("%x+:(%d+)", "%x+:(%d+)"))
    exe = w.need("luajit")
    return Load({os.path.basename(os.path.realpath(exe)), "luajit"}, [f"{exe} a.lua"], jit=True)


def ocaml(w):
    w.write("load.ml", OCAML)
    w.run(w.need("ocamlfind", "ocamlopt"), "-o", w.path("callers_ocaml"), "load.ml")
    w.run(w.need("ocamlc"), "-o", w.path("a.byte"), "load.ml")
    return Load({"callers_ocaml", "ocamlrun"}, [f"{w.path('callers_ocaml')}; {w.need('ocamlrun')} a.byte"])


def erlang(w):
    w.write("load.erl", ERLANG)
    w.run(w.need("erlc"), "load.erl")
    return Load({"beam.smp", "erl_child_setup", "erlexec"}, [f"{w.need('erl')} +S 1 -noinput -run load main x"], jit=True)


def qemu(w):
    exe = w.need("qemu-system-x86_64")
    image = BOOT.ljust(510, b"\0") + b"\x55\xaa"
    w.write("disk", image + bytes(1 << 20))
    return Load({"qemu-system-x86_64"}, [f"timeout 20 {exe} -nodefaults -display none -vga none -m 64 -accel tcg,thread=single "
                                         f"-drive if=ide,format=raw,file={w.path('disk')} -net none"], jit=True)


def imagemagick(w):
    exe = next((p for p in ("/usr/bin/convert-im6.q16", shutil.which("magick"), shutil.which("convert")) if p and os.access(p, os.X_OK)), None)
    if not exe:
        raise Skip("convert is not installed")
    return Load({os.path.basename(os.path.realpath(exe)), "convert", "magick"},
                [f"{exe} -size 400x300 plasma:red-blue -blur 0x3 -resize 150% -rotate 7 -colorspace Lab -sharpen 0x1 a.png; {exe} a.png -quality 80 a.jpg"])


def signals(w):
    """Python whose signal handlers run between its instructions."""
    w.write("a.py", "import signal, time\nn = 0\ndef f(*a):\n    global n\n    n += len(sorted(str(i) for i in range(40)))\n"
                    "signal.signal(signal.SIGPROF, f); signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)\n"
                    "for k in range(40): x = sorted((str(i * 7919 % 997) for i in range(20000)), key=lambda t: t[::-1])\n")
    exe = shutil.copy(os.path.realpath("/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable), w.path("callers_python"))
    return Load({"callers_python"}, [f"{exe} a.py"])


LOADS = {
    "steps": (steps(["-O2"], "callers_steps"), ["gcc"]),
    "steps -O0, static": (steps(["-O0", "-static", "-fcf-protection=none"], "callers_static"), ["gcc"]),
    "make": (gnu_make, ["make"]), "guile": (guile, ["guile-3.0"]), "luajit": (luajit, ["luajit"]), "ocaml": (ocaml, ["ocaml-nox"]),
    "erlang": (erlang, ["erlang-base"]), "qemu-system": (qemu, ["qemu-system-x86"]), "imagemagick": (imagemagick, ["imagemagick"]),
    "python signals": (signals, ["python3"]),
}
