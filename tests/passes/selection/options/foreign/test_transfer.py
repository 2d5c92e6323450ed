"""A Format seen through loops keeps the order and the blocks of the loops that both tensors have."""

from __future__ import annotations

import itertools

import pytest
from xdsl.ir.affine import AffineExpr

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options.foreign.transfer import transfer

A, B, C = map(AffineExpr.dimension, range(3))
ZERO = AffineExpr.constant(0)
NOTHING: frozenset[int] = frozenset()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("text", ["[a, b, c]", "[c, a, b]", "[a, b, c, b:4]", "[b, a, c, c:2, b:4]"])
def test_a_transposed_map_gives_the_format_with_the_same_addresses(text: str, order: tuple[int, ...]):
    """Dim k of the target is dim order[k] of the source: the same element has the same address."""
    fmt, shape = Format.of(f"(a, b, c) : {text}"), (3, 8, 4)
    loops = (A, B, C)
    image = transfer(fmt, loops, tuple(loops[d] for d in order), NOTHING, ("x", "y", "z"), shape)
    assert image is not None and image.names == ("x", "y", "z")
    here, there = fmt.bind(shape), image.bind(tuple(shape[d] for d in order))
    for index in itertools.product(*map(range, shape)):
        assert there.address([index[d] for d in order]) == here.address(index)


@pytest.mark.parametrize("text", ["[a, b, c]", "[c, a, b]", "[a, b, c, c:2, b:4]"])
def test_a_map_that_lacks_a_loop_leaves_its_factors_out(text: str):
    """Along a broadcast, what is left lies in the order in which it lay, with the strides of a dense tensor."""
    fmt = Format.of(f"(a, b, c) : {text}")
    image = transfer(fmt, (A, B, C), (A, C), NOTHING, ("a", "c"), (3, 4))
    assert image is not None
    here, there = fmt.bind((3, 8, 4)), image.bind((3, 4))
    indices = list(itertools.product(range(3), range(4)))
    by_source = sorted(indices, key=lambda index: here.address((index[0], 0, index[1])))
    assert [there.address(index) for index in by_source] == list(range(12))


def test_the_loop_only_the_target_has_stands_where_the_one_it_lacks_stood():
    """The result of a product lies as its left operand does: n where k was."""
    left, out = (A, C), (A, B)
    fmt = transfer(Format.of("(m, k) : [k, m, k:8]"), left, out, frozenset({2}), ("m", "n"), (4, 8))
    assert fmt == Format.of("(m, n) : [n, m, n:8]")


def test_negative_a_dim_of_less_than_a_block_is_not_laid_in_blocks_of_the_one_it_replaces():
    left, out = (A, C), (A, B)
    blocked = Format.of("(m, k) : [k, m, k:8]")
    fmt = transfer(blocked, left, out, frozenset({2}), ("m", "n"), (4, 7))
    assert fmt == Format.of("(m, n) : [n, m]")
    # A loop of both keeps its blocks, as an image of three channels does.
    assert transfer(blocked, left, left, NOTHING, ("m", "k"), (4, 3)) == blocked


def test_dims_that_only_the_target_has_go_outermost():
    assert transfer(Format.of("(a) : [a, a:4]"), (B,), (A, B), NOTHING, ("a", "b"), (2, 8)) == Format.of(
        "(a, b) : [a, b, b:4]"
    )


def test_a_window_is_known_by_its_parallel_loop():
    """As of the image of a convolution: h + kh is h, whichever of the two loops comes first."""
    for start, offset in ((B, C), (C, B)):
        reductions = frozenset({1 if offset is B else 2})
        image = transfer(Format.of("(c, h) : [h, c]"), (A, B + C), (A, start), reductions, ("c", "h"), (3, 5))
        assert image == Format.of("(c, h) : [h, c]")
    both = transfer(
        Format.of("(c, h) : [h, c]"), (A, B + C), (A, B, C), frozenset({1}), ("c", "k", "h"), (3, 2, 5)
    )
    assert both == Format.of("(c, k, h) : [k, h, c]")


def test_negative_a_fixed_dim_takes_nobodys_place():
    image = transfer(Format.of("(a, b) : [a, b]"), (A, B), (A, ZERO), NOTHING, ("a", "b"), (3, 1))
    assert image == Format.of("(a, b) : [b, a]")


def test_pads_keep_what_they_hold():
    image = transfer(Format.of("(a, b) : [a, b, b:4], pad = 3"), (A, B), (B, A), NOTHING, ("a", "b"), (8, 3))
    assert image == Format.of("(a, b) : [b, a, a:4], pad = 3")
