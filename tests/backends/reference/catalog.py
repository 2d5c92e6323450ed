"""Random instances of every nn op, and what each gives, according to PyTorch in double precision.

A case holds logical values only; how they lie is the affair of the tests. Values are rounded to the element type by
PyTorch, so that the oracle starts from the very numbers that the buffers hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.dialects import nn

# Not imported: few of its types pass a strict checker.
torch: Any = pytest.importorskip("torch", reason="needs the extra 'oracles'")
F: Any = torch.nn.functional

Array = NDArray[Any]
Torch = Any
"""A torch tensor."""

FLOAT_TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
INTEGER_TYPES = {
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i32": torch.int32,
    "i64": torch.int64,
    "i1": torch.bool,
}
TOLERANCE = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}


@dataclass
class Case:
    """An op on `arrays` (stored elements); `expected` in double precision, or exact for integers."""

    op: type[nn.NNOp]
    arrays: list[Array]
    attributes: dict[str, Any]
    expected: Array
    dtype: str
    result_dtype: str = ""
    dtypes: list[str] = field(default_factory=list[str])

    def __post_init__(self):
        self.result_dtype = self.result_dtype or self.dtype
        self.dtypes = self.dtypes or [self.dtype] * len(self.arrays)


def to_stored(values: Torch, dtype: str) -> Array:
    """`values` as stored elements of `dtype`, rounded by PyTorch."""
    rounded = values.to((FLOAT_TYPES | INTEGER_TYPES)[dtype]).contiguous()
    return rounded.view(torch.int16).numpy().view(np.uint16) if dtype == "bf16" else rounded.numpy()


def to_torch(array: Array, dtype: str) -> Torch:
    """Stored elements as the same numbers in double precision (integers stay integers)."""
    tensor = torch.from_numpy(np.array(array.view(np.int16) if dtype == "bf16" else array))
    tensor = tensor.view(torch.bfloat16) if dtype == "bf16" else tensor
    return tensor.to(torch.float64) if dtype in FLOAT_TYPES else tensor


def to_numbers(array: Array, dtype: str) -> Array:
    """Stored elements as NumPy numbers: double precision, or the integers that they are."""
    return to_torch(array, dtype).numpy()


def case(rng: Random, op: type[nn.NNOp], dtype: str = "f32") -> Case:
    """A random instance of `op` on elements of `dtype`."""
    return MAKERS[op](rng, op, dtype)


# Building blocks --------------------------------------------------------------------------------------------------


def _values(rng: Random, shape: tuple[int, ...], dtype: str, low: float = -3.0, high: float = 3.0) -> Array:
    if dtype in INTEGER_TYPES:
        ranges = {"i8": (-100, 100), "ui8": (0, 255), "i1": (0, 2)}
        low, high = ranges.get(dtype, (-1000, 1000))
        return to_stored(torch.randint(int(low), int(high), shape, generator=_generator(rng)), dtype)
    values = torch.rand(shape, generator=_generator(rng), dtype=torch.float64) * (high - low) + low
    return to_stored(values, dtype)


def _generator(rng: Random) -> Any:
    return torch.Generator().manual_seed(rng.getrandbits(40))


def _shape(rng: Random, rank: int, most: int = 7) -> tuple[int, ...]:
    return tuple(rng.randint(1, most) for _ in range(rank))


def _image(rng: Random, channels: int | None = None) -> tuple[int, ...]:
    spatial = rng.randint(1, 3)
    return (
        rng.randint(1, 2),
        channels or rng.randint(1, 13),
        *(rng.randint(3, (9, 8, 5)[spatial - 1]) for _ in range(spatial)),
    )


Maker = Callable[[Random, type[nn.NNOp], str], Case]


def _unary(
    function: Callable[..., Torch], low: float = -3.0, high: float = 3.0, **choices: list[Any]
) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        x = _values(rng, _shape(rng, rng.randint(1, 4)), dtype, low, high)
        attributes = {name: rng.choice(values) for name, values in choices.items()}
        return Case(op, [x], attributes, function(to_torch(x, dtype), **attributes).numpy(), dtype)

    return make


def _binary(function: Callable[[Torch, Torch], Torch], low: float = -3.0, high: float = 3.0) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        shape = _shape(rng, rng.randint(1, 4))
        shapes = [shape, shape]
        if rng.random() < 0.5:
            other = tuple(1 if rng.random() < 0.5 else extent for extent in shape)
            shapes[rng.randrange(2)] = other[rng.randint(0, len(shape) - 1) :]
        arrays = [_values(rng, s, dtype, low, high) for s in shapes]
        if dtype in INTEGER_TYPES and op in (nn.DivOp, nn.PowOp):
            arrays[1] = np.where(arrays[1] == 0, 3, arrays[1] % 7 if op is nn.PowOp else arrays[1]).astype(
                arrays[1].dtype
            )
        return Case(op, arrays, {}, function(*(to_torch(a, dtype) for a in arrays)).numpy(), dtype)

    return make


def _div(a: Torch, b: Torch) -> Torch:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _leaky_relu(x: Torch, alpha: float) -> Torch:
    return F.leaky_relu(x, alpha)


def _elu(x: Torch, alpha: float) -> Torch:
    return F.elu(x, alpha)


def _hard_sigmoid(x: Torch, alpha: float, beta: float) -> Torch:
    return (alpha * x + beta).clamp(0, 1)


def _gelu(x: Torch, approximate: str) -> Torch:
    return F.gelu(x, approximate=approximate)


def _clip(x: Torch, min: float, max: float) -> Torch:
    return x.clamp(min, max)


def _cast(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    target = rng.choice([*FLOAT_TYPES, *INTEGER_TYPES])
    x = _values(rng, _shape(rng, rng.randint(1, 4)), dtype, -100, 100)
    if target in ("ui8", "i8") and dtype != "i1":
        x = to_stored(to_torch(x, dtype).abs() % 100, dtype)
    values = to_torch(x, dtype)
    expected = to_torch(to_stored(values, target), target).numpy()
    return Case(op, [x], {}, expected, dtype, result_dtype=target)


def _conv(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    group = rng.choice((1, 1, 2, 3))
    depth = rng.randint(1, 9)
    x = _image(rng, group * depth)
    rank = len(x) - 2
    kernel = tuple(rng.randint(1, 3) for _ in range(rank))
    attributes = _windows(rng, x[2:], kernel)
    arrays = [_values(rng, x, dtype), _values(rng, (group * rng.randint(1, 6), depth, *kernel), dtype)]
    if rng.random() < 0.5:
        arrays.append(_values(rng, arrays[1].shape[:1], dtype))
    tensors = [to_torch(a, dtype) for a in arrays]
    padded = F.pad(tensors[0], _torch_pads(attributes["pads"]))
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    bias = tensors[2] if len(tensors) > 2 else None
    expected = function(padded, tensors[1], bias, attributes["strides"], 0, attributes["dilations"], group)
    return Case(op, arrays, {**attributes, "group": group}, expected.numpy(), dtype)


def _windows(rng: Random, extents: tuple[int, ...], kernel: tuple[int, ...]) -> dict[str, Any]:
    """Strides, pads and dilations with which the kernel fits; pads stay below the kernel."""
    dilations = tuple(
        rng.choice((1, 1, 2)) if (k - 1) * 2 < e else 1 for k, e in zip(kernel, extents, strict=True)
    )
    return {
        "strides": tuple(rng.randint(1, 3) for _ in kernel),
        "pads": tuple(rng.randint(0, k - 1) for k in kernel * 2),
        "dilations": dilations,
    }


def _torch_pads(pads: tuple[int, ...]) -> list[int]:
    """The last dim first, begin and end of each."""
    rank = len(pads) // 2
    return [p for d in reversed(range(rank)) for p in (pads[d], pads[rank + d])]


def _pool(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, _image(rng), dtype)
    kernel = tuple(rng.randint(1, 3) for _ in x.shape[2:])
    attributes: dict[str, Any] = {
        "kernel": kernel,
        **_windows(rng, x.shape[2:], kernel),
        "ceil_mode": rng.random() < 0.5,
    }
    if op is nn.AvgPoolOp:
        attributes["count_include_pad"] = rng.random() < 0.5
    return Case(
        op, [x], attributes, pool_by_definition(to_numbers(x, dtype), op is nn.MaxPoolOp, **attributes), dtype
    )


def pool_by_definition(
    x: Array, is_max: bool, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...],
    dilations: tuple[int, ...], ceil_mode: bool, count_include_pad: bool = False,
) -> Array:  # fmt: skip
    """Every window as the set of its positions, one at a time."""
    rank = len(kernel)
    counts: list[int] = []
    for d in range(rank):
        room = x.shape[2 + d] + pads[d] + pads[rank + d] - (kernel[d] - 1) * dilations[d] - 1
        count = (-(-room // strides[d]) if ceil_mode else room // strides[d]) + 1
        # A window that would begin behind the elements and the pads in front of them does not count.
        count -= ceil_mode and (count - 1) * strides[d] >= x.shape[2 + d] + pads[d]
        counts.append(count)
    result = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*counts):
        taken: list[Array] = []
        zeros = 0
        for tap in np.ndindex(*kernel):
            at = [
                p * s + t * dil - pads[d]
                for d, (p, s, t, dil) in enumerate(zip(place, strides, tap, dilations, strict=True))
            ]
            if all(0 <= a < e for a, e in zip(at, x.shape[2:], strict=True)):
                taken.append(x[(slice(None), slice(None), *at)])
            elif all(-pads[d] <= a < x.shape[2 + d] + pads[rank + d] for d, a in enumerate(at)):
                zeros += count_include_pad
        where = (slice(None), slice(None), *place)
        result[where] = np.max(taken, axis=0) if is_max else np.sum(taken, axis=0) / (len(taken) + zeros)
    return result


def _global_pool(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, _image(rng), dtype)
    values, axes = to_torch(x, dtype), tuple(range(2, x.ndim))
    expected = (
        values.mean(axes, keepdim=True) if op is nn.GlobalAvgPoolOp else values.amax(axes, keepdim=True)
    )
    return Case(op, [x], {}, expected.numpy(), dtype)


def _matmul(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    m, k, n = (rng.randint(1, 9) for _ in range(3))
    batch = _shape(rng, rng.randint(0, 2), 3)
    left, right = (*batch, m, k), (*(batch if rng.random() < 0.5 else batch[1:]), k, n)
    if rng.random() < 0.2:
        left = (k,)
    elif rng.random() < 0.2:
        right = (k,)
    arrays = [_values(rng, left, dtype), _values(rng, right, dtype)]
    return Case(op, arrays, {}, torch.matmul(*(to_torch(a, dtype) for a in arrays)).numpy(), dtype)


def _gemm(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    m, k, n = (rng.randint(1, 9) for _ in range(3))
    trans_a, trans_b = rng.random() < 0.5, rng.random() < 0.5
    shapes: list[tuple[int, ...]] = [(k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)]
    if rng.random() < 0.7:
        shapes.append(rng.choice([(m, n), (n,), (1, n), (m, 1), (1, 1), ()]))
    arrays = [_values(rng, shape, dtype) for shape in shapes]
    alpha, beta = (rng.choice((1.0, -2.0, *([0.5] if dtype in FLOAT_TYPES else []))) for _ in range(2))
    a, b, *c = (to_torch(array, dtype).to(torch.float64) for array in arrays)
    expected = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b)) + (beta * c[0] if c else 0)
    attributes = {"alpha": alpha, "beta": beta, "trans_a": trans_a, "trans_b": trans_b}
    return Case(op, arrays, attributes, expected.numpy(), dtype)


def _batch_norm(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, _image(rng), dtype)
    arrays = [x, *(_values(rng, x.shape[1:2], dtype, 0.5, 2) for _ in range(4))]
    epsilon = rng.choice((1e-5, 0.1))
    values, scale, bias, mean, var = (to_torch(a, dtype) for a in arrays)
    expected = F.batch_norm(values, mean, var, scale, bias, eps=epsilon)
    return Case(op, arrays, {"epsilon": epsilon}, expected.numpy(), dtype)


def _lrn(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, (2, rng.randint(1, 13), *_shape(rng, rng.randint(1, 2))), dtype)
    attributes: dict[str, Any] = {
        "size": rng.choice((3, 5)),
        "alpha": 0.3,
        "beta": 0.75,
        "bias": rng.choice((1.0, 2.0)),
    }
    values = to_torch(x, dtype)
    expected = F.local_response_norm(values, attributes["size"], 0.3, 0.75, attributes["bias"])
    return Case(op, [x], attributes, expected.numpy(), dtype)


def _softmax(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, _shape(rng, rng.randint(1, 4)), dtype)
    axis = rng.randrange(x.ndim)
    function = F.softmax if op is nn.SoftmaxOp else F.log_softmax
    return Case(op, [x], {"axis": axis}, function(to_torch(x, dtype), axis).numpy(), dtype)


def _reduce(function: Callable[[Torch, tuple[int, ...], bool], Torch]) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        shape = _shape(rng, rng.randint(1, 4))
        x = _values(rng, shape, dtype)
        axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
        keepdims = rng.random() < 0.5
        attributes = {"axes": axes, "keepdims": keepdims}
        values = function(to_torch(x, dtype), axes, keepdims)
        # PyTorch adds up integers in 64 bits.
        expected = to_torch(to_stored(values, dtype), dtype) if dtype in INTEGER_TYPES else values
        return Case(op, [x], attributes, expected.numpy(), dtype)

    return make


def _mean(x: Torch, axes: tuple[int, ...], keepdims: bool) -> Torch:
    if x.is_floating_point():
        return x.mean(axes, keepdim=keepdims)
    count = math.prod(x.shape[axis] for axis in axes)
    return torch.div(x.sum(axes, keepdim=keepdims), count, rounding_mode="trunc")


def _prod(x: Torch, axes: tuple[int, ...], keepdims: bool) -> Torch:
    for axis in reversed(axes):
        x = x.prod(axis, keepdim=keepdims)
    return x


def _concat(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    shape = list(_shape(rng, rng.randint(1, 4)))
    axis = rng.randrange(len(shape))
    arrays: list[Array] = []
    for _ in range(rng.randint(1, 3)):
        shape[axis] = rng.randint(1, 7)
        arrays.append(_values(rng, tuple(shape), dtype))
    return Case(
        op, arrays, {"axis": axis}, torch.cat([to_torch(a, dtype) for a in arrays], axis).numpy(), dtype
    )


def _pad(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    mode = rng.choice(("constant", "reflect", "edge", "wrap"))
    x = _values(rng, tuple(e + 2 for e in _shape(rng, rng.randint(1, 4), 4)), dtype)
    attributes: dict[str, Any] = {"pads": tuple(rng.randint(0, 2) for _ in range(2 * x.ndim)), "mode": mode}
    borders = [(attributes["pads"][d], attributes["pads"][x.ndim + d]) for d in range(x.ndim)]
    values = to_numbers(x, dtype)
    if mode == "constant":
        attributes["value"] = 5.0 if dtype != "i1" else 1.0
        expected = np.pad(values, borders, constant_values=attributes["value"])
        if rng.random() < 0.5:
            # One border is taken away instead.
            dim = rng.randrange(x.ndim)
            attributes["pads"] = tuple(-1 if d == dim else p for d, p in enumerate(attributes["pads"]))
            expected = np.delete(expected, range(borders[dim][0] + 1), dim)
    else:
        expected = np.pad(values, borders, mode=mode)
    return Case(op, [x], attributes, expected, dtype)


def _slice(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, _shape(rng, rng.randint(1, 4)), dtype)
    starts, sizes, steps = list[int](), list[int](), list[int]()
    for extent in x.shape:
        start, step = rng.randrange(extent), rng.choice((-3, -1, 1, 1, 2))
        most = len(range(start, extent, step) if step > 0 else range(start, -1, step))
        starts, sizes, steps = [*starts, start], [*sizes, rng.randint(1, most)], [*steps, step]
    picks = [[a + k * s for k in range(n)] for a, n, s in zip(starts, sizes, steps, strict=True)]
    expected = to_numbers(x, dtype)[np.ix_(*picks)]
    return Case(
        op, [x], {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}, expected, dtype
    )


def _resize(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = _values(rng, (rng.randint(1, 2), rng.randint(1, 9), *_shape(rng, 2)), dtype)
    sizes = tuple(rng.randint(1, 11) for _ in range(2))
    attributes: dict[str, Any] = {"sizes": (*x.shape[:2], *sizes)}
    values = to_torch(x, dtype).to(torch.float64)
    # Integers are cut off, and a sum that is whole but for rounding would fall on either side.
    match rng.randrange(4) if dtype in FLOAT_TYPES else rng.randrange(2, 4):
        case 0:
            attributes |= {"mode": "linear", "coordinates": "pytorch_half_pixel"}
            # PyTorch treats an extent of 1 as half_pixel does, which clamps to the same element unless it shrinks to 1.
            if 1 in sizes:
                attributes["coordinates"] = "half_pixel"
            expected = F.interpolate(values, sizes, mode="bilinear", align_corners=False)
        case 1:
            attributes |= {"mode": "linear", "coordinates": "align_corners"}
            expected = F.interpolate(values, sizes, mode="bilinear", align_corners=True)
        case 2:
            attributes |= {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"}
            expected = F.interpolate(values, sizes, mode="nearest")
        case _:
            factors = tuple(rng.choice((1, 2, 3)) for _ in range(2))
            attributes = {"scales": (1.0, 1.0, *map(float, factors)), "mode": "nearest"}
            expected = values.repeat_interleave(factors[0], 2).repeat_interleave(factors[1], 3)
    return Case(op, [x], attributes, expected.numpy(), dtype)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.ReluOp: _unary(F.relu),
    nn.LeakyReluOp: _unary(_leaky_relu, alpha=[0.01, 0.5]),
    nn.EluOp: _unary(_elu, alpha=[1.0, 0.5]),
    nn.SigmoidOp: _unary(torch.sigmoid, -20, 20),
    nn.HardSigmoidOp: _unary(_hard_sigmoid, alpha=[0.2, 0.5], beta=[0.5, 0.1]),
    nn.HardSwishOp: _unary(F.hardswish, -6, 6),
    nn.SoftplusOp: _unary(F.softplus, -15, 15),
    nn.GeluOp: _unary(_gelu, approximate=["none", "tanh"]),
    nn.ClipOp: _unary(_clip, min=[-1.0, 0.0], max=[2.0, 6.0]),
    nn.TanhOp: _unary(torch.tanh),
    nn.ExpOp: _unary(torch.exp),
    nn.LogOp: _unary(torch.log, 0.1, 9),
    nn.SqrtOp: _unary(torch.sqrt, 0, 9),
    nn.ErfOp: _unary(torch.erf),
    nn.NegOp: _unary(torch.neg),
    nn.AbsOp: _unary(torch.abs),
    nn.ReciprocalOp: _unary(torch.reciprocal, 0.2, 5),
    nn.FloorOp: _unary(torch.floor),
    nn.CeilOp: _unary(torch.ceil),
    nn.CastOp: _cast,
    nn.AddOp: _binary(torch.add),
    nn.SubOp: _binary(torch.sub),
    nn.MulOp: _binary(torch.mul),
    nn.DivOp: _binary(_div, 0.5, 4),
    nn.PowOp: _binary(torch.pow, 0.2, 2),
    nn.MinOp: _binary(torch.minimum),
    nn.MaxOp: _binary(torch.maximum),
    nn.ConvOp: _conv,
    nn.MatmulOp: _matmul,
    nn.GemmOp: _gemm,
    nn.MaxPoolOp: _pool,
    nn.AvgPoolOp: _pool,
    nn.GlobalAvgPoolOp: _global_pool,
    nn.GlobalMaxPoolOp: _global_pool,
    nn.BatchNormOp: _batch_norm,
    nn.LrnOp: _lrn,
    nn.SoftmaxOp: _softmax,
    nn.LogSoftmaxOp: _softmax,
    nn.ReduceSumOp: _reduce(lambda x, axes, keepdims: x.sum(axes, keepdim=keepdims)),
    nn.ReduceMeanOp: _reduce(_mean),
    nn.ReduceProdOp: _reduce(_prod),
    nn.ReduceMaxOp: _reduce(lambda x, axes, keepdims: x.amax(axes, keepdim=keepdims)),
    nn.ReduceMinOp: _reduce(lambda x, axes, keepdims: x.amin(axes, keepdim=keepdims)),
    nn.ConcatOp: _concat,
    nn.PadOp: _pad,
    nn.SliceOp: _slice,
    nn.ResizeOp: _resize,
}
