"""Open numbers: what is known of them, what becomes a condition, and that both agree with plain numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.llvm.symbolic.guarding import size_oblivious, unguarded
from layout_ir.backends.llvm.symbolic.registers import Registers
from layout_ir.backends.llvm.symbolic.symint import ShapeEnv

_OPERATIONS: list[Callable[[Any, Any], Any]] = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y]
_WITH_NUMBERS: list[Callable[[Any, int], Any]] = [lambda x, k: x // k, lambda x, k: x % k, lambda x, k: x * k]
Formula = Callable[[Sequence[int]], int]


def _pair(a: int = 20, b: int = 7) -> tuple[ShapeEnv, Any, Any]:
    shape_env = ShapeEnv()
    return shape_env, shape_env.extent(0, "a", a), shape_env.extent(1, "b", b)


def _random(rng: Random, depth: int, leaves: list[tuple[Any, Formula]]) -> tuple[Any, Formula]:
    """A formula over `leaves`: pairs of an open number and a function of the extents."""
    if depth == 0:
        return rng.choice(leaves)
    x, f = _random(rng, depth - 1, leaves)
    if rng.random() < 0.4:
        k = rng.randint(1, 12)
        make = rng.choice(_WITH_NUMBERS)
        return make(x, k), lambda extents: make(f(extents), k)
    y, g = _random(rng, depth - 1, leaves)
    join = rng.choice(_OPERATIONS)
    return join(x, y), lambda extents: join(f(extents), g(extents))


def test_values_bounds_and_code_agree_with_plain_numbers_on_300_random_formulas():
    rng = Random(1)
    functions: list[str] = []
    formulas: list[Any] = []
    for number in range(300):
        shape_env, a, b = _pair()
        leaves: list[tuple[Any, Formula]] = [(a, lambda e: e[0]), (b, lambda e: e[1]), (3, lambda e: 3)]
        x, f = _random(rng, rng.randint(1, 4), leaves)
        if isinstance(x, int):
            continue
        registers = Registers(shape_env)
        result = registers.of(x.terms)
        body = "\n".join(registers.lines)
        functions.append(f"define i64 @f{number}(ptr %extents) {{\n{body}\n  ret i64 {result}\n}}")
        formulas.append((number, shape_env, x, f))
    code = Code(module_text(functions, host()), host(), [f"f{number}" for number, *_ in formulas])
    for number, shape_env, x, f in formulas:
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address(f"f{number}"))
        low, high = shape_env.least(x.terms), shape_env.most(x.terms)
        for extents in ((20, 7), (1, 1), *((rng.randint(1, 90), rng.randint(1, 90)) for _ in range(20))):
            wanted = f(extents)
            assert shape_env.value(x.terms, extents) == wanted
            assert low is None or low <= wanted, str(x)
            assert high is None or high >= wanted, str(x)
            block = (ctypes.c_int64 * 2)(*extents)
            assert call(ctypes.addressof(block)) == wanted
        assert x.value == f((20, 7))
    assert len(formulas) > 200


def test_what_holds_for_all_extents_is_no_condition():
    shape_env, a, b = _pair()
    assert a * b >= b
    assert a + 1 > a
    assert a * b - a * b == 0
    assert not a * b + a < 2
    assert divmod(a * 8 + 3, 8) == (a, 3)
    assert (a * 16 + 8 * b) % 8 == 0
    assert not shape_env.guards


def test_what_the_example_decides_is_a_condition():
    shape_env, a, b = _pair(20, 7)
    assert a >= 16
    assert b < 8
    assert a % 4 == 0
    assert shape_env.guards_hold((20, 7))
    assert shape_env.guards_hold((16, 1))
    assert not shape_env.guards_hold((15, 7))
    assert not shape_env.guards_hold((20, 8))
    assert not shape_env.guards_hold((21, 7))
    assert len(shape_env.guards) == 3
    # Known by now.
    assert a > 15
    assert b <= 7
    assert len(shape_env.guards) == 3


def test_equal_by_chance_is_different():
    shape_env, a, b = _pair(20, 20)
    assert a != b
    assert a != 20
    assert not shape_env.guards


def test_an_index_pins_the_number():
    shape_env, a, _ = _pair(3, 4)
    assert len(range(a)) == 3
    assert shape_env.guards_hold((3, 9))
    assert not shape_env.guards_hold((4, 4))
    assert a == 3


def test_generic_and_free_code_makes_no_conditions():
    shape_env, a, b = _pair(1, 7)
    assert size_oblivious(lambda: a > 1)()
    assert size_oblivious(lambda: a * b >= 100)()
    assert not unguarded(lambda: a > b)()
    assert unguarded(lambda: sorted([a, b, a * b], key=lambda x: x))()[0] is a
    assert not shape_env.guards
    assert not a > 1
    assert len(shape_env.guards) == 1


@pytest.mark.parametrize("extent, whole", [(24, True), (25, False)])
def test_a_split_extent_knows_its_blocks(extent: int, whole: bool):
    shape_env = ShapeEnv()
    x = shape_env.split(shape_env.extent(0, "c", extent), 8, whole=whole)
    number, rest = divmod(x, 8)
    blocks = -(-x // 8)
    assert (number.value, blocks.value) == (extent // 8, -(-extent // 8))
    assert (rest == 0) is whole
    assert (blocks * 8 == x) is whole
    assert blocks * 8 >= x
    assert [shape_env.guards_hold((k,)) for k in (8, 16, 17, 23)] == [whole, whole, not whole, not whole]
    assert len(shape_env.guards) == 1


def test_negative_numbers_of_two_plans_do_not_mix():
    _, a, _ = _pair()
    _, other, _ = _pair()
    assert a != other
    with pytest.raises(TypeError):
        _ = a + other
    with pytest.raises(TypeError):
        _ = a // 2.5
    with pytest.raises(ZeroDivisionError):
        _ = a // (a - 20)
