"""Compiled conversions: what is planned, and that it does what the reference says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.arrays.protocols import storage_of
from layout_ir.backends.llvm import compile_reorder, plan_reorder
from layout_ir.backends.llvm.aot.object_file import elf_symbols
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.named import machine_named
from layout_ir.backends.llvm.runtime.jit import object_file
from layout_ir.backends.llvm.runtime.thread_pool import available
from layout_ir.backends.reference.conversions import converted
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from tests.fuzz.reorders import DTYPES, PAIRS, run
from tests.oracles import onednn

WIDE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)


@pytest.mark.parametrize("seed", range(9))
def test_random_conversions_between_guard_pages(seed: int):
    """Every pair of element types in each; `python -m tests.fuzz --only reorders` runs as many as you like."""
    wrong = run(len(PAIRS), 100 + seed)
    assert not wrong, wrong[0]


def _pair(shape: tuple[int, ...], src: str, dst: str) -> tuple[Layout, Layout]:
    return Format.of(src).bind(shape), Format.of(dst).bind(shape)


def _plan(
    src: str, dst: str, shape: tuple[int, ...], conversion: Conversion, machine: Machine = WIDE
) -> list[str]:
    plan = plan_reorder(*_pair(shape, src, dst), conversion=conversion, target=machine)
    return [line.strip() for line in str(plan).splitlines()]


def test_equal_layouts_are_one_run():
    assert _plan("nchw", "nchw", (2, 3, 4, 5), Conversion("f32", "bf16")) == [
        "plan width 2 src 480 dst 240 convert f32 to bf16",
        "step src+0 dst+0 split 0",
        "convert 120",
    ]


def test_a_transposition_makes_whole_lines_of_the_narrower_elements():
    shape = (1, 64, 56, 56)
    assert _plan("nchw", "nhwc", shape, Conversion("f32", "i8"))[-1] == (
        "convert tile rows 64 by 12544, cols 3136 by 64: rows/64 cols/16"
    )
    assert _plan("nhwc", "nchw", shape, Conversion("i8", "f32"))[-1] == (
        "convert tile rows 3136 by 64, cols 64 by 12544: rows/64 cols/64"
    )


def test_rows_beyond_the_second_level_are_asked_for_ahead():
    conversion = Conversion("f32", "bf16")
    assert _plan("nchw", "nhwc", (1, 64, 112, 112), conversion)[-1] == (
        "convert tile rows 64 by 50176, cols 12544 by 128: rows/32 cols/16 reach 256"
    )
    # Short rows one behind the other: as many rows again.
    assert _plan("nchw", "nhwc", (40, 256, 14, 14), conversion)[-1].endswith("reach 25088 streaming")
    narrow = machine_named("x86-64-v3")
    assert "rows/32 cols/8" in _plan("nchw", "nhwc", (1, 64, 56, 56), conversion, narrow)[-1]


def test_negative_what_the_second_level_holds_is_not_asked_for():
    assert "reach" not in _plan("nchw", "nhwc", (1, 64, 40, 40), Conversion("f32", "bf16"))[-1]
    # Nor are half bytes, whose rows are counted otherwise.
    assert "reach" not in _plan("nchw", "nhwc", (10, 64, 56, 56), Conversion("i4", "f32"))[-1]


def test_tiles_are_streamed_before_copies_are():
    conversion = Conversion("f32", "bf16")
    assert "streaming" in _plan("nchw", "nhwc", (8, 64, 56, 56), conversion)[-1]
    assert "streaming" not in _plan("nchw", "nhwc", (6, 64, 56, 56), conversion)[-1]
    assert "streaming" not in _plan("nchw", "nchw", (8, 64, 56, 56), conversion)[-1]


def test_channels_follow_the_loops():
    conversion = Conversion("f32", "i8", ratio="channel", dim=1, channels=64)
    assert "rows 64 by 12544 channel+1" in _plan("nchw", "nhwc", (1, 64, 56, 56), conversion)[-1]
    assert _plan("nchw", "nchw", (2, 64, 5, 5), conversion)[-2:] == [
        "for 2: src+6400 dst+1600",
        "convert 25 (for 64: src+100 dst+25 channel+1)",
    ]
    assert (
        _plan("nhwc", "nhwc", (2, 64, 5, 5), conversion)[-1]
        == "convert 64 channel+1 (for 50: src+256 dst+64)"
    )


def test_three_channels_are_woven():
    assert _plan("nhwc", "nchw", (1, 3, 8, 8), Conversion("ui8", "f32"))[-1] == (
        "convert split strands 3 by 256 of 64: block 64"
    )


def test_large_destinations_are_streamed_and_the_rest_is_not():
    lines = _plan("a", "a", (10_000_001,), Conversion("f32", "i8"))
    assert [line for line in lines if line.startswith("convert")] == [
        "convert 10000000 streaming",
        "convert 1",
    ]


def test_what_is_also_read_is_cut_into_whole_tiles_and_a_rest():
    lines = _plan("ab", "ba", (19, 37), Conversion("f32", "f32", beta=1.0))
    counts = [line.split()[3] + "x" + line.split()[7] for line in lines if line.startswith("convert tile")]
    assert counts == ["16x36", "16x1", "2x36", "2x1", "1x36", "1x1"]


def test_negative_without_beta_one_tile_is_moved_back():
    assert len(_plan("ab", "ba", (19, 37), Conversion("f32", "i32"))) == 3


def test_four_bits_are_moved_even_where_nothing_is_converted():
    assert _plan("ab", "ab", (3, 5), Conversion("i4", "i4")) == [
        "plan width 1 src 8 dst 8 convert i4 to i4",
        "step src+0 dst+0 split 0",
        "convert 15",
    ]


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "aarch64", "riscv64-v"])
def test_code_for_other_machines_calls_nothing(name: str):
    machine = machine_named(name)
    src, dst = _pair((5, 20), "ab", "ba")
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
        Conversion("f32", "i8", ratio="channel", dst_zero="tensor", dim=1, channels=33),
        Conversion("f32", "f32", beta=0.5),
    ],
    ids=str,
)
def test_threads_share_a_call(conversion: Conversion):
    src, dst = _pair((4, 33, 120, 120), "nchw", "nhwc")
    random = np.random.default_rng(0)
    x = random.normal(0, 60, src.extent).astype(np.float32)
    values: dict[str, Any] = {"ratio": random.uniform(0.5, 2, 33), "dst_zero": np.array(3.0)}
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
    src, dst = _pair(shape, *tags)
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
    src, dst = _pair((0, 3), "ab", "ba")
    compile_reorder(src, dst, "f32", dst_dtype=dtype)(np.zeros(0, np.float32), np.zeros(0, storage_of(dtype)))


def test_negative_one_buffer_cannot_be_both():
    src, dst = _pair((3, 4), "ab", "ab")
    x = np.zeros(12, np.int32)
    with pytest.raises(LayoutError, match="overlap"):
        compile_reorder(src, dst, "f32", dst_dtype="i32")(x.view(np.float32), x)
    compile_reorder(src, dst, "i32", dst_dtype="i32")(x, x)


def test_negative_buffers_and_numbers_that_do_not_fit():
    src, dst = _pair((3, 4), "ab", "ba")
    kernel = compile_reorder(src, dst, conversion=Conversion("f32", "i8", ratio="channel", dim=0, channels=3))
    x, y = np.zeros(12, np.float32), np.zeros(12, np.int8)
    with pytest.raises(LayoutError, match="the kernel takes ratio, given are none"):
        kernel(x, y)
    with pytest.raises(LayoutError, match="ratio has 4 numbers, the kernel takes 3"):
        kernel(x, y, {"ratio": np.ones(4)})
    with pytest.raises(LayoutError, match="destination has elements of 4 bytes, the kernel moves 1"):
        kernel(x, x.copy(), {"ratio": np.ones(3)})
    with pytest.raises(LayoutError, match="dim 1 has extent 4, but there are 3 channels"):
        compile_reorder(src, dst, conversion=Conversion("f32", "i8", ratio="channel", dim=1, channels=3))
    with pytest.raises(LayoutError, match="channels along dim 2 of a tensor of rank 2"):
        compile_reorder(src, dst, conversion=Conversion("f32", "i8", ratio="channel", dim=2, channels=3))


def test_negative_a_pad_that_is_known_too_late():
    src, dst = _pair((3, 5), "ab", "(a, b) : [a, b, b:4], pad = zp")
    with pytest.raises(LayoutError, match="give a number when compiling"):
        compile_reorder(src, dst, conversion=Conversion("f32", "i8", dst_zero="tensor"))
    out = np.zeros(24, np.int8)
    compile_reorder(src, dst, conversion=Conversion("f32", "i8", dst_zero=7.0))(np.zeros(15, np.float32), out)
    assert (out == 7).all()
