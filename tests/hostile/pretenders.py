#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that pretend to be an interpreter of PHP, Ruby or Perl, HotSpot, BEAM or .NET (tests/support/pretender*.c), and keep frames that are no such.

Circles, lists of 100,000 frames, into unmapped memory, into the kernel, functions, instructions, names and classes that are nowhere, names
of 2^62 bytes or of control characters, stacks that do not fit their own sizes or the native stack, lists that change all the time, and
another function at each look. One after the other, against one agent with the memory that the chart gives it. An honest one of each
beside them is shown as it says, and no list that is wrong is said to be whole.
"""
import collections
import os

import attack
from attack import wait_for
from lib import machine, programs
from lib.profiles import ending, total
from lib.scenario import ROOT, tail
from trial import Trial

TENANT = "65534"
CPU, HONEST_CPU = (0.25, 1.6) if attack.QUICK else (10, 40)  # s that each gets; an honest one's functions must have become known
# kind: type of its frames; loop: the native function, None: its code is in memory; honest: what its frames are, leaf first; then the modes
Liar = collections.namedtuple("Liar", "kind loop honest never_whole others")
LIARS = {
    "pretender": Liar(
        "php", "execute_ex", (("lying::lying", "/lying.ph", 2),) * 2,
        ("circle", "circle_of_two", "unmapped", "kernel", "noncanonical", "end_of_page", "deep", "function_unmapped", "function_kernel"),
        ("odd_address", "instructions", "name_huge", "name_odd", "class", "flicker", "many")),
    "pretender_ruby": Liar(
        "ruby", "rb_vm_exec", (("lying", "/lying.rb", 7),) * 2,
        ("deep", "stack_unmapped", "stack_kernel", "stack_ends", "stack_huge", "stack_uneven", "frame_outside", "context_unmapped",
         "context_kernel", "thread_of_another", "iseq_unmapped", "iseq_kernel", "body_kernel", "ep_unmapped", "ep_kernel", "kind_other"),
        ("scopes", "evals", "label_huge", "label_odd", "label_kernel", "file_circle", "lines_kernel", "flicker", "many")),
    "pretender_perl": Liar(
        "perl", "Perl_runops_standard", (("Liar::lying", "/lying.pl", 9), ("Liar::lying", "/lying.pl", 7), ("(main)", "/lying.pl", 7)),
        ("circle", "circle_of_all", "no_main", "stack_unmapped", "stack_kernel", "stack_ends", "stacks_deep", "kind_other", "index_huge",
         "interpreter_kernel", "interpreter_unmapped", "contexts_unmapped", "contexts_kernel", "deep", "blocks", "function_unmapped",
         "function_kernel", "function_none", "body_kernel"),
        ("calls", "evals", "jumps_circle", "jumps_kernel", "name_huge", "name_odd", "name_kernel", "package_kernel", "names_many",
         "file_endless", "statement_kernel", "flicker", "many")),
    "pretender_java": Liar(  # which methods its code is of says nothing about where the stack ends
        "jvm", None, (("org.example.Work.run", "Work.java", 4),), (),
        ("fields_endless", "fields_unmapped", "fields_kernel", "fields_none", "fields_themselves", "types_unmapped",
         "types_are_fields", "strings_unmapped", "strings_endless", "offset_huge", "sizes_huge", "version_none", "heaps_unmapped",
         "heaps_kernel", "heaps_many", "heaps_circle", "heap_of_everything", "segments_huge", "segments_endless", "block_huge",
         "blob_unmapped", "blob_name_endless", "code_kernel", "code_everywhere", "frame_none", "frame_huge", "frame_wrong",
         "method_unmapped", "method_kernel", "method_circle", "pool_unmapped", "pool_huge", "name_nowhere", "class_kernel",
         "symbol_long", "symbol_huge", "symbol_odd", "lines_endless", "scopes_circle", "scopes_unmapped", "scopes_deep",
         "places_many", "places_backward", "metadata_unmapped", "flicker", "many", "in_interpreter", "interpreted_kernel",
         "interpreted_unmapped", "interpreted_circle", "interpreted_many")),
    "pretender_beam": Liar(
        "beam", None, (("work:leaf/2", "", 0), ("normal_exit", "", 0)), (),
        ("index_huge", "index_none", "tables_none", "tables_unmapped", "tables_kernel", "tables_huge", "tables_twice", "tables_end",
         "module_unmapped", "module_kernel", "module_everything", "functions_huge", "functions_many", "functions_descend", "function_huge",
         "function_elsewhere", "atoms_unmapped", "atoms_kernel", "atom_nowhere", "atom_none", "atom_unmapped", "atom_kernel", "text_huge",
         "text_long", "text_unmapped", "text_kernel", "text_odd", "arity_huge", "layout_odd", "layout_records", "exit_kernel", "exit_none",
         "exit_in_function", "on_thread_stack", "process_kernel", "stack_flickers", "flicker")),
    "pretender_dotnet": Liar(
        "dotnet", None, (("Demo.Outer.Run", "/src/Main.cs", 12),), (),
        ("levels_none", "levels_unmapped", "levels_kernel", "levels_circle", "level_odd", "fragments_circle", "fragments_kernel",
         "section_unmapped", "section_kernel", "section_elsewhere", "range_everything", "range_is_list", "list_kernel", "range_is_image",
         "heap_unmapped", "heap_kernel", "map_unmapped", "map_kernel", "map_endless", "map_points_away", "map_points_back",
         "header_kernel", "header_unmapped", "header_stub", "functions_none", "functions_huge", "functions_many", "function_huge",
         "function_odd", "unwind_far", "unwind_other", "unwind_chained", "unwind_long", "frame_huge", "frame_wrong", "frame_none",
         "method_unmapped", "method_kernel", "method_far", "dynamic_kernel", "dynamic_endless", "dynamic_odd", "table_kernel",
         "module_unmapped", "image_none", "images_many", "token_far", "header_far", "sections_many", "sections_huge", "metadata_far",
         "streams_many", "rows_huge", "tables_all", "types_circle", "text_far", "text_odd", "ready", "ready_sections", "ready_functions",
         "ready_descends", "ready_methods", "ready_instances", "ready_types", "debug_kernel", "debug_unmapped",
         "debug_odd", "debug_endless", "symbols_far", "symbols_many", "packed_odd", "packed_huge", "lines_of_another", "lines_odd",
         "lines_endless", "flicker", "unwind_flickers")),
}
# Also true of an honest one, at the few instructions around its loop. A sample has one chance in 100,000 to hit them, and a much better one
# where a page of code has to be brought back just there.
AROUND = {"pretender_java": {(("org.example.Work.run", "Work.java", 0),), (("org.example.Work.add", "Work.java", 2), ("org.example.Work.run", "Work.java", 4))},
          "pretender_beam": {(("normal_exit", "", 0),)},
          "pretender_dotnet": {(("Demo.Outer.Run", "/src/Main.cs", 10),)}}
AROUND_AT_MOST = 0.01  # of its whole stacks
AT_ONCE = 8
NAME_MAX = 1024  # bytes, of what a tenant says


def build(s):
    """→ {liar: its program}"""
    found = {}
    for name in LIARS:
        found[name] = programs.build_c(s, name, "-rdynamic", "-pthread", f"-I{ROOT}")
        for path in (os.path.dirname(found[name]), found[name]):
            os.chmod(path, 0o755)
    return found


def modes():
    """All, as (liar, mode)."""
    return [(name, mode) for name, liar in LIARS.items() for mode in ("honest", *liar.never_whole, *liar.others)]


def start(s, program, mode, name=""):
    argv = ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", program, mode]
    process = s.start(argv, f"{os.path.basename(program)}-{mode}{name}")
    wait_for(lambda: "ready" in tail(process.log) or process.poll() is not None, 60, mode)
    return process


def is_over(which, process):
    """It has had its CPU time, or ended by itself."""
    return process.poll() is not None or machine.cpu_seconds(process.pid) > (HONEST_CPU if which[1] == "honest" else CPU)


def run_all(s, made):
    """AT_ONCE at a time → {(liar, mode): process id}"""
    waiting, running, pids = modes(), {}, {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            name, mode = which = waiting.pop(0)
            running[which] = start(s, made[name], mode)
            pids[which] = running[which].pid
        for which in wait_for(lambda: [x for x in running if is_over(x, running[x])], 120, f"{', '.join(map(' '.join, running))} compute"):
            process = running.pop(which)
            s.check(f"{' '.join(which)}: the tenant ran to the end", process.poll() is None, tail(process.log).strip()[-200:])
            process.kill()
            process.wait()
    return pids


def is_text(name):
    return len(name.encode()) <= NAME_MAX and not any(ord(c) < 32 or ord(c) == 127 or 0x202a <= ord(c) <= 0x202e for c in name)


def inside_of(liar, mode, mine):
    """Samples of the language, but for those of the function that makes the lie, whose frames are honest until it is done."""
    inside = [x for x in mine if not liar.loop or any(f.kind == liar.kind or f.name == liar.loop for f in x.frames)]
    return [x for x in inside if mode not in (f.name for f in x.frames)]


def whole_of(liar, inside):
    """Whole stacks, as (how many, stack), but for those that were taken before the agent knew what the program is: these are of native code."""
    known = [t for x in inside if ending(x) != "complete" or any(f.kind == liar.kind for f in x.frames) for t in x.times]
    whole = [(sum(t >= min(known, default=0) for t in x.times) if x.times else x.count, x) for x in inside if ending(x) == "complete"]
    return [(n, x) for n, x in whole if n]


def described(stacks):
    return "; ".join(f"{n} whole: {' < '.join(f'{f.kind}:{f.name[:40]}' for f in x.frames[:20])}" for n, x in stacks[:2])


def check_mode(s, name, mode, mine):
    liar, what = LIARS[name], f"{name} {mode}"
    inside = inside_of(liar, mode, mine)
    stacks = whole_of(liar, inside)
    whole = sum(n for n, _ in stacks)
    frames = [f for x in mine for f in x.frames if f.kind == liar.kind]
    bad = sorted({f.name for f in frames if not is_text(f.name) or not is_text(f.source)})
    text = f"{total(mine)} samples, {whole} of {total(inside)} whole; {max((len(x.frames) for x in mine), default=0)} frames at most; " \
           f"{', '.join(sorted({ending(x) for x in inside} - {'complete'}))} {[b[:80] for b in bad[:2]]}"
    s.check(f"{what}: it was sampled, and what it says is bounded text", bool(inside) and not bad, text)
    if mode in liar.never_whole:
        s.check(f"{what}: its list ends, and none is said to be whole", not whole, f"{text} {described(stacks)}")


def check_functions(s, name, what, whole):
    """Whole stacks of an honest one have all functions, as it says."""
    stacks = collections.Counter()
    for x in whole:
        stacks[tuple((f.name, f.source, f.line) for f in x.frames if f.kind == LIARS[name].kind)] += x.count
    around = sum(stacks.pop(x, 0) for x in AROUND.get(name, ()))
    s.equal(f"{what}: all functions, as it says", set(stacks), {LIARS[name].honest})
    s.check(f"{what}: hardly ever around its loop", around <= max(1, AROUND_AT_MOST * total(whole)), f"{around} of {total(whole)}")


def check_honest(s, name, mine):
    """But for those that were taken before the agent knew it, which is up to the first sample with functions."""
    liar, mine = LIARS[name], inside_of(LIARS[name], "honest", mine)
    with_functions = [x for x in mine if any(f.kind == liar.kind for f in x.frames)]
    begin = min((t for x in with_functions for t in x.times), default=0)
    known = sum(sum(t >= begin for t in x.times) for x in mine)
    whole = [x for x in with_functions if ending(x) == "complete"]
    check_functions(s, name, f"{name} honest", whole)
    s.check(f"{name} honest: its stacks are whole", 0 < total(whole) >= 0.9 * known, f"{total(whole)} of {known}, {total(mine) - known} before")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv")
    made = build(s)
    trial = Trial(s, "pretenders")
    trial.victims.another()
    pids = run_all(s, made)
    trial.endure()
    samples = trial.judge()
    of = {which: [x for x in samples if x.attributes.get("process.pid") == pid] for which, pid in pids.items()}
    for (name, mode), mine in of.items():
        check_mode(s, name, mode, mine)
        if mode == "honest":
            check_honest(s, name, mine)


if __name__ == "__main__":
    attack.scenario("pretenders").execute(body)
