"""Checks of JSON objects name what is wrong and where."""

from __future__ import annotations

import json

import pytest

from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.json_checks import list_at, object_at, unique_keys


def test_what_is_right_comes_back() -> None:
    data = json.loads('{"a": [1]}', object_pairs_hook=unique_keys)
    assert list_at(object_at(data, "x", {"a", "b"}), "a", "x") == [1]
    assert list_at(data, "b", "x") == []


def test_negative_a_key_twice() -> None:
    with pytest.raises(LayoutError, match=r"^key 'a' stands twice in one object$"):
        json.loads('{"a": 1, "a": 1}', object_pairs_hook=unique_keys)


def test_negative_what_is_no_object_and_what_is_no_list() -> None:
    with pytest.raises(LayoutError, match=r"^x: expected an object, found list$"):
        object_at([], "x", set())
    with pytest.raises(LayoutError, match=r"^unknown key 'b': the keys are a$"):
        object_at({"b": 1}, "", {"a"})
    with pytest.raises(LayoutError, match=r"^x: a is no list but int$"):
        list_at({"a": 1}, "a", "x")
