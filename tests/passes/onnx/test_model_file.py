"""Models and their external data, in and out."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx import OnnxImportError, weights_in_file
from layout_ir.frontends.onnx import model as model_reading
from layout_ir.passes.onnx.model_file import ALIGNMENT
from layout_ir.tools.layout_ir import main
from tests.passes.onnx.optimized import compare, initializer, model_of, random_feeds, transpose, value
from tests.passes.onnx.random_models import random_model
from tests.processes import run_python

W = np.random.default_rng(0).standard_normal((6, 3, 2, 4)).astype(np.float32)


def _model() -> onnx.ModelProto:
    """A convolution whose spatial dims are turned, beside a constant that stays as it is."""
    nodes = [
        transpose("x", "t", 0, 1, 3, 2),
        oh.make_node("Conv", ["t", "w"], ["c"]),
        transpose("c", "d", 0, 1, 3, 2),
    ]
    nodes.append(oh.make_node("Add", ["d", "b"], ["y"]))
    bias = initializer("b", np.arange(6, dtype=np.float32).reshape(6, 1, 1))
    return model_of(nodes, [value("x", 2, 3, 9, 7)], [value("y", 2, 6, 6, 6)], [initializer("w", W), bias])


def _stored(model: onnx.ModelProto, folder: Path, location: str = "weights.bin") -> Path:
    """The file of a model whose weights are beside it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    folder.mkdir(exist_ok=True)
    onnx.save_model(  # pyright: ignore[reportUnknownMemberType]
        copy, folder / "model.onnx", save_as_external_data=True, location=location, size_threshold=0
    )
    return folder / "model.onnx"


def _external(model: onnx.ModelProto) -> dict[str, dict[str, str]]:
    return {
        t.name: {e.key: e.value for e in t.external_data} for t in model.graph.initializer if t.data_location
    }


def test_weights_beside_the_model_are_turned_in_the_file_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = _model()
    result = li.optimize_onnx(_stored(model, tmp_path / "in"))
    assert result.after.count == 0
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "better.onnx"
    result.save(path)
    assert sorted(os.listdir(tmp_path / "out")) == ["better.onnx", "better.onnx.data"]
    bare = onnx.load(path, load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
    for entry in _external(bare).values():
        assert entry["location"] == "better.onnx.data"
        assert int(entry["offset"]) % ALIGNMENT == 0
    written = onnx.load(path)  # pyright: ignore[reportUnknownMemberType]
    compare(model, written, random_feeds(model), result, 1e-4)
    # In memory, what did not change is still in the files that the model came with.
    monkeypatch.chdir(tmp_path / "in")
    compare(model, result.model, random_feeds(model), result, 1e-4)
    turned = next(t for t in written.graph.initializer if t.dims == [6, 3, 4, 2])
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(turned), W.transpose(0, 1, 3, 2))
    again = li.optimize_onnx(path)
    assert (again.after.count, len(again.pending)) == (0, 0)


@pytest.fixture
def weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any model whose file is given, the weights stay in it; shapes, which decide something, do not."""
    monkeypatch.setattr(weights_in_file, "_LEAST", 80)
    monkeypatch.setattr(model_reading, "LARGE", 1)


@pytest.mark.usefixtures("weights_stay")
@pytest.mark.parametrize("change", ["none", "replaced", "removed", "saved over"])
@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_weights_go_from_the_file_of_a_model_into_the_one_that_is_written(
    target: str, change: str, tmp_path: Path
):
    model = _model()
    model.graph.initializer[0].doc_string = "weights"
    wanted = li.optimize_onnx(model, target).model
    path = tmp_path / "in.onnx"
    path.write_bytes(model.SerializeToString())
    result = li.optimize_onnx(path, target)
    assert len(result.pending) == 2 and result.stored.ByteSize() < wanted.ByteSize() - 500
    match change:
        case "replaced":
            path.with_name("other.onnx").write_bytes(b"no model")
            path.with_name("other.onnx").replace(path)
        case "removed":
            path.unlink()
        case _:
            pass
    out = path if change == "saved over" else tmp_path / "out.onnx"
    result.save(out)
    assert onnx.ModelProto.FromString(out.read_bytes()) == wanted
    assert result.model == wanted
    result.save(out)
    assert onnx.ModelProto.FromString(out.read_bytes()) == wanted


@pytest.mark.usefixtures("weights_stay")
@pytest.mark.parametrize("seed", range(12))
def test_where_weights_are_changes_nothing_of_what_is_chosen(seed: int, tmp_path: Path):
    model, _ = random_model(Random(seed))
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    for target in ("onnx", "ort-cpu"):
        result, wanted = (li.optimize_onnx(source, target) for source in (tmp_path / "in.onnx", model))
        assert (result.before, result.after) == (wanted.before, wanted.after)
        assert result.model == wanted.model


@pytest.mark.usefixtures("weights_stay")
def test_weights_beside_the_model_and_in_it_stay_where_they_are(tmp_path: Path):
    model = _model()
    path = _stored(model, tmp_path / "in")
    stored = onnx.load(path, load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
    more = np.arange(60, dtype=np.float32).reshape(5, 6, 2)
    stored.graph.initializer.append(initializer("v", more))
    stored.graph.node.extend([transpose("v", "vt", 0, 2, 1), oh.make_node("MatMul", ["vt", "u"], ["z"])])
    stored.graph.input.append(value("u", 6, 1))
    stored.graph.output.append(value("z", 5, 2, 1))
    path.write_bytes(stored.SerializeToString())
    result = li.optimize_onnx(path)
    assert (result.before.count, result.after.count) == (3, 0)
    result.save(tmp_path / "out.onnx")
    bare = onnx.load(tmp_path / "out.onnx", load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
    assert len(_external(bare)) == 2
    inside = [t for t in bare.graph.initializer if not t.data_location]
    assert any(onnx.numpy_helper.to_array(t).tobytes() == more.transpose(0, 2, 1).tobytes() for t in inside)
    whole = onnx.load(path)  # pyright: ignore[reportUnknownMemberType]
    compare(whole, onnx.load(tmp_path / "out.onnx"), random_feeds(whole), result, 1e-4)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.usefixtures("weights_stay")
def test_weights_that_do_not_fill_their_shape_go_out_as_they_came(tmp_path: Path):
    """Of what nobody turns, nobody says anything."""
    model = _model()
    model.graph.initializer[1].raw_data += bytes(300)
    model.graph.node[3].op_type, model.graph.node[3].domain = "Mine", "my"
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    result = li.optimize_onnx(tmp_path / "in.onnx")
    result.save(tmp_path / "out.onnx")
    out = onnx.ModelProto.FromString((tmp_path / "out.onnx").read_bytes())
    kept = next(tensor for tensor in out.graph.initializer if tensor.name == "b")
    assert kept == model.graph.initializer[1]
    assert out == result.model


@pytest.mark.usefixtures("weights_stay")
def test_negative_a_file_that_is_written_to_before_its_weights_were_read(tmp_path: Path):
    path = tmp_path / "in.onnx"
    path.write_bytes(_model().SerializeToString())
    result = li.optimize_onnx(path)
    path.write_bytes(path.read_bytes() + b"\x00")
    with pytest.raises(OnnxImportError, match=r"in\.onnx' was written to while its weights"):
        result.save(tmp_path / "out.onnx")
    assert os.listdir(tmp_path) == ["in.onnx"]
    with pytest.raises(OnnxImportError, match=r"in\.onnx' was written to while its weights"):
        _ = result.model


def test_a_file_has_all_that_the_model_has(tmp_path: Path):
    weights = [initializer(f"w{k}", np.arange(k * 40, dtype=np.float32).reshape(k, 40)) for k in range(2, 10)]
    nodes = [
        transpose("x", "a", 1, 0),
        *(oh.make_node("MatMul", [f"w{k}", "a"], [f"y{k}"]) for k in range(2, 10)),
    ]
    model = model_of(nodes, [value("x", 3, 40)], [value(f"y{k}", k, 3) for k in range(2, 10)], weights)
    oh.set_model_props(model, {"author": "somebody", "note": "x" * 300})
    model.producer_name, model.model_version, model.doc_string = "producer", 7, "of all kinds"
    model.graph.doc_string = "a graph"
    model.graph.value_info.append(value("a", 40, 3))
    result = li.optimize_onnx(model)
    result.save(tmp_path / "model.onnx")
    read = onnx.ModelProto.FromString((tmp_path / "model.onnx").read_bytes())
    assert read == result.model
    assert (read.producer_name, read.model_version, len(read.graph.initializer)) == ("producer", 7, 8)


def test_weights_of_subgraphs_are_turned_too(tmp_path: Path):
    inner = [transpose("v", "vt", 1, 0), oh.make_node("Add", ["x", "vt"], ["o"])]
    weights = initializer("v", np.arange(6, dtype=np.float32).reshape(3, 2))
    branch = oh.make_graph(inner, "then", [], [value("o", 2, 3)], [weights])
    other = oh.make_graph([oh.make_node("Neg", ["x"], ["n"])], "else", [], [value("n", 2, 3)])
    nodes = [oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    test = value("c", dtype=onnx.TensorProto.BOOL)
    model = model_of(nodes, [value("x", 2, 3), test], [value("y", 2, 3)])
    feeds = {"x": np.ones((2, 3), np.float32), "c": np.array(True)}
    result = li.optimize_onnx(_stored(model, tmp_path / "in"))
    assert (result.before.count, result.after.count) == (1, 0)
    result.save(tmp_path / "out.onnx")
    compare(model, onnx.load(tmp_path / "out.onnx"), feeds, result, 0)  # pyright: ignore[reportUnknownMemberType]
    then_branch = next(a for a in result.model.graph.node[0].attribute if a.name == "then_branch")
    assert not then_branch.g.initializer[0].data_location
    compare(model, result.model, feeds, result, 0)


def test_data_of_functions_go_along(tmp_path: Path):
    """Where the model that is written lies, a file of that name may hold something else."""
    weights = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=(4,))
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights")
    body = [
        oh.make_node("Constant", [], ["w"], value=weights),
        oh.make_node("Unknown", ["a", "w"], ["b"], domain="nowhere"),
    ]
    imports = [oh.make_opsetid("", 17), oh.make_opsetid("nowhere", 1), oh.make_opsetid("here", 1)]
    function = oh.make_function("here", "F", ["a"], ["b"], body, imports[:2])
    values = [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (4,)) for name in "xy"]
    graph = oh.make_graph([oh.make_node("F", ["x"], ["y"], domain="here")], "g", values[:1], values[1:])
    model = oh.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    source, target = tmp_path / "source", tmp_path / "target"
    for folder, first in ((source, 0), (target, 9)):
        folder.mkdir()
        np.arange(first, first + 4, dtype=np.float32).tofile(folder / "weights")
    (source / "net.onnx").write_bytes(model.SerializeToString())
    li.optimize_onnx(source / "net.onnx").save(target / "net.onnx")
    (written,) = onnx.ModelProto.FromString((target / "net.onnx").read_bytes()).functions
    tensor = written.node[0].attribute[0].t
    assert [entry.value for entry in tensor.external_data] == ["net.onnx.data", "0", "16"]
    np.testing.assert_array_equal(np.fromfile(target / "net.onnx.data", np.float32)[:4], range(4))


@pytest.mark.parametrize("break_it", ["missing", "truncated", "outside", "link"])
def test_negative_data_that_cannot_be_read(tmp_path: Path, break_it: str, capsys: pytest.CaptureFixture[str]):
    path = _stored(_model(), tmp_path / "in")
    data = path.parent / "weights.bin"
    match break_it:
        case "missing":
            data.unlink()
        case "truncated":
            data.write_bytes(data.read_bytes()[:100])
        case "outside":
            text = path.read_bytes().replace(b"weights.bin", b"../else.bin")
            (tmp_path / "else.bin").write_bytes(data.read_bytes())
            path.write_bytes(text)
        case _:
            data.rename(tmp_path / "else.bin")
            data.symlink_to(tmp_path / "else.bin")
    better = tmp_path / "better.onnx"
    assert main(["optimize", str(path), "--target", "onnx", "-o", str(better)]) == 1
    said = capsys.readouterr().err
    assert "external file" in said and "Traceback" not in said
    assert sorted(os.listdir(tmp_path)) == [*(["else.bin"] if break_it in ("outside", "link") else []), "in"]
    with pytest.raises(LayoutError, match="external file"):
        _ = li.optimize_onnx(path).model.SerializeToString()


def test_negative_files_that_are_cut_are_no_models(tmp_path: Path):
    data = _model().SerializeToString()
    path = tmp_path / "model.onnx"
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        try:
            result = li.optimize_onnx(path)
            result.save(tmp_path / "out.onnx")
        except LayoutError:
            continue
        # Cut where a message ends: what is there is a model.
        onnx.load(tmp_path / "out.onnx")  # pyright: ignore[reportUnknownMemberType]


_LARGE = """
    import resource, sys
    import onnx, onnx.helper as oh
    import layout_ir as li

    onnx.load  # its memory is no matter of the model
    resource_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = li.optimize_onnx(sys.argv[1])
    result.save(sys.argv[2])
    assert result.after.count == 0, result.after
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resource_before) << 10)
"""


@pytest.mark.slow
def test_a_model_of_more_than_two_gibibytes(tmp_path: Path):
    """Weights in a sparse file; what it takes in memory is twice the largest of them."""
    status = os.statvfs(tmp_path)
    if status.f_bavail * status.f_frsize < 6 << 30:
        pytest.skip("needs 6 GiB of disk")
    count, rows = 10, 8192
    size = rows * rows * 4
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    last = "x"
    for number in range(count):
        tensor = onnx.TensorProto(name=f"w{number}", dims=[rows, rows], data_type=onnx.TensorProto.FLOAT)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (("location", "w.bin"), ("offset", number * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(text))
        weights.append(tensor)
        nodes.append(transpose(f"w{number}", f"t{number}", 1, 0))
        nodes.append(oh.make_node("MatMul", [last, f"t{number}"], [f"y{number}"]))
        last = f"y{number}"
    model = model_of(nodes, [value("x", 1, rows)], [value(last, 1, rows)], weights)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(count * size)
        file.seek(4)
        file.write(np.float32(7).tobytes())
    out = tmp_path / "better.onnx"
    run = run_python("-c", textwrap.dedent(_LARGE), tmp_path / "model.onnx", out)
    assert int(run.stdout) <= 2 * size + (64 << 20)
    assert os.path.getsize(f"{out}.data") >= count * size
    with open(f"{out}.data", "rb") as file:
        file.seek(4 * rows)
        # Element (0, 1) of the first weights is element (1, 0) now.
        assert np.frombuffer(file.read(4), np.float32) == [7]
