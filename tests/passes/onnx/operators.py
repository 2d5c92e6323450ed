"""One small model per operator and way to use it, on tensors whose extents all differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
from numpy.typing import NDArray


@dataclass(frozen=True)
class Case:
    """An operator with attributes, its tensors of the run time (by shape), and constants behind them.

    `inputs` has a shape for a tensor of the run time, an array for a constant, None for one that is left out.
    """

    op_type: str
    inputs: Sequence[tuple[int, ...] | NDArray[Any] | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 18
    outputs: int = 1
    dtype: str = "float32"
    domain: str = ""
    label: str = ""

    @property
    def title(self) -> str:
        """How tests name it."""
        return f"{self.domain}{self.op_type}{self.opset}{self.label}"

    def model(self, orders: dict[int, tuple[int, ...]], out_order: int | None) -> onnx.ModelProto:
        """The operator behind a Transpose per input of the run time in `orders`, which give it the shapes it has.

        Each result is transposed by the permutation number `out_order` of its rank, if it is not None.
        """
        nodes: list[onnx.NodeProto] = []
        values: list[onnx.ValueInfoProto] = []
        constants: list[onnx.TensorProto] = []
        names: list[str] = []
        kind = oh.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        for number, given in enumerate(self.inputs):
            if given is None:
                names.append("")
            elif isinstance(given, np.ndarray):
                constants.append(onnx.numpy_helper.from_array(given, f"c{number}"))
                names.append(f"c{number}")
            else:
                order = orders.get(number, tuple(range(len(given))))
                values.append(oh.make_tensor_value_info(f"x{number}", kind, [given[d] for d in order]))
                back = [order.index(d) for d in range(len(given))]
                nodes.append(oh.make_node("Transpose", [f"x{number}"], [f"t{number}"], perm=back))
                names.append(f"t{number}")
        results = [f"y{k}" for k in range(self.outputs)]
        nodes.append(
            oh.make_node(self.op_type, names, results, name="op", domain=self.domain, **self.attributes)
        )
        plain = oh.make_model(
            oh.make_graph(
                nodes, "case", values, [oh.make_empty_tensor_value_info(name) for name in results], constants
            ),
            opset_imports=[oh.make_opsetid("", self.opset), oh.make_opsetid("com.microsoft", 1)],
            ir_version=9,
        )
        inferred = onnx.shape_inference.infer_shapes(plain, data_prop=True)
        outputs: list[onnx.ValueInfoProto] = []
        for value in inferred.graph.output:
            if not value.type.tensor_type.HasField("shape"):
                # No inference is known for these functions, which keep the type.
                first = self.inputs[0]
                assert isinstance(first, tuple)
                value.type.CopyFrom(oh.make_tensor_type_proto(kind, first))
            rank = len(value.type.tensor_type.shape.dim)
            perms = list(permutations(range(rank)))
            if out_order is None or rank < 2:
                outputs.append(value)
                continue
            perm = perms[out_order % len(perms)]
            nodes.append(oh.make_node("Transpose", [value.name], [f"{value.name}_t"], perm=perm))
            shown = onnx.ValueInfoProto()
            shown.CopyFrom(value)
            shown.name = f"{value.name}_t"
            dims = [value.type.tensor_type.shape.dim[d].dim_value for d in perm]
            del shown.type.tensor_type.shape.dim[:]
            for extent in dims:
                shown.type.tensor_type.shape.dim.add().dim_value = extent
            outputs.append(shown)
        del plain.graph.node[:], plain.graph.output[:]
        plain.graph.node.extend(nodes)
        plain.graph.output.extend(outputs)
        return plain

    def feeds(self, model: onnx.ModelProto, seed: int) -> dict[str, NDArray[Any]]:
        """Random inputs of a model of this case."""
        random = np.random.default_rng(seed)
        result: dict[str, NDArray[Any]] = {}
        for value in model.graph.input:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if np.dtype(self.dtype).kind == "f":
                result[value.name] = random.standard_normal(shape).astype(self.dtype)
            else:
                result[value.name] = random.integers(0, 5, shape).astype(self.dtype)
        return result


def _floats(*shape: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> NDArray[Any]:
    return np.array(values, np.int64)


_ALIGNED = {"coordinate_transformation_mode": "align_corners"}
_PER_CHANNEL = np.array([0.1, 0.2, 0.3], np.float32), np.array([7, 1, 5], np.uint8)

X = (2, 3, 4, 5)
"""A tensor with four extents of its own."""

CASES = [
    *(Case(op, [X]) for op in ("Relu", "Sigmoid", "Erf", "LeakyRelu", "HardSwish", "Softplus", "Identity", "Neg")),
    Case("Gelu", [X], opset=20),
    Case("Clip", [X, np.array(-0.5, np.float32), np.array(0.5, np.float32)]),
    Case("Add", [X, X]),
    Case("Add", [X, (4, 5)], label="lower"),
    Case("Mul", [X, (5,)], label="vector"),
    Case("Mul", [X, (1, 3, 1, 1)], label="channels"),
    Case("Sub", [X, _floats(3, 1, 1)], label="constant"),
    Case("Sub", [_floats(5), X], label="constant_left"),
    Case("Div", [(3, 1, 5), X], label="lower_left"),
    Case("Max", [X, (4, 1), _floats(3, 1, 1)]),
    Case("PRelu", [X, _floats(3, 1, 1)]),
    Case("Where", [_floats(4, 1) > 0, X, (3, 4, 5)]),
    Case("Cast", [X], {"to": onnx.TensorProto.FLOAT16}),
    Case("Concat", [X, (2, 6, 4, 5)], {"axis": 1}),
    Case("Concat", [X, X, X], {"axis": -1}, label="last"),
    Case("Split", [X, _ints(1, 3)], {"axis": 2}, outputs=2),
    Case("Split", [(2, 3, 4, 6)], {"axis": -1, "num_outputs": 3}, outputs=3, label="even"),
    Case("Split", [(2, 3, 4, 6)], {"axis": 1, "split": [2, 1]}, outputs=2, opset=11, label="attribute"),
    Case("Slice", [X, _ints(1), _ints(3), _ints(2)]),
    Case("Slice", [X, _ints(1, 0), _ints(2, 2)], label="no_axes"),
    Case("Slice", [X, _ints(-1), _ints(-9), _ints(-1), _ints(-1)], label="backwards"),
    Case("Slice", [X], {"starts": [1], "ends": [3], "axes": [3]}, opset=9, label="attributes"),
    Case("Pad", [X, _ints(0, 1, 2, 0, 0, 0, 1, 3)]),
    Case("Pad", [X, _ints(1, 2), np.array(3, np.float32), _ints(-2)], label="axes"),
    Case("Pad", [X, _ints(0, 0, 1, 2, 0, 0, 1, 2)], {"mode": "reflect"}, label="reflect"),
    Case("Pad", [X], {"pads": [0, 1, 0, 2, 0, 0, 3, 0]}, opset=10, label="attribute"),
    Case("Tile", [X, _ints(1, 2, 1, 3)]),
    Case("Expand", [(2, 1, 4, 1), _ints(2, 3, 4, 5)]),
    Case("Expand", [(4, 1), _ints(2, 3, 4, 5)], label="of_fewer_dims"),
    Case("Expand", [np.array(3, np.float32), _ints(2, 3, 4)], label="of_a_scalar"),
    Case("ReduceMean", [X, _ints(1, -1)]),
    Case("ReduceMean", [X, _ints(1, -1)], {"keepdims": 0}, label="drop"),
    Case("ReduceMax", [X], {"axes": [2]}, opset=13, label="attribute"),
    Case("ReduceSum", [X, _ints(2)], {"keepdims": 0}),
    Case("ReduceL2", [X, _ints(1)]),
    Case("ReduceLogSumExp", [X], {"axes": [0, 3], "keepdims": 0}, opset=13),
    Case("ReduceSum", [X], label="all"),
    Case("ArgMax", [X], {"axis": 1}),
    Case("ArgMin", [X], {"axis": -2, "keepdims": 0}, label="drop"),
    Case("Softmax", [X], {"axis": 1}),
    Case("Softmax", [X], {"axis": 2}, opset=11, label="old"),
    Case("LogSoftmax", [X]),
    Case("CumSum", [X, np.array(2, np.int64)], {"reverse": 1}),
    Case("TopK", [X, _ints(2)], {"axis": 1}, outputs=2),
    Case("GatherElements", [X, np.array([[[[0, 1], [2, 0]]]]).repeat(2, 0)], {"axis": 1}),
    Case("Gather", [X, _ints(2, 0, 1, 2)], {"axis": 1}),
    Case("Gather", [X, np.array(1)], {"axis": 2}, label="scalar"),
    Case("Gather", [X, np.array([[0, 1, 3], [2, 2, 1]])], {"axis": 2}, label="matrix"),
    Case("BatchNormalization", [X, *(abs(_floats(3, seed=k)) for k in range(4))]),
    Case("InstanceNormalization", [X, _floats(3), _floats(3, seed=1)]),
    Case("GroupNormalization", [(2, 6, 4, 5), _floats(6), _floats(6, seed=1)], {"num_groups": 3}, opset=21),
    Case("LayerNormalization", [X, _floats(5), _floats(5, seed=1)]),
    Case("LayerNormalization", [X, _floats(4, 5), _floats(4, 5, seed=1)], {"axis": 2}, label="two"),
    Case("LRN", [X], {"size": 3}),
    Case("LpNormalization", [X], {"axis": 1}),
    Case("GlobalAveragePool", [X]),
    Case("GlobalMaxPool", [X]),
    Case("MaxPool", [(2, 3, 7, 9)], {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 1, 1]}),
    Case("AveragePool", [(2, 3, 7, 9)], {"kernel_shape": [3, 2], "ceil_mode": 1}),
    Case("Conv", [(2, 3, 7, 9), _floats(6, 3, 3, 2)], {"strides": [2, 1], "pads": [0, 1, 1, 0], "dilations": [1, 2]}),
    Case("Conv", [(2, 4, 7, 9), (6, 2, 3, 2), _floats(6)], {"group": 2}, label="group"),
    Case("Conv", [(2, 3, 7), _floats(6, 3, 3)], label="1d"),
    Case("ConvTranspose", [(2, 3, 4, 5), _floats(3, 2, 3, 2)], {"strides": [2, 1], "output_padding": [1, 0]}),
    Case("Resize", [X, None, np.array([1, 1, 2, 3], np.float32)], {"mode": "nearest"}),
    Case("Resize", [X, None, np.array([1, 1, 2, 3], np.float32)], {"mode": "linear"}, label="linear"),
    Case("Resize", [X, None, None, _ints(2, 3, 9, 7)], {"mode": "linear", **_ALIGNED}, label="sizes"),
    Case("Resize", [X, None, None, _ints(9, 7)], {"mode": "linear", "axes": [2, 3]}, label="axes"),
    Case("Resize", [X, None, np.array([1, 1, 2, 2], np.float32)], {"mode": "cubic"}, label="cubic"),
    Case("Upsample", [X, np.array([1, 1, 2, 2], np.float32)], opset=9),
    Case("MatMul", [X, (2, 3, 5, 6)]),
    Case("MatMul", [X, _floats(5, 6)], label="matrix"),
    Case("MatMul", [(4, 5), (2, 3, 5, 6)], label="left_matrix"),
    Case("MatMul", [(2, 3, 4, 5), (3, 5, 6)], label="fewer"),
    Case("MatMul", [(4, 5), (5, 6)], label="plain"),
    Case("MatMul", [(1, 1, 4, 5), (1, 5, 6)], label="stacks_of_one"),
    Case("MatMul", [(4, 5), (1, 5, 6)], opset=12, label="stack_of_one"),
    Case("Gemm", [(4, 5), (5, 6), _floats(6)], {"alpha": 0.5}),
    Case("Gemm", [(5, 4), (6, 5), (4, 6)], {"transA": 1, "transB": 1, "beta": 2.0}, label="transposed"),
    Case("Gemm", [(4, 5), _floats(6, 5)], {"transB": 1}, label="no_addend"),
    Case("Einsum", [(2, 3, 4), (2, 4, 5)], {"equation": "bij,bjk->bik"}),
    Case("Einsum", [(2, 3, 4, 5), (2, 6, 4, 5)], {"equation": "bqhd,bkhd->bhqk"}, label="attention"),
    Case("Reshape", [X, _ints(2, 3, 20)]),
    Case("Reshape", [X, _ints(0, -1, 5)], label="joined"),
    Case("Reshape", [(2, 12, 5), _ints(2, 3, 4, 5)], label="split"),
    Case("Reshape", [X, _ints(6, 20)], label="matrix"),
    Case("Flatten", [X]),
    Case("Flatten", [(2, 3, 1, 1)], label="units"),
    Case("Squeeze", [(2, 1, 4, 1), _ints(1)]),
    Case("Squeeze", [(2, 1, 4, 5)], {"axes": [1]}, opset=11, label="attribute"),
    Case("Unsqueeze", [(2, 3, 4), _ints(1)]),
    Case("Unsqueeze", [(2, 3, 4), _ints(0, -1)], label="ends"),
    Case("Trilu", [X]),
    Case("Trilu", [X, np.array(1)], {"upper": 0}, label="lower"),
    Case("Trilu", [X, np.array(-2)], label="diagonal"),
    Case("Trilu", [X], {"upper": 0}, domain="com.microsoft"),
    Case("Shape", [X]),
    Case("Shape", [X], {"start": 1}, label="end"),
    Case("Shape", [X], {"start": -3, "end": 3}, label="middle"),
    Case("Shape", [X], {"start": 2, "end": 1}, label="nothing"),
    Case("Size", [X]),
    Case("QuantizeLinear", [X, np.array(0.1, np.float32), np.array(7, np.uint8)]),
    Case("QuantizeLinear", [X, *_PER_CHANNEL], {"axis": 1}, label="channels"),
    Case("DequantizeLinear", [X, *_PER_CHANNEL], {"axis": 1}, dtype="uint8"),
    Case("DynamicQuantizeLinear", [X], outputs=3),
    Case("Dropout", [X]),
    Case("ScatterElements", [X, np.array([[[[0, 1], [2, 0]]]]).repeat(2, 0), _floats(2, 1, 2, 2)], {"axis": 1}),
    Case("DepthToSpace", [(2, 8, 3, 5)], {"blocksize": 2}),
    Case("NonZero", [X]),
    Case("LSTM", [(3, 2, 4), _floats(1, 20, 4), _floats(1, 20, 5)], {"hidden_size": 5}, outputs=2),
]  # fmt: skip
