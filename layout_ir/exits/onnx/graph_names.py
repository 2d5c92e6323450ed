"""Names of values and nodes in a graph: those of the model that came in, else those of the program, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout.layout_op import LayoutDialectOp
from layout_ir.dialects.nn.model_names import name_hint, names_at, names_in
from layout_ir.errors import LayoutError


class GraphNames:
    """Gives out names that are taken by nothing else; `taken` are those in subgraphs."""

    def __init__(self, taken: Iterable[str]):
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def take(self, name: str) -> str | None:
        """`name`, from now on taken; None where it is taken already."""
        if name in self._taken:
            return None
        self._taken.add(name)
        return name

    def fresh(self, name: str) -> str:
        """`name`, with a number behind it where it is taken."""
        while (found := self.take(self._numbered(name))) is None:
            pass
        return found

    def _numbered(self, name: str) -> str:
        count = self._counts.get(name, -1) + 1
        self._counts[name] = count
        return f"{name}_{count}" if count else name


def names_of_signature(function: FuncOp, names: GraphNames, results: Sequence[SSAValue]) -> list[list[str]]:
    """The names of the graph's inputs, and of its outputs, which are `results`.

    Raises LayoutError where the program gives a name to two of them; an output may have the name of the input that it
    is.
    """
    block = function.body.blocks[0]
    given = names_in(_dictionaries(function.arg_attrs), len(block.args))
    _check(given, "arguments")
    inputs = [name and names.take(name) for name in given]
    ins = [
        name or names.fresh(argument.name_hint or f"arg{number}")
        for number, (name, argument) in enumerate(zip(inputs, block.args, strict=True))
    ]
    known: dict[SSAValue, str] = dict(zip(block.args, ins, strict=True))
    given = names_in(_dictionaries(function.res_attrs), len(results))
    _check(given, "results")
    outputs: list[str | None] = []
    for name, value in zip(given, results, strict=True):
        if name and known.get(value) != name and names.take(name) is None:
            raise LayoutError(
                f"the name '{name}' is that of an argument and of a result that is another value"
            )
        outputs.append(name)
    outs = [
        name or names.fresh((value not in known and value.name_hint) or f"result{number}")
        for number, (name, value) in enumerate(zip(outputs, results, strict=True))
    ]
    return [ins, outs]


def _dictionaries(attributes: object) -> ArrayAttr[DictionaryAttr] | None:
    return attributes if isinstance(attributes, ArrayAttr) else None  # pyright: ignore[reportUnknownVariableType]


def _check(names: Sequence[str | None], kind: str) -> None:
    stated = [name for name in names if name]
    for name in stated:
        if stated.count(name) > 1:
            raise LayoutError(f"the name '{name}' is that of two {kind}")


def name_of_value(value: SSAValue, fallback: str) -> str:
    """The name of a value in the model that it came from, else its name in the program, else `fallback`."""
    hint, owner = value.name_hint, value.owner
    if isinstance(owner, Operation) and isinstance(value, OpResult):
        names = names_at(owner)
        if isinstance(owner, nn.ConstantOp) and names and names[0]:
            return names[0]
        name = names[1 + value.index] if len(names) > 1 + value.index else ""
        # The value of another layout has the location too, but it is another value, and has no name of its own.
        if name and hint is not None and SSAValue.extract_valid_name(name_hint(name)) == hint:
            return name
    return hint or fallback


def names_of_nodes(block: Block, names: GraphNames) -> dict[Operation, str]:
    """The names of the nodes that ops of `block` stand for, where they have one. A node that became several ops leaves
    its name to the first that is no view."""
    named = [op for op in block.ops if names_at(op) and names_at(op)[0]]
    named.sort(key=lambda op: isinstance(op, LayoutDialectOp))
    return {op: names.fresh(names_at(op)[0]) for op in named if not isinstance(op, nn.ConstantOp)}
