"""The walk over a physical program: each op of `nn` and `layout` becomes ops of linalg, tensor and arith.

Ops of other dialects stay as they are, and functions and regions keep their shape. Integers lose the sign in their
type, which arith and linalg do not know: a ui8 is an i8, and the ops on it are unsigned ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    NoneAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import FillOp, GenericOp, TransposeOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.diagnostics import LocatedError, name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.kernel.ops import KernelDialect
from layout_ir.dialects.layout import (
    LayoutDialect,
    PermuteOp,
    ReorderOp,
    ReshapeOp,
    element_type_of,
    is_tensor,
)
from layout_ir.dialects.layout.view_ops import SliceOp
from layout_ir.errors import LayoutError
from layout_ir.exits.linalg import elementwise_forms, move_forms, reduction_forms, window_forms
from layout_ir.exits.linalg.linalg_builder import LinalgBuilder, TensorValue, splat_number
from layout_ir.exits.linalg.reorder_calls import REORDER
from layout_ir.exits.linalg.scalar_body import signless

Form = Callable[[LinalgBuilder, Any, list[TensorValue]], TensorValue]
"""Makes what stands for an op, in front of it."""

FORMS: dict[type[Operation], Form] = {
    **{op: elementwise_forms.write_elementwise for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp)},
    nn.ExpandOp: elementwise_forms.write_expand,
    nn.WhereOp: elementwise_forms.write_where,
    nn.DivOp: elementwise_forms.write_division,
    nn.PowOp: elementwise_forms.write_power,
    nn.CastOp: elementwise_forms.write_cast,
    ReorderOp: elementwise_forms.write_conversion,
    **{op: reduction_forms.write_reduction for op in nn.NN.operations if issubclass(op, nn.ReduceOp)},
    nn.GlobalAvgPoolOp: reduction_forms.write_global_pool,
    nn.GlobalMaxPoolOp: reduction_forms.write_global_pool,
    nn.SoftmaxOp: reduction_forms.write_softmax,
    nn.LogSoftmaxOp: reduction_forms.write_softmax,
    nn.BatchNormOp: reduction_forms.write_batch_norm,
    nn.LayerNormOp: reduction_forms.write_axes_norm,
    nn.RmsNormOp: reduction_forms.write_axes_norm,
    nn.GroupNormOp: reduction_forms.write_group_norm,
    nn.LrnOp: reduction_forms.write_lrn,
    nn.CumSumOp: reduction_forms.write_cum_sum,
    nn.ArgMaxOp: reduction_forms.write_arg_reduction,
    nn.ArgMinOp: reduction_forms.write_arg_reduction,
    nn.ConvOp: window_forms.write_conv,
    nn.ConvTransposeOp: window_forms.write_conv_transpose,
    nn.MaxPoolOp: window_forms.write_pool,
    nn.AvgPoolOp: window_forms.write_pool,
    nn.MatmulOp: window_forms.write_matmul,
    nn.GemmOp: window_forms.write_gemm,
    nn.ConcatOp: move_forms.write_concat,
    nn.GatherOp: move_forms.write_gather,
    nn.PadOp: move_forms.write_pad,
    nn.ResizeOp: move_forms.write_resize,
    nn.SliceOp: move_forms.write_slice,
    nn.TileOp: move_forms.write_tile,
    PermuteOp: move_forms.write_permute,
    ReshapeOp: move_forms.write_reshape,
    SliceOp: move_forms.write_slice,
}  # fmt: skip
"""Every op of `nn` but constants and opaque ops, and what a physical program has of `layout`."""


def write_program(module: ModuleOp) -> None:
    """Replaces the ops in place.

    Raises LocatedError, naming the op, where one has no form in linalg, and where a tensor still has an encoding, which
    bufferization would drop.
    """
    writer = _Writer(module)
    for op in list(module.walk()):
        writer.write(op)
    writer.finish()
    _update_signatures(module)
    _drop_attributes(module)
    check_plain(module)


def check_plain(module: ModuleOp) -> None:
    """Raises LocatedError, naming the op, where one is of our dialects or a tensor has an encoding.

    Stock bufferization drops an encoding without a word, and what is computed then is something else.
    """
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        types = [value.type for value in (*op.results, *(arg for block in blocks for arg in block.args))]
        if isinstance(op, FuncOp):
            types += [*op.function_type.inputs, *op.function_type.outputs]
        for type in types:
            if is_tensor(type) and not isinstance(type.encoding, NoneAttr):
                raise LocatedError(
                    f"{name_of_op(op)} has a value of type {type}, whose encoding bufferization would drop",
                    op,
                )
        if op.name.split(".")[0] in _OURS:
            raise LocatedError(f"{name_of_op(op)} has no form in linalg", op)


_OURS = {dialect.name for dialect in (nn.NN, LayoutDialect, KernelDialect)}


def _drop_attributes(module: ModuleOp) -> None:
    """Drops what our dialects say of ops, functions and arguments beside what they compute (names, models, options)."""
    for op in module.walk():
        for name in list(op.attributes):
            # What a declared reorder does is said until it takes buffers (`reorder_calls`).
            if name.split(".")[0] in _SAID and name != REORDER:
                del op.attributes[name]
        if isinstance(op, FuncOp):
            for side in ("arg_attrs", "res_attrs"):
                held = op.properties.get(side)
                if isinstance(held, ArrayAttr):
                    kept = [
                        _without_ours(cast(DictionaryAttr, each))
                        for each in cast("ArrayAttr[Attribute]", held)
                    ]
                    op.properties[side] = ArrayAttr(kept)
                    if not any(each.data for each in kept):
                        del op.properties[side]


def _without_ours(attributes: DictionaryAttr) -> DictionaryAttr:
    return DictionaryAttr({k: v for k, v in attributes.data.items() if k.split(".")[0] not in _SAID})


_SAID = {*_OURS, "onnx"}
"""Prefixes of attributes that stock tools do not know."""


def _signless_type(type: Attribute) -> Attribute:
    if not is_tensor(type):
        return type
    element = signless(type.element_type)
    return type if element == type.element_type else TensorType(element, type.get_shape(), type.encoding)


class _Writer:
    """One run. The ops that are replaced stay until the end, on their own operands, so that each can be asked for its
    shapes and attributes."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.values: dict[SSAValue, TensorValue] = {}
        self.replaced: list[Operation] = []

    def write(self, op: Operation) -> None:
        """Makes what stands for `op`, or gives it the operands that there are now."""
        if isinstance(op, nn.ConstantOp):
            made = _constant(op)
        elif isinstance(op, nn.NNOp | ReorderOp | PermuteOp | ReshapeOp | SliceOp):
            form = FORMS.get(type(op))
            if form is None:
                raise LocatedError(f"{name_of_op(op)} has no form in linalg", op)
            try:
                made = form(LinalgBuilder(op), op, [self._now(x) for x in op.operands])
            except LayoutError as error:
                raise LocatedError(f"{name_of_op(op)} has no form in linalg: {error}", op) from error
        else:
            self._keep(op)
            return
        made.value.name_hint = made.value.name_hint or op.results[0].name_hint
        self.values[op.results[0]] = made
        self.replaced.append(op)

    def _now(self, value: SSAValue) -> TensorValue:
        if value not in self.values:
            type = cast("TensorType[Attribute]", value.type)
            known = element_type_of(type.element_type)
            if known is None or any(extent < 0 for extent in type.get_shape()):
                raise LayoutError(f"{type} is none of its operands")
            self.values[value] = TensorValue(value, known.name)
        return self.values[value]

    def _keep(self, op: Operation) -> None:
        op.operands = [self.values[x].value if x in self.values else x for x in op.operands]
        if isinstance(op, GenericOp):
            self._start_from_fill(op)
        if isinstance(op, tensor.InsertSliceOp):
            self._fill_slice(op)
        blocks = [block for region in op.regions for block in region.blocks]
        for value in [*op.results, *(arg for block in blocks for arg in block.args)]:
            type = _signless_type(value.type)
            if type == value.type:
                continue
            # Who is still to be written asks for the type that the value had.
            old, hint = value.type, value.name_hint
            dtype = cast(Any, element_type_of(cast("TensorType[Attribute]", old).element_type)).name
            new = Rewriter.replace_value_with_new_type(value, type)
            new.name_hint = hint
            back = UnrealizedConversionCastOp(operands=[[new]], result_types=[[old]])
            new.replace_uses_with_if(back.results[0], lambda use, back=back: use.operation is not back)
            point = (
                InsertPoint.at_start(new.owner)
                if isinstance(new.owner, Block)
                else InsertPoint.after(new.owner)
            )
            Rewriter.insert_op(back, point)
            self.values[back.results[0]] = TensorValue(new, dtype)
            self.replaced.append(back)

    def _start_from_fill(self, op: GenericOp) -> None:
        """Lets the op start from linalg.fill where it starts from a constant of one number, which stays in memory; and
        from an empty tensor where it reads no element of a constant, which says the extents of loops alone."""
        build, first = LinalgBuilder(op), len(op.inputs)
        for number, value in enumerate(op.operands):
            if not isinstance(value.owner, arith.ConstantOp) or not is_tensor(value.type):
                continue
            x = self._now(value)
            start = splat_number(x)
            if number >= first and start is not None:
                op.operands[number] = build.filled(x.shape, x.dtype, start).value
            elif number < first and not op.body.block.args[number].uses:
                op.operands[number] = build.empty(x.shape, x.dtype).value

    def _fill_slice(self, op: tensor.InsertSliceOp) -> None:
        """Lets the op insert what linalg.fill makes of that slice where it inserts a constant of one number: nothing
        but the slice is written then."""
        if not isinstance(op.source.owner, arith.ConstantOp | nn.ConstantOp) or not _is_plain(op):
            return
        x = self._now(op.source)
        number = splat_number(x)
        if number is None:
            return
        build = LinalgBuilder(op)
        part = build.sliced(self._now(op.dest), op.static_offsets.get_values(), x.shape)
        fill = FillOp([build.scalar(number, x.dtype)], [part.value], [part.value.type])
        op.operands[0] = build.insert(fill)

    def finish(self) -> None:
        """Erases what was replaced, and what only that read: constants, transpositions, tensors to be written to."""
        for op in reversed(self.replaced):
            op.detach()
            op.erase()
        for op in reversed(list(self.module.walk())):
            if isinstance(op, arith.ConstantOp | tensor.EmptyOp | FillOp | TransposeOp) and not any(
                result.uses for result in op.results
            ):
                op.detach()
                op.erase()


def _is_plain(op: tensor.InsertSliceOp) -> bool:
    """Whether the slice is of a static place, without steps, and keeps its dims."""
    source, target = (cast("TensorType[Attribute]", x.type).get_shape() for x in (op.source, op.dest))
    return (
        DYNAMIC_INDEX not in (*target, *op.static_offsets.get_values())
        and tuple(op.static_sizes.get_values()) == source
        and all(step == 1 for step in op.static_strides.get_values())
    )


def _constant(op: nn.ConstantOp) -> TensorValue:
    """The constant, one number for all where it was one."""
    if isinstance(op.value, DenseResourceAttr):
        raise LocatedError(
            f"the values of {name_of_op(op)} were left out when it was printed: {op.value}", op
        )
    type = cast("TensorType[Attribute]", _signless_type(op.value.get_type()))
    value = DenseIntOrFPElementsAttr(cast(Any, type), op.literal.data)
    element = cast(Any, element_type_of(op.infer_element())).name
    return TensorValue(LinalgBuilder(op).insert(arith.ConstantOp(value, type)), element)


def _update_signatures(module: ModuleOp) -> None:
    for op in module.walk():
        if not isinstance(op, FuncOp):
            continue
        inputs, outputs = op.function_type.inputs.data, op.function_type.outputs.data
        ends = [block.last_op for block in op.body.blocks]
        returned = next((end.operand_types for end in ends if isinstance(end, ReturnOp)), outputs)
        if op.body.blocks:
            inputs = [arg.type for arg in op.args]
        op.function_type = FunctionType.from_lists(
            [_signless_type(t) for t in inputs], [_signless_type(t) for t in returned]
        )
