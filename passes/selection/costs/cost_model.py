"""What moving and computing costs, in whole numbers of one unit, so that an optimum is exact and reproducible.

The built-in figures are nanoseconds of one core of a current x86 server, measured with the layouts this project
knows: they need not be right to a percent, they need to rank. A reorder of n bytes (source and destination together)
takes

    CALL_NS + n / BYTES_PER_NS

with 20 bytes per nanosecond, what compiled reorders reach in memory (25 to 35 on sizes that miss every cache, 60
to 75 in L2), and a call that costs about a microsecond with its cold misses. They are constants, so that a program
comes out the same on every machine; `costs=calibrated` prices reorders by what `layout-ir calibrate` measured on this
one instead (`calibration.py`), and leaves ops their costs.

A cost table in JSON replaces them, entry by entry (`cost_table.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.interfaces import LayoutOption

BYTES_PER_NS = 20
CALL_NS = 1000
COST_LIMIT = 1 << 48
"""Costs stay below this, so that sums over a million ops stay below what counts as forbidden."""


def reorder_bytes(source: Layout, destination: Layout, dtype: str) -> int:
    """Bytes a reorder reads and writes: both buffers, pads of the destination included."""
    return source.nbytes(dtype) + destination.nbytes(dtype)


def reorder_ns(source: Layout, destination: Layout, dtype: str) -> int:
    """Estimated time of a reorder; 0 where the destination is only another name for the same bytes."""
    if cast_obstacle(source, destination) is None:
        return 0
    return CALL_NS + reorder_bytes(source, destination, dtype) // BYTES_PER_NS


def fill_bytes(layout: Layout, dtype: str) -> int:
    """Bytes that filling the pads of a tensor writes: its pads, and nothing else."""
    return layout.nbytes(dtype) - layout.nelems * layout.nbytes(dtype) // max(layout.extent, 1)


def fill_ns(layout: Layout, dtype: str) -> int:
    """Estimated time of writing the pads of a tensor."""
    return CALL_NS + fill_bytes(layout, dtype) // BYTES_PER_NS


def stream_ns(nbytes: int) -> int:
    """Estimated time of an op that reads and writes `nbytes` once (elementwise, pools, concat)."""
    return CALL_NS + nbytes // BYTES_PER_NS


class CostModel:
    """The built-in costs. Subclasses replace some."""

    unit = "ns"
    source: str | None = None
    """The file of the cost table, as it was named; "calibrated" for measured costs, None for the built-in ones."""

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """What a reorder costs; FORBIDDEN where it is impossible."""
        return reorder_ns(source, destination, dtype)

    def fill(self, layout: Layout, dtype: str) -> int:
        """What it costs to write the pads of a tensor, and nothing else."""
        return fill_ns(layout, dtype)

    def op(self, name: str, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """What an option of the op `name` costs; `shapes` are those of its tensor operands, then results."""
        return option.cost

    def formats(self, shape: tuple[int, ...]) -> Sequence[Format]:
        """Formats that a reorder of a tensor of this shape may pass through although no op asks for them."""
        return ()


CALIBRATED = "calibrated"
"""Stands for a file where the costs of this machine are meant, as `layout-ir calibrate` measured them."""


def proven_for(costs: CostModel | None, target: str) -> str:
    """What an optimum is proven for, in words: the costs and the target."""
    if costs is None or (costs.source is None and type(costs) is CostModel):
        return f"the cost model of target {target}"
    if costs.source == CALIBRATED:
        return f"the costs calibrated on this machine, target {target}"
    name = (
        f"cost table {costs.source}" if costs.source else f"a cost model of its own ({type(costs).__name__})"
    )
    return f"{name}, target {target}"
