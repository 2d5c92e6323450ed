"""Pictures as tokens: global attention, windows, shifted windows, grids, and mixers without attention."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from tests.zoo.blocks import (
    Attention,
    ChannelNorm,
    Conv,
    First,
    Mean,
    PatchEmbedding,
    Residual,
    SqueezeExcite,
    classifier,
    encoder,
    mlp,
    residual,
)


def vit_tiny() -> nn.Module:
    blocks = [encoder(48, 3) for _ in range(12)]
    return nn.Sequential(
        PatchEmbedding(48, 16, 64, True), *blocks, nn.LayerNorm(48), First(), nn.Linear(48, 10)
    )


class _Windows(nn.Module):
    """Attention within windows of `size` x `size`, with a bias per pair of places; windows may be shifted by half."""

    def __init__(self, width: int, heads: int, size: int, side: int, shifted: bool) -> None:
        super().__init__()
        self.size, self.shift = size, size // 2 if shifted else 0
        self.attention = Attention(width, heads)
        places = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None, :]) + size - 1
        self.register_buffer("pairs", (apart[0] * (2 * size - 1) + apart[1]).flatten())
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.1)
        self.mask: Tensor | None
        self.register_buffer("mask", self._apart(size, side) if shifted else None)

    def _apart(self, size: int, side: int) -> Tensor:
        """-100 for places that only the shift made neighbours: they must not see each other."""
        regions = torch.zeros(side, side)
        bounds = (slice(0, -size), slice(-size, -self.shift), slice(-self.shift, None))
        for row, rows in enumerate(bounds):
            for column, columns in enumerate(bounds):
                regions[rows, columns] = 3 * row + column
        ids = regions.reshape(side // size, size, side // size, size).transpose(1, 2).reshape(-1, size * size)
        return (ids[:, None] != ids[:, :, None]).float() * -100

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        size, length = self.size, self.size * self.size
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.reshape(n, h // size, size, w // size, size, c).transpose(2, 3).reshape(-1, length, c)
        bias = self.table[cast(Tensor, self.pairs)].reshape(length, length, -1).permute(2, 0, 1)
        if self.mask is not None:
            mask = self.mask if n == 1 else self.mask.repeat(n, 1, 1)
            bias = bias[None] + mask[:, None]
        x = self.attention(x, bias)
        x = x.reshape(n, h // size, w // size, size, size, c).transpose(2, 3).reshape(n, h, w, c)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class _PatchMerging(nn.Module):
    """2x2 places become one with twice the channels (NHWC)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.reduce(self.norm(torch.cat(parts, -1)))


class _ToLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


class _MeanOfPicture(nn.Module):
    """The mean over height and width (NHWC)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((1, 2))


def swin_tiny() -> nn.Module:
    """Swin-T: pairs of blocks (2, 2, 6, 2), the second of each shifted where there is more than one window."""
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 4, 4), _ToLast(), nn.LayerNorm(24)]
    width, side = 24, 32
    for index, depth in enumerate((2, 2, 6, 2)):
        if index:
            layers.append(_PatchMerging(width))
            width, side = 2 * width, side // 2
        for position in range(depth):
            shifted = position % 2 == 1 and side > 4
            windows = _Windows(width, width // 8, 4, side, shifted)
            layers += [Residual(nn.LayerNorm(width), windows), Residual(nn.LayerNorm(width), mlp(width))]
    return nn.Sequential(*layers, nn.LayerNorm(width), _MeanOfPicture(), nn.Linear(width, 10))


class _Grid(nn.Module):
    """Attention between places that are `size` apart: the grid half of MaxViT; `windows`, the block half."""

    def __init__(self, width: int, heads: int, size: int, windows: bool) -> None:
        super().__init__()
        self.size, self.windows = size, windows
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.mix = Residual(nn.LayerNorm(width), mlp(width))

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        size, rows, columns = self.size, h // self.size, w // self.size
        if self.windows:
            x = x.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 3, 5, 1)
        else:
            x = x.reshape(n, c, size, rows, size, columns).permute(0, 3, 5, 2, 4, 1)
        x = x.reshape(-1, size * size, c)
        x = self.mix(x + self.attention(self.norm(x)))
        x = x.reshape(n, rows, columns, size, size, c)
        x = x.permute(0, 5, 1, 3, 2, 4) if self.windows else x.permute(0, 5, 3, 1, 4, 2)
        return x.reshape(n, c, h, w)


def maxvit() -> nn.Module:
    """MaxViT: inverted residual with squeeze-and-excitation, attention in blocks, attention over a grid."""

    def block(inputs: int, width: int, stride: int) -> nn.Module:
        inner = 4 * width
        body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            *(
                Conv(inputs, inner, 1, activation=nn.GELU),
                Conv(inner, inner, 3, stride, inner, activation=nn.GELU),
            ),
            *(SqueezeExcite(inner, width // 4, nn.SiLU), nn.Conv2d(inner, width, 1)),
        )
        conv = residual(body) if inputs == width and stride == 1 else body
        return nn.Sequential(conv, _Grid(width, 4, 4, True), _Grid(width, 4, 4, False))

    return nn.Sequential(
        *(Conv(3, 16, 3, 2, activation=nn.GELU), Conv(16, 16, activation=nn.GELU)),
        *(block(16, 16, 2), block(16, 16, 1), block(16, 32, 2), block(32, 32, 1), classifier(32)),
    )


class _LeVitAttention(nn.Module):
    """LeViT: keys thinner than values, a learned bias, Hardswish before the last product, BatchNorm1d for norms."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.depth = heads, 8
        self.project = _NormalizedLinear(width, heads * 4 * self.depth)
        self.bias = nn.Parameter(torch.randn(heads, length, length) * 0.1)
        self.out = nn.Sequential(nn.Hardswish(), _NormalizedLinear(heads * 2 * self.depth, width))

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        y = self.project(x).reshape(n, length, self.heads, 4 * self.depth)
        q, k, v = y.split([self.depth, self.depth, 2 * self.depth], 3)
        q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 3, 1), v.permute(0, 2, 1, 3)
        scores = ((q @ k) * self.depth**-0.5 + self.bias).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(n, length, -1))


class _NormalizedLinear(nn.Module):
    """A linear layer and batch normalization over tokens, which flatten for it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return self.norm(x.flatten(0, 1)).reshape_as(x)


class _Tokens(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2)


def levit() -> nn.Module:
    stem = [
        Conv(a, b, 3, 2, activation=nn.Hardswish if b < 64 else None)
        for a, b in ((3, 8), (8, 16), (16, 32), (32, 64))
    ]
    layers: list[nn.Module] = []
    for _ in range(4):
        layers.append(residual(_LeVitAttention(64, 4, 16)))
        layers.append(
            residual(nn.Sequential(_NormalizedLinear(64, 128), nn.Hardswish(), _NormalizedLinear(128, 64)))
        )
    return nn.Sequential(*stem, _Tokens(), *layers, Mean(), nn.BatchNorm1d(64), nn.Linear(64, 10))


class _PoolMixer(nn.Module):
    """The mean of the neighbours less the place itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x) - x


def poolformer() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 7, 4, 2)]
    for index, depth in enumerate((2, 2, 6, 2)):
        width = 16 << index
        if index:
            layers.append(nn.Conv2d(width // 2, width, 3, 2, 1))
        for _ in range(depth):
            layers.append(Residual(nn.GroupNorm(1, width), _PoolMixer()))
            pointwise = (nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1))
            layers.append(Residual(nn.GroupNorm(1, width), nn.Sequential(*pointwise)))
    return nn.Sequential(*layers, ChannelNorm(128), classifier(128))


class _Transposed(nn.Module):
    """A body that works along the tokens in place of the channels."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.transpose(1, 2)).transpose(1, 2)


def mlp_mixer() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 8, 8), _Tokens()]
    for _ in range(8):
        layers.append(Residual(nn.LayerNorm(64), _Transposed(mlp(64, 0.5))))
        layers.append(Residual(nn.LayerNorm(64), mlp(64)))
    return nn.Sequential(*layers, nn.LayerNorm(64), Mean(), nn.Linear(64, 10))


class _SpatialGate(nn.Module):
    """Half of the channels, mixed along the tokens, scale the other half."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Conv1d(length, length, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept, gate = x.chunk(2, -1)
        return kept * self.mix(self.norm(gate))


def gmlp() -> nn.Module:
    def body() -> nn.Module:
        return nn.Sequential(nn.Linear(48, 192), nn.GELU(), _SpatialGate(96, 64), nn.Linear(96, 48))

    blocks = [Residual(nn.LayerNorm(48), body()) for _ in range(6)]
    return nn.Sequential(PatchEmbedding(48, 8, 64), *blocks, nn.LayerNorm(48), Mean(), nn.Linear(48, 10))
