"""What `stereo` computes: `pytest test_meaning.py`, beside the text tests in `filecheck`."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from stereo.lowering import ConvertStereoToNn
from stereo.opt import main
from xdsl.dialects.builtin import ModuleOp

import layout_ir as li
from layout_ir.testing import assert_same_program, formats, shapes


def lowered(shape: tuple[int, ...], encoding: str) -> ModuleOp:
    """The mean of two tensors as a program of `nn`, whose values have the layout `encoding`."""
    type = f"tensor<{'x'.join(map(str, shape))}xf32{encoding}>"
    text = f"""
      func.func @main(%l : {type}, %r : {type}) -> {type} {{
        %m = stereo.mid %l, %r : {type}
        func.return %m : {type}
      }}"""
    module = main.parse(text)
    ConvertStereoToNn().apply(main.context(), module)
    module.verify()
    return module


def test_the_mean_is_numpys():
    left, right = np.random.default_rng(0).standard_normal((2, 5, 3), np.float32)
    (mean,) = li.run(lowered((5, 3), ""), [left, right])
    np.testing.assert_allclose(mean, (left + right) / 2, rtol=1e-6)


# Nobody promises what pads hold, so they hold NaN.
@given(shape=shapes(2), format=formats(2, policies=("undef",)))
@settings(deadline=None, max_examples=30)
def test_the_mean_is_the_same_in_every_layout(shape: tuple[int, ...], format: li.Format):
    assert_same_program(lowered(shape, ""), lowered(shape, f", #layout.format<{format}>"))
