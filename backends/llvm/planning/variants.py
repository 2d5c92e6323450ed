"""Other ways to run the same plan: what is worth measuring where the first choice was a matter of the machine.

A variant moves the same bytes with the same micro-kernels. It differs in what a cost model can only guess: whether
stores bypass the caches, what is asked for ahead, how a tile is loaded and in which order tiles follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from layout_ir.backends.llvm.planning.out_of_cache import REACH
from layout_ir.dialects.kernel.plan import Blocking, Plan, Step, Tile


def variants(plan: Plan) -> Iterator[Plan]:
    """Plans that differ from `plan` in one decision, taken alike in all steps; `plan` itself is not among them."""
    for change in (_without_asking, _turned, _halved, _reaching):
        steps = tuple(map(change, plan.steps))
        if steps != plan.steps:
            yield replace(plan, steps=steps)


def _without_asking(step: Step) -> Step:
    return replace(step, prefetch=None)


def _tiles(step: Step, change: Callable[[Tile], Tile]) -> Step:
    kernel = step.kernel
    return replace(step, kernel=change(kernel)) if isinstance(kernel, Tile) else step


def _turned(step: Step) -> Step:
    """Tiles along the other axis first."""

    def turned(tile: Tile) -> Tile:
        last = {cut.axis: cut for cut in tile.schedule}
        cuts = (last["cols"], last["rows"])
        return replace(tile, schedule=cuts if tile.schedule[0].axis == "rows" else cuts[::-1])

    return _tiles(step, turned)


def _halved(step: Step) -> Step:
    """Down a few rows at a time only."""

    def halved(tile: Tile) -> Tile:
        last = {cut.axis: cut for cut in tile.schedule}
        high = 4 * last["rows"].size
        return (
            replace(tile, schedule=(Blocking("rows", high), last["cols"], last["rows"]))
            if high < tile.rows.count
            else tile
        )

    return _tiles(step, halved)


def _reaching(step: Step) -> Step:
    """Prefetches in whole rows, or none."""
    return _tiles(
        step,
        lambda tile: (
            replace(tile, prefetch_distance=0 if tile.prefetch_distance else REACH) if tile.square else tile
        ),
    )
