"""The kernel of a domain moves exactly what the domain's loops reach, whatever order, sign and extent they have."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Domain
from layout_ir.backends.llvm.planning.schedule import element_steps, fill_step, merged
from layout_ir.dialects.kernel.plan import Axis, Copy, Elements, Interleave, Loop, Plan, Step, TableLoop, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.planning.plans import NARROW, WIDE, of_steps, step_of, steps_of, tile_of
from tests.plan_evaluation import Moved, Pad, evaluate

CONVERSIONS = [
    *(Conversion(dtype, dtype) for dtype in ("i8", "bf16", "f32", "f64")),
    *(Conversion(*pair) for pair in (("f32", "i8"), ("ui8", "f32"), ("i4", "f32"), ("f32", "i4"))),
    Conversion("f32", "bf16", beta=2.0),
]


def _domain(rng: Random, pair: ElementPair) -> Domain:
    """Up to four loops over dense elements, in any order on either side, some of them backwards or tables."""
    counts = [rng.choice((1, 2, 3, 4, 5, 8, 16, 17, 33)) for _ in range(rng.randint(1, 4))]
    while len(counts) > 1 and counts[-1] * counts[-2] > 300:
        counts.pop()
    counts = counts[:3]
    sides: list[list[int]] = []
    for width in (pair.src, pair.dst):
        strides, running = [0] * len(counts), width * rng.choice((1, 1, 2))
        for k in rng.sample(range(len(counts)), len(counts)):
            strides[k], running = running, running * counts[k] * rng.choice((1, 1, 1, 3))
        sides.append(strides)
    loops: list[Loop | TableLoop] = []
    start = [0, 0]
    for n, src, dst in zip(counts, *sides, strict=True):
        if rng.random() < 0.15:
            order = rng.sample(range(n), n)
            loops.append(TableLoop(tuple(k * src for k in order), tuple(k * dst for k in range(n))))
        elif rng.random() < 0.2:
            loops.append(Loop(n, -src, dst))
            start[0] += (n - 1) * src
        else:
            loops.append(Loop(n, src, dst))
    rng.shuffle(loops)
    return Domain(start[0], start[1], tuple(loops))


def _places(domain: Domain) -> list[tuple[int, int]]:
    """Source and destination of every iteration, by definition."""
    offsets = list[list[tuple[int, int]]]()
    for loop in domain.loops:
        if isinstance(loop, TableLoop):
            offsets.append([(int(s), int(d)) for s, d in zip(loop.src, loop.dst, strict=True)])
        else:
            assert isinstance(loop, Loop)
            offsets.append([(int(k * loop.src), int(k * loop.dst)) for k in range(loop.count)])
    return [
        (int(domain.src) + sum(x[0] for x in chosen), int(domain.dst) + sum(x[1] for x in chosen))
        for chosen in product(*offsets)
    ]


@pytest.mark.parametrize("conversion", CONVERSIONS, ids=str)
def test_steps_move_what_the_domain_reaches(conversion: Conversion):
    pair = ElementPair.of(conversion)
    rng = Random(str(conversion))
    for machine in [WIDE, NARROW] * 12:
        domain = _domain(rng, pair)
        steps = element_steps(domain, pair, machine)
        assert steps is not None
        wanted = {
            dst + byte: Moved(src + byte, 0, 0) if pair.conversion is None else Moved(src, 0, byte)
            for src, dst in _places(domain)
            for byte in range(pair.dst)
        }
        plan = Plan(pair.narrower, 1 << 30, 1 << 30, tuple(steps), pair.conversion)
        check_plan(plan)
        found = evaluate(plan)
        assert found == wanted, domain
        assert not pair.exactly_once or found.writes == len(wanted), domain


@pytest.mark.parametrize("src, dst", [(8, 12), (16, 24), (8, 6), (10, 8), (5, 4)])
def test_a_short_run_is_one_element_where_all_strides_are_multiples_of_it(src: int, dst: int):
    domain = Domain(0, 0, (Loop(4, 1, 1), Loop(9, src, dst)))
    steps = element_steps(domain, ElementPair(1, 1), WIDE)
    assert steps is not None
    check_plan(Plan(1, 9 * src, 9 * dst, tuple(steps)))
    assert evaluate(of_steps(*steps)) == {to: Moved(from_, 0, 0) for from_, to in _places(domain)}
    [step] = steps
    assert isinstance(step.kernel, Elements) == (src % 4 == dst % 4 == 0)


def test_pads_of_a_run_and_of_rows_are_written_along():
    pair = ElementPair(4, 4)
    run = Domain(0, 0, (Loop(3, 100, 64), Loop(16, 4, 4, valid=5)))
    rows = Domain(0, 0, (Loop(8, 400, 4, valid=3), Loop(20, 4, 32)))
    for domain, width in ((run, 16), (rows, 8)):
        steps = element_steps(domain, pair, WIDE, pad=0x01020304)
        assert steps is not None
        valid = next(x.valid for x in domain.loops if isinstance(x, Loop) and x.valid)
        wanted: dict[int, Moved | Pad] = {}
        for src, dst in _places(domain):
            for byte in range(4):
                held = dst // 4 % width < valid
                wanted[dst + byte] = Moved(src + byte, 0, 0) if held else Pad((4, 3, 2, 1)[byte])
        assert evaluate(of_steps(*steps, width=4)) == wanted


def test_negative_pads_along_no_run_are_left_to_others():
    pads = Loop(8, 400, 36, valid=3)
    assert element_steps(Domain(0, 0, (pads, Loop(20, 4, 512))), ElementPair(4, 4), WIDE) is None
    assert element_steps(Domain(0, 0, (pads, Loop(9, 4, 4))), ElementPair(4, 4), WIDE) is None


@pytest.mark.parametrize("width, value", [(1, 7), (2, 0x0102), (4, 0x3F800000)])
def test_fills_write_every_place_of_the_domain(width: int, value: int):
    domain = Domain(
        0, 3 * width, (Loop(3, 0, 20 * width), TableLoop((0, 0), (0, 100 * width)), Loop(5, 0, width))
    )
    found = evaluate(of_steps(fill_step(domain, width, value), width=width))
    element = value.to_bytes(width, "little")
    assert found == {dst + k: Pad(element[k]) for _, dst in _places(domain) for k in range(width)}


def test_merged_loops_reach_the_same_and_no_two_are_one():
    rng = Random(4)
    for _ in range(200):
        domain = _domain(rng, ElementPair(2, 4))
        loops = [x for x in domain.loops if isinstance(x, Loop)]
        found = merged(loops)
        assert sorted(_places(Domain(0, 0, tuple(found)))) == sorted(_places(Domain(0, 0, tuple(loops))))
        for outer, inner in product(found, repeat=2):
            assert (outer.src, outer.dst) != (inner.count * inner.src, inner.count * inner.dst)


def test_negative_loops_of_other_channels_stay_apart():
    inner = Loop(4, 8, 2, channel=1)
    assert merged([replace(inner, count=3, src=32, dst=8, channel=4), inner]) == [replace(inner, count=12)]
    assert len(merged([replace(inner, count=3, src=32, dst=8, channel=0), inner])) == 2


def test_equal_layouts_are_one_copy():
    assert steps_of("nchw", "nchw", (2, 3, 4, 5)) == (Step((), 0, 0, Copy(480)),)


def test_dims_that_stay_together_are_one_loop():
    step = step_of("nchw", "nhwc", (2, 64, 7, 8))
    assert step.loops == (Loop(2, 14336, 14336),)
    assert isinstance(step.kernel, Tile)
    assert (step.kernel.rows, step.kernel.cols) == (Axis(64, 224), Axis(56, 256))
    assert step.parallel == 1  # the tile's own loop: two images are few


def test_a_run_of_half_a_lane_moves_as_one_element():
    # Two bytes of a pixel stay together: a transposition of 16-bit elements.
    assert tile_of("(a, b, c) : [a, b, c]", "(a, b, c) : [b, a, c]", (64, 32, 2), "i8").width == 2


def test_three_channels_are_interleaved():
    assert step_of("nchw", "nhwc", (1, 3, 8, 8)).kernel == Interleave(4, 3, 64, 256, inverse=False, block=16)
    assert step_of("nhwc", "nchw", (1, 3, 8, 8)).kernel == Interleave(4, 3, 64, 256, inverse=True, block=16)
