"""A network as a graph to draw: ops, the values between them, and the copies that change layouts.

The graph knows nothing of what it was made from: a program of the IR, an ONNX model, the log of another library. A copy
(a reorder, a Transpose, a Reformat) is a node of its own: what it reads comes in by one edge in one Format, and what it
writes goes out by others in another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

NodeKind = Literal["op", "view", "opaque", "constant", "input", "output", "copy"]


@dataclass(frozen=True)
class DrawnNode:
    """An op, or what stands at an end of the graph. Nodes of two graphs that have one `id` stand for the same thing."""

    id: str
    label: str
    """What it is: "nn.conv"."""
    kind: NodeKind = "op"
    name: str = ""
    """What the model calls it."""
    detail: str = ""
    """What else there is to say, in lines: attributes, constant operands."""
    nbytes: int | None = None
    """Of a copy, the bytes that it reads and writes; None where only the run time knows."""
    reason: str = ""
    """Of a copy, why it is there."""


@dataclass(frozen=True)
class DrawnEdge:
    """A value on its way from the node `source` to the node `target`, given by their ids."""

    source: str
    target: str
    value: str = ""
    shape: str = ""
    element_type: str = ""
    layout: str = ""
    """The Format in its notation or by its tag; empty where it has none or it is not known."""


@dataclass(frozen=True)
class DrawnGraph:
    """Nodes and the edges between them. Raises ValueError for an id that stands twice, and for an edge to none."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.numbers) != len(self.nodes):
            seen = set[str]()
            twice = next(node.id for node in self.nodes if node.id in seen or seen.add(node.id))
            raise ValueError(f"two nodes have the id {twice!r}")
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.numbers:
                    raise ValueError(
                        f"the edge {edge.source!r} -> {edge.target!r}: no node has the id {end!r}"
                    )

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place of each node in `nodes`, by its id."""
        return {node.id: number for number, node in enumerate(self.nodes)}

    @cached_property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """The places in `nodes` of the source and the target of each edge."""
        return tuple((self.numbers[edge.source], self.numbers[edge.target]) for edge in self.edges)

    @property
    def copies(self) -> list[DrawnNode]:
        """The copies, those that move most first."""
        found = [node for node in self.nodes if node.kind == "copy"]
        return sorted(found, key=lambda node: -(node.nbytes or 0))


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """`text` with U+FFFD for what XML cannot hold: control characters, and what was no UTF-8 (lone surrogates)."""
    return _UNPRINTABLE.sub("\ufffd", text)


def bytes_text(nbytes: int | None) -> str:
    """A number of bytes with its unit, in powers of ten: "1.2 MB"; "? B" where it is not known."""
    if nbytes is None:
        return "? B"
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"
