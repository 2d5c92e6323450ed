"""Reference semantics of ops that others register: a function on NumPy arrays, which knows nothing of layouts.

The function gets the elements of the operands, of their logical shapes, and gives those of the results. The reference
brings them into the layouts of the types: pads of a result hold what its type promises, and poison where it promises
nothing. What an op says that it reads in the pads of its operands must be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from layout_ir.backends.reference.operands import elements
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor, interior
from layout_ir.dialects.layout import dtype_of, is_tensor
from layout_ir.elements.numpy_types import Array, narrow, storage, stored_number
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import ARRAY_SEMANTICS, PAD_BEHAVIOURS, ArraySemantics, LayoutOp, PadRead


def semantics_of(op: Operation) -> ArraySemantics | None:
    """What is registered for `op`; None where nothing is."""
    return ARRAY_SEMANTICS.find(op)


def run_registered(op: Operation, semantics: ArraySemantics, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of `op` by `semantics`. Raises LayoutError where they do not fit the types of its results, or where
    pads do not hold what the op reads there."""
    for k, operand in enumerate(operands):
        if isinstance(operand, Tensor):
            _check_pads(op, k, operand)
    arrays = [elements(operand) if isinstance(operand, Tensor) else operand for operand in operands]
    with np.errstate(all="ignore"):
        given = semantics(op, *arrays)
    results = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
    if len(results) != len(op.results):
        raise LayoutError(f"its semantics give {len(results)} results, the op has {len(op.results)}")
    return tuple(
        _stored(value, result.type, k)
        for k, (value, result) in enumerate(zip(results, op.results, strict=True))
    )


def _stored(value: object, type: Any, number: int) -> Any:
    """`value`, result `number` of an op, in the layout of `type`."""
    if not is_tensor(type):
        return value
    array = np.asarray(value)
    layout, dtype = layout_at_run_time(type), dtype_of(type)
    is_integer = storage(dtype).kind in "iub" and dtype != "bf16"
    if array.shape != layout.shape or array.dtype.kind not in ("iub" if is_integer else "iubf"):
        raise LayoutError(
            f"its semantics give {shape_text(array.shape)} of {array.dtype} for result {number}, which is {type}"
        )
    return Tensor.store(narrow(array, dtype), layout, dtype)


def _reads(op: Operation, number: int) -> tuple[PadRead, ...]:
    """What the op says that it reads in the pads of an operand."""
    if isinstance(op, LayoutOp):
        return op.pad_reads(number)
    behaviour = PAD_BEHAVIOURS.find(op)
    return () if behaviour is None else behaviour.reads(op, number)


def _check_pads(op: Operation, number: int, operand: Tensor) -> None:
    """Raises LayoutError where pads of the operand do not hold what the op says that it reads there."""
    if not operand.layout.is_padded:
        return
    inside = interior(operand.layout)
    for read in _reads(op, number):
        along = list(inside)
        along[read.dim] = slice(None)
        line = np.moveaxis(operand.box()[tuple(along)], read.dim, 0)
        pads = np.ones(line.shape[0], np.bool_)
        pads[inside[read.dim]] = False
        wanted = stored_number(read.neutral, operand.dtype)
        wrong: Array = line[pads][line[pads] != wanted]
        if wrong.size:
            raise LayoutError(
                f"reads {read.neutral:g} in the pads of dim {read.dim} of operand {number}, which hold {wrong.flat[0]}"
            )


def trial(op: Operation) -> None:
    """Runs the registered semantics of `op` once, on random operands without layout.

    Raises LayoutError where the results do not fit the types, and what the semantics raise.
    """
    semantics = semantics_of(op)
    assert semantics is not None
    random = np.random.default_rng(0)
    operands: list[Any] = []
    for value in op.operands:
        if not is_tensor(value.type):
            operands.append(1)
            continue
        dtype = dtype_of(value.type)
        numbers = random.standard_normal(layout_at_run_time(value.type).shape)
        if storage(dtype).kind in "iub" and dtype != "bf16":
            numbers = np.abs(numbers).round() if dtype != "i1" else numbers > 0
        operands.append(
            Tensor.store(narrow(np.asarray(numbers), dtype), layout_at_run_time(value.type), dtype, 0)
        )
    run_registered(op, semantics, operands)
