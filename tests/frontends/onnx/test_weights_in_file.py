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
from layout_ir.frontends.onnx.weights_in_file import OpenWeights, open_model
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
    proto, weights = open_model(path)
    assert proto is not None and weights is not None and set(weights) == {"w"}
    assert [tensor.HasField("raw_data") for tensor in proto.graph.initializer] == [False, True]
    assert proto.ByteSize() < 4096
    for from_file, whole in zip(constants_of(path), constants_of(network()), strict=True):
        assert (from_file == whole).all()


def with_weights(proto: onnx.ModelProto, weights: dict[str, OpenWeights]) -> onnx.ModelProto:
    """The model with the weights that were left in its file."""
    for tensor in proto.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL and tensor.name in weights:
            tensor.raw_data = weights[tensor.name].read()
            tensor.ClearField("data_location")
    return proto


@pytest.mark.parametrize("name", ["light_shufflenet", "light_densenet121", "light_bvlc_alexnet"])
def test_all_else_of_a_file_is_as_it_was(name: str, tmp_path: Path):
    proto = onnx.ModelProto.FromString((NETWORK_FOLDER / f"{name}.onnx").read_bytes())
    for number in (1, 2, 7):
        tensor = proto.graph.initializer[number]
        tensor.raw_data = LARGE.tobytes()
        tensor.data_location = TensorProto.DEFAULT  # as some writers say
    proto.metadata_props.add(key="k", value="v" * 300)
    read, weights = open_model(written(proto, tmp_path))
    assert read is not None and weights is not None
    assert read.ByteSize() < proto.ByteSize() - 2.9 * LARGE.nbytes
    for tensor in proto.graph.initializer:
        tensor.ClearField("data_location")
    assert with_weights(read, weights) == proto


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
        read, weights = open_model(path)
        if read is not None and weights is not None:
            whole = onnx.ModelProto.FromString(bytes(text))
            for tensor in whole.graph.initializer:
                if not tensor.external_data:
                    tensor.ClearField("data_location")
            assert with_weights(read, weights).SerializeToString() == whole.SerializeToString()


@pytest.mark.parametrize("kind", ["small", "external", "two places", "many fields", "other"])
def test_negative_what_is_read_as_a_whole(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    proto = network()
    match kind:
        case "small":
            del proto.graph.initializer[0]
        case "external":
            proto.graph.initializer[0].external_data.add(key="location", value="w.bin")
        case _:
            pass
    path = written(proto, tmp_path)
    match kind:
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
    assert open_model(path) == (None, None)


@pytest.mark.parametrize("kind", ["link", "hard link", "name"])
def test_a_file_is_read_in_parts_whatever_its_name_is(kind: str, tmp_path: Path):
    path = written(network(), tmp_path, "réseau.onnx")
    match kind:
        case "link":
            path = tmp_path / "link.onnx"
            path.symlink_to(tmp_path / "réseau.onnx")
        case "hard link":
            os.link(path, tmp_path / "other.onnx")
        case _:
            pass
    _, weights = open_model(path)
    assert weights is not None and set(weights) == {"w"}
    assert (constants_of(path)[0] == LARGE.ravel()).all()


def _length(text: bytes) -> bytes:
    found = onnx.TensorProto(dims=[len(text)]).SerializeToString()  # a tag and the number
    return found[1:] if found[0] == 0x08 else found[2:]


@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_a_model_has_the_weights_that_its_file_had(change: str, tmp_path: Path):
    path = written(network(), tmp_path)
    loaded = load(path)
    path.unlink()
    if change == "replaced":
        other = network()
        other.graph.initializer[0].CopyFrom(numpy_helper.from_array(2 * LARGE, "w"))
        written(other, tmp_path)
    assert (loaded.array_of(loaded.graph.initializer[0], "w") == LARGE).all()


def test_negative_a_file_that_is_written_to_while_it_is_read(tmp_path: Path):
    path = written(network(), tmp_path)
    loaded = load(path)
    with path.open("r+b") as file:
        file.write(b"\x08")
    os.utime(path, ns=(1, 1))
    with pytest.raises(OnnxImportError, match=r"net\.onnx' was written to while its weights"):
        loaded.array_of(loaded.graph.initializer[0], "w")


def test_negative_a_file_that_is_not_there():
    with pytest.raises(OnnxImportError, match=r"cannot read 'no\.onnx': No such file"):
        load("no.onnx")


def test_weights_that_are_shorter_than_their_shape_are_named(tmp_path: Path):
    proto = network()
    proto.graph.initializer[0].dims[0] = 65
    with pytest.raises(OnnxImportError, match=r"initializer 'w' .*131072 bytes .*133120 are needed"):
        from_onnx(written(proto, tmp_path))


def test_how_small_weights_may_be_is_a_matter_of_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weights_in_file_module, "_LEAST", 1)
    path = written(network(), tmp_path)
    read, _ = open_model(path)
    assert read is not None and not any(tensor.HasField("raw_data") for tensor in read.graph.initializer)
    assert (constants_of(path)[1] == SMALL).all()


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
    path = written(network(), tmp_path)
    assert open_model(path, path.stat().st_size + 1) == (None, None)


def test_negative_what_is_no_model_is_not_kept_open(tmp_path: Path):
    (tmp_path / "net.onnx").write_bytes(b"\x0b" * 100_000)
    assert open_model(tmp_path / "net.onnx") == (None, None)


def test_a_file_is_open_as_long_as_its_weights_are_there(tmp_path: Path):
    _, weights = open_model(written(network(), tmp_path))
    assert weights is not None
    before = len(os.listdir("/proc/self/fd"))
    del weights
    assert len(os.listdir("/proc/self/fd")) == before - 1
