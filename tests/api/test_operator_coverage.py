"""Every operator of ONNX that has a node test in the onnx package, executed: right, by the reference, or refused.

The package generates a model of one node with inputs and outputs for each operator and variant of it. What says what a
node does (axes, shapes, scales) is a constant here, as in networks. The two tables below are what is left, with its
reason: an operator leaves them when it runs, and none may come.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import needs_library
from tests.seeds import seeds

onnx = pytest.importorskip("onnx")

pytestmark = [needs_library, pytest.mark.slow]

CONSTANTS = frozenset(
    """
    B K M R W axes axis block_shape constant_value delta depth dft_length ends frame_length frame_step image_shape k
    limit output_shape pads ratio repeats roi scales shape size sizes split start starts steps training_mode trip_count
    num_mel_bins sample_rate lower_edge_hertz upper_edge_hertz
    """.split()  # noqa: SIM905
)
"""Inputs that networks have as constants, by their names in the schemas."""

RANDOM = frozenset({"Bernoulli"})
"""Operators that draw numbers of their own."""

EXCEPTIONS = frozenset({
    # The cases have the extent before it is cut off to a whole number in the formula of align_corners; ONNX Runtime and
    # PyTorch divide by the extent that the result has, as we do.
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
    # The reference of the onnx package keeps an optional value in a list, as it hands it on.
    "test_if_opt",
})  # fmt: skip

REFUSED: dict[str, str] = {
    "Not": "its cases are of opset 1, which is older than what is read",
    "Scan": "that of opset 8, which goes over a batch",
}
"""What is refused, and why."""

DATA = "how large the result is depends on the data"
NARROW = "floats of 8 bits and 4, integers of 4 bits and 2"
NONE = "neither a decomposition nor a loop"
NO_TENSOR = "sequences and optional values"

BY_REFERENCE: dict[str, str] = {
    **dict.fromkeys(("Adagrad", "Adam", "Momentum"), "of training"),
    **dict.fromkeys(("LabelEncoder", "TreeEnsemble"), "of ai.onnx.ml"),
    "Attention": "with the state of earlier calls, or masks shorter than it, its function is not imported",
    "BatchNormalization": "in training",
    "BlackmanWindow": "a constant that is not folded",
    "Cast": NARROW,
    "CastLike": NARROW,
    "CausalConvWithState": NONE,
    "Compress": DATA,
    "ConvInteger": "weights that are computed",
    "CumProd": NONE,
    "CumSum": "of f64",
    "DFT": "the inverse of half a spectrum",
    "DequantizeLinear": f"{NARROW}, scales of blocks",
    "Det": NONE,
    "Dropout": "in training",
    "Einsum": "of f64, and with a diagonal",
    "Equal": "texts",
    "FlexAttention": "functions of scores as subgraphs",
    "HammingWindow": "a constant that is not folded",
    "HannWindow": "a constant that is not folded",
    "Identity": NO_TENSOR,
    "If": NO_TENSOR,
    "ImageDecoder": NONE,
    "LSTM": "peepholes",
    "LinearAttention": "its function is not imported",
    "Loop": "scan outputs whose number of rows is not known, and sequences",
    "MaxPool": "indices of the largest elements",
    "MaxUnpool": "into another size than the pool was of",
    "MelWeightMatrix": "a constant that is not folded",
    "Mod": "remainders of floats of the sign of the divisor",
    "NonMaxSuppression": DATA,
    "NonZero": DATA,
    "OptionalGetElement": NO_TENSOR,
    "OptionalHasElement": NO_TENSOR,
    "QuantizeLinear": f"{NARROW}, scales of blocks",
    "ReduceMax": "of truth values",
    "ReduceMin": "of truth values",
    "RegexFullMatch": "texts",
    "Resize": "crops, and sizes that keep an aspect ratio",
    "STFT": "a window that is computed",
    "SequenceInsert": NO_TENSOR,
    "SequenceMap": NO_TENSOR,
    "SplitToSequence": NO_TENSOR,
    "StringConcat": "texts",
    "StringNormalizer": "texts",
    "StringSplit": "texts",
    "TensorScatter": NONE,
    "TfIdfVectorizer": NONE,
    "Unique": DATA,
}
"""What runs by the reference, all of it or in a case, and why."""


def node_tests() -> Iterator[Any]:
    module: Any = import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases: list[Any] = module.collect_testcases(None)
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type not in RANDOM and case.name not in EXCEPTIONS:
            yield case


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _value(data: Any) -> Any:
    if data is None:
        return None
    if _is_list(data):
        return [_value(each) for each in data]
    return onnx.numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else np.asarray(data)


def _model(case: Any, data: list[Any]) -> tuple[Any, dict[str, Any]]:
    """The model of a case with its constants, and the inputs that are left."""
    given = dict(zip((value.name for value in case.model.graph.input), data, strict=True))
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    [node] = model.graph.node
    versions = {entry.domain: entry.version for entry in model.opset_import}
    schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
    for formal, name in zip(schema.inputs, node.input, strict=False):
        is_constant = formal.name in CONSTANTS or formal.name.endswith(("scale", "zero_point"))
        if name in given and (is_constant or node.op_type == "ConstantOfShape"):
            array = given.pop(name)
            tensor = (
                array
                if isinstance(array, onnx.TensorProto)
                else onnx.numpy_helper.from_array(np.asarray(array))
            )
            model.graph.initializer.add().CopyFrom(tensor)
            model.graph.initializer[-1].name = name
    left = [value for value in model.graph.input if value.name in given]
    del model.graph.input[:]
    model.graph.input.extend(left)
    return model, {name: _value(value) for name, value in given.items()}


def _check(found: Any, expected: Any, case: Any, inputs: Mapping[str, Any]) -> None:
    """Asserts that an output is what the case says."""
    if _is_list(expected):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            _check(np.asarray(ours), theirs, case, inputs)
        return
    if expected.dtype.name == "bfloat16" and found.dtype == np.uint16:
        found = found.view(expected.dtype)
    assert found.shape == expected.shape, case.name
    if expected.dtype.kind in "SUO":
        assert (found.astype(str) == expected.astype(str)).all(), case.name
        return
    assert found.dtype == expected.dtype, case.name
    arrays = [array for array in (*inputs.values(), expected) if _is_array(array)]
    is_half = any(array.dtype.itemsize < 4 and array.dtype.kind not in "iub" for array in arrays)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        found.astype(wide), expected.astype(wide), max(case.rtol, 1e-2 if is_half else 0), max(case.atol, 1e-6),
        err_msg=case.name,
    )  # fmt: skip


def _shapes(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.shape for name, value in inputs.items() if _is_array(value)}


@cache
def verdicts(third: int) -> Mapping[str, Mapping[str, str]]:
    """By verdict, the operators of which a case has it, and an example; of every third case, from this number on."""
    result: dict[str, dict[str, str]] = {"refused": {}, "by the reference": {}, "wrong": {}}
    for case in islice(node_tests(), third, None, 3):
        op_type = case.model.graph.node[0].op_type
        for data, expected in case.data_sets:
            try:
                model, inputs = _model(case, data)
                shapes = _shapes(inputs)
                executable = li.compile(model, shapes=shapes)
                found = executable(inputs)
            except LayoutError as error:
                result["refused"].setdefault(op_type, f"{case.name}: {error}")
                continue
            if executable.fallbacks:
                result["by the reference"].setdefault(op_type, case.name)
            try:
                for ours, theirs in zip(found, map(_value, expected), strict=True):
                    _check(ours, theirs, case, inputs)
            except AssertionError as error:
                result["wrong"].setdefault(case.name, str(error))
    return result


THIRDS = pytest.mark.parametrize("third", seeds(1, 3))


@THIRDS
def test_no_case_is_wrong(third: int):
    assert not verdicts(third)["wrong"]


@THIRDS
def test_nothing_is_refused_but_what_is_listed(third: int):
    found = verdicts(third)["refused"]
    assert {op: text for op, text in found.items() if op not in REFUSED} == {}


@THIRDS
def test_nothing_runs_by_the_reference_but_what_is_listed(third: int):
    found = verdicts(third)["by the reference"]
    assert {op: name for op, name in found.items() if op not in BY_REFERENCE} == {}


@pytest.mark.deep
@pytest.mark.parametrize(("verdict", "listed"), [("refused", REFUSED), ("by the reference", BY_REFERENCE)])
def test_what_is_listed_is_still_so(verdict: str, listed: Mapping[str, str]):
    found = {op for third in range(3) for op in verdicts(third)[verdict]}
    assert listed.keys() - found == set(), "these run now: take them out of the table"
