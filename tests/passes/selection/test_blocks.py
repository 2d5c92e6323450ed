"""Networks of depthwise and pointwise convolutions, splits and concats: what reorders are left, and that they compute.

The networks are small ones of the kinds of ConvMixer, EfficientNet, YOLOv8 and Res2Net, written as ONNX; ONNX Runtime
says what they compute, and pads hold NaN wherever nothing is promised of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.api.execute import run
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, format_of, layout_of
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.options.models import same_format_options
from layout_ir.passes.selection.options.targets import target_named
from tests.programs import parse

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")


class Net:
    """An ONNX graph under construction; every method adds a node and returns the name of its result."""

    def __init__(self, channels: int, image: int):
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.input = (1, channels, image, image)
        self.random = np.random.default_rng(7)

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: np.ndarray[Any, Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(value, name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, group: int = 1, stride: int = 1) -> str:
        scale = (inputs // group * kernel * kernel) ** -0.5
        shape = (outputs, inputs // group, kernel, kernel)
        w = self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))
        attributes: dict[str, Any] = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": group}
        return self.add("Conv", x, w, **attributes)

    def split(self, x: str, *parts: int) -> list[str]:
        sizes = self.constant(np.array(parts, np.int64))
        return self.add("Split", x, sizes, outputs=len(parts), axis=1)

    def model(self, result: str) -> Any:
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes,
            "net",
            [value("x", onnx.TensorProto.FLOAT, self.input)],
            [value(result, onnx.TensorProto.FLOAT, [None] * 4)],
            self.weights,
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        return model


def convmixer() -> Any:
    net = Net(3, 28)
    x = net.conv("x", 3, 64, 7, stride=7)
    for _ in range(3):
        y = net.add("Relu", net.conv(x, 64, 64, 5, group=64))
        x = net.add("Relu", net.conv(net.add("Add", x, y), 64, 64, 1))
    return net.model(net.add("GlobalAveragePool", x))


def efficientnet() -> Any:
    """Inverted bottlenecks with squeeze and excitation."""
    net = Net(3, 16)
    x = net.conv("x", 3, 32, 3, stride=2)
    for stride in (1, 2):
        wide = net.add("Relu", net.conv(x, 32, 96, 1))
        deep = net.add("Relu", net.conv(wide, 96, 96, 3, group=96, stride=stride))
        squeezed = net.add("Relu", net.conv(net.add("GlobalAveragePool", deep), 96, 8, 1))
        gate = net.add("Sigmoid", net.conv(squeezed, 8, 96, 1))
        y = net.conv(net.add("Mul", deep, gate), 96, 32, 1)
        x = net.add("Add", x, y) if stride == 1 else y
    return net.model(net.add("GlobalAveragePool", x))


def c2f() -> Any:
    """A half goes by, the other through bottlenecks, and all of it is joined, as in YOLOv8."""
    net = Net(3, 16)
    x = net.conv("x", 3, 32, 3, stride=2)
    for _ in range(2):
        parts = net.split(net.add("Relu", net.conv(x, 32, 64, 1)), 32, 32)
        for _ in range(2):
            y = net.conv(net.add("Relu", net.conv(parts[-1], 32, 32, 3)), 32, 32, 3)
            parts.append(net.add("Add", parts[-1], y))
        x = net.conv(net.add("Concat", *parts, axis=1), 128, 32, 1)
    return net.model(x)


def res2net(width: int = 16) -> Any:
    """Four slices of the channels, each but the last through a convolution and into the next."""
    net = Net(3, 16)
    x = net.conv("x", 3, 64, 3, stride=2)
    for _ in range(2):
        first, *rest, last = net.split(net.conv(x, 64, 4 * width, 1), *[width] * 4)
        done = [net.conv(first, width, width, 3)]
        for part in rest:
            done.append(net.conv(net.add("Add", done[-1], part), width, width, 3))
        x = net.add("Add", x, net.conv(net.add("Concat", *done, last, axis=1), 4 * width, 64, 1))
    return net.model(x)


def padded_channels() -> Any:
    """A shortcut that grows by channels of zeros, as in PyramidNet."""
    net = Net(3, 16)
    x = net.conv("x", 3, 32, 3, stride=2)
    wide = net.conv(net.add("Relu", net.conv(x, 32, 44, 3)), 44, 44, 3)
    pads = net.constant(np.array([0, 0, 0, 0, 0, 12, 0, 0], np.int64))
    return net.model(net.conv(net.add("Add", wide, net.add("Pad", x, pads)), 44, 32, 1))


NETS: dict[str, Callable[[], Any]] = {
    "convmixer": convmixer,
    "efficientnet": efficientnet,
    "c2f": c2f,
    "res2net": res2net,
    "res2net of broken blocks": lambda: res2net(12),
    "padded channels": padded_channels,
}


def _reorders(module: Any) -> int:
    """Reorders and fills of activations that move something, but for that of the network's result."""
    count = 0
    for op in module.walk():
        if not isinstance(op, ReorderOp | FillPadsOp) or isinstance(op.input.owner, nn.ConstantOp):
            continue
        source, result = layout_of(op.source_type), layout_of(op.result_type)
        at_edge = any(use.operation.name == "func.return" for use in op.result.uses)
        count += cast_obstacle(source, result) is not None and not at_edge
    return count


@pytest.mark.parametrize("target", ["blocked8", "blocked16"])
@pytest.mark.parametrize("name", ["convmixer", "efficientnet", "c2f", "res2net", "padded channels"])
def test_blocks_are_kept_from_the_first_convolution_to_the_last(name: str, target: str):
    from layout_ir.frontends.onnx import from_onnx

    module = from_onnx(NETS[name]())
    solution = optimize(module, target)
    assert solution is not None and solution.is_optimal
    assert _reorders(module) == 0
    block = 8 if target == "blocked8" else 16
    convolutions = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    formats = [format_of(op.result.type) for op in convolutions if op.shapes[0][2] > 1]
    assert all(fmt is not None and fmt.blocks()[1] == block for fmt in formats)


@pytest.mark.parametrize("name", NETS)
def test_networks_compute_what_onnx_runtime_does(name: str):
    from layout_ir.frontends.onnx import from_onnx

    model = NETS[name]()
    x = np.random.default_rng(3).standard_normal((1, 3, *_image(model))).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    module = from_onnx(model)
    optimize(module, "blocked8")
    (got,) = run(module, [x])
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def _image(model: Any) -> tuple[int, int]:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    return dims[2].dim_value, dims[3].dim_value


# Which blocks a slice and a pad may keep ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "size", "step", "kept"),
    [
        (0, 8, 1, True),
        (8, 16, 1, True),
        (16, 20, 1, True),  # to the end, whose block is broken
        (0, 36, 1, True),
        (4, 8, 1, False),
        (0, 12, 1, False),
        (0, 4, 1, False),
        (0, 8, 2, False),
        (35, 36, -1, False),
    ],
)
def test_a_slice_keeps_blocks_that_it_takes_whole(start: int, size: int, step: int, kept: bool):
    x, y = "tensor<1x36x3x3xf32, #layout.any>", f"tensor<1x{size}x3x3xf32, #layout.any>"
    text = f"nn.slice %x starts = [0, {start}, 0, 0] sizes = [1, {size}, 3, 3] steps = [1, {step}, 1, 1]"
    assert _takes_blocks(f"{text} : ({x}) -> {y}", x) == kept


@pytest.mark.parametrize(
    ("begin", "end", "more", "kept"),
    [
        (8, 0, "", True),
        (0, 3, "", True),  # into the pads
        (8, 20, "", True),
        (-8, 0, "", True),
        (0, -4, "", True),
        (4, 0, "", False),
        (0, -1, "", False),
        (-4, 4, "", False),
        (8, 0, "mode = edge", False),
        (0, 0, "mode = edge", True),
    ],
)
def test_a_pad_keeps_blocks_that_stay_whole(begin: int, end: int, more: str, kept: bool):
    x, y = (f"tensor<1x{c}x3x3xf32, #layout.any>" for c in (36, 36 + begin + end))
    text = f"nn.pad %x pads = [0, {begin}, 1, 1, 0, {end}, 1, 1] {more}"
    assert _takes_blocks(f"{text} : ({x}) -> {y.replace('3x3', '5x5')}", x) == kept


def _takes_blocks(op: str, type: str) -> bool:
    """Whether `op`, of %x of `type`, has an option in nChw8c."""
    module = parse(f"func.func @f(%x : {type}) {{\n %y = {op}\n func.return }}")
    (found,) = [op for op in module.walk() if isinstance(op, nn.NNOp)]
    blocks = Format.from_tag("nChw8c")
    options = same_format_options(found, lambda value: (blocks,), target_named("blocked8"))
    return any(option.ins == option.outs == (blocks,) for option in options)
