"""The dialects, passes and targets of layout-ir for `xdsl-opt` and every other xDSL tool (entry point `xdsl.universe`).

Those tools load this module on every start, whether they use layout-ir or not, and an error in it would break
them all. So it imports nothing but `Universe` and the lazy registry.
"""

from xdsl.universe import Universe

from layout_ir.registry import DIALECTS, PASSES, TARGETS

LAYOUT_UNIVERSE = Universe(all_dialects=DIALECTS, all_passes=PASSES, all_targets=TARGETS)
