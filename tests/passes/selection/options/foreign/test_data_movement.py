"""Ops that move elements run in the Formats in which what they move is whole blocks, or a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.foreign.data_movement import (
    concat_options,
    cut_options,
    keeps_view,
    reshape_options,
)
from layout_ir.passes.selection.options.models import maker_options
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.options.tensor_formats import Candidates
from tests.programs import parse

Options = Callable[[Operation, Candidates, Target], Iterable[LayoutOption]]


def _op(text: str, *types: str) -> Operation:
    args = ", ".join(f"%{k} : tensor<{type}>" for k, type in enumerate(types))
    (func,) = parse(f"func.func @f({args}) {{\n{text}\nfunc.return }}").ops
    return [op for op in func.regions[0].block.ops if op.results][-1]


def _formats(options: Options, op: Operation, *texts: str) -> set[Format]:
    """The Formats of results among the options, where all tensors of the rank are offered in `texts`."""
    given = [Format.of(text) for text in texts]
    target = target_named("blocked8")
    found = list(options(op, lambda value: given, target))
    assert all(option.cost >= 0 for option in found)
    return {option.outs[0] for option in found}


B8, ROWS = "(a, b) : [b, a, b:8]", "(a, b) : [a, b]"


def _concat(first: int, second: int) -> Operation:
    types = [f"4x{n}xf32" for n in (first, second, first + second)]
    return _op(
        f"%r = tensor.concat dim(1) %0, %1 : (tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<{types[2]}>",
        *types[:2],
    )


def test_parts_that_end_with_whole_blocks_are_joined_in_blocks():
    assert _formats(concat_options, _concat(16, 5), B8) == {Format.of(ROWS), Format.of(B8)}


def test_negative_a_part_that_ends_within_a_block_is_not():
    assert _formats(concat_options, _concat(5, 16), B8) == {Format.of(ROWS)}


def _slice(offset: int, size: int, step: int = 1) -> Operation:
    return _op(
        f"%r = tensor.extract_slice %0[0, {offset}] [4, {size}] [1, {step}] : tensor<4x40xf32> to tensor<4x{size}xf32>",
        "4x40xf32",
    )


@pytest.mark.parametrize(("offset", "size"), [(0, 8), (8, 16), (24, 16), (0, 40)])
def test_slices_of_whole_blocks_are_cut_in_blocks(offset: int, size: int):
    assert Format.of(B8) in _formats(cut_options, _slice(offset, size), B8)


@pytest.mark.parametrize(("offset", "size", "step"), [(4, 8, 1), (0, 12, 1), (0, 8, 2)])
def test_negative_slices_within_blocks_are_not(offset: int, size: int, step: int):
    assert _formats(cut_options, _slice(offset, size, step), B8) == {Format.of(ROWS)}


def test_a_reshape_runs_where_the_algebra_has_an_image_and_costs_nothing():
    text = "%r = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>"
    op = _op(text, "2x3x4xf32")
    target = target_named("blocked8")
    for fmt in map(Format.of, ("(a, b, c) : [a, b, c]", "(a, b, c) : [c, a, b]", "(a, b, c) : [b, a, c]")):
        candidates: Candidates = lambda value, fmt=fmt: (fmt,) if value is op.operands[0] else ()  # noqa: E731
        options = list(reshape_options(op, candidates, target))
        assert all(option.cost == 0 for option in options)
        for option in options:
            source, result = option.ins[0], option.outs[0]
            assert source is not None
            here, there = source.bind((2, 3, 4)), result.bind((6, 4))
            assert all(
                here.address((a, b, c)) == there.address((3 * a + b, c))
                for a in range(2) for b in range(3) for c in range(4)
            )  # fmt: skip
    # Three rows in blocks of two, one behind the other with a gap, are no digits of one dim.
    blocked = Format.of("(a, b, c) : [a, b, c, b:2]")
    assert blocked not in {o.ins[0] for o in reshape_options(op, lambda value: (blocked,), target)}


def test_a_dim_of_one_element_has_its_pads_in_the_buffer_of_the_operand():
    text = "%r = tensor.expand_shape %0 [[0], [1, 2]] output_shape [5, 1, 3] : tensor<5x3xf32> into tensor<5x1x3xf32>"
    op = _op(text, "5x3xf32")
    (option,) = _options_for_result(op, "(a, b, c) : [a, b, c, c:4]")
    source = option.ins[0]
    assert source is not None and source.bind((5, 3)).extent == option.outs[0].bind((5, 1, 3)).extent == 20


@pytest.mark.parametrize("fmt", ["(a, b, c) : [a, b, c, b:2, c:4]", "(a, b, c) : [a, c, b, b:8]"])
def test_negative_pads_of_a_dim_that_the_operand_has_not_are_in_no_buffer(fmt: str):
    text = "%r = tensor.expand_shape %0 [[0], [1, 2]] output_shape [5, 1, 3] : tensor<5x3xf32> into tensor<5x1x3xf32>"
    assert not _options_for_result(_op(text, "5x3xf32"), fmt)


def _options_for_result(op: Operation, fmt: str) -> list[LayoutOption]:
    """The options of a reshape whose result may be in `fmt`, and its operand in what follows from it."""
    wanted = Format.of(fmt)
    found = reshape_options(
        op, lambda value: (wanted,) if value is op.results[0] else (), target_named("blocked8")
    )
    return [option for option in found if option.outs[0] == wanted]


def test_what_makes_a_tensor_makes_it_in_any_format_that_fits():
    op = _op("%r = tensor.empty() : tensor<4x16xf32>")
    assert _formats(maker_options, op, B8, "(a, b, c) : [a, b, c]") == {Format.of(ROWS), Format.of(B8)}


@pytest.mark.parametrize(
    ("source", "result", "held"),
    [
        ("17x4xf32, #layout.format<(a, b) : [a, b, a:8], pad = 3>", "17x2x2xf32", 3.0),
        ("17x4xf32, #layout.format<(a, b) : [a, b, a:8], pad = undef>", "17x2x2xf32", None),
    ],
)
def test_a_view_shows_the_pads_there_are(source: str, result: str, held: float | None):
    op = _op(
        f"%r = tensor.expand_shape %0 [[0], [1, 2]] output_shape [17, 2, 2] : tensor<{source}> into tensor<{result}>",
        source,
    )
    assert keeps_view(op) == held
