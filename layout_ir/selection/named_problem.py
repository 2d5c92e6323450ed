"""A selection problem as a compiler states it: ops and values under any names, formats that are any hashable objects.

An op has options. An option says in which format the op takes each operand, in which it makes each result, and what it
costs. Where a value is made in another format than an op takes, it is reordered, at a cost that is asked for when the
problem is solved: of the formats that could meet, and of each pair once, however often the problem is solved. Inputs
are ops without operands, outputs ops without results.

    problem = NamedProblem(lambda value, source, target: 5)
    problem.add_op("input", (), ("x",), [Option((), ("nchw",))])
    problem.add_op("conv", ("x",), ("y",), [Option((f,), (f,), cost) for f, cost in (("nchw", 20), ("nhwc", 8))])
    problem.add_op("output", ("y",), (), [Option(("nchw",), ())])
    problem.solve().options["conv"]     # nhwc: 8 + 2 * 5 is less than 20

The solver counts in integers (`solver/selection_problem.py`); here names become numbers and back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from operator import getitem, index
from typing import Any, NamedTuple

from layout_ir.argument_checks import check_flags, check_seconds
from layout_ir.errors import LayoutError, public
from layout_ir.selection.bit_sets import bits_of, only_member
from layout_ir.selection.conflict import conflict_text, conflicting_uses
from layout_ir.selection.named_solution import NamedSolution
from layout_ir.selection.numbering import NamedOp, Numbering, Option
from layout_ir.selection.shared_sets import SharedSets
from layout_ir.selection.solver.certificate import certify, checked_extra
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Infeasible,
    Matrix,
    OpNode,
    Problem,
    Solution,
    ValueNode,
    demands,
    keep_forbidden,
    tree_edges,
    without_reorders,
)
from layout_ir.selection.solver.solve import check_solver, solve

ReorderCost = Callable[[Any, Any, Any], float | None]
"""Of a value, the format it is in and the one it is to be in: the cost, or None or inf where that is not possible."""


_KnownOptions = tuple[tuple[Option, ...], int, int, tuple[Option, ...], tuple[int, ...], int]
"""Options as they were given to ops with so many operands and results, those that count, their costs, and the largest
weight with which they may run."""

UNHASHABLE = "is not hashable: use a value that is, such as a tuple"


class NamedProblem:
    """A problem that grows op by op.

    `reorder_cost(value, source, target)` gives what a reorder costs, None or inf where none is possible. Costs are
    whole numbers; with a `resolution` they may be any, and are rounded to multiples of it. Every method raises
    LayoutError for what does not fit together, naming the op.
    """

    @public
    def __init__(self, reorder_cost: ReorderCost, *, resolution: float | None = None):
        if not callable(reorder_cost):
            raise LayoutError(
                f"reorder_cost is {reorder_cost!r}, and no function of value, source and target"
            )
        if resolution is not None and not (resolution > 0 and isfinite(resolution)):
            raise LayoutError(f"resolution = {resolution} is no number above 0")
        self._reorder_cost = reorder_cost
        self._resolution = resolution
        self._ops: dict[Hashable, NamedOp] = {}
        self._known_options: dict[int, _KnownOptions] = {}
        """By identity of a tuple of options, what is known of it."""
        self._known_formats: dict[int, tuple[Hashable, ...]] = {}
        """By identity, the tuples of formats that were given for values."""
        self._makers: dict[Hashable, Hashable] = {}
        self._stated: dict[Hashable, tuple[tuple[Hashable, ...], int, ReorderCost]] = {}
        self._alike: dict[Hashable, Hashable] = {}
        """By value that was said to be alike others, what these have in common."""
        self._asked: dict[tuple[bool, Hashable], dict[Hashable, dict[Hashable, int]]] = {}
        """Per value, or group of values that are alike (True), and per source and target of it, the cost of the
        reorder, in units of the resolution."""

    @property
    def asked(self) -> int:
        """How many costs of reorders were asked for so far, those of values that are alike once."""
        return sum(len(targets) for sources in self._asked.values() for targets in sources.values())

    @public
    def add_op(
        self,
        name: Hashable,
        operands: Iterable[Hashable],
        results: Iterable[Hashable],
        options: Iterable[Option],
        *,
        weight: int = 1,
    ) -> None:
        """Adds an op that uses and makes these values and runs in one of `options`, `weight` times.

        Raises LayoutError where an option is not of its operands and results, where all cost None or inf, and where
        a name is taken.
        """
        operands, results = tuple(operands), tuple(results)
        if name in self._ops:
            raise LayoutError(f"there are two ops {name!r}: each needs a name of its own")
        for k, value in enumerate(results):
            if value in self._makers or value in results[:k]:
                first = self._makers.get(value, name)
                raise LayoutError(f"value {value!r} is made by op {first!r} and by op {name!r}")
        if not _is_weight(weight):
            raise _no_weight(weight, f"op {name!r}")
        given = tuple(options)
        # Ops that share a tuple of options have had it looked at.
        known = self._known_options.get(id(given))
        if known is None or known[1:3] != (len(operands), len(results)) or weight > known[5]:
            known = self._known_options[id(given)] = self._checked_options(
                name, operands, results, given, weight
            )
        self._ops[name] = NamedOp(name, operands, results, known[3], known[4], weight)
        self._makers.update(dict.fromkeys(results, name))

    def _checked_options(
        self,
        name: Hashable,
        operands: tuple[Hashable, ...],
        results: tuple[Hashable, ...],
        given: tuple[Option, ...],
        weight: int,
    ) -> _KnownOptions:
        """The options of an op that are possible and of least cost, each with its cost in units of the resolution."""
        best: dict[object, tuple[int, Option]] = {}
        for number, option in enumerate(given):
            # Texts are made where they are needed: options are many.
            where = partial("option {} of op {!r}".format, number, name)
            wrong = _misfit(option, operands, results, given[0])
            if wrong is not None:
                raise LayoutError(f"{where()} {wrong}")
            cost = self._units(option.cost, where)
            key = tuple(option.ins), tuple(option.outs)
            if cost < (best[key][0] if key in best else FORBIDDEN):
                if weight * cost >= FORBIDDEN:
                    raise LayoutError(
                        f"{where()} costs {weight} times {option.cost}, and costs are added up to 2^56"
                    )
                best[key] = cost, option
        if not best:
            why = "all of its options cost None or inf" if given else "it has none"
            raise LayoutError(f"op {name!r} needs an option to run in: {why}")
        costs, kept = zip(*best.values(), strict=True)
        return given, len(operands), len(results), kept, costs, weight

    @public
    def add_value(
        self,
        name: Hashable,
        *,
        formats: Iterable[Hashable] = (),
        weight: int = 1,
        reorder_cost: ReorderCost | None = None,
        alike: Hashable = None,
    ) -> None:
        """Says more of a value than the ops do: `formats` besides theirs that its reorders may pass, how often its
        reorders run, and what they cost, where that is not what the problem says. Once for each value.

        Values with the same `alike` cost the same to reorder: what was asked of one of them is not asked of another."""
        if name in self._stated:
            raise LayoutError(f"value {name!r} was added before")
        if (reorder_cost is not None or alike is not None) and any(
            self._asked.get((False, name), {}).values()
        ):
            raise LayoutError(
                f"reorders of value {name!r} have costs already: say what they cost before solving"
            )
        given = tuple(formats)
        # Values that share a tuple of formats have had it looked at.
        if self._known_formats.get(id(given)) is not given:
            for fmt in given:
                if not _is_hashable(fmt):
                    raise LayoutError(f"format {fmt!r} of value {name!r} {UNHASHABLE}")
            self._known_formats[id(given)] = given
        if not _is_hashable(alike):
            raise LayoutError(f"alike = {alike!r} of value {name!r} {UNHASHABLE}")
        if not _is_weight(weight):
            raise _no_weight(weight, f"value {name!r}")
        if reorder_cost is not None and not callable(reorder_cost):
            raise LayoutError(
                f"reorder_cost of value {name!r} is {reorder_cost!r}, and no function of value, source and target"
            )
        self._stated[name] = given, weight, reorder_cost or self._reorder_cost
        if alike is not None:
            self._alike[name] = alike

    def solve(
        self,
        solver: str = "exact",
        *,
        time_limit: float | None = None,
        certificate: bool = False,
        lazy: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> NamedSolution:
        """The choice of least cost, in `time_limit` seconds; or that of the solver `greedy` or `naive`, unproven.

        With `certificate` the solution has its proof; `extra` has entries for that besides (`certify` says which). Its
        entry `origin` has all names, in the order of their numbers.

        With `lazy` a cost of a reorder is asked for only once a cheapest choice would have that reorder if it cost
        nothing: fewer questions, and the problem is solved again after each round of them. The proof then counts what
        was not asked for as 0, which is a lower bound of it.

        Raises Infeasible where no choice is possible, naming the ops that do not agree, and LayoutError for an unknown
        solver, one that proves nothing where a proof is wanted, and `extra` entries that a certificate has itself.
        """
        check_solver(solver)
        check_flags(certificate=certificate, lazy=lazy)
        if solver != "exact" and (certificate or lazy):
            raise LayoutError(f"solver {solver!r} proves nothing: a certificate and lazy need 'exact'")
        if time_limit is not None:
            check_seconds("time_limit", time_limit)
        numbering = self._numbering()
        more = checked_extra(extra)
        proven = {**more, "origin": {**numbering.names(), **more.get("origin", {})}} if certificate else None

        def solve_without(value: int, limit: float | None) -> Solution:
            return self._solved(numbering, "exact", limit, lazy=lazy, without=value)[1]

        try:
            problem, solution, proof = self._solved(numbering, solver, time_limit, proven, lazy)
        except Infeasible as error:
            if solver != "exact":
                raise
            raise self._no_choice(numbering, self._problem(numbering, lazy)) from error
        return NamedSolution(numbering, problem, solution, proof, solve_without)

    def _solved(
        self,
        numbering: Numbering,
        solver: str,
        time_limit: float | None,
        proven: dict[str, Any] | None = None,
        lazy: bool = False,
        without: int | None = None,
    ) -> tuple[Problem, Solution, dict[str, Any] | None]:
        """The problem in numbers, its solution, and its proof with the entries `proven`, unless these are None; value
        `without` is not reordered."""
        deadline = None if time_limit is None else time.monotonic() + time_limit
        while True:
            problem = self._problem(numbering, lazy)
            if without is not None:
                problem = without_reorders(problem, without, lambda f, g: False)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            proof: dict[str, Any] | None = None
            if proven is not None:
                solution, proof = certify(problem, left, extra=proven)
            else:
                solution = solve(problem, solver, left)
            if solution.cost >= FORBIDDEN:
                raise Infeasible(
                    f"solver {solver!r} came to ops that do not fit together: 'exact' looks further"
                )
            if not (lazy and self._ask_for_reorders_of(numbering, problem, solution)):
                return problem, solution, proof

    def numbers(self) -> Problem:
        """The problem that `solve` solves, and a certificate states: all that can matter asked for, names left out.

        Raises LayoutError as `solve` does.
        """
        return self._problem(self._numbering(), lazy=False)

    # Numbers ----------------------------------------------------------------------------------------------------------

    def _numbering(self) -> Numbering:
        ops = tuple(self._ops.values())
        sets: SharedSets[Hashable] = SharedSets()
        formats = dict.fromkeys(self._makers, sets.none)
        columns: dict[int, _Columns] = {}
        for op in ops:
            for value in op.operands:
                if value not in formats:
                    raise LayoutError(
                        f"op {op.name!r} uses value {value!r}, which no op makes: an input is an op without operands"
                    )
            own = columns.get(id(op.options))
            if own is None:
                own = columns[id(op.options)] = _columns(op, sets)
            for k, asked in own[0]:
                value = op.operands[k]
                formats[value] = sets.union(formats[value], asked)
            for value, made in zip(op.results, own[1], strict=True):
                formats[value] = sets.union(formats[value], made)
        for value, (more, _, _) in self._stated.items():
            if value not in formats:
                raise LayoutError(f"value {value!r} was added, and no op makes it")
            formats[value] = sets.union(formats[value], sets.of(more))
        listed = {id(given): tuple(given) for given in formats.values()}
        own = tuple([listed[id(given)] for given in formats.values()])
        weights = tuple([self._stated[value][1] if value in self._stated else 1 for value in formats])
        return Numbering(
            ops, tuple(formats), weights, own, 1 if self._resolution is None else self._resolution
        )

    def _problem(self, numbering: Numbering, lazy: bool) -> Problem:
        place = {value: v for v, value in enumerate(numbering.values)}
        # Values in the same formats, and ops with the same options on such values, have one numbering.
        kinds = {id(own): own for own in numbering.formats}
        number_of = {kind: {fmt: f for f, fmt in enumerate(own)} for kind, own in kinds.items()}
        kind_of = list(map(id, numbering.formats))
        made = [0] * len(kind_of)
        """Per value, the bits of the formats in which it is made."""
        taken = [0] * len(kind_of)
        ops: list[OpNode] = []
        numbered: dict[tuple[int, ...], _Numbered] = {}
        # Of ops of different options, many have the same choices in numbers: one object stands for all of these.
        equal: dict[tuple[_Row, ...], _Numbered] = {}
        taken_by: dict[int, tuple[int, ...]] = {}
        for op in numbering.ops:
            used = taken_by.get(id(op.options))
            if used is None:
                used = taken_by[id(op.options)] = op.taken
            operands = tuple([place[op.operands[k]] for k in used])
            results = tuple([place[value] for value in op.results])
            key = (id(op.options), *[kind_of[v] for v in (*operands, *results)])
            own = numbered.get(key)
            if own is None:
                sides = [number_of[kind_of[v]] for v in operands], [number_of[kind_of[v]] for v in results]
                rows = _numbered(op, used, *sides)
                own = equal.get(rows)
                if own is None:
                    own = equal[rows] = _choices(rows)
                numbered[key] = own
            for v, formats in zip(operands, own.taken, strict=True):
                taken[v] |= formats
            for v, formats in zip(results, own.made, strict=True):
                made[v] |= formats
            ops.append(OpNode(operands, results, own.choices, op.weight))
        # Values that are alike, and lie in the same formats, have one matrix.
        known: dict[tuple[Hashable, ...], ValueNode] = {}
        values: list[ValueNode] = []
        for value, v in place.items():
            kind = self._kind(value), kind_of[v], made[v], taken[v]
            node = known.get(kind)
            if node is None:
                matrix = self._reorder_costs(value, numbering.formats[v], made[v], taken[v], lazy)
                node = known[kind] = ValueNode(matrix, numbering.weights[v])
            elif node.weight != numbering.weights[v]:
                node = ValueNode(node.reorder, numbering.weights[v])
            values.append(node)
        return keep_forbidden(Problem(tuple(ops), tuple(values)))

    def _reorder_costs(
        self, value: Hashable, formats: Sequence[Hashable], made: int, taken: int, lazy: bool
    ) -> Matrix:
        """What reorders of a value cost, which is made and taken in the formats of these bits.

        Those that lead nowhere are not asked for and count as nothing: to the only format that the value is made in,
        and from the only one that it is taken in.
        """
        known = self._asked.setdefault(self._kind(value), {})
        only_made, only_taken = only_member(made), only_member(taken)
        rows: list[tuple[int, ...]] = []
        for f, source in enumerate(formats):
            if only_taken == f:
                rows.append((0,) * len(formats))
                continue
            row: list[int] = []
            of_source = known.setdefault(source, {})
            for g, target in enumerate(formats):
                if f == g or only_made == g:
                    row.append(0)
                    continue
                cost = of_source.get(target)
                if cost is None:
                    if lazy:
                        cost = 0
                    else:
                        cost = of_source[target] = self._answer(value, source, target)
                row.append(cost)
            rows.append(tuple(row))
        return tuple(rows)

    def _kind(self, value: Hashable) -> tuple[bool, Hashable]:
        """What the costs of reorders of a value are kept under: what it has in common with others, or itself."""
        alike = self._alike.get(value)
        return (False, value) if alike is None else (True, alike)

    def _cost(self, value: Hashable, source: Hashable, target: Hashable) -> int:
        of_source = self._asked.setdefault(self._kind(value), {}).setdefault(source, {})
        known = of_source.get(target)
        if known is None:
            known = of_source[target] = self._answer(value, source, target)
        return known

    def _answer(self, value: Hashable, source: Hashable, target: Hashable) -> int:
        """What a reorder is said to cost, in units of the resolution."""
        ask = self._stated[value][2] if value in self._stated else self._reorder_cost
        cost = ask(value, source, target)
        if type(cost) is int and 0 <= cost < FORBIDDEN and self._resolution is None:
            return cost
        where = partial("the reorder of value {!r} from {!r} to {!r}".format, value, source, target)
        return self._units(cost, where)

    def _ask_for_reorders_of(self, numbering: Numbering, problem: Problem, solution: Solution) -> bool:
        """Asks what the reorders of a solution cost; whether some were not known."""
        before = self.asked
        for v, (made, taken) in enumerate(demands(problem, solution.choices)):
            for f, g in tree_edges(problem.values[v].reorder, made, taken):
                self._cost(numbering.values[v], numbering.formats[v][f], numbering.formats[v][g])
        return self.asked > before

    def _units(self, cost: Any, where: Callable[[], str]) -> int:
        """A cost in units of the resolution; FORBIDDEN for None and inf. Raises LayoutError for what is no cost."""
        if type(cost) is int and 0 <= cost < FORBIDDEN and self._resolution is None:
            return cost
        if cost is None:
            return FORBIDDEN
        try:
            exact = cost if self._resolution is None else cost / self._resolution
            is_number = exact == exact and exact >= 0
            if is_number and not isfinite(exact):
                return FORBIDDEN
            units = index(round(exact)) if is_number else 0
        except (TypeError, ValueError, ArithmeticError) as error:
            raise LayoutError(f"{where()} costs {cost!r}, which is no number: {error}") from error
        if not is_number:
            raise LayoutError(f"{where()} costs {cost!r}: costs are numbers from 0 on")
        if self._resolution is None and units != cost:
            raise LayoutError(
                f"{where()} costs {cost!r}, which is no whole number: give the problem a resolution to round to"
            )
        if units >= FORBIDDEN:
            raise LayoutError(
                f"{where()} costs {cost!r}, and costs are added up to 2^56: count in a larger unit"
            )
        return units

    # Errors -----------------------------------------------------------------------------------------------------------

    def _no_choice(self, numbering: Numbering, problem: Problem) -> Infeasible:
        return Infeasible(
            conflict_text(
                problem,
                conflicting_uses(problem),
                op=lambda o: f"op {numbering.ops[o].name!r}",
                value=lambda v: f"value {numbering.values[v]!r}",
                fmt=lambda v, f: repr(numbering.formats[v][f]),
            )
        )


class _Numbered(NamedTuple):
    """The choices of an op, and the bits of the formats in which it takes operands and makes results."""

    choices: tuple[Choice, ...]
    taken: list[int]
    made: list[int]


_Row = tuple[tuple[int, ...], tuple[int, ...], int]
"""A choice: the numbers of the formats of operands and of results, and the cost."""


def _numbered(
    op: NamedOp,
    used: Sequence[int],
    used_numbers: Sequence[Mapping[Hashable, int]],
    made_numbers: Sequence[Mapping[Hashable, int]],
) -> tuple[_Row, ...]:
    """The options of an op in numbers, given those of the formats of its operands that are `used`, and of results."""
    is_whole = len(used) == len(op.operands)
    rows: list[_Row] = []
    for option, cost in zip(op.options, op.costs, strict=True):
        wanted = option.ins if is_whole else [option.ins[k] for k in used]
        ins = tuple(map(getitem, used_numbers, wanted))
        rows.append((ins, tuple(map(getitem, made_numbers, option.outs)), cost))
    return tuple(rows)


def _choices(rows: tuple[_Row, ...]) -> _Numbered:
    """The choices of all ops whose options are these in numbers."""
    return _Numbered(
        tuple([Choice(*row) for row in rows]),
        [bits_of(column) for column in zip(*[ins for ins, _, _ in rows], strict=True)],
        [bits_of(column) for column in zip(*[outs for _, outs, _ in rows], strict=True)],
    )


_Columns = tuple[list[tuple[int, Mapping[Hashable, None]]], list[Mapping[Hashable, None]]]


def _columns(op: NamedOp, sets: SharedSets[Hashable]) -> _Columns:
    """The formats in which an op takes operands, by their numbers, and makes results."""
    return (
        [(k, sets.of(tuple([option.ins[k] for option in op.options]))) for k in op.taken],
        [sets.of(tuple([option.outs[k] for option in op.options])) for k in range(len(op.results))],
    )


def _is_weight(weight: Any) -> bool:
    return isinstance(weight, int) and weight >= 0


def _no_weight(weight: Any, where: str) -> LayoutError:
    return LayoutError(f"{where} has weight {weight!r}: weights are integers from 0 on")


def _misfit(
    option: Option, operands: Sequence[Hashable], results: Sequence[Hashable], first: Option
) -> str | None:
    """What is wrong with an option that is not of these operands and results, or leaves other operands open than the
    first one does; None where nothing is."""
    for what, given, values in (("operand", option.ins, operands), ("result", option.outs, results)):
        if len(given) != len(values):
            return f"has {len(given)} formats of {what}s, and the op has {len(values)} {what}s"
        for k, fmt in enumerate(given):
            if not _is_hashable(fmt):
                return f"has format {fmt!r} for {what} {k}, which {UNHASHABLE}"
            if fmt is None and what == "result":
                return f"does not say in which format it makes result {k}"
            if what == "operand" and (fmt is None) != (first.ins[k] is None):
                return f"and option 0 differ in whether operand {k} may be in any format: state one option per format"
    return None


def _is_hashable(fmt: object) -> bool:
    try:
        hash(fmt)
    except TypeError:
        return False
    return True
