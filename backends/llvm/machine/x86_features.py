"""Which instructions an x86 machine has, as far as code asks for them by name.

LLVM takes a feature for one that others are part of: without FMA there is no AVX-512 either, whatever else is said. An
instruction of a feature that is not there makes LLVM abort, so code that asks for one by name looks here first.
"""

from __future__ import annotations

from functools import lru_cache

from layout_ir.backends.llvm.machine.machine import Machine

V2 = ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
V3 = (*V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
V4 = (*V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
ZEN4 = ("avx512bf16", "avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni",
        "avx512vpopcntdq", "gfni", "vaes", "vpclmulqdq")  # fmt: skip

_OF_CPUS = {
    "x86-64": (),
    "x86-64-v2": V2,
    "x86-64-v3": V3,
    "haswell": V3,
    "x86-64-v4": V4,
    "znver4": (*V4, *ZEN4),
}
_OF_REGISTERS = {32: V3, 64: V4}
"""The features of CPUs that are not in `_OF_CPUS`, by bytes of a register."""

_PARTS = {
    "ssse3": ("sse3",), "sse4.1": ("ssse3",), "sse4.2": ("sse4.1",), "avx": ("sse4.2",), "avx2": ("avx",),
    "f16c": ("avx",), "fma": ("avx",), "vaes": ("avx2",), "vpclmulqdq": ("avx",),
    "avx512f": ("avx2", "f16c", "fma"), "avx512cd": ("avx512f",), "avx512dq": ("avx512f",),
    "avx512bw": ("avx512f",), "avx512vl": ("avx512f",), "avx512ifma": ("avx512f",), "avx512vnni": ("avx512f",),
    "avx512vpopcntdq": ("avx512f",), "avx512vbmi": ("avx512bw",), "avx512vbmi2": ("avx512bw",),
    "avx512bitalg": ("avx512bw",), "avx512bf16": ("avx512bw",), "avx512fp16": ("avx512bw",),
}  # fmt: skip
"""The features that are part of a feature (LLVM's X86.td)."""


def has_x86_feature(machine: Machine, name: str) -> bool:
    """Whether a machine is x86 and has the feature that LLVM calls so."""
    return machine.architecture == "x86_64" and name in _features(
        machine.cpu, machine.features, machine.vector
    )


def register_bytes(machine: Machine) -> int:
    """Bytes of the widest register that the features of an x86 machine allow moves to be made of."""
    features = _features(machine.cpu, machine.features, machine.vector)
    if features >= {"avx512bw", "avx512vl"}:
        return 64
    return 32 if "avx2" in features else 16


@lru_cache(maxsize=64)
def _features(cpu: str, changes: str, vector: int) -> frozenset[str]:
    return frozenset(features_after(_OF_CPUS.get(cpu, _OF_REGISTERS.get(vector, ())), changes))


def features_after(features: tuple[str, ...], changes: str) -> tuple[str, ...]:
    """Features after those of `changes`, `+name` and `-name` separated by commas, came and went: one comes with its
    parts, and goes with all that it is part of."""
    found = dict.fromkeys(features)
    for change in changes.split(","):
        sign, name = change.strip()[:1], change.strip()[1:]
        if sign == "+":
            found.update(dict.fromkeys([name, *_parts(name)]))
        elif sign == "-":
            found = {each: None for each in found if each != name and name not in _parts(each)}
    return tuple(found)


def _parts(name: str) -> list[str]:
    """All features that are part of one."""
    parts = list(_PARTS.get(name, ()))
    for part in parts:
        parts += _PARTS.get(part, ())
    return parts
