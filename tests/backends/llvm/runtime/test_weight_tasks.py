"""How weights are cut into tasks: whole blocks of channels where they have sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.arrays.protocols import storage_of
from layout_ir.backends.llvm.runtime.task_list import Task, TaskList
from layout_ir.backends.llvm.runtime.weight_tasks import weight_tasks
from layout_ir.backends.reference.conversions import converted
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError


def _sides(src: str, dst: str, shape: tuple[int, ...]) -> tuple[Layout, Layout]:
    return Format.of(src).bind(shape), replace(Format.of(dst).bind(shape), pad="zero")


def _tasks(
    src: str, dst: str, shape: tuple[int, ...], conversion: Conversion, channel: int = 0, *, summed: bool = False,
    **values: Any,
) -> list[Task]:  # fmt: skip
    sides = _sides(src, dst, shape)
    sums = (sides[1].nbytes(conversion.dst), None) if summed else (None, None)
    return list(weight_tasks(0, *sides, conversion, values, (channel,), sums, 2, 0))


@pytest.mark.parametrize("volume", [0, 1 << 30])
@pytest.mark.parametrize(
    ("src", "dst", "shape", "conversion"),
    [
        ("oihw", "OhwI64o4i", (300, 70, 3, 3), Conversion("i8", "i8")),
        ("oihw", "OhwI64o4i", (300, 70, 3, 3), Conversion("f32", "i8", dst_scale=0.15)),
        ("oihw", "OhwI64o4i", (300, 70, 3, 3), Conversion("f32", "i8", dst_scale="channel", dim=0, channels=300)),
        ("oihw", "OIhw8i16o2i", (300, 70, 3, 3), Conversion("f32", "bf16")),
        ("oihw", "Ohwi64o", (300, 170, 3, 3), Conversion("f32", "f32")),
        ("ohwi", "OhwI64o4i", (300, 70, 3, 3), Conversion("f32", "f8E4M3FN", saturate=True)),
        ("oihw", "OIhw2i8o4i", (20, 33, 3, 3), Conversion("f32", "i8")),
        ("oihw", "oihw", (300, 70, 3, 3), Conversion("f32", "f4E2M1FN")),
        ("ab", "BA16a64b4a", (700, 500), Conversion("f32", "i8")),
        ("ba", "BA16a64b4a", (700, 500), Conversion("f32", "i8")),
    ],
    ids=str,
)  # fmt: skip
def test_tasks_write_the_bytes_of_the_reference(
    src: str, dst: str, shape: tuple[int, ...], conversion: Conversion, volume: int
):
    rng = np.random.default_rng(0)
    x = (
        rng.normal(0, 20, shape).astype(np.float32)
        if conversion.src == "f32"
        else rng.integers(-99, 99, shape, np.int8)
    )
    values = {"dst_scale": rng.uniform(0.5, 9, shape[0]).astype(np.float32)} if conversion.dim == 0 else {}
    source, target = _sides(src, dst, shape)
    memory = np.zeros(source.extent, x.dtype)
    memory[source.addresses()] = x
    out = np.full(target.nbytes(conversion.dst), 0x55, np.uint8)
    tasks = list(
        weight_tasks(
            0, source, target, conversion, values, (1 if len(shape) == 2 else 0,), (None, None), 2, volume
        )
    )
    TaskList(tasks, 2).run([memory.ctypes.data], [out.ctypes.data])
    wanted = converted(x, conversion, values)
    if conversion.dst == "f4E2M1FN":
        codes = np.stack([out & 15, out >> 4], 1).ravel()
        assert np.array_equal(codes[target.addresses()], wanted)
        return
    found = out.view(storage_of(conversion.dst))
    assert np.array_equal(found[target.addresses()], wanted)
    assert not found[target.pad_addresses()].any()


def test_a_large_weight_with_sums_is_cut_into_whole_blocks_of_channels():
    tasks = _tasks("oihw", "OhwI64o4i", (1000, 256, 3, 3), Conversion("f32", "i8"), summed=True)
    assert len(tasks) == 16 and len({task.kernel for task in tasks}) == 2  # the last block is not whole
    assert [task.shifted for task in tasks] == [1024 * 256 * 9 + 4 * 64 * k for k in range(16)]
    assert [task.src for task in tasks] == [64 * 256 * 9 * 4 * k for k in range(16)]


def test_negative_a_small_weight_is_one_task():
    assert len(_tasks("oihw", "OhwI64o4i", (128, 16, 3, 3), Conversion("f32", "i8"), summed=True)) == 1


def test_negative_sums_of_other_elements():
    with pytest.raises(LayoutError, match="those of i8"):
        _tasks("oihw", "OhwI64o4i", (64, 64, 3, 3), Conversion("f32", "bf16"), summed=True)
