"""The states of its pads that each format of each value has in the problem.

Few are enough, and most formats have one:

    useful     numbers that some use asks for, or that an op makes into something useful (relu of 0 is 0)
    anything   only where the op that makes the format may leave something else than the one useful number

A convolution leaves zeros and asks for zeros, so a chain of convolutions and relus has one state everywhere.
Three sweeps over the program find them: forward what ops make, backward what of it is of use, forward what else may
turn up. Pads may also be given in front of an op what makes them right behind it, for a reorder writes them anyway and
a fill may serve several ops: tried there are 0, 1, and what is asked for somewhere, with either sign. Of these, numbers
are left out for which 0 does as well in the whole program: where ops make of zeros in their place the same, or zeros
where they made such a number, every choice with them is one without, which costs no more (`_worth_trying`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from time import monotonic

from xdsl.ir import Operation

from layout_ir.algebra.layout import Layout
from layout_ir.passes.selection.pads.behaviour import OptionTensors, PadRule, PadValue, PadValues, rule_of
from layout_ir.passes.selection.problem.selection import Omission, Selection
from layout_ir.selection.solver.selection_problem import Choice, OpNode

NUMBERS = 16
"""Numbers that ops leave in the pads of one format; networks have one. A loop that adds 1 would make them without end.
Further ones are an omission of the problem."""

COMBINATIONS = 1 << 13
"""States of operands tried together; beyond, only those where all operands agree, which is an omission, too. Two
operands of NUMBERS numbers and those that are asked for have some 500, three 9,000."""

ValueFormat = tuple[int, int]
"""A value and a format of it, both by number."""


@dataclass(frozen=True, slots=True)
class PaddedChoice:
    """A choice of an op that touches a padded format: formats of operands and results, and what it does with pads."""

    ins: tuple[ValueFormat, ...]
    outs: tuple[ValueFormat, ...]
    rule: PadRule


class PadStates:
    """The states of pads of each padded format, found on construction."""

    def __init__(
        self,
        selection: Selection,
        layouts: Sequence[tuple[Layout, ...]],
        op_classes: Sequence[int | None],
        deadline: float | None = None,
    ):
        self.selection = selection
        self.deadline = deadline
        """From when on, by the monotonic clock, only equal numbers are tried together; None: never."""
        self.layouts = layouts
        known = {id(own): tuple(layout.is_padded for layout in own) for own in layouts}
        self._padded = [known[id(own)] for own in layouts]
        self.useful: dict[ValueFormat, tuple[float, ...]] = {}
        self.unknown: set[ValueFormat] = set()
        self.choices: dict[tuple[int, int], PaddedChoice] = {}
        """The padded choices by op node and choice, both by number; decisions alike share the rules."""
        self._outcomes: dict[object, list[tuple[PadValues, PadValues]]] = {}
        self._ways: dict[object, list[tuple[PadValues, PadValues]]] = {}
        self._crowded: set[ValueFormat] = set()
        """Formats whose pads may hold more than NUMBERS numbers."""
        self._mattering: set[ValueFormat] = set()
        """Formats whose pads an op asks for, or show in such pads."""
        self._untried: set[int] = set()
        """The rules, by id, of which not all combinations were tried."""
        if not any(map(any, known.values())):
            return
        shared: dict[object, PadRule] = {}
        for number, (node, op_class) in enumerate(zip(selection.problem.ops, op_classes, strict=True)):
            for k, choice in enumerate(node.choices):
                ins, outs = formats_of_choice(node, choice)
                if not any(map(self.is_padded, ins + outs)):
                    continue
                tensors = tuple([layouts[v][f] for v, f in ins + outs])
                key = op_class, k, tuple(map(id, tensors))
                rule = None if op_class is None else shared.get(key)
                if rule is None:
                    values = tuple(selection.values[v] for v, _ in ins + outs)
                    formats = tuple(selection.formats[v][f] for v, f in ins + outs)
                    rule = rule_of(
                        selection.decisions[number], k, OptionTensors(values, formats, tensors, len(ins))
                    )
                    shared[key] = rule
                self.choices[number, k] = PaddedChoice(ins, outs, rule)
        self._find(list(self.choices.values()))

    def _find(self, choices: Sequence[PaddedChoice]) -> None:
        asked: dict[ValueFormat, set[float]] = {}
        for choice in choices:
            for at, ask in zip(choice.ins, choice.rule.asks, strict=True):
                if ask is not None:
                    asked.setdefault(at, set()).add(ask)
        if not asked:
            return
        useful = self._useful(choices, asked, self._possible(choices, asked))
        self._mattering = self._leading_to(choices, set(asked))
        self.useful = {at: tuple(sorted(numbers)) for at, numbers in useful.items() if numbers}
        self._find_unknown(choices)

    def omissions(self) -> Iterator[Omission]:
        """Where numbers in pads, or combinations of them, were left out."""
        for value in dict.fromkeys(at[0] for at in self._crowded if at in self._mattering):
            owner = self.selection.values[value].owner
            op = owner if isinstance(owner, Operation) else owner.parent_op()
            if op is not None:
                yield Omission(
                    op, f"of the numbers that pads of a value may hold, {NUMBERS} take part in the choice"
                )
        for (number, _), choice in self.choices.items():
            if id(choice.rule) in self._untried:
                what = "of the numbers that pads of its operands may hold together, only equal ones take part"
                yield Omission(self.selection.decisions[number].point.op, f"{what} in the choice")

    def _leading_to(self, choices: Sequence[PaddedChoice], asked: set[ValueFormat]) -> set[ValueFormat]:
        """Where pads are asked for, and whose pads show in such pads."""
        found = set(asked)
        changed = True
        while changed:
            changed = False
            for choice in choices:
                if not found.isdisjoint(choice.outs):
                    new = {at for at, seen in zip(choice.ins, choice.rule.seen, strict=True) if seen} - found
                    found |= new
                    changed |= bool(new)
        return found

    def _possible(
        self, choices: Sequence[PaddedChoice], asked: dict[ValueFormat, set[float]]
    ) -> dict[ValueFormat, tuple[float, ...]]:
        """Per format, the numbers that its pads may hold: what ops leave there, and what is asked of them."""
        found = {at: set(numbers) for at, numbers in asked.items()}

        def add(at: ValueFormat, held: PadValue) -> bool:
            numbers = found.setdefault(at, set())
            if held is None or not self.is_padded(at) or held in numbers:
                return False
            if len(numbers) >= NUMBERS:
                self._crowded.add(at)
                return False
            numbers.add(held)
            return True

        changed = True
        while changed:
            changed = False
            for choice in choices:
                ins, outs, rule = choice.ins, choice.outs, choice.rule
                if rule.agrees:
                    for held in {held for at in ins for held in found.get(at, ())}:
                        for at in outs:
                            changed |= add(at, held)
                    continue
                for _, left in self._outcomes_of(rule, [(*sorted(found.get(at, ())), None) for at in ins]):
                    for at, held in zip(outs, left, strict=True):
                        changed |= add(at, held)
        return {at: tuple(sorted(numbers)) for at, numbers in found.items()}

    def _useful(
        self,
        choices: Sequence[PaddedChoice],
        asked: dict[ValueFormat, set[float]],
        possible: dict[ValueFormat, tuple[float, ...]],
    ) -> dict[ValueFormat, set[float]]:
        """The possible numbers that an op asks for, or makes into one that is of use."""
        useful = {at: set(numbers) for at, numbers in asked.items()}
        tried = self._worth_trying(choices, asked, possible)
        changed = True
        while changed:
            changed = False
            for choice in reversed(choices):
                ins, outs, rule = choice.ins, choice.outs, choice.rule
                wanted = [useful.get(at, set[float]()) for at in outs]
                if not any(wanted):
                    continue
                if rule.agrees:
                    helpful = [(held,) * len(ins) for numbers in wanted for held in numbers]
                    together = set[float]().union(*wanted)
                    changed |= any(numbers != together for numbers in wanted)
                    useful.update((at, set(together)) for at in outs if self.is_padded(at))
                else:
                    known = [tried.union(possible.get(at, ())) if self.is_padded(at) else () for at in ins]
                    made = self._outcomes_of(rule, [(*sorted(numbers), None) for numbers in known])
                    helpful = [
                        states
                        for states, left in made
                        if any(held in numbers for held, numbers in zip(left, wanted, strict=True))
                    ]
                for states in helpful:
                    for at, held in zip(ins, states, strict=True):
                        if held is not None and self.is_padded(at) and held not in useful.get(at, ()):
                            useful.setdefault(at, set()).add(held)
                            changed = True
        return useful

    def _worth_trying(
        self,
        choices: Sequence[PaddedChoice],
        asked: dict[ValueFormat, set[float]],
        possible: dict[ValueFormat, tuple[float, ...]],
    ) -> set[float]:
        """The numbers to give pads that nobody asks for there and no op leaves there.

        Let h take 0 for some of the numbers that are tried, and leave all that are asked for or possible anywhere as
        they are. Where every rule makes of h(x) what h takes for what it makes of x, h takes every choice for one that
        asks for the same and costs no more: moves cost what they did, and equal numbers stay equal. So the numbers for
        which h takes 0 need no states. Numbers with which a rule does otherwise (exp of 0 is 1, and not 0) are kept.
        """
        tried = {0.0, 1.0, -1.0}.union(*asked.values())
        tried |= {-held for held in tried}
        kept = {0.0}.union(*possible.values())
        # A rule is shared by ops whose results may hold different numbers, so all that are known anywhere count.
        known_anywhere = tried | kept
        made: dict[tuple[int, tuple[PadValues, ...]], PadRule] = {}
        for choice in choices:
            if not choice.rule.agrees:
                known = tuple(
                    (*sorted(tried.union(possible.get(at, ()))), None) if self.is_padded(at) else (None,)
                    for at in choice.ins
                )
                made[id(choice.rule), known] = choice.rule
        steps: list[tuple[PadRule, PadValues, PadValues]] = []
        for (_, known), rule in made.items():
            together, whole = self._combinations(rule, known)
            if not whole:
                return tried
            for states in together:
                left = tuple(held if held in known_anywhere else None for held in rule.leaves(states))
                if any(held is not None for held in left):
                    steps.append((rule, states, left))
        changed = True
        while changed:
            changed = False
            for rule, states, left in steps:
                dropped = {held for held in (*states, *left) if held is not None and held not in kept}
                if not dropped:
                    continue
                new = rule.leaves(tuple(0.0 if held in dropped else held for held in states))
                wanted = [0.0 if held in dropped else held for held in left]
                if any(held is not None and held != got for held, got in zip(wanted, new, strict=True)):
                    kept |= dropped
                    changed = True
        return tried & kept

    def _find_unknown(self, choices: Sequence[PaddedChoice]) -> None:
        """Finds the formats whose pads may hold none of their useful numbers."""
        self.unknown = {at for at, numbers in self.useful.items() if len(numbers) > 1}
        changed = True
        while changed:
            changed = False
            for choice in choices:
                outs = [at for at in choice.outs if at in self.useful and at not in self.unknown]
                if outs:
                    made = {
                        at
                        for _, left in self.ways(choice)
                        for at, held in zip(choice.outs, left, strict=True)
                        if held is None
                    }
                    found = outs if choice.rule.agrees and made else made.intersection(outs)
                    self.unknown.update(found)
                    changed |= bool(found)

    def _outcomes_of(self, rule: PadRule, states: Sequence[PadValues]) -> list[tuple[PadValues, PadValues]]:
        """Pairs (pads of the operands, pads of the results) of a rule for these pad values of its operands, without
        those that ask for more than another pair that leaves the same."""
        key = id(rule), tuple(states)
        if key not in self._outcomes:
            together, whole = self._combinations(rule, states)
            if not whole:
                self._untried.add(id(rule))
            made = [(given, rule.leaves(given)) for given in together]
            self._outcomes[key] = _least(made)
        return self._outcomes[key]

    def _combinations(self, rule: PadRule, states: Sequence[PadValues]) -> tuple[list[PadValues], bool]:
        """States of the operands to try together: what is asked for, else all where they show, else anything.

        The second says whether these are all that there are.
        """
        own: list[PadValues] = []
        for ask, seen, known in zip(rule.asks, rule.seen, states, strict=True):
            own.append(
                (ask,) if ask is not None else known if seen else (None if None in known else known[0],)
            )
        count = prod(len(s) for s in own)
        is_late = self.deadline is not None and count > 1 and monotonic() >= self.deadline
        if count <= COMBINATIONS and not is_late:
            return list(product(*own)), True
        equal = dict.fromkeys(held for s in own for held in s)
        return [tuple(held if held in s else s[0] for s in own) for held in equal], False

    def is_padded(self, at: ValueFormat) -> bool:
        """Whether the value has pads in that format."""
        return self._padded[at[0]][at[1]]

    def of(self, at: ValueFormat) -> PadValues:
        """The states of a format, None first: one where nothing about its pads matters."""
        numbers = self.useful.get(at, ())
        return (None, *numbers) if at in self.unknown or not numbers else numbers

    def _serving(self, at: ValueFormat, held: PadValue) -> PadValue:
        """The state in which an operand is used where its pads must hold `held`."""
        states = self.of(at)
        return held if held in states else states[0]

    def _telling(self, at: ValueFormat, held: PadValue) -> PadValue:
        """The state of a result whose pads hold `held`: None where that number is of no use."""
        return held if held in self.useful.get(at, ()) else None

    def ways(self, choice: PaddedChoice) -> Sequence[tuple[PadValues, PadValues]]:
        """The pad values with which a choice can run: pairs (of the operands, of the results)."""
        ins, outs, rule = choice.ins, choice.outs, choice.rule
        if rule.agrees:
            known = {held for at in outs for held in self.useful.get(at, ())}
            loose = (
                not known or any(None in self.of(at) for at in ins) or any(at in self.unknown for at in outs)
            )
            return [
                (tuple(self._serving(at, held) for at in ins), tuple(self._telling(at, held) for at in outs))
                for held in (*([None] if loose else []), *sorted(known))
            ]
        states = tuple([self.of(at) for at in ins])
        key = id(rule), states, tuple([self.useful.get(at, ()) for at in outs])
        if key not in self._ways:
            self._ways[key] = _least(
                [
                    (
                        tuple(self._serving(at, held) for at, held in zip(ins, given, strict=True)),
                        tuple(self._telling(at, held) for at, held in zip(outs, left, strict=True)),
                    )
                    for given, left in self._outcomes_of(rule, states)
                ]
            )
        return self._ways[key]


def formats_of_choice(
    node: OpNode, choice: Choice
) -> tuple[tuple[ValueFormat, ...], tuple[ValueFormat, ...]]:
    """The formats that a choice of a node has for its operands and for its results."""
    return (
        tuple(zip(node.operands, choice.ins, strict=True)),
        tuple(zip(node.results, choice.outs, strict=True)),
    )


def _least(made: Sequence[tuple[PadValues, PadValues]]) -> list[tuple[PadValues, PadValues]]:
    """The pairs without those that ask for more than another pair which leaves the same."""
    distinct = dict.fromkeys(made)
    alike: dict[PadValues, set[PadValues]] = {}
    for states, left in distinct:
        alike.setdefault(left, set()).add(states)
    return [(states, left) for states, left in distinct if not _asks_for_more(states, alike[left])]


def _asks_for_more(states: PadValues, others: Collection[PadValues]) -> bool:
    """Whether one of `others`, which have `states` among them, asks for the same of some operands and nothing of the
    rest."""
    places = [k for k, held in enumerate(states) if held is not None]
    if len(others) <= 1 << len(places):
        return any(
            other != states and all(o is None or o == s for o, s in zip(other, states, strict=True))
            for other in others
        )
    for count in range(1, len(places) + 1):
        for dropped in combinations(places, count):
            if tuple(None if k in dropped else held for k, held in enumerate(states)) in others:
                return True
    return False
