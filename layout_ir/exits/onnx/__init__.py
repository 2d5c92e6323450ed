"""ONNX export: a physical program becomes a model.

`nn` is defined as ONNX defines its operators, so an op is a node, and a constant an initializer. In a physical program
(`convert-layout-to-physical`) every value is a dense row-major tensor, which is what a value of ONNX is; views are
Transpose, Reshape, Squeeze, Unsqueeze. An opaque op is written as the node that it was.

Versions of operators, names and metadata are those of the model that came in, where the program has them
(`dialects/nn/model_names.py`, `protos.py`). A version that lacks an op, or does not allow its element type, is raised
to the first that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError
from layout_ir.forking import loading

if TYPE_CHECKING:
    import onnx
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp


def model_of(module: ModuleOp, function: FuncOp) -> onnx.ModelProto:
    """The model that computes `function` of `module`, whose values have no encodings and whose body is one block.

    Raises LayoutError without the onnx package, and where the model would be larger than 2 GB, which a ModelProto
    cannot be; LocatedError, naming the op, for one that ONNX has no operators for.
    """
    try:
        with loading:
            import onnx  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise LayoutError(
            f"ONNX export needs the onnx package: pip install 'layout-ir[onnx]' ({error})"
        ) from error
    with loading:
        from layout_ir.exits.onnx.graph_writer import write_model

    return write_model(module, function)


__all__ = ["model_of"]
