"""One ONNX node evaluated by the reference implementation of the onnx package, on values whatever they are.

Tensors of any element type, strings among them, sequences and optional values go in and come out as that package has
them: what no program has a type for is computed here, one node after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from layout_ir.errors import LayoutError
from layout_ir.forking import loading

if TYPE_CHECKING:
    import onnx


class NodeEvaluation:
    """Evaluates `node`, whose operators have these versions by domain; made once, called as often as one likes."""

    def __init__(self, node: onnx.NodeProto, versions: Mapping[str, int]) -> None:
        """Raises LayoutError where the onnx package has no reference for the node."""
        with loading:
            import onnx
            import onnx.helper
            from onnx.reference import ReferenceEvaluator

            from layout_ir.backends.reference.node_operators import own_operators
            from layout_ir.frontends.onnx.subgraphs import captured_names

        self.node = node
        self.inputs = list(dict.fromkeys(name for name in (*node.input, *captured_names(node)) if name))
        """The values that the node takes, those among them that its subgraphs use."""
        self.outputs = [name for name in node.output if name]
        graph = onnx.GraphProto(name="node", node=[node])
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in self.inputs)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs)
        imports = [onnx.helper.make_opsetid(*entry) for entry in versions.items()]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        try:
            self._evaluator: Any = ReferenceEvaluator(model, new_ops=own_operators())
        except Exception as error:
            raise LayoutError(
                f"the onnx package {onnx.__version__} has no reference for {node.op_type}: {_line(error)}"
            ) from error

    def __call__(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """The outputs on these values, by name. Raises LayoutError where the reference fails on them."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found: Sequence[Any] = self._evaluator.run(None, {name: values[name] for name in self.inputs})
        except Exception as error:
            raise LayoutError(
                f"the reference of the onnx package fails on {self.node.op_type} ({self.outputs[0]}): "
                f"{type(error).__name__}: {_line(error)}"
            ) from error
        return [_value(value) for value in found]


def _value(found: Any) -> Any:
    """An output as values are kept: tensors as arrays, those of texts as arrays of objects."""
    if not isinstance(found, np.ndarray | np.generic):
        return found
    array: Any = np.asarray(cast(Any, found))
    return array.astype(object) if array.dtype.kind == "U" else array


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
