"""Executables as Python objects."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.small_programs import needs_library

TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.relu %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}"""


@needs_library
def test_a_copy_is_the_executable_itself():
    executable = li.compile(li.parse(TEXT))
    assert copy.copy(executable) is executable
    assert (executable([np.array([-1, 0, 1, 2], np.float32)])[0] == [0, 0, 1, 2]).all()


@needs_library
@pytest.mark.parametrize("take", [pickle.dumps, copy.deepcopy])
def test_negative_an_executable_is_of_one_process(take: object):
    assert callable(take)
    with pytest.raises(TypeError, match=r"cannot be pickled or copied: Executable\.save writes a file"):
        take(li.compile(li.parse(TEXT)))


RELU = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = nn.relu %x : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}"""


@pytest.mark.parametrize("calls", [0, -1, 1.5, "2"])
@needs_library
def test_negative_a_profile_is_of_one_call_at_least(calls: Any):
    executable, x = li.compile(li.parse(RELU)), np.ones((2, 3), np.float32)
    with pytest.raises(li.LayoutError, match=r"calls = "):
        executable.profile([x], calls=calls)
    assert len(executable.profile([x], calls=2)) == 1


class _Hidden:
    """A tensor that NumPy may not read, as one of torch that needs its gradient."""

    shape, dtype = (2, 3), "float32"

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("call detach() first")


@needs_library
def test_negative_inputs_that_numpy_cannot_read_are_named():
    module, x = li.parse(RELU), np.ones((2, 3), np.float32)
    executable = li.compile(module)
    for wrong, reason in ((_Hidden(), "call detach"), ([[1.0], [2.0, 3.0]], "inhomogeneous")):
        calls: list[Callable[[Any], Any]] = [executable, partial(li.run, module)]
        for call in calls:
            with pytest.raises(li.LayoutError, match=rf"^input 'x': .* is no array to NumPy: .*{reason}"):
                call([wrong])
    assert (executable([x])[0] == x).all()
