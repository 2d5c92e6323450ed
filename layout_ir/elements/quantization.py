"""Quantization: what real numbers stored elements stand for, and what becomes of them in another element type.

A stored element stands for a real number: real = (stored - zero_point) * scale. The zero point is what the pad policy
`zp` writes. A reorder between element types keeps the real number as well as the destination can. This is the only
definition; `backends.reference` computes it in NumPy, the kernels of `backends.llvm` in machine code.

**Without scales, zero points and beta** a conversion is one exact step, rounded once:

    to a float          to nearest, ties to even, subnormals kept; too large becomes infinity; NaN stays a quiet NaN
    to a narrow float   the same; too large, after rounding, is as `saturate` says (below), infinity too
    float to integer    to nearest, ties to even; out of range, infinities too, becomes the nearest bound; NaN becomes 0
    integer to integer  out of range becomes the nearest bound, nothing wraps around
    to i1               whether it is not 0 (NaN is not 0); from i1: 0 or 1 (any byte but 0 is 1)
    to the same type    the bits

**With any of them** the arithmetic is f32, as oneDNN's is; f64 where a side is f64 or has 64-bit integers, and where a
side has 32-bit integers and only zero points act, which is then exact. Every step below is rounded to that type, in
this order (steps that are not asked for are left out, none is fused):

    y = stored - source zero point
    y = y * source scale
    y = y / destination scale
    y = y + beta * (old - destination zero point)       old: what the destination held
    y = y to the nearest integer, ties to even, + destination zero point
    stored = y, converted as above

That is ONNX's DequantizeLinear behind which its QuantizeLinear stands, so a chain of the two is one reorder and none
of its integers changes. Equal scales that are compiled in cancel.

oneDNN (3.13) multiplies by the rounded reciprocal of the destination's scale and adds the zero point before it rounds:
one integer in about 100,000 is its neighbour, and ties are where the zero point is odd. Its sum takes the stored
number for the real one: stored = (source + beta * stored) / scale + zero point. Here beta adds reals: new = source +
beta * old, both in the scale of the destination. The two are the same where the destination has scale 1 and zero point
0, and only there. NaN becomes 0 here, often the least integer there. oneDNN saturates i32 at 2147483520, the greatest
f32 below the bound, and flushes subnormals of bf16; here they are numbers like all others.

**Narrow floats** have 8 bits or 4. What is beyond their greatest number becomes that number with `saturate`, as ONNX's
Cast and QuantizeLinear do unless told otherwise; without, infinity (f8E5M2) or NaN (the other f8), as in oneDNN,
ml_dtypes and MLIR's arith.truncf. f4E2M1FN has neither, so it saturates always, and NaN becomes its greatest number, 6,
with the sign that it had, as in oneDNN. Infinity is a number beyond the greatest. FNUZ types have one zero: -0 becomes
0. All are rounded once from what they come from; oneDNN (3.13) rounds f32 to f16 first, which differs next to ties, and
drops the sign of what becomes 0.

Elements of 4 bits lie two in a byte, the even address in the low half; i4 is -8 to 7 in two's complement. These are
oneDNN's s4, u4 and f4_e2m1, too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Literal, cast

from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Parameter = float | tuple[float, ...] | Literal["tensor", "channel"]
"""A number, or one per channel, that is compiled in; or "tensor" or "channel": a run-time parameter, whose value every
call passes as one number or as one per channel."""

PARAMETERS = ("src_zero", "src_scale", "dst_scale", "beta", "dst_zero")
"""The parameters of a conversion, in the order in which they act."""

_SCALES = ("src_scale", "dst_scale")


@dataclass(frozen=True, slots=True)
class Conversion:
    """From elements of `src` to elements of `dst`, with the arithmetic on the way; None is an absent step."""

    src: str
    dst: str
    src_zero: Parameter | None = None
    src_scale: Parameter | None = None
    dst_scale: Parameter | None = None
    beta: Parameter | None = None
    dst_zero: Parameter | None = None
    dim: int | None = None
    """The dim along which there are channels, if a parameter has one number for each."""
    channels: int = 0
    """How many."""
    saturate: bool = False
    """Whether what is beyond the greatest number of `dst`, a narrow float with infinity or NaN, becomes that number.
    Integers, and f4E2M1FN, saturate without it."""

    def __post_init__(self) -> None:
        if self.saturate and not element_type(self.dst).may_saturate:
            raise LayoutError(f"{self.src} to {self.dst}: only floats of 8 bits may saturate or not")
        if any(map(is_per_channel, self.parameters.values())) != (self.dim is not None):
            raise LayoutError(
                "one number per channel needs the dim of the channels, and the dim such a number"
            )
        for name, value in self.parameters.items():
            if isinstance(value, tuple) and len(value) != self.channels:
                raise LayoutError(
                    f"{name} has {len(value)} numbers, expected {self.channels}, one per channel"
                )
            for number in () if isinstance(value, str) else value if isinstance(value, tuple) else (value,):
                _acting(name, number, self.computes)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The steps there are, in the order in which they act."""
        found: dict[str, Parameter | None] = {name: getattr(self, name) for name in PARAMETERS}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def at_run_time(self) -> tuple[str, ...]:
        """The names of the run-time parameters, in the order in which they act."""
        return tuple(name for name, value in self.parameters.items() if isinstance(value, str))

    @property
    def is_identity(self) -> bool:
        """Whether the bits stay what they are."""
        return self.src == self.dst and not self.parameters

    @property
    def computes(self) -> str:
        """The type of the arithmetic."""
        return computing_type(
            self.src, self.dst, shifts=self.src_scale is self.dst_scale is self.beta is None
        )

    def __str__(self) -> str:
        steps = ", saturate" if self.saturate else ""
        steps += "".join(f", {name} {_parameter_text(value)}" for name, value in self.parameters.items())
        return f"{self.src} to {self.dst}{steps}" + (
            "" if self.dim is None else f", dim {self.dim} of {self.channels}"
        )


def is_per_channel(value: Parameter) -> bool:
    """Whether there is one number for each channel, compiled in or not."""
    return isinstance(value, tuple) or value == "channel"


def number_text(value: float) -> str:
    """A float as IR spells it: the shortest text that reads back as it, with a point in front of an exponent."""
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else repr(value)


def _parameter_text(value: Parameter) -> str:
    if isinstance(value, str):
        return value
    return f"[{', '.join(map(number_text, value))}]" if isinstance(value, tuple) else number_text(value)


def computing_type(src: str, dst: str, *, shifts: bool = False) -> str:
    """The type in which parameters act between two element types; `shifts`: these are only zero points."""
    wide = {"f64", "i64", "ui64", *(("i32", "ui32") if shifts else ())}
    return "f64" if {src, dst} & wide else "f32"


def rounded(value: float, dtype: str) -> float:
    """`value` as a number of `dtype`, f32 or f64. Raises LayoutError where it is none."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0] if dtype == "f32" else float(value)
    except OverflowError:
        raise LayoutError(f"{value} is no number of {dtype}, in which it would act") from None


def _acting(name: str, value: float, dtype: str) -> float:
    """A parameter as a number of `dtype`. Raises LayoutError where it is none, or a scale that becomes 0."""
    number = rounded(value, dtype)
    if name in _SCALES and not number > 0:
        raise LayoutError(f"{name} {value} is no positive number of {dtype}, in which it would act")
    return number


def conversion_between(
    src: str,
    dst: str,
    *,
    scale: Any = None,
    zero_point: Any = None,
    beta: Any = None,
    dim: int | None = None,
    channels: int = 0,
    saturate: bool = False,
) -> tuple[Conversion, dict[str, NDArray[Any]]]:
    """The conversion that scales and zero points of two sides make, and the values of its run-time parameters.

    `scale` and `zero_point` belong to the only side of integers or narrow floats, or are a tuple (source's,
    destination's), None for none. `saturate` is asked of narrow floats that could become infinity or NaN; other
    narrow types saturate anyway. A Python number is compiled in, and so is, for a side of such a tuple, a tuple of one
    for each of the `channels` along `dim`. An array of rank 0 is a run-time parameter; a list or an array of rank 1 is
    one with a number for each channel. `beta` is a number or an array of rank 0.

    Raises LayoutError where it is open which side is meant, where a scale is not positive, where a zero point is no
    element of its side, or where a vector is not as long as there are channels.
    """
    import numpy as np

    scales = [_given(x, "scale", channels) for x in sides_of(scale, src, dst, "scale")]
    zeros = [_given(x, "zero point", channels) for x in sides_of(zero_point, src, dst, "zero point")]
    for x, dtype in zip(scales, (src, dst), strict=True):
        wrong = None if x is None else _first_but(x, (np.asarray(x) > 0) & np.isfinite(x))
        if wrong is not None:
            raise LayoutError(f"scale {wrong} of {dtype} is not a positive number")
    for side, x, dtype in zip(("source", "destination"), zeros, (src, dst), strict=True):
        if x is None:
            continue
        element = element_type(dtype)
        if element.is_float:
            if (wrong := _first_but(x, np.zeros(np.shape(x), np.bool_))) is not None:
                raise LayoutError(
                    f"zero point {wrong} of {dtype}: expected integers, but elements of the {side} are floats and have "
                    "none: give None for it"
                )
            continue
        (low, high), numbers = element.range, np.asarray(x)
        wrong = _first_but(x, (low <= numbers) & (numbers <= high) & (np.rint(numbers) == numbers))
        if wrong is not None:
            raise LayoutError(f"zero point {wrong} of {dtype}: expected integers from {low} to {high}")
    if not any(isinstance(x, np.ndarray) for x in scales) and scales[0] == scales[1]:
        scales = [None, None]
    kept = _given(beta, "beta", 0)
    if kept is not None and not np.isfinite(kept).all():
        raise LayoutError(f"beta {beta} is not a finite number")
    every = (zeros[0], *scales, kept, zeros[1])
    given: dict[str, Any] = {
        name: x
        for name, x in zip(PARAMETERS, every, strict=True)
        if isinstance(x, np.ndarray) or x not in (None, 1.0 if name in _SCALES else 0.0)
    }
    number = computing_type(src, dst, shifts=given.keys() <= {"src_zero", "dst_zero"})
    values: dict[str, NDArray[Any]] = {name: x for name, x in given.items() if isinstance(x, np.ndarray)}
    found: dict[str, Any] = {}
    for name, x in given.items():
        if name in values:
            for extreme in (x.min(), x.max()) if x.size else ():
                _acting(name, float(extreme), number)
            found[name] = "channel" if x.ndim else "tensor"
        elif isinstance(x, tuple):
            found[name] = tuple(_acting(name, y, number) for y in cast("tuple[float, ...]", x))
        else:
            found[name] = _acting(name, x, number)
    found["saturate"] = _saturates(saturate, src, dst)
    if not any(map(is_per_channel, found.values())):
        return Conversion(src, dst, **found), values
    if dim is None:
        raise LayoutError("one number per channel needs the dim of the channels: give dim")
    return Conversion(src, dst, **found, dim=dim, channels=channels), values


def _saturates(asked: bool, src: str, dst: str) -> bool:
    """Whether a conversion saturates that need not. Raises LayoutError for wide floats, which never do."""
    element = element_type(dst)
    if asked and element.is_float and not element.is_narrow_float:
        raise LayoutError(
            f"saturate for {src} to {dst}: integers and floats of 8 bits or fewer saturate, what is too large for "
            f"{dst} becomes infinity"
        )
    return asked and element.may_saturate


def _first_but(value: Any, fits: Any) -> str | None:
    """The first number of `value` that does not fit, and its channel if there are several; None if all do."""
    import numpy as np

    if fits.all():
        return None
    place = np.flatnonzero(~np.atleast_1d(fits))[0]
    number = np.atleast_1d(np.asarray(value))[place]
    return f"{number} for channel {place}" if np.ndim(value) else f"{number}"


def _compiled(value: Any) -> Any:
    """Numbers that are compiled in: a tuple, or a float where there is one or every channel has the same."""
    import numpy as np

    numbers = np.asarray(value, np.float64)
    if numbers.ndim == 0 or (numbers.size and (numbers == numbers[0]).all()):
        return float(numbers.flat[0])
    return tuple(numbers.tolist())


def _given(value: Any, what: str, channels: int) -> Any:
    """`value` checked: a float or a tuple of them for what is compiled in, an array of f64 for a run-time parameter."""
    import numpy as np

    if value is None:
        return None
    try:
        if isinstance(value, int | float):
            return float(value)
        array = np.array(value, np.float64)  # what is checked does not change behind our back
    except (TypeError, ValueError, OverflowError) as error:
        raise LayoutError(f"{what} {value!r} is no number: {error}") from None
    if array.ndim > 1 or (array.ndim == 1 and array.size != channels):
        shown = "x".join(map(str, array.shape))
        wanted = f"one or {channels}, one for each channel" if channels else "one"
        raise LayoutError(f"{what} has {shown} numbers, expected {wanted}")
    return _compiled(array) if isinstance(value, tuple) else array


def sides_of(given: Any, src: str, dst: str, what: str) -> tuple[Any, Any]:
    """`given` as a pair (source's, destination's), None for a side without.

    A tuple is that pair. Anything else belongs to the only side of integers or narrow floats; LayoutError where there
    is none or two. `what` names it in messages.
    """
    if isinstance(given, tuple):
        pair = cast("tuple[Any, ...]", given)
        if len(pair) != 2:
            raise LayoutError(
                f"a tuple is a {what} for the source and one for the destination, not {len(pair)} numbers: "
                "give those of channels as a list or an array"
            )
        return pair[0], pair[1]
    if given is None:
        return None, None
    side = quantized_side(src, dst)
    if side is None:
        raise LayoutError(
            f"a {what} for {src} to {dst} may be meant for either side: give a tuple (source's, destination's)"
        )
    return (None, given) if side else (given, None)


def quantized_side(src: str, dst: str) -> int | None:
    """The only side that is quantized: 0 for the source, 1 for the destination; None where both are, or neither is.

    Integers are quantized, and so are narrow floats and truth values beside wider floats.
    """
    sides = [element_type(dtype).is_quantized or element_type(dtype).kind == "bool" for dtype in (src, dst)]
    return None if sides[0] == sides[1] else int(sides[1])


def check_quantization(dtype: str, scale: float | None, zero_point: int) -> None:
    """Raises LayoutError where the scale is not positive, or the zero point no element of `dtype`."""
    if scale is not None and not 0 < scale < inf:
        raise LayoutError(f"scale {scale} is not a positive number")
    element = element_type(dtype)
    if zero_point and element.is_float:
        raise LayoutError(f"zero point {zero_point} of {dtype}: only integer types are quantized")
    if not element.holds(zero_point):
        low, high = element.range
        raise LayoutError(f"zero point {zero_point} is outside {dtype}: {low} to {high}")


def to_real(stored: NDArray[Any], scale: float, zero_point: int) -> NDArray[np.float32]:
    """The real numbers that stored elements stand for, rounded once to f32."""
    import numpy as np

    return ((stored.astype(np.float64) - zero_point) * scale).astype(np.float32)


def to_stored(values: Any, dtype: str, scale: float, zero_point: int) -> NDArray[Any]:
    """Real numbers as elements of `dtype`: scaled, rounded once to nearest even, shifted, and saturated.

    Floats come as f64, for the caller to store. NaN becomes 0.
    """
    import numpy as np

    exact = np.asarray(values, np.float64) / scale
    element = element_type(dtype)
    if element.is_float:
        return exact
    low, high = element.range
    whole = np.clip(np.where(np.isnan(exact), 0, np.rint(exact) + zero_point), low, high)
    # The greatest 64-bit integers are no f64; the nearest below is what fits.
    whole = np.minimum(whole, np.nextafter(2.0**63 if low < 0 else 2.0**64, 0))
    return whole.astype(np.int64 if low < 0 else np.uint64)
