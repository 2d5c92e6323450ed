"""Reorders compiled ahead of time: an object file with a C interface that needs nothing else.

    void NAME(const void *src, void *dst)
    void NAME_part(const void *src, void *dst, int64_t part, int64_t parts)

The second does one part of the work, so that the caller's threads can partition it; the first is part 0 of 1. Where the
elements are converted with runtime parameters, both take further arguments, `const float *` or
`const double *`: those of `FixedUnit.arguments`, under the names of `layout_ir.elements.quantization.PARAMETERS`. The
code is position independent, calls nothing, keeps no state and allocates nothing but `stack_bytes` of the caller's
stack. `object_file` checks that no symbol is left to be found elsewhere. `header` writes the declarations.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.emission.emit import emit_function, module_text
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.staging import stack_bytes
from layout_ir.backends.llvm.runtime import jit
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STDINT = re.compile(r"u?int\w*_t|U?INT\w*_(C|MAX|MIN)")
"""Names of the header that ours includes."""

_RESERVED = """
alignas alignof and asm auto bool break case catch char class compl concept const constexpr continue decltype
default delete do double else enum explicit export extern false float for friend goto if inline int long main
mutable namespace new noexcept not nullptr operator or private protected public register requires restrict return
short signed sizeof static struct switch template this throw true try typedef typeid typename typeof union
unsigned using virtual void volatile while xor
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Code for `machine`, ready to be written under the C name `name`."""

    name: str
    dtype: str
    machine: Machine

    @property
    def formats(self) -> tuple[Format, Format]:
        """The formats of source and destination."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The logical extents, None where a call gives them."""
        raise NotImplementedError

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that the code follows, each for some of the shapes."""
        raise NotImplementedError

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions that the object defines."""
        return self.name, f"{self.name}_part"

    @property
    def alignment(self) -> int:
        """Bytes that the addresses of both buffers must be multiples of."""
        return 1 if self.machine.unaligned else self.plans[0].width

    @property
    def stack_bytes(self) -> int:
        """Bytes of stack that a call takes, besides registers that it saves."""
        return max(stack_bytes(plan, self.machine) for plan in self.plans)

    @property
    def in_place(self) -> bool:
        """Whether one buffer may be source and destination."""
        return all(plan.in_place_safe for plan in self.plans)

    @property
    def streaming(self) -> bool:
        """Whether some stores bypass the caches."""
        return any(step.kernel.streaming for plan in self.plans for step in plan.steps)

    def functions(self) -> list[str]:
        """The LLVM IR, function by function."""
        raise NotImplementedError

    def ir(self) -> str:
        """The functions as a module."""
        return module_text(self.functions(), self.machine)

    def assembly(self) -> str:
        """The machine code as text."""
        return jit.assembly(self.ir(), self.machine)

    def object_file(self) -> bytes:
        """The machine code for a linker. Raises LayoutError where it would need symbols from elsewhere."""
        return self_contained_object(self.ir(), self.machine)


def self_contained_object(ir: str, machine: Machine) -> bytes:
    """The object file of a module of LLVM IR. Raises LayoutError where it would need symbols from elsewhere."""
    data = jit.object_file(ir, machine)
    missing = [name for name, defined in elf_symbols(data) if not defined]
    if missing:
        raise LayoutError(f"the code for {machine.cpu} calls {', '.join(missing)}, which no object has")
    return data


@dataclass(frozen=True, slots=True)
class Argument:
    """A runtime parameter, one of the quantization parameters: the address of `count` numbers of C's `type`."""

    name: str
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class FixedUnit(Unit):
    """One reorder from `src` to `dst`, all of whose extents are known."""

    src: Layout
    dst: Layout
    plan: Plan

    @property
    def formats(self) -> tuple[Format, Format]:
        """The formats of source and destination."""
        return self.src.format, self.dst.format

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The logical extents, all of them known."""
        return self.src.shape

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan, the only one there is."""
        return (self.plan,)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the functions take behind all others."""
        conversion = self.plan.conversion
        if conversion is None:
            return ()
        type_ = "float" if conversion.computes == "f32" else "double"
        counts = {"tensor": 1, "channel": conversion.channels}
        return tuple(
            Argument(name, type_, counts[value])
            for name, value in conversion.parameters.items()
            if isinstance(value, str)
        )

    def functions(self) -> list[str]:
        """A body of internal linkage, and NAME and NAME_part around it."""
        body = f"{self.name}.body"
        more = "".join(f", ptr %{argument.name}" for argument in self.arguments)
        whole = (
            f"define void @{self.name}(ptr %src, ptr %dst{more}) nounwind {{\n"
            f"  tail call void @{body}(ptr %src, ptr %dst, i64 0, i64 1{more})\n  ret void\n}}"
        )
        part = (
            f"define void @{self.name}_part(ptr %src, ptr %dst, i64 %part, i64 %parts{more}) nounwind {{\n"
            f"  tail call void @{body}(ptr %src, ptr %dst, i64 %part, i64 %parts{more})\n  ret void\n}}"
        )
        return [emit_function(body, self.plan, self.machine, "internal", block=False), whole, part]


def compile_ahead(
    src: Layout,
    dst: Layout,
    dtype: str,
    machine: Machine,
    name: str = "reorder",
    conversion: Conversion | None = None,
) -> FixedUnit:
    """The reorder from `src` to `dst` for `machine`, of elements of `dtype` or as `conversion` says.

    Raises LayoutError where there is no plan, or where C does not accept the name.
    """
    check_name(name)
    plan = plan_reorder(src, dst, dtype, conversion=conversion, target=machine)
    return FixedUnit(name, dtype if conversion is None else conversion.src, machine, src, dst, plan)


def check_name(name: str) -> None:
    """Raises LayoutError where `name` cannot name a function in C and C++."""
    if not _NAME.fullmatch(name):
        raise LayoutError(f"'{name}' is no name in C: letters, digits and _ are, not starting with a digit")
    if name in _RESERVED.split() or _STDINT.fullmatch(name) or re.match("__|_[A-Z]", name):
        raise LayoutError(f"'{name}' is taken by C or C++: choose another name")


def elf_symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """Global symbols of a 64-bit little-endian ELF object, and whether it defines them; nothing for other formats."""
    if data[:6] != b"\x7fELF\x02\x01":
        return
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, number = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + k * size) for k in range(number)]
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for place in range(offset + entry, offset + length, entry):
            name, info, _, section = struct.unpack_from("<IBBH", data, place)
            if info >> 4:  # not local
                start = names + name
                yield data[start : data.index(b"\0", start)].decode(), section != 0
