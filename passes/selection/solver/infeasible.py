"""Why no choice is possible, in words: costs beyond what can be added up, or options that do not meet."""

from __future__ import annotations

from xdsl.ir import Operation

from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.dialects.layout import dtype_of
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_model import reorder_ns
from layout_ir.passes.selection.problem.problem import FORBIDDEN
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.passes.selection.problem.tensors import shape_of
from layout_ir.passes.selection.solver.solve import NO_CHOICE


def no_choice(selection: Selection) -> Exception:
    """The error for `selection`, which has no choice: PassError at the op to blame, or LayoutError if that is none."""
    for node, place in zip(selection.problem.ops, selection.places, strict=True):
        least = node.weight * min(choice.cost for choice in node.choices)
        if least >= FORBIDDEN:
            often = f", which runs {node.weight} times," if node.weight > 1 else ""
            return PassError(
                f"{name_of_op(place.site.op)}{often} costs {least} at least, and selection adds up costs "
                "below 2^56: its tensors are too large, or its options too dear",
                place.site.op,
            )
    for value, node, formats in zip(
        selection.values, selection.problem.values, selection.formats, strict=True
    ):
        layouts = [fmt.bind(shape_of(value)) for fmt in dict.fromkeys(formats)]
        dear = [
            cost
            for source in layouts
            for destination in layouts
            if (cost := node.weight * reorder_ns(source, destination, dtype_of(value.type))) >= FORBIDDEN
        ]
        if dear:
            owner = value.owner
            op = owner if isinstance(owner, Operation) else owner.parent_op()
            return PassError(
                f"a reorder of {value.type} costs {min(dear)}, and selection adds up costs below 2^56: "
                "the tensor is too large to be reordered, and its uses agree on no layout",
                op,
            )
    return LayoutError(NO_CHOICE)
