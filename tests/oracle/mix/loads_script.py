# SPDX-License-Identifier: Apache-2.0
"""Interpreters and virtual machines. Those that compile at run time are marked."""
import os

from .load import Load

PYTHON = """import decimal, hashlib, json, re, sqlite3, zlib
d = {str(i): [i, i / 3, "x" * (i % 40)] for i in range(3000)}
for n in range(20):
    s = json.dumps(d); json.loads(s); re.findall(r'(\\d+\\.\\d*)|x{3,9}', s)
    hashlib.sha512(s.encode()).hexdigest(); zlib.compress(s.encode())
    sum(decimal.Decimal(i).sqrt() for i in range(300)); pow(3, 5 ** 40, 7 ** 300); sorted(d, key=lambda k: d[k][1] % 7)
    for i in range(3000):
        try: int('x')
        except ValueError: pass
    c = sqlite3.connect(':memory:'); c.execute('create table t(a, b)'); c.executemany('insert into t values (?, ?)', [(i, str(i)) for i in range(3000)])
    c.execute('select b, count(*) from t group by a % 7').fetchall()
"""
PERL = """my %h; for my $r (1..6) { for my $i (1..30000) { my $k = sprintf("%x", $i * 7919 % 65521); $h{$k} .= "a$i,"; $h{$k} =~ s/(\\d)(\\d)/$2$1/g; }
my @s = sort { length($h{$a}) <=> length($h{$b}) || $a cmp $b } keys %h; my $t = join(' ', map { pack('N', length $_) . reverse $_ } @s);
my $n = () = $t =~ /([a-f]+)\\d(?=[0-4])/g; print "$n\\n"; }
"""
RUBY = """h = Hash.new { |k, v| k[v] = [] }
6.times { 20000.times { |i| h[(i * 7919 % 997).to_s(16)] << i.to_f / 3 }
  s = h.sort_by { |k, v| [v.sum, k] }.map { |k, v| k.gsub(/[a-c]+/) { |m| m.reverse } + v.size.to_s }.join(',')
  begin; Integer('x'); rescue ArgumentError; end
  (3**2000).to_s.scan(/\\d{3}/).map(&:to_i).reduce(:+); s.unpack('C*').pack('C*') }
"""
PHP = """<?php $a = []; for ($r = 0; $r < 6; $r++) { for ($i = 0; $i < 40000; $i++) { $a[md5((string)($i % 5000))][] = $i / 3; }
uasort($a, fn($x, $y) => count($x) <=> count($y) ?: $x[0] <=> $y[0]); $s = json_encode($a); preg_match_all('/(\\d+)\\.3|"[a-c]+/', $s, $m);
$z = gzcompress(substr($s, 0, 300000)); echo strlen($z), count($m[0]), "\\n"; $a = array_slice($a, 0, 100); }
"""
LUA = """local t = {}
for r = 1, 8 do
  for i = 1, 60000 do local k = string.format("%x", i * 7919 % 4099); t[k] = (t[k] or 0) + i / 3 end
  local s = {}; for k, v in pairs(t) do s[#s + 1] = k .. ":" .. v end
  table.sort(s, function(a, b) return #a < #b or #a == #b and a < b end)
  local n = 0; for w in table.concat(s, " "):gmatch("%x+:(%d+)") do n = n + #w end
  pcall(error, "x"); print(n)
end
"""
TCL = """proc fib n { if {$n < 2} { return $n }; expr {[fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
for {set r 0} {$r < 4} {incr r} { fib 19; set d {}; for {set i 0} {$i < 20000} {incr i} { dict lappend d [expr {$i * 7919 % 997}] $i }
regsub -all {(\\d)3} $d {\\1x} e; puts [llength [lsort $e]]; catch {expr {1 / 0}} }
"""
NODE = """class P { constructor(x) { this.x = x; } f(n) { return n < 2 ? this.x : this.f(n - 1) + this.f(n - 2); } }
const zlib = require('zlib'), crypto = require('crypto');
for (let r = 0; r < 60; r++) {
  const m = new Map(); for (let i = 0; i < 20000; i++) { const k = (i * 7919 % 4099).toString(16); m.set(k, (m.get(k) || []).concat(i / 3).slice(-9)); }
  const s = JSON.stringify([...m]); const n = s.match(/(\\d+)\\.3|[a-f]{2,}/g).length; JSON.parse(s);
  new P(r).f(20); [...m.keys()].sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  zlib.gzipSync(s); crypto.createHash('sha512').update(s).digest('hex'); try { null.x } catch (e) { e.stack }
  if (!n) console.log(n);
}
"""
JAVA = """import java.util.*;
import java.util.stream.*;
public class Mix {
    interface F { long f(long n); }
    static final class A implements F { public long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); } }
    static final class B implements F { public long f(long n) { return n * 31 + 7; } }
    static long work(int r) throws Exception {
        Map<String, List<Double>> m = new HashMap<>();
        for (int i = 0; i < 20000; i++) m.computeIfAbsent(Integer.toHexString(i * 7919 % 4099), k -> new ArrayList<>()).add(i / 3.0);
        String s = m.entrySet().stream().sorted(Map.Entry.comparingByKey()).map(e -> e.getKey() + e.getValue().size()).collect(Collectors.joining(","));
        java.util.regex.Matcher x = java.util.regex.Pattern.compile("([a-f]+)\\\\d(?=[0-4])").matcher(s);
        long n = 0; while (x.find()) n += x.group(1).length();
        byte[] b = s.getBytes("UTF-8");
        n += java.security.MessageDigest.getInstance("SHA-256").digest(b)[0];
        java.util.zip.Deflater d = new java.util.zip.Deflater(); d.setInput(b); d.finish(); n += d.deflate(new byte[b.length + 64]);
        F[] fs = { new A(), new B() }; for (int i = 0; i < 40; i++) n += fs[i & 1].f(i & 1 ^ 19);
        try { Integer.parseInt("x"); } catch (NumberFormatException e) { n += e.getStackTrace().length; }
        return n + new java.math.BigInteger(b).mod(java.math.BigInteger.valueOf(1000003)).longValue() + r;
    }
    public static void main(String[] a) throws Exception { long n = 0; for (int r = 0; ; r++) { n += work(r); if (n == 42) System.out.println(n); } }
}
"""


def script(program, names, file, text, jit=False):
    def make(w):
        path = w.need(program, *names)
        w.write(file, text)
        return Load({os.path.basename(os.path.realpath(path)), program}, [f"{path} {file}"], jit=jit)
    return make


def python(w):
    w.write("a.py", PYTHON)
    # where python3 is a launcher's script, what it runs in the end is the program
    exe = w.run(w.need("python3"), "-c", "import os, sys; print(os.path.realpath(sys.executable))")
    return Load({os.path.basename(exe)}, [f"{exe} a.py"])


def node(w):
    w.write("a.js", NODE)
    exe = os.path.realpath(w.run(w.need("node", "nodejs"), "-p", "process.execPath"))
    return Load({os.path.basename(exe)}, [f"{exe} a.js"], jit=True)


def java(w):
    w.write("Mix.java", JAVA)
    w.run(w.need("javac"), "-d", w.folder, w.path("Mix.java"))
    return Load({"java"}, [f"{w.need('java')} -XX:+PreserveFramePointer -XX:+UseSerialGC -Xmx256m -cp . Mix"], jit=True)


def shell(w):
    w.write("a.sh", "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); a=\"$a$i\"; case $a in *99) a=;; esac; b=$(printf %x $i); done; "
            "ls -la /usr/bin | sort -k5n | awk '{ n[$1] += $5 } END { for (k in n) print k, n[k] }' | sed 's/[a-x]/&&/g' | grep -c r\n")
    bash = w.need("bash")
    return Load({"bash", "sh", "dash", "ls", "sort", "awk", "mawk", "gawk", "sed", "grep"}, [f"{bash} a.sh"])


LOADS = {"python3": (python, ["python3"]), "perl": (script("perl", (), "a.pl", PERL), ["perl"]), "ruby": (script("ruby", (), "a.rb", RUBY), ["ruby"]),
         "php": (script("php", (), "a.php", PHP, jit=True), ["php-cli"]), "lua": (script("lua5.4", ("lua",), "a.lua", LUA), ["lua5.4"]),
         "tcl": (script("tclsh", (), "a.tcl", TCL), ["tcl"]), "shell": (shell, ["bash"]), "node": (node, ["nodejs"]),
         "java": (java, ["default-jdk-headless"])}
