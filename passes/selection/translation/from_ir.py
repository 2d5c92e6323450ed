"""From a program to a selection problem: its values, the Formats each may have, the options of each decision point.

Formats spread from the ops that ask for them: options are enumerated until no new Format turns up. Programs are long
and repeat themselves, so whatever follows from the class of an op and the Formats of its values is worked out once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from time import monotonic

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, format_of, has_layout, is_any, is_tensor
from layout_ir.dialects.layout.ops import can_cast
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.pad_queries import pad_reads
from layout_ir.passes.selection.costs.cost_model import CheckedCosts, CostModel, apart
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.format_model import cheapest
from layout_ir.passes.selection.options.models import format_options_of, options_of, options_state_pads
from layout_ir.passes.selection.options.op_classes import OpClasses
from layout_ir.passes.selection.options.tensor_formats import Candidates, bound, row_major, shape_of
from layout_ir.passes.selection.pads.split import with_pads
from layout_ir.passes.selection.problem.cycles import check_acyclic
from layout_ir.passes.selection.problem.decision_points import DecisionPoint, decision_points
from layout_ir.passes.selection.problem.frequency import MOST_RUNS, BlockFrequencies, calls_of
from layout_ir.passes.selection.problem.selection import Decision, Omission, Selection
from layout_ir.passes.selection.translation.format_lists import DERIVED_LIMIT, FormatList, FormatLists
from layout_ir.passes.selection.translation.point_options import OptionsByFormat, allowed
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    keep_forbidden,
)

CUT = "formats that ops would have taken from their neighbours take no part in the choice: the time limit was over"


@dataclass(frozen=True, slots=True)
class _Found:
    """The options of a decision point for given lists of Formats, the same for all points alike.

    `after` has the lists of its values with the Formats of the options added, `left_out` the Formats that were not
    added, both per value.
    """

    options: list[LayoutOption]
    after: tuple[FormatList, ...]
    left_out: tuple[frozenset[Format], ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """A decision point in the problem: the uses (by number) that its options speak of, and its choices with the option
    of each."""

    named: tuple[int, ...]
    choices: tuple[Choice, ...]
    options: tuple[LayoutOption, ...]


class _Builder:
    def __init__(self, target: Target, costs: CostModel, found: list[DecisionPoint]):
        self.target = target
        self.costs = costs
        self.points = found
        self.lists = FormatLists()
        self.op_classes = OpClasses(target, tells_constants=costs.tells_constants)
        self.numbers: dict[SSAValue, int] = {}
        self.values: list[SSAValue] = []
        self.types: list[int] = []
        """Per value the number of its type."""
        self.formats: list[FormatList] = []
        """Per value the Formats known so far."""
        self.touching: list[list[int]] = []
        """Per value, the numbers of the decision points that use or make it."""
        self._start: dict[int, FormatList] = {}
        # Per decision point: its values, uses before defs, each once; per use and def, which of them it is; its class.
        self.members: list[tuple[int, ...]] = []
        self.positions: list[tuple[int, ...]] = []
        self.classes: list[int | None] = []
        for number, point in enumerate(found):
            self._enter(number, point)
        self._by_format: dict[object, OptionsByFormat | None] = {}
        self._taken: list[tuple[int, ...] | None] = [None] * len(found)
        """Per decision point, of how many Formats of each of its values it has the options."""
        self._last: dict[int, _Found] = {}
        """Per decision point that takes Formats together, what was found when it was looked at last."""
        self._left_out: dict[int, set[Format]] = {}
        """Per value, Formats that such points did not add."""
        self.is_cut = False
        """Whether the time for the spread of Formats was over before it ended."""
        self._found: dict[object, _Found] = {}
        self._own: dict[int, tuple[tuple[FormatList, ...], _Found]] = {}
        """For decision points that are like no other, the lists its values had, and what was found for these."""
        self._nodes: dict[object, _Node] = {}
        self._value_nodes: dict[object, ValueNode] = {}
        self._matrices: dict[tuple[FormatList, str], Matrix] = {}
        self._reorder_costs: dict[tuple[Layout, Layout, str], int] = {}
        self._extended: dict[FormatList, FormatList] = {}

    def _enter(self, number: int, point: DecisionPoint) -> None:
        values = [*(user.operands[k] for user, k in point.uses), *point.defs]
        given = [self._value(value) for value in values]
        place = {v: k for k, v in enumerate(dict.fromkeys(given))}
        positions = tuple([place[v] for v in given])
        for v in place:
            self.touching[v].append(number)
        self.members.append(tuple(place))
        self.positions.append(positions)
        self.classes.append(None if point.is_equality else self.op_classes.of(point.op, values, positions))

    def _value(self, value: SSAValue) -> int:
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.values)
            op_class = self.op_classes.attribute(value.type)
            start = self._start.get(op_class)
            if start is None:
                start = self.lists.of(shape_of(value))
                known = format_of(value.type)
                if known is not None:
                    start = start.adding(known)
                self._start[op_class] = start
            self.values.append(value)
            self.types.append(op_class)
            self.formats.append(start)
            self.touching.append([])
        return number

    def candidates(self, value: SSAValue) -> Sequence[Format]:
        return self.formats[self._value(value)].formats

    def options(self, point: DecisionPoint, candidates: Candidates | None = None) -> list[LayoutOption]:
        """The options of `point` that agree with the Formats that types already state."""
        candidates = candidates or self.candidates
        given = (
            self.equality_options(point, candidates)
            if point.is_equality
            else options_of(point.op, candidates, self.target)
        )
        return allowed(point, given)

    def by_format(self, number: int) -> OptionsByFormat | None:
        """The options of a decision point that takes Formats one by one; None for one that does not."""
        op_class, point = self.classes[number], self.points[number]
        if point.is_equality:
            return None
        key = ~number if op_class is None else op_class
        if key not in self._by_format:
            said = format_options_of(point.op, self.target)
            self._by_format[key] = (
                None
                if said is None
                else OptionsByFormat(said, partial(allowed, point, reads=cache(pad_reads)))
            )
        return self._by_format[key]

    def asked_for(self, point: DecisionPoint) -> list[set[Format]]:
        """Per tensor of `point`, the Formats that its options have for it before any Format reached it from others."""

        def declared(value: SSAValue) -> Sequence[Format]:
            known = format_of(value.type)
            return () if known is None else (known,)

        options = self.options(point, declared)
        columns = zip(*((*option.ins, *option.outs) for option in options), strict=True)
        return [{fmt for fmt in column if fmt is not None} for column in columns]

    def equality_options(self, point: DecisionPoint, candidates: Candidates) -> Iterator[LayoutOption]:
        """The options of an equality constraint: one Format for all tensors, the declared one or any they may have."""
        values = [*(user.operands[k] for user, k in point.uses), *point.defs]
        known = None if point.declared is None else format_of(point.declared)
        formats = [known] if known is not None else [fmt for v in values for fmt in candidates(v)]
        for fmt in dict.fromkeys((*formats, row_major(values[0])) if known is None else formats):
            if all(bound(fmt, value) is not None for value in values):
                yield LayoutOption((fmt,) * len(point.uses), (fmt,) * len(point.defs), 0)

    def spread(self, deadline: float | None = None) -> None:
        """Lets the Formats spread until no value gets a new one.

        A decision point is looked at again when one of its values got a new Format, so the work follows the Formats and
        not the length of the program. At the `deadline`, of the monotonic clock, no more are spread once each point was
        looked at, and so has an option.
        """
        pending = deque(range(len(self.points)))
        waiting = bytearray(b"\1") * len(self.points)
        looked = 0
        while pending:
            if looked >= len(self.points) and deadline is not None and monotonic() >= deadline:
                self.is_cut = True
                return
            looked += 1  # all points wait in front of those that wait again
            number = pending.popleft()
            waiting[number] = 0
            members = self.members[number]
            for v, grown in zip(members, self._grown(number), strict=True):
                if self.formats[v] is not grown:
                    self.formats[v] = grown
                    for other in self.touching[v]:
                        if not waiting[other]:
                            waiting[other] = 1
                            pending.append(other)

    def _grown(self, number: int) -> Sequence[FormatList]:
        """The lists of the values of a decision point, with the Formats of its options added."""
        before = tuple([self.formats[v] for v in self.members[number]])
        taken = self._taken[number]
        self._taken[number] = tuple([len(own.formats) for own in before])
        by_format = self.by_format(number)
        if by_format is None:
            found = self._last[number] = self.found(number)
            return found.after
        start = taken or (0,) * len(before)
        offered = [before[place].formats[start[place] :] for place in self.positions[number]]
        after, left_out = self._adding(number, before, by_format.among(offered, first=taken is None))
        for v, formats in zip(self.members[number], left_out, strict=True):
            if formats:
                self._left_out.setdefault(v, set()).update(formats)
        return after

    def found(self, number: int) -> _Found:
        """The options of a decision point, given the Formats that its values have so far."""
        op_class = self.classes[number]
        before = tuple([self.formats[v] for v in self.members[number]])
        if op_class is None:
            known, found = self._own.get(number, ((), None))
            if known != before:
                found = None
        else:
            found = self._found.get((op_class, before))
        if found is None:
            found = self._find(number, before)
            if op_class is None:
                self._own[number] = before, found
            else:
                self._found[op_class, before] = found
        return found

    def _find(self, number: int, before: tuple[FormatList, ...]) -> _Found:
        options = self.options(self.points[number])
        after, left_out = self._adding(number, before, options)
        return _Found(options, tuple(after), tuple(map(frozenset, left_out)))

    def _adding(
        self, number: int, before: Sequence[FormatList], options: Iterable[LayoutOption]
    ) -> tuple[list[FormatList], list[set[Format]]]:
        """The lists `before` with the Formats of `options` of a decision point, and those that were not added."""
        after = list(before)
        left_out: list[set[Format]] = [set() for _ in before]
        asked: list[set[Format]] | None = None
        for option in options:
            for k, (place, fmt) in enumerate(
                zip(self.positions[number], (*option.ins, *option.outs), strict=True)
            ):
                if fmt is None:
                    continue
                longer = after[place].adding(fmt)
                if longer is not after[place] and len(after[place].formats) >= DERIVED_LIMIT:
                    asked = asked or self.asked_for(self.points[number])
                    if not asked or fmt not in asked[k]:
                        left_out[place].add(fmt)
                        continue
                after[place] = longer
        return after, left_out

    def options_after(self, number: int) -> Sequence[LayoutOption]:
        """The options of a decision point for the Formats that had reached it when the spread ended."""
        by_format, taken = self.by_format(number), self._taken[number]
        if by_format is None or taken is None:
            return self._last[number].options
        lists = [
            self.formats[v].formats[:count] for v, count in zip(self.members[number], taken, strict=True)
        ]
        offered = [lists[place] for place in self.positions[number]]
        return list(cheapest(by_format.among(offered, first=True)))

    def omissions(self) -> Iterator[Omission]:
        """Per value with Formats that were left out: the op that makes it, and how many there are."""
        left_out = {v: set(formats) for v, formats in self._left_out.items()}
        for number, members in enumerate(self.members):
            if number in self._last:
                for v, formats in zip(members, self._last[number].left_out, strict=True):
                    if formats:
                        left_out.setdefault(v, set()).update(formats)
        for v, formats in left_out.items():
            formats = {fmt for fmt in formats if self.formats[v].number(fmt) is None}
            if not formats:
                continue
            value = self.values[v]
            op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
            name = "a value" if value.name_hint is None else f"%{value.name_hint}"
            assert op is not None
            yield Omission(
                op,
                f"of the formats that reach {name} from other ops, {len(formats)} take no part in the choice: "
                f"it has {len(self.formats[v].formats)} already",
            )

    def extended(self, formats: FormatList) -> FormatList:
        """The list with the Formats, of a cost table, through which reorders may pass."""
        longer = self._extended.get(formats)
        if longer is None:
            longer = formats
            for fmt in self.costs.formats(formats.shape):
                longer = longer.adding(fmt)
            self._extended[formats] = longer
        return longer

    def node(self, number: int) -> _Node:
        """The node of a decision point, after the Formats have spread. Raises PassError where it has no option."""
        op_class = self.classes[number]
        if op_class is None:
            return self._node(number)
        key = op_class, tuple([self.formats[v] for v in self.members[number]]), self._taken[number]
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._node(number)
        return node

    def _node(self, number: int) -> _Node:
        point, options = self.points[number], self.options_after(number)
        if not options:
            raise self._no_option(point)
        lists = [self.extended(self.formats[self.members[number][k]]) for k in self.positions[number]]
        named = tuple(k for k, fmt in enumerate(options[0].ins) if fmt is not None)
        given = [lists[k] for k in named]
        made = lists[len(point.uses) :]
        shapes = [own.shape for own in (*given, *made)]
        # The same formats at a higher cost can never win.
        best: dict[object, tuple[Choice, LayoutOption]] = {}
        for option in options:
            wanted = [fmt for fmt in option.ins if fmt is not None]
            if len(wanted) != len(given):
                raise PassError(
                    f"{name_of_op(point.op)} leaves an operand open in some options and not in others",
                    point.op,
                )
            ins = _numbers(given, wanted)
            outs = _numbers(made, option.outs)
            if ins is None or outs is None:
                continue
            choice = Choice(ins, outs, self.costs.for_op(point.op, option, shapes))
            # Formats of options may say what the op does with pads, which may be worth a cost.
            pads = tuple(fmt.pad for fmt in (*wanted, *option.outs)) if options_state_pads(point.op) else ()
            key = (ins, outs, pads)
            if key not in best or choice.cost < best[key][0].cost:
                best[key] = (choice, option)
        if not best:
            raise self._no_option(point)
        choices, kept = zip(*best.values(), strict=True)
        return _Node(named, choices, kept)

    def _no_option(self, point: DecisionPoint) -> PassError:
        types = ", ".join(str(value.type) for value in point.defs) or "its operands"
        reason = ""
        for value in point.defs:
            try:
                row_major(value).bind(shape_of(value))
            except LayoutError as error:  # a tensor that no layout has
                reason = f": {error}"
        return PassError(
            f"{name_of_op(point.op)} has no option on target {self.target.name} for {types}{reason}", point.op
        )

    def value_node(self, number: int, weights: BlockFrequencies) -> ValueNode:
        """The node of a value: what reorders between its Formats cost, and how often they run."""
        value, formats = self.values[number], self.extended(self.formats[number])
        # Every format of a constant is made when the program is built.
        weight = None if isinstance(value.owner, nn.ConstantOp) else weights.around(value)
        key = formats, self.types[number], weight
        node = self._value_nodes.get(key)
        if node is None:
            if weight is None:
                node = ValueNode(((0,) * len(formats.formats),) * len(formats.formats))
            else:
                matrix = formats, dtype_of(value.type)
                if matrix not in self._matrices:
                    self._matrices[matrix] = self._reorders(*matrix)
                node = ValueNode(self._matrices[matrix], weight)
            self._value_nodes[key] = node
        return node

    def _reorders(self, formats: FormatList, dtype: str) -> Matrix:
        """What reorders between the layouts of a list cost."""
        return tuple(
            tuple(
                0 if source is destination else self._reorder(source, destination, dtype)
                for destination in formats.layouts
            )
            for source in formats.layouts
        )

    def _reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        # Windows of one buffer differ in nothing but their offsets, and there may be hundreds.
        if not self.costs.tells_offsets and not can_cast(source, destination):
            source, destination = apart(source, destination)
        key = source, destination, dtype
        cost = self._reorder_costs.get(key)
        if cost is None:
            cost = min(self.costs.reorder(source, destination, dtype), FORBIDDEN)
            self._reorder_costs[key] = cost
        return cost


def _check_types(module: ModuleOp) -> None:
    """Raises PassError for a tensor that asks for a layout and can have none."""
    for op in module.walk():
        for value in (
            *op.results,
            *(arg for region in op.regions for block in region.blocks for arg in block.args),
        ):
            if is_tensor(value.type) and is_any(value.type) and not has_layout(value.type):
                try:
                    dtype_of(value.type)
                    reason = "its extents must be static"
                except LayoutError as error:
                    reason = str(error)
                raise PassError(f"no layout can be chosen for {value.type}: {reason}", op)


def is_open(module: ModuleOp) -> bool:
    """Whether some tensor of `module` has a layout that is to be chosen."""
    return any(is_tensor(v.type) and is_any(v.type) for op in module.walk() for v in _defined(op))


def _defined(op: Operation) -> Iterator[SSAValue]:
    """The values that `op` makes: its results, and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def build(
    module: ModuleOp,
    target: Target,
    costs: CostModel | None = None,
    *,
    everything: bool = False,
    time_limit: float | None = None,
) -> Selection:
    """The selection problem of a module: of all that is connected to an open layout, or of `everything`.

    Without `costs` those hold that the target brings along, or else the built-in ones. After `time_limit` seconds
    Formats spread no further from op to op: the problem then leaves out what they would have reached, and says so. So
    it is, after half as many more, with what their pads may hold together.
    Raises PassError where a decision point has no option that agrees with the types it already has, or values form a
    cycle.
    """
    deadline = None if time_limit is None else monotonic() + time_limit
    _check_types(module)
    check_acyclic(module)
    weights = BlockFrequencies(calls_of(module))
    builder = _Builder(target, _used(costs, target), decision_points(module, weights, everything=everything))
    builder.spread(deadline)
    nodes: list[OpNode] = []
    decisions: list[Decision] = []
    for number, point in enumerate(builder.points):
        node = builder.node(number)
        members, positions = builder.members[number], builder.positions[number]
        operands = tuple([members[positions[k]] for k in node.named])
        results = tuple([members[k] for k in positions[len(point.uses) :]])
        uses = point.uses if len(operands) == len(point.uses) else tuple([point.uses[k] for k in node.named])
        nodes.append(OpNode(operands, results, node.choices, point.weight))
        decisions.append(Decision(point, uses, node.options))
    values = tuple([builder.value_node(v, weights) for v in range(len(builder.values))])
    lists = [builder.extended(own) for own in builder.formats]
    formats = tuple([own.formats for own in lists])
    selection = Selection(
        Problem(tuple(nodes), values),
        tuple(decisions),
        tuple(builder.values),
        formats,
        tuple(builder.omissions()),
    )
    layouts = [own.layouts for own in lists]
    deadline = None if time_limit is None else monotonic() + time_limit / 2
    whole = with_pads(selection, layouts, builder.classes, builder.costs, deadline)
    clipped = (
        Omission(op, f"the block of {op.name} runs {often} times and is counted as {MOST_RUNS} times")
        for op, often in weights.clipped.items()
    )
    ended = (Omission(module, CUT),) if builder.is_cut else ()
    omissions = (*whole.omissions, *clipped, *ended)
    return replace(whole, problem=keep_forbidden(whole.problem), omissions=omissions)


def _used(costs: CostModel | None, target: Target) -> CostModel:
    used = costs or target.own_costs() or CostModel()
    return used if type(used) is CostModel else CheckedCosts(used)


def _numbers(lists: Sequence[FormatList], formats: Sequence[Format]) -> tuple[int, ...] | None:
    """The number of each Format in its list, or None where one of them is in none."""
    found = [own.number(fmt) for own, fmt in zip(lists, formats, strict=True)]
    return None if None in found else tuple([k for k in found if k is not None])
