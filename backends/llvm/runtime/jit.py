"""From LLVM IR to addresses of functions, without the generic pass pipeline.

One code generator per machine serves all kernels. Where code is ELF for x86-64 we link it ourselves (`object_linker`),
and a process that compiles nothing is without LLVM. Elsewhere one linker of LLVM serves some tens of kernels: linking
2 KiB of object takes 0.14 ms, and what a kernel occupies is given back when it is dropped. An engine of its own for
every kernel (MCJIT) took 0.9 ms and 0.7 MiB each, which the heap kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any

from layout_ir.backends.llvm.machine.host_facts import bindings, host_facts, llvm
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import code_cache
from layout_ir.backends.llvm.runtime.object_linker import CAN_LINK, Image, Unsupported
from layout_ir.forking import fork_safe_when_there

Lock = AbstractContextManager[Any]


def _lock_of_bindings() -> Lock | None:
    module = sys.modules.get("llvmlite.binding")
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None  # to import them takes this lock, under `loading_late`
    return module.ffi.lib._lock


# The bindings keep global state (targets, code generators) that is not safe under concurrent use. So does LLVM: with
# locks of its own, which a child would find taken where it is forked while another thread is inside. The lock under
# which the bindings make every call, those of finalizers too, serves both, and there is no second one to wait for
# while it is held.
fork_safe_when_there(_lock_of_bindings)


def bindings_lock() -> Lock:
    """The lock that the bindings take for each of their calls, which a fork waits for."""
    return bindings().ffi.lib._lock


_numbers = count()

_GENERATION = 32
"""Kernels of one linker of LLVM. It keeps 9 KiB for each, dropped or not, until it goes with the last of them; making
one takes 0.6 ms."""


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
    tenth to a third slower to run, so it is for code that is not made of moves.
    """
    _initialized(machine.architecture == host().architecture)
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, jit=jit, codemodel="small" if jit else "default",
        reloc="pic", abiname=machine.abi,
    )  # fmt: skip


@cache
def _generator(machine: Machine, level: int) -> Any:
    """The code generator of all kernels for `machine`; making one takes 0.3 ms."""
    return target_machine(machine, level=level)


@lru_cache(maxsize=1)
def _linker(generation: int) -> Any:
    """Where the code of a generation of kernels lives; their libraries keep it."""
    return llvm.create_lljit_compiler(target_machine(host()), use_jit_link=True)


def _linked(data: bytes, names: Sequence[str]) -> Callable[[str], int]:
    """The object `data` in memory: gives the addresses of functions, and keeps them. Raises RuntimeError for an object
    that lacks one of `names`."""
    if CAN_LINK:
        with suppress(Unsupported):
            find = partial(Image([data]).address, 0)
            for name in names:
                find(name)
            return find
    return _linked_by_llvm(data, names)


def _linked_by_llvm(data: bytes, names: Sequence[str]) -> Callable[[str], int]:
    with bindings_lock():
        _initialized(native=True)
        library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name in names:
            library.export_symbol(name)
        number = next(_numbers)
        linked = library.link(_linker(number // _GENERATION), f"kernel{number}")
    return lambda name: int(linked[name])


class Code:
    """Machine code in memory, with the functions `names`; released with the last reference.

    `text` is LLVM IR, or makes it. With a `key`, which says all that the text depends on, the object is taken from disk
    where it is there, without the text being made, and put there where not.
    """

    object_code: bytes
    """The object that was linked, for who keeps it elsewhere."""
    _find: Callable[[str], int]

    def __init__(
        self, text: str | Callable[[], str], machine: Machine, names: Sequence[str], *, level: int = 1, key: str = "",
    ) -> None:  # fmt: skip
        file = code_cache.name("code", key, machine, host_facts().compiler, level) if key else ""
        data = code_cache.read(file) if key else None
        if data is not None and self._takes(data, names):
            return
        text = text if isinstance(text, str) else text()
        with bindings_lock():
            data = bytes(_generator(machine, level).emit_object(llvm.parse_assembly(text)))
        self._find = _linked(data, names)
        self.object_code = data
        if key:
            code_cache.write(file, data)

    @classmethod
    def of_objects(cls, objects: Sequence[bytes], names: Sequence[str]) -> list[Code]:
        """Per object, which was made for this machine, its function of that name.

        They lie side by side in memory, which is released with the last of them. Raises RuntimeError for what is no
        object, or lacks the function.
        """
        finds: list[Callable[[str], int]] = []
        if CAN_LINK:
            with suppress(Unsupported):
                image = Image(objects)
                finds = [partial(image.address, number) for number in range(len(objects))]
        finds = finds or [_linked_by_llvm(data, [name]) for data, name in zip(objects, names, strict=True)]
        codes: list[Code] = []
        for data, name, find in zip(objects, names, finds, strict=True):
            code = cls.__new__(cls)
            code._find, code.object_code = find, data
            code.address(name)
            codes.append(code)
        return codes

    def _takes(self, data: bytes, names: Sequence[str]) -> bool:
        """Whether `data` is an object with these functions, which are the ones of this code from now on."""
        try:
            self._find = _linked(data, names)
        except RuntimeError:  # whole, but not what its name says
            return False
        self.object_code = data
        return True

    def address(self, name: str) -> int:
        """Where function `name` starts."""
        return self._find(name)


def assembly(text: str, machine: Machine) -> str:
    """The assembly that the LLVM IR `text` becomes, for people to read."""
    with bindings_lock():
        tm = target_machine(machine, jit=False)
        return str(tm.emit_assembly(llvm.parse_assembly(text)))


def object_file(text: str, machine: Machine) -> bytes:
    """The object file that the LLVM IR `text` becomes, position independent, for a linker."""
    with bindings_lock():
        tm = target_machine(machine, jit=False)
        return bytes(tm.emit_object(llvm.parse_assembly(text)))
