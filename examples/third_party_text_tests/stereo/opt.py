"""`stereo-opt`: the entry point that a wheel would install as a program."""

from __future__ import annotations

from xdsl.universe import Universe

from layout_ir.testing import OptTool
from stereo.dialect import STEREO
from stereo.lowering import ConvertStereoToNn

main = OptTool(
    "stereo-opt",
    Universe(
        all_dialects={"stereo": lambda: STEREO},
        all_passes={"convert-stereo-to-nn": lambda: ConvertStereoToNn},
    ),
)
