"""The rules of element types, shapes, formats and pads that hold for every op."""

from __future__ import annotations

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32

from layout_ir.dialects import nn
from layout_ir.dialects.layout import OpaqueAttr
from tests.dialects.nn.building import error_of, tensor, value

SHAPE = (1, 17, 4, 4)
ZERO = "(n, c, h, w) : [n, c, h, w, c:8], pad = zero"
UNDEF = "(n, c, h, w) : [n, c, h, w, c:8]"
ONE = "(n, c, h, w) : [n, c, h, w, c:8], pad = 1"


def test_negative_element_types():
    op = nn.AddOp(value((2,)), value((2,), "i32"), result_type=tensor((2,)))
    assert "element type mismatch between operand 0 and operand 1: f32 != i32" in error_of(op)


def test_negative_element_type_of_the_result():
    assert "element type mismatch between operand 0 and the result: f32 != f64" in error_of(
        nn.ExpOp(value((2,)), result_type=tensor((2,), "f64"))
    )


@pytest.mark.parametrize(
    ("op", "element"), [(nn.ExpOp, "i32"), (nn.ReluOp, "ui8"), (nn.AbsOp, "i1"), (nn.GlobalAvgPoolOp, "i8")]
)
def test_negative_element_type_that_an_op_does_not_know(op: type[nn.NNOp], element: str):
    message = error_of(op(value((1, 2, 3), element)))
    assert (
        f"element type {element} of operand 0 is not supported by {op.name}, expected one of f16" in message
    )


def test_negative_result_shape():
    op = nn.ExpOp(value((2, 3)), result_type=tensor((3, 2)))
    assert "inferred result and the declared one: 2x3 != 3x2" in error_of(op)


def test_negative_dynamic_shape():
    type = TensorType(f32, [DYNAMIC_INDEX, 3])
    op = nn.ExpOp(test.TestOp(result_types=[type]).results[0], result_type=type)
    assert "operand 0 has a dynamic dim in tensor<?x3xf32>" in error_of(op)


def test_negative_encoding_of_another_rank():
    op = nn.ExpOp(value((2, 3), fmt="nchw"), result_type=tensor((2, 3)))
    assert "rank mismatch between format (n, c, h, w) and tensor shape 2x3: 4 != 2" in error_of(op)


# --- formats ----------------------------------------------------------------------------------------------------


def test_negative_mixed_formats():
    op = nn.AddOp(value(SHAPE, fmt=UNDEF), value(SHAPE, fmt="nhwc"), result_type=tensor(SHAPE, fmt=UNDEF))
    assert (
        f"nn.add needs one format, but operand 1 has (n, c, h, w) : [n, h, w, c] and the result has {UNDEF}"
        in (error_of(op))
    )


def test_formats_are_compared_by_what_they_mean_for_the_shape():
    op = nn.ExpOp(value((2, 3, 1, 1), fmt="nhwc"), result_type=tensor((2, 3, 1, 1), fmt="nchw"))
    assert error_of(op) == ""


def test_formats_are_compared_on_the_shape_of_the_result():
    # nchw and nhwc differ on 1x3x4x4, and agree on 1x3x1x1, which is where the result lies.
    x = value((1, 3, 4, 4), fmt="nhwc")
    assert error_of(nn.GlobalAvgPoolOp(x, result_type=tensor((1, 3, 1, 1), fmt="nchw"))) == ""
    op = nn.MaxPoolOp(x, kernel=[2, 2], result_type=tensor((1, 3, 3, 3), fmt="nchw"))
    assert "nn.max_pool needs one format" in error_of(op)


@pytest.mark.parametrize("fmt", ["nchw", "nhwc", UNDEF, None])
def test_a_format_to_be_chosen_fits_any(fmt: str | None):
    assert error_of(nn.AddOp(value(SHAPE, fmt=fmt), value(SHAPE, fmt="any"))) == ""
    assert error_of(nn.ExpOp(value(SHAPE, fmt="any"), result_type=tensor(SHAPE, fmt=fmt))) == ""


def test_an_opaque_layout_is_only_what_it_is():
    type = TensorType(f32, SHAPE, OpaqueAttr(("secret", 0)))
    x = test.TestOp(result_types=[type]).results[0]
    assert error_of(nn.ExpOp(x, result_type=type)) == ""
    assert 'needs one format, but operand 0 has #layout.opaque<"secret">' in error_of(
        nn.ExpOp(x, result_type=tensor(SHAPE))
    )


def test_an_operand_that_is_broadcast_may_have_any_format():
    x, y = value(SHAPE, fmt=UNDEF), value((1, 17, 1, 1), fmt="nchw")
    assert error_of(nn.AddOp(x, y, result_type=tensor(SHAPE, fmt=UNDEF))) == ""


# --- pads -------------------------------------------------------------------------------------------------------


def test_the_result_may_claim_what_the_op_computes_in_the_pads():
    zero, one = value(SHAPE, fmt=ZERO), value(SHAPE, fmt=ONE)
    assert error_of(nn.AddOp(zero, one, result_type=tensor(SHAPE, fmt=ONE))) == ""
    assert error_of(nn.MulOp(zero, one, result_type=tensor(SHAPE, fmt=ZERO))) == ""
    assert error_of(nn.ExpOp(zero, result_type=tensor(SHAPE, fmt=ONE))) == ""


def test_negative_claim_of_what_the_op_does_not_compute():
    op = nn.AddOp(value(SHAPE, fmt=ONE), value(SHAPE, fmt=ONE), result_type=tensor(SHAPE, fmt=ONE))
    assert f"the result claims {ONE}, but nn.add leaves 2 in its pads; declare pad = undef" in error_of(op)


def test_negative_claim_over_unknown_pads():
    op = nn.ExpOp(value(SHAPE, fmt=UNDEF), result_type=tensor(SHAPE, fmt=ONE))
    assert "leaves values that are not known in its pads" in error_of(op)


def test_negative_claim_over_an_operand_to_be_chosen():
    op = nn.ExpOp(value(SHAPE, fmt="any"), result_type=tensor(SHAPE, fmt=ONE))
    assert "leaves values that are not known in its pads" in error_of(op)


def test_negative_claim_over_pads_that_lie_elsewhere():
    # The same address map for the elements, but rows of 5 on one side and a gap behind each row on the other.
    pitch = "(a, b) : [a, b:5], pad = zero"
    op = nn.ExpOp(value((3, 4), fmt="(a, b) : [a*5, b]"), result_type=tensor((3, 4), fmt=pitch))
    assert "leaves values that are not known in its pads" in error_of(op)


def test_a_claim_without_pads_is_empty():
    shape = (1, 16, 4, 4)
    assert error_of(nn.ExpOp(value(shape, fmt=UNDEF), result_type=tensor(shape, fmt=ZERO))) == ""


def test_a_claim_is_compared_in_the_element_type():
    fmt = "(n, c) : [n, c, c:8], pad = 0.1"
    half = "(n, c) : [n, c, c:8], pad = 0.05"
    op = nn.MulOp(value((2, 3), fmt=fmt), value((2, 3), fmt="(n, c) : [n, c, c:8], pad = 0.5"))
    op = nn.MulOp(*op.operands, result_type=tensor((2, 3), fmt=half))
    assert error_of(op) == ""


def test_negative_claim_of_the_quantized_zero():
    fmt = "(n, c) : [n, c, c:8], pad = zp"
    op = nn.AbsOp(value((2, 3), "i8", fmt), result_type=tensor((2, 3), "i8", fmt))
    assert "leaves values that are not known in its pads" in error_of(op)


def test_kernels_write_zeros_into_pads():
    w = value((17, 3, 1, 1))
    x = value((1, 3, 4, 4))
    assert error_of(nn.ConvOp(x, w, result_type=tensor(SHAPE, fmt=ZERO))) == ""
    assert "but nn.conv leaves 0 in its pads" in error_of(nn.ConvOp(x, w, result_type=tensor(SHAPE, fmt=ONE)))


def test_negative_dirty_pads_of_a_reduced_dim():
    w = value((4, 17, 1, 1))
    for fmt in (UNDEF, ONE):
        message = error_of(nn.ConvOp(value(SHAPE, fmt=fmt), w))
        assert f"so they must hold 0, but the format is {fmt}; use layout.fill_pads" in message
    assert error_of(nn.ConvOp(value(SHAPE, fmt=ZERO), w)) == ""


def test_pads_of_dims_that_are_not_reduced_may_be_dirty():
    blocked = "(n, c, h, w) : [n, h, c, w, n:8]"
    assert error_of(nn.ConvOp(value((3, 4, 5, 5), fmt=blocked), value((2, 4, 1, 1)))) == ""


def test_negative_zero_is_not_the_neutral_element_of_a_maximum():
    message = error_of(nn.ReduceMaxOp(value((2, 3), fmt="(n, c) : [n, c, c:8], pad = zero"), axes=[1]))
    assert "nn.reduce_max reduces over dim 1 of operand 0, pads included, so they must hold -inf" in message
