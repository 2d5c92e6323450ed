"""From LLVM IR to addresses of functions, without the generic pass pipeline."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

from layout_ir.backends.llvm import store
from layout_ir.backends.llvm.machine import Machine, host, llvm

# The bindings keep global state (targets, the list of engines) that is not safe under concurrent use.
_lock = Lock()


@cache
def _initialized(native: bool) -> None:
    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def target_machine(machine: Machine, *, level: int = 1, jit: bool = True) -> Any:
    """LLVM's code generator for `machine`.

    Level 1 makes the same code for these kernels as 2 and 3 in less time; level 0 is twice as fast to compile and a
    tenth to a third slower to run.
    """
    _initialized(machine.architecture == host().architecture)
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, jit=jit, codemodel="jitdefault" if jit else "default",
        reloc="default" if jit else "pic", abiname=machine.abi,
    )  # fmt: skip


class Code:
    """Machine code in memory; released with the last reference.

    With `keep` the object is taken from disk where it is there, and put there where not.
    """

    def __init__(self, text: str, machine: Machine, *, level: int = 1, keep: bool = False) -> None:
        name = store.key(text, machine, llvm.llvm_version_info, level) if keep else ""
        data = store.read(name) if keep else None
        with _lock:
            tm = target_machine(machine, level=level)
            fresh = data is None
            if data is None:
                data = bytes(tm.emit_object(llvm.parse_assembly(text)))
            self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), tm)
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
            self._engine.finalize_object()
        if keep and fresh:
            store.write(name, data)

    def address(self, name: str) -> int:
        """Where function `name` starts."""
        return int(self._engine.get_function_address(name))


def assembly(text: str, machine: Machine, *, level: int = 1) -> str:
    """What `text` becomes in a file, for people."""
    with _lock:
        tm = target_machine(machine, level=level, jit=False)
        return str(tm.emit_assembly(llvm.parse_assembly(text)))


def object_file(text: str, machine: Machine, *, level: int = 1) -> bytes:
    """What `text` becomes in a file, position independent, for a linker."""
    with _lock:
        tm = target_machine(machine, level=level, jit=False)
        return bytes(tm.emit_object(llvm.parse_assembly(text)))
