"""The way from Python into a kernel: a function that CPython calls directly.

One function with the signature of a METH_FASTCALL method serves all kernels; its `self` is a bytes object that holds
what it needs to know of the kernel (`_RECORD`). Two buffers that fit go straight to the kernel, with the GIL
released; anything else (integers, wrong sizes, objects without a buffer) is handed with all its arguments to a
Python callable that checks at leisure and says what is wrong. Measured: 0.12 us a call, a thirtieth of taking two
addresses with NumPy and passing them through ctypes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from layout_ir.backends.llvm.jit import Code
from layout_ir.backends.llvm.machine import host

# struct Py_buffer of CPython's stable ABI: buf, obj, len, itemsize, readonly, ndim, format, shape, strides, ...
_VIEW = "{ ptr, ptr, i64, i64, i32, i32, ptr, ptr, ptr, ptr, ptr }"
# kernel, slow callable, parallel (or null), bytes of source and destination, in place, threads, their item sizes
_RECORD = "{ ptr, ptr, ptr, i64, i64, i64, i64, i64, i64 }"
_METH_FASTCALL = 0x80


def _record(name: str, number: int, type_: str = "i64") -> str:
    return f"""\
  %{name}.at = getelementptr {_RECORD}, ptr %record, i64 0, i32 {number}
  %{name} = load {type_}, ptr %{name}.at
"""


def _source() -> str:
    return f"""\
target triple = "{host().triple}"
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyBytes_AsString(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8

define ptr @entry(ptr %self, ptr %args, i64 %n) nounwind {{
  %v = alloca {_VIEW}
  %w = alloca {_VIEW}
  %record = call ptr @PyBytes_AsString(ptr %self)
  %two = icmp eq i64 %n, 2
  br i1 %two, label %first, label %slow
first:
  %x = load ptr, ptr %args
  %r = call i32 @PyObject_GetBuffer(ptr %x, ptr %v, i32 0)
  %ok = icmp eq i32 %r, 0
  br i1 %ok, label %second, label %clear
second:
  %at = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %at
  %r2 = call i32 @PyObject_GetBuffer(ptr %y, ptr %w, i32 1)
  %ok2 = icmp eq i32 %r2, 0
  br i1 %ok2, label %check, label %release
check:
  %a = load ptr, ptr %v
  %b = load ptr, ptr %w
  %la.at = getelementptr {_VIEW}, ptr %v, i64 0, i32 2
  %la = load i64, ptr %la.at
  %lb.at = getelementptr {_VIEW}, ptr %w, i64 0, i32 2
  %lb = load i64, ptr %lb.at
  %ia.at = getelementptr {_VIEW}, ptr %v, i64 0, i32 3
  %ia = load i64, ptr %ia.at
  %ib.at = getelementptr {_VIEW}, ptr %w, i64 0, i32 3
  %ib = load i64, ptr %ib.at
{_record("na", 3)}{_record("nb", 4)}{_record("place", 5)}{_record("wa", 7)}{_record("wb", 8)}\
  %c0 = icmp sge i64 %la, %na
  %c1 = icmp sge i64 %lb, %nb
  %c2 = icmp eq i64 %ia, %wa
  %c3 = icmp eq i64 %ib, %wb
  %ea = getelementptr i8, ptr %a, i64 %na
  %eb = getelementptr i8, ptr %b, i64 %nb
  %before = icmp ule ptr %ea, %b
  %behind = icmp ule ptr %eb, %a
  %equal = icmp eq ptr %a, %b
  %may = icmp ne i64 %place, 0
  %same = and i1 %equal, %may
  %apart = or i1 %before, %behind
  %c4 = or i1 %apart, %same
  %d0 = and i1 %c0, %c1
  %d1 = and i1 %c2, %c3
  %d2 = and i1 %d0, %d1
  %good = and i1 %d2, %c4
  br i1 %good, label %run, label %release2
run:
{_record("kernel", 0, "ptr")}{_record("parallel", 2, "ptr")}{_record("threads", 6)}\
  %state = call ptr @PyEval_SaveThread()
  %alone = icmp eq ptr %parallel, null
  br i1 %alone, label %one, label %many
one:
  call void %kernel(ptr %a, ptr %b, i64 0, i64 1)
  br label %done
many:
  call void %parallel(ptr %kernel, ptr %a, ptr %b, i64 %threads)
  br label %done
done:
  call void @PyEval_RestoreThread(ptr %state)
  call void @PyBuffer_Release(ptr %v)
  call void @PyBuffer_Release(ptr %w)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
release2:
  call void @PyBuffer_Release(ptr %w)
  call void @PyBuffer_Release(ptr %v)
  br label %slow
release:
  call void @PyBuffer_Release(ptr %v)
  br label %clear
clear:
  call void @PyErr_Clear()
  br label %slow
slow:
{_record("other", 1, "ptr")}\
  %result = call ptr @PyObject_Vectorcall(ptr %other, ptr %args, i64 %n, ptr null)
  ret ptr %result
}}
"""


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@cache
def _method() -> tuple[Code, _MethodDef, Any]:
    """The compiled entry, its definition and CPython's constructor; they live as long as the process."""
    text = _source()
    code = Code(text, host(), ("entry",), level=0, key=text)
    new: Any = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return code, _MethodDef(b"reorder", code.address("entry"), _METH_FASTCALL, None), new


class _Record(bytes):
    """The facts of one kernel, and a reference to what keeps its code."""

    slow: Callable[[Any, Any], None]


def entry(
    kernel: int, parallel: int, threads: int, sizes: tuple[int, int], widths: tuple[int, int], in_place: bool,
    slow: Callable[[Any, Any], None],
) -> Callable[[Any, Any], None]:  # fmt: skip
    """The kernel at address `kernel` as a Python callable of two buffers; all else goes to `slow`.

    Both buffers have at least `sizes` bytes in items of `widths` bytes. `parallel` is the address of the function that
    shares the work among `threads`, or 0. The callable keeps `slow`.
    """
    _, definition, new = _method()
    record = _Record(struct.pack("9q", kernel, id(slow), parallel, *sizes, in_place, threads, *widths))
    record.slow = slow
    return new(ctypes.addressof(definition), record, None)
