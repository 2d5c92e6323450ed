"""Executables as Python objects."""

from __future__ import annotations

import copy
import pickle

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
