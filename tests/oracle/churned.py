# SPDX-License-Identifier: Apache-2.0
"""What the functions of turn N of a program that churns (churn.py, churn.php, churn.rb and the like) are called, and where they are."""
import re


class Language:
    frames = program = None  # the type of its frames; the program, below this folder
    kinds = ()
    cut = 0.01  # of the samples
    lasts = True  # its functions are named even if they are gone when the sample is looked at

    def kinds_of(self, _build):
        return self.kinds

    def beside(self, _build):
        """Files that the program needs in its folder."""
        return ()

    def command(self, build, script, truth, kind):
        return build.command(script, truth, kind)

    def is_elsewhere(self, _sample):
        """Whether it is of a thread that never runs the program."""
        return False

    def is_of_turn(self, place, kind):
        """Whether the frame is one of any turn's functions."""
        raise NotImplementedError

    def fits(self, place, n, kind):
        """Whether it is one of turn N's."""
        raise NotImplementedError


class Python(Language):
    frames, program = "cpython", "python/churn.py"
    kinds = ("function", "lambda", "file", "replaced", "same")

    def command(self, build, script, truth, kind):
        return build.command(script, truth, "--kind", kind)

    def is_of_turn(self, place, kind):
        return place.source.startswith("<churn ")

    def fits(self, place, n, kind):
        if place.source != f"<churn {n}>":
            return False
        if place.name == "<module>":
            return True
        first = 1 if kind in ("file", "same") else n % 1000 + 1
        if kind in ("lambda", "file"):
            return bool(re.search(r"<(lambda|listcomp)>$", place.name)) and place.first_line in (first, first + 1)
        return (place.name, place.first_line) in ((f"g_{n}", first), (f"f_{n}", first + (4 if kind == "function" else 0)))


class Php(Language):
    frames, program = "php", "php/churn.php"
    kinds = ("closure", "place", "include")

    def kinds_of(self, build):
        return ("request",) if build.name.endswith("-several") else self.kinds

    def command(self, build, script, truth, kind):
        return [build.argv[0], "requests", script, truth, kind] if kind == "request" else build.command(script, truth, kind)

    def is_of_turn(self, place, kind):
        if place.name == "<main>":
            return kind == "include" and place.source.endswith(".php") and not place.source.endswith("/churn.php")
        return place.source.endswith((" : eval()'d code", ".php")) and not place.source.endswith("/churn.php")

    def fits(self, place, n, kind):
        first = n % 1000 + 1 if kind == "closure" else 1
        files = {"closure": r"churn\.php\(\d+\) : eval\(\)'d code$", "request": r"churn\.php\(\d+\) : eval\(\)'d code$",
                 "place": rf"\({n % 900 + 100}\) : eval\(\)'d code$", "include": rf"/{n}\.php$"}
        if not re.search(files[kind], place.source) or place.first_line != first or (place.line not in (0, first)):
            return False
        if kind == "request":
            return place.name in (f"f_{n}", f"k_{n}::g_{n}")
        return place.name == "{closure}" or place.name.endswith(f":{first}}}") or (kind == "include" and place.name == "<main>")


class Ruby(Language):
    frames, program = "ruby", "ruby/churn.rb"
    kinds = ("method", "class", "long", "lambda")

    def kinds_of(self, build):
        """Not with YJIT, whose code changes with each definition: hardly a stack is whole."""
        return () if build.name.endswith("-yjit") else self.kinds

    def is_of_turn(self, place, kind):
        return place.source.startswith("<churn") and place.name not in ("methods_of", "lambdas")  # the text is in these

    def fits(self, place, n, kind):
        first = n % 1000 + 1 if kind == "method" else 1
        more = "_of_a_name_that_is_long" if kind == "long" else ""
        classes = ("", "Churned#" if kind == "method" else f"K_{n}{more}#")  # before 3.4 there is none
        if place.source != ("<churn>" if kind in ("class", "long") else f"<churn {n}>") or place.first_line != first or place.line != first:
            return False
        if kind == "lambda":
            return place.name == "<main>" or place.name.startswith("block ")
        return place.name in {f"{of}{f}_{n}{more}" for of in classes for f in "fg"}


class Perl(Language):
    frames, program = "perl", "perl/churn.pl"
    kinds = ("function", "same", "package", "anonymous")

    def is_of_turn(self, place, kind):
        """While Perl makes a glob for a function that has none yet, the current statement is that function's, whoever asks for it: undef."""
        return place.source.startswith("<churn") and (place.name != "main::__ANON__" or kind == "anonymous")

    def fits(self, place, n, kind):
        """A function that has only just begun has no line; a text that is being read is at the line before or behind it for a moment."""
        first = n % 1000 + 1 if kind == "function" else 1
        if place.source != ("<churn>" if kind in ("same", "package") else f"<churn {n}>"):
            return False
        if place.line not in ((0, first - 1, first, first + 1) if place.name == "(eval)" else (0, first)):
            return False
        names = {"package": {f"K_{n}::f", f"K_{n}::g"}, "anonymous": {"main::__ANON__"}}
        return place.name == "(eval)" or place.name in names.get(kind, {f"main::f_{n}", f"main::g_{n}"})


class Java(Language):
    """Methods are read when they have occurred: of classes that are gone by then there are no names. None must be wrong."""
    frames, program = "jvm", "java/Churn.java"
    kinds = ("short", "long", "sizes")
    lasts = False
    FLAGS = ["-XX:ReservedCodeCacheSize=3m", "-Xmx64m"]

    def beside(self, build):
        return (build.program,)

    def command(self, build, script, truth, kind):
        flags = self.FLAGS + ["-XX:-Inline"] * (kind == "sizes")
        return build.command(*flags, "-cp", script.rpartition("/")[0] + "/chains.jar", "Churn", truth, kind, without="-jar")

    def is_of_turn(self, place, kind):
        return place.name.startswith("Turn")

    def fits(self, place, n, kind):
        return place.source == "Churn.java" and place.name in {f"Turn{n}.{m}" for m in (f"f_{n}", f"g_{n}", f"h_{n}", f"i_{n}", "applyAsLong", "<init>")}

    def breaks(self, places, kind):
        """Frames of other sizes: with rows of other code, a walk skips some, or takes others in between. A class that is being unloaded has no
        names: its compiled methods are an "nmethod"."""
        names = [p.name.partition(".")[2].partition("_")[0] if self.is_of_turn(p, kind) else "?" for p in places
                 if self.is_of_turn(p, kind) or p.name in ("nmethod", "[unknown function]")]
        chain = ["g", "i", "h", "f", "applyAsLong"]
        return (kind == "sizes" and "<init>" not in names and
                (len(names) > len(chain) or any(n not in ("?", c) for n, c in zip(names[::-1], chain[::-1]))))


class Dotnet(Language):
    """As of Java."""
    frames, program = "dotnet", "dotnet/Churn.cs"
    kinds = ("short", "long")
    lasts = False

    def kinds_of(self, build):
        return self.kinds if build.name == "9-tiered" else ()

    def is_of_turn(self, place, kind):
        return place.name.startswith(("f_", "g_"))

    def fits(self, place, n, kind):
        return place.name in (f"f_{n}", f"g_{n}")


class Node(Language):
    """The text of a script is a function, too, before its others are. V8 gives memory of code to other code at once, whose innermost frame
    has the rows of what was there until that is looked at."""
    frames, program = "v8js", "node/churn.js"
    kinds = ("short", "long", "moved")
    cut = 0.1

    def command(self, build, script, truth, kind):
        return build.command("--expose-gc", script, truth, kind)

    def is_elsewhere(self, sample):
        """V8 compiles and collects in threads."""
        return any(f.name.startswith(("start_thread", "clone")) for f in sample.frames) or not any(f.kind != "kernel" for f in sample.frames)

    def is_of_turn(self, place, kind):
        return place.source.startswith("<churn ")

    def fits(self, place, n, kind):
        """A line is not known at once."""
        first = 1 if place.name == "(anonymous)" else n % 1000 + 1
        return place.source == f"<churn {n}>" and place.first_line in (0, first) and place.name in ("(anonymous)", f"f_{n}", f"g_{n}")


LANGUAGES = {"python": Python(), "php": Php(), "ruby": Ruby(), "perl": Perl(), "java": Java(), "dotnet": Dotnet(), "node": Node()}
