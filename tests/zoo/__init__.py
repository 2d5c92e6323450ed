"""Networks of many kinds as ONNX models with random weights, for tests and benchmarks.

    network = NETWORKS["resnet18"]
    model = network.build()              # onnx.ModelProto, the same on every call
    feeds = network.inputs(seed=1)       # arrays by name

Topologies are the published ones (number and kind of blocks); channels and pictures are smaller, so that each builds
and runs in seconds. `name` is a network as the older exporter of PyTorch writes it (dynamo=False), `name-dynamo` as the
newer does; other endings say what became of it:

| ending | what |
|---|---|
| `-dynamic` | some sizes are symbolic |
| `-unfused` | batch normalizations stand apart from convolutions |
| `-opset9` and so on | an older or newer version of ONNX |
| `-full` | channels and pictures as they were published |
| `-wide` | five pictures that are higher than wide, so that no two extents are equal |
| `-nhwc` | the graph in NHWC, each convolution, pool, norm and resize between two transposes |
| `-onnx2tf` | in NHWC as it comes back from TensorFlow: pads, means and scalings are ops of their own |
| `-f16` | half precision |
| `-qdq`, `-qdq-channels` | QuantizeLinear and DequantizeLinear around each op; one scale per tensor, per channel |
| `-qdq-activations` | the same behind each ReLU only, with a scale per channel of the activation |
| `-hwio` | quantized weights of convolutions as TensorFlow keeps them, transposed after they are dequantized |
| `-qoperator`, `-integer` | QLinearConv and the like; MatMulInteger and ConvInteger |
| `-ort-extended`, `-ort-all` | what ONNX Runtime writes after its optimizations of that level |
| `-keras` | a Keras network converted by tf2onnx |
| `-keras-raw` | the same before tf2onnx optimizes its Transposes |

This module imports nothing but NumPy: PyTorch, ONNX and the rest are loaded by the first `build`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Input:
    """What an input takes: standard normal numbers, or whole numbers from 0 to `below` - 1."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int = 0

    def array(self, random: np.random.Generator) -> NDArray[Any]:
        if np.dtype(self.dtype).kind == "f":
            return random.standard_normal(self.shape).astype(self.dtype)
        return random.integers(0, self.below, self.shape).astype(self.dtype)


Inputs = Mapping[str, Input]


@dataclass(frozen=True)
class Network:
    name: str
    family: str
    """The module of this package that has it."""
    build: Callable[[], onnx.ModelProto]
    """Makes the model, with the same bytes on every call."""
    takes: Inputs
    requires: tuple[str, ...] = ("onnx", "torch")
    """Packages without which it cannot be built."""
    runs: bool = True
    """Whether ONNX Runtime can run it."""
    external_data: bool = False
    """Whether `save` writes the weights into a file of their own."""

    def inputs(self, seed: int = 0) -> Arrays:
        """Random inputs by name."""
        return draw(self.takes, seed)

    def save(self, folder: Path) -> Path:
        """Builds the model and writes it to the file `<folder>/<name>.onnx`."""
        from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors

        path = folder / f"{self.name}.onnx"
        model = self.build()
        if self.external_data:
            convert_model_to_external_data(model, location=f"{self.name}.weights", size_threshold=0)
            write_external_data_tensors(model, str(folder))
        path.write_bytes(model.SerializeToString())
        return path


def draw(takes: Inputs, seed: int) -> Arrays:
    """Random arrays for inputs."""
    random = np.random.default_rng(seed)
    return {name: given.array(random) for name, given in takes.items()}


NETWORKS: dict[str, Network] = {}


def _add(network: Network) -> None:
    assert network.name not in NETWORKS, network.name
    NETWORKS[network.name] = network


# --- Networks in PyTorch: a function of their name in the module of their family ---


def _export(
    family: str,
    name: str,
    takes: Inputs,
    exporter: str = "script",
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    unfused: bool = False,
    opset: int | None = None,
) -> onnx.ModelProto:
    from tests.zoo.torch_export import export

    return export(family, name, draw(takes, 0), exporter, dynamic or {}, unfused, opset)


def _torch(family: str, names: str, **takes: Input) -> None:
    for name in names.split():
        build = partial(_export, family, name, takes)
        _add(Network(name, family, build, takes, ("onnx", "torch")))
        build = partial(_export, family, name, takes, "dynamo")
        _add(Network(f"{name}-dynamo", family, build, takes, ("onnx", "torch", "onnxscript")))


def image(size: int, channels: int = 3, batch: int = 1) -> Input:
    return Input((batch, channels, size, size))


def tokens(length: int, below: int = 200, batch: int = 1) -> Input:
    return Input((batch, length), "int64", below)


_torch(
    "classification",
    "resnet18 resnet50 resnext50 se_resnet50 res2net50 densenet121 vgg16 regnet_y convnext_tiny "
    "repvgg xception nasnet convmixer squeezenet gated",
    x=image(64),
)
_torch("classification", "inception_v3", x=image(96))
_torch(
    "mobile",
    "mobilenet_v1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large efficientnet_b0 efficientnet_v2 "
    "mnasnet shufflenet_v1 shufflenet_v2 ghostnet mobilevit depthwise_separable",
    x=image(64),
)
_torch("detection", "cspdarknet53", x=image(64))
_torch("detection", "yolov8 yolox detr", x=image(96))
_torch("detection", "retinanet ssd centernet", x=image(128))
_torch("segmentation", "unet_transposed unet_resized hrnet segformer bisenet fcn", x=image(64))
_torch("segmentation", "deeplabv3 deeplabv3_plus pspnet", x=image(128))
_torch("segmentation", "unet_3d", x=Input((1, 1, 8, 16, 16)))
_torch("vision_transformers", "vit_tiny maxvit levit poolformer mlp_mixer gmlp", x=image(64))
_torch("vision_transformers", "swin_tiny", x=image(128))
_torch("language", "bert", input_ids=tokens(16), attention_mask=tokens(16, 2), token_type_ids=tokens(16, 2))
_torch("language", "gpt2 t5_encoder llama einsum_transformer mixture_of_experts", input_ids=tokens(16))
_torch(
    "language", "gpt2_step", token=tokens(1), past_keys=Input((1, 4, 7, 16)), past_values=Input((1, 4, 7, 16))
)
_torch("language", "clip", pixels=image(64, batch=2), input_ids=tokens(12, batch=3))
_torch("language", "dlrm", dense=Input((4, 13)), sparse=Input((4, 6, 3), "int64", 50))
_torch("language", "translator", source=tokens(14), target=tokens(9))
_torch("sound", "audio_cnn", x=Input((1, 1, 4000)))
_torch("sound", "wav2vec2", x=Input((1, 1, 3200)))
_torch("sound", "whisper_encoder", mel=Input((1, 20, 64)))
_torch("sound", "vocoder speech_commands", mel=Input((1, 20, 32)))
_torch("sound", "conformer", mel=Input((1, 40, 20)))
_torch("sound", "tcn", x=Input((1, 4, 50)))
_torch("sound", "wavenet", x=Input((1, 1, 300)))
_torch("recurrent", "lstm_tagger gru_tagger rnn_tagger", input_ids=tokens(12, 100))
_torch("recurrent", "crnn", x=Input((1, 1, 32, 64)))
_torch("recurrent", "deep_speech", x=Input((1, 1, 20, 48)))
_torch("recurrent", "conv_lstm", x=Input((1, 3, 1, 16, 16)))
_torch("recurrent", "captioner", pixels=image(32), input_ids=tokens(6, 50))
_torch(
    "generative",
    "diffusion_unet",
    sample=image(16, 4),
    timestep=Input((1,), "int64", 1000),
    context=Input((1, 7, 24)),
)
_torch("generative", "vae_decoder", z=image(16, 4))
_torch("generative", "vae_encoder edsr cyclegan autoencoder", x=image(32))
_torch("generative", "style_transfer nafnet", x=image(64))
_torch("generative", "espcn", x=image(32, 1))
_torch("generative", "dcgan", noise=Input((1, 32)))
_torch("generative", "stylegan", noise=Input((2, 16)))
_torch("special", "pointnet dgcnn", points=Input((1, 3, 64)))
_torch("special", "graph_convolution", features=Input((10, 12)), adjacency=Input((10, 10)))
_torch("special", "c3d r2plus1d", video=Input((1, 3, 8, 16, 16)))
_torch("special", "spatial_transformer", x=image(28, 1))
_torch("special", "prelu hardswish gelu mish silu elu channel_shuffle", x=image(32))
_torch("special", "alexnet", x=image(128))
_torch("special", "siamese", left=image(32), right=image(32))
_torch("special", "radiance_field", points=Input((64, 3)))
_torch("special", "deployed", pixels=Input((1, 32, 32, 3), "uint8", 256))


# --- The same with symbolic sizes: exported with one size, run with another ---


def _dynamic(name: str, sizes: Mapping[str, int], **dims: Mapping[int, str]) -> None:
    """`dims` says for each input which dims are symbolic, `sizes` what they are when the network is run."""
    for ending in ("", "-dynamo"):
        known = NETWORKS[f"{name}{ending}"]
        takes = dict(known.takes)
        for argument, named in dims.items():
            shape = list(takes[argument].shape)
            for dim, symbol in named.items():
                shape[dim] = sizes[symbol]
            takes[argument] = Input(tuple(shape), takes[argument].dtype, takes[argument].below)
        exporter = "dynamo" if ending else "script"
        # The newer exporter takes a size of 1 for a fact about the network.
        example = {key: _enlarged(known.takes[key], dims.get(key, {})) for key in takes}
        build = partial(_export, known.family, name, example, exporter, dims)
        _add(Network(f"{name}{ending}-dynamic", known.family, build, takes, known.requires))


def _enlarged(given: Input, dims: Mapping[int, str]) -> Input:
    shape = tuple(2 if dim in dims and extent == 1 else extent for dim, extent in enumerate(given.shape))
    return Input(shape, given.dtype, given.below)


for _name in ("resnet18", "mobilenet_v2", "convnext_tiny", "shufflenet_v2", "vit_tiny", "densenet121"):
    _dynamic(_name, {"batch": 3}, x={0: "batch"})
_dynamic("unet_transposed", {"batch": 2, "height": 32, "width": 96}, x={0: "batch"})
_dynamic("espcn", {"height": 20, "width": 24}, x={2: "height", 3: "width"})
_dynamic("edsr", {"height": 20, "width": 24}, x={2: "height", 3: "width"})
_TEXT = {0: "batch", 1: "length"}
_dynamic("gpt2", {"batch": 2, "length": 11}, input_ids=_TEXT)
_dynamic("bert", {"batch": 2, "length": 11}, input_ids=_TEXT, attention_mask=_TEXT, token_type_ids=_TEXT)


# --- The same by other options of the older exporter ---


def _with_options(ending: str, names: str, **options: Any) -> None:
    for name in names.split():
        known = NETWORKS[name]
        build = partial(_export, known.family, name, known.takes, **options)
        _add(Network(f"{name}-{ending}", known.family, build, known.takes, known.requires))


_with_options("unfused", "resnet18 mobilenet_v2 res2net50 nasnet repvgg unet_resized crnn", unfused=True)
_with_options("opset9", "resnet18 mobilenet_v2 shufflenet_v1", opset=9)
_with_options("opset11", "mobilenet_v3_small bert unet_resized convnext_tiny", opset=11)
_with_options("opset13", "vit_tiny segformer conformer", opset=13)
_with_options("opset20", "vit_tiny spatial_transformer gelu", opset=20)


# --- In the widths that were published ---


def _full(family: str, names: str, size: int = 224) -> None:
    takes = {"x": image(size)}
    for name in names.split():
        build = partial(_export, family, f"{name}_full", takes)
        _add(Network(f"{name}-full", family, build, takes, NETWORKS[name].requires))


_full("classification", "densenet121 nasnet regnet_y res2net50")
_full("mobile", "efficientnet_b0 ghostnet")
_full("detection", "cspdarknet53", 256)
_full("detection", "yolov8", 320)


def _full_text(names: str, **takes: Input) -> None:
    """Of any batch and length, as language models are exported."""
    dims = dict.fromkeys(takes, _TEXT)
    example = {key: _enlarged(given, _TEXT) for key, given in takes.items()}
    for name in names.split():
        build = partial(_export, "language", f"{name}_full", example, "script", dims)
        _add(Network(f"{name}-full-dynamic", "language", build, takes, NETWORKS[name].requires))


_full_text("bert", input_ids=tokens(16), attention_mask=tokens(16, 2), token_type_ids=tokens(16, 2))
_full_text("gpt2 t5_encoder llama", input_ids=tokens(16))


# --- The same for five pictures, higher than wide ---


def _wide(names: str) -> None:
    for name in names.split():
        known = NETWORKS[name]
        takes = {"x": Input((5, 3, 96, 64))}
        build = partial(_export, known.family, name, takes)
        _add(Network(f"{name}-wide", known.family, build, takes, known.requires))


_wide(
    "densenet121 mobilenet_v3_small efficientnet_b0 shufflenet_v2 unet_transposed unet_resized ghostnet nasnet "
    "res2net50 segformer"
)


# --- One block again and again ---


def _repeated(count: int) -> onnx.ModelProto:
    from tests.zoo.repeated import blocks

    return blocks(count)


for _count in (40, 400):
    _takes = {"x": Input((2, 6, 10, 14))}
    _add(Network(f"blocks{_count}", "repeated", partial(_repeated, _count), _takes, ("onnx",)))


# --- What tools make of a model ---


def _derive(family: str, function: str, of: Network, samples: int) -> onnx.ModelProto:
    make: Callable[..., onnx.ModelProto] = getattr(import_module(f"tests.zoo.{family}"), function)
    return make(of.build(), [of.inputs(seed) for seed in range(samples)]) if samples else make(of.build())


def _derived(family: str, function: str, ending: str, names: str, samples: int = 0) -> None:
    """Networks made from others by a function of a module, which may be given some inputs to measure by."""
    for name in names.split():
        of = NETWORKS[name]
        build = partial(_derive, family, function, of, samples)
        _add(Network(f"{name}-{ending}", family, build, of.takes, (*of.requires, "onnxruntime")))


def _nhwc(names: str, function: str = "channels_last", ending: str = "nhwc") -> None:
    for name in names.split():
        of = NETWORKS[name]
        takes = {key: _transposed(given) for key, given in of.takes.items()}
        build = partial(_derive, "channels_last", function, of, 0)
        _add(Network(f"{name}-{ending}", "channels_last", build, takes, of.requires))


def _transposed(given: Input) -> Input:
    if len(given.shape) != 4:
        return given
    n, c, h, w = given.shape
    return Input((n, h, w, c), given.dtype, given.below)


_nhwc("resnet18 resnet18-unfused se_resnet50 densenet121 mobilenet_v2 mobilenet_v3_small efficientnet_b0")
_nhwc("shufflenet_v2 unet_transposed unet_resized deeplabv3 yolov8 espcn style_transfer nasnet poolformer")
_nhwc(
    "spatial_transformer prelu ghostnet res2net50 regnet_y cspdarknet53 convnext_tiny xception inception_v3 hrnet"
)
_nhwc(
    "vit_tiny swin_tiny maxvit segformer levit mobilevit mobilenet_v3_large shufflenet_v1 deeplabv3_plus pspnet"
)
_nhwc("retinanet centernet bisenet vae_decoder diffusion_unet nafnet edsr blocks40 blocks400")
_nhwc("densenet121-wide mobilenet_v3_small-wide efficientnet_b0-wide shufflenet_v2-wide unet_transposed-wide")
_nhwc("unet_resized-wide ghostnet-wide nasnet-wide res2net50-wide segformer-wide")
_nhwc("resnet18-dynamic mobilenet_v2-dynamic densenet121-dynamic shufflenet_v2-dynamic vit_tiny-dynamic")
_nhwc("unet_transposed-dynamic espcn-dynamic convnext_tiny-dynamic")
_nhwc(
    "resnet18-unfused densenet121 mobilenet_v2 mobilenet_v3_small efficientnet_b0-wide shufflenet_v2-wide "
    "unet_resized-wide yolov8 ghostnet res2net50 mobilenet_v2-dynamic",
    "tensorflow_style",
    "onnx2tf",
)
_derived("precision", "half", "f16", "resnet18 mobilenet_v2 unet_resized bert yolov8 resnet18-nhwc")
_derived("precision", "static_qdq", "qdq", "resnet18 mobilenet_v2 unet_resized vit_tiny resnet18-nhwc", 3)
_derived("precision", "static_qdq_channels", "qdq-channels", "resnet18 shufflenet_v2 ssd", 3)
_derived(
    "precision", "static_qdq_channels", "qdq-channels", "resnet18-nhwc mobilenet_v2-nhwc unet_resized-wide", 3
)
_derived("precision", "activation_channels", "qdq-activations", "resnet18 unet_resized-wide", 3)
_derived(
    "precision", "tensorflow_weights", "hwio", "resnet18-nhwc-qdq-channels mobilenet_v2-nhwc-qdq-channels"
)
_nhwc("resnet18-qdq-channels shufflenet_v2-qdq-channels unet_resized-wide-qdq-channels")
_nhwc("resnet18-qdq-activations unet_resized-wide-qdq-activations")
_derived("precision", "static_qoperator", "qoperator", "resnet18 mobilenet_v2 squeezenet", 3)
_derived("precision", "dynamic_integer", "integer", "resnet18 bert lstm_tagger")
_derived("optimized", "extended", "ort-extended", "resnet18 mobilenet_v2 se_resnet50 bert gpt2 convnext_tiny")
_derived("optimized", "extended", "ort-extended", "resnet18-qdq resnet18-f16 mobilenet_v2-nhwc")
_derived("optimized", "everything", "ort-all", "resnet18 mobilenet_v3_small unet_resized densenet121 yolov8")


# --- Written by hand: control flow, functions, ops that are not ONNX's, weights in a file of their own ---


def _call(family: str, name: str) -> onnx.ModelProto:
    return getattr(import_module(f"tests.zoo.{family}"), name)()


def _handmade(name: str, requires: tuple[str, ...] = ("onnx",), runs: bool = True, **takes: Input) -> None:
    _add(Network(name, "handmade", partial(_call, "handmade", name), takes, requires, runs))


_handmade("branch", x=image(16), flag=Input((), "bool", 2))
_handmade("loop", x=image(16, 8))
_handmade("loop_until", x=image(16, 8))
_handmade("scan", sequence=Input((6, 4)), state=Input((8,)))
_handmade("nested", x=image(16, 8), flag=Input((), "bool", 2))
_handmade("model_function", x=image(16))
_handmade("custom_op", runs=False, x=image(16))
_handmade("sequence", x=image(16, 8))
_handmade("detector_nms", ("onnx", "torch"), x=image(128))
_add(replace(NETWORKS["resnet18"], name="resnet18-external", external_data=True))


# --- Keras networks by tf2onnx: NHWC in and out ---


def _keras(names: str, **takes: Input) -> None:
    for name in names.split():
        build = partial(_call, "keras_networks", name)
        _add(Network(f"{name}-keras", "keras_networks", build, takes, ("onnx", "tensorflow", "tf2onnx")))


def _keras_with_transposes(names: str) -> None:
    for name in names.split():
        known = NETWORKS[f"{name}-keras"]
        build = partial(_keras_unoptimized, name)
        _add(Network(f"{name}-keras-raw", known.family, build, known.takes, known.requires))


def _keras_unoptimized(name: str) -> onnx.ModelProto:
    from tests.zoo.keras_networks import with_transposes

    return with_transposes(name)


_keras("mobilenet_v2 mobilenet_v3_small nasnet efficientnet resnet unet separable", x=Input((1, 64, 64, 3)))
_keras("densenet efficientnet_v2", x=Input((1, 64, 64, 3)))
_keras("conv1d", x=Input((1, 64, 4)))
_keras_with_transposes("mobilenet_v2 mobilenet_v3_small nasnet efficientnet resnet unet separable conv1d")
_keras_with_transposes("densenet efficientnet_v2")
