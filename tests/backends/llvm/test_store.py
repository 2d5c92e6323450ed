"""The cache on disk: used when sound, ignored when not, never an error."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
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

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _text() -> str:
    src, dst = Format.from_tag("ab").bind((5, 9)), Format.from_tag("ba").bind((5, 9))
    return emit_module({"reorder": plan_reorder(src, dst)}, host())


def _code() -> jit.Code:
    return jit.Code(_text, host(), ("reorder",), key="5x9 ab ba")


def _works(code: jit.Code) -> bool:
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        code.address("reorder")
    )
    x, y = np.arange(45, dtype=np.float32), np.zeros(45, np.float32)
    call(x.ctypes.data, y.ctypes.data, 0, 1)
    return np.array_equal(y.reshape(9, 5), x.reshape(5, 9).T)


def test_the_second_time_nothing_is_compiled(cache: Path):
    assert _works(_code())
    assert len(list(cache.iterdir())) == 1

    def fail() -> str:
        pytest.fail("compiled again")

    assert _works(jit.Code(fail, host(), ("reorder",), key="5x9 ab ba"))
    with pytest.raises(pytest.fail.Exception):
        jit.Code(fail, host(), ("reorder",), key="another")


def _emptied(data: bytes) -> bytes:
    return b""


def _replaced(data: bytes) -> bytes:
    return b"something else"


def _truncated(data: bytes) -> bytes:
    return data[:-1]


def _flipped(data: bytes) -> bytes:
    return data[:-9] + bytes([data[-9] ^ 4]) + data[-8:]


def _older(data: bytes) -> bytes:
    return data.replace(b"layout-ir 2", b"layout-ir 1", 1)


@pytest.mark.parametrize("damage", [_emptied, _replaced, _truncated, _flipped, _older])
def test_negative_a_damaged_file_is_ignored_and_rebuilt(cache: Path, damage: Any):
    _code()
    [file] = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert store.read(file.name) is None
    assert _works(_code())
    assert file.read_bytes() == whole


def test_negative_a_sound_file_that_is_no_code_is_rebuilt(cache: Path):
    _code()
    [file] = cache.iterdir()
    whole = file.read_bytes()
    store.write(file.name, b"not an object at all")
    assert store.read(file.name) == b"not an object at all"
    assert _works(_code())
    assert file.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_negative_code_of_another_user_is_not_run(cache: Path, monkeypatch: pytest.MonkeyPatch):
    _code()
    [file] = cache.iterdir()
    assert store.read(file.name) is not None
    owner = file.stat().st_uid
    if owner == 0:
        try:
            os.chown(file, 12345, -1)
        except OSError:
            pytest.skip("this root may not give files away")
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert store.read(file.name) is None
    assert _works(_code())


def test_negative_a_folder_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.parent.joinpath("file").write_text("")
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache.parent / "file"))
    assert _works(_code())


def test_negative_a_folder_that_may_only_be_read(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.mkdir(mode=0o500)

    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store.tempfile, "mkstemp", refuse)  # permissions do not stop root
    assert _works(_code())
    assert not list(cache.iterdir())


@pytest.mark.parametrize("step", ["write", "replace"])
def test_negative_a_full_disk_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "replace":
        monkeypatch.setattr(os, "replace", full)
    else:
        monkeypatch.setattr(store.hashlib, "sha256", _Sha(full))
    assert _works(_code())
    assert not list(cache.iterdir())


class _Sha:
    """sha256 that fails where the content of a file is hashed, with the file open."""

    def __init__(self, full: Any) -> None:
        self.full, self.real = full, store.hashlib.sha256

    def __call__(self, data: bytes) -> Any:
        return self.full() if data.startswith(b"\x7fELF") else self.real(data)


def test_negative_no_home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LAYOUT_IR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")

    def none() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.setattr(Path, "home", none)
    assert store.folder() is None
    assert _works(_code())


def test_a_home_and_a_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("LAYOUT_IR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder() == tmp_path / "layout-ir"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.folder() == tmp_path / "home" / ".cache" / "layout-ir"


def test_off_writes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CACHE", "off")
    assert _works(_code())
    assert not cache.exists()


def test_threads_do_not_disturb_each_other(cache: Path):
    with ThreadPoolExecutor(4) as pool:
        codes = [pool.submit(_code) for _ in range(12)]
    assert all(_works(code.result()) for code in codes)
    assert len(list(cache.iterdir())) == 1


_WRITER = """
import numpy as np
from layout_ir.backends.llvm import compile_reorder
from layout_ir.format import Format
for n in range(3, 13):
    src, dst = Format.from_tag("ab").bind((n, 9)), Format.from_tag("ba").bind((n, 9))
    x, y = np.arange(9 * n, dtype=np.float32), np.zeros(9 * n, np.float32)
    compile_reorder(src, dst)(x, y)
    assert np.array_equal(y.reshape(9, n), x.reshape(n, 9).T)
"""


def test_processes_do_not_disturb_each_other(cache: Path):
    command = [sys.executable, "-c", _WRITER]
    writers = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(8)]
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err.decode()
    names = [file.name for file in cache.iterdir()]
    assert len(names) == 11  # ten kernels and the entry from Python
    assert all(store.read(name) is not None for name in names)


def test_too_many_files_are_halved_and_others_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "_MOST_FILES", 10)
    cache.mkdir()
    (cache / "calibration.json").write_text("{}")
    names = [store.name("code", k) for k in range(64)]
    for name in names:
        store.write(name, b"content")
    kept = {file.name for file in cache.iterdir()}
    assert "calibration.json" in kept
    assert len(kept) < 50
    assert kept - {"calibration.json"} <= set(names)


def test_other_machines_have_other_names():
    assert store.name("code", "text", host(), 1) != store.name("code", "text", host(), 2)
    assert store.name("code", "ab", "c") != store.name("code", "a", "bc")
    assert store.name("code", "a").startswith(f"code-{store.VERSION}-")
