"""The table of decoders whose caches grow: a row that is measured, and what the table says of rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from benchmarks.decoding import Decoder, Row, difference, measured, table
from tests.api.growing_decoders import decoder, inputs_at, next_inputs
from tests.backends.onednn.small_programs import needs_library


@needs_library
def test_a_decoder_is_measured_token_by_token_and_compared():
    model = decoder("gpt2", width=8, heads=2)
    row = measured("small", Decoder(model, partial(inputs_at, model, new=1), next_inputs), 4, 3, 1)
    assert len(row.first) == 3 and min(row.token, row.again, row.whole, row.onnxruntime) > 0
    assert row.difference < 1e-5


def test_a_row_says_what_compiles_and_what_a_token_takes():
    row = Row("small", [300.0, 200.4, 400.0], 1.234, 1.0, 0.5, 0.25, 2e-6)
    assert table([row]).splitlines()[-1] == "| small | 300, 200, 400 | 1.23 | 1.00 | 0.50 | 0.25 | 2e-06 |"


def test_the_difference_is_relative_to_the_largest_magnitude():
    assert difference(np.array([4.0, -8.4]), np.array([4.0, -8.0])) == pytest.approx(0.05)
