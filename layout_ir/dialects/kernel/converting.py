"""Micro-kernels of plans that convert; `kernel.plan` says between which types, and how.

    kernel.convert 64 for 4 src 256 dst 64                     runs of elements
    kernel.convert_tile rows 64 by 12544 cols 3136 by 64 cuts <rows:64, cols:16>       transposes in registers
    kernel.convert_weave strands 3 of 400 by 1600 block 64     interleaves, with `splits` the other way round

`channel` counts channels from one element, row, column or strand to the next.
"""

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel import bounds
from layout_ir.dialects.kernel.attributes import CutsAttr
from layout_ir.dialects.kernel.bounds import Access
from layout_ir.dialects.kernel.micro import KernelOp
from layout_ir.dialects.kernel.structure import Int, number, plan_around


class ConvertingOp(KernelOp):
    """A micro-kernel between two element types."""

    @property
    def widths(self) -> tuple[int, int]:
        """How far apart neighbours are in source and destination."""
        return plan_around(self).widths

    def verify_(self) -> None:
        if plan_around(self).convert is None:
            raise VerifyException(f"{self.name} needs a plan that says what to convert")
        super().verify_()


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
        for axis, count in (("rows", rows), ("cols", cols)):
            sizes = [size for name, size in self.cuts.data if name == axis]
            if not sizes or not 0 < sizes[-1] <= count:
                shown = sizes[-1] if sizes else "no"
                raise VerifyException(f"the last cut of {axis} is the tile, of 1 to {count}, not {shown}")
        if number(self.reach) < 0:
            raise VerifyException(f"prefetches run ahead, not {-number(self.reach)} bytes behind")

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
        if not 0 < block <= count:
            raise VerifyException(f"a block of {block} elements does not fit strands of {count}")

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
