"""Micro-kernels of plans that convert; `kernel.plan` says between which types, and how.

    kernel.convert 64 for 4 src 256 dst 64                     runs of elements
    kernel.convert_tile rows 64 by 12544 cols 3136 by 64 cuts <rows:64, cols:16>       transposes in registers
    kernel.convert_weave strands 3 of 400 by 1600 block 64     interleaves, with `splits` the other way round

`channel` counts channels from one element, row, column or strand to the next.
"""

from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel import bounds
from layout_ir.dialects.kernel.attributes import CutsAttr
from layout_ir.dialects.kernel.bounds import LINE, Access
from layout_ir.dialects.kernel.micro import KernelOp
from layout_ir.dialects.kernel.rounds import check_cuts, check_weave, tile_stores
from layout_ir.dialects.kernel.structure import Int, is_in_wrong_loop, number, plan_around


class ConvertingOp(KernelOp):
    """A micro-kernel between two element types."""

    CONVERTS: ClassVar[bool] = True

    @property
    def widths(self) -> tuple[int, int]:
        """How far apart neighbours are in source and destination."""
        return plan_around(self).widths

    @property
    def once(self) -> bool:
        """Whether no element may be converted twice: it is added to, or is half a byte."""
        plan = plan_around(self)
        return any(plan.packed) or (plan.convert is not None and plan.convert.data.beta is not None)

    def verify_(self) -> None:
        convert = plan_around(self).convert
        if convert is None:
            raise VerifyException(f"{self.name} needs a plan that says what to convert")
        super().verify_()
        if convert.data.dim is not None and not is_in_wrong_loop(self):
            bounds.check_channels(self, convert.data.channels)
        if self.streaming is not None and plan_around(self).packed[1]:
            raise VerifyException("halves of bytes are not streamed")


@irdl_op_definition
class ConvertOp(ConvertingOp):
    """`run` elements that lie together on both sides, in each round of an inner loop if there is one."""

    name = "kernel.convert"
    run = prop_def(Int)
    channel = opt_prop_def(Int)
    count = opt_prop_def(Int)
    inner_src = opt_prop_def(Int)
    inner_dst = opt_prop_def(Int)
    inner_channel = opt_prop_def(Int)
    assembly_format = (
        "$run (`channel` $channel^)? "
        "(`for` $count^ `src` $inner_src `dst` $inner_dst (`by` $inner_channel^)?)? "
        f"{KernelOp.FLAGS}"
    )

    def check(self) -> None:
        given = [x is not None for x in (self.count, self.inner_src, self.inner_dst)]
        if any(given) and not all(given):
            raise VerifyException("an inner loop has a count, a source and a destination stride")
        bounds.positive(run=number(self.run), count=1 if self.count is None else number(self.count))

    @property
    def channels(self) -> bounds.Range:
        (low, high), (inner_low, inner_high) = (
            bounds.linear(number(self.run), number(self.channel)),
            bounds.linear(number(self.count) or 1, number(self.inner_channel)),
        )
        return low + inner_low, high + inner_high

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        size = number(self.run) * self.widths[1]
        return (LINE if size % LINE == 0 else size, (number(self.inner_dst),)) if size >= 16 else None

    def _access(self, stride: Int | None, width: int) -> Access:
        loops = () if self.count is None else ((number(self.count), number(stride)),)
        return Access(number(self.run) * width, loops)

    @property
    def reads(self) -> Access | None:
        return self._access(self.inner_src, self.widths[0])

    @property
    def writes(self) -> Access:
        return self._access(self.inner_dst, self.widths[1])


@irdl_op_definition
class ConvertTileOp(ConvertingOp):
    """Converts and transposes: `rows` lie together in the destination, `cols` in the source.

    With `reach` prefetches run that many bytes ahead in every row.
    """

    name = "kernel.convert_tile"
    rows = prop_def(Int)
    row_stride = prop_def(Int)
    row_channel = opt_prop_def(Int)
    cols = prop_def(Int)
    col_stride = prop_def(Int)
    col_channel = opt_prop_def(Int)
    cuts = prop_def(CutsAttr)
    reach = opt_prop_def(Int)
    assembly_format = (
        "`rows` $rows `by` $row_stride (`channel` $row_channel^)? "
        "`cols` $cols `by` $col_stride (`channel` $col_channel^)? `cuts` $cuts (`reach` $reach^)? "
        f"{KernelOp.FLAGS}"
    )

    def check(self) -> None:
        rows, cols = number(self.rows), number(self.cols)
        bounds.positive(rows=rows, cols=cols)
        tile = check_cuts(self.cuts, rows, cols)
        if number(self.reach) < 0:
            raise VerifyException(f"prefetches run ahead, not {-number(self.reach)} bytes behind")
        if self.once:
            self._check_once(*tile)

    def _check_once(self, high: int, wide: int) -> None:
        """Raises VerifyException where a tile would be moved back over another, or begin or end inside a byte."""
        counts, tile = {"rows": number(self.rows), "cols": number(self.cols)}, {"rows": high, "cols": wide}
        for axis, size in (*self.cuts.data, *counts.items()):
            if size % tile[axis]:
                raise VerifyException(
                    f"{size} {axis} are no whole tiles of {tile[axis]}, and no element may be converted twice"
                )
        strides = number(self.row_stride), number(self.col_stride)
        for side, axis in enumerate(("cols", "rows")):
            if not plan_around(self).packed[side]:
                continue
            if tile[axis] % 2:
                raise VerifyException(f"a tile of {tile[axis]} {axis} is no whole number of bytes")
            bounds.check_aligned(self, side, 2, (strides[side],), "tiles of halves of bytes are")

    @property
    def channels(self) -> bounds.Range:
        (low, high), (col_low, col_high) = (
            bounds.linear(number(self.rows), number(self.row_channel)),
            bounds.linear(number(self.cols), number(self.col_channel)),
        )
        return low + col_low, high + col_high

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        return tile_stores(self.cuts, number(self.rows), self.widths[1], (number(self.col_stride),))

    @property
    def reads(self) -> Access | None:
        return Access(number(self.cols) * self.widths[0], ((number(self.rows), number(self.row_stride)),))

    @property
    def writes(self) -> Access:
        return Access(number(self.rows) * self.widths[1], ((number(self.cols), number(self.col_stride)),))


@irdl_op_definition
class ConvertWeaveOp(ConvertingOp):
    """`strands` runs of `count` elements, `stride` apart, woven into one; with `splits` the other way round."""

    name = "kernel.convert_weave"
    strands = prop_def(Int)
    count = prop_def(Int)
    stride = prop_def(Int)
    channel = opt_prop_def(Int)
    block = prop_def(Int)
    splits = opt_prop_def(UnitAttr)
    assembly_format = (
        "`strands` $strands `of` $count `by` $stride (`channel` $channel^)? `block` $block (`splits` $splits^)? "
        f"{KernelOp.FLAGS}"
    )

    def check(self) -> None:
        count, block = number(self.count), number(self.block)
        bounds.positive(strands=number(self.strands), count=count)
        check_weave(number(self.strands), count, block)
        if self.once:
            raise VerifyException(
                "strands are woven where elements may be converted twice: not with beta or 4 bits"
            )

    @property
    def channels(self) -> bounds.Range:
        return bounds.linear(number(self.strands), number(self.channel))

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        width, stride = self.widths[1], number(self.stride) if self.splits is not None else 0
        return number(self.block) * width, (number(self.count) * width, stride)

    def _strands(self, width: int) -> Access:
        return Access(number(self.count) * width, ((number(self.strands), number(self.stride)),))

    def _woven(self, width: int) -> Access:
        return Access(number(self.strands) * number(self.count) * width)

    @property
    def reads(self) -> Access | None:
        return (self._strands if self.splits is None else self._woven)(self.widths[0])

    @property
    def writes(self) -> Access:
        return (self._woven if self.splits is None else self._strands)(self.widths[1])
