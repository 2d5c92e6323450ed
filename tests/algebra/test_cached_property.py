"""Properties, and hashes of values, that are computed once."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from dataclasses import replace
from time import sleep

import pytest

from layout_ir.algebra.cached_property import cached_property
from layout_ir.algebra.format import Format
from tests.processes import run_python


class _Slow:
    def __init__(self) -> None:
        self.times = 0

    @cached_property
    def value(self) -> int:
        """What it is."""
        self.times += 1
        sleep(0.2 if self.times == 1 else 0)
        return 42


def test_a_value_is_computed_once():
    thing = _Slow()
    assert (thing.value, thing.value, thing.times) == (42, 42, 1)
    assert _Slow.value.__doc__ == "What it is."
    assert _Slow().value == 42


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_child_that_is_forked_meanwhile_does_not_wait():
    thing = _Slow()
    other = threading.Thread(target=lambda: thing.value)
    other.start()
    while not thing.times:
        sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if _Slow().value == 42 and thing.value == 42 else 1)
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_hash_follows_equality_and_does_not_travel():
    fmt = Format.from_tag("nChw8c")
    layout = fmt.bind((1, 16, 2, 2))
    known = {fmt: 1, layout: 2}
    assert known[Format.parse(str(fmt))] == 1 and known[replace(layout)] == 2
    assert hash(fmt.with_pad("undef")) != hash(fmt)
    for value in (fmt, layout):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and "_hash" not in vars(again) and known[again] == known[value]
    program = (
        "import pickle, sys; fmt, layout = pickle.loads(bytes.fromhex(sys.stdin.read())); "
        "from layout_ir.algebra.format import Format; "
        "assert fmt in {Format.from_tag('nChw8c'): 1} and layout in {fmt.bind(layout.shape): 2}"
    )
    run_python("-c", program, stdin=pickle.dumps((fmt, layout)).hex())
