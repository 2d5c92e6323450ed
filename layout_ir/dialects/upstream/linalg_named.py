"""The named structured ops of MLIR's linalg as one table: loops, the dims of each operand, the scalar body.

    ("conv_2d_nhwc_hwcf", "n h w f kh kw c", "n h+kh w+kw c", "kh kw c f", "n h w f", body = multiply_add)

A dim is a loop, or a window, the sum of where it starts and where in it: `h+kh` is h * stride + kh * dilation where the
op has strides and dilations. A loop that the output lacks is a reduction. An operand without dims (`-`) is a scalar.

Classes take the place of xDSL's where it has some, and derive from those, so that passes of xDSL know them. Matrix
products also take their dims from `indexing_maps`; `linalg.contract` and `linalg.elementwise` take them from nothing
else.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseIntElementsAttr,
    DenseIntOrFPElementsAttr,
    MemRefType,
    ShapedType,
    TensorType,
    VectorType,
)
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation, NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.linalg_bodies import BODIES, ELEMENTWISE_BODIES, body_region
from layout_ir.dialects.upstream.linalg_syntax import (
    parse_structured_parts,
    print_structured_parts,
)
from layout_ir.dialects.upstream.word_attributes import ElementwiseKindAttr, TypeFunctionAttr
from layout_ir.errors import LayoutError


@dataclass(frozen=True)
class Row:
    """One named op. `loops` in their order, `operands` with the dims of each, inputs first; one output."""

    name: str
    loops: tuple[str, ...]
    operands: tuple[str, ...]
    body: str
    windows: int = 0
    """The number of windows that have a stride and a dilation."""
    mapped: bool = False
    """Whether the op has a property `indexing_maps` that replaces the dims given here."""

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Per loop whether it is a reduction."""
        written = self.operands[-1].split()
        return tuple(loop not in written for loop in self.loops)

    def maps(self, strides: Sequence[int], dilations: Sequence[int]) -> tuple[AffineMap, ...]:
        """The indexing maps of the operands."""
        place = {loop: AffineExpr.dimension(k) for k, loop in enumerate(self.loops)}
        steps = iter(zip(strides, dilations, strict=True))

        def dim(text: str) -> AffineExpr:
            start, plus, inside = text.partition("+")
            if not plus:
                return place[start]
            stride, dilation = next(steps, (1, 1))
            return _times(place[start], stride) + _times(place[inside], dilation)

        return tuple(
            AffineMap(len(self.loops), 0, tuple(map(dim, () if dims == "-" else dims.split())))
            for dims in self.operands
        )


def _times(expr: AffineExpr, factor: int) -> AffineExpr:
    return expr if factor == 1 else expr * factor


def _row(name: str, loops: str, *operands: str, body: str, windows: int = 0, mapped: bool = False) -> Row:
    return Row(f"linalg.{name}", tuple(loops.split()), operands, body, windows, mapped)


def _convolutions() -> list[Row]:
    """Convolutions: input, filter, output; those named `_q` have zero points of input and filter as well."""
    plain = (
        ("conv_1d", "w kw", "w+kw", "kw", "w", 0),
        ("conv_2d", "h w kh kw", "h+kh w+kw", "kh kw", "h w", 0),
        ("conv_3d", "d h w kd kh kw", "d+kd h+kh w+kw", "kd kh kw", "d h w", 0),
        ("conv_1d_nwc_wcf", "n w f kw c", "n w+kw c", "kw c f", "n w f", 1),
        ("conv_1d_ncw_fcw", "n f w c kw", "n c w+kw", "f c kw", "n f w", 1),
        ("conv_2d_nhwc_hwcf", "n h w f kh kw c", "n h+kh w+kw c", "kh kw c f", "n h w f", 2),
        ("conv_2d_nhwc_fhwc", "n h w f kh kw c", "n h+kh w+kw c", "f kh kw c", "n h w f", 2),
        ("conv_2d_nchw_fchw", "n f h w c kh kw", "n c h+kh w+kw", "f c kh kw", "n f h w", 2),
        ("conv_2d_ngchw_fgchw", "n g f h w c kh kw", "n g c h+kh w+kw", "f g c kh kw", "n g f h w", 2),
        ("conv_2d_ngchw_gfchw", "n g f h w c kh kw", "n g c h+kh w+kw", "g f c kh kw", "n g f h w", 2),
        ("conv_2d_nhwgc_gfhwc", "n h w g f kh kw c", "n h+kh w+kw g c", "g f kh kw c", "n h w g f", 2),
        ("conv_3d_ndhwc_dhwcf", "n d h w f kd kh kw c", "n d+kd h+kh w+kw c", "kd kh kw c f", "n d h w f", 3),
        ("conv_3d_ncdhw_fcdhw", "n f d h w c kd kh kw", "n c d+kd h+kh w+kw", "f c kd kh kw", "n f d h w", 3),
        ("depthwise_conv_1d_nwc_wc", "n w c kw", "n w+kw c", "kw c", "n w c", 1),
        ("depthwise_conv_1d_ncw_cw", "n w c kw", "n c w+kw", "c kw", "n c w", 1),
        ("depthwise_conv_1d_nwc_wcm", "n w c m kw", "n w+kw c", "kw c m", "n w c m", 1),
        ("depthwise_conv_2d_nchw_chw", "n h w c kh kw", "n c h+kh w+kw", "c kh kw", "n c h w", 2),
        ("depthwise_conv_2d_nhwc_hwc", "n h w c kh kw", "n h+kh w+kw c", "kh kw c", "n h w c", 2),
        ("depthwise_conv_2d_nhwc_hwcm", "n h w c m kh kw", "n h+kh w+kw c", "kh kw c m", "n h w c m", 2),
        (
            "depthwise_conv_3d_ndhwc_dhwc",
            "n d h w kd kh kw c",
            "n d+kd h+kh w+kw c",
            "kd kh kw c",
            "n d h w c",
            3,
        ),
        (
            "depthwise_conv_3d_ncdhw_cdhw",
            "n d h w kd kh kw c",
            "n c d+kd h+kh w+kw",
            "c kd kh kw",
            "n c d h w",
            3,
        ),
        (
            "depthwise_conv_3d_ndhwc_dhwcm",
            "n d h w m kd kh kw c",
            "n d+kd h+kh w+kw c",
            "kd kh kw c m",
            "n d h w c m",
            3,
        ),
    )
    zero_points = (
        "conv_2d_nhwc_hwcf",
        "conv_2d_nhwc_fhwc",
        "conv_2d_nchw_fchw",
        "conv_2d_ngchw_gfchw",
        "conv_2d_nhwgc_gfhwc",
        "conv_3d_ndhwc_dhwcf",
        "depthwise_conv_2d_nhwc_hwc",
        "depthwise_conv_2d_nhwc_hwcm",
    )
    rows = [_row(name, loops, x, w, y, body="multiply_add", windows=n) for name, loops, x, w, y, n in plain]
    return rows + [
        _row(f"{name}_q", loops, x, w, "-", "-", y, body="multiply_add_offset", windows=n)
        for name, loops, x, w, y, n in plain
        if name in zero_points
    ]


def _poolings() -> list[Row]:
    """Poolings: input, a window of which only the shape counts, output."""
    spaces = {
        "nhwc": ("n h w c kh kw", "n h+kh w+kw c", "kh kw", "n h w c"),
        "nchw": ("n c h w kh kw", "n c h+kh w+kw", "kh kw", "n c h w"),
        "nwc": ("n w c kw", "n w+kw c", "kw", "n w c"),
        "ncw": ("n c w kw", "n c w+kw", "kw", "n c w"),
        "ndhwc": ("n d h w c kd kh kw", "n d+kd h+kh w+kw c", "kd kh kw", "n d h w c"),
    }
    kinds = {
        "nhwc": ("sum", "max", "max_unsigned", "min", "min_unsigned"),
        "nchw": ("sum", "max"),
        "nwc": ("sum", "max", "max_unsigned", "min", "min_unsigned"),
        "ncw": ("sum", "max"),
        "ndhwc": ("sum", "max", "min"),
    }
    return [
        _row(
            f"pooling_{space}_{kind}",
            *spaces[space],
            body=f"pool_{kind}",
            windows=len(spaces[space][2].split()),
        )
        for space in spaces
        for kind in kinds[space]
    ]


def _products() -> list[Row]:
    """Matrix products."""
    return [
        _row("matmul", "m n k", "m k", "k n", "m n", body="multiply_add", mapped=True),
        _row("batch_matmul", "b m n k", "b m k", "b k n", "b m n", body="multiply_add", mapped=True),
        _row("batch_reduce_matmul", "b m n k", "b m k", "b k n", "m n", body="multiply_add", mapped=True),
        _row("matvec", "m n", "m n", "n", "m", body="multiply_add"),
        _row("vecmat", "n m", "m", "m n", "n", body="multiply_add"),
        _row("batch_matvec", "b m k", "b m k", "b k", "b m", body="multiply_add"),
        _row("batch_vecmat", "b n k", "b k", "b k n", "b n", body="multiply_add"),
        _row("dot", "m", "m", "m", "-", body="multiply_add"),
        _row("mmt4d", "m n k m0 n0 k0", "m k m0 k0", "n k n0 k0", "m n m0 n0", body="multiply_add"),
        _row(
            "batch_mmt4d",
            "b m n k m0 n0 k0",
            "b m k m0 k0",
            "b n k n0 k0",
            "b m n m0 n0",
            body="multiply_add",
        ),
        _row("quantized_matmul", "m n k", "m k", "k n", "-", "-", "m n", body="multiply_add_offset"),
        _row(
            "quantized_batch_matmul",
            "b m n k",
            "b m k",
            "b k n",
            "-",
            "-",
            "b m n",
            body="multiply_add_offset",
        ),
    ]


_RANDOM = _row("fill_rng_2d", "m n", "-", "-", "-", "m n", body="fill_rng")
"""Numbers between two bounds, from a seed."""

ROWS: tuple[Row, ...] = (*_products(), *_convolutions(), *_poolings(), _RANDOM)
"""The named ops whose rank is fixed."""

ELEMENTWISE: tuple[str, ...] = ("copy", "fill", *ELEMENTWISE_BODIES)
"""The named ops that have one loop per dim of the output; `fill` has a scalar."""

_XDSL: dict[str, type[Operation]] = {
    op.name: op for op in Linalg.operations if op.name != "linalg.quantized_matmul"
}
"""xDSL's classes, but for one that keeps its maps in an attribute of its own."""
_NOTES = ("indexing_maps", "linalg.memoized_indexing_maps", "operandSegmentSizes")
"""Attributes that MLIR derives, or prints in a place of their own."""


class NamedStructuredOp(NamedOperation, ABC):
    """A named op: custom and generic form as MLIR has them, a body made from its operands' element types."""

    BODY: ClassVar[str]
    """The key of `BODIES`."""

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue] = (),
        res: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute | None] | None = None,
        **properties: Attribute,
    ):
        types = [value.type for value in outputs if not _is_memref(value.type)] if res is None else list(res)
        IRDLOperation.__init__(
            self,
            operands=[inputs, outputs],
            result_types=[types],
            properties=properties,
            attributes=attributes,
            regions=[self._region(inputs, outputs, properties)],
        )
        self._state_maps()

    def _state_maps(self) -> None:
        """Gives the op the indexing maps that MLIR keeps as a property, where they are left out."""

    @classmethod
    def _body(cls, properties: Mapping[str, Attribute]) -> str:
        """The key of `BODIES` for an op with these properties."""
        return cls.BODY

    @classmethod
    def _region(
        cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], properties: Mapping[str, Attribute]
    ) -> Region:
        cast = properties.get("cast")
        unsigned = isinstance(cast, TypeFunctionAttr) and cast.is_unsigned
        return body_region(BODIES[cls._body(properties)], [*inputs, *outputs], unsigned=unsigned)

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        """The body of an op without properties, as xDSL's own named ops have it."""
        return cls._region(inputs, outputs, {})

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        parts = parse_structured_parts(parser)
        names = cls.get_irdl_definition().properties
        properties = {name: parts.attributes.pop(name) for name in list(parts.attributes) if name in names}
        try:
            region = cls._region(parts.inputs, parts.outputs, properties)
        except (LayoutError, VerifyException) as error:
            parser.raise_error(f"{cls.name}: {error}", parts.start, parser.pos)
        op = cls.build(
            operands=[parts.inputs, parts.outputs],
            result_types=[parts.results],
            properties=properties,
            attributes=parts.attributes,
            regions=[region],
        )
        op._state_maps()
        return op

    def print(self, printer: Printer) -> None:
        front = self._front()
        shown = {**self.properties, **self.attributes}
        rest = {name: value for name, value in shown.items() if name not in (*_NOTES, *dict(front))}
        for name, value in front:
            printer.print_string(f" {name} = " if name == "indexing_maps" else f" {name}=")
            printer.print_attribute(value)
        print_structured_parts(printer, self.inputs, self.outputs, self.result_types, rest)

    def _front(self) -> list[tuple[str, Attribute]]:
        """What is printed behind the name, outside of braces."""
        return []

    def verify_(self) -> None:
        # xDSL takes a vector, an element to MLIR, for a tensor.
        if not any(isinstance(value.type, VectorType) for value in self.operands):
            LinalgStructuredOperation.verify_(self)

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """A loop that no output has is a reduction."""
        maps = [attr.data for attr in self.get_indexing_maps()]
        written = {
            expr.position
            for map in maps[len(self.inputs) :]
            for expr in map.results
            if isinstance(expr, AffineDimExpr)
        }
        kinds = (IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction())
        return ArrayAttr([kinds[loop not in written] for loop in range(maps[0].num_dims)])


def _is_memref(type: Attribute) -> bool:
    return type.name == "memref"


class RowOp(NamedStructuredOp, ABC):
    """An op of a row of the table. A stride or dilation that is left out is 1."""

    ROW: ClassVar[Row]

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        ones = (1,) * self.ROW.windows
        given = [self.properties.get(name) for name in ("strides", "dilations")]
        strides, dilations = (
            tuple(attr.get_values()) if isinstance(attr, DenseIntOrFPElementsAttr) else ones for attr in given
        )
        return self.ROW.maps(strides, dilations)

    def verify_(self) -> None:
        for name in ("strides", "dilations"):
            attr = self.properties.get(name)
            if isinstance(attr, DenseIntOrFPElementsAttr):
                values = tuple(attr.get_values())
                if len(values) != self.ROW.windows or any(value <= 0 for value in values):
                    raise VerifyException(
                        f"{name} = {list(values)}, but {self.name} has {self.ROW.windows} windows, each with a "
                        "number from 1 on"
                    )
        super().verify_()


class MappedOp(NamedStructuredOp, ABC):
    """An op whose dims `indexing_maps` says."""

    indexing_maps = opt_prop_def(ArrayAttr)
    cast = opt_prop_def(TypeFunctionAttr)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """The maps that the op states, or the default ones."""
        given = cast("ArrayAttr[AffineMapAttr] | None", self.indexing_maps)
        return given or NamedOperation.get_indexing_maps(self)

    def _state_maps(self) -> None:
        if self.indexing_maps is None:
            self.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, self.get_default_indexing_maps()))

    def _front(self) -> list[tuple[str, Attribute]]:
        default = ArrayAttr(AffineMapAttr(map) for map in self.get_default_indexing_maps())
        given = self.indexing_maps
        return [] if given is None or given == default else [("indexing_maps", given)]


class ElementwiseOp(NamedStructuredOp, ABC):
    """A named op with one loop per dim of its output."""

    cast = opt_prop_def(TypeFunctionAttr)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        rank = _rank(self.outputs[0].type)
        scalar = AffineMap(rank, 0, ())
        return tuple(
            AffineMap.identity(rank) if isinstance(value.type, TensorType | MemRefType) else scalar
            for value in self.operands
        )


def _rank(type: Attribute) -> int:
    return len(cast("ShapedType", type).get_shape())


@irdl_op_definition
class ContractOp(MappedOp):
    """Products of two operands added up, over any dims."""

    name = "linalg.contract"
    BODY: ClassVar[str] = "multiply_add"

    indexing_maps = prop_def(ArrayAttr)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return ()


@irdl_op_definition
class ElementwiseKindOp(MappedOp):
    """`linalg.elementwise`: the op that `kind` names, on operands that may be broadcast or transposed."""

    name = "linalg.elementwise"
    BODY: ClassVar[str] = ""

    kind = prop_def(ElementwiseKindAttr)

    @classmethod
    def _body(cls, properties: Mapping[str, Attribute]) -> str:
        kind = properties.get("kind")
        if not isinstance(kind, ElementwiseKindAttr):
            raise LayoutError("kind = #linalg.elementwise_kind<...> is missing")
        return kind.data

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return (AffineMap.identity(_rank(self.outputs[0].type)),) * len(self.operands)

    def _front(self) -> list[tuple[str, Attribute]]:
        return [("kind", self.kind), *super()._front()]


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.removeprefix("linalg.").split("_")) + "Op"


def _define(name: str, base: type[NamedStructuredOp], body: str, **fields: Any) -> type[Operation]:
    """The op class of `name`, which derives from xDSL's where it has one."""
    own = _XDSL.get(name)
    bases = (base,) if own is None else (base, own)
    annotations = {"BODY": ClassVar[str]} | ({"ROW": ClassVar[Row]} if "ROW" in fields else {})
    # A class of xDSL that is finished has accessors in place of its fields: they are stated again.
    inherited: dict[str, Any] = {
        "inputs": var_operand_def(),
        "outputs": var_operand_def(ShapedType),
        "res": var_result_def(TensorType),
        "body": region_def("single_block"),
    }
    if issubclass(base, MappedOp):
        inherited["indexing_maps"] = opt_prop_def(ArrayAttr)
    if issubclass(base, MappedOp | ElementwiseOp):
        inherited["cast"] = opt_prop_def(TypeFunctionAttr)
    content = {
        "__doc__": f"`{name}`",
        "__module__": __name__,
        "__annotations__": annotations,
        "name": name,
        "BODY": body,
        **inherited,
        **fields,
    }
    return irdl_op_definition(type(_class_name(name), bases, content))


def _row_class(row: Row) -> type[Operation]:
    fields: dict[str, Any] = {"ROW": row}
    if row.windows:
        fields |= {name: opt_prop_def(DenseIntElementsAttr) for name in ("strides", "dilations")}
    return _define(row.name, _MappedRowOp if row.mapped else RowOp, row.body, **fields)


class _MappedRowOp(MappedOp, RowOp, ABC):
    """A matrix product: the dims of its row, or those of `indexing_maps`."""


NAMED_OPS: tuple[type[Operation], ...] = (
    *map(_row_class, ROWS),
    *(_define(f"linalg.{name}", ElementwiseOp, name) for name in ELEMENTWISE),
    ContractOp,
    ElementwiseKindOp,
)
"""The classes of all named ops."""
