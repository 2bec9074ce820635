# SPDX-License-Identifier: Apache-2.0
"""Interleaved rounds, medians with the range, a table and JSON."""
import json
import statistics
import sys

from . import bpf, host, measure

# figure, how it is printed, what it is
FIGURES = (
    ("bpf_ns_per_sample", "%.0f", "BPF ns/sample"),
    ("cpu_ms_per_1000", "%.1f", "agent CPU ms / 1,000 samples"),
    ("cpu_pct", "%.2f", "agent CPU, % of one CPU"),
    ("cpu_ms_per_process", "%.2f", "agent CPU ms / new process"),
    ("seen_pct", "%.0f", "new processes with a sample, %"),
    ("attached_ms", "%.0f", "start to program running, ms"),
    ("first_sample_ms", "%.0f", "start to first sample, ms"),
    ("stop_ms", "%.0f", "SIGTERM to exit, ms"),
    ("pss_mib", "%.1f", "memory MiB (PSS)"),
    ("rss_mib", "%.1f", "RSS MiB, summed"),
    ("rss_peak_mib", "%.1f", "RSS peak, summed"),
    ("maps_mib", "%.1f", "BPF maps MiB"),
    ("raw_bytes_per_sample", "%.1f", "OTLP bytes/sample raw"),
    ("wire_bytes_per_sample", "%.1f", "OTLP bytes/sample sent"),
    ("samples", "%.0f", "samples received"),
    ("workload_pct", "%.1f", "of them the workload's, %"),
    ("foreign_pct", "%.1f", "other CPU on the machine, %"),
    ("ns_per_frame", "%.1f", "BPF ns/frame"),
)
TABLE_FIGURES = (("rows", "%.0f"), ("rules", "%.0f"), ("bytes_per_row", "%.2f"), ("ns_per_row", "%.1f"),
                 ("build_ms", "%.2f"))


def scenarios(options):
    """(name, function of command and directory), in the order of a round."""
    out = [("idle", lambda c, w: measure.steady(c, options, w))]
    for depth in measure.DEPTHS:
        out.append(("depth %d" % depth, lambda c, w, d=depth: measure.steady(c, options, w, lambda: measure.deep(options, d))))
    for depth in measure.PYTHON_DEPTHS if options.python else ():
        out.append(("python %d" % depth, lambda c, w, d=depth: measure.steady(c, options, w, lambda: measure.python(options, d))))
    if options.python and options.pythons:
        out.append(("pythons", lambda c, w: measure.steady(c, options, w, lambda: measure.pythons(options))))
    for cold in (False, True):
        out.append(("processes " + ("cold" if cold else "warm"),
                    lambda c, w, k=cold: measure.processes(c, options, w, k)))
    return [s for s in out if not options.only or any(s[0].startswith(o) for o in options.only)]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def summarised(runs):
    """Each figure's spread over runs (dicts of numbers)."""
    keys = dict.fromkeys(k for r in runs for k in r)
    return {k: spread([r[k] for r in runs if k in r]) for k in keys if isinstance(runs[0].get(k, 0), (int, float))}


def slopes(rounds):
    """ns/frame between each two neighbouring depths, round by round."""
    out = {}
    for low, high in zip(measure.DEPTHS, measure.DEPTHS[1:]):
        a, b = rounds.get("depth %d" % low, []), rounds.get("depth %d" % high, [])
        per = [(y["bpf_ns_per_sample"] - x["bpf_ns_per_sample"]) / (high - low) for x, y in zip(a, b)]
        if per:
            out["frames %d..%d" % (low, high)] = {"ns_per_frame": spread(per)}
    return out


def collect(agents, options, work):
    """Runs every scenario with every agent, round by round, so that drift of the machine hits all alike."""
    stats = bpf.enable_stats() # held for as long as this process lives
    print("# BPF statistics on (descriptor %d)" % stats, file=sys.stderr)
    rounds = {name: {} for name in agents}
    for number in range(options.rounds):
        for scenario, function in scenarios(options):
            for name, command in agents.items():
                print("# round %d, %s, %s" % (number + 1, scenario, name), file=sys.stderr, flush=True)
                try:
                    figures = function(command, work)
                except RuntimeError as e:
                    print("# %s, %s: %s" % (scenario, name, e), file=sys.stderr)
                    continue
                rounds[name].setdefault(scenario, []).append(figures)
    return rounds


def document(agents, rounds, tables, options):
    out = {"conditions": host.conditions(), "options": {k: getattr(options, k) for k in
           ("hz", "window", "seconds", "rounds", "processes", "burst_ms")}, "agents": {}}
    for name, command in agents.items():
        by_scenario = {s: summarised(r) for s, r in rounds[name].items()}
        by_scenario.update(slopes(rounds[name]))
        out["agents"][name] = {"command": command, "scenarios": by_scenario, "runs": rounds[name]}
    if tables:
        files = {}
        for row in (r for one in tables for r in one):
            files.setdefault(row["file"], []).append(row)
        out["tables"] = {f: summarised([{k: v for k, v in r.items() if k != "file"} for r in rows])
                         for f, rows in files.items()}
    return out


def cell(form, s):
    text = form % s["median"]
    low, high = form % s["min"], form % s["max"]
    return text if low == high else "%s (%s..%s)" % (text, low, high)


def print_block(title, columns):
    """columns: name -> figures. One line per figure; a ratio to the first column where there are several."""
    print("\n%s" % title)
    names = list(columns)
    for key, form, label in FIGURES:
        if not any(key in columns[n] for n in names):
            continue
        line = "  %-32s" % label
        for n in names:
            line += " %-26s" % (cell(form, columns[n][key]) if key in columns[n] else "-")
        if len(names) == 2 and all(key in columns[n] and columns[n][key]["median"] for n in names):
            line += " %.2f" % (columns[names[0]][key]["median"] / columns[names[1]][key]["median"])
        print(line.rstrip())


def print_tables(files):
    print("\n%-44s %8s %6s %9s  %-22s %s" % ("unwind table of", "rows", "rules", "bytes/row", "ns/row", "build ms"))
    for path, figures in files.items():
        print("  %-42s %8s %6s %9s  %-22s %s" % (path, *(cell(form, figures[key]) for key, form in TABLE_FIGURES)))


def show(doc):
    c = doc["conditions"]
    print("%(at)s, Linux %(kernel)s %(machine)s, %(cpus)d CPUs (%(cpu)s), %(processes)d processes" % c +
          ", load %.2f %.2f %.2f" % tuple(c["load"]))
    print("%(hz)d Hz, window %(window)s s, %(seconds)s s a run, %(rounds)d rounds; median (min..max)" % doc["options"])
    agents = doc["agents"]
    if len(agents) > 1:
        print("columns: %s, ratio of the medians" % ", ".join(agents))
    for scenario in dict.fromkeys(s for a in agents.values() for s in a["scenarios"]):
        print_block(scenario, {n: a["scenarios"].get(scenario, {}) for n, a in agents.items()})
    if "tables" in doc:
        print_tables(doc["tables"])


def save(doc, path):
    with open(path, "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
