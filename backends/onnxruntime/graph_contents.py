"""How many nodes there are in a model and how many of them only move elements, in its file and as ONNX Runtime runs it.

ONNX Runtime rewrites a graph before it runs it: it pushes and merges Transposes, and puts the convolutions of some
processors into blocks of channels, with a ReorderInput before and a ReorderOutput behind them. So what a model costs is
in the graph that it writes out after that, not in the file.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import nodes_within

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class GraphContents:
    """Numbers of nodes of a graph, those of its subgraphs included; a call of a function counts as its body."""

    nodes: int
    transposes: int
    reorder_inputs: int = 0
    """Moves into the blocks of channels of ONNX Runtime."""
    reorder_outputs: int = 0
    """Moves out of them."""

    @property
    def moves(self) -> int:
        """How many nodes only move elements."""
        return self.transposes + self.reorder_inputs + self.reorder_outputs


def contents_of(model: onnx.ModelProto) -> GraphContents:
    """What is in a model."""
    bodies = {(domain_of(f.domain), f.name, f.overload): f.node for f in model.functions}
    known: dict[tuple[str, str, str], Counter[str]] = {}

    def count(nodes: Iterable[onnx.NodeProto]) -> Counter[str]:
        found: Counter[str] = Counter()
        for node in (each for outer in nodes for each in (outer, *nodes_within(outer))):
            domain = domain_of(node.domain)
            key = (domain, node.op_type, node.overload)
            if key not in bodies:
                found["nodes"] += 1
                found[f"{domain}.{node.op_type}"] += 1
                continue
            if key not in known:
                known[key] = Counter()  # functions do not call themselves; a file that says so ends here
                known[key] = count(bodies[key])
            found += known[key]
        return found

    found = count(model.graph.node)
    reorders = [found[f"com.microsoft.nchwc.{name}"] for name in ("ReorderInput", "ReorderOutput")]
    return GraphContents(found["nodes"], found[".Transpose"], *reorders)


def contents_left(path: str, title: str, *, level: str) -> GraphContents:
    """What is in the graph that ONNX Runtime runs for the model in the file `path`, at an optimization level.

    Raises LayoutError, with the `title` of the model, where ONNX Runtime does not take it.
    """
    import onnx

    with tempfile.TemporaryDirectory(prefix="layout-ir-") as folder:
        written = os.path.join(folder, "optimized.onnx")
        # Weights beside the graph: one message of protobuf holds two gibibytes at most.
        settings = {
            "optimized_model": written,
            "session.optimized_model_external_initializers_file_name": "weights.bin",
            "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
        }
        RuntimeSession(path, title, level=level, settings=settings)
        return contents_of(onnx.ModelProto.FromString(Path(written).read_bytes()))
