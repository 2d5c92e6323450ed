"""Names of a model in messages, and what nobody foresaw."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

from layout_ir.errors import UnforeseenError
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx.translation import Translation
from tests.frontends.onnx.models import model, node


def message(source: onnx.ModelProto | bytes) -> str:
    with pytest.raises(OnnxImportError) as error:
        from_onnx(source)
    assert not isinstance(error.value, UnforeseenError)
    return str(error.value)


def test_control_characters_are_escaped():
    said = message(model([node("NonZero", "x", name="\x1b[31mred\x07\u202e\n")], {"x": (2,)}))
    assert said.isprintable() and r"'\x1b[31mred\x07\u202e\n'" in said
    assert r"attribute \x1b[2J is not supported" in message(
        model([node("Relu", "x", "y", **{"\x1b[2J": 1})], {"x": (2,)})
    )
    assert r"'\x9b0m'" in message(model([node("Relu", "\x9b0m")], {}))


def test_long_names_are_shortened():
    name = "n" * 1_000_000
    for source in (
        model([node("NonZero", "x", name=name)], {"x": (2,)}),
        model([node("Relu", name)], {}),
        model([node("Relu", "x", name), node("Relu", "x", name)], {"x": (2,)}, [name]),
        model([node(name, "x")], {"x": (2,)}),
        model([node("Relu", "x", "y", **{name: 1})], {"x": (2,)}),
        model([node("Conv", "x x", auto_pad=name)], {"x": (1, 1, 1, 1)}),
        model([node("Relu", name)], {name: ("N",)}),
    ):
        assert len(message(source)) < 2100


def test_negative_names_that_are_not_utf8():
    for source in (
        model([node("Relu", "x", "zzzz"), node("Exp", "zzzz")], {"x": (2,)}),
        model([node("Relu", "x", name="zzzz")], {"x": (2,)}),
        model([node("zzzz", "x")], {"x": (2,)}),
        model([node("Relu", "zzzz")], {"zzzz": (2,)}),
        model([node("Add", "x zzzz")], {"x": (2,)}, constants={"zzzz": np.ones(2, np.float32)}),
    ):
        data = source.SerializeToString().replace(b"zzzz", b"\xff\xfezz")
        assert re.search(
            r"(node 0|input 0|initializer 0) of the graph uses the name '\\xff\\xfezz', which is not UTF-8",
            message(data),
        )


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (MemoryError(), "this needs more memory than there is"),
        (RecursionError("too deep"), "this is nested too deeply"),
        (KeyError("k"), "KeyError: 'k'"),
        (IndexError("3"), "IndexError: 3"),
    ],
)
def test_what_nobody_foresaw_names_the_node(monkeypatch: pytest.MonkeyPatch, raised: Exception, said: str):
    from layout_ir.frontends.onnx import importer

    def translate(*_: object) -> object:
        raise raised

    monkeypatch.setitem(importer.TRANSLATIONS, "Relu", Translation(translate))  # pyright: ignore[reportArgumentType]
    with pytest.raises(OnnxImportError, match=rf"^node 0 'first' \(Relu\): {said}") as error:
        from_onnx(model([node("Relu", "x", name="first")], {"x": (2,)}))
    assert isinstance(error.value, UnforeseenError) and error.value.__cause__ is raised
