# SPDX-License-Identifier: Apache-2.0
"""Programs in the forms that names come in: stripped in every way, static, other C libraries, other tables."""
import os

from mix import loads_build, loads_script
from mix.load import Load

C = """
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b; }
static __attribute__((noinline)) double sum(const int *v, int n) { double d = 0; for (int i = 0; i < n; i++) d += sqrt(v[i] % 1000); return d; }
static __attribute__((noinline)) int sorted(int n)
{
	int *v = malloc(n * sizeof *v);
	for (int i = 0; i < n; i++) v[i] = (int)((i * 2654435761u) >> 7);
	qsort(v, n, sizeof *v, compare);
	double d = sum(v, n);
	free(v);
	return (int)d;
}
static __attribute__((noinline)) int texts(int n)
{
	char a[4096], b[4096];
	int k = 0;
	for (int i = 0; i < n; i++) {
		int len = snprintf(a, sizeof a, "%d %s %f", i, "text that is copied, searched, measured", i / 3.0);
		memset(a + len, 'x', 3000); a[3500] = 0;
		strcpy(b, a); k += (int)strlen(b) + !strstr(b, "measured") + !memchr(b, 'q', 4000) + (int)strtol(b, NULL, 10);
	}
	return k;
}
int exported(int n) { return sorted(n) + texts(n / 100); }
int main(void) { for (int i = 0; i < 40; i++) printf("%d\\n", exported(100000)); return 0; }
"""
CXX = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace shop {
struct Item { virtual ~Item() {} virtual double price(int n) const = 0; };
template <int N> struct Priced : Item { std::string name = std::string(N, 'x'); double price(int n) const override { return n * N + (double)name.size(); } };
struct Cart {
	std::vector<std::unique_ptr<Item>> items; std::map<std::string, double> sums;
	Cart() { for (int i = 0; i < 200; i++) { items.emplace_back(new Priced<3>); items.emplace_back(new Priced<40>); } }
	__attribute__((noinline)) double total(int n) { double d = 0; for (auto &i : items) { d += i->price(n); sums[std::to_string(n) + std::to_string(d)] += d; } return d; }
	template <class F> __attribute__((noinline)) void each(F f) { for (auto &s : sums) f(s.first, s.second); }
};
static __attribute__((noinline)) double run(int n) { Cart c; double d = 0; for (int i = 0; i < n; i++) d += c.total(i); c.each([&d](const std::string &s, double x) { try { if (s.size() % 7 == 0) throw x; d += std::stod(s); } catch (double y) { d -= y; } }); return d; }
}
int main() { std::function<double(int)> f = shop::run; for (int i = 0; i < 60; i++) std::cout << f(60) << '\\n'; }
"""
D = """
module mixd;
import std.algorithm, std.array, std.conv, std.range, std.stdio;
T twice(T)(T x) { return x + x; }
struct Box(T) { T[] v; void add(T x) { v ~= twice(x); } T sum() { return v.fold!((a, b) => a + b)(T.init); } }
void main() { foreach (r; 0 .. 400) { Box!double b; foreach (i; 0 .. 60000) b.add(i / 3.0); auto s = iota(3000).map!(i => (i * 7919 % 997).to!string).array.sort.uniq.count; writeln(b.sum, s); } }
"""


def compiled(name, text, compiler, flags=(), after=(), suffix=".c"):
    """A program built by `compiler flags`, then changed by the commands `after` ({} is its path)."""
    def make(w):
        exe = w.path(name)
        w.run(w.need(*compiler), "-O2", *flags, "-o", exe, w.write("a" + suffix, text), *([] if suffix == ".d" else ["-lm"]))
        for command in after:
            w.run("sh", "-ec", command.replace("{}", exe))
        return Load({name}, [exe])
    return make


def go_form(name, flags=(), environment=(), after=()):
    def make(w):
        loads_build.go_folder(w)
        exe = w.path(name)
        w.run("env", *environment, w.need("go"), "build", *flags, "-o", exe, ".", cwd=w.path("p"))
        for command in after:
            w.run("sh", "-ec", command.replace("{}", exe))
        return Load({name}, [f"GOMAXPROCS=1 {exe}"])
    return make


def node_with_map(w):
    """Node.js that lists the code it makes, as /tmp/perf-PID.map."""
    w.write("a.js", loads_script.NODE)
    exe = os.path.realpath(w.run(w.need("node", "nodejs"), "-p", "process.execPath"))
    return Load({os.path.basename(exe)}, [f"{exe} --perf-basic-prof --interpreted-frames-native-stack a.js & wait $!; rm -f /tmp/perf-$!.map"], jit=True)


def rust_v0(w):
    w.run(w.need("rustc"), "-C", "opt-level=3", "-C", "symbol-mangling-version=v0", "-o", w.path("names_rust_v0"), w.write("a.rs", loads_build.RUST))
    return Load({"names_rust_v0"}, [w.path("names_rust_v0")])


# As Fedora's find-debuginfo does: the functions that .dynsym lacks, in a file of their own, inside.
DEBUGDATA = ("objcopy --only-keep-debug {} {}.all; nm -D {} --format=posix --defined-only | cut -d' ' -f1 | sort > {}.dynamic; "
             "nm {}.all --format=posix --defined-only | awk '{ if ($2 == \"T\" || $2 == \"t\" || $2 == \"D\") print $1 }' | sort > {}.functions; "
             "comm -13 {}.dynamic {}.functions > {}.keep; objcopy -S --remove-section .gdb_index --remove-section .comment "
             "--keep-symbols={}.keep {}.all {}.mini; strip --strip-all -R .comment {}; xz -f {}.mini; objcopy --add-section .gnu_debugdata={}.mini.xz {}; rm {}.all")
LINK = "objcopy --only-keep-debug {} {}.debug; strip --strip-all {}; cd $(dirname {}); objcopy --add-gnu-debuglink=$(basename {}).debug {}"

LOADS = {
    "C": (compiled("names_c", C, ["gcc"]), ["gcc"]),
    "C -g": (compiled("names_c_debug", C, ["gcc"], ["-g"]), ["gcc"]),
    "C static": (compiled("names_c_static", C, ["gcc"], ["-static"]), ["gcc"]),
    "C stripped": (compiled("names_c_strip", C, ["gcc"], after=["strip -s {}"]), ["gcc"]),
    "C stripped, exports": (compiled("names_c_exports", C, ["gcc"], ["-rdynamic"], ["strip -s {}"]), ["gcc"]),
    "C debuglink": (compiled("names_c_link", C, ["gcc"], ["-g", "-Wl,--build-id=none"], [LINK]), ["gcc"]),
    "C debugdata": (compiled("names_c_mini", C, ["gcc"], ["-g", "-rdynamic"], [DEBUGDATA]), ["gcc", "xz-utils"]),
    "C lld, -z now": (compiled("names_c_lld", C, ["clang-19", "clang"], ["-fuse-ld=lld", "-Wl,-z,now"]), ["lld-19"]),
    "C musl": (compiled("names_c_musl", C, ["musl-gcc"]), ["musl-tools"]),
    "C musl static": (compiled("names_c_musl_static", C, ["musl-gcc"], ["-static"]), ["musl-tools"]),
    "C++": (compiled("names_cxx", CXX, ["g++"], suffix=".cc"), ["g++"]),
    "C++ -g, LTO": (compiled("names_cxx_lto", CXX, ["g++"], ["-g", "-flto"], suffix=".cc"), ["g++"]),
    "C++ clang": (compiled("names_cxx_clang", CXX, ["clang++-19", "clang++"], suffix=".cc"), []),
    "D": (compiled("names_d", D, ["gdc", "gdc-12"], suffix=".d"), ["gdc"]),
    "Rust v0": (rust_v0, ["rustc"]),
    "node, perf map": (node_with_map, ["nodejs"]),
    "Go stripped": (go_form("names_go_strip", ["-ldflags=-s -w"]), ["golang-go"]),
    "Go PIE": (go_form("names_go_pie", ["-buildmode=pie"]), ["golang-go"]),
    "Go PIE stripped": (go_form("names_go_pie_strip", ["-buildmode=pie", "-ldflags=-s -w"]), ["golang-go"]),
}
