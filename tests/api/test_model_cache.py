"""A model that was compiled once is read from a folder, by other processes too, and only where nothing differs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from tests.api.test_compiling import open_model, outputs_of
from tests.backends.onednn.small_programs import Program, needs_library, numbers
from tests.processes import run_python

pytestmark = needs_library


def model(seed: int = 0) -> Any:
    """A convolution with a ReLU on a picture of 3x8x8."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", floats, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", floats, (1, 8, 6, 6))],
        [onnx.numpy_helper.from_array(numbers((8, 3, 3, 3), seed), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(executable: li.Executable, source: Any, x: np.ndarray[Any, Any]) -> None:
    (found,) = executable({"x": x})
    np.testing.assert_allclose(found, outputs_of(source, {"x": x})[0], rtol=0, atol=1e-5)


def seen_by(monkeypatch: pytest.MonkeyPatch, method: str, argument: int) -> list[Any]:
    """An argument of all calls of a method of `Compilation` from now on."""
    from layout_ir.api.compilation import Compilation

    seen: list[Any] = []
    called = getattr(Compilation, method)

    def counted(*arguments: Any, **named: Any) -> Any:
        seen.append(arguments[argument])
        return called(*arguments, **named)

    monkeypatch.setattr(Compilation, method, counted)
    return seen


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes of the models that were compiled, and not read."""
    return seen_by(monkeypatch, "compiled", 3)


@pytest.fixture
def compiled_parts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were compiled, and not read."""
    return seen_by(monkeypatch, "runnable", 1)


@pytest.mark.parametrize("form", ["file", "bytes", "proto"])
def test_the_second_time_it_is_read(tmp_path: Path, compiled: list[Any], form: str):
    source, x, folder = model(), numbers((1, 3, 8, 8), 1), tmp_path / "deep" / "compiled"
    given: Any = source
    if form != "proto":
        given = source.SerializeToString()
    if form == "file":
        (tmp_path / "net.onnx").write_bytes(given)
        given = tmp_path / "net.onnx"
    for _ in range(2):
        check(li.compile(given, cache_dir=folder), source, x)
    assert compiled == [None]
    assert len(list(folder.iterdir())) == 1


def test_another_process_imports_no_compiler(tmp_path: Path):
    path = tmp_path / "net.onnx"
    path.write_bytes(model().SerializeToString())
    li.compile(path, cache_dir=tmp_path / "compiled")
    code = (
        "import sys, numpy, layout_ir as li\n"
        f"executable = li.compile({str(path)!r}, cache_dir={str(tmp_path / 'compiled')!r})\n"
        "executable([numpy.ones((1, 3, 8, 8), numpy.float32)])\n"
        "from layout_ir.backends.llvm.runtime.object_linker import CAN_LINK\n"
        "assert not {'xdsl.ir', 'onnx', *(['llvmlite'] if CAN_LINK else [])} & set(sys.modules)"
    )
    run_python("-c", code)


def test_each_size_of_an_open_batch_is_kept(tmp_path: Path, compiled: list[Any]):
    source = open_model()
    for _ in range(2):
        executable = li.compile(source, cache_dir=tmp_path)
        for batch in (1, 4):
            check(executable, source, numbers((batch, 3, 8, 8), batch))
    assert compiled == [{"x": (1, 3, 8, 8)}, {"x": (4, 3, 8, 8)}]


def parts(seed: int = 0) -> Any:
    """A convolution, which of its channels have more than 2.55 in the mean, and a matrix product of these."""
    onnx = pytest.importorskip("onnx")
    helper, source = onnx.helper, model(seed)
    graph = source.graph
    graph.node.extend(
        [
            helper.make_node("ReduceMean", ["y"], ["m"], axes=[0, 2, 3], keepdims=0),
            helper.make_node("Greater", ["m", "limit"], ["is_chosen"]),
            helper.make_node("NonZero", ["is_chosen"], ["places"]),
            helper.make_node("Reshape", ["places", "flat"], ["rows"]),
            helper.make_node("Gather", ["y", "rows"], ["g"], axis=1),
            helper.make_node("MatMul", ["g", "v"], ["z"]),
        ]
    )
    constants = {"limit": np.array(2.55, np.float32), "flat": np.array([-1]), "v": numbers((6, 5), 3) / 64}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name="z"))
    return source


def test_parts_of_a_model_are_kept_for_the_sizes_that_came_first(tmp_path: Path, compiled_parts: list[Any]):
    source = parts()
    few, many = numbers((1, 3, 8, 8), 1), 3 * numbers((1, 3, 8, 8), 1)
    sizes = [outputs_of(source, {"x": x})[0].shape[1] for x in (few, many)]
    assert 0 < sizes[0] < sizes[1]
    check(li.compile(source, cache_dir=tmp_path), source, few)
    names, first = sorted(tmp_path.iterdir()), len(compiled_parts)
    assert len(names) == first > 1
    executable = li.compile(source, cache_dir=tmp_path)
    check(executable, source, few)
    assert len(compiled_parts) == first
    for _ in range(3):
        check(executable, source, many)
    assert len(compiled_parts) > first
    assert sorted(tmp_path.iterdir()) == names


def test_negative_parts_of_another_model_are_compiled_unless_they_are_the_same(
    tmp_path: Path, compiled_parts: list[Any]
):
    x = numbers((1, 3, 8, 8), 1)
    # What follows the convolution has the same weights in both, and sizes that differ for this input.
    for seed, count in ((0, 2), (1, 4), (0, 4)):
        check(li.compile(parts(seed), cache_dir=tmp_path), parts(seed), x)
        assert len(compiled_parts) == count


def test_negative_a_damaged_part_is_written_anew(tmp_path: Path, compiled_parts: list[Any]):
    source, x = parts(), numbers((1, 3, 8, 8), 1)
    check(li.compile(source, cache_dir=tmp_path), source, x)
    count = len(compiled_parts)
    for kept in list(tmp_path.iterdir()):
        whole = kept.read_bytes()
        kept.write_bytes(whole[:-1])
        check(li.compile(source, cache_dir=tmp_path), source, x)
        assert kept.read_bytes() == whole
    assert len(compiled_parts) == 2 * count


def test_negative_another_model_or_setting_is_compiled(tmp_path: Path, compiled: list[Any]):
    x = numbers((1, 3, 8, 8), 1)
    li.compile(model(), cache_dir=tmp_path)
    check(li.compile(model(1), cache_dir=tmp_path), model(1), x)
    check(li.compile(model(), threads=2, cache_dir=tmp_path), model(), x)
    check(li.compile(model(), fuse=False, cache_dir=tmp_path), model(), x)
    assert len(compiled) == 4


def test_negative_other_external_data_are_another_model(tmp_path: Path, compiled: list[Any]):
    onnx = pytest.importorskip("onnx")
    path, x = tmp_path / "net.onnx", numbers((1, 3, 8, 8), 1)
    for seed in (0, 1, 1):
        source = model(seed)
        (tmp_path / "weights").unlink(missing_ok=True)
        # The model file is the same each time.
        onnx.save_model(
            onnx.ModelProto.FromString(source.SerializeToString()),
            path,
            save_as_external_data=True,
            location="weights",
            size_threshold=0,
        )
        check(li.compile(path, cache_dir=tmp_path / "compiled"), source, x)
    assert len(compiled) == 2


def test_negative_other_external_data_of_a_function_are_another_model(tmp_path: Path, compiled: list[Any]):
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = onnx.TensorProto(name="w", data_type=floats, dims=(4,), data_location=onnx.TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="weights")
    body = [
        helper.make_node("Constant", [], ["w"], value=weights),
        helper.make_node("Add", ["a", "w"], ["b"]),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("here", 1)]
    values = [helper.make_tensor_value_info(name, floats, (4,)) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("F", ["x"], ["y"], domain="here")], "g", values[:1], values[1:]
    )
    function = helper.make_function("here", "F", ["a"], ["b"], body, imports[:1])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8), path)
    for value in (1, 2, 2):
        np.full(4, value, np.float32).tofile(tmp_path / "weights")
        (found,) = li.compile(path, cache_dir=tmp_path / "compiled")([np.zeros(4, np.float32)])
        np.testing.assert_array_equal(found, value)
    assert len(compiled) == 2


def test_negative_a_file_that_was_kept_for_another_model_is_written_anew(tmp_path: Path, compiled: list[Any]):
    sources, x = [model(0), model(1)], numbers((1, 3, 8, 8), 1)
    for source in sources:
        li.compile(source, cache_dir=tmp_path)
    first, second = sorted(tmp_path.iterdir())
    whole = first.read_bytes()
    first.write_bytes(second.read_bytes())
    for source in sources:
        check(li.compile(source, cache_dir=tmp_path), source, x)
    assert first.read_bytes() == whole
    assert len(compiled) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_negative_what_has_the_name_of_a_file_and_is_none_is_an_error_and_not_waited_for(tmp_path: Path):
    li.compile(model(), cache_dir=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.unlink()
    for make in (os.mkfifo, os.mkdir):
        make(kept)
        with pytest.raises(FileExistsError, match="this is no file") as raised:
            li.compile(model(), cache_dir=tmp_path)
        assert raised.value.filename == str(kept)
        kept.rmdir() if kept.is_dir() else kept.unlink()


def test_negative_a_damaged_file_is_written_anew(tmp_path: Path, compiled: list[Any]):
    source, x = model(), numbers((1, 3, 8, 8), 1)
    li.compile(source, cache_dir=tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        kept.write_bytes(damaged)
        check(li.compile(source, cache_dir=tmp_path), source, x)
        assert kept.read_bytes() == whole
    assert len(compiled) == 5


def test_negative_what_cannot_be_saved_is_compiled_each_time(tmp_path: Path, compiled: list[Any]):
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", floats, (2, 3, 3))],
        [helper.make_tensor_value_info("y", floats, (2,))],
    )
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = numbers((2, 3, 3), 1)
    for _ in range(2):
        executable = li.compile(source, cache_dir=tmp_path)
        assert executable.fallbacks
        np.testing.assert_allclose(executable([x])[0], np.linalg.det(x), rtol=1e-4)
    assert len(compiled) == 2 and not list(tmp_path.iterdir())


def test_negative_what_is_no_model_is_an_error_as_without_a_folder(tmp_path: Path):
    elsewhere, path = model(), tmp_path / "net.onnx"
    weights = elsewhere.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = weights.EXTERNAL
    weights.external_data.add(key="location", value="a\0b")
    path.write_bytes(elsewhere.SerializeToString())
    for wrong in (tmp_path / "none.onnx", b"no model", path):
        with pytest.raises(LayoutError) as without:
            li.compile(wrong)
        with pytest.raises(LayoutError) as with_folder:
            li.compile(wrong, cache_dir=tmp_path / "compiled")
        assert str(with_folder.value) == str(without.value)


def test_negative_modules_and_targets_without_names_are_refused(tmp_path: Path):
    program = Program((1, 8))
    with pytest.raises(LayoutError, match="is for ONNX models"):
        li.compile(program.module(program.argument(0, "ab")), cache_dir=tmp_path)
    from layout_ir.passes.selection.options.targets import find_target

    with pytest.raises(LayoutError, match="targets that have a name"):
        li.compile(model(), find_target("onednn"), cache_dir=tmp_path)
