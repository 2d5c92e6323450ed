"""Axes as nodes of ONNX give them: numbers of dims, which may count from the end."""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.frontends.onnx.import_error import OnnxImportError


def normalize_axis(axis: int, rank: int) -> int:
    """The dim, from 0, of an axis that may count from the end (-1). Raises OnnxImportError where it is out of range."""
    if not -rank <= axis < rank:
        raise OnnxImportError(f"axis {axis} is not in {-rank}..{rank - 1}")
    return axis % rank if rank else 0


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The dims, from 0 and ascending, of axes. Raises OnnxImportError where one is out of range or given twice."""
    result = sorted(normalize_axis(axis, rank) for axis in axes)
    if len(set(result)) != len(result):
        raise OnnxImportError(f"axes {list(axes)} name a dim of rank {rank} twice")
    return tuple(result)
