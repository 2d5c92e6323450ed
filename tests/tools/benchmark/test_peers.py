"""Other libraries: they do the same work, or say why not."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.runtime.timing import Limits
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark import onednn, peers
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.measure import OTHER_BYTES, expected, measure, sides
from layout_ir.tools.benchmark.peers import NAMES, PEERS, Array, Peer, peer, register, version, write

CASES = [
    Case("blocked", "nchw", "nChw8c", "f32", {"own": (2, 16, 5, 3)}),
    Case("padded", "nChw16c", "nChw8c", "f32", {"own": (2, 17, 5, 3)}),
    Case("bytes", "nhwc", "nchw", "ui8", {"own": (2, 9, 5, 3)}),
    Case("halves", "nchw", "nhwc", "bf16", {"own": (2, 9, 5, 3)}),
    Case("weights", "oihw", "Ohwi32o", "f32", {"own": (40, 3, 2, 2)}),
    Case("converted", "ab", "ba", "f32", {"own": (7, 11)}, dst_dtype="i8"),
]


def _missing(name: str) -> str | None:
    try:
        version(name)
    except LayoutError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_peer_writes_the_bytes_that_the_layouts_ask_for(name: str, case: Case):
    if (reason := _missing(name)) is not None:
        pytest.skip(reason)
    src, dst = sides(case, case.bound("own"))
    wanted = expected(src, dst)
    elements = np.zeros(wanted.shape, bool)
    elements[dst.layout.addresses().ravel()] = True
    run = peer(name, src, dst, 1)
    assert not np.array_equal(dst.data[elements], wanted[elements])
    run()
    assert np.array_equal(dst.data[elements], wanted[elements])


def test_both_builds_of_onednn_live_in_one_process():
    if reasons := [reason for name in onednn.BUILDS if (reason := _missing(name))]:
        pytest.skip("; ".join(reasons))
    assert version("onednn") != version("onednn-omp")
    case = CASES[0]
    for name in (*onednn.BUILDS, *onednn.BUILDS):
        src, dst = sides(case, case.bound("own"))
        peer(name, src, dst, 1)()
        assert np.array_equal(dst.data, expected(src, dst))


def test_negative_what_a_library_cannot_do_it_says():
    halves = Case("to bf16", "a", "a", "f32", {"own": (9,)}, dst_dtype="bf16")
    src, dst = sides(halves, halves.bound("own"))
    with pytest.raises(LayoutError, match="NumPy has no bf16"):
        peer("numpy", src, dst, 1)
    tables = Case("tables", "(a, b) : [a, b, a:8]", "(a, b) : [a, b, a:12]", "f32", {"own": (48, 2)})
    src, dst = sides(tables, tables.bound("own"))
    with pytest.raises(LayoutError, match="blocks conflict"):
        peer("torch" if _missing("torch") is None else "numpy", src, dst, 1)


def _another(returned: Array) -> Peer:
    """A library that allocates what it returns: always the same."""
    return Peer(lambda: "1", lambda src, dst, threads: lambda: returned, allocates=True)


def test_a_library_of_a_benchmark_takes_part_and_may_allocate(monkeypatch: pytest.MonkeyPatch):
    case = Case("own", "ab", "ba", "f32", {"own": (3, 5)})
    src, dst = sides(case, case.bound("own"))
    monkeypatch.setattr(peers, "PEERS", dict(PEERS))
    register("right", _another(np.ascontiguousarray(src.data.reshape(3, 5).T)))
    register("wrong", _another(src.data))
    found = measure(case, "own", 1, ["right", "wrong"], Limits(seconds=0, fewest=2, most=2))
    assert found.peers == ["right"]
    assert found.absent == {"wrong": OTHER_BYTES}
    assert version("right") == "1"
    write("right", peer("right", src, dst, 1), dst)
    assert np.array_equal(dst.data, expected(src, dst))


def test_negative_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(onednn.BUILDS, "onednn-omp", "no-such-package")
    with pytest.raises(LayoutError, match="the package no-such-package is not installed"):
        onednn.locate("onednn-omp")
