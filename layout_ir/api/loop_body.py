"""The body of a Loop that no program has types for: what its trips have in common is compiled.

A Loop carries what grows, as the words that a decoder has written and its caches, or shapes in its body depend on
numbers. The first trip runs by the reference. Where the next one is of other shapes, the body is cut into sections by
what both have in common (`sectioned_program`); where it is of the same, its nodes are compiled part by part
(`staged_nodes`). Where little is in common, and where values are no tensors, trips run by the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.api.model_nodes import ModelNodes
from layout_ir.api.sectioned_program import SectionedProgram, cut
from layout_ir.api.staged_nodes import NodeContext, StagedNodes, is_tensor
from layout_ir.backends.onednn.plan_steps import RunnablePlan
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.forking import fork_safe, loading

if TYPE_CHECKING:
    import onnx

    Shapes = Mapping[str, tuple[int, ...]]


class LoopBody:
    """Computes trips of a Loop, each at a call. Any number of threads may call it at a time."""

    def __init__(self, graph: onnx.GraphProto, constants: Mapping[str, Any], context: NodeContext) -> None:
        """`constants` are values around the body that are the same for all trips of all calls."""
        from layout_ir.frontends.onnx.subgraphs import outer_names

        self._graph = graph
        self._around = constants
        self._context = context
        self._outputs = [value.name for value in graph.output]
        captured = [name for name in outer_names(graph) if name not in constants]
        self._inputs = [*(value.name for value in graph.input), *captured]
        self._before: tuple[int, Shapes] | None = None
        """The number of the last trip and its shapes, while nothing is compiled."""
        self._tried: set[frozenset[str]] = set()
        """Inputs that differed between two trips where it was asked whether to compile the body."""
        self._program: SectionedProgram | StagedNodes | None = None
        self._constants: Mapping[str, Any] = {}
        self._lock = RLock()
        fork_safe(self._lock)

    def __call__(self, values: Mapping[str, Any]) -> list[Any] | None:
        """The outputs of the body for these values by name; None where the reference is to compute them."""
        given = {name: values[name] for name in self._inputs}
        if not all(map(is_tensor, given.values())):
            return None
        program = self._program
        if program is None:
            with loading, self._lock:
                program = self._program = self._program or self._compiled(given)
        if program is None:
            return None
        known = {**self._constants, **given}
        program.run(known)
        return [known[name] for name in self._outputs]

    def _compiled(self, given: Mapping[str, Array]) -> SectionedProgram | StagedNodes | None:
        """What computes a trip of these inputs; None where it is the first, or has little in common with the last."""
        from layout_ir.frontends.onnx.model import load

        shapes = {name: array.shape for name, array in given.items()}
        trip = int(given[self._inputs[0]].item())
        last, self._before = self._before, (trip, shapes)
        if last is None or last[0] + 1 != trip:
            return None
        before = last[1]
        if any(len(before[name]) != len(shape) for name, shape in shapes.items()):
            return None
        changed = frozenset(name for name, shape in shapes.items() if before[name] != shape)
        if changed in self._tried:
            return None
        self._tried.add(changed)
        context = self._context
        try:
            model = self._model(given)
            if changed:
                found = cut(model, before, shapes)
                if found is None:
                    return None
                return SectionedProgram(found, context.compile, context.threads, checked=context.checked)
            nodes = ModelNodes(load(model))
            self._constants = nodes.constants
            return StagedNodes(
                nodes.nodes,
                nodes.constants,
                nodes.input_names,
                nodes.result_names,
                replace(context, stated=nodes.stated),
            )
        except LayoutError:
            return None

    def _model(self, given: Mapping[str, Array]) -> onnx.ModelProto:
        """The body as a model of inputs of any extents. What it states of values within may hold for one trip alone."""
        import onnx
        import onnx.helper
        import onnx.numpy_helper

        body = self._graph
        graph = onnx.GraphProto(name="body", node=body.node, initializer=body.initializer)
        graph.sparse_initializer.extend(body.sparse_initializer)
        graph.initializer.extend(
            onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in self._around.items()
        )
        for name, array in given.items():
            number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, number, [None] * array.ndim))
        for value in body.output:
            number = value.type.tensor_type.elem_type
            graph.output.append(
                onnx.helper.make_tensor_value_info(value.name, number, None)
                if number
                else onnx.ValueInfoProto(name=value.name)
            )
        imports = [onnx.helper.make_opsetid(*entry) for entry in self._context.versions.items()]
        return onnx.helper.make_model(graph, opset_imports=imports)

    # What it is, for people -------------------------------------------------------------------------------------

    def parts(self) -> Iterator[RunnablePlan]:
        """The programs of the parts that were compiled so far."""
        if self._program is not None:
            yield from self._program.parts()

    def evaluated(self) -> Counter[str]:
        """The operators of nodes that the reference evaluates between them, as far as they are known."""
        return Counter() if self._program is None else self._program.evaluated()
