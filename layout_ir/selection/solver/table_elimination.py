"""The least sum of a few tables by elimination of their variables, where the tables that come of it are small.

Branch and bound asks for it once states were dropped: what was entangled over all states is often a matter of
milliseconds over those that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from layout_ir.selection.solver.cost_functions import Scope, Table
from layout_ir.selection.solver.elimination_order import Bucket, find_elimination_order
from layout_ir.selection.solver.lower_bounds import INFINITE

MOST_ENTRIES = 1 << 23
"""Entries of the largest table, above which it is not done."""

MOST_WORK = 1 << 26
"""Entries of all tables, above which it is not done: of so many, it takes half a second, in which nobody looks at the
time."""

ENTRIES_PER_VARIABLE = 1 << 15
"""Entries of all tables per variable, above which it is not done: in the time that these take, a third of a
millisecond, branch and bound shifts the costs of a variable twenty times. A search that has gone on
for long is worth more: with as many times that as it branched, a GPT-NeoX of six layers and dynamic shapes, whose
layers have positions and a mask in common, was solved in 24 to 40 s, where it was not in 60."""


class Least(NamedTuple):
    """The least sum of tables, and the place of each variable's state in their axes."""

    cost: int
    places: dict[int, int]


def least_sum(
    tables: Sequence[tuple[Scope, Table]], sizes: Mapping[int, int], patience: int = 1
) -> Least | None:
    """The least sum, INFINITE at most; None where the tables that come of it are large.

    `sizes` has the number of states of every variable; `patience` is how many times ENTRIES_PER_VARIABLE may be
    filled. Entries are INFINITE at most.
    """
    numbers = {v: number for number, v in enumerate(v for v, size in sizes.items() if size > 1)}
    variables = list(numbers)
    scopes: list[Scope] = []
    squeezed: list[Table] = []
    for scope, table in tables:
        own = tuple([numbers[v] for v in scope if v in numbers])
        order = sorted(range(len(own)), key=own.__getitem__)
        scopes.append(tuple(sorted(own)))
        squeezed.append(table.reshape([sizes[variables[k]] for k in own]).transpose(order))
    domains = [sizes[v] for v in variables]
    order = find_elimination_order(domains, scopes, MOST_ENTRIES)
    if order.core_variables or order.work > min(MOST_WORK, ENTRIES_PER_VARIABLE * len(sizes) * patience):
        return None
    messages: dict[int, Table] = {}
    cost = sum(int(table) for scope, table in zip(scopes, squeezed, strict=True) if not scope)
    trail: list[tuple[Bucket, Table]] = []
    for bucket in order.buckets:
        axes = bucket.variable, *bucket.rest
        total = np.zeros([1] * len(axes), np.int64)
        parts = [(scopes[k], squeezed[k]) for k in bucket.functions]
        parts += [(order.slots[slot], messages.pop(slot)) for slot in bucket.slots]
        for scope, table in parts:
            total = np.minimum(total + _spread(scope, table, axes), INFINITE)
        total = np.broadcast_to(total, [domains[v] for v in axes])
        trail.append((bucket, total.argmin(axis=0)))
        message = total.min(axis=0)
        if bucket.out < 0:
            cost += int(message)
        elif bucket.out in messages:
            messages[bucket.out] = np.minimum(messages[bucket.out] + message, INFINITE)
        else:
            messages[bucket.out] = message
    places = dict.fromkeys(sizes, 0)
    for bucket, best in reversed(trail):
        places[variables[bucket.variable]] = int(best[tuple([places[variables[v]] for v in bucket.rest])])
    return Least(min(cost, INFINITE), places)


def _spread(scope: Scope, table: Table, axes: Scope) -> Table:
    """A table over ascending variables with its axes where `axes` has them, the first of which may be any."""
    present = [v for v in axes if v in scope]
    table = table.transpose([scope.index(v) for v in present])
    return table.reshape([table.shape[present.index(v)] if v in scope else 1 for v in axes])
