"""Compiled conversions: what is planned, and that it does what the reference says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.pads import pad_after
from layout_ir.arrays.protocols import storage_of
from layout_ir.backends.llvm import compile_reorder, plan_reorder
from layout_ir.backends.llvm.aot.object_file import elf_symbols
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.runtime.jit import object_file
from layout_ir.backends.llvm.runtime.thread_pool import available
from layout_ir.backends.reference.conversions import converted
from layout_ir.dialects.kernel.plan import Axis, Copy, Fill, Interleave, Loop, Step, Tile
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from tests.fuzz.reorders import DTYPES, PAIRS, cases, run
from tests.layouts import bound_pair
from tests.oracles import onednn
from tests.plan_evaluation import definition_of_conversion, evaluate
from tests.seeds import seeds

WIDE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_conversions_between_guard_pages(seed: int):
    """Every pair of element types in each; `python -m tests.fuzz --only reorders` runs as many as you like."""
    wrong = run(len(PAIRS), 100 + seed)
    assert not wrong, wrong[0]


def _steps(
    src: str, dst: str, shape: tuple[int, ...], conversion: Conversion, machine: Machine = WIDE
) -> tuple[Step, ...]:
    return plan_reorder(*bound_pair(shape, src, dst), conversion=conversion, target=machine).steps


def _step(
    src: str, dst: str, shape: tuple[int, ...], conversion: Conversion, machine: Machine = WIDE
) -> Step:
    """The only step of the plan."""
    [step] = _steps(src, dst, shape, conversion, machine)
    return step


def _tile(
    src: str, dst: str, shape: tuple[int, ...], conversion: Conversion, machine: Machine = WIDE
) -> Tile:
    """The tile of the only step."""
    tile = _step(src, dst, shape, conversion, machine).kernel
    assert isinstance(tile, Tile)
    return tile


def test_equal_layouts_are_one_run():
    assert _steps("nchw", "nchw", (2, 3, 4, 5), Conversion("f32", "bf16")) == (Step((), 0, 0, Copy(120)),)


def test_a_transposition_makes_whole_lines_of_the_narrower_elements():
    shape = (1, 64, 56, 56)
    tile = _tile("nchw", "nhwc", shape, Conversion("f32", "i8"))
    assert (tile.rows, tile.cols) == (Axis(64, 12544), Axis(3136, 64))
    assert (tile.block("rows"), tile.block("cols")) == (64, 16)  # 64 bytes of i8, 64 of f32
    tile = _tile("nhwc", "nchw", shape, Conversion("i8", "f32"))
    assert (tile.rows, tile.cols) == (Axis(3136, 64), Axis(64, 12544))
    assert (tile.block("rows"), tile.block("cols")) == (64, 64)


def test_rows_beyond_the_second_level_are_prefetched():
    conversion = Conversion("f32", "bf16")
    assert _tile("nchw", "nhwc", (1, 64, 112, 112), conversion).prefetch_distance == 256
    # Short rows one behind the other: as many rows again.
    tile = _tile("nchw", "nhwc", (40, 256, 14, 14), conversion)
    assert tile.prefetch_distance == tile.block("rows") * 14 * 14 * 4 and tile.streaming
    narrow = _tile("nchw", "nhwc", (1, 64, 56, 56), conversion, machine_named("x86-64-v3"))
    assert (narrow.block("rows"), narrow.block("cols")) == (32, 8)


def test_negative_what_the_second_level_holds_is_not_prefetched():
    assert not _tile("nchw", "nhwc", (1, 64, 40, 40), Conversion("f32", "bf16")).prefetch_distance
    # Nor are half bytes, whose rows are counted otherwise.
    assert not _tile("nchw", "nhwc", (10, 64, 56, 56), Conversion("i4", "f32")).prefetch_distance


def test_tiles_are_streamed_before_copies_are():
    conversion = Conversion("f32", "bf16")
    assert _tile("nchw", "nhwc", (8, 64, 56, 56), conversion).streaming
    assert not _tile("nchw", "nhwc", (6, 64, 56, 56), conversion).streaming
    assert not _step("nchw", "nchw", (8, 64, 56, 56), conversion).kernel.streaming


def test_channels_follow_the_loops():
    conversion = Conversion("f32", "i8", dst_scale="channel", dim=1, channels=64)
    assert _tile("nchw", "nhwc", (1, 64, 56, 56), conversion).rows == Axis(64, 12544, channel=1)
    step = _step("nchw", "nchw", (2, 64, 5, 5), conversion)
    assert step.loops == (Loop(2, 6400, 1600),)
    assert step.kernel == Copy(25, Loop(64, 100, 25, channel=1))
    step = _step("nhwc", "nhwc", (2, 64, 5, 5), conversion)
    assert step.kernel == Copy(64, Loop(50, 256, 64), channel=1)


def test_three_channels_are_deinterleaved():
    kernel = _step("nhwc", "nchw", (1, 3, 8, 8), Conversion("ui8", "f32")).kernel
    assert kernel == Interleave(1, 3, 64, 256, inverse=True, block=64)


def test_large_destinations_are_streamed_and_the_rest_is_not():
    steps = _steps("a", "a", (10_000_001,), Conversion("f32", "i8"))
    assert [step.kernel for step in steps] == [Copy(10_000_000, streaming=True), Copy(1)]


def test_what_is_also_read_is_cut_into_whole_tiles_and_a_rest():
    kernels = [step.kernel for step in _steps("ab", "ba", (19, 37), Conversion("f32", "f32", beta=1.0))]
    counts = [(x.rows.count, x.cols.count) for x in kernels if isinstance(x, Tile)]
    assert counts == [(16, 36), (16, 1), (2, 36), (2, 1), (1, 36), (1, 1)]


def test_negative_without_beta_one_tile_is_moved_back():
    assert len(_steps("ab", "ba", (19, 37), Conversion("f32", "i32"))) == 1


def test_four_bits_are_moved_even_where_nothing_is_converted():
    plan = plan_reorder(*bound_pair((3, 5), "ab", "ab"), conversion=Conversion("i4", "i4"), target=WIDE)
    assert (plan.src_bytes, plan.dst_bytes) == (8, 8)
    assert plan.steps == (Step((), 0, 0, Copy(15)),)


@pytest.mark.parametrize(
    "machine", [WIDE, replace(WIDE, l1=4 << 10, l2=4 << 10, l3=1 << 10)], ids=["large", "small"]
)
def test_every_plan_means_what_the_layouts_say(machine: Machine):
    seen = set[type]()
    for case in cases(5, 0, 150, limit=300):
        conversion = case.conversion
        width = max(bits_of(conversion.dst) // 8, 1)
        bits = pad_bits(pad_after(case.dst.pad, conversion), conversion.dst)
        pad = None if case.dst.pad == "undef" else bits.to_bytes(width, "little")
        plan = plan_reorder(case.src, case.dst, conversion=conversion, target=machine)
        if plan.conversion is None:
            continue  # the type stays, and is one of whole bytes: a move
        found = evaluate(plan)
        assert found == definition_of_conversion(case.src, case.dst, conversion, pad), plan
        if ElementPair.of(conversion).exactly_once:
            assert found.writes == len(found), plan
        seen |= {type(part) for step in plan.steps for part in (*step.loops, step.kernel)}
    assert {Copy, Tile, Fill, Loop} <= seen


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "aarch64", "riscv64-v"])
def test_code_for_other_machines_calls_nothing(name: str):
    machine = machine_named(name)
    src, dst = bound_pair((5, 20), "ab", "ba")
    plans = {
        f"k{k}": plan_reorder(src, dst, conversion=Conversion(a, b), target=machine)
        for k, (a, b) in enumerate(PAIRS)
        if k % 7 == len(name) % 7
    }
    assert not [
        symbol
        for symbol, defined in elf_symbols(object_file(emit_module(plans, machine), machine))
        if not defined
    ]


@pytest.mark.skipif(available(2) < 2, reason="one CPU, or a platform without workers")
@pytest.mark.parametrize(
    "conversion",
    [
        Conversion("f32", "i8"),
        Conversion("f32", "i8", dst_scale="channel", dst_zero="tensor", dim=1, channels=33),
        Conversion("f32", "f32", beta=0.5),
    ],
    ids=str,
)
def test_threads_share_a_call(conversion: Conversion):
    src, dst = bound_pair((4, 33, 120, 120), "nchw", "nhwc")
    random = np.random.default_rng(0)
    x = random.normal(0, 60, src.extent).astype(np.float32)
    values: dict[str, Any] = {"dst_scale": random.uniform(0.5, 2, 33), "dst_zero": np.array(3.0)}
    values = {name: values[name] for name in conversion.at_run_time}
    old = random.integers(-9, 9, dst.extent).astype(storage_of(conversion.dst))
    wanted = old.copy()
    wanted[dst.addresses()] = converted(x[src.addresses()], conversion, values, old[dst.addresses()])
    kernel = compile_reorder(src, dst, conversion=conversion, threads=2)
    for _ in range(5):
        out = old.copy()
        kernel(x, out, values) if values else kernel(x, out)
        assert np.array_equal(out, wanted)


@pytest.mark.skipif(onednn.executes() is not None, reason=str(onednn.executes()))
@pytest.mark.parametrize("pair", [("f32", "i8"), ("f32", "bf16"), ("ui8", "f32"), ("i8", "i32")], ids=str)
@pytest.mark.parametrize("tags", [("abcd", "aBcd16b"), ("aBcd8b", "acdb"), ("acdb", "ABcd8b8a")], ids=str)
def test_blocked_tags_give_the_bytes_that_onednn_gives(pair: tuple[str, str], tags: tuple[str, str]):
    shape = (3, 19, 5, 4)
    src, dst = bound_pair(shape, *tags)
    x = np.zeros(src.extent, storage_of(pair[0]))
    x[src.addresses()] = np.random.default_rng(0).integers(0, 2000, shape) / 16 if pair[0] == "f32" else 77
    theirs, ours = (np.full(dst.extent, 90, storage_of(pair[1])) for _ in range(2))
    onednn.reorder(
        onednn.Desc.from_tag(shape, tags[0], pair[0]),
        x,
        onednn.Desc.from_tag(shape, tags[1], pair[1]),
        theirs,
    )
    compile_reorder(src, dst, pair[0], dst_dtype=pair[1])(x, ours)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_is_converted_where_nothing_is(dtype: str):
    src, dst = bound_pair((0, 3), "ab", "ba")
    compile_reorder(src, dst, "f32", dst_dtype=dtype)(np.zeros(0, np.float32), np.zeros(0, storage_of(dtype)))


def test_negative_one_buffer_cannot_be_both():
    src, dst = bound_pair((3, 4), "ab", "ab")
    x = np.zeros(12, np.int32)
    with pytest.raises(LayoutError, match="overlap"):
        compile_reorder(src, dst, "f32", dst_dtype="i32")(x.view(np.float32), x)
    compile_reorder(src, dst, "i32", dst_dtype="i32")(x, x)


def test_negative_buffers_and_numbers_that_do_not_fit():
    src, dst = bound_pair((3, 4), "ab", "ba")
    kernel = compile_reorder(
        src, dst, conversion=Conversion("f32", "i8", dst_scale="channel", dim=0, channels=3)
    )
    x, y = np.zeros(12, np.float32), np.zeros(12, np.int8)
    with pytest.raises(LayoutError, match="the kernel takes dst_scale, given are none"):
        kernel(x, y)
    with pytest.raises(LayoutError, match="dst_scale has 4 numbers, the kernel takes 3"):
        kernel(x, y, {"dst_scale": np.ones(4)})
    with pytest.raises(LayoutError, match="destination has elements of 4 bytes, the kernel moves 1"):
        kernel(x, x.copy(), {"dst_scale": np.ones(3)})
    with pytest.raises(LayoutError, match="dim 1 has extent 4, but there are 3 channels"):
        compile_reorder(src, dst, conversion=Conversion("f32", "i8", dst_scale="channel", dim=1, channels=3))
    with pytest.raises(LayoutError, match="channels along dim 2 of a tensor of rank 2"):
        compile_reorder(src, dst, conversion=Conversion("f32", "i8", dst_scale="channel", dim=2, channels=3))


def test_negative_a_pad_that_is_known_too_late():
    src, dst = bound_pair((3, 5), "ab", "(a, b) : [a, b, b:4], pad = zp")
    with pytest.raises(LayoutError, match="give a number when compiling"):
        compile_reorder(src, dst, conversion=Conversion("f32", "i8", dst_zero="tensor"))
    out = np.zeros(24, np.int8)
    compile_reorder(src, dst, conversion=Conversion("f32", "i8", dst_zero=7.0))(np.zeros(15, np.float32), out)
    assert (out == 7).all()
