"""`optimize_onnx`: an ONNX model comes out with the fewest Transposes that its nodes can do with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.constant_folding import fold_constant_transposes
from layout_ir.passes.onnx.consumers import Consumer, consumer_named
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter, Move, Plan
from layout_ir.passes.onnx.model_graph import Graph, typed
from layout_ir.passes.onnx.order_selection import order_problem, transpose_perm
from layout_ir.passes.selection.solver.selection_problem import Solution
from layout_ir.passes.selection.solver.solve import solve_exact
from layout_ir.passes.onnx.view_chains import merge_view_chains

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class OptimizedModel:
    """A model and what became of its Transposes."""

    model: onnx.ModelProto
    before: Traffic
    after: Traffic
    moves: list[Move]
    solution: Solution


@dataclass(frozen=True)
class Traffic:
    """How many Transposes there are, and the bytes that they read and write."""

    count: int
    nbytes: int


def optimize_onnx(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    target: str = "onnx",
    *,
    inputs: str = "keep",
    outputs: str = "keep",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> OptimizedModel:
    """The model with as few Transposes as the operators of `target` need."""
    import onnx

    folder = None
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
    else:
        model = onnx.load(os.fspath(source), load_external_data=False)
        folder = Path(source).parent
    return _optimized(model, folder, shapes or {}, consumer_named(target))


def _optimized(
    model: onnx.ModelProto, folder: Path | None, shapes: Mapping[str, Sequence[int]], consumer: Consumer
) -> OptimizedModel:
    info = typed(model, folder, shapes)
    before = traffic(info.graph)
    fold_constant_transposes(info.graph)
    merge_view_chains(info.graph)
    plan, solution = plan_graph(info.graph, consumer)
    moves = plan.moves()
    after = Traffic(len(moves), sum(move.nbytes for move in moves))
    if (after.count, after.nbytes) >= (before.count, before.nbytes):
        return OptimizedModel(model, before, before, moves, solution)
    nodes, initializers = GraphRewriter(plan).write()
    replace_graph(model, nodes, initializers)
    again = _optimized(model, folder, shapes, consumer)
    return OptimizedModel(model, before, again.after, again.moves, again.solution)


def plan_graph(graph: Graph, consumer: Consumer) -> tuple[Plan, Solution]:
    problem = order_problem(graph, consumer)
    solution = solve_exact(problem.problem)
    return Plan(problem, solution.choices), solution


def traffic(graph: Graph) -> Traffic:
    """The Transposes of a graph."""
    nodes = [node for node in graph.nodes if transpose_perm(node) is not None]
    return Traffic(len(nodes), sum(2 * graph.nbytes(node.inputs[0]) for node in nodes))


def replace_graph(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], initializers: Sequence[onnx.TensorProto]
) -> None:
    graph = model.graph
    domains = {node.domain for node in nodes} - {entry.domain for entry in model.opset_import}
    for domain in domains & {"com.microsoft"}:
        model.opset_import.add(domain=domain, version=1)
    names = {name for node in nodes for name in node.output}
    names.update(value.name for value in graph.input)
    kept = [value for value in graph.value_info if value.name in names]
    nodes, initializers = list(nodes), list(initializers)
    copy = type(graph)()
    copy.node.extend(nodes)
    copy.initializer.extend(initializers)
    copy.value_info.extend(kept)
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.MergeFrom(copy)
