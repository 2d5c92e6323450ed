"""Operators in place of those of the onnx package that refuse what the standard allows, differ from it, or are slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from layout_ir.backends.reference.dequantization import dequantized
from layout_ir.backends.reference.fourier import short_time_transform
from layout_ir.backends.reference.grid_sample import grid_sample
from layout_ir.backends.reference.node_steps import node_steps, walk
from layout_ir.backends.reference.non_max_suppression import Selection, selected_boxes
from layout_ir.backends.reference.recurrent import Operands, Options, on_levels, recurrent
from layout_ir.backends.reference.roi_align import pooled_regions
from layout_ir.backends.reference.runtime_operators import runtime_operators
from layout_ir.backends.reference.top_k import top_k
from layout_ir.backends.reference.window_ops import Window, col2im, max_pool_with_indices
from layout_ir.dialects.nn.depthwise_products import DEPTHWISE_INTEGER_CONV, DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_lstm import INTEGER_LSTM, IntegerLstm
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV, PackedIntegerConv
from layout_ir.dialects.nn.opaque import domain_and_operator
from layout_ir.dialects.nn.regions import CHANNELS_LAST_REGIONS, Regions
from layout_ir.dialects.nn.windows import resolved_pads, window_shape
from layout_ir.elements.elementwise_formulas import erf
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.indexed_arrays import (
    gathered_elements,
    gathered_nd,
    scattered_elements,
    scattered_nd,
)

RowType = tuple[Any, tuple[int, ...]]
"""The element type and shape of what a subgraph gives in a trip, as far as it is stated."""


def _row_types(body: Any) -> list[RowType]:
    """The types of the outputs of a subgraph, an evaluator of the package: f32 and 0 for what it does not say."""
    import onnx.helper

    found: list[RowType] = []
    for type in body.output_types:
        tensor = type.tensor_type
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else np.float32
        found.append((kind, tuple(dim.dim_value for dim in tensor.shape.dim)))
    return found


def _stacked(rows: Sequence[Array], type: RowType) -> Array:
    """The rows behind each other, which are of this type where there are none."""
    return np.array(rows) if rows else np.zeros((0, *type[1]), type[0])


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _log_softmax(x: Array) -> Array:
    lowered = x - x.max(axis=-1, keepdims=True)
    return lowered - np.log(np.exp(lowered).sum(axis=-1, keepdims=True))


def _hardmax(x: Array) -> Array:
    found = np.zeros_like(x)
    np.put_along_axis(found, np.expand_dims(np.argmax(x, axis=-1), -1), 1, axis=-1)
    return found


Trip = Callable[[Mapping[str, Any]], "Sequence[Any] | None"]
"""Computes the outputs of the body of a Loop from the values around it and those of a trip, by name; None where the
nodes of the body are to be evaluated."""

_OF_ROWS = {"Softmax": _softmax, "LogSoftmax": _log_softmax, "Hardmax": _hardmax}
"""What the operator of a name computes of each row."""


@dataclass(frozen=True)
class NodeKernels:
    """What computes some operators: NumPy, or compiled code of the same arguments and results."""

    selection: Selection | None = None
    """That of `selected_boxes`, where it is not its own."""
    pooled_regions: Callable[[Array, Array, Array, Regions], Array] = pooled_regions
    product: Callable[[Array, Array], Array] = np.matmul
    """Of matrices, as NumPy broadcasts them."""
    trips: Mapping[tuple[str, ...], Trip] = field(default_factory=dict[tuple[str, ...], Trip])
    """By the names of the outputs of a Loop, what computes its body."""


def own_operators(kernels: NodeKernels = NodeKernels()) -> list[Any]:
    """A class of the onnx package, which is imported here, for each such operator in all its versions."""
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops import op_loop
    from onnx.reference.ops.aionnxml import op_svm_classifier

    package_loop: Any = op_loop.Loop
    package_classifier: Any = op_svm_classifier.SVMClassifier

    class Col2Im(OpRun):
        """At once, and not element by element."""

        op_domain = ""

        def _run(
            self,
            columns: Array,
            extents: Array,
            block: Array,
            dilations: Sequence[int] | None = None,
            pads: Sequence[int] | None = None,
            strides: Sequence[int] | None = None,
        ) -> tuple[Array]:
            kernel = tuple(map(int, block))
            ones = (1,) * len(kernel)
            window = Window(
                kernel, tuple(strides or ones), tuple(pads or (0, 0) * len(kernel)), tuple(dilations or ones)
            )
            return (col2im(columns, tuple(map(int, extents)), window),)

    class DequantizeLinear(OpRun):
        """In all versions."""

        op_domain = ""

        def _run(
            self,
            x: Array,
            scale: Array,
            zero_point: Array | None = None,
            axis: int | None = None,
            block_size: int | None = None,
            output_dtype: int | None = None,
        ) -> tuple[Array]:
            import onnx.helper

            dtype = onnx.helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else None
            return (dequantized(x, scale, zero_point, 1 if axis is None else axis, block_size or 0, dtype),)

    class Erf(OpRun):
        """By one function of the C library per element: what the package calls NumPy for takes twice as long."""

        op_domain = ""

        def _run(self, x: Array) -> tuple[Array]:
            return (erf(np, x),)

    class Gather(OpRun):
        """By indices that lie anywhere, also by none: 1.22 of the package fails, or gives another shape."""

        op_domain = ""

        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (np.take(data, indices, axis=axis),)

    class GatherElements(OpRun):
        """Along dims of any extent (up to 1.23 of the package no more than 64), of indices that are fewer elsewhere."""

        op_domain = ""

        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (gathered_elements(data, indices, axis),)

    class GatherND(OpRun):
        op_domain = ""

        def _run(self, data: Array, indices: Array, batch_dims: int = 0) -> tuple[Array]:
            return (gathered_nd(data, indices, batch_dims),)

    class Loop(package_loop):
        """With a condition that is left out, which is true, and with scan outputs of any rank behind each other: those
        of the package (1.23) are right for vectors alone. What it does around the nodes of a trip takes longer than
        they do."""

        op_domain = ""

        def _run(
            self, trips: Array | None = None, condition: Array | None = None, *carried: Array, **options: Any
        ) -> Any:
            loop: Any = self
            counter, continues, *names = cast("list[str]", loop.body.input_names)
            values: dict[str, Any] = {
                **(options.get("context") or {}),
                **dict(zip(names, carried, strict=True)),
            }
            going = condition is None or bool(np.asarray(condition).item())
            scanned: list[list[Array]] = [[] for _ in loop.body.output_names[1 + len(names) :]]
            trip = 0
            run: Callable[[dict[str, Any]], list[Array]] = partial(
                loop._run_body, attributes=options.get("attributes")
            )
            if not any(node.has_linked_attribute for node in loop.body.rt_nodes_):
                run = partial(walk, node_steps(loop.body), loop.body.output_names)
                values |= loop.body.rt_inits_
            outputs = tuple(cast("Sequence[str]", loop.onnx_node.output))
            compiled = kernels.trips.get(outputs, lambda values: None)
            while going and (trips is None or trip < int(np.asarray(trips).item())):
                values |= {counter: np.array(trip, np.int64), continues: np.array(going)}
                found = compiled(values)
                if found is None:
                    found = run(values)
                going = bool(np.asarray(found[0]).item())
                values |= zip(names, found[1:], strict=False)
                for rows, row in zip(scanned, found[1 + len(names) :], strict=True):
                    rows.append(row)
                trip += 1
            types = _row_types(loop.body)[1 + len(names) :]
            stacked = [_stacked(rows, type) for rows, type in zip(scanned, types, strict=True)]
            return (*(values[name] for name in names), *stacked)

    class MatMul(OpRun):
        op_domain = ""

        def _run(self, a: Array, b: Array) -> tuple[Array]:
            return (kernels.product(a, b),)

    class MaxPool(OpRun):
        """With indices: for windows with strides of 1, those of the onnx package (1.23) are others, or it fails."""

        op_domain = ""

        def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
            extents, kernel = x.shape[2:], tuple(attributes["kernel_shape"])
            ones = (1,) * len(kernel)
            strides, dilations = (tuple(attributes.get(name) or ones) for name in ("strides", "dilations"))
            given = tuple(attributes.get("pads") or ())
            pads = resolved_pads(attributes.get("auto_pad"), given, extents, kernel, strides, dilations)
            counts = window_shape(
                extents, kernel, strides=strides, pads=pads, dilations=dilations,
                ceil_mode=bool(attributes.get("ceil_mode")),
            )  # fmt: skip
            window = Window(kernel, strides, pads, dilations)
            results = max_pool_with_indices(
                x, window, counts, column_major=bool(attributes.get("storage_order"))
            )
            return results[: len(self.onnx_node.output)]

    class NonMaxSuppression(OpRun):
        """All that overlap a box at once, and with inputs that are left out."""

        op_domain = ""

        def _run(
            self,
            boxes: Array,
            scores: Array,
            most: Array | None = None,
            overlap: Array | None = None,
            least: Array | None = None,
            center_point_box: int | None = None,
        ) -> tuple[Array]:
            def number(given: Array | None, default: float | None) -> float | None:
                return default if given is None or not given.size else float(given.reshape(-1)[0])

            count, ratio = number(most, 0), number(overlap, 0.0)
            assert count is not None and ratio is not None
            found = selected_boxes(
                boxes,
                scores,
                int(count),
                ratio,
                number(least, None),
                by_centers=bool(center_point_box),
                selection=kernels.selection,
            )
            return (found,)

    class OneHot(OpRun):
        """To a depth that is a vector of one element, too, and of indices that are outside, which no place is for."""

        op_domain = ""

        def _run(self, indices: Array, depth: Array, values: Array, axis: int = -1) -> tuple[Array]:
            count = int(depth.reshape(()))
            asked = np.expand_dims(indices.astype(np.int64), axis)
            places = np.arange(count).reshape(-1, *(1,) * (asked.ndim - 1 - axis % asked.ndim))
            is_there: Array = np.where(asked < 0, asked + count, asked) == places
            return (np.asarray(np.where(is_there, values[1], values[0]), values.dtype),)

    class Optional(OpRun):
        """What it is given, or None: the package makes a list of it, which has an element though it holds nothing."""

        op_domain = ""

        def _run(self, x: Any = None, type: Any = None) -> tuple[Any]:
            return (x,)

        def _check_and_fix_outputs(self, res: tuple[Any, ...]) -> tuple[Any, ...]:
            return res  # None is no value to the package

    class RoiAlign(OpRun):
        """In all versions, where the package computes one result after the other in Python."""

        op_domain = ""

        def _run(self, x: Array, regions: Array, batches: Array, **attributes: Any) -> tuple[Array]:
            node: Any = self
            version = node.run_params["opsets"].get("", 16)
            return (kernels.pooled_regions(x, regions, batches, Regions.of_node(attributes.get, version)),)

    class RoiAlignOfChannelsLast(RoiAlign):
        """Of x (N, H, W, C): what the executor makes of a RoiAlign."""

        def _run(self, x: Array, regions: Array, batches: Array, **attributes: Any) -> tuple[Array]:
            return super()._run(np.moveaxis(x, -1, 1), regions, batches, **attributes)

    class IntegerConvOfPackedWeights(OpRun):
        """What the executor makes of convolutions and products of integers."""

        def _run(self, x: Array, weights: Array, *columns: Array, **attributes: Any) -> tuple[Array]:
            return (PackedIntegerConv.of_node(attributes.get)(x, weights, *columns),)

    class DepthwiseConvOfIntegers(OpRun):
        """What the executor makes of depthwise convolutions of integers."""

        def _run(
            self, x: Array, zero_point: Array, weights: Array, *columns: Array, **attributes: Any
        ) -> tuple[Array]:
            return (DepthwiseIntegerConv.of_node(attributes.get)(x, zero_point, weights, *columns),)

    class Scan(OpRun):
        """Along any axes, in both directions, also over nothing: those of the package (1.23) have one of each."""

        op_domain = ""

        def __init__(self, onnx_node: Any, run_params: Any) -> None:
            super().__init__(onnx_node, run_params)
            for name in ("input_direction", "output_direction"):
                given = getattr(self, f"scan_{name}s", None) or ()
                if any(side not in (0, 1) for side in given):
                    raise ValueError(f"an {name} of a Scan is 0 or 1, not {list(given)}")

        def need_context(self) -> bool:
            return True

        def _run(self, *given: Array, num_scan_inputs: int, **options: Any) -> Any:
            body: Any = cast("Any", self).body
            rest = len(given) - num_scan_inputs
            results = len(body.output_names) - rest

            def per_value(name: str, count: int) -> list[int]:
                return list(options.get(name) or [0] * count)

            slices: list[Array] = []
            sides = (
                per_value("scan_input_axes", num_scan_inputs),
                per_value("scan_input_directions", num_scan_inputs),
            )
            for value, axis, backwards in zip(given[rest:], *sides, strict=True):
                rows = np.moveaxis(value, axis, 0)
                slices.append(rows[::-1] if backwards else rows)
            states, scanned = list(given[:rest]), [list[Array]() for _ in range(results)]
            for rows in zip(*slices, strict=True):
                values: dict[str, Any] = {
                    **(options.get("context") or {}),
                    **dict(zip(body.input_names, (*states, *rows), strict=True)),
                }
                found: list[Array] = cast("Any", self)._run_body(values)
                states = found[:rest]
                for made, row in zip(scanned, found[rest:], strict=True):
                    made.append(row)
            whole: list[Array] = []
            sides = per_value("scan_output_axes", results), per_value("scan_output_directions", results)
            for rows, type, axis, backwards in zip(scanned, _row_types(body)[rest:], *sides, strict=True):
                array = _stacked(rows[::-1] if backwards else rows, type)
                whole.append(np.moveaxis(array, 0, axis))
            return (*states, *whole)

    class ScatterElements(OpRun):
        op_domain = ""

        def _run(
            self, data: Array, indices: Array, updates: Array, axis: int = 0, reduction: str | None = None
        ) -> tuple[Array]:
            return (scattered_elements(data, indices, updates, axis, reduction or "none"),)

    class ScatterND(OpRun):
        op_domain = ""

        def _run(
            self, data: Array, indices: Array, updates: Array, reduction: str | None = None
        ) -> tuple[Array]:
            return (scattered_nd(data, indices, updates, reduction or "none"),)

    class GridSample(OpRun):
        """In all versions: before opset 20, modes have other names."""

        op_domain = ""

        def _run(
            self,
            x: Array,
            grid: Array,
            mode: str | None = None,
            padding_mode: str | None = None,
            align_corners: int | None = None,
        ) -> tuple[Array]:
            made = grid_sample(x, grid, mode or "linear", padding_mode or "zeros", bool(align_corners))
            return (made,)

    class STFT(OpRun):
        op_domain = ""

        def _run(
            self,
            signal: Array,
            step: Array,
            window: Array | None = None,
            length: Array | None = None,
            onesided: int | None = None,
        ) -> tuple[Array]:
            if length is None and window is None:
                raise LayoutError("an STFT has a window or the length of its frames")
            count = int(np.asarray(length).item()) if length is not None else np.asarray(window).size
            step_size = int(np.asarray(step).item())
            return (short_time_transform(signal, step_size, window, count, onesided != 0),)

    class SVMClassifier(package_classifier):
        """Without probabilities of three classes and more: 1.23 of the package couples those of pairs wrongly."""

        op_domain = "ai.onnx.ml"

        def _run(self, x: Array, **attributes: Any) -> Any:
            if attributes.get("prob_a") is not None and len(attributes.get("vectors_per_class") or ()) > 2:
                raise LayoutError("probabilities of more than two classes are not computed right")
            package: Any = super()
            return package._run(x, **attributes)

    class TopK(OpRun):
        """In all versions: before opset 10, k is an attribute."""

        op_domain = ""

        def _run(
            self,
            x: Array,
            k: Array | int,
            axis: int | None = None,
            largest: int | None = None,
            sorted: int | None = None,  # always
        ) -> tuple[Array, Array]:
            return top_k(x, int(np.asarray(k).item()), -1 if axis is None else axis, largest != 0)

    class ZipMap(OpRun):
        """A map from class to number for each row, as a dictionary."""

        op_domain = "ai.onnx.ml"

        def _run(
            self,
            x: Array,
            classlabels_int64s: Sequence[int] | None = None,
            classlabels_strings: Sequence[str] | None = None,
        ) -> tuple[list[dict[int | str, float]]]:
            labels = list(classlabels_int64s or classlabels_strings or ())
            rows = np.atleast_2d(x)
            if rows.shape[1] != len(labels):
                raise LayoutError(f"{rows.shape[1]} columns for {len(labels)} classes")
            return ([dict(zip(labels, row, strict=True)) for row in rows.tolist()],)

    class RecurrentRun(OpRun):
        """With the inputs and attributes that the package ignores: lengths, activations, clip, input_forget."""

        op_domain = ""

        def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
            x, w, r, b, lengths, h, c, p = (*inputs, *(None,) * (8 - len(inputs)))
            assert x is not None and w is not None and r is not None
            options = _recurrent_options(attributes)
            results = recurrent(type(self).__name__, Operands(x, w, r, b, lengths, h, c, p), options)
            return results[: len(self.onnx_node.output)]

    class DynamicQuantizeLSTM(OpRun):
        """Of constant weights in integers, as ONNX Runtime computes it on one thread: the sequence is rounded to levels
        of its range, and so are the states of all sequences at each step."""

        op_domain = "com.microsoft"

        def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
            given = (*inputs, *(None,) * (12 - len(inputs)))
            x, w, r, b, lengths, h, c, p = given[:8]
            assert x is not None and w is not None and r is not None
            w, r = (
                _real_weights(levels, given[k], given[k + 1]).swapaxes(1, 2)
                for levels, k in ((w, 8), (r, 10))
            )
            most = len(x) if lengths is None or not lengths.size else int(np.clip(lengths.max(), 0, len(x)))
            x = np.concatenate([on_levels(x[:most]), x[most:]])
            operands = Operands(x, w, r, b, lengths, h, c, p)
            options = replace(_recurrent_options(attributes), rounds_states=True)
            return recurrent("LSTM", operands, options)[: len(self.onnx_node.output)]

    class LSTMOfIntegers(OpRun):
        """What the executor makes of a DynamicQuantizeLSTM."""

        def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
            sums, scale, weights, columns, p, lengths, h, c = (*inputs, *(None,) * (8 - len(inputs)))
            assert sums is not None and scale is not None and weights is not None and columns is not None
            given = {name: value for name, value in attributes.items() if value is not None}
            lstm = IntegerLstm.of_node(given.get)
            # Each direction has its columns of the products, whose scales are those of its weights.
            w = np.zeros((lstm.directions, lstm.columns, sums.shape[2]), np.float32)
            for d in range(lstm.directions):
                np.fill_diagonal(w[d, :, d * lstm.columns :], columns[d, 0])
            levels = [
                lstm.unpacked(packed) for packed in weights.reshape(lstm.directions, -1, *weights.shape[1:])
            ]
            r = np.stack(levels) * columns[:, 1, :, None]
            b = np.concatenate([columns[:, 2], np.zeros_like(columns[:, 2])], axis=1)
            operands = Operands(sums.astype(np.float32) * scale, w, r, b, lengths, h, c, p)
            options = replace(_recurrent_options(attributes), rounds_states=True)
            batch = sums.shape[1]
            return (
                *recurrent("LSTM", operands, options),
                np.zeros((lstm.directions, lstm.scratch(batch)), np.int32),
            )

    class RowsRun(OpRun):
        """Of rows along a dim; before opset 13 of those from a dim on, which the package does not know."""

        op_domain = ""

        def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
            node: Any = self
            function = _OF_ROWS[type(self).__name__]
            given = [each.i for each in node.onnx_node.attribute if each.name == "axis"]
            if node.run_params["opsets"].get("", 13) >= 13:
                axis = given[0] if given else -1
                return (np.moveaxis(function(np.moveaxis(x, axis, -1)), -1, axis),)
            axis = given[0] if given else 1
            first = axis % max(x.ndim, 1)
            rows = x.reshape(*x.shape[:first], prod(x.shape[first:]))
            return (function(rows).reshape(x.shape),)

    operators_of_rows = [type(name, (RowsRun,), {}) for name in _OF_ROWS]
    recurrent_operators = [type(name, (RecurrentRun,), {}) for name in ("GRU", "LSTM", "RNN")]
    return [
        Col2Im,
        DequantizeLinear,
        Erf,
        Gather,
        GatherElements,
        GatherND,
        GridSample,
        Loop,
        MatMul,
        MaxPool,
        NonMaxSuppression,
        OneHot,
        Optional,
        RoiAlign,
        _titled(CHANNELS_LAST_REGIONS, RoiAlignOfChannelsLast),
        _titled(PACKED_INTEGER_CONV, IntegerConvOfPackedWeights),
        _titled(DEPTHWISE_INTEGER_CONV, DepthwiseConvOfIntegers),
        Scan,
        ScatterElements,
        ScatterND,
        STFT,
        SVMClassifier,
        TopK,
        ZipMap,
        *operators_of_rows,
        *recurrent_operators,
        _titled(INTEGER_LSTM, LSTMOfIntegers),
        # Before its function, which multiplies real numbers.
        DynamicQuantizeLSTM,
        *runtime_operators(own_operators),
    ]


def _recurrent_options(attributes: dict[str, Any]) -> Options:
    """What the attributes of a recurrent node say."""
    return Options(
        attributes.get("direction") or "forward",
        attributes.get("activations") or (),
        attributes.get("activation_alpha") or (),
        attributes.get("activation_beta") or (),
        attributes.get("clip"),
        bool(attributes.get("layout")),
        bool(attributes.get("linear_before_reset")),
        bool(attributes.get("input_forget")),
    )


def _real_weights(levels: Array, scale: Array | None, zero_point: Array | None) -> Array:
    """The real numbers of integers (directions, rows, columns), of a scale per direction, or per direction and
    column."""
    assert scale is not None
    shape = len(levels), 1, -1
    middle = 0 if zero_point is None else zero_point.reshape(shape).astype(np.float32)
    return (levels.astype(np.float32) - middle) * scale.reshape(shape)


def _titled(title: str, operator: type) -> type:
    """The class of a node, `domain::operator`, which computes what `operator` does."""
    domain, name = domain_and_operator(title)
    return type(name, (operator,), {"op_domain": domain})
