"""Pads in the problem: a format of a value becomes several, one for each thing its pads may hold that matters.

What `build` states knows one format per map of addresses. Here every such format that pads its value is split by the
state of the pads (see `padding.Held`), the options of ops by the states they ask for and leave, and between two states
of one map there is a reorder that writes pads only: free where it forgets what they hold, the time of a fill otherwise.
A reorder that moves elements writes the pads as well, at no extra cost. From then on a fill is a reorder like any
other: shared between uses, weighed by how often it runs, traded against formats without pads, part of the proof.

Few states are enough, and most formats keep one:

    useful     numbers that some use asks for, or that an op makes into something useful (relu of 0 is 0)
    anything   only where the op that makes the format may leave something else than the one useful number

A convolution leaves zeros and asks for zeros, so a chain of convolutions and relus has one state everywhere.
Three sweeps over the program find them: forward what ops make, backward what of it is of use, forward what else may
turn up. Pads may also be given in front of an op what makes them right behind it, for a reorder writes them anyway and
a fill may serve several ops: tried there are 0, 1, and what is asked for somewhere, with either sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from xdsl.ir import SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.format import Format
from layout_ir.layout import Layout
from layout_ir.passes.selection.costs import CostModel
from layout_ir.passes.selection.padding import Ends, Held, Rule, States, rule_of
from layout_ir.passes.selection.problem import FORBIDDEN, Choice, Matrix, OpNode, Problem, ValueNode
from layout_ir.passes.selection.selection import Place, Selection

NUMBERS = 4
"""Numbers tried in the pads of one format; networks have one. A loop that adds 1 would make them without end."""

COMBINATIONS = 256
"""States of operands tried together; beyond, only those where all operands agree."""

At = tuple[int, int]
"""A value and a format of it, both by number."""


def with_pads(
    selection: Selection,
    layouts: Sequence[tuple[Layout, ...]],
    kinds: Sequence[int | None],
    costs: CostModel,
    limit: int,
) -> Selection:
    """`selection` with the states of pads in its problem; itself where nothing is padded.

    `layouts` has those of the formats of each value; values alike share one tuple. `kinds` says which places are alike
    (None: like no other). A value that would get more than `limit` formats keeps those it has: what its uses need is
    then filled, unpriced.
    """
    states = _States(selection, layouts, kinds, limit)
    return _lifted(selection, states, costs) if states.rules else selection


class _States:
    """Which states of pads each padded format has."""

    def __init__(
        self,
        selection: Selection,
        layouts: Sequence[tuple[Layout, ...]],
        kinds: Sequence[int | None],
        limit: int,
    ):
        self.selection = selection
        self.layouts = layouts
        known = {id(own): tuple(layout.is_padded for layout in own) for own in layouts}
        self.padded = [known[id(own)] for own in layouts]
        self.useful: dict[At, tuple[float, ...]] = {}
        self.unknown: set[At] = set()
        self.rules: dict[tuple[int, int], Rule] = {}
        """Per op node and choice, for choices that touch a padded format; places alike share them."""
        self._outcomes: dict[object, list[tuple[States, States]]] = {}
        self._ways: dict[object, list[tuple[States, States]]] = {}
        if not any(map(any, known.values())):
            return
        shared: dict[object, Rule] = {}
        for number, (node, kind) in enumerate(zip(selection.problem.ops, kinds, strict=True)):
            for k, choice in enumerate(node.choices):
                if any(self.padded[v][f] for v, f in _ends(node, choice)):
                    key = kind, k, tuple([id(self.layouts[v][f]) for v, f in _ends(node, choice)])
                    rule = None if kind is None else shared.get(key)
                    if rule is None:
                        rule = rule_of(selection.places[number], k, self._tensors(node, choice))
                        shared[key] = rule
                    self.rules[number, k] = rule
        self._find(limit)

    def _tensors(self, node: OpNode, choice: Choice) -> Ends:
        ends = list(_ends(node, choice))
        return Ends(
            tuple(self.selection.values[v] for v, _ in ends),
            tuple(self.selection.formats[v][f] for v, f in ends),
            tuple(self.layouts[v][f] for v, f in ends),
            len(node.operands),
        )

    def _find(self, limit: int) -> None:
        entries = [
            (self.selection.problem.ops[number], self.selection.problem.ops[number].choices[k], rule)
            for (number, k), rule in self.rules.items()
        ]
        asked: dict[At, set[float]] = {}
        for node, choice, rule in entries:
            for at, ask in zip(_ins(node, choice), rule.asks, strict=True):
                if ask is not None:
                    asked.setdefault(at, set()).add(ask)
        if not asked:
            return
        possible = self._possible(entries, asked)
        useful = self._useful(entries, asked, possible)
        self._limit(entries, useful, limit)
        self.useful = {at: tuple(sorted(numbers)) for at, numbers in useful.items() if numbers}
        self._find_unknown(entries)

    def _limit(
        self, entries: Sequence[tuple[OpNode, Choice, Rule]], useful: dict[At, set[float]], limit: int
    ) -> None:
        """Gives values that would have too many formats one state of pads each, and with them what must agree."""
        for value, padded in enumerate(self.padded):
            count = len(padded) + sum(len(useful.get((value, f), ())) for f in range(len(padded)))
            if count > limit:
                for f in range(len(padded)):
                    useful.pop((value, f), None)
        slots = [_outs(node, choice) for node, choice, rule in entries if rule.agrees]
        changed = True
        while changed:
            changed = False
            for outs in slots:
                if not all(at in useful for at in outs):
                    found = [useful.pop(at, None) for at in outs]
                    changed |= any(numbers is not None for numbers in found)

    def _possible(
        self, entries: Sequence[tuple[OpNode, Choice, Rule]], asked: dict[At, set[float]]
    ) -> dict[At, tuple[float, ...]]:
        """What pads may hold: what ops make, and what is asked of them."""
        found = {at: set(numbers) for at, numbers in asked.items()}

        def add(at: At, held: Held) -> bool:
            numbers = found.setdefault(at, set())
            if held is None or not self._is_padded(at) or held in numbers or len(numbers) >= NUMBERS:
                return False
            numbers.add(held)
            return True

        changed = True
        while changed:
            changed = False
            for node, choice, rule in entries:
                ins, outs = _ins(node, choice), _outs(node, choice)
                if rule.agrees:
                    for held in {held for at in ins for held in found.get(at, ())}:
                        for at in outs:
                            changed |= add(at, held)
                    continue
                for _, left in self.outcomes(rule, [(*sorted(found.get(at, ())), None) for at in ins]):
                    for at, held in zip(outs, left, strict=True):
                        changed |= add(at, held)
        return {at: tuple(sorted(numbers)) for at, numbers in found.items()}

    def _useful(
        self,
        entries: Sequence[tuple[OpNode, Choice, Rule]],
        asked: dict[At, set[float]],
        possible: dict[At, tuple[float, ...]],
    ) -> dict[At, set[float]]:
        """What of it an op asks for, or makes into something that is of use."""
        useful = {at: set(numbers) for at, numbers in asked.items()}
        tried = {0.0, 1.0, -1.0}.union(*asked.values())
        tried |= {-held for held in tried}
        changed = True
        while changed:
            changed = False
            for node, choice, rule in reversed(entries):
                ins, outs = _ins(node, choice), _outs(node, choice)
                wanted = [useful.get(at, set[float]()) for at in outs]
                if not any(wanted):
                    continue
                if rule.agrees:
                    helpful = [(held,) * len(ins) for numbers in wanted for held in numbers]
                    together = set[float]().union(*wanted)
                    changed |= any(numbers != together for numbers in wanted)
                    useful.update((at, set(together)) for at in outs if self._is_padded(at))
                else:
                    known = [tried.union(possible.get(at, ())) if self._is_padded(at) else () for at in ins]
                    made = self.outcomes(rule, [(*sorted(numbers), None) for numbers in known])
                    helpful = _chosen(
                        [
                            (states, left)
                            for states, left in made
                            if any(held in numbers for held, numbers in zip(left, wanted, strict=True))
                        ],
                        [possible.get(at, ()) for at in ins],
                    )
                for states in helpful:
                    for at, held in zip(ins, states, strict=True):
                        if held is not None and self._is_padded(at) and held not in useful.get(at, ()):
                            useful.setdefault(at, set()).add(held)
                            changed = True
        return useful

    def _find_unknown(self, entries: Sequence[tuple[OpNode, Choice, Rule]]) -> None:
        """Where pads may hold none of the useful numbers."""
        self.unknown = {at for at, numbers in self.useful.items() if len(numbers) > 1}
        changed = True
        while changed:
            changed = False
            for node, choice, rule in entries:
                outs = [at for at in _outs(node, choice) if at in self.useful and at not in self.unknown]
                if outs:
                    made = {
                        at for _, left in self.ways(node, choice, rule) for at, held in left if held is None
                    }
                    found = outs if rule.agrees and made else made.intersection(outs)
                    self.unknown.update(found)
                    changed |= bool(found)

    def outcomes(self, rule: Rule, states: Sequence[States]) -> list[tuple[States, States]]:
        """What a rule leaves for every combination of these states of its operands that is worth having."""
        key = id(rule), tuple(states)
        known = self._outcomes.get(key)
        if known is None:
            known = _least([(given, rule.leaves(given)) for given in _combinations(rule, states)])
            self._outcomes[key] = known
        return known

    def _is_padded(self, at: At) -> bool:
        return self.padded[at[0]][at[1]]

    def of(self, at: At) -> States:
        """The states of a format, None first: one where nothing about its pads matters."""
        numbers = self.useful.get(at, ())
        return (None, *numbers) if at in self.unknown or not numbers else numbers

    def serving(self, at: At, held: Held) -> Held:
        """The state of an operand that serves where its pads must be `held`."""
        states = self.of(at)
        return held if held in states else states[0]

    def telling(self, at: At, held: Held) -> Held:
        """What of `held` the states of a result tell."""
        return held if held in self.useful.get(at, ()) else None

    def ways(
        self, node: OpNode, choice: Choice, rule: Rule
    ) -> Iterator[tuple[list[tuple[At, Held]], list[tuple[At, Held]]]]:
        """The states in which a choice can run: of each operand and of each result."""
        ins, outs = _ins(node, choice), _outs(node, choice)
        if rule.agrees:
            known = {held for at in outs for held in self.useful.get(at, ())}
            loose = (
                not known or any(None in self.of(at) for at in ins) or any(at in self.unknown for at in outs)
            )
            for held in (*([None] if loose else []), *sorted(known)):
                yield (
                    [(at, self.serving(at, held)) for at in ins],
                    [(at, self.telling(at, held)) for at in outs],
                )
            return
        states = tuple([self.of(at) for at in ins])
        key = id(rule), states, tuple([self.useful.get(at, ()) for at in outs])
        known_ways = self._ways.get(key)
        if known_ways is None:
            known_ways = self._ways[key] = _least(
                [
                    (
                        tuple(self.serving(at, held) for at, held in zip(ins, given, strict=True)),
                        tuple(self.telling(at, held) for at, held in zip(outs, left, strict=True)),
                    )
                    for given, left in self.outcomes(rule, states)
                ]
            )
        for given, left in known_ways:
            yield list(zip(ins, given, strict=True)), list(zip(outs, left, strict=True))


def _ins(node: OpNode, choice: Choice) -> list[At]:
    return list(zip(node.operands, choice.ins, strict=True))


def _outs(node: OpNode, choice: Choice) -> list[At]:
    return list(zip(node.results, choice.outs, strict=True))


def _ends(node: OpNode, choice: Choice) -> Iterator[At]:
    yield from zip(node.operands, choice.ins, strict=True)
    yield from zip(node.results, choice.outs, strict=True)


def _combinations(rule: Rule, states: Sequence[States]) -> Iterator[States]:
    """States of the operands to try together: what is asked for, else all where they show, else anything."""
    own: list[States] = []
    for ask, seen, known in zip(rule.asks, rule.seen, states, strict=True):
        own.append((ask,) if ask is not None else known if seen else (None if None in known else known[0],))
    if prod(len(s) for s in own) <= COMBINATIONS:
        yield from product(*own)
        return
    for held in dict.fromkeys(held for s in own for held in s):
        yield tuple(held if held in s else s[0] for s in own)


def _least(made: Sequence[tuple[States, States]]) -> list[tuple[States, States]]:
    """Those that leave something which no other leaves that asks for less."""
    distinct = list(dict.fromkeys(made))
    return [
        (states, left)
        for states, left in distinct
        if not any(
            left == other_left
            and other != states
            and all(o is None or o == s for o, s in zip(other, states, strict=True))
            for other, other_left in distinct
        )
    ]


def _chosen(made: Sequence[tuple[States, States]], possible: Sequence[tuple[float, ...]]) -> list[States]:
    """Of the ways to leave the same and to take the same of what may be there anyway, the one that adds the plainest.

    One that adds all of it only where there is no other.
    """
    groups: dict[tuple[States, tuple[Held | str, ...]], list[States]] = {}
    for states, left in made:
        natural = tuple(
            held if held is None or held in known else "added"
            for held, known in zip(states, possible, strict=True)
        )
        groups.setdefault((left, natural), []).append(states)
    partly = {left for left, natural in groups if not {None, "added"}.issuperset(natural)}
    return [
        min(ways, key=lambda states: [abs(held or 0.0) for held in states])
        for (left, natural), ways in groups.items()
        if left not in partly or not {None, "added"}.issuperset(natural)
    ]


# The problem with states ---------------------------------------------------------------------------------------------


def _lifted(selection: Selection, states: _States, costs: CostModel) -> Selection:
    number: dict[tuple[int, int, Held], int] = {}
    split: list[tuple[tuple[int, Held], ...]] = []
    for value, formats in enumerate(selection.formats):
        own = tuple((f, held) for f in range(len(formats)) for held in states.of((value, f)))
        number.update({(value, f, held): k for k, (f, held) in enumerate(own)})
        split.append(own)
    ops: list[OpNode] = []
    places: list[Place] = []
    whole = [len(own) == len(formats) for own, formats in zip(split, selection.formats, strict=True)]
    for k, (node, place) in enumerate(zip(selection.problem.ops, selection.places, strict=True)):
        if all(whole[v] for v in (*node.operands, *node.results)):
            ops.append(node)
            places.append(place)
            continue
        best: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Choice, int]] = {}
        for way, choice in enumerate(node.choices):
            rule = states.rules.get((k, way))
            if rule is None:
                named = [
                    ((at, states.of(at)[0]) for at in ends)
                    for ends in (_ins(node, choice), _outs(node, choice))
                ]
                ways = [tuple(map(list, named))]
            else:
                ways = states.ways(node, choice, rule)
            for ins, outs in ways:
                new = Choice(
                    tuple(number[(*at, held)] for at, held in ins),
                    tuple(number[(*at, held)] for at, held in outs),
                    choice.cost,
                )
                known = best.get((new.ins, new.outs))
                if known is None or new.cost < known[0].cost:
                    best[new.ins, new.outs] = (new, way)
        ops.append(replace(node, choices=tuple(choice for choice, _ in best.values())))
        places.append(replace(place, options=tuple(place.options[way] for _, way in best.values())))
    matrices: dict[object, Matrix] = {}
    values = tuple(
        _value(selection, value, split[value], states, costs, matrices)
        for value in range(len(selection.values))
    )
    formats = tuple(
        tuple(
            _spelled(selection.values[value], known[f], states, (value, f), held) for f, held in split[value]
        )
        for value, known in enumerate(selection.formats)
    )
    return replace(selection, problem=Problem(tuple(ops), values), places=tuple(places), formats=formats)


def _spelled(value: SSAValue, fmt: Format, states: _States, at: At, held: Held) -> Format:
    """`fmt` with what it says of pads: nothing where that matters to nobody, unless it can be had for free."""
    if at in states.useful:
        return fmt.with_pad("undef" if held is None else held)
    free = isinstance(value.owner, nn.ConstantOp) or not is_any(value.type)
    return fmt if free or not states.padded[at[0]][at[1]] else fmt.with_pad("undef")


def _value(
    selection: Selection,
    value: int,
    split: tuple[tuple[int, Held], ...],
    states: _States,
    costs: CostModel,
    matrices: dict[object, Matrix],
) -> ValueNode:
    node = selection.problem.values[value]
    if len(split) == len(node.reorder):
        return node
    if isinstance(selection.values[value].owner, nn.ConstantOp):
        return replace(node, reorder=((0,) * len(split),) * len(split))
    dtype = dtype_of(selection.values[value].type)
    fills = tuple(costs.fill(layout, dtype) if layout.is_padded else 0 for layout in states.layouts[value])
    key = (node.reorder, split, fills)
    if key not in matrices:
        matrices[key] = tuple(
            tuple(_arc(node.reorder[f][g], held, wanted, fills[g]) for g, wanted in split)
            for f, held in split
        )
    return replace(node, reorder=matrices[key])


def _arc(move: int, held: Held, wanted: Held, fill: int) -> int:
    """What it costs to move (0: nothing moves) and to have the pads right."""
    right = move > 0 or wanted is None or wanted == held
    return move if right else min(fill, FORBIDDEN)
