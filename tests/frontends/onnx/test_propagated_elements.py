"""Whatever elements ONNX's inference knows, the nodes that give them are known to propagate some."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.propagated_elements import Links
from layout_ir.frontends.onnx.shape_inference import infer_shapes
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, value

INT64 = onnx.TensorProto.INT64


def _node(op_type: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return oh.make_node(op_type, inputs, ["list"], **attributes)


# Lists that are computed from `shape`, which is ["a", "b", 24], and of the lists `u1` and `u2` that come with the call.
LISTS = [
    _node("Concat", "ends", "u1", axis=0),
    _node("Concat", "u1", "c1", axis=0),
    _node("Concat", "u1", "u1", axis=0),
    _node("Slice", "shape", "c0", "c2"),
    _node("Slice", "shape", "c0", "c2", "u1"),
    _node("Slice", "shape", "c0", "u1"),
    _node("Slice", "u2", "c0", "c1"),
    _node("Gather", "shape", "c1"),
    _node("Gather", "shape", "u2"),
    _node("Gather", "u2", "c1"),
    _node("Add", "ends", "c1"),
    _node("Add", "ends", "u1"),
    _node("Mul", "c1", "c2"),
    _node("Sub", "u1", "ends"),
    _node("Div", "ends", "c1"),
    _node("Unsqueeze", "scalar", "c0"),
    _node("Unsqueeze", "scalar", "u1"),
    _node("Cast", "ends", to=INT64),
    _node("Identity", "ends"),
    _node("Shape", "x"),
    _node("Constant", value=oh.make_tensor("t", INT64, [1], [7])),
]


def _model(node: onnx.NodeProto) -> onnx.ModelProto:
    """A model that asks for the list that a node makes as the extents of a tensor."""
    nodes = [
        oh.make_node("Shape", ["x"], ["shape"]),
        oh.make_node("Slice", ["shape", "c0", "c1"], ["ends"]),
        oh.make_node("Gather", ["shape", "s0"], ["scalar"]),
        node,
        oh.make_node("ConstantOfShape", ["list"], ["y"]),
    ]
    inputs = [value("x", "a", "b", 24), *(value(f"u{n}", n, dtype=INT64) for n in (1, 2))]
    constants = [initializer(f"c{n}", np.array([n])) for n in range(3)] + [initializer("s0", np.array(0))]
    return model_of(nodes, inputs, [oh.make_tensor_value_info("y", FLOAT, None)], constants)


@pytest.mark.parametrize("node", LISTS, ids=lambda node: f"{node.op_type} {' '.join(node.input)}")
def test_a_node_whose_elements_inference_knows_carries_some(node: onnx.NodeProto):
    model = _model(node)
    (result,) = infer_shapes(model).graph.output
    dims = result.type.tensor_type.shape.dim
    is_known = any(dim.HasField("dim_value") or not dim.dim_param.startswith("unk__") for dim in dims)
    names, numbers = Links(model).propagated
    assert (3 in numbers and "list" in names) or not is_known


def test_negative_nodes_that_compute_no_extents_carry_none():
    nodes = [
        oh.make_node("Add", ["x", "x"], ["sum"]),
        oh.make_node("Gather", ["sum", "c1"], ["part"]),
        oh.make_node("Mul", ["part", "half"], ["y"]),
    ]
    constants = [initializer("c1", np.array([1])), initializer("half", np.array([0.5], np.float32))]
    model = model_of(nodes, [value("x", 4, 3)], [value("y", 1, 3)], constants)
    names, numbers = Links(model).propagated
    assert (names, numbers) == ({"c1"}, set())


def test_what_a_new_constant_leads_to_is_carried_too():
    nodes = [oh.make_node("Div", ["u2", "c2"], ["half"]), oh.make_node("Add", ["half", "c1"], ["sum"])]
    nodes.append(oh.make_node("ConstantOfShape", ["sum"], ["y"]))
    constants = [initializer(f"c{n}", np.array([n])) for n in (1, 2)]
    unknown = oh.make_tensor_value_info("y", FLOAT, None)
    links = Links(model_of(nodes, [value("u2", 2, dtype=INT64)], [unknown], constants))
    names, numbers = links.propagated
    assert numbers == set()
    links.propagate(["half"], names, numbers)
    assert (names, numbers) == ({"c1", "c2", "half", "sum"}, {1})


def test_the_givers_of_a_part_are_found_without_going_over_the_part_for_each_of_its_operands():
    class Numbers(list[int]):
        def __contains__(self, number: object) -> bool:
            raise AssertionError("this looks at every node of the part")

    nodes = [oh.make_node("Shape", ["x"], ["extents"])]
    nodes += [oh.make_node("Gather", ["extents", "c1"], [f"part{k}"]) for k in range(3)]
    nodes += [oh.make_node("ConstantOfShape", [f"part{k}"], [f"y{k}"]) for k in range(3)]
    unknown = [oh.make_tensor_value_info(f"y{k}", FLOAT, None) for k in range(3)]
    links = Links(model_of(nodes, [value("x", "a", 3)], unknown, [initializer("c1", np.array([1]))]))
    _, propagating = links.propagated
    assert links.givers(Numbers([2, 4, 5]), propagating) == {0, 1}
    assert links.givers(Numbers([4, 5]), propagating, but={"part0"}) == {0, 2}
