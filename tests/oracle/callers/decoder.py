# SPDX-License-Identifier: Apache-2.0
"""flow.c as a Python module: what changes the flow of control in a piece of x86-64 code. Compiled where it is used."""
import collections
import ctypes
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("", "call", "call slot", "call indirect", "jump", "jump slot", "jump indirect", "jump switch", "branch", "return", "stop",
         "syscall", "address", "invalid")
CALLS = {"call", "call slot", "call indirect"}
# `address`: of its first byte; `end`: behind its last one, for a call the return address.
Item = collections.namedtuple("Item", "address end kind target")


class _Item(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("target", ctypes.c_uint64), ("length", ctypes.c_uint8), ("kind", ctypes.c_uint8)]


class Decoder:
    def __init__(self, folder):
        path = os.path.join(folder, "flow.so")
        done = subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", path,
                               os.path.join(HERE, "flow.c"), "-lZydis"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"flow.c does not compile (package libzydis-dev): {done.stderr[-600:]}")
        self.lib = ctypes.CDLL(path)
        self.lib.flow_scan.restype = ctypes.c_size_t
        self.lib.flow_scan.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(_Item), ctypes.c_size_t,
                                       ctypes.POINTER(ctypes.c_uint64)]
        self.lib.flow_is_boundary.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t]
        self.lib.flow_survey.restype = ctypes.c_size_t
        self.lib.flow_survey.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p,
                                         ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
        if self.lib.flow_init():
            raise RuntimeError("Zydis does not begin")

    def scan(self, code, address, least=0):
        """→ (items, the address behind the last instruction)"""
        room = len(code) // 4 + 16
        end = ctypes.c_uint64(address)
        while True:
            items = (_Item * room)()
            n = self.lib.flow_scan(code, len(code), address, least, items, room, ctypes.byref(end))
            if n <= room:
                return [Item(x.address, x.address + x.length, KINDS[x.kind], x.target) for x in items[:n]], end.value
            room = n

    def is_boundary(self, code, offset):
        return bool(self.lib.flow_is_boundary(code, len(code), offset))

    def _survey(self, code, address, low, high, starts, marks):
        array, room = (ctypes.c_uint64 * len(starts))(*starts), len(code) // 16 + 16
        while True:
            pairs = (ctypes.c_uint32 * (2 * room))()
            n = self.lib.flow_survey(code, len(code), address, low, high, ctypes.addressof(array), len(starts), marks, ctypes.addressof(pairs), room)
            if n <= room:
                return pairs[:2 * n:2], pairs[1:2 * n:2]
            room = n

    def survey(self, code, address, starts):
        """→ (those of the sorted starts that a constant of the code names, {(from, to)} of the jumps from one function into another)"""
        marks = ctypes.create_string_buffer(len(starts) or 1)
        here, there = self._survey(code, address, 0, 0, starts, marks)
        return {a for a, mark in zip(starts, marks.raw) if mark != 0}, {(starts[a], starts[b]) for a, b in zip(here, there)}

    def names(self, code, address, low, high, starts):
        """Targets of calls and constants between low and high that are none of the starts."""
        a, b = self._survey(code, address, low, high, starts, None)
        return {x | y << 32 for x, y in zip(a, b)}

    def call_before(self, code, end):
        """The calls that `code`, which ends at the return address `end`, may end with; where code is not decoded from its begin."""
        found = []
        for length in range(2, min(10, len(code)) + 1):
            items, _ = self.scan(code[-length:], end - length)
            if len(items) == 1 and items[0].kind in CALLS and items[0].end == end and items[0].address == end - length:
                found.append(items[0])
        return found
