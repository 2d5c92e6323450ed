"""Pads never reach a result, and are filled only where something needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from layout_ir.algebra.format import Format
from layout_ir.api.execute import run
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, FillPadsOp, ReorderOp, format_of, layout_of, with_format
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.nn.constant import literal
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.printing import print_module
from tests.programs import parse

# So small a convolution would rather run unpadded: make that dear.
COSTS = parse_costs(
    {"op": [{"name": "nn.conv", "ins": ["nchw", "oihw"], "outs": ["nchw"], "cost": 10**9}]},
    "costs of the test",
)

CHANNELS = 17
SHAPE = (1, CHANNELS, 4, 4)

Body = Callable[[Callable[[Operation], SSAValue], SSAValue], SSAValue]


def _constant(add: Callable[[Operation], SSAValue], values: np.ndarray[Any, Any]) -> SSAValue:
    element = i32 if values.dtype == np.int32 else f32
    type = TensorType(element, list(values.shape))
    return add(nn.ConstantOp(literal(type, values.tobytes()), with_format(type, AnyAttr())))


def _weights(outputs: int, seed: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed).standard_normal((outputs, CHANNELS, 1, 1)) * 0.3
    return numbers.astype(np.float32)


def _between_convolutions(body: Body) -> ModuleOp:
    """conv, `body`, conv: all of it wants channels in blocks of eight, 17 of 24 in use."""
    blocked = Format.from_tag("nChw8c")
    function = FuncOp("main", FunctionType.from_lists([with_format(TensorType(f32, SHAPE), blocked)], []))
    builder = Builder(InsertPoint.at_end(function.body.block))

    def add(op: Operation) -> SSAValue:
        builder.insert(op)
        return op.results[0]

    x = add(nn.ConvOp(function.args[0], _constant(add, _weights(CHANNELS, 1))))
    y = add(nn.ConvOp(body(add, x), _constant(add, _weights(8, 2))))
    builder.insert(ReturnOp(add(ReorderOp(y, Format.from_tag("nchw")))))
    function.update_function_type()
    return ModuleOp([function])


def _plus_one(add: Callable[[Operation], SSAValue], x: SSAValue) -> SSAValue:
    return add(nn.AddOp(x, _constant(add, np.ones(SHAPE, np.float32))))


def _plus_scalar(add: Callable[[Operation], SSAValue], x: SSAValue) -> SSAValue:
    return add(nn.AddOp(x, _constant(add, np.ones((1, 1, 1, 1), np.float32))))


def _over_itself(add: Callable[[Operation], SSAValue], x: SSAValue) -> SSAValue:
    return add(nn.DivOp(x, add(nn.AbsOp(x))))


def _centered(add: Callable[[Operation], SSAValue], x: SSAValue) -> SSAValue:
    return add(nn.SubOp(x, add(nn.ReduceMeanOp(x, axes=(1,)))))


# What stands between the convolutions, and how many fills of pads it takes.
BODIES: dict[str, tuple[Body, int]] = {
    "relu keeps zero": (lambda add, x: add(nn.ReluOp(x)), 0),
    "tanh keeps zero": (lambda add, x: add(nn.TanhOp(x)), 0),
    "exp makes one": (lambda add, x: add(nn.ExpOp(x)), 1),
    "sigmoid makes a half": (lambda add, x: add(nn.SigmoidOp(x)), 1),
    "exp of exp": (lambda add, x: add(nn.ExpOp(add(nn.NegOp(add(nn.ExpOp(x)))))), 1),
    "x - x keeps zero": (lambda add, x: add(nn.SubOp(x, x)), 0),
    "a constant is added": (_plus_one, 0),  # its own pads are zero
    "a scalar is added": (_plus_scalar, 1),
    "zero over zero": (_over_itself, 1),
    "largest of negative values": (
        lambda add, x: add(nn.MaxPoolOp(add(nn.NegOp(add(nn.AbsOp(x)))), kernel=(1, 1))),
        0,
    ),
    "mean over channels": (_centered, 1),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_pad_never_reaches_a_result(name: str):
    body, fills = BODIES[name]
    module = _between_convolutions(body)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    want = run(module, [x], reorders="reference")[0]
    assert np.all(np.isfinite(want))
    optimize(module, "blocked8", costs=COSTS)
    module.verify()
    np.testing.assert_allclose(run(module, [x], reorders="reference")[0], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(module, [x], reorders="compiled")[0], want, rtol=1e-4, atol=1e-5)
    found = [op for op in module.walk() if isinstance(op, FillPadsOp)]
    convolutions = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    assert all(layout_of(conv.x.type).is_padded for conv in convolutions), (
        "nothing was padded: nothing was tested"
    )
    assert len(found) == fills


def _blocked_function(element: Any, count: int) -> tuple[FuncOp, Builder]:
    type = with_format(TensorType(element, SHAPE), Format.from_tag("nChw8c"))
    function = FuncOp("main", FunctionType.from_lists([type] * count, []))
    return function, Builder(InsertPoint.at_end(function.body.block))


def _finished(function: FuncOp, builder: Builder, result: SSAValue) -> ModuleOp:
    out = ReorderOp(result, Format.from_tag("nchw"))
    builder.insert(out)
    builder.insert(ReturnOp(out.result))
    function.update_function_type()
    return ModuleOp([function])


def test_integers_are_never_divided_by_a_pad():
    function, builder = _blocked_function(i32, 2)
    divided = nn.DivOp(*function.args)
    builder.insert(divided)
    module = _finished(function, builder, divided.result)
    optimize(module, "blocked8")
    module.verify()
    (op,) = [op for op in module.walk() if isinstance(op, nn.DivOp)]
    fmt, layout = format_of(op.rhs.type), layout_of(op.rhs.type)
    assert fmt is not None and (fmt.pad == 1 or not layout.is_padded)
    a, b = (np.random.default_rng(k).integers(1, 50, SHAPE).astype(np.int32) for k in (1, 2))
    with np.errstate(divide="raise"):
        assert np.array_equal(run(module, [a, b])[0], a // b)


def _reduced(make: Callable[[SSAValue], Operation], reference: Callable[[Any], Any]) -> None:
    function, builder = _blocked_function(f32, 1)
    op = make(function.args[0])
    builder.insert(op)
    module = _finished(function, builder, op.results[0])
    optimize(module, "blocked8")
    module.verify()
    x = -np.abs(np.random.default_rng(3).standard_normal(SHAPE)).astype(np.float32) - 1
    np.testing.assert_allclose(run(module, [x], reorders="reference")[0], reference(x), rtol=1e-5)


def test_softmax_over_a_blocked_padded_dim():
    def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    _reduced(lambda x: nn.SoftmaxOp(x, axis=1), softmax)


def test_mean_and_max_over_a_blocked_padded_dim():
    _reduced(lambda x: nn.ReduceMeanOp(x, axes=(1,)), lambda x: x.mean(axis=1, keepdims=True))
    _reduced(lambda x: nn.ReduceMaxOp(x, axes=(1,)), lambda x: x.max(axis=1, keepdims=True))


@pytest.mark.parametrize(("op", "pad"), [(nn.ReduceMaxOp, -(1 << 63)), (nn.ReduceMinOp, (1 << 63) - 1)])
def test_the_extreme_of_integers_is_exact(op: Any, pad: int):
    """2^63 - 1 is no float: filled with 2^63 it would wrap around to the least number there is."""
    shape = (1, CHANNELS, 128, 128)
    type = with_format(TensorType(i64, shape), Format.from_tag("nChw8c"))
    function = FuncOp("main", FunctionType.from_lists([type], []))
    builder = Builder(InsertPoint.at_end(function.body.block))
    reduced = op(function.args[0], axes=(1,))
    builder.insert(reduced)
    module = _finished(function, builder, reduced.result)
    optimize(module, "blocked8")
    module.verify()
    fmt = format_of(reduced.x.type)
    assert fmt is not None and fmt.pad == pad and isinstance(fmt.pad, int)
    assert print_module(parse(print_module(module))) == print_module(module)
    x = np.random.default_rng(4).integers(-(1 << 62), 1 << 62, shape) * 2
    want = (np.max if op is nn.ReduceMaxOp else np.min)(x, axis=1, keepdims=True)
    for reorders in ("reference", "compiled"):
        assert np.array_equal(run(module, [x], reorders=reorders)[0], want)


def test_negative_a_promise_that_is_not_kept_does_not_verify():
    function, _ = _blocked_function(f32, 1)
    type = function.args[0].type
    op = nn.ExpOp(function.args[0], result_type=tensor_type(type))
    with pytest.raises(Exception, match=r"the result claims .* but nn.exp leaves 1 in its pads"):
        op.verify_()
