"""What ONNX Runtime computes on integers with the channels last, tried one by one, is what is found to be a unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx.consumers import consumer_named
from layout_ir.passes.onnx.joined_units import with_quantized_units
from layout_ir.passes.onnx.quantized_units import Units
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, transpose, value

U8, S8, U16 = np.uint8, np.int8, np.uint16
MIDDLE, NONE, SCALE = U8(128), S8(0), np.float32(0.02)


@dataclass(frozen=True)
class Unit:
    """An operator between DequantizeLinear and QuantizeLinear, in NHWC."""

    op_type: str = "Conv"
    x: Any = MIDDLE
    """The zero point of the operand, whose type is that of its integers."""
    y: Any = MIDDLE
    weights: Any = NONE
    """The zero point of the weights; None for weights of floats."""
    largest: int = 64
    """The largest weight. CPUs without VNNI add two products of bytes in 16 bits: up to 64 that is exact, and ONNX
    Runtime then gives the same with and without its optimizations."""
    per_channel: bool = False
    bias: str = ""
    scale: Any = SCALE
    """Of the result, and of the operand."""
    behind: tuple[Any, ...] = ()
    """An activation with its limits."""
    attributes: tuple[tuple[str, Any], ...] = ()
    rounded_twice: bool = False
    is_result: bool = False
    """Whether the floats behind the operator are a result of the graph, too."""
    opset: int = 17

    def model(self) -> onnx.ModelProto:
        random = np.random.default_rng(0)
        constants: dict[str, Any] = {"s": self.scale, "z": self.x, "p": self.y}
        nodes = [
            oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            transpose("d", "t", 0, 3, 1, 2),
        ]
        operands = ["t"]
        if self.op_type in ("Conv", "ConvTranspose"):
            operands.append("v")
            weights = random.integers(1, self.largest + 1, (4, 4, 3, 3))
            along: dict[str, Any] = {"axis": 0} if self.per_channel else {}
            count: Any = 4 if self.per_channel else ()
            if self.weights is None:
                constants["v"] = (weights / 500).astype(np.float32)
            else:
                constants |= {
                    "w": weights.astype(self.weights.dtype),
                    "ws": np.full(count, 0.002, np.float32),
                }
                constants["wz"] = np.full(count, self.weights)
                nodes.append(oh.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], **along))
            if self.bias:
                operands.append("c")
            if self.bias == "floats":
                constants["c"] = random.standard_normal(4).astype(np.float32)
            elif self.bias:
                of_sums = np.float32(0.02) * np.float32(0.002) * (2 if self.bias == "of another scale" else 1)
                constants |= {
                    "b": np.arange(-200, 200, 100, dtype=np.int32),
                    "bs": np.full(count, of_sums, np.float32),
                }
                nodes.append(oh.make_node("DequantizeLinear", ["b", "bs"], ["c"], **along))
        nodes.append(oh.make_node(self.op_type, operands, ["f"], **dict(self.attributes)))
        last = "f"
        if self.behind:
            limits = [f"limit{k}" for k in range(len(self.behind) - 1)]
            constants |= dict(zip(limits, map(np.float32, self.behind[1:]), strict=True))
            nodes.append(oh.make_node(self.behind[0], ["f", *limits], ["a"]))
            last = "a"
        nodes.append(transpose(last, "u", 0, 2, 3, 1))
        nodes.append(oh.make_node("QuantizeLinear", ["u", "s", "p"], ["r"]))
        nodes.append(oh.make_node("DequantizeLinear", ["r", "s", "p"], ["y"]))
        results = ["y"]
        if self.rounded_twice:
            constants["t2"] = np.float32(0.05)
            nodes.append(oh.make_node("QuantizeLinear", ["u", "t2", "p"], ["r2"]))
            nodes.append(oh.make_node("DequantizeLinear", ["r2", "t2", "p"], ["y2"]))
            results.append("y2")
        results += ["f"] * self.is_result
        return model_of(
            nodes,
            [value("x", 1, 8, 8, 4)],
            [oh.make_tensor_value_info(name, FLOAT, [None] * 4) for name in results],
            [initializer(name, np.asarray(array)) for name, array in constants.items()],
            opset=self.opset,
            ir_version=10 if self.opset > 19 else 8,
        )


POOL = (("kernel_shape", [2, 2]),)
RELU, CLIP = ("Relu",), ("Clip", 0, 6)
VECTOR = np.full(1, 0.02, np.float32)

SIGNED = {
    "signed": Unit(x=S8(0), y=S8(0)),
    "a signed ReLU at the lowest number": Unit(behind=RELU, x=S8(0), y=S8(-128)),
}
"""What ONNX Runtime makes unsigned on x86 where it stands alone, and leaves on floats elsewhere."""

UNITS = {
    **{f"opset {opset}": Unit(opset=opset) for opset in (13, 17, 21)},
    "weights of unsigned integers": Unit(weights=U8(3)),
    "a scale per channel": Unit(per_channel=True, bias="integers"),
    "a bias": Unit(bias="integers"),
    "a bias of floats": Unit(bias="floats"),
    "scales with a dim": Unit(scale=VECTOR),
    "a ReLU at the lowest number": Unit(behind=RELU, y=U8(0)),
    "a clip beyond all numbers": Unit(behind=CLIP, y=U8(0)),
}  # fmt: skip
"""What becomes one operator with its channels last."""

POOLS = {
    "an average": Unit("AveragePool", attributes=POOL),
    "a global average": Unit("GlobalAveragePool"),
    "an average of signed integers": Unit("AveragePool", x=S8(0), y=S8(0), attributes=POOL),
    "a maximum": Unit("MaxPool", attributes=POOL),
}
"""What becomes one operator, with its channels last if those around it have them there."""

OTHERS = {
    "16 bits": Unit(x=U16(3), y=U16(3), opset=21),
    "a ReLU above the lowest number": Unit(behind=RELU),
    "a clip within the numbers": Unit(behind=("Clip", 0, 1), y=U8(0)),
    "a clip of numbers with a scale that has a dim": Unit(behind=CLIP, y=U8(0), scale=VECTOR),
    "a sigmoid": Unit(behind=("Sigmoid",)),
    "a maximum to other numbers": Unit("MaxPool", y=U8(3), attributes=POOL),
    "a global maximum": Unit("GlobalMaxPool"),
    "a transposed convolution": Unit("ConvTranspose"),
    "two ways to round": Unit(rounded_twice=True),
}  # fmt: skip
"""What does not, in ONNX Runtime or here."""

KEPT_APART = {"weights of floats": Unit(weights=None), "floats that are a result": Unit(is_result=True)}
"""What ONNX Runtime changes the numbers of, which is left to it."""

BY_RELEASE = {"a bias of another scale": Unit(bias="of another scale")}
"""What ONNX Runtime 1.25 makes one operator, with other numbers, and 1.32 does not."""


def _left_by_runtime(model: onnx.ModelProto, folder: Path) -> onnx.GraphProto:
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(folder / "left.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.ModelProto.FromString((folder / "left.onnx").read_bytes()).graph


def _is_found(unit: Unit) -> bool:
    is_unsigned = consumer_named("ort-cpu").makes_unsigned
    return with_quantized_units(unit.model(), None, {}, is_unsigned=is_unsigned) is not None


def _is_found_alone(unit: Unit) -> bool:
    return bool(Units(unit.model(), None, {}, is_unsigned=False).units())


@pytest.mark.parametrize("name", UNITS)
def test_what_onnx_runtime_makes_one_operator_with_its_channels_last_is_a_unit(name: str, tmp_path: Path):
    graph = _left_by_runtime(UNITS[name].model(), tmp_path)
    assert [node.op_type for node in graph.node] == ["QuantizeLinear", "QLinearConv", "DequantizeLinear"]
    assert oh.get_node_attr_value(graph.node[1], "channels_last") == 1
    assert _is_found(UNITS[name])


@pytest.mark.parametrize("name", SIGNED)
def test_signed_bytes_are_units_where_the_runtime_computes_signed_ones(name: str):
    model = SIGNED[name].model()
    assert with_quantized_units(model, None, {}, is_unsigned=False) is not None
    assert with_quantized_units(model, None, {}, is_unsigned=True) is None


@pytest.mark.parametrize("name", POOLS)
def test_pools_that_onnx_runtime_makes_one_operator_are_units(name: str, tmp_path: Path):
    unit = POOLS[name]
    first, *inner, last = (node.op_type for node in _left_by_runtime(unit.model(), tmp_path).node)
    assert (first, last) == ("QuantizeLinear", "DequantizeLinear")
    assert inner[1].removeprefix("QLinear") == unit.op_type and {inner[0], inner[2]} == {"Transpose"}
    assert _is_found_alone(unit)


@pytest.mark.parametrize("name", OTHERS)
def test_negative_what_it_does_not_is_none(name: str, tmp_path: Path):
    operators = [node.op_type for node in _left_by_runtime(OTHERS[name].model(), tmp_path).node]
    assert not any(each.startswith("QLinear") for each in operators) and "NhwcMaxPool" not in operators
    assert not _is_found(OTHERS[name]) and not _is_found_alone(OTHERS[name])


@pytest.mark.parametrize("name", KEPT_APART)
def test_negative_what_it_changes_the_numbers_of_is_none(name: str, tmp_path: Path):
    operators = [node.op_type for node in _left_by_runtime(KEPT_APART[name].model(), tmp_path).node]
    assert "QLinearConv" in operators
    assert not _is_found(KEPT_APART[name])


@pytest.mark.parametrize("name", BY_RELEASE)
def test_negative_what_some_releases_alone_join_is_none(name: str):
    assert not _is_found(BY_RELEASE[name]) and not _is_found_alone(BY_RELEASE[name])


def test_negative_nodes_that_lack_inputs_are_none():
    model = UNITS["opset 17"].model()
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            del node.input[1:]
    assert with_quantized_units(model, None, {}, is_unsigned=True) is None
