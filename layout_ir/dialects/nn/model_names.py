"""Names that a program has from its ONNX model: of inputs and outputs, nodes and values.

    arguments, results of a function    an attribute `onnx.name` of each
    nodes, values                       the location of an op: loc("node"("value")), all results of the op in turn

Names of SSA values are for the reader of a program: they lack characters that MLIR's may not have, and may be changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Operation

NAME = "onnx.name"


def named(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    """The attributes of arguments or results of a function whose names in the model are `names`."""
    return ArrayAttr([DictionaryAttr({NAME: StringAttr(name)}) for name in names])


def names_in(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[str | None]:
    """The names in the model of the `count` arguments or results that have `attributes`; None for one without."""
    found: list[str | None] = []
    for entry in () if attributes is None else attributes.data:
        name = entry.data.get(NAME)
        found.append(name.data if isinstance(name, StringAttr) else None)
    return found or [None] * count


_UNKNOWN = UnknownLoc()


def location(node: str, values: Sequence[str] = ()) -> NameLoc:
    """The location of an op that stands for the node or constant called `node`: a model has names, not lines.

    `values` are the names of its results, where they are those of the node.
    """
    inner: Attribute = _UNKNOWN
    for name in reversed(values):
        inner = NameLoc(StringAttr(name), inner)
    return NameLoc(StringAttr(node), inner)


def names_at(op: Operation) -> tuple[str, ...]:
    """The name of the node for which `op` stands, then those of its results; empty where the location has none."""
    return tuple(_names(op.location))


def _names(location: Attribute) -> Iterator[str]:
    while isinstance(location, NameLoc):
        yield location.desc.data
        location = location.location


def name_hint(name: str) -> str | None:
    """`name` with characters replaced that the name of an SSA value cannot have; None for an empty one."""
    text = re.sub(r"[^A-Za-z0-9_.$-]", "_", name)
    # xDSL cuts a number off the end, which must leave something that does not begin with one.
    return (f"v{text}" if re.match(r"\d|_\d+$", text) else text) or None
