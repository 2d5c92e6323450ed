"""From a program to a selection problem: which values, which Formats each may have, which options each place has.

Formats spread from the ops that ask for them: options are enumerated until no new Format turns up. Formats that are
the same bytes at the value's shape are one format of the problem, so that a reorder between them costs nothing and
needs no rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.diagnostics import PassError
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, format_of, is_any
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.layout import Layout
from layout_ir.passes.selection.costs import CostModel
from layout_ir.passes.selection.cycles import check_acyclic
from layout_ir.passes.selection.models import bound, options_of, plain, shape_of
from layout_ir.passes.selection.problem import FORBIDDEN, Choice, Matrix, OpNode, Problem, ValueNode
from layout_ir.passes.selection.sites import Site, Use, sites, weight_of
from layout_ir.passes.selection.targets import Target

FORMAT_LIMIT = 12
"""Formats per value; states grow with the subsets of what its uses may need, networks have two to four."""


@dataclass(eq=False, slots=True)
class _Value:
    """The Formats of one value, each with the layout it binds to and a key that is equal for the same bytes."""

    value: SSAValue
    formats: list[Format] = field(default_factory=list[Format])
    layouts: list[Layout] = field(default_factory=list[Layout])
    keys: dict[object, int] = field(default_factory=dict[object, int])

    def number(self, fmt: Format) -> int | None:
        """The number of `fmt`, which is added if it is new; None where it does not fit or there are too many."""
        layout = bound(fmt, self.value)
        if layout is None:
            return None
        key = (layout.canonical, layout.padded_shape, layout.chunk_size, layout.extent)
        if key not in self.keys:
            if len(self.formats) >= FORMAT_LIMIT:
                return None
            self.keys[key] = len(self.formats)
            self.formats.append(fmt)
            self.layouts.append(layout)
        return self.keys[key]

    def adds(self, fmt: Format) -> bool:
        """Makes `fmt` known; whether it was new."""
        count = len(self.formats)
        self.number(fmt)
        return len(self.formats) > count


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """One op node of the problem in the program: the uses it decides, and the option behind each of its choices."""

    site: Site
    uses: tuple[Use, ...]
    options: tuple[LayoutOption, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """A problem and the program it came from: places and values by number, Formats of each value by number."""

    problem: Problem
    places: tuple[Place, ...]
    values: tuple[SSAValue, ...]
    formats: tuple[tuple[Format, ...], ...]


class _Builder:
    def __init__(self, target: Target, costs: CostModel):
        self.target = target
        self.costs = costs
        self.values: dict[SSAValue, _Value] = {}

    def entry(self, value: SSAValue) -> _Value:
        if value not in self.values:
            entry = _Value(value)
            known = format_of(value.type)
            if known is not None:
                entry.number(known)
            elif not is_any(value.type):
                raise LayoutError(f"{value.type} carries an encoding that no layout can be chosen for")
            self.values[value] = entry
        return self.values[value]

    def candidates(self, value: SSAValue) -> Sequence[Format]:
        return self.entry(value).formats

    def options(self, site: Site) -> list[LayoutOption]:
        """The options at `site` that agree with the types that are already fixed."""
        given = self.agreements(site) if site.is_slot else options_of(site.op, self.candidates, self.target)
        return [
            option
            for option in given
            if all(_agrees(value, fmt) for value, fmt in zip(site.defs, option.outs, strict=True))
        ]

    def agreements(self, site: Site) -> Iterator[LayoutOption]:
        """One Format for all of a slot: the declared one, or any that its values may have."""
        values = [*(user.operands[k] for user, k in site.uses), *site.defs]
        known = None if site.declared is None else format_of(site.declared)
        formats = [known] if known is not None else [fmt for v in values for fmt in self.candidates(v)]
        for fmt in dict.fromkeys((*formats, plain(values[0])) if known is None else formats):
            if all(bound(fmt, value) is not None for value in values):
                yield LayoutOption((fmt,) * len(site.uses), (fmt,) * len(site.defs), 0)

    def spread(self, found: list[Site]) -> list[list[LayoutOption]]:
        """Options of every site, after the Formats have spread as far as they go.

        A site is looked at again when one of its values got a new Format, so the work follows the Formats and not
        the length of the program.
        """
        options: list[list[LayoutOption]] = [[] for _ in found]
        touching: dict[SSAValue, list[int]] = {}
        for number, site in enumerate(found):
            for value in (*(user.operands[k] for user, k in site.uses), *site.defs):
                touching.setdefault(value, []).append(number)
        pending = deque(range(len(found)))
        waiting = [True] * len(found)
        while pending:
            number = pending.popleft()
            waiting[number] = False
            site = found[number]
            options[number] = self.options(site)
            grown: list[SSAValue] = []
            for option in options[number]:
                named = zip((user.operands[k] for user, k in site.uses), option.ins, strict=True)
                for value, fmt in (*named, *zip(site.defs, option.outs, strict=True)):
                    if fmt is not None and self.entry(value).adds(fmt):
                        grown.append(value)
            for value in dict.fromkeys(grown):
                for other in touching[value]:
                    if not waiting[other]:
                        waiting[other] = True
                        pending.append(other)
        return options


def _agrees(value: SSAValue, fmt: Format) -> bool:
    known = format_of(value.type)
    if known is None:
        return True
    ours, theirs = bound(known, value), bound(fmt, value)
    return ours is not None and theirs is not None and ours.same_map(theirs)


def build(module: ModuleOp, target: Target, costs: CostModel | None = None) -> Selection:
    """The selection problem of all functions of a module.

    Raises PassError where a place has no option that agrees with the types it already has, or values form a cycle.
    """
    check_acyclic(module)
    builder = _Builder(target, costs or CostModel())
    found = sites(module)
    options = builder.spread(found)
    for site in found:
        for value in (*(user.operands[k] for user, k in site.uses), *site.defs):
            builder.entry(value)
    for value, entry in builder.values.items():
        for fmt in builder.costs.formats(shape_of(value)):
            entry.number(fmt)
    numbers = {value: k for k, value in enumerate(builder.values)}
    nodes: list[OpNode] = []
    places: list[Place] = []
    for site, given in zip(found, options, strict=True):
        node, place = _node(site, given, builder, numbers)
        nodes.append(node)
        places.append(place)
    matrices: dict[object, Matrix] = {}
    values = tuple(_value_node(entry, builder.costs, matrices) for entry in builder.values.values())
    formats = tuple(tuple(entry.formats) for entry in builder.values.values())
    return Selection(Problem(tuple(nodes), values), tuple(places), tuple(builder.values), formats)


def _node(
    site: Site, options: list[LayoutOption], builder: _Builder, numbers: dict[SSAValue, int]
) -> tuple[OpNode, Place]:
    if not options:
        raise _no_option(site, builder)
    named = [k for k, fmt in enumerate(options[0].ins) if fmt is not None]
    uses = tuple(site.uses[k] for k in named)
    operands = [user.operands[k] for user, k in uses]
    shapes = [shape_of(value) for value in (*operands, *site.defs)]
    # The same formats at a higher cost can never win.
    best: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Choice, LayoutOption]] = {}
    for option in options:
        wanted = [fmt for fmt in option.ins if fmt is not None]
        if len(wanted) != len(operands):
            raise PassError(
                f"{site.op.name} leaves an operand open in some options and not in others", site.op
            )
        ins = [builder.entry(value).number(fmt) for value, fmt in zip(operands, wanted, strict=True)]
        outs = [builder.entry(value).number(fmt) for value, fmt in zip(site.defs, option.outs, strict=True)]
        if None in ins or None in outs:
            continue
        cost = builder.costs.op(site.op.name, option, shapes)
        choice = Choice(tuple(k for k in ins if k is not None), tuple(k for k in outs if k is not None), cost)
        key = (choice.ins, choice.outs)
        if key not in best or choice.cost < best[key][0].cost:
            best[key] = (choice, option)
    if not best:
        raise _no_option(site, builder)
    choices, kept = zip(*best.values(), strict=True)
    node = OpNode(
        tuple(numbers[v] for v in operands), tuple(numbers[v] for v in site.defs), choices, site.weight
    )
    return node, Place(site, uses, kept)


def _no_option(site: Site, builder: _Builder) -> PassError:
    types = ", ".join(str(value.type) for value in site.defs) or "its operands"
    return PassError(f"{site.op.name} has no option on target {builder.target.name} for {types}", site.op)


def _value_node(entry: _Value, costs: CostModel, matrices: dict[object, Matrix]) -> ValueNode:
    value = entry.value
    if isinstance(value.owner, nn.ConstantOp):
        # Every format of a constant is made when the program is built.
        return ValueNode(((0,) * len(entry.formats),) * len(entry.formats))
    dtype = dtype_of(value.type)
    key = (shape_of(value), dtype, tuple(entry.formats))
    if key not in matrices:
        matrices[key] = tuple(
            tuple(
                0 if source is destination else min(costs.reorder(source, destination, dtype), FORBIDDEN)
                for destination in entry.layouts
            )
            for source in entry.layouts
        )
    return ValueNode(matrices[key], _weight(value))


def _weight(value: SSAValue) -> int:
    """How often the block runs in which a value is defined: its reorders stand right behind it."""
    owner = value.owner
    if isinstance(owner, Operation):
        return weight_of(owner)
    first = owner.first_op
    return 1 if first is None else weight_of(first)
