"""What is left of packs, unpacks and transposes of linalg programs: upstream's propagation beside layout selection.

    python -m benchmarks.mlir_propagation

Each program is plain linalg as MLIR's own passes meet it. Upstream's column is `mlir-opt` of LLVM 22 with
-test-linalg-data-layout-propagation, canonicalization and CSE: its pass moves packs and unpacks through ops by pattern.
Ours is layout-open and layout-optimize, then convert-layout-to-linalg with reorders=pack. Counted are linalg.pack,
linalg.unpack, linalg.transpose and any linalg.generic that only copies, and the bytes that they read and write;
reshapes move nothing. Both are then lowered by stock passes, run, and compared with the program as it was.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Operation, SSAValue

import layout_ir as li
from layout_ir.dialects.layout import is_tensor, nbytes_of
from layout_ir.dialects.layout.types import tensor_type
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

_MATMUL_CHAIN = (
    "%zero = arith.constant 0.0 : f32\n"
    "%p_e = tensor.empty() : tensor<128x64xf32>\n"
    "%p_i = linalg.fill ins(%zero : f32) outs(%p_e : tensor<128x64xf32>) -> tensor<128x64xf32>\n"
    f"%p = linalg.matmul ins(%u, %v : {_PLAIN}, tensor<256x64xf32>) outs(%p_i : tensor<128x64xf32>) "
    "-> tensor<128x64xf32>\n"
    "%r_e = tensor.empty() : tensor<128x64xf32>\n"
    + _generic(
        "r", "%p", "tensor<128x64xf32>", "%r_e", "tensor<128x64xf32>", _RELU, f"{_ID2}, {_ID2}", _PARALLEL2
    )
    + f"%q_e = tensor.empty() : {_PLAIN}\n"
    f"%q_i = linalg.fill ins(%zero : f32) outs(%q_e : {_PLAIN}) -> {_PLAIN}\n"
    f"%q = linalg.matmul ins(%r, %w : tensor<128x64xf32>, tensor<64x256xf32>) outs(%q_i : {_PLAIN}) -> {_PLAIN}\n"
)


def _partial(body: str) -> str:
    """Sixty rows in tiles of 32: unpacked, computed on, packed with zeros in the rest of the last tile."""
    tiles, whole, part = "inner_dims_pos = [0] inner_tiles = [32]", "tensor<2x40x32xf32>", "tensor<60x40xf32>"
    return _function(
        f"%x: {whole}",
        f"%u_e = tensor.empty() : {part}\n%u = linalg.unpack %x {tiles} into %u_e : {whole} -> {part}\n"
        f"%e_i = tensor.empty() : {part}\n"
        + _generic("e", "%u", part, "%e_i", part, body, f"{_ID2}, {_ID2}", _PARALLEL2)
        + f"%zero = arith.constant 0.0 : f32\n%p_e = tensor.empty() : {whole}\n"
        f"%p = linalg.pack %e padding_value(%zero : f32) {tiles} into %p_e : {part} -> {whole}\n",
        "%p", whole,
    )  # fmt: skip


_QUOTIENT = (
    "^bb0(%a: f32, %o: f32):\n  %hundred = arith.constant 100.0 : f32\n  %m = arith.divf %hundred, %a : f32\n"
    "  linalg.yield %m : f32"
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
    "two products and a relu, packed at both ends": _function(
        f"%x: {_BLOCKED}, %v: tensor<256x64xf32>, %w: tensor<64x256xf32>",
        _unpack("u", "%x") + _MATMUL_CHAIN + _pack("o", "%q"), "%o", _BLOCKED,
    ),
    "relu in partial tiles": _partial(_RELU),
    "100 / x in partial tiles": _partial(_QUOTIENT),
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
    """The packs, unpacks, transposes and copies of a module, and the bytes that they read and write."""
    found = [op for op in module.walk() if op.name in MOVES or _copies(op)]
    return Moves(
        len(found), sum(nbytes_of(op.operands[0].type) + nbytes_of(op.results[0].type) for op in found)
    )


def _copies(op: Operation) -> bool:
    """Whether `op` is a linalg.generic that yields elements of an operand as they are."""
    if not isinstance(op, GenericOp):
        return False
    last = op.body.block.first_op
    yielded = set(last.operands) if isinstance(last, YieldOp) else set[SSAValue]()
    arguments = zip(op.body.block.args, op.inputs, strict=False)
    return any(argument in yielded and is_tensor(x.type) for argument, x in arguments)


PROPAGATION = ("-test-linalg-data-layout-propagation", "-canonicalize", "-cse")


def upstream(text: str, *passes: str) -> str:
    """The program after upstream's propagation, or other `passes` of mlir-opt.

    Raises FileNotFoundError without mlir-opt of LLVM 22."""
    tool = shutil.which("mlir-opt-22") or shutil.which("mlir-opt", path="/usr/lib/llvm-22/bin")
    if tool is None:
        raise FileNotFoundError("mlir-opt-22 (Debian and Ubuntu: mlir-22-tools)")
    return subprocess.run(
        [tool, *(passes or PROPAGATION)], input=text, capture_output=True, text=True, check=True
    ).stdout


def selected(text: str) -> ModuleOp:
    """The program with layouts chosen, in linalg."""
    module = li.parse(text)
    li.open_layouts(module)
    li.optimize(module, TARGET)
    convert_to_linalg(module, "pack")
    return module


def agrees(text: str, module: ModuleOp, folder: Path) -> bool:
    """Whether `module`, run by stock MLIR, computes what the program `text` computes as it was."""
    from tests.exits.linalg.mlir_tools import execute
    from tests.exits.linalg.test_pack_ops import lower_pack

    plain = li.parse(text)
    (function,) = plain.body.block.ops
    assert isinstance(function, FuncOp)
    rng = np.random.default_rng(0)
    shapes = [tensor_type(type).get_shape() for type in function.function_type.inputs]
    inputs = [rng.uniform(0.5, 1.5, shape).astype(np.float32) for shape in shapes]
    (want,), (got,) = (execute(each, inputs, folder, before=lower_pack(folder)) for each in (plain, module))
    return np.allclose(got, want, rtol=1e-4, atol=1e-4)


def main() -> int:
    """Prints the table. Raises FileNotFoundError without mlir-opt and mlir-runner of LLVM 22."""
    print(f"{'':<50}{'before':>19}{'upstream':>19}{'selection':>19}   results of upstream, of selection")
    for name, text in PROGRAMS.items():
        theirs, ours = li.parse(upstream(text)), selected(text)
        cells = [
            f"{side.count} ({side.nbytes / 1024:.0f} KiB)"
            for side in map(moves, (li.parse(text), theirs, ours))
        ]
        with TemporaryDirectory() as folder:
            equal = ["equal" if agrees(text, each, Path(folder)) else "DIFFER" for each in (theirs, ours)]
        print(f"{name:<50}{''.join(f'{cell:>19}' for cell in cells)}   {', '.join(equal)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
