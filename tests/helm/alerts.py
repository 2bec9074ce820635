# SPDX-License-Identifier: Apache-2.0
"""The chart's alerts: promtool reads them, each begins with the series in alerts.yaml and with no other, and all metrics are the
agent's."""
import os
import re
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OF_PROMETHEUS = {"up"}


def groups_of(manifest):
    """The rule file in a PrometheusRule, and the names of its alerts."""
    document = next(d for d in re.split(r"^---$", manifest, flags=re.M) if re.search(r"^kind: PrometheusRule$", d, flags=re.M))
    text = "".join(line[2:] + "\n" for line in document.split("\nspec:\n")[1].splitlines())
    return text, re.findall(r"- alert: (\w+)", text)


def agents_metrics(root):
    with open(os.path.join(root, "agent", "telemetry", "metrics.c"), encoding="utf-8") as f:
        return set(re.findall(r'"((?:proflet|process)_[a-z0-9_]+)"', f.read()))


def results(root, manifest):
    """(what, whether it is so, detail) of each test."""
    got = subprocess.run([os.path.join(root, "tests", "support", "get-promtool")], stdout=subprocess.PIPE, text=True)
    if got.returncode:
        yield "promtool", False, "tests/support/get-promtool failed"
        return
    promtool, (rules, names) = got.stdout.strip(), groups_of(manifest)
    expressions = re.sub(r'"[^"]*"', '""', " ".join(re.findall(r"(?s)expr: (.*?)\n\s+(?:for|labels):", rules)))
    used = set(re.findall(r"\b(up|proflet_\w+|process_\w+)\b", expressions))
    unknown = used - agents_metrics(root) - OF_PROMETHEUS
    yield "each metric is one of the agent's", used and not unknown, sorted(unknown)
    with open(os.path.join(HERE, "alerts.yaml"), encoding="utf-8") as f:
        tests = f.read()
    tested = set(re.findall(r"alertname: (\w+)", tests))
    yield "each alert has a test", tested == set(names), sorted(tested ^ set(names))
    with tempfile.TemporaryDirectory(prefix="proflet-alerts-") as folder:
        # promtool would compare the annotations, word by word; only their templates matter, which `check` parses
        bare = re.sub(r"(?m)^( +)annotations:\n(?:\1 .*\n)+", "", rules)
        for what, text in ((["check", "rules", "rules.yaml"], rules), (["test", "rules", "alerts.yaml"], bare)):
            for name, content in (("rules.yaml", text), ("alerts.yaml", tests)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(content)
            done = subprocess.run([promtool, *what], cwd=folder, capture_output=True, text=True)
            yield f"promtool {' '.join(what)}", done.returncode == 0, done.stdout + done.stderr
