"""Steps of a plan run one after the other by machine code: one native call for all steps between two by NumPy.

A step is a record of seven fields of 64 bits, and there are three kinds:

    CALL_WITH_STATUS      int function(a, b, (int) c, d): a primitive; another status than 0 ends the walk
    CALL_WITHOUT_STATUS   void function(a, b, c, d): a compiled kernel from a to b, part c of d
    n > 1                 the same kernel in parts, by a team of n threads of OpenMP

Memory that the caller has is lent for one call. Where its addresses go, in records and in the arguments of loops, is
written down once, as patches; a call applies them and walks.

Kernels run on the threads of OpenMP because primitives do: the workers of two pools would spin for the same cores, each
waiting for work while the other has it (two threads on two cores: a network that takes 4 ms took 24).
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import CFUNCTYPE, c_int64, c_void_p
from functools import cache

import numpy as np

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.elements.numpy_types import Array
from layout_ir.forking import made_once

CALL_WITH_STATUS, CALL_WITHOUT_STATUS = 0, 1
"""Kinds of records; a larger number is that of the threads of a team."""

RECORD_FIELDS = 7
"""How many fields a record has: kind, function, a, b, c, d, and the address of what teams need (`team_functions`)."""

ARGUMENT_A, ARGUMENT_B, ARGUMENT_C = 2, 3, 4
"""The fields of a record that hold the first three arguments of its function."""

DATA = object.__basicsize__
"""Where an array of NumPy has the address of its elements: behind the head of any object."""

INDEX_OUT_OF_RANGE = -1
"""What `StepDriver.run` returns where a loop noted an index outside of its dim."""

_RECORD = "{ i64, ptr, i64, i64, i64, i64, ptr }"
_PATCH = "{ ptr, i64, i64 }"
_BLOCK = "{ ptr, i64, ptr, ptr, i64, ptr, i64 }"
_TEAM = "{ ptr, ptr, ptr }"


def _loads(*fields: tuple[str, int, str]) -> str:
    return "".join(
        f"  %{name}.at = getelementptr {_RECORD}, ptr %record, i64 0, i32 {number}\n"
        f"  %{name} = load {kind}, ptr %{name}.at\n"
        for name, number, kind in fields
    )


def _source() -> str:
    return f"""\
target triple = "{host().triple}"

define void @part(ptr %record) nounwind {{
{_loads(("function", 1, "ptr"), ("a", ARGUMENT_A, "i64"), ("b", ARGUMENT_B, "i64"), ("team", 6, "ptr"))}\
  %number.at = getelementptr {_TEAM}, ptr %team, i64 0, i32 1
  %number.of = load ptr, ptr %number.at
  %count.at = getelementptr {_TEAM}, ptr %team, i64 0, i32 2
  %count.of = load ptr, ptr %count.at
  %number32 = call i32 %number.of()
  %count32 = call i32 %count.of()
  %number = sext i32 %number32 to i64
  %count = sext i32 %count32 to i64
  call void %function(i64 %a, i64 %b, i64 %number, i64 %count)
  ret void
}}

define i64 @walk(ptr %records, i64 %first, i64 %end) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ %first, %entry ], [ %after, %next ]
  %more = icmp slt i64 %k, %end
  br i1 %more, label %body, label %over
body:
  %record = getelementptr {_RECORD}, ptr %records, i64 %k
{_loads(("kind", 0, "i64"), ("function", 1, "ptr"), ("a", ARGUMENT_A, "i64"), ("b", ARGUMENT_B, "i64"))}\
{_loads(("c", ARGUMENT_C, "i64"), ("d", 5, "i64"))}\
  switch i64 %kind, label %team [ i64 {CALL_WITH_STATUS}, label %status  i64 {CALL_WITHOUT_STATUS}, label %plain ]
status:
  %c32 = trunc i64 %c to i32
  %found = call i32 %function(i64 %a, i64 %b, i32 %c32, i64 %d)
  %good = icmp eq i32 %found, 0
  br i1 %good, label %next, label %over
plain:
  call void %function(i64 %a, i64 %b, i64 %c, i64 %d)
  br label %next
team:
  %functions.at = getelementptr {_RECORD}, ptr %record, i64 0, i32 6
  %functions = load ptr, ptr %functions.at
  %parallel = load ptr, ptr %functions
  %threads = trunc i64 %kind to i32
  call void %parallel(ptr @part, ptr %record, i32 %threads, i32 0)
  br label %next
next:
  %after = add i64 %k, 1
  br label %head
over:
  ret i64 %k
}}

define void @bind(ptr %patches, i64 %count, ptr %lent, i1 %objects) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %after, %store ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %over
body:
  %patch = getelementptr {_PATCH}, ptr %patches, i64 %k
  %word = load ptr, ptr %patch
  %number.at = getelementptr {_PATCH}, ptr %patch, i64 0, i32 1
  %number = load i64, ptr %number.at
  %offset.at = getelementptr {_PATCH}, ptr %patch, i64 0, i32 2
  %offset = load i64, ptr %offset.at
  %given.at = getelementptr i64, ptr %lent, i64 %number
  %given = load i64, ptr %given.at
  br i1 %objects, label %object, label %store
object:
  %pointer = inttoptr i64 %given to ptr
  %data.at = getelementptr i8, ptr %pointer, i64 {DATA}
  %data = load i64, ptr %data.at
  br label %store
store:
  %address = phi i64 [ %given, %body ], [ %data, %object ]
  %place = add i64 %address, %offset
  store i64 %place, ptr %word
  %after = add i64 %k, 1
  br label %head
over:
  ret void
}}

define void @lend(ptr %patches, i64 %count, ptr %lent) nounwind {{
  call void @bind(ptr %patches, i64 %count, ptr %lent, i1 false)
  ret void
}}

define void @lend_objects(ptr %patches, i64 %count, ptr %lent) nounwind {{
  call void @bind(ptr %patches, i64 %count, ptr %lent, i1 true)
  ret void
}}

define i64 @run(ptr %block) nounwind {{
entry:
  %patches = load ptr, ptr %block
  %count.at = getelementptr {_BLOCK}, ptr %block, i64 0, i32 1
  %count = load i64, ptr %count.at
  %lent.at = getelementptr {_BLOCK}, ptr %block, i64 0, i32 2
  %lent = load ptr, ptr %lent.at
  %records.at = getelementptr {_BLOCK}, ptr %block, i64 0, i32 3
  %records = load ptr, ptr %records.at
  %end.at = getelementptr {_BLOCK}, ptr %block, i64 0, i32 4
  %end = load i64, ptr %end.at
  %notes.at = getelementptr {_BLOCK}, ptr %block, i64 0, i32 5
  %notes = load ptr, ptr %notes.at
  %notes.count.at = getelementptr {_BLOCK}, ptr %block, i64 0, i32 6
  %notes.count = load i64, ptr %notes.count.at
  call void @bind(ptr %patches, i64 %count, ptr %lent, i1 true)
  %reached = call i64 @walk(ptr %records, i64 0, i64 %end)
  %good = icmp eq i64 %reached, %end
  br i1 %good, label %head, label %over
head:
  %k = phi i64 [ 0, %entry ], [ %after, %body ]
  %more = icmp slt i64 %k, %notes.count
  br i1 %more, label %body, label %over
body:
  %note.at = getelementptr ptr, ptr %notes, i64 %k
  %note = load ptr, ptr %note.at
  %noted = load i64, ptr %note
  %after = add i64 %k, 1
  %inside = icmp eq i64 %noted, 0
  br i1 %inside, label %head, label %outside
outside:
  ret i64 {INDEX_OUT_OF_RANGE}
over:
  ret i64 %reached
}}
"""


DRIVER_KEY = f"step driver 5 {DATA}"
"""What the machine code depends on beside the processor."""


class StepDriver:
    """The compiled walk over records: `driver(address, first, end)` runs those from `first` to before `end`.

    Returns `end`, or the number of the record whose call failed. The GIL is released meanwhile.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.walk_at, self.lend_at = (code.address(name) for name in ("walk", "lend"))
        """Where the two functions are, for machine code that calls them (`trip_driver`)."""
        self._call = CFUNCTYPE(c_int64, c_void_p, c_int64, c_int64)(self.walk_at)
        lend = CFUNCTYPE(None, c_void_p, c_int64, c_void_p)
        self.lend = lend(self.lend_at)
        """Writes addresses of memory that is lent for a call to where they are needed: `lend(patches, count, lent)`.

        A patch is the address of a field, which of the lent addresses it gets, and how many bytes behind it."""
        self.lend_objects = lend(code.address("lend_objects"))
        """The same where `lent` has arrays of NumPy, by `id`."""
        self.run = CFUNCTYPE(c_int64, c_void_p)(code.address("run"))
        """Does that and walks, returning what the walk does, or `INDEX_OUT_OF_RANGE`: `run(block)`.

        A block is the address and number of patches, the address of `lent`, those of records, and those of the
        addresses at which loops note indices outside of their dims."""

    def __call__(self, records: int, first: int, end: int) -> int:
        """The number of the record at which the walk ended."""
        return self._call(records, first, end)


_offered: list[bytes] = []


def offer_driver(data: bytes) -> None:
    """Has `step_driver` take the driver from an object, of a file for this processor, if it is not made yet: it is
    compiled only where nobody has it, since LLVM would be loaded for it alone."""
    _offered[:] = [data]


@made_once
def step_driver() -> StepDriver:
    """The driver, made once."""
    if _offered:
        return StepDriver(Code.of_objects([_offered.pop()], ["walk"])[0])
    return StepDriver(Code(_source, host(), ("walk", "lend", "lend_objects", "run"), key=DRIVER_KEY))


@cache
def finds_elements() -> bool:
    """Whether the address of an array's elements is where `StepDriver.run` looks for it."""
    if sys.implementation.name != "cpython":
        return False
    array = np.zeros(3, np.int8)
    return c_void_p.from_address(id(array) + DATA).value == array.ctypes.data


@made_once
def team_functions() -> Array:
    """The addresses of what OpenMP (libgomp) forks a team by, numbers its threads by, and counts them by."""
    library = ctypes.CDLL("libgomp.so.1")
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    addresses = [ctypes.cast(getattr(library, name), c_void_p).value for name in names]
    return np.array(addresses, np.uint64)
