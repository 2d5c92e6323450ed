"""oneDNN's log: what a run of the library prints, older forms by their documentation, and what is no whole line."""

from __future__ import annotations

import tracemalloc
from importlib.util import find_spec
from itertools import chain, repeat

import pytest

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.execution_graphs.copies import explain_copies
from layout_ir.execution_graphs.onednn_log import read_onednn
from tests.processes import run_python

NEW = """\
onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa71)
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors,x
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32:a:blocked:abcd::f0 \
wei:f32:a:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,\
alg:convolution_direct,mb1_ic3oc17_ih32oh32kh3sh1dh0ph1_iw20ow20kw3sw1dw0pw1,0.5
something that the program prints
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32:p:blocked:aBcd16b::f0 dst:f32::blocked:acdb::f0,\
attr-scratchpad:user,,1x17x32x20,0.25
onednn_verbose,v1,primitive,exec,cpu,pooling,jit:avx512_core,forward_inference,src:f32::blocked:acdb::f0 \
dst:f32:a:blocked:acdb::f0,,alg:pooling_max,mb1ic17_ih32oh16kh2sh2dh0ph0_iw20ow10kw2sw2dw0pw0,0.125
"""
OLD = """\
dnnl_verbose,info,oneDNN v2.6.0 (commit x)
dnnl_verbose,exec,cpu,convolution,jit:avx2,forward_training,src_f32::blocked:abcd:f0 wei_f32::blocked:Acdb8a:f0 \
bia_f32::blocked:a:f0 dst_f32::blocked:aBcd16b:f0,,alg:convolution_direct,\
mb1_ic3oc17_ih32oh32kh3sh1dh0ph1_iw20ow20kw3sw1dw0pw1,0.5
dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:aBcd16b:f0 dst_f32::blocked:acdb:f0,,,1x17x32x20,0.25
dnnl_verbose,exec,cpu,pooling,jit:avx2,forward_inference,src_f32::blocked:acdb:f0 dst_f32::blocked:acdb:f0,,\
alg:pooling_max,mb1ic17_ih32oh16kh2sh2dh0ph0_iw20ow10kw2sw2dw0pw0,0.125
"""


def _lines(text: str) -> list[bytes]:
    return text.encode().splitlines(keepends=True)


@pytest.mark.parametrize(
    "text", [NEW, OLD, NEW.replace("v1,primitive,exec", "v1,1795369586160.71,primitive,exec")]
)
def test_a_reorder_has_its_bytes_its_time_and_the_ops_around_it(text: str):
    graph = read_onednn(_lines(text))
    (copy,) = explain_copies(graph)
    assert copy.nbytes == 4 * 32 * 20 * (32 + 17)  # 17 channels in blocks of 16, and as they are
    assert copy.time_us == 250
    assert copy.source.layout == Format.from_tag("aBcd16b")
    assert copy.producer.startswith("convolution") and copy.consumers[0].startswith("pooling")
    assert copy.verdict == "forced"
    assert (graph.values_are_inferred, graph.skipped) == (True, [])


def test_executions_of_one_kind_are_one_node():
    graph = read_onednn(chain.from_iterable(repeat(_lines(NEW), 100)))
    (copy,) = explain_copies(graph)
    assert (copy.executions, copy.nbytes, copy.time_us) == (100, 100 * 4 * 640 * 49, 25000)
    assert len(graph.nodes) == 3


def test_the_same_reorder_behind_two_ops_is_two():
    second = NEW.replace("mb1_ic3oc17", "mb1_ic5oc17")
    (one, other) = explain_copies(read_onednn(_lines(NEW + second)))
    assert one.producer != other.producer


def test_reordered_weights_are_told_by_who_reads_them():
    reorder = (
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
        "dst:f32::blocked:Acdb16a::f0,,,17x3x3x3,0.1\n"
    )
    (weights,) = (c for c in explain_copies(read_onednn(_lines((reorder + NEW) * 3))) if c.name == "17x3x3x3")
    assert (weights.verdict, weights.executions) == ("avoidable", 3)


def test_negative_half_lines_are_counted_and_said():
    lines = _lines(NEW)
    broken = [lines[4][:200] + lines[2], lines[4][: len(lines[4]) // 2], lines[4].rstrip()[:-4] + b"x\n"]
    graph = read_onednn([*lines, *broken, b"\xff\xfe onednn_verbose,v1,primitive,exec,\n"])
    assert len(explain_copies(graph)) == 1
    assert graph.skipped and graph.skipped[0].startswith("4 lines of executions cannot be read, first line 7")


@pytest.mark.parametrize(
    "text", ["", "hello\n", NEW.split("\n")[0], NEW.replace(",exec,", ",create:cache_miss,")]
)
def test_negative_a_log_without_executions_says_what_to_set(text: str):
    with pytest.raises(LayoutError, match="ONEDNN_VERBOSE=profile_exec"):
        read_onednn(_lines(text))


@pytest.mark.parametrize("lines", [50_000, pytest.param(1_000_000, marks=pytest.mark.deep)])
def test_many_lines_take_the_memory_of_their_kinds(lines: int):
    block = _lines(NEW)
    count = lines // len(block)
    tracemalloc.start()
    graph = read_onednn(chain.from_iterable(repeat(block, count)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(node.executions for node in graph.nodes) == 3 * count
    assert peak < 2e6


def test_a_reorder_that_reads_what_it_wrote_a_round_ago_is_no_new_node_every_round():
    there = NEW.splitlines(keepends=True)[4]
    back = there.replace("aBcd16b", "x").replace("acdb", "aBcd16b").replace("blocked:x", "blocked:acdb")
    same = there.replace("aBcd16b", "acdb")
    sizes = {count: len(read_onednn(_lines((there + same + back) * count)).nodes) for count in (10, 1000)}
    assert sizes[10] == sizes[1000] < 10


def test_a_huge_number_of_different_nodes_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("layout_ir.execution_graphs.execution_graph.MOST_NODES", 50)
    lines = (_lines(NEW.replace("oc17", f"oc{k}")) for k in range(100))
    with pytest.raises(LayoutError, match="more than 50"):
        read_onednn(chain.from_iterable(lines))


NETWORK = """
import torch
from torch import nn
from torch.utils import mkldnn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(2)).eval()
with torch.no_grad():
    blocked = mkldnn.to_mkldnn(net)
    for _ in range(3):
        blocked(torch.randn(1, 3, 32, 32).to_mkldnn()).to_dense()
"""


@pytest.mark.parametrize("level", ["1", "2", "profile_exec"])
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra 'oracles'")
def test_a_real_run(level: str):
    run = run_python("-c", NETWORK, variables={"ONEDNN_VERBOSE": level})
    lines = run.stdout.encode().splitlines(keepends=True)
    reorders = [line for line in lines if b",exec,cpu,reorder," in line]
    if not reorders:
        pytest.skip("this build of torch does not execute with oneDNN")
    graph = read_onednn(lines)
    copies = explain_copies(graph)
    assert graph.skipped == []
    assert sum(copy.executions for copy in copies) == len(reorders)
    # The shape of a reorder is the field before its time; each line moves at least its elements, twice.
    least = 0
    for line in reorders:
        size = 8
        for extent in line.split(b",")[-2].split(b"x"):
            size *= int(extent)
        least += size
    assert sum(copy.nbytes or 0 for copy in copies) >= least
    (last,) = (copy for copy in copies if copy.name == "1x32x16x16")
    assert last.producer.startswith("pooling") and last.consumers == ("the program",)
    assert (last.verdict, last.executions) == ("boundary", 3)


def test_the_form_of_an_older_release():
    """oneDNN 3.2 reorders once, in a process of its own."""
    code = """
import numpy as np
from layout_ir.tools.benchmark import onednn
library = onednn.load("onednn-omp")
if isinstance(library, Exception):
    raise SystemExit(f"SKIP {library}")
x, y = np.zeros(1 * 16 * 6 * 10, np.float32), np.zeros(1 * 16 * 6 * 10, np.float32)
library.reorder((1, 16, 6, 10), ("abcd", "f32", x.ctypes.data), ("aBcd8b", "f32", y.ctypes.data))()
"""
    run = run_python("-c", code, variables={"ONEDNN_VERBOSE": "1"}, check=False)
    if run.returncode:
        pytest.skip(f"needs the extra 'bench': {run.stderr[-200:]}")
    (copy,) = explain_copies(read_onednn(run.stdout.encode().splitlines(keepends=True)))
    assert copy.nbytes == 2 * 4 * 960
    assert (copy.source.layout, copy.destination.layout) == (
        Format.from_tag("abcd"),
        Format.from_tag("aBcd8b"),
    )
