#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command with one system call refused: seccomp.py NUMBER ERRNO COMMAND..."""
import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
LOAD_NUMBER, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K


def refuse(number, errno):
    """From here on, also for what is executed."""
    program = b"".join(struct.pack("HBBI", *x) for x in [
        (LOAD_NUMBER, 0, 0, 0), (JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno), (RETURN, 0, 0, SECCOMP_RET_ALLOW)])
    code = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(int(sys.argv[1]), int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
