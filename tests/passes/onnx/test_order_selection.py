"""The choice of orders, against an enumeration of all of them that is written down here once more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.certificate.checking import verify
from layout_ir.passes.onnx.consumers import consumer_named
from layout_ir.passes.onnx.order_selection import costs_alike
from tests.passes.onnx.optimized import (
    check_optimized,
    count_transposes,
    initializer,
    model_of,
    transpose,
    value,
)

Perm = tuple[int, ...]
_SHAPE = (2, 3, 4)
_PERMS = list(permutations(range(3)))
_BYTES = 2 * 4 * 24


@dataclass
class Step:
    """A node on earlier values, each behind a Transpose; `fixed` is one that runs on the dims of the model only."""

    operands: list[tuple[int, Perm]]
    fixed: bool


def _random_steps(random: Random) -> tuple[list[Step], list[tuple[int, Perm]]]:
    """The nodes of a graph, whose value 0 is its input, and what its outputs are."""
    shapes: list[tuple[int, ...]] = [_SHAPE]
    steps: list[Step] = []
    for _ in range(random.randint(2, 4)):
        first = random.randrange(len(shapes))
        perm = random.choice(_PERMS)
        shape = tuple(shapes[first][d] for d in perm)
        operands = [(first, perm)]
        if random.random() < 0.6:
            other = random.randrange(len(shapes))
            operands.append((other, tuple(shapes[other].index(n) for n in shape)))
        steps.append(Step(operands, random.random() < 0.3))
        shapes.append(shape)
    used = {root for step in steps for root, _ in step.operands}
    ends = [k for k in range(len(shapes)) if k not in used or (k and random.random() < 0.3)]
    return steps, [(k, random.choice(_PERMS)) for k in ends]


def _least_transposes(steps: list[Step], ends: list[tuple[int, Perm]]) -> int:
    """The fewest Transposes: all orders of all nodes tried; each tensor that is needed and not there costs one."""
    least = 10**9
    for orders in product(*([_PERMS[0]] if step.fixed else _PERMS for step in steps)):
        made = [_PERMS[0], *orders]
        needed: set[tuple[int, Perm]] = set(ends)
        for step, order in zip(steps, orders, strict=True):
            needed.update((root, tuple(perm[d] for d in order)) for root, perm in step.operands)
        least = min(least, sum(made[root] != order for root, order in needed))
    return least


def _model(steps: list[Step], ends: list[tuple[int, Perm]]) -> onnx.ModelProto:
    nodes: list[onnx.NodeProto] = []
    shapes: list[tuple[int, ...]] = [_SHAPE]
    for number, step in enumerate(steps, 1):
        names: list[str] = []
        for place, (root, perm) in enumerate(step.operands):
            names.append(f"v{number}_{place}")
            nodes.append(transpose(f"v{root}", names[-1], *perm))
        shapes.append(tuple(shapes[step.operands[0][0]][d] for d in step.operands[0][1]))
        op_type = "Fixed" if step.fixed else "Neg" if len(names) == 1 else "Add"
        nodes.append(oh.make_node(op_type, names, [f"v{number}"], domain="my" if step.fixed else ""))
    outputs: list[onnx.ValueInfoProto] = []
    for number, (root, perm) in enumerate(ends):
        nodes.append(transpose(f"v{root}", f"out{number}", *perm))
        outputs.append(value(f"out{number}", *(shapes[root][d] for d in perm)))
    model = model_of(nodes, [value("v0", *_SHAPE)], outputs)
    model.graph.value_info.extend(value(f"v{k}", *shape) for k, shape in enumerate(shapes) if k)
    return model


@pytest.mark.parametrize("seed", range(60))
def test_no_orders_leave_fewer_transposes(seed: int):
    steps, ends = _random_steps(Random(seed))
    result = li.optimize_onnx(_model(steps, ends))
    least = _least_transposes(steps, ends)
    assert (result.after.count, result.after.nbytes) == (least, least * _BYTES)
    assert count_transposes(result.model.graph) == least
    assert result.solution.is_optimal


def test_the_enumeration_counts_what_can_be_counted_by_hand():
    turn, back = (0, 2, 1), (0, 2, 1)
    away = [Step([(0, turn)], False), Step([(1, back)], False)]
    assert _least_transposes(away, [(2, (0, 1, 2))]) == 0
    fixed = [Step([(0, turn)], True), Step([(1, back)], False)]
    assert _least_transposes(fixed, [(2, (0, 1, 2))]) == 2


def test_a_transpose_is_moved_to_where_fewer_bytes_are():
    x, y = value("x", 2, 3, 50), value("y", 3, 2, 1)
    nodes = [transpose("x", "t", 1, 0, 2), oh.make_node("ReduceMax", ["t", "axes"], ["y"])]
    result = check_optimized(model_of(nodes, [x], [y], [initializer("axes", [2])]))
    assert (result.before.nbytes, result.after.nbytes) == (2 * 4 * 300, 2 * 4 * 6)


def test_negative_nothing_changes_where_nothing_is_won():
    nodes = [oh.make_node("Relu", ["x"], ["r"]), transpose("r", "y", 1, 0)]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 3, 2)])
    assert check_optimized(model).model.SerializeToString() == model.SerializeToString()


def test_results_hold_with_their_proof():
    steps, ends = _random_steps(Random(7))
    result = li.optimize_onnx(_model(steps, ends), certificate=True)
    assert result.certificate is not None
    assert verify(result.certificate).is_optimal


_EXTENTS = (1, 2, "n", None)


def test_values_that_are_alike_cost_the_same_to_reorder():
    for name in ("onnx", "ort-cpu"):
        consumer = consumer_named(name)
        known: dict[object, list[int]] = {}
        for shape, nbytes in product(product(_EXTENTS, repeat=3), (8, 1000, 2000, 5000)):
            costs = [
                consumer.reorder_cost(source, target, shape, nbytes)
                for source in permutations(range(3))
                for target in permutations(range(3))
            ]
            assert known.setdefault(costs_alike(consumer, shape, nbytes), costs) == costs
        assert len(known) < 4 * 4**3


def test_negative_values_with_dims_of_one_element_in_other_places_are_not_alike():
    consumer = consumer_named("onnx")
    keys = [costs_alike(consumer, shape, 4000) for shape in ((1, 5, 6), (5, 1, 6), (5, 6, 7))]
    assert len(set(keys)) == 3
    assert costs_alike(consumer, (5, 6, 7), 4000) != costs_alike(consumer, (5, 6, 7), 40_000)


def _quantized(element: int, opset: int) -> onnx.ModelProto:
    """A Transpose of floats behind values of a smaller type, where it would move less."""
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        transpose("d", "y", 0, 2, 3, 1),
    ]
    constants = [initializer("s", np.float32(0.1)), oh.make_tensor("z", element, [], [0.0])]
    return model_of(nodes, [value("x", 2, 8, 9, 10)], [value("y", 2, 9, 10, 8)], constants, opset=opset)


_FLOATS8 = (
    onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E4M3FNUZ, onnx.TensorProto.FLOAT8E5M2,
    onnx.TensorProto.FLOAT8E5M2FNUZ,
)  # fmt: skip


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
@pytest.mark.parametrize("element", _FLOATS8)
def test_negative_no_transpose_is_given_a_type_that_it_does_not_take(element: int, target: str):
    for opset in (19, 20):
        result = check_optimized(_quantized(element, opset), target=target)
        assert [each.value for each in result.remaining] in (["x"], ["d"])


@pytest.mark.parametrize(
    ("element", "opset"), [(onnx.TensorProto.INT8, 19), *[(element, 21) for element in _FLOATS8]]
)
def test_a_transpose_goes_where_elements_of_a_type_that_it_takes_are_smaller(element: int, opset: int):
    result = check_optimized(_quantized(element, opset))
    assert [each.value for each in result.remaining] == ["q"]
