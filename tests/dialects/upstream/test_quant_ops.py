"""Ops of quant, and its types: round trips through mlir-opt, and what is wrong."""

from __future__ import annotations

import pytest

from tests.dialects.upstream.round_trips import check_error, check_round_trip

PROGRAM = """
!q = !quant.uniform<i8:f32, 0.5:3>
!qa = !quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:3}>
!qs = !quant.uniform<u8:f32, 1.0>
!c = !quant.calibrated<f32<-0.998:1.2>>
!a = !quant.any<i8<-8:7>:f32>
func.func private @quantized_types(!q, tensor<2x2x!qa>, !qs, !c, !a)
func.func @quantized(%t: tensor<4xf32>, %s: tensor<4xi8>) {
  %0 = quant.qcast %t : tensor<4xf32> to tensor<4x!q>
  %1 = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
  %2 = quant.scast %s : tensor<4xi8> to tensor<4x!q>
  return
}
"""


def test_what_mlir_prints_is_read_and_what_is_printed_mlir_reads():
    check_round_trip(PROGRAM)


ARGUMENTS = "%t: tensor<2xf32>"


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            "%r = quant.qcast %t : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5)",
            r"expected balanced angle brackets behind quant.uniform",
        ),
    ],
)
def test_negative_what_does_not_fit_is_an_error_that_says_why(ops: str, reason: str):
    check_error(ARGUMENTS, ops, reason)
