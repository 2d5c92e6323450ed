"""Networks of Keras, converted by tf2onnx: NHWC in and out, pads and layouts as TensorFlow means them."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import onnx

from tests.zoo.optimized import in_order_of_use
from tests.zoo.quiet import quiet

Keras = Any
"""TensorFlow has no types that a checker could use."""


def with_transposes(name: str) -> onnx.ModelProto:
    """The network that the function `name` makes, as tf2onnx writes it without its own optimization of Transposes: what
    its rules for single ops leave."""
    optimizers: Any = import_module("tf2onnx.optimizer")._optimizers
    left_out = optimizers.pop("optimize_transpose")
    try:
        return globals()[name]()
    finally:
        optimizers["optimize_transpose"] = left_out
        optimizers.move_to_end("optimize_transpose", last=False)


def _converted(make: Callable[[Keras], Keras], shape: tuple[int, ...]) -> onnx.ModelProto:
    """The network that `make(keras)` gives for an input of `shape`, as ONNX; batch normalizations have measured."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf: Any = import_module("tensorflow")
    tf2onnx: Any = import_module("tf2onnx")
    keras = tf.keras
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    network = make(keras)
    for layer in network._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    network(tf.random.normal((4, *shape[1:])), training=True)

    def run(x: Any) -> Any:
        return network(x, training=False)

    call = tf.function(run, input_signature=[tf.TensorSpec(shape, tf.float32, name="x")])
    with quiet():
        model = tf2onnx.convert.from_function(call, input_signature=call.input_signature, opset=17)[0]
    _rename(model.graph)
    return model


def _rename(graph: onnx.GraphProto) -> None:
    """Order and names by position: TensorFlow and tf2onnx number theirs on from one network to the next, and the order
    of nodes hangs on the names."""
    nodes = in_order_of_use(graph)
    del graph.node[:]
    graph.node.extend(nodes)
    names = {value.name: value.name for value in (*graph.input, *graph.output)} | {"": ""}
    for index, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{index}"
        for operands in (node.input, node.output):
            operands[:] = [names.setdefault(name, f"value_{len(names)}") for name in operands]
    order = {name: position for position, name in enumerate(names)}
    weights = sorted(graph.initializer, key=lambda tensor: order[tensor.name])
    for tensor in weights:
        tensor.name = names[tensor.name]
    del graph.initializer[:], graph.value_info[:]
    graph.initializer.extend(weights)
    graph.doc_string = ""  # has such a number too


def mobilenet_v2() -> onnx.ModelProto:
    return _application("MobileNetV2", alpha=0.35)


def mobilenet_v3_small() -> onnx.ModelProto:
    return _application("MobileNetV3Small", alpha=0.5)


def nasnet() -> onnx.ModelProto:
    return _application("NASNetMobile")


def densenet() -> onnx.ModelProto:
    return _application("DenseNet121")


def efficientnet_v2() -> onnx.ModelProto:
    return _application("EfficientNetV2B0", include_preprocessing=False)


def _application(name: str, **options: Any) -> onnx.ModelProto:
    def make(keras: Keras) -> Keras:
        applications = keras.applications
        return getattr(applications, name)(weights=None, input_shape=(64, 64, 3), classes=10, **options)

    return _converted(make, (1, 64, 64, 3))


def resnet() -> onnx.ModelProto:
    """Residual blocks with pads of their own before strided convolutions."""

    def make(keras: Keras) -> Keras:
        layers = keras.layers
        x = start = layers.Input((64, 64, 3))
        x = layers.ZeroPadding2D(3)(x)
        x = layers.Conv2D(16, 7, 2, activation="relu")(x)
        x = layers.MaxPooling2D(3, 2, "same")(x)
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            side = layers.Conv2D(width, 1, stride)(x)
            y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, stride, "same")(x)))
            y = layers.BatchNormalization()(layers.Conv2D(width, 3, 1, "same")(y))
            x = layers.ReLU()(layers.Add()([side, y]))
        x = layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling2D()(x))
        return keras.Model(start, x)

    return _converted(make, (1, 64, 64, 3))


def efficientnet() -> onnx.ModelProto:
    """Inverted residuals with swish, squeeze-and-excitation through a reshape, as EfficientNet has them."""

    def make(keras: Keras) -> Keras:
        layers = keras.layers

        def conv(x: Any, width: int, kernel: int, activation: str | None) -> Any:
            x = layers.BatchNormalization()(layers.Conv2D(width, kernel, padding="same", use_bias=False)(x))
            return layers.Activation(activation)(x) if activation else x

        x = start = layers.Input((64, 64, 3))
        x = conv(layers.Rescaling(0.5)(x), 16, 3, "swish")
        for stride in (2, 1, 2, 1):
            y = conv(x, 64, 1, "swish")
            pad = layers.ZeroPadding2D(((0, 1), (0, 1)))(y) if stride == 2 else y
            y = layers.DepthwiseConv2D(3, stride, "valid" if stride == 2 else "same", use_bias=False)(pad)
            y = layers.Activation("swish")(layers.BatchNormalization()(y))
            squeezed = layers.Reshape((1, 1, 64))(layers.GlobalAveragePooling2D()(y))
            squeezed = layers.Conv2D(64, 1, activation="sigmoid")(
                layers.Conv2D(4, 1, activation="swish")(squeezed)
            )
            y = conv(layers.Multiply()([y, squeezed]), 16, 1, None)
            x = layers.Add()([x, y]) if stride == 1 else y
        return keras.Model(start, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))

    return _converted(make, (1, 64, 64, 3))


def unet() -> onnx.ModelProto:
    """Transposed convolutions, resizes, and concatenations along the last dim."""

    def make(keras: Keras) -> Keras:
        layers = keras.layers
        start = layers.Input((64, 64, 3))
        first = layers.Conv2D(8, 3, 1, "same", activation="relu")(start)
        second = layers.Conv2D(16, 3, 2, "same", activation="relu")(first)
        third = layers.Conv2D(32, 3, 2, "same", activation="swish")(second)
        x = layers.Concatenate()([layers.Conv2DTranspose(16, 3, 2, "same")(third), second])
        x = layers.Concatenate()([layers.UpSampling2D(2, interpolation="bilinear")(x), first])
        return keras.Model(start, layers.Conv2D(4, 1, activation="softmax")(x))

    return _converted(make, (1, 64, 64, 3))


def separable() -> onnx.ModelProto:
    """Separable and depthwise convolutions, PReLU, layer normalization, a flattened picture."""

    def make(keras: Keras) -> Keras:
        layers = keras.layers
        x = start = layers.Input((64, 64, 3))
        x = layers.PReLU(shared_axes=(1, 2), alpha_initializer="random_uniform")(layers.Conv2D(8, 3, 2)(x))
        x = layers.LayerNormalization()(layers.SeparableConv2D(16, 3, 2, "same")(x))
        x = layers.AveragePooling2D(2, padding="same")(layers.DepthwiseConv2D(3, 2, "same")(x))
        return keras.Model(start, layers.Dense(10)(layers.Flatten()(x)))

    return _converted(make, (1, 64, 64, 3))


def conv1d() -> onnx.ModelProto:
    """Causal dilated convolutions in one dim."""

    def make(keras: Keras) -> Keras:
        layers = keras.layers
        x = start = layers.Input((64, 4))
        for dilation in (1, 2, 4):
            x = layers.BatchNormalization()(layers.Conv1D(16, 3, padding="causal", dilation_rate=dilation)(x))
            x = layers.Activation("elu")(x)
        return keras.Model(start, layers.Dense(6)(layers.GlobalMaxPooling1D()(x)))

    return _converted(make, (1, 64, 4))
