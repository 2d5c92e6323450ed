"""Nodes that are not valid: one error that names the node and says both sides, and was foreseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from layout_ir.dialects import nn
from layout_ir.errors import UnforeseenError
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import ints, model, node

CONSTANTS: dict[str, Any] = {
    "k": np.zeros((4, 3, 3, 3), np.float32),
    "v": np.array([3, 1, 2], np.float32),
    "w": np.array([1, 2], np.float32),
    "m": np.ones((2, 3), np.float32),
    "i": ints(2, 3),
    "n": ints(2, -1),
    "big": ints(2**62, 2**62),
    "long": ints(2**60),
    "three": np.array([1, 2, 2], np.float32),
    "nans": np.array([1, 1, np.nan, 2], np.float32),
    "e": np.zeros(0, np.float32),
    "c": np.array([1 + 2j], np.complex64),
}


@pytest.mark.parametrize(
    ("it", "message"),
    [
        (
            node("Conv", "x k", auto_pad="SAME_UPPER", strides=[0, 1]),
            r"strides \[0, 1\] has an entry below 1",
        ),
        (node("Conv", "x k", auto_pad="SAME_UPPER", strides=[1]), "1 != 2"),
        (node("Conv", "x k", auto_pad="SAME_LOWER", dilations=[1, -1]), "dilations .* has an entry below 1"),
        (node("Conv", "x v"), "does not fit the 2 spatial dims"),
        (node("MaxPool", "x", kernel_shape=[0, 2]), "kernel_shape .* has an entry below 1"),
        (node("MaxPool", "x", kernel_shape=[2, 2], ceil_mode=2), "ceil_mode = 2, expected 0 or 1"),
        (node("ReduceSum", "x", keepdims=-1), "keepdims = -1, expected 0 or 1"),
        (node("ReduceSum", "m", keepdims=7), "keepdims = 7, expected 0 or 1"),
        (node("LeakyRelu", "x", alpha=float("nan")), "alpha = nan is not finite"),
        (node("LeakyRelu", "v", alpha=float("inf")), "alpha = inf is not finite"),
        (node("Split", "x", num_outputs=0), "num_outputs = 0, but the node has 1 outputs"),
        (node("Split", "x", num_outputs=3), "num_outputs = 3, but the node has 1 outputs"),
        (node("Resize", "x - three"), "3 scales do not fit 4 dims: 3 != 4"),
        (node("Resize", "x - nans"), "are not all positive and finite"),
        (node("Resize", "x - - i"), "2 sizes do not fit 4 dims: 2 != 4"),
        (node("Concat", "v w", axis=1), r"axis 1 is not in -1\.\.0"),
        (node("Concat", "v m", axis=0), "shapes 3 of input 0 and 2x3 of input 1 differ"),
        (node("Concat", "v i", axis=0), "element type mismatch between input 0 and input 1: float != int64"),
        (node("Concat", "", axis=0), "no inputs"),
        (node("Concat", "v w"), "attribute axis is missing"),
        (node("Gather", "v i"), r"index 3 is not in -3\.\.2, axis 0"),
        (node("Gather", "v w"), "input 1 has element type float, the op takes int32, int64"),
        (node("Gather", "v i", axis=4), r"axis 4 is not in -1\.\.0"),
        (node("Pow", "i n"), "to a negative power have no integer result"),
        (node("Cast", "x", to=99), "element type 99, which onnx .* does not know"),
        (node("Cast", "v", to=99), "element type 99, which onnx .* does not know"),
        (node("Cast", "v", to=2**62), "element type 4611686018427387904, which onnx .* does not know"),
        (node("Cast", "v", to=TensorProto.STRING), "element type string; only numbers are supported"),
        (node("Cast", "c", to=TensorProto.FLOAT), "complex"),
        (node("Sum", ""), "no inputs, expected 1 or more"),
        (node("Mean", ""), "no inputs, expected 1 or more"),
        (node("Max", ""), "no inputs, expected 1 or more"),
        (node("ConstantOfShape", "big"), "bytes are more than can be addressed"),
        (node("ConstantOfShape", "n"), r"shape \[2, -1\] has a negative extent"),
        (node("Expand", "v big"), "bytes are more than can be addressed|do not broadcast"),
        (node("Expand", "m n"), "an extent is negative"),
        (node("Div", "v w"), "shapes 3 and 2 do not broadcast: 3 != 2 in dim 0"),
        (node("Sqrt", "i"), "input 0 has element type int64, the op takes"),
        (node("Add", "v i"), "element type mismatch between input 0 and input 1: float != int64"),
        (node("Add", "v v v"), "the node has 3 inputs, the op 2 to 2"),
        (node("Pad", "x n"), "2 pads do not fit 4 dims: 2 != 8"),
        (node("Tile", "v n"), r"repeats \[2, -1\] do not fit 1 dims"),
        (node("MatMul", "v m"), "inner extent mismatch .* 3 != 2"),
        (node("Where", "v v v"), "input 0 has element type float, the op takes bool"),
    ],
)
def test_negative_nodes(it: onnx.NodeProto, message: str):
    with pytest.raises(OnnxImportError, match=rf"^node 0 'y' \({it.op_type}\): .*({message})") as error:
        from_onnx(model([it], {"x": (1, 3, 8, 8)}, constants=CONSTANTS, opset=18))
    assert not isinstance(error.value, UnforeseenError)


def test_negative_attributes_twice():
    it = node("LeakyRelu", "x", alpha=0.5)
    it.attribute.append(helper.make_attribute("alpha", 0.25))
    with pytest.raises(OnnxImportError, match=r"node 0 'y' .*: an attribute is given twice"):
        from_onnx(model([it], {"x": (2,)}))


@pytest.mark.parametrize("kind", [-1, 33, 99])
def test_negative_element_types_of_inputs(kind: int):
    source = model([node("Relu", "x")], {"x": (2,)})
    source.graph.input[0].type.tensor_type.elem_type = kind
    with pytest.raises(OnnxImportError, match=f"input 'x' has element type {kind}, which onnx"):
        from_onnx(source)


@pytest.mark.parametrize("dims", [(2**62, 2**62), (2**63 - 1,), (2**31, 2**31, 2)])
def test_negative_inputs_that_cannot_be_addressed(dims: tuple[int, ...]):
    with pytest.raises(OnnxImportError, match=r"input 'x' .*"):
        from_onnx(model([node("Relu", "x")], {"x": dims}))


@pytest.mark.parametrize("dims", [(-1,), (4,), (2, 2, 2**62), (2**62, 4)])
def test_negative_initializers_that_their_data_do_not_fill(dims: tuple[int, ...]):
    source = model([node("Add", "x w")], {"x": (1,)}, constants={"w": np.ones(3, np.float32)})
    tensor = source.graph.initializer[0]
    del tensor.dims[:]
    tensor.dims.extend(dims)
    for listed in (False, True):
        if listed:
            tensor.ClearField("raw_data")
            tensor.float_data.extend([1, 1, 1])
        with pytest.raises(OnnxImportError, match="initializer 'w' has shape"):
            from_onnx(source)


def test_pad_of_nothing_may_have_a_mode():
    for mode in ("constant", "reflect", "edge"):
        source = model([node("Pad", "x p", mode=mode)], {"x": (2, 3)}, constants={"p": ints(0, 0, 0, 0)})
        assert [op.name for op in list(from_onnx(source).walk())[2:]] == ["func.return"]


def test_scalars_stay_scalars():
    """A bound of Clip that was computed (Sub, Mod, Where) was a vector of one element, and Clip refused it."""
    one, two = np.array(1, np.float32), np.array(2, np.float32)
    nodes = [
        node("Where", "q a b", "l"),
        node("Mod", "b a", "r", fmod=1),
        node("Add", "r b", "h"),
        node("Clip", "x l h"),
    ]
    constants = {"q": np.array(True), "a": one, "b": two}
    (op,) = [
        op for op in from_onnx(model(nodes, {"x": (3,)}, constants=constants)).walk() if op.name == "nn.clip"
    ]
    assert isinstance(op, nn.ClipOp) and (op.min, op.max) == (1.0, 2.0)
    for each in ("Not", "Sign", "Round"):
        value = np.array(True) if each == "Not" else one
        module = from_onnx(model([node(each, "a")], {}, constants={"a": value}))
        (constant,) = [op for op in module.walk() if op.name == "nn.constant"]
        assert constant.results[0].type.get_shape() == ()  # pyright: ignore
