# SPDX-License-Identifier: Apache-2.0
"""Compilers, and what they made: C, C++, Rust, Go."""
import os

from .load import Load

RUST = """use std::collections::{BTreeMap, HashMap};
#[derive(Debug, Clone)]
enum Tree { Leaf(u64), Node(Box<Tree>, Box<Tree>) }
fn build(n: u64) -> Tree { if n < 2 { Tree::Leaf(n) } else { Tree::Node(Box::new(build(n / 2)), Box::new(build(n - n / 2))) } }
fn sum(t: &Tree) -> u64 { match t { Tree::Leaf(n) => *n, Tree::Node(a, b) => sum(a) + sum(b) } }
fn work(n: u64) -> Result<u64, String> { if n % 7 == 3 { Err(format!("odd {}", n)) } else { Ok(n.wrapping_mul(n)) } }
fn main() {
    for round in 0..40u64 {
        let mut m = BTreeMap::new();
        let mut h: HashMap<String, Vec<u64>> = HashMap::new();
        for i in 0..20000u64 {
            m.insert(format!("k{}", i * 7919 % 10007), i);
            h.entry(format!("{}", i % 257)).or_default().push(i);
        }
        let mut s = sum(&build(20000 + round));
        for (k, v) in &m { s = s.wrapping_add(k.len() as u64 + v + work(*v).unwrap_or(1)); }
        let mut v: Vec<String> = m.keys().rev().cloned().collect();
        v.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        let t = std::thread::spawn(move || v.iter().map(|x| x.parse::<f64>().unwrap_or(0.5)).sum::<f64>());
        println!("{} {:?} {}", s, t.join().unwrap(), h.len());
    }
}
"""
GO = """package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"sort"
	"strings"
)

type node struct {
	Name string
	Kids []*node
	Sums map[string]int
}

func tree(n int) *node {
	t := &node{Name: fmt.Sprint("n", n), Sums: map[string]int{"a": n}}
	for i := 1; i < n && i < 5; i++ {
		t.Kids = append(t.Kids, tree(n-i))
	}
	return t
}

func main() {
	r := regexp.MustCompile(`(n\\d+)"|[a-z]{3}`)
	results := make(chan int)
	for round := 0; round < 12; round++ {
		for w := 0; w < 4; w++ {
			go func(w int) {
				defer func() { recover() }()
				b, _ := json.Marshal(tree(10))
				var back node
				json.Unmarshal(b, &back)
				var z bytes.Buffer
				g := gzip.NewWriter(&z)
				g.Write(b)
				g.Close()
				h := sha256.Sum256(b)
				f := new(big.Int).Exp(big.NewInt(3), new(big.Int).SetBytes(h[:]), new(big.Int).SetBytes(b[:256]))
				k := strings.Fields(strings.ReplaceAll(string(b), ",", " "))
				sort.Strings(k)
				results <- len(r.FindAllString(string(b), -1)) + z.Len() + len(k) + f.BitLen()
			}(w)
		}
		n := 0
		for w := 0; w < 4; w++ {
			n += <-results
		}
		fmt.Println(n)
	}
}
"""


def c_source(w, functions):
    text = "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstruct s { int n; double d[9]; char t[40]; };\n"
    for i in range(functions):
        a, b, c = (w.rng.randint(1, 99) for _ in range(3))
        text += (f"int f{i}(struct s *s, int n, char *t)\n{{\n\tdouble d = n + {a};\n\tfor (int i = 0; i < n; i++) {{\n"
                 f"\t\tt[i % 40] += i * {b};\n\t\td += s->d[i % 9] / {c}.0;\n\t\tif (d > {a * b}) s->n += f{max(0, i - a)}(s, n / 2, t);\n\t}}\n"
                 f"\tswitch (n % 13) {{\n\tcase {a % 13}: return printf(\"%s %g\", t, sqrt(d));\n\tcase 7: return (int)d;\n"
                 f"\tdefault: memcpy(s->t, t, (size_t)n % 40); return atoi(s->t) + (int)strlen(t);\n\t}}\n}}\n") if i else \
            "int f0(struct s *s, int n, char *t) { return s->n + n + t[0]; }\n"
    return text + "int main(int c, char **v) { struct s s = {0}; return f" + str(functions - 1) + "(&s, c, v[0]); }\n"


def gcc(w):
    w.write("a.c", c_source(w, 150))
    return Load({"cc1", "as", "collect2", "ld", "ld.bfd", "x86_64-linux-gnu-gcc-12", "x86_64-linux-gnu-as", "x86_64-linux-gnu-ld.bfd", "gcc-12"},
                [f"{w.need('gcc')} -O2 -g -o {w.path('a.out')} a.c -lm"])


def gxx(w):
    w.write("a.cc", "#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n" + "".join(
        f"template <int N> struct t{i} {{ static int f(int x) {{ return t{i}<N - 1>::f(x * {w.rng.randint(2, 99)}) ^ N; }} }};\n"
        f"template <> struct t{i}<0> {{ static int f(int x) {{ std::map<std::string, int> m; m[std::to_string(x)] = {i}; return (int)m.size(); }} }};\n"
        for i in range(30)) + "int main() { std::regex r(\"a+(b|c)*\"); std::function<int(int)> g = [](int x) { return x; }; return g(0" + "".join(
            f" + t{i}<30>::f({i})" for i in range(30)) + "); }\n")
    return Load({"cc1plus"}, [f"{w.need('g++')} -O2 -c -o a.o a.cc"])


def clang(w):
    w.write("a.c", c_source(w, 150))
    compiler = w.need("clang-19", "clang", "clang-14")
    return Load({os.path.basename(os.path.realpath(compiler)), "clang", "clang-19", "clang-14"}, [f"{compiler} -O2 -c -o a.o a.c"])


def rustc(w):
    w.write("a.rs", RUST)
    w.need("rustc")
    return Load({"rustc", "cc", "rust-lld"}, [f"rustc -C opt-level=3 -o {w.path('a')} a.rs"])


def rust_program(w):
    source = w.write("a.rs", RUST)
    w.need("rustc")
    w.run("rustc", "-C", "opt-level=3", "-o", w.path("mix_rust"), source)
    return Load({"mix_rust"}, [w.path("mix_rust")])


def go_folder(w):
    w.write("p/go.mod", "module mix\n\ngo 1.16\n")
    return w.write("p/main.go", GO)


def go_build(w):
    go_folder(w)
    w.need("go")
    environment = f"GOCACHE={w.path('cache')} GOMAXPROCS=2"
    w.run("env", *environment.split(), "go", "build", "-o", w.path("a"), ".", cwd=w.path("p"))  # the standard library, once
    return Load({"go", "compile", "asm", "link", "vet"},
                [f"cd p; echo '// '$(date +%N) >> main.go; {environment} go build -o {w.path('a')} .; {environment} go vet ."])


def go_program(w):
    go_folder(w)
    w.run(w.need("go"), "build", "-o", w.path("mix_go"), ".", cwd=w.path("p"))
    return Load({"mix_go"}, ["GOMAXPROCS=2 " + w.path("mix_go")])


LOADS = {"gcc -O2": (gcc, ["gcc"]), "g++ -O2": (gxx, ["g++"]), "clang -O2": (clang, []), "rustc -O3": (rustc, ["rustc"]),
         "a Rust program": (rust_program, ["rustc"]), "go build": (go_build, ["golang-go"]), "a Go program": (go_program, ["golang-go"])}
