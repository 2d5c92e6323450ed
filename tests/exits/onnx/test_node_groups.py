"""Several ops that are one node: they go out as the node that came in, and as none where none came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.exits.onnx.models import X, came_back, check, counts, evaluate, typed
from tests.frontends.onnx.models import ints, model, node

# --- Split ---


def test_the_slices_of_a_split_are_a_split_again():
    sizes = node("Split", "x parts", "a b", axis=2, name="cut")
    source = typed(
        [sizes, node("Neg", "b", "c")], {"a": [2, 3, 1], "c": [2, 3, 3]}, constants={"parts": ints(1, 3)}
    )
    went = came_back(source, X)
    assert counts(went) == {"Split": 1, "Neg": 1}
    assert next(n.name for n in went.graph.node) == "cut"


def test_a_split_before_version_13_has_its_parts_as_an_attribute():
    source = typed(
        [node("Split", "x", "a b", axis=2, split=[1, 3])], {"a": [2, 3, 1], "b": [2, 3, 3]}, opset=11
    )
    (split,) = came_back(source, X).graph.node
    assert list(split.input) == ["x"]


@pytest.mark.parametrize("outputs", ["a -", "a a2"])
def test_negative_slices_that_were_not_one_split_stay_slices(outputs: str):
    if outputs == "a -":
        nodes = [node("Split", "x parts", "a b", axis=2)]
        source = typed(nodes, {"a": [2, 3, 1]}, constants={"parts": ints(1, 3)})
        expected = {"Slice": 1}
    else:
        nodes = [
            node("Slice", "x zero one axis", "a", name="p"),
            node("Slice", "x one four axis", "a2", name="q"),
        ]
        constants = {"zero": ints(0), "one": ints(1), "four": ints(4), "axis": ints(2)}
        source = typed(nodes, {"a": [2, 3, 1], "a2": [2, 3, 3]}, constants=constants)
        expected = {"Slice": 2}
    assert counts(came_back(source, X)) == expected


# --- DepthToSpace, SpaceToDepth ---

IMAGE = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)


def image(op_type: str, opset: int = 13, **attributes: Any) -> Any:
    """A model of IMAGE: the node, called `move`, between two others."""
    nodes = [node("Neg", "x", "a"), node(op_type, "a", "b", name="move", blocksize=2, **attributes)]
    return model([*nodes, node("Relu", "b")], {"x": IMAGE.shape}, opset=opset)


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize(
    ("op_type", "attributes", "opset"),
    [
        ("DepthToSpace", {}, 9),
        ("DepthToSpace", {"mode": "DCR"}, 13),
        ("DepthToSpace", {"mode": "CRD"}, 11),
        ("SpaceToDepth", {}, 9),
        ("SpaceToDepth", {}, 13),
    ],
)
def test_a_block_that_moved_is_one_node_again(
    op_type: str, attributes: dict[str, str], opset: int, optimized: bool
):
    source = image(op_type, opset, **attributes)
    module = li.from_onnx(source)
    if optimized:
        li.optimize(module, target="onnx")
    went = li.to_onnx(module)
    check(went)
    assert [(n.op_type, n.name) for n in went.graph.node][1] == (op_type, "move")
    assert counts(went) == {"Neg": 1, op_type: 1, "Relu": 1}
    assert went.opset_import[0].version == opset
    np.testing.assert_array_equal(evaluate(went, [IMAGE])[0], evaluate(source, [IMAGE])[0])


def rearranged(digits: list[int], perm: list[int], names: tuple[str, str, str]) -> Any:
    """A model of IMAGE: reshape, transpose, reshape by nodes of these names."""
    nodes = [
        node("Reshape", "x digits", "a", name=names[0]),
        node("Transpose", "a", "b", name=names[1], perm=perm),
        node("Reshape", "b shape", name=names[2]),
    ]
    constants = {"digits": ints(*digits), "shape": ints(2, 2, 8, 12)}
    return model(nodes, {"x": IMAGE.shape}, constants=constants, opset=13)


def test_negative_nodes_that_move_a_block_between_them_stay_what_they_were():
    source = rearranged([2, 2, 2, 2, 4, 6], [0, 1, 4, 2, 5, 3], ("p", "q", "r"))
    went = came_back(source, IMAGE)
    assert counts(went) == {"Reshape": 2, "Transpose": 1}


@pytest.mark.parametrize(
    ("digits", "perm"),
    [
        ([2, 2, 4, 1, 4, 6], [0, 1, 4, 2, 5, 3]),  # a block of 4 by 1
        ([2, 2, 2, 2, 4, 6], [0, 1, 4, 3, 5, 2]),  # the digits the other way round
    ],
)
def test_negative_other_digits_are_no_block(digits: list[int], perm: list[int]):
    module = li.from_onnx(rearranged(digits, perm, ("p", "p", "p")))
    went = li.to_onnx(module)
    check(went)
    assert counts(went) == {"Reshape": 2, "Transpose": 1}
    np.testing.assert_array_equal(evaluate(went, [IMAGE])[0], li.run(module, [IMAGE])[0])


def test_a_block_between_images_with_channels_last_of_extent_one_is_reshaped():
    """Such a Transpose moves nothing, and is a part of the reshape before it."""
    nodes = [
        node("DepthToSpace", "x", "a", blocksize=2, name="move"),
        node("Transpose", "a", perm=[0, 2, 3, 1], name="last"),
    ]
    source = model(nodes, {"x": (2, 4, 3, 5)}, opset=13)
    module = li.from_onnx(source)
    li.optimize(module, target="onnx")
    went = li.to_onnx(module)
    check(went)
    assert counts(went) == {"DepthToSpace": 1, "Reshape": 1}
    x = np.arange(120, dtype=np.float32).reshape(2, 4, 3, 5)
    np.testing.assert_array_equal(evaluate(went, [x])[0], evaluate(source, [x])[0])
