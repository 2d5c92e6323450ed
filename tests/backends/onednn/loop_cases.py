"""Single ops in any layouts, by a compiled loop and by the reference, on memory whose pads are NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.backends.llvm.loops.compiled_loop import CompiledLoop
from layout_ir.backends.onednn.op_loops import OpLoop, loop_of
from layout_ir.backends.reference.semantics import SEMANTICS, layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor, interior, policy_element
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, dtype_of, with_format
from layout_ir.dialects.layout.types import attribute_of
from layout_ir.dialects.nn.constant import literal
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import narrow, storage, widen

Array = np.ndarray[Any, Any]

_CANARY = 0xA5
_GUARD = 256


def random_format(rng: np.random.Generator, rank: int, *, pad: Any = None, dense: bool = False) -> Format:
    """Dims in any order, some in one or two blocks that need not divide them, with pads in front or strides with holes
    at times."""
    order = [int(d) for d in rng.permutation(rank)]
    factors = [Factor(d) for d in order]
    for _ in range(int(rng.integers(0, 3)) if rank else 0):
        factors.append(Factor(int(rng.integers(rank)), int(rng.choice([2, 3, 4, 8, 16]))))
    blocked = len(factors) > rank
    lo = tuple(int(rng.choice([0, 0, 0, 1, 3])) for _ in range(rank)) if not dense else ()
    policy = pad if pad is not None else rng.choice(["undef", "zero"])
    offset = 0 if dense else int(rng.choice([0, 0, 5]))
    if not blocked and not any(lo) and rank and not dense and rng.integers(3) == 0:
        factors[-1] = Factor(order[-1], None, 2)
    return Format(tuple(names_for(rank)), tuple(factors), pad=str(policy), offset=offset, lo=lo)  # pyright: ignore


def values_of(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """Stored elements that meet most branches: both signs, zeros, and for floats infinities and NaN."""
    if dtype == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if not element_type(dtype).is_float:
        info = np.iinfo(storage(dtype))
        small = rng.integers(-3 if info.min else 0, 4, shape)
        any_ = rng.integers(info.min, info.max, shape, dtype=storage(dtype), endpoint=True)
        return np.where(rng.integers(0, 2, shape) == 0, small, any_).astype(storage(dtype))
    x = np.asarray(rng.uniform(-4, 4, shape))
    special = np.asarray(rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 30.0], shape))
    return narrow(np.asarray(np.where(rng.integers(0, 8, shape) == 0, special, x)), dtype)


def make_op(
    op: Any, shapes: Sequence[Sequence[int]], dtypes: Sequence[str], formats: Sequence[Format | None],
    result: Format | None = None, constants: dict[int, Array] | None = None, **attributes: Any,
) -> Operation:  # fmt: skip
    """An op on arguments, or `constants` by the number of the operand, in formats; None is row-major."""

    def typed(type: TensorType[Any], format: Format | None) -> Any:
        return with_format(type, NoneAttr() if format is None else FormatAttr(format))

    plain = [TensorType(attribute_of(d), tuple(s)) for d, s in zip(dtypes, shapes, strict=True)]
    types = [typed(t, f) for t, f in zip(plain, formats, strict=True)]
    operands: list[SSAValue] = list(Block(arg_types=types).args)
    for k, array in (constants or {}).items():
        operands[k] = nn.ConstantOp(literal(plain[k], array.tobytes()), types[k]).result
    made = op(*operands, **attributes)
    return op(*operands, result_type=typed(made.result.type, result), **attributes)


def run_loop(op: Operation, tensors: Sequence[Tensor], threads: int = 1) -> tuple[OpLoop, Array]:
    """The loop of an op, and the buffer that it writes, which held canaries before. What lies around it is checked."""
    loop = loop_of([op], threads)
    assert loop is not None, "no loop"
    value = op.results[0]
    layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
    kind = storage(dtype)
    raw = np.full(2 * _GUARD + layout.extent * kind.itemsize, _CANARY, np.uint8)
    buffer = raw[_GUARD : _GUARD + layout.extent * kind.itemsize]
    given = dict(zip(op.operands, tensors, strict=True))
    # Behind the end of each operand lies something that no loop may depend on.
    arrays: list[Array] = []
    for operand in loop.operands:
        held = given[operand].buffer
        around = np.full(held.nbytes + 2 * _GUARD + 3, 0xFF, np.uint8)
        around[_GUARD + 3 : _GUARD + 3 + held.nbytes] = np.ascontiguousarray(held).view(np.uint8)
        arrays.append(around[_GUARD + 3 : _GUARD + 3 + held.nbytes])
    assert isinstance(loop.kernel, CompiledLoop)
    loop.kernel.run(*arrays, buffer)
    assert (raw[:_GUARD] == _CANARY).all() and (raw[len(raw) - _GUARD :] == _CANARY).all(), "written outside"
    return loop, buffer.view(kind)


def check_op(
    op: Operation, arrays: Sequence[Array], *, exact: bool, threads: int = 1, tolerance: float = 2e-6
) -> None:
    """A loop and the reference agree on every element and promised pad, and the loop writes nothing else."""
    tensors = [
        Tensor.store(array, layout_at_run_time(value.type), dtype_of(value.type))
        for array, value in zip(arrays, op.operands, strict=True)
    ]
    with np.errstate(all="ignore"):
        expected = SEMANTICS[type(op)](op, *tensors)
    _, buffer = run_loop(op, tensors, threads)
    layout, dtype = expected.layout, expected.dtype
    found = Tensor(buffer, layout, dtype)
    same(found.logical(), expected.logical(), dtype, exact=exact, tolerance=tolerance)
    if layout.is_padded and layout.pad != "undef":
        outside = np.ones(layout.padded_shape, bool)
        outside[interior(layout)] = False
        # Of programs that hold the promises of their types, the two are one.
        ours, theirs = found.box()[outside], expected.box()[outside]
        promised = np.full(ours.shape, policy_element(layout, dtype), ours.dtype)
        same(np.where(_bits(ours) == _bits(theirs), promised, ours), promised, dtype, exact=True)
    addresses = np.zeros(layout.extent, bool)
    addresses[layout.addresses(padded=True)] = True
    holes = buffer.view(np.uint8).reshape(layout.extent, buffer.itemsize)[~addresses]
    assert (holes == _CANARY).all(), "written between elements"


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def same(found: Array, expected: Array, dtype: str, *, exact: bool, tolerance: float = 2e-6) -> None:
    """Asserts that two arrays are equal; floats, unless `exact`, within `tolerance` or a place of halves."""
    ours, theirs = widen(np.array(found), dtype), widen(np.array(expected), dtype)
    if exact or not element_type(dtype).is_float:
        np.testing.assert_array_equal(ours, theirs)
        return
    relative = {"f16": 2e-3, "bf16": 1.6e-2}.get(dtype, tolerance)
    np.testing.assert_allclose(ours, theirs, rtol=relative, atol=relative)
