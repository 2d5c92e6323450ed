"""Formats of a result whose dims are those of an operand, some of them gone and others in their place.

A mean over space without the dims of space has the Format of its operand less their factors; a gather has one factor
for each dim of its indices where the one of its axis was. So such ops take part in the choice of layouts, and leave the
order of the other dims as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.nn.nn_op import DimImages
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.tensor_formats import is_shape_free


def mapped_format(fmt: Format, images: DimImages) -> Format | None:
    """`fmt` on the dims that its own become, `images`.

    None where it is not shape-free, or a dim that becomes several is blocked.
    """
    if not is_shape_free(fmt):
        return None
    rank = sum(map(len, images))
    if any(len(images[d]) > 1 and block > 1 for d, block in enumerate(fmt.blocks())):
        return None

    def factors(given: Iterable[Factor]) -> tuple[Factor, ...]:
        return tuple(replace(factor, dim=dim) for factor in given for dim in images[factor.dim])

    try:
        return Format(tuple(names_for(rank)), factors(fmt.factors), factors(fmt.chunk_factors), pad=fmt.pad)
    except LayoutError:
        return None  # all that is left stands right of the bar
