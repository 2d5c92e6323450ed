"""Micro-kernels: what the innermost round of a step does. All numbers count bytes, except where they count elements.

    kernel.copy 64 for 4 src 64 dst 128                        runs of bytes
    kernel.padded 64 of 4 with 0 width 4 for 8 src 32 dst 64   runs with pads behind
    kernel.fill 32 with 0 width 4                              pads
    kernel.elements 4 for 16 src 64 dst 4                      one element after the other
    kernel.tile 4 rows 64 by 6272 cols 1568 by 256 cuts <cols:16, rows:4, cols:4>      transposes in registers
    kernel.weave 4 strands 3 of 400 by 1600 block 8            interleaves, with `splits` the other way round
    kernel.staged 62720 streaming { kernel.step ... }          steps into a buffer, which is then streamed
    kernel.staged 512 runs 64 by 12544 pitch 576 streaming { kernel.step ... }      the same to several places

`streaming`: stores bypass the caches where the destination is aligned.
"""

from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel import bounds
from layout_ir.dialects.kernel.attributes import CutsAttr
from layout_ir.dialects.kernel.bounds import LINE, Access, Accesses, Buffers
from layout_ir.dialects.kernel.rounds import check_cuts, check_pads, check_register, check_weave, tile_stores
from layout_ir.dialects.kernel.structure import (
    Int,
    PlanOp,
    element_width,
    is_in_wrong_loop,
    number,
    plan_around,
    steps_in,
)

LARGEST = 1 << 20
"""Bytes of a stage, which is on the stack, at most."""


class KernelOp(Accesses, IRDLOperation):
    """What a nest does in its innermost round."""

    streaming = opt_prop_def(UnitAttr)
    split = opt_prop_def(UnitAttr)

    FLAGS: ClassVar[str] = "(`streaming` $streaming^)? (`split` $split^)? attr-dict"
    INNER: ClassVar[str] = "`for` $count `src` $inner_src `dst` $inner_dst"

    CONVERTS: ClassVar[bool] = False
    """Whether plans that convert may have it."""

    def verify_(self) -> None:
        width = element_width(self)
        if plan_around(self).convert is not None and not self.CONVERTS:
            raise VerifyException(f"{self.name} moves elements, but the plan converts them")
        self.check()
        if is_in_wrong_loop(self):
            return  # the error is there
        bounds.check_access(self, width)
        if self.streaming is not None:
            bounds.check_stores(self)

    def check(self) -> None:
        """Raises VerifyException where the op's own numbers do not fit together."""


class RunOp(KernelOp):
    """`run` bytes that lie together, in each round of an inner loop if there is one."""

    run = prop_def(Int)
    count = opt_prop_def(Int)
    inner_src = opt_prop_def(Int)
    inner_dst = opt_prop_def(Int)

    def check(self) -> None:
        given = [x is not None for x in (self.count, self.inner_src, self.inner_dst)]
        if any(given) and not all(given):
            raise VerifyException("an inner loop has a count, a source and a destination stride")
        bounds.positive(run=number(self.run), count=1 if self.count is None else number(self.count))

    def _access(self, stride: Int | None) -> Access:
        loops = () if self.count is None else ((number(self.count), number(stride)),)
        return Access(number(self.run), loops)

    @property
    def writes(self) -> Access:
        return self._access(self.inner_dst)

    def _stores(self, size: int) -> tuple[int, tuple[int, ...]] | None:
        """Stores of 16 bytes and more are aligned where they bypass the caches."""
        return (size, (number(self.inner_dst),)) if size >= 16 else None


@irdl_op_definition
class CopyOp(RunOp):
    """Runs that lie together on both sides."""

    name = "kernel.copy"
    assembly_format = f"$run (`for` $count^ `src` $inner_src `dst` $inner_dst)? {KernelOp.FLAGS}"

    @property
    def reads(self) -> Access | None:
        return self._access(self.inner_src)

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        run = number(self.run)
        return self._stores(LINE if run % LINE == 0 else run)


@irdl_op_definition
class FillOp(RunOp):
    """Runs get the pad value `value`, the bits of an element of `width` bytes."""

    name = "kernel.fill"
    value = prop_def(Int)
    width = prop_def(Int)
    assembly_format = (
        "$run `with` $value `width` $width "
        f"(`for` $count^ `src` $inner_src `dst` $inner_dst)? {KernelOp.FLAGS}"
    )

    CONVERTS: ClassVar[bool] = True

    def check(self) -> None:
        super().check()
        check_pads(number(self.width), run=number(self.run))

    @property
    def reads(self) -> Access | None:
        return None

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class PaddedOp(RunOp):
    """Runs whose first `valid` bytes are in the source; the others get `value`, the bits of `width` bytes."""

    name = "kernel.padded"
    valid = prop_def(Int)
    value = prop_def(Int)
    width = prop_def(Int)
    assembly_format = (
        "$run `of` $valid `with` $value `width` $width "
        f"(`for` $count^ `src` $inner_src `dst` $inner_dst)? {KernelOp.FLAGS}"
    )

    def check(self) -> None:
        super().check()
        if not 0 < number(self.valid) < number(self.run):
            raise VerifyException(f"{number(self.valid)} bytes are valid of a run of {number(self.run)}")
        check_pads(number(self.width), run=number(self.run), valid=number(self.valid))
        check_register("elements", number(self.run) // number(self.width))

    @property
    def reads(self) -> Access | None:
        return self._access(self.inner_src)._replace(run=number(self.valid))

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        return self._stores(number(self.run))

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class ElementsOp(KernelOp):
    """Single elements of `width` bytes, one after the other."""

    name = "kernel.elements"
    width = prop_def(Int)
    count = prop_def(Int)
    inner_src = prop_def(Int)
    inner_dst = prop_def(Int)
    assembly_format = f"$width {KernelOp.INNER} {KernelOp.FLAGS}"

    def check(self) -> None:
        bounds.positive(width=number(self.width), count=number(self.count))

    @property
    def reads(self) -> Access | None:
        return Access(number(self.width), ((number(self.count), number(self.inner_src)),))

    @property
    def writes(self) -> Access:
        return Access(number(self.width), ((number(self.count), number(self.inner_dst)),))

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class TileOp(KernelOp):
    """Transposes in registers: `rows` lie together in the destination, `cols` in the source.

    From row `valid` on, if given, the source has none: those rows are pads that get the bits `pad`. Of columns with a
    `fold` only so many are `col_stride` apart, every `fold` of them begin `col_far` bytes behind the last. `whole`:
    rows are loaded as whole registers; with `reach` prefetches run that many bytes ahead in every row.
    """

    name = "kernel.tile"
    width = prop_def(Int)
    rows = prop_def(Int)
    row_stride = prop_def(Int)
    cols = prop_def(Int)
    col_stride = prop_def(Int)
    fold = opt_prop_def(Int)
    col_far = opt_prop_def(Int)
    cuts = prop_def(CutsAttr)
    valid = opt_prop_def(Int)
    pad = opt_prop_def(Int)
    whole = opt_prop_def(UnitAttr)
    reach = opt_prop_def(Int)
    assembly_format = (
        "$width `rows` $rows `by` $row_stride `cols` $cols `by` $col_stride (`fold` $fold^ `by` $col_far)? "
        "`cuts` $cuts (`valid` $valid^ `pad` $pad)? (`whole` $whole^)? (`reach` $reach^)? "
        f"{KernelOp.FLAGS}"
    )

    def check(self) -> None:
        rows, cols = number(self.rows), number(self.cols)
        bounds.positive(width=number(self.width), rows=rows, cols=cols)
        if (self.valid is None) != (self.pad is None):
            raise VerifyException("rows that are pads need both 'valid' and 'pad'")
        if (self.fold is None) != (self.col_far is None):
            raise VerifyException("columns that are folded need both 'fold' and how far apart the folds are")
        if self.fold is not None and (number(self.fold) < 1 or cols % number(self.fold)):
            raise VerifyException(f"{cols} columns are no whole folds of {number(self.fold)}")
        if number(self.reach) < 0:
            raise VerifyException(f"prefetches run ahead, not {-number(self.reach)} bytes behind")
        if not 0 <= number(self.valid) < rows:
            raise VerifyException(f"{number(self.valid)} rows are valid of {rows}")
        high, wide = check_cuts(self.cuts, rows, cols)
        if self.valid is not None and number(self.valid) and high != rows:
            raise VerifyException(f"rows that are pads need a tile of all {rows} rows, not of {high}")
        if self.whole is None:
            return
        least, most = 16 // number(self.width), LINE // number(self.width)
        if high != wide or high & (high - 1) or not least <= high <= most:
            raise VerifyException(
                f"rows are whole registers of a square tile, of a power of two, {least} to {most}: not {high} x {wide}"
            )
        if self.valid is not None:
            raise VerifyException("rows that are pads are no whole registers")

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        width, fold = number(self.width), () if self.fold is None else (number(self.col_far),)
        return tile_stores(self.cuts, number(self.rows), width, (number(self.col_stride), *fold))

    @property
    def reads(self) -> Access | None:
        rows = number(self.valid) or number(self.rows)
        return Access(number(self.cols) * number(self.width), ((rows, number(self.row_stride)),))

    @property
    def writes(self) -> Access:
        run = number(self.rows) * number(self.width)
        cols, stride = number(self.cols), number(self.col_stride)
        if self.fold is None:
            return Access(run, ((cols, stride),))
        fold = max(number(self.fold), 1)  # the plan asks before `check` has refused folds of 0
        return Access(run, ((fold, stride), (cols // fold, number(self.col_far))))

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class WeaveOp(KernelOp):
    """`strands` runs of `count` elements, `stride` bytes apart, woven into one; with `splits` the other way round."""

    name = "kernel.weave"
    width = prop_def(Int)
    strands = prop_def(Int)
    count = prop_def(Int)
    stride = prop_def(Int)
    block = prop_def(Int)
    splits = opt_prop_def(UnitAttr)
    assembly_format = (
        "$width `strands` $strands `of` $count `by` $stride `block` $block (`splits` $splits^)? "
        f"{KernelOp.FLAGS}"
    )

    def check(self) -> None:
        count, block = number(self.count), number(self.block)
        bounds.positive(width=number(self.width), strands=number(self.strands), count=count)
        check_weave(number(self.strands), count, block)

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        width, stride = number(self.width), number(self.stride) if self.splits is not None else 0
        return number(self.block) * width, (number(self.count) * width, stride)

    @property
    def _strands(self) -> Access:
        run = number(self.count) * number(self.width)
        return Access(run, ((number(self.strands), number(self.stride)),))

    @property
    def _woven(self) -> Access:
        return Access(number(self.strands) * number(self.count) * number(self.width))

    @property
    def reads(self) -> Access | None:
        return self._strands if self.splits is None else self._woven

    @property
    def writes(self) -> Access:
        return self._woven if self.splits is None else self._strands

    @property
    def element(self) -> int | None:
        return number(self.width)


@irdl_op_definition
class StagedOp(Buffers, KernelOp):
    """Steps that write `size` bytes, all of them, into a small buffer, which then goes to the destination.

    With `runs` as many of that size, `stride` bytes apart in the destination and `pitch` in the buffer. `along`: so
    often, each time `step` bytes further in the source and `size` further in each run.
    """

    name = "kernel.staged"
    size = prop_def(Int)
    runs = opt_prop_def(Int)
    stride = opt_prop_def(Int)
    pitch = opt_prop_def(Int)
    along = opt_prop_def(Int)
    step = opt_prop_def(Int)
    body = region_def()
    traits = traits_def(NoTerminator())
    assembly_format = (
        "$size (`runs` $runs^ `by` $stride `pitch` $pitch)? (`along` $along^ `src` $step)? "
        "(`streaming` $streaming^)? (`split` $split^)? $body attr-dict"
    )

    def check(self) -> None:
        if not isinstance(next(x for x in bounds.around(self) if isinstance(x, Buffers)), PlanOp):
            raise VerifyException("there is one buffer: a stage has no stage inside")
        given = [x is not None for x in (self.runs, self.stride, self.pitch)]
        if any(given) and not all(given):
            raise VerifyException(
                "runs of a stage have a stride in the destination and a pitch in the buffer"
            )
        size, pitch = number(self.size), number(self.pitch)
        if size < LINE:
            raise VerifyException(f"a stage of {size} bytes is less than a line of {LINE}")
        if all(given):
            bounds.positive(runs=number(self.runs))
            if pitch < size or (pitch - number(self.stride)) % LINE:
                raise VerifyException(
                    f"runs of {size} bytes, {number(self.stride)} apart, lie {pitch} apart in the buffer: "
                    f"at least their size is needed, and the same rest by {LINE}"
                )
        if self.along is not None:
            bounds.positive(along=number(self.along))
            if not all(given) or size % LINE:
                raise VerifyException(f"runs are continued by whole lines of {LINE}, not by {size} bytes")
            if pitch < size + LINE:
                raise VerifyException(
                    f"runs that are continued lie {pitch} apart in the buffer: {size} and a line of {LINE} are needed"
                )
        if self.sizes[1] > LARGEST:
            raise VerifyException(f"a stage of {self.sizes[1]} bytes on the stack: {LARGEST} are the most")
        bounds.check_filled(steps_in(self.body), self._runs * size, whole=True)

    @property
    def _runs(self) -> int:
        return 1 if self.runs is None else number(self.runs)

    @property
    def sizes(self) -> tuple[int | None, int]:
        return None, number(self.size) + (self._runs - 1) * number(self.pitch)

    @property
    def reads(self) -> Access | None:
        return None

    @property
    def writes(self) -> Access:
        runs = () if self.runs is None else ((self._runs, number(self.stride)),)
        along = () if self.along is None else ((number(self.along), number(self.size)),)
        return Access(number(self.size), (*runs, *along))

    @property
    def turns(self) -> bounds.Range:
        return (0, 0) if self.along is None else bounds.linear(number(self.along), number(self.step))
