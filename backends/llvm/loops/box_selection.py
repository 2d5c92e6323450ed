"""The selection of boxes of NonMaxSuppression, as machine code: `Selection` of `reference/non_max_suppression`.

Candidates come one after the other. One that is left is selected, and of the boxes beside it, which lie one behind the
other, a vector at a time is dropped. The order of operations is that of the reference, so that the ratios are the same
numbers. Of a box with an area that is no number above 0, all ratios are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE
from layout_ir.backends.llvm.loops.loop_calls import loop_function
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.elements.numpy_types import Array

_LEFT_OVER = 64
"""Bytes behind the rows of numbers of boxes, which vectors at their ends read."""


def select_boxes(boxes: Any, candidates: Array, most: int, limit: np.float32) -> Array:
    """Which of the candidates are selected, as `Selection` has it; `boxes` are its `SortedBoxes`."""
    rows = np.empty((5, len(boxes.areas) + _LEFT_OVER // 4), np.float32)
    for row, numbers in zip(
        rows, (boxes.top, boxes.left, boxes.bottom, boxes.right, boxes.areas), strict=True
    ):
        row[: len(numbers)] = numbers
    dropped = np.zeros(len(boxes.areas) + _LEFT_OVER, np.uint8)
    found = np.empty(len(candidates), np.int64)
    arrays = (*rows, boxes.first, boxes.last, np.ascontiguousarray(candidates, np.int64), dropped, found)
    arguments = np.zeros(len(arrays) + 4, np.uint64)
    arguments[: len(arrays)] = [array.ctypes.data for array in arrays]
    arguments[len(arrays) :] = [len(candidates), min(most, len(candidates)), int(limit.view(np.uint32)), 0]
    LOOP_SIGNATURE(_code(host()).address("loops"))(int(arguments.ctypes.data), 0, 0, 1)
    return found[: int(arguments[-1])]


@keeps_kernels
@lru_cache(maxsize=4)
def _code(machine: Machine) -> Code:
    text = _text(machine)
    return Code(text, machine, ("loops",), key=text)


_SIDES = ("top", "left", "bottom", "right", "areas")
"""Rows of numbers of boxes."""


def _text(machine: Machine) -> str:
    b = Builder()
    lanes = machine.vector // 4
    flags, floats, bytes_, places = (f"<{lanes} x {type_}>" for type_ in ("i1", "float", "i8", "i64"))
    names = (*_SIDES, "first", "last", "candidates", "dropped", "found")
    at = {name: b.load("ptr", "%arguments", 8 * k) for k, name in enumerate(names)}
    count, most = (b.load("i64", "%arguments", 8 * (len(names) + k)) for k in range(2))
    limit = spread(b, "float", b.load("float", "%arguments", 8 * (len(names) + 2)), lanes)
    total = b.local("total")
    total.set(0, 0)

    def is_positive(numbers: str) -> str:
        return b.put(f"fcmp ogt {floats} {numbers}, zeroinitializer")

    def both(one: str, other: str) -> str:
        return b.put(f"and {flags} {one}, {other}")

    def of(relation: str, one: str, other: str) -> str:
        """Per lane the number that is less (`olt`) or more (`ogt`), and the second of equal ones."""
        is_first = b.put(f"fcmp {relation} {floats} {one}, {other}")
        return b.put(f"select {flags} {is_first}, {floats} {one}, {floats} {other}")

    def or_zero(are: str, numbers: str) -> str:
        return b.put(f"select {flags} {are}, {floats} {numbers}, {floats} zeroinitializer")

    def drop(box: Value, end: str, own: Mapping[str, str], has_area: str) -> None:
        """Drops those of a vector of boxes, the first of which is `box`, that overlap the selected one too far."""
        near = {side: b.load(floats, at[side], b.mul(box, 4)) for side in _SIDES}

        def overlap(low: str, high: str) -> str:
            """The length of a side of the intersection, at least 0."""
            upper, lower = of("olt", near[high], own[high]), of("ogt", near[low], own[low])
            length = b.put(f"fsub {floats} {upper}, {lower}")
            return or_zero(is_positive(length), length)

        intersection = b.put(f"fmul {floats} {overlap('top', 'bottom')}, {overlap('left', 'right')}")
        sum_ = b.put(f"fadd {floats} {near['areas']}, {own['areas']}")
        union = b.put(f"fsub {floats} {sum_}, {intersection}")
        ratio = b.put(f"fdiv {floats} {intersection}, {union}")
        is_known = both(both(is_positive(intersection), is_positive(near["areas"])), is_positive(union))
        known = or_zero(both(is_known, has_area), ratio)
        is_above = b.put(f"fcmp ogt {floats} {known}, {limit}")
        steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
        which = b.put(f"add {places} {spread(b, 'i64', b.operand(box), lanes)}, <{steps}>")
        is_inside = b.put(f"icmp slt {places} {which}, {spread(b, 'i64', end, lanes)}")
        dropped = b.put(f"zext {flags} {both(is_above, is_inside)} to {bytes_}")
        before = b.load(bytes_, at["dropped"], box)
        b.store(bytes_, b.put(f"or {bytes_} {before}, {dropped}"), at["dropped"], box)

    def select(candidate: Value, place: str) -> None:
        """Notes a candidate, which is box `place`, and drops those that overlap it too far."""
        number = total.get(0)
        b.store("i64", b.operand(candidate), at["found"], b.mul(number, 8))
        total.set(0, b.add(number, 1))
        begin, end = (b.load("i64", at[name], b.mul(place, 8)) for name in ("first", "last"))
        own = {side: spread(b, "float", b.load("float", at[side], b.mul(place, 4)), lanes) for side in _SIDES}
        has_area = is_positive(own["areas"])
        beside = b.max(b.sub(end, begin), 0)  # a box without an extent has its end in front of its begin
        with b.loop(0, b.ceil(beside, lanes)) as vector:
            drop(b.add(begin, b.mul(vector, lanes)), end, own, has_area)

    with b.loop(0, count) as candidate, b.when(b.compare("slt", total.get(0), most)):
        place = b.load("i64", at["candidates"], b.mul(candidate, 8))
        with b.when(b.put(f"icmp eq i8 {b.load('i8', at['dropped'], place)}, 0")):
            select(candidate, place)
    b.store("i64", total.get(0), "%arguments", 8 * (len(names) + 3))
    return f'target triple = "{machine.triple}"\n{loop_function("loops", b, machine)}\n'
