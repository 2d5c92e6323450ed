"""The dialects, passes and targets of layout-ir for `xdsl-opt` and every other xDSL tool (entry point `xdsl.universe`).

Those tools load this module on every start, whether they use layout-ir or not, and an error in it would break them all.
So it imports nothing but `Universe` and the lazy registry, and where even that cannot be imported, or a name that it
would add is taken, it warns and leaves out what cannot be had:

* Two universes with a dialect, pass or target of one name stop every xDSL tool. Where another package, or xDSL itself,
  has one of ours, ours is left out here; `layout-opt` and `layout_ir.parse` still have it.
* A dependency that is missing, of a wrong release or broken, and an error in any other module of this package, is met
  by who asks for a pass or a dialect of ours, and by nobody else.

What cannot be helped: an error in this file or in `layout_ir/__init__.py`, which Python loads before anything here
runs, or a package of which only the metadata is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from xdsl.universe import XDSL_UNIVERSE, Universe

GROUP = "xdsl.universe"


class LayoutUniverse(Universe):
    """What the registry lists, without what has the name of something in another universe.

    Each of the three is worked out when it is first asked for: by then xDSL has loaded all universes, so that each may
    look at the others.
    """

    def __init__(self) -> None:
        super().__init__()  # with whatever else universes have in this release of xDSL, and nothing of ours in it
        for name in ("all_dialects", "all_passes", "all_targets"):
            del self.__dict__[name]
        self._asked = False

    @cached_property
    def all_dialects(self) -> dict[str, Callable[[], Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of a dialect -> what loads it."""
        return self._free("DIALECTS", "all_dialects", "dialect")

    @cached_property
    def all_passes(self) -> dict[str, Callable[[], Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of a pass -> what loads it."""
        return self._free("PASSES", "all_passes", "pass")

    @cached_property
    def all_targets(self) -> dict[str, Callable[[], Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of a target -> what loads it."""
        return self._free("TARGETS", "all_targets", "target")

    def _free(self, listed: str, kind: str, word: str) -> dict[str, Callable[[], Any]]:
        """What the registry lists under names that no other universe has."""
        try:
            from layout_ir import registry

            ours: dict[str, Callable[[], Any]] = getattr(registry, listed)
            taken = self._taken(kind)
            for name in sorted(taken.keys() & ours.keys()):
                _warn(
                    f"{taken[name]} has a {word} '{name}' too: that of layout-ir is left out of the tools of xDSL; "
                    "layout-opt has it"
                )
            return {name: load for name, load in ours.items() if name not in taken}
        except Exception as error:
            _warn(f"no {kind.removeprefix('all_')} of layout-ir: {type(error).__name__}: {error}")
            return {}

    def _taken(self, kind: str) -> dict[str, str]:
        """Names in the other universes, each with the package that has it."""
        if self._asked:
            return {}  # by one of them, which looks at the others too
        self._asked = True
        try:
            return {name: owner for owner, other in self._others().items() for name in getattr(other, kind)}
        finally:
            self._asked = False

    def _others(self) -> dict[str, Universe]:
        """The universes of xDSL and of other packages by name; those that cannot be loaded are xDSL's to report."""
        found = {"xDSL": XDSL_UNIVERSE}
        for entry in entry_points(group=GROUP):
            try:
                universe = entry.load()
            except Exception:
                continue
            if universe is not self and universe is not XDSL_UNIVERSE:
                found[entry.name if entry.dist is None else entry.dist.name] = universe
        return found


def _warn(message: str) -> None:
    warnings.warn(f"layout-ir: {message}", RuntimeWarning, stacklevel=2)


LAYOUT_UNIVERSE = LayoutUniverse()
