"""Sparse constants are read as dense ones; the oracles are ONNX Runtime and tensors that are written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

import layout_ir as li
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx.model import load
from tests.frontends.onnx.models import model, node
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime
from tests.frontends.onnx.running import run

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
PAIRS = [[0, 1], [2, 0], [2, 3]]
PLACES = [1, 8, 11]
DENSE = np.array([[0, 2, 0, 0], [0, 0, 0, 0], [3, 0, 0, 5]], np.float32)


def sparse(
    indices: Any, values: Any = (2, 3, 5), dims: tuple[int, ...] = (3, 4), dtype: Any = np.float32
) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, dtype), "w"),
        numpy_helper.from_array(np.array(indices, np.int64), "places"),
        dims,
    )


def with_initializer(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    source = model([node("Add", "x w")], {"x": X.shape}, opset=17)
    source.graph.sparse_initializer.append(tensor)
    return source


def with_constant(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    constant = node("Constant", "", "w", sparse_value=tensor)
    return model([constant, node("Add", "x w")], {"x": X.shape}, opset=17)


@pytest.mark.parametrize("source", [with_initializer, with_constant])
@pytest.mark.parametrize("indices", [PAIRS, PLACES])
def test_a_sparse_constant_is_the_dense_one(source: Any, indices: Any):
    found = source(sparse(indices))
    np.testing.assert_array_equal(run(from_onnx(found), [X])[0], X + DENSE)
    check_like_onnx_runtime(found, {"x": X})


def test_it_may_be_the_shape_of_a_reshape():
    source = model([node("Reshape", "x w")], {"x": (1, 12)}, opset=17)
    source.graph.sparse_initializer.append(sparse([0, 1], [3, 4], (2,), np.int64))
    np.testing.assert_array_equal(run(from_onnx(source), [X.reshape(1, 12)])[0], X)


def test_without_elements_it_is_zero():
    np.testing.assert_array_equal(run(from_onnx(with_initializer(sparse([], []))), [X])[0], X)


def test_in_subgraphs_and_functions():
    """A branch with a sparse initializer, one with a constant, and a function with a constant."""
    branches = [
        helper.make_graph([node("Add", "x w", name)], name, [], [_value(name)]) for name in ("then", "else")
    ]
    branches[0].sparse_initializer.append(sparse(PAIRS))
    branches[1].node.insert(0, node("Constant", "", "w", sparse_value=sparse(PLACES, (1, 1, 1))))
    decided = node("If", "c", "z", then_branch=branches[0], else_branch=branches[1])
    call = helper.make_node("f", ["z"], ["y"], domain="mine")
    source = model([decided, call], {"x": X.shape}, opset=17)
    source.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    body = [node("Constant", "", "w", sparse_value=sparse(PAIRS)), node("Mul", "a w", "b")]
    opsets = [helper.make_opsetid("", 17)]
    source.functions.append(helper.make_function("mine", "f", ["a"], ["b"], body, opsets))
    source.opset_import.append(helper.make_opsetid("mine", 1))
    executable = li.compile(source)
    for condition, added in ((True, DENSE), (False, DENSE > 0)):
        (found,) = executable({"x": X, "c": np.array(condition)})
        np.testing.assert_allclose(found, (X + added) * DENSE, rtol=1e-6)


def _value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape)


def test_the_model_stays_as_it_is():
    source = with_initializer(sparse(PAIRS))
    before = source.SerializeToString()
    load(source)
    assert source.SerializeToString() == before


@pytest.mark.parametrize("optimized", [False, True])
def test_elements_in_files(tmp_path: Path, optimized: bool):
    """Values and indices beside the model, which an optimized model takes along."""
    tensor = sparse(PAIRS)
    source = with_initializer(tensor)
    parts = (source.graph.sparse_initializer[0].values, source.graph.sparse_initializer[0].indices)
    for number, part in enumerate(parts):
        name = f"part{number}"
        (tmp_path / name).write_bytes(part.raw_data)
        set_external_data(part, name)
        part.ClearField("raw_data")
    path = tmp_path / "model.onnx"
    path.write_bytes(source.SerializeToString())
    if optimized:
        written = tmp_path / "elsewhere"
        written.mkdir()
        li.optimize_onnx(path).save(written / "model.onnx")
        path = written / "model.onnx"
    np.testing.assert_array_equal(run(from_onnx(path), [X])[0], X + DENSE)


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (sparse([1, 8, 12]), "of shape 3x4 has an index outside of it"),
        (sparse([[0, 1], [2, 0], [-1, 3]]), "of shape 3x4 has an index outside of it"),
        (sparse([[0, 1], [2, 0], [0, 4]]), "of shape 3x4 has an index outside of it"),
        (sparse([1, 8, 8]), "has two values at one index"),
        (sparse([1, 8]), "has values of shape 3, but 2 indices"),
        (sparse([[1], [8], [2]]), "has indices of 1 numbers each, expected 2"),
        (sparse([[[1]]]), "has indices of type int64 and rank 3, expected int64 of rank 1 or 2"),
        (sparse([0, 1, 2], dims=(1 << 20, 1 << 20)), "written out, takes 4398046511104 bytes, at most"),
        (sparse([0, 1, 2], dims=(-3, 4)), "an extent is negative"),
    ],
)
def test_negative_what_is_no_sparse_tensor(tensor: onnx.SparseTensorProto, problem: str):
    with pytest.raises(OnnxImportError, match=f"sparse initializer 'w'.* {problem}"):
        from_onnx(with_initializer(tensor))
    with pytest.raises(OnnxImportError, match=f"constant 'w'.* {problem}"):
        from_onnx(with_constant(tensor))


def test_the_optimizer_keeps_sparse_constants():
    values: NDArray[Any] = X.T.copy()
    for source in (with_initializer(sparse(PAIRS)), with_constant(sparse(PAIRS))):
        source.graph.node[-1].output[0] = "z"
        source.graph.node[-1].input[0] = "t"
        source.graph.node.insert(0, node("Transpose", "x", "t", perm=[1, 0]))
        source.graph.node.append(node("Transpose", "z", "y", perm=[1, 0]))
        source.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        source.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
        found = li.optimize_onnx(source).model
        np.testing.assert_array_equal(run(from_onnx(found), [values])[0], values + DENSE.T)
