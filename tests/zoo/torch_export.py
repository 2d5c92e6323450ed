"""PyTorch networks as ONNX models, by both exporters of PyTorch.

Weights are drawn so that numbers stay in range through any depth: convolutions and linear layers keep the variance, and
every batch normalization gets the mean and variance of what reaches it, as training would leave them.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]

from tests.zoo.quiet import quiet

_torch: Any = torch
"""Where its types are only half known."""

Arrays = Mapping[str, NDArray[Any]]
DynamicDims = Mapping[str, Mapping[int, str]]
"""For each input that has some: dim -> symbolic name."""


def export(
    family: str,
    name: str,
    inputs: Arrays,
    exporter: str,
    dynamic: DynamicDims,
    unfused: bool = False,
    opset: int | None = None,
) -> onnx.ModelProto:
    """The network that the function `name` of `tests.zoo.<family>` makes, as `exporter` ("script" or "dynamo") writes
    it for arrays like `inputs`. Only the older one takes `unfused`, which keeps batch normalizations apart from
    convolutions, and `opset`, the version of ONNX."""
    with quiet(), _torch.random.fork_rng(devices=[]):
        _torch.manual_seed(zlib.crc32(name.encode()))
        network: nn.Module = getattr(import_module(f"tests.zoo.{family}"), name)()
        _draw_weights(network)
        network.eval()
        examples = tuple(_torch.from_numpy(array) for array in inputs.values())
        _calibrate(network, examples)
        names = list(inputs)
        if exporter == "script":
            model = _by_script(network, examples, names, dynamic, unfused, opset or 17)
        else:
            assert not unfused and opset is None
            model = _by_dynamo(network, examples, names, dynamic)
    for node in _nodes(model.graph):
        # What they know of the Python code: texts with paths of the machine.
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    model.graph.name = name
    return model


def _by_script(
    network: nn.Module,
    examples: tuple[Tensor, ...],
    names: list[str],
    dynamic: DynamicDims,
    unfused: bool,
    opset: int,
) -> onnx.ModelProto:
    out = io.BytesIO()
    mode = torch.onnx.TrainingMode.PRESERVE if unfused else torch.onnx.TrainingMode.EVAL
    _torch.onnx.export(
        network,
        examples,
        out,
        dynamo=False,
        input_names=names,
        dynamic_axes={name: dict(dims) for name, dims in dynamic.items()},
        opset_version=opset,
        training=mode,
    )
    return onnx.load_from_string(out.getvalue())


def _by_dynamo(
    network: nn.Module, examples: tuple[Tensor, ...], names: list[str], dynamic: DynamicDims
) -> onnx.ModelProto:
    dims: dict[str, torch.export.Dim] = {}
    shapes = tuple(
        {
            dim: dims.setdefault(symbol, torch.export.Dim(symbol))
            for dim, symbol in dynamic.get(name, {}).items()
        }
        for name in names
    )
    program = _torch.onnx.export(
        network,
        examples,
        dynamo=True,
        input_names=names,
        dynamic_shapes=shapes if dynamic else None,
        verbose=False,
    )
    return program.model_proto


def _draw_weights(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, module.in_features**-0.5)
        elif isinstance(module, _BatchNorm | nn.GroupNorm | nn.LayerNorm | nn.InstanceNorm2d):
            own = dict(module.named_parameters(recurse=False))
            if own:
                nn.init.uniform_(own["weight"], 0.6, 1.4)
                nn.init.normal_(own["bias"], 0.0, 0.2)
            continue
        else:
            continue
        if module.bias is not None:
            nn.init.normal_(module.bias, 0.0, 0.1)


_SAMPLES = 16
"""Batches by which batch normalizations are measured: with one, the last of them would see a handful of numbers."""


def _calibrate(network: nn.Module, examples: tuple[Tensor, ...]) -> None:
    """Runs the network on random inputs; each batch normalization takes mean and variance of what reaches it before it
    works on it."""

    def measure(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        assert isinstance(module, _BatchNorm)
        (x,) = arguments
        dims = [dim for dim in range(x.ndim) if dim != 1]
        assert module.running_mean is not None and module.running_var is not None
        module.running_mean.copy_(x.mean(dims))
        module.running_var.copy_(x.var(dims, unbiased=False) + 1e-3)

    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    hooks = [module.register_forward_pre_hook(measure) for module in norms]
    with torch.no_grad():
        network(*(torch.cat([_like(example) for _ in range(_SAMPLES)]) for example in examples))
    for hook in hooks:
        hook.remove()


def _like(example: Tensor) -> Tensor:
    """Other numbers of the same distribution."""
    if example.is_floating_point():
        return torch.randn_like(example)
    return example.flatten()[torch.randperm(example.numel())].reshape_as(example)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a graph and of the graphs inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
