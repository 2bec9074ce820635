# SPDX-License-Identifier: Apache-2.0
"""Runs in the CPython under test, any version from 3.8 on: writes the line table of every function of its standard library,
and the line of every code unit by co_lines() (3.10 and later) and by PyCode_Addr2Line, as python_lines reads them."""
import ctypes
import os
import struct
import sys
import types
import warnings

UNIT_BYTES = 2
VERSION = sys.version_info[:2]
FORMAT = 0 if VERSION < (3, 10) else 1 if VERSION < (3, 11) else 2

address_to_line = ctypes.pythonapi.PyCode_Addr2Line
address_to_line.argtypes = [ctypes.py_object, ctypes.c_int]
address_to_line.restype = ctypes.c_int


def sources():
    for folder, folders, names in os.walk(os.path.dirname(os.__file__)):
        folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
        yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(".py"))


def functions(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from functions(const)


def lines(code):
    """The line of each code unit, 0: none; by each of CPython's own readers that there is."""
    n = len(code.co_code) // UNIT_BYTES
    yield [max(address_to_line(code, i * UNIT_BYTES), 0) for i in range(n)]
    if hasattr(code, "co_lines"):
        result = [0] * n
        for start, end, line in code.co_lines():
            for i in range(start // UNIT_BYTES, end // UNIT_BYTES):
                result[i] = line or 0
        yield result


def main():
    out = sys.stdout.buffer
    warnings.simplefilter("ignore")
    for path in sources():
        try:
            with open(path, "rb") as f:
                module = compile(f.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):  # test data
            continue
        for code in functions(module):
            table = code.co_lnotab if FORMAT == 0 else code.co_linetable
            name = f"{path}:{code.co_firstlineno} {code.co_name}".encode("utf-8", "replace")[:500]
            for expected in lines(code):
                out.write(struct.pack("=5I", FORMAT, code.co_firstlineno, len(name), len(table), len(expected)))
                out.write(name + table + struct.pack(f"={len(expected)}I", *expected))


main()
