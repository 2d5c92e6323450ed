"""ONNX import: a model file becomes a module with one function, `@main`, over the `nn` and `layout` dialects.

Inputs and results keep the row-major layout that ONNX defines. Every value in between has the layout `#layout.any`, to
be chosen by layout selection, and each result is reordered to row-major before it is returned. Nodes whose inputs are
constants are evaluated during import, within the bounds of `budget.py`. A node of an operator that has no translation,
of any domain, becomes an `nn.opaque` of its types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from layout_ir.argument_checks import check_flags, check_model_name, checked_shapes
from layout_ir.forking import loading
from layout_ir.frontends.onnx.import_error import OnnxImportError, unforeseen_as_import_error

if TYPE_CHECKING:
    from os import PathLike

    import onnx
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.frontends.onnx.model import AnySource, Model


def from_onnx(
    source: str | PathLike[str] | bytes | onnx.ModelProto,
    *,
    weights: Mapping[str, NDArray[Any]] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    keep_quantized: bool = False,
) -> ModuleOp:
    """The module of an ONNX model, given as a path, as the bytes of a file, or as a ModelProto.

    `weights` replaces constants of the model, by the names of their ONNX values, with arrays of the same shape
    and element type. `shapes` gives shapes of inputs, by name; an input with a symbolic dim needs one.
    With `keep_quantized` a DequantizeLinear of constants stays an op, as for a model that is to go out as small as it
    came; else its result is a constant, of floats, which can be brought into another layout.

    Raises OnnxImportError if the model cannot be read, is not valid, or uses what is not supported; the message
    names the node, or where there are several counts them by what stops them. A model is imported as a whole or not at
    all. Any other exception is raised as an OnnxImportError that is an UnforeseenError too.
    """
    with loading:
        from layout_ir.frontends.onnx.importer import import_model
        from layout_ir.frontends.onnx.model import load

    check_flags(keep_quantized=keep_quantized)
    check_model_name(source)
    if weights is not None and not isinstance(weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OnnxImportError(f"weights = {weights!r} is no dict from names of constants to arrays")
    with unforeseen_as_import_error("the model"):
        return import_model(
            load(source),
            weights=weights or {},
            shapes=checked_shapes(shapes) or {},
            keep_quantized=keep_quantized,
        )


def to_run(source: AnySource | Model, shapes: Mapping[str, Sequence[int]] | None = None) -> ModuleOp:
    """The module of an ONNX model, read or not, that is to run here and does not go out again, as `from_onnx` makes it
    with `keep_quantized`: QuantizeLinear and DequantizeLinear are conversions, where an op can say them."""
    with loading:
        from layout_ir.frontends.onnx.importer import import_model
        from layout_ir.frontends.onnx.model import Model, load

    with unforeseen_as_import_error("the model"):
        model = source if isinstance(source, Model) else load(source)
        return import_model(model, weights={}, shapes=shapes or {}, keep_quantized=True, converts=True)


__all__ = ["OnnxImportError", "from_onnx", "to_run"]
