"""Runs a command under a seccomp filter, as containers do: some system calls fail.

usage: seccomp.py ERRNO CALL[,CALL...] COMMAND...
"""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {
        "openat2": 437,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "preadv2": 327,
        "sched_setaffinity": 203,
        "sched_setscheduler": 144,
    },
    "aarch64": {
        "openat2": 437,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "preadv2": 286,
        "sched_setaffinity": 122,
        "sched_setscheduler": 119,
    },
}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_WORD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF, see linux/bpf_common.h
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def instruction(code, if_true, if_false, operand):
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def program(numbers, error):
    parts = [instruction(LOAD_WORD, 0, 0, 0)]  # the number of the call comes first
    for number in numbers:
        parts.append(instruction(JUMP_EQUAL, 0, 1, number))
        parts.append(instruction(RETURN, 0, 0, RET_ERRNO | error))
    parts.append(instruction(RETURN, 0, 0, RET_ALLOW))
    return parts


def control(*arguments):
    widened = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if ctypes.CDLL(None, use_errno=True).prctl(*widened) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")


numbers = [NUMBERS[platform.machine()][name] for name in sys.argv[2].split(",")]
parts = program(numbers, getattr(errno, sys.argv[1]))
filter_program = Program(len(parts), b"".join(parts))
control(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_program))
os.execvp(sys.argv[3], sys.argv[3:])
