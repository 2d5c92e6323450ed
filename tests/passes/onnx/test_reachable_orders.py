"""The orders that reach values, and the options that nodes have on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, permutations
from random import Random

import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.certificate.checking import verify
from layout_ir.passes.onnx.consumers import consumer_named
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.node_models.node_option import NodeModel
from layout_ir.passes.onnx.reachable_orders import (
    GivenOrders,
    OfferedOptions,
    OrderPropagation,
    ReachableOrders,
)
from tests.passes.onnx.operators import CASES
from tests.passes.onnx.optimized import check_optimized, model_of, transpose, value
from tests.passes.onnx.random_models import random_model


def _graph(model: onnx.ModelProto) -> Graph:
    return graphs_of_model(model, None, {}, {})[0]


class EachNodeForItself(OrderPropagation):
    """Asks the model of every node, however many others are like it."""

    def _model(self, node: Node) -> tuple[NodeModel | None, int | None]:
        return super()._model(node)[0], None


def _found(reached: ReachableOrders) -> object:
    options = {number: (c.model, c.offered) for number, c in reached.choices.items()}
    return reached.values.orders, options, reached.omitted


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_nodes_that_are_alike_have_the_options_that_each_has_for_itself(target: str):
    consumer = consumer_named(target)
    together = OrderPropagation(consumer)
    random = Random(target)
    models = [random_model(random, 12)[0] for _ in range(30)]
    for case in CASES:
        shapes = {k: given for k, given in enumerate(case.inputs) if isinstance(given, tuple)}
        orders = {k: tuple(random.sample(range(len(shape)), len(shape))) for k, shape in shapes.items()}
        models.append(case.model(orders, 5))
    for model in models:
        alone = EachNodeForItself(consumer).reachable(_graph(model))
        assert _found(together.reachable(_graph(model))) == _found(alone)


def test_a_node_of_which_another_one_differs_in_a_constant_has_options_of_its_own():
    # Only where the axes are known does the sum of a transposed value run in another order.
    axes = oh.make_node("Identity", ["given"], ["axes"])
    sums = [oh.make_node("ReduceSum", ["a", name], [f"y_{name}"], keepdims=1) for name in ("known", "axes")]
    model = model_of(
        [axes, transpose("x", "a", 2, 0, 1), *sums],
        [value("x", 2, 3, 4), value("given", 1, dtype=onnx.TensorProto.INT64)],
        [value("y_known", 4, 1, 3), value("y_axes", 4, 1, 3)],
        [oh.make_tensor("known", onnx.TensorProto.INT64, [1], [1])],
    )
    reached = OrderPropagation(consumer_named("onnx")).reachable(_graph(model))
    options = {c.node.outputs[0]: len(c.offered.options) for c in reached.choices.values()}
    assert options["y_known"] > 1 == options["y_axes"]


@pytest.mark.parametrize("op_type", ["Softmax", "Reshape"])
def test_nodes_whose_extents_have_other_made_up_names_share_options_where_these_count_as_much(op_type: str):
    """What a kernel moves inside goes by what they count as, the shapes that a Reshape may ask for do not."""
    names = ("unk__0", "unk__1", "unk__2")
    more = ["shape"] if op_type == "Reshape" else []
    nodes = [
        node
        for k in range(len(names))
        for node in (
            transpose(f"x{k}", f"a{k}", 0, 2, 1),
            oh.make_node(op_type, [f"a{k}", *more], [f"y{k}"]),
        )
    ]
    results = [value(f"y{k}", 2, 5, name, *([1] if more else [])) for k, name in enumerate(names)]
    constants = [oh.make_tensor("shape", onnx.TensorProto.INT64, [4], [0, 0, -1, 1])] if more else []
    inputs = [value(f"x{k}", 2, name, 5) for k, name in enumerate(names)]
    graph = _graph(model_of(nodes, inputs, results, constants))
    graph.counted = dict(zip(names, (7, 7, 9), strict=True))
    reached = OrderPropagation(consumer_named("ort-cpu")).reachable(graph)
    first, second, third = (c.offered for c in reached.choices.values())
    assert first is second and len(first.options) > 1
    assert (first is third) == (op_type == "Reshape")
    assert (first == third) == (op_type == "Reshape")


def test_negative_reshapes_in_which_other_extents_are_the_same_have_options_of_their_own():
    propagation = OrderPropagation(consumer_named("onnx"))
    found: list[OfferedOptions] = []
    for names in (("unk__0", "unk__1"), ("unk__0", "unk__0")):
        nodes = [transpose("x", "a", 0, 2, 1), oh.make_node("Reshape", ["a", "shape"], ["y"])]
        graph = _graph(
            model_of(
                nodes,
                [value("x", *names, 5), value("shape", 3, dtype=onnx.TensorProto.INT64)],
                [value("y", names[0], 5, names[1])],
            )
        )
        graph.set_type("y", (names[0], 5, names[1]), onnx.TensorProto.FLOAT)
        found += [c.offered for c in propagation.reachable(graph).choices.values()]
    assert len(found) == 2 and found[0] is not found[1]


def _chain() -> Graph:
    """A Transpose, and two elementwise operators behind it."""
    nodes = [
        transpose("x", "a", 1, 0),
        oh.make_node("Relu", ["a"], ["b"]),
        oh.make_node("Tanh", ["b"], ["y"]),
    ]
    return _graph(model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)]))


def test_orders_that_are_given_reach_what_follows_from_them():
    graph, propagation = _chain(), OrderPropagation(consumer_named("onnx"))
    whole = propagation.reachable(graph)
    both = propagation.sets.of(((0, 1), (1, 0)))
    given = GivenOrders({"a": both, "b": both, "no value": both}, {})
    found = propagation.reachable(graph, given)
    assert found.values.orders == whole.values.orders and found.choices == whole.choices
    assert found.given is given and not whole.given.orders


def test_negative_a_node_whose_options_are_known_is_not_asked_again():
    graph, propagation = _chain(), OrderPropagation(consumer_named("onnx"))
    choices = propagation.reachable(graph).choices
    relu = next(c for c in choices.values() if c.node.op_type == "Relu")
    known = relu._replace(offered=relu.offered._replace(options=relu.offered.options[:1]))
    orders = {name: propagation.sets.of(((0, 1), (1, 0))) for name in ("b", "x", "y")}
    found = propagation.reachable(graph, GivenOrders(orders, {id(relu.node): known}))
    assert known in found.choices.values()
    # An order that was not given wakes it.
    woken = propagation.reachable(graph, GivenOrders({}, {id(relu.node): known}))
    assert known in woken.choices.values()
    tanh = next(c for c in choices.values() if c.node.op_type == "Tanh")
    woken = propagation.reachable(
        graph, GivenOrders({"y": propagation.sets.of(((1, 0),))}, {id(relu.node): known})
    )
    assert woken.choices == choices and tanh in woken.choices.values()


def _offered(model: onnx.ModelProto, target: str) -> dict[str, OfferedOptions]:
    """The options of the nodes of a model, by the names of their first results."""
    reached = OrderPropagation(consumer_named(target)).reachable(_graph(model))
    return {c.node.outputs[0]: c.offered for c in reached.choices.values()}


def test_elementwise_operators_on_values_of_the_same_ranks_have_their_options_in_common():
    nodes = [oh.make_node("Relu", ["a"], ["y"]), oh.make_node("LeakyRelu", ["a"], ["z"], alpha=0.5)]
    outputs = [value("y", 4, 2, 3), value("z", 4, 2, 3)]
    found = _offered(model_of([transpose("x", "a", 2, 0, 1), *nodes], [value("x", 2, 3, 4)], outputs), "onnx")
    assert found["y"] is found["z"] and len(found["y"].options) > 1


def test_pools_of_values_of_the_same_rank_have_their_options_in_common():
    names, sides = ("y", "z"), (6, 8)
    nodes = [transpose(f"x{n}", f"a{n}", 0, 3, 1, 2) for n in names]
    nodes += [oh.make_node("MaxPool", [f"a{n}"], [n], kernel_shape=[2, k]) for k, n in enumerate(names, 1)]
    inputs = [value(f"x{n}", 1, k, k, 3) for n, k in zip(names, sides, strict=True)]
    outputs = [
        value(n, 1, 3, side - 1, side - k) for k, (n, side) in enumerate(zip(names, sides, strict=True))
    ]
    found = _offered(model_of(nodes, inputs, outputs), "onnx")
    assert found["y"] is found["z"]


def test_negative_a_product_with_a_constant_has_options_of_its_own():
    # ONNX Runtime packs a constant on the right, which is to stay there.
    products = [oh.make_node("MatMul", ["a", name], [f"y_{name}"]) for name in ("given", "known")]
    inputs, outputs = (
        [value("x", 2, 4, 3), value("given", 4, 5)],
        [value(f"y_{n}", 2, 3, 5) for n in ("given", "known")],
    )
    constant = oh.make_tensor("known", onnx.TensorProto.FLOAT, [4, 5], [1.0] * 20)
    found = _offered(
        model_of([transpose("x", "a", 0, 2, 1), *products], inputs, outputs, [constant]), "ort-cpu"
    )
    known, given = ({option[:2] for option in found[f"y_{name}"].options} for name in ("known", "given"))
    assert known < given


def test_reshapes_that_join_the_same_dims_have_their_options_in_common():
    nodes: list[onnx.NodeProto] = []
    for k in range(2):
        nodes += [
            transpose(f"x{k}", f"a{k}", 2, 0, 1),
            oh.make_node("Reshape", [f"a{k}", f"s{k}"], [f"y{k}"]),
        ]
    inputs, outputs = [value("x0", 2, 3, 4), value("x1", 5, 6, 7)], [value("y0", 4, 6), value("y1", 7, 30)]
    shapes = [oh.make_tensor(f"s{k}", onnx.TensorProto.INT64, [2], [0, -1]) for k in range(2)]
    found = _offered(model_of(nodes, inputs, outputs, shapes), "onnx")
    assert found["y0"] is found["y1"] and len(found["y0"].options) > 1


def test_negative_a_reshape_with_dims_of_one_element_has_options_of_its_own():
    # Dim 1 of the first one may lie anywhere.
    nodes: list[onnx.NodeProto] = []
    for k in range(2):
        nodes += [
            transpose(f"x{k}", f"a{k}", 1, 0, 2),
            oh.make_node("Reshape", [f"a{k}", f"s{k}"], [f"y{k}"]),
        ]
    inputs, outputs = [value("x0", 2, 1, 4), value("x1", 2, 3, 4)], [value("y0", 8), value("y1", 24)]
    shapes = [oh.make_tensor(f"s{k}", onnx.TensorProto.INT64, [1], [-1]) for k in range(2)]
    found = _offered(model_of(nodes, inputs, outputs, shapes), "onnx")
    assert len(found["y0"].options) > 1 == len(found["y1"].options)


def test_negative_a_larger_product_pays_more_for_a_flag():
    nodes: list[onnx.NodeProto] = []
    for k in range(2):
        nodes += [transpose(f"x{k}", f"a{k}", 1, 0), oh.make_node("MatMul", [f"a{k}", f"w{k}"], [f"y{k}"])]
    inputs, outputs = [value("x0", 8, 4), value("x1", 80, 40)], [value("y0", 4, 6), value("y1", 40, 60)]
    weights = [
        oh.make_tensor(f"w{k}", onnx.TensorProto.FLOAT, [m, n], [1.0] * (m * n))
        for k, (m, n) in enumerate([(8, 6), (80, 60)])
    ]
    found = _offered(model_of(nodes, inputs, outputs, weights), "ort-cpu")
    small, large = (max(option.cost for option in found[name].options) for name in ("y0", "y1"))
    assert 0 < small < large


def _einsum(orders: int) -> onnx.ModelProto:
    """An Einsum of two values that are there in so many orders, and so is its result."""
    perms = list(islice(permutations(range(4)), orders))
    shape = (2, 3, 4, 5)

    def transposed(name: str, given: Sequence[tuple[int, ...]]) -> list[onnx.NodeProto]:
        nodes = [transpose(name, f"{name}{k}", *perm) for k, perm in enumerate(given)]
        return nodes + [
            oh.make_node("Fixed", [f"{name}{k}"], [f"{name}{k}_out"], domain="my") for k in range(len(given))
        ]

    nodes = [*transposed("x", perms), *transposed("w", perms)]
    nodes.append(oh.make_node("Einsum", ["x", "w"], ["y"], equation="abcd,abcd->abcd", name="product"))
    nodes += transposed("y", perms)
    outputs = [value(f"{n}{k}_out", *(shape[d] for d in perm)) for n in "xwy" for k, perm in enumerate(perms)]
    return model_of(nodes, [value("x", *shape), value("w", *shape)], outputs)


def test_a_proof_says_that_combinations_of_orders_were_left_out():
    result = li.optimize_onnx(_einsum(7), certificate=True)
    assert any("product" in what for what in result.solution.omitted)
    assert result.certificate is not None
    verdict = verify(result.certificate)
    assert verdict.omitted == len(result.solution.omitted) > 0 and not verdict.is_optimal


def test_negative_a_proof_leaves_out_no_combination_where_all_are_options():
    result = li.optimize_onnx(_einsum(6), certificate=True)
    assert result.certificate is not None and not result.solution.omitted
    assert verify(result.certificate).is_optimal
    check_optimized(
        model_of(
            [oh.make_node("Einsum", ["x", "w"], ["y"], equation="ab,ab->ba")],
            [value("x", 2, 3), value("w", 2, 3)],
            [value("y", 3, 2)],
        )
    )
