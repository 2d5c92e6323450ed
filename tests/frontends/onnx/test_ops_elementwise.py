"""Elementwise ops, in all their versions."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.frontends.onnx.models import (
    model,
    node,
    only,
    ops_of,
)

X = {"x": (1, 3, 8, 8)}


def test_clip_takes_attributes_then_inputs():
    op = only(model([node("Clip", "x", min=-1.0, max=6.0)], X, opset=10))
    assert (op.min, op.max) == (-1, 6)
    constants = {"lo": np.array(-1, np.float32), "hi": np.array(6, np.float32)}
    op = only(model([node("Clip", "x lo hi")], X, constants=constants, opset=11))
    assert (op.min, op.max) == (-1, 6)
    ops = ops_of(model([node("Clip", "x lo hi")], {**X, "lo": (), "hi": ()}))
    assert [op.name for op in ops] == ["nn.max", "nn.min"]


def test_variadic_ops_are_chains():
    inputs = dict.fromkeys("abc", (2, 3))
    for op_type, names in (
        ("Sum", ["nn.add", "nn.add"]),
        ("Max", ["nn.max", "nn.max"]),
        ("Min", ["nn.min", "nn.min"]),
        ("Mean", ["nn.add", "nn.add", "nn.div"]),
    ):
        assert [op.name for op in ops_of(model([node(op_type, "a b c")], inputs))] == names
    assert ops_of(model([node("Sum", "a")], {"a": (2, 3)})) == []


def test_pow_converts_the_exponent():
    constants = {"e": np.array(2, np.int64)}
    assert [op.name for op in ops_of(model([node("Pow", "x e")], X, constants=constants))] == ["nn.pow"]
    source = model(
        [node("Pow", "x e")], X, constants={"e": np.array(0.5, np.float32)}, element=TensorProto.INT32
    )
    assert [op.name for op in ops_of(source)] == ["nn.cast", "nn.pow", "nn.cast"]


def test_attributes_are_read_as_the_decimal_they_were_written_as():
    op = only(model([node("LeakyRelu", "x", alpha=0.1)], X))
    assert op.alpha == 0.1
    op = only(model([node("LRN", "x", size=5, alpha=1e-4, beta=0.75, bias=1.0)], X))
    assert "alpha" not in op.properties
