"""A flushed buffer is in the destination, wherever that begins in its line; nothing around it is written."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.iteration import PrefetchCursor
from layout_ir.backends.llvm.emission.kernels.flush import emit_flush, emit_flush_of_rows
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.dialects.kernel.plan import Staged
from tests.backends.llvm.cases import machine_here
from tests.backends.llvm.emission.bodies import run

POISON = 0xA5


def _aligned(size: int) -> NDArray[np.uint8]:
    """So many bytes that hold POISON, from the beginning of a line on."""
    room = np.full(size + 64, POISON, np.uint8)
    return room[-room.ctypes.data % 64 :][:size]


@pytest.mark.parametrize("size", [64, 128, 65, 200, 320, 1000])
@pytest.mark.parametrize("phase", [0, 1, 37, 63])
def test_a_buffer_is_flushed_to_any_place_of_a_line(size: int, phase: int):
    b = Builder()
    emit_flush(b, "%src", "%dst", "%part", size)
    buffer, found = _aligned(size + 128), _aligned(size + 192)
    buffer[phase : phase + size] = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    wanted = found.copy()
    wanted[64 + phase :][:size] = buffer[phase:][:size]
    run(b, buffer, found, phase, at=(phase, 64 + phase))
    assert np.array_equal(found, wanted)


def _flushed(kernel: Staged, data: NDArray[np.uint8], phase: int, machine: Machine, *, masks: bool) -> bool:
    """Whether rows that are filled again and again arrive, and nothing else is written."""
    times = int(kernel.iterations)
    size, stride, row = int(kernel.size), int(kernel.dst_stride), int(kernel.row_stride)
    buffer, found = (
        _aligned(int(kernel.extent) + 192),
        _aligned((kernel.rows - 1) * stride + times * size + 192),
    )
    wanted = found.copy()
    for k in range(kernel.rows):
        wanted[64 + phase + k * stride :][: times * size] = data[k]
    for time in range(times):
        for k in range(kernel.rows):
            buffer[64 + phase + k * row :][:size] = data[k, time * size :][:size]
        b = Builder()
        emit_flush_of_rows(b, kernel, "%src", "%dst", "%part", masks=masks)
        run(b, buffer, found, time, at=(64 + phase, 64 + phase + time * size), machine=machine)
    return np.array_equal(found, wanted)


@pytest.mark.parametrize("size, stride, times", [(128, 1028, 3), (64, 128, 2), (192, 260, 1), (320, 970, 3)])
@pytest.mark.parametrize("phase", [0, 5, 60])
def test_rows_are_flushed_line_by_line_as_they_are_continued(size: int, stride: int, times: int, phase: int):
    row = size + 64 + (stride - size) % 64
    kernel = Staged(size, (), True, 5, stride, row, times, 0)
    data = np.random.default_rng(size).integers(0, 256, (5, times * size), np.uint8)
    assert _flushed(kernel, data, phase, host(), masks=False)


def test_masks_store_the_same():
    machine = machine_here("x86-64-v4")
    kernel = Staged(128, (), True, 3, 452, 128 + 64 + 68 % 64, 3, 0)
    data = np.random.default_rng(1).integers(0, 256, (3, 384), np.uint8)
    assert _flushed(kernel, data, 17, machine, masks=True)


@pytest.mark.parametrize("cursor", [None, PrefetchCursor("%src")])
def test_what_comes_next_is_prefetched_once_for_each_line(cursor: PrefetchCursor | None):
    b = Builder()
    emit_flush_of_rows(b, Staged(256, (), True, 2, 1024, 320), "%src", "%dst", "%part", cursor, masks=False)
    text = "\n".join(b.lines)
    assert text.count("@llvm.prefetch") == (0 if cursor is None else text.count("!nontemporal"))


def test_negative_a_buffer_that_is_not_streamed_goes_through_the_caches():
    b = Builder()
    kernel = Staged(128, (), False, 5, 1024, 192)
    emit_flush_of_rows(b, kernel, "%src", "%dst", "%part", masks=False)
    assert "!nontemporal" not in "\n".join(b.lines)
    data = np.random.default_rng(3).integers(0, 256, (5, 128), np.uint8)
    assert _flushed(kernel, data, 37, host(), masks=False)


def test_negative_a_begun_line_waits_for_the_last_time():
    kernel = Staged(128, (), True, 1, 0, 0, 2, 0)
    buffer, found = _aligned(400), _aligned(400)
    buffer[64 + 5 :][:128] = 1
    b = Builder()
    emit_flush_of_rows(b, kernel, "%src", "%dst", "%part", masks=False)
    run(b, buffer, found, 0, at=(64 + 5, 64 + 5))
    assert found.tolist() == [POISON] * 69 + [1] * 123 + [POISON] * 208
    assert buffer[64:69].tolist() == [1] * 5
