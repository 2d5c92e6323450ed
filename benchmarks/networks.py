"""Reorders left in the nine networks that ship with the onnx package: ours beside ONNX Runtime's.

    python benchmarks/networks.py [NETWORK ...] [--json]

Per network, reorders of activations and the megabytes of the tensors they move:

    naive      every op its preferred layout, every edge its reorder (target blocked8)
    blocked8   kernels that take blocked operands in broadcast add and mul, pools and concat
    nchwc8     only what ONNX Runtime's blocked kernels take, blocks of 8, the network as it ships
    nchwcB     the same with the block B that the installed ONNX Runtime uses, on the graph that it lays out: what its
               basic optimizations leave, written by itself (constants folded into convolutions, equal ops merged)
    ONNX Runtime   ReorderInput and ReorderOutput nodes after all its optimizations, and its Transpose nodes, which
               move data too and are no reorders; ours do a transpose and a reorder in one move, counted as a reorder

Bytes are counted once per reorder, at the larger side, pads included. A reorder between two layouts that are the same
bytes is none, on either side. "proven" is bound = cost of the selections.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, dtype_of, layout_of
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.frontends.onnx import from_onnx
from layout_ir.passes.propagate import propagate
from layout_ir.tools.program import shipped_network

# Optional dependencies without type information.
onnx: Any = import_module("onnx")
onnxruntime: Any = import_module("onnxruntime")

NAMES = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
)  # fmt: skip


@dataclass(frozen=True)
class Count:
    """Reorders of activations, bytes of the tensors they move, and whether the selection is proven optimal."""

    reorders: int
    nbytes: int
    proven: bool


@dataclass(frozen=True)
class Theirs:
    """ONNX Runtime's nodes by kind, and the bytes of the tensors its reorders move."""

    reorder_input: int
    reorder_output: int
    convolutions: int
    transposes: int
    nbytes: int

    @property
    def reorders(self) -> int:
        return self.reorder_input + self.reorder_output


def ours(path: str, target: str, solver: str = "exact") -> Count:
    """What is left of the network in the file `path` for `target`.

    Counted behind the selection, which the bound is about; later passes only remove.
    """
    module = from_onnx(path)
    solution = propagate(module, target, solver)
    return _count(module, solution is None or solution.is_optimal)


def _count(module: Any, proven: bool) -> Count:
    reorders = nbytes = 0
    for op in module.walk():
        if not isinstance(op, ReorderOp | FillPadsOp) or _constant(op.input):
            continue
        source, destination = layout_of(op.source_type), layout_of(op.result_type)
        if isinstance(op, FillPadsOp) or cast_obstacle(source, destination) is not None:
            dtype = dtype_of(op.result_type)
            reorders += 1
            nbytes += max(source.nbytes(dtype), destination.nbytes(dtype))
    return Count(reorders, nbytes, proven)


def _constant(value: Any) -> bool:
    while isinstance(value.owner, ReorderOp):
        value = value.owner.input
    return isinstance(value.owner, nn.ConstantOp)


# ONNX Runtime --------------------------------------------------------------------------------------------------------


def optimized_by_runtime(model: str | bytes, level: str) -> Any:
    """What ONNX Runtime makes of a model (ModelProto) at an optimization level ("BASIC", "ALL")."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/model.onnx"
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def runtime_block() -> int:
    """Channels per block of the installed ONNX Runtime: it runs a pool of 8 channels in blocks only if they are 8."""
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    value = [helper.make_tensor_value_info(name, number, [1, 8, 4, 4]) for name in "xy"]
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1])
    model = helper.make_model(
        helper.make_graph([pool], "pool", value[:1], value[1:]),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    found = optimized_by_runtime(model.SerializeToString(), "ALL")
    return 8 if any(node.domain.endswith("nchwc") for node in found.graph.node) else 16


def _shapes(model: Any, names: set[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of intermediate tensors, found by running the model: its file need not state them."""
    known = {output.name for output in model.graph.output}
    for name in sorted(names - known):
        model.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    feed = {value.name: np.zeros(value.shape, types[value.type]) for value in session.get_inputs()}
    results = session.run(None, feed)
    return {value.name: array.shape for value, array in zip(session.get_outputs(), results, strict=True)}


def theirs(path: str, block: int) -> Theirs:
    """ONNX Runtime's reorders; tensors of which the two layouts are the same bytes are still counted: it moves them."""
    optimized = optimized_by_runtime(path, "ALL")
    # Names of plain tensors survive optimization.
    moved = [
        node.input[0] if node.op_type == "ReorderInput" else node.output[0]
        for node in optimized.graph.node
        if node.op_type in ("ReorderInput", "ReorderOutput")
    ]
    blocked = Format.from_tag(f"nChw{block}c")
    shapes = _shapes(optimized_by_runtime(path, "BASIC"), set(moved))
    nbytes = sum(max(blocked.bind(shapes[name]).nbytes("f32"), 4 * prod(shapes[name])) for name in moved)
    counts = {"ReorderInput": 0, "ReorderOutput": 0, "Conv": 0, "Transpose": 0}
    for node in optimized.graph.node:
        if node.op_type in counts and (node.domain.endswith("nchwc") or node.op_type == "Transpose"):
            counts[node.op_type] += 1
    return Theirs(
        counts["ReorderInput"], counts["ReorderOutput"], counts["Conv"], counts["Transpose"], nbytes
    )


# The table -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    network: str
    naive: Count
    blocked8: Count
    nchwc8: Count
    """On the network as it ships."""
    nchwc: Count
    """With ONNX Runtime's block, on the graph that it lays out."""
    runtime: Theirs


def measure(name: str, block: int) -> Row:
    path = shipped_network(f"onnx:{name}")
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(optimized_by_runtime(path, "BASIC"), file.name)
        on_its_graph = ours(file.name, f"ort-nchwc{block}")
    return Row(
        name,
        ours(path, "blocked8", "naive"),
        ours(path, "blocked8"),
        ours(path, "ort-nchwc8"),
        on_its_graph,
        theirs(path, block),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="reorders left in nine networks, ours beside ONNX Runtime's")
    parser.add_argument("networks", nargs="*", default=NAMES, metavar="NETWORK", help="default: all nine")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    args = parser.parse_args()
    block = runtime_block()
    rows: list[Row] = []
    if not args.json:
        print(
            f"ONNX Runtime {onnxruntime.__version__}, blocks of {block}; reorders of activations (MB moved)\n"
        )
        print(
            f"{'network':<13} {'naive':>12} {'blocked8':>11} {'nchwc8':>12} {f'nchwc{block}':>12} "
            f"{'ONNX Runtime':>14} {'transposes':>10}  proven"
        )
    for name in args.networks:
        row = measure(name, block)
        rows.append(row)
        if not args.json:
            print(_line(row), flush=True)
    if args.json:
        print(json.dumps([{**asdict(row), "block": block} for row in rows], indent=2))


def _line(row: Row) -> str:
    def cell(count: Count | Theirs, width: int) -> str:
        return f"{f'{count.reorders} ({count.nbytes / 1e6:.1f})':>{width}}"

    proven = all(count.proven for count in (row.blocked8, row.nchwc8, row.nchwc))
    return (
        f"{row.network:<13} {cell(row.naive, 12)} {cell(row.blocked8, 11)} {cell(row.nchwc8, 12)} "
        f"{cell(row.nchwc, 12)} {cell(row.runtime, 14)} {row.runtime.transposes:>10}  {'yes' if proven else 'NO'}"
    )


if __name__ == "__main__":
    main()
