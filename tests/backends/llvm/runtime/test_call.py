"""Compiled reorders against the definition of a layout."""

from __future__ import annotations

import platform
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_many, compile_reorder, reorder
from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.known_cpus import local_machine, machine_named
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import make_plan
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.dialects.kernel.plan import Staged, VariableBoundLoops
from layout_ir.errors import LayoutError
from tests.backends.llvm.cases import WIDTHS, buffers, expected, random_case
from tests.layouts import bound_pair
from tests.oracles import onednn
from tests.seeds import seeds

BATCH = 50


@pytest.mark.parametrize("seed", seeds(12, 48))
def test_random_reorders_write_exactly_the_elements_and_the_promised_pads(seed: int):
    rng = Random(seed)
    cases = [random_case(rng, limit=rng.choice((300, 3000, 3000, 20000))) for _ in range(BATCH)]
    kernels = compile_many([(c.src, c.dst, c.dtype) for c in cases])
    for case, kernel in zip(cases, kernels, strict=True):
        src, dst, src_at, dst_at = buffers(rng, case)
        before, wanted = src.copy(), expected(case, src, dst, src_at, dst_at)
        for part in range(parts := rng.choice((1, 1, 2, 3))):
            kernel.run_part(src.ctypes.data + src_at, dst.ctypes.data + dst_at, part, parts)
        assert np.array_equal(src, before), f"the source changed: {case}\n{kernel.plan}"
        wrong = np.flatnonzero(dst != wanted)[:20] - dst_at
        assert not len(wrong), f"{case}\n{kernel.plan}\nbytes {wrong}"


@pytest.mark.parametrize("seed", range(4))
def test_loops_with_varying_bounds_do_the_same(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("layout_ir.backends.llvm.planning.planner._MAX_DOMAINS", 1)
    rng = Random(1000 + seed)
    cases = [random_case(rng) for _ in range(BATCH)]
    kernels = compile_many([(c.src, c.dst, c.dtype) for c in cases])
    loops = [loop for kernel in kernels for step in kernel.plan.steps for loop in step.loops]
    assert any(isinstance(loop, VariableBoundLoops) for loop in loops)
    for case, kernel in zip(cases, kernels, strict=True):
        src, dst, src_at, dst_at = buffers(rng, case)
        wanted = expected(case, src, dst, src_at, dst_at)
        kernel(src.ctypes.data + src_at, dst.ctypes.data + dst_at)
        assert np.array_equal(dst, wanted), f"{case}\n{kernel.plan}"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machines below are x86-64")
@pytest.mark.parametrize("cpu, vector", [("haswell", 32), ("x86-64", 16)])
def test_other_registers_move_the_same(cpu: str, vector: int):
    features = llvm.get_host_cpu_features()
    if cpu == "haswell" and not features.get("avx2"):
        pytest.skip("no AVX2 here")
    # Small caches, so that streaming and staging take part.
    machine = Machine(host().triple, cpu, "", vector, l1=1 << 10, l2=1 << 10, l3=1 << 12)
    rng = Random(vector)
    cases = [random_case(rng) for _ in range(2 * BATCH)]
    kernels = compile_many([(c.src, c.dst, c.dtype) for c in cases], target=machine)
    assert any("streaming" in str(kernel.plan) or "staged" in str(kernel.plan) for kernel in kernels)
    for case, kernel in zip(cases, kernels, strict=True):
        src, dst, src_at, dst_at = buffers(rng, case)
        wanted = expected(case, src, dst, src_at, dst_at)
        kernel(src.ctypes.data + src_at, dst.ctypes.data + dst_at)
        assert np.array_equal(dst, wanted), f"{case}\n{kernel.plan}"


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_streamed_and_staged_reorders_write_the_same(seed: int):
    """With caches of a few bytes every reorder is streamed; destinations lie in lines and across them."""
    machine = replace(host(), l2=4 << 10, l3=1 << 10)
    rng = Random(2000 + seed)
    cases = [random_case(rng, limit=rng.choice((3000, 20000))) for _ in range(BATCH)]
    kernels = compile_many([(c.src, c.dst, c.dtype) for c in cases], target=machine)
    texts = "".join(str(kernel.plan) for kernel in kernels)
    assert "staged" in texts or "streaming" in texts
    for case, kernel in zip(cases, kernels, strict=True):
        src, dst, src_at, dst_at = buffers(rng, case)
        dst_at -= (dst.ctypes.data + dst_at) % 64 if rng.random() < 0.5 else 0
        wanted = expected(case, src, dst, src_at, dst_at)
        for part in range(parts := rng.choice((1, 1, 2, 3))):
            kernel.run_part(src.ctypes.data + src_at, dst.ctypes.data + dst_at, part, parts)
        assert np.array_equal(dst, wanted), f"{case}\n{kernel.plan}"


@pytest.mark.skipif(host().vector != 64, reason="no registers of a line")
@pytest.mark.parametrize("vector", [64, 32])
@pytest.mark.parametrize("shape", [(545, 64), (577, 67), (513, 130), (641, 143), (3, 1000, 1000)])
def test_strips_write_whole_rows_and_nothing_else(shape: tuple[int, ...], vector: int):
    machine = replace(host(), l2=4 << 10, l3=1 << 10)
    src, dst = (Format.of(tag).bind(shape) for tag in (("abc", "acb") if len(shape) == 3 else ("ab", "ba")))
    plan = make_plan(src, dst, ElementPair(4, 4), 0, machine)
    assert any(isinstance(step.kernel, Staged) and step.kernel.iterations > 1 for step in plan.steps)
    kernel = load(plan, replace(machine, vector=vector))
    rng = np.random.default_rng(len(shape) + vector)
    data = rng.integers(0, 1 << 32, shape, np.uint32)
    wanted = np.ascontiguousarray(np.swapaxes(data, -1, -2)).view(np.uint8).reshape(-1)
    for offset in (0, 4, 60, 13):
        for parts in (1, 3):
            room = rng.integers(0, 256, wanted.size + 256, np.uint8)
            begin = -room.ctypes.data % 64 + 64 + offset
            after = room.copy()
            after[begin : begin + wanted.size] = wanted
            for part in range(parts):
                kernel.run_part(data.ctypes.data, room.ctypes.data + begin, part, parts)
            assert np.array_equal(room, after)


@pytest.mark.skipif(onednn.executes() is not None, reason=str(onednn.executes()))
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_blocked_tags_give_the_bytes_that_onednn_gives(dtype: str):
    tags = [
        "abcd",
        "acdb",
        "bacd",
        "cdba",
        "aBcd8b",
        "aBcd16b",
        "aBcd4b",
        "ABcd8b8a",
        "ABcd4a8b8a4b",
        "ABcd16b16a",
        "Acdb32a",
    ]
    shapes = [(2, 17, 5, 4), (16, 32, 3, 3), (3, 40, 1, 9), (33, 8, 7, 1)]
    pairs = [(s, d, shape) for shape in shapes for s in tags for d in tags if s != d]
    pairs = Random(7).sample(pairs, 120)
    layouts = [tuple(Format.from_tag(t).bind(shape) for t in pair) for *pair, shape in pairs]
    kernels = compile_many([(s, d, dtype) for s, d in layouts])
    for (s_tag, d_tag, shape), (src, dst), kernel in zip(pairs, layouts, kernels, strict=True):
        x = np.zeros(src.extent, f"u{WIDTHS[dtype]}")
        # Small numbers in every type, so that the library's own conversions through f32 change nothing.
        values = np.arange(src.nelems) % 97
        x[src.addresses().ravel()] = {"f32": values.astype("f4").view("u4"), "i8": values}.get(
            dtype, values.astype("f4").view("u4") >> 16
        )
        theirs, ours = np.full(dst.extent, 0x5A, x.dtype), np.full(dst.extent, 0x5A, x.dtype)
        onednn.reorder(
            onednn.Desc.from_tag(shape, s_tag, dtype), x, onednn.Desc.from_tag(shape, d_tag, dtype), theirs
        )
        kernel(x, ours)
        assert np.array_equal(ours, theirs), f"{s_tag} -> {d_tag} {shape}"


def test_what_a_buffer_leaves_over_is_moved_apart():
    machine = replace(host(), l2=4 << 10, l3=1 << 10)
    src, dst = (Format.parse(f"(a, b, c) : [{order}]").bind((15, 65, 16)) for order in ("a, c, b", "a, b, c"))
    [kernel] = compile_many([(src, dst, "i8")], target=machine)
    x = np.arange(src.extent).astype(np.uint8)
    out = np.zeros_like(x)
    kernel(x, out)
    assert np.array_equal(out.reshape(15, 65, 16), x.reshape(15, 16, 65).transpose(0, 2, 1))


def test_a_buffer_with_a_policy_is_filled_in_place():
    src, dst = bound_pair((2, 5, 3), "(a, b, c) : [a, b, c, b:4]", "(a, b, c) : [a, b, c, b:4], pad = 7")
    x = np.arange(src.extent, dtype=np.int32)
    wanted = np.full_like(x, 7)
    wanted[dst.addresses()] = x[dst.addresses()]
    compile_reorder(src, dst, "i32")(x, x)
    assert np.array_equal(x, wanted)


def test_reorder_leaves_what_is_no_element_alone():
    src, dst = bound_pair((3, 4), "(a, b) : [a, b]", "(a, b) : [a*6, b], pad = zero")
    out = np.full(dst.extent, 9, np.float32)
    assert reorder(np.arange(12, dtype=np.float32), src, dst, out=out) is out
    assert out.tolist() == [0, 1, 2, 3, 9, 9, 4, 5, 6, 7, 9, 9, 8, 9, 10, 11]


@pytest.mark.parametrize(
    "source, destination, message",
    [
        (np.zeros(6, "f4"), np.zeros(6, "f8"), "the destination has elements of 8 bytes, the kernel moves 4"),
        (np.zeros(6, "i1"), np.zeros(6, "f4"), "the source has elements of 1 bytes, the kernel moves 4"),
        (np.zeros(5, "f4"), np.zeros(6, "f4"), "the source has 5 elements, its layout needs 6"),
        (np.zeros(6, "f4"), np.zeros(5, "f4"), "the destination has 5 elements, its layout needs 6"),
        (np.zeros(12, "f4")[::2], np.zeros(6, "f4"), "the source is not contiguous"),
        (np.zeros(6, "f4"), np.frombuffer(bytes(24), "f4"), "the destination is read-only"),
    ],
)
def test_negative_buffers_that_do_not_fit(source: NDArray[Any], destination: NDArray[Any], message: str):
    kernel = compile_reorder(*bound_pair((2, 3), "(a, b) : [a, b]", "(a, b) : [b, a]"))
    with pytest.raises(LayoutError, match=message):
        kernel(source, destination)


def test_negative_overlapping_buffers():
    kernel = compile_reorder(*bound_pair((2, 3), "(a, b) : [a, b]", "(a, b) : [b, a]"))
    x = np.zeros(12, "f4")
    kernel(x[:6], x[6:])
    for other in (x[:6], x[5:11], x[1:7]):
        with pytest.raises(LayoutError, match="overlap"):
            kernel(x[:6], other)


@pytest.mark.parametrize("dtype", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("pad", ["undef", "zero"])
def test_elements_of_eight_bit_floats_are_moved(dtype: str, pad: str):
    src, dst = bound_pair((3, 9), "ab", f"(a, b) : [b, a, a:4], pad = {pad}")
    x, y = np.arange(27, dtype=np.uint8), np.full(36, 255, np.uint8)
    compile_reorder(src, dst, dtype)(x, y)
    assert np.array_equal(y.reshape(9, 4)[:, :3], x.reshape(3, 9).T)
    assert (y.reshape(9, 4)[:, 3] == (255 if pad == "undef" else 0)).all()


def test_pads_of_eight_bit_floats():
    x, y = np.arange(27, dtype=np.uint8), np.zeros(36, np.uint8)
    compile_reorder(*bound_pair((3, 9), "ab", "(a, b) : [b, a, a:4], pad = 1"), "f8E5M2")(x, y)
    assert (y.reshape(9, 4)[:, 3] == 0x3C).all()


def test_negative_layouts_that_no_kernel_moves():
    plain, _ = bound_pair((2, 3), "(a, b) : [a, b]", "(a, b) : [b, a]")
    with pytest.raises(LayoutError, match="below address 0"):
        compile_reorder(plain, Format.of("(a, b) : [a*-3, b]").bind((2, 3)))
    with pytest.raises(LayoutError, match="keeps several elements at one address"):
        compile_reorder(plain, Format.of("(a, b) : [a*0, b]").bind((2, 3)))
    padded = Format.of("(a, b) : [a, b, b:4], pad = 300").bind((2, 3))
    with pytest.raises(
        LayoutError, match="pad = 300 is no value of element type i8: integers from -128 to 127"
    ):
        compile_reorder(plain, padded, "i8")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machines below are x86-64")
def test_a_target_is_a_name_of_a_machine():
    src, dst = (Format.of(x).bind((2, 17, 9, 13)) for x in ("nchw", "nhwc"))
    x = np.arange(2 * 17 * 9 * 13, dtype=np.float32)
    y = np.zeros_like(x)
    kernel = compile_reorder(src, dst, target="x86-64-v2")
    kernel(x, y)
    assert np.array_equal(y, x.reshape(2, 17, 9, 13).transpose(0, 2, 3, 1).reshape(-1))
    assert kernel.plan == compile_reorder(src, dst, target=local_machine("x86-64-v2")).plan


@pytest.mark.parametrize(
    "target, message",
    [("aarch64", "does not run on this"), ("riscv64", "does not run on this"), ("z80", "unknown cpu 'z80'")],
)
def test_negative_code_for_another_machine_is_not_loaded(target: str, message: str):
    if target == platform.machine():
        pytest.skip("this is such a machine")
    src, dst = (Format.of(x).bind((2, 3)) for x in ("nc", "cn"))
    with pytest.raises(LayoutError, match=message):
        compile_reorder(src, dst, target=target)


def test_negative_a_machine_of_another_architecture():
    name = "riscv64" if host().architecture != "riscv64" else "aarch64"
    src, dst = (Format.of(x).bind((2, 3)) for x in ("nc", "cn"))
    with pytest.raises(LayoutError, match=f"code for {name}-.* does not run on this"):
        compile_reorder(src, dst, target=machine_named(name))


@pytest.mark.parametrize("to", ["f32", "i8"])
def test_negative_buffers_that_no_address_reaches_the_end_of(to: str):
    most, more = (1 << 32, (1 << 29) - 1), (1 << 32, 1 << 29)
    compile_reorder(*bound_pair(most, "ab", "ba"), "f32", dst_dtype=to)
    with pytest.raises(
        LayoutError, match=r"the source, 4294967296x536870912 in .*, has 9223372036854775808 bytes"
    ):
        compile_reorder(*bound_pair(more, "ab", "ba"), "f32", dst_dtype=to)
    with pytest.raises(LayoutError, match=r"the destination, .* has 9223372036854775808 bytes"):
        compile_reorder(*bound_pair(more, "ab", "ba"), "i8", dst_dtype="f32")


def test_negative_features_that_this_cpu_has_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    if host().architecture != "x86_64":
        pytest.skip("this is no x86-64")
    with pytest.raises(LayoutError, match=r"x86-64-v3 needs .*avx2.*, which this .* has not"):
        local_machine("x86-64-v3")
