"""The `kernel` dialect: plans of compiled reorders as IR that can be printed, read back and checked."""

from xdsl.ir import Dialect

from layout_ir.dialects.kernel.attributes import (
    ConversionAttr,
    CutsAttr,
    Digit,
    LevelsAttr,
    OffsetsAttr,
    Steady,
)
from layout_ir.dialects.kernel.converting import ConvertOp, ConvertTileOp, ConvertWeaveOp
from layout_ir.dialects.kernel.micro import (
    CopyOp,
    ElementsOp,
    FillOp,
    KernelOp,
    PaddedOp,
    StagedOp,
    TileOp,
    WeaveOp,
)
from layout_ir.dialects.kernel.open import ExtentsAttr, OpenOp
from layout_ir.dialects.kernel.structure import (
    CallOp,
    ForOp,
    LoopOp,
    PlanOp,
    RaggedOp,
    StepOp,
    TableOp,
    number,
    steps_in,
)

KernelDialect = Dialect(
    "kernel",
    [
        PlanOp,
        OpenOp,
        StepOp,
        ForOp,
        TableOp,
        RaggedOp,
        CopyOp,
        FillOp,
        PaddedOp,
        ElementsOp,
        TileOp,
        WeaveOp,
        StagedOp,
        ConvertOp,
        ConvertTileOp,
        ConvertWeaveOp,
        CallOp,
    ],
    [ConversionAttr, CutsAttr, OffsetsAttr, LevelsAttr, ExtentsAttr],
)

__all__ = [
    "CallOp",
    "ConversionAttr",
    "ConvertOp",
    "ConvertTileOp",
    "ConvertWeaveOp",
    "CopyOp",
    "CutsAttr",
    "Digit",
    "ElementsOp",
    "ExtentsAttr",
    "FillOp",
    "ForOp",
    "KernelDialect",
    "KernelOp",
    "LevelsAttr",
    "LoopOp",
    "OffsetsAttr",
    "OpenOp",
    "PaddedOp",
    "PlanOp",
    "RaggedOp",
    "StagedOp",
    "Steady",
    "StepOp",
    "TableOp",
    "TileOp",
    "WeaveOp",
    "number",
    "steps_in",
]
