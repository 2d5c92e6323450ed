"""Compiled reorders between layouts or descriptors, for one shape or for every size of its dynamic extents.

    f32, i8 = TensorDesc((1, 64, 56, 56), "f32", "nchw"), TensorDesc((1, 64, 56, 56), "i8", "nhwc")
    kernel = compile_reorder(f32, i8, scale=0.05)
    kernel(source_buffer, destination_buffer)

`reordering.py` has the reorders of NumPy arrays that are made of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.argument_checks import check_flags
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.elements.element_types import canonical_name
from layout_ir.elements.quantization import Conversion, conversion_between
from layout_ir.errors import LayoutError, public
from layout_ir.forking import loading

if TYPE_CHECKING:
    from layout_ir.backends.llvm import Reorder
    from layout_ir.backends.llvm.machine.machine import Machine
    from layout_ir.backends.llvm.runtime.dynamic_call import DynamicKernel
    from layout_ir.dialects.kernel.plan import Plan


@public
def compile_reorder(
    source: TensorDesc | Layout,
    destination: TensorDesc | Layout,
    dtype: str | None = None,
    *,
    dst_dtype: str | None = None,
    scale: Any = None,
    zero_point: Any = None,
    beta: Any = None,
    dim: int | None = None,
    saturate: bool = False,
    threads: int | None = None,
    target: Machine | str | None = None,
    tune: bool = False,
) -> Reorder | ScaledReorder | DynamicKernel:
    """A kernel `kernel(source_buffer, destination_buffer)`, which moves every element from one layout to the other.

    Descriptors bring their element type, scale and zero point; of bare layouts `dtype` names the source's elements
    (f32 without it) and `dst_dtype` the destination's (those of the source without it). Where types or quantization
    differ, elements are converted: a stored element stands for (stored - zero point) * scale, and the destination holds
    what comes nearest to that, rounded to even, the nearest bound where it is out of range.

    `scale` and `zero_point` are those of the one side that has integers or narrow floats, or a pair (source's,
    destination's), None for none. A Python number is compiled in. An array of rank 0, or a list or an array with one
    number for each index of dim number `dim`, is a run-time parameter: the result is then a `ScaledReorder`, whose
    calls may bring others by `scale=`, `zero_point=` and `beta=`. With `beta`, a number or an array of rank 0, beta
    times what the destination held before is added. With `saturate`, what is too large for a float of 8 bits becomes
    its greatest number, not infinity or NaN.

    `threads` is how many threads share a call at most (None: as many as there are CPUs to run on); small reorders take
    fewer. `target` is what the code is made for: this machine without it, or a name such as "x86-64-v3" of one whose
    code runs here. With `tune` a handful of plans is measured and the fastest kept, for every later call with `tune`.

    Where extents of the descriptors are None, the result is a `DynamicKernel`, which serves every size of them and has
    its numbers compiled in.

    Raises LayoutError where descriptors and arguments disagree, and where no kernel moves the layouts.
    """
    check_flags(saturate=saturate, tune=tune)
    src_name = dtype_of_side(source, dtype) or "f32"
    dst_name = dtype_of_side(destination, dst_dtype) or src_name
    if any(isinstance(side, TensorDesc) and None in side.shape for side in (source, destination)):
        numbers = (*quantization_of_sides(source, destination, scale, zero_point), beta)
        return _dynamic_kernel(
            source,
            destination,
            (src_name, dst_name),
            numbers,
            dim,
            saturate=saturate,
            threads=threads,
            target=target,
        )
    src, dst = (side.layout if isinstance(side, TensorDesc) else side for side in (source, destination))
    if dst.pad == "zp" and isinstance(destination, TensorDesc):
        dst = replace(dst, pad=destination.zero_point)
    parameters = (*quantization_of_sides(source, destination, scale, zero_point), beta)
    return bound_kernel(
        src,
        dst,
        (src_name, dst_name),
        parameters,
        dim,
        saturate=saturate,
        threads=threads,
        target=target,
        tune=tune,
    )


def bound_kernel(
    src: Layout, dst: Layout, dtypes: tuple[str, str], parameters: tuple[Any, Any, Any], dim: int | None = None, *,
    saturate: bool = False, threads: int | None = None, target: Machine | str | None = None, tune: bool = False,
) -> Reorder | ScaledReorder:  # fmt: skip
    """The kernel between layouts; `parameters` are scale, zero point and beta, as `conversion_between` takes them."""
    with loading:
        from layout_ir.backends.llvm import compile_reorder as compile_

    channels = _channels(src.shape, dim) or 0

    def convert(scale: Any, zero_point: Any, beta: Any) -> tuple[Conversion, dict[str, NDArray[Any]]]:
        return conversion_between(
            *dtypes,
            scale=scale,
            zero_point=zero_point,
            beta=beta,
            dim=dim,
            channels=channels,
            saturate=saturate,
        )

    conversion, values = convert(*parameters)
    _check_dim_is_needed(dim, parameters)
    kernel = compile_(src, dst, conversion=conversion, threads=threads, target=target, tune=tune)
    return ScaledReorder(kernel, convert, parameters, values) if values else kernel


def _dynamic_kernel(
    source: TensorDesc | Layout,
    destination: TensorDesc | Layout,
    dtypes: tuple[str, str],
    parameters: tuple[Any, Any, Any],
    dim: int | None,
    *,
    saturate: bool,
    threads: int | None,
    target: Machine | str | None,
) -> Reorder | ScaledReorder | DynamicKernel:
    """The kernel where extents are dynamic on one side at least; an extent that the other side knows is known."""
    with loading:
        from layout_ir.backends.llvm.runtime.dynamic_call import compile_dynamic

    formats = source.format, destination.format
    for side, format in (("source", formats[0]), ("destination", formats[1])):
        if format is None:
            raise LayoutError(
                f"the {side} has no format: dynamic extents need one, dynamic strides cannot be compiled"
            )
    if len(source.shape) != len(destination.shape) or any(
        None not in (x, y) and x != y for x, y in zip(source.shape, destination.shape, strict=True)
    ):
        raise LayoutError(
            f"a reorder keeps the shape: source has {source.shape}, destination has {destination.shape}"
        )
    shape = tuple(y if x is None else x for x, y in zip(source.shape, destination.shape, strict=True))
    assert formats[0] is not None and formats[1] is not None
    src, dst = formats[0], formats[1]
    if dst.pad == "zp" and isinstance(destination, TensorDesc):
        dst = dst.with_pad(destination.zero_point)
    if None not in shape:
        extents = [x for x in shape if x is not None]
        return bound_kernel(
            src.bind(extents), dst.bind(extents), dtypes, parameters, dim, saturate=saturate, threads=threads,
            target=target,
        )  # fmt: skip
    channels = _channels(shape, dim)
    if channels is None:
        raise LayoutError(
            f"one number per channel needs the extent of dim {dim}, which is dynamic: give that extent, or one number"
        )
    scale, zero_point, beta = parameters
    conversion, _ = conversion_between(
        *dtypes, scale=scale, zero_point=zero_point, beta=beta, dim=dim, channels=channels, saturate=saturate
    )
    _check_dim_is_needed(dim, parameters)
    return compile_dynamic(src, dst, shape, conversion=conversion, threads=threads, target=target)


def _channels(shape: Sequence[int | None], dim: int | None) -> int | None:
    """The extent of `dim`, 0 for no dim, None where it is dynamic. Raises LayoutError where there is no such dim."""
    if dim is None:
        return 0
    if not 0 <= dim < len(shape):
        raise LayoutError(f"channels along dim {dim} of a tensor of rank {len(shape)}: dims count from 0")
    return shape[dim]


def _check_dim_is_needed(dim: int | None, parameters: tuple[Any, Any, Any]) -> None:
    """Raises LayoutError where there is a dim of channels, and no parameter has a number for each of them."""
    if dim is None:
        return
    sides: list[Any] = []
    for given in parameters:
        sides += given if isinstance(given, tuple) else (given,)
    if not any(side is not None and np.ndim(side) == 1 for side in sides):
        raise LayoutError(
            f"dim = {dim} says along which dim scale or zero_point has a number for each index, and neither has: give "
            "a list or an array of them, or leave dim out"
        )


@dataclass(frozen=True, slots=True)
class ScaledReorder:
    """A compiled reorder with the run-time parameters (scales, zero points, beta) of its calls."""

    kernel: Reorder
    _convert: Callable[..., tuple[Conversion, dict[str, NDArray[Any]]]]
    _given: tuple[Any, Any, Any]
    _values: dict[str, NDArray[Any]]

    def __call__(
        self, source: Any, destination: Any, *, scale: Any = None, zero_point: Any = None, beta: Any = None
    ) -> None:
        """As `Reorder`; what is given takes the place of what was given to `compile_reorder`.

        Raises LayoutError where the machine code cannot take it: numbers that are compiled in do not change, and one
        array takes the place of another of its shape.
        """
        values = self._values
        if any(x is not None for x in (scale, zero_point, beta)):
            chosen = [
                new if new is not None else old
                for new, old in zip((scale, zero_point, beta), self._given, strict=True)
            ]
            conversion, values = self._convert(*chosen)
            if conversion != self.kernel.plan.conversion:
                raise LayoutError(
                    f"the kernel is compiled for {self.kernel.plan.conversion}, not for {conversion}"
                )
        self.kernel(source, destination, values)

    @property
    def plan(self) -> Plan:
        """The plan that is compiled."""
        return self.kernel.plan

    @property
    def address(self) -> int:
        """Where the machine code begins; see `Reorder.address`."""
        return self.kernel.address

    @property
    def signature(self) -> str:
        """The C prototype of the function at `address`; see `Reorder.signature`."""
        return self.kernel.signature


def dtype_of_side(side: TensorDesc | Layout, dtype: str | None) -> str | None:
    """The element type of a side. Raises LayoutError where the descriptor says another than the argument."""
    given = None if dtype is None else canonical_name(dtype)
    if isinstance(side, Layout):
        return given
    if not isinstance(side, TensorDesc):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"each side is a TensorDesc or a Layout, not {side!r}: a Format alone has no shape")
    if given is not None and given != side.dtype:
        raise LayoutError(f"the descriptor has elements of {side.dtype}, the argument says {given}")
    return side.dtype


def quantization_of_sides(
    source: TensorDesc | Layout, destination: TensorDesc | Layout, scale: Any, zero_point: Any
) -> tuple[Any, Any]:
    """Scales and zero points as pairs, where descriptors have any."""
    sides = [side for side in (source, destination) if isinstance(side, TensorDesc)]
    scales: Any = tuple(
        side.scale if isinstance(side, TensorDesc) else None for side in (source, destination)
    )
    zeros: Any = tuple(
        (side.zero_point or None) if isinstance(side, TensorDesc) else None for side in (source, destination)
    )
    if (
        len(sides) == 2
        and scales[0] == scales[1]
        and zeros[0] == zeros[1]
        and sides[0].dtype == sides[1].dtype
    ):
        return scale, zero_point  # the same numbers mean the same
    has_any = any(side.scale is not None or side.zero_point for side in sides)
    if has_any and (scale is not None or zero_point is not None):
        raise LayoutError("scale and zero point are given by a descriptor and by an argument: give them once")
    return (scales, zeros) if has_any else (scale, zero_point)
