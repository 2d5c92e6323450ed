"""Folds over rows that a subgraph chooses by numbers, as loops within it: bags of embeddings.

    rows = Slice(indices, start, end); y = ReduceSum(Gather(table, rows), axis 0)

has a shape in between that nothing knows before it runs. A loop over the rows from `start` to `end` that adds one to
the other has none: the subgraph can be compiled, and the loop is a record of its plan (`nested_flow`). What is between
the Slices and the fold computes each row for itself: Gathers, elementwise ops of two such values, and new dims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.backends.onednn.plan_steps import Type
from layout_ir.elements.numpy_types import Array, storage

if TYPE_CHECKING:
    import onnx

_FOLDS = {"ReduceSum": "Add", "ReduceMean": "Add", "ReduceMax": "Max", "ReduceMin": "Min"}
_ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div"})


def with_row_folds(
    graph: onnx.GraphProto, types: Mapping[str, Type], constants: Mapping[str, Array]
) -> onnx.GraphProto | None:
    """A copy of a subgraph with loops in place of such folds; None where it has none.

    `types` are those of its inputs and outer values, `constants` the outer ones that are known.
    """
    import onnx

    folds = _Folds(graph, types, constants)
    made = [folds.loop(node) for node in graph.node]
    if not any(made):
        return None
    changed = onnx.GraphProto()
    changed.CopyFrom(graph)
    del changed.node[:]
    for node, loop in zip(graph.node, made, strict=True):
        changed.node.extend(loop or [node])
    return changed


@dataclass(frozen=True)
class _Row:
    """A row of a value: its name, element type and shape, and how it comes about."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bounds: tuple[str, str, str]
    """The first and last row, and the value that these are rows of."""
    nodes: tuple[onnx.NodeProto, ...]
    """What computes it of the rows that it is made of."""
    made_of: tuple[_Row, ...] = ()


class _Folds:
    """The folds of a graph, whose nodes `loop` is asked for in their order."""

    def __init__(
        self, graph: onnx.GraphProto, types: Mapping[str, Type], constants: Mapping[str, Array]
    ) -> None:
        import onnx.numpy_helper

        self._types = types
        self._rows: dict[str, _Row] = {}
        """The rows of the values of the nodes so far."""
        self._constants = dict(constants)
        self._constants |= {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
        taken = {name for node in graph.node for name in (*node.input, *node.output)} | types.keys()
        self._prefix = "fold"
        """What all new names begin with, and no other one."""
        while any(name.startswith(self._prefix) for name in taken):
            self._prefix += "_"
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)

    def loop(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """The nodes in place of a fold over rows that numbers choose; None for another node."""
        if node.op_type in _FOLDS and self._ints(node, "axes", 1) == [0]:
            row = self._rows.get(node.input[0])
            return self._loop(node, row) if row is not None and row.dtype in ("f32", "f64") else None
        row = self._row(node)
        if row is not None:
            self._rows[node.output[0]] = row
        return None

    def _loop(self, node: onnx.NodeProto, row: _Row) -> list[onnx.NodeProto]:
        import onnx
        from onnx import helper

        kind, shape = storage(row.dtype), row.shape
        start, end, data = row.bounds
        name = f"{self._prefix} {node.output[0]}"
        first = {"ReduceMax": -np.inf, "ReduceMin": np.inf}.get(node.op_type, 0)
        number = helper.np_dtype_to_tensor_dtype(kind)
        nodes = self._bounds(name, start, end, self._types[data][1][0])
        nodes.append(_constant(f"{name}_none", np.full(shape, first, kind)))
        inner = helper.make_graph(
            [
                helper.make_node("Add", [f"{name}_start", f"{name}_trip"], [self._place]),
                *_computed(row),
                helper.make_node(_FOLDS[node.op_type], [f"{name}_before", row.name], [f"{name}_after"]),
                helper.make_node("Identity", [f"{name}_going"], [f"{name}_goes"]),
            ],
            "fold",
            [
                helper.make_tensor_value_info(f"{name}_trip", onnx.TensorProto.INT64, ()),
                helper.make_tensor_value_info(f"{name}_going", onnx.TensorProto.BOOL, ()),
                helper.make_tensor_value_info(f"{name}_before", number, shape),
            ],
            [
                helper.make_tensor_value_info(f"{name}_goes", onnx.TensorProto.BOOL, ()),
                helper.make_tensor_value_info(f"{name}_after", number, shape),
            ],
        )
        nodes.append(
            helper.make_node("Loop", [f"{name}_count", "", f"{name}_none"], [f"{name}_all"], body=inner)
        )
        last = f"{name}_all"
        if node.op_type == "ReduceMean":
            # The mean of no rows is undefined; here it is 0, as in ONNX Runtime.
            nodes.append(_constant(f"{name}_one", np.array(1, np.int64)))
            nodes.append(helper.make_node("Max", [f"{name}_count", f"{name}_one"], [f"{name}_divisor"]))
            nodes.append(helper.make_node("Cast", [f"{name}_divisor"], [f"{name}_number"], to=number))
            nodes.append(helper.make_node("Div", [last, f"{name}_number"], [f"{name}_mean"]))
            last = f"{name}_mean"
        keeps = next((each.i for each in node.attribute if each.name == "keepdims"), 1)
        target = np.array((1, *shape) if keeps else shape, np.int64)
        nodes.append(_constant(f"{name}_shape", target))
        nodes.append(helper.make_node("Reshape", [last, f"{name}_shape"], [node.output[0]]))
        return nodes

    def _bounds(self, name: str, start: str, end: str, count: int) -> list[onnx.NodeProto]:
        """The first row, and how many there are, as a Slice takes its bounds: from the end on, and cut off."""
        from onnx import helper

        nodes = [
            _constant(f"{name}_scalar", np.array([], np.int64)),
            _constant(f"{name}_rows", np.array(count, np.int64)),
            _constant(f"{name}_zero", np.array(0, np.int64)),
        ]
        for side, given in ("start", start), ("end", end):
            at = f"{name}_{side}"
            nodes += [
                helper.make_node("Cast", [given], [f"{at}_long"], to=7),
                helper.make_node("Reshape", [f"{at}_long", f"{name}_scalar"], [f"{at}_given"]),
                helper.make_node("Add", [f"{at}_given", f"{name}_rows"], [f"{at}_back"]),
                helper.make_node("Less", [f"{at}_given", f"{name}_zero"], [f"{at}_negative"]),
                helper.make_node("Where", [f"{at}_negative", f"{at}_back", f"{at}_given"], [f"{at}_row"]),
                helper.make_node("Max", [f"{at}_row", f"{name}_zero"], [f"{at}_low"]),
                helper.make_node("Min", [f"{at}_low", f"{name}_rows"], [at]),
            ]
        nodes.append(helper.make_node("Sub", [f"{name}_end", f"{name}_start"], [f"{name}_difference"]))
        nodes.append(helper.make_node("Max", [f"{name}_difference", f"{name}_zero"], [f"{name}_count"]))
        return nodes

    @property
    def _place(self) -> str:
        """The number of the row, in the body of a loop."""
        return f"{self._prefix} place"

    def _row(self, node: onnx.NodeProto) -> _Row | None:
        """A row of the result of a node, by its number; None where it is not that of a Slice by numbers."""
        from onnx import helper

        if node.op_type == "Slice":
            return self._sliced(node)
        name, rows = f"{self._prefix} row of {node.output[0]}", [self._rows.get(each) for each in node.input]
        if node.op_type == "Gather" and not any(each.i for each in node.attribute if each.name == "axis"):
            index, table = rows[1], self._types.get(node.input[0])
            if index is None or table is None:
                return None
            made = helper.make_node("Gather", [node.input[0], index.name], [name])
            return _Row(name, table[0], index.shape + table[1][1:], index.bounds, (made,), (index,))
        if node.op_type == "Unsqueeze" and rows[0] is not None:
            return self._unsqueezed(node, name, rows[0])
        if node.op_type in _ELEMENTWISE:
            a, b = rows
            if a is None or b is None or a.bounds[:2] != b.bounds[:2] or len(a.shape) != len(b.shape):
                return None
            if self._types[a.bounds[2]][1][0] != self._types[b.bounds[2]][1][0]:
                return None
            made = helper.make_node(node.op_type, [a.name, b.name], [name])
            return _Row(
                name, a.dtype, tuple(np.broadcast_shapes(a.shape, b.shape)), a.bounds, (made,), (a, b)
            )
        return None

    def _sliced(self, node: onnx.NodeProto) -> _Row | None:
        from onnx import helper

        data, type = node.input[0], self._types.get(node.input[0])
        known = self._constants.keys() & set(node.input[1:3])
        if type is None or not type[1] or known or len(node.input) < 3:
            return None
        if self._ints(node, "axes", 3, 0) != [0] or self._ints(node, "steps", 4, 1) != [1]:
            return None
        name = f"{self._prefix} row of {node.output[0]}"
        made = helper.make_node("Gather", [data, self._place], [name])
        return _Row(name, type[0], type[1][1:], (node.input[1], node.input[2], data), (made,))

    def _unsqueezed(self, node: onnx.NodeProto, name: str, inner: _Row) -> _Row | None:
        from onnx import helper

        axes = self._ints(node, "axes", 1)
        if axes is None or len(axes) != 1 or not 0 < axes[0] <= len(inner.shape) + 1:
            return None
        shape = (*inner.shape[: axes[0] - 1], 1, *inner.shape[axes[0] - 1 :])
        target = _constant(f"{name}, its shape", np.array(shape, np.int64))
        made = helper.make_node("Reshape", [inner.name, target.output[0]], [name])
        return _Row(name, inner.dtype, shape, inner.bounds, (target, made), (inner,))

    def _ints(
        self, node: onnx.NodeProto, name: str, position: int, default: int | None = None
    ) -> list[int] | None:
        """Numbers that an attribute or a constant input has; None where they are neither."""
        for attribute in node.attribute:
            if attribute.name == name:
                return list(attribute.ints)
        if len(node.input) <= position or not node.input[position]:
            return None if default is None else [default]
        found: Any = self._constants.get(node.input[position])
        return None if found is None else found.reshape(-1).tolist()


def _computed(row: _Row) -> list[onnx.NodeProto]:
    """The nodes that compute a row, each once, behind those of the rows that it is made of."""
    order: dict[str, _Row] = {}
    waiting = [row]
    while waiting:
        last = waiting[-1]
        missing = [each for each in last.made_of if each.name not in order]
        waiting += missing
        if not missing:
            order[last.name] = waiting.pop()
    return [node for each in order.values() for node in each.nodes]


def _constant(name: str, array: Array) -> onnx.NodeProto:
    from onnx import helper, numpy_helper

    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
