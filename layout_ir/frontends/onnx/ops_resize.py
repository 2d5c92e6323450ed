"""Resize and Upsample, in all their versions; modes that ops of `nn` lack stay opaque."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from layout_ir.dialects import nn
from layout_ir.frontends.onnx.axes import normalize_axes, normalize_axis
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnsupportedUse
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.translation import Builder, Translation
from layout_ir.frontends.onnx.values import Value, shape_of

_IGNORED = {"cubic_coeff_a": -0.75, "exclude_outside": 0, "extrapolation_value": 0.0}
"""Attributes that only modes have which are not supported; any node may carry them."""

_UNSUPPORTED = {
    "mode": ("cubic",),
    "coordinates": ("tf_crop_and_resize", "half_pixel_symmetric"),
}


def _resize(builder: Builder, node: Node) -> Value:
    if node.opset < 11:
        return _resize_by_scales(builder, node)
    x = node.input(0)
    rank = len(shape_of(x))
    for name, default in _IGNORED.items():
        node.get(name, default)
    node.optional(1)  # the region of interest, for a coordinate mode that is not supported
    if node.flag("antialias"):
        raise UnsupportedUse("antialias = 1 is not supported")
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        raise UnsupportedUse(f"keep_aspect_ratio_policy = {policy} is not supported, only stretch is")
    axes = _resized_dims(node.ints("axes"), rank)
    scales, sizes = node.constant(2), node.constant_ints(3)
    attributes: dict[str, Any] = {
        "mode": node.get("mode", "nearest"),
        "coordinates": node.get("coordinate_transformation_mode", "half_pixel"),
        "nearest_mode": node.get("nearest_mode", "round_prefer_floor"),
    }
    for name, known in _UNSUPPORTED.items():
        if attributes[name] in known:
            raise UnsupportedUse(f"{name} = {attributes[name]} is not supported")
    if attributes["mode"] != "nearest":
        del attributes["nearest_mode"]
    for name, values in (("scales", () if scales is None else scales.ravel()), ("sizes", sizes or ())):
        if len(values) not in (0, len(axes)):
            raise OnnxImportError(
                f"{len(values)} {name} do not fit {len(axes)} dims: {len(values)} != {len(axes)}"
            )
    if sizes:
        shape = list(shape_of(x))
        for axis, size in zip(axes, sizes, strict=True):
            shape[axis] = size
        return builder.apply(nn.ResizeOp, x, sizes=shape, **attributes)
    if scales is None or not scales.size:
        raise OnnxImportError("neither scales nor sizes are given")
    factors = [1.0] * rank
    for axis, scale in zip(axes, scales.ravel().tolist(), strict=True):
        factors[axis] = scale
    _check_scales(factors)
    return builder.apply(nn.ResizeOp, x, scales=factors, **attributes)


def _resized_dims(axes: Sequence[int] | None, rank: int) -> list[int]:
    """The dims of the entries of scales or sizes, in the order of these; all dims where `axes` is None."""
    if axes is None:
        return list(range(rank))
    normalize_axes(axes, rank)  # none is there twice
    return [normalize_axis(axis, rank) for axis in axes]


def _check_scales(scales: Sequence[float]) -> None:
    if any(not 0 < scale < np.inf for scale in scales):
        raise OnnxImportError(f"scales {list(scales)} are not all positive and finite")


def _resize_by_scales(builder: Builder, node: Node) -> Value:
    """Upsample, and Resize of opset 10: result i reads element i / scale, rounded down, or up to shrink x."""
    scales = node.constant(1)
    if scales is None:
        raise OnnxImportError("scales are missing")
    factors = [float(scale) for scale in scales.ravel()]
    rank = len(shape_of(node.input(0)))
    if len(factors) != rank:
        raise OnnxImportError(f"{len(factors)} scales do not fit {rank} dims: {len(factors)} != {rank}")
    _check_scales(factors)
    attributes: dict[str, Any] = {"mode": node.get("mode", "nearest"), "coordinates": "asymmetric"}
    if attributes["mode"] == "nearest":
        smaller = any(factor < 1 for factor in factors)
        if smaller and any(factor > 1 for factor in factors):
            raise UnsupportedUse(
                f"scales {factors} enlarge and shrink; before opset 11 only one is supported"
            )
        attributes["nearest_mode"] = "ceil" if smaller else "floor"
    return builder.apply(nn.ResizeOp, node.input(0), scales=factors, **attributes)


TRANSLATIONS: dict[str, Translation] = {
    "Resize": Translation(_resize),
    "Upsample": Translation(_resize_by_scales),
}
