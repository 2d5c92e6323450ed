"""Each user of dequantized floats has a DequantizeLinear of its own, for as long as they are in several orders."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh

from layout_ir.passes.onnx.shared_dequantization import merge_dequantizations, split_dequantizations
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.passes.onnx.optimized import initializer, model_of, op_types, random_feeds, value


def _shared(*, is_result: bool = False, is_constant: bool = False) -> onnx.ModelProto:
    """Floats that two nodes use, one of them twice."""
    constants = [initializer("s", np.float32(0.1)), initializer("z", np.uint8(3))]
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        oh.make_node("Mul", ["d", "d"], ["m"]),
        oh.make_node("Add", ["d", "m"], ["y"]),
    ]
    if is_constant:
        constants.append(initializer("q", np.arange(15, dtype=np.uint8).reshape(3, 5)))
        nodes[0] = oh.make_node("Relu", ["x"], ["unused"])
    results = [value(name, 3, 5) for name in ("y", *(["d"] * is_result))]
    return model_of(nodes, [value("x", 3, 5)], results, constants)


def test_two_users_have_one_each_and_share_it_again():
    model = _shared()
    feeds = random_feeds(model)
    wanted = session_results(model, feeds)
    added = split_dequantizations(model.graph)
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    assert len(added) == 1 and op_types(model).count("DequantizeLinear") == 2
    multiplication, addition = model.graph.node[-2:]
    assert multiplication.input[0] == multiplication.input[1] != addition.input[0]
    np.testing.assert_array_equal(session_results(model, feeds), wanted)
    merge_dequantizations(model.graph, added)
    assert model.graph == _shared().graph


def test_a_result_stays_and_each_user_has_its_own():
    model = _shared(is_result=True)
    assert len(split_dequantizations(model.graph)) == 2
    assert "d" not in [name for node in model.graph.node for name in node.input]


def test_negative_constants_are_not_split():
    model = _shared(is_constant=True)
    assert not split_dequantizations(model.graph) and model == _shared(is_constant=True)


def test_negative_those_on_other_integers_stay_apart():
    model = _shared()
    added = split_dequantizations(model.graph)
    (copy,) = (node for node in model.graph.node if node.name in added)
    model.graph.node.insert(1, oh.make_node("Identity", ["q"], ["other"]))
    copy = next(node for node in model.graph.node if node.name in added)
    copy.input[0] = "other"
    merge_dequantizations(model.graph, added)
    assert op_types(model).count("DequantizeLinear") == 2


def test_negative_nodes_that_were_there_before_are_not_merged():
    model = _shared()
    split_dequantizations(model.graph)
    merge_dequantizations(model.graph, frozenset())
    assert op_types(model).count("DequantizeLinear") == 2
