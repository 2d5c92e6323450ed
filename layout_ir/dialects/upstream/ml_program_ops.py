"""Ops of ml_program that xDSL lacks: globals, functions, and graphs, in which tokens order what touches a global.

ml_program.global private mutable @g(dense<4> : tensor<4xi32>) : tensor<4xi32>
ml_program.subgraph @s() -> (tensor<4xi32>, !ml_program.token) {
  %t = ml_program.token
  %v, %u = ml_program.global_load_graph @g ordering(%t -> !ml_program.token) : tensor<4xi32>
  ml_program.output %v, %u : tensor<4xi32>, !ml_program.token
}
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.function_syntax import FunctionForm
from layout_ir.dialects.upstream.operand_syntax import print_values
from layout_ir.dialects.upstream.verbatim_attributes import TokenType

# globals --------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """A value that the functions of a module share. What xDSL 0.73 has as attributes are properties, as in MLIR."""

    name = "ml_program.global"

    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(TypeAttribute)
    is_mutable = opt_prop_def(UnitAttr)
    value = opt_prop_def()
    sym_visibility = opt_prop_def(StringAttr)

    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        properties: dict[str, Attribute] = {}
        visibility = parser.parse_optional_visibility_keyword()
        if visibility is not None:
            properties["sym_visibility"] = visibility
        if parser.parse_optional_keyword("mutable") is not None:
            properties["is_mutable"] = UnitAttr()
        properties["sym_name"] = parser.parse_symbol_name()
        if parser.parse_optional_punctuation("(") is not None:
            properties["value"] = parser.parse_attribute()
            parser.parse_punctuation(")")
        parser.parse_punctuation(":")
        properties["type"] = parser.parse_type()
        return cls.create(properties=properties, attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.print_string(f" {self.sym_visibility.data}")
        printer.print_string(" mutable " if self.is_mutable is not None else " ")
        printer.print_symbol_name(self.sym_name.data)
        if self.value is not None:
            with printer.in_parens():
                printer.print_attribute(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.type)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.is_mutable is None and self.value is None:
            raise VerifyException("a global that never changes has a value")


@irdl_op_definition
class GlobalLoadOp(IRDLOperation):
    """What a global holds."""

    name = "ml_program.global_load"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()

    assembly_format = "$global `:` type($result) attr-dict"


@irdl_op_definition
class GlobalStoreOp(IRDLOperation):
    """A global holds something else from here on."""

    name = "ml_program.global_store"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    value = operand_def()

    assembly_format = "$global `=` $value `:` type($value) attr-dict"


@irdl_op_definition
class GlobalLoadConstantOp(IRDLOperation):
    """What a global holds that never changes. xDSL's class asks for a property of another name than MLIR's."""

    name = "ml_program.global_load_const"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$global `:` type($result) attr-dict"


# tokens ---------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class TokenOp(IRDLOperation):
    """The first token of a graph."""

    name = "ml_program.token"

    token = result_def(TokenType)

    traits = traits_def(Pure())

    assembly_format = "attr-dict"


def _parse_ordering(parser: Parser) -> list[SSAValue]:
    """`ordering(%a, %b -> !ml_program.token)`, the tokens behind which an access comes, or `ordering(() -> ...)`."""
    parser.parse_keyword("ordering")
    with parser.in_parens():
        start = parser.pos
        tokens = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        if tokens is None:
            tokens = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation("->")
        type = parser.parse_type()
        if not isinstance(type, TokenType):
            parser.raise_error(f"accesses are ordered by !ml_program.token, not by {type}", start, parser.pos)
    return [parser.resolve_operand(token, TokenType()) for token in tokens]


def _print_ordering(printer: Printer, tokens: Any) -> None:
    """Prints what `_parse_ordering` reads."""
    printer.print_string(" ordering(")
    print_values(printer, tokens, "" if tokens else "()")
    printer.print_string(" -> ")
    printer.print_attribute(TokenType())
    printer.print_string(")")


@irdl_op_definition
class GlobalLoadGraphOp(IRDLOperation):
    """What a global holds behind some accesses, and the token of this one."""

    name = "ml_program.global_load_graph"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    consumeTokens = var_operand_def(TokenType)
    result = result_def()
    produceToken = result_def(TokenType)

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        symbol = parser.parse_symbol_name()
        tokens = _parse_ordering(parser)
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls.create(
            operands=tokens,
            result_types=[type, TokenType()],
            properties={"global": SymbolRefAttr(symbol)},
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.global_)
        _print_ordering(printer, self.consumeTokens)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class GlobalStoreGraphOp(IRDLOperation):
    """A global holds something else behind some accesses; the token of this one."""

    name = "ml_program.global_store_graph"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    value = operand_def()
    consumeTokens = var_operand_def(TokenType)
    produceToken = result_def(TokenType)

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        symbol = parser.parse_symbol_name()
        parser.parse_punctuation("=")
        value = parser.parse_unresolved_operand()
        tokens = _parse_ordering(parser)
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(value, type), *tokens],
            result_types=[TokenType()],
            properties={"global": SymbolRefAttr(symbol)},
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.global_)
        printer.print_string(" = ")
        printer.print_ssa_value(self.value)
        _print_ordering(printer, self.consumeTokens)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_op_attributes(self.attributes)


# functions ------------------------------------------------------------------------------------------------------------


class _FunctionOp(FunctionForm, IRDLOperation):
    """What functions and graphs have in common."""

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())


@irdl_op_definition
class FuncOp(_FunctionOp):
    """A function, whose ops run one behind the other."""

    name = "ml_program.func"


@irdl_op_definition
class SubgraphOp(_FunctionOp):
    """A function whose ops run in any order that their operands allow."""

    name = "ml_program.subgraph"


class _EndOp(IRDLOperation):
    """What both ends have in common."""

    operands_ = var_operand_def()

    assembly_format = "attr-dict ($operands_^ `:` type($operands_))?"

    def verify_(self) -> None:
        around = self.parent_op()
        expected = cast("_FunctionOp", around).function_type.outputs.data
        if self.operand_types != expected:
            raise VerifyException(
                f"it returns {', '.join(map(str, self.operand_types)) or 'nothing'}, its function "
                f"{', '.join(map(str, expected)) or 'nothing'}"
            )


@irdl_op_definition
class ReturnOp(_EndOp):
    """The end of a function."""

    name = "ml_program.return"

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(FuncOp)))


@irdl_op_definition
class OutputOp(_EndOp):
    """The end of a graph."""

    name = "ml_program.output"

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(SubgraphOp)))


ML_PROGRAM_OPS: tuple[type[Operation], ...] = (
    *(GlobalOp, GlobalLoadOp, GlobalLoadConstantOp, GlobalStoreOp),
    *(TokenOp, GlobalLoadGraphOp, GlobalStoreGraphOp),
    *(FuncOp, SubgraphOp, ReturnOp, OutputOp),
)
