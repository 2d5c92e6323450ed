"""How equal the outputs of two runs of a model are, output by output.

Floats may differ by rounding, as sums run in another order; all else is equal exactly or differs. NaNs and infinities
are where they were, or the outputs differ, however close the other elements are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.errors import shape_text
from layout_ir.tools.validation import COARSE, TOLERANCE, relative_difference

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LIMITS = {"float16": COARSE["f16"], "bfloat16": COARSE["bf16"]}
"""Largest differences that are rounding, for types that round coarser than f32. Those of 8 bits have two or three
bits behind the point: a quarter is one or two units in the last place."""


@dataclass(frozen=True)
class OutputAgreement:
    """How equal one output is."""

    name: str
    """The name of the output; elements of sequences and maps have an index behind it."""
    type: str
    """Element type and shape, of the first run."""
    difference: float | None
    """The largest difference relative to the largest magnitude of the first run, of floats with the same shape."""
    limit: float
    """The largest difference that counts as equal; 0 where elements must be equal exactly."""
    reason: str
    """Why the outputs differ; empty where they are equal."""

    @property
    def is_equal(self) -> bool:
        """Whether the difference is within the limit, and nothing else is different."""
        return not self.reason


def agreements(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[OutputAgreement]:
    """How equal each output of two runs is; both have the same names."""
    return [found for name, value in before.items() for found in _compared(name, value, after[name])]


def _compared(name: str, before: Any, after: Any) -> Iterator[OutputAgreement]:
    if isinstance(before, list | dict) or isinstance(after, list | dict):
        yield from _compared_parts(name, before, after)
    elif before is None or after is None:
        reason = "" if before is after else "only one run has a value for it"
        yield OutputAgreement(name, "optional", None, 0.0, reason)
    else:
        yield _compared_arrays(name, np.asarray(before), np.asarray(after))


def _compared_parts(name: str, before: Any, after: Any) -> Iterator[OutputAgreement]:
    one, other = _parts(before), _parts(after)
    if type(before) is not type(after) or one.keys() != other.keys():
        yield OutputAgreement(
            name,
            type(before).__name__,
            None,
            0.0,
            f"{len(one)} elements became {len(other)} or have other keys",
        )
        return
    for key, value in one.items():
        yield from _compared(f"{name}[{key}]", value, other[key])


def _parts(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value  # pyright: ignore[reportUnknownVariableType]
    return dict(enumerate(value)) if isinstance(value, list) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _compared_arrays(name: str, before: NDArray[Any], after: NDArray[Any]) -> OutputAgreement:
    word, limit = before.dtype.name, _limit(before.dtype)
    type = f"{word} {shape_text(before.shape)}"
    if before.dtype != after.dtype or before.shape != after.shape:
        reason = f"{type} became {after.dtype.name} {shape_text(after.shape)}"
        return OutputAgreement(name, type, None, limit, reason)
    if not limit:
        count = int(np.count_nonzero(before != after))
        reason = f"{count} of {before.size} elements differ" if count else ""
        return OutputAgreement(name, type, None, 0.0, reason)
    one, other = _real_numbers(before), _real_numbers(after)
    place = _other_specials(one, other)
    if place is not None:
        index, a, b = place
        where = f" at [{', '.join(map(str, index))}]" if index else ""
        return OutputAgreement(name, type, None, limit, f"{a} became {b}{where}")
    difference = relative_difference(one, other)
    reason = f"they differ by {difference:.1e} of the largest magnitude" if difference > limit else ""
    return OutputAgreement(name, type, difference, limit, reason)


def _limit(dtype: np.dtype[Any]) -> float:
    if dtype.kind in "fc":
        return _LIMITS.get(dtype.name, TOLERANCE)
    if dtype.name.startswith("float"):  # of ml_dtypes
        return 0.25
    return _LIMITS.get(dtype.name, 0.0)


def _real_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """The elements in double precision; real and imaginary parts in a last dim."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)[..., None].view(np.float64)
    return array.astype(np.float64)


def _other_specials(one: NDArray[Any], other: NDArray[Any]) -> tuple[Sequence[int], float, float] | None:
    """The first index at which only one has a NaN or an infinity, or both have different ones, and what both have."""
    special = ~(np.isfinite(one) & np.isfinite(other))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    places = np.argwhere(special & ~same)
    if not len(places):
        return None
    index = tuple(map(int, places[0]))
    return index, float(one[index]), float(other[index])
