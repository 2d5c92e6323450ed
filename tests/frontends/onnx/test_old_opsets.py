from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import layout_ir as li
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.model import read_model
from tests.frontends.onnx.models import model, node
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime, session_results

STATISTICS = {name: np.linspace(0.5, 1.5, 3, dtype=np.float32) + k for k, name in enumerate("sbmv")}


def network(opset: int) -> onnx.ModelProto:
    """A network of operators that are others in opset 9."""
    nodes = [
        node("BatchNormalization", "x s b m v", "n", **({"spatial": 1} if opset < 9 else {})),
        node("MaxPool", "n", "p", kernel_shape=[2, 2]),
        node("Upsample", "p", "u", scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"),
        node("Sum", "u u", "t"),
        node("Flatten", "t"),
    ]
    return model(nodes, {"x": (1, 3, 5, 5)}, constants=STATISTICS, opset=opset)


@pytest.fixture(name="inputs")
def _inputs() -> dict[str, Any]:
    return {"x": np.random.default_rng(0).standard_normal((1, 3, 5, 5)).astype(np.float32)}


@pytest.mark.parametrize("opset", [7, 8])
def test_an_old_network(opset: int, inputs: dict[str, Any]):
    check_like_onnx_runtime(network(opset), inputs)


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_an_old_network_that_is_written(target: str, inputs: dict[str, Any], tmp_path: Path):
    source = network(7)
    li.optimize_onnx(source, target).save(tmp_path / "new.onnx")
    written, _ = read_model(tmp_path / "new.onnx")
    for ours, theirs in zip(session_results(written, inputs), session_results(source, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert source.opset_import[0].version == 7  # that of the caller stays


def test_nodes_of_branches(inputs: dict[str, Any]):
    def branch(name: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        upsample = node("Upsample", "x", name, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")
        return helper.make_graph([upsample], name, [], [output])

    nodes = [
        node("Relu", "x", "p_scales"),  # the name that the constant of the first branch would have
        node("If", "c", "t", then_branch=branch("p"), else_branch=branch("q")),
        node("Sum", "t t"),
    ]
    constants = {"c": np.array(False)}
    source = model(nodes, {"x": (1, 3, 5, 5)}, ("y", "p_scales"), constants, opset=8)
    found, _ = read_model(source)
    branches = {attribute.name: attribute.g for attribute in found.graph.node[1].attribute}
    assert branches["then_branch"].node[1].input == ["x", "p_scales_2"]
    assert branches["else_branch"].node[1].input == ["x", "q_scales"]
    check_like_onnx_runtime(source, inputs)


@pytest.mark.parametrize("directions", [(), (1, 0)])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_scan_over_a_batch(batch: int, directions: tuple[int, ...]):
    """A sum that goes on and two sequences, one from its end, and an outer value."""

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    inside = [
        node("Mul", "one other", "product"), node("Sum", "state product outer", "next"),
        node("Transpose", "next", "turned", perm=[1, 0]),
    ]  # fmt: skip
    body = helper.make_graph(
        inside,
        "body",
        [value("state", 2, 3), value("one", 2, 3), value("other", 2, 3)],
        [value("next", 2, 3), value("turned", 3, 2)],
    )
    scan = node("Scan", "- s a b", "last all", body=body, num_scan_inputs=2)
    if directions:
        scan.attribute.append(helper.make_attribute("directions", directions))
    shapes = {"s": (batch, 2, 3), "a": (batch, 4, 2, 3), "b": (batch, 4, 2, 3), "outer": (2, 3)}
    source = model([scan], shapes, ("last", "all"), opset=8)
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    check_like_onnx_runtime(source, inputs, opaque=1)
    written = li.optimize_onnx(source, "onnx").model
    for ours, theirs in zip(session_results(written, inputs), session_results(source, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("BatchNormalization", "x s b m v", spatial=0)], r"'y' \(BatchNormalization\) has spatial = 0, supp"),
        ([node("Scan", "x x", name="scan")], r"'scan' \(Scan\) is the Scan of opset 8 with sequence lengths"),
    ],
)  # fmt: skip
def test_negative_nodes_that_have_no_form(nodes: list[onnx.NodeProto], message: str):
    source = model(nodes, {"x": (1, 3, 5, 5)}, constants=STATISTICS, opset=8)
    with pytest.raises(OnnxImportError, match=message):
        li.from_onnx(source)
    with pytest.raises(OnnxImportError, match=message):
        li.optimize_onnx(source, "onnx")


def test_negative_newer_and_older_models_are_as_they_were():
    for opset in (6, 9, 17):
        source = model([node("Relu", "x")], {"x": (2,)}, opset=opset)
        if opset == 6:
            with pytest.raises(OnnxImportError, match="uses opset 6, supported are 7 to"):
                read_model(source)
        else:
            assert read_model(source)[0] == source
