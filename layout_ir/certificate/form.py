"""What a certificate has in which place: looked at where reading one failed, to say which place it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_OPTION = ([int], [int], int)
"""Formats of operands and of results, cost."""

_MESSAGE = (int, int, [int], [int])

_PROOF: dict[str, Any] = {"messages": [_MESSAGE], "drop?": [(int, int)], "split?": int}
_PROOF |= {"cases?": [_PROOF], "then?": _PROOF}

FORM: dict[str, Any] = {
    "problem": {
        "ops": [{"operands": [int], "results": [int], "weight": int, "choices": [_OPTION]}],
        "values": [{"weight": int, "reorder": [[int]]}],
    },
    "sets": [(int, int, [int], ...)],
    "clusters": [{"scope": [int], "factors": [(str, int, int)]}],
    "messages": [_MESSAGE],
    "proofs": [{"clusters": [int], "root": _PROOF}],
    "scale": int,
    "choices": [int],
}
"""A type, a list of one form, a list of these forms (behind an ellipsis, of anything), or an object whose keys may be
absent where they end in `?`."""


def fault(node: Any, form: Any = FORM, where: str = "") -> str | None:
    """The first place in which `node` is not of this form, and what is expected there; None where there is none."""
    if isinstance(form, type):
        return None if type(node) is form else _wrong(node, where, "a number" if form is int else "a word")
    if isinstance(form, dict):
        return _fault_in_object(node, cast("Mapping[str, Any]", form), where)
    if not isinstance(node, list):
        return _wrong(node, where, "a list")
    entries = cast("list[Any]", node)
    if isinstance(form, list):
        forms = cast("list[Any]", form) * len(entries)
    else:
        forms = [each for each in cast("tuple[Any, ...]", form) if each is not ...]
        if len(entries) < len(forms) or (len(entries) > len(forms) and ... not in form):
            return _wrong(node, where, f"a list of {len(forms)}")
    found = (
        fault(entry, each, f"{where}[{k}]")
        for k, (entry, each) in enumerate(zip(entries, forms, strict=False))
    )
    return next((each for each in found if each is not None), None)


def _fault_in_object(node: Any, form: Mapping[str, Any], where: str) -> str | None:
    if not isinstance(node, dict):
        return _wrong(node, where, "an object")
    entries = cast("dict[str, Any]", node)
    for name, each in form.items():
        key = name.removesuffix("?")
        place = f"{where}.{key}" if where else key
        if key in entries:
            found = fault(entries[key], each, place)
            if found is not None:
                return found
        elif key == name:
            return f"{place} is missing"
    return None


def _wrong(node: Any, where: str, expected: str) -> str:
    text = repr(node)
    return f"{where} = {text if len(text) <= 40 else f'{text[:40]}...'} is not {expected}"
