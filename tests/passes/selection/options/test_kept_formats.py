"""Which Formats ops that treat some dims specially are offered in, and that each of them can be written down.

An option is right if its types verify and the physical rewrite of the op takes it, so that is what is asked; what is
not offered is one that a kernel of whole blocks cannot run in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.dialects import nn
from layout_ir.dialects.layout import with_format
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named

NCHW, NHWC = "(n, c, h, w) : [n, c, h, w]", "(n, c, h, w) : [n, h, w, c]"
BLOCKS = "(n, c, h, w) : [n, c, h, w, c:8], pad = zero"
FOURS = "(n, c, h, w) : [n, c, h, w, c:4], pad = zero"
ROWS = "(n, c, h, w) : [n, c, h, w, h:4], pad = zero"

Make = Callable[[Sequence[SSAValue]], nn.NNOp]
X = (2, 12, 8, 6)

CASES: dict[str, tuple[Make, Sequence[tuple[tuple[int, ...], object]], tuple[str, ...], tuple[str, ...]]] = {
    "layer norm of channels": (
        lambda v: nn.LayerNormOp(*v, axes=(1,)), [((12, 1, 1), f32)], (NCHW, NHWC, FOURS, ROWS), (BLOCKS,),
    ),
    "rms norm of rows": (
        lambda v: nn.RmsNormOp(*v, axes=(2,)), [((8, 1), f32)], (NCHW, NHWC, FOURS, BLOCKS, ROWS), (),
    ),
    "instance norm": (
        lambda v: nn.GroupNormOp(*v, groups=12), [((12,), f32)] * 2, (NCHW, NHWC, FOURS, BLOCKS, ROWS), (),
    ),
    "group norm": (
        lambda v: nn.GroupNormOp(*v, groups=6), [((12,), f32)] * 2, (NCHW, NHWC, FOURS, ROWS), (BLOCKS,),
    ),
    # Groups of 3 channels cut blocks of 4.
    "group norm of three": (
        lambda v: nn.GroupNormOp(*v, groups=4), [((12,), f32)] * 2, (NCHW, NHWC), (FOURS, BLOCKS),
    ),
    "gather of rows": (
        lambda v: nn.GatherOp(*v, axis=2), [((5,), i64)], (NCHW, NHWC, FOURS, BLOCKS), (ROWS,),
    ),
    "gather of one row": (lambda v: nn.GatherOp(*v, axis=2), [((), i64)], (NCHW, NHWC, FOURS, BLOCKS), (ROWS,)),
    "gather of a matrix": (lambda v: nn.GatherOp(*v, axis=2), [((2, 3), i64)], (NCHW, NHWC, BLOCKS), (ROWS,)),
    "arg max": (lambda v: nn.ArgMaxOp(*v, axis=1), [], (NCHW, NHWC, ROWS), (FOURS, BLOCKS)),
    "arg max of rows": (
        lambda v: nn.ArgMaxOp(*v, axis=2, keepdims=False), [], (NCHW, NHWC, FOURS, BLOCKS), (ROWS,),
    ),
    "tile": (lambda v: nn.TileOp(*v, repeats=(1, 1, 2, 1)), [], (NCHW, NHWC, FOURS, BLOCKS), (ROWS,)),
    "cum sum": (lambda v: nn.CumSumOp(*v, axis=1), [], (NCHW, NHWC, ROWS), (FOURS, BLOCKS)),
    "transposed convolution": (
        lambda v: nn.ConvTransposeOp(*v), [((12, 8, 3, 3), f32)], (NCHW, NHWC, FOURS), (BLOCKS, ROWS),
    ),
    "depthwise transposed convolution": (
        lambda v: nn.ConvTransposeOp(*v, group=12), [((12, 1, 3, 3), f32)], (NCHW, NHWC, FOURS), (BLOCKS, ROWS),
    ),
    "grouped transposed convolution": (
        lambda v: nn.ConvTransposeOp(*v, group=3), [((12, 2, 3, 3), f32)], (NCHW,), (NHWC, FOURS, BLOCKS, ROWS),
    ),
    "mean without its dims": (
        lambda v: nn.ReduceMeanOp(*v, axes=(2, 3), keepdims=False), [], (NCHW, NHWC, FOURS, BLOCKS, ROWS), (),
    ),
}  # fmt: skip


def offered(name: str, fmt: Format) -> tuple[nn.NNOp, FuncOp, LayoutOption | None]:
    """The op in a function, its types still open, and its option in `fmt`."""
    make, others, _, _ = CASES[name]
    shapes = [(X, f32), *others]
    types = [
        with_format(TensorType(element, shape), Format.row_major(names_for(len(shape))))  # pyright: ignore
        for shape, element in shapes
    ]
    function = FuncOp("main", FunctionType.from_lists(types, []))
    op = make(function.args)
    function.body.block.add_op(op)
    x = op.operands[0]
    options = options_of(op, lambda value: (fmt,) if value is x else (), target_named("host"))
    chosen = [
        option for option in options if option.ins[0] is not None and option.ins[0].factors == fmt.factors
    ]
    return op, function, chosen[0] if chosen else None


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, case in CASES.items() for text in case[2]])
def test_what_is_offered_verifies_and_has_a_physical_form(name: str, text: str):
    op, function, option = offered(name, Format.parse(text))
    assert option is not None
    for argument, fmt in zip(function.args, option.ins, strict=True):
        assert fmt is not None
        neutral = [read.neutral for read in op.pad_reads(0)] if argument is op.operands[0] else []
        policy = "zero" if not neutral or neutral[0] == 0 else neutral[0]
        Rewriter.replace_value_with_new_type(argument, with_format(argument.type, fmt.with_pad(policy)))
    # Nobody reads the pads of the result; to write zeros there is more work.
    result = option.outs[0].with_pad("undef")
    Rewriter.replace_value_with_new_type(op.results[0], with_format(op.results[0].type, result))
    function.body.block.add_op(ReturnOp(op.results[0]))
    function.update_function_type()
    module = ModuleOp([function])
    module.verify()
    convert_to_physical(module)
    # Selection has paid for no transposition, so there is none.
    assert not any(made.name == "layout.permute" for made in module.walk())


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, case in CASES.items() for text in case[3]])
def test_negative_a_format_in_which_the_op_has_no_kernel(name: str, text: str):
    _, _, option = offered(name, Format.parse(text))
    assert option is None


def test_the_format_of_a_result_without_the_reduced_dims_follows():
    _, _, option = offered("mean without its dims", Format.parse("(n, c, h, w) : [h, w, c, n]"))
    assert option is not None
    assert option.outs[0] == Format.parse("(n, c) : [c, n]")
