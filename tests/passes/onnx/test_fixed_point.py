"""A second round that need not be made: it would leave the model as the first one wrote it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.passes.onnx import fixed_point, order_search, reachable_orders
from layout_ir.passes.onnx.fixed_point import Embedding, is_fixed_point, orders_before
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import NodeOption
from layout_ir.passes.onnx.optimized_model import OptimizedModel
from layout_ir.passes.onnx.order_plan import Plan
from layout_ir.passes.onnx.order_selection import model_problem, option_cost
from layout_ir.passes.onnx.reachable_orders import NodeChoices, OrderPropagation, ReachableOrders
from tests.passes.onnx.operators import CASES
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value
from tests.passes.onnx.random_models import random_model

TARGETS = ("onnx", "ort-cpu")
_RANDOM = 12


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What `is_fixed_point` says, in the order in which it is asked."""
    found: list[bool] = []

    def asked(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        found.append(is_fixed_point(plan, rewriter, cost, now))
        return found[-1]

    monkeypatch.setattr(order_search, "is_fixed_point", asked)
    return found


def _same_with_all_rounds(model: onnx.ModelProto, target: str) -> OptimizedModel:
    """The optimized model, which is that for which every round was made: a certificate is of the last one."""
    quick = li.optimize_onnx(model, target)
    whole = li.optimize_onnx(model, target, certificate=True)
    assert quick.model.SerializeToString(deterministic=True) == whole.model.SerializeToString(
        deterministic=True
    )
    assert (quick.before, quick.after) == (whole.before, whole.after)
    # In a model that was written, inference may have to make up other names for extents, which stand in front.
    said = [
        [note.rpartition(": known at run time only")[2] for note in each.notes] for each in (quick, whole)
    ]
    assert said[0] == said[1]
    wanted = {(whole.place(entry.value, entry.target), entry.nbytes) for entry in whole.remaining}
    assert {(quick.place(entry.value, entry.target), entry.nbytes) for entry in quick.remaining} == wanted
    return quick


@pytest.mark.parametrize("target", TARGETS)
def test_rounds_that_are_not_made_would_have_changed_nothing(answers: list[bool], target: str):
    random = Random(target)
    for _ in range(_RANDOM):
        _same_with_all_rounds(random_model(random, 8)[0], target)
    for case in CASES[:: len(TARGETS)]:
        shapes = {k: given for k, given in enumerate(case.inputs) if isinstance(given, tuple)}
        orders = {k: tuple(random.sample(range(len(shape)), len(shape))) for k, shape in shapes.items()}
        _same_with_all_rounds(case.model(orders, 5), target)
    assert True in answers


@pytest.mark.parametrize("target", TARGETS)
def test_where_orders_were_left_out_a_round_that_is_not_made_would_have_said_the_same(
    monkeypatch: pytest.MonkeyPatch, target: str
):
    monkeypatch.setattr(reachable_orders, "MOST_ORDERS", 3)
    settled: list[bool] = []

    def asked(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        found = is_fixed_point(plan, rewriter, cost, now)
        settled.append(found and bool(plan.problem.reached.omitted))
        return found

    def never(*_: object) -> bool:
        return False

    random = Random(f"{target} left out")
    while not any(settled):
        model = random_model(random, 8)[0]
        monkeypatch.setattr(order_search, "is_fixed_point", asked)
        quick = li.optimize_onnx(model, target)
        if settled[-1:] == [True]:
            monkeypatch.setattr(order_search, "is_fixed_point", never)
            whole = li.optimize_onnx(model, target)
            assert quick.model == whole.model and (quick.before, quick.after) == (whole.before, whole.after)
            for figure in ("cost", "bound", "omitted"):
                assert getattr(quick.solution, figure) == getattr(whole.solution, figure)
        assert len(settled) < 5 * _RANDOM


@pytest.mark.parametrize("target", TARGETS)
def test_a_squeeze_with_an_unsqueeze_stands_for_a_reorder(answers: list[bool], target: str):
    """They move a dim of one element where a Reshape would need the extents, which are not known."""
    nodes = [
        oh.make_node("Mine", ["x"], ["a"], domain="my"),
        transpose("a", "b", 0, 2, 1, 3),
        oh.make_node("Mine", ["b"], ["y"], domain="my"),
    ]
    for k in range(3):  # what is left has to be looked at
        nodes += [
            oh.make_node("Mine", [f"x{k}"], [f"a{k}"], domain="my"),
            transpose(f"a{k}", f"b{k}", 1, 0),
            oh.make_node("Mine", [f"b{k}"], [f"y{k}"], domain="my"),
        ]
    inputs = [value("x", 1, "d", 1, "e"), *(value(f"x{k}", 2, 3) for k in range(3))]
    outputs = [value("y", 1, 1, "d", "e"), *(value(f"y{k}", 3, 2) for k in range(3))]
    model = model_of(nodes, inputs, outputs)
    model.graph.value_info.extend([value("a", 1, "d", 1, "e"), *(value(f"a{k}", 2, 3) for k in range(3))])
    result, whole = (
        li.optimize_onnx(model, target, certificate=certificate) for certificate in (False, True)
    )
    assert result.model == whole.model and result.after == whole.after
    assert (result.before.count, result.after.count) == (4, 3)
    assert {"Squeeze", "Unsqueeze"} <= {node.op_type for node in result.model.graph.node}
    assert answers[0]


def _nothing_divides(plan: Plan) -> int:
    """In place of the divisor of what Transposes cost: then that cost alone proves nothing."""
    return 0


def _with_named_extents(model: onnx.ModelProto, random: Random) -> onnx.ModelProto:
    """The model with names for some extents of its inputs, one name for each number."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for each in found.graph.input:
        for dim in each.type.tensor_type.shape.dim:
            if dim.dim_value > 1 and random.random() < 0.6:
                dim.dim_param = f"s{dim.dim_value}"
    for each in found.graph.output:
        each.type.tensor_type.ClearField("shape")
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("known", [True, False], ids=["numbers", "names"])
@pytest.mark.parametrize("divides", [True, False], ids=["any argument", "exact embedding"])
def test_what_is_settled_has_no_choice_for_less(
    monkeypatch: pytest.MonkeyPatch, target: str, known: bool, divides: bool
):
    settled: list[bool] = []

    def solved(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        found = is_fixed_point(plan, rewriter, cost, now)
        settled.append(found)
        if found:
            consumer, graph = plan.problem.consumer, now.values.graph
            moved = [node.inputs[0] for node in now.values.transposes.values()]
            transposes = sum(consumer.transpose_cost(consumer.counted_bytes(graph, name)) for name in moved)
            own = transposes + sum(option_cost(each.offered.options[0]) for each in now.choices.values())
            problem = model_problem([now], consumer)
            best = problem.solve()
            assert best.numbers.cost >= own or (
                divides and Plan.chosen(problem.parts[0], problem.numbers, best).transpose_cost >= transposes
            )
        return found

    monkeypatch.setattr(order_search, "is_fixed_point", solved)
    if not divides:
        monkeypatch.setattr(fixed_point, "_divisor", _nothing_divides)
    random = Random(f"{target} {known}")
    for _ in range(3 * _RANDOM):
        model = random_model(random, 8)[0]
        li.optimize_onnx(model if known else _with_named_extents(model, random), target)
    assert True in settled


@pytest.mark.parametrize("target", TARGETS)
def test_an_exact_embedding_is_one_with_units_anywhere(monkeypatch: pytest.MonkeyPatch, target: str):
    exact: list[bool] = []

    def asked(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        exact.append(Embedding(plan, rewriter, now, exact=True).holds())
        assert not exact[-1] or Embedding(plan, rewriter, now, exact=False).holds()
        return is_fixed_point(plan, rewriter, cost, now)

    monkeypatch.setattr(order_search, "is_fixed_point", asked)
    random = Random(f"{target} exact")
    for _ in range(_RANDOM):
        li.optimize_onnx(random_model(random, 8)[0], target)
    assert True in exact


@pytest.mark.parametrize("target", TARGETS)
def test_the_orders_before_lead_to_all_that_can_be_reached(monkeypatch: pytest.MonkeyPatch, target: str):
    same: list[int] = []

    def compared(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        if now.given.orders:
            graph = now.values.graph
            whole = OrderPropagation(plan.problem.consumer).reachable(graph)
            for root, orders in whole.values.orders.items():
                assert orders.keys() <= now.values.orders[root].keys()
            for number, choices in whole.choices.items():
                least: dict[object, int] = {}
                for option in now.choices[number].offered.options:
                    cost_of_it = option_cost(option)
                    least[option[:2]] = min(cost_of_it, least.get(option[:2], cost_of_it))
                assert all(least[option[:2]] <= option_cost(option) for option in choices.offered.options)
            before = orders_before(plan, rewriter, graph)
            assert before is not None
            same.append(len(before.choices))
        return is_fixed_point(plan, rewriter, cost, now)

    monkeypatch.setattr(order_search, "is_fixed_point", compared)
    random = Random(f"{target} before")
    for _ in range(3 * _RANDOM):
        li.optimize_onnx(random_model(random, 8)[0], target)
    for case in CASES[:: 2 * len(TARGETS)]:
        shapes = {k: given for k, given in enumerate(case.inputs) if isinstance(given, tuple)}
        orders = {k: tuple(random.sample(range(len(shape)), len(shape))) for k, shape in shapes.items()}
        li.optimize_onnx(case.model(orders, 5), target)
    assert any(same)


def _with_option(now: ReachableOrders, option: Callable[[Node, NodeOption], NodeOption]) -> ReachableOrders:
    """What a graph has to choose from where its first product has one more option, made of its last one."""
    choices = dict(now.choices)
    place, (node, model, offered) = next(
        (k, each) for k, each in choices.items() if each.node.op_type == "MatMul"
    )
    more = (*offered.options, option(node, offered.options[-1]))
    choices[place] = NodeChoices(node, model, offered._replace(options=more))
    return replace(now, choices=choices)


def _cheaper(rewriter: GraphRewriter, now: ReachableOrders) -> ReachableOrders:
    return _with_option(now, lambda node, option: option._replace(cost=option.cost - 100))


def _another_option(rewriter: GraphRewriter, now: ReachableOrders) -> ReachableOrders:
    return _with_option(
        now, lambda node, option: option._replace(ins=tuple(order[::-1] for order in option.ins))
    )


def _another_order(rewriter: GraphRewriter, now: ReachableOrders) -> ReachableOrders:
    now.values.orders["h0"] = {**now.values.orders["h0"], (3, 2, 1, 0): None}
    return now


def _another_value(rewriter: GraphRewriter, now: ReachableOrders) -> ReachableOrders:
    now.values.orders["a value without an origin"] = {(0, 1): None, (1, 0): None}
    return now


def _fewer_bytes(rewriter: GraphRewriter, now: ReachableOrders) -> ReachableOrders:
    now.values.graph.set_shape("h0", (1, 10, 4, 2), "x")
    return now


def _new_node(rewriter: GraphRewriter, now: ReachableOrders) -> ReachableOrders:
    rewriter.origins[:] = [
        None if node is not None and node.op_type == "MatMul" else node for node in rewriter.origins
    ]
    return now


@pytest.mark.parametrize("divides", [True, False], ids=["any argument", "exact embedding"])
@pytest.mark.parametrize(
    "change", [_cheaper, _another_option, _another_order, _another_value, _fewer_bytes, _new_node]
)
def test_negative_a_graph_that_has_more_to_choose_from_is_not_settled(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[GraphRewriter, ReachableOrders], ReachableOrders],
    divides: bool,
):
    answers: list[bool] = []

    def asked(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        before = is_fixed_point(plan, rewriter, cost, now)
        answers.extend((before, is_fixed_point(plan, rewriter, cost, change(rewriter, now))))
        return before

    monkeypatch.setattr(order_search, "is_fixed_point", asked)
    if not divides:
        monkeypatch.setattr(fixed_point, "_divisor", _nothing_divides)
    li.optimize_onnx(_attention(3, weights="Sigmoid"), "onnx")
    # What an option costs is no matter where all of it is less than a Transpose; along some axes, a Softmax costs more.
    assert answers == [True, divides and change is _cheaper]


def _attention(blocks: int, batch: int | str = 1, weights: str = "Softmax") -> onnx.ModelProto:
    """Blocks of attention with four heads: Transposes of which each is needed, around products of stacks; scores become
    weights by an operator of this name."""
    nodes: list[onnx.NodeProto] = []
    axis: dict[str, Any] = {"axis": -1} if weights == "Softmax" else {}
    x = "x"
    for k in range(blocks):
        nodes += [
            oh.make_node("Reshape", [x, "heads"], [f"h{k}"]),
            transpose(f"h{k}", f"q{k}", 0, 2, 1, 3),
            transpose(f"h{k}", f"k{k}", 0, 2, 3, 1),
            oh.make_node("MatMul", [f"q{k}", f"k{k}"], [f"s{k}"]),
            oh.make_node(weights, [f"s{k}"], [f"p{k}"], **axis),
            oh.make_node("MatMul", [f"p{k}", f"q{k}"], [f"o{k}"]),
            transpose(f"o{k}", f"t{k}", 0, 2, 1, 3),
            oh.make_node("Reshape", [f"t{k}", "whole"], [f"y{k}"]),
        ]
        x = f"y{k}"
    constants = [initializer("heads", [0, 10, 4, 8]), initializer("whole", [0, 10, 32])]
    return model_of(nodes, [value("x", batch, 10, 32)], [value(x, batch, 10, 32)], constants)


def test_what_was_chosen_for_least_cost_is_not_chosen_again(answers: list[bool]):
    result = _same_with_all_rounds(_attention(3), "onnx")
    assert result.after.count > 2 and answers == [True]
    check_optimized(_attention(2))


def test_a_reshape_that_stands_for_a_reorder_is_settled(answers: list[bool]):
    # The Reshape that moves the dim of one element is a node that the model did not have.
    model = _attention(3, weights="Sigmoid")
    model.graph.input.append(value("v", 5, 6, 1))
    model.graph.node.extend(
        [
            transpose("v", "turned", 1, 0, 2),
            transpose("v", "moved", 0, 2, 1),
            oh.make_node("Fixed", ["v", "turned", "moved"], ["f"], domain="my"),
        ]
    )
    model.graph.output.append(value("f", 5, 6, 1))
    result = _same_with_all_rounds(model, "onnx")
    assert [node.op_type for node in result.model.graph.node][-3:] == ["Transpose", "Reshape", "Fixed"]
    assert answers == [True]


@pytest.mark.parametrize("batch", [2, "batch"])
def test_a_small_node_that_is_no_reorder_is_settled(answers: list[bool], batch: int | str):
    # In the order in which the Add runs, its vector has dims of one element behind it: an Unsqueeze that is new. Of
    # what it makes nothing is known.
    model = _attention(3, batch)
    model.graph.input.extend([value("v", 7, 5, 6), value("vector", 7)])
    model.graph.node.extend(
        [
            transpose("v", "a", 1, 2, 0),
            oh.make_node("Add", ["a", "vector"], ["b"]),
            transpose("b", "c", 2, 0, 1),
            transpose("v", "d", 2, 1, 0),
            oh.make_node("Fixed", ["c", "d"], ["g"], domain="my"),
        ]
    )
    model.graph.output.append(value("g", 7, 5, 6))
    result = _same_with_all_rounds(model, "onnx")
    assert "Unsqueeze" in [node.op_type for node in result.model.graph.node]
    assert answers == [True]


@pytest.mark.parametrize("is_told", [True, False])
def test_an_operand_with_more_dims_stands_for_what_it_was(monkeypatch: pytest.MonkeyPatch, is_told: bool):
    # As rotary positions are, which have several orders themselves.
    model = _attention(3)
    model.graph.input.extend([value("v", 6, 5, 7), value("table", 6, 7)])
    model.graph.node.extend(
        [
            transpose("v", "a", 1, 0, 2),
            oh.make_node("Add", ["a", "table"], ["b"]),
            transpose("b", "c", 1, 0, 2),
            transpose("v", "d", 2, 1, 0),
            oh.make_node("Fixed", ["c", "d"], ["g"], domain="my"),
        ]
    )
    model.graph.output.append(value("g", 6, 5, 7))
    answers: list[bool] = []

    def asked(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
        assert "table" in plan.values.orders
        if not is_told:
            monkeypatch.setattr(rewriter.out, "unsqueezed", {})
        answers.append(is_fixed_point(plan, rewriter, cost, now))
        return answers[-1]

    monkeypatch.setattr(order_search, "is_fixed_point", asked)
    if is_told:
        _same_with_all_rounds(model, "onnx")
    else:
        li.optimize_onnx(model, "onnx")
    assert answers[0] == is_told


def test_extents_of_the_run_time_are_settled_where_no_more_is_known_of_them(answers: list[bool]):
    result = _same_with_all_rounds(_attention(3, "batch"), "onnx")
    assert result.after.count > 2 and answers == [True] and "batch" in result.notes[0]


@pytest.mark.parametrize("extent", [6, "size"])
def test_negative_a_model_without_transposes_is_not_looked_at_again(answers: list[bool], extent: int | str):
    nodes = [transpose("x", "a", 1, 0), oh.make_node("Relu", ["a"], ["b"]), transpose("b", "y", 1, 0)]
    result = _same_with_all_rounds(model_of(nodes, [value("x", 5, extent)], [value("y", 5, extent)]), "onnx")
    assert (result.after.count, result.notes, answers) == (0, [], [])


def test_negative_views_that_came_to_lie_side_by_side_are_looked_at_again(answers: list[bool]):
    # The second Transpose moves less in front of the Add; behind the Reshape, it is one with the first.
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("Reshape", ["a", "cut"], ["b"]),
        oh.make_node("Add", ["b", "bias"], ["c"]),
        transpose("c", "y", 1, 0, 2),
    ]
    constants = [initializer("cut", [24, 5, 1]), initializer("bias", np.ones((1, 1, 500)))]
    model = model_of(nodes, [value("x", 10, 12)], [value("y", 5, 24, 500)], constants)
    result = _same_with_all_rounds(model, "onnx")
    assert (result.before.count, result.after.count) == (2, 1)
    assert answers[0] is False
    check_optimized(model)


def test_negative_small_costs_that_outweigh_a_transpose_prove_nothing(answers: list[bool]):
    # Each of many constants may lie in two orders: together, that may cost more than a Transpose of a few bytes.
    nodes = [transpose("x", "a0", 0, 1, 3, 2)]
    constants: list[onnx.TensorProto] = []
    for k in range(300):
        constants.append(initializer(f"c{k}", np.ones((1, 1, 3, 2))))
        nodes.append(oh.make_node("Add", [f"a{k}", f"c{k}"], [f"a{k + 1}"]))
    nodes += [oh.make_node("Fixed", [f"a{k}"], [f"f{k}"], domain="my") for k in (100, 200, 300)]
    outputs = [value(f"f{k}", 1, 1, 3, 2) for k in (100, 200, 300)]
    nodes += [transpose("a150", "y", 0, 1, 3, 2), oh.make_node("Fixed", ["y"], ["z"], domain="my")]
    model = model_of(nodes, [value("x", 1, 1, 2, 3)], [*outputs, value("z", 1, 1, 2, 3)], constants)
    _same_with_all_rounds(model, "onnx")
    assert True not in answers
