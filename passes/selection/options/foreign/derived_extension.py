"""The extension of arith, linalg, math, tensor and tosa: model, padding behaviour and class key, by class of op.

It is a `DialectExtension`, which `layout_ir.passes` registers for these dialects.
"""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects import tosa
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import BroadcastOp, ReduceOp
from xdsl.ir import Operation

from layout_ir.dialects.layout import is_tensor
from layout_ir.dialects.upstream.linalg_relayout import RelayoutOp
from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS
from layout_ir.foreign import movement
from layout_ir.foreign.pointwise import pointwise_operands
from layout_ir.foreign.structured import ELEMENTWISE, TOSA_STRUCTURED
from layout_ir.interfaces import PadBehaviour
from layout_ir.passes.dialect_extensions import PadsLeft
from layout_ir.passes.selection.options.conv_kernels import Model
from layout_ir.passes.selection.options.foreign import data_movement, padding, relayout_options
from layout_ir.passes.selection.options.foreign.class_keys import class_key
from layout_ir.passes.selection.options.foreign.pointwise_options import pointwise_options
from layout_ir.passes.selection.options.foreign.structured_options import structured_options
from layout_ir.passes.selection.options.models import maker_options

STRUCTURED: tuple[type[Operation], ...] = (
    LinalgStructuredOperation,
    BroadcastOp,
    ReduceOp,
    *ELEMENTWISE,
    tosa.ElementwiseOperation,
    tosa.ClampOp,
    tosa.ReductionOperation,
    *(op for name, op in TOSA_OPS.items() if name in TOSA_STRUCTURED),
)

_MODELS: tuple[tuple[tuple[type[Operation], ...], Model], ...] = (
    ((RelayoutOp,), relayout_options.relayout_options),
    (STRUCTURED, structured_options),
    (movement.RESHAPES, data_movement.reshape_options),
    (data_movement.MAKERS, maker_options),
    (data_movement.CONCATS, data_movement.concat_options),
    (data_movement.CUTS, data_movement.cut_options),
    (data_movement.NUMBERED, data_movement.numbered_options),
)

_MOVES = (
    *data_movement.MAKERS,
    *data_movement.CONCATS,
    *data_movement.CUTS,
    *data_movement.NUMBERED,
)

_DERIVED = PadBehaviour(padding.reads, padding.leaves)
_MOVING = PadBehaviour(leaves=data_movement.writes_zero)
_VIEW = PadBehaviour(leaves=data_movement.keeps_view)
_RELAYOUT = PadBehaviour(relayout_options.reads, relayout_options.leaves)


def model_of(op: Operation) -> Model | None:
    """The model of an op of another dialect; None where it is only known by its types."""
    if not any(is_tensor(result.type) for result in op.results):
        return None
    if pointwise_operands(op):
        return pointwise_options
    return next((model for classes, model in _MODELS if isinstance(op, classes)), None)


def behaviour_of(op: Operation) -> PadBehaviour | None:
    """The padding behaviour of an op of another dialect; None where nothing is known of it."""
    if isinstance(op, RelayoutOp):
        return _RELAYOUT
    if pointwise_operands(op):
        return PadBehaviour()
    if isinstance(op, STRUCTURED):
        return _DERIVED
    if isinstance(op, movement.RESHAPES):
        return _VIEW
    return _MOVING if isinstance(op, _MOVES) else None


def pads_left_of(op: Operation) -> PadsLeft | None:
    """What an op that is loops leaves in pads; None for other ops."""
    return padding.pads_left(op) if behaviour_of(op) is _DERIVED else None


def class_key_of(op: Operation) -> Hashable | None:
    """The key of ops like `op`; None for pack and unpack, which look at what is packed or unpacked before."""
    return None if isinstance(op, RelayoutOp) else class_key(op)
