"""The rewriting that a choice asks for: types, and the reorders between what is made and what is needed.

Every value gets the Format it is produced in; its pad policy is what its op leaves there. A use that needs another
Format, or pads that hold something else, gets it from a reorder behind the definition, shared by all uses that need
the same. Which Format was decided elsewhere; nothing here weighs anything.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.pads import PadPolicy
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, format_of, is_any, layout_of, with_format
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import encoding_of
from layout_ir.passes.rewriting import insert_after, needed_pad, provided_pad, retype, update_signatures
from layout_ir.passes.selection.options.foreign.conform import conform
from layout_ir.passes.selection.options.in_place import ATTRIBUTE as IN_PLACE
from layout_ir.passes.selection.options.models import says_pads
from layout_ir.passes.selection.problem.problem import tree_edges, value_demand
from layout_ir.passes.selection.problem.tensors import OPTIONS
from layout_ir.passes.selection.translation.from_ir import Place, Selection


def apply(module: ModuleOp, selection: Selection, choices: tuple[int, ...], *, share: bool = True) -> None:
    """Rewrites `module` as `choices` say. Without `share` every use gets reorders of its own (the naive program)."""
    applier = _Applier(selection, choices, share)
    for op in list(module.walk()):
        applier.connect(op)
        if op in applier.places:
            applier.claim_pads(op)
            applier.mark_in_place(op)
            op.attributes.pop(OPTIONS, None)
    conform(list(applier.places))
    update_signatures(module)


class _Applier:
    def __init__(self, selection: Selection, choices: tuple[int, ...], share: bool):
        self.selection = selection
        self.choices = choices
        self.share = share
        self.demand = value_demand(selection.problem, choices)
        self.made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        # Types are few; making one and binding its layout is slow.
        self._types: dict[tuple[Attribute, int], TensorType[Attribute]] = {}
        self._padded: dict[Attribute, bool] = {}
        self.open = [is_any(value.type) for value in selection.values]
        # Per op: the uses that are decided (operand number, place, position in it), and the place it is itself.
        self.uses: dict[Operation, list[tuple[int, int, int]]] = {}
        self.places: dict[Operation, int] = {}
        for number, place in enumerate(selection.places):
            for position, (user, k) in enumerate(place.uses):
                self.uses.setdefault(user, []).append((k, number, position))
            if not place.site.is_slot:
                self.places[place.site.op] = number
        self.current = [
            retype(value, self.typed(value.type, formats[produced])) if is_open else value
            for value, is_open, formats, (produced, _) in zip(
                selection.values, self.open, selection.formats, self.demand, strict=True
            )
        ]

        self.spell_alike()

    def spell_alike(self) -> None:
        """Gives the values of a slot one type, where their Formats are only the same bytes."""
        for number, place in enumerate(self.selection.places):
            defs = self.selection.problem.ops[number].results
            if not place.site.is_slot or not defs:
                continue
            types = [self.current[value].type for value in defs]
            known = [type for value, type in zip(defs, types, strict=True) if not self.open[value]]
            if place.site.declared is not None and not is_any(place.site.declared):
                known.insert(0, place.site.declared)
            for value in defs:
                if self.open[value]:
                    self.current[value] = retype(self.current[value], (*known, *types)[0])

    def typed(self, type: Attribute, fmt: Format) -> TensorType[Attribute]:
        """`type` in one of the Formats of the selection, which live as long as this."""
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
        """Lets every operand of `op` be what the choices need."""
        for k, number, position in self.uses.get(op, ()):
            node = self.selection.problem.ops[number]
            wanted = node.choices[self.choices[number]].ins[position]
            value = self.supply(node.operands[position], wanted)
            if op.operands[k] is not value:
                op.operands[k] = value
            type = self.required(op, k, self.selection.places[number], number, position)
            if type is not None and type != op.operands[k].type:
                op.operands[k] = self.reorder(op.operands[k], type)

    def required(self, op: Operation, k: int, place: Place, number: int, position: int) -> Attribute | None:
        """The type that operand `k` must have beyond its Format: all of it in a slot, the pads an op reads."""
        source = op.operands[k]
        if place.site.is_slot:
            defs = self.selection.problem.ops[number].results
            return self.current[defs[0]].type if defs else place.site.declared
        if not self.is_padded(source.type):
            return None
        fmt = format_of(source.type)
        policy = needed_pad(op, k)
        if says_pads(op):
            option = place.options[self.choices[number]]
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
                # Whoever needs nothing of the pads takes them as they are.
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

    def mark_in_place(self, op: Operation) -> None:
        """Writes down which buffers the chosen option shares, for whoever allocates them."""
        number = self.places[op]
        pairs = self.selection.places[number].options[self.choices[number]].in_place
        if pairs:
            entries = [ArrayAttr([IntegerAttr(n, 64) for n in pair]) for pair in pairs]
            op.attributes[IN_PLACE] = ArrayAttr(entries)

    def claim_pads(self, op: Operation) -> None:
        """Weakens the pad policy of what `op` makes to what it really leaves there."""
        number = self.places[op]
        option = self.selection.places[number].options[self.choices[number]]
        for value, chosen in zip(self.selection.problem.ops[number].results, option.outs, strict=True):
            result = self.current[value]
            fmt = format_of(result.type)
            if not self.open[value] or fmt is None:
                continue
            if isinstance(op, ViewOp):
                fmt = _view_format(op, fmt)
            elif not self.is_padded(result.type) or isinstance(op, ReorderOp | nn.ConstantOp):
                continue
            elif says_pads(op):
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
