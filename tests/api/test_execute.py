"""`run` takes and gives logical arrays by position or name, and says what does not fit."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from layout_ir.api.execute import run
from layout_ir.api.program_arguments import entry_point, input_names
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import FillPadsOp, ReorderOp
from layout_ir.elements.numpy_types import storage, widen
from layout_ir.errors import LayoutError
from tests.backends.reference.rewriting import with_random_formats
from tests.backends.reference.texts import NETWORK, network_inputs
from tests.programs import parse

BLOCKED = """
func.func @main(%x : tensor<2x5xf32, #layout.format<(a, b) : [b, a, b:4], pad = zero>>, %y : tensor<5xf32>)
    -> (tensor<2x5xf32, #layout.format<(a, b) : [b, a], offset = 3>>, tensor<5xf32>) {
  %0 = layout.reorder %x : tensor<2x5xf32, #layout.format<(a, b) : [b, a, b:4], pad = zero>>
    -> tensor<2x5xf32, #layout.format<(a, b) : [b, a], offset = 3>>
  func.return %0, %y : tensor<2x5xf32, #layout.format<(a, b) : [b, a], offset = 3>>, tensor<5xf32>
}"""

X = np.arange(10, dtype=np.float32).reshape(2, 5)
Y = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("reorders", ["compiled", "reference"])
def test_arrays_are_logical_whatever_the_formats(reorders: Any):
    a, b = run(parse(BLOCKED), [X, Y], reorders=reorders)
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, Y)


def test_inputs_by_name():
    a, b = run(parse(BLOCKED), {"y": Y, "x": X})
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, Y)


def test_results_are_the_callers_own():
    _, b = run(parse(BLOCKED), [X, Y])
    assert not np.shares_memory(b, Y)


def test_inputs_may_be_strided():
    a, _ = run(parse(BLOCKED), [np.asfortranarray(X), np.arange(10, dtype=np.float32)[::2]])
    np.testing.assert_array_equal(a, X)


def test_any_function_may_be_the_entry():
    module = parse(BLOCKED.replace("@main", "@other"))
    assert len(run(module, [X, Y], entry="other")) == 2


@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_reference_reorders_give_the_same(seed: int):
    module = with_random_formats(parse(NETWORK), Random(seed))
    compiled, reference = (run(module, network_inputs(), reorders=r) for r in ("compiled", "reference"))
    for got, want in zip(compiled, reference, strict=True):
        np.testing.assert_array_equal(got, want)


def test_compiled_reorders_write_the_same_buffers_pads_and_holes_included():
    def buffers(reorders: Any) -> list[bytes]:
        result: list[bytes] = []

        def trace(op: Any, tensors: Any, seconds: float) -> None:
            if isinstance(op, ReorderOp | FillPadsOp):
                result.append(np.ascontiguousarray(tensors[-1].buffer).tobytes())

        run(with_random_formats(parse(NETWORK), Random(3)), network_inputs(), reorders=reorders, trace=trace)
        return result

    assert buffers("compiled") == buffers("reference")


@pytest.mark.parametrize("pair", ["f32 i8", "f32 bf16", "bf16 f16", "ui8 f32", "i64 i32", "f64 i1"])
def test_reorders_that_convert_are_compiled_and_mean_the_same(pair: str):
    """Pads and holes included."""
    src, dst = pair.split()
    given, wanted = f"tensor<3x17x5x{src}>", f"tensor<3x17x5x{dst}, #layout.tag<aBc8b>>"
    module = parse(
        f"func.func @main(%x : {given}) -> {wanted} {{\n  %y = layout.reorder %x : {given} -> {wanted}\n"
        f"  func.return %y : {wanted}\n}}"
    )
    random = np.random.default_rng(0)
    x = random.integers(0, 256, 255 * storage(src).itemsize, np.uint8).view(storage(src)).reshape(3, 17, 5)
    buffers: list[Any] = []
    for reorders in ("compiled", "reference"):
        run(
            module,
            [x],
            reorders=reorders,
            trace=lambda op, tensors, seconds: buffers.append(tensors[-1].buffer),
        )
    ours, theirs = (widen(buffer, dst) for buffer in buffers)
    np.testing.assert_array_equal(ours, theirs)


def test_bf16_goes_in_and_out_as_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    module = parse("""
    func.func @main(%x : tensor<3xbf16>) -> tensor<3xbf16> {
      %0 = nn.add %x, %x : tensor<3xbf16>
      func.return %0 : tensor<3xbf16>
    }""")
    bits = np.array([0x3F80, 0x4000, 0xC040], np.uint16)  # 1, 2, -3
    for array in (bits, bits.view(ml_dtypes.bfloat16)):
        (result,) = run(module, [array])
        assert result.dtype == np.uint16
        assert result.view(ml_dtypes.bfloat16).astype(float).tolist() == [2, 4, -6]


def test_onnx_names_are_the_names_of_inputs():
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    from layout_ir.frontends.onnx import from_onnx

    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["in.put"], ["out/put"])],
        "g",
        [onnx.helper.make_tensor_value_info("in.put", floats, [2])],
        [onnx.helper.make_tensor_value_info("out/put", floats, [2])],
    )
    module = from_onnx(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    )
    function = entry_point(module, "main")
    assert input_names(function) == ["in.put"]
    assert run(module, {"in.put": np.array([-1, 2], np.float32)})[0].tolist() == [0, 2]


def test_arguments_without_names_are_numbered():
    module = parse(
        BLOCKED.replace("%x", "%0").replace("%y", "%1").replace("%0 = ", "%2 = ").replace("%0, %1", "%2, %1")
    )
    function = entry_point(module, "main")
    assert isinstance(function, FuncOp)
    assert input_names(function) == ["arg0", "arg1"]


def test_negative_an_array_of_another_shape():
    with pytest.raises(LayoutError, match="input 'x' is tensor<2x5xf32>, the array given is 5x2 of float32"):
        run(parse(BLOCKED), [X.T, Y])


def test_negative_an_array_of_another_type():
    with pytest.raises(LayoutError, match="input 'y' is tensor<5xf32>, the array given is 5 of float64"):
        run(parse(BLOCKED), [X, Y.astype(np.float64)])


def test_negative_too_few_inputs():
    with pytest.raises(LayoutError, match=r"@main takes 2 inputs \('x', 'y'\), given are 1"):
        run(parse(BLOCKED), [X])


def test_negative_a_name_is_missing():
    with pytest.raises(LayoutError, match="'y' is missing: @main takes 'x', 'y', given are 'x'"):
        run(parse(BLOCKED), {"x": X})


def test_negative_a_name_too_many():
    with pytest.raises(LayoutError, match="'z' is no input: @main takes 'x', 'y', given are 'x', 'y', 'z'"):
        run(parse(BLOCKED), {"x": X, "y": Y, "z": Y})


def test_negative_no_such_entry():
    with pytest.raises(LayoutError, match="the module has no function @start, its functions: @main"):
        run(parse(BLOCKED), [X, Y], entry="start")


def test_negative_no_such_way_to_reorder():
    with pytest.raises(LayoutError, match="reorders = 'fast' is unknown, expected compiled or reference"):
        run(parse(BLOCKED), [X, Y], reorders="fast")  # pyright: ignore[reportArgumentType]


QUANTIZED = """
#c8 = #layout.format<(n, c) : [n, c, c:8], pad = zp>
func.func @main(%x : tensor<4x17xf32>) -> (tensor<4x17xi8, #c8>, tensor<4x17xf32>) {
  %a = layout.reorder %x scale = [1, 0.05] zero_point = [0, 3] : tensor<4x17xf32> -> tensor<4x17xi8, #c8>
  %b = layout.reorder %a scale = [0.05, 0.1] zero_point = [3, -7] : tensor<4x17xi8, #c8> -> tensor<4x17xi8>
  %c = layout.reorder %b scale = [0.1, 1] zero_point = [-7, 0] : tensor<4x17xi8> -> tensor<4x17xf32>
  func.return %a, %c : tensor<4x17xi8, #c8>, tensor<4x17xf32>
}
"""


@pytest.mark.parametrize("reorders", ["compiled", "reference"])
def test_a_reorder_of_quantized_tensors(reorders: Literal["compiled", "reference"]):
    x = np.random.default_rng(0).uniform(-8, 8, (4, 17)).astype(np.float32)
    module = parse(QUANTIZED)
    module.verify()
    a, c = run(module, [x], reorders=reorders)
    first = np.clip(np.rint(x / np.float32(0.05)) + 3, -128, 127)
    again = np.clip(np.rint((first - 3) * np.float32(0.05) / np.float32(0.1)) - 7, -128, 127)
    assert np.array_equal(a, first.astype(np.int8))
    assert np.allclose(c, (again + 7) * 0.1, atol=1e-6)
    assert abs(c - x)[abs(x) < 6].max() <= 0.025 + 0.05 + 1e-6


PER_CHANNEL = """
#c8 = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 5>
func.func @main(%x : tensor<3x17x4x5xf32>) -> (tensor<3x17x4x5xi8, #c8>, tensor<3x17x4x5xui8>, tensor<3x17x4x5xf32>) {
  %a = layout.reorder %x scale = [1, SCALES] zero_point = [0, ZEROS] dim = DIM : tensor<3x17x4x5xf32> -> tensor<3x17x4x5xi8, #c8>
  %b = layout.reorder %a scale = [SCALES, 0.25] zero_point = [ZEROS, 100] dim = DIM : tensor<3x17x4x5xi8, #c8> -> tensor<3x17x4x5xui8>
  %c = layout.reorder %a scale = [SCALES, 1] zero_point = [ZEROS, 0] dim = DIM : tensor<3x17x4x5xi8, #c8> -> tensor<3x17x4x5xf32>
  func.return %a, %b, %c : tensor<3x17x4x5xi8, #c8>, tensor<3x17x4x5xui8>, tensor<3x17x4x5xf32>
}
"""  # noqa: E501


def _per_channel(dim: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], ModuleOp]:
    """Values, and numbers of which quotients and products are exact: there is only one rounding to agree on."""
    rng, extent = np.random.default_rng(dim), (3, 17, 4, 5)[dim]
    x = rng.uniform(-40, 40, (3, 17, 4, 5)).astype(np.float32)
    scales, zeros = 2.0 ** rng.integers(-4, 1, extent), rng.integers(-50, 51, extent)
    text = PER_CHANNEL.replace("DIM", str(dim))
    text = text.replace("SCALES", str(scales.tolist())).replace("ZEROS", str(zeros.tolist()))
    module = parse(text)
    module.verify()
    return x, scales, zeros, module


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("reorders", ["compiled", "reference"])
def test_numbers_of_channels_are_those_of_pytorch(reorders: Literal["compiled", "reference"], dim: int):
    x, scales, zeros, module = _per_channel(dim)
    c = run(module, [x], reorders=reorders)[2]
    theirs = torch.fake_quantize_per_channel_affine(
        torch.tensor(x), torch.tensor(scales, dtype=torch.float32),
        torch.tensor(zeros, dtype=torch.int32), dim, -128, 127,
    )  # fmt: skip
    assert np.array_equal(c, theirs.numpy())


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("reorders", ["compiled", "reference"])
def test_numbers_of_channels_are_exact(reorders: Literal["compiled", "reference"], dim: int):
    x, scales, zeros, module = _per_channel(dim)
    a, b, _ = run(module, [x], reorders=reorders)
    for index in np.ndindex(x.shape):
        scale, zero = Fraction(float(scales[index[dim]])), int(zeros[index[dim]])
        first = min(max(round(Fraction(float(x[index])) / scale + zero), -128), 127)
        assert a[index] == first
        assert b[index] == min(max(round((first - zero) * scale * 4 + 100), 0), 255)


def test_pads_of_a_quantized_tensor_hold_its_zero_point():
    x = np.ones((4, 17), np.float32)
    module = parse(QUANTIZED)
    held: list[list[int]] = []
    seen: list[Tensor] = []
    for reorders in ("compiled", "reference"):
        seen.clear()
        run(module, [x], reorders=reorders, trace=lambda op, tensors, _: seen.append(tensors[-1]))
        held.append(sorted({int(v) for v in seen[0].buffer}))
    assert held == [[3, 23], [3, 23]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @main(%x : tensor<2x?xf32>) {\n func.return }",
            r"argument 0 of @main is tensor<2x\?xf32>: running needs the extent of dim 1; write a static shape",
        ),
        (
            """func.func @main(%x : tensor<2x3xf32>) {
              %y = tensor.cast %x : tensor<2x3xf32> to tensor<?x?xf32>
              func.return }""",
            r"the result of tensor.cast in @main is tensor<\?x\?xf32>: running needs the extent of dims 0, 1",
        ),
        ("func.func @main(%x : tensor<2xindex>) {\n func.return }", "tensors of index have no layout"),
        (
            'func.func @main(%x : tensor<2xf32, #layout.opaque<"w", 8>>) {\n func.return }',
            r"running needs a layout, which #layout.opaque<\"w\", 8> is not",
        ),
        (
            "func.func @main() {\n func.call @main() : () -> ()\n func.return }",
            "func.call: functions call each other too deeply",
        ),
    ],
)
def test_negative_what_cannot_be_run_says_what_it_needs(text: str, message: str):
    with pytest.raises(LayoutError, match=message):
        run(parse(text), [np.zeros((2, 3), np.float32)] if "tensor" in text else [])


def test_negative_one_array_is_no_list_of_inputs():
    module = parse(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { func.return %x : tensor<2x3xf32> }"
    )
    with pytest.raises(LayoutError, match=r"takes 1 input \('x'\), given are 2; an array is taken as a list"):
        run(module, np.zeros((2, 3), np.float32))  # pyright: ignore[reportArgumentType]
