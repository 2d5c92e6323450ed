"""Kernels for dynamic shapes, called with many shapes, against the definition of a layout."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.api.reordering import physical_shape
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.machine.profile import built_in_profile
from layout_ir.backends.llvm.planning.dynamic_shapes import dynamic_reorder
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.backends.llvm.runtime.dynamic_call import DynamicKernel, compile_dynamic
from layout_ir.elements.quantization import Conversion, conversion_between
from layout_ir.errors import LayoutError
from layout_ir.symbolic.symint import with_hints
from tests.backends.llvm import cases
from tests.backends.llvm.cases import WIDTHS, buffers, expected
from tests.fuzz.dynamic_reorders import At, run
from tests.fuzz.reorders import PAIRS, Case, check
from tests.seeds import seeds

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
    ("(n, c) : [c, n, c:6]", "(n, c) : [c, n, c:4]", (900, N)),
]


def _shape(rng: Random, shape: tuple[int | None, ...]) -> tuple[int, ...]:
    while True:
        found = tuple(rng.choice(_EXTENTS) if x is None else x for x in shape)
        if np.prod(found) <= 300_000 and (0 not in found or rng.random() < 0.1):
            return found


def _check(kernel: DynamicKernel, rng: Random, shape: tuple[int, ...]) -> None:
    reorder = kernel.reorder
    case = cases.Case(reorder.src.bind(shape), reorder.dst.bind(shape), reorder.dtypes[0])
    width = WIDTHS[reorder.dtypes[0]]
    src, dst, src_at, dst_at = buffers(rng, case)
    before, wanted = src.copy(), expected(case, src, dst, src_at, dst_at)
    sides: list[np.ndarray] = []
    for data, at, layout in ((src, src_at, case.src), (dst, dst_at, case.dst)):
        size = layout.extent * width
        sides.append(
            np.frombuffer(data.data, f"V{width}", layout.extent, at) if size else data[:0].view("V1")
        )
    if 0 in shape:
        return
    kernel(*sides, shape=shape)
    assert np.array_equal(src, before), f"the source changed: {case}\n{kernel.plan_for(shape)}"
    wrong = np.flatnonzero(dst != wanted)[:20] - dst_at
    assert not len(wrong), f"{case}\n{kernel.plan_for(shape)}\nbytes {wrong}"


@pytest.mark.parametrize("number", range(len(_KERNELS)))
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("part", seeds(1, 3))
def test_one_kernel_serves_many_shapes(number: int, wide: bool, part: int):
    source, destination, shape = _KERNELS[number]
    dtype = (("i8", "f16"), ("f32", "f64"))[wide][number % 2]
    rng = Random(number * 10 + WIDTHS[dtype] + 1000 * part)
    # Small caches, so that streaming takes part.
    machine = replace(host(), l2=64 << 10, l3=128 << 10)
    formats = Format.of(source), Format.of(destination)
    kernel = compile_dynamic(*formats, shape, dtype, threads=rng.choice((1, 2)), target=machine)
    for _ in range(20 if number < 15 else 8):
        _check(kernel, rng, _shape(rng, shape))
    assert len(kernel.plans) <= 33


def test_shapes_that_are_alike_share_a_plan():
    # Volumes that this profile keeps in the caches, whatever is known of the machine at hand.
    machine = replace(host(), measured=built_in_profile(1 << 20, 32 << 20))
    kernel = compile_dynamic(Format.of("nchw"), Format.of("nChw8c"), (N, N, N, N), target=machine)
    assert kernel.plan_for((2, 64, 56, 56)) is kernel.plan_for((3, 128, 30, 30))
    assert kernel.plan_for((2, 64, 56, 56)) is not kernel.plan_for((2, 65, 56, 56))
    assert kernel.plan_for((2, 65, 56, 56)) is kernel.plan_for((4, 33, 60, 61))
    assert kernel.plan_for((1, 1, 1, 1)) is kernel.plans[-1]
    before = kernel.plans
    kernel.plan_for((2, 96, 40, 44))
    assert kernel.plans == before


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_shapes_that_the_second_level_holds_share_a_plan(cpu: str):
    reorder = dynamic_reorder(Format.of("nchw"), Format.of("nhwc"), (N, 64, N, N), "f32", machine_named(cpu))
    plan = reorder.specialize((1, 64, 14, 14))
    assert all(plan.serves((n, 64, h, h + 1)) for n in (1, 2) for h in (5, 7, 14, 16, 20))
    assert not plan.serves((1, 64, 3, 3))


@pytest.mark.parametrize(
    "source, destination, shape, like",
    [
        ("nchw", "nhwc", (N, N, N, N), (10, 64, 56, 56)),
        ("nchw", "nhwc", (N, N, N, N), (96, 64, 56, 56)),
        ("nhwc", "nchw", (N, N, N, N), (96, 64, 56, 56)),
        ("nchw", "nChw8c", (N, 64, N, N), (96, 64, 56, 56)),
        ("nchw", "nChw8c", (N, N, N, N), (40, 17, 56, 56)),
        ("nChw8c", "nchw", (N, N, N, N), (10, 64, 56, 56)),
        ("ab", "ba", (N, N), (4160, 4160)),
        ("nchw", "nhwc", (N, 3, N, N), (128, 3, 224, 224)),
    ],
)
def test_the_plan_is_that_of_known_extents(
    source: str, destination: str, shape: tuple[int | None, ...], like: tuple[int, ...]
):
    """The same kernels, tiles, schedules and stores; only numbers are formulas, and these have the right values."""
    src, dst = Format.of(source), Format.of(destination)
    machine = machine_named("x86-64-v3")
    opened = dynamic_reorder(src, dst, shape, "f32", machine).specialize(like).plan
    known = plan_reorder(src.bind(like), dst.bind(like), "f32", target=machine)
    assert with_hints(opened) == known


def test_negative_an_order_that_only_its_cost_speaks_for_is_not_that_of_open_extents():
    """A cost is no guard: open extents follow the rules alone, which move the same."""
    src, dst, machine = Format.of("ab"), Format.of("ba"), machine_named("x86-64-v3")
    opened = dynamic_reorder(src, dst, (N, N), "f32", machine).specialize((4096, 4096)).plan
    known = plan_reorder(src.bind((4096, 4096)), dst.bind((4096, 4096)), "f32", target=machine)
    assert with_hints(opened) != known
    assert all(step.kernel.streaming for plan in (opened, known) for step in plan.steps)


def test_threads_share_what_there_is_more_of_than_of_batches():
    conversions = None, Conversion("f32", "i8")
    for conversion in conversions:
        kernel = compile_dynamic(Format.of("nchw"), Format.of("nhwc"), (N, N, N, N), conversion=conversion)
        (step,) = kernel.plan_for((1, 64, 112, 112)).plan.steps
        assert step.parallel == len(step.loops) == 1


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
    assert isinstance(kernel, DynamicKernel)
    assert kernel.reorder.shape == (N, 3, N, N)
    known = li.compile_reorder(li.TensorDesc((2, N), "f32", "ab"), li.TensorDesc((N, 3), "f32", "ba"))
    assert not isinstance(known, DynamicKernel)


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
    kernel = compile_dynamic(Format.of("nchw"), Format.of("nhwc"), (N, N, N, N))
    with pytest.raises(LayoutError) as found:
        kernel(np.zeros(source, np.float32), np.zeros(destination, np.float32), shape)
    assert message in str(found.value)


def test_negative_buffers_that_are_refused():
    kernel = compile_dynamic(Format.of("ab"), Format.of("ba"), (N, N))
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


_BELOW = [
    ("ab", "(a, b) : [a*3, b*-1]", (N, 3), (4, 3), "destination", 2),
    ("ab", "(a, b) : [b*-4, a]", (3, N), (3, 5), "destination", 16),
    ("(a, b) : [a*-16, b]", "ab", (N, 3), (4, 3), "source", 48),
    ("ab", "(a, b) : [b*-4, a], offset = 12, pad = zero", (3, N), (3, 5), "destination", 4),
    ("(a, b) : [a*-64, b], offset = 1000", "ab", (N, 64), (40, 64), "source", 1496),
]


@pytest.mark.parametrize("source, destination, shape, like, side, below", _BELOW)
@pytest.mark.parametrize("dst_dtype", ["f32", "i8"])
def test_negative_shapes_that_reach_below_the_buffer(
    source: str,
    destination: str,
    shape: tuple[int | None, ...],
    like: tuple[int, ...],
    side: str,
    below: int,
    dst_dtype: str,
):
    conversion = Conversion("f32", dst_dtype)
    kernel = compile_dynamic(Format.of(source), Format.of(destination), shape, conversion=conversion)
    room = [np.full(10_000, 7, np.float32), np.full(10_000, 7, np.float32 if dst_dtype == "f32" else np.int8)]
    x, y = (data[4000:] for data in room)
    with pytest.raises(LayoutError, match=f"the {side} .* begins {below} elements below address 0"):
        kernel(x, y, shape=like)
    assert all((data == 7).all() for data in room)


@pytest.mark.parametrize(
    "source, destination, shape, good",
    [
        ("ab", "(a, b) : [b*-4, a], offset = 12", (3, N), (3, 4)),
        ("(a, b) : [a*-64, b], offset = 1000", "ab", (N, 64), (16, 64)),
    ],
)
def test_negative_strides_behind_an_offset_are_served(
    source: str, destination: str, shape: tuple[int | None, ...], good: tuple[int, ...]
):
    kernel = compile_dynamic(Format.of(source), Format.of(destination), shape)
    src, dst = Format.of(source).bind(good), Format.of(destination).bind(good)
    x, y = np.arange(src.extent, dtype=np.float32), np.full(dst.extent, -1, np.float32)
    kernel(x, y, shape=good)
    wanted = np.full(dst.extent, -1, np.float32)
    for index in np.ndindex(good):
        wanted[dst.address(index)] = x[src.address(index)]
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("target", ["i32", "f32"])
@pytest.mark.parametrize("columns", [3, 2000])
def test_pads_in_front_of_few_rows(columns: int, target: str):
    """The block that begins with pads may be the one that ends with them, and an empty tensor may have pads only."""
    formats = Format.parse("(a, b) : [b, a]"), Format.parse("(a, b) : [a, b, a:4], pad = zero, lo = [1, 0]")
    conversion = Conversion("i32", target)
    for rows in (0, 1, 2, 3, 4, 7, 8, 9):
        kernel = compile_dynamic(*formats, (None, None), conversion=conversion, threads=1)
        src, dst = (format.bind((rows, columns)) for format in formats)
        for seed in range(4):
            # Between guard pages, at their ends and at their beginnings.
            case = Case(rows, src, dst, conversion, {})
            assert check(case, At(kernel, (rows, columns)), Random(seed)) is None


def test_negative_what_cannot_be_told_or_compiled():
    kernel = compile_dynamic(Format.of("nChw8c"), Format.of("nChw16c"), (N, N, N, N))
    with pytest.raises(LayoutError, match="'c' is blocked on both sides"):
        kernel(np.zeros((1, 2, 3, 3, 8), np.float32), np.zeros((1, 1, 3, 3, 16), np.float32))
    with pytest.raises(LayoutError, match="keeps the shape"):
        li.compile_reorder(li.TensorDesc((N, 3), "f32", "ab"), li.TensorDesc((N, 4), "f32", "ba"))
    with pytest.raises(LayoutError, match="dynamic strides cannot be compiled"):
        li.compile_reorder(li.TensorDesc((N, 3), "f32", strides=(N, 1)), li.TensorDesc((N, 3), "f32", "ba"))
    with pytest.raises(LayoutError, match="elements of i4 share bytes, so the arrays say no shape"):
        compile_dynamic(Format.of("ab"), Format.of("ba"), (N, N), "i4")(
            np.zeros(3, np.int8), np.zeros(3, np.int8)
        )
    with pytest.raises(LayoutError, match="does not run on this"):
        compile_dynamic(Format.of("ab"), Format.of("ba"), (N, N), target="riscv64")


# Conversions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_random_conversions_between_guard_pages(seed: int):
    """A sixth of the pairs of element types in each; `python -m tests.fuzz --only dynamic-reorders` runs more."""
    wrong = run(len(PAIRS) // 6, 200 + seed, first=seed * len(PAIRS) // 6)
    assert not wrong, wrong[0]


def test_the_plan_of_a_conversion_is_that_of_known_extents():
    # But for groups of 2 to 8 bytes, which go in two passes where all extents are known.
    conversion, machine = Conversion("f32", "i8", dst_scale=0.05, dst_zero=3.0), machine_named("x86-64-v4")
    for source, destination, like in (
        ("nchw", "nhwc", (2, 64, 56, 56)),
        ("nchw", "nhwc", (96, 64, 56, 56)),
        ("nhwc", "nchw", (20, 64, 28, 28)),
        ("nchw", "nChw16c", (20, 32, 56, 56)),
    ):
        src, dst = Format.of(source), Format.of(destination)
        opened = dynamic_reorder(src, dst, (N, N, N, N), conversion, machine).specialize(like).plan
        known = plan_reorder(src.bind(like), dst.bind(like), conversion=conversion, target=machine)
        assert with_hints(opened) == known


def test_rests_of_blocks_share_a_plan():
    kernel = compile_dynamic(
        Format.of("nchw"),
        Format.of("nChw8c"),
        (N, N, N, N),
        conversion=Conversion("f32", "i8", dst_scale=0.5),
    )
    assert len({id(kernel.plan_for((2, c, 30, 30))) for c in (17, 20, 23, 37)}) == 1


def test_descriptors_bring_their_numbers():
    source = li.TensorDesc((N, 17, N), "f32", "abc")
    destination = li.TensorDesc((N, 17, N), "ui8", "aBc8b", scale=0.5, zero_point=7, pad="zp")
    kernel = li.compile_reorder(source, destination)
    for shape in ((1, 17, 1), (3, 17, 40), (2, 17, 333), (0, 17, 5)):
        x = np.random.default_rng(1).uniform(-20, 200, shape).astype(np.float32)
        physical = physical_shape(Format.of("aBc8b").bind(shape))
        y = np.full(physical, 99, np.uint8)
        kernel(x, y)
        logical = y.transpose(0, 1, 3, 2).reshape(shape[0], 24, shape[2])
        assert np.array_equal(logical[:, :17], np.clip(np.rint(x / 0.5) + 7, 0, 255))
        assert (logical[:, 17:] == 7).all()


@pytest.mark.parametrize("shape", [(5, 3, 7, 8), (1, 3, 1, 8), (2, 3, 33, 8), (3, 3, 64, 8), (40, 3, 200, 8)])
def test_channels_of_a_known_extent_have_numbers_of_their_own(shape: tuple[int, ...]):
    conversion, _ = conversion_between("f32", "i8", scale=(None, (0.25, 0.5, 4.0)), dim=1, channels=3)
    kernel = compile_dynamic(Format.of("nchw"), Format.of("nhwc"), (N, 3, N, 8), conversion=conversion)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32) * 30
    y = np.zeros((shape[0], *shape[2:], 3), np.int8)
    kernel(x, y)
    scaled = x.transpose(0, 2, 3, 1) / np.array([0.25, 0.5, 4.0], np.float32)
    assert np.array_equal(y, np.clip(np.rint(scaled), -128, 127))


def test_pads_of_equal_quantization_hold_its_zero_point():
    source, destination = (
        li.TensorDesc((N,), "ui8", name, scale=0.5, zero_point=7, pad="zp") for name in ("a", "A8a")
    )
    x, y = np.arange(5, dtype=np.uint8), np.zeros((1, 8), np.uint8)
    li.compile_reorder(source, destination)(x, y)
    assert y.tolist() == [[0, 1, 2, 3, 4, 7, 7, 7]]


def test_elements_of_four_bits_take_a_shape():
    kernel = compile_dynamic(Format.of("ab"), Format.of("ba"), (N, N), conversion=Conversion("f32", "i4"))
    x = np.arange(-7, 8, dtype=np.float32).reshape(3, 5)
    y = np.zeros(8, np.uint8)
    kernel(x, y, (3, 5))
    halves = np.stack([y & 15, y >> 4], 1).ravel()[:15].astype(np.int8)
    assert np.array_equal(np.where(halves > 7, halves - 16, halves), x.T.ravel())
    with pytest.raises(
        LayoutError, match="elements of i4 share bytes, so the arrays say no shape: say shape="
    ):
        kernel(x, y)


def test_negative_numbers_that_calls_would_bring():
    source, destination = li.TensorDesc((N, 64, N), "f32", "abc"), li.TensorDesc((N, 64, N), "i8", "acb")
    with pytest.raises(
        LayoutError, match=r"every call would bring dst_scale along: give numbers instead of arrays"
    ):
        li.compile_reorder(source, destination, scale=np.array(0.5))
    with pytest.raises(LayoutError, match=r"every call would bring dst_scale along"):
        li.compile_reorder(source, destination, scale=[0.5] * 64, dim=1)
    with pytest.raises(
        LayoutError, match="needs the extent of dim 2, which is dynamic: give that extent, or one number"
    ):
        li.compile_reorder(source, destination, scale=[0.5] * 64, dim=2)


def test_negative_units_that_conflict_far_out():
    """The table of the plan that serves all would have entries that depend on b."""
    with pytest.raises(LayoutError, match=r"serves all extents of \?x\?: units of one dim conflict"):
        compile_dynamic(Format.of("(a, b) : [a, b, a:8]"), Format.of("(a, b) : [a, b, a:6]"), (N, N))
