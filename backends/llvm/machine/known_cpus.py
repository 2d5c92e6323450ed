"""CPUs by name, so that a plan can be looked at, or compiled, for one that is not at hand.

The cache sizes are those of a common member of each family; a plan for `host` is made with the sizes of this machine.
The code for a CPU needs the features listed with it; more of them can be switched on or off by `+name` and `-name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.machine.x86_features import V2, V3, V4, ZEN4, features_after, register_bytes
from layout_ir.errors import LayoutError

_X86 = "x86_64-unknown-linux-gnu"
_ARM = "aarch64-unknown-linux-gnu"
_RISCV = "riscv64-unknown-linux-gnu"

_GC = ("m", "a", "f", "d", "c")


@dataclass(frozen=True, slots=True)
class KnownCpu:
    """A CPU that has a name: the machine that plans are made for."""

    machine: Machine
    needs: tuple[str, ...]
    """The features, in LLVM's words, that code for it needs."""
    about: str
    """Half a line for people."""


def _riscv(*features: str, vector: int) -> Machine:
    # Many implementations trap on unaligned accesses, so elements are accessed where C puts them.
    text = ",".join(f"+{name}" for name in features)
    return Machine(
        _RISCV, "generic-rv64", text, vector, 32 << 10, 512 << 10, 2 << 20, unaligned=False, abi="lp64d"
    )


_CPUS: dict[str, KnownCpu] = {
    "x86-64-v2": KnownCpu(
        Machine(_X86, "x86-64-v2", "", 16, 32 << 10, 256 << 10, 8 << 20),
        V2,
        "SSE4.2, registers of 16 bytes",
    ),
    "haswell": KnownCpu(
        Machine(_X86, "haswell", "", 32, 32 << 10, 256 << 10, 8 << 20), V3, "x86-64-v3 with its caches"
    ),
    "x86-64-v3": KnownCpu(
        Machine(_X86, "x86-64-v3", "", 32, 32 << 10, 512 << 10, 16 << 20),
        V3,
        "AVX2, registers of 32 bytes",
    ),
    "znver4": KnownCpu(
        Machine(_X86, "znver4", "", 64, 32 << 10, 1 << 20, 32 << 20),
        (*V4, *ZEN4),
        "x86-64-v4 and what Zen 4 has",
    ),
    "x86-64-v4": KnownCpu(
        Machine(_X86, "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20),
        V4,
        "AVX-512, registers of 64 bytes",
    ),
    "aarch64": KnownCpu(
        Machine(_ARM, "generic", "", 16, 64 << 10, 1 << 20, 8 << 20), ("neon",), "Armv8-A with NEON"
    ),
    "riscv64": KnownCpu(_riscv(*_GC, vector=8), _GC, "rv64gc, no vectors"),
    "riscv64-v": KnownCpu(_riscv(*_GC, "v", vector=16), (*_GC, "v"), "rv64gcv, vectors of at least 16 bytes"),
}

_FEATURES = {
    "x86_64": frozenset((*V4, *ZEN4, "avx512fp16", "prefer-256-bit", "prefer-no-gather", "adx", "aes", "sha")),
    "aarch64": frozenset(("neon", "sve", "sve2", "fullfp16", "bf16", "dotprod", "i8mm", "lse", "crc")),
    "riscv64": frozenset((*_GC, "v", "zba", "zbb", "zbc", "zbs", "zvl128b", "zvl256b", "zihintntl")),
}  # fmt: skip
"""Features that `with_features` knows, by architecture."""

_CONVENTIONS = {"lp64d": ("f", "d")}
"""Features that calling conventions need."""

_ALWAYS = {"aarch64": ("neon",)}
"""Features that code asks for by name, by architecture."""

_NEEDS = {"zvl128b": "v", "zvl256b": "v"}
"""The feature that another one needs, without which LLVM aborts."""

_WITHOUT_AVX512 = "x86-64-v2"
"""A CPU for which LLVM does not come to an end with AVX-512, for some moves of elements of 64 bits to ones of 4."""


def known_cpus() -> Mapping[str, KnownCpu]:
    """The CPUs by name."""
    return MappingProxyType(_CPUS)


def machine_named(name: str) -> Machine:
    """The machine of that name, `host` for this one. Raises LayoutError where there is none."""
    if name == "host":
        return host()
    if name not in _CPUS:
        raise LayoutError(f"unknown cpu '{name}': known are {', '.join(('host', *_CPUS))}")
    return _CPUS[name].machine


def local_machine(name: str) -> Machine:
    """The machine of that name, whose code this process can run. Raises LayoutError where it cannot."""
    machine, here = machine_named(name), host()
    if name == "host":
        return machine
    if machine.architecture != here.architecture:
        raise LayoutError(
            f"code for {name} does not run on this {here.architecture}: layout-ir compile-reorder writes it to a file"
        )
    features = llvm.get_host_cpu_features()
    missing = [feature for feature in _CPUS[name].needs if not features.get(feature, False)]
    if missing:
        raise LayoutError(f"code for {name} needs {', '.join(missing)}, which this {here.cpu} has not")
    # The caches are those of the machine that will run it, and so is the linker's idea of the system.
    return replace(
        machine, triple=here.triple, l1=here.l1, l2=here.l2, l3=here.l3, l1_ways=here.l1_ways,
        l2_ways=here.l2_ways, measured=here.measured,
    )  # fmt: skip


def runnable(target: Machine | str | None) -> Machine:
    """The machine `target`, this one for None. Raises LayoutError where this process cannot run its code."""
    if isinstance(target, str):
        return local_machine(target)
    if not isinstance(target, Machine | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"target is a Machine or the name of one, not of type {type(target).__name__}")
    here = host()
    if target is not None and target.architecture != here.architecture:
        raise LayoutError(
            f"code for {target.triple} does not run on this {here.architecture}: layout-ir compile-reorder writes it "
            "to a file"
        )
    return target or here


def with_features(machine: Machine, changes: str) -> Machine:
    """`machine` with features switched on (`+name`) and off (`-name`), separated by commas.

    Registers follow: AVX-512 (bw and vl) makes them 64 bytes, AVX2 32, RISC-V's v 16; what goes takes along all that
    it is part of. Raises LayoutError, with the place, for what is no known feature of the architecture.
    """
    known = _FEATURES.get(machine.architecture, frozenset())
    at, vector = 0, machine.vector
    on = features_after((), f"{machine.features},{changes}")
    for part in changes.split(","):
        name, span = part.strip()[1:], (at, at + max(len(part), 1))
        at += len(part) + 1
        if part.strip()[:1] not in ("+", "-"):
            raise LayoutError(f"expected +feature or -feature, found '{part}'", span)
        if name not in known:
            raise LayoutError(
                f"unknown feature '{name}' of {machine.architecture}: known are {', '.join(sorted(known))}",
                span,
            )
        if part.strip()[0] == "-" and name in _CONVENTIONS.get(machine.abi, ()):
            raise LayoutError(f"feature '{name}' is needed to pass numbers as {machine.abi} does", span)
        if part.strip()[0] == "-" and name in _ALWAYS.get(machine.architecture, ()):
            raise LayoutError(f"feature '{name}' is needed: code for {machine.architecture} uses it", span)
        if name in on and _NEEDS.get(name, name) not in on:
            raise LayoutError(f"feature '{name}' needs '{_NEEDS[name]}'", span)
        if "avx512f" in on and machine.cpu == _WITHOUT_AVX512:
            raise LayoutError(f"{machine.cpu} has no AVX-512: name x86-64-v3 or a later cpu", span)
        if name == "v":
            vector = max(vector, 16) if part.strip()[0] == "+" else 8
    features = ",".join(filter(None, (machine.features, *(part.strip() for part in changes.split(",")))))
    found = replace(machine, features=features, vector=vector)
    if machine.architecture == "x86_64":
        before, after = register_bytes(machine), register_bytes(found)
        found = replace(found, vector=max(vector, after) if after > before else min(vector, after))
    return found


def features_needed(name: str, changes: str | None = None) -> tuple[str, ...]:
    """The CPU features, in LLVM's words, that code for the machine of that name needs, under `with_features`' changes.

    Raises LayoutError where there is no such machine.
    """
    if name == "host":
        needs = [part[1:] for part in host().features.split(",") if part.startswith("+")]
    else:
        machine_named(name)
        needs = list(_CPUS[name].needs)
    return features_after(tuple(needs), changes or "")
