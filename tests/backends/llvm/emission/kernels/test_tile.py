"""Transpositions in registers narrower than a line: parts of tiles, and lines that are written whole."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.emission.kernels.tile import row_parts
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import make_plan
from layout_ir.backends.llvm.runtime import jit
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.dialects.kernel.plan import Axis, Blocking, Plan, Step, Tile
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import machine_here

SHAPES = [(64, 48), (130, 200), (17, 33), (96, 256), (31, 20)]


def _pair(shape: tuple[int, int]) -> tuple[Layout, Layout]:
    return Format.of("ab").bind(shape), Format.of("ba").bind(shape)


@pytest.fixture
def narrow() -> Machine:
    return machine_here("x86-64-v3")


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_registers_of_half_a_line_transpose(
    narrow: Machine, shape: tuple[int, int], width: int, streams: bool
):
    src, dst = _pair(shape)
    plan = make_plan(src, dst, ElementPair(width, width), 0, narrow, stream=streams)
    data: NDArray[np.uint8] = np.random.default_rng(width).integers(0, 256, (*shape, width), np.uint8)
    room = np.full(data.size + 128, 0xA5, np.uint8)
    for offset in (0, 5):
        room[:] = 0xA5
        begin = -room.ctypes.data % 64 + offset
        load(plan, narrow)(data.ctypes.data, room.ctypes.data + begin)
        wanted = np.ascontiguousarray(np.swapaxes(data, 0, 1)).reshape(-1)
        assert np.array_equal(room[begin : begin + data.size], wanted), plan
        assert set(room[:begin]) | set(room[begin + data.size :]) <= {0xA5}


def test_a_tile_of_more_registers_than_there_are_goes_in_parts():
    assert row_parts(64, 32) == 2
    assert row_parts(32, 32) == row_parts(63, 32) == 1
    assert row_parts(32, 32, 8) == 2
    assert row_parts(64, 64) == row_parts(64, 16) == 1
    assert row_parts(34, 32, 8) == 1  # parts of 17 elements of 4 bits would end inside a byte


def _squares(width: int, side: int) -> Plan:
    """Two and a half squares of `side` each way, rows loaded as whole registers."""
    rows = cols = 2 * side + side // 2
    cuts = Blocking("cols", side), Blocking("rows", side)
    tile = Tile(width, Axis(rows, cols * width), Axis(cols, rows * width), cuts, square=True)
    return Plan(width, rows * cols * width, rows * cols * width, (Step((), 0, 0, tile, 0),))


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_squares_of_any_width_fit_any_registers(cpu: str, width: int):
    machine = machine_here(cpu)
    for row in (16, 32, 64):
        plan = _squares(width, row // width)
        count = 5 * row // width // 2
        data: NDArray[np.uint8] = np.random.default_rng(row).integers(0, 256, (count, count, width), np.uint8)
        out = np.zeros_like(data)
        load(plan, machine)(data.ctypes.data, out.ctypes.data)
        assert np.array_equal(out, np.swapaxes(data, 0, 1)), plan


def test_squares_of_one_lane_need_no_vectors():
    machine = machine_named("riscv64")
    assert "\n\tret\n" in _assembly(_squares(8, 2), machine)


def _assembly(plan: Plan, machine: Machine) -> str:
    return jit.assembly(emit_module({"reorder": plan}, machine), machine)


def _moves(text: str, register: str) -> int:
    """Instructions that move registers to the stack or back."""
    return sum(register in line and "(%rsp)" in line for line in text.splitlines())


def test_parts_of_a_tile_stay_in_registers():
    machine = machine_named("x86-64-v3")
    src, dst = Format.of("nhwc").bind((4, 64, 56, 56)), Format.of("nchw").bind((4, 64, 56, 56))
    plan = plan_reorder(src, dst, "ui8", target=machine)
    assert any(isinstance(x.kernel, Tile) and x.kernel.block("rows") == 64 for x in plan.steps)
    assert _moves(_assembly(plan, machine), "ymm") < 64


@pytest.mark.parametrize(
    "dtype, shape", [("f32", (96, 64, 56, 56)), ("f32", (4, 64, 512, 512)), ("ui8", (384, 64, 56, 56))]
)
@pytest.mark.parametrize("tags", [("nhwc", "nchw"), ("nchw", "nhwc")])
def test_a_streamed_line_is_completed_before_the_next_begins(
    dtype: str, shape: tuple[int, ...], tags: tuple[str, str]
):
    """A processor that has more begun lines than buffers for them writes each half by itself, ten times as slowly."""
    machine = machine_named("x86-64-v3")
    src, dst = (Format.of(tag).bind(shape) for tag in tags)
    plan = plan_reorder(src, dst, dtype, target=machine)
    assert "streaming" in str(plan)
    stores = re.findall(r"vmovnt\w+\s+%ymm\d+, (-?\d*)\((.*)\)", _assembly(plan, machine))
    assert len(stores) >= 8
    places = [(int(offset or 0) // 32, base) for offset, base in stores]
    for (low, base), (high, other) in zip(places[::2], places[1::2], strict=True):
        assert (low // 2, base) == (high // 2, other)
        assert low != high


def test_what_registers_do_not_hold_lies_on_an_aligned_stack():
    """On one that is not, a caller's depth decides whether vectors cross the border of two pages, and of the speed."""
    machine = machine_named("x86-64-v3")
    src, dst = (Format.of(tag).bind((384, 64, 56, 56)) for tag in ("nhwc", "nchw"))
    text = _assembly(plan_reorder(src, dst, "ui8", target=machine), machine)
    assert _moves(text, "ymm")
    assert "andq\t$-64, %rsp" in text
    layout = Format.of("a").bind((1 << 24,))
    plan = plan_reorder(layout, layout, conversion=Conversion("f32", "bf16"), target=machine)
    assert "andq\t$-64, %rsp" in _assembly(plan, machine)


def test_negative_registers_of_a_lane_need_no_more_than_the_calling_convention_gives():
    src, dst = _pair((64, 64))
    for name in ("x86-64-v2", "aarch64"):
        machine = machine_named(name)
        assert "alignstack" not in emit_module({"k": plan_reorder(src, dst, "ui8", target=machine)}, machine)


def test_prefetches_stay_among_the_stores():
    """In a burst they are dropped: bytes from nhwc to nchw then take three times as long."""
    machine = machine_named("x86-64-v3")
    src, dst = (Format.of(tag).bind((384, 64, 56, 56)) for tag in ("nhwc", "nchw"))
    plan = plan_reorder(src, dst, "ui8", target=machine)
    assert any(step.prefetch is not None for step in plan.steps)
    found = re.findall(r"\t(prefetcht1|vmovnt)", _assembly(plan, machine))
    first, last = found.index("vmovnt"), len(found) - found[::-1].index("vmovnt")
    # The other prefetches are of the same loop for destinations that do not begin a line.
    streamed = found[first:last]
    assert "prefetcht1" in streamed
    assert all(pair != ("prefetcht1", "prefetcht1") for pair in pairwise(streamed))


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("high", [18, 32, 34, 36])
def test_columns_of_half_bytes_are_whole_bytes(cpu: str, high: int):
    """A tile of more registers than there are goes in parts, none of which ends inside a byte."""
    machine = machine_here(cpu)
    rows, cols = 2 * high, 24
    tile = Tile(1, Axis(rows, cols), Axis(cols, rows), (Blocking("rows", high), Blocking("cols", 8)))
    size = rows * cols
    plan = Plan(1, size, size // 2, (Step((), 0, 0, tile, 0),), Conversion("ui8", "ui4"))
    x = np.random.default_rng(high).integers(0, 20, (rows, cols), np.uint8)
    packed = np.zeros(size // 2, np.uint8)
    load(plan, machine)(x.ctypes.data, packed.ctypes.data)
    found = np.stack([packed & 15, packed >> 4], axis=1).reshape(cols, rows)
    assert np.array_equal(found, np.minimum(x.T, 15))
