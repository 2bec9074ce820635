# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio, each of which runs a function that belongs to it alone: python3 tasks.py ROUNDS

Names are ASCII, Latin-1, wider, too long to be sent whole, numbers, and the default; threads have event loops of their own.
"""
import asyncio
import sys
import threading
import time

PIECE = 0.002  # s
# function → the name of its task; "…": what follows is cut; None: asyncio's own, Task-N
NAMES = {"in_ascii": "fetch /orders", "in_latin": "fünf", "in_wide": "名前-1", "in_long": "x" * 200, "in_default": None, "in_thread": "other loop"}


def burn():
    end, x = time.thread_time() + PIECE, 0
    while time.thread_time() < end:
        for i in range(100):
            x = (x * 31 + i) % 1000003


def make(name):
    code = f"async def {name}(n):\n    for _ in range(n):\n        burn()\n        await asyncio.sleep(0)\n"
    scope = {"burn": burn, "asyncio": asyncio}
    exec(compile(code, f"<{name}>", "exec"), scope)
    return scope[name]


async def run(names, n):
    await asyncio.gather(*[asyncio.create_task(make(name)(n), name=NAMES[name]) for name in names])


def without():
    for _ in range(20):
        burn()


def main(n):
    without()
    thread = threading.Thread(target=lambda: asyncio.run(run(["in_thread"], n)))
    thread.start()
    asyncio.run(run([name for name in NAMES if name != "in_thread"], n))
    thread.join()
    without()


if __name__ == "__main__":
    main(int(sys.argv[1]))
