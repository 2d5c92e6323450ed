"""The cache on disk: used when sound, ignored when not, never an error."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm import jit, store
from layout_ir.backends.llvm.call import plan_reorder
from layout_ir.backends.llvm.emit import emit_module
from layout_ir.backends.llvm.machine import host
from layout_ir.format import Format


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _text() -> str:
    src, dst = Format.from_tag("ab").bind((5, 9)), Format.from_tag("ba").bind((5, 9))
    return emit_module({"reorder": plan_reorder(src, dst)}, host())


def _works(code: jit.Code) -> bool:
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        code.address("reorder")
    )
    x, y = np.arange(45, dtype=np.float32), np.zeros(45, np.float32)
    call(x.ctypes.data, y.ctypes.data, 0, 1)
    return np.array_equal(y.reshape(9, 5), x.reshape(5, 9).T)


def test_the_second_time_nothing_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch):
    assert _works(jit.Code(_text(), host(), keep=True))
    assert len(list(cache.iterdir())) == 1

    def fail(name: str, content: bytes) -> None:
        pytest.fail(f"compiled {name} again")

    monkeypatch.setattr(store, "write", fail)
    assert _works(jit.Code(_text(), host(), keep=True))


@pytest.mark.parametrize("damage", [b"", b"something else", None])
def test_negative_a_damaged_file_is_ignored_and_rebuilt(cache: Path, damage: bytes | None):
    jit.Code(_text(), host(), keep=True)
    [file] = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] if damage is None else damage)
    assert store.read(file.name) is None
    assert _works(jit.Code(_text(), host(), keep=True))
    assert file.read_bytes() == whole


def test_negative_a_folder_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.parent.joinpath("file").write_text("")
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache.parent / "file"))
    assert _works(jit.Code(_text(), host(), keep=True))


def test_off_writes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CACHE", "off")
    assert _works(jit.Code(_text(), host(), keep=True))
    assert not cache.exists()


def test_writers_do_not_disturb_each_other(cache: Path):
    with ThreadPoolExecutor(4) as pool:
        codes = [pool.submit(jit.Code, _text(), host(), keep=True) for _ in range(12)]
    assert all(_works(code.result()) for code in codes)
    assert len(list(cache.iterdir())) == 1


def test_other_machines_have_other_names():
    assert store.key("text", host(), 1) != store.key("text", host(), 2)
    assert store.key("ab", "c") != store.key("a", "bc")
