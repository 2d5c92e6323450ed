"""The table of what ONNX Runtime's blocked kernels take, against the installed ONNX Runtime, op by op."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, layout_of
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.options.tensor_formats import shape_of

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

Nodes = list[tuple[str, list[str], str, dict[str, Any]]]


def _model(nodes: Nodes, constants: dict[str, Any], channels: int, out: str) -> bytes:
    """A model with input x (1, channels, 10, 10) and output `out`; constants by shape or by value."""
    h, f32 = onnx.helper, onnx.TensorProto.FLOAT
    random = np.random.default_rng(0)
    weights: list[Any] = []
    for name, v in constants.items():
        shape = cast("tuple[int, ...]", v)
        numbers = np.asarray(random.random(shape) if isinstance(v, tuple) else v, np.float32)
        weights.append(onnx.numpy_helper.from_array(numbers, name))
    graph = h.make_graph(
        [h.make_node(kind, ins, [result], **attributes) for kind, ins, result, attributes in nodes],
        "g",
        [h.make_tensor_value_info("x", f32, [1, channels, 10, 10])],
        [h.make_tensor_value_info(out, f32, None)],
        weights,
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


def _runtime(model: bytes, folder: Path) -> list[str]:
    """The nodes that ONNX Runtime makes of a model, with a star at the blocked ones."""
    ort: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(options.optimized_model_filepath).graph.node
    return [node.op_type + "*" * node.domain.endswith("nchwc") for node in nodes]


@cache
def _block() -> int:
    """What the installed ONNX Runtime uses on this machine, as the target of the same name has it."""
    return int(target_named("ort-nchwc").name.removeprefix("ort-nchwc"))


def _blocked() -> Format:
    return Format.from_tag(f"nChw{_block()}c")


def _ours(model: bytes) -> list[Operation]:
    """The ops of the imported model, without constants and views."""
    from layout_ir.frontends.onnx import from_onnx

    module = from_onnx(model)
    return [
        op
        for op in module.walk()
        if isinstance(op, nn.NNOp) and not isinstance(op, nn.ConstantOp | ReorderOp | ViewOp)
    ]


def _takes(op: Operation) -> bool:
    """Whether the target runs `op` with a blocked result where blocked operands reach it."""
    fmt = _blocked()
    options = options_of(
        op, lambda value: [fmt] if len(shape_of(value)) == 4 else [], target_named("ort-nchwc")
    )
    return any(option.outs[0] == fmt for option in options)


CONVS = [
    *((c, 32, 1) for c in (2, 4, 6, 8, 12, 15, 16, 18, 20, 24, 30, 32)),
    *((32, c, 1) for c in (2, 4, 6, 12, 20, 30)),
    *((c, c, c) for c in (4, 6, 8, 12, 16, 20, 24, 30, 32)),
    (64, 64, 2), (32, 64, 2), (48, 64, 2), (16, 32, 2), (64, 48, 2), (64, 96, 4),
]  # fmt: skip


@pytest.mark.parametrize(("channels", "outputs", "group"), CONVS)
def test_convolutions_are_taken_as_onnx_runtime_takes_them(
    channels: int, outputs: int, group: int, tmp_path: Path
) -> None:
    nodes: Nodes = [("Conv", ["x", "w"], "y", {"group": group})]
    model = _model(nodes, {"w": (outputs, channels // group, 3, 3)}, channels, "y")
    theirs = _runtime(model, tmp_path)
    (op,) = _ours(model)
    options = list(options_of(op, lambda _: [_blocked()], target_named("ort-nchwc")))
    assert {option.outs[0] == _blocked() for option in options} == {"Conv*" in theirs}
    assert {option.ins[0] == _blocked() for option in options} == {"ReorderInput*" in theirs}


def _unary(kind: str, **attributes: Any) -> tuple[Nodes, dict[str, Any]]:
    return [(kind, ["y"], "o", attributes)], {}


def _resize(scales: list[float], mode: str, coordinates: str) -> tuple[Nodes, dict[str, Any]]:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    return [("Resize", ["y", "", "c"], "o", attributes)], {"c": scales}


OPS: dict[str, tuple[Nodes, dict[str, Any]]] = {
    **{kind: _unary(kind) for kind in ("Relu", "Sigmoid", "Tanh", "HardSigmoid", "Exp", "Sqrt", "Abs", "Neg")},
    **{kind: _unary(kind) for kind in ("LeakyRelu", "Elu", "Softplus", "Erf", "GlobalAveragePool")},
    "MaxPool": _unary("MaxPool", kernel_shape=[2, 2]),
    "AveragePool": _unary("AveragePool", kernel_shape=[2, 2]),
    "BatchNormalization": ([("BatchNormalization", ["y", *"cccc"], "o", {})], {"c": "c"}),
    **{
        f"{kind} of two": ([("Relu", ["y"], "r", {}), (kind, ["y", "r"], "o", {})], {})
        for kind in ("Add", "Mul", "Sub", "Div", "Max")
    },
    **{f"{kind} per channel": ([(kind, ["y", "c"], "o", {})], {"c": "c11"}) for kind in ("Add", "Mul", "Sub")},
    **{f"{kind} with a number": ([(kind, ["y", "c"], "o", {})], {"c": ()}) for kind in ("Add", "Mul")},
    "Concat of channels": ([("Relu", ["y"], "r", {}), ("Concat", ["y", "r"], "o", {"axis": 1})], {}),
    "Concat of rows": ([("Relu", ["y"], "r", {}), ("Concat", ["y", "r"], "o", {"axis": 2})], {}),
    "Resize by 2": _resize([1, 1, 2, 2], "nearest", "asymmetric"),
    "Resize by 1.5": _resize([1, 1, 1.5, 2], "nearest", "asymmetric"),
    "Resize linear": _resize([1, 1, 2, 2], "linear", "half_pixel"),
}  # fmt: skip


@pytest.mark.parametrize("channels", [32, 20, 30])
@pytest.mark.parametrize("name", OPS)
def test_other_ops_are_taken_as_onnx_runtime_takes_them(name: str, channels: int, tmp_path: Path) -> None:
    nodes, constants = OPS[name]
    # Shapes that depend on the channels are named; the rest are shapes or values.
    named = {"c": (channels,), "c11": (channels, 1, 1)}
    shapes = {key: named[v] if isinstance(v, str) else v for key, v in constants.items()}
    # Two activations in front: the first vanishes into the convolution, the second keeps ops from doing so.
    before: Nodes = [
        ("Conv", ["x", "w"], "y0", {}),
        ("Relu", ["y0"], "y1", {}),
        ("Tanh", ["y1"], "y", {}),
    ]
    model = _model(
        [*before, *nodes, ("Tanh", ["o"], "f", {})], {"w": (channels, 32, 1, 1), **shapes}, 32, "f"
    )
    theirs = _runtime(model, tmp_path)
    assert theirs[0] == "ReorderInput*"
    assert "ReorderOutput*" in theirs
    op = _ours(model)[-2]
    assert _takes(op) == (theirs[-1] == "ReorderOutput*"), theirs


def test_constants_right_behind_a_convolution_vanish_into_it(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("Conv", ["x", "w"], "y", {}),
        ("Mul", ["y", "c"], "m", {}),
        ("Add", ["m", "c"], "a", {}),
        ("Relu", ["a"], "o", {}),
    ]
    model = _model(nodes, {"w": (32, 32, 1, 1), "c": (32, 1, 1)}, 32, "o")
    assert _runtime(model, tmp_path) == ["ReorderInput*", "Conv*", "ReorderOutput*"]
    assert all(_takes(op) for op in _ours(model))


def test_negative_a_second_use_keeps_them_apart() -> None:
    nodes: Nodes = [
        ("Conv", ["x", "w"], "y", {}),
        ("Add", ["y", "c"], "a", {}),
        ("Exp", ["y"], "e", {}),
        ("Mul", ["a", "e"], "o", {}),
    ]
    ops = _ours(_model(nodes, {"w": (32, 32, 1, 1), "c": (32, 1, 1)}, 32, "o"))
    (add,) = [op for op in ops if isinstance(op, nn.AddOp)]
    assert not _takes(add)


def test_negative_weights_that_are_no_constants_keep_a_convolution_plain(tmp_path: Path) -> None:
    nodes: Nodes = [("Transpose", ["x"], "w", {"perm": [2, 1, 3, 0]}), ("Conv", ["x", "w"], "y", {})]
    model = _model(nodes, {}, 32, "y")
    assert "Conv*" not in _runtime(model, tmp_path)
    (conv,) = [op for op in _ours(model) if isinstance(op, nn.ConvOp)]
    assert not _takes(conv)


def test_a_flattened_tensor_is_row_major_first() -> None:
    nodes: Nodes = [
        ("Conv", ["x", "w"], "y", {}),
        ("Flatten", ["y"], "f", {}),
        ("Gemm", ["f", "v"], "o", {"transB": 1}),
    ]
    from layout_ir.frontends.onnx import from_onnx

    module = from_onnx(_model(nodes, {"w": (32, 32, 1, 1), "v": (10, 3200)}, 32, "o"))
    solution = propagate(module, "ort-nchwc")
    assert solution is not None and solution.is_optimal
    reorders = [
        op
        for op in module.walk()
        if isinstance(op, ReorderOp)
        and not isinstance(op.input.owner, nn.ConstantOp)
        and cast_obstacle(layout_of(op.input.type), layout_of(op.result.type)) is not None
    ]
    # Into the convolution, out of it; blocked8 packs the weights of the product instead of the second.
    assert [len(shape_of(op.input)) for op in reorders] == [4, 4]


def test_the_block_is_a_vector_of_this_machine(tmp_path: Path) -> None:
    nodes: Nodes = [("MaxPool", ["x"], "y", {"kernel_shape": [1, 1]})]
    assert _block() == (8 if "MaxPool*" in _runtime(_model(nodes, {}, 8, "y"), tmp_path) else 16)
