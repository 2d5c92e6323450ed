"""Features of x86 come with what is part of them, and code asks for no instruction of one that is not there."""

from __future__ import annotations

from itertools import product

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.known_cpus import machine_named, with_features
from layout_ir.backends.llvm.machine.machine import Machine, detected
from layout_ir.backends.llvm.machine.x86_features import has_x86_feature, register_bytes
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.backends.llvm.runtime.jit import object_file
from layout_ir.elements.quantization import Conversion

_LINUX = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    "cpu, changes, has, lacks",
    [
        ("x86-64", "", (), ("sse3", "sse4.1", "avx")),
        ("x86-64-v2", "", ("ssse3", "sse4.1"), ("avx", "f16c")),
        ("x86-64-v2", "+avx2", ("avx", "avx2"), ("f16c", "fma", "avx512f")),
        ("x86-64-v3", "+avx512bw", ("avx512f", "avx512bw", "fma"), ("avx512vl",)),
        ("x86-64-v3", "-sse4.1", ("ssse3",), ("sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c")),
        ("x86-64-v4", "-fma", ("avx2", "f16c"), ("fma", "avx512f", "avx512bw", "avx512vl")),
        ("znver4", "-avx512bw", ("avx512f", "avx512vnni"), ("avx512bw", "avx512vbmi", "avx512bf16")),
        ("x86-64-v4", "-fma,+fma", ("fma",), ("avx512f",)),
    ],
)
def test_a_feature_comes_with_its_parts_and_goes_with_what_it_is_part_of(
    cpu: str, changes: str, has: tuple[str, ...], lacks: tuple[str, ...]
):
    machine = Machine(_LINUX, cpu, changes, 16)
    assert all(has_x86_feature(machine, name) for name in has)
    assert not any(has_x86_feature(machine, name) for name in lacks)


def test_this_machine_has_what_it_says_of_itself():
    machine = detected()
    said = {part[1:] for part in machine.features.split(",") if part.startswith("+")}
    for name in ("sse4.1", "avx2", "fma", "f16c", "avx512bw"):
        assert has_x86_feature(machine, name) == (machine.architecture == "x86_64" and name in said)
    if machine.architecture == "x86_64":
        assert register_bytes(machine) == machine.vector


def test_negative_other_architectures_have_none():
    assert not has_x86_feature(machine_named("aarch64"), "fma")


_CHANGES = [
    ("x86-64", ""),
    *product(("x86-64-v2", "x86-64-v3", "x86-64-v4"), ("-sse4.1", "-ssse3")),
    *product(("x86-64-v3", "x86-64-v4"), ("-fma", "-f16c", "-avx", "-avx2")),
    *product(("x86-64-v4", "znver4"), ("-avx512f", "-avx512bw", "-avx512vl", "-avx512dq")),
    ("x86-64-v2", "+avx2"),
]


@pytest.mark.parametrize("cpu, changes", _CHANGES)
def test_conversions_compile_whatever_features_are_missing(cpu: str, changes: str):
    """LLVM ends the process where code asks by name for an instruction that is not there."""
    machine = Machine(_LINUX, cpu, "", 16) if cpu == "x86-64" else machine_named(cpu)
    machine = with_features(machine, changes) if changes else machine
    layout, turned = (Format.of(tag).bind((64, 64)) for tag in ("ab", "ba"))
    conversions = [
        *(Conversion("f32", dst) for dst in ("i8", "ui8", "i16", "ui16", "i32", "bf16", "f16", "f8E5M2")),
        *(Conversion(src, "f32") for src in ("f16", "bf16", "f8E4M3FN")),
        Conversion("f16", "i8"), Conversion("f8E5M2", "f16"), Conversion("f32", "i8", dst_scale=0.3),
    ]  # fmt: skip
    plans = {
        f"r{number}": plan_reorder(src, layout, conversion=conversion, target=machine)
        for number, (conversion, src) in enumerate(product(conversions, (layout, turned)))
    }
    assert object_file(emit_module(plans, machine), machine)
