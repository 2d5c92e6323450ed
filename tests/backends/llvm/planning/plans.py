"""Two machines that differ in registers and caches, and what is planned on them for two formats of one shape."""

from __future__ import annotations

from math import prod
from operator import index
from random import Random

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.dialects.kernel.plan import Plan, Step, Tile

WIDE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)
NARROW = Machine("aarch64-unknown-linux-gnu", "generic", "", 16, 32 << 10, 512 << 10, 8 << 20)

TAGS = ("abcd", "acdb", "cdba", "dbac", "aBcd4b", "aBcd8b", "aBcd16b", "ABcd16a16b", "ABcd8b16a", "Abcd32a")
"""Orders and blocks of four dims."""


def steps_of(
    src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE
) -> tuple[Step, ...]:
    """The steps of the plan for two formats of `shape`."""
    plan = plan_reorder(Format.of(src).bind(shape), Format.of(dst).bind(shape), dtype, target=machine)
    return plan.steps


def step_of(src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE) -> Step:
    """The only step of the plan."""
    [step] = steps_of(src, dst, shape, dtype, machine)
    return step


def tile_of(src: str, dst: str, shape: tuple[int, ...], dtype: str = "f32", machine: Machine = WIDE) -> Tile:
    """The tile of the only step."""
    tile = step_of(src, dst, shape, dtype, machine).kernel
    assert isinstance(tile, Tile)
    return tile


def blocks(tile: Tile) -> tuple[int, int]:
    """Rows and columns of the tile that registers hold."""
    return index(tile.block("rows")), index(tile.block("cols"))


def of_steps(*steps: Step, width: int = 1, size: int = 1 << 20) -> Plan:
    """A move that consists of these steps, between buffers of `size` bytes."""
    return Plan(width, size, size, steps)


def random_shape(rng: Random) -> tuple[int, ...]:
    """Few elements, powers of two and others in every dim, in all 2 KiB to 64 MiB of f32."""
    kinds = (
        range(1, 9),
        [1 << k for k in range(4, 10)],
        (7, 14, 17, 20, 28, 49, 56, 96, 112, 196),
        range(1, 600),
    )
    shape = [rng.choice(rng.choice(kinds)) for _ in range(4)]
    shape[rng.randrange(4)] *= max((1 << rng.randint(9, 24)) // prod(shape), 1)
    return tuple(shape)
