"""Lower bounds of a sum of tables, by shifting costs between tables until their minima add up to more.

A cost shift between a table and one of its variables adds a number per state to the variable's own costs and takes it
from every entry of the table with that state. No assignment costs more or less for it (the problem is reparameterized),
so the sum of all minima is a lower bound whatever is shifted. `sweep` takes one variable after the other, collects the
least entry per state of all its tables and gives the sum back in equal shares to the tables that are still to come
(sequential reweighting, as in TRW-S and soft arc consistency); the bound falls by the rounding of shares at most. On
trees of tables it ends at the optimum, elsewhere close to it.

All numbers are integers. They are multiplied by SCALE first, since equal shares are fractions; what is left of such a
number when it is cut into shares stays with the variable, where it may be lost to the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layout_ir.selection.solver.cost_functions import Scope, Table
from layout_ir.selection.solver.selection_problem import FORBIDDEN

SCALE = 16
"""Shares are multiples of a sixteenth; bounds are rounded up to whole costs in the end."""

INFINITE = 1 << 59
"""An entry that no assignment may take. What is above half of it is kept there; finite entries stay far below."""

LARGEST = 1 << 44
"""Finite entries above this would, scaled and added up, come near INFINITE; they are cut down to it."""


_least_of = np.minimum.reduce  # for small tables, as these are mostly, in half the time of their method `min`


SweepOrder = list[tuple[int, list[tuple[int, int, tuple[int, ...], tuple[int, ...], bool]], int]]
"""Variables in order, each with its tables (number, axis, other axes, shape of what is added along the axis, whether
a later variable is in the table too) and the number of equal shares that its costs are cut into."""


@dataclass(slots=True)
class ReweightedTables:
    """Tables after cost shifts, restricted to the states that are still possible.

    Arrays are replaced and never written to, so that a copy of the lists is a copy of all.
    """

    scopes: list[Scope]
    at: dict[int, list[tuple[int, int]]]
    """Per variable its tables and the axis in each."""
    states: dict[int, NDArray[np.int64]]
    """The states that are still possible, by their numbers."""
    sizes: dict[int, int]
    """How many there were."""
    tables: list[Table]
    own: dict[int, Table]
    """The costs of the variables themselves."""
    shifts: dict[tuple[int, int], Table]
    """Per (table, axis), what went from the table to the variable, over all states; replaced by whoever records it."""
    record: bool = True
    """Whether the shifts are to be recorded."""

    @classmethod
    def of(cls, tables: Sequence[tuple[Scope, Table]], *, record: bool = True) -> ReweightedTables:
        """`tables` with nothing shifted and all states possible, multiplied by SCALE."""
        scopes = [scope for scope, _ in tables]
        sizes = {v: size for scope, table in tables for v, size in zip(scope, table.shape, strict=True)}
        at: dict[int, list[tuple[int, int]]] = {v: [] for v in sorted(sizes)}
        for number, scope in enumerate(scopes):
            for axis, v in enumerate(scope):
                at[v].append((number, axis))
        scaled = [
            np.where(table >= FORBIDDEN, INFINITE, np.minimum(table, LARGEST) * SCALE) for _, table in tables
        ]
        states = {v: np.arange(sizes[v], dtype=np.int64) for v in at}
        own = {v: np.zeros(sizes[v], np.int64) for v in at}
        return cls(scopes, at, states, sizes, scaled, own, {}, record)

    def copy(self) -> ReweightedTables:
        """A copy whose changes do not show here, without the record of shifts; arrays are shared until replaced."""
        return ReweightedTables(
            self.scopes,
            self.at,
            dict(self.states),
            self.sizes,
            list(self.tables),
            dict(self.own),
            {},
            self.record,
        )

    def bound(self) -> int:
        """What every assignment of possible states costs at least, scaled."""
        return sum([int(_least_of(t, axis=None)) for t in (*self.tables, *self.own.values())])

    def bound_around(self, v: int) -> int:
        """What `v` and the tables around it add to `bound`."""
        around = [self.tables[number] for number, _ in self.at[v]]
        return sum([int(_least_of(t, axis=None)) for t in (self.own[v], *around)])

    def marginal(self, number: int, axis: int) -> Table:
        """Per possible state of the variable at `axis`, the least entry of table `number`."""
        table = self.tables[number]
        return _least_of(table, axis=tuple([k for k in range(table.ndim) if k != axis]))

    def sweep(self, order: SweepOrder) -> None:
        """Shifts costs once along `order`. Every state that is left must be possible in every table around it."""
        tables, record = self.tables, self.record
        for v, stops, shares in order:
            asked = [_least_of(tables[number], axis=others) for number, _, others, _, _ in stops]
            total = self.own[v]
            for least in asked:
                total = total + least
            share = total // shares
            later = 0
            for (number, axis, _, shape, is_later), least in zip(stops, asked, strict=True):
                later += is_later
                change = share - least if is_later else -least
                # Infinite entries drift by finite amounts, which is far from bringing them down.
                tables[number] = tables[number] + change.reshape(shape)
                if not record:
                    continue
                full = self.shifts.get((number, axis))
                if full is None:
                    full = self.shifts[number, axis] = np.zeros(self.sizes[v], np.int64)
                full[self.states[v]] -= change
            self.own[v] = total - later * share

    def sweep_order(self, variables: Sequence[int]) -> SweepOrder:
        """The argument of `sweep` that takes `variables` in this order."""
        place = {v: k for k, v in enumerate(variables)}
        found: SweepOrder = []
        for v in variables:
            stops: list[tuple[int, int, tuple[int, ...], tuple[int, ...], bool]] = []
            for number, axis in self.at[v]:
                scope = self.scopes[number]
                others = tuple(k for k in range(len(scope)) if k != axis)
                shape = tuple(-1 if k == axis else 1 for k in range(len(scope)))
                stops.append((number, axis, others, shape, any(place[w] > place[v] for w in scope)))
            ahead = sum(stop[-1] for stop in stops)
            found.append((v, stops, max(ahead, len(stops) - ahead, 1)))
        return found

    def least(self, v: int) -> Table:
        """Per possible state of `v`, by how much at least the scaled bound rises if `v` takes it."""
        total = self.own[v] - self.own[v].min()
        for number, axis in self.at[v]:
            least = self.marginal(number, axis)
            total = np.minimum(total + (least - least.min()), INFINITE)
        return total

    def keep(self, v: int, chosen: NDArray[np.int64]) -> None:
        """Restricts `v` to the states at `chosen`, positions among the possible ones."""
        self.states[v] = self.states[v][chosen]
        self.own[v] = self.own[v][chosen]
        for number, axis in self.at[v]:
            self.tables[number] = self.tables[number].take(chosen, axis=axis)

    def round(self, order: Sequence[int]) -> dict[int, int]:
        """An assignment: in `order`, each variable takes its cheapest state, given the states of those before it."""
        position: dict[int, int] = {}
        for v in order:
            total = self.own[v].copy()
            for number, _ in self.at[v]:
                index = tuple(
                    slice(None) if w == v or w not in position else position[w] for w in self.scopes[number]
                )
                table = self.tables[number][index]
                kept = [w for w in self.scopes[number] if w == v or w not in position]
                other = tuple(k for k, w in enumerate(kept) if w != v)
                total = np.minimum(total + (table.min(axis=other) if other else table), INFINITE)
            position[v] = int(total.argmin())
        return {v: int(self.states[v][k]) for v, k in position.items()}
