"""Keys of ops that are alike: what is derived for one of them holds for all.

What is derived for an op of another dialect follows from its class, attributes and types, from the scalars and shapes
that it takes, where these are constants, and from its regions. Two regions are alike if their ops are so, one by one,
and take the results of the same ops, the same arguments, or from outside equal constants or unknown values of one type.
"""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, Region, SSAValue

from layout_ir.dialects.layout import is_tensor
from layout_ir.foreign.movement import shape_values


def class_key(op: Operation) -> Hashable:
    """Equal for ops whose scalar operands and regions are alike."""
    scalars = tuple([_outer(value) for value in op.operands if not is_tensor(value.type)])
    return scalars, tuple([_region(region, {}) for region in op.regions])


def _region(region: Region, numbers: dict[SSAValue, int]) -> Hashable:
    """The key of a region. `numbers` has the values of the regions around it that it may use, and gets its own."""
    blocks = list(region.blocks)
    places = {block: k for k, block in enumerate(blocks)}
    for block in blocks:
        for value in (*block.args, *(result for op in block.ops for result in op.results)):
            numbers[value] = len(numbers)
    return tuple(
        [
            (
                tuple([arg.type for arg in block.args]),
                tuple([_operation(op, numbers, places) for op in block.ops]),
            )
            for block in blocks
        ]
    )


def _operation(op: Operation, numbers: dict[SSAValue, int], places: dict[Block, int]) -> Hashable:
    return (
        type(op),
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        tuple([numbers[value] if value in numbers else _outer(value) for value in op.operands]),
        tuple([result.type for result in op.results]),
        tuple([places.get(block) for block in op.successors]),
        tuple([_region(region, numbers) for region in op.regions]),
    )


def _outer(value: SSAValue) -> Hashable:
    """The constant that a value from outside is; its type alone where it is none."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and not is_tensor(value.type):
        return value.type, op.value
    return value.type, shape_values(value)
