"""Copies of bytes: for which layouts there are any, and that executables with them compute and save the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import layout_ir as li
from layout_ir import Format
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.call import threads_for
from layout_ir.backends.onednn.byte_copy import byte_copy
from layout_ir.backends.onednn.plan_steps import ByteCopy
from tests.backends.onednn.small_programs import needs_library

SHAPE = (1, 16, 6, 5)


@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw8c"])
def test_a_part_in_one_row_is_a_copy_of_bytes(tag: str):
    whole, part = Format.from_tag(tag).bind((1, 48, 6, 5)), Format.from_tag(tag).bind(SHAPE)
    there = whole.slice((0, 16, 0, 0), SHAPE)
    expected = None if tag == "nhwc" else ByteCopy(4 * 16 * 6 * 5)
    assert byte_copy(part, there, "f32", 1) == byte_copy(there, part, "f32", 4) == expected
    assert byte_copy(part, part.slice((0, 0, 0, 0), SHAPE), "i8", 1) == ByteCopy(16 * 6 * 5)


def test_negative_other_orders_pads_broadcasts_and_large_tensors_are_no_copies_of_bytes():
    nchw, nhwc, blocked = (Format.from_tag(tag) for tag in ("nchw", "nhwc", "nChw8c"))
    assert byte_copy(nchw.bind(SHAPE), nhwc.bind(SHAPE), "f32", 1) is None
    padded = blocked.bind((1, 12, 6, 5))
    assert byte_copy(padded, padded, "f32", 1) is None
    assert byte_copy(nchw.bind((1, 1, 6, 5)).broadcast(SHAPE), nchw.bind(SHAPE), "f32", 1) is None
    assert byte_copy(nchw.bind((1, 0, 6, 5)), nchw.bind((1, 0, 6, 5)), "f32", 1) is None
    large = nchw.bind((1, host().profile.streaming_volume_few // 4, 1, 1))
    assert byte_copy(large, large, "f32", 1) is None
    extent = host().profile.dispatch_bytes
    shared = nchw.bind((1, extent, 1, 1))
    is_shared = threads_for(8 * extent, 64) > 1  # not where there is one CPU
    assert byte_copy(shared, shared, "f32", 64) == (None if is_shared else ByteCopy(4 * extent))


@needs_library
@pytest.mark.parametrize("dtype", ["i64", "f32"])
def test_joined_arguments_are_copied_and_stay_so_in_a_file(dtype: str, tmp_path: Path):
    text = (
        f"func.func @main(%x: tensor<1x2x3x{dtype}>, %y: tensor<1x4x3x{dtype}>) -> tensor<1x7x3x{dtype}> {{\n"
        f"  %s = nn.slice %x starts = [0, 1, 0] sizes = [1, 1, 3] steps = [1, 1, 1]"
        f" : (tensor<1x2x3x{dtype}>) -> tensor<1x1x3x{dtype}>\n"
        f"  %z = nn.concat %s, %y, %x axis = 1"
        f" : (tensor<1x1x3x{dtype}>, tensor<1x4x3x{dtype}>, tensor<1x2x3x{dtype}>) -> tensor<1x7x3x{dtype}>\n"
        f"  func.return %z : tensor<1x7x3x{dtype}>\n}}"
    )
    executable = li.compile(li.parse(text), checked=True)
    x = np.arange(6).reshape(1, 2, 3).astype("int64" if dtype == "i64" else "float32")
    y = 10 + np.arange(12).reshape(1, 4, 3).astype(x.dtype)
    executable.save(str(tmp_path / "joined"))
    loaded = li.load_executable(str(tmp_path / "joined"))
    for run in (executable, loaded):
        moves = [move for step in run.plan.steps for move, *_ in getattr(step, "moves", ())]
        assert moves and all(isinstance(move, ByteCopy) for move in moves)
        (z,) = run([x, y])
        assert (z == np.concatenate([x[:, 1:], y, x], axis=1)).all()
