"""The bound by ports: executions are counted exactly, and what limits is named."""

from __future__ import annotations

import platform

import pytest

from benchmarks.port_bound import PortBound, port_bound
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.dialects.kernel.plan import Copy, Loop, Plan, Step
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.cores import clock
from layout_ir.tools.benchmark.measure import compiled, sides

CASE = Case("images", "nchw", "nhwc", "f32", {"own": (2, 64, 16, 16)})
SIDES = sides(CASE, CASE.bound("own"))

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="ports are known for x86-64")


def _bound(plan: Plan) -> PortBound:
    try:
        return port_bound(plan, host(), *SIDES)
    except LayoutError as error:
        pytest.skip(str(error))


def test_a_copy_has_as_many_loads_and_stores_as_its_bytes_fill_registers():
    size = SIDES[0].data.nbytes
    run = 16 * host().vector
    found = _bound(Plan(4, size, size, (Step((), 0, 0, Copy(run, Loop(size // run, run, run))),)))
    assert (found.loads, found.stores, found.shuffles) == (size // host().vector,) * 2 + (0,)
    assert found.cycles >= size / 64  # no core stores more than a line per cycle


def test_a_transposition_is_bound_by_more_than_a_copy():
    size = SIDES[0].data.nbytes
    copy = _bound(Plan(4, size, size, (Step((), 0, 0, Copy(4096, Loop(size // 4096, 4096, 4096))),)))
    found = _bound(compiled(CASE, CASE.bound("own"), 1).plan)
    assert found.shuffles >= 2 * found.stores
    assert found.cycles >= copy.cycles
    assert found.gbps(2 * size) == pytest.approx(2 * size / found.cycles * clock() / 1e9)
    assert f"{found.busiest} busiest" in found.text(2 * size)


def test_negative_without_the_tool_the_bound_is_not_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LayoutError, match="there is no"):
        port_bound(compiled(CASE, CASE.bound("own"), 1).plan, host(), *SIDES)
