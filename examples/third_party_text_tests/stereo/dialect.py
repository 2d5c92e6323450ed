"""The dialect `stereo`: `stereo.mid %left, %right` is the mean of two channels."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class MidOp(IRDLOperation):
    """The mean of two channels, element by element."""

    T: ClassVar = VarConstraint("T", AnyAttr())

    name = "stereo.mid"
    left = operand_def(T)
    right = operand_def(T)
    result = result_def(T)

    traits = traits_def(Pure())
    assembly_format = "$left `,` $right attr-dict `:` type($result)"

    def verify_(self) -> None:
        type: Attribute = self.result.type
        if not isinstance(type, TensorType) or type.get_num_dims() < 2:
            raise VerifyException(f"sound has a dim of samples and one of tracks, {type} has not")


STEREO = Dialect("stereo", [MidOp])
