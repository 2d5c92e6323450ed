"""What is emitted computes what Python computes, and what is known is not emitted at all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, fenced, shuffle
from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import dynamic_extent
from tests.backends.llvm.emission.bodies import run

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: a // b,
    "ceil": lambda a, b: -(-a // b),
}
NUMBERS = (0, 1, 2, 7, 64, 1 << 31)


@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_is_that_of_python(name: str):
    b = Builder()
    wanted: list[int] = []
    for x, y in product(NUMBERS, NUMBERS):
        if name in ("div", "ceil") and y == 0:
            continue
        register = b.put(f"add i64 0, {x}")
        values: list[Value] = [getattr(b, name)(register, y), getattr(b, name)(x, y)]
        if name not in ("div", "ceil"):
            values.append(getattr(b, name)(x, b.put(f"add i64 0, {y}")))
        for value in values:
            b.store("i64", b.operand(value), "%dst", 8 * len(wanted))
            wanted.append(OPERATIONS[name](x, y))
    found = np.zeros(len(wanted), np.int64)
    run(b, found, found)
    assert found.tolist() == wanted


def test_negative_what_is_known_is_not_emitted():
    b = Builder()
    assert [b.add(3, 4), b.sub(3, 4), b.mul(3, 4), b.min(3, 4), b.max(3, 4), b.ceil(9, 4)] == [
        7,
        -1,
        12,
        3,
        4,
        3,
    ]
    assert [
        b.add("%x", 0),
        b.add(0, "%x"),
        b.sub("%x", 0),
        b.mul("%x", 1),
        b.mul(1, "%x"),
        b.div("%x", 1),
    ] == ["%x"] * 6
    assert b.mul("%x", 0) == b.mul(0, "%x") == 0
    assert b.at("%p", 0) == "%p"
    assert shuffle(b, "i8", "%a", "%b", 4, [0, 1, 2, 3]) == "%a"
    assert b.lines == []


@pytest.mark.parametrize("low, high", [(0, 5), (3, 4), (2, 2), (4, 1), (-2, 2)])
def test_a_loop_runs_for_every_number_of_its_range(low: int, high: int):
    b = Builder()
    bounds: list[tuple[Value, Value]] = [(b.put(f"add i64 0, {low}"), b.put(f"add i64 0, {high}"))]
    if low < high:
        bounds.append((low, high))  # constants promise that there is an iteration
    for k, (first, last) in enumerate(bounds):
        with b.loop(first, last) as i, b.loop(0, 3) as j:
            at = b.at("%dst", b.mul(b.add(b.add(i, 2), 10 * k), 8))
            b.store("i64", b.put(f"add i64 {b.load('i64', at)}, {b.add(j, 1)}"), at)
    found = np.zeros(20, np.int64)
    run(b, found, found)
    one = [6 if low <= n - 2 < high else 0 for n in range(10)]
    assert found.tolist() == one + (one if len(bounds) == 2 else [0] * 10)


@pytest.mark.parametrize("number", [0, 1])
def test_either_runs_one_side(number: int):
    b = Builder()
    with b.either(b.put("icmp eq i64 %part, 1")) as otherwise:
        b.store("i64", "11", "%dst")
        with b.loop(0, 2) as i:
            b.store("i64", "12", "%dst", b.mul(b.add(i, 1), 8))
        otherwise()
        b.store("i64", "21", "%dst")
    found = np.zeros(3, np.int64)
    run(b, found, found, number)
    assert found.tolist() == ([11, 12, 12] if number else [21, 0, 0])


def test_constants_are_arrays_in_memory_each_kept_once():
    b = Builder()
    numbers, floats = (3, -5, 1 << 40), (0.5, -1e30)
    table, single, double = b.table(numbers), b.parameters(floats, "float"), b.parameters(floats, "double")
    pads = b.pads(4, 0x01020304)
    assert len({table, single, double, pads}) == 4 == len(b.globals)
    assert (b.table(numbers), b.pads(4, 0x01020304)) == (table, pads) and len(b.globals) == 4
    for k in range(3):
        b.store("i64", b.entry(table, b.put(f"add i64 0, {k}")), "%dst", 8 * k)
    b.store("<2 x float>", b.load("<2 x float>", single), "%dst", 24)
    b.store("<2 x double>", b.load("<2 x double>", double), "%dst", 32)
    b.store("<16 x i8>", b.load("<16 x i8>", pads), "%dst", 48)
    found = np.zeros(64, np.uint8)
    run(b, found, found)
    assert found[:24].view(np.int64).tolist() == list(numbers)
    assert found[24:32].view(np.float32).tolist() == [np.float32(x) for x in floats]
    assert found[32:48].view(np.float64).tolist() == list(floats)
    assert found[48:].view(np.uint32).tolist() == [0x01020304] * 4


@pytest.mark.parametrize("fences", [False, True])
def test_fences_and_prefetches_change_no_value(fences: bool):
    b = Builder(fences=fences)
    vectors = [b.load("<8 x i16>", "%src", 16 * k) for k in range(2)]
    b.prefetch(b.at("%src", 1 << 40))
    b.order()
    first, second, third = fenced(b, "i16", [*vectors, "poison"], 8)
    assert third == "poison" and ([first, second] == vectors) is not fences
    b.store("<16 x i16>", shuffle(b, "i16", first, second, 8, list(range(15, -1, -1))), "%dst")
    src, dst = np.arange(16, dtype=np.int16), np.zeros(16, np.int16)
    run(b, src, dst)
    assert dst.tolist() == src[::-1].tolist()


def test_negative_a_symbolic_size_needs_registers():
    shape_env = ShapeEnv()
    extent = dynamic_extent(shape_env, 0, "n", 5)
    assert Builder(sizes=SizeRegisters(shape_env)).operand(extent).startswith("%")
    with pytest.raises(AssertionError):
        Builder().operand(extent)
