"""Classifiers for telephones: inverted residuals, shuffled and cheap channels, convolutions with attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.zoo.blocks import (
    Activation,
    Cat,
    Conv,
    Residual,
    SqueezeExcite,
    classifier,
    encoder,
    residual,
    shuffle_channels,
)


def inverted(
    inputs: int,
    inner: int,
    outputs: int,
    kernel: int,
    stride: int,
    activation: Activation = nn.ReLU6,
    squeeze: nn.Module | None = None,
) -> nn.Module:
    """An inverted residual: wider by 1x1, depthwise, narrower by 1x1 without activation."""
    layers: list[nn.Module] = [] if inner == inputs else [Conv(inputs, inner, 1, activation=activation)]
    layers.append(Conv(inner, inner, kernel, stride, groups=inner, activation=activation))
    if squeeze is not None:
        layers.append(squeeze)
    body = nn.Sequential(*layers, Conv(inner, outputs, 1, activation=None))
    return residual(body) if stride == 1 and inputs == outputs else body


def mobilenet_v1() -> nn.Module:
    layers: list[nn.Module] = [Conv(3, 8, 3, 2)]
    channels = 8
    table = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
    for width, stride in table:
        layers += [Conv(channels, channels, 3, stride, groups=channels), Conv(channels, width, 1)]
        channels = width
    return nn.Sequential(*layers, classifier(channels))


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [Conv(3, 8, 3, 2, activation=nn.ReLU6)]
    channels = 8
    table = (
        (1, 8, 1, 1),
        (6, 8, 2, 2),
        (6, 8, 3, 2),
        (6, 16, 4, 2),
        (6, 24, 3, 1),
        (6, 40, 3, 2),
        (6, 80, 1, 1),
    )
    for expansion, width, depth, stride in table:
        for position in range(depth):
            layers.append(inverted(channels, channels * expansion, width, 3, 1 if position else stride))
            channels = width
    return nn.Sequential(*layers, Conv(channels, 320, 1, activation=nn.ReLU6), classifier(320))


# Kernel, inner and output channels (to be halved), squeeze-and-excitation, activation, stride.
_V3_SMALL = (
    *((3, 16, 16, 1, "re", 2), (3, 72, 24, 0, "re", 2), (3, 88, 24, 0, "re", 1), (5, 96, 40, 1, "hs", 2)),
    *((5, 240, 40, 1, "hs", 1), (5, 240, 40, 1, "hs", 1), (5, 120, 48, 1, "hs", 1), (5, 144, 48, 1, "hs", 1)),
    *((5, 288, 96, 1, "hs", 2), (5, 576, 96, 1, "hs", 1), (5, 576, 96, 1, "hs", 1)),
)
_V3_LARGE = (
    *((3, 16, 16, 0, "re", 1), (3, 64, 24, 0, "re", 2), (3, 72, 24, 0, "re", 1), (5, 72, 40, 1, "re", 2)),
    *((5, 120, 40, 1, "re", 1), (5, 120, 40, 1, "re", 1), (3, 240, 80, 0, "hs", 2), (3, 200, 80, 0, "hs", 1)),
    *(
        (3, 184, 80, 0, "hs", 1),
        (3, 184, 80, 0, "hs", 1),
        (3, 480, 112, 1, "hs", 1),
        (3, 672, 112, 1, "hs", 1),
    ),
    *((5, 672, 160, 1, "hs", 2), (5, 960, 160, 1, "hs", 1), (5, 960, 160, 1, "hs", 1)),
)


def _mobilenet_v3(table: tuple[tuple[int, int, int, int, str, int], ...], last: int) -> nn.Module:
    layers: list[nn.Module] = [Conv(3, 8, 3, 2, activation=nn.Hardswish)]
    channels = 8
    for kernel, inner, outputs, squeezed, activation, stride in table:
        squeeze = SqueezeExcite(inner // 2, inner // 8, gate=nn.Hardsigmoid) if squeezed else None
        kind = nn.Hardswish if activation == "hs" else nn.ReLU
        layers.append(inverted(channels, inner // 2, outputs // 2, kernel, stride, kind, squeeze))
        channels = outputs // 2
    layers += [Conv(channels, last, 1, activation=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(
        *layers, nn.Linear(last, 2 * last), nn.Hardswish(), nn.Dropout(), nn.Linear(2 * last, 10)
    )


def mobilenet_v3_small() -> nn.Module:
    return _mobilenet_v3(_V3_SMALL, 288)


def mobilenet_v3_large() -> nn.Module:
    return _mobilenet_v3(_V3_LARGE, 480)


def _swish_squeeze(inputs: int, inner: int) -> SqueezeExcite:
    return SqueezeExcite(inner, max(inputs // 4, 1), activation=nn.SiLU)


def efficientnet_b0_full() -> nn.Module:
    return efficientnet_b0(2, 1280)


def efficientnet_b0(times: int = 1, last: int = 320) -> nn.Module:
    """EfficientNet-B0 in half of its widths, `times` as many channels."""
    channels = 16 * times
    layers: list[nn.Module] = [Conv(3, channels, 3, 2, activation=nn.SiLU)]
    table = (
        *((1, 8, 1, 3, 1), (6, 12, 2, 3, 2), (6, 20, 2, 5, 2), (6, 40, 3, 3, 2)),
        *((6, 56, 3, 5, 1), (6, 96, 4, 5, 2), (6, 160, 1, 3, 1)),
    )
    for expansion, width, depth, kernel, stride in table:
        for position in range(depth):
            inner, step = channels * expansion, 1 if position else stride
            squeeze = _swish_squeeze(channels, inner)
            layers.append(inverted(channels, inner, width * times, kernel, step, nn.SiLU, squeeze))
            channels = width * times
    return nn.Sequential(*layers, Conv(channels, last, 1, activation=nn.SiLU), classifier(last))


def efficientnet_v2() -> nn.Module:
    """EfficientNetV2-B0: the first stages are fused, one 3x3 convolution in place of 1x1 and depthwise."""

    def fused(inputs: int, outputs: int, expansion: int, stride: int) -> nn.Module:
        inner = inputs * expansion
        first = Conv(inputs, outputs if expansion == 1 else inner, 3, stride, activation=nn.SiLU)
        body = (
            nn.Sequential(first)
            if expansion == 1
            else nn.Sequential(first, Conv(inner, outputs, 1, activation=None))
        )
        return residual(body) if stride == 1 and inputs == outputs else body

    layers: list[nn.Module] = [Conv(3, 16, 3, 2, activation=nn.SiLU)]
    channels = 16
    for expansion, width, depth, stride in ((1, 8, 1, 1), (4, 16, 2, 2), (4, 24, 2, 2)):
        for position in range(depth):
            layers.append(fused(channels, width, expansion, 1 if position else stride))
            channels = width
    for expansion, width, depth, stride in ((4, 48, 3, 2), (6, 56, 5, 1), (6, 96, 8, 2)):
        for position in range(depth):
            inner, step = channels * expansion, 1 if position else stride
            squeeze = _swish_squeeze(channels, inner)
            layers.append(inverted(channels, inner, width, 3, step, nn.SiLU, squeeze))
            channels = width
    return nn.Sequential(*layers, Conv(channels, 320, 1, activation=nn.SiLU), classifier(320))


def mnasnet() -> nn.Module:
    layers: list[nn.Module] = [Conv(3, 16, 3, 2), inverted(16, 16, 8, 3, 1, nn.ReLU)]
    channels = 8
    for kernel, expansion, width, depth, stride in (
        *((3, 3, 12, 3, 2), (5, 3, 20, 3, 2), (5, 6, 40, 3, 2)),
        *((3, 6, 48, 2, 1), (5, 6, 96, 4, 2), (3, 6, 160, 1, 1)),
    ):
        for position in range(depth):
            step = 1 if position else stride
            layers.append(inverted(channels, channels * expansion, width, kernel, step, nn.ReLU))
            channels = width
    return nn.Sequential(*layers, Conv(channels, 320, 1), classifier(320))


class _ShuffleV1(nn.Module):
    """Grouped 1x1 convolutions with a shuffle of the channels between; stride 2 concatenates, stride 1 adds."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.groups, self.stride = groups, stride
        inner = outputs // 4
        made = outputs - inputs if stride == 2 else outputs
        self.first = Conv(inputs, inner, 1, groups=groups)
        self.depthwise = Conv(inner, inner, 3, stride, groups=inner, activation=None)
        self.last = Conv(inner, made, 1, groups=groups, activation=None)
        self.pool = nn.AvgPool2d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last(self.depthwise(shuffle_channels(self.first(x), self.groups)))
        return torch.relu(torch.cat([self.pool(x), y], 1) if self.stride == 2 else x + y)


def shufflenet_v1() -> nn.Module:
    layers: list[nn.Module] = [Conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for width, depth in ((72, 4), (144, 8), (288, 4)):
        for position in range(depth):
            layers.append(_ShuffleV1(channels, width, 1 if position else 2, 3))
            channels = width
    return nn.Sequential(*layers, classifier(channels))


class _ShuffleV2(nn.Module):
    """Half of the channels go through, the other half is worked on; then both are shuffled."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        half = outputs // 2
        worked = inputs if stride == 2 else half
        self.right = nn.Sequential(
            Conv(worked, half, 1),
            Conv(half, half, 3, stride, groups=half, activation=None),
            Conv(half, half, 1),
        )
        self.left = nn.Sequential(
            Conv(inputs, inputs, 3, 2, groups=inputs, activation=None), Conv(inputs, half, 1)
        )
        if stride == 1:
            self.left = nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        left, right = (x, x) if self.stride == 2 else x.chunk(2, 1)
        return shuffle_channels(torch.cat([self.left(left), self.right(right)], 1), 2)


def shufflenet_v2() -> nn.Module:
    layers: list[nn.Module] = [Conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for width, depth in ((48, 4), (96, 8), (192, 4)):
        for position in range(depth):
            layers.append(_ShuffleV2(channels, width, 1 if position else 2))
            channels = width
    return nn.Sequential(*layers, Conv(channels, 256, 1), classifier(256))


class _Ghost(nn.Module):
    """Half of the output channels by a convolution, the others from those by a cheap depthwise one."""

    def __init__(self, inputs: int, outputs: int, activation: Activation | None = nn.ReLU) -> None:
        super().__init__()
        half = outputs // 2
        self.primary = Conv(inputs, half, 1, activation=activation)
        self.cheap = Conv(half, half, 3, groups=half, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        x = self.primary(x)
        return torch.cat([x, self.cheap(x)], 1)


def ghostnet_full() -> nn.Module:
    return ghostnet(2)


def ghostnet(times: int = 1) -> nn.Module:
    """GhostNet in half of its widths, `times` as many channels."""
    channels = 8 * times
    layers: list[nn.Module] = [Conv(3, channels, 3, 2)]
    for kernel, half_inner, half_outputs, squeezed, stride in (
        *((3, 8, 8, 0, 1), (3, 24, 12, 0, 2), (3, 36, 12, 0, 1), (5, 36, 20, 1, 2), (5, 60, 20, 1, 1)),
        *((3, 120, 40, 0, 2), (3, 100, 40, 0, 1), (3, 92, 40, 0, 1), (3, 240, 56, 1, 1), (3, 336, 56, 1, 1)),
        *((5, 336, 80, 1, 2), (5, 480, 80, 0, 1), (5, 480, 80, 1, 1)),
    ):
        inner, outputs = half_inner * times, half_outputs * times
        body: list[nn.Module] = [_Ghost(channels, inner)]
        if stride == 2:
            body.append(Conv(inner, inner, kernel, 2, groups=inner, activation=None))
        if squeezed:
            body.append(SqueezeExcite(inner, inner // 4, gate=nn.Hardsigmoid))
        branch = nn.Sequential(*body, _Ghost(inner, outputs, None))
        layers.append(residual(branch) if stride == 1 and channels == outputs else branch)
        channels = outputs
    return nn.Sequential(*layers, Conv(channels, 480 * times, 1), classifier(480 * times))


class _MobileVit(nn.Module):
    """Tokens are the places of 2x2 patches: unfolded, mixed by transformers, folded back, joined with the input."""

    def __init__(self, channels: int, width: int, depth: int) -> None:
        super().__init__()
        self.local = nn.Sequential(
            Conv(channels, channels, 3, activation=nn.SiLU), nn.Conv2d(channels, width, 1)
        )
        self.mix = nn.Sequential(*(encoder(width, 4, 2) for _ in range(depth)), nn.LayerNorm(width))
        self.project = Conv(width, channels, 1, activation=nn.SiLU)
        self.join = Conv(2 * channels, channels, 3, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        y = self.local(x)
        n, c, h, w = y.shape
        y = y.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1).reshape(4 * n, h * w // 4, c)
        y = self.mix(y).reshape(n, 2, 2, h // 2, w // 2, c).permute(0, 5, 3, 1, 4, 2).reshape(n, c, h, w)
        return self.join(torch.cat([x, self.project(y)], 1))


def mobilevit() -> nn.Module:
    def down(inputs: int, outputs: int, stride: int = 2) -> nn.Module:
        return inverted(inputs, 4 * inputs, outputs, 3, stride, nn.SiLU)

    return nn.Sequential(
        *(
            Conv(3, 16, 3, 2, activation=nn.SiLU),
            down(16, 16, 1),
            down(16, 24),
            down(24, 24, 1),
            down(24, 24, 1),
        ),
        *(down(24, 32), _MobileVit(32, 48, 2), down(32, 40), _MobileVit(40, 64, 4)),
        *(down(40, 48), _MobileVit(48, 80, 3), Conv(48, 160, 1, activation=nn.SiLU), classifier(160)),
    )


def depthwise_separable() -> nn.Module:
    """The smallest of them: a depthwise and a 1x1 convolution, three times, with parallel kernels of three sizes."""

    def mixed(channels: int) -> nn.Module:
        return Cat(*(Conv(channels, channels, kernel, groups=channels) for kernel in (3, 5, 7)))

    return nn.Sequential(
        *(Conv(3, 8, 3, 2), mixed(8), Conv(24, 16, 1), mixed(16), Conv(48, 32, 1)),
        *(Residual(nn.BatchNorm2d(32), Conv(32, 32, 3, groups=32)), classifier(32)),
    )
