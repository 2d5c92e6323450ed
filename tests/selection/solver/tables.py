"""Random tables over a few variables, and what every assignment of them costs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np

from layout_ir.selection.solver.cost_functions import Scope, Table
from layout_ir.selection.solver.selection_problem import FORBIDDEN

Tables = list[tuple[Scope, Table]]


def random_tables(
    rng: random.Random, scopes: Sequence[Scope], states: Sequence[int], forbidden: float = 0
) -> Tables:
    """One table per scope, `states[v]` states of variable v, `forbidden` of the entries FORBIDDEN."""
    tables: Tables = []
    for scope in scopes:
        shape = tuple(states[v] for v in scope)
        entries = [FORBIDDEN if rng.random() < forbidden else rng.randrange(50) for _ in np.ndindex(shape)]
        tables.append((scope, np.array(entries, np.int64).reshape(shape)))
    return tables


def tangle(rng: random.Random, variables: int, edges: int) -> list[Scope]:
    """A table over each variable, one over pairs drawn at random as often as `edges`, and one over three variables."""
    pairs = [tuple(sorted(rng.sample(range(variables), 2))) for _ in range(edges)]
    return [*((v,) for v in range(variables)), *pairs, tuple(sorted(rng.sample(range(variables), 3)))]


def assignments(tables: Tables) -> Iterator[tuple[dict[int, int], int]]:
    """Every assignment of the variables, and the sum of the entries that it takes."""
    sizes = {v: size for scope, table in tables for v, size in zip(scope, table.shape, strict=True)}
    for states in itertools.product(*map(range, sizes.values())):
        chosen = dict(zip(sizes, states, strict=True))
        yield chosen, sum(int(table[tuple(chosen[v] for v in scope)]) for scope, table in tables)


def least_sum(tables: Tables) -> int:
    """The least sum over all assignments."""
    return min(cost for _, cost in assignments(tables))
