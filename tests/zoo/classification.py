"""Convolutional classifiers: number and kind of blocks as published, fewer channels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.zoo.blocks import (
    Add,
    Cat,
    ChannelNorm,
    Conv,
    Residual,
    SqueezeExcite,
    classifier,
    residual,
)

Branch = Callable[[int, int, int, int], nn.Module]
"""The body of a residual block: input, inner and output channels, stride."""


def basic_branch(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(Conv(inputs, inner, 3, stride), Conv(inner, outputs, 3, activation=None))


def _bottleneck(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        Conv(inputs, inner, 1), Conv(inner, inner, 3, stride), Conv(inner, outputs, 1, activation=None)
    )


def _grouped(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        Conv(inputs, 2 * inner, 1),
        Conv(2 * inner, 2 * inner, 3, stride, groups=8),
        Conv(2 * inner, outputs, 1, activation=None),
    )


def _squeezed(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(_bottleneck(inputs, inner, outputs, stride), SqueezeExcite(outputs, outputs // 4))


class _Hierarchy(nn.Module):
    """The 3x3 convolution of Res2Net: each quarter of the channels sees the result of the one before."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.width, self.stride = channels // 4, stride
        self.convs = nn.ModuleList(Conv(self.width, self.width, 3, stride) for _ in range(3))
        self.pool = nn.AvgPool2d(3, stride, 1) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        quarters = torch.split(x, self.width, 1)
        parts: list[Tensor] = []
        for part, conv in zip(quarters, self.convs, strict=False):
            parts.append(conv(part if not parts or self.stride > 1 else part + parts[-1]))
        return torch.cat([*parts, self.pool(quarters[3])], 1)


def _hierarchical(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        Conv(inputs, inner, 1), _Hierarchy(inner, stride), Conv(inner, outputs, 1, activation=None)
    )


def resnet_stages(branch: Branch, depths: tuple[int, ...], width: int, expansion: int) -> list[nn.Sequential]:
    """The stages of a ResNet, the stem with the first of them; stage `i` gives `width * expansion * 2**i` channels."""
    stages: list[nn.Sequential] = []
    channels = width
    for index, depth in enumerate(depths):
        blocks: list[nn.Module] = []
        if not index:
            blocks += [Conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
        inner = width << index
        outputs = inner * expansion
        for position in range(depth):
            stride = 2 if index and not position else 1
            body = branch(channels, inner, outputs, stride)
            if channels != outputs or stride > 1:
                blocks.append(Add(body, Conv(channels, outputs, 1, stride, activation=None), nn.ReLU))
            else:
                blocks.append(residual(body, nn.ReLU))
            channels = outputs
        stages.append(nn.Sequential(*blocks))
    return stages


def _resnet(branch: Branch, depths: tuple[int, ...], width: int, expansion: int) -> nn.Module:
    return nn.Sequential(
        *resnet_stages(branch, depths, width, expansion), classifier(width * expansion << (len(depths) - 1))
    )


def resnet18() -> nn.Module:
    return _resnet(basic_branch, (2, 2, 2, 2), 16, 1)


def resnet50() -> nn.Module:
    return _resnet(_bottleneck, (3, 4, 6, 3), 16, 4)


def resnext50() -> nn.Module:
    return _resnet(_grouped, (3, 4, 6, 3), 16, 4)


def se_resnet50() -> nn.Module:
    return _resnet(_squeezed, (3, 4, 6, 3), 16, 4)


def res2net50() -> nn.Module:
    return _resnet(_hierarchical, (3, 4, 6, 3), 16, 4)


def res2net50_full() -> nn.Module:
    """Res2Net-50 of four parts of 26 channels in the first stage."""

    def branch(inputs: int, inner: int, outputs: int, stride: int) -> nn.Module:
        return _hierarchical(inputs, inner * 26 * 4 // 64, outputs, stride)

    return _resnet(branch, (3, 4, 6, 3), 64, 4)


class _Dense(nn.Module):
    """A layer of DenseNet: what it makes is appended to what it was given."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet121_full() -> nn.Module:
    return densenet121(32)


def densenet121(growth: int = 8) -> nn.Module:
    channels = 2 * growth
    layers: list[nn.Module] = [Conv(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for index, depth in enumerate((6, 12, 24, 16)):
        if index:
            layers += [
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels // 2, 1, bias=False),
                nn.AvgPool2d(2),
            ]
            channels //= 2
        for _ in range(depth):
            layers.append(_Dense(channels, growth))
            channels += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), classifier(channels))


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in ((8, 2), (16, 2), (32, 3), (64, 3), (64, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(256, 128), nn.ReLU(), nn.Dropout(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), *head)


def inception_v3() -> nn.Module:
    """Five kinds of blocks: factorized into 3x3, into 1x7 and 7x1, into 1x3 and 3x1, and two that halve the size."""

    def pooled(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), Conv(inputs, outputs, 1))

    def small(inputs: int, pool: int) -> nn.Module:
        return Cat(
            Conv(inputs, 16, 1),
            nn.Sequential(Conv(inputs, 12, 1), Conv(12, 16, 5)),
            nn.Sequential(Conv(inputs, 16, 1), Conv(16, 24), Conv(24, 24)),
            pooled(inputs, pool),
        )

    def long(inputs: int, inner: int) -> nn.Module:
        return Cat(
            Conv(inputs, 48, 1),
            nn.Sequential(Conv(inputs, inner, 1), Conv(inner, inner, (1, 7)), Conv(inner, 48, (7, 1))),
            nn.Sequential(
                Conv(inputs, inner, 1),
                Conv(inner, inner, (7, 1)),
                Conv(inner, inner, (1, 7)),
                Conv(inner, inner, (7, 1)),
                Conv(inner, 48, (1, 7)),
            ),
            pooled(inputs, 48),
        )

    def forked(inputs: int) -> nn.Module:
        def fork(channels: int) -> nn.Module:
            return Cat(Conv(channels, 96, (1, 3)), Conv(channels, 96, (3, 1)))

        return Cat(
            Conv(inputs, 80, 1),
            nn.Sequential(Conv(inputs, 96, 1), fork(96)),
            nn.Sequential(Conv(inputs, 112, 1), Conv(112, 96), fork(96)),
            pooled(inputs, 48),
        )

    halved = Cat(
        Conv(72, 96, 3, 2),
        nn.Sequential(Conv(72, 16, 1), Conv(16, 24), Conv(24, 24, 3, 2)),
        nn.MaxPool2d(3, 2, 1),
    )
    halved_again = Cat(
        nn.Sequential(Conv(192, 48, 1), Conv(48, 80, 3, 2)),
        nn.Sequential(Conv(192, 48, 1), Conv(48, 48, (1, 7)), Conv(48, 48, (7, 1)), Conv(48, 48, 3, 2)),
        nn.MaxPool2d(3, 2, 1),
    )
    return nn.Sequential(
        *(Conv(3, 8, 3, 2), Conv(8, 8), Conv(8, 16), nn.MaxPool2d(3, 2), Conv(16, 20, 1), Conv(20, 48)),
        *(nn.MaxPool2d(3, 2), small(48, 8), small(64, 16), small(72, 16), halved),
        *(long(192, 32), long(192, 40), long(192, 40), long(192, 48), halved_again),
        *(forked(320), forked(512), classifier(512)),
    )


def _separable(inputs: int, outputs: int, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, kernel, stride, kernel // 2, groups=inputs, bias=False),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
    )


def xception() -> nn.Module:
    """Depthwise separable convolutions with residuals: entry, eight middle blocks, exit."""
    layers: list[nn.Module] = [Conv(3, 8, 3, 2), Conv(8, 16)]
    channels = 16
    for width in (32, 64, 96):
        body = [_separable(channels, width), nn.ReLU(), _separable(width, width), nn.MaxPool2d(3, 2, 1)]
        first = [] if channels == 16 else [nn.ReLU()]
        layers.append(Add(nn.Sequential(*first, *body), Conv(channels, width, 1, 2, activation=None)))
        channels = width
    for _ in range(8):
        middle = [layer for _ in range(3) for layer in (nn.ReLU(), _separable(channels, channels))]
        layers.append(residual(nn.Sequential(*middle)))
    layers += [_separable(channels, 128), nn.ReLU(), _separable(128, 160), nn.ReLU(), classifier(160)]
    return nn.Sequential(*layers)


def regnet_y_full() -> nn.Module:
    return regnet_y(32, (48, 104, 208, 440))


def regnet_y(stem: int = 16, widths: tuple[int, ...] = (24, 48, 96, 160)) -> nn.Module:
    """RegNetY-400MF: grouped bottlenecks of ratio 1 with squeeze-and-excitation, (1, 3, 6, 6) of them."""

    def body(inputs: int, outputs: int, stride: int) -> nn.Module:
        return nn.Sequential(
            Conv(inputs, outputs, 1),
            Conv(outputs, outputs, 3, stride, groups=outputs // 8),
            SqueezeExcite(outputs, max(inputs // 4, 4)),
            Conv(outputs, outputs, 1, activation=None),
        )

    layers: list[nn.Module] = [Conv(3, stem, 3, 2)]
    channels = stem
    for width, depth in zip(widths, (1, 3, 6, 6), strict=True):
        layers.append(Add(body(channels, width, 2), Conv(channels, width, 1, 2, activation=None), nn.ReLU))
        layers += [residual(body(width, width, 1), nn.ReLU) for _ in range(depth - 1)]
        channels = width
    return nn.Sequential(*layers, classifier(channels))


class _NasCell(nn.Module):
    """A cell of NASNet-A: five sums of two branches each over this input and the one before, concatenated."""

    def __init__(self, before: int, inputs: int, width: int, stride: int, halved_before: bool) -> None:
        super().__init__()
        self.stride = stride
        self.squeeze = nn.Sequential(nn.ReLU(), Conv(inputs, width, 1, activation=None))
        self.adjust = nn.Sequential(nn.ReLU(), Conv(before, width, 1, 1 + halved_before, activation=None))

        def separable(kernel: int, step: int = stride) -> nn.Module:
            first = _separable(width, width, step, kernel)
            return nn.Sequential(nn.ReLU(), *first, nn.ReLU(), *_separable(width, width, 1, kernel))

        kernels = ((5, 3), (5, 3), (3, 3)) if stride == 1 else ((7, 5), (7, 5), (5, 3))
        self.left = nn.ModuleList(separable(left) for left, _ in kernels)
        self.right = nn.ModuleList(separable(right) for _, right in kernels)
        self.last = separable(3, 1)
        self.average = nn.AvgPool2d(3, stride, 1, count_include_pad=False)
        self.maximum = nn.MaxPool2d(3, stride, 1)

    def forward(self, before: Tensor, x: Tensor) -> Tensor:
        p, h = self.adjust(before), self.squeeze(x)
        if self.stride == 1:
            parts = [
                self.left[0](h) + h,
                self.left[1](p) + self.right[1](h),
                self.average(h) + p,
                self.average(p) + self.average(p),
                self.left[2](p) + self.right[2](p),
            ]
            return torch.cat([p, *parts], 1)
        first = self.left[0](p) + self.right[0](h)
        second = self.maximum(h) + self.left[1](p)
        third = self.average(h) + self.left[2](p)
        fourth = self.maximum(h) + self.last(first)
        fifth = nn.functional.avg_pool2d(first, 3, 1, 1) + second
        return torch.cat([second, third, fourth, fifth], 1)


class _NasNet(nn.Module):
    def __init__(self, width: int, repeats: int) -> None:
        super().__init__()
        self.stem = Conv(3, width, 3, 2, activation=None)
        cells: list[nn.Module] = []
        before, channels, halved = width, width, False
        for stage in range(3):
            for position in range(repeats + (stage > 0)):
                reduces = stage > 0 and position == 0
                inner = width << stage
                cells.append(_NasCell(before, channels, inner, 1 + reduces, halved))
                before, channels = channels, (4 if reduces else 6) * inner
                halved = reduces
        self.cells = nn.ModuleList(cells)
        self.head = nn.Sequential(nn.ReLU(), classifier(channels))

    def forward(self, x: Tensor) -> Tensor:
        before = x = self.stem(x)
        for cell in self.cells:
            before, x = x, cell(before, x)
        return self.head(x)


def nasnet() -> nn.Module:
    return _NasNet(8, 2)


def nasnet_full() -> nn.Module:
    """NASNet-A Mobile."""
    return _NasNet(44, 4)


class _Scale(nn.Module):
    """One factor for every channel of the last dim."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.rand(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factors


class _Permute(nn.Module):
    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.order)


def convnext_tiny() -> nn.Module:
    """ConvNeXt-T: a depthwise 7x7 convolution in NCHW, then normalization and an MLP in NHWC."""

    def block(width: int) -> nn.Module:
        return residual(
            nn.Sequential(
                nn.Conv2d(width, width, 7, padding=3, groups=width),
                _Permute(0, 2, 3, 1),
                nn.LayerNorm(width, eps=1e-6),
                *(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), _Scale(width)),
                _Permute(0, 3, 1, 2),
            )
        )

    layers: list[nn.Module] = [nn.Conv2d(3, 16, 4, 4), ChannelNorm(16)]
    for index, depth in enumerate((3, 3, 9, 3)):
        width = 16 << index
        if index:
            layers += [ChannelNorm(width // 2), nn.Conv2d(width // 2, width, 2, 2)]
        layers += [block(width) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(128), nn.Linear(128, 10)]
    return nn.Sequential(*layers, *head)


def convmixer() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 4, 4), nn.GELU(), nn.BatchNorm2d(32)]
    for _ in range(6):
        spatial = nn.Sequential(
            nn.Conv2d(32, 32, 5, padding="same", groups=32), nn.GELU(), nn.BatchNorm2d(32)
        )
        layers += [residual(spatial), nn.Conv2d(32, 32, 1), nn.GELU(), nn.BatchNorm2d(32)]
    return nn.Sequential(*layers, classifier(32))


def repvgg() -> nn.Module:
    """RepVGG-A0 as it is trained: 3x3, 1x1 and identity, each normalized, are added."""

    def block(inputs: int, outputs: int, stride: int) -> nn.Module:
        sides = Add(
            Conv(inputs, outputs, 3, stride, activation=None),
            Conv(inputs, outputs, 1, stride, activation=None),
        )
        if inputs == outputs and stride == 1:
            sides = Add(sides, nn.BatchNorm2d(inputs))
        return nn.Sequential(sides, nn.ReLU())

    layers: list[nn.Module] = [block(3, 12, 2)]
    channels = 12
    for width, depth in ((12, 2), (24, 4), (48, 14), (96, 1)):
        for position in range(depth):
            layers.append(block(channels, width, 2 - (position > 0)))
            channels = width
    return nn.Sequential(*layers, classifier(channels))


def squeezenet() -> nn.Module:
    def fire(inputs: int, squeezed: int, expanded: int) -> nn.Module:
        wide = nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU())
        narrow = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU())
        return nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU(), Cat(narrow, wide))

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), pool(), fire(16, 4, 16), fire(32, 4, 16), pool()),
        *(fire(32, 8, 32), fire(64, 8, 32), pool(), fire(64, 12, 48), fire(96, 12, 48), fire(96, 16, 64)),
        *(fire(128, 16, 64), nn.Conv2d(128, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def gated() -> nn.Module:
    """Gated blocks: half of the channels decide how much of the other half passes (GLU), as in highway networks."""

    def block(width: int) -> nn.Module:
        return Residual(
            nn.BatchNorm2d(width), nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), nn.GLU(1))
        )

    return nn.Sequential(
        Conv(3, 16, 3, 2), block(16), block(16), Conv(16, 32, 3, 2), block(32), classifier(32)
    )
