"""Loops and branches within a plan as records of it: machine code goes into the iterations of a subgraph and back.

What a subgraph reads and writes lies in the memory of the plan around it: in its arena, at an address that is known, or
in what it is lent itself, at one that is patched for each of its calls. So the tables that say where everything is in
each iteration are made once per context of that plan (`repeated_plan`), and the record is a call of machine code.

Python is not asked meanwhile whether to go on: what is nested has a number of iterations that is known not to be large,
or that the model computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.onednn.plan_steps import Address, Location, NestedFlow
from layout_ir.backends.onednn.repeated_plan import PlacedTrips, RepeatedPlan, Slot, TripBlock, fixed
from layout_ir.backends.onednn.trip_driver import trip_driver


def nested_loop(
    body: RepeatedPlan,
    operands: Sequence[Slot],
    rows: Mapping[int, Slot],
    at_the_end: Mapping[int, Address],
    *,
    count: Address | None = None,
    most: int,
    holds: Address | None = None,
    expected: int | None = None,
) -> NestedFlow:
    """The iterations of a plan, whose operands and rows are where `PlacedTrips` says.

    There are as many as the number at `count` says, or `most` where it is left out; none where the truth value at
    `holds` is false. The record fails where there are others than `expected`. `at_the_end` has where what an operand is
    behind the last iteration goes.
    """
    driver, context = trip_driver(), body.context()
    placed = PlacedTrips(body, context, operands, rows)
    inputs = body.plan.inputs
    sizes = {number: inputs[number].nbytes for number in at_the_end}
    block = TripBlock(
        placed, [(fixed(target), number, sizes[number]) for number, target in at_the_end.items()]
    )
    fields: list[Address | None] = [
        block.address, *driver.functions, count, most, holds, -1 if expected is None else expected,
        block.ends.ctypes.data, len(block.ends),
    ]  # fmt: skip
    table, patches = _table(fields)
    return NestedFlow(
        driver.loop_at,
        table.ctypes.data,
        [*block.patches, *patches],
        context.with_indices,
        (driver, table, block),
    )


def nested_branch(which: Address, branches: Sequence[NestedFlow]) -> NestedFlow:
    """The first of two loops of one iteration where the truth value at `which` holds, else the second."""
    driver = trip_driver()
    table, patches = _table([which, *(branch.address for branch in branches)])
    return NestedFlow(
        driver.branch_at,
        table.ctypes.data,
        [*patches, *(patch for branch in branches for patch in branch.patches)],
        [each for branch in branches for each in branch.with_indices],
        (driver, table, branches),
    )


def _table(fields: Sequence[Address | None]) -> tuple[NDArray[np.int64], list[tuple[int, Location]]]:
    """The fields in memory, 0 for one that is left out or patched, and what is patched."""
    table = np.array(
        [0 if field is None or isinstance(field, Location) else field for field in fields], np.int64
    )
    patches = [
        (table.ctypes.data + 8 * number, field)
        for number, field in enumerate(fields)
        if isinstance(field, Location)
    ]
    return table, patches
