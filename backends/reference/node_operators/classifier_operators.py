"""Operators of ai.onnx.ml, which name and weigh classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.aionnxml import op_svm_classifier

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

_PACKAGE_CLASSIFIER: Any = op_svm_classifier.SVMClassifier  # without type information


class SVMClassifier(_PACKAGE_CLASSIFIER):
    """SVMClassifier without probabilities of three classes and more: 1.23 of the package couples those of pairs
    wrongly."""

    op_domain = "ai.onnx.ml"

    def _run(self, x: Array, **attributes: Any) -> Any:
        if attributes.get("prob_a") is not None and len(attributes.get("vectors_per_class") or ()) > 2:
            raise LayoutError("probabilities of more than two classes are not computed right")
        package: Any = super()
        return package._run(x, **attributes)


class ZipMap(OpRun):
    """A map from class to number for each row, as a dictionary."""

    op_domain = "ai.onnx.ml"

    def _run(
        self,
        x: Array,
        classlabels_int64s: Sequence[int] | None = None,
        classlabels_strings: Sequence[str] | None = None,
    ) -> tuple[list[dict[int | str, float]]]:
        labels = list(classlabels_int64s or classlabels_strings or ())
        rows = np.atleast_2d(x)
        if rows.shape[1] != len(labels):
            raise LayoutError(f"{rows.shape[1]} columns for {len(labels)} classes")
        return ([dict(zip(labels, row, strict=True)) for row in rows.tolist()],)


OPERATORS = (SVMClassifier, ZipMap)
