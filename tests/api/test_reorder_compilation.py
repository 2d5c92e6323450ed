"""Compiled reorders of layouts and descriptors: element types, quantization per call, machine code by its address."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.api.reorder_compilation import ScaledReorder
from layout_ir.api.reordering import (
    _known,  # pyright: ignore[reportPrivateUsage]
)
from layout_ir.backends.llvm import Reorder, forget
from layout_ir.elements.quantization import conversion_between
from layout_ir.errors import LayoutError


def _ramp(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_descriptors_bring_their_element_type():
    source, destination = li.TensorDesc((3, 4), "i8", "ab"), li.TensorDesc((3, 4), "i8", "ba")
    x, y = np.arange(12, dtype=np.int8), np.zeros(12, np.int8)
    li.compile_reorder(source, destination)(x, y)
    assert np.array_equal(y.reshape(4, 3), x.reshape(3, 4).T)


def test_descriptors_of_different_elements_convert():
    source, destination = (
        li.TensorDesc((3, 4), "f32", "ab"),
        li.TensorDesc((3, 4), "i8", "ba", scale=0.5, zero_point=3),
    )
    x, y = _ramp(3, 4), np.zeros(12, np.int8)
    li.compile_reorder(source, destination)(x, y)
    assert np.array_equal(y.reshape(4, 3), x.T * 2 + 3)


def test_equal_quantization_moves_the_bits_and_pads_with_the_zero_point():
    source = li.TensorDesc((3, 5), "i32", "ab", scale=0.5, zero_point=7)
    destination = li.TensorDesc((3, 5), "i32", "aB4b", scale=0.5, zero_point=7, pad="zp")
    x = np.arange(15, dtype=np.int32) + 2**30 + 1
    y = np.zeros(24, np.int32)
    li.compile_reorder(source, destination)(x, y)
    wanted = np.full((3, 8), 7, np.int32)
    wanted[:, :5] = x.reshape(3, 5)
    assert np.array_equal(y.reshape(3, 2, 4), wanted.reshape(3, 2, 4))


def test_numbers_of_channels_may_be_compiled_in():
    x, scale, zero = _ramp(2, 3, 4, 5), (1.0, 2.0, 4.0), (0.0, 5.0, -5.0)
    src, dst = (li.Format.of(name).bind(x.shape) for name in ("nchw", "nChw8c"))
    kernel = li.compile_reorder(
        src, dst, "f32", dst_dtype="i32", scale=(None, scale), zero_point=(None, zero), dim=1
    )
    assert isinstance(kernel, Reorder)
    conversion = kernel.plan.conversion
    assert conversion is not None
    assert conversion.parameters == {"dst_scale": scale, "dst_zero": zero}
    y = np.zeros(dst.extent, np.int32)
    kernel(x.reshape(-1), y)
    brought = li.reorder(x, "nchw", "nChw8c", dtype="i32", scale=list(scale), zero_point=list(zero), dim=1)
    assert np.array_equal(y, brought.reshape(-1))


def test_numbers_that_every_channel_has_are_one():
    same, _ = conversion_between(
        "f32", "i8", scale=(None, (0.5,) * 3), zero_point=(None, (7,) * 3), dim=1, channels=3
    )
    assert same == conversion_between("f32", "i8", scale=0.5, zero_point=7)[0]
    none, _ = conversion_between("i8", "i8", scale=((2.0, 3.0), (2.0, 3.0)), dim=0, channels=2)
    assert none.is_identity


def test_negative_numbers_that_differ_stay_one_per_channel():
    found, values = conversion_between("f32", "i8", scale=(None, (0.5, 0.25)), dim=0, channels=2)
    assert (found.dst_scale, found.dim, found.channels, values) == ((0.5, 0.25), 0, 2, {})


def test_numbers_may_change_from_call_to_call():
    src, dst = (li.Format.of(name).bind((3, 4)) for name in ("ab", "ba"))
    kernel = li.compile_reorder(src, dst, "f32", dst_dtype="i8", scale=np.array(0.5))
    assert isinstance(kernel, ScaledReorder)
    x, y = _ramp(3, 4), np.zeros(12, np.int8)
    kernel(x, y)
    assert np.array_equal(y.reshape(4, 3), x.T * 2)
    kernel(x, y, scale=np.array(0.25))
    assert np.array_equal(y.reshape(4, 3), x.T * 4)
    with pytest.raises(
        li.LayoutError, match=r"compiled for f32 to i8, dst_scale tensor, not for f32 to i8, dst_scale 0\.5"
    ):
        kernel(x, y, scale=0.5)


def test_arrays_of_numbers_may_be_written_to_after_compiling():
    layout = li.Format.of("ab").bind((2, 3))
    zeros = np.array([1.0, 2.0])
    kernel = li.compile_reorder(layout, layout, "f32", dst_dtype="i8", zero_point=zeros, dim=0)
    zeros[:] = 1000
    out = np.zeros(6, np.int8)
    kernel(np.zeros(6, np.float32), out)
    assert out.tolist() == [1, 1, 1, 2, 2, 2]


def test_what_is_kept_can_be_dropped():
    x = _ramp(7, 5)
    source, destination = (li.TensorDesc((None, 5), "f32", tag) for tag in ("ab", "ba"))
    opened = li.compile_reorder(source, destination)
    li.reorder(x, "ab", "ba")
    assert li.compile_reorder(source, destination) is opened
    assert _known.cache_info().currsize > 0
    forget()
    assert _known.cache_info().currsize == 0
    assert li.compile_reorder(source, destination) is not opened


# --- Machine code for callers outside Python ---

PLAIN = li.TensorDesc((2, 17, 5, 4), "f32", "nchw")


VALUES = np.random.default_rng(0).standard_normal((2, 17, 5, 4)).astype(np.float32)


def calling(folder: Path, signature: str, body: str) -> Any:
    """A C function `call(function, ...)` around one of this signature."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    pointer = signature.replace("void reorder(", "typedef void (*reorder_t)(")
    (folder / "call.c").write_text(f"#include <stdint.h>\n{pointer};\n{body}\n")
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "call.c", "-o", "call.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "call.so"))


def test_it_is_called_by_its_address_whole_and_in_parts(tmp_path: Path):
    kernel = li.compile_reorder(PLAIN, li.TensorDesc((2, 17, 5, 4), "f32", "nChw8c"))
    body = """
    void call(reorder_t reorder, const void *src, void *dst, int64_t parts) {
      for (int64_t part = 0; part < parts; part++) reorder(src, dst, part, parts);
    }"""
    loaded = calling(tmp_path, kernel.signature, body)
    for parts in (1, 3):
        result = np.full((2, 3, 5, 4, 8), np.nan, np.float32)
        loaded.call(ctypes.c_void_p(kernel.address), VALUES.ctypes, result.ctypes, ctypes.c_int64(parts))
        assert np.array_equal(result, li.reorder(VALUES, "nchw", "nChw8c"))


def test_numbers_that_are_not_compiled_in_stand_behind_the_buffers(tmp_path: Path):
    scale = np.linspace(0.01, 0.2, 17).astype(np.float32)
    layouts = [li.Format.from_tag(tag).bind((2, 17, 5, 4)) for tag in ("nchw", "nhwc")]
    kernel = li.compile_reorder(layouts[0], layouts[1], "f32", dst_dtype="i8", scale=scale, dim=1)
    body = """
    void call(reorder_t reorder, const void *src, void *dst, const float *scale) {
      const void *const arguments[7] = {src, dst, 0, 0, scale, 0, 0};
      reorder(arguments, 0, 0, 1);
    }"""
    loaded = calling(tmp_path, kernel.signature, body)
    result = np.zeros((2, 5, 4, 17), np.int8)
    loaded.call(ctypes.c_void_p(kernel.address), VALUES.ctypes, result.ctypes, scale.ctypes)
    assert np.array_equal(result, li.reorder(VALUES, "nchw", "nhwc", dtype="i8", scale=scale, dim=1))


def test_the_code_lives_as_long_as_the_kernel():
    kernel = li.compile_reorder(PLAIN, li.TensorDesc((2, 17, 5, 4), "f32", "nhwc"))
    forget()
    gc.collect()
    result = np.zeros((2, 5, 4, 17), np.float32)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kind(kernel.address)(VALUES.ctypes.data, result.ctypes.data, 0, 1)
    assert np.array_equal(result, VALUES.transpose(0, 2, 3, 1))


def test_negative_a_kernel_of_dynamic_extents_has_no_address():
    sides = [li.TensorDesc((None, 17, 5, 4), "f32", tag) for tag in ("nchw", "nhwc")]
    kernel = li.compile_reorder(sides[0], sides[1])
    with pytest.raises(li.LayoutError, match=r"of dynamic extents has no address.*compile_object"):
        _ = kernel.address


@pytest.mark.parametrize("side", ["nchw", Format.from_tag("nchw")])
def test_negative_a_side_without_a_shape(side: Any):
    layout = Format.from_tag("nhwc").bind((1, 3, 4, 5))
    for sides in ((side, layout), (layout, side)):
        with pytest.raises(LayoutError, match=r"each side is a TensorDesc or a Layout, not .*has no shape"):
            li.compile_reorder(*sides)


@pytest.mark.parametrize("extent", [3, None])
def test_negative_a_target_that_is_no_machine(extent: int | None):
    desc = li.TensorDesc((extent,), "f32", "a")
    wrong: Any = 7
    with pytest.raises(LayoutError, match="target is a Machine or the name of one, not of type int"):
        li.compile_reorder(desc, desc, target=wrong)
    li.compile_reorder(desc, desc, target="host")
