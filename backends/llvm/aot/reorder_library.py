"""Several reorders in one object file: those that a program is left with, or any by name.

`ReorderLibrary.of_program` gives each distinct reorder of a program one name, however many ops ask for it. The name
says what is moved, and nothing else, so that it is the same in every program that has that reorder:

    reorder_nchw_to_nChw8c_2x17x5x4_f32

A format without a tag, and quantization parameters, are named by a digest of their texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.argument_checks import checked_path
from layout_ir.backends.llvm.aot.dynamic_object_file import compile_dynamic_ahead
from layout_ir.backends.llvm.aot.header import comment_safe, header_of_several
from layout_ir.backends.llvm.aot.object_file import Unit, check_name, compile_ahead, self_contained_object
from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.runtime import jit
from layout_ir.diagnostics import PassError, location_of
from layout_ir.dialects.layout import ReorderOp, format_of
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, printable
from layout_ir.files import all_or_none, write_result
from layout_ir.printing import alias_name


@dataclass(frozen=True)
class ReorderLibrary:
    """Reorders compiled ahead of time for one machine, each a `Unit` with a name of its own.

    `name` is that of the header. The code calls nothing and keeps no state, so that the object can be linked into any
    program. Raises LayoutError where there is none, or where two differ in the case of their letters only, which are
    one in the macros of the header.
    """

    name: str
    units: tuple[Unit, ...]
    needs: tuple[str, ...] = ()
    """The CPU features, in LLVM's words, that the code needs."""
    uses: Mapping[str, Sequence[Operation]] = field(default_factory=dict[str, Sequence[Operation]])
    """The ops of a program that each reorder stands for, by its name."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.units:
            raise LayoutError("there is no reorder to compile")
        names = {unit.name.upper(): unit.name for unit in self.units}
        for unit in self.units:
            if (other := names[unit.name.upper()]) != unit.name:
                raise LayoutError(f"'{unit.name}' and '{other}' are one name in macros: choose another")

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every function that the object defines, reorder by reorder."""
        return tuple(symbol for unit in self.units for symbol in unit.symbols)

    @cached_property
    def object(self) -> bytes:
        """The object file. Raises LayoutError where it would need symbols from elsewhere."""
        return self_contained_object(self.ir, self._machine)

    @cached_property
    def header(self) -> str:
        """The C header: a declaration of every function, what its caller must know, which op uses which reorder."""
        return header_of_several(self.name, self.units, self._notes(), self.needs)

    @cached_property
    def ir(self) -> str:
        """The LLVM IR."""
        return module_text([text for unit in self.units for text in unit.functions()], self._machine)

    @cached_property
    def assembly(self) -> str:
        """The machine code as text."""
        return jit.assembly(self.ir, self._machine)

    def write(self, object: str | os.PathLike[str], header: str | os.PathLike[str] | None = None) -> None:
        """Writes the object file and the header, both or, where one cannot be written, neither.

        Raises OSError, and LayoutError where both are one file, or one is no path.
        """
        object = checked_path(object, "object")
        header = None if header is None else checked_path(header, "header")
        with all_or_none(object, header):
            write_result(self.object, object)
            if header is not None:
                write_result(self.header, header)

    @property
    def _machine(self) -> Machine:
        return self.units[0].machine

    def _notes(self) -> list[str]:
        """Lines that say which op of a program uses which reorder."""
        if not self.uses:
            return [f"{unit.name}" for unit in self.units]
        lines = ["Which op uses which reorder:"]
        for unit in self.units:
            lines += [
                "",
                unit.name,
                *(f"  {comment_safe(printable(place))}" for place in self.places(unit.name)),
            ]
        return lines

    def symbol_of(self, op: Operation) -> str:
        """The name of the function that does the reorder `op` of the program.

        Raises LayoutError where the library was not made of a program that has this op.
        """
        for name, ops in self.uses.items():
            if any(op is user for user in ops):
                return name
        raise LayoutError("this op is no reorder of the program that the library was made of")

    def places(self, name: str) -> list[str]:
        """Where in the source the ops are that the reorder of this name stands for."""
        return [_place(op) for op in self.uses.get(name, ())]

    @classmethod
    def of_program(
        cls, module: ModuleOp, machine: Machine, *, name: str = "reorders", prefix: str = "reorder",
        needs: Sequence[str] = (),
    ) -> ReorderLibrary:  # fmt: skip
        """Every distinct reorder of a program, in the order of their first ops; `prefix` begins their names.

        Raises PassError at the first reorder that no code moves, such as one whose layout is still to be chosen, and
        LayoutError where the program has none.
        """
        check_name(prefix)
        units: dict[str, Unit] = {}
        uses: dict[str, list[Operation]] = {}
        for op in module.walk():
            if not isinstance(op, ReorderOp):
                continue
            try:
                source, destination = _sides(op)
                symbol = _symbol(op, source, destination, prefix)
                if symbol not in units:
                    units[symbol] = _unit(op, source, destination, machine, symbol)
            except LayoutError as error:
                raise PassError(f"this reorder cannot be compiled: {error}", op) from error
            uses.setdefault(symbol, []).append(op)
        if not units:
            raise LayoutError(
                "the program has no layout.reorder to compile: layout-optimize leaves those that it needs"
            )
        return cls(name, tuple(units.values()), tuple(needs), uses)


def _sides(op: ReorderOp) -> tuple[Format, Format]:
    """The formats of both sides. Where one has no encoding, its dims are called as those of the other.

    Raises LayoutError where a layout is still to be chosen, or another dialect's.
    """
    sides = [format_of(type) for type in (op.source_type, op.result_type)]
    for type, format in zip((op.source_type, op.result_type), sides, strict=True):
        if format is None:
            raise LayoutError(f"{type} has no layout yet: run layout-optimize first")
    source, destination = sides
    assert source is not None and destination is not None
    if isinstance(op.source_type.encoding, NoneAttr):
        source = Format.row_major(destination.names)
    elif isinstance(op.result_type.encoding, NoneAttr):
        destination = Format.row_major(source.names)
    return source, destination


def _unit(op: ReorderOp, source: Format, destination: Format, machine: Machine, name: str) -> Unit:
    if op.is_dynamic:
        return compile_dynamic_ahead(source, destination, _shape(op), op.conversion, machine, name)
    src: Layout = source.bind(op.source_type.get_shape())
    dst: Layout = destination.bind(op.result_type.get_shape())
    return compile_ahead(src, dst, op.conversion.src, machine, name, op.conversion)


def _shape(op: ReorderOp) -> tuple[int | None, ...]:
    return tuple(None if extent < 0 else extent for extent in op.source_type.get_shape())


def _symbol(op: ReorderOp, source: Format, destination: Format, prefix: str) -> str:
    """The name of a reorder in C, from what it does alone."""
    shape = "x".join("n" if extent is None else str(extent) for extent in _shape(op)) or "scalar"
    conversion = op.conversion
    elements = conversion.src if conversion.src == conversion.dst else f"{conversion.src}_to_{conversion.dst}"
    if conversion != Conversion(conversion.src, conversion.dst):
        elements += f"_{_digest(conversion)}"
    return f"{prefix}_{_format_name(source)}_to_{_format_name(destination)}_{shape}_{elements}"


def _format_name(format: Format) -> str:
    """The tag of a format with its pad policy, where it differs from the tag's; a digest of its text without a tag, and
    where the policy is a number, which has more characters than names have."""
    name = alias_name(format)
    return f"fmt{_digest(format)}" if name == "fmt" or not isinstance(format.pad, str) else name


def _digest(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:8]


def _place(op: Operation) -> str:
    """Where an op is: its place in the source, and the function that it is in."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    inside = "" if parent is None else f" in @{parent.sym_name.data}"
    return f"{location_of(op) or 'an op'}{inside}"
