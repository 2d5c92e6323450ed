"""TensorRT's layer information, written by hand after its documentation."""

from __future__ import annotations

from typing import Any

import pytest

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.execution_graphs.copies import explain_copies
from layout_ir.execution_graphs.tensorrt_engine import format_in_words, read_tensorrt
from layout_ir.notations import read

LINEAR, WIDE, LAST = (
    "Row major linear FP16 format",
    "Thirty-two wide channel vectorized row major Int8 format.",
    "Channel major FP16 format where channel % 8 == 0",
)


def _tensor(name: str, dims: list[int], words: str) -> dict[str, Any]:
    return {"Name": name, "Location": "Device", "Dimensions": dims, "Format/Datatype": words}


def _layer(
    name: str, kind: str, source: dict[str, Any], result: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {"Name": name, "LayerType": kind, "Inputs": [source], "Outputs": [result], **more}


def _engine() -> dict[str, Any]:
    shape = [1, 20, 6, 10]
    x, blocked = _tensor("x", shape, LINEAR), _tensor("Reformatted Input Tensor 0 to conv", shape, LAST)
    y, back = _tensor("y'", shape, LAST), _tensor("y", shape, LINEAR)
    return {
        "Layers": [
            _layer(
                "Reformatting CopyNode for Input Tensor 0 to conv", "Reformat", x, blocked, Origin="REFORMAT"
            ),
            _layer("conv", "CaskConvolution", blocked, y, ParameterType="Convolution", Kernel=[3, 3]),
            _layer(
                "Reformatting CopyNode for Output Tensor 0 to conv", "Reformat", y, back, Origin="REFORMAT"
            ),
            _layer("softmax", "SoftMax", back, _tensor("z", shape, LINEAR)),
        ],
        "Bindings": ["x", "z"],
    }


def test_reformats_are_copies_between_the_caller_and_layers():
    first, second = explain_copies(read_tensorrt(_engine()))
    assert first.nbytes == second.nbytes == 2 * 60 * (20 + 24)
    assert (first.producer, first.consumers, first.verdict) == (
        "the caller (x)",
        ("CaskConvolution conv",),
        "boundary",
    )
    assert (second.producer, second.consumers, second.verdict) == (
        "CaskConvolution conv",
        ("SoftMax softmax",),
        "forced",
    )


def test_fields_of_release_11():
    engine = _engine()
    del engine["Bindings"]
    engine["I/O Tensors"] = [{"Name": "x", "IOMode": "Input"}, {"Name": "z", "IOMode": "Output"}]
    graph = read_tensorrt(engine)
    assert [node.name for node in graph.nodes if node.role == "output"] == ["z"]


def test_a_profile_gives_times():
    name = "Reformatting CopyNode for Output Tensor 0 to conv"
    graph = read_tensorrt(
        _engine(), [{"count": 100}, {"name": name, "timeMs": 5, "averageMs": 0.05, "percentage": 4}]
    )
    assert [copy.time_us for copy in explain_copies(graph) if copy.name == name] == [50]


def test_a_shuffle_copies_where_it_transposes():
    engine = _engine()
    source, result = _tensor("z", [1, 20, 6, 10], LINEAR), _tensor("t", [1, 6, 10, 20], LINEAR)
    engine["Layers"].append(_layer("shuffle", "Shuffle", source, result, FirstTranspose=[0, 2, 3, 1]))
    engine["Layers"].append(_layer("view", "Shuffle", result, _tensor("v", [1, 6, 200], LINEAR)))
    copies = [copy for copy in explain_copies(read_tensorrt(engine)) if copy.kind == "Shuffle"]
    assert [copy.change for copy in copies] == ["dims in the order 0, 2, 3, 1"]


@pytest.mark.parametrize(
    ("words", "rank", "name"),
    [
        (LINEAR, 4, "kLINEAR"),
        ("Row major linear FP32 format (kLINEAR)", 4, "kLINEAR"),
        ("Half", 4, "kLINEAR"),
        ("Two wide channel vectorized row major FP16 format", 4, "kCHW2"),
        ("Four wide channel vectorized row major Int8 format", 4, "kCHW4"),
        ("Sixteen wide channel vectorized row major FP16 format", 4, "kCHW16"),
        (WIDE, 4, "kCHW32"),
        ("Thirty-two wide channel vectorized row major FP16 format with 3 spatial dimensions", 5, "kCDHW32"),
        ("Channel major FP32 format", 4, "kHWC"),
        (LAST, 4, "kHWC8"),
        ("Channel major INT8 format where channel % 16 == 0", 4, "kHWC16"),
    ],
)
def test_words_are_the_formats_of_tensorrt(words: str, rank: int, name: str):
    expected = read(name, "tensorrt", shape=(2, 20, 3, 5, 7)[:rank] if rank == 4 else (2, 20, 3, 5, 7))
    found = format_in_words(words, rank)
    assert found is not None and not isinstance(expected, Format)
    assert found.bind(expected.shape).same_store(expected)


STRIDED = "Channel major FP16 format where C % 8 == 0 and H Stride % 32 == 0"


@pytest.mark.parametrize("words", ["N/A due to dynamic shapes", "", "DLA planar", STRIDED])
def test_negative_words_without_a_translation_stay_words(words: str):
    assert format_in_words(words, 4) is None


NO_LAYERS: list[tuple[Any, str]] = [
        ({"a": 1, "b": 2}, "the JSON object has 'a', 'b', not the 'Layers'"),
        ([1, 2], "entry 0 of the layers has no 'Name'"),
        ({"Layers": {"x": 1}}, "no list of layers"),
        ("text", "no list of layers"),
        ({"Layers": ["conv", "relu"]}, "names of layers only"),
        ({"Layers": [{"Name": "a", "Inputs": 3}]}, "layer 0 'a': 'Inputs' is no list of objects"),
        ({"Layers": [{"Name": "a", "Inputs": [{}]}]}, "a tensor without a 'Name'"),
        ({"Layers": [{"Name": "a", "Inputs": [{"Name": "t", "Dimensions": [1, "n"]}]}]}, "tensor 't' has 'Dimensions'"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), NO_LAYERS)
def test_negative_what_is_no_layer_information_is_one_error(document: object, message: str):
    with pytest.raises(LayoutError, match=message):
        read_tensorrt(document)


@pytest.mark.parametrize("profile", [{}, [], [{"name": "x"}]])
def test_negative_what_is_no_profile_is_one_error(profile: object):
    with pytest.raises(LayoutError, match="profile"):
        read_tensorrt(_engine(), profile)
