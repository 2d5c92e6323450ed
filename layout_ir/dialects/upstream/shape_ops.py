"""The dialect shape: shapes as values, and what is asked of them.

%s = shape.shape_of %x : tensor<?x4xf32> -> tensor<2xindex>
%w = shape.cstr_broadcastable %s, %t : tensor<2xindex>, tensor<?xindex>
%y = shape.assuming %w -> (tensor<?xf32>) {
  shape.assuming_yield %x : tensor<?xf32>
}

Most ops differ in their operands alone; `_ops` makes those of one form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseIntElementsAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results

# types ----------------------------------------------------------------------------------------------------------------


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """Extents, or an error, or that nothing is known of them."""

    name = "shape.shape"


@irdl_attr_definition
class SizeType(ParametrizedAttribute, TypeAttribute):
    """An extent, or an error, or that it is not known."""

    name = "shape.size"


@irdl_attr_definition
class ValueShapeType(ParametrizedAttribute, TypeAttribute):
    """A value together with its shape."""

    name = "shape.value_shape"


@irdl_attr_definition
class WitnessType(ParametrizedAttribute, TypeAttribute):
    """That a constraint of shapes holds."""

    name = "shape.witness"


SHAPE_TYPES: tuple[type[Attribute], ...] = ShapeType, SizeType, ValueShapeType, WitnessType

# ops of one form ------------------------------------------------------------------------------------------------------


def _ops(form: str, names: str, **fields: Callable[[], Any]) -> list[type[Operation]]:
    """The classes of the ops that `names` lists, which have these fields and this form, and no effect."""
    return [
        irdl_op_definition(
            type(
                "".join(word.capitalize() for word in name.split("_")) + "Op",
                (IRDLOperation,),
                {
                    "__doc__": f"`shape.{name}`",
                    "__module__": __name__,
                    "name": f"shape.{name}",
                    "traits": traits_def(Pure()),
                    "irdl_options": (ParsePropInAttrDict(),),
                    "assembly_format": form,
                    **{key: make() for key, make in fields.items()},
                },
            )
        )
        for name in names.split()
    ]


def _many() -> Any:
    return var_operand_def()


def _error() -> Any:
    return opt_prop_def(StringAttr)


_PLAIN: tuple[type[Operation], ...] = (
    *_ops(
        "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)",
        "add mul div max min concat",
        lhs=operand_def,
        rhs=operand_def,
        result=result_def,
    ),
    *_ops(
        "$arg0 `,` $arg1 attr-dict `:` type($arg0) `,` type($arg1) `->` type($result)",
        "meet",
        arg0=operand_def,
        arg1=operand_def,
        error=_error,
        result=result_def,
    ),
    *_ops(
        "$value `,` $index attr-dict `:` type($value) `,` type($index) `->` type($extent)",
        "dim",
        value=operand_def,
        index=operand_def,
        extent=result_def,
    ),
    *_ops(
        "$shape `,` $dim attr-dict `:` type($shape) `,` type($dim) `->` type($extent)",
        "get_extent",
        shape=operand_def,
        dim=operand_def,
        extent=result_def,
    ),
    *_ops(
        "$shapes attr-dict `:` type($shapes) `->` type($result)",
        "broadcast",
        shapes=_many,
        error=_error,
        result=result_def,
    ),
    *_ops("$inputs attr-dict `:` type($inputs) `->` type($result)", "any", inputs=_many, result=result_def),
    *_ops(
        "$arg attr-dict `:` type($arg) `->` type($result)",
        "shape_of value_as_shape num_elements rank to_extent_tensor",
        arg=operand_def,
        result=result_def,
    ),
    *_ops(
        "$shapes attr-dict `:` type($shapes)",
        "is_broadcastable shape_eq",
        shapes=_many,
        result=lambda: result_def(i1),
    ),
    *_ops(
        "$shapes attr-dict `:` type($shapes)",
        "cstr_broadcastable cstr_eq",
        shapes=_many,
        result=lambda: result_def(WitnessType()),
    ),
    *_ops(
        "$inputs attr-dict",
        "assuming_all",
        inputs=lambda: var_operand_def(WitnessType()),
        result=lambda: result_def(WitnessType()),
    ),
    *_ops(
        "$pred `,` $msg attr-dict",
        "cstr_require",
        pred=lambda: operand_def(i1),
        msg=lambda: prop_def(StringAttr),
        result=lambda: result_def(WitnessType()),
    ),
    *_ops(
        "$passing attr-dict",
        "const_witness",
        passing=lambda: prop_def(BoolAttr),
        result=lambda: result_def(WitnessType()),
    ),
    *_ops(
        "$extents attr-dict `:` type($extents)",
        "from_extents",
        extents=_many,
        shape=lambda: result_def(ShapeType()),
    ),
    *_ops(
        "$input attr-dict `:` type($input)",
        "from_extent_tensor",
        input=operand_def,
        result=lambda: result_def(ShapeType()),
    ),
    *_ops(
        "$arg attr-dict",
        "index_to_size",
        arg=lambda: operand_def(IndexType()),
        result=lambda: result_def(SizeType()),
    ),
    *_ops(
        "$arg attr-dict `:` type($arg)",
        "size_to_index",
        arg=operand_def,
        result=lambda: result_def(IndexType()),
    ),
    *_ops(
        "$arg attr-dict `:` type($result)",
        "value_of",
        arg=lambda: operand_def(ValueShapeType()),
        result=result_def,
    ),
    *_ops(
        "$operand `,` $shape attr-dict `:` type($operand) `,` type($shape)",
        "with_shape",
        operand=operand_def,
        shape=operand_def,
        result=lambda: result_def(ValueShapeType()),
    ),
)

# ops of their own form ------------------------------------------------------------------------------------------------


@irdl_op_definition
class ConstShapeOp(IRDLOperation):
    """`shape.const_shape [1, 2] : tensor<2xindex>`"""

    name = "shape.const_shape"

    shape = prop_def(DenseIntElementsAttr)
    result = result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        attributes = parser.parse_optional_attr_dict()
        extents = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        parser.parse_punctuation(":")
        type = parser.parse_type()
        shape = DenseIntElementsAttr.from_list(TensorType(IndexType(), [len(extents)]), extents)
        return cls.create(result_types=[type], properties={"shape": shape}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" [{', '.join(map(str, self.shape.get_values()))}] : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        type, rank = self.result.type, len(self.shape.get_values())
        if isinstance(type, TensorType) and type.get_shape() not in ((rank,), (-1,)):
            raise VerifyException(f"{rank} extents are no {type}")


@irdl_op_definition
class ConstSizeOp(IRDLOperation):
    """`shape.const_size 7`"""

    name = "shape.const_size"

    value = prop_def(IntegerAttr)
    result = result_def(SizeType())

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        value = IntegerAttr(parser.parse_integer(allow_boolean=False), IndexType())
        attributes = parser.parse_optional_attr_dict()
        return cls.create(result_types=[SizeType()], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.value.value.data}")
        printer.print_op_attributes(self.attributes)


class _EndOp(IRDLOperation):
    """What both ends have in common."""

    operands_ = var_operand_def()

    assembly_format = "attr-dict ($operands_^ `:` type($operands_))?"


@irdl_op_definition
class AssumingYieldOp(_EndOp):
    """The end of `shape.assuming`."""

    name = "shape.assuming_yield"

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(AssumingOp)))


@irdl_op_definition
class YieldOp(_EndOp):
    """The end of `shape.reduce`."""

    name = "shape.yield"

    traits = traits_def(IsTerminator())


@irdl_op_definition
class AssumingOp(IRDLOperation):
    """What is computed where a constraint holds."""

    name = "shape.assuming"

    witness = operand_def(WitnessType())
    body = region_def("single_block")
    results_ = var_result_def()

    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        witness = parser.parse_operand(WitnessType())
        types = parse_results(parser)
        body = parser.parse_region()
        if body.first_block is None:
            body.add_block(Block())
        if not isinstance(body.block.last_op, AssumingYieldOp):
            body.block.add_op(AssumingYieldOp.create())
        return cls.create(
            operands=[witness],
            result_types=types,
            regions=[body],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.witness)
        if self.results_:
            printer.print_string(" -> (")
            printer.print_list(self.results_.types, printer.print_attribute)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body, print_block_terminators=bool(self.results_))
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        _check_end(self.body.block, self.results_.types)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Numbers that are carried along the extents of a shape."""

    name = "shape.reduce"

    shape = operand_def()
    initVals = var_operand_def()
    body = region_def("single_block")
    results_ = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        given = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = [parser.parse_type(), *(results := parse_results(parser))]
        operands = parser.resolve_operands(given, types, start)
        body = parser.parse_region()
        return cls.create(
            operands=operands,
            result_types=results,
            regions=[body],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(") : ")
        printer.print_attribute(self.shape.type)
        print_results(printer, self.results_.types)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        extent: Attribute = SizeType() if isinstance(self.shape.type, ShapeType) else IndexType()
        carried = self.initVals.types
        if tuple(self.body.block.arg_types) != (IndexType(), extent, *carried):
            raise VerifyException(f"the body takes an index, an extent of {extent}, and what is carried")
        if carried != self.results_.types:
            raise VerifyException("the results have to have the types of what is carried")
        _check_end(self.body.block, carried)


def _check_end(block: Block, types: Sequence[Attribute]) -> None:
    """Raises VerifyException where a body does not yield values of these types."""
    end = block.last_op
    if end is None or tuple(end.operand_types) != tuple(types):
        raise VerifyException("the body has to yield values of the types of the results")


SHAPE_OPS: tuple[type[Operation], ...] = (
    *_PLAIN,
    *(ConstShapeOp, ConstSizeOp, AssumingYieldOp, YieldOp, AssumingOp, ReduceOp),
)
