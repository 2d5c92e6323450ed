"""RoiAlign of channels last: there all channels of an element lie side by side, and are read at once.

The convolution that gives the tensor has its channels last, too, where that is cheapest, and a reorder moves them
where it is not. The result has the channels in front, as what follows wants them.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, dtype_of
from layout_ir.dialects.nn.opaque import domain_and_operator
from layout_ir.dialects.nn.regions import CHANNELS_LAST_REGIONS
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type


def pooled_regions(node: OpaqueNode) -> SSAValue:
    """The result of a RoiAlign node on floats; those of 16 bits are computed in f32."""
    x, regions, batches = (node.input(number) for number in range(3))
    [result] = node.op.results
    dtype = dtype_of(x.type)
    if dtype_of(regions.type) != dtype or dtype_of(batches.type) != "i64":
        raise Unsupported
    if dtype in ("f16", "bf16"):
        x, regions = (_converted(node, value, "f32") for value in (x, regions))
    elif dtype not in ("f32", "f64"):
        raise Unsupported
    if len(shape_of(x)) != 4 or not prod((*shape_of(x), *shape_of(result)[1:])):
        raise Unsupported
    domain, operator = domain_and_operator(CHANNELS_LAST_REGIONS)
    made = nn.OpaqueOp.of_node(
        operator,
        domain,
        {**node.op.versions, domain: 1},
        [node.insert(PermuteOp(x, (0, 2, 3, 1))), regions, batches],
        {},
        node.op.node_attributes.data,
        [TensorType(tensor_type(x).element_type, shape_of(result), tensor_type(result).encoding)],
    )
    found = node.insert(made)
    return found if dtype_of(found.type) == dtype else _converted(node, found, dtype)


def _converted(node: OpaqueNode, value: SSAValue, dtype: str) -> SSAValue:
    return node.converted(value, dtype, (None, None), (None, None))
