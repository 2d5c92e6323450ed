"""A physical tensor is the buffer of its layout, and the steps of a reorder are that reorder."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy
from layout_ir.algebra.physical import (
    PadStep,
    ReshapeStep,
    SliceStep,
    TransposeStep,
    evaluate,
    pad_boxes,
    physical_tensor,
    reorder_steps,
)
from layout_ir.errors import LayoutError
from tests.layouts import random_format, random_shape, rngs

PADS: dict[PadPolicy, int] = {"zero": -1, "zp": -2, 31: -3, -0.5: -4, math.inf: -5}
"""What pads of each policy hold here: numbers that no element is."""


def _buffer(layout: Layout) -> NDArray[np.int64]:
    """A buffer whose elements are numbered in logical order; pads without a promise hold rubbish."""
    buffer = np.full(layout.extent, PADS.get(layout.pad, -99), np.int64)
    buffer[layout.addresses()] = np.arange(layout.nelems).reshape(layout.shape)
    return buffer


def _check(src: Layout, dst: Layout) -> None:
    """The steps, evaluated, against the definition of a reorder by the addresses of both layouts."""
    source, destination = physical_tensor(src), physical_tensor(dst)
    steps = reorder_steps(source, destination)
    got = evaluate(steps, _buffer(src).reshape(source.shape), PADS.get(dst.pad, -98))
    assert got.shape == destination.shape
    want = _buffer(dst)
    seen = dst.addresses(padded=dst.pad != "undef")
    np.testing.assert_array_equal(got.reshape(-1)[seen], want[seen], err_msg=f"{src} -> {dst}: {steps}")
    _check_economy(steps, source.shape)


def _check_economy(steps: list[Any], shape: tuple[int, ...]) -> None:
    """No step is the identity, and no two in a row are one."""
    array = np.zeros(shape, np.int8)
    for before, after in itertools.pairwise(steps):
        assert type(before) is not type(after), steps
    for step in steps:
        if isinstance(step, TransposeStep):
            assert step.perm != tuple(range(len(step.perm)))
        if isinstance(step, ReshapeStep | SliceStep):
            assert array.shape != (step.shape if isinstance(step, ReshapeStep) else step.sizes)
        array = evaluate([step], array, 0)


# --- Physical tensors ---


@pytest.mark.parametrize(
    ("tag", "shape"),
    [
        ("nchw", (2, 17, 5, 4)),
        ("nhwc", (2, 5, 4, 17)),
        ("nChw8c", (2, 3, 5, 4, 8)),
        ("NChw4n8c", (1, 3, 5, 4, 4, 8)),
        ("chwn", (17, 5, 4, 2)),
    ],
)
def test_a_physical_tensor_has_a_dim_per_factor(tag: str, shape: tuple[int, ...]):
    assert physical_tensor(Format.from_tag(tag).bind((2, 17, 5, 4))).shape == shape


@settings(max_examples=200)
@given(rngs)
def test_the_elements_of_a_physical_tensor_are_the_buffer(rng: Random):
    rank = rng.randint(0, 4)
    layout = random_format(rng, rank, halo=True, chunked=True).bind(random_shape(rng, rank, 500))
    tensor = physical_tensor(layout)
    places = np.arange(math.prod(tensor.shape)).reshape(tensor.shape)
    for index in itertools.islice(np.ndindex(*layout.shape), 50):
        at = [(index[d.dim] + tensor.lo[d.dim]) // d.unit % d.count for d in tensor.dims]
        assert places[tuple(at)] == layout.address(index)


@settings(max_examples=200)
@given(rngs)
def test_boxes_of_pads_are_the_pads_and_nothing_else(rng: Random):
    rank = rng.randint(0, 4)
    layout = random_format(rng, rank, halo=True, chunked=True).bind(random_shape(rng, rank, 500))
    tensor = physical_tensor(layout)
    is_pad = np.ones(tensor.shape, bool)
    for index in np.ndindex(*layout.shape):
        is_pad[tuple((index[d.dim] + tensor.lo[d.dim]) // d.unit % d.count for d in tensor.dims)] = False
    found = np.zeros(tensor.shape, bool)
    boxes = pad_boxes(tensor)
    for starts, sizes in boxes:
        assert all(size > 0 for size in sizes)
        found[tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))] = True
    np.testing.assert_array_equal(found, is_pad)
    assert len(boxes) <= 2 * len(tensor.dims)


def test_strides_in_another_order_are_the_order_of_the_dims():
    layout = Format.parse("(a, b) : [a*1, b*5]").bind((5, 3))
    assert physical_tensor(layout).shape == (3, 5)
    _check(layout, Format.parse("(a, b) : [a, b]").bind((5, 3)))


@pytest.mark.parametrize(
    ("format", "reason"),
    [
        ("(a, b) : [a*16, b]", "does not fill its addresses"),
        ("(a, b) : [a, b], offset = 4", "does not fill its addresses"),
        ("(a, b) : [a, b], size = 400", "400 elements, 48 of which are used"),
        ("(a, b) : [a, b], swizzle = (2, 0, 2)", "swizzle"),
        ("(a, b) : [a@lane, b]", "lies on lane"),
    ],
)
def test_negative_what_has_no_physical_tensor_says_why(format: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        physical_tensor(Format.parse(format).bind((6, 8)))


# --- Reorders ---


def _steps(src: str, dst: str, shape: tuple[int, ...]) -> list[str]:
    layouts = (physical_tensor(Format.from_tag(tag).bind(shape)) for tag in (src, dst))
    return [type(step).__name__.removesuffix("Step") for step in reorder_steps(*layouts)]


@pytest.mark.parametrize(
    ("src", "dst", "steps"),
    [
        ("nchw", "nchw", []),
        ("nchw", "nhwc", ["Transpose"]),
        ("nchw", "nChw8c", ["Pad", "Reshape", "Transpose"]),
        ("nhwc", "nChw8c", ["Pad", "Reshape", "Transpose"]),
        ("nChw8c", "nhwc", ["Transpose", "Reshape", "Slice"]),
        ("nChw8c", "nChw16c", ["Pad", "Reshape", "Transpose", "Reshape"]),
        ("nChw16c", "nChw8c", ["Reshape", "Transpose", "Reshape", "Slice"]),
        ("nChw8c", "nChw12c", ["Transpose", "Reshape", "Transpose"]),
        ("nChw8c", "nChw5c", ["Transpose", "Reshape", "Slice", "Reshape", "Transpose"]),
    ],
)
def test_steps_are_as_few_as_can_be(src: str, dst: str, steps: list[str]):
    assert _steps(src, dst, (2, 17, 5, 4)) == steps


def test_moving_dims_of_one_element_is_a_reshape():
    assert _steps("nchw", "nhwc", (1, 17, 1, 1)) == ["Reshape"]
    assert _steps("nchw", "nhwc", (1, 17, 1, 4)) == ["Transpose"]


def test_negative_pads_of_another_policy_are_written_anew():
    zero, one = (Format.parse(f"(a) : [a, a:8], pad = {pad}").bind((17,)) for pad in ("zero", "1"))
    steps = reorder_steps(physical_tensor(zero), physical_tensor(one))
    assert any(isinstance(step, PadStep) and step.pad == 1 for step in steps)
    assert not reorder_steps(physical_tensor(zero), physical_tensor(zero))


def _all_formats(rank: int) -> list[Format]:
    """Every order of the dims, alone and with every one or two blocks of 2, 3 or 4 behind it."""
    letters = "ab"[:rank]
    tags = ["".join(order) for order in itertools.permutations(letters)]
    for order in itertools.permutations(letters):
        for count in (1, 2):
            for blocks in itertools.product(itertools.product((2, 3, 4), letters), repeat=count):
                blocked = {letter for _, letter in blocks}
                outer = "".join(x.upper() if x in blocked else x for x in order)
                tags.append(outer + "".join(f"{size}{letter}" for size, letter in blocks))
    return [Format.from_tag(tag) for tag in tags]


@pytest.mark.parametrize("shape", [(1,), (5,), (12,)], ids=str)
def test_every_reorder_of_a_small_vector(shape: tuple[int, ...]):
    for src, dst in itertools.product(_all_formats(1), repeat=2):
        _check(src.bind(shape), dst.bind(shape))


@pytest.mark.parametrize("shape", [(1, 5), (4, 3), (7, 2), (0, 3)], ids=str)
def test_every_reorder_of_a_small_matrix(shape: tuple[int, ...]):
    rng, formats = Random(str(shape)), _all_formats(2)
    for src in formats:
        for dst in rng.sample(formats, 12):
            _check(src.bind(shape), dst.bind(shape))


@settings(max_examples=400)
@given(rngs)
def test_the_steps_of_any_reorder_are_that_reorder(rng: Random):
    rank = rng.randint(0, 4)
    shape = random_shape(rng, rank, 500)
    src, dst = (random_format(rng, rank, halo=True, chunked=True).bind(shape) for _ in range(2))
    _check(src, dst)


def test_negative_shapes_that_differ():
    layouts = (physical_tensor(Format.row_major("ab").bind(shape)) for shape in ((2, 3), (3, 2)))
    with pytest.raises(LayoutError, match="source has 2x3, destination 3x2"):
        reorder_steps(*layouts)
