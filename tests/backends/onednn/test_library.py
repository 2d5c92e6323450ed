"""The library is found where a package put it, or an error says what to install."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import layout_ir as li
from layout_ir.backends.onednn import library as module
from layout_ir.backends.onednn.library import Refused, library
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import Program, needs_library
from tests.processes import run_python


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No package of the library is installed."""
    found: Any = module._found  # pyright: ignore[reportPrivateUsage]
    found.cache_clear()
    monkeypatch.setattr(module, "installed", lambda: iter(()))
    yield
    found.cache_clear()


@needs_library
def test_it_tells_its_release_and_makes_streams():
    found = library()
    assert found.version.startswith("3.")
    assert found.new_stream().value.value != found.new_stream().value.value
    assert found is library()


@needs_library
def test_threads_are_those_of_the_thread_that_asks():
    """What one thread sets does not change how many another runs on."""
    found = library()
    if not found.sets_threads:
        pytest.skip("this build takes all CPUs")
    import ctypes

    counted = ctypes.CDLL("libgomp.so.1").omp_get_max_threads
    found.use_threads(1)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: (found.use_threads(2), seen.append(counted())))
    thread.start()
    thread.join()
    assert (seen, counted()) == ([2], 1)


_FORKING = """
import os, signal
import numpy as np
import layout_ir as li

program = (
    "func.func @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {"
    "  %y = nn.matmul %x, %w : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>"
    "  func.return %y : tensor<256x256xf32> }"
)
product = li.compile(li.parse(program), threads=2)
x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
wanted = product([x, x])[0]
for _ in range(2):
    child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(not (product([x, x])[0] == wanted).all())
    assert (product([x, x])[0] == wanted).all()
    assert os.waitpid(child, 0)[1] == 0
"""


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_was_forked_behind_a_call_on_several_threads_calls_as_well():
    if not library().sets_threads:
        pytest.skip("this build takes all CPUs")
    run_python("-c", _FORKING, timeout=120)


@needs_library
def test_negative_a_refusal_names_what_was_asked():
    with pytest.raises(Refused, match="convolution: unimplemented"):
        library().check(3, "convolution")


@pytest.mark.usefixtures("without")
def test_negative_without_it_the_error_says_what_to_install():
    with pytest.raises(LayoutError, match=r"pip install 'layout-ir\[run\]'"):
        library()


@pytest.mark.usefixtures("without")
def test_negative_without_it_a_program_is_not_compiled_but_runs_by_the_reference():
    import numpy as np

    from layout_ir.dialects import nn

    program = Program((2, 3))
    text = program.module(program.add(nn.ReluOp, program.argument(0)))
    with pytest.raises(LayoutError, match="oneDNN is not installed"):
        li.compile(text)
    (result,) = li.run(text, [np.full((2, 3), -1, np.float32)])
    assert not result.any()


@pytest.mark.usefixtures("without")
def test_negative_a_file_that_is_no_library_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    wrong = tmp_path / "libdnnl.so.3.2"
    wrong.write_bytes(b"not a library")
    monkeypatch.setattr(module, "installed", lambda: iter((wrong,)))
    reason = module.unavailable()
    assert reason is not None and "libdnnl.so.3.2 cannot be used" in reason
