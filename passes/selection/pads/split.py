"""Pads in the problem: a format of a value is split into one for each number in its pads that matters.

The problem that `from_ir` states first has one format per map of addresses. Here every such format that pads its value
is split by the state of the pads (`states` finds which there are), the options of ops by the states they ask for and
leave, and between two states of one map there is a reorder that writes pads only: free where the new state promises
nothing, the time of a fill otherwise. A reorder that moves elements writes the pads as well, at no extra cost. From
then on a fill is a reorder like any other: shared between uses, weighed by how often it runs, compared with formats
without pads, part of the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.pads.behaviour import PadValue
from layout_ir.passes.selection.pads.states import PadStates, ValueFormat, formats_of_choice
from layout_ir.passes.selection.problem.selection import Decision, Selection
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
)


def with_pads(
    selection: Selection,
    layouts: Sequence[tuple[Layout, ...]],
    op_classes: Sequence[int | None],
    costs: CostModel,
    deadline: float | None = None,
) -> Selection:
    """`selection` with the states of pads in its problem; itself where nothing is padded.

    `layouts` has those of the formats of each value; values alike share one tuple. `op_classes` has the class of each
    decision, None where no other is like it. After the `deadline`, of the monotonic clock, fewer numbers in pads are
    tried together, which is an omission.
    """
    states = PadStates(selection, layouts, op_classes, deadline)
    if not states.choices:
        return selection
    omissions = (*selection.omissions, *states.omissions())
    return replace(_lifted(selection, states, costs), omissions=omissions)


def _lifted(selection: Selection, states: PadStates, costs: CostModel) -> Selection:
    """The problem in which a format of a value is a format and a state of its pads."""
    number: dict[tuple[int, int, PadValue], int] = {}
    split: list[tuple[tuple[int, PadValue], ...]] = []
    for value, formats in enumerate(selection.formats):
        own = tuple((f, held) for f in range(len(formats)) for held in states.of((value, f)))
        number.update({(value, f, held): k for k, (f, held) in enumerate(own)})
        split.append(own)
    ops: list[OpNode] = []
    decisions: list[Decision] = []
    whole = [len(own) == len(formats) for own, formats in zip(split, selection.formats, strict=True)]
    for k, (node, decision) in enumerate(zip(selection.problem.ops, selection.decisions, strict=True)):
        if all(whole[v] for v in (*node.operands, *node.results)):
            ops.append(node)
            decisions.append(decision)
            continue
        best: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Choice, int]] = {}
        for way, choice in enumerate(node.choices):
            ins, outs = formats_of_choice(node, choice)
            padded = states.choices.get((k, way))
            if padded is None:
                ways = [(tuple(states.of(at)[0] for at in ins), tuple(states.of(at)[0] for at in outs))]
            else:
                ways = states.ways(padded)
            for given, left in ways:
                new = Choice(
                    tuple(number[(*at, held)] for at, held in zip(ins, given, strict=True)),
                    tuple(number[(*at, held)] for at, held in zip(outs, left, strict=True)),
                    choice.cost,
                )
                known = best.get((new.ins, new.outs))
                if known is None or new.cost < known[0].cost:
                    best[new.ins, new.outs] = (new, way)
        ops.append(replace(node, choices=tuple(choice for choice, _ in best.values())))
        decisions.append(replace(decision, options=tuple(decision.options[way] for _, way in best.values())))
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
    return replace(
        selection, problem=Problem(tuple(ops), values), decisions=tuple(decisions), formats=formats
    )


def _spelled(value: SSAValue, fmt: Format, states: PadStates, at: ValueFormat, held: PadValue) -> Format:
    """`fmt` with the pad policy of `held`; where no op depends on the pads, undef, unless a policy costs nothing."""
    if at in states.useful:
        return fmt.with_pad("undef" if held is None else held)
    free = isinstance(value.owner, nn.ConstantOp) or not is_any(value.type)
    return fmt if free or not states.is_padded(at) else fmt.with_pad("undef")


def _value(
    selection: Selection,
    value: int,
    split: tuple[tuple[int, PadValue], ...],
    states: PadStates,
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


def _arc(move: int, held: PadValue, wanted: PadValue, fill: int) -> int:
    """The cost of a reorder with the pads: `move` where elements move (0: none do), else `fill` if pads must change."""
    right = move > 0 or wanted is None or wanted == held
    return move if right else min(fill, FORBIDDEN)
