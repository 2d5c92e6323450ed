"""Inputs that fail in every way on purpose: what the driver must see."""

from __future__ import annotations

import ctypes

from layout_ir.errors import LayoutError, UnforeseenError
from tests.fuzz.kinds import Kind, Wrong

WAYS = (
    "passes",
    "refused",
    "raised",
    "unforeseen",
    "wrong",
    "crash",
    "hang",
    "memory",
    "much memory",
    "exit",
)


class Drill(Kind):
    name = "drill"
    chunk = 3
    memory = 64 << 20

    def make(self, seed: int, number: int) -> bytes:
        return f"a line\n{WAYS[number % len(WAYS)]}\nanother line\n".encode()

    def run(self, data: bytes) -> None:
        match next((way for way in WAYS if way in data.decode().splitlines()), "passes"):
            case "refused":
                raise LayoutError("refused")
            case "raised":
                raise IndexError("raised")
            case "unforeseen":
                raise UnforeseenError("a subject", KeyError("x"))
            case "wrong":
                raise Wrong("wrong")
            case "crash":
                ctypes.string_at(8)
            case "hang":
                while True:
                    pass
            case "memory":
                bytearray(1 << 40)
            case "much memory":
                _ = b"x" * (80 << 20)
            case "exit":
                raise SystemExit(3)
            case _:
                pass
