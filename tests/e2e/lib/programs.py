# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/support that scenarios profile, built into the scenario's folder."""
import os
import shutil

from .scenario import ROOT, Skip

SUPPORT = os.path.join(ROOT, "tests", "support")
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"]
CHAIN = ["f8", "f7", "f6", "f5", "f4", "f3", "f2", "f1", "main"]  # leaf first


def build_c(s, name):
    """Builds tests/support/NAME.c; returns the program's path."""
    s.need("gcc")
    program = s.path(name)
    s.run(["gcc", *FLAGS, "-o", program, os.path.join(SUPPORT, name + ".c")])
    return program


def build_go(s):
    go = s.run([os.path.join(SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        raise Skip("no Go: tests/support/install test")
    program = s.path("gospin")
    source = shutil.copy(os.path.join(SUPPORT, "gospin", "main.go"), s.folder("gospin-source"))
    s.run([go, "build", "-o", program, source], seconds=300, env={"GO111MODULE": "off", "GOFLAGS": ""})
    return program


def user_names(sample):
    """The names of the frames in user space, leaf first. An interrupt may be on top of them."""
    return [f.name for f in sample.frames if f.kind != "kernel"]


def is_chain(sample):
    """The exact chain from the program's leaf to main, with names, nothing between."""
    return user_names(sample)[:len(CHAIN)] == CHAIN


def interrupted(sample):
    """Kernel code on top of the program's own leaf."""
    return bool(sample.frames) and sample.frames[0].kind == "kernel"
