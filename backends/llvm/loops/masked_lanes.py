"""Loads and stores of some lanes of a vector, where the rest of it is outside of a row."""

from __future__ import annotations

from layout_ir.backends.llvm.emission.llvm_builder import Builder

_SHORT = {"float": "f32", "double": "f64"}


def masked_load(
    b: Builder, element: str, place: str, lanes: int, mask: str, align: int, others: str = "zeroinitializer"
) -> str:
    """A vector of `lanes` elements of that LLVM type, of which those lanes are read that are true in `mask`, a value of
    LLVM; the others are those of `others`."""
    vector = f"<{lanes} x {element}>"
    name = f"llvm.masked.load.v{lanes}{_SHORT.get(element, element)}.p0"
    return b.put(f"call {vector} @{name}(ptr {place}, i32 {align}, <{lanes} x i1> {mask}, {vector} {others})")


def masked_store(b: Builder, element: str, value: str, place: str, lanes: int, mask: str, align: int) -> None:
    """Stores the lanes that are true in `mask`."""
    name = f"llvm.masked.store.v{lanes}{_SHORT.get(element, element)}.p0"
    b.do(f"call void @{name}(<{lanes} x {element}> {value}, ptr {place}, i32 {align}, <{lanes} x i1> {mask})")


def load_leading(b: Builder, element: str, place: str, lanes: int, count: int) -> str:
    """A vector of `lanes` elements of that LLVM type, one of four bytes, of which the first `count`, or all, are read,
    the others 0."""
    if count >= lanes:
        return b.put(f"load <{lanes} x {element}>, ptr {place}, align 4")
    return masked_load(b, element, place, lanes, _leading(lanes, count), 4)


def store_leading(
    b: Builder, element: str, value: str, place: str, lanes: int, count: int, align: int
) -> None:
    """Stores the first `count` lanes, or all of them."""
    if count >= lanes:
        b.do(f"store <{lanes} x {element}> {value}, ptr {place}, align {align}")
        return
    masked_store(b, element, value, place, lanes, _leading(lanes, count), align)


def _leading(lanes: int, count: int) -> str:
    return f"<{', '.join(f'i1 {int(k < count)}' for k in range(lanes))}>"
