"""Elementwise ops that together are one function of the library: GELU, swish, hard swish, mish as exporters write them.

    x * 0.5 * (1 + erf(x / sqrt(2)))   becomes   gelu(x)

There are many ways to write each, so they are recognized by their values: ops between one tensor and a result that
depends on it, on numbers, and on nothing else are a function of one number, which is evaluated in double precision and
compared with those of the library. Behind a convolution or product such a function is a post-op; the ops that it is
written as are not, since the tensor is used twice. The measure that a rewrite makes smaller: the number of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, log
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.elements.numpy_types import Array

_MOST_OPS = 12
"""Ops that one function is written as, at most: GELU by tanh takes nine."""

_TOLERANCE = 2e-6
"""The relative tolerance, absolute below 1: constants are written with seven digits."""


def recognize_functions(module: ModuleOp) -> None:
    """Replaces, in place, ops of open layouts that together are a function of the library by the one op."""
    for root in list(module.walk(reverse=True)):
        if isinstance(root, nn.MulOp | nn.DivOp) and root.parent is not None:
            for written in _functions_of(root):
                function = _known(written.values())
                if function is not None:
                    _replace(written, *function)
                    break


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """Ops, in the order in which they run, that compute a function of `x`; the last one has its result."""

    x: SSAValue
    ops: list[Operation]

    def values(self) -> Array:
        """The function at the points of `_points`."""
        known: dict[SSAValue, Any] = {self.x: _points()}
        for op in self.ops:
            assert isinstance(op, nn.ElementwiseOp)
            operands = [
                known[value] if value in known else np.float64(_number(value)) for value in op.operands
            ]
            with np.errstate(all="ignore"):
                known[op.result] = type(op).COMPUTE(np, *operands, *op.parameters())
        return np.broadcast_to(np.asarray(known[self.ops[-1].results[0]], np.float64), _points().shape)


def _functions_of(root: Operation) -> Iterator[_Written]:
    """The ways to see `root` as a function of one tensor that it uses more than once, the one of most ops first."""
    shape = shape_of(root.results[0])
    if dtype_of(root.results[0].type) != "f32" or not is_any(root.results[0].type):
        return
    inside, waiting = list[Operation](), [root]
    while waiting and len(inside) < _MOST_OPS:
        op = waiting.pop(0)
        if op in inside:
            continue
        inside.append(op)
        for value in op.operands:
            owner = value.owner
            if (
                isinstance(owner, nn.UnaryOp | nn.BinaryOp)
                and shape_of(value) == shape
                and owner.parent is root.parent
            ):
                waiting.append(owner)
    inputs = dict.fromkeys(
        value for op in reversed(inside) for value in op.operands if _number(value) is None
    )
    for x in inputs:
        if shape_of(x) != shape or dtype_of(x.type) != "f32":
            continue
        ops = _between(x, root, set(inside))
        if ops is not None and sum(value is x for op in ops for value in op.operands) > 1:
            yield _Written(x, ops)


def _between(x: SSAValue, root: Operation, allowed: set[Operation]) -> list[Operation] | None:
    """The ops from `x` to `root`, in order; None where they use anything else, or something else uses them."""
    found: dict[Operation, None] = {}

    def visit(op: Operation) -> bool:
        if op in found:
            return True
        if op not in allowed or not isinstance(op, nn.UnaryOp | nn.BinaryOp):
            return False
        for value in op.operands:
            if value is x or _number(value) is not None:
                continue
            if not isinstance(value.owner, Operation) or not visit(value.owner):
                return False
        found[op] = None
        return True

    if not visit(root):
        return None
    used_outside = any(
        use.operation not in found for op in found if op is not root for use in op.results[0].uses
    )
    return None if used_outside else list(found)


def _number(value: SSAValue) -> float | None:
    """The number that all elements of a constant are."""
    op = value.owner
    if not isinstance(op, nn.ConstantOp) or dtype_of(value.type) != "f32":
        return None
    array = literal_array(op)
    return float(array.reshape(-1)[0]) if array.size == 1 else None


@lru_cache(maxsize=1)
def _points() -> Array:
    """Where functions are compared: around 0, where they bend, and far away."""
    near = np.linspace(-12, 12, 241)
    return np.concatenate([near, [-1e3, -88.5, -40, 40, 88.5, 1e3]])


Made = tuple[type[nn.UnaryOp], dict[str, Any]]

_FUNCTIONS: tuple[Made, ...] = (
    (nn.GeluOp, {}),
    (nn.GeluOp, {"approximate": "tanh"}),
    (nn.HardSwishOp, {}),
    (nn.MishOp, {}),
)
"""The functions without a parameter to find."""


def _known(values: Array) -> Made | None:
    """The op whose function has these values, and its attributes."""
    for op, attributes in _FUNCTIONS:
        if _is_alike(values, _at_points(op, attributes)):
            return op, attributes
    at_one = float(values[np.argmin(np.abs(_points() - 1))])
    if 0 < at_one < 1:
        # x / (1 + exp(-alpha * x)) at 1, solved for alpha.
        alpha = log(at_one / (1 - at_one))
        nearest = round(alpha, 6)
        if nearest and isfinite(nearest) and _is_alike(values, _at_points(nn.SwishOp, {"alpha": nearest})):
            return nn.SwishOp, {"alpha": nearest}
    return None


def _at_points(op: type[nn.UnaryOp], attributes: dict[str, Any]) -> Array:
    parameters = [attributes.get(name, field.default) for name, field in op.__fields__.items()]
    compute: Callable[..., Any] = op.COMPUTE
    with np.errstate(all="ignore"):
        return np.asarray(compute(np, _points(), *parameters), np.float64)


def _is_alike(values: Array, expected: Array) -> bool:
    return bool(np.all(np.abs(values - expected) <= _TOLERANCE * np.maximum(1, np.abs(expected))))


def _replace(written: _Written, op: type[nn.UnaryOp], attributes: dict[str, Any]) -> None:
    root = written.ops[-1]
    made = op(written.x, result_type=tensor_type(root.results[0]), **attributes)
    made.location = root.location
    Builder(InsertPoint.before(root)).insert(made)
    root.results[0].replace_all_uses_with(made.result)
    for old in reversed(written.ops):
        Rewriter.erase_op(old)
