"""`layout-ir run`: a network before and after optimization, executed and compared."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from layout_ir.errors import LayoutError
from layout_ir.tools.commands.optimize import add_arguments, compared, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zipfile import ZipFile

    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation

    from layout_ir.backends.reference.tensor import Tensor


def add_parser(subparsers: Any) -> None:
    """Adds the command `run` and its arguments."""
    parser = subparsers.add_parser(
        "run",
        help="execute a network before and after optimization and compare",
        description="Execute a network before and after layout optimization, with compiled reorders, and compare the "
        "results. Exit status 1 where they differ.",
        epilog="example:\n  layout-ir run model.onnx --target avx2 --inputs inputs.npz",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument(
        "--inputs", metavar="FILE", help="a .npz with an array per input (default: random ones)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the times of both programs and the largest difference of their results; status 1 where they differ."""
    from layout_ir.api.execute import entry_point, input_names
    from layout_ir.backends.reference.interpreter import check_types
    from layout_ir.tools.program import load_program
    from layout_ir.tools.validation import TOLERANCE, relative_difference

    if args.seed < 0:
        raise LayoutError(f"--seed {args.seed} is below 0: expected a whole number from 0 on")
    module = load_program(
        args.model, allow_unregistered=args.allow_unregistered_dialect, shapes=args.shapes or ()
    )
    function = entry_point(module, "main")
    check_types(module, function)
    inputs = _inputs(args, function, input_names(function))
    report, naive, optimized = compared(module, args)
    before, naive_times = _execute(naive, inputs)
    after, best_times = _execute(optimized, inputs)
    error = max((relative_difference(a, b) for a, b in zip(before, after, strict=True)), default=0.0)
    agree = error <= TOLERANCE
    if args.json:
        times = {"naive": naive_times, "optimized": best_times}
        print(
            json.dumps(
                {**report.to_json(args.model), "measured": times, "difference": error, "agree": agree},
                indent=2,
            )
        )
    else:
        print(
            f"{args.model}: {report.ops} ops, target {report.target}, reorders compiled, other ops by the reference"
        )
        print()
        print(f"             {'reorders':>9}  {'in reorders':>12}  {'in all':>10}")
        for name, traffic, times in (
            ("naive", report.naive, naive_times),
            ("optimized", report.optimized, best_times),
        ):
            reorders, total = (time_text(times[key] * 1e6) for key in ("reorders_ms", "total_ms"))
            print(f"  {name:<9}  {traffic.count:>9}  {reorders:>12}  {total:>10}")
        print()
        verdict = "agree" if agree else "DIFFER"
        print(
            f"results {verdict}: largest difference {error:.1e} of the largest result (limit {TOLERANCE:.0e})"
        )
    return 0 if agree else 1


def _inputs(args: argparse.Namespace, function: FuncOp, names: list[str]) -> dict[str, Any]:
    """Arrays from the file, or random ones of the argument types."""
    from layout_ir.tools.validation import random_inputs

    if args.inputs is not None:
        return _read_arrays(args.inputs)
    return dict(zip(names, random_inputs(function, args.seed), strict=True))


def _read_arrays(path: str) -> dict[str, Any]:
    """The arrays in an .npz file. Raises LayoutError where it holds none, OSError where there is no such file."""
    import numpy as np

    with open(path, "rb") as file:
        start = file.read(6)
    if start[:4] != b"PK\x03\x04":
        found = {b"": "it is empty", b"\x93NUMPY": "it is a single array (.npy)"}.get(
            start, "it is no archive"
        )
        raise LayoutError(
            f"{path}: not an .npz file of arrays: {found}; numpy.savez(FILE, name=array, ...) writes one"
        )
    name = ""
    try:
        arrays: dict[str, Any] = {}
        with np.load(path, allow_pickle=False) as data:
            for name in data.files:
                if not _may_be_array(data.zip, name):
                    raise LayoutError(f"{path}: not an .npz file of arrays: '{name}' is no array")
                arrays[name] = data[name]
    except LayoutError:
        raise
    except MemoryError as error:
        raise LayoutError(f"{path}: '{name}' needs more memory than there is: {error}") from error
    except Exception as error:
        # Whatever the bytes in an archive make NumPy and zipfile raise: they say it in exceptions of many classes.
        raise LayoutError(f"{path}: not an .npz file of arrays: {_broken(name, error)}") from error
    wrong = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if wrong:
        raise LayoutError(f"{path}: not an .npz file of arrays: '{wrong[0]}' is no array")
    return arrays


def _may_be_array(archive: ZipFile, name: str) -> bool:
    """Whether member `name` has the suffix of arrays (.npy, which NumPy leaves out of the name) or their magic bytes.

    NumPy 2.3.0 fails on others with an error of its own; later versions give their bytes.
    """
    if name not in archive.namelist():
        return True
    with archive.open(name) as member:
        return member.read(6) == b"\x93NUMPY"


def _broken(name: str, error: Exception) -> str:
    """The reason why member `name` cannot be read, or the archive itself where `name` is empty."""
    if "allow_pickle" in str(error):
        return f"'{name}' holds Python objects, which are not read"
    where = f"'{name}' cannot be read" if name else "it is damaged"
    return f"{where} ({error})" if str(error) else where


def _execute(module: ModuleOp, inputs: dict[str, Any]) -> tuple[list[NDArray[Any]], dict[str, float]]:
    """The results, and milliseconds in reorders and in all; constants are packed before the clock starts."""
    from layout_ir.api.execute import run as execute
    from layout_ir.dialects.layout import FillPadsOp, ReorderOp

    constants: dict[Operation, Tensor] = {}
    execute(module, inputs, constants=constants)
    reorders = 0.0

    def trace(op: Operation, tensors: Sequence[Tensor], seconds: float) -> None:
        nonlocal reorders
        if isinstance(op, ReorderOp | FillPadsOp):
            reorders += seconds

    start = time.perf_counter()
    results = execute(module, inputs, constants=constants, trace=trace)
    total = time.perf_counter() - start
    return results, {"reorders_ms": reorders * 1e3, "total_ms": total * 1e3}
