"""The copies that set the baseline copy every byte and none besides, in blocks and their rest."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.runtime.copy_bandwidth import plain_copy, streaming_copy


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 3 * 4096, 50_001])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("copy", [plain_copy, streaming_copy])
def test_every_byte_is_copied_and_none_besides(copy: object, size: int, threads: int):
    kernel = (plain_copy if copy is plain_copy else streaming_copy)(size, threads)
    src = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    room = np.full(size + 256, 0xA5, np.uint8)
    begin = -room.ctypes.data % 64 + 64
    kernel(src, room[begin : begin + size])
    assert np.array_equal(room[begin : begin + size], src)
    assert {*room[:begin], *room[begin + size :]} == {0xA5}


def test_a_kernel_is_made_once_for_a_size_and_threads():
    assert plain_copy(4096) is plain_copy(4096)


def test_negative_the_two_copies_are_different_kernels():
    assert plain_copy(4096) is not streaming_copy(4096)
