"""Rewriting, as all passes do it: values are retyped, ops inserted and replaced, locations and signatures kept.

Passes that take any program know ops of arith, cf, scf, tensor and tosa by their names. A program of `nn` has none of
them, and to import the dialects, only to ask for an instance, takes 0.06 s and 2 MB of a process that compiles one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

_LITERAL_OF = {"arith.constant": "value", "tosa.const": "values"}
"""The name of the property with the elements, by the name of an op that is a constant."""


def is_foreign_constant(op: object) -> bool:
    """Whether `op` is the constant of a dialect other than `nn`."""
    return isinstance(op, Operation) and op.name in _LITERAL_OF


def retype(value: SSAValue, type: Attribute) -> SSAValue:
    """Gives `value` another type; returns the value that now stands in its place."""
    if value.type == type:
        return value
    hint = value.name_hint
    new = Rewriter.replace_value_with_new_type(value, type)
    new.name_hint = hint
    owner = new.owner
    if isinstance(owner, Operation) and owner.name in _LITERAL_OF:
        _retype_literal(owner, type)
    return new


def _retype_literal(op: Operation, type: Attribute) -> None:
    """Gives the literal of `op` the type of the result, encoding included, which these ops repeat there."""
    name = _LITERAL_OF[op.name]
    literal = op.properties[name]
    if isinstance(literal, DenseIntOrFPElementsAttr):
        op.properties[name] = DenseIntOrFPElementsAttr(type, literal.data)  # pyright: ignore


def holds_elements(op: Operation) -> bool:
    """Whether a foreign constant holds its elements itself, and so can be retyped: not where a resource of the file has
    them."""
    return isinstance(op.properties[_LITERAL_OF[op.name]], DenseIntOrFPElementsAttr)


def insert_after(value: SSAValue, op: Operation) -> None:
    """Puts `op` right behind the definition of `value`, with its source location."""
    owner = value.owner
    if isinstance(owner, Block):
        point = InsertPoint.at_start(owner)
    else:
        op.location = owner.location
        point = InsertPoint.after(owner)
    Rewriter.insert_op(op, point)


def replace_op(op: Operation, value: SSAValue) -> None:
    """Lets `value` stand for the only result of `op`, and erases `op`."""
    result = op.results[0]
    if value.name_hint is None:
        value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def erase_dead(ops: Sequence[Operation]) -> bool:
    """Erases those of `ops`, last first, whose results nothing uses; whether there were any."""
    erased = False
    for op in reversed(ops):
        if op.parent is not None and op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
            erased = True
    return erased


def update_signatures(module: ModuleOp) -> None:
    """Makes the type of every function with a body that of its arguments and of what it returns."""
    for op in module.walk():
        if isinstance(op, FuncOp) and op.body.blocks:
            ends = [block.last_op for block in op.body.blocks]
            given = next((end.operand_types for end in ends if isinstance(end, ReturnOp)), None)
            outputs = op.function_type.outputs if given is None else given
            op.function_type = FunctionType.from_lists([arg.type for arg in op.args], list(outputs))
