# SPDX-License-Identifier: Apache-2.0
"""One run of a profiling agent that sends OTLP/gRPC to a sink of its own, and what can be seen of it from outside."""
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass

from . import bpf, host, otlp, sink


@dataclass
class Instant:
    """Readings of one moment; the difference of two is what a stretch of time cost."""
    unix_ns: int
    wall: float
    cpu: float
    bpf_ns: int
    bpf_runs: int
    busy: float
    bench_cpu: float


class Agent:
    def __init__(self, command, hz, window, log):
        self.sink = sink.Sink()
        self.maps_before = bpf.map_ids()
        words = {"endpoint": self.sink.endpoint, "hz": str(hz), "window": str(window)}
        for word, value in words.items():
            command = command.replace("{%s}" % word, value)
        self.log = open(log, "w+")
        self.started_ns = time.time_ns()
        self.process = subprocess.Popen(shlex.split(command), stdout=self.log, stderr=subprocess.STDOUT)
        self.attached_ns = None

    def pids(self):
        return host.family(self.process.pid)

    def wait_attached(self, limit=60):
        """Until its program has run once."""
        end = time.monotonic() + limit
        while bpf.run_time(self.pids())[1] == 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the agent does not sample: " + self.last_words())
            time.sleep(0.005)
        self.attached_ns = time.time_ns()

    def last_words(self):
        with open(self.log.name) as f:
            return " | ".join(f.read().splitlines()[-5:])

    def now(self):
        pids = self.pids()
        ns, runs = bpf.run_time(pids)
        return Instant(time.time_ns(), time.monotonic(), sum(map(host.cpu, pids)), ns, runs, host.busy(),
                       host.cpu(os.getpid()))

    def memory(self):
        rss, peak = host.resident(self.pids())
        return {"pss_mib": host.proportional(self.pids()) / 2**20,
                "rss_mib": rss / 2**20, "rss_peak_mib": peak / 2**20,
                "maps_mib": bpf.map_bytes(bpf.map_ids() - self.maps_before) / 2**20}

    def stop(self):
        """Ends it, waiting for its last flush; its seconds. The sink keeps what came."""
        start = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.sink.close()
        return time.monotonic() - start

    def received(self):
        """Samples, bytes uncompressed and bytes on the wire of all that the sink received."""
        out, raw, wire = otlp.Summary(), 0, 0
        for request, size in self.sink.decoded():
            otlp.summary(request, out)
            raw += len(request)
            wire += size
        return out, raw, wire
