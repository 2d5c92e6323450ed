"""Reshapes that only elementwise ops see go.

A convolution in row-major, a relu whose dims the program names in another order, a convolution: where all but one of
the dims have one position, both orders are the same memory, and what lies between is reshape, relu, reshape. An
elementwise op computes the same under every shape of its elements, so that it takes over the shape on the other side.

For a reshape, the ops that follow from it alone are found; they change their shape where fewer reshapes are left then,
which is the measure that gets smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from math import prod

from xdsl.dialects.builtin import ModuleOp, NoneAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, is_tensor
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.passes.rewriting import erase_dead

Shape = tuple[int, ...]


def remove_reshapes(module: ModuleOp) -> None:
    """Removes them in place, those between tensors without encodings."""
    for op in list(module.walk()):
        if isinstance(op, ReshapeOp) and op.parent is not None and op.is_bare:
            region = _Region(op.source_type.get_shape(), op.result_type.get_shape())
            region.grow(op)
            if region.saves():
                region.take_over()


@dataclass
class _Region:
    """Elementwise ops of shape `inner`, all of whose inputs are reshapes of tensors of shape `outer`, or one number."""

    outer: Shape
    inner: Shape
    ops: dict[Operation, nn.ElementwiseOp] = field(default_factory=dict[Operation, nn.ElementwiseOp])
    entries: list[ReshapeOp] = field(default_factory=list[ReshapeOp])

    def grow(self, entry: ReshapeOp) -> None:
        """Adds the ops that follow from `entry`."""
        known: set[SSAValue] = {entry.result}
        values: list[SSAValue] = [entry.result]
        while values:
            for use in list(values.pop().uses):
                op = use.operation
                if isinstance(op, nn.ElementwiseOp) and op not in self.ops and self._may_have(op, known):
                    self.ops[op] = op
                    known.add(op.result)
                    values.append(op.result)
        used = {operand for op in self.ops for operand in op.operands}
        self.entries = [
            value.owner for value in used if self._is_entry(value) and isinstance(value.owner, ReshapeOp)
        ]

    def _may_have(self, op: nn.ElementwiseOp, known: set[SSAValue]) -> bool:
        return _shape(op.result) == self.inner and all(
            operand in known or self._is_entry(operand) or self._is_number(operand) for operand in op.operands
        )

    def _is_entry(self, value: SSAValue) -> bool:
        op = value.owner
        return isinstance(op, ReshapeOp) and op.is_bare and op.source_type.get_shape() == self.outer

    def _is_number(self, value: SSAValue) -> bool:
        shape = _shape(value)
        return prod(shape) == 1 and len(shape) <= min(len(self.inner), len(self.outer))

    def _exits(self, op: nn.ElementwiseOp) -> list[Operation]:
        """The users of the result of `op` outside."""
        return [use.operation for use in op.result.uses if use.operation not in self.ops]

    def _goes_back(self, op: Operation) -> bool:
        return isinstance(op, ReshapeOp) and op.is_bare and op.result_type.get_shape() == self.outer

    def saves(self) -> bool:
        """Whether fewer reshapes are left when the ops have the outer shape."""
        gone = sum(all(use.operation in self.ops for use in entry.result.uses) for entry in self.entries)
        come = 0
        for op in self.ops.values():
            exits = self._exits(op)
            back = sum(map(self._goes_back, exits))
            gone += back
            come += back < len(exits)
        return gone > come

    def take_over(self) -> None:
        """Gives the ops the outer shape; who needs the inner one gets a reshape."""
        now: dict[SSAValue, SSAValue] = {entry.result: entry.input for entry in self.entries}
        for op in self._in_order():
            type = TensorType(tensor_type(op.result.type).element_type, self.outer)
            operands = [now.get(operand, operand) for operand in op.operands]
            new = op.create(
                operands=operands, result_types=[type], properties=op.properties, attributes=op.attributes
            )
            new.location = op.location
            new.result.name_hint = op.result.name_hint
            Rewriter.insert_op(new, InsertPoint.before(op))
            now[op.result] = new.result
        dead: list[Operation] = []
        for op in self.ops.values():
            value = now[op.result]
            exits = self._exits(op)
            for user in dict.fromkeys(filter(self._goes_back, exits)):
                value.name_hint = value.name_hint or user.results[0].name_hint
                user.results[0].replace_all_uses_with(value)
                dead.append(user)
            others = [user for user in exits if not self._goes_back(user)]
            if others:
                back = ReshapeOp(value, self.inner, NoneAttr())
                back.location = op.location
                Rewriter.insert_op(back, InsertPoint.before(op))
                op.result.replace_uses_with_if(back.result, lambda use: use.operation not in self.ops)
        erase_dead([*self.entries, *self._in_order(), *dead])

    def _in_order(self) -> list[nn.ElementwiseOp]:
        """The ops, each behind those whose results it uses."""
        before = {op: [x.owner for x in op.operands if isinstance(x.owner, Operation)] for op in self.ops}
        return [self.ops[op] for op in TopologicalSorter(before).static_order() if op in self.ops]


def _shape(value: SSAValue) -> Shape:
    return tensor_type(value.type).get_shape() if is_tensor(value.type) else (-1,)
