"""Objects for dynamic shapes: called from C with many shapes, here and under emulators."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.aot.dynamic_object_file import DynamicUnit, compile_dynamic_ahead, hints
from layout_ir.backends.llvm.aot.object_file import elf_symbols
from layout_ir.backends.llvm.machine.known_cpus import known_cpus, machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.planning.dynamic_shapes import DynamicShape
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from tests.backends.llvm.aot.c_caller import check_runs, moving
from tests.backends.llvm.cases import Case
from tests.seeds import seeds

N = None
_KERNELS = [
    ("nchw", "nhwc", (N, N, N, N), "f32"),
    ("nhwc", "nchw", (N, N, N, N), "ui8"),
    ("nchw", "nChw8c", (N, N, N, N), "f32"),
    ("nchw", "nChw8c", (N, 64, N, N), "f16"),
    ("nChw8c", "nchw", (N, N, N, N), "f64"),
    ("nChw8c", "nChw16c", (N, N, N, N), "i8"),
    ("ab", "ba", (N, N), "f16"),
    ("nchw", "nchw", (N, N, N, N), "i8"),
    ("oihw", "OIhw8i8o", (N, N, 3, 3), "f32"),
    ("(n, c) : [n, c, c:12], pad = 5", "(n, c) : [n, c, c:8], pad = 7", (N, N), "i8"),
]
_EXTENTS = (0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 24, 40, 63, 64, 65, 96, 130)


def _unit(target: str, number: int = 2) -> DynamicUnit:
    source, destination, shape, dtype = _KERNELS[number]
    formats = Format.of(source), Format.of(destination)
    # Small caches, so that tensors need not be large to be streamed.
    machine = replace(machine_named(target), l2=64 << 10, l3=128 << 10)
    return compile_dynamic_ahead(*formats, shape, dtype, machine, f"k{number}")


def _case(rng: Random, unit: DynamicUnit) -> Case:
    while True:
        shape = tuple(rng.choice(_EXTENTS) if x is None else x for x in unit.shape)
        if math.prod(shape) <= 60_000 and (0 not in shape or rng.random() < 0.1):
            return Case(unit.reorder.src.bind(shape), unit.reorder.dst.bind(shape), unit.dtype)


@pytest.mark.parametrize("part", seeds(1, 4))
@pytest.mark.parametrize("target", known_cpus())
def test_c_programs_move_tensors_of_many_shapes(target: str, part: int, tmp_path: Path):
    rng = Random(7 + part)
    # Half of the kernels, the others on the next CPU.
    first = (list(known_cpus()).index(target) + part) % 2
    units = [_unit(target, number) for number in range(first, len(_KERNELS), 2)]
    runs = [(number, _case(rng, unit)) for number, unit in enumerate(units) for _ in range(12)]
    # Every example, so that every choice is taken.
    for number, unit in enumerate(units):
        for shape in hints(unit.reorder):
            runs.append(
                (number, Case(unit.reorder.src.bind(shape), unit.reorder.dst.bind(shape), unit.dtype))
            )
    check_runs(tmp_path, target, units, moving(units, runs, 2), seed=2)


@pytest.mark.parametrize("target", known_cpus())
def test_objects_need_nothing(target: str):
    names = ["k2", "k2_dst_bytes", "k2_part", "k2_src_bytes"]
    assert sorted(elf_symbols(_unit(target).object_file())) == [(name, True) for name in names]


def test_a_shape_that_is_named_gets_a_choice_of_its_own():
    formats, machine = (Format.of("nchw"), Format.of("nhwc")), machine_named("x86-64-v3")
    usual = compile_dynamic_ahead(*formats, (N, N, N, N), "f32", machine)
    named = compile_dynamic_ahead(*formats, (N, N, N, N), "f32", machine, like=[(1, 2, 100, 100)])
    assert not any(choice.serves((3, 2, 50, 50)) for choice in usual.choices[:-1])
    assert named.choices[0].serves((3, 2, 50, 50))
    assert named.choices[-1].serves((1, 1, 1, 1))
    assert not named.choices[-1].shape_env.guards


def test_every_larger_shape_has_a_plan_in_tiles():
    rng = Random(3)
    unit = _unit("x86-64-v3", 0)
    for _ in range(300):
        shape = (rng.randint(1, 500), rng.randint(16, 500), rng.randint(4, 300), rng.randint(4, 300))
        taken = next(choice for choice in unit.choices if choice.serves(shape))
        assert taken is not unit.choices[-1], shape


@pytest.mark.parametrize(
    "source, destination, shape, like, message",
    [
        ("nchw", "nhwc", (N, N, N), (), "rank mismatch between the source"),
        ("nchw", "nhwc", (N, 3, N, N), ((1, 4, 8, 8),), "1x4x8x8 is no shape that ?x3x?x? stands for"),
        ("nchw", "nhwc", (N, 3, N, N), ((1, 3, 0, 8),), "the example 1x3x0x8 has no elements"),
        (
            "(a, b) : [a, b, a:4]",
            "(a, b) : [a, b, a:4], lo = [1, 0], pad = zero",
            (N, N),
            (),
            "no kernel from",
        ),
        ("ab", "(a, b) : [b*40, a]", (N, N), (), "at one address"),
    ],
)
def test_negative_what_no_code_serves(
    source: str, destination: str, shape: DynamicShape, like: tuple[tuple[int, ...], ...], message: str
):
    with pytest.raises(LayoutError) as found:
        compile_dynamic_ahead(
            Format.of(source), Format.of(destination), shape, "f32", machine_named("haswell"), like=like
        )
    assert message in str(found.value)


def test_objects_convert_shapes_of_any_size():
    conversion = Conversion("f32", "i8", dst_scale=0.5, dst_zero=1.0)
    machine = replace(host(), l2=64 << 10, l3=128 << 10)
    unit = compile_dynamic_ahead(Format.of("nchw"), Format.of("nhwc"), (N, N, N, N), conversion, machine, "q")
    code = Code(unit.ir(), machine, unit.symbols)
    rng = np.random.default_rng(1)
    for shape in (
        (1, 1, 1, 1),
        (2, 17, 5, 4),
        (3, 64, 30, 31),
        (2, 3, 40, 50),
        (1, 65, 70, 9),
        (2, 0, 3, 3),
        *hints(unit.reorder),
    ):
        x = rng.normal(0, 20, shape).astype(np.float32)
        y = np.zeros(x.size, np.int8)
        extents = np.array(shape, np.int64)
        places = x.ctypes.data, y.ctypes.data
        sizes = [
            ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address(f"q_{side}_bytes"))(
                extents.ctypes.data
            )
            for side in ("src", "dst")
        ]
        assert sizes == [x.nbytes, y.nbytes]
        part = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, ctypes.c_void_p)
        for k in (2, 0, 1):
            part(code.address("q_part"))(*places, k, 3, extents.ctypes.data)
        wanted = np.clip(np.rint(x * np.float32(2)) + 1, -128, 127).transpose(0, 2, 3, 1)
        assert np.array_equal(y, wanted.ravel()), shape


@pytest.mark.parametrize("target", ["x86-64-v2", "aarch64", "riscv64"])
def test_objects_that_convert_need_nothing(target: str):
    conversion = Conversion("f32", "bf16")
    unit = compile_dynamic_ahead(Format.of("ab"), Format.of("ba"), (N, N), conversion, machine_named(target))
    assert all(defined for _, defined in elf_symbols(unit.object_file()))


def test_where_elements_share_bytes_one_share_is_all():
    conversion = Conversion("i8", "i4")
    unit = compile_dynamic_ahead(Format.of("ab"), Format.of("ba"), (N, N), conversion, host(), "q")
    code = Code(unit.ir(), host(), unit.symbols)
    part = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, ctypes.c_void_p)
    x, extents = np.ones((64, 96), np.int8), np.array([64, 96], np.int64)
    for k, wanted in ((1, 0), (0, 0x11)):
        y = np.zeros(x.size // 2, np.uint8)
        part(code.address("q_part"))(x.ctypes.data, y.ctypes.data, k, 2, extents.ctypes.data)
        assert (y == wanted).all()


@pytest.mark.parametrize(
    "source, destination, shape, message",
    [
        ("ab", "(a, b) : [a*3, b*-1]", (N, 3), "the destination .* begins below address 0"),
        ("ab", "(a, b) : [b*-4, a]", (3, N), "the destination .* begins for large extents below address 0"),
        (
            "ab",
            "(a, b) : [b*-4, a], offset = 4000",
            (3, N),
            "the destination .* begins for large extents below",
        ),
        (
            "(a, b) : [a*-64, b], offset = 100000",
            "ab",
            (N, 64),
            "the source .* begins for large extents below",
        ),
    ],
)
def test_negative_code_that_cannot_refuse_shapes_below_its_buffers(
    source: str, destination: str, shape: tuple[int | None, ...], message: str
):
    with pytest.raises(LayoutError, match=message):
        compile_dynamic_ahead(Format.of(source), Format.of(destination), shape, "f32", host())


def test_a_known_extent_may_run_backwards():
    unit = compile_dynamic_ahead(
        Format.of("ab"), Format.of("(a, b) : [a*3, b*-1], offset = 2"), (N, 3), "f32", host(), "q"
    )
    code = Code(unit.ir(), host(), unit.symbols)
    x, extents = np.arange(12, dtype=np.float32), np.array([4, 3], np.int64)
    y = np.zeros(12, np.float32)
    whole = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("q"))
    whole(x.ctypes.data, y.ctypes.data, extents.ctypes.data)
    assert np.array_equal(y.reshape(4, 3), x.reshape(4, 3)[:, ::-1])
