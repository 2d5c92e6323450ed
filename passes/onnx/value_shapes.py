"""What the type of a value says: its shape as far as it is known, and the bits of an element.

An extent is a number, a name, which inference may have made up (`made_up_extents`), or not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.passes.onnx.orders import Extent, Shape

if TYPE_CHECKING:
    import onnx

UNKNOWN_EXTENT = 64
"""The extent for which a dim of an input counts whose extent only the run time knows, in bytes moved.

Those that are the first of an input count as 1, those of a cache as `CACHED_EXTENT`. That goes by the name of the
extent: a value has the same size in any order of its dims. Extents of other values count as what they are for inputs
of that size, if that can be inferred, or follows from Reshapes (`counted_extents`).
"""
CACHED_EXTENT = 1024
"""The extent for which a dim of an input counts to which the model appends: of what the calls before have left, as the
keys and values of a decoder, much more than one call brings."""


class Shapes(dict[str, Shape | None]):
    """The shapes of values by name, found when they are asked for first: of `constants`, or what `types` say."""

    def __init__(self, types: Mapping[str, onnx.TypeProto], constants: Mapping[str, onnx.TensorProto]):
        super().__init__()
        self._types = types
        self._constants = constants
        self._known: dict[bytes, Shape | None] = {}
        """The shapes by type, as it is stored: values of a network have few types."""

    def __missing__(self, name: str) -> Shape | None:
        shape = self[name] = self._found(name)
        return shape

    def _found(self, name: str) -> Shape | None:
        if name in self._constants:
            return tuple(self._constants[name].dims[:])
        type = self._types.get(name)
        if type is None:
            return None
        stored = type.SerializeToString()
        if stored not in self._known:
            self._known[stored] = shape_of(type)
        return self._known[stored]


def shape_of(type: onnx.TypeProto) -> Shape | None:
    """The shape of a type; None for one that is no tensor, or of unknown rank."""
    tensor = type.tensor_type  # an empty one where it is no tensor
    if not tensor.HasField("shape"):
        return None
    return tuple([_extent(dim) for dim in tensor.shape.dim[:]])


def _extent(dim: onnx.TensorShapeProto.Dimension) -> Extent:
    """An extent; one below 0, which some exporters write for any, is not known."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


@lru_cache(maxsize=4096)
def _has_made_up(shape: Shape) -> bool:
    return any(map(is_made_up, shape))


def without_made_up(shapes: Sequence[Shape | None]) -> tuple[list[object], list[str]]:
    """Shapes of the values of one node with a number, in a tuple, in the place of each name that inference made up, and
    the names by these numbers.

    Such a name says nothing but which extents are the same: nodes of which these shapes are equal mean the same, as
    those of one block of a network and the next, but for the names.
    """
    numbers: dict[str, int] = {}
    found: list[object] = []
    for shape in shapes:
        if shape is not None and _has_made_up(shape):
            found.append(
                tuple(
                    [
                        (numbers.setdefault(n, len(numbers)),) if isinstance(n, str) and is_made_up(n) else n
                        for n in shape
                    ]
                )
            )
        else:
            found.append(shape)
    return found, list(numbers)


def more_known(before: Shape, found: Shape) -> Shape:
    """What two shapes of one value say together: an extent's number, or else the name that was found, unless that is
    made up."""
    if len(before) != len(found):
        return found

    def known(one: Extent, other: Extent) -> Extent:
        is_less = other is None or is_made_up(other) or (isinstance(one, int) and not isinstance(other, int))
        return one if is_less and one is not None else other

    return tuple([known(*pair) for pair in zip(before, found, strict=True)])


def type_with_shape(given: onnx.TypeProto, shape: Shape) -> onnx.TypeProto:
    """The type with extents of which more is known."""
    made = type(given)()
    made.CopyFrom(given)
    for dim, extent in zip(made.tensor_type.shape.dim, shape, strict=True):
        if isinstance(extent, int):
            dim.dim_value = extent
        elif extent is not None:
            dim.dim_param = extent
    return made


@lru_cache(maxsize=64)
def bits_of(element_type: int) -> int:
    """The bits of an ONNX element type; those of a byte for strings, of which nothing is known."""
    import numpy as np
    import onnx
    import onnx.helper

    word = onnx.TensorProto.DataType.Name(cast(Any, element_type)) if element_type else "UNDEFINED"
    for suffix, bits in (("INT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2), ("STRING", 8), ("UNDEFINED", 32)):
        if word.endswith(suffix):
            return bits
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type)).itemsize * 8
