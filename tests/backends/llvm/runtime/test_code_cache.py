"""The cache on disk: used when sound, ignored when not, never an error."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import code_cache, jit
from layout_ir.backends.llvm.runtime.call import plan_reorder
from tests.processes import environment

ROOT = Path(__file__).parents[4]
_MAGIC = b"layout-ir 3\n"
_HEADER = len(_MAGIC) + 32  # the digest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    host()  # what LLVM says of the processor is asked once, and kept: not here
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
    assert data.startswith(_MAGIC)
    return data.replace(_MAGIC, b"layout-ir 2\n", 1)


@pytest.mark.parametrize("damage", [_emptied, _replaced, _truncated, _flipped, _older])
def test_negative_a_damaged_file_is_ignored_and_rebuilt(cache: Path, damage: Any):
    _code()
    [file] = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert code_cache.read(file.name) is None
    assert _works(_code())
    assert file.read_bytes() == whole


def test_negative_a_sound_file_that_is_no_code_is_rebuilt(cache: Path):
    _code()
    [file] = cache.iterdir()
    whole = file.read_bytes()
    code_cache.write(file.name, b"not an object at all")
    assert code_cache.read(file.name) == b"not an object at all"
    assert _works(_code())
    assert file.read_bytes() == whole


@pytest.mark.parametrize("at", range(_HEADER))
@pytest.mark.parametrize("bit", [0, 7])
def test_negative_a_header_with_a_bit_flipped_is_not_believed(cache: Path, at: int, bit: int):
    file = cache / code_cache.name("code", "header")
    code_cache.write(file.name, b"content")
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << bit
    file.write_bytes(data)
    assert code_cache.read(file.name) is None
    code_cache.write(file.name, b"content")
    assert code_cache.read(file.name) == b"content"


def _kernel(n: int) -> jit.Code:
    src, dst = Format.from_tag("ab").bind((5, n)), Format.from_tag("ba").bind((5, n))
    text = emit_module({"reorder": plan_reorder(src, dst)}, host())
    return jit.Code(text, host(), ("reorder",), key=text)


@pytest.mark.parametrize("put", [shutil.copy, os.rename, os.replace])
def test_negative_one_entry_in_place_of_another_is_not_run(cache: Path, put: Any):
    _code()
    [file] = cache.iterdir()
    _kernel(8)
    [other] = set(cache.iterdir()) - {file}
    put(other, file)
    assert code_cache.read(file.name) is None
    assert _works(_code())
    assert code_cache.read(file.name) is not None


# What another user may have a hand in ---------------------------------------------------------------------------------

owned = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


def _give_away(path: Path) -> None:
    """Let `path` belong to another user."""
    if os.geteuid() == 0:
        try:
            os.chown(path, 12345, -1, follow_symlinks=False)
        except OSError:
            pytest.skip("this root may not give files away")
    else:
        pytest.skip("only root gives files away")


@owned
def test_negative_code_of_another_user_is_not_run(cache: Path):
    _code()
    [file] = cache.iterdir()
    assert code_cache.read(file.name) is not None
    _give_away(file)
    assert code_cache.read(file.name) is None
    assert _works(_code())
    assert file.stat().st_uid == os.geteuid()


def _symlink(file: Path) -> None:
    file.rename(file.parent.parent / "elsewhere")
    file.symlink_to(file.parent.parent / "elsewhere")


def _second_name(file: Path) -> None:
    os.link(file, file.parent.parent / "elsewhere")


def _writable_to_the_group(file: Path) -> None:
    file.chmod(0o620)


def _writable_to_all(file: Path) -> None:
    file.chmod(0o602)


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _socket(file: Path) -> None:
    file.unlink()
    here = os.getcwd()
    try:
        os.chdir(file.parent)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as end:
            end.bind("s")
        os.rename("s", file)
    finally:
        os.chdir(here)


def _device(file: Path) -> None:
    file.unlink()
    try:
        os.mknod(file, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _without_end(file: Path) -> None:
    os.truncate(file, 1 << 38)


@owned
@pytest.mark.parametrize(
    "plant",
    [_symlink, _second_name, _writable_to_the_group, _writable_to_all, _pipe, _socket, _device, _without_end],
)
def test_negative_a_file_that_is_not_as_we_write_files_is_replaced(cache: Path, plant: Any):
    _code()
    [file] = cache.iterdir()
    plant(file)
    assert code_cache.read(file.name) is None
    assert _works(_code())
    status = os.lstat(file)
    assert stat.S_ISREG(status.st_mode)
    assert (status.st_nlink, stat.S_IMODE(status.st_mode)) == (1, 0o600)
    assert code_cache.read(file.name) is not None


@owned
def test_negative_a_folder_in_place_of_a_file_is_left(cache: Path):
    _code()
    [file] = cache.iterdir()
    _folder(file)
    assert code_cache.read(file.name) is None
    assert _works(_code())
    assert [path.name for path in cache.iterdir()] == [file.name]


def test_negative_what_is_too_large_to_be_read_is_not_written(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(code_cache, "_MOST_BYTES", 1000)
    code_cache.write("most", b"x" * (1000 - _HEADER))
    assert code_cache.read("most") == b"x" * (1000 - _HEADER)
    code_cache.write("more", b"x" * (1001 - _HEADER))
    assert [path.name for path in cache.iterdir()] == ["most"]


@owned
def test_what_is_made_is_ours_alone(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache / "deep" / "er"))
    before = os.umask(0)
    try:
        _code()
    finally:
        os.umask(before)
    for path in (cache, cache / "deep", cache / "deep" / "er"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    [file] = (cache / "deep" / "er").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "_warned", set[str]())


@owned
@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777, 0o2770])
@pytest.mark.parametrize("warm", [True, False])
def test_negative_a_folder_that_others_may_write_is_not_used(cache: Path, mode: int, warm: bool):
    if warm:
        _code()
    cache.mkdir(exist_ok=True)
    cache.chmod(mode)
    before = sorted(cache.iterdir())
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(cache))} has mode {mode:o}: others may write"):
        assert code_cache.read(code_cache.name("code", 1)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert _works(_code())
    assert sorted(cache.iterdir()) == before


@owned
@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o2770])
def test_negative_nor_is_one_whose_parent_they_may_write(
    cache: Path, mode: int, monkeypatch: pytest.MonkeyPatch
):
    (cache.parent / "a" / "b").mkdir(parents=True)
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache.parent / "a" / "b" / "cache"))
    assert _works(_code())
    (cache.parent / "a").chmod(mode)
    with pytest.warns(RuntimeWarning, match=rf"no code is kept in .*: .*/a has mode {mode:o}"):
        assert _works(_code())


@owned
def test_a_sticky_parent_is_no_danger(cache: Path, monkeypatch: pytest.MonkeyPatch):
    parent = cache.parent / "tmp"
    parent.mkdir()
    parent.chmod(0o1777)
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(parent / "cache"))
    _code()
    assert len(list((parent / "cache").iterdir())) == 1


@owned
@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("which", ["cache", "parent", "link"])
def test_negative_nor_is_one_on_whose_way_something_belongs_to_another(
    cache: Path, which: str, monkeypatch: pytest.MonkeyPatch
):
    real, link = cache.parent / "real", cache.parent / "link"
    real.mkdir()
    link.symlink_to(real)
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(link / "cache"))
    assert _works(_code())
    [file] = (real / "cache").iterdir()
    _give_away({"cache": real / "cache", "parent": real, "link": link}[which])
    with pytest.warns(RuntimeWarning, match="belongs to user 12345"):
        assert code_cache.read(file.name) is None
    assert _works(_code())


@owned
def test_links_of_our_own_are_followed(cache: Path, monkeypatch: pytest.MonkeyPatch):
    (cache.parent / "real" / "deep").mkdir(parents=True)
    (cache.parent / "one").symlink_to("real/deep/../deep")
    (cache.parent / "two").symlink_to(cache.parent / "one" / "cache")
    (cache.parent / "real" / "deep" / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache.parent / "two"))
    _code()
    assert len(list((cache.parent / "real" / "deep" / "cache").iterdir())) == 1


@owned
def test_negative_links_in_a_circle_are_not(cache: Path, monkeypatch: pytest.MonkeyPatch):
    (cache.parent / "one").symlink_to("two")
    (cache.parent / "two").symlink_to("one")
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache.parent / "one"))
    assert _works(_code())


_AS_NOBODY = """
import os, warnings
from layout_ir.backends.llvm.runtime import code_cache as store  # while this Python can be read
os.setgroups([]); os.setgid(65534); os.setuid(65534)
name = store.name("code", 1)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    before = store.read(name)
    store.write(name, b"mine")
    print(before, store.read(name), *(warning.message for warning in said))
"""


@owned
@pytest.mark.skipif("os.geteuid() != 0", reason="only root becomes another user")
@pytest.mark.parametrize("theirs", [True, False])
def test_other_users_keep_their_own(monkeypatch: pytest.MonkeyPatch, theirs: bool):
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        where = Path(place) / "cache"
        monkeypatch.setenv("LAYOUT_IR_CACHE", str(where))
        code_cache.write(code_cache.name("code", 1), b"root's")
        where.chmod(0o755)
        next(where.iterdir()).chmod(0o644)
        if theirs:
            os.chown(where, 65534, -1)
            os.chown(place, 65534, -1)
        command = [sys.executable, "-c", _AS_NOBODY]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, env=environment({"HOME": "/"})
        )
    if theirs:
        assert done.stdout == "None b'mine'\n", done.stderr
    else:
        assert done.stdout.startswith("None None no code is kept in "), done.stderr
        assert "belongs to user 0, not to user 65534" in done.stdout


def test_negative_a_folder_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.parent.joinpath("file").write_text("")
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(cache.parent / "file"))
    assert _works(_code())


def test_negative_a_folder_that_may_only_be_read(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.mkdir(mode=0o500)

    real = os.open

    def refuse(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)  # permissions do not stop root
    assert _works(_code())
    assert not list(cache.iterdir())


@pytest.mark.parametrize("step", ["write", "replace"])
def test_negative_a_full_disk_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "replace":
        monkeypatch.setattr(os, "replace", full)
    else:
        monkeypatch.setattr(code_cache.hashlib, "sha256", _Sha(full))
    assert _works(_code())
    assert not list(cache.iterdir())


class _Sha:
    """sha256 that fails where the content of a file is hashed, with the file open."""

    def __init__(self, full: Any) -> None:
        self.full, self.real = full, code_cache.hashlib.sha256

    def __call__(self, data: bytes) -> Any:
        return self.full() if b"\x7fELF" in data else self.real(data)


def test_negative_no_home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LAYOUT_IR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")

    def none() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.setattr(Path, "home", none)
    assert code_cache.folder() is None
    assert _works(_code())


def test_a_home_and_a_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("LAYOUT_IR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert code_cache.folder() == tmp_path / "layout-ir"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert code_cache.folder() == tmp_path / "home" / ".cache" / "layout-ir"


@pytest.mark.parametrize("variable", ["LAYOUT_IR_CACHE", "XDG_CACHE_HOME"])
def test_negative_a_relative_folder_does_not_count(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("LAYOUT_IR_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, "kept/here")
    assert code_cache.folder() == tmp_path / "home" / ".cache" / "layout-ir"


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
from layout_ir.algebra.format import Format
for n in range(3, 13):
    src, dst = Format.from_tag("ab").bind((n, 9)), Format.from_tag("ba").bind((n, 9))
    x, y = np.arange(9 * n, dtype=np.float32), np.zeros(9 * n, np.float32)
    compile_reorder(src, dst)(x, y)
    assert np.array_equal(y.reshape(9, n), x.reshape(n, 9).T)
"""


def test_processes_do_not_disturb_each_other(cache: Path):
    command = [sys.executable, "-c", _WRITER]
    writers = [
        subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE) for _ in range(8)
    ]
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err.decode()
    names = [file.name for file in cache.iterdir()]
    assert sum(name.startswith("code-") for name in names) == 11  # ten kernels and the entry from Python
    assert all(code_cache.read(name) is not None for name in names)


def test_too_many_files_are_halved_and_others_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(code_cache, "_MOST_FILES", 10)
    cache.mkdir()
    (cache / "calibration.json").write_text("{}")
    names = [code_cache.name("code", k) for k in range(64)]
    for name in names:
        code_cache.write(name, b"content")
    kept = {file.name for file in cache.iterdir()}
    assert "calibration.json" in kept
    assert len(kept) < 50
    assert kept - {"calibration.json"} <= set(names)


def test_negative_a_profile_is_not_dropped_however_old(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(code_cache, "_MOST_FILES", 10)
    profile = code_cache.name("profile", "this machine")
    code_cache.write(profile, b"facts")
    os.utime(cache / profile, (0, 0))
    for k in range(64):
        code_cache.write(code_cache.name("code", k), b"content")
    assert len(list(cache.iterdir())) < 50
    assert code_cache.read(profile) == b"facts"


def test_other_machines_have_other_names():
    assert code_cache.name("code", "text", host(), 1) != code_cache.name("code", "text", host(), 2)
    assert code_cache.name("code", "ab", "c") != code_cache.name("code", "a", "bc")
    assert code_cache.name("code", "a").startswith(f"code-{code_cache.VERSION}-")
