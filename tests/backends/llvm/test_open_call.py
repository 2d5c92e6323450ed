"""Kernels for open extents, called with many shapes, against the definition of a layout."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any, cast

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.call import plan_reorder
from layout_ir.backends.llvm.dynamic import open_reorder
from layout_ir.backends.llvm.machine import host
from layout_ir.backends.llvm.machines import machine_named
from layout_ir.backends.llvm.open_call import OpenKernel, compile_open
from layout_ir.backends.llvm.symbols import Open
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.reordering import physical_shape
from tests.backends.llvm.cases import WIDTHS, Case, buffers, expected

N = None
_EXTENTS = (0, 1, 1, 2, 3, 5, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100, 130)
_KERNELS = [
    ("nchw", "nhwc", (N, N, N, N)),
    ("nhwc", "nchw", (N, N, N, N)),
    ("nchw", "nChw8c", (N, N, N, N)),
    ("nchw", "nChw8c", (N, 64, N, N)),
    ("nChw8c", "nchw", (N, N, N, N)),
    ("nChw16c", "nhwc", (2, N, N, N)),
    ("nChw8c", "nChw16c", (N, N, N, N)),
    ("nChw16c", "nChw8c", (N, N, 3, N)),
    ("nchw", "nhwc", (N, 3, N, N)),
    ("nhwc", "nchw", (N, 3, N, N)),
    ("ab", "ba", (N, N)),
    ("ab", "ba", (N, 48)),
    ("abc", "acb", (N, N, N)),
    ("abcd", "dcba", (N, 7, N, N)),
    ("nchw", "nchw", (N, N, N, N)),
    ("oihw", "OIhw8i8o", (N, N, 3, 3)),
    ("oihw", "OIhw8i8o", (N, N, N, N)),
    ("nhwc", "(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = zp", (N, N, N, N)),
    ("(n, c) : [n, c, c:12], pad = 5", "(n, c) : [n, c, c:8], pad = 7", (N, N)),
    ("(n, c) : [n*4000, c]", "(n, c) : [c, n, n:4], offset = 9", (N, N)),
]


def _shape(rng: Random, shape: tuple[int | None, ...]) -> tuple[int, ...]:
    while True:
        found = tuple(rng.choice(_EXTENTS) if x is None else x for x in shape)
        if np.prod(found) <= 300_000 and (0 not in found or rng.random() < 0.1):
            return found


def _check(kernel: OpenKernel, rng: Random, shape: tuple[int, ...]) -> None:
    reorder = kernel.reorder
    case = Case(reorder.src.bind(shape), reorder.dst.bind(shape), reorder.dtype)
    src, dst, src_at, dst_at = buffers(rng, case)
    before, wanted = src.copy(), expected(case, src, dst, src_at, dst_at)
    sides: list[np.ndarray] = []
    for data, at, layout in ((src, src_at, case.src), (dst, dst_at, case.dst)):
        size = layout.extent * reorder.width
        sides.append(
            np.frombuffer(data.data, f"V{reorder.width}", layout.extent, at) if size else data[:0].view("V1")
        )
    if 0 in shape:
        return
    kernel(*sides, shape=shape)
    assert np.array_equal(src, before), f"the source changed: {case}\n{kernel.plan_for(shape)}"
    wrong = np.flatnonzero(dst != wanted)[:20] - dst_at
    assert not len(wrong), f"{case}\n{kernel.plan_for(shape)}\nbytes {wrong}"


@pytest.mark.parametrize("number", range(len(_KERNELS)))
@pytest.mark.parametrize("wide", [False, True])
def test_one_kernel_serves_many_shapes(number: int, wide: bool):
    source, destination, shape = _KERNELS[number]
    dtype = (("i8", "f16"), ("f32", "f64"))[wide][number % 2]
    rng = Random(number * 10 + WIDTHS[dtype])
    # Small caches, so that streaming takes part.
    machine = replace(host(), l2=64 << 10, l3=128 << 10)
    formats = Format.of(source), Format.of(destination)
    kernel = compile_open(*formats, shape, dtype, threads=rng.choice((1, 2)), target=machine)
    for _ in range(60 if number < 15 else 20):
        _check(kernel, rng, _shape(rng, shape))
    assert len(kernel.plans) <= 33


def test_shapes_that_are_alike_share_a_plan():
    kernel = compile_open(Format.of("nchw"), Format.of("nChw8c"), (N, N, N, N))
    assert kernel.plan_for((2, 64, 56, 56)) is kernel.plan_for((3, 128, 30, 30))
    assert kernel.plan_for((2, 64, 56, 56)) is not kernel.plan_for((2, 65, 56, 56))
    assert kernel.plan_for((2, 65, 56, 56)) is kernel.plan_for((4, 33, 60, 61))
    assert kernel.plan_for((1, 1, 1, 1)) is kernel.plans[-1]
    before = kernel.plans
    kernel.plan_for((2, 96, 40, 44))
    assert kernel.plans == before


@pytest.mark.parametrize(
    "source, destination, shape, like",
    [
        ("nchw", "nhwc", (N, N, N, N), (20, 64, 56, 56)),
        ("nchw", "nhwc", (N, N, N, N), (96, 64, 56, 56)),
        ("nhwc", "nchw", (N, N, N, N), (96, 64, 56, 56)),
        ("nchw", "nChw8c", (N, 64, N, N), (96, 64, 56, 56)),
        ("nchw", "nChw8c", (N, N, N, N), (40, 17, 56, 56)),
        ("nChw8c", "nchw", (N, N, N, N), (10, 64, 56, 56)),
        ("ab", "ba", (N, N), (4096, 4096)),
        ("nchw", "nhwc", (N, 3, N, N), (128, 3, 224, 224)),
    ],
)
def test_the_plan_is_that_of_known_extents(
    source: str, destination: str, shape: tuple[int | None, ...], like: tuple[int, ...]
):
    """The same kernels, tiles, schedules and stores; only numbers are formulas, and these have the right values."""
    src, dst = Format.of(source), Format.of(destination)
    machine = machine_named("x86-64-v3")
    opened = open_reorder(src, dst, shape, "f32", machine).like(like).plan
    known = plan_reorder(src.bind(like), dst.bind(like), "f32", target=machine)
    assert _closed(opened) == known


def _closed(value: Any) -> Any:
    """`value` with every open number replaced by what it is in the example."""
    if isinstance(value, Open):
        return value.value
    if isinstance(value, tuple):
        return tuple(_closed(x) for x in cast("tuple[Any, ...]", value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{x.name: _closed(getattr(value, x.name)) for x in fields(value)})
    return value


def test_arrays_tell_their_extents():
    source = li.TensorDesc((N, N, N, N), "f32", "nchw")
    destination = li.TensorDesc((N, N, N, N), "f32", "nChw8c")
    kernel = li.compile_reorder(source, destination)
    for shape in ((2, 17, 5, 4), (3, 64, 9, 9), (1, 1, 1, 1)):
        x = np.random.default_rng(1).random(shape, np.float32)
        y = np.full(physical_shape(destination.format.bind(shape)), np.nan, np.float32)  # type: ignore[union-attr]
        kernel(x, y)
        assert np.array_equal(y, li.reorder(x, "nchw", "nChw8c"))


def test_an_extent_that_one_side_knows_is_known():
    kernel = li.compile_reorder(
        li.TensorDesc((N, 3, N, N), "f32", "nchw"), li.TensorDesc((N, N, N, N), "f32", "nhwc")
    )
    assert isinstance(kernel, OpenKernel)
    assert kernel.reorder.shape == (N, 3, N, N)
    known = li.compile_reorder(li.TensorDesc((2, N), "f32", "ab"), li.TensorDesc((N, 3), "f32", "ba"))
    assert not isinstance(known, OpenKernel)


@pytest.mark.parametrize(
    "source, destination, shape, message",
    [
        ((2, 3, 4, 5), (2, 4, 5, 4), None, "the destination has shape (2, 4, 5, 4), a tensor of 2x3x4x5 in"),
        ((2, 3, 4), (2, 4, 5, 3), None, "the source has 3 axes"),
        ((120,), (120,), (2, 3, 4, 5, 1), "a kernel for shapes ?x?x?x? was given 2x3x4x5x1"),
        ((119,), (120,), (2, 3, 4, 5), "the source has 119 elements, its layout needs 120"),
        ((120,), (120,), (2, 3, 4, -5), "is negative"),
        ((120,), (120,), (1 << 20, 1 << 20, 1 << 20, 1 << 20), "not below 2^63"),
    ],
)
def test_negative_arrays_that_do_not_fit(
    source: tuple[int, ...], destination: tuple[int, ...], shape: tuple[int, ...] | None, message: str
):
    kernel = compile_open(Format.of("nchw"), Format.of("nhwc"), (N, N, N, N))
    with pytest.raises(LayoutError) as found:
        kernel(np.zeros(source, np.float32), np.zeros(destination, np.float32), shape)
    assert message in str(found.value)


def test_negative_buffers_that_are_refused():
    kernel = compile_open(Format.of("ab"), Format.of("ba"), (N, N))
    x, y = np.zeros((4, 6), np.float32), np.zeros((6, 4), np.float32)
    with pytest.raises(LayoutError, match="elements of 8 bytes, the kernel moves 4"):
        kernel(x.astype(np.float64), y)
    with pytest.raises(LayoutError, match="not contiguous"):
        kernel(np.zeros((6, 4), np.float32).T, y)
    with pytest.raises(LayoutError, match="overlap"):
        kernel(x, x.reshape(6, 4))
    with pytest.raises(LayoutError, match="a list, not a NumPy array"):
        kernel([[0.0] * 6] * 4, y)
    y.flags.writeable = False
    with pytest.raises(LayoutError, match="read-only"):
        kernel(x, y)


def test_negative_what_cannot_be_told_or_compiled():
    kernel = compile_open(Format.of("nChw8c"), Format.of("nChw16c"), (N, N, N, N))
    with pytest.raises(LayoutError, match="'c' is blocked on both sides"):
        kernel(np.zeros((1, 2, 3, 3, 8), np.float32), np.zeros((1, 1, 3, 3, 16), np.float32))
    with pytest.raises(LayoutError, match="keeps the shape"):
        li.compile_reorder(li.TensorDesc((N, 3), "f32", "ab"), li.TensorDesc((N, 4), "f32", "ba"))
    with pytest.raises(LayoutError, match="open strides cannot be compiled"):
        li.compile_reorder(li.TensorDesc((N, 3), "f32", strides=(N, 1)), li.TensorDesc((N, 3), "f32", "ba"))
    with pytest.raises(LayoutError, match="elements of 4 bits"):
        compile_open(Format.of("ab"), Format.of("ba"), (N, N), "i4")
    with pytest.raises(LayoutError, match="does not run on this"):
        compile_open(Format.of("ab"), Format.of("ba"), (N, N), target="riscv64")
