"""Models that no exporter writes: control flow around values from outside, functions, sequences, foreign ops."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import compose, numpy_helper, parser

_HEADER = '<ir_version: 8, opset_import: ["" : 17, "local" : 1, "org.example" : 1]>\n'


def _model(text: str, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    """The model that a text says, with a random weight of each of the shapes."""
    model = parser.parse_model(_HEADER + text)
    random = np.random.default_rng(0)
    for name, shape in shapes.items():
        fan = int(np.prod(shape[1:])) or 1
        weight = (random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


def branch() -> onnx.ModelProto:
    """If: both branches read a value and weights of the graph around them."""
    return _model(
        """network (float[1, 3, 16, 16] x, bool flag) => (float[1, 4] y) {
             a = Conv <pads = [1, 1, 1, 1]> (x, w)
             b = If (flag) <
               then_branch = wide () => (float[1, 8, 16, 16] t) {
                 t1 = Conv <pads = [1, 1, 1, 1]> (a, w_then)
                 t = Relu (t1)
               },
               else_branch = narrow () => (float[1, 8, 16, 16] e) {
                 e1 = Conv (a, w_else)
                 e = Add (e1, a)
               }>
             c = GlobalAveragePool (b)
             d = Flatten (c)
             y = Gemm <transB = 1> (d, head)
           }""",
        w=(8, 3, 3, 3),
        w_then=(8, 8, 3, 3),
        w_else=(8, 8, 1, 1),
        head=(4, 8),
    )


def loop() -> onnx.ModelProto:
    """Loop: the same residual block three times on a carried picture; each round's mean is collected."""
    return _model(
        """network (float[1, 8, 16, 16] x) => (float[1, 8, 16, 16] y, float[rounds, 1, 8, 1, 1] means)
           <int64 rounds_wanted = {3}, bool go = {1}> {
             first = Conv <pads = [1, 1, 1, 1]> (x, w_first)
             last, means = Loop (rounds_wanted, go, first) <
               body = block (int64 round, bool on, float[1, 8, 16, 16] carried)
                   => (bool on_next, float[1, 8, 16, 16] carried_next, float[1, 8, 1, 1] mean) {
                 a = Conv <pads = [1, 1, 1, 1]> (carried, w)
                 b = Relu (a)
                 s = Add (carried, b)
                 carried_next = Add (s, first)
                 mean = GlobalAveragePool (b)
                 on_next = Identity (on)
               }>
             y = Relu (last)
           }""",
        w_first=(8, 8, 3, 3),
        w=(8, 8, 3, 3),
    )


def loop_until() -> onnx.ModelProto:
    """Loop that ends by what it computes, with an untouched value carried along."""
    return _model(
        """network (float[1, 8, 16, 16] x) => (float[1, 8, 16, 16] y)
           <int64 most = {10}, bool go = {1}, float limit = {0.2}> {
             kept, y = Loop (most, go, x, x) <
               body = block (int64 round, bool on, float[1, 8, 16, 16] original, float[1, 8, 16, 16] carried)
                   => (bool on_next, float[1, 8, 16, 16] original_next, float[1, 8, 16, 16] carried_next) {
                 a = Conv <pads = [1, 1, 1, 1]> (carried, w)
                 b = Tanh (a)
                 m = Mul (b, original)
                 carried_next = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (m)
                 size = Abs (carried_next)
                 most_of_all = ReduceMax <keepdims = 0> (size)
                 on_next = Greater (most_of_all, limit)
                 original_next = Identity (original)
               }>
           }""",
        w=(8, 8, 3, 3),
    )


def scan() -> onnx.ModelProto:
    """Scan: a recurrent cell over the rows of a sequence, its weights from the graph around it."""
    return _model(
        """network (float[6, 4] sequence, float[8] state) => (float[8] end, float[6, 8] states) {
             end, states = Scan <num_scan_inputs = 1,
               body = cell (float[8] before, float[4] row) => (float[8] after, float[8] seen) {
                 a = MatMul (w, row)
                 b = MatMul (u, before)
                 s = Add (a, b)
                 after = Tanh (s)
                 seen = Identity (after)
               }> (state, sequence)
           }""",
        w=(8, 4),
        u=(8, 8),
    )


def nested() -> onnx.ModelProto:
    """An If inside a Loop; the innermost graph reads values of both graphs around it."""
    return _model(
        """network (float[1, 8, 16, 16] x, bool flag) => (float[1, 8, 16, 16] y)
           <int64 rounds = {2}, bool go = {1}> {
             outer = Relu (x)
             y = Loop (rounds, go, x) <
               body = block (int64 round, bool on, float[1, 8, 16, 16] carried)
                   => (bool on_next, float[1, 8, 16, 16] carried_next) {
                 a = Conv <pads = [1, 1, 1, 1]> (carried, w)
                 carried_next = If (flag) <
                   then_branch = plus () => (float[1, 8, 16, 16] t) { t = Add (a, outer) },
                   else_branch = minus () => (float[1, 8, 16, 16] e) { e = Sub (a, carried) }>
                 on_next = Identity (on)
               }>
           }""",
        w=(8, 8, 3, 3),
    )


def model_function() -> onnx.ModelProto:
    """A function of the model's own, called twice, with an attribute and a function inside it."""
    return _model(
        """network (float[1, 3, 16, 16] x) => (float[1, 8, 8, 8] y) {
             a = local.block <slope = 0.1> (x, w_first)
             b = local.block <slope = 0.3> (a, w_second)
             y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)
           }
           <domain: "local", opset_import: ["" : 17, "local" : 1]>
           block <slope> (value, weight) => (result) {
             c = Conv <pads = [1, 1, 1, 1]> (value, weight)
             n = local.standard (c)
             result = LeakyRelu <alpha: float = @slope> (n)
           }
           <domain: "local", opset_import: ["" : 17]>
           standard (value) => (result) {
             mean = ReduceMean <axes = [1]> (value)
             centred = Sub (value, mean)
             squares = Mul (centred, centred)
             variance = ReduceMean <axes = [1]> (squares)
             deviation = Sqrt (variance)
             one = Constant <value_float = 1.0> ()
             safe = Add (deviation, one)
             result = Div (centred, safe)
           }""",
        w_first=(8, 3, 3, 3),
        w_second=(8, 8, 3, 3),
    )


def custom_op() -> onnx.ModelProto:
    """An op of a domain that nobody knows, between convolutions: nothing may be assumed of it."""
    return _model(
        """network (float[1, 3, 16, 16] x) => (float[1, 8, 16, 16] y) {
             a = Conv <pads = [1, 1, 1, 1]> (x, w_first)
             b = org.example.Sharpen <strength = 0.5> (a)
             y = Conv <pads = [1, 1, 1, 1]> (b, w_second)
           }""",
        w_first=(8, 3, 3, 3),
        w_second=(8, 8, 3, 3),
    )


def sequence() -> onnx.ModelProto:
    """A tensor split to a sequence and concatenated again, backwards."""
    return _model(
        """network (float[1, 8, 16, 16] x) => (float[1, 8, 16, 16] y)
           <int64[2] parts = {3, 5}, int64 first = {0}, int64 second = {1}> {
             a = Conv <pads = [1, 1, 1, 1]> (x, w)
             pieces = SplitToSequence <axis = 1> (a, parts)
             left = SequenceAt (pieces, first)
             right = SequenceAt (pieces, second)
             turned = SequenceConstruct (right, left)
             y = ConcatFromSequence <axis = 1> (turned)
           }""",
        w=(8, 8, 3, 3),
    )


def detector_nms() -> onnx.ModelProto:
    """A detector with what chooses boxes after it: NonMaxSuppression, its indices taken apart and gathered."""
    from tests.zoo import NETWORKS

    detector = NETWORKS["ssd"].build()
    detector.ir_version = 8
    count = detector.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    tail = _model(
        f"""tail (float[1, {count}, 4] boxes, float[1, {count}, 5] scores)
              => (float[kept, 4] chosen, float[kept] best, int64[kept] classes)
           <int64 most = {{5}}, float overlap = {{0.5}}, float least = {{0.1}},
            int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}> {{
             by_class = Transpose <perm = [0, 2, 1]> (scores)
             kept_ones = NonMaxSuppression (boxes, by_class, most, overlap, least)
             classes = Gather <axis = 1> (kept_ones, one)
             index = Gather <axis = 1> (kept_ones, two)
             of_picture = Gather <axis = 0> (boxes, zero)
             chosen = Gather <axis = 0> (of_picture, index)
             best = GatherND (by_class, kept_ones)
           }}"""
    )
    del tail.opset_import[1:]
    names = [value.name for value in detector.graph.output]
    return compose.merge_models(detector, tail, [(names[0], "boxes"), (names[1], "scores")], prefix2="tail/")
