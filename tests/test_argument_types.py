"""Which argument a failed call was given in a wrong type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from layout_ir.argument_types import wrong_argument

if TYPE_CHECKING:
    from layout_ir import Layout


def called(
    count: int = 0,
    factor: float = 0,
    flag: bool = False,
    name: str | None = None,
    shape: Sequence[int] = (),
    named: Mapping[str, int] | None = None,
    form: Literal["a", "b"] = "a",
    path: str | Path = "",
    pair: tuple[int, ...] | str = (),
    anything: Any = None,
    unknown: Layout | None = None,
    work: Callable[[], int] | None = None,
    **more: int,
) -> None: ...


RIGHT: list[dict[str, object]] = [
    {},
    {"count": np.int64(3), "factor": 3, "flag": np.True_},
    {"count": True, "factor": np.float32(1), "flag": 1},
    {"name": None, "shape": [np.int32(1), 2], "path": Path()},
    {"shape": np.array([1, 2]), "named": {"a": 1}, "form": "c"},
    {"shape": range(3), "pair": "text", "anything": object(), "unknown": object(), "work": len},
    {"other": "not judged"},
]


@pytest.mark.parametrize("given", RIGHT)
def test_what_can_stand_for_a_type_is_of_it(given: dict[str, object]):
    assert wrong_argument(called, (), given) is None


WRONG: list[tuple[str, object, str]] = [
    ("count", "3", "count"),
    ("count", 1.5, "count"),
    ("count", None, "count"),
    ("count", np.zeros(2, int), "count"),
    ("factor", "1", "factor"),
    ("factor", 1j, "factor"),
    ("flag", "yes", "flag"),
    ("flag", np.zeros(3), "flag"),
    ("name", b"x", "name"),
    ("shape", 3, "shape"),
    ("shape", "ab", "shape"),
    ("shape", {"a": 1}, "shape"),
    ("shape", iter([1]), "shape"),
    ("shape", [1, 2.5], "shape[1]"),
    ("shape", np.array([0.5]), "shape[0]"),
    ("named", [("a", 1)], "named"),
    ("form", 3, "form"),
    ("path", 3, "path"),
]


@pytest.mark.parametrize(("name", "value", "place"), WRONG)
def test_negative_what_is_of_another_type_is_named(name: str, value: object, place: str):
    found = wrong_argument(called, (), {name: value})
    assert found is not None
    assert found[0] == place
    assert found[2] is value or "[" in place


@dataclass
class Record:
    """A class whose constructor checks its fields afterwards."""

    size: int
    name: str = ""

    def __post_init__(self) -> None: ...


def test_fields_of_a_dataclass_are_arguments_of_its_constructor():
    assert wrong_argument(Record.__post_init__, (Record(3),), {}) is None
    wrong = Record("3")  # pyright: ignore[reportArgumentType]
    assert wrong_argument(Record.__post_init__, (wrong,), {}) == ("size", "int", "3")
