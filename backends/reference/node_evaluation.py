"""ONNX nodes evaluated by the reference implementation of the onnx package, on values whatever they are.

Tensors of any element type, strings among them, sequences and optional values go in and come out as that package has
them: what no program has a type for is computed here, and what is not worth being compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from layout_ir.backends.reference.node_steps import node_steps, walk
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.forking import loading

if TYPE_CHECKING:
    import onnx

    from layout_ir.backends.reference.operator_kernels import NodeKernels


class OperatorError(LayoutError):
    """What computes an operator in place of the reference fails on a node, and says so itself."""


class NodeEvaluation:
    """Evaluates nodes one behind the other, whose operators have these versions by domain; made once, called as often
    as one likes."""

    def __init__(
        self,
        nodes: Sequence[onnx.NodeProto],
        versions: Mapping[str, int],
        outputs: Sequence[str] | None = None,
        *,
        types_fit: bool = False,
        kernels: NodeKernels | None = None,
    ) -> None:
        """`outputs` are the values that are asked for: where it is left out, all that the nodes give. With `types_fit`,
        it is known that every operator is given element types that it takes, and the package does not look again: what
        it does around an operator takes twice as long as the operator itself on few elements. `kernels` take the
        place of functions of NumPy.

        Raises LayoutError where the onnx package has no reference for a node.
        """
        with loading:
            import onnx
            import onnx.helper

            from layout_ir.backends.reference.operator_kernels import IN_NUMPY
            from layout_ir.backends.reference.package_evaluator import package_evaluator, title_of
            from layout_ir.frontends.onnx.subgraphs import used_names

        self.operators = [node.op_type for node in nodes]
        made = [name for node in nodes for name in node.output if name]
        used = (name for node in nodes for name in used_names(node))
        self.inputs = [name for name in dict.fromkeys(used) if name not in made]
        """The values that the nodes take, those among them that their subgraphs use."""
        self.outputs = made if outputs is None else list(outputs)
        self._call = _function_of(nodes)
        if self._call is not None:
            return
        graph = onnx.GraphProto(name="nodes", node=nodes)
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in self.inputs)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs)
        imports = [onnx.helper.make_opsetid(*entry) for entry in versions.items()]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        try:
            evaluator, others = package_evaluator(model, kernels or IN_NUMPY)
        except Exception as error:
            raise LayoutError(
                f"the onnx package {onnx.__version__} has no reference for {_listed(self.operators)}: {_line(error)}"
            ) from error
        self.operators = [
            f"{node.op_type} ({others[title]})" if (title := title_of(node)) in others else node.op_type
            for node in nodes
        ]
        self._run: Callable[[dict[str, Any]], Sequence[Any]] = (
            partial(walk, node_steps(evaluator, types_fit=True), self.outputs)
            if types_fit
            else partial(_without_warnings, evaluator)
        )

    def __call__(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """The outputs on these values, by name. Raises LayoutError where the reference fails on them."""
        if self._call is not None:
            return [self._call(values[self.inputs[0]])]
        try:
            with np.errstate(all="ignore"):
                found = self._run({name: values[name] for name in self.inputs})
        except OperatorError:
            raise
        except Exception as error:
            raise LayoutError(
                f"the reference of the onnx package fails on {_listed(self.operators)} ({self.outputs[0]}): "
                f"{type(error).__name__}: {_line(error)}"
            ) from error
        return [_value(value) for value in found]


def _without_warnings(evaluator: Any, given: dict[str, Any]) -> Sequence[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluator.run(None, given)


def _non_zero(x: Array) -> Array:
    """The places of elements that are not zero, a column for each."""
    if not x.ndim:
        return np.empty((0, np.count_nonzero(x)), np.int64)
    return np.array(np.nonzero(x), np.int64)


_FUNCTIONS: dict[str, Callable[[Any], Array]] = {"NonZero": _non_zero}
"""Operators of one input that are called without the package, which takes ten times as long on few elements."""


def _function_of(nodes: Sequence[onnx.NodeProto]) -> Callable[[Any], Array] | None:
    """The function that a single node is."""
    return _FUNCTIONS.get(nodes[0].op_type) if len(nodes) == 1 and not nodes[0].domain else None


def _value(found: Any) -> Any:
    """An output as values are kept: tensors as arrays, those of texts as arrays of objects."""
    if not isinstance(found, np.ndarray | np.generic):
        return found
    array: Any = np.asarray(cast(Any, found))
    return array.astype(object) if array.dtype.kind == "U" else array


def _listed(operators: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(operators))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
