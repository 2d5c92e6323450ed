"""When machine code takes over: each case in a process of its own, which has not loaded it yet."""

import textwrap

from tests.processes import run_python

BEGIN = """
import sys, time
import numpy as np
import layout_ir as li
from layout_ir.api.compiled_functions import TAKEOVER
a = np.arange(64 * 64.0).reshape(64, 64)
def right():
    assert (li.ascontiguousarray(a.T) == a.T).all() and li.ascontiguousarray(a) is a
    out = np.zeros((64, 64)); li.copyto(out, a.T); assert (out == a.T).all()
"""


def ran(code: str) -> None:
    program = BEGIN + textwrap.dedent(code)
    result = run_python("-c", program, timeout=120, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_few_copies_load_nothing() -> None:
    ran(
        """
        for _ in range(10):
            right()
        assert 0 < TAKEOVER.spent < TAKEOVER.budget and TAKEOVER.state == "waiting"
        assert "llvmlite" not in sys.modules
        """
    )


def test_many_copies_load_it_while_numpy_goes_on() -> None:
    ran(
        """
        function = li.ascontiguousarray
        TAKEOVER.budget = 1
        right()
        assert TAKEOVER.state in ("started", "loaded")
        end = time.monotonic() + 100
        while TAKEOVER.state == "started" and time.monotonic() < end:
            right()
        assert TAKEOVER.state == "loaded" and li.ascontiguousarray is function
        right()
        """
    )


def test_what_is_contiguous_already_does_not_count() -> None:
    ran(
        """
        for _ in range(100):
            li.ascontiguousarray(a)
        assert TAKEOVER.spent == 0
        """
    )


def test_negative_arrays_that_are_built_otherwise_stay_with_numpy() -> None:
    ran(
        """
        from layout_ir.backends.llvm.runtime import array_functions
        array_functions._is_as_known = lambda: False
        assert not TAKEOVER.load() and TAKEOVER.state == "refused"
        right()
        """
    )


def test_a_fork_while_it_loads_begins_again() -> None:
    ran(
        """
        import os
        TAKEOVER.state = "started"  # by a thread that the child does not have
        child = os.fork()
        if child == 0:
            ok = TAKEOVER.state == "waiting" and TAKEOVER.load()
            right()
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0 and TAKEOVER.state == "started"
        """
    )
