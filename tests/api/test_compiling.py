"""Networks as callables: outputs equal to ONNX Runtime's, one program per size of a batch, errors of callers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.files import read_whole
from tests import networks
from tests.backends.onednn.small_programs import Program, needs_library, numbers

pytestmark = needs_library

QUICK = ("squeezenet", "shufflenet")


def outputs_of(model: Any, feeds: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    return runtime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def check_network(name: str) -> None:
    model = networks.randomized(name)
    title, shape = networks.input_shape(model)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    executable = li.compile(model, checked=True)
    assert executable.fallbacks == {}
    assert executable.output_names == [value.name for value in model.graph.output]
    for ours, theirs in zip(executable({title: x}), outputs_of(model, {title: x}), strict=True):
        assert np.max(np.abs(ours - theirs)) <= 1e-4 * np.max(np.abs(theirs))


@pytest.mark.parametrize("name", QUICK)
def test_a_network_computes_what_onnx_runtime_does(name: str):
    check_network(name)


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in networks.NAMES if name not in QUICK])
def test_every_network_of_the_onnx_package_computes_what_onnx_runtime_does(name: str):
    check_network(name)


def open_model() -> Any:
    """A convolution and a product, of any batch."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = [("w", (8, 3, 3, 3)), ("m", (8, 5))]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]), helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "m"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "open",
        [helper.make_tensor_value_info("x", floats, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", floats, ["N", 5])],
        [onnx.numpy_helper.from_array(numbers(shape, 3), name) for name, shape in weights],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def attention_model() -> Any:
    """A block of a transformer: four heads, a residual, a normalization, a feed-forward part."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = {name: numbers((32, 32), k, -0.3, 0.3) for k, name in enumerate(("q", "k", "v", "o"))}
    weights |= {"f": numbers((32, 64), 5, -0.3, 0.3), "g": numbers((64, 32), 6, -0.3, 0.3)}
    weights |= {
        "fb": numbers((64,), 7),
        "s": numbers((32,), 8),
        "b": numbers((32,), 9),
        "r": np.array([0.35], np.float32),
    }
    shapes = {"heads": np.array([2, 10, 4, 8]), "flat": np.array([2, 10, 32])}
    node = helper.make_node
    nodes: list[Any] = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(node("MatMul", ["x", name], [f"{name}1"]))
        nodes.append(node("Reshape", [f"{name}1", "heads"], [f"{name}2"]))
        nodes.append(node("Transpose", [f"{name}2"], [f"{name}3"], perm=perm))
    nodes += [
        node("MatMul", ["q3", "k3"], ["a1"]), node("Mul", ["a1", "r"], ["a2"]), node("Softmax", ["a2"], ["a3"]),
        node("MatMul", ["a3", "v3"], ["a4"]), node("Transpose", ["a4"], ["a5"], perm=[0, 2, 1, 3]),
        node("Reshape", ["a5", "flat"], ["a6"]), node("MatMul", ["a6", "o"], ["a7"]), node("Add", ["a7", "x"], ["a8"]),
        node("LayerNormalization", ["a8", "s", "b"], ["n"]), node("MatMul", ["n", "f"], ["f1"]),
        node("Add", ["f1", "fb"], ["f2"]), node("Gelu", ["f2"], ["f3"]), node("MatMul", ["f3", "g"], ["f4"]),
        node("Add", ["f4", "n"], ["y"]),
    ]  # fmt: skip
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in {**weights, **shapes}.items()]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "block", [value("x", floats, [2, 10, 32])], [value("y", floats, [2, 10, 32])], tensors
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model


@pytest.mark.parametrize("threads", [1, 2])
def test_a_block_of_a_transformer_computes_what_onnx_runtime_does(threads: int):
    model = attention_model()
    x = numbers((2, 10, 32))
    executable = li.compile(model, threads=threads, checked=True)
    (found,) = executable([x])
    np.testing.assert_allclose(found, outputs_of(model, {"x": x})[0], rtol=0, atol=1e-4)
    assert executable.fallbacks == {}
    products = [step.ops for step in executable.profile([x]) if "nn.matmul" in step.ops]
    assert ("nn.matmul", "nn.add", "nn.gelu") in products


@pytest.mark.parametrize("batch", [1, 2])
def test_a_language_model_goes_from_word_to_word(batch: int):
    pytest.importorskip("onnx")
    from tests.api.language_model import decoder, first_inputs, next_inputs

    model = decoder()
    executable = li.compile(model, checked=True)
    inputs = first_inputs(batch, 3)
    for _ in range(2):
        found, wanted = executable(inputs), outputs_of(model, inputs)
        assert executable.fallbacks == {}
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.max(np.abs(theirs)))
        inputs = next_inputs(inputs, wanted)


def test_an_open_batch_is_compiled_once_for_each_size(monkeypatch: pytest.MonkeyPatch):
    from layout_ir.api.compilation import Compilation

    model, compiled = open_model(), list[Any]()
    imported = Compilation.imported

    def counted(self: Compilation, source: Any, shapes: Any) -> Any:
        compiled.append(shapes)
        return imported(self, source, shapes)

    monkeypatch.setattr(Compilation, "imported", counted)
    executable = li.compile(model)
    assert executable.input_names == ["x"]
    for batch in (1, 4, 1, 4):
        x = numbers((batch, 3, 8, 8), batch)
        (found,) = executable({"x": x})
        np.testing.assert_allclose(found, outputs_of(model, {"x": x})[0], rtol=0, atol=1e-4)
    assert compiled == [{"x": (1, 3, 8, 8)}, {"x": (4, 3, 8, 8)}]


def test_a_model_with_given_shapes_is_compiled_at_once():
    executable = li.compile(open_model(), shapes={"x": (2, 3, 8, 8)})
    assert executable.output_names == ["y"]
    with pytest.raises(LayoutError, match="2x3x8x8"):
        executable([numbers((1, 3, 8, 8))])


@pytest.mark.parametrize("shapes", [None, {"x": (2, 3, 8, 8)}])
def test_a_file_of_known_shapes_is_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shapes: dict[str, tuple[int, ...]] | None
):
    path, read = tmp_path / "m.onnx", list[Path]()
    made = open_model()
    if shapes is None:
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    path.write_bytes(made.SerializeToString())

    def counted(of: Path) -> bytes:
        read.append(of)
        return read_whole(of)

    monkeypatch.setattr("layout_ir.frontends.onnx.model.read_whole", counted)
    li.compile(path, shapes=shapes)
    assert read == [path]


@pytest.mark.parametrize("external", [False, True])
def test_negative_an_open_model_whose_file_is_another_is_not_compiled_for_more_sizes(
    tmp_path: Path, external: bool
):
    """It would be of other weights for other sizes, and nobody would know."""
    onnx = pytest.importorskip("onnx")
    path, x = tmp_path / "m.onnx", numbers((2, 3, 8, 8), 1)
    onnx.save_model(open_model(), str(path), save_as_external_data=external, size_threshold=0, location="w")
    executable = li.compile(path)
    expected = executable([x])[0]
    changed = tmp_path / "w" if external else path
    kept = changed.read_bytes()
    changed.unlink()
    with pytest.raises(LayoutError, match=f"'{re.escape(str(changed))}' is gone"):
        executable([x[:1]])
    changed.write_bytes(kept[::-1])
    with pytest.raises(LayoutError, match=f"'{re.escape(str(changed))}' has changed; .*compile it anew"):
        executable([x[:1]])
    np.testing.assert_array_equal(executable([x])[0], expected)  # what was compiled stays


def test_negative_an_open_model_cannot_be_described_before_a_call():
    executable = li.compile(open_model())
    for ask in (executable.describe, lambda: executable.fallbacks, lambda: executable.output_names):
        with pytest.raises(LayoutError, match="compiled at its first call"):
            ask()
    with pytest.raises(LayoutError, match="input 'x' is missing"):
        executable({})
    with pytest.raises(LayoutError, match="takes 1 input, given are 2"):
        executable([numbers((1,)), numbers((1,))])


def test_negative_inputs_that_an_open_model_does_not_take():
    executable = li.compile(open_model())
    with pytest.raises(LayoutError, match=r"input 'x' is \?x3x8x8, the array given is 1x4x8x8"):
        executable([numbers((1, 4, 8, 8))])
    with pytest.raises(LayoutError, match=r"input 'x' is \?x3x8x8, the array given is 3"):
        executable([numbers((3,))])
    with pytest.raises(LayoutError, match="input 'x' is a list of items of different shapes"):
        executable([[[1.0, 2.0], [1.0]]])


def relu_module() -> ModuleOp:
    from layout_ir.dialects import nn

    program = Program((2, 3))
    return program.module(program.add(nn.ReluOp, program.argument(0)))


def test_a_module_stays_as_it_is():
    module = relu_module()
    before = li.to_text(module)
    executable = li.compile(module, threads=2)
    x = numbers((2, 3))
    assert np.array_equal(executable([x])[0], np.maximum(x, 0))
    assert (li.to_text(module), executable.threads) == (before, 2)


def test_layouts_that_are_open_are_chosen():
    model = networks.randomized("squeezenet")
    module = li.from_onnx(model)
    before = li.to_text(module)
    description = li.compile(module, "channels-last").describe()
    assert "reference    none" in description and "arena" in description
    assert li.to_text(module) == before


@pytest.mark.parametrize("threads", [0, -1, 1.5, None])
def test_negative_threads_are_a_number_from_one_on(threads: Any):
    with pytest.raises(LayoutError, match="expected a whole number from 1 on"):
        li.compile(relu_module(), threads=threads)


def test_negative_more_threads_than_any_machine_runs_are_not_begun():
    with pytest.raises(LayoutError, match="threads = 100000 is more than 8192"):
        li.compile(relu_module(), threads=100_000)
    assert li.compile(relu_module(), threads=3).threads == 3


@pytest.mark.parametrize("target", ["vax", None, 3])
def test_negative_a_target_is_known_where_nothing_is_open_too(target: Any):
    with pytest.raises(LayoutError, match=r"unknown target 'vax'|a target is a Target or the name of one"):
        li.compile(relu_module(), target=target)
    li.compile(relu_module(), target="channels-last")


def test_negative_a_model_has_no_functions_to_enter():
    with pytest.raises(
        LayoutError, match="entry = 'f' names a function of a module, and an ONNX model has one graph"
    ):
        li.compile(attention_model(), entry="f")


def test_negative_shapes_of_a_module_are_in_its_types():
    with pytest.raises(LayoutError, match="shapes are for ONNX models"):
        li.compile(relu_module(), shapes={"x": (2, 3)})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [([], "takes 1 input"), ([np.zeros((2, 3))], "tensor<2x3xf32>, the array given is 2x3 of float64"),
     ({"z": np.zeros((2, 3), np.float32)}, "'arg0' is missing"), (None, "not of type NoneType"),
     ((np.zeros((2, 3), np.float32) for _ in range(1)), "a list of them by position, not of type generator")],
)  # fmt: skip
def test_negative_inputs_that_do_not_fit(inputs: Any, message: str):
    with pytest.raises(LayoutError, match=message):
        li.compile(relu_module())(inputs)
    with pytest.raises(LayoutError, match=message):
        li.run(relu_module(), inputs)


@pytest.mark.parametrize("model", [3, None, np.zeros(2), li.Format.from_tag("ab")], ids=str)
def test_negative_what_is_neither_a_module_nor_a_source_is_named(model: Any):
    with pytest.raises(
        LayoutError, match=f"a program is a ModuleOp of xDSL, not of type {type(model).__name__}"
    ):
        li.compile(model)


def with_defaults(extent: Any = 3) -> Any:
    """`Reshape(x + w, s) * sparse`, where `w`, `s` and the sparse `v` have defaults."""
    onnx = pytest.importorskip("onnx")
    helper, types, to_tensor = onnx.helper, onnx.TensorProto, onnx.numpy_helper.from_array
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Reshape", ["a", "s"], ["b"]),
        helper.make_node("Mul", ["b", "v"], ["y"]),
    ]  # fmt: skip
    values = [
        ("x", types.FLOAT, [extent, 4]), ("w", types.FLOAT, ["rows", 4]), ("s", types.INT64, [2]),
        ("v", types.FLOAT, [1]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "defaults",
        [helper.make_tensor_value_info(*value) for value in values],
        [helper.make_tensor_value_info("y", types.FLOAT, None)],
        [to_tensor(numbers((3, 4), 3), "w"), to_tensor(np.array([4, -1]), "s")],
    )  # fmt: skip
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(to_tensor(np.ones(1, np.float32), "v"), to_tensor(np.array([0]), "at"), [1])
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


GIVEN = {
    "w": numbers((1, 4), 5),
    "s": np.array([2, 6]),
    "v": np.array([3], np.float32),
}


@pytest.mark.parametrize("options", [{}, {"shapes": {"x": (3, 4)}}, {"open": True}])
def test_inputs_with_defaults_may_be_given_by_name(options: dict[str, Any]):
    model = with_defaults("n" if options.pop("open", False) else 3)
    executable = li.compile(model, **options)
    x = numbers((3, 4), 7)
    assert executable.input_names == ["x"]
    for names in ("", "w", "s", "sv", "", "wsv", "s"):
        feeds = {"x": x, **{name: GIVEN[name] for name in names}}
        (ours,), (theirs,) = executable(feeds), outputs_of(model, feeds)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(executable([x])[0], outputs_of(model, {"x": x})[0], rtol=1e-6)
    if not options:
        assert executable.profile({"x": x, "w": GIVEN["w"]})


def test_inputs_with_defaults_of_a_model_that_was_kept(tmp_path: Any):
    """Also with the model in a file, its weights in another."""
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    model, stored = with_defaults(), with_defaults()
    onnx.save_model(stored, str(path), save_as_external_data=True, size_threshold=0)
    x = numbers((3, 4), 7)
    for _ in range(2):
        executable = li.compile(path, cache_dir=tmp_path / "kept")
        for names in ("", "s"):
            feeds = {"x": x, **{name: GIVEN[name] for name in names}}
            np.testing.assert_allclose(executable(feeds)[0], outputs_of(model, feeds)[0], rtol=1e-6)


def test_negative_defaults_are_not_given_up_where_the_file_is_another(tmp_path: Path):
    path, x = tmp_path / "m.onnx", numbers((3, 4), 7)
    path.write_bytes(with_defaults().SerializeToString())
    executable = li.compile(path)
    executable({"x": x})
    path.unlink()
    with pytest.raises(LayoutError, match="is gone"):
        executable({"x": x, "s": GIVEN["s"]})


@pytest.mark.parametrize("form", ["file", "proto"])
def test_negative_nor_are_those_of_a_model_that_was_kept(tmp_path: Path, form: str):
    path, proto, x = tmp_path / "m.onnx", with_defaults(), numbers((3, 4), 7)
    path.write_bytes(proto.SerializeToString())
    source = path if form == "file" else proto
    li.compile(source, cache_dir=tmp_path / "kept")
    executable = li.compile(source, cache_dir=tmp_path / "kept")
    before = executable({"x": x})
    proto.graph.node[2].op_type = "Sub"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(LayoutError, match=r"has changed, .*compile it anew"):
        executable({"x": x, "s": GIVEN["s"]})
    np.testing.assert_array_equal(executable({"x": x}), before)


def test_a_proto_that_its_owner_changes_stays_what_it_was():
    """For other sizes and other inputs, too, for which it is read again."""
    proto, same, x = with_defaults("n"), with_defaults("n"), numbers((3, 4), 7)
    executable = li.compile(proto)
    executable({"x": x})
    proto.graph.node[2].op_type = "Sub"
    for feeds in ({"x": x[:1]}, {"x": x[:2], "w": GIVEN["w"]}):
        np.testing.assert_allclose(executable(feeds)[0], outputs_of(same, feeds)[0], rtol=1e-6)


def test_negative_what_is_given_for_a_default_is_not_compiled_for_more_sizes_either(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(with_defaults("n").SerializeToString())
    executable = li.compile(path)
    given, x = {"w": GIVEN["w"]}, numbers((3, 4), 7)
    executable({"x": x, **given})
    path.unlink()
    executable({"x": x, **given})
    with pytest.raises(LayoutError, match="is gone"):
        executable({"x": x[:1], **given})


def test_negative_what_is_no_input_with_a_default():
    """Before version 4 of the format all initializers had to be listed as inputs, and are constants."""
    x = numbers((3, 4), 7)
    with pytest.raises(LayoutError, match="'z' is no input"):
        li.compile(with_defaults())({"x": x, "z": x})
    with pytest.raises(LayoutError, match="'x' is missing"):
        li.compile(with_defaults())({"w": x})
    with pytest.raises(LayoutError, match=r"input 'v' is .*, the array given is 2 of float32"):
        li.compile(with_defaults())({"x": x, "v": np.ones(2, np.float32)})
    old = with_defaults()
    old.ir_version = 3
    with pytest.raises(LayoutError, match="'s' is no input"):
        li.compile(old)({"x": x, "s": GIVEN["s"]})
