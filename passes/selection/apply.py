"""The rewriting that a choice asks for: types, and the reorders between what is made and what is needed.

Every value gets the Format it is produced in; its pad policy is what its op leaves there. A use that needs another
Format, or pads that hold something else, gets it from a reorder behind the definition, shared by all uses that need
the same. Which Format was decided elsewhere; nothing here weighs anything.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, format_of, is_any, is_tensor, layout_of, with_format
from layout_ir.dialects.layout.ops import cast_obstacle
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.format import Format, PadPolicy
from layout_ir.passes.rewriting import insert_after, needed_pad, provided_pad, retype, update_signatures
from layout_ir.passes.selection.build import Selection
from layout_ir.passes.selection.models import declared_results
from layout_ir.passes.selection.problem import tree_edges, value_demand


def apply(module: ModuleOp, selection: Selection, choices: tuple[int, ...], *, share: bool = True) -> None:
    """Rewrites `module` as `choices` say. Without `share` every use gets reorders of its own (the naive program)."""
    applier = _Applier(selection, choices, share)
    for number, op in enumerate(selection.ops):
        if op is not None:
            applier.connect(number, op)
            applier.claim_pads(op, selection.problem.ops[number].results)
    update_signatures(module)


class _Applier:
    def __init__(self, selection: Selection, choices: tuple[int, ...], share: bool):
        self.selection = selection
        self.choices = choices
        self.share = share
        self.demand = value_demand(selection.problem, choices)
        self.made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        self.open = [is_any(value.type) for value in selection.values]
        self.current = [
            retype(value, with_format(value.type, formats[produced])) if is_open else value
            for value, is_open, formats, (produced, _) in zip(
                selection.values, self.open, selection.formats, self.demand, strict=True
            )
        ]

    def connect(self, number: int, op: Operation) -> None:
        """Lets every operand of `op` be what its choice needs."""
        node = self.selection.problem.ops[number]
        wanted = iter(zip(node.operands, node.choices[self.choices[number]].ins, strict=True))
        declared = declared_results(op) if isinstance(op, ReturnOp) else None
        for position, operand in enumerate(op.operands):
            if not is_tensor(operand.type) or (declared is not None and is_any(declared[position])):
                continue
            value, fmt = next(wanted)
            op.operands[position] = self.supply(value, fmt)
            self.settle_pads(op, position, None if declared is None else declared[position])

    def settle_pads(self, op: Operation, position: int, declared: Attribute | None) -> None:
        """Adds a reorder that fills pads where `op` needs them to hold something that is not promised."""
        source = op.operands[position]
        policy = needed_pad(op, position)
        fmt = format_of(source.type)
        if declared is not None:
            type = declared
        elif policy is not None and fmt is not None:
            type = with_format(source.type, fmt.with_pad(policy))
        else:
            return
        if type != source.type:
            op.operands[position] = self.reorder(source, type)

    def supply(self, value: int, wanted: int) -> SSAValue:
        """`value` in format number `wanted`: itself, or the end of a chain of reorders."""
        produced, needed = self.demand[value]
        formats = self.selection.formats[value]
        reached = {produced: self.current[value]}
        if wanted == produced:
            return self.current[value]
        for start, end in tree_edges(self.selection.problem.values[value].reorder, produced, needed):
            reached[end] = self.reorder(reached[start], with_format(reached[start].type, formats[end]))
        return reached[wanted]

    def reorder(self, source: SSAValue, type: Attribute) -> SSAValue:
        if self.share and (source, type) in self.made:
            return self.made[source, type]
        op = ReorderOp(source, tensor_type(type).encoding)
        insert_after(source, op)
        self.made[source, type] = op.result
        return op.result

    def claim_pads(self, op: Operation, results: tuple[int, ...]) -> None:
        """Weakens the pad policy of what `op` makes to what it really leaves there."""
        for number in results:
            value = self.current[number]
            fmt = format_of(value.type)
            if not self.open[number] or fmt is None:
                continue
            if isinstance(op, ViewOp):
                fmt = _view_format(op, fmt)
            elif isinstance(op, ReorderOp | nn.ConstantOp) or not layout_of(value.type).is_padded:
                continue
            else:
                value = retype(value, with_format(value.type, fmt.with_pad("undef")))
                held = provided_pad(op)
                policy: PadPolicy = "undef" if held is None else held
                fmt = fmt.with_pad(policy)
            self.current[number] = retype(value, with_format(value.type, fmt))


def _view_format(op: ViewOp, fmt: Format) -> Format:
    """The Format of the view, spelled as `fmt` where that says the same."""
    view = op.view(layout_of(op.input.type))
    spelled = fmt.with_pad(view.pad) if view.is_padded else fmt
    return spelled if cast_obstacle(view, spelled.bind(view.shape)) is None else view.format
