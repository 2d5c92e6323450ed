"""Models of one ONNX node, executed by the library and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import layout_ir as li

onnx = pytest.importorskip("onnx")

Array = NDArray[Any]


def node_model(
    op: str,
    inputs: Mapping[str, Array | None],
    *,
    constants: Sequence[str] = (),
    outputs: int = 1,
    opset: int = 22,
    domain: str = "",
    **attributes: Any,
) -> Any:
    """A model of one node on inputs like these arrays, None for one that is left out; those of `constants` are in the
    model. What its outputs are, inference has to find."""
    helper, made = onnx.helper, [f"y{k}" for k in range(outputs)]
    given = {name: array for name, array in inputs.items() if array is not None}
    node = helper.make_node(
        op, [name if name in given else "" for name in inputs], made, domain=domain, **attributes
    )
    graph = helper.make_graph(
        [node],
        "node",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
            if name not in constants
        ],
        [onnx.ValueInfoProto(name=name) for name in made],
        [onnx.numpy_helper.from_array(np.asarray(given[name]), name) for name in constants],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def executed(made: Any, inputs: Mapping[str, Array | None]) -> list[Array]:
    """The results of a model by the library, no part of which runs by the reference, on memory full of NaN."""
    executable = li.compile(made, checked=True)
    assert not executable.fallbacks
    given = {name: inputs[name] for name in executable.input_names}
    executable(given)
    return executable(given)


def compare_node(
    op: str, inputs: Mapping[str, Array | None], *, tolerance: float = 1e-5, **options: Any
) -> list[Array]:
    """Runs a node by the library and by ONNX Runtime, which must agree: integers exactly, floats to `tolerance` of the
    largest. Returns the results."""
    runtime = pytest.importorskip("onnxruntime")
    made = node_model(op, inputs, **options)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})
    found = executed(made, inputs)
    for ours, theirs in zip(found, expected, strict=True):
        check_alike(ours, theirs, tolerance)
    return found


def check_alike(ours: Array, theirs: Array, tolerance: float = 1e-5) -> None:
    """Asserts that two arrays are of one type, and equal to `tolerance` of the largest number."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if theirs.dtype.kind != "f":
        np.testing.assert_array_equal(ours, theirs)
        return
    finite = np.abs(theirs[np.isfinite(theirs)])
    scale = max(float(np.max(finite, initial=0)), 1e-3)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
