"""What a program is called with: arrays by name or by position, checked and stored as its arguments lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from layout_ir.algebra.layout import Layout
from layout_ir.arrays.protocols import array_of
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.elements.numpy_types import storage
from layout_ir.errors import LayoutError

Inputs = Mapping[str, Any] | Sequence[Any]


def check_inputs(inputs: object) -> None:
    """Raises LayoutError where `inputs` is neither a dict nor a row of arrays."""
    if not isinstance(inputs, Collection):
        raise LayoutError(
            f"inputs are a dict of arrays by name, or a list of them by position, not of type {type(inputs).__name__}"
        )


def in_order(names: Sequence[str], title: str, inputs: Inputs) -> Sequence[Any]:
    """The inputs in the order of `names`. Raises LayoutError, naming `title`, where there are others, more or fewer."""
    if isinstance(inputs, Mapping):
        wrong = [name for name in names if name not in inputs] + [
            name for name in inputs if name not in names
        ]
        if wrong:
            problem = "is missing" if wrong[0] in names else "is no input"
            raise LayoutError(
                f"'{wrong[0]}' {problem}: {title} takes {_listed(names)}, given are {_listed(inputs)}"
            )
        inputs = [inputs[name] for name in names]
    check_inputs(inputs)
    if len(inputs) != len(names):
        count = "1 input" if len(names) == 1 else f"{len(names)} inputs"
        hint = "; an array is taken as a list of its rows" if isinstance(inputs, np.ndarray) else ""
        raise LayoutError(f"{title} takes {count} ({_listed(names)}), given are {len(inputs)}{hint}")
    return inputs


def stored(name: str, value: Any, layout: Layout, dtype: str) -> Tensor:
    """An input, of exactly this shape and element type, in a layout. Raises LayoutError for any other array."""
    try:
        array = array_of(value)
    except LayoutError as error:
        raise LayoutError(f"input '{name}': {error}") from error
    if dtype == "bf16" and array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    if array.shape != layout.shape or array.dtype != storage(dtype):
        wanted = "".join(f"{extent}x" for extent in layout.shape)
        given = "x".join(map(str, array.shape)) or "a scalar"
        raise LayoutError(
            f"input '{name}' is tensor<{wanted}{dtype}>, the array given is {given} of {array.dtype}"
        )
    return Tensor.store(array, layout, dtype)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
