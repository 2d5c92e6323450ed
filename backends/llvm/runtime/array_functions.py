"""Copies of NumPy arrays as functions that CPython calls directly, without a frame of Python in between.

Copies of a few hundred bytes take less time than NumPy needs to see what is asked for, so that is what counts: a
function of NumPy's name costs what the call costs, some additions per dim and the copy (`strided_copy`). It looks at
the arrays itself, as C code with NumPy's headers would: whether they are arrays and of no class of their own, of
elements that are plain memory and the same on both sides, apart from each other, and writable. Whatever else it is
given it hands, with all its arguments, to its `self`, a function of Python, which knows NumPy's answer.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from importlib import import_module
from threading import RLock
from typing import Any

import numpy as np

from layout_ir.backends.llvm.emission.copy_normalization import BLOCK, FIELDS, MOST_DIMS
from layout_ir.backends.llvm.emission.emit import module_text, version
from layout_ir.backends.llvm.emission.strided_copy import strided_copy_module
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.forking import fork_safe

_HEAD = object.__basicsize__
_DATA, _ND, _SHAPE, _STRIDES, _DESCR, _FLAGS = (_HEAD + k for k in (0, 8, 16, 24, 40, 48))
"""Offsets of the fields of an array: `PyArrayObject_fields` of NumPy's C API, behind the head of any object."""

_BYTE_ORDER, _NUMBER, _ITEM_SIZE = (_HEAD + k for k in (10, 12, 24))
"""Offsets of the fields of a dtype: `PyArray_Descr` of NumPy's C API, version 2."""

_C_CONTIGUOUS, _F_CONTIGUOUS, _WRITEABLE, _WARNS = 1, 2, 0x400, 1 << 31
"""Flags of arrays; the last one says that writing to the array gives a warning."""

_NUMBERS = sum(1 << np.dtype(code).num for code in "?bBhHiIlLqQefdgFDG")
"""Bit k: dtypes of number k are numbers, of which two with the same number and byte order are the same."""

_PLAIN = _NUMBERS | sum(1 << np.dtype(code).num for code in "SUMm")
"""Bit k: dtypes of number k are plain memory: numbers, text and dates. Not those of objects and of records."""

_ARRAY_TYPE, _NEW_FROM_DESCR = 2, 94
"""Places in the table of NumPy's C API."""

_WITH_GIL = 8 << 10
"""Bytes below which others wait for the interpreter meanwhile: at a nanosecond for each, no longer than they would wait
for a function of Python to be called."""


# The functions -------------------------------------------------------------------------------------------------------


def _load(name: str, pointer: str, offset: int, type_: str = "i64") -> str:
    return f"""\
  %{name}.at = getelementptr i8, ptr {pointer}, i64 {offset}
  %{name} = load {type_}, ptr %{name}.at
"""


def _plain(name: str, number: str, mask: int) -> str:
    """Whether the dtype's number is in the mask."""
    return f"""\
  %{name}.low = icmp ult i32 {number}, 64
  %{name}.wide = zext i32 {number} to i64
  %{name}.bit = and i64 %{name}.wide, 63
  %{name}.there = lshr i64 {mask}, %{name}.bit
  %{name}.one = trunc i64 %{name}.there to i1
  %{name} = and i1 %{name}.low, %{name}.one
"""


_HANDED_ON = """\
slow:
  %other = call ptr @PyObject_Vectorcall(ptr %self, ptr %args, i64 %n, ptr %names)
  ret ptr %other
"""


_FRESH = f"""\
; A copy of the one array %args, contiguous as %new says; the array itself if it has a flag of %kept.
define internal ptr @fresh(ptr %self, ptr %args, i64 %n, ptr %names, i32 %new, i32 %kept) nounwind {{
  %copy = alloca [{BLOCK} x i64], align 8
  %x = load ptr, ptr %args
{_load("type", "%x", _HEAD - 8, "ptr")}\
  %array = load ptr, ptr @array.type
  %exact = icmp eq ptr %type, %array
  br i1 %exact, label %flags, label %slow
flags:
{_load("x.flags", "%x", _FLAGS, "i32")}{_load("nd", "%x", _ND, "i32")}\
  %some = icmp ne i32 %nd, 0
  %few = icmp ule i32 %nd, {MOST_DIMS}
  %fits = and i1 %some, %few
  %said = and i32 %x.flags, %kept
  %is = icmp ne i32 %said, 0
  %keeps = and i1 %some, %is
  br i1 %keeps, label %same, label %kind
same:
  call void @Py_IncRef(ptr %x)
  ret ptr %x
kind:
{_load("descr", "%x", _DESCR, "ptr")}{_load("number", "%descr", _NUMBER, "i32")}\
{_load("width", "%descr", _ITEM_SIZE)}{_load("shape", "%x", _SHAPE, "ptr")}\
{_plain("plain", "%number", _PLAIN)}\
  %takes = and i1 %plain, %fits
  br i1 %takes, label %count, label %slow
count:
  %dims = zext i32 %nd to i64
  br label %each
each:
  %d = phi i64 [ 0, %count ], [ %d1, %each ]
  %size = phi i64 [ %width, %count ], [ %more, %each ]
  %n.at = getelementptr i64, ptr %shape, i64 %d
  %extent = load i64, ptr %n.at
  %more = mul i64 %size, %extent
  %d1 = add i64 %d, 1
  %again = icmp ult i64 %d1, %dims
  br i1 %again, label %each, label %filled
filled:
  %any = icmp ne i64 %more, 0
  br i1 %any, label %make, label %slow
make:
  call void @Py_IncRef(ptr %descr)
  %maker = load ptr, ptr @array.new
  %y = call ptr %maker(ptr %array, ptr %descr, i32 %nd, ptr %shape, ptr null, ptr null, i32 %new, ptr null)
  %made = icmp ne ptr %y, null
  br i1 %made, label %move, label %fail
fail:
  ret ptr null
move:
{_load("from", "%x", _DATA, "ptr")}{_load("to", "%y", _DATA, "ptr")}\
{_load("x.strides", "%x", _STRIDES, "ptr")}{_load("y.strides", "%y", _STRIDES, "ptr")}\
  %found = call i64 @normalize(ptr %copy, ptr %from, ptr %to, i64 %width, i64 %dims,
    ptr %shape, ptr %x.strides, ptr %y.strides)
  call void @move(ptr %copy, i64 %more)
  ret ptr %y
{_HANDED_ON}}}
define ptr @ascontiguousarray(ptr %self, ptr %args, i64 %n, ptr %names) nounwind {{
  %one = icmp eq i64 %n, 1
  br i1 %one, label %single, label %slow
single:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %look, label %named
look:
  ; What most calls are for, before the stack is made ready for anything else.
  %a = load ptr, ptr %args
{_load("type", "%a", _HEAD - 8, "ptr")}\
  %array = load ptr, ptr @array.type
  %exact = icmp eq ptr %type, %array
  br i1 %exact, label %is.array, label %slow
is.array:
{_load("flags", "%a", _FLAGS, "i32")}{_load("nd", "%a", _ND, "i32")}\
  %contiguous = trunc i32 %flags to i1
  %some = icmp ne i32 %nd, 0
  %same = and i1 %contiguous, %some
  br i1 %same, label %given.back, label %rows
given.back:
  call void @Py_IncRef(ptr %a)
  ret ptr %a
named:
  %given = call i64 @PyTuple_Size(ptr %names)
  %only = icmp eq i64 %given, 1
  br i1 %only, label %name, label %slow
name:
  %said = call ptr @PyTuple_GetItem(ptr %names, i64 0)
  %order = load ptr, ptr @text.order
  %known = icmp eq ptr %said, %order
{_load("value", "%args", 8, "ptr")}\
  %f = load ptr, ptr @text.f
  %c = load ptr, ptr @text.c
  %is.f = icmp eq ptr %value, %f
  %is.c = icmp eq ptr %value, %c
  %by.cols = and i1 %known, %is.f
  %by.rows = and i1 %known, %is.c
  br i1 %by.cols, label %cols, label %other.order
other.order:
  br i1 %by.rows, label %rows, label %slow
rows:
  %x = call ptr @fresh(ptr %self, ptr %args, i64 %n, ptr %names, i32 0, i32 {_C_CONTIGUOUS})
  ret ptr %x
cols:
  %y = call ptr @fresh(ptr %self, ptr %args, i64 %n, ptr %names, i32 {_F_CONTIGUOUS}, i32 {_F_CONTIGUOUS})
  ret ptr %y
{_HANDED_ON}}}
define ptr @copied(ptr %self, ptr %args, i64 %n, ptr %names) nounwind {{
  %one = icmp eq i64 %n, 1
  %unnamed = icmp eq ptr %names, null
  %alone = and i1 %one, %unnamed
  br i1 %alone, label %copy, label %slow
copy:
  %x = call ptr @fresh(ptr %self, ptr %args, i64 %n, ptr %names, i32 0, i32 0)
  ret ptr %x
{_HANDED_ON}}}
"""


_COPYTO = f"""\
define ptr @copyto(ptr %self, ptr %args, i64 %n, ptr %names) nounwind {{
  %copy = alloca [{BLOCK} x i64], align 8
  %strides = alloca [{MOST_DIMS} x i64], align 8
  %two = icmp eq i64 %n, 2
  %unnamed = icmp eq ptr %names, null
  %alone = and i1 %two, %unnamed
  br i1 %alone, label %look, label %slow
look:
  %y = load ptr, ptr %args
{_load("x", "%args", 8, "ptr")}\
{_load("y.type", "%y", _HEAD - 8, "ptr")}{_load("x.type", "%x", _HEAD - 8, "ptr")}\
  %array = load ptr, ptr @array.type
  %y.exact = icmp eq ptr %y.type, %array
  %x.exact = icmp eq ptr %x.type, %array
  %exact = and i1 %y.exact, %x.exact
  br i1 %exact, label %kind, label %slow
kind:
{_load("flags", "%y", _FLAGS, "i32")}{_load("y.nd", "%y", _ND, "i32")}{_load("x.nd", "%x", _ND, "i32")}\
{_load("y.descr", "%y", _DESCR, "ptr")}{_load("number", "%y.descr", _NUMBER, "i32")}\
{_load("y.order", "%y.descr", _BYTE_ORDER, "i8")}{_load("width", "%y.descr", _ITEM_SIZE)}\
{_load("x.descr", "%x", _DESCR, "ptr")}{_load("x.number", "%x.descr", _NUMBER, "i32")}\
{_load("x.order", "%x.descr", _BYTE_ORDER, "i8")}\
{_plain("plain", "%number", _PLAIN)}{_plain("known", "%number", _NUMBERS)}\
  %writes = and i32 %flags, {_WRITEABLE | _WARNS}
  %may = icmp eq i32 %writes, {_WRITEABLE}
  %few = icmp ule i32 %y.nd, {MOST_DIMS}
  %less = icmp ule i32 %x.nd, %y.nd
  %same = icmp eq ptr %x.descr, %y.descr
  %equal.number = icmp eq i32 %number, %x.number
  %equal.order = icmp eq i8 %y.order, %x.order
  %equal0 = and i1 %equal.number, %equal.order
  %equal1 = and i1 %equal0, %known
  %equal = or i1 %same, %equal1
  %c0 = and i1 %plain, %may
  %c1 = and i1 %few, %less
  %c2 = and i1 %c0, %c1
  %c3 = and i1 %c2, %equal
  br i1 %c3, label %shapes, label %slow
shapes:
{_load("y.shape", "%y", _SHAPE, "ptr")}{_load("y.strides", "%y", _STRIDES, "ptr")}\
{_load("x.shape", "%x", _SHAPE, "ptr")}{_load("x.strides", "%x", _STRIDES, "ptr")}\
{_load("from", "%x", _DATA, "ptr")}{_load("to", "%y", _DATA, "ptr")}\
  %dims = zext i32 %y.nd to i64
  %x.dims = zext i32 %x.nd to i64
  %ahead = sub i64 %dims, %x.dims
  br label %each
each:
  %d = phi i64 [ 0, %shapes ], [ %d1, %fits ]
  %size = phi i64 [ %width, %shapes ], [ %more, %fits ]
  %left = icmp ult i64 %d, %dims
  br i1 %left, label %dim, label %filled
dim:
  %extent.at = getelementptr i64, ptr %y.shape, i64 %d
  %extent = load i64, ptr %extent.at
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %k = sub i64 %d, %ahead
  %there = icmp sge i64 %k, 0
  br i1 %there, label %pair, label %fits
pair:
  %there.at = getelementptr i64, ptr %x.shape, i64 %k
  %x.extent = load i64, ptr %there.at
  %s.at = getelementptr i64, ptr %x.strides, i64 %k
  %s = load i64, ptr %s.at
  %agrees = icmp eq i64 %x.extent, %extent
  %single = icmp eq i64 %x.extent, 1
  %either = or i1 %agrees, %single
  %stride = select i1 %agrees, i64 %s, i64 0
  br i1 %either, label %fits, label %slow
fits:
  %step = phi i64 [ 0, %dim ], [ %stride, %pair ]
  store i64 %step, ptr %stride.at
  %more = mul i64 %size, %extent
  %d1 = add i64 %d, 1
  br label %each
filled:
  %any = icmp ne i64 %size, 0
  br i1 %any, label %plan, label %slow
plan:
  %found = call i64 @normalize(ptr %copy, ptr %from, ptr %to, i64 %width, i64 %dims,
    ptr %y.shape, ptr %strides, ptr %y.strides)
  %sound = icmp eq i64 %found, 1
{_load("low", "%copy", 8 * FIELDS["src_low"])}{_load("high", "%copy", 8 * FIELDS["src_high"])}\
{_load("begin", "%copy", 8 * FIELDS["dst"])}{_load("end", "%copy", 8 * FIELDS["dst_high"])}\
  %before = icmp ule i64 %high, %begin
  %behind = icmp ule i64 %end, %low
  %apart = or i1 %before, %behind
  %good = and i1 %sound, %apart
  br i1 %good, label %go, label %slow
go:
  call void @move(ptr %copy, i64 %size)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
{_HANDED_ON}}}
"""


def _source() -> str:
    """The module: the functions of `_FUNCTIONS`, and `set_up`, which is told what differs from process to process."""
    profile = host().profile
    functions = [
        *strided_copy_module(host()),
        f"""\
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
@array.type = internal global ptr null
@array.new = internal global ptr null
@text.order = internal global ptr null
@text.f = internal global ptr null
@text.c = internal global ptr null
@pool = internal global ptr null
@cpus = internal global i64 1
define void @set_up(ptr %type, ptr %new, ptr %order, ptr %f, ptr %c, ptr %parallel, i64 %threads) nounwind {{
  store ptr %type, ptr @array.type
  store ptr %new, ptr @array.new
  store ptr %order, ptr @text.order
  store ptr %f, ptr @text.f
  store ptr %c, ptr @text.c
  store ptr %parallel, ptr @pool
  store i64 %threads, ptr @cpus
  ret void
}}
define internal void @move(ptr %copy, i64 %size) nounwind {{
  %short = icmp ult i64 %size, {_WITH_GIL}
  br i1 %short, label %here, label %long
here:
  call void @run(ptr %copy, ptr null, i64 0, i64 1)
  ret void
long:
  %state = call ptr @PyEval_SaveThread()
  %both = shl i64 %size, 1
  %parts = udiv i64 %both, {profile.dispatch_bytes}
  %cpus = load i64, ptr @cpus
  %most = call i64 @llvm.umin.i64(i64 %parts, i64 %cpus)
  %alone = icmp ult i64 %most, 2
  br i1 %alone, label %one, label %many
one:
  call void @run(ptr %copy, ptr null, i64 0, i64 1)
  br label %done
many:
  %worth = mul i64 %most, {profile.wake_bytes}
  %asleep = icmp ult i64 %both, %worth
  %mark = select i1 %asleep, i64 {thread_pool.NO_WAKE}, i64 0
  %threads = add i64 %most, %mark
  %parallel = load ptr, ptr @pool
  call void %parallel(ptr @run, ptr %copy, ptr null, i64 %threads)
  br label %done
done:
  call void @PyEval_RestoreThread(ptr %state)
  ret void
}}
""",
        _FRESH,
        _COPYTO,
    ]
    return module_text(functions, host())


_FUNCTIONS = ("ascontiguousarray", "copied", "copyto")

_TEXTS = sys.intern("order"), sys.intern("F"), sys.intern("C")
"""Names and values of arguments that the machine code knows by their addresses: the interpreter has each only once."""


# Arrays as this file takes them to be --------------------------------------------------------------------------------


def _is_as_known() -> bool:
    """Whether arrays and dtypes are built as the machine code takes them to be."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    array = np.zeros((3, 5), ">f4").T[1:]

    def at(offset: int, type_: Any, base: int | None = None) -> Any:
        return type_.from_address((id(array) if base is None else base) + offset).value

    pointer, number = ctypes.c_void_p, ctypes.c_int
    if (
        at(_DATA, pointer) != array.ctypes.data
        or at(_ND, number) != 2
        or at(_DESCR, pointer) != id(array.dtype)
    ):
        return False
    for place, wanted in ((_SHAPE, array.shape), (_STRIDES, array.strides)):
        row = at(place, pointer)
        if row is None or tuple((ctypes.c_int64 * 2).from_address(row)) != wanted:
            return False
    flags = array.flags.num
    descr = id(array.dtype)
    return (
        at(_FLAGS, number) == flags
        and flags & _WRITEABLE != 0
        and np.zeros(3).flags.num & (_C_CONTIGUOUS | _F_CONTIGUOUS) == 3
        and at(_ITEM_SIZE, ctypes.c_int64, descr) == 4
        and at(_NUMBER, number, descr) == array.dtype.num
        and at(_BYTE_ORDER, ctypes.c_char, descr) == array.dtype.byteorder.encode()
    )


def _api() -> tuple[int, int]:
    """The addresses of the type of arrays and of the function that makes one, from the table of NumPy's C API."""
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    pointer: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = (ctypes.c_void_p * (_NEW_FROM_DESCR + 1)).from_address(pointer(capsule, None))
    type_, new = table[_ARRAY_TYPE], table[_NEW_FROM_DESCR]
    assert type_ == id(np.ndarray) and new is not None
    return type_, new


# Loading -------------------------------------------------------------------------------------------------------------

_lock = RLock()
fork_safe(_lock)
_made: Code | None = None


def functions() -> dict[str, int] | None:
    """The addresses of the functions, which stay valid; None where arrays are not built as they take them to be.

    The first call compiles them, or reads them from the code cache, and starts the thread pool.
    """
    global _made
    if not _is_as_known():
        return None
    with _lock:
        if _made is None:
            profile = host().profile
            key = f"array functions {version()} {np.__version__} {_HEAD} {profile.dispatch_bytes} {profile.wake_bytes}"
            code = Code(_source, host(), ("set_up", *_FUNCTIONS), key=key)
            threads = thread_pool.available(thread_pool.cpus())
            parallel = thread_pool.ensure(threads).address if threads > 1 else 0
            set_up: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64)
            set_up(code.address("set_up"))(*_api(), *map(id, _TEXTS), parallel, threads)
            _made = code
        return {name: _made.address(name) for name in _FUNCTIONS}
