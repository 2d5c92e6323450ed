"""Loads and stores of the first lanes of a vector, where the rest of it is outside of a row."""

from __future__ import annotations

from layout_ir.backends.llvm.emission.llvm_builder import Builder

_SHORT = {"float": "f32", "double": "f64"}


def load_leading(b: Builder, element: str, place: str, lanes: int, count: int, align: int) -> str:
    """A vector of `lanes` elements of that LLVM type, of which the first `count`, or all, are read, the others 0."""
    vector = f"<{lanes} x {element}>"
    if count >= lanes:
        return b.put(f"load {vector}, ptr {place}, align {align}")
    name = f"llvm.masked.load.v{lanes}{_SHORT.get(element, element)}.p0"
    return b.put(
        f"call {vector} @{name}(ptr {place}, i32 {align}, {_mask(lanes, count)}, {vector} zeroinitializer)"
    )


def store_leading(
    b: Builder, element: str, value: str, place: str, lanes: int, count: int, align: int
) -> None:
    """Stores the first `count` lanes, or all of them."""
    vector = f"<{lanes} x {element}>"
    if count >= lanes:
        b.do(f"store {vector} {value}, ptr {place}, align {align}")
        return
    name = f"llvm.masked.store.v{lanes}{_SHORT.get(element, element)}.p0"
    b.do(f"call void @{name}({vector} {value}, ptr {place}, i32 {align}, {_mask(lanes, count)})")


def _mask(lanes: int, count: int) -> str:
    return f"<{lanes} x i1> <{', '.join(f'i1 {int(k < count)}' for k in range(lanes))}>"
