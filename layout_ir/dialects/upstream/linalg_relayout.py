"""`linalg.pack` and `linalg.unpack`, which xDSL lacks: a tensor in tiles, and back.

    %p = linalg.pack %x padding_value(%c : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0] inner_tiles = [32]
         into %d : tensor<60x8xf32> -> tensor<8x2x32xf32>

Dim `inner_dims_pos[k]` of the unpacked tensor is cut into tiles of `inner_tiles[k]`, which become the last dims of the
packed one, in this order; the dims that are left count tiles, and `outer_dims_perm` orders them. The last tile of a dim
may be partial: pack fills it with the padding value, unpack drops what is there. What either keeps where in memory is
what `RelayoutOp.packed_format` says of the unpacked tensor.

The forms, generic and custom, are those of MLIR 22, which takes tensors only.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    TensorType,
    i64,
)
from xdsl.dialects.utils import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
    split_dynamic_index_list,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError, shape_text


def _ints(values: Sequence[int]) -> Attribute:
    return DenseArrayBase.from_list(i64, values)


class RelayoutOp(IRDLOperation, ABC):
    """What pack and unpack have in common: a source, a destination of the result's type, the tiles and their order."""

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    inner_tiles = var_operand_def(IndexType)
    """The tile sizes that only the run time knows, for the entries of `static_inner_tiles` that are dynamic."""

    inner_dims_pos = prop_def(DenseArrayBase.constr(i64))
    outer_dims_perm = opt_prop_def(DenseArrayBase.constr(i64))
    static_inner_tiles = prop_def(DenseArrayBase.constr(i64))

    result = result_def(TensorType)

    traits = traits_def(Pure())

    PACKS: ClassVar[bool]
    """Whether the result is the packed tensor, rather than the source."""

    # What it says ----------------------------------------------------------------------------------------------------

    @property
    def packs(self) -> bool:
        """Whether the result is the packed tensor, rather than the source."""
        return self.PACKS

    @property
    def packed_type(self) -> TensorType[Attribute]:
        """The type of the tensor in tiles."""
        return tensor_type(self.dest.type if self.PACKS else self.source.type)

    @property
    def unpacked_type(self) -> TensorType[Attribute]:
        """The type of the tensor without tiles."""
        return tensor_type(self.source.type if self.PACKS else self.dest.type)

    @property
    def tiled_dims(self) -> tuple[int, ...]:
        """The dims of the unpacked tensor that are cut, in the order of their tiles."""
        return self.inner_dims_pos.get_values()  # pyright: ignore[reportReturnType]

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        """The size of each tile; `DYNAMIC_INDEX` where only the run time knows it."""
        return self.static_inner_tiles.get_values()  # pyright: ignore[reportReturnType]

    @property
    def outer_order(self) -> tuple[int, ...]:
        """The dims of the unpacked tensor in the order in which they are outer dims of the packed one."""
        given = () if self.outer_dims_perm is None else self.outer_dims_perm.get_values()
        return given or tuple(range(self.unpacked_type.get_num_dims()))  # pyright: ignore[reportReturnType]

    def packed_format(self) -> Format:
        """The Format in which the unpacked tensor lies in memory as the packed one does, row-major.

        Elements of the packed tensor behind the last element of a dim are pads of it, which may hold anything. Raises
        LayoutError where a tile has a dynamic size.
        """
        if DYNAMIC_INDEX in self.tile_sizes:
            raise LayoutError(f"{self.name} has a tile of dynamic size, a Format needs static ones")
        tiles = zip(self.tiled_dims, self.tile_sizes, strict=True)
        factors = (*map(Factor, self.outer_order), *(Factor(dim, size) for dim, size in tiles))
        return Format(tuple(names_for(self.unpacked_type.get_num_dims())), factors, ())

    def packed_shape(self) -> tuple[int, ...]:
        """The shape of the packed tensor that follows from the unpacked one; `DYNAMIC_INDEX` where it is dynamic."""
        extents = list(self.unpacked_type.get_shape())
        for dim, size in zip(self.tiled_dims, self.tile_sizes, strict=True):
            known = DYNAMIC_INDEX not in (extents[dim], size)
            extents[dim] = -(-extents[dim] // size) if known else DYNAMIC_INDEX
        return (*(extents[dim] for dim in self.outer_order), *self.tile_sizes)

    # Forms -----------------------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        padding = None
        if cls.PACKS and parser.parse_optional_keyword("padding_value") is not None:
            with parser.in_parens():
                value = parser.parse_unresolved_operand()
                parser.parse_punctuation(":")
                padding = parser.resolve_operand(value, parser.parse_type())
        order: Sequence[int] = ()
        if parser.parse_optional_keyword("outer_dims_perm") is not None:
            parser.parse_punctuation("=")
            order = cls._parse_ints(parser)
        parser.parse_keyword("inner_dims_pos")
        parser.parse_punctuation("=")
        dims = cls._parse_ints(parser)
        parser.parse_keyword("inner_tiles")
        parser.parse_punctuation("=")
        dynamic, static = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
        parser.parse_keyword("into")
        dest = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        source_type = parser.parse_type()
        parser.parse_punctuation("->")
        dest_type = parser.parse_type()
        for type in (source_type, dest_type):
            if not isinstance(type, TensorType):
                parser.raise_error(f"{cls.name} takes tensors, not {type}", start, parser.pos)
        sizes = [parser.resolve_operand(value, IndexType()) for value in dynamic]
        tiles = get_dynamic_index_list(static, sizes, DYNAMIC_INDEX)
        here, there = parser.resolve_operand(source, source_type), parser.resolve_operand(dest, dest_type)
        fields = cls._fields(here, there, dims, tiles, order, padding)
        return cls.build(**fields, attributes=attributes)

    @classmethod
    def _fields(
        cls,
        source: SSAValue | Operation,
        dest: SSAValue | Operation,
        dims: Sequence[int],
        tiles: Sequence[int | SSAValue],
        order: Sequence[int],
        padding: SSAValue | None,
    ) -> dict[str, Any]:
        """The arguments with which xDSL makes the op."""
        static, dynamic = split_dynamic_index_list(tiles, DYNAMIC_INDEX)
        properties = {
            "inner_dims_pos": _ints(dims),
            "static_inner_tiles": _ints(static),
            "outer_dims_perm": _ints(order) if order else None,
        }
        paddings = (padding,) if cls.PACKS else ()
        type = SSAValue.get(dest).type
        operands = [source, dest, *paddings, dynamic]
        return {"operands": operands, "properties": properties, "result_types": [type]}

    @staticmethod
    def _parse_ints(parser: Parser) -> list[int]:
        return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        self._print_padding(printer)
        if self.outer_dims_perm is not None and len(self.outer_dims_perm):
            printer.print_string(f" outer_dims_perm = {list(self.outer_order)}")
        printer.print_string(f" inner_dims_pos = {list(self.tiled_dims)} inner_tiles = ")
        print_dynamic_index_list(printer, DYNAMIC_INDEX, self.inner_tiles, self.tile_sizes)
        printer.print_string(" into ")
        printer.print_ssa_value(self.dest)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.dest.type)

    def _print_padding(self, printer: Printer) -> None:
        """Prints the padding value, where there is one."""

    # Checks ----------------------------------------------------------------------------------------------------------

    def verify_(self) -> None:
        try:
            self._check()
        except LayoutError as error:
            raise VerifyException(str(error)) from error

    def _check(self) -> None:
        """Raises LayoutError where dims, tiles, order and types do not fit one another."""
        unpacked, packed = self.unpacked_type, self.packed_type
        rank = unpacked.get_num_dims()
        dims, sizes = self.tiled_dims, self.tile_sizes
        if len(set(dims)) != len(dims) or not all(0 <= dim < rank for dim in dims):
            raise LayoutError(
                f"inner_dims_pos = {list(dims)} has to name dims of {_text(unpacked.get_shape())}, "
                f"0 to {rank - 1}, each at most once"
            )
        if len(sizes) != len(dims):
            raise LayoutError(
                f"inner_tiles has {len(sizes)} sizes for the {len(dims)} dims of inner_dims_pos"
            )
        dynamic = sum(size == DYNAMIC_INDEX for size in sizes)
        if dynamic != len(self.inner_tiles):
            raise LayoutError(f"{dynamic} tiles are dynamic, but {len(self.inner_tiles)} operands say sizes")
        if any(size != DYNAMIC_INDEX and size <= 0 for size in sizes):
            raise LayoutError(f"inner_tiles = {list(sizes)}: a tile has at least one element")
        order = self.outer_order
        if sorted(order) != list(range(rank)):
            raise LayoutError(
                f"outer_dims_perm = {list(order)} is no permutation of the {rank} dims of "
                f"{_text(unpacked.get_shape())}"
            )
        if packed.get_num_dims() != rank + len(dims):
            raise LayoutError(
                f"the packed tensor has rank {packed.get_num_dims()}, but rank {rank} and {len(dims)} tiles "
                f"make {rank + len(dims)}"
            )
        if unpacked.element_type != packed.element_type:
            raise LayoutError(
                f"the element type stays: the packed tensor has {packed.element_type}, the other "
                f"{unpacked.element_type}"
            )
        if self.result.type != self.dest.type:
            raise LayoutError(f"the result is {self.result.type}, but the destination {self.dest.type}")
        self._check_shapes(packed.get_shape())

    def _check_shapes(self, packed: tuple[int, ...]) -> None:
        expected = self.packed_shape()
        rank = len(self.outer_order)
        for tile, extent in zip(self.tile_sizes, packed[rank:], strict=True):
            if (tile == DYNAMIC_INDEX) != (extent == DYNAMIC_INDEX):
                raise LayoutError(
                    f"a tile of {_size(tile)} cannot be a dim of {_size(extent)}: both are static or both dynamic"
                )
        if any(
            DYNAMIC_INDEX not in (ours, theirs) and ours != theirs
            for ours, theirs in zip(expected, packed, strict=True)
        ):
            raise LayoutError(
                f"{_text(self.unpacked_type.get_shape())} in these tiles is "
                f"{_text(expected)}, not {_text(packed)}"
            )


def _text(shape: Sequence[int]) -> str:
    return shape_text(None if extent == DYNAMIC_INDEX else extent for extent in shape)


def _size(extent: int) -> str:
    return "?" if extent == DYNAMIC_INDEX else str(extent)


@irdl_op_definition
class PackOp(RelayoutOp):
    """A tensor cut into tiles; the missing elements of partial tiles are the padding value."""

    name = "linalg.pack"

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    padding_value = opt_operand_def()
    inner_tiles = var_operand_def(IndexType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    PACKS: ClassVar[bool] = True

    def __init__(
        self,
        source: SSAValue | Operation,
        dest: SSAValue | Operation,
        inner_dims_pos: Sequence[int],
        inner_tiles: Sequence[int | SSAValue],
        *,
        outer_dims_perm: Sequence[int] = (),
        padding_value: SSAValue | None = None,
    ):
        super().__init__(
            **self._fields(source, dest, inner_dims_pos, inner_tiles, outer_dims_perm, padding_value)
        )

    def _print_padding(self, printer: Printer) -> None:
        if self.padding_value is not None:
            printer.print_string(" padding_value(")
            printer.print_ssa_value(self.padding_value)
            printer.print_string(" : ")
            printer.print_attribute(self.padding_value.type)
            printer.print_string(")")

    def _check(self) -> None:
        super()._check()
        element = self.packed_type.element_type
        if self.padding_value is not None:
            if self.padding_value.type != element:
                raise LayoutError(f"padding_value is {self.padding_value.type}, but elements are {element}")
            return
        extents = self.unpacked_type.get_shape()
        for dim, size in zip(self.tiled_dims, self.tile_sizes, strict=True):
            if DYNAMIC_INDEX not in (extents[dim], size) and extents[dim] % size:
                raise LayoutError(
                    f"the last tile of dim {dim} is partial, {extents[dim]} = {extents[dim] // size} * {size} + "
                    f"{extents[dim] % size}: say with padding_value what fills it"
                )


@irdl_op_definition
class UnPackOp(RelayoutOp):
    """The tensor that tiles are of; elements of partial tiles behind its end are dropped."""

    name = "linalg.unpack"

    PACKS: ClassVar[bool] = False

    def __init__(
        self,
        source: SSAValue | Operation,
        dest: SSAValue | Operation,
        inner_dims_pos: Sequence[int],
        inner_tiles: Sequence[int | SSAValue],
        *,
        outer_dims_perm: Sequence[int] = (),
    ):
        super().__init__(**self._fields(source, dest, inner_dims_pos, inner_tiles, outer_dims_perm, None))
