"""The iterations of a loop run one after the other by machine code: one native call for the records of many iterations.

What is lent to a plan lies elsewhere in each iteration: a row further, or in the other one of two buffers. A slot says
where: at `first` in iteration 0, then at `even` or `odd` as the number of the iteration is, and so many bytes further
per iteration. An iteration writes its number, computes the addresses of all slots, patches and walks the records
(`step_driver`), makes copies from slot to slot, and reads the condition.

A loop or branch within a plan is a record of that plan (`nested_flow`): `loop` reads how many iterations there are,
runs them, and copies what was carried to where it belongs; `branch` chooses one of two loops of one iteration.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int64, c_void_p, cast, memmove

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.onednn.step_driver import step_driver
from layout_ir.forking import made_once

SLOT_FIELDS = 4
"""The number of fields of a slot: first, even, odd, bytes per iteration."""

COPY_FIELDS = 3
"""The number of fields of a copy: the slots that it goes to and comes from, and how many bytes."""

BLOCK = (
    ("patches", "ptr"), ("patch.count", "i64"), ("slots", "ptr"), ("slot.count", "i64"), ("lent", "ptr"),
    ("records", "ptr"), ("record.count", "i64"), ("copies", "ptr"), ("copy.count", "i64"), ("condition", "i64"),
    ("number", "ptr"),
)  # fmt: skip
"""The fields of a block: addresses and numbers of patches and of slots, that of room for the addresses of slots, those
of records and of copies, the slot of the condition or -1, and where the number of the iteration is written."""

LOOP = (
    ("block", "ptr"), ("walk", "ptr"), ("lend", "ptr"), ("memmove", "ptr"), ("count.at", "ptr"), ("count.most", "i64"),
    ("holds", "ptr"), ("expected", "i64"), ("ends", "ptr"), ("end.count", "i64"),
)  # fmt: skip
"""The fields of a loop within a plan: its block, three functions, where the trip count is or 0, how many iterations
there are at most, where the condition in front is or 0, how many iterations there must be or -1, and the copies at the
end, from slots behind the last iteration."""

BRANCH = (("which", "ptr"), ("then", "ptr"), ("else", "ptr"))
"""The fields of a branch within a plan: where the condition is, and the two loops."""

_FAILED = -1


def _loads(base: str, fields: tuple[tuple[str, str], ...], *wanted: str) -> str:
    return "".join(
        f"  %{name}.word = getelementptr i64, ptr %{base}, i64 {number}\n"
        f"  %{name} = load {kind}, ptr %{name}.word\n"
        for number, (name, kind) in enumerate(fields)
        if name in wanted or not wanted
    )


def _field(name: str, base: str, number: str) -> str:
    return (
        f"  %{name}.at = getelementptr i64, ptr %{base}, i64 {number}\n  %{name} = load i64, ptr %{name}.at\n"
    )


def _address_in_lent(name: str, number: str) -> str:
    return (
        f"  %{name}.at = getelementptr i64, ptr %lent, i64 {number}\n  %{name} = load ptr, ptr %{name}.at\n"
    )


_PLACE = f"""\
define void @place(ptr %block, i64 %trip) nounwind {{
entry:
{_loads("block", BLOCK, "slots", "slot.count", "lent")}\
  %start = icmp eq i64 %trip, 0
  %parity = and i64 %trip, 1
  %later = add i64 %parity, 1
  %which = select i1 %start, i64 0, i64 %later
  br label %head
head:
  %s = phi i64 [ 0, %entry ], [ %s.after, %body ]
  %more = icmp slt i64 %s, %slot.count
  br i1 %more, label %body, label %over
body:
  %slot.first = mul i64 %s, {SLOT_FIELDS}
  %slot.chosen = add i64 %slot.first, %which
  %slot.last = add i64 %slot.first, 3
{_field("base", "slots", "%slot.chosen")}\
{_field("step", "slots", "%slot.last")}\
  %way = mul i64 %step, %trip
  %address = add i64 %base, %way
  %to = getelementptr i64, ptr %lent, i64 %s
  store i64 %address, ptr %to
  %s.after = add i64 %s, 1
  br label %head
over:
  ret void
}}
"""
"""Computes the addresses of all slots in an iteration."""

_COPY = f"""\
define void @copy(ptr %lent, ptr %copies, i64 %count, ptr %memmove) nounwind {{
entry:
  br label %head
head:
  %c = phi i64 [ 0, %entry ], [ %c.after, %body ]
  %more = icmp slt i64 %c, %count
  br i1 %more, label %body, label %over
body:
  %first = mul i64 %c, {COPY_FIELDS}
  %second = add i64 %first, 1
  %third = add i64 %first, 2
{_field("target.slot", "copies", "%first")}\
{_field("source.slot", "copies", "%second")}\
{_field("bytes", "copies", "%third")}\
{_address_in_lent("target", "%target.slot")}\
{_address_in_lent("source", "%source.slot")}\
  call void %memmove(ptr %target, ptr %source, i64 %bytes)
  %c.after = add i64 %c, 1
  br label %head
over:
  ret void
}}
"""
"""Makes copies from slot to slot, where these are now."""

_TRIPS = f"""\
define i64 @trips(ptr %block, i64 %begin, i64 %end, ptr %walk, ptr %lend, ptr %memmove) nounwind {{
entry:
{_loads("block", BLOCK)}\
  %checked = icmp sge i64 %condition, 0
  br label %head
head:
  %trip = phi i64 [ %begin, %entry ], [ %after, %next ]
  %more = icmp slt i64 %trip, %end
  br i1 %more, label %body, label %over
body:
  store i64 %trip, ptr %number
  call void @place(ptr %block, i64 %trip)
  call void %lend(ptr %patches, i64 %patch.count, ptr %lent)
  %reached = call i64 %walk(ptr %records, i64 0, i64 %record.count)
  %good = icmp eq i64 %reached, %record.count
  br i1 %good, label %walked, label %failed
walked:
  call void @copy(ptr %lent, ptr %copies, i64 %copy.count, ptr %memmove)
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
"""Runs iterations; the number of the iteration that would come next, or the record that failed."""

_NESTED = f"""\
define i32 @loop(ptr %loop) nounwind {{
entry:
{_loads("loop", LOOP)}\
  %is.counted = icmp ne ptr %count.at, null
  br i1 %is.counted, label %count, label %counted
count:
  %given = load i64, ptr %count.at
  %is.negative = icmp slt i64 %given, 0
  %count.given = select i1 %is.negative, i64 0, i64 %given
  br label %counted
counted:
  %most = phi i64 [ %count.most, %entry ], [ %count.given, %count ]
  %is.conditional = icmp ne ptr %holds, null
  br i1 %is.conditional, label %condition, label %run
condition:
  %byte = load i8, ptr %holds
  %going = icmp ne i8 %byte, 0
  %if.going = select i1 %going, i64 %most, i64 0
  br label %run
run:
  %limit = phi i64 [ %most, %counted ], [ %if.going, %condition ]
  %trips = call i64 @trips(ptr %block, i64 0, i64 %limit, ptr %walk, ptr %lend, ptr %memmove)
  %is.failed = icmp slt i64 %trips, 0
  br i1 %is.failed, label %failed, label %check
check:
  %is.any = icmp slt i64 %expected, 0
  %is.expected = icmp eq i64 %trips, %expected
  %is.right = or i1 %is.any, %is.expected
  br i1 %is.right, label %end, label %failed
end:
  call void @place(ptr %block, i64 %trips)
{_loads("block", BLOCK, "lent")}\
  call void @copy(ptr %lent, ptr %ends, i64 %end.count, ptr %memmove)
  ret i32 0
failed:
  ret i32 1
}}

define i32 @branch(ptr %branch) nounwind {{
{_loads("branch", BRANCH)}\
  %byte = load i8, ptr %which
  %holds = icmp ne i8 %byte, 0
  %loop = select i1 %holds, ptr %then, ptr %else
  %found = call i32 @loop(ptr %loop)
  ret i32 %found
}}
"""
"""Records of a plan: 0, or 1 where a step failed or the number of iterations is another than expected."""


def _source() -> str:
    return f'target triple = "{host().triple}"\n\n' + "\n".join((_PLACE, _COPY, _TRIPS, _NESTED))


class TripDriver:
    """The compiled loop: `driver(block, begin, end)` runs the iterations from `begin` to before `end`, or until the
    condition does not hold any more. The GIL is released meanwhile.
    """

    def __init__(self) -> None:
        names = ("trips", "loop", "branch")
        self._code = Code(_source, host(), names, key=f"trip driver 2 {host().triple}")
        function = CFUNCTYPE(c_int64, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p)
        self._call = function(self._code.address("trips"))
        steps = step_driver()
        self.functions = steps.walk_at, steps.lend_at, cast(memmove, c_void_p).value
        """The addresses of what iterations call: `walk`, `lend` and `memmove`."""
        self.loop_at, self.branch_at = (self._code.address(name) for name in ("loop", "branch"))
        """Where the functions of records are that run a loop or branch within a plan."""

    def __call__(self, block: int, begin: int, end: int) -> int:
        """How many iterations there were from iteration 0 on, or what `failed_record` takes."""
        return self._call(block, begin, end, *self.functions)


@made_once
def trip_driver() -> TripDriver:
    """The driver, compiled once."""
    return TripDriver()


def failed_record(returned: int) -> int | None:
    """The number of the record whose call failed, by what the driver returned; None where none did."""
    return None if returned >= 0 else _FAILED - returned
