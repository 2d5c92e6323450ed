"""What a model says about itself goes into an attribute and comes out again."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, i64

from layout_ir.dialects.nn.opaque import ProtoAttr
from layout_ir.dialects.nn.protos import attribute_of, header_in, header_of, proto_of
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


def test_a_tensor_of_many_elements_is_bytes():
    """Those of a forest of decision trees take seconds to read as numbers."""
    for count in (3, 1000):
        given = onnx.helper.make_tensor(
            "t", onnx.TensorProto.DOUBLE, [count], [0.5 * k for k in range(count)]
        )
        proto = onnx.helper.make_attribute("value", given)
        kept = attribute_of(proto)
        assert isinstance(kept, ProtoAttr)
        assert ("raw_data" in kept.text.data) == (count > 64)
        back = proto_of("value", kept)
        assert back.name == "value" and back.t.name == "t"
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(back.t), onnx.numpy_helper.to_array(given))
