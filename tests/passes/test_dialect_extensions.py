"""Extensions of dialects: loaded for the first op, and asked after what is registered for single classes."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects import test
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition

from layout_ir.interfaces import PAD_BEHAVIOURS, PadBehaviour
from layout_ir.passes.dialect_extensions import PadsLeft, extension_of, is_extended, register_extension
from layout_ir.passes.pad_queries import has_pad_behaviour, pad_behaviour
from layout_ir.passes.selection.options.conv_kernels import Model

ZEROS, ONES = PadBehaviour(leaves=lambda op: 0.0), PadBehaviour(leaves=lambda op: 1.0)


@irdl_op_definition
class ExtendedOp(IRDLOperation):
    name = "extended.op"


class Extension:
    def model_of(self, op: Operation) -> Model | None:
        return None

    def behaviour_of(self, op: Operation) -> PadBehaviour | None:
        return ZEROS

    def pads_left_of(self, op: Operation) -> PadsLeft | None:
        return None

    def class_key_of(self, op: Operation) -> Hashable | None:
        return None


def test_an_extension_is_loaded_once_for_the_first_op_of_its_dialect():
    loads: list[str] = []

    def load() -> Extension:
        loads.append("extended")
        return Extension()

    register_extension("extended", load)
    assert is_extended(ExtendedOp()) and not loads
    assert pad_behaviour(ExtendedOp()) is ZEROS and has_pad_behaviour(ExtendedOp())
    assert extension_of(ExtendedOp()) is extension_of(ExtendedOp())
    assert loads == ["extended"]


def test_what_is_registered_for_a_class_goes_first():
    register_extension("extended", Extension)
    with PAD_BEHAVIOURS.isolated():
        PAD_BEHAVIOURS.register(ExtendedOp, ONES)
        assert pad_behaviour(ExtendedOp()) is ONES
    assert pad_behaviour(ExtendedOp()) is ZEROS


def test_linalg_is_extended_from_the_start():
    assert is_extended(YieldOp())
    assert pad_behaviour(YieldOp()) is None


def test_negative_a_dialect_that_nobody_extends_is_not():
    assert not is_extended(test.TestOp())
    assert extension_of(test.TestOp()) is None and pad_behaviour(test.TestOp()) is None
