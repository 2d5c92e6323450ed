"""NaN and numbers far out of range, alone among others: the registers around them are converted again."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import machine_here

_RARE = np.array(
    [0x7FC00000, 0xFFFFFFFF, 0x7F800001, 0x7F800000, 0xFF800000, 0x4F000000, 0xCF000001], np.uint32
)
"""Bits of f32: NaN of three kinds, both infinities, 2^31, and less than -2^31."""

_LAYOUTS = {
    "run": ("nchw", "nchw", (1, 3, 7, 43)),
    "runs": ("nChw8c", "nhwc", (1, 8, 5, 19)),
    "tile": ("nchw", "nhwc", (1, 40, 3, 17)),
    "columns": ("nhwc", "nchw", (1, 35, 6, 6)),
}


def _numbers(dtype: str, x: NDArray[np.float32], scale: float | None) -> NDArray[np.generic]:
    """`x` as `dtype`, by NumPy; bf16 as their bits."""
    if dtype == "bf16":
        bits = x.view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(x), bits >> 16 | 0x40, rounded).astype(np.uint16)
    kind = np.dtype(
        {"i8": np.int8, "ui8": np.uint8, "i16": np.int16, "ui16": np.uint16, "i32": np.int32}[dtype]
    )
    with np.errstate(all="ignore"):
        scaled = np.nan_to_num(x if scale is None else x / np.float32(scale), nan=0.0).astype(np.float64)
    return np.clip(np.rint(scaled), np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [*((dtype, None) for dtype in ("i8", "ui8", "i16", "ui16", "i32", "bf16")), ("i8", 0.3), ("ui16", 0.3)],
)
@pytest.mark.parametrize("case", list(_LAYOUTS))
def test_a_rare_lane_comes_out_right_wherever_it_is(cpu: str, dtype: str, scale: float | None, case: str):
    source, target, shape = _LAYOUTS[case]
    src, dst = (Format.from_tag(tag).bind(shape) for tag in (source, target))
    kernel = compile_reorder(
        src, dst, conversion=Conversion("f32", dtype, dst_scale=scale), target=machine_here(cpu)
    )
    rng = np.random.default_rng(7)
    common = rng.normal(0, 100, shape).astype(np.float32)
    addresses = [layout.addresses().reshape(-1) for layout in (src, dst)]
    for rare in _RARE:
        for place in rng.choice(common.size, 12, replace=False):
            x = common.copy().reshape(-1)
            x.view(np.uint32)[place] = rare
            laid = np.empty_like(x)
            laid[addresses[0]] = x
            y = np.empty(x.size, _numbers(dtype, x, scale).dtype)
            kernel(laid, y)
            assert np.array_equal(y[addresses[1]], _numbers(dtype, x, scale)), (hex(rare), place)


def test_each_number_of_lanes_is_looked_at():
    b = Builder()
    rare = RareLanes(b)
    assert rare.any() is None
    rare.add_integers(16, "i16", ["%a", "%b"])
    rare.add_integers(8, "i32", ["%c"])
    rare.add_floats(16, "%y")
    assert rare.any() is not None
    text = "\n".join(b.lines)
    assert [text.count(f"reduce.or.v{size}i1") for size in (16, 8)] == [1, 2]
    assert text.count("smin.v16i16") == 1


def _branches(conversion: Conversion) -> int:
    machine = machine_named("x86-64-v3")
    layout = Format.of("a").bind((1024,))
    plan = plan_reorder(layout, layout, conversion=conversion, target=machine)
    return emit_module({"reorder": plan}, machine).count("vector.reduce.or")


def test_negative_what_is_written_once_or_has_no_rare_lanes_is_converted_once():
    assert _branches(Conversion("f32", "i8")) == 1
    assert _branches(Conversion("f32", "bf16")) == 1
    assert not _branches(Conversion("f32", "i8", beta=1.0))
    assert not _branches(Conversion("f32", "f16"))
    assert not _branches(Conversion("i8", "f32", src_scale=0.5))
    assert not _branches(Conversion("i32", "i8"))
    assert not _branches(Conversion("f32", "ui32"))
