#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Binaries that claim more than they have, or hold more than they show, run by an unprivileged process.

Sparse files with 500,000 sections, terabytes of section names or symbols, 60,000 segments; sections that are compressed 1000
to 1, by each method, and one within the other; names of a megabyte; debug files that are FIFOs, huge or somewhere else; tables that
take for ever. The agent, in a control group with the memory that the chart gives it, lives; programs beside,
old and new, have whole stacks; what could not be read is counted; and when it is over, the agent is idle again.
"""
import concurrent.futures
import lzma
import os
import shutil
import struct
import subprocess
import sys
import zlib

import attack
from lib import programs
from trial import Trial

NOBODY = "65534"
EM_X86_64, ET_DYN, PT_LOAD, PT_INTERP, PT_NOTE, SHF_COMPRESSED = 62, 3, 1, 3, 4, 0x800
SPIN = b"\xeb\xfe"
COPIES = 4 if attack.QUICK else 34
SPIN_MS = 100
KINDS_AT_ONCE = 3
MIB = 1 << 20
ZLIB, ZSTD = 1, 2  # methods of SHF_COMPRESSED
LONG_NAME = MIB


def header(phnum=1, phoff=64, shoff=0, shnum=0, shstrndx=0):
    return (b"\x7fELF\x02\x01\x01" + bytes(9) +
            struct.pack("<HHIQQQIHHHHHH", ET_DYN, EM_X86_64, 1, 0x1000, phoff, shoff, 0, 64, 56, phnum, 64, shnum, shstrndx))


def segment(kind, flags, offset, size, va=None):
    return struct.pack("<IIQQQQQQ", kind, flags, offset, offset if va is None else va, 0, size, size, 0x1000)


def section(name, kind, flags, offset, size, va=0, link=0, entry=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, va, offset, size, link, 0, 1, entry)


TEXT = segment(PT_LOAD, 5, 0, 0x2000)
NAMES = b"\0.shstrtab\0.eh_frame\0.symtab\0.strtab\0.gnu_debugdata\0.gnu_debuglink\0"
AT_SHSTRTAB, AT_EH_FRAME, AT_SYMTAB, AT_STRTAB, AT_DEBUGDATA, AT_DEBUGLINK = (NAMES.index(b"\0" + name + b"\0") + 1 for name in (
    b".shstrtab", b".eh_frame", b".symtab", b".strtab", b".gnu_debugdata", b".gnu_debuglink"))


def write(path, parts, size=0):
    """`parts`: (offset, bytes); the rest is a hole."""
    with open(path, "wb") as f:
        f.truncate(size)
        for offset, content in [*parts, (0x1000, SPIN)]:
            f.seek(offset)
            f.write(content)


def with_sections(path, *sections, content=(), size=0):
    table = [section(0, 0, 0, 0, 0), section(AT_SHSTRTAB, 3, 0, 0x800, len(NAMES)), *sections]
    write(path, [(0, header(shoff=0x400, shnum=len(table), shstrndx=1) + TEXT), (0x400, b"".join(table)), (0x800, NAMES), *content],
          size)


def compressed(content_bytes, unit=bytes(1 << 20)):
    """An Elf64_Chdr and a zlib stream of so many zero bytes."""
    z, out = zlib.compressobj(9), []
    for _ in range(content_bytes // len(unit)):
        out.append(z.compress(unit))
    return struct.pack("<IIQQ", 1, 0, content_bytes, 1) + b"".join(out) + z.flush()


def compressed_zstd(content_bytes):
    """The same by zstd, whose decoder is asked for a window as large as its program permits; None where that is not installed."""
    if not shutil.which("zstd"):
        return None
    zeros = subprocess.run(["sh", "-c", f"head -c {content_bytes} /dev/zero | zstd -q -c --ultra -20 --long=31"], stdout=subprocess.PIPE, check=True)
    return struct.pack("<IIQQ", ZSTD, 0, content_bytes, 1) + zeros.stdout


def compressed_xz(content_bytes, unit=bytes(MIB)):
    """A .gnu_debugdata of so many bytes, after a header as of an ELF file."""
    z = lzma.LZMACompressor(preset=1)
    return b"".join([z.compress(header() + TEXT), *(z.compress(unit) for _ in range(content_bytes // len(unit))), z.flush()])


def nested(depth):
    """Files in each other's .gnu_debugdata: the next one is always where a reader would look for names."""
    inner = header() + TEXT
    for _ in range(depth):
        table = [section(0, 0, 0, 0, 0), section(AT_SHSTRTAB, 3, 0, 0x800, len(NAMES)), section(AT_DEBUGDATA, 1, 0, 0x1000, len(inner))]
        head = header(shoff=0x400, shnum=len(table), shstrndx=1) + TEXT
        whole = head.ljust(0x400, b"\0") + b"".join(table)
        inner = lzma.compress(whole.ljust(0x800, b"\0") + NAMES.ljust(0x800, b"\0") + inner, preset=1)
    return inner


def twice_compressed(content_bytes):
    """A compressed section in which there is a compressed section."""
    inner = compressed(content_bytes)
    return struct.pack("<IIQQ", ZLIB, 0, len(inner), 1) + zlib.compress(inner)


def long_names(p, n=256):
    """Symbols that cover the code, each with a name of a megabyte: all names are one, begun at different places."""
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", 1 + i, 0x12, 0, 1, 0x1000 + i * 8, 8) for i in range(n))
    strings = b"\0" + b"x" * LONG_NAME + b"\0"
    with_sections(p, section(AT_SYMTAB, 2, 0, 0x2000, len(symbols), link=3, entry=24), section(AT_STRTAB, 3, 0, 0x10000, len(strings)),
                  content=[(0x2000, symbols), (0x10000, strings)])


def debug_link(p, name, make=None):
    """A .gnu_debuglink to a file in .debug beside it, which `make` makes."""
    os.makedirs(os.path.join(os.path.dirname(p), ".debug"), exist_ok=True)
    if make:
        make(os.path.join(os.path.dirname(p), ".debug", name))
    link = name.encode() + b"\0"
    link = link.ljust((len(link) + 3) & ~3, b"\0") + b"\xde\xad\xbe\xef"
    with_sections(p, section(AT_DEBUGLINK, 1, 0, 0x2000, len(link)), content=[(0x2000, link)])


def sparse(path, size=500 * MIB):
    """As large as a file may be whose CRC is computed, with a header that is right."""
    write(path, [(0, header() + TEXT)], size)
    os.chmod(path, 0o644)


def many_fdes(n):
    """A CIE and n FDEs of one byte each, which all describe the same."""
    cie = struct.pack("<II", 20, 0) + b"\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0"
    cie = struct.pack("<I", len(cie) - 4) + cie[4:]
    fdes, at = [], len(cie)
    for i in range(n):
        fdes.append(struct.pack("<IIiIB3x", 16, at + 4, 0x1000 - (0x10000 + at + 8) + i % 0x1000, 1, 0))
        at += 20
    return cie + b"".join(fdes) + bytes(4)


def make_files(folder):
    """→ {kind: [paths]}"""
    bomb, twice, xz, nest, zstd = compressed(250 * MIB), twice_compressed(250 * MIB), compressed_xz(128 * MIB), nested(64), compressed_zstd(250 * MIB)
    fdes = many_fdes(400000)
    makers = {
        "section names": lambda p: write(p, [(0, header(shoff=0x400, shnum=3, shstrndx=1) + TEXT),
                                             (0x400, section(0, 0, 0, 0, 0) + section(1, 3, 0, 0x2000, 1 << 38))], 1 << 39),
        "sections": lambda p: write(p, [(0, header(shoff=0x400, shnum=0, shstrndx=1) + TEXT),
                                        (0x400, section(0, 0, 0, 0, 500000))], 1 << 30),
        "segments": lambda p: write(p, [(0, header(phnum=60000) + TEXT * 60000)]),
        "extended segments": lambda p: write(p, [(0, header(phnum=0xffff, shoff=0x400, shnum=1) + TEXT),
                                                 (0x400, struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, 1 << 28, 0, 0))], 1 << 34),
        "symbols": lambda p: with_sections(p, section(AT_SYMTAB, 2, 0, 0x10000, 15 << 40, link=3, entry=24),
                                           section(AT_STRTAB, 3, 0, 0x8000, 100), size=(15 << 40) + 0x10000),
        "notes": lambda p: write(p, [(0, header(phnum=2) + TEXT + segment(PT_NOTE, 4, 0x2000, 1 << 36))], 1 << 37),
        "compressed": lambda p: with_sections(p, section(AT_EH_FRAME, 1, SHF_COMPRESSED | 2, 0x2000, len(bomb), va=0x10000),
                                              content=[(0x2000, bomb)]),
        "compressed twice": lambda p: with_sections(p, section(AT_EH_FRAME, 1, SHF_COMPRESSED | 2, 0x2000, len(twice), va=0x10000),
                                                    content=[(0x2000, twice)]),
        "xz": lambda p: with_sections(p, section(AT_DEBUGDATA, 1, 0, 0x2000, len(xz)), content=[(0x2000, xz)]),
        "nested": lambda p: with_sections(p, section(AT_DEBUGDATA, 1, 0, 0x2000, len(nest)), content=[(0x2000, nest)]),
        "long names": long_names,
        "interpreter": lambda p: write(p, [(0, header(phnum=2) + TEXT + segment(PT_INTERP, 4, 0x2000, 1 << 36))], 1 << 37),
        "link to a FIFO": lambda p: debug_link(p, os.path.basename(p), os.mkfifo),
        "link to a large file": lambda p: debug_link(p, os.path.basename(p), sparse),
        "link elsewhere": lambda p: debug_link(p, "../../../../../../../etc/shadow"),
        "link to a device": lambda p: debug_link(p, os.path.basename(p), lambda link: os.symlink("/dev/zero", link)),
        "descriptions": lambda p: with_sections(p, section(AT_EH_FRAME, 1, 2, 0x2000, len(fdes), va=0x10000),
                                                content=[(0x2000, fdes)]),
    }
    if zstd:
        makers["zstd"] = lambda p: with_sections(p, section(AT_EH_FRAME, 1, SHF_COMPRESSED | 2, 0x2000, len(zstd), va=0x10000),
                                                 content=[(0x2000, zstd)])
    files = {}
    for kind, make in makers.items():
        for i in range(COPIES):
            path = os.path.join(folder, f"{kind.replace(' ', '-')}-{i}")
            try:
                make(path)
            except OSError:  # a file system with smaller files
                break
            os.chmod(path, 0o755)
            files.setdefault(kind, []).append(path)
    return files


def run_files(tool, paths):
    return subprocess.run(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs", tool, str(SPIN_MS), *paths],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def attack_with(s, files):
    """Some kinds beside each other, the files of each one after the other."""
    tool = programs.build_c(s, "runs_files")
    with concurrent.futures.ThreadPoolExecutor(KINDS_AT_ONCE) as pool:
        runs = list(pool.map(lambda paths: run_files(tool, paths), files.values()))
    for (kind, paths), run in zip(files.items(), runs):
        s.check(f"{kind}: {len(paths)} files are mapped and run", run.returncode == 0, run.stdout.strip()[-200:])


def body(s):
    s.need_root()
    s.need("gcc", "setpriv")
    folder = s.folder("files")
    for path in (os.path.dirname(folder), folder):
        os.chmod(path, 0o755)
    files = make_files(folder)
    trial = Trial(s, "binaries")
    agent = trial.agent
    trial.victims.another()
    attack_with(s, files)
    attack_with(s, {kind: paths[:2] for kind, paths in files.items()})
    trial.endure()
    metrics = agent.metrics()
    failed = {k: v for k, v in metrics.items() if k.startswith("proflet_parser_failures_total") and v}
    s.note(f"parser jobs {metrics.get('proflet_parser_jobs_total', 0):.0f}, failures {failed or 'none'}")
    s.equal("no process that reads binaries crashed", [k for k in failed if "crashed" in k], [])
    s.check("no file system is said not to answer", not agent.lines("does not answer"), "; ".join(agent.lines("does not answer"))[:200])
    lines = agent.lines("the process that reads it")
    s.check("what could not be read is logged in a bounded number of lines", len(lines) <= 5, f"{len(lines)} lines")
    trial.judge()


if __name__ == "__main__":
    sys.exit(attack.scenario("binaries").execute(body))
