"""An operand is written over only where nobody reads its buffer again."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import TensorType, f32, f64
from xdsl.utils.test_value import create_ssa_value

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.in_place import check_pairs, obstacle
from tests.programs import parse

TYPE = "tensor<1x8x4x4xf32, #layout.tag<nhwc>>"
NHWC, NCHW = Format.from_tag("nhwc"), Format.from_tag("nchw")
OVER = LayoutOption((NHWC,), (NHWC,), 1, ((0, 0),))

MADE = f'%a = "test.op"() : () -> {TYPE}'
WRITER = f'%b = "test.op"(%a) {{over}} : ({TYPE}) -> {TYPE}'


def _branch(value: str) -> str:
    """An op whose result is `value` or the argument."""
    ends = [f"{{\nscf.yield {end} : {TYPE}\n}}" for end in (value, "%x")]
    return f"scf.if %p -> ({TYPE}) {' else '.join(ends)}"


def _obstacle(body: str) -> str | None:
    """Why the op with the attribute `over` must not write over its first operand."""
    module = parse(f"func.func @f(%x : {TYPE}, %p : i1, %n : index) {{\n{body}\nfunc.return }}")
    (op,) = [op for op in module.walk() if "over" in op.attributes]
    return obstacle(OVER, op, op.operands)


@pytest.mark.parametrize(
    "body",
    [
        f"{MADE}\n{WRITER}",
        # read in front of the op alone
        f'{MADE}\n%r = nn.relu %a : {TYPE}\n"test.op"(%r) : ({TYPE}) -> ()\n{WRITER}',
        # its result is read behind, which is the new one
        f"{MADE}\n{WRITER}\n%r = nn.relu %b : {TYPE}",
        # a view of it, and the view's buffer is read no more
        f'%x0 = "test.op"() : () -> {TYPE}\n%a = layout.reorder %x0 : {TYPE} -> {TYPE}\n{WRITER}',
        # in a block, of a value of that block
        f"scf.if %p {{\n{MADE}\n{WRITER}\n}}",
        # a use in a nested block in front
        f'{MADE}\nscf.if %p {{\n"test.op"(%a) : ({TYPE}) -> ()\n}}\n{WRITER}',
    ],
)
def test_the_last_use_may_write_over_its_operand(body: str):
    assert _obstacle(body) is None


@pytest.mark.parametrize(
    "body, reason",
    [
        (f"{MADE}\n{WRITER}\n%r = nn.relu %a : {TYPE}", "used again"),
        (f'{MADE}\n{WRITER}\nscf.if %p {{\n"test.op"(%a) : ({TYPE}) -> ()\n}}', "used again"),
        # the same, by way of a buffer that may be the same
        (
            f"{MADE}\n%v = layout.reorder %a : {TYPE} -> {TYPE}\n{WRITER}\n%r = nn.relu %v : {TYPE}",
            "used again",
        ),
        (
            f"{MADE.replace('%a', '%y')}\n%a = layout.reorder %y : {TYPE} -> {TYPE}\n{WRITER}\n%r = nn.exp %y : {TYPE}",
            "used again",
        ),
        (WRITER.replace("%a", "%x"), "argument"),
        (f"%a = nn.constant dense<1.0> : {TYPE}\n{WRITER}", "constant"),
        (f"{MADE}\nscf.if %p {{\n{WRITER}\n}}", "outside"),
        (f"{MADE}\n{WRITER.replace('(%a)', '(%a, %a)').replace(f'({TYPE})', f'({TYPE}, {TYPE})')}", "twice"),
        (
            f"{MADE.replace('%a', '%y')}\n%a = {_branch('%y')}\n{WRITER}",
            "scf.if",
        ),
        (
            f"{MADE}\n%r = {_branch('%a')}\n{WRITER}",
            "scf.yield",
        ),
    ],
)
def test_negative_a_buffer_that_someone_may_read_is_kept(body: str, reason: str):
    found = _obstacle(body)
    assert found is not None and reason in found


def test_negative_the_body_of_a_loop_keeps_what_comes_from_outside():
    """Every iteration reads it again."""
    loop = f"""{MADE}
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      scf.for %i = %zero to %n step %one {{
        {WRITER}
      }}"""
    assert _obstacle(loop) is not None


def _check(option: LayoutOption, *types: TensorType) -> None:  # pyright: ignore[reportMissingTypeArgument]
    values = [create_ssa_value(type) for type in types]
    check_pairs(option, values[:-1], values[-1:])


def test_operand_and_result_of_one_shape_format_and_type_are_one_buffer():
    type = TensorType(f32, [1, 8, 4, 4])
    _check(OVER, type, type)
    # Formats that differ, of a shape at which they are the same bytes.
    pixel = TensorType(f32, [1, 8, 1, 1])
    _check(LayoutOption((NCHW,), (NHWC,), 1, ((0, 0),)), pixel, pixel)


@pytest.mark.parametrize(
    "option, operand",
    [
        (OVER, TensorType(f32, [1, 8, 4, 5])),
        (OVER, TensorType(f64, [1, 8, 4, 4])),
        (LayoutOption((NCHW,), (NHWC,), 1, ((0, 0),)), TensorType(f32, [1, 8, 4, 4])),
        (LayoutOption((None,), (NHWC,), 1, ((0, 0),)), TensorType(f32, [1, 8, 4, 4])),
        (LayoutOption((NHWC,), (NHWC,), 1, ((1, 0),)), TensorType(f32, [1, 8, 4, 4])),
        (LayoutOption((NHWC,), (NHWC,), 1, ((0, 1),)), TensorType(f32, [1, 8, 4, 4])),
        (LayoutOption((NHWC,), (NHWC,), 1, ((0, 0), (0, 0))), TensorType(f32, [1, 8, 4, 4])),
    ],
)
def test_negative_pairs_that_are_no_one_buffer(option: LayoutOption, operand: TensorType):  # pyright: ignore[reportMissingTypeArgument]
    with pytest.raises(LayoutError, match="in_place"):
        _check(option, operand, TensorType(f32, [1, 8, 4, 4]))
