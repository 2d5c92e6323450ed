"""The models of operators that run on ONNX Runtime's blocked channels, by the channels of a block."""

from __future__ import annotations

from collections.abc import Mapping

from layout_ir.passes.onnx.node_models.blocked_channel_parts import BlockedConcat, BlockedSlice, BlockedSplit
from layout_ir.passes.onnx.node_models.blocked_convolutions import (
    BlockedBatchNormalization,
    BlockedConvolution,
)
from layout_ir.passes.onnx.node_models.blocked_elementwise import BLOCKED_ELEMENTWISE, BlockedElementwise
from layout_ir.passes.onnx.node_models.blocked_model import BlockedModel, WithBlocks
from layout_ir.passes.onnx.node_models.blocked_windows import BlockedPool, BlockedUpsample
from layout_ir.passes.onnx.node_models.node_option import NodeModel

_CONVOLUTIONS = ("Conv", "com.microsoft.FusedConv")
_POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
STARTERS = frozenset((*_CONVOLUTIONS, *_POOLS))
"""Operators that may have blocked results whatever reaches them."""


def with_blocks(models: Mapping[str, NodeModel], block: int) -> dict[str, NodeModel]:
    """The models, with what their operators can do in blocks of so many channels."""
    found: dict[str, BlockedModel] = {
        **dict.fromkeys(BLOCKED_ELEMENTWISE, BlockedElementwise(block)),
        **dict.fromkeys(_CONVOLUTIONS, BlockedConvolution(block)),
        **dict.fromkeys((*_POOLS, "ReduceMean"), BlockedPool(block)),
        "BatchNormalization": BlockedBatchNormalization(block),
        "Concat": BlockedConcat(block),
        "Resize": BlockedUpsample(block),
        "Slice": BlockedSlice(block),
        "Split": BlockedSplit(block),
    }  # fmt: skip
    return {name: WithBlocks(models.get(name), found.get(name)) for name in (*models, *found)}
