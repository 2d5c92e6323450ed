"""Code is at the addresses of its functions as long as it is kept; files of it are for the machine that is named."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from layout_ir.backends.llvm.aot.object_file import elf_symbols
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import jit

_Number = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def _text(number: int, name: str = "f") -> str:
    return f"define i64 @{name}(i64 %x) {{\n  %y = mul i64 %x, {number}\n  ret i64 %y\n}}\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYOUT_IR_CACHE", str(tmp_path / "cache"))


def test_functions_of_many_kernels_keep_to_themselves():
    codes = [jit.Code(_text(k), host(), ["f"]) for k in range(70)]  # several generations of linkers
    del codes[::3]
    assert [_Number(code.address("f"))(10) // 10 for code in codes] == [k for k in range(70) if k % 3]


def test_functions_are_found_by_name():
    code = jit.Code(_text(2, "two") + _text(3, "three"), host(), ["two", "three"])
    assert [_Number(code.address(name))(7) for name in ("two", "three")] == [14, 21]


def test_text_is_made_once_for_a_key():
    made: list[int] = []

    def text(number: int) -> Callable[[], str]:
        def make() -> str:
            made.append(number)
            return _text(number)

        return make

    codes = [jit.Code(text(k), host(), ["f"], key="five") for k in (5, 6)]
    assert [_Number(code.address("f"))(1) for code in codes] == [5, 5]
    assert made == [5]


def test_negative_without_a_key_nothing_is_remembered():
    codes = [jit.Code(_text(k), host(), ["f"]) for k in (5, 6)]
    assert [_Number(code.address("f"))(1) for code in codes] == [5, 6]


def test_negative_text_that_is_no_ir_and_functions_that_are_not_there():
    with pytest.raises(RuntimeError):
        jit.Code("define i64 @f(", host(), ["f"])
    with pytest.raises(RuntimeError):
        jit.Code(_text(1), host(), ["g"])


@pytest.mark.parametrize("name, number", [("x86-64-v3", 62), ("aarch64", 183), ("riscv64", 243)])
def test_objects_are_for_the_machine_that_is_named(name: str, number: int):
    machine = machine_named(name)
    data = jit.object_file(f'target triple = "{machine.triple}"\n{_text(3)}', machine)
    assert data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == number  # e_machine
    assert dict(elf_symbols(data))["f"] is True
    assert "f:" in jit.assembly(_text(3), machine)
