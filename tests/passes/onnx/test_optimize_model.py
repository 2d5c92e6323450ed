"""Whole models: every operator behind Transposes in every order, random graphs, and what a model may be besides."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx import model_certificate, typed_graphs
from layout_ir.passes.onnx.order_search import OrderSearch
from layout_ir.passes.onnx.orders import identity
from layout_ir.passes.onnx.transpose_speed import ns_by_element
from layout_ir.selection.solver import selection_problem
from tests.passes.onnx.blocked_networks import BLOCK, Op, floats, left, moves, names, network, optimized
from tests.passes.onnx.operators import CASES, Case
from tests.passes.onnx.optimized import (
    FLOAT,
    check_optimized,
    compare,
    count_transposes,
    initializer,
    model_of,
    op_types,
    random_feeds,
    transpose,
    value,
)
from tests.passes.onnx.random_models import random_model
from tests.passes.onnx.restated_models import WAYS, WHICH
from tests.processes import run_python
from tests.seeds import seeds

TARGETS = ("onnx", "ort-cpu")
X = (2, 3, 4, 5)
_SAMPLE = 2


def _check_case(case: Case, orders: dict[int, tuple[int, ...]], out_order: int | None, seed: int) -> None:
    model = case.model(orders, out_order)
    for target in TARGETS:
        check_optimized(model, case.feeds(model, seed), target)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_operators_compute_the_same_behind_transposes(case: Case):
    random = Random(case.title)
    for seed in range(_SAMPLE):
        shapes = {k: given for k, given in enumerate(case.inputs) if isinstance(given, tuple)}
        orders = {k: tuple(random.sample(range(len(shape)), len(shape))) for k, shape in shapes.items()}
        _check_case(case, orders, random.choice((None, random.randrange(24))), seed)


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_operators_compute_the_same_behind_every_transpose(case: Case):
    shapes = {k: given for k, given in enumerate(case.inputs) if isinstance(given, tuple)}
    for number, order in enumerate(permutations(range(4))):
        # Each input alone, and all of them in orders of their own.
        for alone in shapes:
            if len(shapes[alone]) == 4:
                _check_case(case, {alone: order}, None, number)
                _check_case(case, {alone: order}, number, number)
        each = {k: list(permutations(range(len(shape)))) for k, shape in shapes.items()}
        together = {k: perms[(7 * number + 5 * k) % len(perms)] for k, perms in each.items()}
        _check_case(case, together, (11 * number) % 24, number)


def _check_random(seed: int) -> None:
    random = Random(seed)
    model, feeds = random_model(random, random.choice((4, 8, 12, 20)))
    dynamic = any(dim.dim_param for v in model.graph.input for dim in v.type.tensor_type.shape.dim)
    for target in TARGETS:
        check_optimized(model, feeds, target, compares_bytes=not dynamic)
    li.optimize_onnx(model, inputs="free")
    check_optimized(model, feeds, inputs="free", outputs="free", compares_bytes=not dynamic)


@pytest.mark.parametrize("group", seeds(4, 32))
def test_random_models_compute_the_same(group: int):
    for seed in range(10 * group, 10 * group + 10):
        _check_random(seed)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("group", seeds(2, 16))
def test_models_that_are_said_otherwise_cost_no_more(way: str, group: int):
    found = 0
    for seed in range(6 * group, 6 * group + 6):
        random, target = Random(seed), TARGETS[seed % 2]
        model, feeds = random_model(random, 10)
        restated = WAYS[way](model, random)
        if restated is None:
            continue
        found += 1
        other, times = restated
        dynamic = any(dim.dim_param for v in model.graph.input for dim in v.type.tensor_type.shape.dim)
        result = check_optimized(model, feeds, target, compares_bytes=not dynamic)
        feeds = {**feeds, WHICH: np.array(True)} if way == "in_branches" else feeds
        again = check_optimized(other, feeds, target, compares_bytes=not dynamic)
        assert again.after.cost <= times * result.after.cost or dynamic
    assert found


# The search -----------------------------------------------------------------------------------------------------


def test_what_was_found_when_the_search_ended_costs_no_more_and_computes_the_same():
    unproven = 0
    for seed in range(24):
        model, feeds = random_model(Random(seed), 12)
        result = li.optimize_onnx(model, time_limit=0)
        assert count_transposes(result.model.graph) == result.after.count == len(result.remaining)
        assert result.after.count <= result.before.count and result.after.cost <= result.before.cost
        compare(model, result.model, feeds, result, 1e-4)
        unproven += not result.solution.is_optimal
    assert unproven


def _reduced() -> onnx.ModelProto:
    """A Transpose of a wide tensor and three reductions of its channels: on the tensor as it came, three small ones."""
    reductions = ("ReduceMax", "ReduceMin", "ReduceSumSquare")
    nodes = [transpose("x", "t", 0, 3, 2, 1)]
    nodes += [oh.make_node(each, ["t"], [each], axes=[3], keepdims=0) for each in reductions]
    return model_of(nodes, [value("x", 2, 64, 8, 9)], [value(each, 2, 9, 8) for each in reductions], opset=13)


@pytest.mark.parametrize("is_proven", [True, False])
def test_more_transposes_that_move_less_are_no_gain_proven_or_not(
    is_proven: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(selection_problem.Solution, "is_optimal", is_proven)
    result = li.optimize_onnx(_reduced())
    assert (result.after, op_types(result.model)) == (result.before, op_types(_reduced()))


def test_negative_as_many_transposes_that_move_less_are_a_gain(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selection_problem.Solution, "is_optimal", False)
    model = _reduced()
    del model.graph.node[2:], model.graph.output[1:]
    result = li.optimize_onnx(model)
    assert op_types(result.model) == ["ReduceMax", "Transpose"] and result.after.count == 1


def test_negative_where_nothing_better_was_found_in_time_the_model_stays(monkeypatch: pytest.MonkeyPatch):
    model = _around(oh.make_node("Relu", ["t"], ["u"]), (0, 2, 3, 1), (0, 3, 1, 2))

    def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(OrderSearch, "_is_better", never)
    monkeypatch.setattr(selection_problem.Solution, "is_optimal", False)
    result = li.optimize_onnx(model)
    assert op_types(result.model) == op_types(model)
    assert (result.after, len(result.remaining)) == (result.before, 2)


@pytest.mark.parametrize("time_limit", [-1.0, float("nan"), "5"])
def test_negative_a_time_limit_is_a_number_of_seconds(time_limit: Any):
    with pytest.raises(LayoutError, match=f"time_limit = {time_limit!r} is no number of seconds"):
        li.optimize_onnx(model_of([], [], []), time_limit=time_limit)


# The boundary ---------------------------------------------------------------------------------------------------


def _around(op: onnx.NodeProto, *perms: tuple[int, ...]) -> onnx.ModelProto:
    """An operator on 't' that gives 'u', between two Transposes from 'x' to 'y'."""
    first, last = perms
    shape = [X[d] for d in first]
    nodes = [transpose("x", "t", *first), op, transpose("u", "y", *last)]
    return model_of(nodes, [value("x", *X)], [value("y", *(shape[d] for d in last))])


def test_free_inputs_and_outputs_are_asked_of_callers():
    model = _around(oh.make_node("Softmax", ["t"], ["u"], axis=1), (0, 3, 1, 2), (1, 0, 2, 3))
    assert check_optimized(model).obligations == []
    result = check_optimized(model, inputs="free", outputs="free")
    assert result.after.count == 0 and result.obligations
    for entry in result.obligations:
        assert entry.nbytes == 2 * 4 * 120


@pytest.mark.parametrize("inputs", ["keep", "free"])
@pytest.mark.parametrize("outputs", ["keep", "free"])
def test_negative_what_has_somebody_elses_name_is_not_free(inputs: str, outputs: str):
    relu = oh.make_node("Relu", ["t"], ["u"])
    model = _around(relu, (0, 3, 1, 2), (1, 0, 2, 3))
    model.graph.output.append(value("x", *X))
    result = check_optimized(model, inputs=inputs, outputs=outputs)
    assert "x" not in {entry.name for entry in result.obligations}

    captured = _around(relu, (0, 3, 1, 2), (1, 0, 2, 3))
    branches = [
        oh.make_graph([oh.make_node("Neg", [name], [f"{name}_n"])], name, [], [value(f"{name}_n", *shape)])
        for name, shape in (("x", X), ("x2", X))
    ]
    captured.graph.node.insert(0, oh.make_node("Identity", ["x"], ["x2"]))
    captured.graph.node.append(
        oh.make_node("If", ["c"], ["z"], then_branch=branches[0], else_branch=branches[1])
    )
    captured.graph.input.append(value("c", dtype=onnx.TensorProto.BOOL))
    captured.graph.output.append(value("z", *X))
    feeds = {"x": random_feeds(model)["x"], "c": np.array(True)}
    result = check_optimized(captured, feeds, inputs=inputs, outputs=outputs)
    assert "x" not in {entry.name for entry in result.obligations}

    default = _around(relu, (0, 3, 1, 2), (1, 0, 2, 3))
    default.graph.initializer.append(initializer("x", np.ones(X, np.float32)))
    check_optimized(default, {}, inputs=inputs, outputs=outputs)
    check_optimized(default, random_feeds(model), inputs=inputs, outputs=outputs)


def test_outputs_that_are_one_tensor_or_an_input_or_a_constant():
    nodes = [transpose("x", "a", 1, 0), transpose("x", "b", 1, 0), oh.make_node("Identity", ["a"], ["c"])]
    nodes += [transpose("w", "v", 1, 0)]
    outputs = [*(value(name, 3, 2) for name in "abcv"), value("x", 2, 3), value("w", 2, 3)]
    model = model_of(nodes, [value("x", 2, 3)], outputs, [initializer("w", [[1.0, 2, 3], [4, 5, 6]])])
    for freedom in ("keep", "free"):
        check_optimized(model, outputs=freedom)


def _three_in_front_of_one() -> onnx.ModelProto:
    """One Transpose behind a Concat with a constant, which three of the others would replace in fewer bytes."""
    nodes = [oh.make_node("Relu", [name], [f"{name}r"]) for name in "abc"]
    nodes += [
        oh.make_node("Concat", ["ar", "w", "br", "w", "cr"], ["j"], axis=0),
        transpose("j", "y", 1, 2, 0),
    ]
    weights = initializer("w", np.ones((9, 16, 16), np.float32))
    return model_of(nodes, [value(name, 8, 16, 16) for name in "abc"], [value("y", 16, 16, 42)], [weights])


@pytest.mark.parametrize("target", TARGETS)
def test_negative_fewer_bytes_in_more_transposes_are_no_gain(target: str):
    model = _three_in_front_of_one()
    # Each Relu but one gives its result transposed, where its operand comes so.
    turned = [transpose(f"{name}t", name, 2, 0, 1) for name in "ab"]
    mixed = model_of(
        [*turned, *model.graph.node],
        [value("at", 16, 16, 8), value("bt", 16, 16, 8), value("c", 8, 16, 16)],
        list(model.graph.output),
        list(model.graph.initializer),
    )
    assert check_optimized(mixed, target=target).after.count == 1
    result = check_optimized(model, target=target, certificate=True)
    assert (result.after.count, op_types(result.model)) == (1, op_types(model))
    assert any("KiB" in note for note in result.notes)
    assert result.certificate is not None
    model_certificate.check_model(result.certificate, result.model, target, {})
    result.certificate["origin"]["transpose_kib"] = -1
    with pytest.raises(LayoutError, match="transpose_kib = -1"):
        model_certificate.check_model(result.certificate, result.model, target, {})


def _heads(batch: int) -> onnx.ModelProto:
    """Queries, keys and values of 4 heads, cut from one tensor and brought into pictures with their channels second."""
    nodes = [
        transpose("x", "t", 2, 0, 3, 1, 4),
        oh.make_node("Split", ["t"], ["q", "k", "v"], axis=0, num_outputs=3),
    ]
    outputs: list[onnx.ValueInfoProto] = []
    for name in "qkv":
        nodes += [
            oh.make_node("Squeeze", [name, "axes"], [f"{name}_rows"]),
            oh.make_node("Reshape", [f"{name}_rows", "bare"], [f"{name}_heads"]),
            transpose(f"{name}_heads", f"{name}_turned", 0, 2, 1),
            oh.make_node("Reshape", [f"{name}_turned", "pictures"], [f"{name}_pictures"]),
        ]
        outputs.append(value(f"{name}_pictures", 4 * batch, 32, 16, 16))
    constants = [
        initializer("axes", [0]),
        initializer("bare", [4 * batch, 256, 32]),
        initializer("pictures", [4 * batch, 32, 16, 16]),
    ]
    return model_of(nodes, [value("x", batch, 256, 3, 4, 32)], outputs, constants)


@pytest.mark.parametrize("batch", [1, 2])
def test_of_transposes_that_move_as_much_those_are_written_that_the_runtime_moves_in_runs(batch: int):
    model = _heads(batch)
    result = check_optimized(model, target="ort-cpu", certificate=True)
    assert result.after.nbytes < result.before.nbytes
    (perm,) = [list(n.attribute[0].ints) for n in result.model.graph.node if n.op_type == "Transpose"]
    shape = (batch, 256, 3, 4, 32)
    assert batch > 1 or not ns_by_element(identity(5), tuple(perm), shape)
    assert result.certificate is not None and result.certificate["origin"]["weighs_dims"] == (batch == 1)
    model_certificate.check_model(result.certificate, result.model, "ort-cpu", {})


def test_negative_dims_are_not_weighed_where_no_transpose_is_slow():
    model = model_of(
        [transpose("x", "y", 0, 2, 3, 1)], [value("x", 1, 64, 32, 32)], [value("y", 1, 32, 32, 64)]
    )
    result = check_optimized(model, target="ort-cpu", certificate=True)
    assert result.certificate is not None and not result.certificate["origin"]["weighs_dims"]


# Extents of the run time ------------------------------------------------------------------------------------------


def test_negative_reorders_into_blocks_are_no_transposes_too_many():
    ops: list[Op] = [("Transpose", ["x"], "t", {"perm": [0, 3, 1, 2]}), ("Conv", ["t", "v"], "c0", {})]
    for k in range(3):
        ops += [("CumSum", [f"c{k}", "axis"], f"s{k}", {}), ("Conv", [f"s{k}", "w"], f"c{k + 1}", {})]
    weights = {"v": floats(BLOCK, 4, 1, 1), "w": floats(BLOCK, BLOCK, 1, 1) / BLOCK, "axis": np.array(2)}
    model = network(ops, weights, {"x": (1, 16, 16, 4)}, ["c3"])
    found, _ = optimized(model)
    # If a Transpose counted as more, a reorder into blocks and one out of them would stand for it.
    assert found[:3] == ["Transpose", "Conv*", "ReorderOutput*"] and moves(found) == 8 == moves(
        names(left(model))
    )


def test_shapes_that_are_given_decide_nothing_but_bytes():
    nodes = [transpose("x", "t", 0, 2, 3, 1), oh.make_node("Relu", ["t"], ["r"])]
    nodes += [oh.make_node("Reshape", ["r", "shape"], ["u"]), transpose("u", "y", 0, 2, 1)]
    model = model_of(
        nodes, [value("x", "N", 3, "H", "W")], [value("y", "N", 3, "L")], [initializer("shape", [0, -1, 3])]
    )
    feeds = random_feeds(model, N=2, H=4, W=5)
    fixed = check_optimized(model, feeds, shapes={"x": (1, 3, 7, 7)})
    assert fixed.before.nbytes == 2 * 2 * 4 * 3 * 49
    assert fixed.after.count == 0
    dims = fixed.model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["N", "", "H", "W"]
    turned = model_of(
        [transpose("x", "t", 1, 0, 2), oh.make_node("Relu", ["t"], ["y"])],
        [value("x", "N", 3, 4)],
        [value("y", 3, "N", 4)],
    )
    check_optimized(turned, random_feeds(turned, N=2), shapes={"x": (1, 3, 4)})
    check_optimized(turned, random_feeds(turned, N=2), shapes={"x": (1, 3, 4)}, inputs="free")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1, 3, 4)}, r"shapes names 'z', which is no input of the model; its inputs: 'x'"),
        ({"x": (1, 3)}, r"input 'x' the shape 1x3, the model says \?x3x4"),
        ({"x": (1, 7, 4)}, r"input 'x' the shape 1x7x4, the model says \?x3x4"),
        ({"x": (-1, 3, 4)}, "an extent is negative"),
    ],
)
def test_negative_shapes_that_inputs_cannot_have(shapes: dict[str, tuple[int, ...]], message: str):
    model = model_of([transpose("x", "y", 1, 0, 2)], [value("x", "N", 3, 4)], [value("y", 3, "N", 4)])
    with pytest.raises(LayoutError, match=message):
        li.optimize_onnx(model, shapes=shapes)


def test_empty_tensors_and_scalars():
    nodes = [transpose("x", "t", 0, 2, 3, 1), oh.make_node("Relu", ["t"], ["r"])]
    nodes += [oh.make_node("Concat", ["r", "r"], ["c"], axis=3), transpose("c", "y", 0, 3, 1, 2)]
    check_optimized(model_of(nodes, [value("x", 2, 3, 0, 5)], [value("y", 2, 6, 0, 5)]))
    nodes = [oh.make_node("Transpose", ["x"], ["t"]), oh.make_node("Relu", ["t"], ["r"])]
    nodes += [oh.make_node("Transpose", ["r"], ["y"])]
    result = check_optimized(model_of(nodes, [value("x")], [value("y")]), {"x": np.array(-2, np.float32)})
    assert result.after.count == 0


# Models of others -------------------------------------------------------------------------------------------------


def test_an_operator_that_nobody_knows_stays_as_it_is():
    op = oh.make_node("Thing", ["t"], ["u"], domain="my", name="it", k=3, doc_string="what it does")
    nodes = [
        transpose("x", "t0", 0, 2, 3, 1),
        transpose("t0", "t", 0, 3, 1, 2),
        op,
        transpose("u", "y", 0, 2, 3, 1),
    ]
    result = li.optimize_onnx(model_of(nodes, [value("x", *X)], [value("y", 2, 4, 5, 3)]))
    assert op_types(result.model) == ["Thing", "Transpose"]
    wanted = onnx.NodeProto()
    wanted.CopyFrom(op)
    wanted.input[0] = "x"
    assert result.model.graph.node[0] == wanted


@pytest.mark.parametrize("perm", [(0, 0, 3, 1), (0, 2, 1), None])
def test_a_transpose_that_is_not_understood_stays_and_is_counted(perm: tuple[int, ...] | None):
    """Of a value of unknown rank, or with a perm that does not fit: the search for orders ends nevertheless."""
    attributes: dict[str, Any] = {} if perm is None else {"perm": perm}
    source = oh.make_node(
        "Thing" if perm is None else "Relu", ["x"], ["r"], domain="my" if perm is None else ""
    )
    nodes = [
        source,
        oh.make_node("Transpose", ["r"], ["t"], **attributes),
        oh.make_node("Thing", ["t"], ["y"], domain="my"),
    ]
    result = li.optimize_onnx(
        model_of(nodes, [value("x", *X)], [oh.make_tensor_value_info("y", FLOAT, None)])
    )
    assert result.before.count == result.after.count == len(result.remaining) == 1
    assert ("rank" if perm is None else "perm") in result.remaining[0].reason


def test_subgraphs_take_outer_values_in_the_order_of_the_model():
    inner = oh.make_graph(
        [transpose("a", "i1", 0, 2, 3, 1), oh.make_node("Relu", ["i1"], ["i2"]), transpose("i2", "i3", 0, 3, 1, 2)],
        "inner", [], [value("i3", 2, 4, 5, 3)],
    )  # fmt: skip
    constant = oh.make_graph([transpose("w", "k", 0, 2, 3, 1)], "constant", [], [value("k", 2, 4, 5, 3)])
    nested = oh.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=constant)
    then_branch = oh.make_graph([nested], "then", [], [value("o", 2, 4, 5, 3)])
    else_branch = oh.make_graph([oh.make_node("Neg", ["a"], ["e"])], "else", [], [value("e", 2, 4, 5, 3)])
    nodes = [transpose("x", "a", 0, 2, 3, 1)]
    nodes += [oh.make_node("If", ["c"], ["z"], then_branch=then_branch, else_branch=else_branch)]
    nodes += [
        transpose("z", "y", 0, 3, 1, 2),
        oh.make_node("Relu", ["a"], ["r"]),
        transpose("r", "y2", 0, 3, 1, 2),
    ]
    inputs = [value("x", *X), value("c", dtype=onnx.TensorProto.BOOL)]
    weights = initializer("w", np.arange(120, dtype=np.float32).reshape(X))
    model = model_of(nodes, inputs, [value("y", *X), value("y2", *X)], [weights])
    for test in (True, False):
        feeds = {"x": np.linspace(-1, 1, 120, dtype=np.float32).reshape(X), "c": np.array(test)}
        result = check_optimized(model, feeds)
        assert (result.before.count, result.after.count) == (6, 2)


def test_a_model_without_transposes_is_not_looked_at_further(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(typed_graphs, "graphs_of_model", None)
    model = model_of([oh.make_node("Relu", ["x"], ["y"])], [value("x", *X)], [value("y", *X)])
    result = li.optimize_onnx(model)
    assert result.model == model and result.solution.is_optimal
    assert (result.before.count, result.after.count) == (0, 0)


def test_negative_transposes_in_a_subgraph_alone_are_seen():
    pair = [transpose("x", "a", 0, 2, 3, 1), transpose("a", "t", 0, 3, 1, 2)]
    then_branch = oh.make_graph(pair, "then", [], [value("t", *X)])
    else_branch = oh.make_graph([oh.make_node("Neg", ["x"], ["e"])], "else", [], [value("e", *X)])
    node = oh.make_node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch)
    inputs = [value("x", *X), value("c", dtype=onnx.TensorProto.BOOL)]
    result = li.optimize_onnx(model_of([node], inputs, [value("y", *X)]))
    assert (result.before.count, result.after.count) == (2, 0)


def test_loops_and_scans():
    boolean, integer = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    body = oh.make_graph(
        [
            transpose("v", "v1", 1, 0), oh.make_node("Add", ["v1", "outer"], ["v2"]), transpose("v2", "v3", 1, 0),
            oh.make_node("Identity", ["go"], ["on"]), transpose("v3", "each", 1, 0),
        ],
        "body", [value("i", dtype=integer), value("go", dtype=boolean), value("v", 2, 3)],
        [value("on", dtype=boolean), value("v3", 2, 3), value("each", 3, 2)],
    )  # fmt: skip
    nodes = [transpose("x", "xt", 1, 0), transpose("z", "outer", 1, 0), transpose("xt", "x2", 1, 0)]
    nodes += [oh.make_node("Loop", ["times", "", "x2"], ["f", "s"], body=body), transpose("f", "o", 1, 0)]
    outputs = [value("o", 3, 2), value("s", 3, 3, 2)]
    model = model_of(
        nodes, [value("x", 2, 3), value("z", 2, 3)], outputs, [initializer("times", np.array(3))]
    )
    result = check_optimized(model)
    assert (result.before.count, result.after.count) == (7, 2)

    step = oh.make_graph(
        [transpose("e", "e1", 1, 0), oh.make_node("Add", ["state", "e1"], ["next"]), transpose("next", "out", 1, 0)],
        "step", [value("state", 3, 2), value("e", 2, 3)], [value("next", 3, 2), value("out", 2, 3)],
    )  # fmt: skip
    nodes = [transpose("x", "xt", 1, 0, 2), transpose("o", "y", 2, 1, 0)]
    nodes.insert(
        1, oh.make_node("Scan", ["s0", "xt"], ["f", "o"], body=step, num_scan_inputs=1, scan_input_axes=[1])
    )
    start = initializer("s0", np.ones((3, 2), np.float32))
    check_optimized(model_of(nodes, [value("x", 4, 2, 3)], [value("f", 3, 2), value("y", 3, 2, 4)], [start]))


def test_functions_whose_transposes_meet_others_are_written_out():
    body = [
        transpose("p", "q1", 0, 3, 1, 2),
        oh.make_node("Relu", ["q1"], ["q2"]),
        transpose("q2", "q", 0, 2, 3, 1),
    ]
    function = oh.make_function("my", "F", ["p"], ["q"], body, [oh.make_opsetid("", 18)])
    nodes = [oh.make_node("F", [x], [y], domain="my") for x, y in ("xa", "ab", "by")]
    model = model_of(nodes, [value("x", *X)], [value("y", *X)], functions=[function])
    result = check_optimized(model)
    assert op_types(result.model) == ["Relu"] * 3 and not result.model.functions


def test_negative_functions_stay_where_nothing_is_won_by_their_transposes():
    body = [transpose("p", "q1", 0, 3, 1, 2), oh.make_node("Relu", ["q1"], ["q"])]
    function = oh.make_function("my", "F", ["p"], ["q"], body, [oh.make_opsetid("", 18)])
    nodes = [oh.make_node("F", ["x"], ["a"], domain="my"), oh.make_node("Softmax", ["a"], ["y"])]
    n, c, h, w = X
    model = model_of(nodes, [value("x", *X)], [value("y", n, w, c, h)], functions=[function])
    result = check_optimized(model)
    assert result.model == model and result.notes == [
        "Transposes in the bodies of functions: 1, which stay and are not counted"
    ]


def test_local_functions_mean_what_they_say():
    # A function of the name of an operator that may run on any order, whose body may not.
    body = [oh.make_node("Softmax", ["p"], ["q"], axis=-1)]
    function = oh.make_function("com.microsoft", "Gelu", ["p"], ["q"], body, [oh.make_opsetid("", 18)])
    nodes = [transpose("x", "a", 0, 2, 3, 1), oh.make_node("Gelu", ["a"], ["b"], domain="com.microsoft")]
    nodes += [transpose("b", "y", 0, 3, 1, 2)]
    model = model_of(nodes, [value("x", *X)], [value("y", *X)], functions=[function])
    assert li.optimize_onnx(model).after.count == 2


def test_sequences_optionals_and_strings():
    nodes = [transpose("x", "a", 0, 2, 1), transpose("x", "b", 0, 2, 1)]
    nodes += [oh.make_node("SequenceConstruct", ["a", "b"], ["s"]), oh.make_node("Identity", ["s"], ["s2"])]
    nodes += [
        oh.make_node("ConcatFromSequence", ["s2"], ["c"], axis=0),
        oh.make_node("Optional", ["c"], ["d"]),
    ]
    nodes += [oh.make_node("OptionalGetElement", ["d"], ["e"]), transpose("e", "y", 0, 2, 1)]
    assert check_optimized(model_of(nodes, [value("x", 2, 3, 4)], [value("y", 4, 3, 4)])).after.count == 2

    text = onnx.TensorProto(name="w", data_type=onnx.TensorProto.STRING, dims=[2, 3])
    text.string_data.extend([b"a", b"b", b"c", b"d", b"e", b"f"])
    nodes = [transpose("w", "wt", 1, 0), oh.make_node("Identity", ["wt"], ["y"]), transpose("x", "t", 1, 0)]
    nodes += [oh.make_node("Relu", ["t"], ["r"]), transpose("r", "z", 1, 0)]
    outputs = [value("y", 3, 2, dtype=onnx.TensorProto.STRING), value("z", 2, 3)]
    result = check_optimized(model_of(nodes, [value("x", 2, 3)], outputs, [text]))
    assert result.after.count == 1


def test_documentation_and_annotations_stay():
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("Relu", ["a"], ["b"], doc_string="relu"),
        transpose("b", "y", 1, 0),
    ]
    unused = [
        initializer("scale", np.float32(0.1)),
        initializer("zero", np.uint8(1)),
        initializer("idle", [1.0]),
    ]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 2, 3)], unused)
    model.doc_string, model.producer_name, model.graph.doc_string = "doc", "producer", "graph"
    for owner in (model, model.graph, model.graph.node[1]):
        owner.metadata_props.add(key="key", value="its value")
    annotation = model.graph.quantization_annotation.add(tensor_name="y")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    new = check_optimized(model).model
    assert (new.doc_string, new.producer_name, new.graph.doc_string) == ("doc", "producer", "graph")
    assert new.metadata_props == model.metadata_props
    assert new.graph.metadata_props == model.graph.metadata_props
    assert new.graph.quantization_annotation == model.graph.quantization_annotation
    assert new.graph.initializer == model.graph.initializer
    (node,) = new.graph.node
    assert (node.doc_string, node.metadata_props) == ("relu", model.graph.node[1].metadata_props)


def test_negative_training_information_is_refused():
    model = model_of([transpose("x", "y", 1, 0)], [value("x", 2, 3)], [value("y", 3, 2)])
    model.training_info.add()
    with pytest.raises(LayoutError, match=r"training information.*del model.training_info"):
        li.optimize_onnx(model)


@pytest.mark.parametrize("opset", range(9, onnx.defs.onnx_opset_version() + 1))
def test_every_opset(opset: int):
    nodes = [transpose("x", "t", 0, 2, 3, 1), oh.make_node("Add", ["t", "w"], ["a"])]
    nodes += [oh.make_node("Concat", ["a", "a"], ["c"], axis=3), oh.make_node("MatMul", ["c", "m"], ["d"])]
    nodes += [transpose("d", "y", 0, 3, 1, 2)]
    weights = [
        initializer("w", np.ones((4, 1, 3), np.float32)),
        initializer("m", np.ones((6, 2), np.float32)),
    ]
    model = model_of(nodes, [value("x", *X)], [value("y", 2, 2, 4, 5)], weights, opset=opset, ir_version=8)
    new = li.optimize_onnx(model).model
    assert new.opset_import == model.opset_import
    if opset <= 24:
        assert check_optimized(model).after.count <= 2


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_that_are_inputs(ir_version: int):
    nodes = [
        transpose("w", "a", 0, 3, 1, 2),
        transpose("x", "b", 0, 3, 1, 2),
        oh.make_node("Add", ["a", "b"], ["c"]),
    ]
    nodes += [transpose("c", "y", 0, 2, 3, 1)]
    weights = np.arange(120, dtype=np.float32).reshape(X)
    model = model_of(
        nodes, [value("x", *X), value("w", *X)], [value("y", *X)], [initializer("w", weights)], opset=9,
        ir_version=ir_version,
    )  # fmt: skip
    feeds = {"x": np.ones(X, np.float32)}
    assert check_optimized(model, feeds).after.count == 0
    if ir_version > 3:
        check_optimized(model, {**feeds, "w": weights + 1})


def test_a_default_that_callers_may_replace_decides_nothing():
    nodes = [
        transpose("x", "a", 0, 2, 1),
        oh.make_node("Reshape", ["a", "s"], ["b"]),
        transpose("b", "y", 1, 0, 2),
    ]
    inputs = [value("x", 1, 4, 3), value("s", 3, dtype=onnx.TensorProto.INT64)]
    model = model_of(nodes, inputs, [value("y", "p", "q", "r")], [initializer("s", [1, 3, 4])])
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    check_optimized(model, {"x": x}, compares_bytes=False)
    check_optimized(model, {"x": x, "s": np.array([3, 1, 4])}, compares_bytes=False)


def test_names_that_are_made_are_new_and_odd_ones_stay():
    nodes = [
        transpose("x", "x_order0231", 0, 2, 3, 1),
        oh.make_node("Relu", ["x_order0231"], ["x_order0312"]),
    ]
    nodes[-1].name = "Transpose_y"
    nodes += [
        oh.make_node("Softplus", ["x_order0312"], ["dims_2x3"]),
        transpose("dims_2x3", "q'\"☃\n", 0, 3, 1, 2),
    ]
    nodes += [oh.make_node("Add", ["q'\"☃\n", "x"], ["z"]), oh.make_node("MatMul", ["z", "w"], ["ý\\"])]
    weights = initializer("w", np.ones((5, 6), np.float32))
    check_optimized(model_of(nodes, [value("x", *X)], [value("ý\\", 2, 3, 4, 6)], [weights]))


def test_long_chains_of_transposes_and_many_nodes():
    nodes: list[onnx.NodeProto] = []
    last = "x"
    perms = [(1, 0, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)]
    for number in range(5000):
        nodes.append(transpose(last, f"t{number}", *perms[number % 3]))
        last = nodes[-1].output[0]
    shape = np.empty(X)
    for number in range(5000):
        shape = shape.transpose(perms[number % 3])
    assert check_optimized(model_of(nodes, [value("x", *X)], [value(last, *shape.shape)])).after.count <= 1

    nodes, last = list[onnx.NodeProto](), "x"
    for number in range(2500):
        nodes.append(transpose(last, f"a{number}", 0, 2, 3, 1))
        nodes.append(oh.make_node("Add", [f"a{number}", f"w{number % 7}"], [f"b{number}"]))
        nodes.append(transpose(f"b{number}", f"c{number}", 0, 3, 1, 2))
        nodes.append(oh.make_node("Relu", [f"c{number}"], [f"d{number}"]))
        last = f"d{number}"
    weights = [initializer(f"w{k}", [0.1, 0.2, 0.3]) for k in range(7)]
    model = model_of(nodes, [value("x", *X)], [value(last, *X)], weights)
    result = check_optimized(model)
    assert result.after.count == 0 and result.model.ByteSize() < model.ByteSize()


def test_a_model_is_optimized_without_the_dialects_that_programs_need(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(
        _around(oh.make_node("Relu", ["t"], ["u"]), (0, 3, 1, 2), (0, 2, 3, 1)).SerializeToString()
    )
    code = "import sys, layout_ir; layout_ir.optimize_onnx(sys.argv[1]); print('xdsl' in sys.modules)"
    found = run_python("-c", code, path)
    assert found.stdout.split() == ["False"]


def test_what_kernels_move_inside_is_no_reason_to_leave_other_transposes():
    # Behind its Transpose the Softmax moves its operand: in front of it, two tensors would be moved.
    nodes = [transpose("x", "a", 0, 2, 3, 1), oh.make_node("Softmax", ["a"], ["y"], axis=-2)]
    nodes += [transpose("v", "b", 1, 0), oh.make_node("Relu", ["b"], ["c"]), transpose("c", "w", 1, 0)]
    inputs = [value("x", 4, 16, 9, 9), value("v", 2, 3)]
    outputs = [value("y", 4, 9, 9, 16), value("a", 4, 9, 9, 16), value("w", 2, 3)]
    result = check_optimized(model_of(nodes, inputs, outputs), target="ort-cpu")
    assert (result.before.count, result.after.count) == (3, 1)
    assert any("what kernels move inside" in note for note in result.notes)
    certificate = li.optimize_onnx(result.model, "ort-cpu", certificate=True).certificate
    assert certificate is not None
    model_certificate.check_model(certificate, result.model, "ort-cpu", {})


def test_a_model_that_stays_as_it_is_has_what_it_had():
    nodes = [transpose("x", "a", 0, 2, 3, 1), oh.make_node("Softmax", ["a"], ["y"], axis=-2)]
    outputs = [value("y", 4, 9, 9, 16), value("a", 4, 9, 9, 16)]
    result = check_optimized(model_of(nodes, [value("x", 4, 16, 9, 9)], outputs), target="ort-cpu")
    assert result.after == result.before
