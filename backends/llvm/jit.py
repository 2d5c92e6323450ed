"""From LLVM IR to addresses of functions, without the generic pass pipeline."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

from layout_ir.backends.llvm.machine import Machine, llvm

# The bindings keep global state (targets, the list of engines) that is not safe under concurrent use.
_lock = Lock()


@cache
def _initialized() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target_machine(machine: Machine, *, level: int = 2, jit: bool = True) -> Any:
    """LLVM's code generator for `machine`."""
    _initialized()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, jit=jit, codemodel="jitdefault" if jit else "default",
        reloc="default" if jit else "pic",
    )  # fmt: skip


class Code:
    """Machine code in memory; released with the last reference."""

    def __init__(self, text: str, machine: Machine, *, level: int = 2) -> None:
        with _lock:
            module = llvm.parse_assembly(text)
            self._engine: Any = llvm.create_mcjit_compiler(module, target_machine(machine, level=level))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where function `name` starts."""
        return int(self._engine.get_function_address(name))


def assembly(text: str, machine: Machine, *, level: int = 2) -> str:
    """What `text` becomes, for people."""
    with _lock:
        tm = target_machine(machine, level=level)
        return str(tm.emit_assembly(llvm.parse_assembly(text)))
