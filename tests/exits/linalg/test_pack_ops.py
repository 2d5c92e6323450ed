"""Reorders that cut dims into tiles are linalg.pack and linalg.unpack, which stock MLIR lowers to the same moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.passes.convert_to_linalg import convert_to_linalg
from tests.exits.linalg.agreement import Program, assert_agree
from tests.exits.linalg.mlir_tools import mlir_opt
from tests.programs import parse

LOWER_PACK = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op {transform.readonly}) {
    %p = transform.structured.match ops{["linalg.pack"]} in %m : (!transform.any_op) -> !transform.op<"linalg.pack">
    transform.structured.lower_pack %p : (!transform.op<"linalg.pack">)
      -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
    %u = transform.structured.match ops{["linalg.unpack"]} in %m : (!transform.any_op) -> !transform.op<"linalg.unpack">
    transform.structured.lower_unpack %u : (!transform.op<"linalg.unpack">)
      -> (!transform.op<"tensor.empty">, !transform.op<"linalg.transpose">, !transform.op<"tensor.collapse_shape">,
          !transform.op<"tensor.extract_slice">)
    transform.yield
  }
}
"""
"""How stock MLIR lowers the two, in words of the transform dialect."""


def lower_pack(folder: Path) -> tuple[str, ...]:
    """The passes of mlir-opt that do so; writes what they read into `folder`."""
    library = folder / "lower_pack.mlir"
    library.write_text(LOWER_PACK)
    return f"--transform-preload-library=transform-library-paths={library}", "--transform-interpreter"


def module_of(source: str, destination: str, shape: str = "2x17x5x4", dtype: str = "f32") -> ModuleOp:
    """A function that reorders."""
    types = [f"tensor<{shape}x{dtype}, #layout.{encoding}>" for encoding in (source, destination)]
    return parse(
        f"func.func @main(%x: {types[0]}) -> {types[1]} {{\n"
        f"%y = layout.reorder %x : {types[0]} -> {types[1]}\nfunc.return %y : {types[1]} }}"
    )


def relayouts(module: ModuleOp) -> list[str]:
    """The ops that move elements, without what they write to."""
    names = ("linalg.pack", "linalg.unpack", "linalg.transpose", "tensor.pad", "tensor.extract_slice")
    return [op.name for op in module.walk() if op.name in names]


PACKS = {
    "channels": ("tag<nchw>", "tag<nChw8c>", "inner_dims_pos = [1] inner_tiles = [8]"),
    "weights": ("tag<oihw>", "tag<OIhw8i8o>", "inner_dims_pos = [1, 0] inner_tiles = [8, 8]"),
    "channels last, then blocks": (
        "tag<nchw>", "format<(n, c, h, w) : [n, h, w, c, c:8], pad = zero>", "outer_dims_perm = [0, 2, 3, 1]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PACKS)
def test_a_reorder_to_blocks_is_a_pack_and_the_way_back_an_unpack(name: str):
    source, destination, tiles = PACKS[name]
    shape = "16x20x3x5" if name == "weights" else "2x17x5x4"
    for sides, op in (((source, destination), "linalg.pack"), ((destination, source), "linalg.unpack")):
        module = module_of(*sides, shape)
        convert_to_linalg(module, "pack")
        module.verify()
        assert relayouts(module) == [op]
        assert tiles in str(module) and tiles in mlir_opt(str(module))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "ui8", "i1"])
def test_packs_move_the_same_bits_when_stock_mlir_lowers_them(dtype: str, tmp_path: Path):
    rng = np.random.default_rng(0)
    stored = {"f32": np.float32, "bf16": np.uint16, "ui8": np.uint8, "i1": np.bool_}[dtype]
    x = rng.integers(0, 2 if dtype == "i1" else 200, (2, 17, 5, 4)).astype(stored)
    programs: dict[str, Program] = {}
    for number, (source, destination, _) in enumerate(PACKS.values()):
        programs[f"pack_{number}"] = module_of(source, destination, dtype=dtype), [x]
        programs[f"unpack_{number}"] = module_of(destination, source, dtype=dtype), [x]
    assert_agree(
        programs,
        tmp_path,
        convert=lambda module: convert_to_linalg(module, "pack"),
        before=lower_pack(tmp_path),
        exact=True,
    )


@pytest.mark.parametrize(
    ("source", "destination", "ops"),
    [
        ("tag<nchw>", "tag<nhwc>", ["linalg.transpose"]),
        # A dim that is cut twice.
        ("tag<nchw>", "format<(n, c, h, w) : [n, c, h, w, c:2, c:4], pad = zero>", ["tensor.pad", "linalg.transpose"]),
        # A block that is not at the end.
        ("tag<nchw>", "format<(n, c, h, w) : [n, c, c:8, h, w], pad = zero>", ["tensor.pad"]),
    ],
)  # fmt: skip
def test_negative_what_pack_does_not_say_stays_pad_and_transpose(
    source: str, destination: str, ops: list[str]
):
    module = module_of(source, destination)
    convert_to_linalg(module, "pack")
    assert relayouts(module) == ops


def test_negative_a_pad_that_is_part_of_the_program_is_no_partial_tile():
    module = parse(
        """
        func.func @main(%x: tensor<2x16x5x4xf32>) -> tensor<2x24x5x4xf32, #layout.tag<nChw8c>> {
          %p = nn.pad %x pads = [0, 8, 0, 0, 0, 0, 0, 0] : (tensor<2x16x5x4xf32>) -> tensor<2x24x5x4xf32>
          %y = layout.reorder %p : tensor<2x24x5x4xf32> -> tensor<2x24x5x4xf32, #layout.tag<nChw8c>>
          func.return %y : tensor<2x24x5x4xf32, #layout.tag<nChw8c>>
        }
        """
    )
    convert_to_linalg(module, "pack")
    assert relayouts(module) == ["tensor.pad", "linalg.pack"]
