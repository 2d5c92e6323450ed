"""The garbage collector is off in the body alone."""

from __future__ import annotations

import gc

import pytest

from layout_ir.gc_pause import gc_paused


@pytest.fixture(autouse=True)
def restored():
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


def test_the_collector_is_off_in_the_body_and_on_again_behind_it():
    gc.enable()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_leaves_it_on():
    gc.enable()
    with pytest.raises(KeyError), gc_paused():
        raise KeyError
    assert gc.isenabled()


def test_negative_a_collector_that_was_off_stays_off():
    gc.disable()
    with gc_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
