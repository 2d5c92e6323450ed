"""What may be put in the place of NumPy in operators of ONNX: compiled code of the same arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from layout_ir.backends.reference.non_max_suppression import Selection
from layout_ir.backends.reference.roi_align import pooled_regions
from layout_ir.dialects.nn.regions import Regions
from layout_ir.elements.numpy_types import Array

Trip = Callable[[Mapping[str, Any]], "Sequence[Any] | None"]
"""Computes the outputs of the body of a Loop from the values around it and those of an iteration, by name; None where
the nodes of the body are to be evaluated."""


def _no_operator(domain: str, op_type: str) -> type | None:
    return None


@dataclass(frozen=True)
class NodeKernels:
    """What computes some operators: NumPy, or compiled code of the same arguments and results."""

    selection: Selection | None = None
    """That of `selected_boxes`, where it is not its own."""
    pooled_regions: Callable[[Array, Array, Array, Regions], Array] = pooled_regions
    product: Callable[[Array, Array], Array] = np.matmul
    """The product of matrices, as NumPy broadcasts them."""
    operator: Callable[[str, str], type | None] = _no_operator
    """The class for a domain and an operator of which the onnx package has a slow reference or none; it
    says `computed_by` what."""
    trips: Mapping[tuple[str, ...], Trip] = field(default_factory=dict[tuple[str, ...], Trip])
    """The function that computes the body of a Loop, by the names of the outputs of the Loop."""


IN_NUMPY = NodeKernels()
