"""Small networks of random ops, shapes and formats."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import format_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import narrow
from tests.backends.onednn.small_programs import Program, numbers

LAYOUTS = (None, "nchw", "nhwc", "nChw8c", "nChw16c", "(n, c, h, w) : [n, h, c, w]")
UNARY = (nn.ReluOp, nn.SigmoidOp, nn.TanhOp, nn.AbsOp, nn.SinOp, nn.HardSwishOp, nn.NegOp, nn.SoftsignOp,
         nn.ErfOp, nn.FloorOp)  # fmt: skip
BINARY = (nn.AddOp, nn.MulOp, nn.SubOp, nn.MaxOp, nn.MinOp)


FEW = ((2, 17, 5, 4), (1, 16, 6, 6))
"""Shapes of networks that are to be quick: reorders are compiled once for each shape and pair of formats."""


STEP = 0.125
"""What one step of the quantized convolution at the end of a network is."""


def random_network(
    seed: int, *, few: bool = False, dtype: str = "f32", quantized: bool = False
) -> tuple[ModuleOp, list[np.ndarray[Any, Any]]]:
    """A network of activations (N, C, H, W), each in a format of its own, and inputs for it; `few`: of few shapes.

    With `quantized` its one result is that of a quantized convolution, in u8."""
    draw = random.Random(seed)
    shape = (
        draw.randint(1, 3),
        draw.choice((1, 3, 8, 13, 16, 17, 32)),
        draw.randint(1, 9),
        draw.randint(1, 9),
    )
    shape = FEW[seed % len(FEW)] if few else shape
    program = Program(shape, shape, dtype=dtype)
    values = [program.argument(k, draw.choice(LAYOUTS)) for k in range(2)]
    for step in range(draw.randint(3, 9)):
        values.append(_step(program, values, draw, seed * 100 + step))
    returned = [values[-1], *draw.sample(values, draw.randint(0, 2))]
    if quantized:
        returned = [_quantized(program, values[-1], draw, seed)]
    inputs = [narrow(numbers(shape, seed + k), dtype) for k in range(2)]
    return program.module(*returned), inputs


def _quantized(program: Program, x: SSAValue, draw: random.Random, seed: int) -> SSAValue:
    """A convolution of quantized activations and weights, its result quantized."""
    channels = shape_of(x)[1]
    layout = draw.choice(("nchw", "nhwc"))
    zero = float(draw.choice((0, 77, 128)))
    # The activations of a network have no bounds of their own.
    x = program.add(nn.ClipOp, program.reordered(x, layout), format=layout, min=-2.0, max=2.0)
    outputs, dtype = draw.choice((2, 16, 19)), draw.choice(("ui8", "i8"))
    middle = zero if dtype == "ui8" else zero - 128
    q = program.converted(x, dtype, layout, scale=(1.0, 0.015625), zero_point=(0.0, middle))
    x = program.converted(q, "f32", layout, scale=(0.015625, 1.0), zero_point=(middle, 0.0))
    kernel = (draw.randint(1, 3), draw.randint(1, 3))
    w = numbers((outputs, channels, *kernel), seed, -127, 127).round()
    scales = [float(s) for s in numbers((outputs,), seed + 1, 0.0005, 0.001)]
    integers = program.converted(program.constant(w), "i8")
    sides: dict[str, Any] = {"scale": (scales, 1.0), "zero_point": (0.0, 0.0), "dim": 0}
    weights = (
        program.converted(integers, "f32", **sides)
        if draw.random() < 0.5
        else program.constant((w * np.array(scales, np.float32).reshape(-1, 1, 1, 1)).astype(np.float32))
    )
    y = program.add(nn.ConvOp, x, weights, format=layout, pads=(2, 2, 2, 2))
    if draw.random() < 0.5:
        y = program.add(nn.ReluOp, y, format=layout)
    return program.converted(y, "ui8", layout, scale=(1.0, STEP), zero_point=(0.0, zero))


def _step(program: Program, values: list[SSAValue], draw: random.Random, seed: int) -> SSAValue:
    x = draw.choice(values[-3:])
    shape = shape_of(x)
    layout = _layout(x)
    kind = draw.choice(
        ("conv", "conv", "depthwise", "grouped", "unary", "unary", "binary", "binary", "channels", "pool", "concat",
         "norm", "softmax", "reduce", "reorder", "slice", "transposed", "mean", "slopes", "power", "product",
         "groups", "layer", "gather", "pad")
    )  # fmt: skip
    match kind:
        case "conv" | "depthwise" | "grouped":
            return _convolution(program, x, draw, seed, kind)
        case "unary":
            return program.add(draw.choice(UNARY), x, format=layout)
        case "binary":
            same = [value for value in values if shape_of(value) == shape]
            other = (
                program.reordered(draw.choice(same), layout) if layout else _plain(program, draw.choice(same))
            )
            return program.add(draw.choice(BINARY), x, other, format=layout)
        case "channels":
            extents: list[tuple[int, ...]] = [(shape[1], 1, 1), (1,), (1, shape[1], 1, 1), (shape[3],)]
            return program.add(
                draw.choice(BINARY), x, program.constant(numbers(draw.choice(extents), seed)), format=layout
            )
        case "pool":
            kernel = (draw.randint(1, min(3, shape[2])), draw.randint(1, min(3, shape[3])))
            op = draw.choice((nn.MaxPoolOp, nn.AvgPoolOp))
            strides = (draw.randint(1, 2), draw.randint(1, 2))
            return program.add(
                op, x, kernel=kernel, strides=strides, format=layout, ceil_mode=draw.random() < 0.3
            )
        case "concat":
            same = [value for value in values if shape_of(value) == shape]
            plain = [_plain(program, value) for value in (x, draw.choice(same))]
            return program.add(nn.ConcatOp, *plain, axis=draw.randint(0, 3))
        case "norm":
            parameters = [program.constant(numbers((shape[1],), seed + k, 0.5, 1.5)) for k in range(4)]
            return program.add(nn.BatchNormOp, x, *parameters, format=layout)
        case "softmax":
            return program.add(nn.SoftmaxOp, _plain(program, x), axis=draw.randint(0, 3))
        case "reduce":
            op = draw.choice((nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMeanOp, nn.ReduceL2Op))
            axes = tuple(sorted(draw.sample(range(4), draw.randint(1, 2))))
            return program.add(op, _plain(program, x), axes=axes)
        case "slice":
            starts = tuple(draw.randint(0, extent - 1) for extent in shape)
            sizes = tuple(draw.randint(1, e - s) for e, s in zip(shape, starts, strict=True))
            return program.add(nn.SliceOp, _plain(program, x), starts=starts, sizes=sizes)
        case "transposed":
            w = program.constant(numbers((shape[1], 4, 2, 2), seed, -0.3, 0.3))
            return program.add(nn.ConvTransposeOp, _plain(program, x), w, strides=(2, 1))
        case "slopes":
            slopes = program.constant(numbers(draw.choice(((shape[1], 1, 1), (1,))), seed))
            return program.add(nn.PReluOp, x, slopes, format=layout)
        case "power":
            exponent = np.array([draw.choice((2.0, 3.0, 0.0))], np.float32)
            small = program.add(nn.TanhOp, x, format=layout)
            return program.add(nn.PowOp, small, program.constant(exponent), format=layout)
        case "product":
            right = program.constant(numbers((shape[3], shape[3]), seed, -0.3, 0.3))
            return program.add(nn.MatmulOp, _plain(program, x), right)
        case "groups":
            parameters = [program.constant(numbers((shape[1],), seed + k, 0.5, 1.5)) for k in range(2)]
            groups = draw.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
            return program.add(nn.GroupNormOp, x, *parameters, format=layout, groups=groups, epsilon=0.1)
        case "layer":
            axes = tuple(sorted(draw.sample(range(4), draw.randint(1, 3))))
            parameters = [program.constant(numbers((1,), seed + k, 0.5, 1.5)) for k in range(2)]
            return program.add(nn.LayerNormOp, x, *parameters, format=layout, axes=axes, epsilon=0.1)
        case "gather":
            axis = draw.randint(0, 3)
            chosen = program.indices([draw.randint(-shape[axis], shape[axis] - 1) for _ in range(3)])
            return program.add(nn.GatherOp, x, chosen, format=layout, axis=axis)
        case "pad":
            pads = tuple(draw.randint(0, extent - 1) % 3 for extent in (*shape, *shape))
            mode = draw.choice(("constant", "reflect", "edge", "wrap"))
            return program.add(nn.PadOp, x, format=layout, pads=pads, mode=mode)
        case "mean":
            return program.add(nn.GlobalAvgPoolOp, x, format=layout)
        case _:
            return program.reordered(x, draw.choice(LAYOUTS[1:]))


def _convolution(program: Program, x: SSAValue, draw: random.Random, seed: int, kind: str) -> SSAValue:
    found = format_of(x.type)
    if found is not None and found.bind(shape_of(x)).is_padded:
        x = program.reordered(x, str(found.with_pad("zero")))
    _, channels, height, width = shape_of(x)
    group = channels if kind == "depthwise" else 2 if kind == "grouped" and channels % 2 == 0 else 1
    outputs = channels if kind == "depthwise" else draw.choice((2, 6, 16, 24))
    kernel = (draw.randint(1, min(3, height)), draw.randint(1, min(3, width)))
    scale = (channels // group * kernel[0] * kernel[1]) ** -0.5
    w = program.constant(numbers((outputs, channels // group, *kernel), seed, -scale, scale))
    more = [program.constant(numbers((outputs,), seed + 1))] if draw.random() < 0.5 else []
    pads = tuple(draw.randint(0, k - 1) for k in (*kernel, *kernel))
    layout = draw.choice((_layout(x), "nhwc", None))
    attributes: dict[str, Any] = {
        "group": group,
        "pads": pads,
        "strides": (draw.randint(1, 2), draw.randint(1, 2)),
    }
    return program.add(nn.ConvOp, x, w, *more, format=layout, **attributes)


def _layout(value: SSAValue) -> str | None:
    """The format of a value, in whose pads nothing is promised."""
    found = format_of(value.type)
    return None if found is None else str(found.with_pad("undef"))


def _plain(program: Program, value: SSAValue) -> SSAValue:
    return program.reordered(value, "nchw")
