"""Ops of memref that xDSL lacks, and forms that it lacks of others.

memref.global "private" constant @table : memref<2xf32> = dense<[1.0, 2.0]>
%t = memref.transpose %m (i, j) -> (j, i) : memref<2x3xf32> to memref<3x2xf32, strided<[1, 3]>>
%r = memref.reshape %m(%shape) : (memref<?xf32>, memref<2xindex>) -> memref<?x?xf32>
%o = memref.atomic_rmw addf %x, %m[%i] : (f32, memref<4xf32>) -> f32
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ShapedType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineDimExpr
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
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
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout.dense_elements import elements_text
from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results
from layout_ir.dialects.upstream.operand_syntax import (
    ATOMIC_KINDS,
    parse_atomic_kind,
    parse_indices,
    parse_prefetch_hints,
    print_element,
    print_prefetch_hints,
)

_MEMREF = base(MemRefType) | base(UnrankedMemRefType)


@irdl_op_definition
class GlobalOp(memref.GlobalOp):
    """A buffer of the whole program, with a custom form."""

    name = "memref.global"

    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    type = prop_def(MemRefType)
    initial_value = opt_prop_def(base(UnitAttr) | base(DenseIntOrFPElementsAttr))
    """The elements; a unit attribute where they are not initialized, None where the buffer is declared alone."""
    constant = opt_prop_def(UnitAttr)
    alignment = opt_prop_def(IntegerAttr)

    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        visibility = parser.parse_optional_str_literal()
        properties: dict[str, Attribute] = {}
        if visibility is not None:
            properties["sym_visibility"] = StringAttr(visibility)
        if parser.parse_optional_keyword("constant") is not None:
            properties["constant"] = UnitAttr()
        properties["sym_name"] = parser.parse_symbol_name()
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, MemRefType):
            parser.raise_error(f"a buffer is a memref, not {type}", start, parser.pos)
        properties["type"] = type
        if parser.parse_optional_punctuation("=") is not None:
            if parser.parse_optional_keyword("uninitialized") is not None:
                properties["initial_value"] = UnitAttr()
            else:
                properties["initial_value"] = cls._parse_elements(parser, cast("MemRefType[Any]", type))
        attributes = parser.parse_optional_attr_dict()
        if "alignment" in attributes:
            properties["alignment"] = attributes.pop("alignment")
        return cls.create(properties=properties, attributes=attributes)

    @staticmethod
    def _parse_elements(parser: Parser, type: MemRefType[Any]) -> Attribute:
        """`dense<...>`, without the type, which is that of the buffer."""
        tensor = TensorType(type.element_type, type.get_shape())
        parser.parse_keyword("dense")
        return parser.parse_dense_int_or_fp_elements_attr(tensor)

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.print_string(" ")
            printer.print_string_literal(self.sym_visibility.data)
        printer.print_string(" constant " if self.constant is not None else " ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" : ")
        printer.print_attribute(self.type)
        if isinstance(self.initial_value, UnitAttr):
            printer.print_string(" = uninitialized")
        elif self.initial_value is not None:
            elements = cast("DenseIntOrFPElementsAttr[Any]", self.initial_value)
            printer.print_string(f" = {elements_text(elements)}")
        aligned = {} if self.alignment is None else {"alignment": self.alignment}
        printer.print_op_attributes({**aligned, **self.attributes})

    def verify_(self) -> None:
        value = self.initial_value
        if value is None or isinstance(value, UnitAttr):
            return
        type: Any = getattr(value, "type", None)
        buffer = cast("MemRefType[Any]", self.type)
        expected = TensorType(buffer.element_type, buffer.get_shape())
        if type != expected:
            raise VerifyException(f"the elements are {type}, those of {buffer} are {expected}")


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The same memory with its dims in another order."""

    name = "memref.transpose"

    source = operand_def(MemRefType)
    permutation = prop_def(AffineMapAttr)
    result = result_def(MemRefType)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        source = parser.parse_unresolved_operand()
        permutation = AffineMapAttr(parser.parse_affine_map())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_keyword("to")
        return cls.create(
            operands=[parser.resolve_operand(source, type)],
            properties={"permutation": permutation},
            result_types=[parser.parse_type()],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" {self.permutation.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        source, result = (cast("MemRefType[Any]", value.type) for value in (self.source, self.result))
        permutation, rank = self.permutation.data, source.get_num_dims()
        order = [each.position for each in permutation.results if isinstance(each, AffineDimExpr)]
        if permutation.num_symbols or len(permutation.results) != rank or sorted(order) != list(range(rank)):
            raise VerifyException(f"{permutation} is no permutation of the {rank} dims of {source}")
        expected = tuple(source.get_shape()[dim] for dim in order)
        if result.get_shape() != expected or result.element_type != source.element_type:
            raise VerifyException(f"{source} in the order {order} is of shape {list(expected)}, not {result}")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Contiguous memory in another shape, which a buffer says."""

    name = "memref.reshape"

    source = operand_def(_MEMREF)
    shape = operand_def(MemRefType)
    result = result_def(_MEMREF)

    traits = traits_def(NoMemoryEffect())

    assembly_format = "$source `(` $shape `)` attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        shape = cast("MemRefType[Any]", self.shape.type)
        if shape.get_num_dims() != 1:
            raise VerifyException(f"the shape has one dim, not those of {shape}")
        result = self.result.type
        if isinstance(result, ShapedType) and shape.get_shape() != (-1,):
            (count,) = shape.get_shape()
            if count != result.get_num_dims():
                raise VerifyException(f"{count} extents for {result} of rank {result.get_num_dims()}")


@irdl_op_definition
class ReallocOp(IRDLOperation):
    """The first elements of a buffer in one of another size; the old one is no longer valid."""

    name = "memref.realloc"

    source = operand_def(MemRefType)
    dynamicResultSize = opt_operand_def(IndexType)
    alignment = opt_prop_def(IntegerAttr)
    result = result_def(MemRefType)

    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$source (`(` $dynamicResultSize^ `)`)? attr-dict `:` type($source) `to` type($result)"


class AllocaScopeOp(memref.AllocaScopeOp):
    """`memref.alloca_scope`, with a custom form."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        types = parse_results(parser)
        region = parser.parse_region()
        last = region.last_block
        if last is not None and not isinstance(last.last_op, memref.AllocaScopeReturnOp):
            last.add_op(memref.AllocaScopeReturnOp.create())
        return cls.create(result_types=types, regions=[region], attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        print_results(printer, self.res.types)
        printer.print_string(" ")
        printer.print_region(self.scope)
        printer.print_op_attributes(self.attributes)


class AllocaScopeReturnOp(memref.AllocaScopeReturnOp):
    """`memref.alloca_scope.return`, with a custom form."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        attributes = parser.parse_optional_attr_dict()
        values = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        types: list[Attribute] = []
        if values:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(operands=parser.resolve_operands(values or (), types, start), attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        if self.ops:
            printer.print_string(" ")
            printer.print_list(self.ops, printer.print_ssa_value)
            printer.print_string(" : ")
            printer.print_list(self.ops.types, printer.print_attribute)


class AtomicRMWOp(memref.AtomicRMWOp):
    """`memref.atomic_rmw`, with a custom form."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        kind = parse_atomic_kind(parser, parser.parse_identifier)
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        buffer = parser.parse_unresolved_operand()
        indices = parse_indices(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        first, second = parser.resolve_operands([value, buffer], type.inputs.data, start)
        return cls.create(
            operands=[first, second, *indices],
            properties={"kind": kind},
            result_types=type.outputs.data,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {ATOMIC_KINDS[self.kind.value.data]} ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        print_element(printer, self.memref, self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : (")
        printer.print_list([self.value.type, self.memref.type], printer.print_attribute)
        printer.print_string(") -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        super().verify_()
        kind = self.kind.value.data
        if not 0 <= kind < len(ATOMIC_KINDS):
            raise VerifyException(f"{kind} is no kind of update, 0 to {len(ATOMIC_KINDS) - 1} are")


@irdl_op_definition
class AtomicYieldOp(IRDLOperation):
    """The end of the body of `memref.generic_atomic_rmw`."""

    name = "memref.atomic_yield"

    result = operand_def()

    traits = traits_def(Pure(), IsTerminator())

    assembly_format = "$result attr-dict `:` type($result)"


@irdl_op_definition
class GenericAtomicRMWOp(IRDLOperation):
    """One element of a buffer replaced by what the body makes of it, at once."""

    name = "memref.generic_atomic_rmw"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    atomic_body = region_def("single_block")
    result = result_def()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        buffer = parser.parse_unresolved_operand()
        indices = parse_indices(parser)
        parser.parse_punctuation(":")
        start = parser.pos
        type: Attribute = parser.parse_type()
        if not isinstance(type, MemRefType):
            parser.raise_error(f"an element of a memref is replaced, not of {type}", start, parser.pos)
        buffer_type = cast("MemRefType[Attribute]", type)
        region = parser.parse_region()
        return cls.create(
            operands=[parser.resolve_operand(buffer, buffer_type), *indices],
            regions=[region],
            result_types=[buffer_type.element_type],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_element(printer, self.memref, self.indices)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        printer.print_string(" ")
        printer.print_region(self.atomic_body)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        buffer = cast("MemRefType[Any]", self.memref.type)
        if len(self.indices) != buffer.get_num_dims():
            raise VerifyException(
                f"{len(self.indices)} indices into {buffer} of rank {buffer.get_num_dims()}"
            )
        element = buffer.element_type
        if self.result.type != element or tuple(self.atomic_body.block.arg_types) != (element,):
            raise VerifyException(f"the body takes and the result is one {element}")
        end = self.atomic_body.block.last_op
        if not isinstance(end, AtomicYieldOp) or end.operand_types != (element,):
            raise VerifyException(f"the body has to end in memref.atomic_yield of one {element}")


@irdl_op_definition
class RankOp(memref.RankOp):
    """`memref.rank`, with a custom form."""

    name = "memref.rank"

    source = operand_def(_MEMREF)
    rank = result_def(IndexType)

    assembly_format = "$source attr-dict `:` type($source)"

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


@irdl_op_definition
class ExtractAlignedPointerAsIndexOp(memref.ExtractAlignedPointerAsIndexOp):
    """`memref.extract_aligned_pointer_as_index`, with a custom form."""

    name = "memref.extract_aligned_pointer_as_index"

    source = operand_def(_MEMREF)
    aligned_pointer = result_def(IndexType)

    assembly_format = "$source `:` type($source) `->` type(results) attr-dict"

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


@irdl_op_definition
class DistinctObjectsOp(IRDLOperation):
    """The same buffers, of which it is said that none aliases another."""

    name = "memref.distinct_objects"

    operands_ = var_operand_def(MemRefType)
    results_ = var_result_def(MemRefType)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands(values, types, start)
        return cls.create(operands=operands, result_types=types, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)

    def verify_(self) -> None:
        if self.operand_types != self.result_types:
            raise VerifyException("the results have to have the types of the operands")


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """A hint that an element will soon be read or written."""

    name = "memref.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    isWrite = prop_def(BoolAttr)
    localityHint = prop_def(IntegerAttr)
    isDataCache = prop_def(BoolAttr)

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        buffer = parser.parse_unresolved_operand()
        indices = parse_indices(parser)
        properties = parse_prefetch_hints(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(buffer, parser.parse_type())
        return cls.create(operands=[operand, *indices], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_element(printer, self.memref, self.indices)
        print_prefetch_hints(printer, self)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)


MEMREF_OPS: tuple[type[Operation], ...] = (
    *(GlobalOp, TransposeOp, ReshapeOp, ReallocOp, AllocaScopeOp, AllocaScopeReturnOp, AtomicRMWOp),
    *(
        AtomicYieldOp,
        GenericAtomicRMWOp,
        RankOp,
        ExtractAlignedPointerAsIndexOp,
        DistinctObjectsOp,
        PrefetchOp,
    ),
)
