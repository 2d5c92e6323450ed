"""Sparse constants of a model as the dense ones that they stand for.

A sparse tensor has the elements that are not zero, and where they are: positions in row-major order, or an index for
each. A few bytes can stand for terabytes, so that what is written out is taken from a budget.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.errors import shape_text
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT, Budget
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import bodies_of, is_graph
from layout_ir.frontends.onnx.tensor_protos import array_of, check_shape

if TYPE_CHECKING:
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray


def with_dense_constants(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """`model` itself where it has no sparse constants, else a copy with dense ones in their place.

    Raises OnnxImportError where a sparse tensor is not valid, its elements are not in `folder`, or the dense ones take
    more than is spent at import.
    """
    if not any(map(_has_sparse, bodies_of(model))):
        return model
    import onnx
    import onnx.helper
    import onnx.numpy_helper

    result = onnx.ModelProto()
    result.CopyFrom(model)
    budget = Budget()
    budget.grow(model.ByteSize())
    for body in bodies_of(result):
        if is_graph(body):
            for tensor in body.sparse_initializer:
                name = tensor.values.name
                array = _dense(tensor, folder, budget, f"sparse initializer {quoted(name)}")
                body.initializer.append(onnx.numpy_helper.from_array(array, name))
            del body.sparse_initializer[:]
        for node in filter(_is_sparse, body.node):
            (attribute,) = node.attribute
            title = f"constant {quoted(node.output[0] if node.output else '')}"
            array = _dense(attribute.sparse_tensor, folder, budget, title)
            attribute.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(array)))
    return result


def _has_sparse(body: onnx.GraphProto | onnx.FunctionProto) -> bool:
    return (is_graph(body) and len(body.sparse_initializer) > 0) or any(map(_is_sparse, body.node))


def _is_sparse(node: onnx.NodeProto) -> bool:
    """Whether a node is a constant that is given as a sparse tensor."""
    return (
        node.op_type == "Constant"
        and not domain_of(node.domain)
        and [attribute.name for attribute in node.attribute] == ["sparse_value"]
        and node.attribute[0].HasField("sparse_tensor")
    )


def _dense(tensor: onnx.SparseTensorProto, folder: Path | None, budget: Budget, title: str) -> NDArray[Any]:
    """The elements of a sparse tensor, zeros among them, in its shape. Raises OnnxImportError, naming `title`."""
    values = array_of(tensor.values, folder, f"{title}: its values")
    shape = check_shape(tensor.dims, values.dtype, title)
    refusal = budget.spend(prod(shape) * values.itemsize, STEPS_PER_ELEMENT * prod(shape))
    if refusal is not None:
        raise OnnxImportError(f"{title} of shape {shape_text(shape)}, written out, {refusal}")
    dense = np.zeros(prod(shape), values.dtype)
    places = _places(tensor, folder, shape, title)
    if values.shape != places.shape:
        raise OnnxImportError(
            f"{title} has values of shape {shape_text(values.shape)}, but {len(places)} indices"
        )
    dense[places] = values
    return dense.reshape(shape)


def _places(
    tensor: onnx.SparseTensorProto, folder: Path | None, shape: tuple[int, ...], title: str
) -> NDArray[np.int64]:
    """Where the values are in row-major order. Raises OnnxImportError, naming `title`."""
    indices = array_of(tensor.indices, folder, f"{title}: its indices")
    if indices.dtype != np.int64 or indices.ndim not in (1, 2):
        raise OnnxImportError(
            f"{title} has indices of type {indices.dtype} and rank {indices.ndim}, expected int64 of rank 1 or 2"
        )
    bounds = shape if indices.ndim == 2 else (prod(shape),)
    table = indices if indices.ndim == 2 else indices[:, np.newaxis]
    if table.shape[1] != len(bounds):
        raise OnnxImportError(
            f"{title} of shape {shape_text(shape)} has indices of {table.shape[1]} numbers each, expected {len(shape)}"
        )
    if np.any(table < 0) or np.any(table >= np.array(bounds, np.int64)):
        raise OnnxImportError(f"{title} of shape {shape_text(shape)} has an index outside of it")
    places = np.zeros(len(table), np.int64)
    for dim, extent in enumerate(bounds):
        places = places * extent + table[:, dim]
    if len(np.unique(places)) != len(places):
        raise OnnxImportError(f"{title} has two values at one index")
    return places
