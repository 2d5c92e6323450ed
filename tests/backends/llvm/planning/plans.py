"""Two machines that differ in registers and caches, and what is planned on them for two formats of one shape."""

from __future__ import annotations

from operator import index

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.dialects.kernel.plan import Plan, Step, Tile

WIDE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)
NARROW = Machine("aarch64-unknown-linux-gnu", "generic", "", 16, 32 << 10, 512 << 10, 8 << 20)


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
