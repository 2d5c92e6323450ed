"""What LLVM says of the processor is asked once, and again where anything about it differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from layout_ir.backends.llvm.machine import host_facts as module
from layout_ir.backends.llvm.machine.host_facts import HostFacts, host_facts, llvm, processor_facts
from layout_ir.backends.llvm.runtime import code_cache
from layout_ir.backends.llvm.runtime.object_linker import CAN_LINK
from tests.processes import run_python


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _asked() -> HostFacts:
    return host_facts.__wrapped__()


def _kept(cache: Path) -> list[str]:
    return sorted(file.name for file in cache.glob("host-*"))


needs_names = pytest.mark.skipif(
    not processor_facts(), reason="the system does not say what the processor is"
)


def test_they_are_what_llvm_says(cache: Path):
    for _ in range(2):  # asked, and read
        facts = _asked()
        assert (facts.triple, facts.cpu) == (llvm.get_process_triple(), llvm.get_host_cpu_name())
        assert facts.features == llvm.get_host_cpu_features().flatten()
        assert str(llvm.llvm_version_info) in facts.compiler


@needs_names
def test_what_was_asked_is_read(cache: Path, monkeypatch: pytest.MonkeyPatch):
    facts = _asked()
    assert len(_kept(cache)) == 1
    monkeypatch.setattr(module, "llvm", None)
    assert _asked() == facts


@needs_names
@pytest.mark.parametrize("what", ["processor_facts", "_file_of_llvm"])
def test_negative_another_processor_or_another_llvm_is_asked_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch, what: str
):
    _asked()
    monkeypatch.setattr(module, what, lambda: "another one")
    _asked()
    assert len(_kept(cache)) == 2


@needs_names
@pytest.mark.parametrize("content", [b"[]", b"no JSON", b'{"triple": "x"}', b"{}"])
def test_negative_what_is_no_answer_is_asked_anew(cache: Path, content: bytes):
    facts = _asked()
    (name,) = _kept(cache)
    code_cache.write(name, content)
    assert _asked() == facts


def test_negative_nothing_is_kept_where_the_system_does_not_say_what_the_processor_is(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "processor_facts", lambda: "")
    assert _asked().cpu and not _kept(cache)


@needs_names
@pytest.mark.skipif(not CAN_LINK, reason="LLVM links here")
def test_kernels_that_were_compiled_before_need_no_llvm():
    code = (
        "import sys, numpy as np, layout_ir as li\n"
        "x = np.arange(2 * 16 * 3, dtype=np.float32).reshape(2, 16, 3)\n"
        "y = li.reorder(x, '(n, c, w) : [n, c, w]', '(n, c, w) : [n, c, w, c:8]')\n"
        "assert (y.reshape(2, 2, 3, 8).transpose(0, 1, 3, 2).reshape(x.shape) == x).all()\n"
        "print('llvmlite' in sys.modules)"
    )
    runs = [run_python("-c", code) for _ in range(2)]
    assert [run.stdout.split() for run in runs] == [["True"], ["False"]]
