"""ONNX's own test cases of every op that is supported: imported, run by the reference, compared.

The package generates a model with inputs and outputs for each op and variant (`onnx.backend.test.case.node`), always
in the newest opset, and ships models that PyTorch exported, with what PyTorch computed. The latter are converted to
several opsets, so that each way of saying the same thing is read once.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, version_converter
from xdsl.dialects.builtin import ModuleOp

from layout_ir.dialects.nn import OpaqueOp
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx.importer import TRANSLATIONS
from layout_ir.frontends.onnx.model import OLDEST_OPSET
from tests.frontends.onnx.models import NEWEST
from tests.frontends.onnx.running import check_close, run

REFUSED = (
    "has element type",  # 2, 4 and 8 bit types, strings
    "is no tensor but",
    # CenterCropPad and AffineGrid, written out as functions, compute how much they pad from an input.
    "is computed at run time, but is supported as a constant only; and as it is: .* has no static type",
)
"""What an op that is supported may be refused for."""

EXCEPTIONS = {
    # The case has length_resized = 2.4 in the formula of align_corners, where the result has 2 columns; ONNX Runtime
    # reads the formula as we do.
    "test_resize_downsample_scales_linear_align_corners",
}

PARAMETERS = {
    "axes", "axis", "constant_value", "ends", "k", "output_shape", "pads", "ratio", "repeats", "roi", "scales", "shape",
    "sizes", "split", "starts", "steps", "training_mode", "Compress.condition", "ConstantOfShape.input",
}  # fmt: skip
"""Inputs of ops, as their schemas call them (those of one op behind its name), that say what is done, and are constants
in networks."""


@functools.cache
def cases() -> dict[str, list[Any]]:
    """ONNX's cases made of supported ops alone, by the op of their first node."""
    from onnx.backend.test.case.node import collect_testcases

    result: dict[str, list[Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected: list[Any] = collect_testcases(None)  # pyright: ignore[reportArgumentType]
        for case in collected:
            nodes = case.model.graph.node
            if all(node.op_type in TRANSLATIONS for node in nodes):
                result.setdefault(nodes[0].op_type, []).append(case)
    return result


def arrays(values: Any) -> list[NDArray[Any]]:
    """Data of a case: arrays, or tensors where NumPy has no such type by itself."""
    return [
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
        for value in values
    ]


def imported(model: onnx.ModelProto, data: list[Any]) -> tuple[ModuleOp, list[NDArray[Any]]]:
    """The module and its arguments.

    The cases pass everything as inputs. Those that are parameters are made initializers.
    """
    given = {value.name: array for value, array in zip(model.graph.input, data, strict=True)}
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for entry in model.opset_import:
        if not entry.domain and entry.version < OLDEST_OPSET:
            # What was defined before and holds to this day.
            kept = [
                onnx.defs.get_schema(node.op_type, OLDEST_OPSET).since_version for node in model.graph.node
            ]
            assert max(kept) <= entry.version
            entry.version = OLDEST_OPSET
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        formals = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain).inputs
        for formal, name in zip(formals, node.input, strict=False):
            names = {formal.name, f"{node.op_type}.{formal.name}"}
            if not names.isdisjoint(PARAMETERS) and name in given:
                model.graph.initializer.append(numpy_helper.from_array(np.asarray(given.pop(name)), name))
    return from_onnx(model), arrays(given.values())


def verdict(case: Any) -> str:
    """What became of a case: passed, kept (right, with a node that stays opaque), refused for this reason, or failed
    with that message."""
    kept = False
    for inputs, outputs in case.data_sets:
        try:
            module, arguments = imported(case.model, inputs)
        except OnnxImportError as error:
            return f"refused: {error}"
        kept = kept or any(isinstance(op, OpaqueOp) for op in module.walk())
        try:
            wanted = arrays(outputs)
            # Cases in half precision were computed in single; bf16 has 8 bits.
            half = any(
                array.dtype.itemsize < 4 and array.dtype.kind != "i" for array in (*arguments, *wanted)
            )
            check_close(
                run(module, arguments), wanted, max(case.rtol, 1e-2 if half else 0), max(case.atol, 1e-6)
            )
        except Exception as error:
            return f"failed: {type(error).__name__}: {error}"
    return "kept" if kept else "passed"


def verdicts() -> Iterator[tuple[str, str, str]]:
    for op_type, group in cases().items():
        for case in group:
            yield op_type, case.name, verdict(case)


@functools.cache
def results() -> list[tuple[str, str, str]]:
    return list(verdicts())


def test_no_case_fails():
    failed = [
        (name, text) for _, name, text in results() if text.startswith("failed") and name not in EXCEPTIONS
    ]
    assert failed == []


def test_exceptions_are_still_needed():
    assert {name for _, name, text in results() if text.startswith("failed")} == EXCEPTIONS


def test_nothing_is_refused_without_a_known_reason():
    refused = [(name, text) for _, name, text in results() if text.startswith("refused")]
    assert [entry for entry in refused if not any(re.search(reason, entry[1]) for reason in REFUSED)] == []


def test_most_cases_pass():
    count = Counter(text.partition(":")[0] for _, _, text in results())
    assert count["passed"] >= 500, count


def test_every_op_has_a_case_that_passes():
    passed = {op_type for op_type, _, text in results() if text == "passed"}
    assert standard_ops() - passed == set()


def standard_ops() -> set[str]:
    """Ops with a translation that are tested by these cases.

    The others are compared with ONNX Runtime in test_ops_norms: those that are not in the standard, and one whose cases
    all use its statistics, with which it is kept.
    """
    return {name for name in TRANSLATIONS if onnx.defs.has(name)} - {"LayerNormalization"}


# --- models that PyTorch exported -------------------------------------------------------------------------------

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
EXPORTED = sorted(DATA.glob("pytorch-*/test_*/model.onnx"))


@pytest.mark.parametrize("opset", [9, 12, 13, 18, NEWEST])
def test_models_exported_by_pytorch(opset: int):
    count: Counter[str] = Counter()
    for path in EXPORTED:
        try:
            model = version_converter.convert_version(onnx.ModelProto.FromString(path.read_bytes()), opset)
        except RuntimeError:
            count["not convertible"] += 1
            continue
        try:
            module = from_onnx(model)
        except OnnxImportError as error:
            assert re.search("cannot be kept as it is|do not broadcast", str(error)), path.parent.name
            count["refused"] += 1
            continue
        for folder in sorted(path.parent.glob("test_data_set_*")):
            check_close(run(module, load(folder, "input")), load(folder, "output"), 1e-4, 1e-6)
        count["passed"] += 1
    assert count["passed"] >= 99, count


def load(folder: Path, kind: str) -> list[NDArray[Any]]:
    files = [folder / f"{kind}_{number}.pb" for number in range(len(list(folder.glob(f"{kind}_*.pb"))))]
    return [numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())) for file in files]
