"""Machines by name, so that a plan can be looked at for a CPU that is not at hand.

The cache sizes are those of a common member of each family; a plan for `host` is made with the sizes of this machine.
"""

from __future__ import annotations

from layout_ir.backends.llvm.machine import Machine, host
from layout_ir.errors import LayoutError

_LINUX = "x86_64-unknown-linux-gnu"

_MACHINES = {
    "x86-64-v2": Machine(_LINUX, "x86-64-v2", "", 16, 32 << 10, 256 << 10, 8 << 20),
    "haswell": Machine(_LINUX, "haswell", "", 32, 32 << 10, 256 << 10, 8 << 20),
    "x86-64-v3": Machine(_LINUX, "x86-64-v3", "", 32, 32 << 10, 512 << 10, 16 << 20),
    "znver4": Machine(_LINUX, "znver4", "", 64, 32 << 10, 1 << 20, 32 << 20),
    "x86-64-v4": Machine(_LINUX, "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20),
    "aarch64": Machine("aarch64-unknown-linux-gnu", "generic", "", 16, 64 << 10, 1 << 20, 8 << 20),
}

NAMES = ("host", *_MACHINES)


def machine_named(name: str) -> Machine:
    """The machine of that name, `host` for this one. Raises LayoutError where there is none."""
    if name == "host":
        return host()
    if name not in _MACHINES:
        raise LayoutError(f"unknown cpu '{name}': known are {', '.join(NAMES)}")
    return _MACHINES[name]
