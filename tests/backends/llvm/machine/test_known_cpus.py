"""CPUs by name and by features."""

from __future__ import annotations

import pytest

from layout_ir.backends.llvm.machine.known_cpus import (
    known_cpus,
    machine_named,
    with_features,
)
from layout_ir.backends.llvm.runtime.jit import object_file
from layout_ir.errors import LayoutError

_EMPTY = "define void @f() nounwind {\n  ret void\n}\n"


@pytest.mark.parametrize(
    "name, changes, vector",
    [
        ("x86-64-v3", "+avx512bw,+avx512vl", 64),
        ("x86-64-v3", "+avx512bw", 32),
        ("x86-64-v3", "-avx2", 16),
        ("x86-64-v4", "-avx512vl", 32),
        ("x86-64-v4", "+gfni, -adx", 64),
        ("x86-64-v4", "+gfni, -fma", 32),
        ("x86-64-v4", "-f16c", 32),
        ("x86-64-v3", "-fma", 32),
        ("x86-64-v3", "-sse4.1", 16),
        ("x86-64-v2", "+avx2", 32),
        ("riscv64", "+v", 16),
        ("riscv64-v", "-v", 8),
        ("aarch64", "+sve", 16),
    ],
)
def test_registers_follow_the_features(name: str, changes: str, vector: int):
    machine = with_features(machine_named(name), changes)
    assert machine.vector == vector
    assert machine.features.endswith(changes.replace(" ", ""))


@pytest.mark.parametrize("name", known_cpus())
def test_llvm_knows_every_machine_and_what_it_needs(name: str, capfd: pytest.CaptureFixture[str]):
    changes = ",".join(f"+{need}" for need in known_cpus()[name].needs)
    object_file(_EMPTY, with_features(machine_named(name), changes))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "changes, message, span",
    [
        ("avx2", r"expected \+feature or -feature, found 'avx2'", (0, 4)),
        ("+fma,,+avx", r"expected \+feature or -feature, found ''", (5, 6)),
        ("+fma,+neon", r"unknown feature 'neon' of x86_64: known are ", (5, 10)),
    ],
)
def test_negative_features_that_are_none(changes: str, message: str, span: tuple[int, int]):
    with pytest.raises(LayoutError, match=message) as found:
        with_features(machine_named("haswell"), changes)
    assert found.value.span == span


@pytest.mark.parametrize(
    "cpu, changes, message, span",
    [
        ("aarch64", "+sve,-neon", "feature 'neon' is needed: code for aarch64 uses it", (5, 10)),
        ("riscv64", "+zbb,+zvl256b", "feature 'zvl256b' needs 'v'", (5, 13)),
        ("riscv64-v", "+zvl128b,-v", "feature 'zvl128b' needs 'v'", (0, 8)),
        (
            "x86-64-v2",
            "+avx512bw,+avx512vl",
            "x86-64-v2 has no AVX-512: name x86-64-v3 or a later cpu",
            (0, 9),
        ),
    ],
)
def test_negative_features_with_which_the_compiler_would_end_or_never_end(
    cpu: str, changes: str, message: str, span: tuple[int, int]
):
    with pytest.raises(LayoutError, match=message) as found:
        with_features(machine_named(cpu), changes)
    assert found.value.span == span
    with_features(machine_named("riscv64"), "+zvl256b,+v")


def test_negative_features_that_the_calling_convention_needs():
    with pytest.raises(LayoutError, match="feature 'd' is needed to pass numbers as lp64d does") as found:
        with_features(machine_named("riscv64"), "-c,-d")
    assert found.value.span == (3, 5)
