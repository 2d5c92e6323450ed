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
from xdsl.ir import Operation, SSAValue

from layout_ir.backends.reference import structured_evaluation
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import dtype_of, is_any, is_tensor, layout_of
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.elements.numpy_types import Array, poison, storage, stored_number
from layout_ir.errors import LayoutError
from layout_ir.foreign.scalar import apply, compute_dtype, constant, evaluate
from layout_ir.foreign.structured import ELEMENTWISE
from layout_ir.foreign.structured import structured as loops_of

Run = Callable[[Any, Sequence[Any]], Any]
"""(op, operands) -> its one result."""


def _moved(op: Operation, elements: Array) -> Tensor:
    """The result of `op` from its stored elements; pads hold 0."""
    type = op.results[0].type
    dtype = dtype_of(type)
    return Tensor.store(
        np.ascontiguousarray(elements), layout_at_run_time(type), dtype, stored_number(0, dtype)
    )


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
        raise LayoutError("the values of this constant were left out when it was printed")
    kind = compute_dtype(literal.get_element_type())
    values = np.array(literal.get_values(), kind)
    shape = () if literal.is_splat() else tuple(literal.get_shape())
    dtype = dtype_of(op.results[0].type)
    if dtype == "bf16":
        raise LayoutError("constants of bf16 are not supported outside of nn.constant")
    return _made(op, (values[:1] if not shape else values).reshape(shape).astype(storage(dtype)))


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
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp, operands: Sequence[Any], first: int
) -> tuple[slice, ...]:
    """The box that extract_slice and insert_slice name; `first` operands are tensors."""
    counts = (len(op.offsets), len(op.sizes), len(op.strides))
    ends = [first + sum(counts[:k]) for k in range(4)]
    offsets, sizes, strides = (
        _indices(static, operands[start:end])
        for static, start, end in zip(
            (op.static_offsets, op.static_sizes, op.static_strides), ends, ends[1:], strict=False
        )
    )
    return tuple(
        slice(offset, offset + (size - 1) * stride + 1, stride)
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )


def _extract_slice(op: tensor.ExtractSliceOp, operands: Sequence[Any]) -> Tensor:
    elements = operands[0].logical()[_where(op, operands, 1)]
    return _moved(op, elements.reshape(layout_at_run_time(op.result.type).shape))


def _insert_slice(op: tensor.InsertSliceOp, operands: Sequence[Any]) -> Tensor:
    elements = np.array(operands[1].logical())
    where = _where(op, operands, 2)
    elements[where] = operands[0].logical().reshape(elements[where].shape)
    return _moved(op, elements)


def _pad(op: tensor.PadOp, operands: Sequence[Any]) -> Tensor:
    x: Tensor = operands[0]
    middle = 1 + len(op.low)
    low, high = _indices(op.static_low, operands[1:middle]), _indices(op.static_high, operands[middle:])
    (value,) = evaluate(op.region.block, [None] * len(low))
    if value is None:
        raise LayoutError("the value that pads is not a constant")
    filling = stored_number(float(value), x.dtype)
    return _moved(op, np.pad(x.logical(), list(zip(low, high, strict=True)), constant_values=filling))


def _concat(op: tensor.ConcatOp | tosa.ConcatOp, operands: Sequence[Any]) -> Tensor:
    axis = (op.dim if isinstance(op, tensor.ConcatOp) else op.axis).value.data
    return _moved(op, np.concatenate([x.logical() for x in operands], axis=axis))


def _cast(op: tensor.CastOp, operands: Sequence[Any]) -> Tensor:
    return _moved(op, operands[0].logical())


def _dim(op: tensor.DimOp, operands: Sequence[Any]) -> int:
    return operands[0].shape[int(operands[1])]


def _extract(op: tensor.ExtractOp, operands: Sequence[Any]) -> Any:
    return operands[0].logical()[tuple(int(index) for index in operands[1:])]


_TENSOR_OPS: dict[type[Operation], Run] = {
    arith.ConstantOp: _constant,
    tosa.ConstOp: _constant,
    tensor.EmptyOp: _empty,
    tensor.SplatOp: _splat,
    tensor.CollapseShapeOp: _reshape,
    tensor.ExpandShapeOp: _reshape,
    tensor.ReshapeOp: _reshape,
    tensor.ExtractSliceOp: _extract_slice,
    tensor.InsertSliceOp: _insert_slice,
    tensor.PadOp: _pad,
    tensor.ConcatOp: _concat,
    tosa.ConcatOp: _concat,
    tensor.CastOp: _cast,
    tensor.DimOp: _dim,
    tensor.ExtractOp: _extract,
}


def run(op: Operation, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of an op of another dialect. Raises LayoutError where it has no meaning here."""
    with np.errstate(all="ignore"):
        if type(op) in _TENSOR_OPS:
            return (_TENSOR_OPS[type(op)](op, operands),)
        if any(isinstance(operand, Tensor) for operand in operands) or _makes_tensor(op):
            s = loops_of(op)
            if s is None:
                raise LayoutError("has no reference semantics")
            return structured_evaluation.run(s, operands)
        value = apply(op, [_scalar(o, v) for o, v in zip(operands, op.operands, strict=True)])
        # xDSL's own functions compute with Python's whole numbers.
        return (value if value.dtype.kind == "f" else value.item(),)


def _makes_tensor(op: Operation) -> bool:
    return any(is_tensor(result.type) for result in op.results)


def _scalar(value: Any, of: SSAValue) -> Any:
    return compute_dtype(of.type).type(value)


class ForeignFunctions(InterpreterFunctions):
    """Implementations of other dialects' ops for an xDSL interpreter."""


_TYPES = [
    *_TENSOR_OPS,
    *ELEMENTWISE,
    *(op for op in Linalg.operations if op.name not in ("linalg.yield", "linalg.index")),
    *(op for op in tosa.TOSA.operations if op is not tosa.YieldOp and op not in _TENSOR_OPS),
]


def _method(op_type: type[Operation]) -> Any:
    def method(
        self: ForeignFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        return run(op, args)

    return impl(op_type)(method)


for _op_type in dict.fromkeys(_TYPES):
    setattr(ForeignFunctions, f"run_{_op_type.name.replace('.', '_')}", _method(_op_type))
register_impls(ForeignFunctions)
