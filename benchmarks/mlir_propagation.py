"""What is left of packs, unpacks and transposes of linalg programs: upstream's propagation beside layout selection.

    python -m benchmarks.mlir_propagation

Each program is plain linalg as MLIR's own passes meet it. Upstream's column is `mlir-opt` of LLVM 22 with
-test-linalg-data-layout-propagation, canonicalization and CSE: its pass moves packs and unpacks through ops by pattern.
Ours is layout-open and layout-optimize, then convert-layout-to-linalg with reorders=pack. Counted are linalg.pack,
linalg.unpack and linalg.transpose, and the bytes that they read and write; reshapes move nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp

import layout_ir as li
from layout_ir.dialects.layout import nbytes_of
from layout_ir.passes.convert_to_linalg import convert_to_linalg

MOVES = ("linalg.pack", "linalg.unpack", "linalg.transpose")
TARGET = "channels-last"
"""A target whose costs are those of moves: blocks of its own would not be fewer moves."""

_ID2, _ID4 = "affine_map<(a, b) -> (a, b)>", "affine_map<(a, b, c, d) -> (a, b, c, d)>"


def _generic(
    name: str, inputs: str, types: str, init: str, result: str, body: str, maps: str, kinds: str
) -> str:
    return (
        f"%{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}\n"
        f"  ins({inputs} : {types}) outs({init} : {result}) {{\n{body}\n}} -> {result}\n"
    )


_PARALLEL2 = '"parallel", "parallel"'
_PACKED, _PLAIN = "tensor<8x4x16x32xf32>", "tensor<128x256xf32>"
_TILES = "inner_dims_pos = [0, 1] inner_tiles = [16, 32]"


def _unpack(name: str, source: str) -> str:
    return (
        f"%{name}_e = tensor.empty() : {_PLAIN}\n"
        f"%{name} = linalg.unpack {source} {_TILES} into %{name}_e : tensor<8x8x16x32xf32> -> {_PLAIN}\n"
    )


def _pack(name: str, source: str) -> str:
    return (
        f"%{name}_e = tensor.empty() : tensor<8x8x16x32xf32>\n"
        f"%{name} = linalg.pack {source} {_TILES} into %{name}_e : {_PLAIN} -> tensor<8x8x16x32xf32>\n"
    )


def _elementwise(name: str, inputs: str, count: int, body: str) -> str:
    types = ", ".join([_PLAIN] * count)
    maps = ", ".join([_ID2] * (count + 1))
    return f"%{name}_i = tensor.empty() : {_PLAIN}\n" + _generic(
        name, inputs, types, f"%{name}_i", _PLAIN, body, maps, _PARALLEL2
    )


_RELU = (
    "^bb0(%a: f32, %o: f32):\n  %least = arith.constant 0.0 : f32\n  %m = arith.maximumf %a, %least : f32\n"
    "  linalg.yield %m : f32"
)
_ADD = "^bb0(%a: f32, %b: f32, %o: f32):\n  %both = arith.addf %a, %b : f32\n  linalg.yield %both : f32"
_EXP = "^bb0(%a: f32, %o: f32):\n  %power = math.exp %a : f32\n  linalg.yield %power : f32"
_BLOCKED = "tensor<8x8x16x32xf32>"


def _function(arguments: str, body: str, value: str, result: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}func.return {value} : {result}\n}}\n"


_ROW_SUM = (
    "%zero = arith.constant 0.0 : f32\n%s_e = tensor.empty() : tensor<128xf32>\n"
    "%s_i = linalg.fill ins(%zero : f32) outs(%s_e : tensor<128xf32>) -> tensor<128xf32>\n"
    + _generic(
        "s", "%e", _PLAIN, "%s_i", "tensor<128xf32>",
        "^bb0(%a: f32, %o: f32):\n  %t = arith.addf %o, %a : f32\n  linalg.yield %t : f32",
        f"{_ID2}, affine_map<(a, b) -> (a)>", '"parallel", "reduction"',
    )
)  # fmt: skip

_CONV = (
    "%zero = arith.constant 0.0 : f32\n"
    "%xt_e = tensor.empty() : tensor<1x30x30x16xf32>\n"
    "%xt = linalg.transpose ins(%x : tensor<1x16x30x30xf32>) outs(%xt_e : tensor<1x30x30x16xf32>) "
    "permutation = [0, 2, 3, 1]\n"
    "%c_e = tensor.empty() : tensor<1x28x28x16xf32>\n"
    "%c_i = linalg.fill ins(%zero : f32) outs(%c_e : tensor<1x28x28x16xf32>) -> tensor<1x28x28x16xf32>\n"
    "%c = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} "
    "ins(%xt, %w : tensor<1x30x30x16xf32>, tensor<3x3x16x16xf32>) outs(%c_i : tensor<1x28x28x16xf32>) "
    "-> tensor<1x28x28x16xf32>\n"
    "%n_e = tensor.empty() : tensor<1x16x28x28xf32>\n"
    "%n = linalg.transpose ins(%c : tensor<1x28x28x16xf32>) outs(%n_e : tensor<1x16x28x28xf32>) "
    "permutation = [0, 3, 1, 2]\n"
    "%r_e = tensor.empty() : tensor<1x16x28x28xf32>\n"
    + _generic(
        "r", "%n", "tensor<1x16x28x28xf32>", "%r_e", "tensor<1x16x28x28xf32>", _RELU, f"{_ID4}, {_ID4}",
        '"parallel", "parallel", "parallel", "parallel"',
    )
    + "%rt_e = tensor.empty() : tensor<1x28x28x16xf32>\n"
    "%rt = linalg.transpose ins(%r : tensor<1x16x28x28xf32>) outs(%rt_e : tensor<1x28x28x16xf32>) "
    "permutation = [0, 2, 3, 1]\n"
    "%d_e = tensor.empty() : tensor<1x26x26x16xf32>\n"
    "%d_i = linalg.fill ins(%zero : f32) outs(%d_e : tensor<1x26x26x16xf32>) -> tensor<1x26x26x16xf32>\n"
    "%d = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} "
    "ins(%rt, %w : tensor<1x28x28x16xf32>, tensor<3x3x16x16xf32>) outs(%d_i : tensor<1x26x26x16xf32>) "
    "-> tensor<1x26x26x16xf32>\n"
)  # fmt: skip

_MATMULS = (
    "%zero = arith.constant 0.0 : f32\n%wt_e = tensor.empty() : tensor<256x64xf32>\n"
    "%wt = linalg.transpose ins(%w : tensor<64x256xf32>) outs(%wt_e : tensor<256x64xf32>) permutation = [1, 0]\n"
    "%p_e = tensor.empty() : tensor<128x64xf32>\n"
    "%p_i = linalg.fill ins(%zero : f32) outs(%p_e : tensor<128x64xf32>) -> tensor<128x64xf32>\n"
    "%p = linalg.matmul ins(%x, %wt : tensor<128x256xf32>, tensor<256x64xf32>) outs(%p_i : tensor<128x64xf32>) "
    "-> tensor<128x64xf32>\n"
)

PROGRAMS: dict[str, str] = {
    "elementwise chain, packed at both ends": _function(
        f"%x: {_BLOCKED}",
        _unpack("u", "%x") + _elementwise("e", "%u", 1, _RELU) + _elementwise("f", "%e", 1, _EXP) + _pack("p", "%f"),
        "%p", _BLOCKED,
    ),
    "residual, packed at both ends": _function(
        f"%x: {_BLOCKED}",
        _unpack("u", "%x") + _elementwise("e", "%u", 1, _RELU) + _elementwise("f", "%e, %u", 2, _ADD)
        + _pack("p", "%f"),
        "%p", _BLOCKED,
    ),
    "two packed operands": _function(
        f"%x: {_BLOCKED}, %y: {_BLOCKED}",
        _unpack("u", "%x") + _unpack("v", "%y") + _elementwise("e", "%u, %v", 2, _ADD) + _pack("p", "%e"),
        "%p", _BLOCKED,
    ),
    "broadcast add, packed at both ends": _function(
        f"%x: {_BLOCKED}, %y: tensor<256xf32>",
        _unpack("u", "%x") + f"%e_i = tensor.empty() : {_PLAIN}\n"
        + _generic("e", "%u, %y", f"{_PLAIN}, tensor<256xf32>", "%e_i", _PLAIN, _ADD,
                   f"{_ID2}, affine_map<(a, b) -> (b)>, {_ID2}", _PARALLEL2) + _pack("p", "%e"),
        "%p", _BLOCKED,
    ),
    "exponentials over their sum, packed at both ends": _function(
        f"%x: {_BLOCKED}",
        _unpack("u", "%x") + _elementwise("e", "%u", 1, _EXP) + _ROW_SUM + f"%q_i = tensor.empty() : {_PLAIN}\n"
        + _generic("q", "%e, %s", f"{_PLAIN}, tensor<128xf32>", "%q_i", _PLAIN, _ADD.replace("addf", "divf"),
                   f"{_ID2}, affine_map<(a, b) -> (a)>, {_ID2}", _PARALLEL2) + _pack("p", "%q"),
        "%p", _BLOCKED,
    ),
    "concat of packed parts": _function(
        f"%x: {_BLOCKED}, %y: {_BLOCKED}",
        _unpack("u", "%x") + _unpack("v", "%y")
        + f"%c = tensor.concat dim(0) %u, %v : ({_PLAIN}, {_PLAIN}) -> tensor<256x256xf32>\n"
        + "%p_e = tensor.empty() : tensor<16x8x16x32xf32>\n"
        + f"%p = linalg.pack %c {_TILES} into %p_e : tensor<256x256xf32> -> tensor<16x8x16x32xf32>\n",
        "%p", "tensor<16x8x16x32xf32>",
    ),
    "conv, relu, conv in channels last": _function(
        "%x: tensor<1x16x30x30xf32>, %w: tensor<3x3x16x16xf32>", _CONV, "%d", "tensor<1x26x26x16xf32>"
    ),
    "product with a transposed matrix": _function(
        "%x: tensor<128x256xf32>, %w: tensor<64x256xf32>", _MATMULS, "%p", "tensor<128x64xf32>"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Moves:
    """What is left in a program."""

    count: int
    nbytes: int


def moves(module: ModuleOp) -> Moves:
    """The packs, unpacks and transposes of a module, and the bytes that they read and write."""
    found = [op for op in module.walk() if op.name in MOVES]
    return Moves(
        len(found), sum(nbytes_of(op.operands[0].type) + nbytes_of(op.results[0].type) for op in found)
    )


_LINE = re.compile(r"linalg\.(?:pack|unpack|transpose)\b.*")
_SHAPE = re.compile(r"tensor<((?:\d+x)+)f32>")


def moves_of_text(text: str) -> Moves:
    """The same of a text of stock MLIR, whose tensors are of f32."""
    found = [_SHAPE.findall(match.group()) for match in _LINE.finditer(text)]
    sizes = [
        sum(4 * prod(map(int, shape.rstrip("x").split("x"))) for shape in (of[0], of[-1])) for of in found
    ]
    return Moves(len(found), sum(sizes))


def upstream(text: str) -> str:
    """The program after upstream's propagation. Raises FileNotFoundError without mlir-opt of LLVM 22."""
    tool = shutil.which("mlir-opt-22") or shutil.which("mlir-opt", path="/usr/lib/llvm-22/bin")
    if tool is None:
        raise FileNotFoundError("mlir-opt-22 (Debian and Ubuntu: mlir-22-tools)")
    passes = ("-test-linalg-data-layout-propagation", "-canonicalize", "-cse")
    return subprocess.run([tool, *passes], input=text, capture_output=True, text=True, check=True).stdout


def selected(text: str) -> ModuleOp:
    """The program with layouts chosen, in linalg."""
    module = li.parse(text)
    li.open_layouts(module)
    li.optimize(module, TARGET)
    convert_to_linalg(module, "pack")
    return module


def main() -> int:
    """Prints the table."""
    print(f"{'':<50} {'before':>18} {'upstream':>18} {'selection':>18}")
    for name, text in PROGRAMS.items():
        row = [moves_of_text(text), moves_of_text(upstream(text)), moves(selected(text))]
        cells = "".join(f" {f'{side.count} ({side.nbytes / 1024:.0f} KiB)':>18}" for side in row)
        print(f"{name:<50}{cells}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
