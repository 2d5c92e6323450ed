"""Operators of windows, boxes and points of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_resize

from layout_ir.backends.reference.grid_sample import grid_sample
from layout_ir.backends.reference.non_max_suppression import selected_boxes
from layout_ir.backends.reference.operator_kernels import IN_NUMPY
from layout_ir.backends.reference.region_pool import largest_in_regions
from layout_ir.backends.reference.window_ops import Window, col2im, max_pool_with_indices
from layout_ir.dialects.nn.regions import Regions
from layout_ir.dialects.nn.windows import resolved_pads, window_shape
from layout_ir.elements.numpy_types import Array


class Col2Im(OpRun):
    """Col2Im on whole arrays, which the package computes element by element."""

    op_domain = ""

    def _run(
        self,
        columns: Array,
        extents: Array,
        block: Array,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Array]:
        kernel = tuple(map(int, block))
        ones = (1,) * len(kernel)
        window = Window(
            kernel, tuple(strides or ones), tuple(pads or (0, 0) * len(kernel)), tuple(dilations or ones)
        )
        return (col2im(columns, tuple(map(int, extents)), window),)


class GridSample(OpRun):
    """GridSample in all versions of the operator: before opset 20, modes have other names."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        grid: Array,
        mode: str | None = None,
        padding_mode: str | None = None,
        align_corners: int | None = None,
    ) -> tuple[Array]:
        made = grid_sample(x, grid, mode or "linear", padding_mode or "zeros", bool(align_corners))
        return (made,)


class MaxPool(OpRun):
    """MaxPool with indices: for windows with strides of 1, those of the onnx package (1.23) are others, or it fails."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        extents, kernel = x.shape[2:], tuple(attributes["kernel_shape"])
        ones = (1,) * len(kernel)
        strides, dilations = (tuple(attributes.get(name) or ones) for name in ("strides", "dilations"))
        given = tuple(attributes.get("pads") or ())
        pads = resolved_pads(attributes.get("auto_pad"), given, extents, kernel, strides, dilations)
        counts = window_shape(
            extents, kernel, strides=strides, pads=pads, dilations=dilations,
            ceil_mode=bool(attributes.get("ceil_mode")),
        )  # fmt: skip
        window = Window(kernel, strides, pads, dilations)
        results = max_pool_with_indices(x, window, counts, column_major=bool(attributes.get("storage_order")))
        return results[: len(self.onnx_node.output)]


class MaxRoiPool(OpRun):
    """MaxRoiPool, for which the package has no reference."""

    op_domain = ""

    def _run(
        self, x: Array, regions: Array, pooled_shape: Sequence[int] = (), spatial_scale: float | None = None
    ) -> tuple[Array]:
        rows, columns = pooled_shape
        return (
            largest_in_regions(x, regions, (rows, columns), 1.0 if spatial_scale is None else spatial_scale),
        )


class NonMaxSuppression(OpRun):
    """All that overlap a box at once, and with inputs that are left out."""

    op_domain = ""
    kernels = IN_NUMPY

    def _run(
        self,
        boxes: Array,
        scores: Array,
        most: Array | None = None,
        overlap: Array | None = None,
        least: Array | None = None,
        center_point_box: int | None = None,
    ) -> tuple[Array]:
        def number(given: Array | None, default: float | None) -> float | None:
            return default if given is None or not given.size else float(given.reshape(-1)[0])

        count, ratio = number(most, 0), number(overlap, 0.0)
        assert count is not None and ratio is not None
        found = selected_boxes(
            boxes,
            scores,
            int(count),
            ratio,
            number(least, None),
            by_centers=bool(center_point_box),
            selection=self.kernels.selection,
        )
        return (found,)


class RoiAlign(OpRun):
    """RoiAlign in all versions, on arrays; the package computes one result after the other in Python."""

    op_domain = ""
    kernels = IN_NUMPY

    def _run(self, x: Array, regions: Array, batches: Array, **attributes: Any) -> tuple[Array]:
        node: Any = self
        version = node.run_params["opsets"].get("", 16)
        return (self.kernels.pooled_regions(x, regions, batches, Regions.of_node(attributes.get, version)),)


class RoiAlignOfChannelsLast(RoiAlign):
    """RoiAlign of x (N, H, W, C), as the executor writes it."""

    def _run(self, x: Array, regions: Array, batches: Array, **attributes: Any) -> tuple[Array]:
        return super()._run(np.moveaxis(x, -1, 1), regions, batches, **attributes)


_PACKAGE_RESIZE: Any = op_resize.Resize  # without type information


class Resize(_PACKAGE_RESIZE):
    """Resize of opset 10, too, whose second input is the scales: result i reads element i / scale, rounded down, or up
    where x shrinks, as ONNX Runtime has it."""

    op_domain = ""

    def _run(self, x: Array, *others: Array | None, **attributes: Any) -> tuple[Array]:
        if self.run_params["opsets"].get("", 11) > 10:
            return _PACKAGE_RESIZE._run(self, x, *others, **attributes)
        (scales,) = others
        assert scales is not None
        rounded = "ceil" if (scales < 1).any() else "floor"
        places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounded}
        return _PACKAGE_RESIZE._run(self, x, None, scales, None, mode=attributes.get("mode"), **places)


OPERATORS = (Col2Im, GridSample, MaxPool, MaxRoiPool, NonMaxSuppression, Resize, RoiAlign)
