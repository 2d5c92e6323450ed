"""A subgraph of a node as plans: one for each shape of its inputs that it meets.

A subgraph becomes a model of its own: its formal inputs and the outer values that it uses are inputs, constants among
the latter are initializers, so that shapes and axes are known. A value that changes its shape from one iteration to the
next makes another plan of the same subgraph, when that shape comes up for the first time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.plan_runner import PlanRunner
from layout_ir.backends.onednn.plan_steps import ExecutionPlan, RunnablePlan, Type
from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.row_folds import with_row_folds
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import storage
from layout_ir.errors import LayoutError
from layout_ir.forking import fork_safe, loading

if TYPE_CHECKING:
    import onnx

CompileModel = Callable[["onnx.ModelProto"], RunnablePlan]
"""The plan of a model of static shapes. Raises LayoutError where there is none."""

_KEPT = 16
"""The number of shapes of its inputs for which a subgraph stays compiled."""


class Subgraph:
    """A subgraph of a node, compiled for each shape of its inputs that it meets."""

    def __init__(self, op: nn.OpaqueOp, name: str, compile_model: CompileModel) -> None:
        with loading:
            from layout_ir.dialects.nn.protos import proto_of
            from layout_ir.frontends.onnx.subgraphs import outer_names

        self.title = f"{name} of {op.title}"
        self._compile = compile_model
        self._versions = op.versions
        self._graph = proto_of(name, op.node_attributes.data[name]).g
        captured = [each.data for each in op.captures.data]
        values = dict(zip(captured, list(op.operands)[len(op.operands) - len(captured) :], strict=True))
        used = outer_names(self._graph)
        constants = {each: elements_of(values[each]) for each in used}
        self._constants = {
            each: (found, type_of(values[each])) for each, found in constants.items() if found is not None
        }
        self._outer = [each for each in used if each not in self._constants]
        self._captured = [captured.index(each) for each in self._outer]
        self._captured_types = [type_of(values[each]) for each in self._outer]
        self._runners: OrderedDict[tuple[Type, ...], PlanRunner] = OrderedDict()
        self._lock = RLock()
        fork_safe(self._lock)

    @property
    def plans(self) -> list[ExecutionPlan]:
        """What was compiled so far."""
        return [runner.plan for runner in self._runners.values()]

    def runner(self, types: Sequence[Type]) -> PlanRunner:
        """What runs the subgraph on formal inputs of these types. Raises LayoutError where it cannot be compiled."""
        key = tuple(types)
        with self._lock:
            found = self._runners.get(key)
            if found is not None:
                return found
        with loading, self._lock:  # what compiles imports: a process that forks takes the two in this order
            found = self._runners.get(key)
            if found is None:
                runnable = self._compiled(types)
                found = PlanRunner(runnable.plan, threads=runnable.threads, nested=True)
                self._runners[key] = found
                if len(self._runners) > _KEPT:
                    self._runners.popitem(last=False)
            return found

    def captured(self, operands: Sequence[Any]) -> list[Any]:
        """The captured values of the node that the subgraph takes, behind its formal inputs."""
        return [operands[k] for k in self._captured]

    def _compiled(self, types: Sequence[Type]) -> RunnablePlan:
        if len(self._graph.input) != len(types):
            raise LayoutError(f"{self.title} has {len(self._graph.input)} inputs, expected {len(types)}")
        try:
            return self._compile(self._model(self._graph, types))
        except LayoutError:
            known = dict(zip(self._outer, self._captured_types, strict=True))
            known |= {name: type for name, (_, type) in self._constants.items()}
            known |= {value.name: type for value, type in zip(self._graph.input, types, strict=True)}
            arrays = {name: array for name, (array, _) in self._constants.items()}
            changed = with_row_folds(self._graph, known, arrays)
            if changed is None:
                raise
        return self._compile(self._model(changed, types))

    def _model(self, subgraph: onnx.GraphProto, types: Sequence[Type]) -> onnx.ModelProto:
        import onnx
        import onnx.helper

        graph = onnx.GraphProto()
        graph.CopyFrom(subgraph)
        if not all(_states(value, type) for value, type in zip(graph.input, types, strict=True)):
            # What is said of other values was said for other shapes.
            del graph.value_info[:]
            for value in graph.output:
                value.type.tensor_type.ClearField("shape")
        names = [value.name for value in graph.input]
        del graph.input[:]
        given = zip((*names, *self._outer), (*types, *self._captured_types), strict=True)
        graph.input.extend(
            onnx.helper.make_tensor_value_info(name, _number(dtype), shape) for name, (dtype, shape) in given
        )
        for name, (array, (dtype, shape)) in self._constants.items():
            data = np.ascontiguousarray(array).tobytes()
            graph.initializer.append(
                onnx.TensorProto(name=name, data_type=_number(dtype), dims=shape, raw_data=data)
            )
        imports = [onnx.helper.make_opsetid(*entry) for entry in self._versions.items()]
        if not any(not entry.domain for entry in imports):
            imports.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
        return onnx.helper.make_model(graph, opset_imports=imports)


def type_of(value: SSAValue) -> Type:
    """The element type and shape of a value."""
    return dtype_of(value.type), shape_of(value)


def _number(dtype: str) -> int:
    """How ONNX numbers an element type."""
    import onnx
    import onnx.helper

    return (
        onnx.TensorProto.BFLOAT16 if dtype == "bf16" else onnx.helper.np_dtype_to_tensor_dtype(storage(dtype))
    )


def _states(value: onnx.ValueInfoProto, type: Type) -> bool:
    """Whether what a subgraph says of the shape of an input holds for `type`: it may say nothing."""
    stated = value.type.tensor_type
    if not stated.HasField("shape"):
        return True
    dims = stated.shape.dim
    return len(dims) == len(type[1]) and all(
        not dim.HasField("dim_value") or dim.dim_value == extent
        for dim, extent in zip(dims, type[1], strict=True)
    )
