"""f32 to integers on x86: saturation, ties and NaN by packs and conversions."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.emission.kernels.saturating_packs import saturates_by_packs
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.backends.llvm.runtime.jit import assembly
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.cases import machine_here

SPECIAL = np.array(
    [
        *(0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.49, 127.5, 128.0, -127.5, -128.5, -129.0),
        *(254.5, 255.5, 256.0, 32767.0, 32768.0, -32768.0, -32769.0, 65536.0, 1e38, -1e38, 1e-40),
        *(2.0**31, -(2.0**31), 2.0**31 - 128, -(2.0**31) - 256, 2.0**32, np.inf, -np.inf, np.nan, -np.nan),
    ],
    np.float32,
)
"""Where packs, conversions and rounding have their edges."""


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", ["i8", "ui8", "i16", "ui16", "i32", "ui32"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_integers_saturate_and_nan_is_zero(cpu: str, dtype: str, scale: float | None):
    machine = machine_here(cpu)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 4000, np.uint32).view(np.float32)
    x = np.concatenate([np.repeat(SPECIAL, 3), rng.normal(0, 100, 4000).astype(np.float32), bits, SPECIAL])
    kind = np.dtype(dtype.replace("u", "").replace("i", "uint" if dtype[0] == "u" else "int"))
    y = np.full(x.size, 77, kind)
    layout = Format.of("a").bind(x.shape)
    compile_reorder(layout, layout, conversion=Conversion("f32", dtype, dst_scale=scale), target=machine)(
        x, y
    )
    with np.errstate(all="ignore"):
        scaled = (x if scale is None else x / np.float32(scale)).astype(np.float64)
        wanted = np.clip(np.rint(np.nan_to_num(scaled, nan=0.0)), np.iinfo(kind).min, np.iinfo(kind).max)
    assert np.array_equal(y, wanted.astype(kind))


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_long_runs_are_packed_a_register_at_a_time(cpu: str):
    machine = machine_named(cpu)
    layout = Format.of("a").bind((25600,))
    for dtype, pack in (("i8", "vpacksswb"), ("ui8", "vpackuswb")):
        plan = plan_reorder(layout, layout, conversion=Conversion("f32", dtype), target=machine)
        text = assembly(emit_module({"reorder": plan}, machine), machine)
        assert text.count(pack) == 8  # and again in full, where a lane is rare
        assert "vpshufb" not in text


def test_negative_other_types_and_architectures_have_no_packs():
    assert saturates_by_packs(machine_named("x86-64-v3"), "i8", 32)
    assert saturates_by_packs(machine_named("x86-64-v3"), "ui8", 16)  # half of a register
    assert not saturates_by_packs(machine_named("x86-64-v3"), "i4", 32)
    assert not saturates_by_packs(machine_named("x86-64-v3"), "i8", 8)
    assert saturates_by_packs(machine_named("x86-64-v4"), "ui8", 64)
    assert not saturates_by_packs(machine_named("x86-64-v4"), "i8", 32)
    assert not saturates_by_packs(machine_named("aarch64"), "i8", 16)
    assert saturates_by_packs(machine_named("x86-64-v3"), "ui16", 16)
    assert not saturates_by_packs(machine_named("x86-64-v3"), "i16", 8)
    assert not saturates_by_packs(machine_named("x86-64-v3"), "i32", 32)
