"""What a certificate has in which place: looked at where reading one failed, to say which place it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_OPTION = ([int], [int], int)
"""Formats of operands and of results, cost."""

_MESSAGE = (int, int, [int], [int])

_PROOF: dict[str, Any] = {"messages": [_MESSAGE], "drop?": [(int, int)], "split?": int}
_PROOF.update({"cases?": [_PROOF], "then?": _PROOF})

SCHEMA: dict[str, Any] = {
    "problem": {
        "ops": [{"operands": [int], "results": [int], "weight": int, "choices": [_OPTION]}],
        "values": [{"weight": int, "reorder": [[int]]}],
    },
    "maps?": [(int, [int])],
    "sets": [(int, int, [int], ...)],
    "clusters": [{"scope": [int], "factors": [(str, int, int)]}],
    "messages": [_MESSAGE],
    "proofs": [{"clusters": [int], "root": _PROOF}],
    "scale": int,
    "choices": [int],
}
"""A type, a list of one schema, a list with a schema for each entry (behind an ellipsis, anything), or an object whose
keys may be absent where they end in `?`."""


def fault(node: Any, schema: Any = SCHEMA, where: str = "") -> str | None:
    """The first place in which `node` is not as in `schema`, and what is expected there; None where there is none."""
    if isinstance(schema, type):
        return (
            None if type(node) is schema else _wrong(node, where, "a number" if schema is int else "a word")
        )
    if isinstance(schema, dict):
        return _fault_in_object(node, cast("Mapping[str, Any]", schema), where)
    if not isinstance(node, list):
        return _wrong(node, where, "a list")
    entries = cast("list[Any]", node)
    if isinstance(schema, list):
        parts = cast("list[Any]", schema) * len(entries)
    else:
        parts = [part for part in cast("tuple[Any, ...]", schema) if part is not ...]
        if len(entries) < len(parts) or (len(entries) > len(parts) and ... not in schema):
            return _wrong(node, where, f"a list of {len(parts)}")
    found = (
        fault(entry, part, f"{where}[{k}]")
        for k, (entry, part) in enumerate(zip(entries, parts, strict=False))
    )
    return next((each for each in found if each is not None), None)


def _fault_in_object(node: Any, schema: Mapping[str, Any], where: str) -> str | None:
    if not isinstance(node, dict):
        return _wrong(node, where, "an object")
    entries = cast("dict[str, Any]", node)
    for name, part in schema.items():
        key = name.removesuffix("?")
        place = f"{where}.{key}" if where else key
        if key in entries:
            found = fault(entries[key], part, place)
            if found is not None:
                return found
        elif key == name:
            return f"{place} is missing"
    return None


def _wrong(node: Any, where: str, expected: str) -> str:
    text = repr(node)
    return f"{where} = {text if len(text) <= 40 else f'{text[:40]}...'} is not {expected}"
