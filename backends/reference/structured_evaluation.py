"""Evaluation of structured ops (linalg, elementwise arith, math, tosa) in NumPy, pads included.

A loop runs over the padded extent of its tensors, as kernels over whole blocks do: parallel loops write what they
compute from pads into the pads of the result, reductions include pads. Where one tensor of a loop has pads and another
has none, the latter reads as poison there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from layout_ir.algebra.layout import Layout
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import dtype_of, is_tensor
from layout_ir.elements.numpy_types import Array, computed, narrow, poison, stored_number, widen
from layout_ir.errors import LayoutError
from layout_ir.foreign.scalar import Trap, evaluate, scalar_of
from layout_ir.foreign.structured import Structured, element, initial_value, is_window, loop_of, shape


def run(s: Structured, operands: Sequence[Any], outside: Callable[[SSAValue], Any]) -> tuple[Tensor, ...]:
    """The results of `s.op` on tensors and scalars; `outside` gives the values that its body takes from around the op.

    Raises LayoutError where the body would end the program.
    """
    results = [layout_at_run_time(value.type) for value in s.op.results]
    loops = _extents(s, [o.layout for o in operands if isinstance(o, Tensor)] + results)
    parallel = [loop for loop in sorted(loops) if loop not in s.reductions]
    reduced = [loop for loop in sorted(loops) if loop in s.reductions]
    for number, (exprs, value) in enumerate(s.results()):
        if any(map(is_window, exprs)):
            raise LayoutError(
                f"result {number} is indexed by {', '.join(map(str, exprs))}: only loops and numbers are"
            )
        if s.init[number] is None and _fixed(exprs, shape(value)):
            raise LayoutError(f"result {number} is written in part, and starts from nothing")
        written = sorted(loop for expr in exprs if (loop := loop_of(expr)) is not None)
        if written != parallel:
            raise LayoutError(
                f"result {number} is indexed by the loops {written}, the parallel ones are {parallel}: iterations "
                "would write the same element in any order"
            )
    index: list[Any] = [0] * (max(loops, default=-1) + 1)
    for place, loop in enumerate(parallel):
        # One axis of the grid per parallel loop.
        index[loop] = np.arange(loops[loop]).reshape([-1 if k == place else 1 for k in range(len(parallel))])
    grid = tuple(loops[loop] for loop in parallel)
    boxes = [_box(s, k, operand, loops) for k, operand in enumerate(operands)]
    state = [_start(s, k, boxes, index, grid) for k in range(len(results))]

    @cache
    def outer(value: SSAValue) -> Any:
        return value_outside(value, outside(value))

    for step in product(*(range(loops[loop]) for loop in reduced)):
        for loop, position in zip(reduced, step, strict=True):
            index[loop] = position
        arguments = [_read(box, exprs, index) for box, exprs in zip(boxes, s.maps, strict=True)]
        for k, operand in enumerate(s.init):
            if operand is not None:
                arguments[operand] = state[k]
        if reduced and s.init[0] is None:
            arguments.append(state[0])
        try:
            if s.block is None:
                state = s.body(arguments, index)
            else:
                state = evaluate(s.block, arguments, index=index, outer=outer)
        except Trap as error:
            raise LayoutError(f"ends the program: {error}") from error
    starts = [None if operand is None else boxes[operand] for operand in s.init]
    return tuple(
        _stored(value, exprs, np.broadcast_to(array, grid), layout, parallel, start)
        for (exprs, value), array, layout, start in zip(s.results(), state, results, starts, strict=True)
    )


def _extents(s: Structured, layouts: Sequence[Layout]) -> dict[int, int]:
    """The extent of each loop: the largest padded one of its tensors, the logical one where it is part of a window."""
    windows = {
        loop for exprs, _ in s.tensors for expr in exprs if is_window(expr) for loop in expr.used_dims()
    }
    extents = dict(s.extents)
    for (exprs, _), layout in zip(s.tensors, layouts, strict=True):
        for dim, expr in enumerate(exprs):
            loop = loop_of(expr)
            if loop is not None and loop not in windows and not layout.lo[dim]:
                extents[loop] = max(extents[loop], layout.padded_shape[dim])
    return extents


def _box(s: Structured, k: int, operand: Any, loops: dict[int, int]) -> Any:
    """Operand k with the extents of its loops, in the type it is computed in; a scalar as a number."""
    value = s.op.operands[k]
    if not isinstance(operand, Tensor):
        return scalar_of(operand, value.type)
    box = operand.box() if not any(operand.layout.lo) else operand.logical()
    for dim, expr in enumerate(s.maps[k]):
        loop = loop_of(expr)
        missing = 0 if loop is None else loops[loop] - box.shape[dim]
        if missing > 0:
            widths = [(0, missing) if d == dim else (0, 0) for d in range(box.ndim)]
            box = np.pad(box, widths, constant_values=poison(operand.dtype))
    return widen(box, operand.dtype)


def value_outside(value: SSAValue, given: Any) -> Any:
    """A value from outside of the body, in the type it is computed in: a tensor by logical index, or a number."""
    return widen(given.logical(), given.dtype) if isinstance(given, Tensor) else scalar_of(given, value.type)


def _read(box: Any, exprs: Sequence[AffineExpr], index: Sequence[Any]) -> Any:
    if not exprs:
        return box
    return box[tuple(np.asarray(expr.eval(index, ())) for expr in exprs)]


def _start(s: Structured, k: int, boxes: Sequence[Any], index: Sequence[Any], grid: tuple[int, ...]) -> Any:
    """Result k before the first step of its reductions; None where the first step sets it."""
    operand = s.init[k]
    if operand is not None:
        return np.broadcast_to(_read(boxes[operand], s.maps[operand], index), grid)
    start = initial_value(s.op)
    if start is None or not s.reductions:
        return None
    kind = element(s.op.results[k])
    value = scalar_of(start, kind)
    if value is None:
        limits = np.iinfo(scalar_of(0, kind).dtype)
        value = scalar_of(limits.min if start < 0 else limits.max, kind)
    return np.broadcast_to(value, grid)


def _fixed(exprs: Sequence[AffineExpr], extents: Sequence[int]) -> dict[int, int]:
    """The dims of a result of which one place is written, and those places."""
    return {
        dim: expr.value
        for dim, (expr, extent) in enumerate(zip(exprs, extents, strict=True))
        if isinstance(expr, AffineConstantExpr) and extent != 1
    }


def _stored(
    value: SSAValue,
    exprs: Sequence[AffineExpr],
    array: Array,
    layout: Layout,
    parallel: Sequence[int],
    start: Any,
) -> Tensor:
    """`array`, which has one axis per parallel loop, as the tensor `value` with dims `exprs`; what it does not reach
    stays as it is in `start`."""
    assert is_tensor(value.type)
    dtype = dtype_of(value.type)
    order = [parallel.index(loop) for expr in exprs if (loop := loop_of(expr)) is not None]
    box = np.transpose(array, order).astype(computed(dtype), copy=False)
    for dim, expr in enumerate(exprs):
        if loop_of(expr) is None:
            box = np.expand_dims(box, dim)
    fixed = _fixed(exprs, layout.shape)
    if fixed:
        places = tuple(slice(fixed[d], fixed[d] + 1) if d in fixed else slice(None) for d in range(box.ndim))
        written, box = box, np.array(start)
        box[places] = written
    if any(layout.lo):
        inside = tuple(slice(0, extent) for extent in layout.shape)
        return Tensor.store(narrow(box[inside], dtype), layout, dtype)
    if box.shape != layout.padded_shape:
        # Pads that no loop runs over hold 0.
        whole = np.full(layout.padded_shape, stored_number(0, dtype))
        covered = tuple(slice(0, min(a, b)) for a, b in zip(box.shape, layout.padded_shape, strict=True))
        whole[covered] = narrow(box, dtype)[covered]
        return Tensor.store_box(whole, layout, dtype)
    return Tensor.store_box(narrow(box, dtype), layout, dtype)
