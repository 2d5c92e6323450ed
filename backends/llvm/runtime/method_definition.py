"""What CPython is told of a method that is machine code: the record `PyMethodDef` of its C API."""

from __future__ import annotations

import ctypes

METH_FASTCALL, METH_KEYWORDS = 0x80, 2
"""Flags: arguments come as an array of C; names may stand before values."""


class MethodDefinition(ctypes.Structure):
    """`PyMethodDef`. It must live as long as any function that was made of it."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]
