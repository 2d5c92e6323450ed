"""Ops of func and cf that xDSL lacks: functions as values, and how likely a branch is; what it drops of others.

%g = func.constant @f : (f32) -> f32
%y = func.call_indirect %g(%x) : (f32) -> f32
cf.cond_br %c weights([9, 1]), ^likely, ^unlikely
func.func private @f(i32 {llvm.noundef}) attributes {no_inline}
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import cf, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.function_syntax import FunctionForm
from layout_ir.dialects.upstream.operand_syntax import print_values


@irdl_op_definition
class FuncOp(FunctionForm, func.FuncOp):
    """`func.func`, which keeps the attributes of a declaration, and may say that it is not to be inlined."""

    name = "func.func"

    body = region_def()
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    no_inline = opt_prop_def(UnitAttr)


@irdl_op_definition
class CallOp(func.CallOp):
    """`func.call`, whose arguments and results may have attributes."""

    name = "func.call"

    arguments = var_operand_def()
    callee = prop_def(FlatSymbolRefAttrConstr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    no_inline = opt_prop_def(UnitAttr)
    res = var_result_def()

    irdl_options = (ParsePropInAttrDict(),)

    # In place of those that xDSL made of its own form.
    parse = Operation.parse  # pyright: ignore[reportAssignmentType]
    print = Operation.print

    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


@irdl_op_definition
class FunctionConstantOp(IRDLOperation):
    """A function as a value."""

    name = "func.constant"

    value = prop_def(SymbolRefAttr)
    result = result_def(FunctionType)

    traits = traits_def(Pure(), ConstantLike())

    assembly_format = "attr-dict $value `:` type(results)"


@irdl_op_definition
class CallIndirectOp(IRDLOperation):
    """A call of a function that is a value."""

    name = "func.call_indirect"

    callee = operand_def(FunctionType)
    callee_operands = var_operand_def()
    results_ = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        callee = parser.parse_unresolved_operand()
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        arguments = parser.resolve_operands(values, type.inputs.data, start)
        return cls.create(
            operands=[parser.resolve_operand(callee, type), *arguments],
            result_types=type.outputs.data,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.callee)
        print_values(printer, self.callee_operands, "()")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.callee.type)

    def verify_(self) -> None:
        type = cast("FunctionType", self.callee.type)
        if (type.inputs.data, type.outputs.data) != (self.callee_operands.types, self.results_.types):
            raise VerifyException(f"operands and results are not those of {type}")


@irdl_op_definition
class ConditionalBranchOp(cf.ConditionalBranchOp):
    """`cf.cond_br`, which may say how likely each branch is."""

    name = "cf.cond_br"

    cond = operand_def(IntegerType(1))
    then_arguments = var_operand_def()
    else_arguments = var_operand_def()
    branch_weights = opt_prop_def(DenseArrayBase.constr(i32))
    then_block = successor_def()
    else_block = successor_def()

    # In place of those that xDSL made of its own form.
    parse = Operation.parse  # pyright: ignore[reportAssignmentType]
    print = Operation.print

    assembly_format = """
    $cond (`weights` `(` $branch_weights^ `)`)? `,`
    $then_block (`(` $then_arguments^ `:` type($then_arguments) `)`)? `,`
    $else_block (`(` $else_arguments^ `:` type($else_arguments) `)`)?
    attr-dict
    """

    def verify_(self) -> None:
        """Checks the arguments of blocks; replaces the verifier of the base class, which knows no weights."""
        for block, given in ((self.then_block, self.then_arguments), (self.else_block, self.else_arguments)):
            if tuple(block.arg_types) != given.types:
                raise VerifyException(
                    f"a block of {len(block.args)} arguments is not given {len(given)} of their types"
                )
        if self.branch_weights is not None and len(self.branch_weights) != 2:
            raise VerifyException(f"{len(self.branch_weights)} weights for 2 branches")


FUNC_OPS: tuple[type[Operation], ...] = FuncOp, CallOp, FunctionConstantOp, CallIndirectOp
CF_OPS: tuple[type[Operation], ...] = (ConditionalBranchOp,)
