"""Operators that go from step to step of a sequence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from layout_ir.backends.reference.recurrent import Operands, Options, on_levels, recurrent
from layout_ir.dialects.nn.integer_lstm import IntegerLstm
from layout_ir.elements.numpy_types import Array


class RecurrentRun(OpRun):
    """LSTM, GRU and RNN with what the package ignores: lengths, activations, clip, input_forget."""

    op_domain = ""

    def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        x, w, r, b, lengths, h, c, p = (*inputs, *(None,) * (8 - len(inputs)))
        assert x is not None and w is not None and r is not None
        options = _recurrent_options(attributes)
        results = recurrent(type(self).__name__, Operands(x, w, r, b, lengths, h, c, p), options)
        return results[: len(self.onnx_node.output)]


class DynamicQuantizeLSTM(OpRun):
    """DynamicQuantizeLSTM of constant weights in integers, as ONNX Runtime computes it on one thread: the sequence is
    rounded to levels of its range, and so are the states of all sequences at each step."""

    op_domain = "com.microsoft"

    def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        given = (*inputs, *(None,) * (12 - len(inputs)))
        x, w, r, b, lengths, h, c, p = given[:8]
        assert x is not None and w is not None and r is not None
        w, r = (
            _real_weights(levels, given[k], given[k + 1]).swapaxes(1, 2) for levels, k in ((w, 8), (r, 10))
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


OPERATORS = (
    *(type(name, (RecurrentRun,), {}) for name in ("GRU", "LSTM", "RNN")),
    # Before its function, which multiplies real numbers.
    DynamicQuantizeLSTM,
)
