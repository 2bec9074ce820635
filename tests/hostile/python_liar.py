# SPDX-License-Identifier: Apache-2.0
"""A Python program (CPython 3.9, 3.11 to 3.14) that changes what its interpreter keeps of its own frames, and then computes.

    python3 python_liar.py MODE [FILE]

MODE WHAT_file, WHAT_userfault: WHAT is a frame, a code object or what it points to, in memory whose pages nobody provides: of FILE, on
a file system that has stopped (the program waits for a line on its standard input before it computes), or of a userfaultfd.
The function that computes is not disturbed: its callers' frames are only read when it returns, which it does not.
"""
import ctypes
import fcntl
import mmap
import os
import random
import struct
import sys
import threading

# offsets in bytes: thread state → frame (3.11: → cframe, → frame), frame → next, frame → code, code → (file, name, qualified name);
# the line table follows them
OFFSETS = {(3, 9): ((24,), 24, 32, (104, 112)), (3, 11): ((56, 8), 48, 32, (112, 120, 128)), (3, 12): ((56, 0), 8, 0, (112, 120, 128)),
           (3, 13): ((72,), 8, 0, (112, 120, 128)), (3, 14): ((72,), 8, 0, (112, 120, 128))}
CODE_BYTES, TEXT_BYTES = 512, 48
THREAD_SLOTS = range(784 + 8, 784 + 8 + 16 * 32, 16)  # of glibc's struct pthread on x86-64
USERFAULTFD, UFFDIO_API, UFFDIO_REGISTER = 323, 0xc018aa3f, 0xc020aa00  # of x86-64
AREA = 1 << 16
MAP_32BIT, IO_URING_SETUP, IORING_SETUP_SQPOLL = 0x40, 425, 2
DEPTH = 100000
word = ctypes.c_uint64.from_address  # C code: no frame of its own
kept = []  # what must stay where it is


def thread_state():
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    return get()


def current_frame(state, path):
    """Of whoever called: this function's own is the first."""
    for offset in path:
        state = word(state + offset).value
    return word(state + OFFSETS[sys.version_info[:2]][1]).value


def forever():
    x = 0
    print("ready", flush=True)
    while True:
        x = (x * 31 + 7) % 1000003


def unmapped():
    """The address of a page that was there."""
    area = mmap.mmap(-1, 1 << 20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    kept.append(area)
    libc = ctypes.CDLL(None)
    libc.munmap(ctypes.c_void_p(address + 4096), ctypes.c_size_t(4096))
    return address + 4096


def lie(mode):
    path, following, code, strings = OFFSETS[sys.version_info[:2]]
    frame = current_frame(thread_state(), path)
    if mode == "circle":
        word(frame + following).value = frame
    elif mode == "circle_of_two":
        word(word(frame + following).value + following).value = frame
    elif mode == "unmapped":
        word(frame + following).value = unmapped()
    elif mode == "kernel":
        word(frame + following).value = 0xffff888000000000
    elif mode == "odd_address":
        word(frame + following).value = (1 << 60) + 3
    elif mode == "end_of_page":
        word(frame + following).value = unmapped() - 16
    elif mode == "slot":
        overwrite_slots(thread_state())
    elif mode == "code":
        word(frame + code).value = false_code(word(frame + code).value, strings)
    elif "_" in mode and mode.partition("_")[0] in PLACES:
        what, _, whose = mode.partition("_")
        hang(what, of_file() if whose == "file" else of_userfault(), frame)
    elif mode == "flicker":
        flicker(frame, following, code, strings)
    elif mode == "in_32_bits":
        in_32_bits()
    elif mode == "worker_of_the_kernel":
        worker_of_the_kernel()
    forever()


def overwrite_slots(state):
    """The thread's state where a pthread key has it."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_uint64
    own = libc.pthread_self()
    garbage = ctypes.create_string_buffer(os.urandom(4096), 4096)
    kept.append(garbage)
    found = [own + at for at in THREAD_SLOTS if word(own + at).value == state]
    for at in found:
        word(at).value = ctypes.addressof(garbage)
    if not found and sys.version_info < (3, 15):
        sys.exit("no slot has the thread state")


def false_code(true_code, strings):
    """The address of a copy whose names are not what they say: enormous, no text, beyond the end."""
    copy = ctypes.create_string_buffer(ctypes.string_at(true_code, CODE_BYTES), CODE_BYTES)
    kept.append(copy)
    for i, offset in enumerate(strings):
        text = bytearray(ctypes.string_at(word(true_code + offset).value, TEXT_BYTES))
        text[16:24] = ((1 << 62) + i).to_bytes(8, "little")
        text += bytes(range(256)) * 64
        buffer = ctypes.create_string_buffer(bytes(text), len(text))
        kept.append(buffer)
        word(ctypes.addressof(copy) + offset).value = ctypes.addressof(buffer)
    return ctypes.addressof(copy)


PLACES = ("frame", "code", "name", "file", "lines")


def of_file():
    """Memory of the file, which nothing has touched, once its server has stopped."""
    with open(sys.argv[2], "rb") as f:
        area = mmap.mmap(f.fileno(), AREA, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    kept.append(area)
    print("mapped", flush=True)
    sys.stdin.readline()
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


def of_userfault():
    """Memory whose faults wait for an answer that never comes."""
    area = mmap.mmap(-1, AREA, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    kept.append(area)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    fd = ctypes.CDLL(None, use_errno=True).syscall(USERFAULTFD, os.O_CLOEXEC)
    if fd < 0:
        print(f"no userfaultfd: {os.strerror(ctypes.get_errno())}", flush=True)
        os._exit(1)
    fcntl.ioctl(fd, UFFDIO_API, struct.pack("<QQQ", 0xaa, 0, 0))
    fcntl.ioctl(fd, UFFDIO_REGISTER, struct.pack("<QQQQ", address, AREA, 1, 0))
    return address


def hang(what, address, own):
    """`own` runs on, so its code stays."""
    _, following, code, strings = OFFSETS[sys.version_info[:2]]
    frame = word(own + following).value
    true_code = word(frame + code).value
    if what == "frame":
        word(frame + following).value = address + 256
    elif what == "code":
        word(frame + code).value = address + 256
    else:
        copy = ctypes.create_string_buffer(ctypes.string_at(true_code, CODE_BYTES), CODE_BYTES)
        kept.append(copy)
        places = {"file": strings[:1], "name": strings[1:], "lines": (strings[-1] + 8,)}[what]
        for offset in places:
            word(ctypes.addressof(copy) + offset).value = address + 256
        word(frame + code).value = ctypes.addressof(copy)


def flicker(frame, following, code, strings):
    """Other callers, all the time."""
    true_next, true_code = word(frame + following).value, word(frame + code).value
    callers = [true_next, frame, 0, unmapped(), (1 << 60) + 3, random.getrandbits(47)]
    codes = [true_code, false_code(true_code, strings), 0, unmapped(), random.getrandbits(47)]
    print("ready", flush=True)
    i = 0
    while True:
        i += 1
        word(frame + following).value = callers[i % len(callers)]
        if i % 7 == 0:
            word(true_next + code).value = codes[i % len(codes)]


def in_32_bits():
    """Goes on in the processor's 32-bit mode: jmp to itself, behind push 0x23; push where; lretq."""
    area = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    kept.append(area)
    area[:2] = b"\xeb\xfe"
    area[16:25] = b"\x6a\x23\x68" + struct.pack("<I", address) + b"\x48\xcb"
    print("ready", flush=True)
    ctypes.CFUNCTYPE(None)(address + 16)()


def worker_of_the_kernel():
    """A thread of the kernel's own, in this process, that waits for requests by computing (io_uring)."""
    parameters = (ctypes.c_uint32 * 30)()
    parameters[2], parameters[4] = IORING_SETUP_SQPOLL, 1000000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(IO_URING_SETUP, 8, parameters) < 0:
        print(f"no io_uring: {os.strerror(ctypes.get_errno())}", flush=True)
        os._exit(1)


def deep(n):
    if n:
        deep(n - 1)
    forever()


def main():
    mode = sys.argv[1]
    if sys.version_info[:2] not in OFFSETS:
        sys.exit("no offsets for this version")
    sys.setrecursionlimit(DEPTH + 1000)
    threading.stack_size(1 << 30)
    target, argument = (deep, DEPTH) if mode == "deep" else (lie, mode)
    thread = threading.Thread(target=target, args=(argument,))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
