"""Blocks that networks of several families share, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Activation = Callable[[], nn.Module]


class Conv(nn.Sequential):
    """Convolution that keeps the size ("same" pads, divided by the stride), batch normalization, activation."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int] = 3,
        stride: int = 1,
        groups: int = 1,
        dilation: int = 1,
        activation: Activation | None = nn.ReLU,
    ) -> None:
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = (dilation * (sides[0] - 1) // 2, dilation * (sides[1] - 1) // 2)
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, sides, stride, pads, dilation, groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        if activation is not None:
            layers.append(activation())
        super().__init__(*layers)


class Add(nn.Module):
    """The sum of what two branches make of the same input."""

    def __init__(self, left: nn.Module, right: nn.Module, activation: Activation | None = None) -> None:
        super().__init__()
        self.left, self.right = left, right
        self.activation = nn.Identity() if activation is None else activation()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.left(x) + self.right(x))


def residual(body: nn.Module, activation: Activation | None = None) -> Add:
    return Add(body, nn.Identity(), activation)


class Cat(nn.Module):
    """What several branches make of the same input, one after the other along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class SqueezeExcite(nn.Module):
    """Scales every channel by a function of the means of all channels."""

    def __init__(
        self, channels: int, inner: int, activation: Activation = nn.ReLU, gate: Activation = nn.Sigmoid
    ) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, inner, 1),
            activation(),
            nn.Conv2d(inner, channels, 1),
            gate(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale(x)


def shuffle_channels(x: Tensor, groups: int) -> Tensor:
    """Interleaves the channels of `groups` groups: reshape, transpose, reshape."""
    n, c, h, w = x.shape
    return x.reshape(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


def classifier(channels: int, classes: int = 10) -> nn.Sequential:
    """The mean over the picture and one linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of an NCHW tensor, by way of NHWC."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Residual(nn.Module):
    """`x + body(norm(x))`, as transformers that normalize first have it."""

    def __init__(self, norm: nn.Module, body: nn.Module) -> None:
        super().__init__()
        self.norm, self.body = norm, body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(self.norm(x))


def mlp(width: int, ratio: float = 4, activation: Activation = nn.GELU) -> nn.Sequential:
    inner = int(width * ratio)
    return nn.Sequential(nn.Linear(width, inner), activation(), nn.Linear(inner, width))


class Attention(nn.Module):
    """Multi-head attention of a sequence to itself, written out: one product gives queries, keys and values."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        n, length, width = x.shape
        heads = self.project(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = heads[0], heads[1], heads[2]
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        if bias is not None:
            scores = scores + bias
        if self.causal:
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


class CrossAttention(nn.Module):
    """Multi-head attention by PyTorch's own function: queries from one sequence, keys and values from another."""

    def __init__(self, width: int, heads: int, context_width: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(context_width or width, width)
        self.value = nn.Linear(context_width or width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q, k, v = (self._split(p) for p in (self.query(x), self.key(context), self.value(context)))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        return x.reshape(n, length, self.heads, width // self.heads).transpose(1, 2)


def encoder(width: int, heads: int, ratio: float = 4) -> nn.Sequential:
    """One transformer block that normalizes first."""
    return nn.Sequential(
        Residual(nn.LayerNorm(width), Attention(width, heads)),
        Residual(nn.LayerNorm(width), mlp(width, ratio)),
    )


class PatchEmbedding(nn.Module):
    """A strided convolution, its picture as a row of tokens, a class token in front where asked for, positions."""

    def __init__(self, width: int, patch: int, size: int, class_token: bool = False) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width)) if class_token else None
        length = (size // patch) ** 2 + class_token
        self.positions = nn.Parameter(torch.randn(1, length, width) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.project(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return x + self.positions


class Mean(nn.Module):
    """The mean over the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class First(nn.Module):
    """The first token."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]
