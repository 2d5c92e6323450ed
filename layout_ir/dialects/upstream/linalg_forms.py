"""Linalg ops whose custom form or operands xDSL does not know in full.

linalg.generic #trait ins(...) outs(...) {...} -> (A, B)      attributes under an alias, several results
linalg.map { arith.addf } ins(...) outs(...)                  one op in short, or a region
linalg.reduce ins(%a, %b ...) outs(%c, %d ...) dimensions = [1] (%x: f32, ...) {...}
linalg.softmax dimension(1) ins(...) outs(...) -> A
linalg.winograd_input_transform fmr(F_4_3) ins(...) outs(...) -> A
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    ShapedType,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout.types import is_tensor
from layout_ir.dialects.upstream.linalg_bodies import IndexOp, element_of
from layout_ir.dialects.upstream.linalg_syntax import (
    parse_attributes,
    parse_group,
    parse_results,
    print_group,
    print_results,
    print_structured_parts,
)


@irdl_op_definition
class StructuredGenericOp(GenericOp):
    """`linalg.generic` with its attributes under an alias (a trait), and with several results."""

    name = "linalg.generic"

    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    doc = opt_prop_def(StringAttr)
    library_call = opt_prop_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    res = var_result_def(TensorType)
    body = region_def("single_block")

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        attributes = parse_attributes(parser)
        end = parser.pos
        maps, kinds = (attributes.pop(name, None) for name in ("indexing_maps", "iterator_types"))
        for name, value in (("indexing_maps", maps), ("iterator_types", kinds)):
            if not isinstance(value, ArrayAttr):
                parser.raise_error(f"{cls.name} needs a list of {name}", start, end)
        maps, kinds = cast("ArrayAttr[Attribute]", maps), cast("ArrayAttr[Attribute]", kinds)
        for map in maps:
            if not isinstance(map, AffineMapAttr):
                parser.raise_error(f"{map} in indexing_maps is no affine_map", start, end)
        iterators = [_iterator(parser, kind, start, end) for kind in kinds]
        inputs, outputs = parse_group(parser, "ins"), parse_group(parser, "outs")
        if parser.parse_optional_keyword("attrs") is not None:
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        body = parser.parse_region()
        properties: dict[str, Attribute | None] = {
            name: attributes.pop(name, None) for name in ("doc", "library_call")
        }
        properties |= {"indexing_maps": maps, "iterator_types": ArrayAttr(iterators)}
        return cls.build(
            operands=[inputs, outputs],
            result_types=[parse_results(parser)],
            properties=properties,
            attributes=attributes,
            regions=[body],
        )


def _iterator(parser: Parser, kind: Attribute, start: int, end: int) -> IteratorTypeAttr:
    if isinstance(kind, IteratorTypeAttr):
        return kind
    known = [str(each) for each in IteratorType]
    if not isinstance(kind, StringAttr) or kind.data not in known:
        parser.raise_error(f"{kind} is no iterator type: these are {', '.join(known)}", start, end)
    return IteratorTypeAttr(IteratorType(kind.data))


# Bodies in short -----------------------------------------------------------------------------------------------------


def _parse_short_body(parser: Parser) -> tuple[type[Operation], dict[str, Attribute]] | None:
    """The op and the attributes of `{ arith.addf {attributes} }`; None where there is no brace."""
    if parser.parse_optional_punctuation("{") is None:
        return None
    start = parser.pos
    name = parser.parse_identifier()
    found = parser.ctx.get_optional_op(name)
    if found is None:
        parser.raise_error(f"unknown operation '{name}'", start, parser.pos)
    properties = parser.parse_optional_attr_dict()
    parser.parse_punctuation("}")
    return found, properties


def _short_region(
    short: tuple[type[Operation], dict[str, Attribute]],
    operands: Sequence[SSAValue],
    applied: Sequence[int],
    result: Attribute,
) -> Region:
    """A block on one element of each operand that yields the op, applied to the arguments that `applied` numbers."""
    op, properties = short
    block = Block(arg_types=[element_of(value.type) for value in operands])
    body = op.create(
        operands=[block.args[k] for k in applied], result_types=[element_of(result)], properties=properties
    )
    block.add_ops([body, YieldOp(body.results[0])])
    return Region(block)


def _parse_region_body(parser: Parser) -> Region:
    """`(%a: f32, %b: f32) { ... }`."""
    arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
    return parser.parse_region(arguments)


def _print_region_body(printer: Printer, region: Region) -> None:
    block = region.block
    printer.print_string(" (")
    printer.print_list(block.args, printer.print_block_argument)
    printer.print_string(") ")
    printer.print_region(region, print_entry_block_args=False)


@irdl_op_definition
class MapOp(LinalgStructuredOperation):
    """A scalar body on corresponding elements of the inputs, one result."""

    name = "linalg.map"

    inputs = var_operand_def()
    outputs = operand_def(ShapedType)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """The identity for each operand."""
        map = AffineMapAttr(AffineMap.identity(self._rank))
        return ArrayAttr([map] * len(self.operands))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Every loop is parallel."""
        return ArrayAttr([IteratorTypeAttr.parallel()] * self._rank)

    @property
    def _rank(self) -> int:
        return _shape_rank(self.operands[-1].type)

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        short = _parse_short_body(parser)
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        inputs, outputs = parse_group(parser, "ins"), parse_group(parser, "outs")
        attributes |= parser.parse_optional_attr_dict()
        if len(outputs) != 1:
            parser.raise_error(f"{cls.name} has one output, not {len(outputs)}", start, parser.pos)
        if short is None:
            body = _parse_region_body(parser)
        else:
            body = _short_region(short, [*inputs, *outputs], range(len(inputs)), outputs[0].type)
        types = [value.type for value in outputs if is_tensor(value.type)]
        return cls.build(
            operands=[inputs, outputs[0]], result_types=[types], attributes=attributes, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        print_structured_parts(printer, self.operands[:-1], self.operands[-1:], (), self.attributes)
        _print_region_body(printer, self.body)


def _shape_rank(type: Attribute) -> int:
    return len(type.get_shape()) if isinstance(type, ShapedType) else 0


@irdl_op_definition
class VariadicReduceOp(LinalgStructuredOperation):
    """`linalg.reduce` of several inputs at once; the body takes the elements, then the accumulators."""

    name = "linalg.reduce"

    dimensions = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (SameVariadicOperandSize(),)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """The identity for inputs, and the dims that are left for outputs."""
        rank, reduced = self._rank, self._reduced
        left = tuple(AffineExpr.dimension(dim) for dim in range(rank) if dim not in reduced)
        count = len(self.operands) // 2
        maps = [AffineMap.identity(rank)] * count + [AffineMap(rank, 0, left)] * count
        return ArrayAttr(map(AffineMapAttr, maps))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """The type of each loop: reduction for `dimensions`, parallel for all others."""
        kinds = (IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction())
        return ArrayAttr([kinds[dim in self._reduced] for dim in range(self._rank)])

    @property
    def _rank(self) -> int:
        return _shape_rank(self.operands[0].type)

    @property
    def _reduced(self) -> tuple[int, ...]:
        return self.dimensions.get_values()  # pyright: ignore[reportReturnType]

    def verify_(self) -> None:
        dims = self._reduced
        if len(set(dims)) != len(dims) or not all(0 <= dim < self._rank for dim in dims):
            raise VerifyException(
                f"dimensions = {list(dims)} has to name dims of {self.operands[0].type}, each at most once"
            )
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        short = _parse_short_body(parser)
        start = parser.pos
        inputs, outputs = parse_group(parser, "ins"), parse_group(parser, "outs")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        dims = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        attributes = parser.parse_optional_attr_dict()
        if len(inputs) != len(outputs) or not inputs:
            parser.raise_error(
                f"{cls.name} has as many inputs as outputs, not {len(inputs)} and {len(outputs)}",
                start,
                parser.pos,
            )
        if short is None:
            body = _parse_region_body(parser)
        else:
            # The op takes the accumulator first.
            body = _short_region(short, [*inputs, *outputs], (1, 0), outputs[0].type)
        types = [value.type for value in outputs if is_tensor(value.type)]
        return cls.build(
            operands=[inputs, outputs],
            result_types=[types],
            properties={"dimensions": DenseArrayBase.from_list(i64, dims)},
            attributes=attributes,
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        count = len(self.operands) // 2
        print_structured_parts(printer, self.operands[:count], self.operands[count:], (), {})
        printer.print_string(f" dimensions = {list(self._reduced)}")
        printer.print_op_attributes(self.attributes)
        _print_region_body(printer, self.body)


# Ops without a body --------------------------------------------------------------------------------------------------


class _DestinationOp(IRDLOperation):
    """An op with inputs, one destination, and a number or word in front of them."""

    input = operand_def()
    output = operand_def()
    res = var_result_def(TensorType)

    FRONT: ClassVar[str]

    @classmethod
    def _parse_front(cls, parser: Parser) -> Attribute:
        raise NotImplementedError

    def _print_front(self, printer: Printer) -> None:
        raise NotImplementedError

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        attributes = parser.parse_optional_attr_dict()
        front = cls._parse_front(parser)
        start = parser.pos
        inputs, outputs = parse_group(parser, "ins"), parse_group(parser, "outs")
        attributes |= parser.parse_optional_attr_dict()
        if len(inputs) != 1 or len(outputs) != 1:
            parser.raise_error(f"{cls.name} has one input and one output", start, parser.pos)
        return cls.build(
            operands=[inputs[0], outputs[0]],
            result_types=[parse_results(parser)],
            properties={cls.FRONT: front},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        self._print_front(printer)
        print_group(printer, "ins", [self.input])
        print_group(printer, "outs", [self.output])
        print_results(printer, self.result_types)


@irdl_op_definition
class SoftmaxOp(_DestinationOp):
    """The softmax along one dim."""

    name = "linalg.softmax"
    FRONT: ClassVar[str] = "dimension"

    dimension = prop_def(IntegerAttr)

    @classmethod
    def _parse_front(cls, parser: Parser) -> Attribute:
        parser.parse_keyword("dimension")
        with parser.in_parens():
            return IntegerAttr(parser.parse_integer(), i64)

    def _print_front(self, printer: Printer) -> None:
        printer.print_string(f" dimension({self.dimension.value.data})")

    def verify_(self) -> None:
        rank = _shape_rank(self.input.type)
        if not 0 <= self.dimension.value.data < rank:
            raise VerifyException(f"dimension {self.dimension.value.data} is not one of {self.input.type}")


WINOGRAD_SIZES = ("F_2_3", "F_4_3", "F_2_5")
"""Output tile and filter size of a Winograd transform, in the order in which MLIR numbers them."""


class _WinogradOp(_DestinationOp):
    """One of the transforms around a Winograd convolution; `fmr` names its tile and filter size."""

    FRONT: ClassVar[str] = "fmr"

    fmr = prop_def(IntegerAttr)

    @classmethod
    def _parse_front(cls, parser: Parser) -> Attribute:
        parser.parse_keyword("fmr")
        with parser.in_parens():
            start = parser.pos
            name = parser.parse_identifier()
            if name not in WINOGRAD_SIZES:
                parser.raise_error(
                    f"no size '{name}': there are {', '.join(WINOGRAD_SIZES)}", start, parser.pos
                )
        return IntegerAttr(WINOGRAD_SIZES.index(name), i32)

    def _print_front(self, printer: Printer) -> None:
        printer.print_string(f" fmr({WINOGRAD_SIZES[self.fmr.value.data]})")

    def verify_(self) -> None:
        if not 0 <= self.fmr.value.data < len(WINOGRAD_SIZES):
            raise VerifyException(f"fmr = {self.fmr.value.data} is none of 0 to {len(WINOGRAD_SIZES) - 1}")


@irdl_op_definition
class WinogradFilterTransformOp(_WinogradOp):
    """The filter of a Winograd convolution transformed."""

    name = "linalg.winograd_filter_transform"


@irdl_op_definition
class WinogradInputTransformOp(_WinogradOp):
    """The input of a Winograd convolution transformed."""

    name = "linalg.winograd_input_transform"


@irdl_op_definition
class WinogradOutputTransformOp(_WinogradOp):
    """The products of a Winograd convolution transformed back."""

    name = "linalg.winograd_output_transform"


FORM_OPS: tuple[type[Operation], ...] = (
    StructuredGenericOp,
    IndexOp,
    MapOp,
    VariadicReduceOp,
    SoftmaxOp,
    WinogradFilterTransformOp,
    WinogradInputTransformOp,
    WinogradOutputTransformOp,
)
"""The classes of all ops of this file."""
