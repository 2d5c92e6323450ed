"""The code of folds in registers: what a fold begins with, how it takes in elements, and how its lanes become one.

A fold under way has a *state*: a vector with a partial result per lane, or two, of elements and of their indices, for
the folds that give the index of an element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layout_ir.backends.llvm.emission.llvm_builder import shuffle
from layout_ir.backends.llvm.loops.expression import Symbolic, combined, neutral
from layout_ir.backends.llvm.loops.float_functions import FloatFunctions
from layout_ir.backends.llvm.loops.vector_numpy import Vector, VectorNumPy, constant, register_element

ARGUMENT_FOLDS = {"arg_maximum": "maximum", "arg_minimum": "minimum"}
"""Folds of pairs, an element and its index, that give the index of the first of the greatest or least elements."""

State = list[Vector]
"""Vectors that hold what a fold has so far."""


def identities(lanes: FloatFunctions, folds: Sequence[Symbolic]) -> list[State]:
    """The states that the folds begin with, which change nothing that is folded in."""
    result: list[State] = []
    for fold in folds:
        [x, *_] = fold.nodes
        if fold.fold in ARGUMENT_FOLDS:
            value = neutral(ARGUMENT_FOLDS[fold.fold], x.dtype_name)
            last = constant(lanes, (1 << 63) - 1, "i64")
            result.append([constant(lanes, value, x.dtype_name), last])
        else:
            result.append([constant(lanes, neutral(fold.fold, x.dtype_name), x.dtype_name)])
    return result


def folded_in(fold: Symbolic, state: State, given: State) -> State:
    """The state of a fold once it has what is given, in each lane: numbers, or pairs of a number and its index."""
    if fold.fold not in ARGUMENT_FOLDS:
        return [combined(fold.fold, state[0], given[0])]
    (x, at), (y, here) = state, given
    larger = y > x if fold.fold == "arg_maximum" else y < x
    ties = y == x
    if x.dtype.kind == "f":
        x_nan, y_nan = x != x, y != y
        larger = larger | (y_nan & (x == x))
        ties = ties | (x_nan & y_nan)
    takes = larger | (ties & (here < at))
    return [VectorNumPy.where(takes, y, x), VectorNumPy.where(takes, here, at)]


def across_lanes(fold: Symbolic, state: State, single: FloatFunctions) -> State:
    """The state with all lanes folded into one, by halves."""
    b = single.b
    while state[0].lanes.size > 1:
        size = state[0].lanes.size
        half = FloatFunctions(b, single.machine, size // 2)
        halves: list[State] = []
        for first in (0, size // 2):
            mask = list(range(first, first + size // 2))
            halves.append([
                Vector(
                    half if size > 2 else single,
                    shuffle(b, register_element(v.dtype_name), v.value, "poison", size, mask),
                    v.dtype_name,
                )
                for v in state
            ])  # fmt: skip
        state = folded_in(fold, *halves)
    return [Vector(single, v.value, v.dtype_name) for v in state]


def splats(lanes: FloatFunctions, rows: Mapping[Symbolic, Vector]) -> dict[Symbolic, Vector]:
    """The numbers of rows, which have one lane, in every lane."""
    result: dict[Symbolic, Vector] = {}
    for node, x in rows.items():
        value = x.value
        if lanes.size > 1:
            element = register_element(x.dtype_name)
            value = shuffle(lanes.b, element, value, "poison", 1, [0] * lanes.size)
        result[node] = Vector(lanes, value, x.dtype_name)
    return result


def flat(states: list[State]) -> list[str]:
    """The registers of all states, one behind the other."""
    return [vector.value for state in states for vector in state]


def typed(states: list[State]) -> list[tuple[str, str]]:
    """The registers of all states, each with its type in front."""
    return [(vector.type, vector.value) for state in states for vector in state]


def like(states: list[State], values: Sequence[str]) -> list[State]:
    """States of the types of `states`, in other registers: those of `values`."""
    left = iter(values)
    return [[Vector(vector.lanes, next(left), vector.dtype_name) for vector in state] for state in states]
