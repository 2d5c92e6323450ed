"""layout-open: let layouts be chosen in a program that says none.

Every static tensor without an encoding that an op of arith, linalg, math, nn, tensor or tosa makes becomes
`#layout.any`. Where such a tensor meets an op of another dialect, a call, a return or a region that is not ours, a
reorder gives it the type that it had: at the edges the program stays as it was.

    func.func @f(%x : tensor<4xf32>) -> tensor<4xf32> {
      %0 = layout.reorder %x : tensor<4xf32> -> tensor<4xf32, #layout.any>
      %1 = math.exp %0 : tensor<4xf32, #layout.any>
      %2 = layout.reorder %1 : tensor<4xf32, #layout.any> -> tensor<4xf32>
      func.return %2 : tensor<4xf32>
    }

An op is left alone as a whole where one of its tensors cannot have a layout: a dynamic extent, an element type that
layouts do not know, the encoding of another dialect. So is one that keeps its results in regions of tensors. A second
run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.argument_checks import check_flags, check_program
from layout_ir.dialects.layout import AnyAttr, ReorderOp, has_layout, is_any, is_tensor, with_format
from layout_ir.dialects.nn import NN
from layout_ir.passes.layout_pass import LayoutPass, errors_of_pass
from layout_ir.passes.rewriting import (
    holds_elements,
    insert_after,
    is_foreign_constant,
    retype,
    update_signatures,
)

OPENED = frozenset({"arith", "linalg", "math", "nn", "tensor", "tosa"})
"""The dialects whose tensors are opened."""

_NN_OPS = frozenset(NN.operations)
"""Ours: another package may have a dialect `nn` too."""


def open_layouts(module: ModuleOp, arguments: bool = False, results: bool = False) -> int:
    """Opens the layouts of `module` in place; returns the number of tensors that became `#layout.any`.

    With `arguments`, the arguments of functions with a body are opened too, with `results` what they return: their
    signatures then say `#layout.any`, and what is chosen for them is up to the callers. Reorders at the edges are not
    counted. Raises LayoutError where `module` is no module, and where the others are neither True nor False.
    """
    check_program(module)
    check_flags(arguments=arguments, results=results)
    with errors_of_pass(LayoutOpenPass.name, module):
        return _open(module, arguments, results)


def _open(module: ModuleOp, arguments: bool, results: bool) -> int:
    functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp) and op.body.blocks}
    opened = [op for op in module.walk() if _is_opened(op)]
    values = [result for op in opened for result in op.results if _is_plain(result.type)]
    if arguments:
        values += [arg for op in functions.values() for arg in op.args if _is_plain(arg.type)]
    now_any = {retype(value, with_format(value.type, AnyAttr())) for value in values}
    if arguments or results:
        now_any |= _retype_calls(module, functions, results)
    _insert_reorders(module, functions, results, now_any)
    update_signatures(module)
    return len(now_any)


def _is_plain(type: Attribute) -> bool:
    """Whether `type` is a tensor that may be given a layout and has none."""
    return has_layout(type) and isinstance(type.encoding, NoneAttr)


def _is_opened(op: Operation) -> bool:
    """Whether the tensors of `op` are opened, those that it takes and those that it makes."""
    if op.dialect_name() not in OPENED or not any(is_tensor(result.type) for result in op.results):
        return False
    if op.dialect_name() == NN.name and type(op) not in _NN_OPS:
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    if not all(has_layout(type) for type in types if is_tensor(type)):
        return False
    if is_foreign_constant(op):
        return holds_elements(op)
    return not any(_holds_tensors(block) for region in op.regions for block in region.blocks)


def _holds_tensors(block: Block) -> bool:
    """Whether tensors enter or leave `block`, so that its op passes them on."""
    ends = () if block.last_op is None else block.last_op.operands
    return any(is_tensor(value.type) for value in (*block.args, *ends))


def _retype_calls(module: ModuleOp, functions: dict[str, FuncOp], results: bool) -> set[SSAValue]:
    """Gives the results of calls the open types that the functions will return; returns these values."""
    found: set[SSAValue] = set()
    if not results:
        return found
    for op in list(module.walk()):
        if isinstance(op, CallOp) and op.callee.string_value() in functions:
            for result in op.results:
                if _is_plain(result.type):
                    found.add(retype(result, with_format(result.type, AnyAttr())))
    return found


def _insert_reorders(
    module: ModuleOp, functions: dict[str, FuncOp], results: bool, now_any: set[SSAValue]
) -> None:
    """Gives every op operands of the types that it takes, with one reorder per value and type.

    What was `#layout.any` before, and is not in `now_any`, is so to every op that takes it.
    """
    made: dict[tuple[SSAValue, bool], SSAValue] = {}
    for op in list(module.walk()):
        for k, wants_any in _wanted(op, functions, results):
            value = op.operands[k]
            if not (_is_plain(value.type) if wants_any else value in now_any):
                continue
            if (value, wants_any) not in made:
                reorder = ReorderOp(value, AnyAttr() if wants_any else None)
                insert_after(value, reorder)
                made[value, wants_any] = reorder.result
            op.operands[k] = made[value, wants_any]


def _wanted(op: Operation, functions: dict[str, FuncOp], results: bool) -> Iterator[tuple[int, bool]]:
    """The operands of `op`, by number, that have to be open (True) or of the type they had (False)."""
    if op.dialect_name() == "layout" or isinstance(op, FuncOp):
        return
    if isinstance(op, CallOp):
        callee = functions.get(op.callee.string_value())
        for k, value in enumerate(op.operands):
            yield k, callee is not None and is_tensor(value.type) and is_any(callee.args[k].type)
        return
    inside = results if isinstance(op, ReturnOp) else _is_opened(op)
    yield from ((k, inside) for k, value in enumerate(op.operands) if is_tensor(value.type))


@dataclass(frozen=True)
class LayoutOpenPass(LayoutPass):
    """Options: `arguments` and `results`, whether those of functions are opened too."""

    name = "layout-open"

    arguments: bool = False
    results: bool = False

    def rewrite(self, module: ModuleOp) -> None:
        """Opens the layouts."""
        _open(module, self.arguments, self.results)
