"""Objects of kernels put into memory where code is ELF for x86-64: what LLVM's linker does, without LLVM.

LLVM in memory is 44 MB of a process, which one that reads compiled networks from files has no other use for. Its linker
keeps 9 KiB for every object, and gives code and constants pages of their own: two for a kernel of some hundred bytes.
Here objects that are linked together lie side by side in one image:

    code and constants    first, with a stub for each function and a word for each address that is found elsewhere
    variables             behind them, on pages of their own, where there are any

An image is written first and made executable then: no page of it is ever writable and executable. What kernels do not
need is refused (`Unsupported`): common symbols, thread-local variables, other code models.
"""

from __future__ import annotations

import mmap
import platform
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from ctypes import CDLL, addressof, c_char, c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from functools import cache
from typing import Any

CAN_LINK = sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32
"""Whether this process runs such code."""

_X86_64, _RELOCATABLE = 62, 1
_SYMBOLS, _ADDENDS, _NO_BITS = 2, 4, 8
"""Types of sections: symbols, relocations with addends, and one of zeros that the file does not hold."""
_WRITE, _ALLOCATED, _THREAD_LOCAL = 1, 2, 0x400
_UNWINDING = 0x70000001
"""The type of sections with tables for unwinding, which kernels do not need: none of them throws."""
_UNDEFINED = 0
"""The number of the section of symbols that are found elsewhere."""

_ADDRESS, _DISTANCE, _CALL = 1, 2, 4
_TABLES = (9, 41, 42)
"""R_X86_64_GOTPCREL and its relaxable kin: the distance to a word that holds the address."""

_STUB = b"\xff\x25\x02\x00\x00\x00\x66\x90"
"""A jump of 6 bytes to the address that stands 2 bytes behind it."""
_STUB_SIZE = 16

_MOST_BYTES = 1 << 30
"""The most bytes of an image: from each place in it, every other one is within reach."""

_ALIGNMENT = 16
"""Bytes to which sections are aligned at least."""


class Unsupported(RuntimeError):
    """The object is none that is linked here: no ELF for x86-64, or it holds what kernels do not."""


@dataclass(slots=True)
class _Section:
    """A section of an object: the fields of its header that linking needs."""

    name: int
    type: int
    flags: int
    start: int
    size: int
    link: int
    info: int
    alignment: int
    place: int = 0
    """Where it begins in the image, if it is loaded."""

    @property
    def is_loaded(self) -> bool:
        """Whether it is part of the program."""
        return bool(self.flags & _ALLOCATED) and self.type != _UNWINDING


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int


@dataclass(slots=True)
class _Object:
    data: bytes
    sections: list[_Section] = field(default_factory=list[_Section])
    symbols: list[_Symbol] = field(default_factory=list[_Symbol])
    relocations: list[tuple[int, int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int, int]]
    )
    """Section, offset in it, type, number of the symbol, addend."""


def _read(data: bytes) -> _Object:
    """The tables of an object."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise Unsupported("no ELF of 64 bits")
    if struct.unpack_from("<HH", data, 16) != (_RELOCATABLE, _X86_64):
        raise Unsupported("no object for x86-64")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    found = _Object(data)
    for k in range(count):
        name, kind, flags, _, start, length, link, info, alignment, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, table + k * size
        )
        found.sections.append(
            _Section(name, kind, flags, start, length, link, info, max(alignment, _ALIGNMENT))
        )
    for section in found.sections:
        if section.is_loaded and section.flags & _THREAD_LOCAL:
            raise Unsupported("thread-local variables")
        if section.type == _SYMBOLS:
            names = found.sections[section.link].start
            for at in range(section.start, section.start + section.size, 24):
                name, _, _, number, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                text = data[names + name : data.index(b"\0", names + name)].decode()
                found.symbols.append(_Symbol(text, number, value))
        elif section.type == _ADDENDS and found.sections[section.info].is_loaded:
            for at in range(section.start, section.start + section.size, 24):
                offset, packed, addend = struct.unpack_from("<QQq", data, at)
                found.relocations.append((section.info, offset, packed & 0xFFFFFFFF, packed >> 32, addend))
    return found


class Image:
    """Objects in memory, side by side; their functions may be called as long as it lives.

    Raises Unsupported, and RuntimeError where the system refuses executable memory or a symbol is found nowhere.
    """

    def __init__(self, objects: Sequence[bytes]) -> None:
        try:
            self._link([_read(data) for data in objects])
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise Unsupported(f"an object is damaged: {error}") from error

    def _link(self, read: Sequence[_Object]) -> None:
        self._outside = _found_outside(read)
        end = _placed(_loaded(read, writable=False), 0)
        stubs = -(-end // _STUB_SIZE) * _STUB_SIZE
        self._stubs = {name: stubs + k * _STUB_SIZE for k, name in enumerate(self._outside)}
        words = stubs + len(self._stubs) * _STUB_SIZE
        self._words: dict[tuple[int, int], int] = {}
        for key in _in_tables(read):
            self._words.setdefault(key, words + 8 * len(self._words))
        fixed = _paged(words + 8 * len(self._words))
        end = _placed(_loaded(read, writable=True), fixed)
        size = max(_paged(end), mmap.PAGESIZE)
        if size > _MOST_BYTES:
            raise Unsupported(f"an image of {size} bytes")
        self._memory = mmap.mmap(
            -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
        self._start = addressof(c_char.from_buffer(self._memory))
        self._functions: list[Mapping[str, int]] = []
        for name, stub in self._stubs.items():
            struct.pack_into("<8sQ", self._memory, stub, _STUB, self._outside[name])
        for number, of in enumerate(read):
            self._fill(number, of)
        if _mprotect()(self._start, fixed, mmap.PROT_READ | mmap.PROT_EXEC):
            raise RuntimeError("the system gives no memory for machine code")

    def address(self, number: int, name: str) -> int:
        """Where function `name` of object `number` begins. Raises RuntimeError where there is none."""
        found = self._functions[number].get(name)
        if found is None:
            raise RuntimeError(f"the object has no function {name}")
        return found

    def _fill(self, number: int, of: _Object) -> None:
        """Copies the sections of an object to their places, and writes the addresses that they need."""
        memory, start = self._memory, self._start
        for section in of.sections:
            if section.is_loaded and section.type != _NO_BITS:
                memory[section.place : section.place + section.size] = of.data[
                    section.start : section.start + section.size
                ]
        addresses = [self._address_of(symbol, of) for symbol in of.symbols]
        self._functions.append(
            {
                symbol.name: address
                for symbol, address in zip(of.symbols, addresses, strict=True)
                if symbol.name and symbol.section != _UNDEFINED
            }
        )
        for into, offset, kind, symbol, addend in of.relocations:
            place, target = of.sections[into].place + offset, addresses[symbol]
            if not target:
                raise Unsupported(f"symbol {of.symbols[symbol].name} has no place")
            if kind == _ADDRESS:
                struct.pack_into("<Q", memory, place, target + addend & (1 << 64) - 1)
                continue
            if kind == _CALL and of.symbols[symbol].section == _UNDEFINED:
                target = start + self._stubs[of.symbols[symbol].name]
            elif kind in _TABLES:
                word = self._words[number, symbol]
                struct.pack_into("<Q", memory, word, target)
                target = start + word
            elif kind not in (_DISTANCE, _CALL):
                raise Unsupported(f"relocation {kind}")
            distance = target + addend - (start + place)
            if not -(1 << 31) <= distance < 1 << 31:
                raise Unsupported(f"relocation {kind} to {of.symbols[symbol].name}, which is too far away")
            struct.pack_into("<i", memory, place, distance)

    def _address_of(self, symbol: _Symbol, of: _Object) -> int:
        """Where a symbol is; 0 of one that has no place, as the name of a file or a common symbol."""
        if symbol.section == _UNDEFINED:
            return self._outside.get(symbol.name, 0)
        if symbol.section >= len(of.sections) or not of.sections[symbol.section].is_loaded:
            return 0
        return self._start + of.sections[symbol.section].place + symbol.value


def _loaded(objects: Sequence[_Object], *, writable: bool) -> Iterator[_Section]:
    for of in objects:
        for section in of.sections:
            if section.is_loaded and bool(section.flags & _WRITE) == writable:
                yield section


def _placed(sections: Iterator[_Section], end: int) -> int:
    """Places sections behind `end`; where the last of them ends."""
    for section in sections:
        section.place = -(-end // section.alignment) * section.alignment
        end = section.place + section.size
    return end


def _in_tables(objects: Sequence[_Object]) -> Iterator[tuple[int, int]]:
    """Object and symbol of each address that code reads from a word."""
    for number, of in enumerate(objects):
        for _, _, kind, symbol, _ in of.relocations:
            if kind in _TABLES:
                yield number, symbol


def _found_outside(objects: Sequence[_Object]) -> dict[str, int]:
    """The addresses of what is defined elsewhere in the process, by name."""
    found: dict[str, int] = {}
    for of in objects:
        for _, _, _, number, _ in of.relocations:
            symbol = of.symbols[number]
            if symbol.section == _UNDEFINED and symbol.name not in found:
                try:
                    found[symbol.name] = addressof(c_char.in_dll(_process(), symbol.name))
                except ValueError as error:
                    raise RuntimeError(f"symbol {symbol.name} is found nowhere") from error
    return found


def _paged(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@cache
def _process() -> CDLL:
    """What the process has loaded for all to see."""
    return CDLL(None)


@cache
def _mprotect() -> Any:
    function = CDLL(None).mprotect
    function.argtypes, function.restype = [c_void_p, c_size_t, c_int], c_int
    return function
