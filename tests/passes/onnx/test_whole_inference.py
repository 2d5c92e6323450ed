"""What is stated of the values of a model is inferred from, or merged with what was found."""

from __future__ import annotations

import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.whole_inference import WholeInference
from tests.passes.onnx.optimized import FLOAT, model_of, transpose, value


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    return [graph]


def _inference(node: onnx.NodeProto) -> WholeInference:
    nodes = [node, transpose("a", "y", 1, 0)]
    model = model_of(nodes, [value("x", "N", 3)], [oh.make_tensor_value_info("y", FLOAT, None)])
    model.opset_import.add(domain="my", version=1)
    return WholeInference(model, _graphs)


def _shape(inference: WholeInference, name: str) -> list[int | str]:
    dims = inference.found[0][name].tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]


def test_types_follow_from_what_is_stated():
    inference = _inference(oh.make_node("Thing", ["x"], ["a"], domain="my"))
    assert "a" not in inference.found[0]
    inference.state([{"a": oh.make_tensor_type_proto(FLOAT, ["M", 4])}])
    assert (_shape(inference, "a"), _shape(inference, "y")) == (["M", 4], [4, "M"])


def test_what_nobody_uses_is_merged_as_inference_would_merge_it():
    said = {"y": oh.make_tensor_type_proto(FLOAT, [None, "M"])}
    merged, inferred = (_inference(oh.make_node("Relu", ["x"], ["a"])) for _ in range(2))
    merged.add(said)
    inferred.state([said])
    assert _shape(merged, "y") == _shape(inferred, "y") == [3, "M"]


def test_negative_it_is_known_where_inference_fails():
    model = model_of([oh.make_node("Thing", ["x"], ["y"], domain="nobody")], [value("x", 3)], [value("y", 3)])
    assert WholeInference(model, _graphs).fails
