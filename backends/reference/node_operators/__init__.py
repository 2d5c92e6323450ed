"""Operators in place of those of the onnx package that refuse what the standard allows, differ from it, or are slow.

Each is a class of the package, `OpRun`, so that these files import it: they are imported where a node is evaluated.
"""

from __future__ import annotations

from typing import Any

from layout_ir.backends.reference.node_operators import (
    arithmetic_operators,
    classifier_operators,
    control_flow_operators,
    index_operators,
    recurrent_operators,
    window_operators,
)
from layout_ir.backends.reference.operator_kernels import IN_NUMPY, NodeKernels
from layout_ir.backends.reference.runtime_operators import runtime_operators
from layout_ir.dialects.nn.depthwise_products import DEPTHWISE_INTEGER_CONV
from layout_ir.dialects.nn.integer_lstm import INTEGER_LSTM
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV
from layout_ir.dialects.nn.opaque import domain_and_operator
from layout_ir.dialects.nn.regions import CHANNELS_LAST_REGIONS

_OF_THE_EXECUTOR = {
    CHANNELS_LAST_REGIONS: window_operators.RoiAlignOfChannelsLast,
    DEPTHWISE_INTEGER_CONV: arithmetic_operators.DepthwiseConvOfIntegers,
    INTEGER_LSTM: recurrent_operators.LSTMOfIntegers,
    PACKED_INTEGER_CONV: arithmetic_operators.IntegerConvOfPackedWeights,
}
"""What rewrites for execution make of nodes, by title."""


def own_operators(kernels: NodeKernels = IN_NUMPY) -> list[Any]:
    """A class of the onnx package for each such operator in all its versions, which computes by these `kernels`."""
    operators: list[Any] = [
        *arithmetic_operators.OPERATORS,
        *control_flow_operators.OPERATORS,
        *index_operators.OPERATORS,
        *window_operators.OPERATORS,
        *classifier_operators.OPERATORS,
        *recurrent_operators.OPERATORS,
        *(_titled(title, operator) for title, operator in _OF_THE_EXECUTOR.items()),
    ]
    by_kernels = [
        type(each.__name__, (each,), {"kernels": kernels}) if hasattr(each, "kernels") else each
        for each in operators
    ]
    return [*by_kernels, *runtime_operators(own_operators)]


def _titled(title: str, operator: type) -> type:
    """The class of a node, `domain::operator`, which computes what `operator` does."""
    domain, name = domain_and_operator(title)
    return type(name, (operator,), {"op_domain": domain})
