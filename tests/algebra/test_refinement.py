"""The loops of a reorder: they compute both address maps, they are the coarsest that do, and they write every pad."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.refinement import Blocks, Nest, StridedLoop, TableLoop, peel, refine
from layout_ir.errors import LayoutError
from tests.layouts import chain_of, is_linear_on, random_format, random_layout, random_shape, rngs


def _pair(rng: Random, limit: int = 1000) -> tuple[Layout, Layout]:
    """A source of any kind and a destination that keeps every element apart."""
    rank = rng.randint(1, 4)
    shape = random_shape(rng, rank, limit)
    src = random_format(rng, rank, strided=True, halo=True, chunked=True).bind(shape)
    dst = random_format(rng, rank, halo=True, chunked=True).bind(shape)
    if rng.random() < 0.3:
        starts = [rng.randrange(x) for x in shape]
        sizes = [rng.randint(1, x - s) for s, x in zip(starts, shape, strict=True)]
        src, dst = src.slice(starts, sizes), random_format(rng, rank, halo=True).bind(sizes)
    return src, dst


def _addresses(nest: Nest, side: int, base: int, *, padded: bool) -> NDArray[np.int64]:
    """What the nest says of one side: of the elements, or of every position it runs over."""
    rank = len(nest.dims)
    total = np.full((1,) * rank, base, np.int64)
    for dim, loops in enumerate(nest.dims):
        offsets = nest.offsets(dim)[side]
        if not padded:
            offsets = offsets[loops.low : loops.low + loops.extent]
        total = total + offsets.reshape((-1,) + (1,) * (rank - 1 - dim))
    return total


# --- The loops are right ---


@settings(max_examples=300)
@given(rngs)
def test_a_nest_computes_both_address_maps(rng: Random):
    src, dst = _pair(rng)
    nest = refine(src, dst)
    assert np.array_equal(_addresses(nest, 0, nest.src_base, padded=False), src.addresses())
    assert np.array_equal(_addresses(nest, 1, nest.dst_base, padded=False), dst.addresses())


@settings(max_examples=300)
@given(rngs)
def test_a_nest_reaches_exactly_the_pads_that_the_destination_promises(rng: Random):
    src, dst = _pair(rng)
    nest = refine(src, dst)
    reached = set(_addresses(nest, 1, nest.dst_base, padded=True).ravel().tolist())
    promised = dst.pad != "undef"
    assert reached == set(dst.addresses(padded=promised).ravel().tolist())
    assert any(dim.total != dim.extent for dim in nest.dims) == (promised and dst.is_padded)


def _copy_by_loops(nest: Nest, data: NDArray[np.int64], out: NDArray[np.int64], pad: int) -> None:
    """Runs the loops one by one, the most literal way: no array arithmetic, no offsets table."""

    def run(dim: int, src: int, dst: int, valid: bool) -> None:
        if dim == len(nest.dims):
            out[dst] = data[src] if valid else pad
            return
        loops = nest.dims[dim]

        def level(k: int, position: int, a: int, b: int) -> None:
            if position >= loops.total:
                return
            if k < 0:
                run(dim + 1, a, b, valid and loops.low <= position < loops.low + loops.extent)
                return
            loop = loops.loops[k]
            for q in range(loop.count):
                if isinstance(loop, TableLoop):
                    level(k - 1, position + q * loop.unit, a + loop.src[q], b + loop.dst[q])
                else:
                    level(k - 1, position + q * loop.unit, a + q * loop.src, b + q * loop.dst)

        level(len(loops.loops) - 1, 0, src, dst)

    run(0, nest.src_base, nest.dst_base, True)


@settings(max_examples=60)
@given(rngs)
def test_running_the_loops_copies_the_tensor_and_fills_the_pads(rng: Random):
    src, dst = _pair(rng, limit=120)
    data = np.arange(src.extent + 60, dtype=np.int64) + 1000
    if src.first_address < 0:
        return
    out = np.full(dst.extent, -1, np.int64)
    _copy_by_loops(refine(src, dst), data, out, -7)
    assert np.array_equal(out[dst.addresses()], data[src.addresses()])
    pads = np.setdiff1d(dst.addresses(padded=True), dst.addresses())
    assert (out[pads] == (-7 if dst.pad != "undef" else -1)).all()


# --- The loops are the coarsest ---


def test_no_shorter_nest_exists_on_3000_random_dims():
    """Strides constant on both sides need the union of the canonical units, and if it is a chain it suffices."""
    rng, tables = Random(11), 0
    for _ in range(3_000):
        extent = rng.choice((2, 3, 4, 6, 8, 9, 12, 16, 18, 24))
        # A second dim between the blocks of the first keeps them from continuing each other.
        src, dst = (
            random_format(rng, 2, blocks=(2, 3, 4, 6)).with_pad("undef").bind((extent, 2)) for _ in range(2)
        )
        loops = refine(src, dst).dims[0].loops
        best = chain_of(src.offsets(0).tolist(), dst.offsets(0).tolist())
        if any(isinstance(loop, TableLoop) for loop in loops):
            assert best is None
            tables += 1
        else:
            assert best is not None and len(loops) == len(best)
            assert tuple(loop.unit for loop in loops) == best
    assert tables > 25


@given(rngs)
def test_neighbouring_loops_never_continue_each_other(rng: Random):
    nest = refine(*_pair(rng))
    for dim in nest.dims:
        for inner, outer in zip(dim.loops, dim.loops[1:], strict=False):
            if isinstance(inner, StridedLoop) and isinstance(outer, StridedLoop):
                assert (outer.src, outer.dst) != (inner.src * inner.count, inner.dst * inner.count)


@given(rngs)
def test_refinement_with_itself_is_the_canonical_form(rng: Random):
    layout = random_layout(rng, rank=2, wild=False).format.with_pad("undef").bind(random_shape(rng, 2))
    for dim, nest in enumerate(refine(layout, layout).dims):
        values = layout.offsets(dim).tolist()
        assert is_linear_on(values, nest.units or (1,))
        assert all(isinstance(loop, StridedLoop) and loop.src == loop.dst for loop in nest.loops)


def test_units_8_and_12_need_one_table_of_six():
    src = Format.parse("(a) : [a*800, a:8]").bind((48,))
    dst = Format.parse("(a) : [a*1200, a:12]").bind((48,))
    inner, table, outer = refine(src, dst).dims[0].loops
    assert inner == StridedLoop(1, 4, 1, 1)
    assert table == TableLoop(4, (0, 4, 800, 804, 1600, 1604), (0, 4, 8, 1200, 1204, 1208))
    assert outer == StridedLoop(24, 2, 2400, 2400)


def test_the_nest_of_large_tensors_costs_nothing():
    shape = (1 << 18, 1 << 18, 1 << 10, 1 << 10)
    nest = refine(Format.from_tag("nchw").bind(shape), Format.from_tag("nChw8c").bind(shape))
    assert [len(dim.loops) for dim in nest.dims] == [1, 2, 1, 1]


# --- Peeling ---


@pytest.mark.parametrize(
    "extent, units, runs",
    [
        (17, (1, 8), (Blocks(0, 2, 8), Blocks(16, 1, 1))),
        (50, (1, 4, 32), (Blocks(0, 1, 32), Blocks(32, 4, 4), Blocks(48, 2, 1))),
        (16, (1, 8), (Blocks(0, 2, 8),)),
        (3, (1, 8), (Blocks(0, 3, 1),)),
        (0, (1, 8), ()),
        (5, (), (Blocks(0, 5, 1),)),
    ],
)
def test_peeling_is_the_mixed_radix_expansion(extent: int, units: tuple[int, ...], runs: tuple[Blocks, ...]):
    assert peel(extent, units) == runs


@given(rngs)
def test_runs_are_disjoint_full_boxes_that_cover_the_extent(rng: Random):
    units = [1]
    for _ in range(rng.randint(0, 3)):
        units.append(units[-1] * rng.randint(2, 5))
    extent = rng.randint(0, 500)
    runs = peel(extent, units)
    covered = [x for run in runs for x in range(run.start, run.start + run.count * run.unit)]
    assert covered == list(range(extent))
    assert len(runs) <= len(units)
    # Blocks start at multiples of their unit, so that the loops inside need no guard.
    assert all(run.start % run.unit == 0 for run in runs)


def test_a_nest_peels_by_its_own_units():
    nest = refine(Format.from_tag("nchw").bind((1, 17, 2, 2)), Format.from_tag("nChw8c").bind((1, 17, 2, 2)))
    assert nest.dims[1].peel() == (Blocks(0, 2, 8), Blocks(16, 1, 1))


def test_negative_peeling_by_units_that_do_not_divide():
    with pytest.raises(LayoutError, match=r"units \[8, 12\] do not divide each other"):
        peel(48, (8, 12))


# --- What has no nest ---


def test_negative_different_shapes():
    left, right = Format.from_tag("nc").bind((2, 3)), Format.from_tag("nc").bind((3, 2))
    with pytest.raises(LayoutError, match=r"source has \(2, 3\), destination has \(3, 2\)"):
        refine(left, right)


def test_negative_swizzle_on_either_side():
    plain, swizzled = (
        Format.parse(f"(m, k) : [m, k]{s}").bind((8, 8)) for s in ("", ", swizzle = (1, 0, 3)")
    )
    with pytest.raises(LayoutError, match=r"the source .* has a swizzle"):
        refine(swizzled, plain)
    with pytest.raises(LayoutError, match=r"the destination .* has a swizzle"):
        refine(plain, swizzled)


def test_negative_other_axes():
    plain, placed = (Format.parse(text).bind((8,)) for text in ("(m) : [m]", "(m) : [m@lane, m:2]"))
    with pytest.raises(LayoutError, match="other axes than memory"):
        refine(plain, placed)


def test_negative_destination_that_overlaps():
    plain, overlapping = (
        Format.parse(text).bind((4, 3)) for text in ("(a, b) : [a, b]", "(a, b) : [a*0, b]")
    )
    with pytest.raises(LayoutError, match="keeps several elements at one address"):
        refine(plain, overlapping)
    assert refine(overlapping, plain).dims[0].loops == (StridedLoop(1, 4, 0, 3),)


def test_an_empty_tensor_has_a_nest_that_does_nothing():
    shape = (2, 0, 3)
    nest = refine(Format.row_major("abc").bind(shape), Format.from_tag("acb").bind(shape))
    assert math.prod(dim.total for dim in nest.dims) == 0


def test_phases_take_the_same_loops_at_any_extent():
    """Where both sides are functions of few digits, the loops of 2^40 indices are those of some, more often."""
    for texts in (
        ("(a, b) : [a, b], lo = [1, 1]", "(a, b) : [b, a]"),
        ("(a, b) : [a, b, a:8], lo = [3, 1]", "(a, b) : [b, a]"),
        ("(a, b) : [a, b, a:8], lo = [3, 1]", "(a, b) : [b, a, a:12], pad = zero, lo = [5, 2]"),
    ):
        few, many = (
            refine(*(Format.parse(text).bind((extent, 3)) for text in texts)) for extent in (1 << 9, 1 << 40)
        )
        for nest in (few, many):
            assert nest.dims[0].covered >= nest.dims[0].total
        assert [type(loop) for loop in few.dims[0].loops] == [type(loop) for loop in many.dims[0].loops]
        assert few.dims[0].loops[:-1] == many.dims[0].loops[:-1]


@settings(max_examples=300)
@given(rngs)
def test_phases_of_blocks_that_conflict_or_not(rng: Random):
    """One dim with blocks and pads in front on both sides, against the addresses of the two layouts."""

    def side(pads: bool) -> Format:
        blocks = [f"a:{rng.choice((2, 3, 4, 5, 6, 8, 12))}" for _ in range(rng.randint(0, 2))]
        factors = [*rng.sample(["a", "b"], 2), *blocks]
        factors.insert(rng.randint(2, len(factors)), f"b:{rng.choice((1, 2, 3))}")
        pad = ", pad = zero" if pads and rng.random() < 0.5 else ""
        low = f"lo = [{rng.randint(0, 30)}, {rng.choice((0, 0, 1, 2))}]"
        return Format.parse(f"(a, b) : [{', '.join(factors)}]{pad}, {low}")

    shape = (rng.choice((1, 2, 3, 7, 20, 50, 120)), rng.choice((1, 2, 5)))
    src, dst = side(False).bind(shape), side(True).bind(shape)
    nest = refine(src, dst)
    (src_a, dst_a), (src_b, dst_b) = nest.offsets(0), nest.offsets(1)
    inside = tuple(slice(dim.low, dim.low + dim.extent) for dim in nest.dims)
    found_src, found_dst = nest.src_base + src_a[:, None] + src_b, nest.dst_base + dst_a[:, None] + dst_b
    assert np.array_equal(found_src[inside], src.addresses())
    assert np.array_equal(found_dst[inside], dst.addresses())
    if dst.pad == "zero":
        assert np.array_equal(found_dst, dst.addresses(padded=True))


@pytest.mark.parametrize(
    ("texts", "extent", "said"),
    [
        (
            ("(a, b) : [a, b, a:1000003]", "(a, b) : [a, b, a:999983]"),
            1 << 40,
            "1000003 in the source and 999983 in the destination.* a table of 999985999949 offsets",
        ),
        (
            ("(a, b) : [a, b, a:2147483647]", "(a, b) : [a, b, a:6]"),
            1 << 40,
            "a table of 12884901882 offsets",
        ),
        (
            ("(a, b) : [a, b, a:65537], lo = [3, 0]", "(a, b) : [a, b, a:65536]"),
            1 << 33,
            "65537 behind 3 pads in the source",
        ),
    ],
)
def test_negative_tables_that_fill_the_memory_are_refused(texts: tuple[str, str], extent: int, said: str):
    src, dst = (Format.parse(text).bind((extent, 3)) for text in texts)
    with pytest.raises(LayoutError, match=said):
        refine(src, dst)


@pytest.mark.parametrize(
    "extent, units, message",
    [
        (1.5, (8,), r"extent \(1.5,\) is no row of integers"),
        (-5, (8,), "extent -5 is negative"),
        (5, (8.0,), r"units \(8.0,\) is no row of integers"),
    ],
)
def test_negative_runs_of_what_is_no_extent(extent: Any, units: Any, message: str):
    with pytest.raises(LayoutError, match=message):
        peel(extent, units)
