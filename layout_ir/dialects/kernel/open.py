"""Kernels for open extents: what one moves, with the extents of the tensor as its arguments.

    kernel.open @reorder_0 extents <?, 64, ?, ?> from <(n, c, h, w) : [n, c, h, w]> to <(n, c, h, w) : [n, h, w, c]>
                           elements <f32 to i8, ratio 20.0> cpu "haswell"
    %y = kernel.call @reorder_0 %x : T -> U

A `?` is an argument: a call hands over the extents of its operand. Strides are no arguments of their own, they follow
from formats and extents. What `kernel.plan` says in loops is here a choice among plans whose counts and strides are
formulas, made with the code: `layout-ir explain-reorder` shows them.
"""

from xdsl.dialects.builtin import StringAttr, SymbolNameConstraint
from xdsl.ir import Data
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel.attributes import ConversionAttr
from layout_ir.dialects.layout.attributes import FormatAttr
from layout_ir.errors import shape_text

Extents = tuple[int | None, ...]
"""One per dim, None where it is an argument."""


@irdl_attr_definition
class ExtentsAttr(Data[Extents]):
    """The extents of a tensor: `<?, 64, ?, ?>`."""

    name = "kernel.extents"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Extents:
        def extent() -> int | None:
            if parser.parse_optional_punctuation("?") is not None:
                return None
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, extent))

    @property
    def text(self) -> str:
        """Such as ?x64x?x?."""
        return shape_text(self.data)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join('?' if x is None else str(x) for x in self.data)}>")


@irdl_op_definition
class OpenOp(IRDLOperation):
    """A reorder from format `source` to `target` of tensors of all `extents`; `cpu` as for `kernel.plan`."""

    name = "kernel.open"
    sym_name = prop_def(SymbolNameConstraint())
    extents = prop_def(ExtentsAttr)
    source = prop_def(FormatAttr)
    target = prop_def(FormatAttr)
    elements = prop_def(ConversionAttr)
    cpu = opt_prop_def(StringAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = (
        "$sym_name `extents` $extents `from` $source `to` $target "
        "`elements` $elements (`cpu` $cpu^)? attr-dict"
    )

    def __init__(self, name: str, extents: Extents, source: FormatAttr, target: FormatAttr,
                 elements: ConversionAttr, cpu: str | None = None):  # fmt: skip
        properties = {
            "sym_name": StringAttr(name),
            "extents": ExtentsAttr(extents),
            "source": source,
            "target": target,
            "elements": elements,
            **({} if cpu is None else {"cpu": StringAttr(cpu)}),
        }
        super().__init__(properties=properties)

    def verify_(self) -> None:
        extents, conversion = self.extents.data, self.elements.data
        for side, format in (("source", self.source.data), ("destination", self.target.data)):
            if format.rank != len(extents):
                raise VerifyException(
                    f"the {side} {format} has {format.rank} dims, there are {len(extents)} extents"
                )
        if None not in extents:
            raise VerifyException(f"all extents of {self.extents.text} are known: that is a kernel.plan")
        if conversion.at_run_time:
            raise VerifyException(
                f"its arguments are extents, a call cannot bring {' and '.join(conversion.at_run_time)} along"
            )
        if conversion.dim is None:
            return
        if not 0 <= conversion.dim < len(extents) or extents[conversion.dim] != conversion.channels:
            raise VerifyException(
                f"{conversion.channels} channels along dim {conversion.dim} are no extent of {self.extents.text}"
            )
