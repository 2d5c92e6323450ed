"""Small graphs in words, and files of other compilers, for the tests of this folder."""

from __future__ import annotations

from layout_ir.algebra.format import Format
from layout_ir.execution_graphs.copies import Copy, explain_copies
from layout_ir.execution_graphs.execution_graph import ExecutionGraph, Node, Operand, Value

SHAPE = (1, 16, 6, 10)


def value(name: str, tag: str = "abcd", shape: tuple[int | None, ...] = SHAPE, dtype: str = "f32") -> Value:
    return Value(name, shape, dtype, Format.from_tag(tag), tag)


def graph(*lines: tuple[str, str, str, str], outputs: str = "") -> ExecutionGraph:
    """From (kind, operands, result, tag of the result): `input`, `constant`, `reorder`, or any op; values by name."""
    result = ExecutionGraph("a test")
    numbers: dict[str, int] = {}
    for kind, operands, name, tag in lines:
        inputs = [Operand(str(k), numbers[text]) for k, text in enumerate(operands.split())]
        numbers[name] = result.add_value(value(name, tag))
        node = Node(f"to_{name}", kind, "op", inputs, [numbers[name]])
        if kind in ("input", "constant"):
            node.role = "input" if kind == "input" else "constant"
        elif kind == "reorder":
            node.role, node.permutation = "copy", (0, 1, 2, 3)
        result.add_node(node)
    for name in outputs.split():
        result.add_node(Node(name, "output", "output", [Operand("0", numbers[name])]))
    return result


def explained(graph: ExecutionGraph) -> dict[str, Copy]:
    """The copies by the names of their nodes."""
    return {copy.name: copy for copy in explain_copies(graph)}
