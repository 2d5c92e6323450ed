"""View ops: no element moves, and the Format of the result follows from that of the operand.

The algebra computes that Format, and the verifier accepts no other. While one side is `any`, or where neither side
carries an encoding, only the shapes are checked: a program without encodings says what is computed, not where it lies.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
)

from layout_ir.algebra.layout import Layout
from layout_ir.dialects.layout.attributes import AnyAttr
from layout_ir.dialects.layout.layout_op import LayoutDialectOp
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import (
    Encoding,
    layout_of,
    tensor_type,
    with_format,
)
from layout_ir.errors import LayoutError, shape_text


class ViewOp(LayoutDialectOp):
    """An op whose result is the buffer of the operand under another logical index."""

    @abstractmethod
    def result_shape(self) -> tuple[int, ...]:
        """The logical shape of the result. Raises LayoutError where the attributes do not fit the operand."""

    @abstractmethod
    def view(self, layout: Layout) -> Layout:
        """The layout of the result for an operand in `layout`. Raises LayoutError where there is none."""

    @abstractmethod
    def unview(self, layout: Layout) -> Layout:
        """The layout the operand must have for the result to be in `layout`. Raises LayoutError where there is none."""

    def check(self) -> None:
        """Raises LayoutError where the result has another element type or shape than the view makes, or a format that
        is not the same map."""
        self.same_element()
        shape = self.result_shape()
        if shape != self.result_type.get_shape():
            raise LayoutError(
                f"{self.name} of {shape_text(self.source_type.get_shape())} has shape {shape_text(shape)}, "
                f"the result is declared {shape_text(self.result_type.get_shape())}"
            )
        if self.is_open or self.is_bare:
            return
        source, result = layout_of(self.source_type), layout_of(self.result_type)
        view = self.view(source)
        # The buffer is that of the operand, which may go on behind what is seen of it.
        reason = cast_obstacle(replace(view, size=source.extent), result)
        if reason is not None and view.same_map(result):
            raise LayoutError(f"{self.name} of a tensor in {source.format}: {reason}")
        if reason is not None:
            raise LayoutError(
                f"{self.name} of a tensor in {source.format} is in {view.format}, the result is declared "
                f"{result.format}: insert a layout.reorder"
            )


def _ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


@irdl_op_definition
class PermuteOp(ViewOp):
    """Dim k of the result is dim perm[k] of the operand (ONNX Transpose, numpy.transpose)."""

    name = "layout.permute"
    FIELDS: ClassVar[tuple[str, ...]] = ("perm",)
    perm = prop_def(DenseArrayBase)

    def __init__(self, input: SSAValue | Operation, perm: Sequence[int], encoding: Encoding | None = None):
        value = SSAValue.get(input)
        source = tensor_type(value.type)
        shape = source.get_shape()
        element = source.element_type
        result = with_format(
            TensorType(element, [shape[d] for d in perm]), AnyAttr() if encoding is None else encoding
        )
        super().__init__(operands=[value], result_types=[result], properties={"perm": _ints(perm)})

    def result_shape(self) -> tuple[int, ...]:
        perm, shape = self.ints("perm"), self.source_type.get_shape()
        if sorted(perm) != list(range(len(shape))):
            raise LayoutError(
                f"perm = {list(perm)} is not a permutation of the {len(shape)} dims of {shape_text(shape)}"
            )
        return tuple(shape[d] for d in perm)

    def view(self, layout: Layout) -> Layout:
        """`layout` with its dims in the order `perm`; every layout has one."""
        return layout.permute(self.ints("perm"))

    def unview(self, layout: Layout) -> Layout:
        """`layout` with its dims in the inverse order of `perm`."""
        perm = self.ints("perm")
        return layout.permute([perm.index(d) for d in range(len(perm))])


@irdl_op_definition
class ReshapeOp(ViewOp):
    """The elements in row-major order of the logical index under another shape (ONNX Reshape, Flatten, Squeeze)."""

    name = "layout.reshape"

    def __init__(self, input: SSAValue | Operation, shape: Sequence[int], encoding: Encoding | None = None):
        value = SSAValue.get(input)
        element = tensor_type(value.type).element_type
        result = with_format(TensorType(element, list(shape)), AnyAttr() if encoding is None else encoding)
        super().__init__(operands=[value], result_types=[result])

    def result_shape(self) -> tuple[int, ...]:
        old, new = self.source_type.get_shape(), self.result_type.get_shape()
        if prod(old) != prod(new):
            raise LayoutError(
                f"cannot reshape {shape_text(old)} into {shape_text(new)}: {prod(old)} != {prod(new)} elements"
            )
        return new

    def view(self, layout: Layout) -> Layout:
        """`layout` under the shape of the result. Raises LayoutError where pads or blocks are in the way."""
        return layout.reshape(self.result_type.get_shape())

    def unview(self, layout: Layout) -> Layout:
        """`layout` under the shape of the operand, whose buffer has its pads. Raises LayoutError where they or blocks
        are in the way."""
        return layout.reshape(self.source_type.get_shape(), keep_pads=True)


@irdl_op_definition
class SliceOp(ViewOp):
    """The box [starts, starts + sizes) of the operand, in its buffer."""

    name = "layout.slice"
    FIELDS: ClassVar[tuple[str, ...]] = ("starts", "sizes")
    starts = prop_def(DenseArrayBase)
    sizes = prop_def(DenseArrayBase)

    def __init__(
        self,
        input: SSAValue | Operation,
        starts: Sequence[int],
        sizes: Sequence[int],
        encoding: Encoding | None = None,
    ):
        value = SSAValue.get(input)
        element = tensor_type(value.type).element_type
        result = with_format(TensorType(element, list(sizes)), AnyAttr() if encoding is None else encoding)
        properties = {"starts": _ints(starts), "sizes": _ints(sizes)}
        super().__init__(operands=[value], result_types=[result], properties=properties)

    def result_shape(self) -> tuple[int, ...]:
        starts, sizes, shape = self.ints("starts"), self.ints("sizes"), self.source_type.get_shape()
        if not len(starts) == len(sizes) == len(shape):
            raise LayoutError(
                f"rank mismatch between starts = {list(starts)}, sizes = {list(sizes)} "
                f"and operand shape {shape_text(shape)}"
            )
        for dim, (start, size, extent) in enumerate(zip(starts, sizes, shape, strict=True)):
            if start < 0 or size < 0 or start + size > extent:
                raise LayoutError(f"slice [{start}, {start + size}) leaves dim {dim} of extent {extent}")
        return sizes

    def view(self, layout: Layout) -> Layout:
        """The layout of the box at `starts` with extents `sizes`, in the buffer of the whole."""
        return layout.slice(self.ints("starts"), self.ints("sizes"))

    def unview(self, layout: Layout) -> Layout:
        """Raises LayoutError: many layouts of the whole have a slice in `layout`."""
        raise LayoutError("the layout of a slice does not determine that of the whole")
