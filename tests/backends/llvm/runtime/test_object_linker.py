"""Objects linked by us compute what they compute when LLVM links them, and what we cannot link is refused."""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import jit
from layout_ir.backends.llvm.runtime.object_linker import CAN_LINK, Image, Unsupported

pytestmark = pytest.mark.skipif(not CAN_LINK, reason="code is not ELF for x86-64 here")

_Number = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

_TEXT = """\
@table = private constant [4 x i64] [i64 3, i64 1, i64 4, i64 15]
@count = internal global i64 0
@start = internal global i64 40
@self = internal constant ptr @looked
@free = external global i8
declare i64 @labs(i64)
declare void @PyErr_Clear()

define i64 @looked(i64 %x) {
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %x
  %y = load i64, ptr %at
  ret i64 %y
}

define i64 @called(i64 %x) {
  %y = call i64 @labs(i64 %x)
  ret i64 %y
}

define i64 @counted(i64 %x) {
  %before = load i64, ptr @count
  %start = load i64, ptr @start
  %after = add i64 %before, %x
  store i64 %after, ptr @count
  %y = add i64 %after, %start
  ret i64 %y
}

define i64 @pointed(i64 %x) {
  %f = load ptr, ptr @self
  %y = call i64 %f(i64 %x)
  ret i64 %y
}

define i64 @taken(i64 %x) {
  %y = ptrtoint ptr @PyErr_Clear to i64
  ret i64 %y
}
"""
_NAMES = ("looked", "called", "counted", "pointed", "taken")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path / "cache"))


def _object(text: str, machine: str = "host") -> bytes:
    made_for = machine_named(machine)
    return jit.object_file(f'target triple = "{made_for.triple}"\n{text}', made_for)


def _function(number: int) -> str:
    return f"define i64 @f(i64 %x) {{\n  %y = mul i64 %x, {number}\n  ret i64 %y\n}}\n"


def test_constants_variables_calls_and_addresses_are_where_code_looks_for_them():
    image = Image([_object(_TEXT)])
    looked, called, counted, pointed, taken = (_Number(image.address(0, name)) for name in _NAMES)
    assert [looked(k) for k in range(4)] == [pointed(k) for k in range(4)] == [3, 1, 4, 15]
    assert (called(-7), called(9)) == (7, 9)
    assert [counted(k) for k in (1, 2, 3)] == [41, 43, 46]
    assert taken(0) == ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p).value


def test_objects_of_one_image_keep_to_themselves():
    image = Image([_object(_function(k)) for k in range(5)] + [_object(_TEXT)] * 2)
    assert [_Number(image.address(k, "f"))(10) for k in range(5)] == [0, 10, 20, 30, 40]
    first, second = (_Number(image.address(k, "counted")) for k in (5, 6))
    assert [first(1), first(1), second(5)] == [41, 42, 45]


def test_kernels_of_an_image_share_pages():
    objects = [_object(_function(k)) for k in range(20)]
    addresses = [code.address("f") for code in jit.Code.of_objects(objects, ["f"] * 20)]
    assert max(addresses) - min(addresses) < 4096
    apart = [jit.Code(_function(k), host(), ["f"]) for k in range(3)]
    assert len({code.address("f") >> 12 for code in apart}) == 3


def test_code_is_never_writable_and_executable():
    image = Image([_object(_TEXT)])
    address = image.address(0, "counted")
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            assert line.split()[1] == "r-xp"


def test_an_image_lives_as_long_as_a_function_of_it():
    codes = jit.Code.of_objects([_object(_function(k)) for k in (2, 3)], ["f", "f"])
    last = codes[1]
    del codes
    assert _Number(last.address("f"))(5) == 15


def test_negative_functions_and_symbols_that_are_not_there():
    with pytest.raises(RuntimeError, match="no function g"):
        Image([_object(_function(1))]).address(0, "g")
    with pytest.raises(RuntimeError, match="nobody_has_this is found nowhere"):
        Image(
            [
                _object(
                    "declare void @nobody_has_this()\ndefine void @f() { call void @nobody_has_this() ret void }"
                )
            ]
        )


@pytest.mark.parametrize("kind", ["thread_local", "common"])
def test_negative_what_kernels_do_not_need_is_refused(kind: str):
    with pytest.raises(Unsupported):
        Image([_object(f"@v = {kind} global i64 0\ndefine ptr @f() {{ ret ptr @v }}")])


def test_negative_objects_of_other_machines_and_damaged_ones_are_refused():
    with pytest.raises(Unsupported, match="no object for x86-64"):
        Image([_object(_function(1), "aarch64")])
    data = _object(_TEXT)
    for end in (0, 5, 40, 64):
        with pytest.raises(Unsupported):
            Image([data[:end]])
    (table,) = struct.unpack_from("<Q", data, 40)
    for at in range(table, len(data), 8):  # each field of a header of a section
        damaged = bytearray(data)
        damaged[at : at + 8] = b"\xff" * 8
        with suppress(RuntimeError):
            Image([bytes(damaged)])


def test_what_we_cannot_link_llvm_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jit, "CAN_LINK", False)
    codes = [jit.Code(_function(k), host(), ["f"]) for k in range(70)]  # several generations of linkers
    codes += jit.Code.of_objects([_object(_function(70))], ["f"])
    del codes[::3]
    assert [_Number(code.address("f"))(10) // 10 for code in codes] == [k for k in range(71) if k % 3]
