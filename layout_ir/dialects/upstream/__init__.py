"""Ops of dialects that xDSL has only in part, in the forms of MLIR 22.

linalg_relayout.py      linalg.pack and linalg.unpack

`with_additions` adds them to xDSL's own dialect, which stays as it is for everyone else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Dialect, Operation

from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp, UnPackOp

ADDITIONS: dict[str, tuple[type[Operation], ...]] = {"linalg": (PackOp, UnPackOp)}
"""The ops that are added to a dialect, by its name; they take the place of an op that has the name already."""


def with_additions(name: str, load: Callable[[], Dialect]) -> Dialect:
    """The dialect that `load` returns and `name` names, with the ops of `ADDITIONS`, as a new object."""
    dialect = load()
    added = ADDITIONS.get(name, ())
    names = {op.name for op in added}
    kept = [op for op in dialect.operations if op.name not in names]
    return replace(dialect, _operations=[*kept, *added])


__all__ = ["ADDITIONS", "PackOp", "RelayoutOp", "UnPackOp", "with_additions"]
