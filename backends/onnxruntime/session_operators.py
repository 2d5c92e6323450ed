"""Single nodes in the installed ONNX Runtime, as operators of the onnx package's evaluator.

That package computes trees and support vectors a row at a time, hundreds of times slower, and knows no operators of
`com.microsoft` that are no functions of others.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from layout_ir.backends.onnxruntime.runtime_session import created_session, onnxruntime
from layout_ir.backends.reference.node_evaluation import OperatorError
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

_OF_OBJECTS = frozenset(("CastMap", "DictVectorizer", "ZipMap"))
"""Operators of ai.onnx.ml on maps, which are dicts to the evaluator."""

OLDEST = 1, 30
"""The first version that refuses trees and support vectors whose attributes do not fit together: others read outside of
them, or abort (tried: 1.25, 1.27 and 1.29)."""

MOST_TARGETS = 1 << 20
"""Numbers per row that a node may ask for."""


def session_operator(domain: str, op_type: str, *, threads: int = 1) -> type | None:
    """A class of the onnx package (`OpRun`) for an operator, which has ONNX Runtime compute nodes on so many threads;
    None where no ONNX Runtime of version OLDEST or later is installed or it does not know the operator, or that takes
    or gives what is no tensor."""
    if op_type in _OF_OBJECTS or (domain, op_type) not in _known_operators():
        return None

    from onnx.reference.op_run import OpRun

    class SessionOperator(OpRun):
        op_domain = domain
        computed_by = "ONNX Runtime"

        def __init__(self, *args: Any, **options: Any):
            package: Any = super()
            package.__init__(*args, **options)
            self._node = _NodeInSessions(self.onnx_node, self.run_params["opsets"], threads)

        def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Any, ...]:
            return self._node(inputs)

    return type(op_type, (SessionOperator,), {})


@cache
def _known_operators() -> frozenset[tuple[str, str]]:
    """The operators of ONNX Runtime, each with its domain in front; none where it is not installed, or too old."""
    try:
        version: str = onnxruntime().__version__
    except LayoutError:
        return frozenset()
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        return frozenset()
    state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return frozenset((schema.domain, schema.name) for schema in state.get_all_operator_schema())


class _NodeInSessions:
    """A node, called with its inputs; sessions are made for the element types that come."""

    def __init__(self, node: Any, versions: dict[str, int], threads: int):
        self._node = node
        self._versions = versions
        self._threads = threads
        self._sessions: dict[tuple[int, ...], Any] = {}

    def __call__(self, inputs: tuple[Array | None, ...]) -> tuple[Any, ...]:
        """The outputs, empty those that the node leaves out. Raises OperatorError where ONNX Runtime fails."""
        given = {f"input_{k}": np.asarray(x) for k, x in enumerate(inputs) if x is not None}
        arrays = {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in given.items()}
        try:
            types = tuple(map(_element_type, arrays.values()))
            session = self._sessions.get(types)
            if session is None:
                session = self._sessions[types] = self._session(dict(zip(arrays, types, strict=True)))
            found = iter(session.run(None, arrays))
        except Exception as error:
            message = " ".join(str(error).split())[:200]
            raise OperatorError(
                f"ONNX Runtime {onnxruntime().__version__} fails on {self._node.op_type}: {message}"
            ) from error
        return tuple(next(found) if name else np.empty(0) for name in self._node.output)

    def _session(self, types: dict[str, int]) -> Any:
        """A session of a model of the node, whose inputs have these element types. Raises what ONNX Runtime does, and
        ValueError where the node asks for more memory than there may be."""
        import onnx
        import onnx.helper

        for attribute in self._node.attribute:
            if attribute.name == "n_targets" and attribute.i > MOST_TARGETS:
                raise ValueError(f"n_targets = {attribute.i}, {MOST_TARGETS} are the most")
        outputs = [f"output_{k}" if name else "" for k, name in enumerate(self._node.output)]
        names = [f"input_{k}" if f"input_{k}" in types else "" for k in range(len(self._node.input))]
        node = onnx.NodeProto()
        node.CopyFrom(self._node)
        del node.input[:], node.output[:]
        node.input.extend(names)
        node.output.extend(outputs)
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [onnx.helper.make_tensor_value_info(name, type, None) for name, type in types.items()],
            [onnx.ValueInfoProto(name=name) for name in filter(None, outputs)],
        )
        imports = [onnx.helper.make_opsetid(*entry) for entry in self._versions.items()]
        ir_version = onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=max(ir_version, 4))
        return created_session(model.SerializeToString(), threads=self._threads)


def _element_type(array: Array) -> int:
    import onnx
    import onnx.helper

    if array.dtype == object:
        return onnx.TensorProto.STRING
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
