"""Models as ONNX Runtime writes them after its own optimizations, with the ops that only it has."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from tests.zoo.quiet import quiet


def extended(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fused for any machine: FusedConv, Gelu, LayerNormalization, SkipLayerNormalization, QLinearAdd and more."""
    return through_files(model, partial(_optimize, "ORT_ENABLE_EXTENDED"))


def everything(model: onnx.ModelProto) -> onnx.ModelProto:
    """For this machine: convolutions and pools in blocks of channels (com.microsoft.nchwc) too."""
    result = through_files(model, partial(_optimize, "ORT_ENABLE_ALL"))
    graph = result.graph
    nodes = in_order_of_use(graph)
    for index, node in enumerate(nodes):
        node.name = f"{node.op_type}_{index}"
    del graph.node[:]
    graph.node.extend(nodes)
    return result


def in_order_of_use(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Each node after those that it reads, beginning with what the first output needs.

    ONNX Runtime writes nodes that reorder where a hash table of pointers puts them, another place on every run.
    """
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    order: dict[int, onnx.NodeProto] = {}
    waiting = [makers[value.name] for value in reversed(graph.output)]
    while waiting:
        index = waiting[-1]
        needed = [makers[name] for name in graph.node[index].input if name in makers]
        missing = [other for other in reversed(needed) if other not in order]
        if missing:
            waiting += missing
        else:
            order.setdefault(index, graph.node[waiting.pop()])
    return list(order.values())


def _optimize(level: str, source: Path, target: Path) -> None:
    import onnxruntime  # pyright: ignore[reportMissingTypeStubs]

    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.log_severity_level = 3
    options.optimized_model_filepath = str(target)
    runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def through_files(model: onnx.ModelProto, write: Callable[[Path, Path], None]) -> onnx.ModelProto:
    """What `write(source, target)` makes of the model, for tools that read and write files."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        source.write_bytes(model.SerializeToString())
        write(source, target)
        return onnx.load_from_string(target.read_bytes())
