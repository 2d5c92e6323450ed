"""Who runs the model that goes out: what a Transpose costs there, and what its operators can do besides ONNX's rules."""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.errors import LayoutError

TRANSPOSE = 1 << 40
"""The cost of a Transpose apart from its bytes, where their number counts first."""
PER_KIBIBYTE = 1 << 12
SMALL_NODE = 1 << 4
"""The cost of a node that moves next to nothing: a Reshape, a Gather of a shape."""
CHANGED_NODE = 1
"""The cost of a node on other dims than it came with: of equal choices, the one nearest to the model is taken."""


@dataclass(frozen=True)
class Consumer:
    """A runtime, or the standard alone."""

    name: str
    summary: str

    def transpose_cost(self, nbytes: int) -> int:
        """The cost of moving `nbytes` bytes into another order."""
        return TRANSPOSE + -(-nbytes // 1024) * PER_KIBIBYTE


CONSUMERS = {
    consumer.name: consumer
    for consumer in (Consumer("onnx", "what the ONNX standard defines: fewest Transposes, then fewest bytes in them"),)
}


def consumer_named(name: str) -> Consumer:
    """The consumer of this name. Raises LayoutError where there is none."""
    if name not in CONSUMERS:
        raise LayoutError(f"no consumer is called '{name}': there are {', '.join(CONSUMERS)}")
    return CONSUMERS[name]
