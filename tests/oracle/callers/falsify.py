# SPDX-License-Identifier: Apache-2.0
"""Falsifies samples that are explained, and counts how many the judge finds out."""
import os
import random
import subprocess

from .judge import KERNEL, TRUNCATED
from .tally import Tally, text_of

LENGTH = 12
TRIES = 20000


def program(folder):
    """A program whose stacks are one chain of direct calls of different functions."""
    text = "static volatile unsigned long sink;\n#define NOINLINE static __attribute__((noinline))\n"
    text += "NOINLINE unsigned long f0(unsigned long n) { for (unsigned long i = 0; i < 20000; i++) sink += i * n; return sink; }\n"
    text += "".join(f"NOINLINE unsigned long f{i}(unsigned long n) {{ sink += {i}; return f{i - 1}(n + {i}) ^ sink; }}\n" for i in range(1, LENGTH))
    text += f"int main(void) {{ for (;;) sink += f{LENGTH - 1}(sink); }}\n"
    path = os.path.join(folder, "callers_chain")
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.write(text)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fno-optimize-sibling-calls", "-fno-inline", "-o", path, path + ".c"], check=True)
    return path


def dropped(rng, sample, first, user):
    """Without a frame in the middle."""
    i = first + rng.randrange(1, len(user) - 1)
    return sample.frames[:i] + sample.frames[i + 1:]


def moved(rng, sample, first, user):
    """A return address that is one byte off."""
    i = first + rng.randrange(1, len(user))
    f = sample.frames[i]
    return sample.frames[:i] + (f._replace(address=f.address + rng.choice((-1, 1))),) + sample.frames[i + 1:]


def replaced(rng, sample, first, user):
    """A callee that is another function's frame: one of the same stack, from elsewhere in it."""
    i = first + rng.randrange(0, len(user) - 1)
    others = [f for f in user if f.module == sample.frames[i].module and f.address != sample.frames[i].address]
    return sample.frames[:i] + (rng.choice(others),) + sample.frames[i + 1:] if others else None


WAYS = {"a frame dropped in the middle": dropped, "a return address moved by a byte": moved, "a callee replaced": replaced}


def run(judge, samples, wanted, seed, examples=2):
    """→ way: (found out, falsified); and prints it"""
    result = {}
    for name, way in WAYS.items():
        rng, missed, made = random.Random(f"{seed}/{name}"), [], 0
        tally, alive = Tally(), []
        tally.begin(judge)
        for _ in range(TRIES if samples else 0):
            if made == wanted:
                break
            sample = rng.choice(samples)
            user = [f for f in sample.frames if f.kind != KERNEL and not (f.name or "").startswith(TRUNCATED)]
            if len(user) < 4 or any(not judge.place(f) for f in user) or not tally.add(sample):
                continue
            first = sample.frames.index(user[0])
            frames = way(rng, sample, first, user)
            if not frames or frames == sample.frames or recursive(judge, sample.frames, frames):
                continue
            made += 1
            alive.append(frames)  # what is known of a frame is known by its identity
            if tally.add(sample._replace(frames=frames)):
                missed.append(frames)
        found = made - len(missed)
        result[name] = found, made
        for frames in missed[:examples]:
            print("    not: " + " < ".join(text_of(f) for f in frames if f.kind != KERNEL))
        print(f"falsified: {name}: {found} of {made} found out" + (f" ({100 * found / made:.1f} %)" if made else ""))
    return result


def recursive(judge, before, after):
    """Whether a frame was taken from between two of the same function: what is left can be a stack, too."""
    if len(before) == len(after):
        return False
    i = next(i for i, f in enumerate(before) if i >= len(after) or after[i] is not f)
    a, b = judge.place(before[i]), judge.place(before[i - 1])
    return bool(a and b) and a.module is b.module and a.module.unit(a.address) == b.module.unit(b.address)
