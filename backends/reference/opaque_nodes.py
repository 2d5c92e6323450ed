"""Reference semantics of `nn.opaque`: the node itself, evaluated by the reference implementation of the onnx package.

That package is imported only when such an op is run.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.ir import Attribute

from layout_ir.backends.reference.node_evaluation import OperatorError
from layout_ir.backends.reference.operator_kernels import IN_NUMPY, NodeKernels
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn import OpaqueOp
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.errors import LayoutError


def run_opaque(
    op: OpaqueOp, operands: Sequence[Tensor], kernels: NodeKernels = IN_NUMPY
) -> tuple[Tensor, ...]:
    """The results of the node on these tensors, by the onnx package or what `kernels` have in its place.

    Raises LayoutError where the onnx package is missing, has no reference for the operator, or its reference fails on
    these operands or gives tensors of other types than those of the op.
    """
    evaluator, names, _ = _evaluator(op, kernels)
    feeds = {
        name: _array(operand, value.type)
        for name, operand, value in zip(names, operands, op.operands, strict=True)
    }
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = evaluator.run(None, feeds)
    except OperatorError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        raise LayoutError(
            f"the reference of the onnx package fails on {op.title}: {type(error).__name__}: {message}"
        ) from error
    return tuple(_tensor(result, value.type, op) for result, value in zip(results, op.results, strict=True))


def computed_by(op: OpaqueOp, kernels: NodeKernels) -> str | None:
    """What computes the node by the operator that `kernels` have in place of the package's; None without one."""
    try:
        return _evaluator(op, kernels).computed_by
    except LayoutError:
        return None  # who calls it is told


class _Evaluator(NamedTuple):
    """A model of one node, ready to be run, and the names of the operands there."""

    evaluator: Any
    names: list[str]
    computed_by: str | None


_EVALUATORS = WeakKeyDictionary[OpaqueOp, tuple[NodeKernels, _Evaluator]]()
"""Made once for an op, unless other kernels are asked for."""


def _evaluator(op: OpaqueOp, kernels: NodeKernels) -> _Evaluator:
    known = _EVALUATORS.get(op)
    if known is None or known[0] is not kernels:
        known = _EVALUATORS[op] = kernels, _new_evaluator(op, kernels)
    return known[1]


def _new_evaluator(op: OpaqueOp, kernels: NodeKernels) -> _Evaluator:
    try:
        import onnx
        import onnx.helper
        from onnx.version_converter import convert_version
    except ImportError as error:
        raise LayoutError(
            f"{op.title} runs by the onnx package, which is not installed: pip install 'layout-ir[onnx]'"
        ) from error

    from layout_ir.backends.reference.package_evaluator import package_evaluator
    from layout_ir.dialects.nn.protos import node_of

    captured = [name.data for name in op.captures.data]
    # With a space, which the names in subgraphs are not looked for with.
    inputs = [f"operand {number}" for number in range(len(op.operands) - len(captured))]
    outputs = [f"result {number}" for number in range(len(op.results))]
    names = [*inputs, *captured]

    def described(name: str, type: Attribute) -> onnx.ValueInfoProto:
        dtype, layout = dtype_of(type), layout_at_run_time(type)
        number = (
            onnx.TensorProto.BFLOAT16
            if dtype == "bf16"
            else onnx.helper.np_dtype_to_tensor_dtype(storage(dtype))
        )
        return onnx.helper.make_tensor_value_info(name, number, layout.shape)

    graph = onnx.helper.make_graph(
        [node_of(op, inputs, outputs)],
        "node",
        [described(name, value.type) for name, value in zip(names, op.operands, strict=True)],
        [described(name, value.type) for name, value in zip(outputs, op.results, strict=True)],
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in op.versions.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    try:
        try:
            evaluator, others = package_evaluator(model, kernels)
        except Exception:
            if op.domain.data:
                raise
            # It has few operators in all their versions.
            newest = convert_version(model, onnx.defs.onnx_opset_version())
            evaluator, others = package_evaluator(newest, kernels)
        return _Evaluator(evaluator, names, others.get((op.domain.data, op.op_type.data)))
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        raise LayoutError(
            f"the onnx package {onnx.__version__} has no reference for {op.title}: {message}"
        ) from error


def _array(tensor: Tensor, type: Attribute) -> Array:
    array = np.asarray(tensor.logical(), order="C")
    if dtype_of(type) == "bf16":
        import onnx
        import onnx.helper

        return array.view(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
    return array


def _tensor(result: Any, type: Attribute, op: OpaqueOp) -> Tensor:
    array = np.asarray(result)
    dtype, layout = dtype_of(type), layout_at_run_time(type)
    if dtype == "bf16" and array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    if array.shape != layout.shape or array.dtype != storage(dtype):
        raise LayoutError(
            f"the reference of the onnx package gives {array.dtype} {array.shape} for {op.title}, "
            f"but its type is {dtype} {layout.shape}"
        )
    return Tensor.store(array, layout, dtype)
