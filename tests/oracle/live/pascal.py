# SPDX-License-Identifier: Apache-2.0
"""Generates the functions of a chain (chain.py) in Free Pascal, whose run-time library has no call-frame information either."""
from .chain import Chain

KINDS = ("small", "regs", "medium", "huge", "args", "record", "early", "text", "guarded", "nested", "cases", "real", "open", "method")

HEAD = """{$mode objfpc}{$Q-}{$R-}
program code;
uses @USES@;
var
  spinning: longint = 1;
  rounds: int64 = -1;
type
  link = function(path: pbyte; x: qword): qword;
  many = array[0..@MANY@] of qword;
"""

PLAIN = "function {name}(path: pbyte; x: qword): qword;"
LINK = PLAIN + " [public, alias: '{name}'];"
WORK = "for i := 1 to {n} do x := x * 6364136223846793005 + 1442695040888963407;"

# kind: (declarations, body)
TEMPLATES = {
    "small": ("frame: array[0..{size}] of byte;",
              "fillchar(frame, 16, x and 255); {work}\n  {call}\n  {work2}\n  {name} := x + frame[x mod {size}];"),
    "regs": ("a, b, c, d, e, f: qword;",
             "a := x + 1; b := x * 3; c := x xor 5; d := x + 7; e := x * 11; f := x - 13; {work}\n  {call}\n"
             "  {work2}\n  {name} := x + a + b + c + d + e + f;"),
    "early": ("", "if (path = nil) or (x = 42) then exit(7);\n  {work}\n  {call}\n  {work2}\n  {name} := x;"),
    # temporary strings are released in a handler, which a jump of the run-time library enters
    "text": ("s: ansistring;", "str(x mod 1000, s); s := s + '-' + s; {work}\n  {call}\n  s := s + 'x';\n  {name} := x + length(s);"),
    "guarded": ("", "try\n    {work}\n    {call}\n  finally\n    {work2}\n  end;\n  {name} := x;"),
    "cases": ("", "case x mod 9 of\n    0: x := x + 3; 1: x := x * 5; 2: x := x xor 9; 3: x := x - 2; 4: x := not x; 5: x := x shr 1;\n"
                  "    6: x := x + 77; 7: x := x * 3;\n  end;\n  {call}\n  {work2}\n  {name} := x;"),
    "real": ("r, q: double;", "r := x mod 1000; q := r / 3; {work}\n  {call}\n  {name} := x + trunc(r * q);"),
}
TEMPLATES["medium"] = TEMPLATES["huge"] = TEMPLATES["small"]

# kind: (head of a helper whose frame follows, its result, its call)
HELPERS = {
    "args": ("function {name}_help(path: pbyte; x, a, b, c, d, e, f, g: qword): qword; [public, alias: '{name}_help'];",
             "x + a + b + c + d + e + f + g", "{name}_help(path, x, 1, 2, 3, 4, 5, 6, 7)"),
    "record": ("function {name}_help(path: pbyte; x: qword): many; [public, alias: '{name}_help'];", None, "{name}_help(path, x)[3]"),
    "open": ("function {name}_help(path: pbyte; x: qword; values: array of qword): qword; [public, alias: '{name}_help'];",
             "x + values[x mod 3]", "{name}_help(path, x, [x, 2, 3])"),
}


class PascalChain(Chain):
    """Of the other languages' options only functions, depth and the name's prefix."""

    def __init__(self, rng, prefix="f", functions=14, depth=28):
        super().__init__(rng, prefix, functions, depth, KINDS)

    def _frames_of(self, f):
        name, kind = self.names_of(f), self.kinds[f]
        return [name, name + "_help"] if kind in HELPERS or kind == "nested" or kind == "method" else [name]

    def names_of(self, f):
        return f"{self.prefix}{f}"

    def side_calls(self):
        return {}

    def source(self, uses="baseunix"):
        names = self.names + [self.leaf]
        text = [HEAD.replace("@USES@", uses).replace("@MANY@", str(self.rng.randrange(8, 40)))]
        text += [LINK.format(name=n) + " forward;" for n in names]
        text.append(f"const\n  table: array[0..{len(names) - 1}] of link = ({', '.join('@' + n for n in names)});")
        path = self.path[1:] + [len(self.names)]
        text.append(f"  route: array[0..{len(path) - 1}] of byte = ({', '.join(map(str, path))});")
        text += [self._function(i, "") for i in range(len(self.names))]
        text.append(f"""{PLAIN.format(name=self.leaf)}
var i: longint;
begin
  repeat
    {WORK.format(n=20)}
  until spinning = 0;
  {self.leaf} := x + ord(path = nil);
end;
function {self.entry}(x: qword): qword; [public, alias: '{self.entry}'];
begin
  {self.entry} := {self.names[self.path[0]]}(@route[0], x) + 1;
end;
begin
  fpalarm(300);
  if (argc < 2) or (argv[1][0] <> 's') then spinning := 0;
  if argc > 2 then val(argv[2], rounds);
  while rounds <> 0 do begin {self.entry}(argc); dec(rounds); end;
end.""")
        return "\n".join(text) + "\n"

    def _call(self, f):
        following = {self.path[i + 1] if i + 1 < len(self.path) else len(self.names) for i, g in enumerate(self.path) if g == f}
        names = self.names + [self.leaf]
        if self.rng.random() < self.indirect or not following:
            return "x := table[path^](path + 1, x) + 1;"
        if len(following) == 1:
            return f"x := {names[following.pop()]}(path + 1, x) + 1;"
        return "case path^ of " + " ".join(f"{g}: x := {names[g]}(path + 1, x) + 1;" for g in sorted(following)) + " end;"

    def _function(self, f, _):
        rng, kind, name = self.rng, self.kinds[f], self.names[f]
        size = {"huge": self.huge_bytes + 16 * rng.randrange(1000), "medium": rng.randrange(1000, 9000)}.get(kind, rng.randrange(16, 400))
        values = {"name": name, "size": size, "call": self._call(f), "work": WORK.format(n=rng.randrange(1, 6)),
                  "work2": WORK.format(n=rng.randrange(1, 6))}
        head = PLAIN.format(name=name)
        if kind in HELPERS:
            helper, result, call = (t and t.format(**values) for t in HELPERS[kind])
            end = f"{name}_help := {result};" if result else "for i := low(result) to high(result) do result[i] := x + i;"
            return (f"{helper}\nvar i: longint;\nbegin\n  {values['work']}\n  {values['call']}\n  {values['work2']}\n  {end}\nend;\n"
                    f"{head}\nbegin\n  {name} := {call} + 1;\nend;")
        if kind == "nested":  # the inner function gets the address of the outer one's frame
            return (f"{head}\nvar a: array[0..{size}] of byte;\n  function inner(n: qword): qword; [public, alias: '{name}_help'];\n"
                    f"  var i: longint;\n  begin\n    a[n mod {size}] := 1;\n    {values['work']}\n    {values['call']}\n"
                    f"    inner := x + a[3];\n  end;\nbegin\n  fillchar(a, sizeof(a), 0);\n  {name} := inner(x) + a[x mod {size}];\nend;")
        if kind == "method":
            return (f"type {name}_class = class\n  value: qword;\n  function work(path: pbyte; x: qword): qword; virtual;\nend;\n"
                    f"function {name}_class.work(path: pbyte; x: qword): qword; [public, alias: '{name}_help'];\nvar i: longint;\nbegin\n"
                    f"  {values['work']}\n  {values['call']}\n  {values['work2']}\n  value := x;\n  result := x + 1;\nend;\n"
                    f"{head}\nvar o: {name}_class;\nbegin\n  o := {name}_class.create;\n  {name} := o.work(path, x) + 1;\n  o.free;\nend;")
        declarations, body = (t.format(**values) for t in TEMPLATES[kind])
        return f"{head}\nvar i: longint; {declarations}\nbegin\n  {body}\nend;"
