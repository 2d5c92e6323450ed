"""What one round of a micro-kernel holds in registers: the checks that micro-kernels share."""

from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel import bounds
from layout_ir.dialects.kernel.attributes import CutsAttr

LONGEST = 256
"""Rows, columns, strands or elements that the registers of one round hold at most."""


def check_pads(width: int, **sizes: int) -> None:
    """Raises VerifyException where one of the named sizes is no whole number of pads of `width` bytes."""
    bounds.check_width(width)
    for name, size in sizes.items():
        if size % width:
            raise VerifyException(f"{name} is {size}, no multiple of the pad's {width} bytes")


def check_register(what: str, count: int) -> None:
    """Raises VerifyException where so many are more than the registers of one round should hold."""
    if count > LONGEST:
        raise VerifyException(f"{count} {what} are moved at once: {LONGEST} are the most")


def check_cuts(cuts: CutsAttr, rows: int, cols: int) -> tuple[int, int]:
    """Rows and columns of the tile, which the last cuts are. Raises VerifyException where there is none."""
    found: list[int] = []
    for axis, count in (("rows", rows), ("cols", cols)):
        sizes = [size for name, size in cuts.data if name == axis]
        if not sizes or not 0 < sizes[-1] <= count:
            shown = sizes[-1] if sizes else "no"
            raise VerifyException(f"the last cut of {axis} is the tile, of 1 to {count}, not {shown}")
        if min(sizes) < 1:
            raise VerifyException(f"{axis} are cut into blocks of {min(sizes)}, at least 1 is needed")
        check_register(axis, sizes[-1])
        found.append(sizes[-1])
    return found[0], found[1]


def tile_stores(
    cuts: CutsAttr, rows: int, width: int, strides: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """The stores of a tile, one for every column: where its rows begin, the cuts say."""
    sizes = [size for name, size in cuts.data if name == "rows"]
    return sizes[-1] * width, (rows * width, *(size * width for size in sizes), *strides)


def check_weave(strands: int, count: int, block: int) -> None:
    """Raises VerifyException where blocks of so many elements of every strand cannot be moved at once."""
    if not 0 < block <= count:
        raise VerifyException(f"a block of {block} elements does not fit strands of {count}")
    check_register("strands", strands)
    check_register("elements of a strand", block)
