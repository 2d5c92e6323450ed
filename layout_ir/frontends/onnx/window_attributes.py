"""What a node with windows says of them: strides, pads, dilations."""

from __future__ import annotations

from layout_ir.dialects.nn.windows import resolved_pads
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.values import shape_of


def window_of(node: Node, kernel: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Strides, pads and dilations of a node, with `auto_pad` resolved."""
    extents = shape_of(node.input(0))[2:]
    ones = (1,) * len(extents)
    strides = node.ints("strides") or ones
    dilations = node.ints("dilations") or ones
    given = node.ints("pads")
    for name, values in (("kernel_shape", kernel), ("strides", strides), ("dilations", dilations)):
        if len(values) != len(extents):
            raise OnnxImportError(
                f"{name} {list(values)} does not fit the {len(extents)} spatial dims of "
                f"{list(shape_of(node.input(0)))}: {len(values)} != {len(extents)}"
            )
        if any(value < 1 for value in values):
            raise OnnxImportError(f"{name} {list(values)} has an entry below 1")
    pads = resolved_pads(auto_pad_of(node), given, extents, kernel, strides, dilations)
    return {"strides": strides, "pads": pads, "dilations": dilations}


def auto_pad_of(node: Node) -> str:
    """The word of attribute `auto_pad`. Raises OnnxImportError for one that ONNX does not have."""
    word = node.get("auto_pad", "NOTSET") or "NOTSET"
    if word not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise OnnxImportError(f"auto_pad = {word} is unknown")
    return word
