"""ScatterND at constant places, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

SHAPE = 2, 5, 7, 6


def places(*ranges: range) -> Any:
    """All vectors of one number of each range, in row-major order."""
    return np.stack(np.meshgrid(*ranges, indexing="ij"), -1).astype(np.int64)


def scattered(indices: Any, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    """A model that updates `SHAPE` at these places."""
    updates = (*indices.shape[:-1], *SHAPE[indices.shape[-1] :])
    inputs = {"x": numbers(SHAPE), "u": numbers(updates, 1)}
    nodes = [node("ScatterND", ("x", "i", "u"), "z", **attributes), node("Neg", ("z",), "y")]
    return model(nodes, inputs, {"i": indices}, "y"), inputs


@pytest.mark.parametrize(
    "indices",
    [
        places(range(2), range(1, 4), range(2, 7), range(5)),
        places(range(1, 2), range(1, 4)),
        places(range(2), range(5), range(7), range(2, 6)),
        places(range(2), range(5), range(7), range(6)),
        places(range(-1, 0)),
        places(range(2), range(0, 5, 2)),  # with steps
        places(range(2), range(4, -1, -1)),  # backwards
        np.array([[1, 3], [0, 2], [1, 0]]),
        np.array([[1, -1, 2, -6]]),
        np.zeros((0, 2), np.int64),
    ],
    ids=str,
)
def test_places_that_are_updated(indices: Any):
    made, inputs = scattered(indices)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("attributes", [{"reduction": "add"}, {"reduction": "mul"}])
def test_negative_reductions_stay_opaque(attributes: dict[str, Any]):
    made, _ = scattered(np.array([[1], [0]]), **attributes)
    assert opaque_nodes(made) == ["ScatterND"]


def test_negative_places_that_are_computed_stay_opaque():
    inputs = {"x": numbers((4, 3)), "i": np.array([[1]]), "u": numbers((1, 3), 1)}
    made = model([node("ScatterND", ("x", "i", "u"), "y")], inputs, {}, "y")
    assert opaque_nodes(made) == ["ScatterND"]
