"""Variadic operands and results as IRDL takes them: in runs of one type.

IRDL gives all values of a variadic segment one type. So the definition of a variadic op has `MOST_RUNS` segments in
place of one, each for values of one type that follow each other, and the text of a program says how long they are, in
the attributes that MLIR has for it:

    "nn.concat"(%x, %x, %y) {axis = 1, operandSegmentSizes = array<i32: 2, 1, 0, 0, ...>}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, OptionalDef, VariadicDef

MOST_RUNS = 32
"""Segments that stand for a variadic one. Of more types in turn are operands only of nodes with large subgraphs."""

_DEFINED = ("kernel", "layout", "nn")
"""The dialects that have definitions. None of their variadic ops has regions."""

OPERAND_SIZES, RESULT_SIZES = "operandSegmentSizes", "resultSegmentSizes"
"""MLIR's names for the attributes with the lengths of segments."""


def has_runs(stated: Sequence[tuple[str, object]]) -> bool:
    """Whether definitions of operands, or of results, have one variadic segment and no other of unknown length."""
    unknown = [value for _, value in stated if isinstance(value, VariadicDef)]
    return len(unknown) == 1 and not isinstance(unknown[0], OptionalDef)


def segment_sizes(op: Operation) -> dict[str, Attribute]:
    """The attributes with which `op` prints for IRDL beside those that it has.

    Where its values have more than `MOST_RUNS` types in turn, there are as many numbers: mlir-opt then says so.
    """
    if op.dialect_name() not in _DEFINED or not isinstance(op, IRDLOperation):
        return {}
    stated = op.get_irdl_definition()
    sides = (
        (OPERAND_SIZES, stated.operands, op.operand_types),
        (RESULT_SIZES, stated.results, op.result_types),
    )
    return {name: _sizes(side, types) for name, side, types in sides if has_runs(side)}


def _sizes(stated: Sequence[tuple[str, object]], types: Sequence[Attribute]) -> DenseArrayBase:
    """How long the segments are: 1 for what is not variadic, and those that stand for what is."""
    before = next(k for k, (_, value) in enumerate(stated) if isinstance(value, VariadicDef))
    after = len(stated) - before - 1
    runs = [len(list(run)) for _, run in groupby(types[before : len(types) - after])]
    sizes = [1] * before + runs + [0] * (MOST_RUNS - len(runs)) + [1] * after
    return DenseArrayBase.from_list(i32, sizes)


def drop_segment_sizes(op: Operation) -> None:
    """Takes from `op`, as it was read, the attributes that `segment_sizes` would give it."""
    if OPERAND_SIZES in op.attributes or RESULT_SIZES in op.attributes:
        for name in segment_sizes(op):
            op.attributes.pop(name, None)
