# SPDX-License-Identifier: Apache-2.0
"""Reads, while a recording runs, the executable memory of processes that is in no file, and the vDSO."""
import array
import collections
import os
import re
import threading

LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+) *(.*)$")
PIECE = 64 << 20      # of one mapping, at most
DATA = 16 << 20       # of one file's data, at most
PATHS = 64 << 10     # how far behind a return address the code may be that pushes it
TOTAL = 2 << 30       # of all copies


def maps(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
            lines = f.read().splitlines()
    except OSError:
        return []
    return [(int(m[1], 16), int(m[2], 16), m[3], int(m[4]), m[5]) for m in map(LINE.match, lines) if m]


def vdso():
    """The machine's, as this process has it."""
    for start, end, _, _, name in maps("self"):
        if name == "[vdso]":
            with open("/proc/self/mem", "rb") as f:
                f.seek(start)
                return f.read(end - start)
    return None


def resident(pid, fd, start, end):
    """The pieces of a mapping that are there: (address, bytes)."""
    pages = []
    try:
        with open(f"/proc/{pid}/pagemap", "rb") as f:
            f.seek(start // 4096 * 8)
            flags = f.read((end - start) // 4096 * 8)
        pages = [start + i * 4096 for i in range(len(flags) // 8) if flags[8 * i + 7] & 0xc0]
    except OSError:
        pass
    run = None
    for page in pages + [None]:
        if run and (page is None or page != run[1]):
            try:
                yield run[0], os.pread(fd, run[1] - run[0], run[0])
            except OSError:
                pass
            run = None
        if page is not None:
            run = (run[0], page + 4096) if run else (page, page + 4096)


class Memory:
    """`wanted(name)`: whether the processes of an executable are of interest."""

    def __init__(self, wanted, every=1.0):
        self.wanted, self.every = wanted, every
        self.copies = collections.defaultdict(lambda: collections.defaultdict(list))  # pid → page → [its contents]
        self.files = collections.defaultdict(set)  # pid → (start, end) of code in files
        self.words = collections.defaultdict(set)  # pid → addresses in code of no file that data has
        self.looks = collections.Counter()
        self.bytes, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _run(self):
        while not self.ended.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if self.wanted(os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")):
                        self._look(int(pid))
                except OSError:
                    pass
            self.ended.wait(self.every)

    def state(self):
        """What `of` makes the same copies from."""
        return {pid: dict(pages) for pid, pages in self.copies.items()}, dict(self.files), dict(self.words)

    @classmethod
    def of(cls, state):
        memory = cls(None)
        memory.copies, memory.files, *words = state
        memory.words = words[0] if words else {}
        return memory

    def _look(self, pid):
        code = [m for m in maps(pid) if "x" in m[2]]
        in_no_file = [m for m in code if m[4] not in ("[vdso]", "[vsyscall]") and (not m[3] or m[4].startswith("/memfd:"))]
        if not in_no_file:
            return
        self.looks[pid] += 1
        if self.looks[pid] % 4 == 1:
            self._read_words(pid, in_no_file)
        self.files[pid].update((m[0], m[1]) for m in code if m[3])
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            for start, end, *_ in in_no_file:
                for address, data in resident(pid, fd, start, min(end, start + PIECE)):
                    self._keep(pid, address, data)
        finally:
            os.close(fd)

    def _read_words(self, pid, code):
        """The words of the files' data, and of the zeroed data behind it, that are addresses in code of no file."""
        low, high = min(m[0] for m in code), max(m[1] for m in code)
        file_end = 0
        with open(f"/proc/{pid}/mem", "rb") as f:
            for start, end, rights, inode, _ in maps(pid):
                data = "w" in rights and "x" not in rights and (inode or start == file_end) and end - start < DATA
                file_end = end if inode or data else 0
                if not data:
                    continue
                try:
                    f.seek(start)
                    words = array.array("Q", f.read(end - start))
                except (OSError, ValueError):
                    continue
                self.words[pid].update(w for w in words if low <= w < high)

    def _keep(self, pid, address, data):
        known = self.copies[pid]
        for at in range(0, len(data), 4096):
            page, variants = data[at:at + 4096], known[address + at]
            if page not in variants and self.bytes < TOTAL:
                variants.append(page)
                self.bytes += len(page)

    def variants(self, pid, address, n):
        """What the n bytes there have been, where they were read; over two pages, the copies of the same age."""
        known = self.copies.get(pid, {})
        first = known.get(address & ~4095, [])
        offset = address & 4095
        if offset + n <= 4096:
            return [page[offset:offset + n] for page in first]
        second = known.get((address & ~4095) + 4096, [])
        return [(a + b)[offset:offset + n] for a in first for b in second]

    def read(self, pid, address, n):
        return next(iter(self.variants(pid, address, n)), b"")

    def changes(self, pid, address):
        """Whether the page was seen to change, or lies among pages that did: the generator writes its code there anew."""
        page, known = address & ~4095, self.copies.get(pid, {})
        return any(len(known.get(page + 4096 * k, ())) > 1 for k in range(-16, 17))

    def is_pushed(self, pid, address):
        """Whether code behind it takes the address (lea), as qemu's slow paths do, which push it and jump to what they call."""
        for base in range(address & ~4095, (address & ~4095) + PATHS, 4096):
            for page in self.copies.get(pid, {}).get(base, ()):
                at = page.find(b"\x8d")
                while 0 <= at <= 4096 - 6:
                    if page[at + 1] & 0xc7 == 5 and base + at + 6 + int.from_bytes(page[at + 2:at + 6], "little", signed=True) == address:
                        return True
                    at = page.find(b"\x8d", at + 1)
        return False

    def is_named(self, pid, address):
        return address in self.words.get(pid, ())

    def in_file(self, pid, addresses):
        return any(start <= a < end for a in addresses for start, end in self.files.get(pid, ()))
