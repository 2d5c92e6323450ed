"""The host is asked for its registers and caches; what a machine has follows from its triple and registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layout_ir.backends.llvm.machine import machine
from layout_ir.backends.llvm.machine.machine import Machine, host

X86 = Machine("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    for number, (level, kind, size) in enumerate(
        [("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2048K"), ("3", "Unified", "1G")]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    return tmp_path


def test_caches_are_those_that_linux_tells_of(caches: Path):
    found = host.__wrapped__()
    assert (found.l1, found.l2, found.l3) == (48 << 10, 2 << 20, 1 << 30)


def test_negative_a_cache_that_linux_does_not_tell_of_has_a_usual_size(caches: Path):
    (caches / "index2" / "size").unlink()
    (caches / "index3" / "size").write_text("much\n")
    found = host.__wrapped__()
    assert (found.l1, found.l2) == (48 << 10, 512 << 10)
    assert found.l3 >= found.l2


def test_the_host_is_a_machine_that_llvm_makes_code_for():
    assert host() is host()
    assert host().vector in (16, 32, 64)
    assert host().triple.startswith(host().architecture)


def test_x86_streams_and_others_do_not_unless_they_are_told_not_to():
    arm = replace(X86, triple="aarch64-unknown-linux-gnu")
    assert X86.streams and not arm.streams and not replace(X86, may_stream=False).streams
    assert "sfence" in X86.store_fence and "x86" not in arm.store_fence


def test_wide_registers_need_an_aligned_stack():
    assert "alignstack(64)" in X86.attributes
    assert "alignstack" not in replace(X86, vector=16).attributes
