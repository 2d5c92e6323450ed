"""Every op of the dialect: construction, assembly, traits, and the rules of element types, shapes, formats and pads."""

from __future__ import annotations

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import Operation
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import ParseError

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, OpaqueAttr
from layout_ir.dialects.nn.constant import literal
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOp, PadRead
from tests.dialects.nn.building import error_of, program, result, tensor, text, value
from tests.programs import parse

IMAGE = (2, 6, 9, 8)


def examples() -> list[Operation]:
    """Ops of every class, with every attribute at its default and, where there are any, at another value."""
    x, m, v = value(IMAGE), value((4, 6)), value((6,))
    simple = [
        nn.AbsOp, nn.CeilOp, nn.ErfOp, nn.ExpOp, nn.FloorOp, nn.HardSwishOp, nn.LogOp, nn.NegOp, nn.ReciprocalOp,
        nn.ReluOp, nn.SigmoidOp, nn.SoftplusOp, nn.SqrtOp, nn.TanhOp, nn.GlobalAvgPoolOp, nn.GlobalMaxPoolOp,
        nn.CosOp, nn.MishOp, nn.SinOp, nn.SignOp, nn.RoundOp, nn.SoftsignOp,
    ]  # fmt: skip
    binary = [nn.AddOp, nn.DivOp, nn.MaxOp, nn.MinOp, nn.MulOp, nn.PowOp, nn.PReluOp, nn.SubOp]
    binary += [nn.EqualOp, nn.GreaterOp, nn.GreaterOrEqualOp, nn.LessOp, nn.LessOrEqualOp]
    logic = [nn.AndOp, nn.OrOp, nn.XorOp]
    bits = value(IMAGE, "i1")
    reductions = [
        nn.ReduceMaxOp, nn.ReduceMeanOp, nn.ReduceMinOp, nn.ReduceProdOp, nn.ReduceSumOp, nn.ReduceL1Op,
        nn.ReduceL2Op, nn.ReduceLogSumOp, nn.ReduceLogSumExpOp, nn.ReduceSumSquareOp,
    ]  # fmt: skip
    w, b = value((4, 3, 3, 2)), value((4,))
    ops: list[Operation] = [
        *(op(x) for op in simple),
        *(op(x, x) for op in binary),
        *(op(x, value((8,))) for op in binary),
        *(op(bits, value((8,), "i1")) for op in logic),
        nn.NotOp(bits),
        nn.WhereOp(value((9, 1), "i1"), x, value((8,))),
        nn.WhereOp(bits, value((1,), "i8"), value((8,), "i8")),
        *(op(x) for op in reductions),
        *(op(x, axes=[1, 3], keepdims=False) for op in reductions),
        nn.ConvOp(x, value((4, 6, 3, 2))),
        nn.ConvOp(x, w, b, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2], group=2),
        nn.ConvTransposeOp(x, value((6, 4, 3, 2))),
        nn.ConvTransposeOp(
            x,
            value((6, 2, 3, 2)),
            value((4,)),
            strides=[2, 1],
            pads=[1, 0, 2, 1],
            dilations=[1, 2],
            output_padding=[1, 0],
            group=2,
        ),
        nn.MatmulOp(m, v),
        nn.GemmOp(m, value((6, 5))),
        nn.GemmOp(m, value((5, 4)), value((5,)), alpha=0.1, beta=-2.0, trans_a=True, trans_b=True),
        nn.MaxPoolOp(x, kernel=[2, 3]),
        nn.MaxPoolOp(x, kernel=[2, 3], strides=[2, 2], pads=[1, 0, 1, 0], dilations=[2, 1], ceil_mode=True),
        nn.AvgPoolOp(x, kernel=[2, 3], strides=[3, 3], pads=[1, 0, 1, 0], count_include_pad=True),
        nn.LeakyReluOp(x),
        nn.LeakyReluOp(x, alpha=1e-7),
        nn.EluOp(x, alpha=0.3),
        nn.CeluOp(x, alpha=0.3),
        nn.SeluOp(x),
        nn.SeluOp(x, alpha=1.0, gamma=2.0),
        nn.SwishOp(x),
        nn.SwishOp(x, alpha=1.702),
        nn.ThresholdedReluOp(x, alpha=0.0),
        nn.HardSigmoidOp(x, alpha=1 / 6, beta=0.25),
        nn.GeluOp(x),
        nn.GeluOp(x, approximate="tanh"),
        nn.ClipOp(x),
        nn.ClipOp(x, min=-1.0, max=6.0),
        nn.CastOp(x, result_type=tensor(IMAGE, "i8")),
        nn.BatchNormOp(x, v, v, v, v),
        nn.BatchNormOp(x, v, v, v, v, epsilon=1e-3),
        nn.LayerNormOp(x, value((8,))),
        nn.LayerNormOp(x, value((9, 1)), value((9, 8)), axes=[2, 3], epsilon=1e-3),
        nn.RmsNormOp(x, value((8,))),
        nn.RmsNormOp(x, value((6, 1, 1)), value(()), axes=[1], epsilon=1e-3),
        nn.GroupNormOp(x, v, v, groups=3),
        nn.GroupNormOp(x, v, v, groups=6, epsilon=1e-3),
        nn.LrnOp(x, size=5),
        nn.LrnOp(x, size=5, alpha=1e-3, beta=0.5, bias=2.0),
        nn.SoftmaxOp(x),
        nn.SoftmaxOp(x, axis=1),
        nn.LogSoftmaxOp(x, axis=0),
        nn.ExpandOp(v, shape=[4, 1]),
        nn.TileOp(m, repeats=[1, 3]),
        nn.CumSumOp(x, axis=1),
        nn.CumSumOp(x, axis=3, exclusive=True, reverse=True),
        nn.GatherOp(x, value((4,), "i64")),
        nn.GatherOp(x, value((), "i32"), axis=3),
        nn.GatherOp(m, value((2, 3), "i64"), axis=1),
        nn.ArgMaxOp(x),
        nn.ArgMinOp(x, axis=2, keepdims=False, select_last=True),
        nn.ArgMinOp(x, axis=3),
        nn.ConcatOp(x, x, value((2, 1, 9, 8)), axis=1),
        nn.PadOp(m, pads=[0, 1, 2, 0]),
        nn.PadOp(m, pads=[0, 1, 2, 0], mode="reflect", value=float("-inf")),
        nn.SliceOp(m, starts=[0, 5], sizes=[2, 3], steps=[2, -2]),
        nn.ResizeOp(m, scales=[2.0, 0.7]),
        nn.ResizeOp(m, sizes=[3, 7], mode="linear", coordinates="align_corners", nearest_mode="ceil"),
        nn.ConstantOp(literal(tensor((2, 3)), bytes(24)), tensor((2, 3), fmt="any")),
    ]
    return ops


def test_there_is_an_example_of_every_op():
    assert {type(op) for op in examples()} == set(nn.NN.operations) - {nn.OpaqueOp}


def test_the_package_exports_every_op():
    for op in nn.NN.operations:
        assert getattr(nn, op.__name__) is op
        assert op.__name__ in nn.__all__


@pytest.mark.parametrize("op", examples(), ids=lambda op: text(op).partition(" : ")[0])
class TestExamples:
    def test_verifies(self, op: Operation):
        assert error_of(op.clone()) == ""

    def test_round_trips(self, op: Operation):
        module = program(op)
        for generic in (False, True):
            again = parse(text(module, generic=generic))
            assert text(again, generic=True) == text(module, generic=True)
            again.verify()

    def test_is_pure(self, op: Operation):
        assert is_side_effect_free(op)

    def test_knows_its_padding_behaviour(self, op: Operation):
        assert isinstance(op, LayoutOp)
        for number in range(len(op.operands)):
            for read in op.pad_reads(number):
                assert isinstance(read, PadRead)
                assert 0 <= read.dim < len(op.operands[number].type.get_shape())  # pyright: ignore
        op.pad_result([None] * len(op.operands))

    def test_infers_a_type_whose_format_is_to_be_chosen(self, op: Operation):
        if isinstance(op, nn.CastOp | nn.ConstantOp):
            return  # their result type is given
        assert isinstance(result(op), TensorType)
        assert result(op).encoding == AnyAttr()


def test_equal_types_are_printed_once():
    x = value((2, 3))
    assert text(nn.AddOp(x, x, result_type=tensor((2, 3)))).endswith(" : tensor<2x3xf32>")
    assert text(nn.AddOp(x, x)).endswith(
        " : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32, #layout.any>"
    )


def test_attributes_at_their_default_are_not_stored():
    x, w = value((1, 3, 5, 5)), value((4, 3, 3, 3))
    op = nn.ConvOp(x, w, strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1], group=1)
    assert op.properties == {}
    assert (op.strides, op.pads, op.dilations, op.group) == ((1, 1), (0, 0, 0, 0), (1, 1), 1)


def test_attributes_read_as_plain_values():
    op = nn.MaxPoolOp(value((1, 3, 8)), kernel=[3], strides=[2], ceil_mode=True)
    assert (op.kernel, op.strides, op.pads, op.dilations, op.ceil_mode) == ((3,), (2,), (0, 0), (1,), True)
    gemm = nn.GemmOp(value((2, 3)), value((3, 2)), alpha=0.1)
    assert (gemm.alpha, gemm.beta, gemm.trans_a) == (0.1, 1.0, False)


def test_an_explicit_default_in_the_generic_form_is_the_same_op():
    module = parse(
        '%x = "test.op"() : () -> tensor<2x3xf32>\n'
        '%y = "nn.elu"(%x) <{alpha = 1.0 : f64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>'
    )
    op = list(module.body.block.ops)[1]
    assert isinstance(op, nn.EluOp)
    assert "alpha" not in text(op)


def test_negative_unknown_attribute_of_a_constructor():
    with pytest.raises(TypeError, match=r"nn.relu has no attribute alpha"):
        nn.ReluOp(value((2,)), alpha=1.0)


def test_negative_missing_attribute_of_a_constructor():
    with pytest.raises(TypeError, match=r"nn.lrn needs attribute size"):
        nn.LrnOp(value((2, 3)))


def test_negative_constructor_of_operands_that_do_not_fit():
    with pytest.raises(LayoutError, match=r"shapes 2x3 and 4 do not broadcast: 3 != 4 in dim 1"):
        nn.AddOp(value((2, 3)), value((4,)))


def test_negative_missing_attribute_in_the_assembly():
    with pytest.raises(ParseError, match=r"nn.concat needs attribute axis, an integer"):
        parse('%x = "test.op"() : () -> tensor<2xf32>\n%y = nn.concat %x : tensor<2xf32>')


def test_negative_operand_count_in_the_assembly():
    with pytest.raises(ParseError, match=r"nn.add takes 2 operands, not 1"):
        parse('%x = "test.op"() : () -> tensor<2xf32>\n%y = nn.add %x : tensor<2xf32>')


# The rules ----------------------------------------------------------------------------------------------------

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
