"""Random inputs are such that ONNX Runtime runs the model on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from layout_ir.backends.onnxruntime.runtime_inputs import checked_inputs, random_model_inputs
from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession
from layout_ir.errors import LayoutError
from tests.api.language_model import SHARED, SIZE, decoder
from tests.benchmarks.small_models import model, save

FEW_ROWS = "network (int64[300] i) => (float[n, 4] y) {{ {body} }}"

INDEXING = {
    "Gather": "y = Gather (w, i)",
    "Gather of a cast": "a = Cast <to = 6> (i) y = Gather (w, a)",
    "Gather of a reshape and a slice": """s = Constant <value_ints = [2, 150]> () a = Reshape (i, s)
        z = Constant <value_ints = [0]> () o = Constant <value_ints = [1]> () b = Slice (a, z, o, z)
        k = Constant <value_ints = [-1]> () c = Reshape (b, k) y = Gather (w, c)""",
    "Gather of a concatenation": "a = Concat <axis = 0> (i, i) y = Gather (w, a)",
    "Gather along the second axis": "a = Gather <axis = 1> (w, i) y = Transpose (a)",
    "GatherND": "k = Constant <value_ints = [-1, 1]> () a = Reshape (i, k) y = GatherND (w, a)",
    "Gather in a branch": """t = Constant <value_int = 1> () c = Cast <to = 9> (t)
        y = If (c) <then_branch = one () => (float[m, 4] p) { p = Gather (w, i) },
                    else_branch = two () => (float[m, 4] q) { q = Identity (w) }>""",
}
"""Bodies of networks that index 3 rows of 4, or 4 columns of them."""


def _of(body: str) -> Any:
    return model(FEW_ROWS.replace("{{ {body} }}", f"{{ {body} }}"), w=(3, 4))


@pytest.mark.parametrize("name", INDEXING)
def test_indices_are_within_what_they_index(tmp_path: Path, name: str):
    made = _of(INDEXING[name])
    feeds = random_model_inputs(made, {}, 0)
    most = 3 if "second axis" in name else 2
    assert (feeds["i"].min(), feeds["i"].max()) == (0, most)
    RuntimeSession(str(save(made, tmp_path / "m.onnx")), "m").outputs_of(feeds)


def test_the_least_of_several_extents_bounds_an_index():
    body = "a = Gather <axis = 1> (w, i) b = Gather (w, i) y = Identity (b)"
    assert random_model_inputs(_of(body), {}, 0)["i"].max() == 2


def test_negative_integers_that_index_nothing_are_masks():
    found = random_model_inputs(_of("y = Cast <to = 1> (i)"), {}, 0)["i"]
    assert set(np.unique(found)) == {0, 1}


def test_sizes_and_counts_are_one(tmp_path: Path):
    made = model(
        "network (int64[2] s, int64[1] k) => (float[a, b] y) { e = Expand (w, s) y, j = TopK (e, k) }",
        w=(3, 4),
    )
    feeds = random_model_inputs(made, {}, 0)
    assert feeds["s"].tolist() == [1, 1]
    RuntimeSession(str(save(made, tmp_path / "m.onnx")), "m").outputs_of(feeds)


def test_the_mask_of_a_language_model_is_ones(tmp_path: Path):
    made = decoder()
    shapes = {"words": (1, 3), "mask": (1, 7), **{f"past.0.{kind}": (1, SHARED, 4, SIZE) for kind in "kv"}}
    feeds = random_model_inputs(made, shapes, 0)
    assert (feeds["mask"] == 1).all()
    assert not (feeds["words"] == 1).all()
    RuntimeSession(str(save(made, tmp_path / "m.onnx")), "m").outputs_of(feeds)


def test_small_integers_take_all_values_and_booleans_both():
    made = model(
        "network (int8[4000] a, uint8[4000] b, bool[100] c) => (int8[4000] x, uint8[4000] y, bool[100] z) "
        "{ x = Identity (a) y = Identity (b) z = Identity (c) }"
    )
    feeds = random_model_inputs(made, {}, 0)
    assert (feeds["a"].min(), feeds["a"].max()) == (-128, 127)
    assert (feeds["b"].min(), feeds["b"].max()) == (0, 255)
    assert set(np.unique(feeds["c"])) == {False, True}


@pytest.mark.parametrize("word", ["bfloat16", "float16", "double", "float8e4m3fn"])
def test_floats_of_every_type_are_normally_distributed(word: str):
    number = TensorProto.DataType.Value(word.upper())
    value = helper.make_tensor_value_info("x", number, [1000])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [value])
    graph.output[0].name = "y"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = random_model_inputs(made, {}, 0)["x"]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(number)
    assert abs(found.astype(np.float64).std() - 1) < 0.1


OPEN = """network (float[batch, 3, height, width] x, float[batch, tokens] y, int64[?] z) => (float[b, t] r) {
    r = Identity (y) }"""


def test_open_extents_are_typical_and_a_symbol_has_one_value():
    shapes = {name: array.shape for name, array in random_model_inputs(model(OPEN), {}, 0).items()}
    assert shapes == {"x": (1, 3, 224, 224), "y": (1, 128), "z": (1,)}


def test_a_shape_that_is_given_holds_for_its_symbols_elsewhere():
    shapes = {"y": (5, 7)}
    found = {name: array.shape for name, array in random_model_inputs(model(OPEN), shapes, 0).items()}
    assert found == {"x": (5, 3, 224, 224), "y": (5, 7), "z": (1,)}


@pytest.mark.parametrize(
    ("text", "shapes", "message"),
    [
        ("network (string[2] x) => (string[2] y) { y = Identity (x) }", {}, "'x' has element type string"),
        ("network (float[2] x) => (float[2] y) { y = Identity (x) }", {"q": (2,)}, "'q', which is no input"),
        ("network (float[2] x) => (float[2] y) { y = Identity (x) }", {"x": (2, 2)}, "rank mismatch"),
        ("network (float x) => (float[2] y) { y = Identity (x) }", {"x": (1 << 60,)}, "'x'"),
        ("network (seq(float[2]) x) => (seq(float[2]) y) { y = Identity (x) }", {}, "'x' is no tensor"),
    ],
)
def test_negative_inputs_that_cannot_be_made_are_named(
    text: str, shapes: dict[str, tuple[int, ...]], message: str
):
    with pytest.raises(LayoutError, match=re.escape(message)):
        random_model_inputs(model(text), shapes, 0)


TWO = "network (float[n, 3] x, int64[2] k) => (float[n, 3] y) { y = Identity (x) }"


def test_the_arrays_of_a_caller_are_inputs():
    arrays = {"x": np.ones((5, 3), np.float32), "k": np.array([1, 2])}
    assert checked_inputs(model(TWO), arrays) == arrays


def test_bits_stand_for_elements_that_numpy_has_not():
    made = model("network (bfloat16[2] x) => (bfloat16[2] y) { y = Identity (x) }")
    found = checked_inputs(made, {"x": np.array([0x3F80, 0x4000], np.uint16)})["x"]
    assert found.astype(np.float32).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((5, 3), np.float32)}, "the given inputs lack 'k': the model takes 'x', 'k'"),
        (
            {"x": np.ones((5, 3), np.float32), "k": np.array([1, 2]), "z": np.ones(1)},
            "the given inputs have 'z': the model takes 'x', 'k'",
        ),
        ({"x": np.ones((5, 3)), "k": np.array([1, 2])}, "'x' is given as float64, the model takes float32"),
        (
            {"x": np.ones((5, 4), np.float32), "k": np.array([1, 2])},
            "'x' is given as 5x4, the model takes ?x3",
        ),
        ({"x": np.ones(5, np.float32), "k": np.array([1, 2])}, "rank mismatch"),
    ],
)
def test_negative_arrays_that_do_not_fit_are_named(arrays: dict[str, Any], message: str):
    with pytest.raises(LayoutError, match=re.escape(message)):
        checked_inputs(model(TWO), arrays)
