"""The rewriting that a choice asks for: types, and the reorders between what is made and what is needed.

Every value gets the Format it is produced in; its pad policy is what its op leaves there. A use that needs another
Format, or pads that hold something else, gets it from a reorder behind the definition, shared by all uses that need
the same. Which Format was decided elsewhere; nothing here weighs anything.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.pads import PadPolicy
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, format_of, is_any, layout_of, with_format
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import encoding_of
from layout_ir.interfaces import CHOSEN, OPTIONS
from layout_ir.passes.pad_queries import needed_pad, provided_pad
from layout_ir.passes.rewriting import insert_after, retype, update_signatures
from layout_ir.passes.selection.options.foreign.conform import conform
from layout_ir.passes.selection.options.in_place import ATTRIBUTE as IN_PLACE
from layout_ir.passes.selection.options.models import options_state_pads
from layout_ir.passes.selection.problem.selection import Decision, Selection
from layout_ir.selection.solver.selection_problem import demands, tree_edges


def apply(module: ModuleOp, selection: Selection, choices: tuple[int, ...], *, share: bool = True) -> None:
    """Rewrites `module` in place so that op node o takes choices[o].

    Without `share` every use gets reorders of its own, as in the naive program.
    """
    applier = _Applier(selection, choices, share)
    for op in list(module.walk()):
        applier.connect(op)
        if op in applier.decisions:
            applier.claim_pads(op)
            applier.mark_option(op)
            op.attributes.pop(OPTIONS, None)
    conform(list(applier.decisions))
    update_signatures(module)


class _Applier:
    def __init__(self, selection: Selection, choices: tuple[int, ...], share: bool):
        self.selection = selection
        self.choices = choices
        self.share = share
        self.demand = demands(selection.problem, choices)
        self.made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        # Types are few; making one and binding its layout is slow.
        self._types: dict[tuple[Attribute, int], TensorType[Attribute]] = {}
        self._padded: dict[Attribute, bool] = {}
        self.open = [is_any(value.type) for value in selection.values]
        self.uses: dict[Operation, list[tuple[int, int, int]]] = {}
        """Per op, its operands that are decided on: operand number, number of the decision, position in its uses."""
        self.decisions: dict[Operation, int] = {}
        """Per op with options, the number of the decision about it."""
        for number, decision in enumerate(selection.decisions):
            for position, (user, k) in enumerate(decision.uses):
                self.uses.setdefault(user, []).append((k, number, position))
            if not decision.point.is_equality:
                self.decisions[decision.point.op] = number
        self.current = [
            retype(value, self.typed(value.type, formats[produced])) if is_open else value
            for value, is_open, formats, (produced, _) in zip(
                selection.values, self.open, selection.formats, self.demand, strict=True
            )
        ]

        self.spell_alike()

    def spell_alike(self) -> None:
        """Gives the values of an equality constraint one type, where their Formats are only the same bytes."""
        for number, decision in enumerate(self.selection.decisions):
            defs = self.selection.problem.ops[number].results
            if not decision.point.is_equality or not defs:
                continue
            types = [self.current[value].type for value in defs]
            known = [type for value, type in zip(defs, types, strict=True) if not self.open[value]]
            if decision.point.declared is not None and not is_any(decision.point.declared):
                known.insert(0, decision.point.declared)
            for value in defs:
                if self.open[value]:
                    self.current[value] = retype(self.current[value], (*known, *types)[0])

    def typed(self, type: Attribute, fmt: Format) -> TensorType[Attribute]:
        """`type` with the encoding `fmt`, a Format of the selection (they outlive this object, so ids are keys)."""
        key = type, id(fmt)
        known = self._types.get(key)
        if known is None:
            known = self._types[key] = with_format(type, fmt)
        return known

    def is_padded(self, type: Attribute) -> bool:
        known = self._padded.get(type)
        if known is None:
            known = self._padded[type] = format_of(type) is not None and layout_of(type).is_padded
        return known

    def connect(self, op: Operation) -> None:
        """Replaces every operand of `op` by the value in the Format, and with the pads, that its choice needs."""
        for k, number, position in self.uses.get(op, ()):
            node = self.selection.problem.ops[number]
            wanted = node.choices[self.choices[number]].ins[position]
            value = self.supply(node.operands[position], wanted)
            if op.operands[k] is not value:
                op.operands[k] = value
            type = self.required(op, k, self.selection.decisions[number], number, position)
            if type is not None and type != op.operands[k].type:
                op.operands[k] = self.reorder(op.operands[k], type)

    def required(
        self, op: Operation, k: int, decision: Decision, number: int, position: int
    ) -> Attribute | None:
        """The type that operand `k` must have for an equality constraint, or for the pads that its op reads; or
        None."""
        source = op.operands[k]
        if decision.point.is_equality:
            defs = self.selection.problem.ops[number].results
            return self.current[defs[0]].type if defs else decision.point.declared
        if not self.is_padded(source.type):
            return None
        fmt = format_of(source.type)
        policy = needed_pad(op, k)
        if options_state_pads(op):
            option = decision.options[self.choices[number]]
            asked = [entry for entry in option.ins if entry is not None][position]
            policy = asked.pad if asked.pad != "undef" else None
        return None if policy is None or fmt is None else with_format(source.type, fmt.with_pad(policy))

    def supply(self, value: int, wanted: int) -> SSAValue:
        """`value` in format number `wanted`: itself, or the end of a chain of reorders."""
        produced, needed = self.demand[value]
        formats = self.selection.formats[value]
        reached = {produced: self.current[value]}
        if wanted == produced:
            return self.current[value]
        for start, end in tree_edges(self.selection.problem.values[value].reorder, produced, needed):
            if formats[end] == formats[start].with_pad("undef"):
                # A use that does not depend on the pads takes them as they are.
                reached[end] = reached[start]
            else:
                reached[end] = self.reorder(reached[start], self.typed(reached[start].type, formats[end]))
        return reached[wanted]

    def reorder(self, source: SSAValue, type: Attribute) -> SSAValue:
        if self.share and (source, type) in self.made:
            return self.made[source, type]
        op = ReorderOp(source, encoding_of(type))
        insert_after(source, op)
        self.made[source, type] = op.result
        return op.result

    def mark_option(self, op: Operation) -> None:
        """Records in attributes the name of the chosen option, for who generates code, and which buffers it shares, for
        who allocates them."""
        number = self.decisions[op]
        option = self.selection.decisions[number].options[self.choices[number]]
        op.attributes.pop(CHOSEN, None)  # of an earlier choice
        if option.name:
            op.attributes[CHOSEN] = StringAttr(option.name)
        if option.in_place:
            entries = [ArrayAttr([IntegerAttr(n, 64) for n in pair]) for pair in option.in_place]
            op.attributes[IN_PLACE] = ArrayAttr(entries)

    def claim_pads(self, op: Operation) -> None:
        """Sets the pad policies of the results of `op` to what it really leaves in their pads."""
        number = self.decisions[op]
        option = self.selection.decisions[number].options[self.choices[number]]
        for value, chosen in zip(self.selection.problem.ops[number].results, option.outs, strict=True):
            result = self.current[value]
            fmt = format_of(result.type)
            if not self.open[value] or fmt is None:
                continue
            if isinstance(op, ViewOp):
                fmt = _view_format(op, fmt)
            elif not self.is_padded(result.type) or isinstance(op, ReorderOp | nn.ConstantOp):
                continue
            elif options_state_pads(op):
                fmt = fmt.with_pad(chosen.pad)
            else:
                # What the op provides must not depend on what its result claims so far.
                result = retype(result, with_format(result.type, fmt.with_pad("undef")))
                held = provided_pad(op)
                policy: PadPolicy = "undef" if held is None else held
                fmt = fmt.with_pad(policy)
            self.current[value] = retype(result, with_format(result.type, fmt))


def _view_format(op: ViewOp, fmt: Format) -> Format:
    """The Format of the view, spelled as `fmt` where that says the same."""
    view = op.view(layout_of(op.input.type))
    spelled = fmt.with_pad(view.pad) if view.is_padded else fmt
    return spelled if cast_obstacle(view, spelled.bind(view.shape)) is None else view.format
