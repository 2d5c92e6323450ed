"""The definition of conversions against PyTorch, exact arithmetic and oneDNN."""

from __future__ import annotations

import platform
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.api.reorder_compilation import compile_reorder
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.arrays.protocols import storage_of
from layout_ir.backends.reference.conversions import converted
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import storage
from layout_ir.elements.quantization import Conversion, conversion_between
from layout_ir.errors import LayoutError
from tests.backends.reference.catalog.numbers import TYPES, as_torch, to_stored
from tests.oracles import onednn

FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "i4", "ui64", "ui32", "ui16", "ui8", "ui4")


def _stored(dtype: str) -> NDArray[Any]:
    """Numbers of `dtype`: bounds of other types and their neighbours, ties, subnormals, infinities, NaN."""
    whole = [
        s * (2**k + d)
        for k in (3, 4, 7, 8, 15, 16, 24, 31, 32, 53, 62, 63, 64)
        for d in (-1, 0, 1)
        for s in (1, -1)
    ]
    if dtype not in FLOATS:
        low, high = element_type(dtype).range
        kind = {"i4": np.int8, "ui4": np.uint8}.get(dtype) or storage(dtype)
        return np.array([x for x in [0, *whole] if low <= x <= high], kind)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
        6e-8,
        3e-8,
        65504,
        65519.9,
        65520,
        3.4e38,
        1e300,
        5e-324,
    ]
    ties = [s * (k + 0.5) for k in (0, 1, 2, 7, 14, 126, 127, 128, 254, 255, 32766, 32767) for s in (1, -1)]
    values = np.array([*special, *ties, *map(float, whole), *(1 + 2.0**-k for k in range(6, 26))])
    with np.errstate(all="ignore"):
        return converted(values, Conversion("f64", dtype))


def _numbers(stored: NDArray[Any], dtype: str) -> NDArray[Any]:
    """As f64, exact; for floats."""
    if dtype == "bf16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("src", [*TYPES, "i16"])
@pytest.mark.parametrize("dst", ("f64", "f32", "f16", "bf16", "i1"))
def test_floats_and_truth_are_those_of_pytorch(src: str, dst: str):
    x = _stored(src) if src != "i1" else np.array([True, False])
    if src in ("i64", "i32", "f64") and dst == "bf16":
        pytest.skip("PyTorch rounds twice on the way to bf16")
    theirs = to_stored(as_torch(x, src), dst)
    ours = converted(x, Conversion(src, dst))
    if dst == "i1":
        assert np.array_equal(ours, theirs)
        return
    a, b = _numbers(ours, dst), _numbers(theirs, dst)
    assert np.array_equal(a, b, equal_nan=True)
    assert np.array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))


@pytest.mark.parametrize("src", (*FLOATS, *INTEGERS, "i1"))
@pytest.mark.parametrize("dst", INTEGERS)
def test_integers_are_the_nearest_even_and_saturate(src: str, dst: str):
    x = _stored(src) if src != "i1" else np.array([True, False])
    low, high = map(int, element_type(dst).range)
    numbers = _numbers(x, src).tolist() if src in FLOATS else [int(v) for v in x]
    for number, got in zip(numbers, converted(x, Conversion(src, dst)).tolist(), strict=True):
        if number != number:
            assert got == 0
        elif number in (np.inf, -np.inf):
            assert got == (high if number > 0 else low)
        else:
            assert got == min(max(round(Fraction(number)), low), high)


def test_zero_points_of_wide_integers_are_exact():
    x = np.array([2**31 - 1, -(2**31), 16777217], np.int32)
    shifted = converted(x, Conversion("i32", "i32", src_zero=1.0))
    assert shifted.tolist() == [2**31 - 2, -(2**31), 16777216]


def test_steps_act_in_the_order_of_the_definition():
    conversion = Conversion(
        "ui8", "i8", src_zero=128.0, src_scale=0.25, dst_scale=0.5, beta=2.0, dst_zero=-3.0
    )
    got = converted(
        np.array([128, 131, 255, 0], np.uint8), conversion, old=np.array([-3, 0, 100, -100], np.int8)
    )
    # (0 - 0) * .5 + 2 * 0 - 3;   1.5 + 6 = 7.5 -> 8, - 3;   63.5 + 206 -> 270, - 3 -> 127;   -64 - 194 - 3 -> -128
    assert got.tolist() == [-3, 5, 127, -128]


def test_channels_run_along_their_dim():
    conversion = Conversion("f32", "i32", src_scale="channel", dst_zero="channel", dim=1, channels=3)
    values = {"src_scale": np.array([1, 10, 100]), "dst_zero": np.array([0, 1, 2])}
    assert converted(np.ones((2, 3), np.float32), conversion, values).tolist() == [[1, 11, 102]] * 2


def test_negative_a_parameter_is_missing():
    with pytest.raises(LayoutError, match="needs a value of dst_scale"):
        converted(np.ones(2, np.float32), Conversion("f32", "i8", dst_scale="tensor"))
    with pytest.raises(LayoutError, match="give it as old"):
        converted(np.ones(2, np.float32), Conversion("f32", "i8", beta=1.0))
    with pytest.raises(LayoutError, match="needs the dim of the channels"):
        Conversion("f32", "i8", dst_scale="channel")


ARITHMETIC: dict[str, tuple[onednn.Attributes, dict[str, Any]]] = {
    "plain": (onednn.Attributes(), {}),
    "source scale": (onednn.Attributes(src_scale=(0, np.array([0.25], np.float32))), {"src_scale": 0.25}),
    "destination scale": (onednn.Attributes(dst_scale=(0, np.array([0.25], np.float32))), {"dst_scale": 0.25}),
    "channels": (onednn.Attributes(src_scale=(2, np.exp2(np.arange(-3.0, 3, dtype="f4")))), {"src_scale": "channel"}),
    "source zero point": (onednn.Attributes(src_zero=5), {"src_zero": 5.0}),
    "destination zero point": (onednn.Attributes(dst_zero=6), {"dst_zero": 6.0}),
    "sum": (onednn.Attributes(beta=0.5), {"beta": 0.5}),
}  # fmt: skip


@pytest.mark.skipif(onednn.executes() is not None, reason=str(onednn.executes()))
@pytest.mark.parametrize("src", ("f32", "f16", "bf16", "i32", "i8", "ui8"))
@pytest.mark.parametrize("dst", ("f32", "f16", "bf16", "i32", "i8", "ui8"))
@pytest.mark.filterwarnings("ignore:overflow")
def test_onednn_writes_the_same(src: str, dst: str):
    """With its known differences left out: see `layout_ir.elements.quantization`."""
    random = np.random.default_rng(0)
    drawn = np.round(random.normal(0, 90, (40, 6)) * 4) / 4
    ties = [0.5, 1.5, -0.5, 126.5, 127.5, -128.5, 254.5, 255.5, 300, -300]
    drawn.ravel()[: len(ties)] = ties
    if src in ("f32", "f16"):
        # None is infinite as an f16: of infinities its kernels for AVX512-FP16 make the least integer, others the end.
        drawn.ravel()[20:24] = 40000, -40000, 65504, 1e5 if src == "f32" else -65504
    x = converted(drawn, Conversion("f64", src))
    old = converted(np.round(random.normal(0, 20, x.shape)), Conversion("f64", dst))
    compared = 0
    for attributes, steps in ARITHMETIC.values():
        out = np.ascontiguousarray(old.T)
        try:
            onednn.reorder(
                onednn.Desc.from_tag(x.shape, "ab", src),
                x,
                onednn.Desc.from_tag(x.shape, "ba", dst),
                out,
                attributes,
            )
        except onednn.OneDNNError:
            continue
        channels: dict[str, Any] = {"dim": 1, "channels": 6} if "channel" in steps.values() else {}
        values = {"src_scale": attributes.src_scale[1]} if channels and attributes.src_scale else {}
        ours = converted(x, Conversion(src, dst, **steps, **channels), values, old)
        assert np.array_equal(ours, out.T), f"{steps}"
        compared += 1
    # It has no kernels between these.
    assert compared or {src, dst} in ({"bf16", "f16"}, {"bf16", "i32"}, {"f16", "i32"}, {"f16", "ui8"})


@pytest.mark.skipif(onednn.executes() is not None, reason=str(onednn.executes()))
@pytest.mark.parametrize("src", ["f32", "i8"])
@pytest.mark.parametrize(("scale", "zero"), [(None, None), (0.5, None), (None, 5), (2.0, -7)])
def test_beta_adds_reals_where_the_sum_of_onednn_adds_stored_numbers(
    src: str, scale: float | None, zero: int | None
):
    generator = np.random.default_rng(3)
    x = generator.integers(-30, 30, 500).astype(np.int8 if src == "i8" else np.float32)
    old = generator.integers(-60, 60, 500).astype(np.int8)
    s, z = scale or 1.0, zero or 0
    theirs = old.copy()
    attributes = onednn.Attributes(
        None, None if scale is None else (0, np.array([scale], np.float32)), None, zero, 0.5
    )
    flat = [onednn.Desc.from_strides((500,), (1,), dtype) for dtype in (src, "i8")]
    onednn.reorder(flat[0], x, flat[1], theirs, attributes)
    conversion, _ = conversion_between(src, "i8", scale=(None, scale), zero_point=(None, zero), beta=0.5)
    ours = converted(x, conversion, None, old)
    for k in range(500):
        real = Fraction(float(x[k])) + Fraction(1, 2) * (int(old[k]) - z) * Fraction(s)
        stored = Fraction(float(x[k])) + Fraction(1, 2) * int(old[k])
        assert ours[k] == min(max(round(real / Fraction(s)) + z, -128), 127)
        assert theirs[k] == min(max(round(stored / Fraction(s) + z), -128), 127)
    assert np.array_equal(ours, theirs) == (scale is None and zero is None)


_NANS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
"""Bits behind the point."""


def signalling(dtype: str) -> NDArray[np.unsignedinteger[Any]]:
    """Signalling NaNs of either sign, quiet ones and infinities, as bits."""
    kind, m = np.dtype(f"u{np.dtype(storage_of(dtype)).itemsize}"), _NANS[dtype]
    infinity = ((1 << 8 * kind.itemsize - 1 - m) - 1) << m
    positive = [infinity | 1, infinity | 1 << m - 2, infinity | 1 << m - 1, infinity]
    return np.array([x | sign << 8 * kind.itemsize - 1 for x in positive for sign in (0, 1)], kind)


@pytest.mark.parametrize(("src", "dst"), [(a, b) for a in _NANS for b in _NANS if a != b])
def test_every_nan_becomes_a_quiet_nan(src: str, dst: str):
    bits = np.tile(signalling(src), 9)  # whole vectors and a tail
    x, kind, m = bits.view(storage_of(src)), storage_of(dst), _NANS[dst]
    made = [converted(x, Conversion(src, dst))]
    for target in (None, "x86-64-v2") if platform.machine() == "x86_64" else (None,):
        out = np.zeros(x.size, kind)
        compile_reorder(TensorDesc((x.size,), src), TensorDesc((x.size,), dst), target=target)(x, out)
        made.append(out)
    for result in made:
        found = result.view(f"u{kind.itemsize}").astype(np.uint64)
        field = found >> np.uint64(m - 1) & np.uint64(
            (1 << 8 * kind.itemsize - m) - 1
        )  # exponent and quiet bit
        exponent = (1 << 8 * kind.itemsize - 1 - m) - 1
        nan = np.tile(np.repeat([True, True, True, False], 2), 9)
        assert (field == np.where(nan, exponent << 1 | 1, exponent << 1)).all()
        assert (found >> np.uint64(8 * kind.itemsize - 1) == np.tile([0, 1], 36)).all()  # the sign stays
