"""The scale of an operand of a product goes to the smaller operand.

    matmul(a, b * c)                 becomes   matmul(a * c, b), where c is one number, and b larger than a
    matmul(a, transpose(b * c))      becomes   matmul(a * c, transpose(b)), likewise

and the other way round; a quotient as a product. Exporters write attention whose queries and keys each have the root of
the scale; with a cache, there are many more keys than queries. The measure: the elements that are scaled. Numbers far
from 1 stay where they are, so that nothing is beyond the range of f32 that was not; and weights stay as they are, which
are packed once, or stored as integers.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, is_any
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.passes.rewriting import erase_dead

_LARGEST = 1 << 16
"""Numbers between this and its inverse are moved."""


def move_operand_scales(module: ModuleOp) -> None:
    """Applies the rules above, in place, where layouts are open."""
    variable: set[SSAValue] = set()
    """What follows from an argument of the program."""
    for op in list(module.walk()):
        if op.regions or any(isinstance(v, BlockArgument) or v in variable for v in op.operands):
            variable.update(op.results)
        if isinstance(op, nn.MatmulOp) and is_any(op.result.type) and _is_f32(op):
            variable |= _moved(op, variable)
    erase_dead([op for op in module.walk() if isinstance(op, PermuteOp | nn.MulOp | nn.DivOp)])


def _is_f32(op: nn.MatmulOp) -> bool:
    return isinstance(tensor_type(op.result).element_type, Float32Type)


def _moved(op: nn.MatmulOp, variable: Set[SSAValue]) -> set[SSAValue]:
    """Moves the scale of the larger operand of a product to the smaller one, if that is `variable`; returns the new
    product."""
    operands = [op.a, op.b]
    sizes = [prod(shape_of(value)) for value in operands]
    large = int(sizes[1] > sizes[0])
    if sizes[0] == sizes[1]:
        return set()
    value, other = operands[large], operands[1 - large]
    if not (isinstance(other, BlockArgument) or other in variable):
        return set()
    permute = value.owner if isinstance(value.owner, PermuteOp) else None
    scaled = value if permute is None else permute.input
    scale = scaled.owner
    if not isinstance(scale, nn.MulOp | nn.DivOp) or not (value.has_one_use() and scaled.has_one_use()):
        return set()
    found = _scaled_by(scale)
    if found is None:
        return set()
    bare, number = found
    ops = InsertedOps(op)
    operands[large] = bare if permute is None else ops.insert(PermuteOp(bare, permute.ints("perm")))
    operands[1 - large] = ops.apply(type(scale), other, number)
    product = ops.apply(nn.MatmulOp, *operands)
    ops.replace(product)
    return {product}


def _scaled_by(op: nn.MulOp | nn.DivOp) -> tuple[SSAValue, SSAValue] | None:
    """What is scaled, and the number that scales it; None where that is no single one near 1."""
    pairs = [(op.operands[0], op.operands[1])]
    if isinstance(op, nn.MulOp):
        pairs.append((op.operands[1], op.operands[0]))
    for value, number in pairs:
        if shape_of(number) not in ((), (1,)) or shape_of(value) != shape_of(op.results[0]):
            continue
        elements = elements_of(number)
        if elements is not None and 1 / _LARGEST <= abs(float(elements.reshape(-1)[0])) <= _LARGEST:
            return value, number
    return None
