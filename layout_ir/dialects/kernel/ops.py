"""The `kernel` dialect: compiled reorders as ops of a program.

    kernel.plan @reorder_0 cpu "haswell" {
      width 4 src 802816 dst 802816
      step src 0 dst 0
        for 2 src 401408 dst 401408 parallel
          tile 4 rows 64 by 6272 cols 1568 by 256 schedule <cols 16, rows 16, cols 4>
    }
    kernel.dynamic @reorder_1 shape <?, 64, ?, ?> from <(n, c, h, w) : [n, c, h, w]> to <(n, c, h, w) : [n, h, w, c]>
                              elements <f32 to i8, dst_scale 0.5> cpu "haswell"
    %y = kernel.call @reorder_0 %x : T -> U

`kernel.plan` holds a plan, the value that is compiled; its text is `str(plan)`, and `layout_ir.dialects.kernel.plan`
says what it means. `kernel.dynamic` is the reorder of tensors with extents that only the run time knows: a call hands
over those of its operand. Strides follow from formats and extents. What `kernel.plan` says in loops is there a choice
among plans whose counts and strides are formulas, made with the code: `layout-ir explain-reorder` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel.attributes import ConversionAttr, PlanAttr, Shape, ShapeAttr
from layout_ir.dialects.kernel.micro_kernel_verifier import PlanError
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.dialects.kernel.plan_parser import read_plan
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.dialects.layout import dtype_of, format_of, nbytes_of
from layout_ir.dialects.layout.attributes import FormatAttr
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError
from layout_ir.symbolic.symint import Size


@irdl_op_definition
class PlanOp(IRDLOperation):
    """A reorder as the plan that is compiled; `cpu` names the machine it was made for (absent: the host)."""

    name = "kernel.plan"
    sym_name = prop_def(SymbolNameConstraint())
    plan = prop_def(PlanAttr)
    cpu = opt_prop_def(StringAttr)
    traits = traits_def(SymbolOpInterface())

    def __init__(self, name: str, plan: Plan, cpu: str | None = None):
        properties = {"sym_name": StringAttr(name), "plan": PlanAttr(plan)}
        super().__init__(properties=properties | ({} if cpu is None else {"cpu": StringAttr(cpu)}))

    @classmethod
    def parse(cls, parser: Parser) -> PlanOp:
        name = parser.parse_symbol_name().data
        cpu = parser.parse_str_literal() if parser.parse_optional_keyword("cpu") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation("{")
        op = cls(name, read_plan(parser), cpu)
        parser.parse_punctuation("}")
        op.attributes |= {} if attributes is None else attributes.data
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.cpu is not None:
            printer.print_string(" cpu ")
            printer.print_string_literal(self.cpu.data)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" {")
        with printer.indented():
            for line in str(self.plan.data).splitlines():
                printer.print_string("\n" + line)
        printer.print_string("\n}")

    def verify_(self) -> None:
        try:
            check_plan(self.plan.data)
        except PlanError as error:
            raise VerifyException(str(error)) from error


@irdl_op_definition
class DynamicOp(IRDLOperation):
    """A reorder from format `source` to `target` of all tensors of a `shape`; `cpu` as for `kernel.plan`."""

    name = "kernel.dynamic"
    sym_name = prop_def(SymbolNameConstraint())
    shape = prop_def(ShapeAttr)
    source = prop_def(FormatAttr)
    target = prop_def(FormatAttr)
    elements = prop_def(ConversionAttr)
    cpu = opt_prop_def(StringAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = (
        "$sym_name `shape` $shape `from` $source `to` $target `elements` $elements (`cpu` $cpu^)? attr-dict"
    )

    def __init__(self, name: str, shape: Shape, source: FormatAttr, target: FormatAttr,
                 elements: ConversionAttr, cpu: str | None = None):  # fmt: skip
        properties = {
            "sym_name": StringAttr(name),
            "shape": ShapeAttr(shape),
            "source": source,
            "target": target,
            "elements": elements,
            **({} if cpu is None else {"cpu": StringAttr(cpu)}),
        }
        super().__init__(properties=properties)

    def verify_(self) -> None:
        shape, conversion = self.shape.data, self.elements.data
        for side, format in (("source", self.source.data), ("destination", self.target.data)):
            if format.rank != len(shape):
                raise VerifyException(
                    f"the {side} {format} has {format.rank} dims, there are {len(shape)} extents"
                )
        if None not in shape:
            raise VerifyException(f"all extents of {self.shape.text} are known: that is a kernel.plan")
        if conversion.at_run_time:
            raise VerifyException(
                f"its arguments are extents, a call cannot bring {' and '.join(conversion.at_run_time)} along"
            )
        if conversion.dim is None:
            return
        if not 0 <= conversion.dim < len(shape) or shape[conversion.dim] != conversion.channels:
            raise VerifyException(
                f"{conversion.channels} channels along dim {conversion.dim} are no extent of {self.shape.text}"
            )


@irdl_op_definition
class CallOp(IRDLOperation):
    """The result is the operand, moved as a plan says."""

    name = "kernel.call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$callee $input attr-dict `:` type($input) `->` type($result)"

    def __init__(self, callee: str, input: SSAValue | Operation, result: Attribute):
        super().__init__(
            operands=[input],
            result_types=[result],
            properties={"callee": SymbolRefAttr(callee)},
        )

    def verify_(self) -> None:
        kernel = SymbolTable.lookup_symbol(self, self.callee)  # pyright: ignore
        if isinstance(kernel, DynamicOp):
            self._verify_dynamic(kernel)
            return
        if not isinstance(kernel, PlanOp):
            raise VerifyException(f"{self.callee} is no kernel.plan and no kernel.dynamic")
        sides: Sequence[tuple[str, Attribute, Size]] = (
            ("operand", self.input.type, kernel.plan.data.src_bytes),
            ("result", self.result.type, kernel.plan.data.dst_bytes),
        )
        for side, type, size in sides:
            try:
                held = nbytes_of(type)
            except LayoutError as error:
                raise VerifyException(str(error)) from error
            if held < size:
                raise VerifyException(f"the {side} has {held} bytes, {self.callee} needs {size}")

    def _verify_dynamic(self, kernel: DynamicOp) -> None:
        extents, conversion = kernel.shape.data, kernel.elements.data
        sides = (
            ("operand", self.input.type, kernel.source.data, conversion.src),
            ("result", self.result.type, kernel.target.data, conversion.dst),
        )
        for side, type, format, dtype in sides:
            try:
                shape = tuple(None if x < 0 else x for x in tensor_type(type).get_shape())
                has = shape, format_of(type), dtype_of(type)
            except LayoutError as error:
                raise VerifyException(str(error)) from error
            if has != (extents, format, dtype):
                wanted = f"elements {dtype} of shape {kernel.shape.text} in {format}"
                raise VerifyException(f"the {side} is {type}, {self.callee} is for {wanted}")


KernelDialect = Dialect("kernel", [PlanOp, DynamicOp, CallOp], [PlanAttr, ConversionAttr, ShapeAttr])
