"""What another compiler says it executes, as one small value: an `ExecutionGraph`.

Nodes compute (`op`), or only move elements (`copy`: a transpose, a reorder, a reformat), or do neither (`view`, which
gives the same memory another shape). Where data comes from and goes to are nodes too: `constant`, `input`, `output`.
A value is a tensor as it lies in memory. Its dims are those of the nodes that use it; a copy whose result has its dims
in another order states that order as its `permutation`, so that a transpose of row-major tensors and a reorder of one
tensor are the same thing seen from two sides:

    Transpose (0, 2, 3, 1)  of 1x64x56x56 row-major   abcd -> acdb in the dims of its input
    reorder                 of 1x64x56x56             abcd -> acdb
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import name_of
from layout_ir.elements.element_types import bits_of, canonical_name
from layout_ir.errors import LayoutError, shape_text

Role = Literal["op", "copy", "view", "constant", "input", "output"]

Extents = tuple[int | None, ...]
"""A shape in which None is an extent that the file does not say."""

MOST_NODES = 1_000_000
"""Nodes of a file that are read at most: each takes about a kilobyte."""

_LETTERS = "abcdefghijkl"


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor in memory. What the file does not say, or what has no translation, is None."""

    name: str
    shape: Extents | None
    dtype: str | None
    """The element type by its MLIR name."""
    layout: Format | None
    layout_text: str = ""
    """The layout as the file writes it."""

    @property
    def nbytes(self) -> int | None:
        """Bytes of the buffer, pads included where the layout is known; None where the shape or the type is not."""
        if self.shape is None or self.dtype is None or None in self.shape:
            return None
        extents = tuple(extent for extent in self.shape if extent is not None)
        layout = self.bound()
        return -(-prod(extents) * bits_of(self.dtype) // 8) if layout is None else layout.nbytes(self.dtype)

    def bound(self, order: Format | None = None) -> Layout | None:
        """The Layout that `order` (default: its own) gives the tensor, None where that is not known.

        An extent that is not known is bound as a large prime of its own: two layouts are then the same store only
        where they are for every extent but 1 and multiples of blocks.
        """
        order = order or self.layout
        if order is None or self.shape is None or order.rank != len(self.shape):
            return None
        primes = (997, 991, 983, 977, 971, 967, 953, 947, 941, 937, 929, 919)
        extents = (
            prime if extent is None else extent
            for extent, prime in zip(self.shape, primes, strict=False)
        )  # fmt: skip
        try:
            return order.bind(tuple(extents))
        except LayoutError:
            return None

    @property
    def layout_name(self) -> str:
        """The layout in a report: as the file writes it, else its tag in letters."""
        return self.layout_text or format_text(self.layout)

    def __str__(self) -> str:
        shape = "?" if self.shape is None else shape_text(self.shape)
        return f"{self.dtype or '?'} {shape} {self.layout_name}"


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that a node reads, and as what: the number or the name of the operand."""

    slot: str
    value: int
    read_as: tuple[int, ...] | None = None
    """Where the node itself reads the dims in another order (a flag of a product): dim k is dim read_as[k]."""


@dataclass(slots=True)
class Node:
    """A node of the graph; values are numbers in `ExecutionGraph.values`."""

    name: str
    kind: str
    """What the file calls such nodes: Conv, Reorder, reorder, Reformat."""
    role: Role
    inputs: list[Operand] = field(default_factory=list[Operand])
    outputs: list[int] = field(default_factory=list[int])
    implementation: str = ""
    """The kernel that computes it, where the file names one."""
    attributes: str = ""
    """What else the file says of what it computes: kernel size, groups, flags."""
    permutation: tuple[int, ...] | None = None
    """Of a copy: dim k of the result is dim permutation[k] of the operand. None where the file does not say it."""
    is_portable: bool = False
    """Of a copy: whether the ops around it could be written for another order of their dims, as those of ONNX can."""
    elementwise: bool = False
    """Whether it computes each element of its result from those at the same place, in whatever layout."""
    time_us: float | None = None
    """Microseconds of all its executions."""
    executions: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip() if self.name != self.kind else self.kind


@dataclass(slots=True)
class ExecutionGraph:
    """Nodes and values of one file; `add_value` and `add_node` build it.

    `values_are_inferred` says that the file lists executions only, and that who wrote what was concluded from shapes,
    types and layouts. `skipped` has what could not be read.
    """

    source: str
    """What the file is, in words."""
    nodes: list[Node] = field(default_factory=list[Node])
    values: list[Value] = field(default_factory=list[Value])
    values_are_inferred: bool = False
    skipped: list[str] = field(default_factory=list[str])

    def add_value(self, value: Value) -> int:
        """The number of `value`, which becomes part of the graph."""
        self.values.append(value)
        return len(self.values) - 1

    def add_node(self, node: Node) -> int:
        """The number of `node`, which becomes part of the graph. Raises LayoutError beyond `MOST_NODES`."""
        if len(self.nodes) >= MOST_NODES:
            raise LayoutError(f"more than {MOST_NODES} different nodes, the most that are read of a file")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def producers(self) -> list[int | None]:
        """Per value, the number of the node that makes it; None where the file has none."""
        result: list[int | None] = [None] * len(self.values)
        for number, node in enumerate(self.nodes):
            for value in node.outputs:
                result[value] = number
        return result

    def readers(self) -> list[list[tuple[int, Operand]]]:
        """Per value, the numbers of the nodes that read it, with their operands."""
        result: list[list[tuple[int, Operand]]] = [[] for _ in self.values]
        for number, node in enumerate(self.nodes):
            for operand in node.inputs:
                result[operand.value].append((number, operand))
        return result


def row_major(rank: int) -> Format | None:
    """The row-major Format of that rank, its dims called a, b, c; None beyond 12 dims."""
    return Format.row_major(tuple(_LETTERS[:rank])) if 0 < rank <= len(_LETTERS) else None


def permuted(order: Format, permutation: Sequence[int]) -> Format:
    """The Format of the same memory whose dim k is dim permutation[k] of `order`."""
    where = {old: new for new, old in enumerate(permutation)}
    return replace(
        order,
        names=tuple(_LETTERS[: order.rank]),
        factors=tuple(replace(factor, dim=where[factor.dim]) for factor in order.factors),
    )


def format_text(layout: Format | None) -> str:
    """The tag of a Format in the letters a, b, c, its notation where it has no tag, `?` for None."""
    if layout is None:
        return "?"
    if layout.rank > len(_LETTERS):
        return str(layout)
    lettered = layout.with_names(tuple(_LETTERS[: layout.rank]))
    return name_of(lettered) or str(lettered)


def dtype_named(name: str) -> str | None:
    """The MLIR name of an element type that a file names, in whatever case; None where no type has that name."""
    for text in (name, name.lower()):
        try:
            return canonical_name(text)
        except LayoutError:
            continue
    return {"float": "f32", "half": "f16", "double": "f64", "fp8": "f8E4M3FN", "undef": None}.get(
        name.lower()
    )
