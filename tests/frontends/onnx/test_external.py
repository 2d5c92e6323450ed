"""Tensors beside the model: what is read, and everything that may not be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

import layout_ir as li
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import constants_of, literal_of, model, node

WEIGHTS = np.arange(100, dtype=np.float32)


def write(
    folder: Path, location: str = "w.bin", data: bytes | None = None, *, dims: int = 100, **keys: str
) -> Path:
    """A model whose initializer is stored elsewhere; with `data`, that file too."""
    source = model([node("Add", "x w")], {"x": (dims,)})
    tensor = source.graph.initializer.add(
        name="w", dims=[dims], data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **keys}.items():
        tensor.external_data.add(key=key, value=value)
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(source.SerializeToString())
    if data is not None:
        place = folder / location
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return path


def read(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return literal_of(*constants_of(from_onnx(path)))


def test_weights_come_from_the_folder_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "there", data=WEIGHTS.tobytes())
    here = tmp_path / "here"
    here.mkdir()
    (here / "w.bin").write_bytes((WEIGHTS + 1000).tobytes())
    monkeypatch.chdir(here)
    np.testing.assert_array_equal(read(path), WEIGHTS)
    np.testing.assert_array_equal(read(Path("..", "there", "model.onnx")), WEIGHTS)
    monkeypatch.chdir(path.parent)
    np.testing.assert_array_equal(read(Path("model.onnx")), WEIGHTS)


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "a/w.bin", "a/b/./c/w.bin", "w..bin"])
def test_locations_in_and_below_the_folder(tmp_path: Path, location: str):
    np.testing.assert_array_equal(read(write(tmp_path, location, WEIGHTS.tobytes())), WEIGHTS)


def test_weights_and_constants_of_branches_come_from_the_folder_too(tmp_path: Path):
    tensor = onnx.numpy_helper.from_array(WEIGHTS, "w")
    negated = [node("Constant", "", "k", value=tensor), node("Neg", "k", "q")]
    result = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "pq"]
    choice = onnx.helper.make_node(
        "If",
        ["x"],
        ["y"],
        then_branch=onnx.helper.make_graph([node("Abs", "w", "p")], "then", [], result[:1], [tensor]),
        else_branch=onnx.helper.make_graph(negated, "else", [], result[1:]),
    )
    source = model([choice], {"x": ()}, element=onnx.TensorProto.BOOL)
    cast(Any, onnx).save_model(
        source,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
        convert_attribute=True,
    )
    module = from_onnx(tmp_path / "model.onnx")
    for condition, sign in ((True, 1), (False, -1)):
        (found,) = li.run(module, [np.array(condition)])
        np.testing.assert_array_equal(found, sign * WEIGHTS)


def test_offset_and_length(tmp_path: Path):
    data = b"\1" * 7 + WEIGHTS.tobytes() + b"\2" * 9
    np.testing.assert_array_equal(read(write(tmp_path, data=data, offset="7", length="400")), WEIGHTS)
    np.testing.assert_array_equal(read(write(tmp_path, data=data[:407], offset="7")), WEIGHTS)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"offset": "7"}, "has 393 bytes from offset 7 on, but its shape and element type need 400"),
        ({"offset": "9223372036854775807"}, "has 0 bytes from offset 9223372036854775807 on"),
        ({"offset": "99999999999999999999"}, "with offset '9+', which is no number of bytes"),
        ({"offset": "-4"}, "with offset '-4', which is no number of bytes"),
        ({"offset": "0x4"}, "with offset '0x4', which is no number of bytes"),
        ({"length": "396"}, "with length 396, but its shape and element type need 400 bytes"),
        ({"length": "1" * 19}, "with length 1+, but its shape and element type need 400 bytes"),
        ({"length": ""}, "with length '', which is no number of bytes"),
    ],
)
def test_negative_offset_and_length(tmp_path: Path, keys: dict[str, str], message: str):
    with pytest.raises(
        OnnxImportError, match=f"initializer 'w' is stored in the external file 'w.bin'.* {message}"
    ):
        from_onnx(write(tmp_path, data=WEIGHTS.tobytes(), **cast(Any, keys)))


def test_negative_longer_file_without_length(tmp_path: Path):
    with pytest.raises(OnnxImportError, match=r"has 404 bytes from offset 0 on, but .* need 400"):
        from_onnx(write(tmp_path, data=WEIGHTS.tobytes() + bytes(4)))


def test_negative_shape_that_would_not_fit_in_memory(tmp_path: Path):
    with pytest.raises(
        OnnxImportError, match=r"has 4 bytes from offset 0 on, but .* need 4611686018427387904"
    ):
        from_onnx(write(tmp_path, data=bytes(4), dims=2**60), shapes={"x": (1,)})


@pytest.mark.parametrize(
    "location", ["../w.bin", "a/../../w.bin", "/etc/hostname", "C:/w.bin", "//host/w", ".."]
)
def test_negative_locations_outside(tmp_path: Path, location: str):
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    with pytest.raises(OnnxImportError, match="the location must be a path inside the folder of the model"):
        from_onnx(write(tmp_path / "model", location))


@pytest.mark.parametrize("location", ["", ".", "w\0.bin"])
def test_negative_locations_that_name_no_file(tmp_path: Path, location: str):
    with pytest.raises(OnnxImportError, match="that is no name of a file"):
        from_onnx(write(tmp_path, location))


@pytest.mark.parametrize("text", [b"w.bin", b"location"])
def test_negative_texts_that_are_not_utf8(tmp_path: Path, text: bytes):
    path = write(tmp_path)
    contents = path.read_bytes()
    assert contents.count(text) == 1
    path.write_bytes(contents.replace(text, b"\xff" * len(text)))
    with pytest.raises(OnnxImportError, match="of its external data, which is not UTF-8"):
        from_onnx(path)


def test_negative_links(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(WEIGHTS.tobytes())
    folder = write(tmp_path / "model").parent
    (folder / "w.bin").symlink_to(outside / "w.bin")
    with pytest.raises(OnnxImportError, match="links are not followed"):
        from_onnx(folder / "model.onnx")
    (folder / "a").symlink_to(outside)
    with pytest.raises(OnnxImportError, match="links are not followed"):
        from_onnx(write(folder, "a/w.bin"))
    os.link(outside / "w.bin", folder / "hard.bin")
    with pytest.raises(OnnxImportError, match=r"it has 2 names \(hard links\), of which one may be outside"):
        from_onnx(write(folder, "hard.bin"))


def test_negative_files_that_are_not_regular(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OnnxImportError, match=r"it is no regular file"):
        from_onnx(write(tmp_path, "folder"))
    os.mkfifo(tmp_path / "fifo")  # would wait for ever
    with pytest.raises(OnnxImportError, match="it is no regular file"):
        from_onnx(write(tmp_path, "fifo"))


def test_negative_entries_twice(tmp_path: Path):
    path = write(tmp_path, data=WEIGHTS.tobytes())
    source = onnx.ModelProto.FromString(path.read_bytes())
    source.graph.initializer[0].external_data.add(key="location", value="other")
    path.write_bytes(source.SerializeToString())
    with pytest.raises(
        OnnxImportError, match="initializer 'w' says the 'location' of its external data twice"
    ):
        from_onnx(path)


def test_attributes_may_be_stored_outside(tmp_path: Path):
    write(tmp_path, data=WEIGHTS.tobytes())
    constant = node("Constant", "", "w", value=onnx.numpy_helper.from_array(WEIGHTS))
    tensor = constant.attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(model([constant, node("Add", "x w")], {"x": (100,)}).SerializeToString())
    np.testing.assert_array_equal(read(path), WEIGHTS)
