"""The nine networks of the onnx package."""

from __future__ import annotations

from collections import Counter

import pytest
from onnx import shape_inference
from xdsl.dialects.builtin import NameLoc
from xdsl.dialects.func import ReturnOp

from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, ReorderOp, encoding_of, is_any
from layout_ir.frontends.onnx import from_onnx
from tests.frontends.onnx.models import (
    NETWORK_FOLDER,
    NETWORKS,
    load,
    main_of,
    shape_of,
)


def test_all_networks_are_there():
    assert len(NETWORKS) == 9


@pytest.mark.parametrize("name", NETWORKS)
class TestNetworks:
    def test_imports_and_verifies(self, name: str):
        from_onnx(NETWORK_FOLDER / f"light_{name}.onnx").verify()

    def test_shapes_are_those_of_onnx(self, name: str):
        proto = load(name)
        inferred = shape_inference.infer_shapes(proto, data_prop=True, strict_mode=True).graph
        wanted = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            for value in (*inferred.value_info, *inferred.output, *inferred.input)
        }
        seen: list[str] = []
        for op in main_of(from_onnx(proto)).body.block.ops:
            if isinstance(op, nn.ConstantOp | ReorderOp | ReturnOp):
                continue
            assert isinstance(op.location, NameLoc)
            # The location is the name of the node, which is that of its first output where it has none.
            names = [n.output[0] for n in proto.graph.node if op.location.desc.data in (n.name, n.output[0])]
            # A normalization that went into a convolution changed no shape.
            assert shape_of(op) == wanted[names[0]]
            seen.append(names[0])
        assert len(seen) > 15

    def test_ops_are_those_of_the_file(self, name: str):
        """Nothing is lost: what is not there has become a constant, was merged, or is the identity."""
        nodes = Counter(n.op_type for n in load(name).graph.node)
        ops = Counter(
            op.name for op in main_of(from_onnx(NETWORK_FOLDER / f"light_{name}.onnx")).body.block.ops
        )
        same = {
            "Conv": "nn.conv", "Relu": "nn.relu", "MaxPool": "nn.max_pool", "AveragePool": "nn.avg_pool",
            "Concat": "nn.concat", "Gemm": "nn.gemm", "Softmax": "nn.softmax", "LRN": "nn.lrn", "Mul": "nn.mul",
            "Transpose": "layout.permute", "GlobalAveragePool": "nn.global_avg_pool", "Reshape": "layout.reshape",
        }  # fmt: skip
        nodes["Reshape"] -= name == "inception_v1"  # one is of a weight
        for op_type, op in same.items():
            assert ops[op] == nodes[op_type], op_type
        assert ops["nn.add"] == nodes["Add"] + nodes["Sum"]  # every sum here has two terms
        assert ops["nn.batch_norm"] <= nodes["BatchNormalization"]
        assert not {"ConstantOfShape", "Unsqueeze", "Dropout"} & {op.removeprefix("nn.") for op in ops}

    def test_inputs_and_results_are_plain_and_the_rest_is_to_be_chosen(self, name: str):
        function = main_of(from_onnx(NETWORK_FOLDER / f"light_{name}.onnx"))
        (argument,) = function.body.block.args
        assert str(encoding_of(argument.type)) == "#layout.format<(n, c, h, w) : [n, c, h, w]>"
        *ops, end = function.body.block.ops
        for result in end.operands:
            assert isinstance(result.owner, ReorderOp)
            assert isinstance(encoding_of(result.type), FormatAttr)
        assert all(is_any(op.results[0].type) for op in ops if not isinstance(op, ReorderOp))


@pytest.mark.parametrize("name", ["bvlc_alexnet", "squeezenet", "vgg19", "zfnet512"])
def test_weights_that_the_file_gives_as_one_number_stay_one_number(name: str):
    """Where no normalization with its own numbers goes into them."""
    constants = [
        op
        for op in main_of(from_onnx(NETWORK_FOLDER / f"light_{name}.onnx")).body.block.ops
        if isinstance(op, nn.ConstantOp) and len(op.infer()) > 1
    ]
    assert constants and all(op.is_splat for op in constants)


def test_batch_norms_behind_convolutions_vanish():
    ops = Counter(op.name for op in main_of(from_onnx(NETWORK_FOLDER / "light_resnet50.onnx")).body.block.ops)
    assert (ops["nn.conv"], ops["nn.batch_norm"]) == (53, 0)
    # Every layer of densenet normalizes a concatenation, too; only what follows a convolution can go into it.
    ops = Counter(
        op.name for op in main_of(from_onnx(NETWORK_FOLDER / "light_densenet121.onnx")).body.block.ops
    )
    assert (ops["nn.conv"], ops["nn.batch_norm"]) == (121, 62)
