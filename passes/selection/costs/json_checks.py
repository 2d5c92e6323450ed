"""The checks that files of costs share: files come from strangers, and what is wrong is named with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from layout_ir.errors import LayoutError


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of `pairs`, as `json.loads` takes it for `object_pairs_hook`. Raises LayoutError for a key that stands
    twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise LayoutError(f"key '{key}' stands twice in one object")
        found[key] = value
    return found


def object_at(data: Any, where: str, known: set[str]) -> Mapping[str, Any]:
    """`data`, which is an object with none but the `known` keys. Raises LayoutError, naming `where`, if it is not."""
    if not isinstance(data, dict):
        raise LayoutError(located(where, f"expected an object, found {type(data).__name__}"))
    entries = cast("dict[str, Any]", data)
    for key in entries:
        if key not in known:
            raise LayoutError(located(where, f"unknown key '{key}': the keys are {', '.join(sorted(known))}"))
    return entries


def list_at(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """The list under `key`, empty where there is none. Raises LayoutError, naming `where`, for anything else."""
    value = table.get(key, [])
    if not isinstance(value, list):
        raise LayoutError(located(where, f"{key} is no list but {type(value).__name__}"))
    return cast("list[Any]", value)


def located(where: str, message: str) -> str:
    """`message` behind the place that it is about; alone where `where` is empty."""
    return f"{where}: {message}" if where else message
