"""Every op of the dialect: construction, assembly, traits."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import ParseError

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr
from layout_ir.dialects.nn.constant import literal
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOp, PadRead
from tests.dialects.nn.building import error_of, parse, program, result, tensor, text, value

IMAGE = (2, 6, 9, 8)


def examples() -> list[Operation]:
    """Ops of every class, with every attribute at its default and, where there are any, at another value."""
    x, m, v = value(IMAGE), value((4, 6)), value((6,))
    simple = [
        nn.AbsOp, nn.CeilOp, nn.ErfOp, nn.ExpOp, nn.FloorOp, nn.HardSwishOp, nn.LogOp, nn.NegOp, nn.ReciprocalOp,
        nn.ReluOp, nn.SigmoidOp, nn.SoftplusOp, nn.SqrtOp, nn.TanhOp, nn.GlobalAvgPoolOp, nn.GlobalMaxPoolOp,
    ]  # fmt: skip
    binary = [nn.AddOp, nn.DivOp, nn.MaxOp, nn.MinOp, nn.MulOp, nn.PowOp, nn.SubOp]
    reductions = [nn.ReduceMaxOp, nn.ReduceMeanOp, nn.ReduceMinOp, nn.ReduceProdOp, nn.ReduceSumOp]
    w, b = value((4, 3, 3, 2)), value((4,))
    ops: list[Operation] = [
        *(op(x) for op in simple),
        *(op(x, x) for op in binary),
        *(op(x, value((8,))) for op in binary),
        *(op(x) for op in reductions),
        *(op(x, axes=[1, 3], keepdims=False) for op in reductions),
        nn.ConvOp(x, value((4, 6, 3, 2))),
        nn.ConvOp(x, w, b, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2], group=2),
        nn.MatmulOp(m, v),
        nn.GemmOp(m, value((6, 5))),
        nn.GemmOp(m, value((5, 4)), value((5,)), alpha=0.1, beta=-2.0, trans_a=True, trans_b=True),
        nn.MaxPoolOp(x, kernel=[2, 3]),
        nn.MaxPoolOp(x, kernel=[2, 3], strides=[2, 2], pads=[1, 0, 1, 0], dilations=[2, 1], ceil_mode=True),
        nn.AvgPoolOp(x, kernel=[2, 3], strides=[3, 3], pads=[1, 0, 1, 0], count_include_pad=True),
        nn.LeakyReluOp(x),
        nn.LeakyReluOp(x, alpha=1e-7),
        nn.EluOp(x, alpha=0.3),
        nn.HardSigmoidOp(x, alpha=1 / 6, beta=0.25),
        nn.GeluOp(x),
        nn.GeluOp(x, approximate="tanh"),
        nn.ClipOp(x),
        nn.ClipOp(x, min=-1.0, max=6.0),
        nn.CastOp(x, result_type=tensor(IMAGE, "i8")),
        nn.BatchNormOp(x, v, v, v, v),
        nn.BatchNormOp(x, v, v, v, v, epsilon=1e-3),
        nn.LrnOp(x, size=5),
        nn.LrnOp(x, size=5, alpha=1e-3, beta=0.5, bias=2.0),
        nn.SoftmaxOp(x),
        nn.SoftmaxOp(x, axis=1),
        nn.LogSoftmaxOp(x, axis=0),
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
    assert {type(op) for op in examples()} == set(nn.NN.operations)


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
