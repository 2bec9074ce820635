# SPDX-License-Identifier: Apache-2.0
"""What more than one scenario asserts: the loss identity, and the conformance of every request."""
import os
import re

from . import profiles
from .recorded import Contents
from .scenario import ROOT

REQUEST = "opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest"
UNKNOWN_FIELD = re.compile(r"^\s*\d+(:| \{)", re.M)  # protoc prints a field that it does not know by its number


def loss_identity(s, agent, received, what=""):
    """taken + recovered = exported + dropped + in flight + spooled, with in flight 0, against what arrived. Returns the final
    line."""
    before = what + ": " if what else ""
    final = agent.final()
    if not s.check(before + "the log has one final line", final is not None):
        return {}
    values = {k: final.get(k) for k in ("taken", "recovered", "exported", "dropped", "in_flight", "spooled")}
    text = " ".join(f"{k}={v}" for k, v in values.items())
    if not s.check(before + "the final line has all figures", None not in values.values(), text):
        return final
    s.check(before + "taken + recovered = exported + dropped + in flight + spooled", values["taken"] + values["recovered"] ==
            values["exported"] + values["dropped"] + values["in_flight"] + values["spooled"], text)
    s.equal(before + "in flight at the end", values["in_flight"], 0)
    reasons = {k: v for k, v in final.items() if k.startswith("dropped_")}
    s.check(before + "dropped is the sum of its reasons", sum(reasons.values()) == values["dropped"],
            " ".join(f"{k}={v}" for k, v in reasons.items() if v) or "none")
    s.equal(before + "samples that arrived are the exported ones", received, values["exported"])
    return final


def lost_on_the_way(final):
    """Samples that reached the agent and did not arrive, by reason: dropped, but not by the kernel because the agent had no CPU."""
    if not final:
        return {"no final line": 1}
    return {k: v for k, v in final.items() if k.startswith("dropped_") and v and k != "dropped_ring_full"}


def delivered(s, final, what):
    """Whatever reached the agent went out."""
    lost = lost_on_the_way(final)
    s.check(f"{what}: nothing was dropped on the way", final.get("exported", 0) > 0 and not lost, str(lost or final.get("exported")))


def total(collector):
    return profiles.total(collector.samples())


def conforms(s, files, what=""):
    """Every request follows the OTLP rules, by a decoder that is not ours, and has no field that the protocol lacks."""
    before = what + ": " if what else ""
    s.check(before + "requests were recorded", bool(files), f"{len(files)} requests")
    violations = Contents(files).violations
    s.check(before + "OTLP conformance of every request", bool(files) and not violations, "; ".join(violations[:4])[:600])
    if s.run(["sh", "-c", "command -v protoc"], check=False).returncode:
        s.skip(before + "protoc decodes every request", "protoc is not installed")
        return
    bad = _unknown(s, files)
    s.check(before + "protoc decodes every request, no unknown field", bool(files) and not bad, bad)


def _unknown(s, files):
    """All at once: messages one behind the other are one message, in which repeated fields and unknown ones add up."""
    proto = os.path.join(ROOT, "otlp", "proto")
    done = s.run(["sh", "-c", 'p=$1 r=$2; shift 2; cat "$@" | protoc --proto_path="$p" --decode="$r" profiles_service.proto', "protoc",
                  proto, REQUEST, *files], check=False)
    if done.returncode:
        return done.stderr.strip()[-200:]
    found = UNKNOWN_FIELD.search(done.stdout)
    return f"field {found.group(0).strip()}" if found else ""
