"""The trips of a loop run one after the other by machine code: one native call for the records of many trips.

What is lent to a plan lies elsewhere in each trip: a row further, or in the other one of two buffers. A slot says
where: at `first` in trip 0, then at `even` or `odd` as the number of the trip is, and so many bytes further per trip. A
trip computes the addresses of all slots, patches and walks the records (`step_driver`), makes copies from slot to slot,
and reads the condition.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int64, c_void_p, cast, memmove
from functools import cache

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.onednn.step_driver import step_driver

SLOT_WORDS = 4
"""Words of a slot: first, even, odd, bytes per trip."""

COPY_WORDS = 3
"""Words of a copy: the slots that it goes to and comes from, and how many bytes."""

_FAILED = -1


def _loads() -> str:
    kinds = (
        ("patches", "ptr"), ("patch.count", "i64"), ("slots", "ptr"), ("slot.count", "i64"), ("lent", "ptr"),
        ("records", "ptr"), ("record.count", "i64"), ("copies", "ptr"), ("copy.count", "i64"), ("condition", "i64"),
    )  # fmt: skip
    return "".join(
        f"  %{name}.at = getelementptr i64, ptr %block, i64 {number}\n"
        f"  %{name} = load {kind}, ptr %{name}.at\n"
        for number, (name, kind) in enumerate(kinds)
    )


def _word(name: str, base: str, number: str) -> str:
    return (
        f"  %{name}.at = getelementptr i64, ptr %{base}, i64 {number}\n  %{name} = load i64, ptr %{name}.at\n"
    )


def _address_in_lent(name: str, number: str) -> str:
    return (
        f"  %{name}.at = getelementptr i64, ptr %lent, i64 {number}\n  %{name} = load ptr, ptr %{name}.at\n"
    )


def _source() -> str:
    return f"""\
target triple = "{host().triple}"

define i64 @trips(ptr %block, i64 %begin, i64 %end, ptr %walk, ptr %lend, ptr %memmove) nounwind {{
entry:
{_loads()}\
  %checked = icmp sge i64 %condition, 0
  br label %head
head:
  %trip = phi i64 [ %begin, %entry ], [ %after, %next ]
  %more = icmp slt i64 %trip, %end
  br i1 %more, label %place, label %over
place:
  %start = icmp eq i64 %trip, 0
  %parity = and i64 %trip, 1
  %later = add i64 %parity, 1
  %which = select i1 %start, i64 0, i64 %later
  br label %slot
slot:
  %s = phi i64 [ 0, %place ], [ %s.after, %slot.body ]
  %s.more = icmp slt i64 %s, %slot.count
  br i1 %s.more, label %slot.body, label %patch
slot.body:
  %slot.first = mul i64 %s, {SLOT_WORDS}
  %slot.chosen = add i64 %slot.first, %which
  %slot.last = add i64 %slot.first, 3
{_word("base", "slots", "%slot.chosen")}\
{_word("step", "slots", "%slot.last")}\
  %way = mul i64 %step, %trip
  %address = add i64 %base, %way
  %to = getelementptr i64, ptr %lent, i64 %s
  store i64 %address, ptr %to
  %s.after = add i64 %s, 1
  br label %slot
patch:
  call void %lend(ptr %patches, i64 %patch.count, ptr %lent)
  %reached = call i64 %walk(ptr %records, i64 0, i64 %record.count)
  %good = icmp eq i64 %reached, %record.count
  br i1 %good, label %copy, label %failed
copy:
  %c = phi i64 [ 0, %patch ], [ %c.after, %copy.body ]
  %c.more = icmp slt i64 %c, %copy.count
  br i1 %c.more, label %copy.body, label %check
copy.body:
  %copy.first = mul i64 %c, {COPY_WORDS}
  %copy.second = add i64 %copy.first, 1
  %copy.third = add i64 %copy.first, 2
{_word("target.slot", "copies", "%copy.first")}\
{_word("source.slot", "copies", "%copy.second")}\
{_word("bytes", "copies", "%copy.third")}\
{_address_in_lent("target", "%target.slot")}\
{_address_in_lent("source", "%source.slot")}\
  call void %memmove(ptr %target, ptr %source, i64 %bytes)
  %c.after = add i64 %c, 1
  br label %copy
check:
  br i1 %checked, label %condition.read, label %next
condition.read:
{_address_in_lent("holds", "%condition")}\
  %byte = load i8, ptr %holds
  %going = icmp ne i8 %byte, 0
  br i1 %going, label %next, label %ended
next:
  %after = add i64 %trip, 1
  br label %head
ended:
  %done = add i64 %trip, 1
  ret i64 %done
failed:
  %negative = sub i64 {_FAILED}, %reached
  ret i64 %negative
over:
  ret i64 %end
}}
"""


class TripDriver:
    """The compiled loop: `driver(block, begin, end)` runs the trips from `begin` to before `end`, or until the
    condition does not hold any more. The GIL is released meanwhile.

    A block is the addresses and numbers of patches and of slots, that of room for the addresses of slots, those of
    records and of copies, and the slot of the condition or -1.
    """

    def __init__(self) -> None:
        self._code = Code(_source, host(), ["trips"], key=f"trip driver 1 {host().triple}")
        function = CFUNCTYPE(c_int64, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p)
        self._call = function(self._code.address("trips"))
        # Kept: of threads that ask for it first at the same time each makes one, and the cache keeps the last.
        self._steps = step_driver()
        self._functions = self._steps.walk_at, self._steps.lend_at, cast(memmove, c_void_p).value

    def __call__(self, block: int, begin: int, end: int) -> int:
        """How many trips there were from trip 0 on, or what `failed_record` takes."""
        return self._call(block, begin, end, *self._functions)


@cache
def trip_driver() -> TripDriver:
    """The driver, compiled once."""
    return TripDriver()


def failed_record(returned: int) -> int | None:
    """The number of the record whose call failed, by what the driver returned; None where none did."""
    return None if returned >= 0 else _FAILED - returned
