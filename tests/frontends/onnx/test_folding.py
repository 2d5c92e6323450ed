"""What can be computed at import is."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from layout_ir.dialects import nn
from layout_ir.frontends.onnx import from_onnx
from tests.frontends.onnx.models import (
    NEWEST,
    constants_of,
    ints,
    literal_of,
    main_of,
    model,
    node,
    only,
)


def folded(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray[Any, Any]], opset: int = NEWEST
) -> Any:
    """The value that a graph without inputs computes; it must be a constant at once."""
    module = from_onnx(model(nodes, {}, constants=constants, opset=opset))
    assert [op.name for op in main_of(module).body.block.ops] == [
        "nn.constant",
        "layout.reorder",
        "func.return",
    ]
    return literal_of(*constants_of(module))


A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
B = np.array([2, 3, 5], np.float32)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([node("Add", "a b")], A + B),
        ([node("Sub", "a b")], A - B),
        ([node("Mul", "a b")], A * B),
        ([node("Div", "a b")], A / B),
        ([node("Pow", "b b")], B**B),
        ([node("Max", "a b b")], np.maximum(A, B)),
        ([node("Sum", "a b b")], A + B + B),
        ([node("Neg", "a")], -A),
        ([node("Sqrt", "b")], np.sqrt(B)),
        ([node("Transpose", "a")], A.T),
        ([node("Reshape", "a s")], A.reshape(3, 2)),
        ([node("Concat", "a a", axis=0)], np.concatenate([A, A])),
        ([node("Gather", "a i", axis=1)], A[:, [2, 0]]),
        ([node("Unsqueeze", "b i")], B.reshape(1, 3, 1)),
        ([node("Cast", "a", to=TensorProto.INT64)], A.astype(np.int64)),
        ([node("Slice", "a z e one m")], A[:, ::-1]),
        ([node("Relu", "a")], np.maximum(A, 0)),
        ([node("Where", "q a b")], np.where([True, False, True], A, B)),
        ([node("Softmax", "a", axis=0)], np.exp(A) / np.exp(A).sum(0)),
        ([node("Tile", "b t")], np.tile(B, 2)),
        ([node("ReduceSum", "a one")], A.sum(1, keepdims=True)),
        ([node("Shape", "a")], np.array([2, 3])),
        ([node("Size", "a")], np.array(6)),
        ([node("Expand", "b s2")], np.broadcast_to(B, (2, 3))),
        ([node("Shape", "a", "n", start=1), node("ConstantOfShape", "n")], np.zeros(3, np.float32)),
        ([helper.make_node("Constant", [], ["y"], value_ints=[1, 2])], np.array([1, 2])),
        ([helper.make_node("Constant", [], ["y"], value_float=1.5)], np.array(1.5, np.float32)),
    ],
    ids=lambda value: value[-1].op_type if isinstance(value, list) else "",  # pyright: ignore
)
def test_constants_are_folded(nodes: list[onnx.NodeProto], wanted: np.ndarray[Any, Any]):
    constants: dict[str, Any] = {
        "a": A, "b": B, "s": ints(3, 2), "i": ints(2, 0), "z": ints(-1), "e": ints(-9), "one": ints(1), "m": ints(-1),
        "q": np.array([True, False, True]), "t": ints(2), "s2": ints(2, 3),
    }  # fmt: skip
    ours = folded(nodes, constants)
    assert ours.dtype == wanted.dtype
    np.testing.assert_allclose(ours, wanted, rtol=1e-6)


def test_integers_divide_towards_zero():
    wanted = np.array([3, -3, -3, 2**60 + 1])
    ours = folded([node("Div", "a b")], {"a": ints(7, -7, 7, 2**60 + 1), "b": ints(2, 2, -2, 1)})
    np.testing.assert_array_equal(ours, wanted)


def test_arithmetic_of_splats_makes_splats():
    nodes = [
        node("ConstantOfShape", "s", "a", value=numpy_helper.from_array(np.array([3], np.float32))),
        node("ConstantOfShape", "s", "b", value=numpy_helper.from_array(np.array([4], np.float32))),
        node("Mul", "a b", "c"),
        node("Sqrt", "c", "d"),
        node("Transpose", "d", "e"),
        node("Unsqueeze", "e i", "f"),
        node("Cast", "f", "y", to=TensorProto.FLOAT16),
    ]
    # 40 GB, if anyone were to write it down.
    function = main_of(from_onnx(model(nodes, {}, constants={"s": ints(100_000, 100_000), "i": ints(0)})))
    (op,) = (op for op in function.body.block.ops if isinstance(op, nn.ConstantOp))
    assert op.infer() == (1, 100_000, 100_000)
    assert op.literal.data.data == np.float16(np.sqrt(12)).tobytes()


def test_random_nodes_are_not_folded():
    op = only(model([node("RandomNormalLike", "a")], {}, constants={"a": A}))
    assert op.title == "RandomNormalLike"


def test_scalars_and_empty_tensors():
    for array in (np.array(3, np.float32), np.zeros((0, 4), np.float32)):
        source = model([node("Relu", "x"), node("Identity", "w", "z")], {"x": ()}, ["y", "z"], {"w": array})
        function = main_of(from_onnx(source))
        assert [type.get_shape() for type in function.function_type.outputs] == [(), array.shape]  # pyright: ignore
