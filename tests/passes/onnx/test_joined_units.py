"""Convolutions and pools between integers have their channels last, and give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.passes.onnx.joined_units import with_quantized_units
from layout_ir.passes.onnx.optimized_model import OptimizedModel
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.passes.onnx.optimized import (
    FLOAT,
    check_optimized,
    initializer,
    model_of,
    op_types,
    random_feeds,
    transpose,
    value,
)
from tests.passes.onnx.test_quantized_units import BY_RELEASE, KEPT_APART, OTHERS, POOLS, UNITS, Unit

CHANNELS = 4


ABOUT_A_STEP = 0.3
"""An average of bytes that lies between two of them is rounded to the other one where it is not computed on floats."""


def _check_joined(model: onnx.ModelProto, **options: Any) -> OptimizedModel:
    """As `check_optimized`; besides, ONNX Runtime with all its optimizations gives the very same outputs."""
    has_averages = any("AveragePool" in op_type for op_type in op_types(model))
    tolerance = ABOUT_A_STEP if has_averages else 1e-6
    result = check_optimized(model, target="ort-cpu", tolerance=tolerance, **options)
    if not result.obligations:
        feeds = random_feeds(model, n=3)
        for found, wanted in zip(
            _optimized_results(result.model, feeds), _optimized_results(model, feeds), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)
    return result


def _optimized_results(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


class _Network:
    """Nodes in NHWC, each convolution and pool between two Transposes, its results rounded to bytes."""

    def __init__(self, kind: type = np.uint8, *, is_nhwc: bool = True, batch: int | str = 1, extent: int = 8):
        self.zero_point = kind(128 if kind is np.uint8 else 0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape = (batch, extent, extent, CHANNELS) if is_nhwc else (batch, CHANNELS, extent, extent)
        self.is_nhwc = is_nhwc
        self.random = np.random.default_rng(0)
        self.last = "x"
        if not is_nhwc:
            self.transposed(0, 2, 3, 1)
        self.rounded()

    def add(self, op_type: str, *operands: Any, **attributes: Any) -> str:
        """Adds a node on values by name and on constants; returns the name of its result."""
        names: list[str] = []
        for operand in operands:
            if not isinstance(operand, str):
                name = f"c{len(self.constants)}"
                self.constants.append(initializer(name, operand))
                operand = name
            names.append(operand)
        self.last = f"v{len(self.nodes)}"
        self.nodes.append(oh.make_node(op_type, names, [self.last], **attributes))
        return self.last

    def transposed(self, *perm: int) -> str:
        return self.add("Transpose", self.last, perm=perm)

    def rounded(self) -> str:
        parameters = np.float32(0.05), self.zero_point
        return self.add("DequantizeLinear", self.add("QuantizeLinear", self.last, *parameters), *parameters)

    def convolved(self) -> str:
        weights = self.random.integers(-9, 9, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
        before = self.last
        floats = self.add("DequantizeLinear", weights, np.float32(0.01357), np.int8(0))
        self.last = before
        self.transposed(0, 3, 1, 2)
        self.add("Conv", self.last, floats, pads=[1] * 4)
        self.transposed(0, 2, 3, 1)
        return self.rounded()

    def pooled(self, op_type: str, **attributes: Any) -> str:
        self.transposed(0, 3, 1, 2)
        self.add(op_type, self.last, **attributes)
        self.transposed(0, 2, 3, 1)
        return self.rounded()

    def normalized(self) -> str:
        """A LayerNorm in single nodes."""
        axis = np.array([-1])
        x = self.last
        moved = self.add("Sub", x, self.add("ReduceMean", x, axis))
        squares = self.add("ReduceMean", self.add("Pow", moved, np.float32(2)), axis)
        deviation = self.add("Sqrt", self.add("Add", squares, np.float32(1e-3)))
        self.add("Mul", self.add("Div", moved, deviation), np.arange(1, CHANNELS + 1, dtype=np.float32) / 4)
        return self.rounded()

    def model(self) -> onnx.ModelProto:
        if not self.is_nhwc:
            self.transposed(0, 3, 1, 2)
        result = oh.make_tensor_value_info(self.last, FLOAT, [None] * 4)
        return model_of(self.nodes, [value("x", *self.shape)], [result], self.constants)


def _normalized(kind: type = np.uint8, **options: Any) -> _Network:
    """Two convolutions, and a LayerNorm in between."""
    network = _Network(kind, **options)
    network.convolved()
    network.normalized()
    network.convolved()
    return network


@pytest.mark.parametrize("batch", [1, "n"])
def test_nothing_is_moved_where_all_channels_come_last(batch: int | str):
    model = _normalized(batch=batch).model()
    result = _check_joined(model, feeds=random_feeds(model, n=3))
    assert result.after.count == 0 and result.solution.is_optimal
    assert op_types(result.model).count("QLinearConv") == 2 and "Conv" not in op_types(result.model)


def test_convolutions_have_their_channels_last_though_all_else_could_have_them_second():
    """With the channels second, ONNX Runtime would have Transposes on both sides of each."""
    result = _check_joined(_normalized(is_nhwc=False, extent=40).model())
    assert result.after.count == 2
    of_convolutions = [node for node in result.model.graph.node if node.op_type == "QLinearConv"]
    assert [oh.get_node_attr_value(node, "channels_last") for node in of_convolutions] == [1, 1]


def test_negative_for_the_standard_they_stay_what_they_are():
    result = check_optimized(_normalized().model(), tolerance=1e-6)
    assert "Conv" in op_types(result.model) and "QLinearConv" not in op_types(result.model)


def test_negative_without_transposes_nothing_changes():
    model = UNITS["a bias"].model()
    (weights,) = (node for node in model.graph.node if list(node.output) == ["v"])
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        weights,
        oh.make_node("Conv", ["d", "v"], ["f"]),
        oh.make_node("QuantizeLinear", ["f", "s", "z"], ["r"]),
        oh.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    plain = model_of(nodes, [value("x", 1, 4, 8, 8)], [value("y", 1, 4, 6, 6)], list(model.graph.initializer))
    assert li.optimize_onnx(plain, "ort-cpu").model == plain


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
        ("AveragePool", {"kernel_shape": [2, 3], "pads": [0, 1, 0, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", {}),
    ],
)
def test_pools_have_their_channels_last(op_type: str, attributes: dict[str, Any]):
    network = _Network()
    network.convolved()
    network.pooled(op_type, **attributes)
    network.convolved()
    result = _check_joined(network.model())
    assert result.after.count == 0


def test_negative_a_pool_with_dilations_stays_on_floats():
    unit = Unit("AveragePool", attributes=(("kernel_shape", [2, 2]), ("dilations", [2, 2])), opset=19)
    assert with_quantized_units(unit.model(), None, {}, is_unsigned=True) is None


@pytest.mark.parametrize("name", UNITS)
def test_units_give_the_same(name: str):
    assert _check_joined(UNITS[name].model()).after.count == 0


@pytest.mark.parametrize("per_channel", [False, True])
def test_large_weights_are_summed_as_onnx_runtime_sums_them(per_channel: bool):
    """Without VNNI it saturates sums of two products, and so it does with what goes out."""
    model = Unit(bias="integers", per_channel=per_channel, largest=127).model()
    new = li.optimize_onnx(model, "ort-cpu").model
    assert "QLinearConv" in op_types(new)
    feeds = random_feeds(model, n=3)
    for found, wanted in zip(_optimized_results(new, feeds), _optimized_results(model, feeds), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", POOLS)
def test_negative_pools_without_a_convolution_stay_on_floats(name: str):
    assert POOLS[name].op_type in op_types(check_optimized(POOLS[name].model(), target="ort-cpu").model)


@pytest.mark.parametrize("name", [*OTHERS, *KEPT_APART, *BY_RELEASE])
def test_negative_all_else_keeps_its_operator(name: str):
    unit = {**OTHERS, **KEPT_APART, **BY_RELEASE}[name]
    assert unit.op_type in op_types(check_optimized(unit.model(), target="ort-cpu").model)


@pytest.mark.parametrize(("dtype", "is_unsigned"), [(np.uint8, True), (np.int8, False)])
def test_the_joined_model_computes_the_same(dtype: type[np.generic], is_unsigned: bool):
    model = _normalized(dtype).model()
    feeds = random_feeds(model)
    (wanted,) = session_results(model, feeds)
    joined = with_quantized_units(model, None, {}, is_unsigned=is_unsigned)
    assert joined is not None
    onnx.checker.check_model(joined.model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    (found,) = session_results(joined.model, feeds)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert op_types(joined.model).count("QLinearConv") == 2


def test_negative_signed_bytes_are_not_joined_where_the_runtime_computes_unsigned_ones_alone():
    assert with_quantized_units(_normalized(np.int8).model(), None, {}, is_unsigned=True) is None


def test_a_transpose_of_weights_stays_in_front_of_them():
    model = UNITS["a scale per channel"].model()
    (weights,) = (tensor for tensor in model.graph.initializer if tensor.name == "w")
    array = onnx.numpy_helper.to_array(weights).transpose(2, 3, 1, 0)
    weights.CopyFrom(initializer("w", array.copy()))
    (node,) = (node for node in model.graph.node if list(node.output) == ["v"])
    node.output[0], node.attribute[0].i = "hwio", 3
    place = list(model.graph.node).index(node)
    model.graph.node.insert(place + 1, transpose("hwio", "v", 3, 2, 0, 1))
    result = _check_joined(model)
    assert result.after.count == 0 and "QLinearConv" in op_types(result.model)


def test_negative_scales_along_another_dim_of_weights_are_not_joined():
    model = UNITS["a scale per channel"].model()
    (node,) = (node for node in model.graph.node if list(node.output) == ["v"])
    node.attribute[0].i = 1
    assert with_quantized_units(model, None, {}, is_unsigned=True) is None


def test_what_is_proven_is_about_the_model_that_comes_out():
    result = li.optimize_onnx(_normalized().model(), "ort-cpu", certificate=True)
    assert result.certificate is not None and result.after.count == 0


def test_inputs_that_are_free():
    result = _check_joined(_normalized(is_nhwc=False).model(), inputs="free", outputs="free")
    assert result.after.count == 0
