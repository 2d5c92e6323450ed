"""What is registered for ops: which entry an op gets, and how long it is kept."""

from __future__ import annotations

from xdsl.dialects import test
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation

from layout_ir.dialects import nn
from layout_ir.interfaces import OpRegistry


def _op(name: str) -> Operation:
    return UnregisteredOp.with_name(name).create()


def test_the_most_derived_class_counts_whatever_came_last():
    registry = OpRegistry[str]()
    registry.register(nn.ReluOp, "relu")
    registry.register(nn.NNOp, "nn")
    assert registry.find(nn.ReluOp.__new__(nn.ReluOp)) == "relu"
    assert registry.find(nn.ExpOp.__new__(nn.ExpOp)) == "nn"
    assert registry.find(test.TestOp()) is None


def test_a_name_goes_before_a_class_and_reaches_unregistered_ops():
    registry = OpRegistry[str]()
    registry.register(test.TestOp, "class")
    assert registry.find(test.TestOp()) == "class"
    registry.register("test.op", "name")
    registry.register("other.op", "other")
    assert registry.find(test.TestOp()) == "name"
    assert registry.find(_op("other.op")) == "other"


def test_negative_a_name_that_nobody_registered_has_no_entry():
    registry = OpRegistry[str]()
    registry.register("other.op", "other")
    assert registry.find(_op("other.ops")) is None and registry.find(test.TestOp()) is None


def test_what_is_registered_in_isolation_is_forgotten():
    registry = OpRegistry[str]()
    registry.register(test.TestOp, "before")
    with registry.isolated():
        assert registry.find(test.TestOp()) is None
        registry.register(test.TestOp, "inside")
        assert registry.find(test.TestOp()) == "inside"
    assert registry.find(test.TestOp()) == "before"
