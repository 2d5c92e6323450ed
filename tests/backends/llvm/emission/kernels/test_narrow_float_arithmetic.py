"""Machine code for narrow floats against their definition in NumPy: every code, every half, every edge of rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.reference.conversions import converted
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.narrow_floats import decoded
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import machine_here
from tests.elements.test_narrow_floats import HALVES, NARROW, codes, singles
from tests.oracles import onednn

CPUS = pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
every_type = pytest.mark.parametrize("name", NARROW)


def _packed(row: NDArray[np.uint8], dtype: str) -> NDArray[np.uint8]:
    """Elements, one per byte, as they lie in memory."""
    return row if bits_of(dtype) == 8 else (row[::2] | row[1::2] << 4).astype(np.uint8)


def _unpacked(row: NDArray[np.uint8], dtype: str) -> NDArray[np.uint8]:
    return row if bits_of(dtype) == 8 else np.stack([row & 15, row >> 4], 1).ravel().astype(np.uint8)


def _converted(cpu: str, x: NDArray[Any], conversion: Conversion, kind: Any) -> NDArray[Any]:
    """`x`, elements one by one, as the kernel for `cpu` converts it."""
    layout = Format.of("a").bind((x.size,))
    narrow = element_type(conversion.dst).is_narrow_float
    count = -(-x.size * bits_of(conversion.dst) // 8) if narrow else x.size
    out = np.zeros(count, np.uint8 if narrow else kind)
    source = _packed(x, conversion.src) if element_type(conversion.src).is_narrow_float else x
    compile_reorder(layout, layout, conversion=conversion, target=machine_here(cpu))(source, out)
    return _unpacked(out, conversion.dst) if narrow else out


@CPUS
@every_type
@pytest.mark.parametrize("saturate", [False, True])
def test_floats_are_rounded_as_the_definition_says(cpu: str, name: str, saturate: bool):
    saturate = saturate and element_type(name).may_saturate
    f32 = np.resize(singles(name), singles(name).size & ~1)
    with np.errstate(all="ignore"):
        sources = {"f32": f32, "f64": f32.astype(np.float64), "f16": HALVES.view(np.float16), "bf16": HALVES}
    for src, x in sources.items():
        conversion = Conversion(src, name, saturate=saturate)
        assert np.array_equal(_converted(cpu, x, conversion, np.uint8), converted(x, conversion)), src


@CPUS
def test_a_signalling_nan_becomes_a_quiet_half(cpu: str):
    x = np.resize(np.arange(256, dtype=np.uint8), 1024)
    halves = _converted(cpu, x, Conversion("f8E5M2", "f16"), np.float16).view(np.uint16)
    wanted = x.astype(np.uint16) << 8
    is_nan = (x & 0x7F) > 0x7C
    assert np.array_equal(halves[~is_nan], wanted[~is_nan])
    assert np.array_equal(halves[is_nan], wanted[is_nan] | 0x200)


@CPUS
@every_type
def test_every_code_becomes_every_wider_type(cpu: str, name: str):
    x = np.resize(codes(name), 1 << 8)
    for dst, kind in (("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("i8", np.int8)):
        conversion = Conversion(name, dst)
        found, wanted = _converted(cpu, x, conversion, kind), converted(x, conversion)
        assert np.array_equal(found, wanted, equal_nan=dst[0] == "f"), dst
        numbers = ~np.isnan(wanted)
        assert np.array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@CPUS
@every_type
def test_scales_of_channels_act_before_the_rounding(cpu: str, name: str):
    rng = np.random.default_rng(8)
    x = rng.normal(0, 40, (6, 50)).astype(np.float32)
    scales = rng.uniform(0.01, 0.4, 6).astype(np.float32)
    src, dst = Format.of("ab").bind(x.shape), Format.of("ba").bind(x.shape)
    saturate = element_type(name).may_saturate
    conversion = Conversion(
        "f32", name, dst_scale=tuple(scales.tolist()), dim=0, channels=6, saturate=saturate
    )
    out = np.zeros(dst.nbytes(name), np.uint8)
    compile_reorder(src, dst, conversion=conversion, target=machine_here(cpu))(x.ravel(), out)
    real = decoded(_unpacked(out, name), name).reshape(50, 6).T * scales[:, None]
    # Half of the last place is lost at most, or half of the least number.
    element = element_type(name)
    largest = decoded(np.array([element.largest_code], np.uint8), name)
    least = decoded(np.array([1], np.uint8), name)
    inside = np.abs(x) <= largest * scales[:, None]
    lost = np.maximum(np.abs(x) * 2.0 ** -(element.mantissa + 1), least / 2 * scales[:, None]) * 1.0001
    assert inside.any() and (np.abs(real - x) <= lost)[inside].all()
    assert np.allclose(np.abs(real)[~inside], np.broadcast_to(largest * scales[:, None], x.shape)[~inside])


ONEDNN = {"f8E5M2": 9, "f8E4M3FN": 10, "f4E2M1FN": 14}


@pytest.mark.skipif(onednn.executes() is not None, reason=f"no oneDNN: {onednn.executes()}")
@pytest.mark.parametrize("name", list(ONEDNN))
def test_onednn_writes_the_same_bytes(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(onednn.DTYPES, name, ONEDNN[name])
    x = HALVES.view(np.float16).astype(np.float32)  # it rounds f32 to f16 first
    # The sign of what becomes zero is dropped there, that of NaN is nobody's.
    x = x[~np.isnan(x) & (np.abs(x) >= decoded(np.array([1], np.uint8), name))]
    x = np.resize(x, x.size & ~1)
    theirs = np.zeros(x.size * bits_of(name) // 8, np.uint8)
    descs = [onednn.Desc.from_strides((x.size,), (1,), dtype) for dtype in ("f32", name)]
    try:
        onednn.reorder(descs[0], x, descs[1], theirs)
    except onednn.OneDNNError as error:
        pytest.skip(f"oneDNN converts no {name} here: {error}")
    conversion = Conversion("f32", name)
    assert np.array_equal(_packed(_converted("x86-64-v4", x, conversion, np.uint8), name), theirs)


def test_negative_wide_floats_and_integers_do_not_saturate_on_demand():
    from layout_ir.errors import LayoutError

    for dst in ("f16", "i8", "f4E2M1FN"):
        with pytest.raises(LayoutError, match="only floats of 8 bits"):
            Conversion("f32", dst, saturate=True)
