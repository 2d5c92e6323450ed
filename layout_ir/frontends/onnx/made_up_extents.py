"""Names that ONNX's inference makes up for extents of which it knows nothing (unk__0)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

PREFIX = "unk__"
"""What these names begin with."""

_PREFIX_BYTES = PREFIX.encode()


def is_made_up(extent: object) -> bool:
    """Whether an extent, a number, a name or None, has such a name."""
    return isinstance(extent, str) and extent.startswith(PREFIX)


def may_have_made_up(graph: onnx.GraphProto) -> bool:
    """Whether some type in a graph may have such a name, which one look at all of its bytes tells."""
    return _PREFIX_BYTES in graph.SerializeToString()


def names_made_up(type: onnx.TypeProto) -> list[str]:
    """The names of extents of a type that are made up."""
    # Few types have any, which the bytes of the message tell faster than its dims.
    if _PREFIX_BYTES not in type.SerializeToString():
        return []
    return [dim.dim_param for dim in dims_of(type) if is_made_up(dim.dim_param)]


def dims_of(type: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """The extents of a type, of a sequence those of its elements."""
    what = type.WhichOneof("value")
    if what in ("tensor_type", "sparse_tensor_type"):
        yield from getattr(type, what).shape.dim
    elif what in ("sequence_type", "optional_type"):
        yield from dims_of(getattr(type, what).elem_type)
    elif what == "map_type":
        yield from dims_of(type.map_type.value_type)
