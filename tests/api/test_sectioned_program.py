"""Models in sections that many sizes share, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import layout_ir as li
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import needs_library

pytest.importorskip("onnx")
from tests.api.growing_decoders import Kind, decoder, inputs_at, next_inputs

pytestmark = needs_library

Arrays = Mapping[str, NDArray[Any]]


def session_of(model: Any) -> Any:
    return pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())


def check(found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.max(np.abs(theirs)))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entry points of what is compiled from here on."""
    from layout_ir.api.compilation import Compilation

    found: list[str] = []
    runnable = Compilation.runnable

    def counted(self: Compilation, module: Any, entry: str) -> Any:
        found.append(entry)
        return runnable(self, module, entry)

    monkeypatch.setattr(Compilation, "runnable", counted)
    return found


@cache
def grown(kind: Kind) -> tuple[Any, li.Executable]:
    """A decoder, and an executable of it that has seen two lengths."""
    model = decoder(kind)
    executable = li.compile(model)
    for earlier in (3, 4):
        executable(inputs_at(model, earlier))
    assert executable.is_in_parts
    return model, executable


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_decoder_whose_caches_grow_compiles_nothing_for_a_new_length(kind: Kind, compiled: list[str]):
    model, executable = grown(kind)
    compiled.clear()
    session, inputs = session_of(model), inputs_at(model, 5)
    for _ in range(12):
        wanted = session.run(None, inputs)
        check(executable(inputs), wanted)
        inputs = next_inputs(inputs, wanted)
    assert executable.is_in_parts and compiled == []
    assert executable.fallbacks["Softmax"] == 1 and executable.fallbacks["MatMul"] == 2


def test_attention_of_onnx_runtime_that_grows_compiles_nothing_for_a_new_length(compiled: list[str]):
    from tests.api import language_model

    model = language_model.decoder()
    session, executable = session_of(model), li.compile(model, checked=True)
    inputs = language_model.first_inputs(1, 3)
    inputs = language_model.next_inputs(inputs, session.run(None, inputs))
    counts: list[int] = []
    for _ in range(5):
        wanted = session.run(None, inputs)
        check(executable(inputs), wanted)
        counts.append(len(compiled))
        inputs = language_model.next_inputs(inputs, wanted)
    assert executable.is_in_parts and counts[1:] == counts[1:2] * 4
    assert "GroupQueryAttention" not in executable.fallbacks


@pytest.fixture(scope="module")
def gpt2() -> tuple[Any, li.Executable]:
    return grown("gpt2")


def test_threads_decode_at_different_lengths(gpt2: tuple[Any, li.Executable]):
    model, executable = gpt2
    session = session_of(model)
    inputs = [inputs_at(model, 5 + number, seed=number) for number in range(8)]
    wanted = [session.run(None, each) for each in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for found, each in zip(pool.map(executable, inputs), wanted, strict=True):
                check(found, each)


def test_other_batches_and_many_new_words_run_in_the_same_sections(gpt2: tuple[Any, li.Executable]):
    model, executable = gpt2
    session = session_of(model)
    for earlier, new, batch in ((0, 7, 1), (2, 1, 3), (5, 2, 2), (0, 7, 1)):
        inputs = inputs_at(model, earlier, new, batch)
        check(executable(inputs), session.run(None, inputs))


def test_outputs_are_memory_of_their_own(gpt2: tuple[Any, li.Executable]):
    model, executable = gpt2
    inputs = inputs_at(model, 20)
    one, other = executable(inputs), executable(inputs)
    given = [*inputs.values(), *other]
    for number, array in enumerate(one):
        assert array.flags.writeable and not any(np.shares_memory(array, each) for each in given)
        given += one[: number + 1]


def test_a_length_that_comes_often_is_compiled_for_itself(
    gpt2: tuple[Any, li.Executable], compiled: list[str], monkeypatch: pytest.MonkeyPatch
):
    from layout_ir.api import executable as module

    monkeypatch.setattr(module, "_OFTEN", 3)
    model, executable = gpt2
    session = session_of(model)
    inputs, other = inputs_at(model, 21), inputs_at(model, 22)
    for _ in range(5):
        check(executable(inputs), session.run(None, inputs))
    assert len(compiled) == 1 and not executable.is_in_parts and executable.fallbacks == {}
    check(executable(other), session.run(None, other))
    assert len(compiled) == 1 and executable.is_in_parts


def test_a_profile_is_that_of_a_program_for_its_length_alone(gpt2: tuple[Any, li.Executable]):
    model, executable = gpt2
    inputs = inputs_at(model, 23)
    executable(inputs)
    with pytest.raises(LayoutError, match="no one plan"):
        _ = executable.plan
    assert any(
        "nn.softmax" in step.ops or "nn.matmul" in step.ops for step in executable.profile([*inputs.values()])
    )
    assert not executable.is_in_parts


def test_layers_that_are_equal_are_compiled_together():
    """Rows of a length that varies go through a convolution, which the reference is too slow for."""
    import onnx
    import onnx.helper as oh
    import onnx.numpy_helper

    random = np.random.default_rng(0)
    kernel = random.standard_normal((4, 8, 3)).astype(np.float32)
    weights = {f"w{k}": random.standard_normal((8, 8)).astype(np.float32) for k in range(5)}
    constants = {"k": kernel, **weights, "axes": np.array([2])}
    nodes = [oh.make_node("MatMul", ["x", "w0"], ["f0"])]
    for layer in range(2):
        nodes += [
            oh.make_node("Unsqueeze", [f"f{2 * layer}", "axes"], [f"u{layer}"]),
            oh.make_node("Add", [f"past{layer}", f"u{layer}"], [f"a{layer}"]),
            oh.make_node("Conv", [f"a{layer}", "k"], [f"c{layer}"], pads=[1, 1]),
            oh.make_node("ReduceSum", [f"c{layer}", "axes"], [f"s{layer}"], keepdims=0),
            oh.make_node("Concat", [f"s{layer}", f"s{layer}"], [f"g{layer}"], axis=1),
            oh.make_node("Add", [f"f{2 * layer}", f"g{layer}"], [f"h{layer}"]),
            oh.make_node("MatMul", [f"h{layer}", f"w{2 * layer + 1}"], [f"i{layer}"]),
            oh.make_node("Tanh", [f"i{layer}"], [f"t{layer}"]),
            oh.make_node("MatMul", [f"t{layer}", f"w{2 * layer + 2}"], [f"f{2 * layer + 2}"]),
        ]
    value = oh.make_tensor_value_info
    inputs = [
        value("x", 1, ["n", 8]),
        *(value(f"past{layer}", 1, ["n", 8, f"m{layer}"]) for layer in range(2)),
    ]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = oh.make_graph(nodes, "layers", inputs, [value("f4", 1, ["n", 8])], tensors)
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9)
    session, executable = session_of(model), li.compile(model)
    for length in (5, 6, 7):
        given = {"x": np.ones((2, 8), np.float32)}
        given |= {f"past{layer}": np.ones((2, 8, length), np.float32) * length for layer in range(2)}
        check(executable(given), session.run(None, given))
    program: Any = executable._latest()  # pyright: ignore[reportPrivateUsage]
    runs = [section.run for section in program.sections]
    assert len(runs) > len(set(runs))


def test_what_functions_of_layers_have_in_common_is_computed_once():
    from layout_ir.api.sectioned_program import cut
    from tests.api import language_model

    inputs = language_model.first_inputs(1, 3, 2)
    shapes = {name: array.shape for name, array in inputs.items()}
    grown = {name: (*shape[:2], 4, shape[3]) if len(shape) == 4 else shape for name, shape in shapes.items()}
    model = language_model.decoder(2)
    found = cut(model, shapes | {"mask": (1, 3)}, grown | {"mask": (1, 7)})
    assert found is not None
    nodes = [node for group in found.groups for node in group]
    said = [(node.op_type, *node.input, *map(str, node.attribute)) for node in nodes]
    assert len(said) == len(set(said))
    assert {name for node in nodes for name in node.output} >= {value.name for value in model.graph.output}


def test_negative_inputs_that_do_not_fit_are_refused(gpt2: tuple[Any, li.Executable]):
    model, executable = gpt2
    inputs = inputs_at(model, 24)
    with pytest.raises(LayoutError, match=r"'past\.0\.k' is float32"):
        executable({**inputs, "past.0.k": inputs["past.0.k"].astype(np.float64)})
    with pytest.raises(LayoutError, match="fails on"):
        executable({**inputs, "past.0.v": inputs["past.0.v"][:, :, :-1]})
    with pytest.raises(LayoutError, match="'mask' is missing"):
        executable({name: array for name, array in inputs.items() if name != "mask"})


def test_negative_a_model_is_not_cut_where_all_inputs_change(compiled: list[str]):
    model = decoder("gpt2")
    executable = li.compile(model)
    for earlier, new in ((3, 2), (4, 3)):
        executable(inputs_at(model, earlier, new))
    assert not executable.is_in_parts and len(compiled) == 2


def test_a_call_that_does_not_fit_keeps_no_model_from_being_cut():
    model = decoder("gpt2")
    executable = li.compile(model)
    executable(inputs_at(model, 3))
    inputs = inputs_at(model, 4)
    with pytest.raises(LayoutError):
        executable({**inputs, "past.0.v": inputs["past.0.v"][:, :, :-2]})
    executable(inputs)
    assert executable.is_in_parts


def test_negative_a_model_whose_function_is_of_another_version_stays_whole():
    import onnx.helper as oh

    # The axes of ReduceMean are an attribute in version 17, and an input in 18.
    body = [oh.make_node("ReduceMean", ["a"], ["m"], axes=[1]), oh.make_node("Add", ["a", "m"], ["b"])]
    own = oh.make_function("local", "Twice", ["a"], ["b"], body, [oh.make_opsetid("", 17)])
    nodes = [oh.make_node("Twice", ["x"], ["y"], domain="local"), oh.make_node("Neg", ["past"], ["z"])]
    value = oh.make_tensor_value_info
    inputs = [value("x", 1, [2, 8]), value("past", 1, [2, "m"])]
    graph = oh.make_graph(nodes, "net", inputs, [value("y", 1, [2, 8]), value("z", 1, [2, "m"])])
    opsets = [oh.make_opsetid("", 18), oh.make_opsetid("local", 1)]
    executable = li.compile(oh.make_model(graph, opset_imports=opsets, functions=[own], ir_version=9))
    for length in (2, 3):
        y, z = executable({"x": np.ones((2, 8), np.float32), "past": np.ones((2, length), np.float32)})
        assert (y == 2).all() and (z == -1).all() and z.shape == (2, length)
    assert not executable.is_in_parts


def test_a_softmax_of_an_old_version_is_not_that_of_the_reference():
    """Before opset 13 it goes over all dims from its axis on, which the onnx package does not know."""
    import onnx.helper as oh

    nodes = [oh.make_node("Softmax", ["past"], ["s"], axis=1)]
    nodes += [oh.make_node("Tanh", [f"x{k or ''}"], [f"x{k + 1}"]) for k in range(2)]
    value = oh.make_tensor_value_info
    inputs = [value("x", 1, [2, 8]), value("past", 1, [2, "m", 4])]
    graph = oh.make_graph(nodes, "net", inputs, [value("s", 1, None), value("x2", 1, None)])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 11)], ir_version=7)
    session, executable = session_of(model), li.compile(model)
    for length in (2, 3, 4):
        given = {"x": np.ones((2, 8), np.float32), "past": np.arange(8 * length, dtype=np.float32) * 0.1}
        given["past"] = given["past"].reshape(2, length, 4)
        check(executable(given), session.run(None, given))
    assert executable.is_in_parts


def test_negative_a_repeatable_model_is_not_cut_and_gives_equal_bits(compiled: list[str]):
    model = decoder("gpt2")
    executable = li.compile(model, repeatable=True)
    inputs = {earlier: inputs_at(model, earlier) for earlier in range(3, 3 + 17)}  # one more than are kept
    first = {earlier: executable(given) for earlier, given in inputs.items()}
    assert not executable.is_in_parts and len(compiled) == 17
    for ours, before in zip(executable(inputs[3]), first[3], strict=True):
        assert ours.tobytes() == before.tobytes()
    assert len(compiled) == 18
