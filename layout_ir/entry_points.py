"""What other installed packages add, by entry points: `layout_ir.targets` and `layout_ir.ops`.

    [project.entry-points."layout_ir.targets"]
    npu = "npu_compiler.target:NPU"             # name of the target -> a Target, or a function that returns it

    [project.entry-points."layout_ir.ops"]
    npu = "npu_compiler.layouts:register"       # dialect -> a function that registers its ops, or a module that does

Both are looked up by name and loaded when they are first asked for: a target by who names it, ops by the first op of
their dialect. So an installed package costs nothing, and breaks nothing, where it is not used.

What packages add to all xDSL tools comes by xDSL's own entry points `xdsl.universe`: `multiverse`. Each look at entry
points reads the metadata of every installed package, which takes longer than parsing a small program, so that what was
found is kept: a package that is installed meanwhile is known to the next process.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError
from layout_ir.forking import loading

if TYPE_CHECKING:
    from xdsl.universe import Universe

TARGETS = "layout_ir.targets"
OPS = "layout_ir.ops"


@cache
def _found(group: str) -> dict[str, EntryPoint]:
    """The entry points of `group` by name; where two packages have one of a name, the first."""
    # Not reversed(): from Python 3.12 on, what is found is indexed by name.
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found


@cache
def multiverse() -> Universe:
    """The dialects, passes and targets of xDSL and of all packages that add some to it.

    Raises what xDSL raises where two packages have one of the same name, or one cannot be imported.
    """
    with loading:  # packages that add dialects are imported for their names
        from xdsl.universe import Universe

        return Universe.get_multiverse()


def entry_names(group: str) -> tuple[str, ...]:
    """The names of the entry points of `group`, none of which is loaded."""
    return tuple(sorted(_found(group)))


def load_entry(group: str, name: str) -> object:
    """What the entry point `name` of `group` stands for; None where there is none.

    Raises LayoutError, naming the package, where it cannot be loaded.
    """
    entry = _found(group).get(name)
    if entry is None:
        return None
    try:
        with loading:
            return entry.load()
    except Exception as error:
        raise _failed(entry, error) from error


def _failed(entry: EntryPoint, error: Exception) -> LayoutError:
    package = "an installed package" if entry.dist is None else f"package {entry.dist.name}"
    return LayoutError(
        f"{entry.group}: '{entry.name}' of {package} cannot be loaded: {entry.value}: {type(error).__name__}: {error}"
    )


# Ops -----------------------------------------------------------------------------------------------------------------

_loaded: set[str] = set()
_under_way: set[str] = set()


def load_ops(dialect: str) -> None:
    """Has the package that registers ops of `dialect` do so, if one is installed and has not yet.

    Raises LayoutError, naming the package, where it fails; it is then asked again the next time.
    """
    known = _found(OPS)
    if dialect not in known or dialect in _loaded:
        return
    with loading:  # held meanwhile, so that another thread does not go on without
        if dialect in _loaded or dialect in _under_way:
            return
        _under_way.add(dialect)
        try:
            register = load_entry(OPS, dialect)
            if callable(register):
                try:
                    register()
                except Exception as error:
                    raise _failed(known[dialect], error) from error
        finally:
            _under_way.discard(dialect)
        _loaded.add(dialect)
