"""What RoiAlign makes of the regions of a tensor: the attributes of the node, in all versions of the operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from layout_ir.errors import LayoutError

CHANNELS_LAST_REGIONS = "layout_ir::RoiAlign"
"""The node that RoiAlign is on x (N, H, W, C), as `OpaqueOp.title` has it; its attributes are those of RoiAlign."""

MOST_RATIO = 1 << 10
"""The most samples per side of a result that a node may ask for: what a result costs goes with their square, whatever
the sizes of tensors are. Networks ask for 4 at most."""

MOST_POSITIONS = 1 << 31
"""The most positions along a dim of a result: in a region that is larger they are further apart than elements are."""


@dataclass(frozen=True, slots=True)
class Regions:
    """A result per part of a region, the averages over a grid of positions, or the greatest of what is read there."""

    extents: tuple[int, int]
    """Rows and columns of results per region."""
    ratio: int
    """Positions along each dim of a result; 0: as many as elements lie there."""
    scale: float
    """The factor of coordinates that makes them count elements."""
    half_pixel: bool
    """Whether an element is in the middle of where it lies, and a region may be smaller than one."""
    largest: bool

    @staticmethod
    def of_node(attribute: Callable[..., Any], version: int) -> Regions:
        """The regions of a node of opset `version`, whose attributes are `attribute(name)`, None for one that it has
        not.

        Raises LayoutError for a mode that is not known, and for more samples than `MOST_RATIO`.
        """

        def given(name: str, default: Any) -> Any:
            found = attribute(name)
            return default if found is None else found

        mode = str(given("mode", "avg")).lower()
        transformation = str(given("coordinate_transformation_mode", "half_pixel")).lower()
        if mode not in ("avg", "max") or transformation not in ("half_pixel", "output_half_pixel"):
            raise LayoutError(f"a RoiAlign has no mode '{mode}' by '{transformation}'")
        ratio = max(int(given("sampling_ratio", 0)), 0)
        if ratio > MOST_RATIO:
            raise LayoutError(f"a RoiAlign has sampling_ratio = {ratio}, supported are {MOST_RATIO} at most")
        return Regions(
            (int(given("output_height", 1)), int(given("output_width", 1))),
            ratio,
            float(given("spatial_scale", 1.0)),
            version >= 16 and transformation == "half_pixel",
            mode == "max",
        )
