"""Concats of equal pieces that a Reshape takes apart: channel shuffles, of all kinds."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import (
    check_optimized,
    initializer,
    model_of,
    op_types,
    random_feeds,
    transpose,
    value,
)
from tests.passes.onnx.random_models import Sketch


def _shuffled(
    inner: list[onnx.NodeProto],
    joined: str,
    shape: tuple[int, ...] = (2, 2, 3, 4, 5),
    *,
    axis: int = 1,
    perm: tuple[int, ...] = (0, 2, 1, 3, 4),
    extents: tuple[int, int] = (3, 3),
    result: tuple[int, ...] = (2, 6, 4, 5),
    batch: int = 2,
    opset: int = 18,
) -> onnx.ModelProto:
    """Two inputs joined, what `inner` makes of that by the name `joined`, and their channels interleaved."""
    nodes = [
        oh.make_node("Concat", ["a", "b"], ["c"], axis=axis),
        *inner,
        oh.make_node("Reshape", [joined, "cut"], ["d"]),
        transpose("d", "e", *perm),
        oh.make_node("Reshape", ["e", "whole"], ["f"]),
        oh.make_node("Relu", ["f"], ["y"]),
    ]
    inputs = [value(name, batch, extent, 4, 5) for name, extent in zip("ab", extents, strict=True)]
    weights = [initializer("cut", list(shape)), initializer("whole", list(result))]
    weights.append(initializer("half", np.float32(0.5)))
    return model_of(nodes, inputs, [value("y", *result)], weights, opset=opset)


@pytest.mark.parametrize("opset", [11, 18])
def test_a_channel_shuffle_behind_a_concat_moves_nothing(opset: int):
    result = check_optimized(_shuffled([], "c", opset=opset))
    assert (result.before.count, result.after.count) == (1, 0)
    assert op_types(result.model) == ["Unsqueeze", "Unsqueeze", "Concat", "Reshape", "Relu"]


def test_what_works_on_single_elements_in_between_runs_on_the_stack():
    inner = [
        oh.make_node("Mul", ["half", "c"], ["m"]),
        oh.make_node("QuantizeLinear", ["m", "half"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "half"], ["n"]),
    ]
    assert check_optimized(_shuffled(inner, "n")).after.count == 0


def test_transposes_in_between_are_those_of_the_stack():
    model = _shuffled([transpose("c", "t", 0, 2, 3, 1), transpose("t", "u", 0, 3, 1, 2)], "u")
    assert check_optimized(model).after.count == 0


def test_pieces_may_be_cut_off_in_the_digits_of_a_merged_chain():
    model = _shuffled([], "c", (2, 3, 20), perm=(1, 0, 2), result=(1, 6, 4, 5), batch=1)
    result = check_optimized(model)
    assert (result.before.count, result.after.count) == (1, 0)


def test_negative_a_batch_that_is_moved_with_the_pieces_is_a_transpose():
    result = check_optimized(_shuffled([], "c", (4, 3, 20), perm=(1, 0, 2), result=(2, 6, 4, 5)))
    assert result.after.count == 1


@pytest.mark.parametrize("name", ["c", "m"])
def test_negative_what_is_used_in_another_way_stays_a_concat(name: str):
    model = _shuffled([oh.make_node("Neg", ["c"], ["m"])], "m")
    model.graph.node.append(oh.make_node("Sigmoid", [name], ["z"]))
    model.graph.output.append(value("z", 2, 6, 4, 5))
    result = check_optimized(model)
    assert result.after.count == 1 and "Unsqueeze" not in op_types(result.model)


def test_negative_pieces_of_different_extents_stay():
    result = check_optimized(_shuffled([], "c", extents=(2, 4)))
    assert result.after.count == 1


def test_negative_a_cut_at_another_place_than_between_the_pieces_stays():
    result = check_optimized(_shuffled([], "c", (2, 3, 2, 4, 5)))
    assert result.after.count == 1


def test_negative_a_concat_along_another_dim_stays():
    model = _shuffled([], "c", (2, 2, 3, 8, 5), axis=2, perm=(0, 2, 1, 3, 4), result=(2, 6, 8, 5))
    del model.graph.input[:]
    model.graph.input.extend([value("a", 2, 6, 4, 5), value("b", 2, 6, 4, 5)])
    assert check_optimized(model).after.count == 1


def test_negative_scales_per_channel_keep_the_pieces_in_one_dim():
    model = _shuffled([oh.make_node("Mul", ["c", "scales"], ["m"])], "m")
    model.graph.initializer.append(initializer("scales", np.arange(6.0).reshape(6, 1, 1)))
    assert check_optimized(model).after.count == 1


@pytest.mark.parametrize("part", [{}, {"start": 0}])
def test_a_shuffle_of_a_batch_that_the_run_time_knows_is_cut_by_its_shape(part: dict[str, Any]):
    nodes = [
        oh.make_node("Concat", ["a", "b"], ["c"], axis=3),
        transpose("c", "t", 0, 3, 1, 2),
        oh.make_node("Shape", ["t"], ["s"], **part),
        oh.make_node("Gather", ["s", "zero"], ["n"]),
        oh.make_node("Gather", ["s", "one"], ["channels"]),
        oh.make_node("Div", ["channels", "two"], ["k"]),
        oh.make_node("Concat", ["n", "two", "k", "four", "five"], ["cut"], axis=0),
        oh.make_node("Reshape", ["t", "cut"], ["d"]),
        transpose("d", "e", 0, 2, 1, 3, 4),
        oh.make_node("Concat", ["n", "channels", "four", "five"], ["whole"], axis=0),
        oh.make_node("Reshape", ["e", "whole"], ["f"]),
        transpose("f", "y", 0, 2, 3, 1),
    ]
    inputs = [value(name, "batch", 4, 5, 3) for name in "ab"]
    numbers = {"zero": 0, "one": 1, "two": 2, "four": 4, "five": 5}
    weights = [initializer(name, [number]) for name, number in numbers.items()]
    model = model_of(nodes, inputs, [value("y", "batch", 4, 5, 6)], weights)
    result = check_optimized(model, random_feeds(model, batch=3))
    assert (result.before.count, result.after.count) == (3, 0)


@pytest.mark.parametrize("seed", range(40))
def test_random_shuffles_compute_the_same(seed: int):
    random = Random(seed)
    s = Sketch(random)
    count, piece = random.randint(2, 3), random.randint(2, 4)
    rank = random.randint(2, 4)
    axis = random.randrange(rank)
    shape = [random.randint(1, 4) for _ in range(rank)]
    shape[axis] = piece
    pieces: list[str] = []
    for _ in range(count):
        perm = s.perm(rank)
        x = s.name()
        s.inputs[x] = tuple(shape[d] for d in perm)
        s.value(x, s.inputs[x])
        pieces.append(s.transposed(x, np.argsort(perm).tolist()))
    shape[axis] *= count
    x = s.node("Concat", pieces, shape, axis=axis)
    for _ in range(random.randint(0, 2)):
        if random.random() < 0.5:
            perm = s.perm(rank)
            x, axis = s.transposed(x, perm), perm.index(axis)
        else:
            x = s.node("Tanh", [x], s.values[x])
    cut = [*s.values[x][:axis], count, piece, *s.values[x][axis + 1 :]]
    if random.random() < 0.3 and axis:
        cut = [cut[0] * cut[1], *cut[2:]]  # as others joined dims, which tears the pieces apart or does not
    x = s.transposed(s.node("Reshape", [x, s.ints(*cut)], cut))
    shape = list(s.values[x])
    place = random.randrange(len(shape) - 1)
    joined = [*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :]]
    y = s.node("Reshape", [x, s.ints(*joined)], joined)
    inputs = [value(name, *own) for name, own in s.inputs.items()]
    check_optimized(model_of(s.nodes, inputs, [value(y, *joined)], s.constants))
