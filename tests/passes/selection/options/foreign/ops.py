"""Single ops of other dialects, on tensors of 17 channels."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from layout_ir.foreign.structured import Structured, structured
from tests.programs import parse

ID = "affine_map<(a, b, c, d) -> (a, b, c, d)>"


def generic(
    body: str,
    result: str,
    type: str,
    ins: Sequence[str],
    *,
    element: str = "f32",
    of: Sequence[tuple[str, str]] = (),
    yields: str = "%m",
) -> str:
    """A parallel loop over four dims: `body` computes %m from %a, %b, ..., one element of each operand.

    `of` are the maps and types of operands (default: those of the result).
    """
    maps, types = zip(*(of or [(ID, type)] * len(ins)), strict=True)
    elements = ", ".join(f"%{letter} : {element}" for letter in "abcd"[: len(ins) + 1])
    kinds = ", ".join(['"parallel"'] * 4)
    return f"""
  %e = tensor.empty() : {type}
  {result} = linalg.generic {{indexing_maps = [{", ".join((*maps, ID))}], iterator_types = [{kinds}]}}
      ins({", ".join(ins)} : {", ".join(types)}) outs(%e : {type}) {{
  ^bb0({elements}):
    {body}
    linalg.yield {yields} : {element}
  }} -> {type}"""


def blocked_op(text: str, pad: str = "zero", count: int = 1, element: str = "f32") -> Operation:
    """The last op of `text`, where %0 and the like are of TYPE: blocked, its pads hold `pad`."""
    type = f"tensor<1x17x5x4x{element}, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = {pad}>>"
    args = ", ".join(f"%{k} : {type}" for k in range(count))
    module = parse(f"func.func @main({args}) {{\n{text.replace('TYPE', type)}\n func.return }}")
    (func,) = module.ops
    return [op for op in func.regions[0].block.ops if op.results][-1]


def the_op(name: str, text: str) -> Operation:
    """The only op called `name` of a program."""
    (op,) = [op for op in parse(text).walk() if op.name == name]
    return op


def structured_of(op: Operation) -> Structured:
    s = structured(op)
    assert s is not None
    return s
