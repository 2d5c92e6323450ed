"""Nodes that give elements of a constant in another shape, or one element everywhere, computed with NumPy.

To import the reference of the onnx package takes longer than to optimize most models, and to set it up for a node
longer than the node itself. What is computed here is what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.tensor_protos import array_of
from layout_ir.passes.onnx.model_graph import Node, transpose_perm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Sequence[NDArray[Any] | None]


def constant_view(node: Node, arrays: Arrays) -> NDArray[Any] | None:
    """The result of a node of ONNX on constants, None for each that is left out.

    None for other operators, and where the operands are not in the usual form, valid or not:
    the reference is for those.
    """
    view = _VIEWS.get(node.op_type)
    if view is None or not arrays or arrays[0] is None:
        return None
    try:
        return view(node, arrays[0], arrays[1:])
    except (IndexError, TypeError, ValueError):
        return None


def _transposed(node: Node, data: NDArray[Any], others: Arrays) -> NDArray[Any] | None:
    perm = transpose_perm(node)
    return data.transpose(perm) if perm is not None and data.ndim == len(perm) else None


def _unsqueezed(node: Node, data: NDArray[Any], others: Arrays) -> NDArray[Any] | None:
    import numpy as np

    axes = _axes(node, others)
    return None if axes is None else np.expand_dims(data, tuple(axes))


def _squeezed(node: Node, data: NDArray[Any], others: Arrays) -> NDArray[Any] | None:
    import numpy as np

    axes = _axes(node, others)
    return None if axes is None else np.squeeze(data, tuple(axes))


def _reshaped(node: Node, data: NDArray[Any], others: Arrays) -> NDArray[Any] | None:
    extents = _list(others, 0)
    if extents is None:
        return None
    if not node.int("allowzero", 0):
        extents = [data.shape[k] if n == 0 else n for k, n in enumerate(extents)]
    return data.reshape(extents)


def _sliced(node: Node, data: NDArray[Any], others: Arrays) -> NDArray[Any] | None:
    starts, ends = _list(others, 0), _list(others, 1)
    axes = list(range(data.ndim)) if len(others) < 3 else _list(others, 2)
    if starts is None or ends is None or axes is None:
        return None
    steps = [1] * len(axes) if len(others) < 4 else _list(others, 3)
    if steps is None or not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    slices = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        slices[axis] = slice(start, end, step)
    return data[tuple(slices)]


def _filled(node: Node, data: NDArray[Any], others: Arrays) -> NDArray[Any] | None:
    import numpy as np

    attribute = node.attributes.get("value")
    if data.ndim != 1 or data.dtype.kind != "i":
        return None
    value = np.zeros(1, np.float32) if attribute is None else array_of(attribute.t, None, "attribute value")
    extents: list[int] = data.tolist()
    return np.full(extents, value.flat[0]) if value.size == 1 else None


def _axes(node: Node, others: Arrays) -> list[int] | None:
    """The axes of a Squeeze or Unsqueeze; None where they are left out, or of an old version not ascending from 0."""
    if node.opset >= 13:
        return _list(others, 0)
    axes = list(node.ints("axes") or ())
    return axes if axes and axes[0] >= 0 and axes == sorted(set(axes)) else None


def _list(arrays: Arrays, number: int) -> list[int] | None:
    """The integers of an operand that is a list; None where it is none, or left out."""
    array = arrays[number] if number < len(arrays) else None
    if array is None or array.ndim != 1 or array.dtype.kind != "i":
        return None
    integers: list[int] = array.tolist()
    return integers


_VIEWS: dict[str, Callable[[Node, NDArray[Any], Arrays], NDArray[Any] | None]] = {
    "ConstantOfShape": _filled,
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
