"""Of a file the message alone is read, and weights where they are asked for: the model is the same."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from layout_ir.dialects import nn
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx import weights_in_file as weights_in_file_module
from layout_ir.frontends.onnx.model import load
from layout_ir.frontends.onnx.weights_in_file import model_without_weights, open_model
from tests.frontends.onnx.models import NETWORK_FOLDER, model, node

LARGE = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
SMALL = np.arange(512, dtype=np.float32)


def network() -> onnx.ModelProto:
    """A product with large weights, and a sum with small ones."""
    nodes = [node("MatMul", "x w", "p"), node("Add", "p b")]
    return model(nodes, {"x": [4, 64]}, constants={"w": LARGE, "b": SMALL}, opset=17)


def written(proto: onnx.ModelProto, folder: Path, name: str = "net.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def constants_of(source: Any) -> list[NDArray[Any]]:
    found = [op.literal for op in from_onnx(source).walk() if isinstance(op, nn.ConstantOp)]
    return [np.frombuffer(each.data.data, np.float32) for each in found]


def test_a_model_has_the_weights_of_its_file(tmp_path: Path):
    path = written(network(), tmp_path)
    proto, weights = model_without_weights(path)
    assert proto is not None and weights is not None and weights.path == path
    assert [tensor.HasField("raw_data") for tensor in proto.graph.initializer] == [False, True]
    assert proto.ByteSize() < 4096
    for from_file, whole in zip(constants_of(path), constants_of(network()), strict=True):
        assert (from_file == whole).all()


def with_weights(proto: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """The model with the weights that it says are in the file."""
    for tensor in proto.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            said = {entry.key: entry.value for entry in tensor.external_data}
            start = int(said["offset"])
            tensor.raw_data = (folder / said["location"]).read_bytes()[start : start + int(said["length"])]
            tensor.ClearField("data_location")
            del tensor.external_data[:]
    return proto


@pytest.mark.parametrize("name", ["light_shufflenet", "light_densenet121", "light_bvlc_alexnet"])
def test_all_else_of_a_file_is_as_it_was(name: str, tmp_path: Path):
    proto = onnx.ModelProto.FromString((NETWORK_FOLDER / f"{name}.onnx").read_bytes())
    for number in (1, 2, 7):
        tensor = proto.graph.initializer[number]
        tensor.raw_data = LARGE.tobytes()
        tensor.data_location = TensorProto.DEFAULT  # as some writers say
    proto.metadata_props.add(key="k", value="v" * 300)
    read, _ = model_without_weights(written(proto, tmp_path))
    assert read is not None and read.ByteSize() < proto.ByteSize() - 2.9 * LARGE.nbytes
    for tensor in proto.graph.initializer:
        tensor.ClearField("data_location")
    assert with_weights(read, tmp_path) == proto


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_negative_a_damaged_file_is_read_as_a_whole_or_as_protobuf_reads_it(data: st.DataObject):
    text = bytearray(network().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 200) | st.integers(0, len(text) - 1))
        text[at] = data.draw(st.integers(0, 255))
    text = text[: data.draw(st.integers(0, len(text)) | st.just(len(text)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(text)
        read, _ = model_without_weights(path)
        if read is not None:
            whole = onnx.ModelProto.FromString(bytes(text))
            for tensor in whole.graph.initializer:
                if not tensor.external_data:
                    tensor.ClearField("data_location")
            assert with_weights(read, Path(folder)).SerializeToString() == whole.SerializeToString()


@pytest.mark.parametrize(
    "kind", ["small", "link", "hard link", "name", "external", "two places", "many fields", "other"]
)
def test_negative_what_external_data_may_not_be_in_is_read_as_a_whole(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    proto, name = network(), "net.onnx"
    match kind:
        case "small":
            del proto.graph.initializer[0]
        case "name":
            name = "réseau.onnx"
        case "external":
            proto.graph.initializer[0].external_data.add(key="location", value="w.bin")
        case _:
            pass
    path = written(proto, tmp_path, name)
    match kind:
        case "link":
            path = tmp_path / "link.onnx"
            path.symlink_to(tmp_path / name)
        case "hard link":
            os.link(path, tmp_path / "other.onnx")
        case "two places":
            text = proto.SerializeToString()
            tensor = TensorProto(raw_data=LARGE.tobytes()).SerializeToString()
            twice = proto.graph.initializer[0].SerializeToString() + tensor
            graph = onnx.GraphProto()
            graph.CopyFrom(proto.graph)
            del graph.initializer[:]
            graph_text = graph.SerializeToString() + b"\x2a" + _length(twice) + twice
            proto.ClearField("graph")
            text = proto.SerializeToString() + b"\x3a" + _length(graph_text) + graph_text
            path.write_bytes(text)
        case "many fields":
            monkeypatch.setattr(weights_in_file_module, "_MOST_FIELDS", 1000)
            path.write_bytes(proto.SerializeToString() + b"\x08\x0a" * 1000)
        case "other":
            path.write_bytes(b"\x0b" * 100_000)  # groups, which models have none of
        case _:
            pass
    assert model_without_weights(path) == (None, None)
    if kind in ("link", "hard link", "name"):
        assert (constants_of(path)[0] == LARGE.ravel()).all()


def _length(text: bytes) -> bytes:
    found = onnx.TensorProto(dims=[len(text)]).SerializeToString()  # a tag and the number
    return found[1:] if found[0] == 0x08 else found[2:]


@pytest.mark.parametrize("change", ["written", "replaced", "removed"])
def test_negative_a_file_that_changes_while_it_is_read(change: str, tmp_path: Path):
    path = written(network(), tmp_path)
    loaded = load(path)
    tensor = loaded.graph.initializer[0]
    assert (loaded.array_of(tensor, "w") == LARGE).all()
    if change == "written":
        with path.open("r+b") as file:
            file.write(b"\x08")
        os.utime(path, ns=(1, 1))
    else:
        path.unlink()
    if change == "replaced":
        other = network()
        other.graph.initializer[0].CopyFrom(numpy_helper.from_array(2 * LARGE, "w"))
        written(other, tmp_path)
        os.utime(path, ns=(1, 1))
    with pytest.raises(OnnxImportError, match=r"has changed while it was read|No such file"):
        loaded.array_of(tensor, "w")


def test_negative_a_file_that_is_not_there():
    with pytest.raises(OnnxImportError, match=r"cannot read 'no\.onnx': No such file"):
        load("no.onnx")


def test_weights_that_are_shorter_than_their_shape_are_named(tmp_path: Path):
    proto = network()
    proto.graph.initializer[0].dims[0] = 65
    with pytest.raises(OnnxImportError, match=r"initializer 'w' .*131072, .*need 133120 bytes"):
        from_onnx(written(proto, tmp_path))


def test_how_small_weights_may_be_is_a_matter_of_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weights_in_file_module, "_LEAST", 1)
    path = written(network(), tmp_path)
    read, _ = model_without_weights(path)
    assert read is not None and not any(tensor.HasField("raw_data") for tensor in read.graph.initializer)
    assert (constants_of(path)[1] == SMALL).all()


@pytest.fixture
def all_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_in_file_module, "_LEAST_OPEN", 1)


@pytest.mark.usefixtures("all_stay_open")
@pytest.mark.parametrize("change", ["none", "replaced", "removed", "renamed"])
def test_weights_of_an_open_file_are_those_that_it_had(change: str, tmp_path: Path):
    path = written(network(), tmp_path)
    proto, weights = open_model(path)
    assert proto is not None and weights is not None and set(weights) == {"w"}
    assert [tensor.HasField("raw_data") for tensor in proto.graph.initializer] == [False, True]
    match change:
        case "replaced":
            written(network(), tmp_path, "other.onnx").replace(path)
        case "removed":
            path.unlink()
        case "renamed":
            path.rename(tmp_path / "new.onnx")
        case _:
            pass
    assert weights["w"].nbytes == LARGE.nbytes
    assert weights["w"].read() == LARGE.tobytes()


@pytest.mark.usefixtures("all_stay_open")
@pytest.mark.parametrize("change", ["written", "shorter"])
def test_negative_an_open_file_is_not_written_to(change: str, tmp_path: Path):
    path = written(network(), tmp_path)
    _, weights = open_model(path)
    assert weights is not None
    if change == "written":
        with path.open("r+b") as file:
            file.write(b"\x08")
        os.utime(path, ns=(1, 1))
    else:
        os.truncate(path, 1000)
    with pytest.raises(OnnxImportError, match=r"net\.onnx' was written to while its weights"):
        weights["w"].read()


def test_negative_a_file_of_few_bytes_is_not_kept_open(tmp_path: Path):
    assert open_model(written(network(), tmp_path)) == (None, None)


@pytest.mark.usefixtures("all_stay_open")
def test_negative_what_is_no_model_is_not_kept_open(tmp_path: Path):
    (tmp_path / "net.onnx").write_bytes(b"\x0b" * 1000)
    assert open_model(tmp_path / "net.onnx") == (None, None)


@pytest.mark.usefixtures("all_stay_open")
def test_a_file_is_open_as_long_as_its_weights_are_there(tmp_path: Path):
    _, weights = open_model(written(network(), tmp_path))
    assert weights is not None
    before = len(os.listdir("/proc/self/fd"))
    del weights
    assert len(os.listdir("/proc/self/fd")) == before - 1
