"""Inference part by part finds the types that ONNX's inference finds of the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx import shape_inference
from layout_ir.frontends.onnx.inference_in_parts import infer_in_parts
from layout_ir.frontends.onnx.shape_inference import infer_shapes
from tests.passes.onnx.computed_extents import Draft, alike
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, value
from tests.seeds import seeds

UNKNOWN = oh.make_tensor_value_info("y", FLOAT, None)


def _infer(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    values = (*model.graph.value_info, *model.graph.output, *model.graph.input)
    return {value.name: value.type for value in sorted(values, key=lambda value: value.name)}


@pytest.mark.parametrize("seed", seeds(20, 2000))
def test_types_are_those_of_the_whole_graph(seed: int):
    random = Random(seed)
    draft = Draft(random)
    for _ in range(random.randint(8, 40)):
        draft.step()
    model = draft.model()
    parts = sorted(random.choices(range(random.randint(1, 6)), k=len(model.graph.node)))
    given = model.SerializeToString(deterministic=True)
    found, left_out = infer_in_parts(model, parts, _infer)
    whole = _types(_infer(model))
    if left_out:  # an Expand to an extent of -1
        assert any(dim.dim_value < 0 for type in whole.values() for dim in type.tensor_type.shape.dim)
    else:
        assert alike(_types(found)) == alike(whole)
    assert list(found.graph.node) == list(model.graph.node)
    assert model.SerializeToString(deterministic=True) == given


def _blocks(count: int) -> onnx.ModelProto:
    """Convolutions that do not fit into any extent, each behind a Slice of the one before."""
    nodes: list[onnx.NodeProto] = []
    for number in range(count):
        source = f"s{number - 1}" if number else "x"
        nodes.append(oh.make_node("Conv", [source, "w"], [f"c{number}"], pads=[0, 0, 1, 1]))
        nodes.append(oh.make_node("Slice", [f"c{number}", "from", "to", "axis"], [f"s{number}"]))
    nodes.append(oh.make_node("Relu", [f"s{count - 1}"], ["y"]))
    numbers = {"from": 0, "to": -1, "axis": 3}
    constants = [initializer(name, np.array([number])) for name, number in numbers.items()]
    constants.append(initializer("w", np.ones((4, 4, 3, 3), np.float32)))
    return model_of(nodes, [value("x", "n", 4, 64, 64)], [UNKNOWN], constants)


def test_each_node_is_inferred_once_however_many_slices_are_behind_each_other(
    monkeypatch: pytest.MonkeyPatch,
):
    model = _blocks(12)
    seen: list[str] = []
    whole = onnx.shape_inference.infer_shapes

    def counting(part: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
        seen.extend(name for node in part.graph.node for name in node.output)
        return whole(part, **options)

    looked_at: list[int] = []
    looks = shape_inference.looks_at_nodes

    def looking(part: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> object:
        looked_at.append(len(part.graph.node))
        return looks(part, graphs)

    with monkeypatch.context() as patch:
        patch.setattr(onnx.shape_inference, "infer_shapes", counting)
        patch.setattr(shape_inference, "looks_at_nodes", looking)
        found = infer_shapes(model)
    assert looked_at == [len(model.graph.node)]
    assert alike(_types(found)) == alike(_types(_infer(model)))
    assert sorted(seen) == sorted(name for node in model.graph.node for name in node.output)


def _branches(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an If in the place of its last node, which cuts, convolves, and cuts again in one branch."""
    source = model.graph.node.pop().input[0]
    inside = [
        oh.make_node("Slice", [source, "from", "to", "axis"], ["i0"]),
        oh.make_node("Conv", ["i0", "w"], ["i1"]),
        oh.make_node("Slice", ["i1", "from", "to", "axis"], ["i2"]),
    ]
    then = oh.make_graph(inside, "then", [], [oh.make_tensor_value_info("i2", FLOAT, None)])
    same = [oh.make_node("Relu", [source], ["j0"])]
    other = oh.make_graph(same, "else", [], [oh.make_tensor_value_info("j0", FLOAT, None)])
    model.graph.node.append(oh.make_node("If", ["is"], ["y"], then_branch=then, else_branch=other))
    model.graph.input.append(value("is", dtype=onnx.TensorProto.BOOL))
    return model


def test_what_is_in_a_subgraph_is_found_too():
    model = _branches(_blocks(3))
    found, whole = infer_shapes(model), _infer(model)
    assert alike(_types(found)) == alike(_types(whole))
    branches, expected = ([a.g for a in each.graph.node[-1].attribute] for each in (found, whole))
    for own, other in zip(branches, expected, strict=True):
        assert len(own.value_info) == len(other.value_info)
        for one, two in zip((*own.value_info, *own.output), (*other.value_info, *other.output), strict=True):
            assert alike({one.name: one.type}) == alike({two.name: two.type})
    assert infer_in_parts(model, [0, 0, 1, 1, 2, 2, 3], _infer)[0] == found


def test_a_constant_that_calls_may_replace_is_an_input_in_its_part_too():
    nodes = [oh.make_node("Relu", ["x"], ["a"]), oh.make_node("Add", ["a", "w"], ["y"])]
    weights = initializer("w", np.ones((2, 3), np.float32))
    model = model_of(nodes, [value("x", 1, 3), value("w", "n", 3)], [UNKNOWN], [weights])
    found, _ = infer_in_parts(model, [0, 1], _infer)
    assert _types(found) == _types(_infer(model))
    assert _types(found)["y"].tensor_type.shape.dim[0].dim_value != 2


def test_negative_nothing_is_found_of_a_result_with_an_extent_below_0():
    """Nor of what follows from it, while inference of the whole knows types of both."""
    nodes = [
        oh.make_node("MaxPool", ["x"], ["p"], kernel_shape=[9, 1]),
        oh.make_node("Relu", ["p"], ["b"]),
        oh.make_node("Relu", ["x"], ["a"]),
        oh.make_node("Relu", ["b"], ["y"]),
    ]
    model = model_of(nodes, [value("x", 1, 4, 5, 9)], [UNKNOWN])
    found, left_out = infer_in_parts(model, [0, 0, 0, 1], _infer)
    assert left_out == nodes[:2]
    types = _types(found)
    assert types.keys() == {"x", "a", "y"} and not types["y"].tensor_type.HasField("shape")
    assert {"p", "b"} < _types(_infer(model)).keys()
