"""What a model says about itself goes into an attribute and comes out again."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import StringAttr, i64

from layout_ir.dialects.nn.opaque import ProtoAttr
from layout_ir.dialects.nn.protos import header_in, header_of
from layout_ir.errors import LayoutError
from tests.frontends.onnx.models import model, node

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")


def test_the_header_has_all_but_the_graph():
    source = model([node("Relu", "x")], {"x": [2]})
    source.producer_name, source.domain, source.model_version = 'a "b"\n', "com.example", 3
    source.metadata_props.add(key="k", value="v")
    source.graph.doc_string = "ü"
    header = header_in(header_of(source))
    assert not header.graph.node and not header.graph.input and header.graph.doc_string == "ü"
    del source.graph.node[:], source.graph.input[:], source.graph.output[:]
    assert header == source


@pytest.mark.parametrize(
    "attribute", [i64, ProtoAttr(StringAttr("graph { nodes: 1 }")), ProtoAttr(StringAttr("\0"))]
)
def test_negative_what_is_no_header(attribute: object):
    with pytest.raises(LayoutError, match="does not say what its model is"):
        header_in(attribute)  # pyright: ignore[reportArgumentType]
