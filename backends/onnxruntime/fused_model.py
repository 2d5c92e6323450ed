"""A model as ONNX Runtime leaves it before it looks at layouts: its nodes fused, constants folded."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import distinguish_values, graphs_within, names_twice, nodes_within
from layout_ir.frontends.onnx.tensor_protos import bring_inside

if TYPE_CHECKING:
    import onnx


def fused_model(path: str) -> onnx.ModelProto:
    """The model in the file `path` after ONNX Runtime's optimizations for all processors, its weights in memory.

    Where ONNX Runtime casts to a type that it has kernels for, that comes behind its fusions: it is asked once more.
    The result has the inputs and outputs of that file, its documentation and metadata, and nodes of ONNX Runtime's own
    domains.
    Raises LayoutError where ONNX Runtime does not take it.
    """
    import onnx

    before = onnx.ModelProto.FromString(Path(path).read_bytes())
    with tempfile.TemporaryDirectory(prefix="layout-ir-") as folder:
        written = _written(path, folder)
        model = onnx.ModelProto.FromString(Path(written).read_bytes())
        if _casts(model) > _casts(before):
            folder = os.path.join(folder, "again")
            os.mkdir(folder)
            model = onnx.ModelProto.FromString(Path(_written(written, folder)).read_bytes())
        bring_inside(model.graph, Path(folder))
    # Its fusions give the values of a graph and of a subgraph one name (GatherSliceToSplitFusion, 1.32), and one
    # constant to a graph twice (1.25), or beside the Constant of a subgraph that gives it (1.32).
    distinguish_values(model.graph, names_twice(model.graph))
    for graph in graphs_within(model.graph):
        _drop_repeated_constants(graph)
    for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        setattr(model, name, getattr(before, name))
    model.graph.doc_string = before.graph.doc_string
    for entries, own in (
        (model.metadata_props, before.metadata_props),
        (model.graph.metadata_props, before.graph.metadata_props),
    ):
        del entries[:]
        entries.extend(own)
    # It states the versions of all domains that it knows.
    used = {domain_of(n.domain) for node in model.graph.node for n in (node, *nodes_within(node))}
    used |= {domain_of(entry.domain) for entry in before.opset_import}
    kept = [entry for entry in model.opset_import if domain_of(entry.domain) in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model


def _written(path: str, folder: str) -> str:
    """The file in `folder` to which ONNX Runtime has written the model of another file after its fusions."""
    written = os.path.join(folder, "fused.onnx")
    # Weights beside the graph: one message of protobuf holds two gibibytes at most.
    settings = {
        "optimized_model": written,
        "session.optimized_model_external_initializers_file_name": "weights.bin",
        "session.optimized_model_external_initializers_min_size_in_bytes": "1048576",
    }
    RuntimeSession(path, "the model", level="extended", settings=settings)
    return written


def _drop_repeated_constants(graph: onnx.GraphProto) -> None:
    """Takes out the initializers of a graph that are there already, name and all, or that a Constant gives."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    if any(tensors[each.name] != each for each in graph.initializer):
        return
    for node in graph.node:
        if node.op_type == "Constant":
            tensors.pop(node.output[0], None)
    if len(tensors) < len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(tensors.values())


def _casts(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Cast" for node in model.graph.node)
