"""Reference semantics of ops of arith, linalg, math, tensor and tosa on tensors.

Structured ops are evaluated by their scalar body (`structured_evaluation.py`). Ops that move elements write 0 into the
pads of the result, as those of `nn` do; reshapes are views; ops that make a tensor write the pads that its type states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor, tosa
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerType
from xdsl.dialects.linalg import Linalg
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.backends.reference import structured_evaluation
from layout_ir.backends.reference.semantics import layout_at_run_time, stored_result
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import dtype_of, is_any, is_tensor, layout_of
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.upstream import added_ops
from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp, UnPackOp
from layout_ir.dialects.upstream.tensor_ops import GatherOp, GenerateOp, ParallelInsertSliceOp, ScatterOp
from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS
from layout_ir.dialects.upstream.wider_ops import WiderExpandShapeOp, WiderPadOp, WiderReshapeOp
from layout_ir.elements.numpy_types import Array, computed, narrow, poison, storage, stored_number
from layout_ir.errors import LayoutError, shape_text
from layout_ir.foreign import movement
from layout_ir.foreign.scalar import Trap, apply, compute_dtype, constant, evaluate
from layout_ir.foreign.structured import ELEMENTWISE
from layout_ir.foreign.structured import structured as loops_of

Run = Callable[[Any, Sequence[Any]], Any]
"""(op, operands) -> its one result."""


def _made(op: Operation, elements: Array) -> Tensor:
    """The result of `op` from its stored elements, broadcast to its shape; pads hold what its type states."""
    type = op.results[0].type
    layout = layout_at_run_time(type)
    return Tensor.store(np.broadcast_to(elements, layout.shape), layout, dtype_of(type))


def _constant(op: arith.ConstantOp | tosa.ConstOp, operands: Sequence[Any]) -> Any:
    if not is_tensor(op.results[0].type):
        value = constant(cast("arith.ConstantOp", op))
        return value if value.dtype.kind == "f" else int(value)
    literal = op.value if isinstance(op, arith.ConstantOp) else op.values
    if not isinstance(literal, DenseIntOrFPElementsAttr):
        raise LayoutError(
            f"{literal} has no values here: they were left out when it was printed, or are in a resource of the file, "
            "which is not read: write them as dense<...>"
        )
    kind = compute_dtype(literal.get_element_type())
    values = np.array(literal.get_values(), kind)
    shape = () if values.size and literal.is_splat() else tuple(literal.get_shape())
    dtype = dtype_of(op.results[0].type)
    values = (values[:1] if not shape else values).reshape(shape)
    return _made(op, narrow(values.astype(computed(dtype), copy=False), dtype))


def _empty(op: tensor.EmptyOp, operands: Sequence[Any]) -> Tensor:
    dtype = dtype_of(op.tensor.type)
    return _made(op, np.full((), poison(dtype), storage(dtype)))


def _splat(op: tensor.SplatOp, operands: Sequence[Any]) -> Tensor:
    return _made(op, np.asarray(stored_number(operands[0], dtype_of(op.results[0].type))))


def _reshape(op: Operation, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[0]
    source, result = op.operands[0].type, op.results[0].type
    target = layout_at_run_time(result)
    if is_any(source) or is_any(result):
        return _made(op, x.logical().reshape(target.shape))
    try:
        view = layout_of(source).reshape(target.shape)
        reason = cast_obstacle(view, target)
    except LayoutError as error:
        reason = str(error)
    if reason is not None:
        raise LayoutError(f"a reshape moves nothing, but {reason}")
    return Tensor(x.buffer, target, x.dtype)


def _indices(static: DenseArrayBase[IntegerType], dynamic: Sequence[Any]) -> list[int]:
    given = iter(dynamic)
    return [int(next(given)) if value == DYNAMIC_INDEX else value for value in static.get_values()]


def _where(
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp | ParallelInsertSliceOp,
    operands: Sequence[Any],
    first: int,
) -> tuple[Array, ...]:
    """The box that an op of slices names, as indices of the last of the `first` operands, which are
    tensors. Raises LayoutError where it reaches beyond that tensor."""
    counts = (len(op.offsets), len(op.sizes), len(op.strides))
    ends = [first + sum(counts[:k]) for k in range(4)]
    offsets, sizes, strides = (
        _indices(static, operands[start:end])
        for static, start, end in zip(
            (op.static_offsets, op.static_sizes, op.static_strides), ends, ends[1:], strict=False
        )
    )
    box = [
        offset + stride * np.arange(size)
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    ]
    for dim, (indices, extent) in enumerate(zip(box, operands[first - 1].shape, strict=True)):
        outside = indices[(indices < 0) | (indices >= extent)]
        if outside.size:
            raise LayoutError(f"the slice reaches index {outside[0]} of dim {dim}, whose extent is {extent}")
    return np.ix_(*box)


def _extract_slice(op: tensor.ExtractSliceOp, operands: Sequence[Any]) -> Tensor:
    elements = operands[0].logical()[_where(op, operands, 1)]
    return stored_result(op, elements.reshape(layout_at_run_time(op.result.type).shape))


def _insert_slice(op: tensor.InsertSliceOp, operands: Sequence[Any]) -> Tensor:
    elements = np.array(operands[1].logical())
    write_slice(op, operands, elements)
    return stored_result(op, elements)


def write_slice(
    op: tensor.InsertSliceOp | ParallelInsertSliceOp, operands: Sequence[Any], elements: Array
) -> None:
    """Writes the first operand of `op` over the box of `elements` that the others name."""
    where = _where(op, operands, 2)
    elements[where] = operands[0].logical().reshape(elements[where].shape)


def _coordinates(x: Tensor, indices: Tensor, dims: Sequence[int]) -> tuple[Array, ...]:
    """The index along each of `dims` of `x` of every slice that gather and scatter name. Raises LayoutError where `x`
    has no such index."""
    places = indices.logical().astype(np.int64)
    for number, dim in enumerate(dims):
        outside = (places[..., number] < 0) | (places[..., number] >= x.shape[dim])
        if outside.any():
            index = int(places[..., number][outside][0])
            raise LayoutError(f"there is no index {index} of dim {dim}, whose extent is {x.shape[dim]}")
    return tuple(places[..., number] for number in range(len(dims)))


def _gather(op: GatherOp, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[0]
    dims = [int(dim) for dim in op.gather_dims.get_values()]
    where = _coordinates(x, operands[1], dims)
    slices = np.moveaxis(x.logical(), dims, range(len(dims)))[where]
    return stored_result(op, slices.reshape(layout_at_run_time(op.result.type).shape))


def _scatter(op: ScatterOp, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[1]
    dims = [int(dim) for dim in op.scatter_dims.get_values()]
    where = _coordinates(x, operands[2], dims)
    elements = np.array(x.logical())
    slices = np.moveaxis(elements, dims, range(len(dims)))  # a view
    slices[where] = operands[0].logical().reshape(slices[where].shape)
    return stored_result(op, elements)


def _generate(op: GenerateOp, operands: Sequence[Any], outside: Callable[[SSAValue], Any]) -> Tensor:
    return stored_result(op, _elements(op.results[0], op.body.block, outside))


def _elements(result: SSAValue, body: Block, outside: Callable[[SSAValue], Any]) -> Array:
    """What a body yields at each index of a tensor, as it is stored; it is run once, on all indices."""
    type = tensor_type(result.type)
    dtype, shape = dtype_of(type), layout_at_run_time(type).shape
    indices = [
        np.arange(extent).reshape([-1 if k == dim else 1 for k in range(len(shape))])
        for dim, extent in enumerate(shape)
    ]
    try:
        (value,) = evaluate(
            body, indices, outer=lambda each: structured_evaluation.value_outside(each, outside(each))
        )
    except Trap as error:
        raise LayoutError(f"ends the program: {error}") from error
    elements = np.broadcast_to(np.asarray(value), shape).astype(computed(dtype), copy=False)
    return narrow(elements, dtype)


def _pad(op: tensor.PadOp, operands: Sequence[Any], outside: Callable[[SSAValue], Any]) -> Tensor:
    x: Tensor = operands[0]
    middle = 1 + len(op.low)
    low, high = _indices(op.static_low, operands[1:middle]), _indices(op.static_high, operands[middle:])
    if min((*low, *high), default=0) < 0:
        raise LayoutError(f"pads of {low} in front and {high} behind: fewer than none have no meaning")
    elements = np.array(_elements(op.results[0], op.region.block, outside))
    elements[tuple(slice(begin, begin + extent) for begin, extent in zip(low, x.shape, strict=True))] = (
        x.logical()
    )
    return stored_result(op, elements)


def _padded(elements: Array, low: Sequence[int], high: Sequence[int], number: Any) -> Array:
    """np.pad, which refuses arrays without dims."""
    return np.pad(elements, list(zip(low, high, strict=True)), constant_values=number) if low else elements


def _concat(op: tensor.ConcatOp | tosa.ConcatOp, operands: Sequence[Any]) -> Tensor:
    axis = (op.dim if isinstance(op, tensor.ConcatOp) else op.axis).value.data
    return stored_result(op, np.concatenate([x.logical() for x in operands], axis=axis))


def _cast(op: tensor.CastOp, operands: Sequence[Any]) -> Tensor:
    return stored_result(op, operands[0].logical())


def _dim(op: tensor.DimOp, operands: Sequence[Any]) -> int:
    shape, dim = operands[0].shape, int(operands[1])
    if not 0 <= dim < len(shape):
        raise LayoutError(f"there is no dim {dim} of {shape_text(shape)}")
    return shape[dim]


def _extract(op: tensor.ExtractOp, operands: Sequence[Any]) -> Any:
    return operands[0].logical()[_place(operands[0], operands[1:])]


def _place(x: Tensor, indices: Sequence[Any]) -> tuple[int, ...]:
    """The index of an element of `x`. Raises LayoutError where there is none."""
    place = tuple(int(index) for index in indices)
    if not all(0 <= index < extent for index, extent in zip(place, x.shape, strict=True)):
        raise LayoutError(f"there is no element {list(place)} of {shape_text(x.shape)}")
    return place


def _insert(op: tensor.InsertOp, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[1]
    elements = np.array(x.logical())
    elements[_place(x, operands[2:])] = stored_number(operands[0], x.dtype)
    return stored_result(op, elements)


def _from_elements(op: tensor.FromElementsOp, operands: Sequence[Any]) -> Tensor:
    type = op.results[0].type
    dtype = dtype_of(type)
    elements = np.array([stored_number(x, dtype) for x in operands], storage(dtype))
    return _made(op, elements.reshape(layout_at_run_time(type).shape))


def _const_shape(op: Operation, operands: Sequence[Any]) -> tuple[int, ...]:
    return tuple(
        int(cast("int", x)) for x in cast("DenseIntOrFPElementsAttr", op.properties["values"]).get_values()
    )


def _tosa_slice(op: Operation, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[0]
    sizes = layout_at_run_time(op.results[0].type).shape
    ends = [start + size for start, size in zip(operands[1], sizes, strict=True)]
    if any(start < 0 or end > extent for start, end, extent in zip(operands[1], ends, x.shape, strict=True)):
        raise LayoutError(
            f"the slice of {shape_text(sizes)} from {list(operands[1])} leaves {shape_text(x.shape)}"
        )
    return stored_result(op, x.logical()[tuple(map(slice, operands[1], ends))])


def _tosa_pad(op: Operation, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[0]
    if min(operands[1], default=0) < 0:
        raise LayoutError(f"pads of {list(operands[1])}: fewer than none have no meaning")
    number = operands[2].logical().reshape(-1)[0]
    return stored_result(op, _padded(x.logical(), operands[1][::2], operands[1][1::2], number))


def _tosa_tile(op: Operation, operands: Sequence[Any]) -> Tensor:
    return stored_result(op, np.tile(operands[0].logical(), operands[1]))


def _tosa_reverse(op: Operation, operands: Sequence[Any]) -> Tensor:
    return stored_result(op, np.flip(operands[0].logical(), movement.reversed_dim_of(op)))


def _pack(op: PackOp, operands: Sequence[Any]) -> Tensor:
    """In memory that holds partial tiles already, what is in them is the pads of the operand."""
    x: Tensor = operands[0]
    extents = list(x.shape)
    for dim, size in zip(op.tiled_dims, op.tile_sizes, strict=True):
        extents[dim] = -(-extents[dim] // size) * size
    if x.layout.is_padded and tuple(x.layout.padded_shape) == tuple(extents):
        box = x.box()
    elif op.padding_value is None:
        box = x.logical()
    else:
        filling = stored_number(operands[2], x.dtype)
        more = [(0, extent - own) for extent, own in zip(extents, x.shape, strict=True)]
        box = np.pad(x.logical(), more, constant_values=filling)
    return stored_result(op, _in_tiles(op, box))


def _in_tiles(op: RelayoutOp, box: Array) -> Array:
    """The elements of the unpacked tensor, whole tiles, as those of the packed one."""
    sizes = dict(zip(op.tiled_dims, op.tile_sizes, strict=True))
    split = [part for dim, extent in enumerate(box.shape) for part in _split(extent, sizes.get(dim, 1))]
    outer = [2 * dim for dim in op.outer_order]
    inner = [2 * dim + 1 for dim in op.tiled_dims]
    rest = [2 * dim + 1 for dim in range(box.ndim) if dim not in sizes]
    moved = box.reshape(split).transpose(*outer, *inner, *rest)
    return moved.reshape(moved.shape[: len(outer) + len(inner)])


def _split(extent: int, size: int) -> tuple[int, int]:
    return extent // size, size


def _unpack(op: UnPackOp, operands: Sequence[Any]) -> Tensor:
    """Where the result has room for partial tiles, they come along as its pads."""
    x = operands[0].logical()
    type = op.result.type
    layout = layout_at_run_time(type)
    rank, sizes = len(op.outer_order), dict(zip(op.tiled_dims, op.tile_sizes, strict=True))
    order: list[int] = []
    for dim in range(rank):
        order.append(op.outer_order.index(dim))
        if dim in sizes:
            order.append(rank + op.tiled_dims.index(dim))
    whole = [x.shape[op.outer_order.index(dim)] * sizes.get(dim, 1) for dim in range(rank)]
    box = x.transpose(order).reshape(whole)
    if layout.is_padded and tuple(layout.padded_shape) == tuple(whole):
        return Tensor.store_box(np.ascontiguousarray(box), layout, dtype_of(type))
    return stored_result(op, box[tuple(slice(extent) for extent in layout.shape)])


_TENSOR_OPS: dict[type[Operation], Run] = {
    PackOp: _pack,
    UnPackOp: _unpack,
    arith.ConstantOp: _constant,
    tosa.ConstOp: _constant,
    tensor.EmptyOp: _empty,
    tensor.SplatOp: _splat,
    tensor.CollapseShapeOp: _reshape,
    tensor.ExpandShapeOp: _reshape,
    WiderExpandShapeOp: _reshape,
    tensor.ReshapeOp: _reshape,
    tensor.ExtractSliceOp: _extract_slice,
    tensor.InsertSliceOp: _insert_slice,
    WiderReshapeOp: _reshape,
    tensor.ConcatOp: _concat,
    tosa.ConcatOp: _concat,
    tensor.CastOp: _cast,
    TOSA_OPS["tosa.const"]: _constant,
    TOSA_OPS["tosa.const_shape"]: _const_shape,
    TOSA_OPS["tosa.reshape"]: _reshape,
    movement.SLICE: _tosa_slice,
    movement.PAD: _tosa_pad,
    movement.TILE: _tosa_tile,
    movement.REVERSE: _tosa_reverse,
    tensor.DimOp: _dim,
    tensor.ExtractOp: _extract,
    tensor.InsertOp: _insert,
    tensor.FromElementsOp: _from_elements,
    GatherOp: _gather,
    ScatterOp: _scatter,
}


_BODY_OPS: dict[type[Operation], Callable[[Any, Sequence[Any], Callable[[SSAValue], Any]], Tensor]] = {
    GenerateOp: _generate,
    tensor.PadOp: _pad,
    WiderPadOp: _pad,
}
"""Ops with a body that gives elements."""


def run(op: Operation, operands: Sequence[Any], outside: Callable[[SSAValue], Any]) -> tuple[Any, ...]:
    """The results of an op of another dialect; `outside` gives the values that its regions take from around it.

    Raises LayoutError where it has no meaning here.
    """
    with np.errstate(all="ignore"):
        if type(op) in _TENSOR_OPS:
            return (_TENSOR_OPS[type(op)](op, operands),)
        if type(op) in _BODY_OPS:
            return (_BODY_OPS[type(op)](op, operands, outside),)
        if any(isinstance(operand, Tensor) for operand in operands) or _makes_tensor(op):
            s = loops_of(op)
            if s is None:
                raise LayoutError("has no reference semantics")
            return structured_evaluation.run(s, operands, outside)
        value = apply(op, [_scalar(o, v) for o, v in zip(operands, op.operands, strict=True)])
        # xDSL's own functions compute with Python's whole numbers.
        return (value if value.dtype.kind == "f" else value.item(),)


def _makes_tensor(op: Operation) -> bool:
    return any(is_tensor(result.type) for result in op.results)


def _scalar(value: Any, of: SSAValue) -> Any:
    return compute_dtype(of.type).type(value)


class ForeignFunctions(InterpreterFunctions):
    """Implementations of other dialects' ops for an xDSL interpreter."""


_NO_TENSORS = ("tosa.yield", "tosa.while_loop", "tosa.cond_if")

_TYPES = [
    *_TENSOR_OPS,
    *_BODY_OPS,
    *ELEMENTWISE,
    *(op for op in Linalg.operations if op.name not in ("linalg.yield", "linalg.index")),
    *(op for op in tosa.TOSA.operations if op is not tosa.YieldOp and op not in _TENSOR_OPS),
    *(
        op
        for dialect in ("arith", "math", "linalg", "tensor", "tosa")
        for op in added_ops(dialect)
        if op.name not in _NO_TENSORS
    ),
]


def _method(op_type: type[Operation]) -> Any:
    def method(
        self: ForeignFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        return run(op, args, lambda value: interpreter.get_values((value,))[0])

    return impl(op_type)(method)


for _number, _op_type in enumerate(dict.fromkeys(_TYPES)):
    # Numbered: an op of xDSL and the one that is added in its place have one name.
    setattr(ForeignFunctions, f"run_{_number}_{_op_type.name.replace('.', '_')}", _method(_op_type))
register_impls(ForeignFunctions)
