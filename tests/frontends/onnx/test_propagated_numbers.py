"""What may be below 0 among the numbers that a model computes, beside what ONNX's inference makes of them."""

from __future__ import annotations

import random
from typing import Any

import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.propagated_numbers import PropagatedNumbers

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def _model(nodes: list[Any], constants: dict[str, list[int]], shape: str) -> onnx.ModelProto:
    """x expanded to `shape`, which nodes compute from constants."""
    graph = oh.make_graph(
        [*nodes, oh.make_node("Expand", ["x", shape], ["e"])],
        "g",
        [oh.make_tensor_value_info("x", FLOAT, [1, 1])],
        [oh.make_tensor_value_info("e", FLOAT, None)],
        [oh.make_tensor(name, INT64, [len(values)], values) for name, values in constants.items()],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)


def _may_be_negative(model: onnx.ModelProto, name: str) -> bool:
    return PropagatedNumbers([model.graph]).may_be_negative(name)


def _random_model(seed: int) -> tuple[onnx.ModelProto, str]:
    """Two numbers computed by a few operators, of constants of which most are not below 0."""
    choose = random.Random(seed)
    places = {"first": [0], "both": [0, 1], "turned": [1, 0], "last": [-1], "two": [2], "zero": [0]}
    constants = {
        f"c{k}": [choose.choice((0, 1, 2, 3, 5, 9, 40, 1 << 20, -1, -4)) for _ in "ab"] for k in range(3)
    }
    values = ["extents", *constants]
    nodes = [oh.make_node("Shape", ["x"], ["extents"])]
    for k in range(choose.randint(1, 6)):
        operator = choose.choice(("Add", "Sub", "Mul", "Gather", "Concat", "Slice", "Cast", "Max"))
        a, b = choose.choice(values), choose.choice(values)
        made = f"v{k}"
        match operator:
            case "Add" | "Sub" | "Mul":
                nodes.append(oh.make_node(operator, [a, b], [made]))
            case "Gather":
                nodes.append(oh.make_node("Gather", [a, choose.choice(("both", "turned"))], [made]))
            case "Concat":
                halves = [f"{made} a", f"{made} b"]
                nodes += [
                    oh.make_node("Gather", [x, "last"], [half])
                    for x, half in zip((a, b), halves, strict=True)
                ]
                nodes.append(oh.make_node("Concat", halves, [made], axis=0))
            case "Slice":
                nodes.append(oh.make_node("Slice", [a, "zero", "two"], [made]))
            case "Cast":
                nodes.append(oh.make_node("Cast", [a], [made], to=INT64))
            case _:
                nodes.append(oh.make_node("Max", [a, b], [made]))
        values.append(made)
    return _model(nodes, constants | places, values[-1]), values[-1]


def test_whatever_inference_finds_below_0_is_told():
    found: list[tuple[bool, bool]] = []
    for seed in range(600):
        model, shape = _random_model(seed)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        (result,) = inferred.graph.output
        is_negative = any(dim.dim_value < 0 for dim in result.type.tensor_type.shape.dim)
        told = _may_be_negative(model, shape)
        assert told or not is_negative, model
        found.append((is_negative, told))
    assert found.count((True, True)) > 50 and found.count((False, False)) > 100


@pytest.mark.parametrize(
    ("operator", "constants", "told"),
    [
        ("Add", {"a": [4, 4], "b": [0, 7]}, False),
        ("Mul", {"a": [4, 4], "b": [1, 7]}, False),
        ("Mul", {"a": [4, 4], "b": [1, -7]}, True),
        ("Mul", {"a": [1 << 20, 4], "b": [1 << 20, 1]}, True),
        ("Sub", {"a": [4, 4], "b": [1, 1]}, True),
        ("Max", {"a": [4, 4], "b": [-1, 1]}, False),
    ],
)
def test_arithmetic(operator: str, constants: dict[str, list[int]], told: bool):
    model = _model([oh.make_node(operator, ["a", "b"], ["s"])], constants, "s")
    assert _may_be_negative(model, "s") is told


def test_products_of_extents_that_types_say_are_large():
    nodes = [oh.make_node("Shape", ["x"], ["h"]), oh.make_node("Mul", ["h", "one"], ["s"])]
    model = _model(nodes, {"one": [1, 1]}, "s")
    assert not _may_be_negative(model, "s")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 40
    assert _may_be_negative(model, "s")


def test_negative_what_follows_from_itself_or_is_made_twice_is_not_trusted():
    nodes = [oh.make_node("Add", ["s", "one"], ["t"]), oh.make_node("Add", ["t", "one"], ["s"])]
    assert _may_be_negative(_model(nodes, {"one": [1, 1]}, "s"), "s")
    twice = [oh.make_node("Add", ["one", "one"], ["s"])] * 2
    assert _may_be_negative(_model(twice, {"one": [1, 1]}, "s"), "s")
    chain = [oh.make_node("Add", ["one" if k == 0 else f"v{k - 1}", "zero"], [f"v{k}"]) for k in range(5000)]
    assert _may_be_negative(_model(chain, {"one": [1, 1], "zero": [0, 0]}, "v4999"), "v4999")
