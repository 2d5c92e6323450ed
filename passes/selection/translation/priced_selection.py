"""A selection problem under measured costs: which price each of its numbers is, so that prices can change under it.

The problem is stated once. What it asks of a cost model is remembered as questions, by key; `problem_at` states the
same problem with other answers, and `questions_of` says which answers a choice rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.diagnostics import name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.measured_costs import End, MeasuredCosts, Origin
from layout_ir.passes.selection.costs.moved_share import moved_share
from layout_ir.passes.selection.costs.price_keys import PriceKey, op_key, reorder_key
from layout_ir.passes.selection.costs.price_table import Price
from layout_ir.passes.selection.options.tensor_formats import shape_of
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    OpNode,
    Problem,
    ValueNode,
    demands,
    tree_edges,
)


@dataclass(frozen=True, eq=False, slots=True)
class OpQuestion:
    """What does `op` take, run as `option`?"""

    op: Operation
    option: LayoutOption


@dataclass(frozen=True, eq=False, slots=True)
class ReorderQuestion:
    """What does a reorder of a tensor take? From a layout to itself, it writes the pads."""

    source: Layout
    destination: Layout
    dtype: str


Question = OpQuestion | ReorderQuestion
Questions = dict[PriceKey, Question]


@dataclass(frozen=True, slots=True)
class _Priced:
    """A number of the problem: its key, the built-in cost that holds where nothing is known of it, and the share of the
    price that is paid."""

    key: PriceKey
    otherwise: int
    share: Fraction = Fraction(1)


class PricedSelection:
    """`selection`, whose problem was stated under `costs`, with the question behind each of its numbers."""

    def __init__(self, selection: Selection, costs: MeasuredCosts):
        self.selection = selection
        self.costs = costs
        self.questions: Questions = {}
        """All questions of the problem, those about ops in front."""
        self._otherwise: dict[PriceKey, int] = {}
        self._options: list[list[_Priced | None]] = []
        self._arcs: list[dict[tuple[int, int], _Priced]] = []
        self._by_matrix: dict[object, dict[tuple[int, int], _Priced]] = {}
        for number in range(len(selection.problem.ops)):
            self._options.append(list(self._options_of(number)))
        for number in range(len(selection.problem.values)):
            self._arcs.append(self._arcs_of(number))

    def _options_of(self, number: int) -> Iterator[_Priced | None]:
        node, decision = self.selection.problem.ops[number], self.selection.decisions[number]
        op = decision.point.op
        shapes = [shape_of(self.selection.values[v]) for v in (*node.operands, *node.results)]
        for option in decision.options:
            key = None if decision.point.is_equality else op_key(op, option)
            share = moved_share(op, option)
            if key is None or not share:
                yield None
                continue
            self.questions.setdefault(key, OpQuestion(op, option))
            yield self._priced(key, self.costs.base.op(name_of_op(op), option, shapes), share)

    def _arcs_of(self, number: int) -> dict[tuple[int, int], _Priced]:
        value, node = self.selection.values[number], self.selection.problem.values[number]
        if isinstance(value.owner, nn.ConstantOp):
            return {}
        formats, dtype, shape = self.selection.formats[number], dtype_of(value.type), shape_of(value)
        known = (node.reorder, tuple((fmt, fmt.names) for fmt in formats), shape, dtype)
        if known not in self._by_matrix:
            layouts = [fmt.bind(shape) for fmt in formats]
            bare = [fmt.with_pad("undef") for fmt in formats]
            self._by_matrix[known] = dict(self._arcs_between(node, bare, layouts, dtype))
        return self._by_matrix[known]

    def _arcs_between(
        self, node: ValueNode, bare: Sequence[Format], layouts: Sequence[Layout], dtype: str
    ) -> Iterator[tuple[tuple[int, int], _Priced]]:
        for f, source in enumerate(layouts):
            for g, destination in enumerate(layouts):
                if not 0 < node.reorder[f][g] < FORBIDDEN:
                    continue
                fills = bare[f] == bare[g]  # one format, in two states of its pads
                key = reorder_key(destination if fills else source, destination, dtype)
                if key is None:
                    continue
                self.questions.setdefault(key, ReorderQuestion(source, destination, dtype))
                base = self.costs.base
                cost = base.fill(destination, dtype) if fills else base.reorder(source, destination, dtype)
                yield (f, g), self._priced(key, cost)

    def _priced(self, key: PriceKey, otherwise: int, share: Fraction = Fraction(1)) -> _Priced:
        self._otherwise.setdefault(key, otherwise)
        return _Priced(key, otherwise, share)

    def price(self, key: PriceKey) -> Price:
        """The price of a question with its interval, wherever it comes from."""
        return self.costs.price(key, self._otherwise[key])[0]

    def cost(self, priced: _Priced, end: End) -> int:
        """The number at an end of its interval."""
        return int(priced.share * self.costs.at_end(priced.key, priced.otherwise, end))

    def problem_at(self, end: End, chosen: Sequence[int] | None = None) -> Problem:
        """The problem with its prices at one end of their intervals; those that the choice `chosen` rests on, each
        where it rests on it, at their high end."""
        problem = self.selection.problem
        ops = [self._op_at(number, node, end) for number, node in enumerate(problem.ops)]
        values = [self._value_at(number, node, end, ()) for number, node in enumerate(problem.values)]
        if chosen is not None:
            for number, choice in enumerate(chosen):
                dear = self._op_at(number, problem.ops[number], End.HIGH).choices[choice]
                choices = ops[number].choices
                ops[number] = replace(ops[number], choices=(*choices[:choice], dear, *choices[choice + 1 :]))
            for number, edges in self._edges(chosen):
                values[number] = self._value_at(number, problem.values[number], end, edges)
        return Problem(tuple(ops), tuple(values))

    def _op_at(self, number: int, node: OpNode, end: End) -> OpNode:
        return replace(
            node,
            choices=tuple(
                choice if priced is None else replace(choice, cost=self.cost(priced, end))
                for choice, priced in zip(node.choices, self._options[number], strict=True)
            ),
        )

    def _value_at(self, number: int, node: ValueNode, end: End, dear: Sequence[tuple[int, int]]) -> ValueNode:
        arcs = self._arcs[number]
        if not arcs:
            return node
        rows = [list(row) for row in node.reorder]
        for (f, g), priced in arcs.items():
            rows[f][g] = self.cost(priced, End.HIGH if (f, g) in dear else end)
        return replace(node, reorder=tuple(map(tuple, rows)))

    def _edges(
        self, choices: Sequence[int], end: End = End.MIDDLE
    ) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Per value that is reordered, the arcs of the reorders that cost least at that end."""
        problem = self.problem_at(end)
        for number, (made, needed) in enumerate(demands(problem, choices)):
            edges = tree_edges(problem.values[number].reorder, made, needed)
            if edges:
                yield number, edges

    def questions_of(self, choices: Sequence[int], end: End = End.MIDDLE) -> Questions:
        """The questions on whose answers the cost of a choice rests, at one end of the intervals."""
        found: Questions = {}
        for own, choice in zip(self._options, choices, strict=True):
            priced = own[choice]
            if priced is not None:
                found[priced.key] = self.questions[priced.key]
        for number, edges in self._edges(choices, end):
            for edge in edges:
                priced = self._arcs[number].get(edge)
                if priced is not None:
                    found[priced.key] = self.questions[priced.key]
        return found

    def origins(self) -> Counter[Origin]:
        """How many prices of the problem come from where."""
        return Counter(self.costs.price(key, 0)[1] for key in self.questions)
