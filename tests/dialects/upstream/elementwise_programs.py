"""Programs of one elementwise op, on scalars, tensors and vectors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

_SHAPES = ("{}", "tensor<3x4x{}>", "tensor<?x{}>", "vector<4x{}>")


def one_op(body: str, types: Sequence[str], result: str) -> str:
    """A function @f of arguments %a, %b and so on of these types that returns what the op `body` gives."""
    arguments = ", ".join(f"%{name} : {type}" for name, type in zip("abc", types, strict=False))
    return f"func.func @f({arguments}) -> {result} {{\n  %r = {body}\n  return %r : {result}\n}}\n"


def elementwise_programs(ops: Iterable[tuple[str, Sequence[str], str]]) -> list[str]:
    """Per op and kind of type a function: an op has its text and the element types of its operands and result.

    In the text `: A` stands for the type of the first operand, and `to R` for that of the result.
    """
    programs: list[str] = []
    for (op, elements, result), shape in itertools.product(ops, _SHAPES):
        types = [shape.format(element) for element in elements]
        body = op.replace(": A", f": {types[0]}").replace("to R", f"to {shape.format(result)}")
        programs.append(one_op(body, types, shape.format(result)))
    return programs


def as_one(programs: Sequence[str]) -> str:
    """Programs of a function @f each as one program of functions @f0, @f1 and so on."""
    return "".join(program.replace("@f", f"@f{number}") for number, program in enumerate(programs))
