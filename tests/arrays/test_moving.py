"""Compiled moves of large tensors: who is asked for them, and what moves a tensor where nobody compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.arrays import memory, moving
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.errors import LayoutError

asked: list[str] = []


def refuses(source: Layout, destination: Layout, dtype: str) -> Any:
    asked.append("refuses")
    raise LayoutError("no kernel")


def by_addresses(source: Layout, destination: Layout, dtype: str) -> Any:
    asked.append("by_addresses")

    def kernel(src: NDArray[Any], dst: NDArray[Any]) -> None:
        dst.reshape(-1)[destination.addresses()] = src.reshape(-1)[source.addresses()]

    return kernel


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(moving, "_compilers", [])
    monkeypatch.setattr(memory, "_LARGE", 1)
    asked.clear()


def _moves() -> None:
    held = memory.Memory(TensorDesc((3, 16), "f32", "Ab2a"))
    values = np.arange(48, dtype=np.float32).reshape(3, 16)
    held.set(values)
    assert np.array_equal(held.numpy(), values)


def test_the_compiler_that_was_registered_last_is_asked_first():
    moving.register_compiler(refuses)
    moving.register_compiler(by_addresses)
    _moves()
    assert asked == ["by_addresses", "by_addresses"]


def test_a_compiler_without_a_kernel_leaves_the_move_to_the_next():
    moving.register_compiler(by_addresses)
    moving.register_compiler(refuses)
    _moves()
    assert asked == ["refuses", "by_addresses"] * 2


def test_negative_without_a_compiler_nothing_is_moved_but_by_addresses():
    layout = Format.from_tag("ab").bind((3, 16))
    row = np.zeros(48, np.float32)
    assert not moving.moved((layout, row), (layout, row), "f32")
    _moves()


def test_the_memory_of_the_package_moves_by_compiled_reorders(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("layout_ir.api.reordering.compile_reorder", by_addresses)
    monkeypatch.delattr(li, "Memory", raising=False)
    assert li.Memory is memory.Memory
    _moves()
    assert asked == ["by_addresses"] * 2
