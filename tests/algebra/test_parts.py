"""Where a part of a tensor lies, against the addresses of its elements."""

from __future__ import annotations

from itertools import product

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.parts import part_offset


def _offset_of_addresses(whole: Layout, part: Layout, starts: tuple[int, ...]) -> int | None:
    """The one difference between the addresses of equal elements; None where there are several."""
    found = {
        whole.address(tuple(start + at for start, at in zip(starts, index, strict=True)))
        - part.address(index)
        for index in product(*map(range, part.shape))
    }
    return found.pop() if len(found) == 1 else None


SHAPE = (2, 16, 3, 2)


@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw8c", "nChw4c", "chwn"])
@pytest.mark.parametrize("dim", range(4))
def test_the_offset_of_a_part_is_that_of_all_its_elements(tag: str, dim: int):
    whole = Format.from_tag(tag).bind(SHAPE)
    for start, end in ((0, 1), (0, SHAPE[dim]), (SHAPE[dim] // 2, SHAPE[dim]), (1, 2)):
        starts = tuple(start if d == dim else 0 for d in range(4))
        part = Format.from_tag(tag).bind(tuple(end - start if d == dim else SHAPE[d] for d in range(4)))
        if not part.is_padded:
            assert part_offset(whole, part, starts) == _offset_of_addresses(whole, part, starts)


def test_negative_parts_with_pads_other_layouts_and_empty_ones_have_none():
    whole = Format.from_tag("nChw8c").bind((1, 48, 3, 2))
    part = Format.from_tag("nChw8c").bind((1, 16, 3, 2))
    assert part_offset(whole, part, (0, 32, 0, 0)) == 32 * 6
    assert part_offset(whole, part, (0, 4, 0, 0)) is None  # not whole blocks
    assert part_offset(whole, part, (0, 40, 0, 0)) is None  # beyond the end
    assert part_offset(whole, Format.from_tag("nchw").bind(part.shape), (0, 0, 0, 0)) is None
    assert part_offset(whole, Format.from_tag("nChw8c").bind((1, 12, 3, 2)), (0, 0, 0, 0)) is None
    assert part_offset(whole, Format.from_tag("nChw8c").bind((1, 0, 3, 2)), (0, 0, 0, 0)) is None
