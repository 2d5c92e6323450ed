"""Execution graphs as graphs to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layout_ir.passes.onnx.optimize_model import OptimizedModel


def draw_models(
    path: str, result: OptimizedModel, page: str | None, picture: str | None, notes: Sequence[str]
) -> None:
    raise NotImplementedError
