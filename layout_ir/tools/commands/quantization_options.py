"""Quantization parameters on the command line: scale, zero point and beta, compiled in or given at run time.

--scale 0.05              per-tensor, of the only side of integers or narrow floats; compiled in
--scale 0.5:0.25          of the source and of the destination; either may be left out
--scale 0.1,0.2,0.4       per-channel: one for each index of --dim
--scale @scales.npy       the same from a file, NumPy's or text
--scale channel           per-channel, an argument of every call; `tensor`: per-tensor, an argument of every call
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from typing import Any, cast

from layout_ir.elements.element_types import canonical_name
from layout_ir.elements.quantization import Conversion, conversion_between, quantized_side
from layout_ir.errors import LayoutError
from layout_ir.files import read_bounded

AT_RUN_TIME = ("tensor", "channel")

_LARGEST_FILE = 1 << 24
"""Bytes of a file of numbers at most: a million numbers, more than any tensor has channels. Reading a device would not
end."""


def conversion_of(args: argparse.Namespace, dtype: str, shape: Sequence[int | None]) -> Conversion:
    """The conversion that the options ask for, of a tensor of `shape` (None: a dynamic extent) with elements `dtype`.

    Raises LayoutError where they do not fit the types or the shape, or where a file holds no list of numbers.
    """
    dst, dim = canonical_name(args.to_dtype or dtype), cast("int | None", args.dim)
    if dim is not None and not 0 <= dim < len(shape):
        raise LayoutError(f"--dim {dim} is no dim of a tensor of rank {len(shape)}: they count from 0")
    channels = 0 if dim is None else shape[dim]
    if channels is None:
        raise LayoutError(
            f"--dim {dim} needs a number for each index, but its extent in --shape is dynamic: give it"
        )
    scale = _sides(args.scale, "--scale", dtype, dst, channels, dim)
    zero_point = _sides(args.zero_point, "--zero-point", dtype, dst, channels, dim)
    beta = None if args.beta is None else _value(args.beta, "--beta", 0, None)
    conversion, _ = conversion_between(
        dtype,
        dst,
        scale=scale,
        zero_point=zero_point,
        beta=beta,
        dim=dim,
        channels=channels,
        saturate=args.saturate,
    )
    if dim is not None and not _has_channels(scale, zero_point):
        raise LayoutError(
            f"--dim {dim} says where channels are, but neither --scale nor --zero-point has a number for each"
        )
    return conversion


def _has_channels(*sides: tuple[Any, Any]) -> bool:
    return any(
        isinstance(x, tuple) or getattr(x, "ndim", 0) == 1 for pair in sides for x in pair if x is not None
    )


def _sides(
    text: str | None, option: str, src: str, dst: str, channels: int, dim: int | None
) -> tuple[Any, Any]:
    """The values of an option for source and destination, None where it has none."""
    if text is None:
        return None, None
    parts = text.split(":")
    if len(parts) > 2:
        raise LayoutError(f"{option} {text} has {len(parts)} sides, expected SOURCE:DESTINATION")
    if len(parts) == 2:
        first, second = (_value(part, option, channels, dim) if part else None for part in parts)
        return first, second
    value = _value(text, option, channels, dim)
    side = quantized_side(src, dst)
    if side is None:
        raise LayoutError(
            f"{option} {text} may be meant for either side of {src} to {dst}: say which, as {option} {text}: "
            f"for the source or {option} :{text} for the destination"
        )
    return (None, value) if side else (value, None)


def _value(text: str, option: str, channels: int, dim: int | None) -> Any:
    """A float, a tuple with one number per channel, or an array of ones that stands for a runtime parameter."""
    if text in AT_RUN_TIME:
        import numpy as np

        if text == "tensor":
            return np.ones(())
        if option == "--beta":
            raise LayoutError("--beta is one number for all channels: give it, or tensor")
        _need_dim(option, text, dim)
        return np.ones(channels)
    if not text.startswith("@") and "," not in text:
        return _number(text, option, text)
    numbers = _from_file(text[1:]) if text[0] == "@" else [_number(x, option, text) for x in text.split(",")]
    if len(numbers) == 1:
        return numbers[0]
    if option != "--beta":
        _need_dim(option, text, dim)
    return tuple(numbers)


def _need_dim(option: str, text: str, dim: int | None) -> None:
    if dim is None:
        raise LayoutError(f"{option} {text} is one number per channel: say along which dim, such as --dim 1")


def _number(text: str, option: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise LayoutError(
            f"'{text}' in {option} {whole} is no number: expected one, a list, @FILE, tensor or channel"
        ) from None


def _from_file(name: str) -> list[float]:
    """The numbers in a file. Raises LayoutError where it holds no list of them, OSError where it cannot be read."""
    import numpy as np

    try:
        try:
            data = read_bounded(name, _LARGEST_FILE)
        except LayoutError as error:
            raise LayoutError(f"{name}: not a file of numbers for channels: {error}") from None
        if name.endswith(".npy"):
            found: Any = np.load(io.BytesIO(data), allow_pickle=False)
            numbers = np.atleast_1d(found).astype(np.float64, casting="same_kind")
        else:
            numbers = np.array([float(x) for x in data.decode("utf-8").replace(",", " ").split()])
    except (LayoutError, OSError):
        raise
    except MemoryError as error:
        raise LayoutError(
            f"{name}: it states an array that needs more memory than there is: {error}"
        ) from error
    except Exception as error:
        # NumPy says in exceptions of many classes that bytes are no array.
        reason = "it holds Python objects" if "allow_pickle" in str(error) else str(error)[:200]
        raise LayoutError(f"{name}: not a file of numbers: {reason}") from error
    if numbers.ndim != 1 or not numbers.size:
        shape = "x".join(map(str, numbers.shape))
        raise LayoutError(f"{name}: expected a list of numbers, found an array of {shape}")
    return [float(x) for x in numbers]
