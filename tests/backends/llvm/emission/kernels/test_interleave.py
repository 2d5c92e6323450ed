"""Runs become one by turns, and one becomes runs, in blocks that are moved back at the end."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.iteration import Pointers, all_iterations, partition
from layout_ir.backends.llvm.emission.kernels.converter import Converter, move_of
from layout_ir.backends.llvm.emission.kernels.interleave import emit_interleave
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.dialects.kernel.plan import Interleave
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.emission.bodies import run


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("ways", [1, 2, 3, 4])
@pytest.mark.parametrize("inverse", [False, True])
def test_elements_of_all_ways_take_turns(width: int, ways: int, inverse: bool):
    for count in (16, 17, 31, 64):
        kernel = Interleave(width, ways, count, width * (count + 3), inverse, 16)
        b = Builder()
        emit_interleave(
            move_of(b, host(), width), kernel, Pointers("%src", "%dst"), all_iterations, streaming=False
        )
        data = np.random.default_rng(count).integers(0, 256, (ways, count + 3, width), np.uint8)
        together = np.ascontiguousarray(data[:, :count].swapaxes(0, 1))
        found = np.full_like(data if inverse else together, 0xA5)
        wanted = found.copy()
        if inverse:
            wanted[:, :count] = data[:, :count]
        else:
            wanted[:] = together
        run(b, together if inverse else data, found)
        assert np.array_equal(found, wanted)


def test_parts_of_the_blocks_are_divided():
    kernel = Interleave(4, 3, 100, 400, inverse=False, block=16)
    b = Builder()
    part = partition(b, parallel=True)
    emit_interleave(move_of(b, host(), 4), kernel, Pointers("%src", "%dst"), part, streaming=False)
    data = np.arange(300, dtype=np.int32).reshape(3, 100)
    found = np.full((100, 3), -1, np.int32)
    run(b, data, found, 1, 3)
    written = (found != -1).all(axis=1)
    assert 0 < written.sum() < 100 and np.array_equal(found[written], data.T[written])


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("src, dst", [("ui8", "f32"), ("f32", "ui8")])
def test_every_way_is_converted_with_its_channel(inverse: bool, src: str, dst: str):
    kinds = {"ui8": np.uint8, "f32": np.float32}
    scales = (1.0, 2.0, 4.0)
    conversion = Conversion(src, dst, src_scale=scales, dim=0, channels=3)
    pair, count = ElementPair.of(conversion), 20
    stride = count * (pair.dst if inverse else pair.src)
    kernel = Interleave(pair.narrower, 3, count, stride, inverse, 16, channel=1)
    b = Builder()
    converter = Converter(b, host(), pair)
    emit_interleave(converter, kernel, Pointers("%src", "%dst"), all_iterations, streaming=False)
    data = np.random.default_rng(2).integers(0, 60, (3, count)).astype(kinds[src])
    wanted = (data * np.array(scales)[:, None]).astype(kinds[dst])
    found = np.zeros((3, count) if inverse else (count, 3), kinds[dst])
    run(b, np.ascontiguousarray(data.T) if inverse else data, found)
    assert np.array_equal(found, wanted if inverse else wanted.T)


def test_negative_a_last_block_that_is_whole_is_not_moved_back():
    def emitted(count: int) -> int:
        b = Builder()
        kernel = Interleave(4, 2, count, 4 * count, inverse=False, block=16)
        emit_interleave(
            move_of(b, host(), 4), kernel, Pointers("%src", "%dst"), all_iterations, streaming=False
        )
        return sum("select" in line for line in b.lines)

    assert (emitted(64), emitted(65)) == (0, 1)
