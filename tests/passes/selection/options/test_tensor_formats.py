"""Cutting and widening at blocks, and what a Format means without its tensor, against the definitions."""

from __future__ import annotations

import itertools

import pytest
from xdsl.dialects.builtin import TensorType, f32, i8, i32
from xdsl.utils.test_value import create_ssa_value

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout import with_format
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.tensor_formats import (
    bound,
    cuts_at_blocks,
    is_shape_free,
    nbytes,
    row_major,
    shape_of,
    widens_at_blocks,
)


def _whole_blocks(block: int, extent: int, taken: list[int]) -> bool:
    """Whether `taken` are all elements of some blocks, side by side, in their order."""
    blocks = [list(range(low, min(low + block, extent))) for low in range(0, extent, block)]
    return any(
        taken == list(itertools.chain(*blocks[first:last]))
        for first in range(len(blocks))
        for last in range(first + 1, len(blocks) + 1)
    )


def test_a_cut_is_allowed_only_where_it_takes_whole_blocks():
    for block, extent in itertools.product((1, 2, 3, 4), range(1, 10)):
        for start, step in itertools.product(range(extent), (1, 2)):
            for size in range(1, (extent - start - 1) // step + 2):
                taken = list(range(start, start + size * step, step))
                allowed = cuts_at_blocks(block, extent, start, size, step)
                if block == 1:
                    assert allowed  # every element is a block
                elif size > 1:
                    assert allowed == (step == 1 and _whole_blocks(block, extent, taken))
                else:
                    assert not allowed or _whole_blocks(block, extent, taken)


def test_a_dim_is_widened_only_where_its_blocks_stay_together():
    """Elements that shared a block share one afterwards, and those that are taken away leave no part of a block."""
    for block, extent in itertools.product((1, 2, 3, 4), range(1, 10)):
        for begin, end in itertools.product(range(-3, 4), repeat=2):
            if extent + begin + end < 1:
                continue
            kept = [k for k in range(extent) if 0 <= k + begin < extent + begin + end]
            pairs = list(itertools.combinations(kept, 2))
            together = all(
                (a // block == b // block) == ((a + begin) // block == (b + begin) // block) for a, b in pairs
            )
            if widens_at_blocks(block, extent, begin, end):
                assert together and (block == 1 or end >= 0 or (extent + begin + end) % block == 0)
            elif begin >= 0 and end >= 0 and len({k // block for k in kept}) > 1:
                assert not together


@pytest.mark.parametrize(
    "text",
    ["nchw", "nChw8c", "nhwc", "(a, b) : [a, b, a:4, b:2]", "(a, b) : [b, a], pad = zero"],
)
def test_formats_without_numbers_of_one_tensor_are_shape_free(text: str):
    assert is_shape_free(Format.of(text))


def test_negative_formats_of_bound_tensors_are_not_shape_free():
    """A view has strides, an offset, pads in front or a size that were computed for its tensor."""
    layout = Format.of("(a, b) : [a, b, b:4]").bind((6, 8))
    for view in (
        layout.slice((2, 0), (3, 8)),
        layout.slice((0, 4), (6, 4)),
        Format.of("(a, b) : [a, b]").bind((6, 8)).slice((1, 1), (4, 5)),
    ):
        assert not is_shape_free(view.format)


def test_row_major_has_the_names_of_its_type_and_the_last_dim_in_a_row():
    plain = create_ssa_value(TensorType(f32, [2, 3, 4]))
    assert shape_of(plain) == (2, 3, 4)
    assert row_major(plain).bind((2, 3, 4)).address((1, 2, 3)) == 23
    named = create_ssa_value(with_format(TensorType(f32, [2, 3]), Format.of("(rows, cols) : [cols, rows]")))
    assert row_major(named).names == ("rows", "cols")
    assert row_major(named).bind((2, 3)).address((1, 0)) == 3


def test_bytes_have_the_pads_in_them():
    fmt = Format.of("(n, c) : [n, c, c:8]")
    for element, size in ((f32, 4), (i32, 4), (i8, 1)):
        assert nbytes(fmt, create_ssa_value(TensorType(element, [3, 17]))) == 3 * 24 * size


def test_negative_formats_of_another_rank_have_no_layout_and_scalars_no_shape():
    value = create_ssa_value(TensorType(f32, [3, 17]))
    assert bound(Format.of("nchw"), value) is None and nbytes(Format.of("nchw"), value) == 0
    with pytest.raises(LayoutError):
        shape_of(create_ssa_value(f32))
