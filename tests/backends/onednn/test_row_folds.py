"""Bags of embeddings in the body of a loop, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layout_ir as li
from layout_ir.backends.onednn.row_folds import with_row_folds
from tests.backends.onednn.small_programs import needs_library, numbers
from tests.backends.onednn.test_control_flow import GOING, TRIP, body, compare, model, value

pytestmark = needs_library

TABLE = numbers((9, 4))
INDICES = np.array([3, 1, 8, 0, 2, 2, 7])
FIRST, LAST = np.array([0, 2, -3, 5]), np.array([2, 6, 7, 99])

SUM = helper.make_node("ReduceSum", ["chosen", "first_axis"], ["bag"], keepdims=0)
LOOKED_UP = helper.make_node("Gather", ["table", "rows"], ["chosen"])
SLICED = helper.make_node("Slice", ["indices", "begin", "end", "first_axis"], ["rows"])


def bags(nodes: Sequence[onnx.NodeProto], bag: onnx.ValueInfoProto | None = None) -> onnx.GraphProto:
    """The body of a loop over bags, whose bounds are `begin` and `end`."""
    return body(
        [
            helper.make_node("Gather", ["first", "trip"], ["low"]),
            helper.make_node("Gather", ["last", "trip"], ["high"]),
            helper.make_node("Unsqueeze", ["low", "first_axis"], ["begin"]),
            helper.make_node("Unsqueeze", ["high", "first_axis"], ["end"]),
            *nodes,
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING],
        [value("c2", np.array(True)), bag or value("bag", TABLE[0])],
    )


def looped(inner: onnx.GraphProto, inputs: dict[str, Any], constants: dict[str, Any]) -> onnx.ModelProto:
    node = helper.make_node("Loop", ["count", "always"], ["y"], body=inner)
    constants |= {"count": np.array(len(FIRST)), "always": np.array(True), "first_axis": np.array([0])}
    return model([node], inputs, [value("y")], constants)


def check(nodes: Sequence[onnx.NodeProto], last: np.ndarray[Any, Any] = LAST, **more: Any) -> None:
    inputs = {"indices": INDICES, "first": FIRST, "last": last, **more}
    keeps = nodes[-1].op_type != "ReduceSum" and nodes[-1].attribute[1].i
    bag = value("bag", TABLE[:1] if keeps else TABLE[0])
    made = looped(bags(nodes, bag), inputs, {"table": TABLE})
    compare(made, inputs, {**inputs, "first": FIRST[::-1].copy(), "last": last[::-1].copy()})


def test_axes_among_the_constants_of_the_subgraph():
    inputs = {"indices": INDICES, "first": FIRST, "last": LAST}
    inner = bags([SLICED, LOOKED_UP, SUM])
    inner.initializer.append(numpy_helper.from_array(np.array([0]), "first_axis"))
    node = helper.make_node("Loop", ["count", "always"], ["y"], body=inner)
    constants = {"table": TABLE, "count": np.array(len(FIRST)), "always": np.array(True)}
    made = model([node], inputs, [value("y")], constants)
    compare(made, inputs)


@pytest.mark.parametrize("last", [LAST, np.array([0, 1, 0, 5])], ids=["rows", "without rows"])
def test_sums_of_rows_between_numbers(last: Any):
    check([SLICED, LOOKED_UP, SUM], last)


def test_a_mean_of_no_rows_is_what_onnx_runtime_has_for_it():
    fold = helper.make_node("ReduceMean", ["chosen"], ["bag"], axes=[0], keepdims=0)
    check([SLICED, LOOKED_UP, fold], np.array([0, 1, 0, 5]))


def test_what_is_used_many_times_is_computed_once():
    doubled = [helper.make_node("Add", [f"d{k}", f"d{k}"], [f"d{k + 1}"]) for k in range(60)]
    nodes = [SLICED, helper.make_node("Gather", ["table", "rows"], ["d0"]), *doubled]
    fold = helper.make_node("ReduceSum", ["d60", "first_axis"], ["bag"], keepdims=0)
    types = {"indices": ("i64", (7,)), "table": ("f32", (9, 4))}
    changed = with_row_folds(bags([*nodes, fold]), types, {"first_axis": np.array([0])})
    assert changed is not None
    [loop] = [node for node in changed.node if node.op_type == "Loop"]
    assert sum(node.op_type == "Add" for node in loop.attribute[0].g.node) == 60 + 2
    check([*nodes[:5], helper.make_node("ReduceSum", ["d3", "first_axis"], ["bag"], keepdims=0)])


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_other_folds_of_rows(kind: str, keepdims: int):
    fold = helper.make_node(kind, ["chosen"], ["bag"], axes=[0], keepdims=keepdims)
    check([SLICED, LOOKED_UP, fold])


def test_rows_are_weighed():
    nodes = [
        SLICED,
        helper.make_node("Gather", ["table", "rows"], ["found"]),
        helper.make_node("Slice", ["w", "begin", "end", "first_axis"], ["v"]),
        helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.array([1]))),
        helper.make_node("Unsqueeze", ["v", "one"], ["column"]),
        helper.make_node("Mul", ["found", "column"], ["chosen"]),
        SUM,
    ]
    check(nodes, w=numbers(INDICES.shape, 1))


def test_negative_what_is_no_fold_of_rows_stays():
    types = {"indices": ("i64", (7,)), "table": ("f32", (9, 4)), "wide": ("i64", (7, 7))}
    constants = {"first_axis": np.array([0]), "second": np.array([1]), "two": np.array([2])}
    assert with_row_folds(bags([SLICED, LOOKED_UP, SUM]), types, constants) is not None
    others = [
        [SLICED, LOOKED_UP, helper.make_node("ReduceSum", ["chosen", "second"], ["bag"])],
        [SLICED, helper.make_node("Gather", ["table", "rows"], ["chosen"], axis=1), SUM],
        [helper.make_node("Slice", ["wide", "begin", "end", "second"], ["rows"]), LOOKED_UP, SUM],
        [
            helper.make_node("Slice", ["indices", "begin", "end", "first_axis", "two"], ["rows"]),
            LOOKED_UP,
            SUM,
        ],
        [helper.make_node("Slice", ["indices", "first_axis", "two"], ["rows"]), LOOKED_UP, SUM],
        [SLICED, LOOKED_UP, helper.make_node("ReduceProd", ["chosen"], ["bag"], axes=[0])],
        [SLICED, helper.make_node("Exp", ["rows"], ["chosen"]), SUM],
    ]
    for nodes in others:
        assert with_row_folds(bags(nodes), types, constants) is None
    assert with_row_folds(bags([SLICED, LOOKED_UP, SUM]), {}, constants) is None


def test_a_bag_of_which_no_shape_is_said():
    inputs = {"indices": INDICES, "first": FIRST, "last": LAST}
    made = looped(bags([SLICED, LOOKED_UP, SUM], value("bag")), inputs, {"table": TABLE})
    compare(made, inputs)


def test_negative_integers_are_summed_by_the_reference():
    nodes = [SLICED, helper.make_node("ReduceSum", ["rows", "first_axis"], ["bag"], keepdims=0)]
    inputs = {"indices": INDICES, "first": FIRST, "last": LAST}
    executable = li.compile(looped(bags(nodes, value("bag", np.array(0))), inputs, {}))
    [sums] = executable(inputs)
    np.testing.assert_array_equal(sums, [4, 12, 11, 9])
