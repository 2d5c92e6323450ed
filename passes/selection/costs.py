"""What moving and computing costs, in whole nanoseconds, so that an optimum is exact and reproducible.

The figures are those of one core of a current x86 server, measured with the layouts this project knows: they need
not be right to a percent, they need to rank. A reorder of n bytes (source and destination together) takes

    CALL_NS + n / BYTES_PER_NS

with 20 bytes per nanosecond, what compiled reorders reach in memory (25 to 35 on sizes that miss every cache, 60
to 75 in L2), and a call that costs about a microsecond with its cold misses.
"""

from __future__ import annotations

from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.layout import Layout

BYTES_PER_NS = 20
CALL_NS = 1000


def reorder_bytes(source: Layout, destination: Layout, dtype: str) -> int:
    """Bytes a reorder reads and writes: both buffers, pads of the destination included."""
    return source.nbytes(dtype) + destination.nbytes(dtype)


def reorder_ns(source: Layout, destination: Layout, dtype: str) -> int:
    """Estimated time of a reorder; 0 where the destination is only another name for the same bytes."""
    if cast_obstacle(source, destination) is None:
        return 0
    return CALL_NS + reorder_bytes(source, destination, dtype) // BYTES_PER_NS


def stream_ns(nbytes: int) -> int:
    """Estimated time of an op that reads and writes `nbytes` once (elementwise, pools, concat)."""
    return CALL_NS + nbytes // BYTES_PER_NS
