"""Large tensors are moved by compiled reorders, where there is a compiler of them.

A memory object needs none: tables of addresses move every tensor, only slower. So the compiler, which stands above the
arrays, is registered from outside: the package does so when it is asked for `layout_ir.Memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError

Row = tuple[Layout, NDArray[Any]]
"""A tensor and the buffer it lies in."""

Compiler = Callable[[Layout, Layout, str], Callable[[NDArray[Any], NDArray[Any]], None]]
"""Two layouts and an element type to a kernel `kernel(source, destination)`. Raises LayoutError where there is none."""

_compilers: list[Compiler] = []


def register_compiler(compiler: Compiler) -> None:
    """Moves are compiled by `compiler` first, and by those registered before where it has no kernel."""
    _compilers.insert(0, compiler)


def moved(source: Row | None, destination: Row | None, dtype: str) -> bool:
    """Copies the tensor, and writes pads, by a compiled reorder; False where there is none between these layouts."""
    if source is None or destination is None:
        return False
    for compiler in _compilers:
        try:
            kernel = compiler(source[0], destination[0], dtype)
        except LayoutError:
            continue
        kernel(source[1], destination[1])
        return True
    return False
