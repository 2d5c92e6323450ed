"""Random small programs of the `nn` dialect, every layout still open, for checking passes by execution."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, PermuteOp, ReorderOp, ReshapeOp, with_format
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.nn.constant import literal

Shape = tuple[int, ...]


def plain(shape: Shape) -> Any:
    return with_format(TensorType(f32, list(shape)), Format.row_major(names_for(len(shape))))


def shape_of(value: SSAValue) -> Shape:
    return tensor_type(value.type).get_shape()


class ProgramMaker:
    """Grows a program op by op; every value may be used again, so there is fan-out."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        channels = self.rng.choice([3, 5, 8, 16, 17])
        self.input_shape: Shape = (self.rng.choice([1, 2]), channels, self.rng.choice([5, 8]), 6)
        self.function = FuncOp("main", FunctionType.from_lists([plain(self.input_shape)], []))
        self.builder = Builder(InsertPoint.at_end(self.function.body.block))
        self.values: list[SSAValue] = [self.function.args[0]]

    def add(self, op: Operation) -> SSAValue:
        self.builder.insert(op)
        return op.results[0]

    def constant(self, shape: Shape, scale: float = 0.5) -> SSAValue:
        return self.constant_of((self.numbers.standard_normal(shape) * scale).astype(np.float32))

    def constant_of(self, data: np.ndarray) -> SSAValue:
        type = TensorType(f32 if data.dtype == np.float32 else i64, list(data.shape))
        return self.add(nn.ConstantOp(literal(type, data.tobytes()), with_format(type, AnyAttr())))

    def step(self) -> None:
        x = self.rng.choice(self.values[-4:])
        shape = shape_of(x)
        kinds = ["relu", "exp", "sigmoid", "twice", "scaled", "permute_back"]
        if len(shape) == 4:
            kinds += ["conv"] * 4 + [
                "pool",
                "concat",
                "softmax",
                "mean",
                "norm",
                "group_norm",
                "squares",
                "where",
            ]
            kinds += ["gather", "tile", "cum_sum", "conv_transpose", "pooled"]
        made = getattr(self, self.rng.choice(kinds))(x, shape)
        if np.prod(shape_of(made)) <= 20000:
            self.values.append(made)

    def relu(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.ReluOp(x))

    def exp(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.ExpOp(self.add(nn.ClipOp(x, min=-2.0, max=1.0))))

    def twice(self, x: SSAValue, shape: Shape) -> SSAValue:
        alike = [value for value in self.values if shape_of(value) == shape]
        return self.add(nn.AddOp(x, self.rng.choice(alike)))

    def sigmoid(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.SigmoidOp(x))

    def scaled(self, x: SSAValue, shape: Shape) -> SSAValue:
        small = (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 1 else shape
        return self.add(nn.MulOp(x, self.constant(small)))

    def conv(self, x: SSAValue, shape: Shape) -> SSAValue:
        outputs, kernel = self.rng.choice([4, 8, 12, 16, 17]), self.rng.choice([1, 3])
        group = shape[1] if self.rng.random() < 0.2 else 1
        outputs = shape[1] if group > 1 else outputs
        weights = self.constant(
            (outputs, shape[1] // group, kernel, kernel), 1 / np.sqrt(kernel * kernel * shape[1])
        )
        operands = [x, weights] + ([self.constant((outputs,))] if self.rng.random() < 0.5 else [])
        return self.add(nn.ConvOp(*operands, pads=(kernel // 2,) * 4, group=group))

    def pool(self, x: SSAValue, shape: Shape) -> SSAValue:
        cls = self.rng.choice([nn.MaxPoolOp, nn.AvgPoolOp])
        return self.add(cls(x, kernel=(3, 3), pads=(1, 1, 1, 1)))

    def concat(self, x: SSAValue, shape: Shape) -> SSAValue:
        others = [v for v in self.values if len(shape_of(v)) == 4 and shape_of(v)[2:] == shape[2:]]
        others = [v for v in others if shape_of(v)[0] == shape[0]]
        return self.add(nn.ConcatOp(x, self.rng.choice(others or [x]), axis=1))

    def mean(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.SubOp(x, self.add(nn.ReduceMeanOp(x, axes=(1,)))))

    def softmax(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.SoftmaxOp(x, axis=1))

    def norm(self, x: SSAValue, shape: Shape) -> SSAValue:
        cls = self.rng.choice([nn.LayerNormOp, nn.RmsNormOp])
        axes = self.rng.choice([(1,), (3,), (2, 3), (1, 2, 3)])
        extents = [shape[d] if d in axes else 1 for d in range(axes[0], 4)]
        return self.add(cls(x, self.constant(tuple(extents)), axes=axes))

    def group_norm(self, x: SSAValue, shape: Shape) -> SSAValue:
        groups = self.rng.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
        return self.add(
            nn.GroupNormOp(x, self.constant(shape[1:2]), self.constant(shape[1:2]), groups=groups)
        )

    def squares(self, x: SSAValue, shape: Shape) -> SSAValue:
        cls = self.rng.choice([nn.ReduceL1Op, nn.ReduceL2Op, nn.ReduceSumSquareOp, nn.ReduceLogSumExpOp])
        sums = self.add(cls(x, axes=self.rng.choice([(1,), (2, 3)])))
        if cls is nn.ReduceLogSumExpOp:
            return self.add(nn.SubOp(x, sums))
        # A transposed convolution with strides leaves pixels of zeros, and a quotient of two of them is no number.
        least = self.constant_of(np.asarray(0.1 + abs(self.numbers.standard_normal()), np.float32))
        return self.add(nn.DivOp(x, self.add(nn.MaxOp(sums, least))))

    def where(self, x: SSAValue, shape: Shape) -> SSAValue:
        other = self.constant((shape[1], 1, 1))
        return self.add(nn.WhereOp(self.add(nn.LessOp(x, other)), other, x))

    def gather(self, x: SSAValue, shape: Shape) -> SSAValue:
        axis = self.rng.choice([1, 2])
        indices = self.constant_of(self.numbers.integers(0, shape[axis], shape[axis]))
        return self.add(nn.GatherOp(x, indices, axis=axis))

    def tile(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.TileOp(x, repeats=self.rng.choice([(1, 2, 1, 1), (1, 1, 1, 2)])))

    def cum_sum(self, x: SSAValue, shape: Shape) -> SSAValue:
        return self.add(nn.CumSumOp(x, axis=self.rng.choice([1, 3]), reverse=self.rng.random() < 0.5))

    def conv_transpose(self, x: SSAValue, shape: Shape) -> SSAValue:
        outputs, kernel, stride = (
            self.rng.choice([4, 8, 16, 17]),
            self.rng.choice([1, 3]),
            self.rng.choice([1, 2]),
        )
        w = self.constant((shape[1], outputs, kernel, kernel), 1 / np.sqrt(kernel * kernel * shape[1]))
        return self.add(nn.ConvTransposeOp(x, w, strides=(stride, stride), pads=(kernel // 2,) * 4))

    def pooled(self, x: SSAValue, shape: Shape) -> SSAValue:
        """Without the dims of space, which come back by a view."""
        cls = self.rng.choice([nn.ReduceMeanOp, nn.ReduceMaxOp])
        means = self.add(cls(x, axes=(2, 3), keepdims=False))
        back = self.add(ReshapeOp(self.add(nn.ReluOp(means)), (*shape[:2], 1, 1)))
        return self.add(nn.AddOp(x, back))

    def permute_back(self, x: SSAValue, shape: Shape) -> SSAValue:
        order = [0, *range(2, len(shape)), 1] if len(shape) > 2 else [0, 1][: len(shape)]
        moved = self.add(nn.ReluOp(self.add(PermuteOp(x, order))))
        return self.add(PermuteOp(moved, [order.index(d) for d in range(len(shape))]))

    def finish(self) -> ModuleOp:
        """Flattens the last value, multiplies it with weights, and returns it and one more value."""
        last, other = self.values[-1], self.rng.choice(self.values[1:] or self.values)
        shape = shape_of(last)
        flat = self.add(ReshapeOp(last, (shape[0], int(np.prod(shape[1:])))))
        product = self.add(nn.GemmOp(flat, self.constant((shape_of(flat)[1], 7), 0.1)))
        results = [
            self.add(ReorderOp(v, Format.row_major(names_for(len(shape_of(v)))))) for v in (product, other)
        ]
        self.builder.insert(ReturnOp(*results))
        self.function.update_function_type()
        return ModuleOp([self.function])


def random_program(seed: int, ops: int) -> tuple[ModuleOp, Shape]:
    """A program of about `ops` ops and the shape of its one input."""
    maker = ProgramMaker(seed)
    for _ in range(ops):
        maker.step()
    return maker.finish(), maker.input_shape
