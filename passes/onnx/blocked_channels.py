"""Blocked channels (NCHWc) as an order of dims, and what ONNX Runtime's operators take and give in it.

The order (0, 1, 2, 3, 1) has the channels twice: their blocks in place of dim 1, and the channels of a block behind all
others. As ONNX Runtime does it, the tensor goes on having four dims, n, c, h and w, with as many channels as whole
blocks have; so nobody but an operator that knows of blocks may look at where its elements are. Pads hold numbers: zero
where a reorder or a convolution wrote them, whatever an elementwise operator makes of zero behind that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.stand_ins import NCHWC_DOMAIN as NCHWC_DOMAIN
from layout_ir.frontends.onnx.subgraphs import nodes_within
from layout_ir.passes.onnx.orders import Extent, Order, Shape, same_memory

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

REORDER_ALIGNMENT = 4
"""Channels that ReorderInput takes are a multiple of this."""
BLOCKED: Order = (0, 1, 2, 3, 1)
"""The order of n, c, h, w that convolutions and pools take."""


def is_blocked(order: Order) -> bool:
    """Whether an order has a dim twice, in place 1 and at the end."""
    return len(order) == 5 and order[4] == order[1]


def channels_second(order: Order) -> Order:
    """The plain order of the same dims as blocked `order` with the channels in place 1, as NCHW."""
    return order[:4]


def channels_last(order: Order) -> Order:
    """The plain order of the same dims as blocked `order` with the channels at the end, as NHWC."""
    return order[0], order[2], order[3], order[1]


def padded_channels(channels: Extent, block: int) -> int:
    """The channels of the whole blocks that hold so many, which must be known."""
    assert isinstance(channels, int)
    return -(-channels // block) * block


def has_same_bytes(source: Order, target: Order, shape: Shape, block: int) -> bool:
    """Whether tensors in two orders, of which either may be blocked, hold the same elements at the same addresses."""
    if not is_blocked(source) and not is_blocked(target):
        return same_memory(source, target, shape)
    if is_blocked(source) and is_blocked(target):
        return source == target
    blocked, plain = (source, target) if is_blocked(source) else (target, source)
    channels = shape[blocked[1]]
    one_place = all(shape[dim] == 1 for dim in blocked[2:4])
    whole = isinstance(channels, int) and channels % block == 0
    return one_place and whole and same_memory(plain, channels_second(blocked), shape)


def can_reorder(order: Order, shape: Shape | None) -> bool:
    """Whether ONNX Runtime moves a plain tensor of this shape into blocked `order`."""
    channels = shape[order[1]] if shape is not None else None
    return isinstance(channels, int) and channels % REORDER_ALIGNMENT == 0


def blocked_elements(array: NDArray[Any], order: Order, block: int, fill: float = 0) -> NDArray[Any]:
    """The elements of a value of four dims as its tensor in blocked `order` has them, `fill` in its pads."""
    import numpy as np

    n, c, h, w = (plain := array.transpose(channels_second(order))).shape
    blocks = -(-c // block)
    padded = np.full((n, blocks * block, h, w), fill, array.dtype)
    padded[:, :c] = plain
    return padded.reshape(n, blocks, block, h, w).transpose(0, 1, 3, 4, 2).reshape(n, blocks * block, h, w)


def is_known(shape: Shape | None) -> bool:
    """Whether a value has four dims and a known number of channels in place 1."""
    return shape is not None and len(shape) == 4 and isinstance(shape[1], int) and shape[1] > 0


def packed_weights(weights: NDArray[Any], block: int, *, inputs: bool) -> NDArray[Any]:
    """Weights o, i, h, w of a blocked convolution: OIHWBiBo where `inputs` are in blocks too, else OIHWBo.

    Outputs, and inputs that are in blocks, are padded with zeros to whole blocks.
    """
    import numpy as np

    o, i, h, w = weights.shape
    step = block if inputs else 1
    outer, inner = -(-o // block), -(-i // step)
    padded = np.zeros((outer * block, inner * step, h, w), weights.dtype)
    padded[:o, :i] = weights
    digits = padded.reshape(outer, block, inner, step, h, w).transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(digits).reshape(padded.shape)


def padded_bias(bias: NDArray[Any], block: int) -> NDArray[Any]:
    """A vector with an entry per channel of whole blocks, zeros behind its own."""
    import numpy as np

    return np.pad(bias, (0, -len(bias) % block))


def has_blocks(model: onnx.ModelProto) -> bool:
    """Whether some node of a model, or of its subgraphs, is one of ONNX Runtime's on blocked channels."""
    nodes = (n for node in model.graph.node for n in (node, *nodes_within(node)))
    return any(node.domain == NCHWC_DOMAIN for node in nodes)
