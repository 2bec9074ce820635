# SPDX-License-Identifier: Apache-2.0
"""What more than one scenario asserts: the loss identity, and the conformance of every request."""
import os
import re
import sys

from . import profiles
from .scenario import ROOT

REQUEST = "opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest"
UNKNOWN_FIELD = re.compile(r"^\s*\d+(:| \{)", re.M)  # protoc prints a field that it does not know by its number


def loss_identity(s, agent, received):
    """taken + recovered = exported + dropped + in flight + spooled, with in flight 0, against what arrived. Returns the final
    line."""
    final = agent.final()
    if not s.check("the log has one final line", final is not None):
        return {}
    values = {k: final.get(k) for k in ("taken", "recovered", "exported", "dropped", "in_flight", "spooled")}
    text = " ".join(f"{k}={v}" for k, v in values.items())
    if not s.check("the final line has all figures", None not in values.values(), text):
        return final
    s.check("taken + recovered = exported + dropped + in flight + spooled", values["taken"] + values["recovered"] ==
            values["exported"] + values["dropped"] + values["in_flight"] + values["spooled"], text)
    s.equal("in flight at the end", values["in_flight"], 0)
    reasons = {k: v for k, v in final.items() if k.startswith("dropped_")}
    s.check("dropped is the sum of its reasons", sum(reasons.values()) == values["dropped"],
            " ".join(f"{k}={v}" for k, v in reasons.items() if v) or "none")
    s.equal("samples that arrived are the exported ones", received, values["exported"])
    return final


def total(collector):
    return profiles.total(collector.samples())


def conforms(s, files):
    """Every request follows the OTLP rules, by a decoder that is not ours, and has no field that the protocol lacks."""
    s.check("requests were recorded", bool(files), f"{len(files)} requests")
    checker = os.path.join(ROOT, "tests", "support", "otlp_conformance.py")
    done = s.run([sys.executable, checker, *files], seconds=120, check=False)
    s.check("OTLP conformance of every request", done.returncode == 0 and bool(files), (done.stdout + done.stderr)[-600:].strip())
    if not _have_protoc(s):
        return
    bad = [text for text in (_unknown(s, f) for f in files) if text]
    s.check("protoc decodes every request, no unknown field", bool(files) and not bad, "; ".join(bad[:3]))


def _have_protoc(s):
    if s.run(["sh", "-c", "command -v protoc"], check=False).returncode == 0:
        return True
    s.skip("protoc decodes every request", "protoc is not installed")
    return False


def _unknown(s, path):
    proto = os.path.join(ROOT, "otlp", "proto")
    done = s.run(["sh", "-c", 'exec protoc --proto_path="$1" --decode="$2" profiles_service.proto < "$3"', "protoc", proto,
                  REQUEST, path], check=False)
    name = os.path.basename(path)
    if done.returncode:
        return f"{name}: {done.stderr.strip()[-200:]}"
    found = UNKNOWN_FIELD.search(done.stdout)
    return f"{name}: field {found.group(0).strip()}" if found else ""
