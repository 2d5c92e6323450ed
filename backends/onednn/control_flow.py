"""If, Loop and Scan: their subgraphs as plans of their own, run as often as the node says.

    If       the plan of one branch, which writes the results where they belong
    Loop     the plan of the body for each iteration; what it gives is handed to the next as it is, and each row of a
             scan output is written at its place in the whole
    Scan     the same, with a row of each scan input per iteration; of another axis than the first, rows are made once

Machine code goes from iteration to iteration (`repeated_plan`) unless a step of the body is by Python, or what is
carried changes its shape. Under the same conditions, a node within a subgraph becomes a record of its plan
(`nested_flow`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layout_ir.backends.onednn.nested_flow import nested_branch, nested_loop
from layout_ir.backends.onednn.plan_steps import Address, ControlFlow, ExecutionPlan, NestedFlow, Type
from layout_ir.backends.onednn.repeated_plan import RepeatedPlan, Rows, fixed, row_slot
from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.subgraph_plans import CompileModel, Subgraph, type_of
from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.errors import LayoutError

_MOST_NESTED = 1 << 20
"""Iterations of a loop within a subgraph by machine code, where their number is constant: PyTorch writes the largest
number there is where a condition ends the loop, which must be possible to interrupt."""


def control_flow(op: nn.OpaqueOp, compile_model: CompileModel) -> ControlFlow | None:
    """What runs an If, Loop or Scan node; None for another one, or a Scan of opset 8, which goes over a batch.

    Raises LayoutError, saying why, where its subgraph cannot be compiled for the shapes that come in.
    """
    if op.domain.data or op.title not in _KINDS or (op.title == "Scan" and op.versions.get("", 0) < 9):
        return None
    return _KINDS[op.title](op, compile_model)


class _Node:
    """A node with subgraphs: its operands apart, inputs from captured values."""

    SUBGRAPHS: tuple[str, ...] = ("body",)
    FEWEST_INPUTS = 0

    def __init__(self, op: nn.OpaqueOp, compile_model: CompileModel) -> None:
        self.title = op.title
        self._given = op.given_inputs
        self._inputs = sum(self._given)
        self._made = op.given_outputs
        self._types = [type_of(value) for value in op.operands][: self._inputs]
        self._result_types = self._by_output([type_of(value) for value in op.results])
        self._subgraphs = [Subgraph(op, name, compile_model) for name in self.SUBGRAPHS]

    @property
    def plans(self) -> list[ExecutionPlan]:
        """The plans of the subgraphs, as far as they were compiled."""
        return [plan for subgraph in self._subgraphs for plan in subgraph.plans]

    def _by_input(self, given: Sequence[Any]) -> list[Any]:
        """One entry per input of the node, None for one that is left out; a list may end before those at its end."""
        left = iter(given)
        entries = [next(left) if there else None for there in self._given]
        return entries + [None] * (self.FEWEST_INPUTS - len(entries))

    def _by_output(self, targets: Sequence[Any]) -> list[Any]:
        """One target per output of the node, None for one that nobody uses."""
        left = iter(targets)
        return [next(left) if there else None for there in self._made]

    def _hand_over(self, values: Sequence[Array], targets: Sequence[Array | None]) -> None:
        """Writes what was carried to the end to the results that it is. Raises LayoutError for another shape."""
        self._check_shapes(values, targets)
        for value, target in zip(values, targets, strict=False):
            if target is not None:
                target[...] = value

    def _check_shapes(self, values: Sequence[Array], targets: Sequence[Array | None]) -> None:
        """Raises LayoutError where what is carried to the end has another shape than the result that it is."""
        for number, (value, target) in enumerate(zip(values, targets, strict=False)):
            if target is not None and value.shape != target.shape:
                raise LayoutError(
                    f"output {number} of {self.title} is {value.shape} at the end, and the type of its result "
                    f"{target.shape}"
                )

    def _check_rows(self, plan: ExecutionPlan, first: int, scans: Sequence[Array | None]) -> None:
        """Raises LayoutError where results from number `first` on are no rows of what they are stacked in."""
        for number, scan in enumerate(scans, first):
            if scan is None:
                continue
            place = plan.results[number]
            if (scan.dtype, scan.shape[1:]) != (storage(place.dtype), place.layout.shape):
                raise LayoutError(
                    f"the body of {self.title} gives rows {place.layout.shape} of {place.dtype}, and the type of the "
                    f"result that they are stacked in is {scan.shape} of {scan.dtype}"
                )

    def _row(self, whole: Array, number: int) -> Array:
        """The memory of a row. Raises LayoutError where there is none."""
        if number >= len(whole):
            raise LayoutError(
                f"{self.title} runs {number + 1} times or more, and the type of its result has {len(whole)} rows"
            )
        return whole[number, ...]


class _If(_Node):
    SUBGRAPHS = ("then_branch", "else_branch")

    def __init__(self, op: nn.OpaqueOp, compile_model: CompileModel) -> None:
        super().__init__(op, compile_model)
        for branch in self._subgraphs:
            results = branch.runner(()).plan.results
            for k, (target, there) in enumerate(zip(results, self._made, strict=False)):
                if not there:
                    continue
                wanted = type_of(op.results[sum(self._made[:k])])
                if (target.dtype, target.layout.shape) != wanted:
                    raise LayoutError(
                        f"output {k} of {branch.title} is of another type than that of the node"
                    )

        bodies = [RepeatedPlan(branch.runner(()), {}) for branch in self._subgraphs]
        self._bodies = [body for body in bodies if body.is_possible]

    @property
    def is_native(self) -> bool:
        """Whether both branches are machine code."""
        return len(self._bodies) == len(self._subgraphs)

    def nested(self, operands: Sequence[Address], targets: Sequence[Address]) -> NestedFlow:
        """A record that chooses a branch and runs it."""
        rows = {
            number: fixed(target)
            for number, target in enumerate(self._by_output(targets))
            if target is not None
        }
        captured = operands[self._inputs :]
        return nested_branch(
            operands[0],
            [
                nested_loop(body, list(map(fixed, branch.captured(captured))), rows, {}, most=1)
                for branch, body in zip(self._subgraphs, self._bodies, strict=True)
            ],
        )

    def __call__(self, operands: Sequence[Array], targets: Sequence[Array]) -> None:
        """Runs the branch that the condition chooses."""
        branch = self._subgraphs[0 if _scalar(operands[0]) else 1]
        branch.runner(()).on_arrays(
            branch.captured(operands[self._inputs :]), self._by_output(targets), lends=True
        )


_NUMBER, _HOLDS = np.array(0), np.array(True)
"""The number of the first iteration, and the condition in front of it."""


@dataclass(frozen=True)
class _Trips:
    """The arrays of one call of a Loop or Scan: what is carried into the first iteration, what the body captures, where
    what is carried goes at the end, and where rows are stacked (None for what nobody uses)."""

    carried: Sequence[Array]
    captured: Sequence[Array]
    outputs: Sequence[Array | None]
    scans: Sequence[Array | None]


class _Loop(_Node):
    FEWEST_INPUTS = 2  # the trip count and the condition

    def __init__(self, op: nn.OpaqueOp, compile_model: CompileModel) -> None:
        super().__init__(op, compile_model)
        [self._body] = self._subgraphs
        carried = self._by_input(self._types)[2:]
        self._carried = len(carried)
        if None in carried:
            raise LayoutError("a Loop carries a value that is left out")
        self._dtypes = [dtype for dtype, _ in carried]
        first = self._body.runner(self._formal([shape for _, shape in carried]))
        results = first.plan.results
        if len(results) < 1 + self._carried:
            raise LayoutError(
                f"the body of a Loop has {len(results)} results, and carries {self._carried} values"
            )
        self._results = len(results)
        following = {1 + k: k for k in range(1 + self._carried)}  # the condition, and what is carried
        self._repeated = RepeatedPlan(first, following, counter=0, condition=1)
        found = elements_of(op.operands[0]) if self._given[0] else None
        self._most = None if found is None or found.size != 1 else max(int(_scalar(found)), 0)
        """How many iterations there are at most, where that is constant."""

    @property
    def is_native(self) -> bool:
        """Whether machine code runs all iterations, of which there are not too many, and the results have the types of
        the node whatever the numbers are."""
        if not (self._repeated.is_possible and self._given[0]):
            return False
        if self._most is not None and self._most > _MOST_NESTED:
            return False
        carried, results = self._by_input(self._types)[2:], self._repeated.plan.results
        scans = self._result_types[self._carried :]
        rows = results[1 + self._carried :]
        return all(
            made is None or made == type for made, type in zip(self._result_types, carried, strict=False)
        ) and all(
            scan is None or scan == (place.dtype, (self._most, *place.layout.shape))
            for scan, place in zip(scans, rows, strict=False)
        )

    def nested(self, operands: Sequence[Address], targets: Sequence[Address]) -> NestedFlow:
        """A record that runs all iterations."""
        captured = self._body.captured(operands[self._inputs :])
        count, holds, *carried = self._by_input(operands[: self._inputs])
        outputs = self._by_output(targets)
        results = self._repeated.plan.results
        is_stacked = any(scan is not None for scan in outputs[self._carried :])
        return nested_loop(
            self._repeated,
            [fixed(address) for address in (0, _HOLDS.ctypes.data, *carried, *captured)],
            {
                number: row_slot(scan, 0, results[number].nbytes)
                for number, scan in enumerate(outputs[self._carried :], 1 + self._carried)
                if scan is not None
            },
            {2 + k: target for k, target in enumerate(outputs[: self._carried]) if target is not None},
            count=None if self._most is not None else count,
            most=self._most or 0,
            holds=holds,
            expected=self._most if is_stacked else None,
        )

    def __call__(self, operands: Sequence[Array], targets: Sequence[Array]) -> None:
        """Runs the body while the condition holds, as often as the trip count says at most."""
        captured = self._body.captured(operands[self._inputs :])
        trips, condition, *carried = self._by_input(operands[: self._inputs])
        outputs = self._by_output(targets)
        outputs, scans = outputs[: self._carried], outputs[self._carried :]
        scans += [None] * (self._results - 1 - self._carried - len(scans))
        most = None if trips is None else max(int(_scalar(trips)), 0)
        if condition is not None and not _scalar(condition):
            most = 0
        run = self._by_machine_code if self._repeated.is_possible else self._by_trip
        trip = run(_Trips(carried, captured, outputs, scans), most)
        for number, scan in enumerate(scans):
            if scan is not None and scan.shape[0] != trip:
                raise LayoutError(
                    f"output {self._carried + number} of {self.title} has {trip} rows at the end, and the type of its "
                    f"result {scan.shape[0]}"
                )

    def _by_machine_code(self, of: _Trips, most: int | None) -> int:
        """Runs a body that keeps the types of what it carries; how many iterations there were."""
        self._check_shapes(of.carried, of.outputs)
        self._check_rows(self._repeated.plan, 1 + self._carried, of.scans)
        rooms = [len(scan) for scan in of.scans if scan is not None]
        trip, going = self._repeated.run(
            [_NUMBER, _HOLDS, *of.carried, *of.captured],
            {1 + self._carried + k: Rows(scan) for k, scan in enumerate(of.scans) if scan is not None},
            {2 + k: target for k, target in enumerate(of.outputs) if target is not None},
            min(rooms if most is None else [most, *rooms], default=None),
        )
        if going and trip != most:
            for scan in of.scans:
                if scan is not None:
                    self._row(scan, trip)
        return trip

    def _by_trip(self, of: _Trips, most: int | None) -> int:
        """Runs any body, each iteration a call; how many there were."""
        runner, shapes, trip, going = None, list[tuple[int, ...]](), 0, True
        unwritten, carried = [None] * (1 + self._carried), of.carried
        while going and (most is None or trip < most):
            now = [value.shape for value in carried]
            if runner is None or now != shapes:
                shapes, runner = now, self._body.runner(self._formal(now))
                self._check_rows(runner.plan, 1 + self._carried, of.scans)
            rows = [None if scan is None else self._row(scan, trip) for scan in of.scans]
            formal = [np.array(trip, np.int64), np.array(going), *carried]
            found = runner.on_arrays([*formal, *of.captured], [*unwritten, *rows], lends=True)
            going, carried = bool(_scalar(found[0])), found[1 : 1 + self._carried]
            trip += 1
        self._hand_over(carried, of.outputs)
        return trip

    def _formal(self, shapes: Sequence[tuple[int, ...]]) -> list[Type]:
        carried = zip(self._dtypes, shapes, strict=True)
        return [("i64", ()), ("i1", ()), *carried]


class _Scan(_Node):
    def __init__(self, op: nn.OpaqueOp, compile_model: CompileModel) -> None:
        super().__init__(op, compile_model)
        [self._body] = self._subgraphs
        scanned = int(op.node_attribute("num_scan_inputs"))
        self._states = self._inputs - scanned
        if not all(self._given) or self._states < 0:
            raise LayoutError("a Scan lacks inputs")
        states, scans = self._types[: self._states], self._types[self._states :]
        self._axes = _per_scan(op, "scan_input_axes", scanned)
        self._backwards = _directions(op, "scan_input_directions", scanned)
        for (_, shape), axis in zip(scans, self._axes, strict=True):
            if not -len(shape) <= axis < len(shape):
                raise LayoutError(f"a Scan goes over axis {axis} of a tensor with {len(shape)} dims")
        counts = {shape[axis] for (_, shape), axis in zip(scans, self._axes, strict=True)}
        if len(counts) != 1:
            raise LayoutError(f"the inputs that a Scan goes over have {sorted(counts)} rows")
        [self._trips] = counts
        rows = [
            (dtype, _without(shape, axis)) for (dtype, shape), axis in zip(scans, self._axes, strict=True)
        ]
        self._runner = self._body.runner([*states, *rows])
        results = self._runner.plan.results
        self._results = len(results)
        self._repeated = RepeatedPlan(self._runner, {k: k for k in range(self._states)})
        for number, (place, (dtype, shape)) in enumerate(zip(results, states, strict=False)):
            if (place.dtype, place.layout.shape) != (dtype, shape):
                raise LayoutError(f"state {number} of a Scan changes its type")
        made = self._results - self._states
        self._out_axes = _per_scan(op, "scan_output_axes", made)
        self._out_backwards = _directions(op, "scan_output_directions", made)

    @property
    def is_native(self) -> bool:
        """Whether machine code runs all iterations, of which there are not too many, over rows that lie behind each
        other, and the results have the types of the node."""
        wanted = [*self._types[: self._states]]
        wanted += [
            (place.dtype, (self._trips, *place.layout.shape))
            for place in self._runner.plan.results[self._states :]
        ]
        return (
            self._repeated.is_possible
            and self._trips <= _MOST_NESTED
            and not any((*self._axes, *self._out_axes))
            and all(
                made is None or made == type for made, type in zip(self._result_types, wanted, strict=False)
            )
        )

    def nested(self, operands: Sequence[Address], targets: Sequence[Address]) -> NestedFlow:
        """A record that runs all iterations."""
        plan, states, trips = self._runner.plan, self._states, self._trips
        captured = self._body.captured(operands[self._inputs :])
        outputs = self._by_output(targets)
        scanned = zip(operands[states : self._inputs], plan.inputs[states:], self._backwards, strict=False)
        stacked = zip(outputs[states:], plan.results[states:], self._out_backwards, strict=False)
        return nested_loop(
            self._repeated,
            [
                *map(fixed, operands[:states]),
                *(row_slot(rows, trips, place.nbytes, backwards=way) for rows, place, way in scanned),
                *map(fixed, captured),
            ],
            {
                number: row_slot(rows, trips, place.nbytes, backwards=way)
                for number, (rows, place, way) in enumerate(stacked, states)
                if rows is not None
            },
            {k: target for k, target in enumerate(outputs[:states]) if target is not None},
            most=trips,
        )

    def __call__(self, operands: Sequence[Array], targets: Sequence[Array]) -> None:
        """Runs the body on each row."""
        captured, states = self._body.captured(operands[self._inputs :]), list(operands[: self._states])
        given = operands[self._states : self._inputs]
        scanned = [
            np.ascontiguousarray(np.moveaxis(array, axis, 0))
            for array, axis in zip(given, self._axes, strict=True)
        ]
        outputs = self._by_output(targets)
        scans = [*outputs[self._states :], *[None] * (self._results - len(outputs))]
        stacked = [
            None if scan is None else _with_rows_first(scan, axis)
            for scan, axis in zip(scans, self._out_axes, strict=True)
        ]
        for scan in stacked:
            if scan is not None and len(scan) != self._trips:
                raise LayoutError(
                    f"a Scan runs {self._trips} times, and the type of its result has {len(scan)} rows"
                )
        self._check_rows(self._runner.plan, self._states, stacked)
        given = [Rows(array, way) for array, way in zip(scanned, self._backwards, strict=True)]
        made = [
            None if scan is None else Rows(scan, way)
            for scan, way in zip(stacked, self._out_backwards, strict=True)
        ]
        run = self._by_machine_code if self._repeated.is_possible else self._by_trip
        run(_Trips(states, captured, outputs[: self._states], []), given, made)
        for scan, rows, axis in zip(scans, stacked, self._out_axes, strict=True):
            if scan is not None and rows is not None and rows is not scan:
                scan[...] = np.moveaxis(rows, 0, axis)

    def _by_machine_code(self, of: _Trips, given: Sequence[Rows], made: Sequence[Rows | None]) -> None:
        """Runs a body whose steps are machine code."""
        self._check_shapes(of.carried, of.outputs)
        self._repeated.run(
            [*of.carried, *given, *of.captured],
            {self._states + k: rows for k, rows in enumerate(made) if rows is not None},
            {k: target for k, target in enumerate(of.outputs) if target is not None},
            self._trips,
        )

    def _by_trip(self, of: _Trips, given: Sequence[Rows], made: Sequence[Rows | None]) -> None:
        """Runs any body, each iteration a call."""
        states = of.carried
        for trip in range(self._trips):
            formal = [rows.of(trip) for rows in given]
            results = [None if rows is None else rows.of(trip) for rows in made]
            found = self._runner.on_arrays(
                [*states, *formal, *of.captured], [*[None] * self._states, *results], lends=True
            )
            states = found[: self._states]
        self._hand_over(states, of.outputs)


_KINDS: dict[str, Callable[[nn.OpaqueOp, CompileModel], ControlFlow]] = {
    "If": _If,
    "Loop": _Loop,
    "Scan": _Scan,
}


# Types ----------------------------------------------------------------------------------------------------------------


def _per_scan(op: nn.OpaqueOp, name: str, count: int) -> tuple[int, ...]:
    """A list with an entry per scan input or output, all 0 where it is left out."""
    found = op.node_attribute(name) or (0,) * count
    if len(found) != count:
        raise LayoutError(f"{name} = {list(found)} of a Scan has {len(found)} entries, expected {count}")
    return tuple(map(int, found))


def _directions(op: nn.OpaqueOp, name: str, count: int) -> tuple[bool, ...]:
    """Whether rows go from the last on, per scan input or output. Raises LayoutError for what is neither 0 nor 1."""
    found = _per_scan(op, name, count)
    if not {0, 1}.issuperset(found):
        raise LayoutError(f"{name} = {list(found)} of a Scan, expected 0 for forwards or 1 for backwards")
    return tuple(map(bool, found))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


# Arrays ---------------------------------------------------------------------------------------------------------------


def _scalar(array: Array) -> Any:
    """The only element. Raises LayoutError where there are others."""
    if array.size != 1:
        raise LayoutError(f"a condition or trip count has {array.size} elements, expected one")
    return array.reshape(-1)[0]


def _with_rows_first(scan: Array, axis: int) -> Array:
    """What has a row in front per index of an axis: the array itself, or memory for rows that are moved there later."""
    if axis % scan.ndim == 0:
        return scan
    return np.empty(np.moveaxis(scan, axis, 0).shape, scan.dtype)
