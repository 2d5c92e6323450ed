"""The rooms of selection import one way: from what is said of a program down to costs and options."""

from __future__ import annotations

import pytest

from layout_ir.passes import selection
from tests.source_files import FILES, imported

FOLDER = f"{selection.__name__}."
ROOMS = ("translation", "pads", "problem", "options", "costs")
"""The highest first, as the docstring of the package lists them."""


def _room(module: str) -> str | None:
    own = module.removeprefix(FOLDER)
    return None if own == module else own.partition(".")[0]


def test_the_package_names_its_rooms_in_order() -> None:
    assert selection.__doc__ is not None
    listed = [line.split("/")[0] for line in selection.__doc__.splitlines() if "/  " in line[:16]]
    assert tuple(listed) == ROOMS
    assert {_room(module) for module in FILES} - {None} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_itself_and_those_below(room: str) -> None:
    seen = {_room(other) for module in FILES if _room(module) == room for other in imported(module)}
    assert seen - {None} <= set(ROOMS[ROOMS.index(room) :])
