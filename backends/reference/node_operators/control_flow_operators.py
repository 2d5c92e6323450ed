"""Operators with subgraphs, and of values that may be left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import onnx.helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_loop

from layout_ir.backends.reference.node_steps import node_steps, walk
from layout_ir.backends.reference.operator_kernels import IN_NUMPY
from layout_ir.elements.numpy_types import Array

_PACKAGE_LOOP: Any = op_loop.Loop  # without type information

RowType = tuple[Any, tuple[int, ...]]
"""The element type and shape of what a subgraph gives in an iteration, as far as it is stated."""


def _row_types(body: Any) -> list[RowType]:
    """The types of the outputs of a subgraph, an evaluator of the package: f32 and 0 for what it does not say."""
    found: list[RowType] = []
    for type in body.output_types:
        tensor = type.tensor_type
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else np.float32
        found.append((kind, tuple(dim.dim_value for dim in tensor.shape.dim)))
    return found


def _stacked(rows: Sequence[Array], type: RowType) -> Array:
    """The rows behind each other, which are of this type where there are none."""
    return np.array(rows) if rows else np.zeros((0, *type[1]), type[0])


class Loop(_PACKAGE_LOOP):
    """Loop with a condition that is left out, which is true, and with scan outputs of any rank behind each other: those
    of the package (1.23) are right for vectors alone. What it does around the nodes of an iteration takes longer than
    they do."""

    op_domain = ""
    kernels = IN_NUMPY

    def _run(
        self, trips: Array | None = None, condition: Array | None = None, *carried: Array, **options: Any
    ) -> Any:
        loop: Any = self
        counter, continues, *names = cast("list[str]", loop.body.input_names)
        values: dict[str, Any] = {
            **(options.get("context") or {}),
            **dict(zip(names, carried, strict=True)),
        }
        going = condition is None or bool(np.asarray(condition).item())
        scanned: list[list[Array]] = [[] for _ in loop.body.output_names[1 + len(names) :]]
        trip = 0
        run: Callable[[dict[str, Any]], list[Array]] = partial(
            loop._run_body, attributes=options.get("attributes")
        )
        if not any(node.has_linked_attribute for node in loop.body.rt_nodes_):
            run = partial(walk, node_steps(loop.body), loop.body.output_names)
            values |= loop.body.rt_inits_
        outputs = tuple(cast("Sequence[str]", loop.onnx_node.output))
        compiled = self.kernels.trips.get(outputs, lambda values: None)
        while going and (trips is None or trip < int(np.asarray(trips).item())):
            values |= {counter: np.array(trip, np.int64), continues: np.array(going)}
            found = compiled(values)
            if found is None:
                found = run(values)
            going = bool(np.asarray(found[0]).item())
            values |= zip(names, found[1:], strict=False)
            for rows, row in zip(scanned, found[1 + len(names) :], strict=True):
                rows.append(row)
            trip += 1
        types = _row_types(loop.body)[1 + len(names) :]
        stacked = [_stacked(rows, type) for rows, type in zip(scanned, types, strict=True)]
        return (*(values[name] for name in names), *stacked)


class Scan(OpRun):
    """Scan along any axes, in both directions, also over nothing: those of the package (1.23) have one of each."""

    op_domain = ""

    def __init__(self, onnx_node: Any, run_params: Any) -> None:
        super().__init__(onnx_node, run_params)
        for name in ("input_direction", "output_direction"):
            given = getattr(self, f"scan_{name}s", None) or ()
            if any(side not in (0, 1) for side in given):
                raise ValueError(f"an {name} of a Scan is 0 or 1, not {list(given)}")

    def need_context(self) -> bool:
        return True

    def _run(self, *given: Array, num_scan_inputs: int, **options: Any) -> Any:
        body: Any = cast("Any", self).body
        rest = len(given) - num_scan_inputs
        results = len(body.output_names) - rest

        def per_value(name: str, count: int) -> list[int]:
            return list(options.get(name) or [0] * count)

        slices: list[Array] = []
        sides = (
            per_value("scan_input_axes", num_scan_inputs),
            per_value("scan_input_directions", num_scan_inputs),
        )
        for value, axis, backwards in zip(given[rest:], *sides, strict=True):
            rows = np.moveaxis(value, axis, 0)
            slices.append(rows[::-1] if backwards else rows)
        states, scanned = list(given[:rest]), [list[Array]() for _ in range(results)]
        for rows in zip(*slices, strict=True):
            values: dict[str, Any] = {
                **(options.get("context") or {}),
                **dict(zip(body.input_names, (*states, *rows), strict=True)),
            }
            found: list[Array] = cast("Any", self)._run_body(values)
            states = found[:rest]
            for made, row in zip(scanned, found[rest:], strict=True):
                made.append(row)
        whole: list[Array] = []
        sides = per_value("scan_output_axes", results), per_value("scan_output_directions", results)
        for rows, type, axis, backwards in zip(scanned, _row_types(body)[rest:], *sides, strict=True):
            array = _stacked(rows[::-1] if backwards else rows, type)
            whole.append(np.moveaxis(array, 0, axis))
        return (*states, *whole)


class Optional(OpRun):
    """What it is given, or None: the package makes a list of it, which has an element though it holds nothing."""

    op_domain = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any]:
        return (x,)

    def _check_and_fix_outputs(self, res: tuple[Any, ...]) -> tuple[Any, ...]:
        return res  # None is no value to the package


OPERATORS = (Loop, Scan, Optional)
