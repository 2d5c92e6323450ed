"""Layers of networks: their numbers are the published ones, their shapes those that PyTorch computes."""

from __future__ import annotations

from math import prod

import pytest

from benchmarks.layer_shapes import NETWORKS, Convolution, MatMul, layers


def test_the_weights_of_resnet_50_are_as_many_as_were_published():
    # 25,557,032 parameters, of which 53,120 belong to batch normalizations and 1000 are the bias of the classifier.
    assert sum(prod(layer.shapes(1)[1]) for layer in NETWORKS["resnet50"]()) == 25_502_912


def test_the_products_of_bert_are_as_many_as_were_published():
    # 12 layers: four products of 768 x 768, and 768 x 3072 twice: 84,934,656 weights without bias.
    square, up, down, *attention = layers("bert-base")
    assert 12 * (4 * prod(square.shapes(1)[1]) + sum(prod(x.shapes(1)[1]) for x in (up, down))) == 84_934_656
    assert [layer.shapes(2)[2] for layer in attention] == [(2, 12, 128, 128), (2, 12, 128, 64)]


@pytest.mark.parametrize("network", NETWORKS)
def test_shapes_are_those_that_pytorch_computes(network: str):
    torch = pytest.importorskip("torch")
    found = layers(network)
    assert len(set(found)) == len(found) >= 4
    for layer in found:
        source, weights, result = (torch.empty(shape, device="meta") for shape in layer.shapes(3))
        if isinstance(layer, MatMul):
            assert torch.matmul(source, weights).shape == result.shape
            continue
        flat = weights.reshape(-1, *weights.shape[-3:])
        output = torch.nn.functional.conv2d(
            source, flat, None, layer.stride, layer.padding, groups=layer.groups
        )
        assert output.shape == result.shape


def test_negative_groups_are_a_dim_only_where_there_are_several():
    assert Convolution(16, 16, 8, 3).shapes(1)[1] == (16, 16, 3, 3)
    assert Convolution(16, 16, 8, 3, groups=16).shapes(1)[1] == (16, 1, 1, 3, 3)
