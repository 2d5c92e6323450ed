"""The dialect index: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
func.func @f(%a: index, %b: index, %i: i32) -> i1 {
  %0 = index.add %a, %b
  %1 = index.sub %a, %b
  %2 = index.mul %a, %b
  %3 = index.divs %a, %b
  %4 = index.divu %a, %b
  %5 = index.ceildivs %a, %b
  %6 = index.ceildivu %a, %b
  %7 = index.floordivs %a, %b
  %8 = index.rems %a, %b
  %9 = index.remu %a, %b
  %10 = index.maxs %a, %b
  %11 = index.maxu %a, %b
  %12 = index.mins %a, %b
  %13 = index.minu %a, %b
  %14 = index.shl %a, %b
  %15 = index.shrs %a, %b
  %16 = index.shru %a, %b
  %17 = index.and %a, %b
  %18 = index.or %a, %b
  %19 = index.xor %a, %b
  %20 = index.cmp slt(%a, %b)
  %21 = index.casts %i : i32 to index
  %22 = index.castu %a : index to i64
  %23 = index.sizeof
  %24 = index.constant 42
  %25 = index.bool.constant true
  %26 = index.cmp ult(%a, %b)
  return %20 : i1
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%n: index, %x: f32, %m: i32"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """%r = index.cmp lt(%n, %n)""",
            r"'lt' is no predicate: eq, ne",
        ),
        (
            """%r = index.casts %m : i32 to i64""",
            r"between an index and an integer, not i32 to i64",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
