"""What installed packages add is found by name, loaded once, when it is asked for, and named where it fails."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.universe import Universe

import layout_ir as li
import layout_ir.entry_points
from layout_ir.entry_points import OPS, TARGETS, entry_names, load_entry, load_ops
from layout_ir.errors import LayoutError
from layout_ir.interfaces import OpRegistry


def test_names_are_known_without_loading_anything(install: Callable[..., None]):
    install("1 / 0", targets="npu = theirs:NPU", ops="npu = theirs")
    assert "npu" in entry_names(TARGETS) and "npu" in entry_names(OPS)
    assert "theirs" not in sys.modules


def test_a_target_is_what_the_entry_names(install: Callable[..., None]):
    install("NPU = object()", targets="npu = theirs:NPU")
    found = load_entry(TARGETS, "npu")
    assert found is sys.modules["theirs"].NPU
    assert load_entry(TARGETS, "other") is None


def test_programs_and_contexts_do_not_look_packages_up_again(monkeypatch: pytest.MonkeyPatch):
    li.context()

    def again() -> Universe:
        raise AssertionError("looked up again")

    monkeypatch.setattr(Universe, "get_multiverse", again)
    li.context()
    li.parse("func.func @f() {\n  func.return\n}")


class FoundByName(tuple[EntryPoint, ...]):
    """What `importlib.metadata` finds from Python 3.12 on: a sequence of entry points that is indexed by name."""

    def __getitem__(self, name: Any) -> Any:
        raise KeyError(name)


def test_of_two_packages_with_one_name_the_first_is_taken(monkeypatch: pytest.MonkeyPatch):
    entries = FoundByName(EntryPoint("npu", value, TARGETS) for value in ("math:pi", "math:e"))
    monkeypatch.setattr(layout_ir.entry_points, "entry_points", lambda group: entries)  # pyright: ignore
    layout_ir.entry_points._found.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        assert entry_names(TARGETS) == ("npu",)
        assert load_entry(TARGETS, "npu") == math.pi
    finally:
        layout_ir.entry_points._found.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("entry", ["theirs:register", "theirs"])
def test_ops_are_registered_once_when_the_first_of_the_dialect_is_met(
    install: Callable[..., None], entry: str
):
    calls = "calls = []\ndef register(): calls.append(1)\n" + ("" if ":" in entry else "register()\n")
    install(calls, ops=f"npu = {entry}")
    registry = OpRegistry[str]()
    registry.find(UnregisteredOp.with_name("other.op").create())
    assert "theirs" not in sys.modules
    for _ in range(2):
        registry.find(UnregisteredOp.with_name("npu.op").create())
    assert sys.modules["theirs"].calls == [1]


def test_who_registers_may_ask_what_is_registered(install: Callable[..., None]):
    install(
        "from layout_ir.entry_points import load_ops\ndef register(): load_ops('npu')\n",
        ops="npu = theirs:register",
    )
    load_ops("npu")


@pytest.mark.parametrize(
    ("module", "entry", "reason"),
    [
        ("1 / 0", "theirs", "ZeroDivisionError: division by zero"),
        ("def register(): raise RuntimeError('no device')", "theirs:register", "RuntimeError: no device"),
        ("", "theirs:register", "AttributeError: .*register"),
        ("", "missing", "ModuleNotFoundError: No module named 'missing'"),
    ],
)
def test_negative_a_package_that_fails_is_named_each_time(
    install: Callable[..., None], module: str, entry: str, reason: str
):
    install(module, ops=f"npu = {entry}")
    for _ in range(2):
        with pytest.raises(
            LayoutError, match=f"layout_ir.ops: 'npu' of package theirs cannot be loaded: .*{reason}"
        ):
            load_ops("npu")
