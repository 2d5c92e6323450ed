"""What the code is made for: a CPU as LLVM names it, its vector registers and its caches.

The host is asked, never assumed: the same program runs on machines with 16, 32 or 64 byte registers.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from layout_ir.backends.llvm.machine.host_facts import host_facts
from layout_ir.backends.llvm.machine.profile import MachineProfile, built_in_profile
from layout_ir.dialects.kernel.plan import LINE as LINE

LANE = 16
"""Bytes in which vector registers shuffle: all of them are made of such lanes."""

PAGE = 4096
"""Bytes of a page of memory, on every machine that code is made for."""

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Machine:
    """A target of code generation. Cache sizes in bytes, `l1` and `l2` per core."""

    triple: str
    cpu: str
    features: str
    vector: int
    """Bytes of the vector register that moves are made of."""
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    unaligned: bool = True
    """Whether elements may be accessed at any address; if not, buffers are aligned to their elements."""
    may_stream: bool = True
    """Whether stores that bypass the caches are wanted."""
    abi: str = ""
    """The calling convention, where the CPU leaves a choice."""
    l1_ways: int = 8
    """Lines of L1 that share a set: its associativity."""
    l2_ways: int = 8
    """Lines of L2 that share a set."""
    measured: MachineProfile | None = field(default=None, repr=False)
    """What was measured on this machine, if anything was. Code depends on it by the plan alone, so `repr`, by which
    code is remembered, leaves it out."""

    @property
    def architecture(self) -> str:
        """The first part of the triple: x86_64, aarch64, riscv64, ..."""
        return self.triple.partition("-")[0]

    @property
    def streams(self) -> bool:
        """Whether stores that bypass the caches are known to pay: nowhere else have they been measured."""
        return self.may_stream and self.architecture in ("x86_64", "i686")

    @property
    def profile(self) -> MachineProfile:
        """How the memory of the machine behaves: as measured, else as follows from its caches."""
        return self.measured or built_in_profile(self.l2, self.l3, self.cpu)

    @property
    def ways(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The bytes of a way of L1 and of L2, after which addresses share a set again, and the number of ways."""
        return (self.l1 // self.l1_ways, self.l1_ways), (self.l2 // self.l2_ways, self.l2_ways)

    @property
    def attributes(self) -> str:
        """The attributes in LLVM IR of functions of kernels.

        Vectors that the registers do not hold are kept on a stack that is aligned for them. Without, where they come
        to lie depends on the caller, and across the border of two pages each costs some hundred cycles: f32 to bf16
        with AVX2 6 or 35 GB/s, bytes from nhwc to nchw 10 or 30.
        """
        aligned = self.architecture in ("x86_64", "i686") and self.vector > LANE
        return f"nounwind alignstack({LINE})" if aligned else "nounwind"

    @property
    def store_fence(self) -> str:
        """The instruction after which streamed stores are seen by whoever sees later stores."""
        return (
            "call void @llvm.x86.sse.sfence()" if self.architecture in ("x86_64", "i686") else "fence release"
        )


ProfileSource = Callable[[Machine], MachineProfile | None]

_profile_sources: list[ProfileSource] = []


def register_profile_source(source: ProfileSource) -> None:
    """Has `host` ask `source` for the profile that was measured on this machine."""
    _profile_sources.append(source)
    host.cache_clear()


@cache
def host() -> Machine:
    """This machine, with what was measured on it."""
    machine = detected()
    found = (source(machine) for source in _profile_sources)
    return replace(machine, measured=next((profile for profile in found if profile), None))


def detected() -> Machine:
    """This machine as it describes itself, nothing measured."""
    facts = host_facts()
    features = set(facts.features.split(","))
    if {"+avx512bw", "+avx512vl"} <= features:
        vector = 64
    elif "+avx2" in features:
        vector = 32
    else:
        vector = 16
    sizes = {level: size for level in (1, 2, 3) if (size := _cache_fact(level, "size"))}
    l1, l2 = sizes.get(1, 32 << 10), sizes.get(2, 512 << 10)
    l1_ways, l2_ways = (_ways(level, size) for level, size in ((1, l1), (2, l2)))
    return Machine(
        facts.triple, facts.cpu, facts.features, vector, l1, l2, sizes.get(3, max(l2, 8 << 20)),
        l1_ways=l1_ways, l2_ways=l2_ways,
    )  # fmt: skip


def _ways(level: int, size: int) -> int:
    """The associativity of the cache of `size` bytes, 8 where nothing credible is said of it."""
    ways = _cache_fact(level, "ways_of_associativity")
    return ways if 1 <= ways <= 64 and size % (ways * LINE) == 0 else 8


def _cache_fact(level: int, name: str) -> int:
    """A number of the data cache of that level as Linux tells it, sizes in bytes; 0 where it does not."""
    for index in sorted(_CACHES.glob("index*")):
        try:
            if (
                int((index / "level").read_text()) != level
                or (index / "type").read_text().strip() == "Instruction"
            ):
                continue
            text = (index / name).read_text().strip()
            unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:])
            return int(text) if unit is None else int(text[:-1]) << unit
        except (OSError, ValueError):
            continue
    return 0


def processor_name() -> str:
    """What the processor of this machine calls itself, for people to read."""
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
