"""Products of few rows, beside NumPy and the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.machine.machine import PAGE, host
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.plan_steps import Owner, PrimitiveStep
from layout_ir.backends.onednn.primitives import PrimitiveDescriptor, Request
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers
from tests.seeds import seeds

pytestmark = needs_library

MOST_ROWS = 2 * host().vector // 4


def _reads_as_it_lies() -> bool:
    lib = library()
    x, w, y = (descriptors.row_major(lib, shape) for shape in ((4, 64), (64, 64), (4, 64)))
    product = PrimitiveDescriptor(lib, Request("matmul", (x, w, None, y)))
    packed = descriptors.any_format(lib, (64, 64))
    inner = PrimitiveDescriptor(lib, Request("inner_product_forward", (96, x, packed, None, y)))
    return product.implementation.startswith("gemm") and inner.implementation.startswith("brgemm")


def skip_unless_packed() -> None:
    """Skips a test of what is done where products read a constant matrix as it lies, and inner products pack it."""
    if not _reads_as_it_lies():
        pytest.skip("on this CPU the library's products pack constants themselves, or no inner product does")


def primitives(executable: li.Executable) -> list[str]:
    """The names of the primitives of an executable."""
    steps = executable.plan.steps
    return [step.descriptor.request.name for step in steps if isinstance(step, PrimitiveStep)]


def product(rows: int, k: int, n: int) -> li.Executable:
    """A product by a constant, executed and compared."""
    program = Program((rows, k))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((k, n), 1)))
    return compare(program.module(y), numbers((rows, k)))


FEW = [(1, 24, 40), (2, 24, 2048), (4, 7, 3), (MOST_ROWS, 24, 40)]

MANY = [(1, 24, PAGE // 4), (MOST_ROWS + 1, 24, 40)]
"""One row by rows as long as a page, and more rows than pay."""


@pytest.mark.parametrize(("rows", "k", "n"), FEW)
def test_products_of_few_rows(rows: int, k: int, n: int):
    product(rows, k, n)


@pytest.mark.parametrize(("rows", "k", "n"), FEW)
def test_the_matrix_of_few_rows_is_packed(rows: int, k: int, n: int):
    skip_unless_packed()
    assert primitives(product(rows, k, n)) == ["inner_product_forward"]


@pytest.mark.parametrize(("rows", "k", "n"), MANY)
def test_negative_the_matrix_of_others_is_not(rows: int, k: int, n: int):
    assert primitives(product(rows, k, n)) == ["matmul"]


def test_a_product_without_rows_takes_no_step():
    assert primitives(product(0, 24, 40)) == []


def test_negative_a_matrix_that_is_no_constant_is_not_packed():
    program = Program((4, 24), (24, 40))
    module = program.module(program.add(nn.MatmulOp, program.argument(0), program.argument(1)))
    found = compare(module, numbers((4, 24)), numbers((24, 40), 1))
    assert primitives(found) == ["matmul"]


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("addend", [None, (40,), (1, 40), (4, 40), ()])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_product_with_an_addend(trans_b: bool, addend: tuple[int, ...] | None, alpha: float):
    program = Program((4, 24))
    b, c = numbers((40, 24) if trans_b else (24, 40), 1), None if addend is None else numbers(addend, 2)
    more = [] if c is None else [program.constant(c)]
    y = program.add(nn.GemmOp, program.argument(0), program.constant(b), *more, trans_b=trans_b, alpha=alpha)
    x = numbers((4, 24))
    (found,) = compare(program.module(y), x)([x])
    wanted = alpha * (x.astype(np.float64) @ (b.T if trans_b else b)) + (0 if c is None else c)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def test_an_addend_that_is_an_argument_is_the_bias():
    program = Program((4, 24), (40,))
    y = program.add(
        nn.GemmOp, program.argument(0), program.constant(numbers((24, 40), 1)), program.argument(1)
    )
    compare(program.module(y), numbers((4, 24)), numbers((40,), 2))


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_ops_behind_a_product_are_its_post_ops(seed: int):
    random = np.random.default_rng(seed)
    rows, k, n = int(random.integers(1, MOST_ROWS + 1)), *(int(each) for each in random.integers(2, 70, 2))
    x, w, other = numbers((rows, k), seed), numbers((k, n), seed + 1), numbers((rows, n), seed + 2)
    program = Program((1, rows, k), (1, rows, n))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(w))
    wanted = x.astype(np.float64) @ w
    for kind in random.choice(["row", "factor", "relu", "other", "sum"], int(random.integers(0, 4)), False):
        match kind:
            case "row":
                row = numbers((n,), seed + 3)
                y, wanted = program.add(nn.AddOp, y, program.constant(row)), wanted + row
            case "factor":
                row = numbers((n,), seed + 4)
                y, wanted = program.add(nn.MulOp, y, program.constant(row)), wanted * row
            case "relu":
                y, wanted = program.add(nn.ReluOp, y), np.maximum(wanted, 0)
            case "other":
                y, wanted = program.add(nn.MulOp, y, program.argument(1)), wanted * other
            case _:
                residual = program.add(nn.AbsOp, program.argument(1))
                y, wanted = program.add(nn.AddOp, y, residual), wanted + np.abs(other)
    inputs = [x[None], other[None]]
    executable = compare(program.module(y), *inputs)
    (found,) = executable(inputs)
    np.testing.assert_allclose(found[0], wanted, atol=3e-5 * max(1, np.abs(wanted).max()))
    assert (executable(inputs)[0] == found).all()
    (step,) = (
        s for s in executable.plan.steps if isinstance(s, PrimitiveStep) and s.text.ops[0] == "nn.matmul"
    )
    assert not step.descriptor.is_slow


def shared(rows: tuple[int, ...]) -> li.Executable:
    """Products of so many rows by one matrix."""
    k, n = 24, PAGE // 4
    program = Program(*((each, k) for each in rows))
    matrix = program.constant(numbers((k, n), 1))
    results = [program.add(nn.MatmulOp, program.argument(d), matrix) for d in range(len(rows))]
    return compare(program.module(*results), *(numbers((each, k), each) for each in rows))


def stored_by(executable: li.Executable) -> list[int]:
    """The bytes of each constant that is stored."""
    return [buffer.size for buffer in executable.plan.buffers if buffer.owner is Owner.CONSTANT]


SHARED = [(4, 4), (2, 7), (4, 1), (4, 40), (40, 8)]


@pytest.mark.parametrize("rows", SHARED)
def test_a_matrix_that_several_products_read_is_whole_in_what_is_stored(rows: tuple[int, ...]):
    assert all(size >= 24 * PAGE for size in stored_by(shared(rows)))


@pytest.mark.parametrize("rows", SHARED)
def test_a_matrix_that_several_products_read_is_stored_once(rows: tuple[int, ...]):
    skip_unless_packed()
    found = shared(rows)
    assert primitives(found) == ["inner_product_forward" if len(set(rows)) == 1 else "matmul"] * len(rows)
    assert len(stored_by(found)) == 1


def test_a_saved_product_gives_the_same(tmp_path: Path):
    program = Program((4, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 40), 1)))
    y = program.add(nn.ReluOp, program.add(nn.AddOp, y, program.constant(numbers((40,), 2))))
    executable, x = li.compile(program.module(y)), numbers((4, 24))
    executable.save(tmp_path / "product.exe")
    loaded: Any = li.load_executable(tmp_path / "product.exe")
    assert (loaded([x])[0] == executable([x])[0]).all()
    assert primitives(loaded) == primitives(executable)


def test_weights_are_packed_without_a_transposed_copy():
    """A row-major matrix becomes the weights of an inner product, columns by rows, as it lies."""
    import tracemalloc

    k, n = 256, 2000
    program = Program((4, k))
    module = program.module(
        program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((k, n), 1)))
    )
    tracemalloc.start()
    try:
        executable = li.compile(module)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = 4 * k * n
    assert peak < 1.75 * size, peak / size
    assert executable.plan.constant_bytes < 1.1 * size
