"""IR as text that people can read and tools can read back.

xDSL parses attribute aliases and never prints them, so that every tensor type would spell its format out. Here
each format is named once, at the top, by its tag where it has one:

    #nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
    #nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
    builtin.module {
      %1 = layout.reorder %0 : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>

Inside the angle brackets of other attributes, such as `#layout.option<...>`, formats are spelled out: tools that do not
know an attribute, as the stock mlir-opt, keep its text as it is and drop the aliases.

Names are given in the order of first use. A format that differs from its tag in the pad policy has it in its alias
(`#nChw8c_undef`), a format without a tag is `#fmt0`, and equal names get a number.

For tools that know the dialects by their definitions in IRDL, `for_irdl` writes a text inside angle brackets as a
string, properties as attributes, the lengths of variadic segments beside them, and every op in the generic form.

Constants print bit for bit (`layout_ir.dialects.layout.dense_elements`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import (
    Builtin,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Data, Dialect, Operation
from xdsl.printer import Printer

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import name_of
from layout_ir.argument_checks import checked_integer
from layout_ir.dialects.layout import FormatAttr, OpaqueAttr
from layout_ir.dialects.layout.dense_elements import elements_text
from layout_ir.dialects.layout.irdl_segments import segment_sizes
from layout_ir.elements.splats import is_splat
from layout_ir.errors import LayoutError

_ELIDED_HANDLE = "__elided__"
ELIDED = f"dense_resource<{_ELIDED_HANDLE}>"
"""The text of an elided constant, as in MLIR: it parses, but its values are lost."""


def is_elided(handle: str) -> bool:
    """Whether a resource is an elided constant; xDSL numbers the handle in the second program that a process reads."""
    return re.fullmatch(f"{_ELIDED_HANDLE}(_[0-9]+)?", handle) is not None


def print_module(
    module: ModuleOp,
    *,
    generic: bool = False,
    for_irdl: bool = False,
    elide_above: int | None = None,
) -> str:
    """The text of `module`, aliases first, ending in a newline.

    `generic` prints every op in the generic form; so does `for_irdl`, and attributes as the definitions in
    `layout_ir.exits.irdl` have them. Constants of more than `elide_above` elements are elided, but for
    splats; the text then still parses, but can no longer be run.
    """
    printer = ProgramPrinter(
        print_generic_format=generic or for_irdl,
        print_properties_as_attributes=for_irdl,
        is_for_irdl=for_irdl,
        elide_above=elide_above,
    )
    return printer.program(module)


def fingerprint(module: ModuleOp) -> bytes:
    """A hash that tells the text of `module` from all others, without writing out what its constants hold."""
    return hashlib.sha256(_FingerprintPrinter().program(module).encode()).digest()


class ProgramPrinter(Printer):
    """A printer of whole programs: `program` is the only method to call, once.

    Constants of more than `elide_above` elements are elided. With `is_for_irdl` the text of an attribute of ours prints
    as a string, and how long variadic segments are.
    """

    def __init__(
        self,
        *,
        print_generic_format: bool = False,
        print_properties_as_attributes: bool = False,
        print_debuginfo: bool = False,
        elide_above: int | None = None,
        is_for_irdl: bool = False,
    ) -> None:
        super().__init__(
            print_generic_format=print_generic_format,
            print_properties_as_attributes=print_properties_as_attributes,
            print_debuginfo=print_debuginfo,
        )
        if elide_above is not None and checked_integer("elide_above =", elide_above) < 0:
            raise LayoutError(
                f"constants of more than {elide_above} elements: a number from 0 on is expected"
            )
        self._elide_above = elide_above
        self._is_for_irdl = is_for_irdl
        self._aliases: dict[tuple[FormatAttr, tuple[str, ...]], str] = {}
        """Alias of each format met so far, in order. Dim names count: the equal formats of an activation and a weight
        have different aliases, and each program keeps the names it was written with."""
        self._taken: dict[str, int] = {}
        self._elided = 0
        self._is_in_body = False
        """Whether the printer is inside the angle brackets of an attribute that is not builtin."""

    def program(self, module: ModuleOp, dialects: Iterable[Dialect] = (Builtin,)) -> str:
        """The text of `module`, ending in a newline; `dialects` hold its resources."""
        # The body is printed first: it determines the aliases.
        self.stream = body = StringIO()
        self.print_op(module)
        self.print_metadata(dialects)
        self.stream = head = StringIO()
        if self._elided:
            constants = "1 constant is" if self._elided == 1 else f"{self._elided} constants are"
            print(f"// {constants} elided: this program can be read and transformed, but not run.", file=head)
        for (attribute, _), alias in self._aliases.items():
            self.print_string(f"#{alias} = ")
            self._print_spelled_out(attribute)
            self.print_string("\n", indent=0)
        return f"{head.getvalue()}{body.getvalue()}\n"

    def print_op_with_default_format(self, op: Operation) -> None:
        """Prints what follows the name of an op in the generic form."""
        sizes = segment_sizes(op) if self._is_for_irdl else {}
        if not sizes:
            super().print_op_with_default_format(op)
            return
        self.print_operands(op.operands)
        self.print_op_attributes(op.attributes | op.properties | sizes)
        self.print_string(" : ")
        self.print_operation_type(op)

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints a format as its alias, a constant bit for bit or elided, and any other attribute as xDSL does."""
        if isinstance(attribute, FormatAttr) and not self._is_in_body:
            self.print_string(f"#{self._alias(attribute)}")
        elif "." in attribute.name.removeprefix("builtin.") and not self._is_in_body:
            self._is_in_body = True
            try:
                self._print_spelled_out(attribute)
            finally:
                self._is_in_body = False
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self._print_constant(cast("DenseIntOrFPElementsAttr[Any]", attribute))
        elif isinstance(attribute, DenseResourceAttr) and is_elided(attribute.resource_handle.data):
            self._elided += 1
            self.print_string(f"{ELIDED} : ")
            self.print_attribute(attribute.type)
        else:
            super().print_attribute(attribute)

    def _print_spelled_out(self, attribute: Attribute) -> None:
        """Prints an attribute that is not builtin without an alias."""
        if not self._is_for_irdl or not isinstance(attribute, Data):
            super().print_attribute(attribute)
        elif isinstance(attribute, OpaqueAttr):
            kind, size = attribute.data
            self.print_string(f"#{attribute.name}<")
            self.print_string_literal(kind)
            self.print_string(f", {size} : i64>")
        else:
            cast("Data[Any]", attribute).print_parameter(inner := Printer(stream=StringIO()))
            self.print_string(f"#{attribute.name}<")
            self.print_string_literal(cast("StringIO", inner.stream).getvalue()[1:-1])
            self.print_string(">")

    def _alias(self, attribute: FormatAttr) -> str:
        key = (attribute, attribute.data.names)
        alias = self._aliases.get(key)
        if alias is None:
            name = alias_name(attribute.data)
            count = self._taken.get(name, 0)
            self._taken[name] = count + 1
            if name == "fmt":
                alias = f"fmt{count}"
            else:
                alias = name if count == 0 else f"{name}_{count}"
            self._aliases[key] = alias
        return alias

    def _print_constant(self, attribute: DenseIntOrFPElementsAttr[Any]) -> None:
        data = attribute.data.data
        size = attribute.get_element_type().compile_time_size
        elides = self._elide_above is not None and len(data) // size > self._elide_above
        if elides and not is_splat(data, size):
            self._elided += 1
            text = ELIDED
        else:
            text = elements_text(attribute)
        self.print_string(text)
        self.print_string(" : ")
        self.print_attribute(attribute.get_type())


class _FingerprintPrinter(ProgramPrinter):
    """A printer of programs in which a constant is the hash of its elements."""

    def _print_constant(self, attribute: DenseIntOrFPElementsAttr[Any]) -> None:
        self.print_string(f"{hashlib.sha256(attribute.data.data).hexdigest()} : ")
        self.print_attribute(attribute.get_type())


def alias_name(format: Format) -> str:
    """The alias of a format, before numbers tell equal ones apart; "fmt" where it has no tag."""
    tag = name_of(format)
    if tag is None:
        return "fmt"
    if Format.from_tag(tag) == format:
        return tag
    policy = format.pad if isinstance(format.pad, str) else f"pad{format.pad}".replace("-", "m")
    return f"{tag}_" + "".join(character if character.isalnum() else "_" for character in policy)
