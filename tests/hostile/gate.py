#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between an agent and its Collector, and leads to another server while a file says so: gate.py PORT COLLECTOR_PORT FILE.

The file has the other server's port, or nothing. When it changes, connections that lead to the wrong server are closed: those to the
Collector once they are at rest, so that no request is taken whose answer is lost. Prints "ready".
"""
import asyncio
import sys
import time

AT_REST = 0.5  # s without a byte after an answer
CHUNK = 65536


class Gate:
    def __init__(self, port, collector, path):
        self.port, self.collector, self.path, self.open = port, collector, path, set()

    def target(self):
        try:
            with open(self.path, encoding="ascii") as f:
                return int(f.read() or self.collector)
        except (OSError, ValueError):
            return self.collector

    async def lead(self, reader, writer):
        connection = Connection(self.target())
        self.open.add(connection)
        try:
            await connection.run(reader, writer)
        except OSError:
            pass
        finally:
            self.open.discard(connection)
            writer.close()

    async def watch(self):
        while True:
            await asyncio.sleep(0.1)
            target = self.target()
            for c in [c for c in self.open if c.target != target]:
                if c.target != self.collector or c.is_at_rest():
                    c.close()

    async def run(self):
        server = await asyncio.start_server(self.lead, "127.0.0.1", self.port)
        print("ready", flush=True)
        async with server:
            await self.watch()


class Connection:
    def __init__(self, target):
        self.target, self.answered, self.last, self.tasks = target, True, time.monotonic(), []

    def is_at_rest(self):
        return self.answered and time.monotonic() - self.last > AT_REST

    def close(self):
        for task in self.tasks:
            task.cancel()

    async def _copy(self, reader, writer, is_answer):
        while data := await reader.read(CHUNK):
            self.answered, self.last = is_answer, time.monotonic()
            writer.write(data)
            await writer.drain()

    async def run(self, reader, writer):
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            self.tasks = [asyncio.create_task(self._copy(reader, their_writer, False)),
                          asyncio.create_task(self._copy(their_reader, writer, True))]
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
            self.close()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        finally:
            their_writer.close()


if __name__ == "__main__":
    asyncio.run(Gate(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]).run())
