"""Networks of convolutions on blocked channels: they compute the same, and ONNX Runtime moves less than by itself.

Moves are ReorderInput, ReorderOutput and Transpose in the graph that ONNX Runtime runs, all optimizations done. How
many there are depends on the channels of a block: the tables are for 16. `-full` has the widths that were published.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import layout_ir as li
from layout_ir.certificate.checking import verify
from layout_ir.passes.onnx.consumers import BLOCKED
from tests.passes.onnx.blocked_networks import BLOCK, left, moves, names, runtime, session
from tests.zoo import NETWORKS

LEFT = {
    "ghostnet": (79, 60),
    "nasnet": (34, 17),
    "res2net50": (102, 35),
    "efficientnet_b0": (68, 1),
    "regnet_y": (69, 5),
    "yolov8": (44, 8),
    "cspdarknet53": (125, 6),
    "densenet121": (119, 87),
    "ghostnet-full": (74, 56),
    "nasnet-full": (55, 53),
    "res2net50-full": (108, 86),
    "efficientnet_b0-full": (55, 0),
    "regnet_y-full": (67, 9),
    "yolov8-full": (40, 3),
    "cspdarknet53-full": (128, 0),
    "densenet121-full": (1, 0),
}
"""What ONNX Runtime leaves by itself, and what is left at least cost: a ceiling that later versions may only lower."""
SAMPLE = ("regnet_y", "yolov8")


def _parameters(names: tuple[str, ...]) -> list[object]:
    return [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.deep]) for name in names]


def _require(name: str) -> None:
    runtime()
    missing = [package for package in NETWORKS[name].requires if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.mark.parametrize("name", _parameters(tuple(LEFT)))
def test_a_network_computes_the_same_with_fewer_moves_than_onnx_runtime_leaves(name: str) -> None:
    _require(name)
    model, feeds = NETWORKS[name].build(), NETWORKS[name].inputs(3)
    result = li.optimize_onnx(model, BLOCKED, certificate=True)
    assert result.target.startswith(BLOCKED) and not result.solution.omitted
    assert result.certificate is not None and verify(result.certificate).is_optimal
    ours, theirs = moves(names(left(result.model))), moves(names(left(model)))
    # What is left is what was chosen: ONNX Runtime has nothing to add.
    assert ours == moves(names(result.model.graph.node)) == result.after.count
    assert ours < theirs
    if BLOCK == 16:
        assert ours <= LEFT[name][1] < LEFT[name][0]
    want, found = session(model, "ORT_DISABLE_ALL").run(None, feeds), session(result.model).run(None, feeds)
    for one, other in zip(want, found, strict=True):
        assert one.shape == other.shape and np.abs(one - other).max() <= 1e-4 * np.abs(one).max()
    again = li.optimize_onnx(result.model, BLOCKED)
    assert again.model.SerializeToString(deterministic=True) == result.model.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("name", ["lstm_tagger", "tcn", "c3d"])
def test_negative_a_network_without_convolutions_of_pictures_has_no_blocks(name: str) -> None:
    _require(name)
    model = NETWORKS[name].build()
    result, plain = (li.optimize_onnx(model, target) for target in (BLOCKED, "ort-cpu"))
    assert result.target == "ort-cpu" and "no value is to be in blocks" in result.notes[-1]
    assert result.model == plain.model
