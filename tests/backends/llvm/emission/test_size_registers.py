"""Registers of symbolic sizes: compiled, they hold what the formulas say."""

from __future__ import annotations

import ctypes
from random import Random

from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.size_registers import SizeRegisters
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.symbolic.symint import Size
from tests.symbolic.test_symint import Formula, pair, random_formula


def test_code_agrees_with_ints_on_300_random_formulas():
    rng = Random(1)
    functions: list[str] = []
    formulas: list[tuple[str, Formula]] = []
    for number in range(300):
        shape_env, a, b = pair()
        leaves: list[tuple[Size, Formula]] = [(a, lambda e: e[0]), (b, lambda e: e[1]), (3, lambda e: 3)]
        x, f = random_formula(rng, rng.randint(1, 4), leaves)
        registers = SizeRegisters(shape_env)
        result = registers.operand(x)
        body = "\n".join(registers.lines)
        functions.append(f"define i64 @f{number}(ptr %extents) {{\n{body}\n  ret i64 {result}\n}}")
        formulas.append((f"f{number}", f))
    code = Code(module_text(functions, host()), host(), [name for name, _ in formulas])
    for name, f in formulas:
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address(name))
        for extents in ((20, 7), (1, 1), *((rng.randint(1, 90), rng.randint(1, 90)) for _ in range(20))):
            block = (ctypes.c_int64 * 2)(*extents)
            assert call(ctypes.addressof(block)) == f(extents)


def test_the_flag_of_the_guards_is_true_for_the_shapes_that_meet_them():
    shape_env, a, b = pair(20, 7)
    assert a * b >= 100
    assert a % 4 == 0
    assert not b > 9
    registers = SizeRegisters(shape_env)
    flag = registers.guards_hold()
    body = "\n".join([*registers.lines, f"  %all = zext i1 {flag} to i64"])
    function = f"define i64 @f(ptr %extents) {{\n{body}\n  ret i64 %all\n}}"
    code = Code(module_text([function], host()), host(), ["f"])
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address("f"))
    for extents in ((m, n) for m in range(1, 40) for n in range(1, 15)):
        block = (ctypes.c_int64 * 2)(*extents)
        wanted = extents[0] * extents[1] >= 100 and extents[0] % 4 == 0 and extents[1] <= 9
        assert call(ctypes.addressof(block)) == wanted == shape_env.guards_hold(extents)
