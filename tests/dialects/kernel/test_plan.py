"""The value: what its parts count, and when one buffer may be both."""

from __future__ import annotations

from itertools import product

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.dialects.kernel.plan import Axis, Loop, Staged, TableLoop, VariableBoundLoops, iterations
from layout_ir.elements.quantization import Conversion
from tests.processes import run_python


@pytest.mark.parametrize("axis", [Axis(6, 8), Axis(6, 8, 3, 100), Axis(6, -4, 2, 4)])
def test_the_loops_of_an_axis_are_the_offsets_of_its_elements(axis: Axis):
    loops = [[k * stride for k in range(count)] for count, stride in reversed(axis.loops)]
    assert [axis.offset(k) for k in range(6)] == [sum(offsets) for offsets in product(*loops)]


def test_a_nest_runs_as_often_as_all_of_its_loops():
    assert iterations(()) == 1
    assert iterations((Loop(3, 0, 4), TableLoop((0, 1), (0, 1)), VariableBoundLoops((), 2, 7))) == 3 * 2 * 5


def test_a_staging_buffer_ends_with_its_last_row():
    assert Staged(128, ()).extent == 128
    assert Staged(128, (), rows=3, row_stride=196).extent == 2 * 196 + 128


@pytest.mark.parametrize(("tags", "safe"), [(("ab", "ab"), True), (("ab", "ba"), False)])
def test_one_buffer_may_be_both_where_elements_stay(tags: tuple[str, str], safe: bool):
    src, dst = (Format.of(tag).bind((3, 5)) for tag in tags)
    assert plan_reorder(src, dst).in_place_safe == safe
    assert not plan_reorder(src, dst, conversion=Conversion("f32", "i32")).in_place_safe


def test_the_value_needs_neither_xdsl_nor_numpy():
    code = (
        "import sys, layout_ir.dialects.kernel.plan; print(*{'xdsl', 'numpy', 'llvmlite'} & set(sys.modules))"
    )
    found = run_python("-c", code)
    assert found.stdout.strip() == ""
