"""Other ways to run the same plan: what is worth measuring where the first choice was a matter of the machine.

A variant moves the same bytes with the same micro-kernels. It differs in what a cost model can only guess: whether
stores bypass the caches, what is prefetched, how a tile is loaded and in which order tiles follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.dialects.kernel.plan import Blocking, Plan, Step, Tile


def variants(plan: Plan, machine: Machine) -> Iterator[Plan]:
    """Plans that differ from `plan` in one decision, taken alike in all steps; `plan` itself is not among them."""
    for change in (
        _not_prefetching_iterations,
        _other_axis_first,
        _few_rows_at_a_time,
        partial(_prefetching_rows, machine.profile.prefetch_distance),
    ):
        steps = tuple(map(change, plan.steps))
        if steps != plan.steps:
            yield replace(plan, steps=steps)


def _not_prefetching_iterations(step: Step) -> Step:
    return replace(step, prefetch=None)


def _tiles(step: Step, change: Callable[[Tile], Tile]) -> Step:
    kernel = step.kernel
    return replace(step, kernel=change(kernel)) if isinstance(kernel, Tile) else step


def _other_axis_first(step: Step) -> Step:
    """Tiles along the other axis first."""

    def turned(tile: Tile) -> Tile:
        rows, cols = (Blocking(axis, tile.block(axis)) for axis in ("rows", "cols"))
        return replace(tile, schedule=(cols, rows) if tile.schedule[0].axis == "rows" else (rows, cols))

    return _tiles(step, turned)


def _few_rows_at_a_time(step: Step) -> Step:
    """Down a few rows at a time only."""

    def halved(tile: Tile) -> Tile:
        rows, cols = (Blocking(axis, tile.block(axis)) for axis in ("rows", "cols"))
        high = 4 * rows.size
        return (
            replace(tile, schedule=(Blocking("rows", high), cols, rows)) if high < tile.rows.count else tile
        )

    return _tiles(step, halved)


def _prefetching_rows(distance: int, step: Step) -> Step:
    """Prefetches in whole rows, or none."""
    return _tiles(
        step,
        lambda tile: (
            replace(tile, prefetch_distance=0 if tile.prefetch_distance else distance)
            if tile.square
            else tile
        ),
    )
