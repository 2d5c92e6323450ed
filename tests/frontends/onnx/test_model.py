"""Reading of files: what is accepted, and every way in which a file can be wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import layout_ir as li
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx.model import load
from tests.frontends.onnx.models import (
    NETWORK_FOLDER,
    constants_of,
    literal_of,
    model,
    node,
    only,
    shape_of,
)

X = {"x": (1, 3, 8, 8)}
B = np.array([2, 3, 5], np.float32)


def test_models_come_as_bytes_path_or_proto(tmp_path: Path):
    source = model([node("Relu", "x")], X)
    path = tmp_path / "model.onnx"
    path.write_bytes(source.SerializeToString())
    texts = {str(from_onnx(form)) for form in (source, source.SerializeToString(), path, str(path))}
    assert len(texts) == 1


def test_external_data(tmp_path: Path):
    array = np.arange(100, dtype=np.float32)
    source = model([node("Add", "x w")], {"x": (100,)}, constants={"w": array})
    path = tmp_path / "model.onnx"
    save = cast(Any, onnx).save
    save(source, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.testing.assert_array_equal(literal_of(*constants_of(from_onnx(path))), array)
    with pytest.raises(
        OnnxImportError, match=r"initializer 'w' is stored in the external file 'weights\.bin'; give"
    ):
        from_onnx(path.read_bytes())
    (tmp_path / "weights.bin").write_bytes(bytes(40))
    with pytest.raises(OnnxImportError, match="initializer 'w'"):
        from_onnx(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(OnnxImportError, match=r"external file 'weights\.bin', which cannot be read from"):
        from_onnx(path)


@pytest.mark.parametrize("element", ["float16", "float64", "int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("raw", [False, True])
def test_element_types_and_storage(element: str, raw: bool):
    array = np.array([0, 1, 1, 0, 1, 1]).astype(element)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    values = array.tobytes() if raw else array.tolist()
    source = model([], {}, ["w"])
    source.graph.initializer.append(helper.make_tensor("w", kind, [2, 3], values, raw=raw))
    (op,) = constants_of(from_onnx(source))
    assert op.literal.data.data == array.tobytes()


def test_bf16_constants():
    bits = np.array([0x3F80, 0xC040, 0x7F80], np.uint16)
    source = model([], {}, ["w"])
    source.graph.initializer.append(
        helper.make_tensor("w", TensorProto.BFLOAT16, [3], bits.tobytes(), raw=True)
    )
    (op,) = constants_of(from_onnx(source))
    assert op.literal.data.data == bits.tobytes()
    assert str(op.literal.type) == "tensor<3xbf16>"


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (
            ("N", 3),
            r"dim 0 'N' of input 'x' is dynamic; give the shape: --shape x=1x3 \(in Python shapes=\{'x': \(1, 3\)\}\)",
        ),
        ((2, None), r"dim 1 of input 'x' is dynamic; give the shape: --shape x=2x128 \("),
        (
            ("batch", 3, "height", None),
            r"dims 0 'batch', 2 'height', 3 of input 'x' are dynamic; give the shape: --shape x=1x3x224x224",
        ),
        (
            (-1,),
            r"dim 0 of input 'x' is dynamic; give the shape: --shape x=1 \(in Python shapes=\{'x': \(1,\)\}\)",
        ),
    ],
)
def test_negative_dynamic_shape(dims: Any, message: str):
    source = model([node("Relu", "x")], {"x": dims})
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(source)
    shape = tuple(range(2, 2 + len(dims)))
    assert shape_of(only(source, shapes={"x": shape})) == shape


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2,)}, r"rank mismatch between shapes\['x'\] = \(2,\) and input 'x': 1 != 2"),
        ({"x": (2, -1)}, r"shapes\['x'\] = \(2, -1\) has a negative extent"),
        ({"z": (2, 3)}, "shapes names 'z', which is no input of the model; its inputs: 'x'"),
    ],
)
def test_negative_shapes(shapes: Any, message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(model([node("Relu", "x")], {"x": ("N", 3)}), shapes=shapes)


def test_negative_all_dynamic_inputs_are_told_at_once():
    source = model([node("Add", "x m")], {"x": ("batch", "seq"), "m": ("batch", 1), "b": (1,)})
    options = r"--shape x=1x128 --shape m=1x1 \(in Python shapes=\{'x': \(1, 128\), 'm': \(1, 1\)\}\)"
    with pytest.raises(
        OnnxImportError, match=f"of input 'x' .*; dim 0 'batch' of input 'm' .* shapes: {options}"
    ):
        from_onnx(source)


def test_negative_input_without_shape():
    source = model([node("Relu", "x")], {"x": ()})
    source.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        OnnxImportError,
        match=r"input 'x' has no shape; give the shape: --shape x=\.\.\. \(in Python shapes=\{'x': \(\.\.\.\)\}",
    ):
        from_onnx(source)
    assert shape_of(only(source, shapes={"x": (2, 3)})) == (2, 3)


def test_negative_element_types():
    for kind, message in (
        (TensorProto.STRING, "input 'x' has element type string; only numbers are supported"),
        (TensorProto.COMPLEX64, "input 'x' has element type complex64; supported are float16, bfloat16"),
    ):
        with pytest.raises(OnnxImportError, match=message):
            from_onnx(model([node("Identity", "x")], X, element=kind))


def test_negative_input_that_is_no_tensor():
    source = model([node("Identity", "x")], X)
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    source.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(element))
    with pytest.raises(OnnxImportError, match="input 'x' is no tensor but sequence_type"):
        from_onnx(source)


def test_negative_files(tmp_path: Path):
    good = (NETWORK_FOLDER / "light_squeezenet.onnx").read_bytes()
    for name, data, message in (
        ("empty", b"", "is empty: 0 bytes are no ONNX model"),
        ("truncated", good[: len(good) // 2], "is not an ONNX model, or is truncated"),
        ("text", b"#!/bin/sh\necho hello\n", "is not an ONNX model, or is truncated"),
        ("mlir", b"func.func @main() { func.return }", "is not an ONNX model, or is truncated"),
        ("zeros", bytes(100), "is not an ONNX model, or is truncated"),
        ("image", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "is not an ONNX model, or is truncated"),
        ("header", onnx.ModelProto(ir_version=8).SerializeToString(), "it has no operator set and no graph"),
    ):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(data)
        with pytest.raises(OnnxImportError, match=rf"'.*{name}\.onnx' .*{message}"):
            from_onnx(path)
        with pytest.raises(OnnxImportError, match=message):
            from_onnx(data)
    with pytest.raises(OnnxImportError, match=r"cannot read '.*nowhere\.onnx': No such file or directory"):
        from_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(OnnxImportError, match=r"cannot read '.*': Is a directory"):
        from_onnx(tmp_path)
    with pytest.raises(li.LayoutError, match=r"source = 'a\\x00b' is no path"):
        from_onnx("a\0b")


@pytest.mark.parametrize("source", [3, None, onnx.GraphProto(), [b"a"]], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("read", [from_onnx, li.optimize_onnx], ids=lambda each: each.__name__)
def test_negative_what_is_no_source_is_named(read: Any, source: Any):
    with pytest.raises(OnnxImportError, match=f"a model is a path, .* not of type {type(source).__name__}"):
        read(source)


@pytest.mark.parametrize("share", [k / 40 for k in range(40)])
def test_negative_truncated_anywhere(share: float):
    data = (NETWORK_FOLDER / "light_shufflenet.onnx").read_bytes()
    with pytest.raises(OnnxImportError):
        from_onnx(data[: int(len(data) * share)])


def test_negative_opsets():
    old = model([node("Relu", "x")], X)
    old.opset_import[0].version = 6
    with pytest.raises(
        OnnxImportError, match=r"uses opset 6, supported are 7 to .*; convert it with onnx.version_"
    ):
        from_onnx(old)
    old.opset_import[0].version = 999
    with pytest.raises(
        OnnxImportError, match=r"uses opset 999, supported are 7 to .*; update the onnx package"
    ):
        from_onnx(old)
    old.opset_import[0].domain = "elsewhere"
    with pytest.raises(OnnxImportError, match="does not say which version of the ONNX operators it uses"):
        from_onnx(old)


def test_a_model_of_another_domain_says_nothing_of_the_operators_of_onnx():
    source = model([helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml")], X)
    del source.opset_import[:]
    source.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    assert [call.proto.op_type for call in load(source).calls] == ["Scaler"]


def test_negative_graph_without_outputs():
    with pytest.raises(OnnxImportError, match="has a graph without outputs"):
        from_onnx(model([node("Relu", "x")], X, []))


def test_negative_corrupt_initializer():
    source = model([node("Add", "x w")], X, constants={"w": B})
    source.graph.initializer[0].raw_data = b"\0" * 7
    with pytest.raises(OnnxImportError, match="initializer 'w' has shape 3, which its 7 bytes do not fill"):
        from_onnx(source)


def test_negative_without_the_onnx_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        OnnxImportError, match=r"ONNX import needs the onnx package: pip install 'layout-ir\[onnx\]'"
    ):
        from_onnx(b"")
