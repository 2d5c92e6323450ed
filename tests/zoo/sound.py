"""Sequences in one dim: sound, speech, forecasts. Convolutions are 1-D, causal where they must not see the future."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.blocks import Activation, Attention, Mean, Residual, encoder, mlp


def _conv1d(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, activation: Activation = nn.ReLU
) -> nn.Sequential:
    conv = nn.Conv1d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm1d(outputs), activation())


class _SwapLast(nn.Module):
    """Channels first to channels last, and back."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


def audio_cnn() -> nn.Module:
    """M5 on raw sound: a long kernel with a large stride, then pairs of convolution and pool."""
    layers: list[nn.Module] = [_conv1d(1, 16, 79, 4), nn.MaxPool1d(4)]
    for inputs, outputs in ((16, 16), (16, 32), (32, 64)):
        layers += [_conv1d(inputs, outputs, 3), nn.MaxPool1d(4)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(1))


class _WhisperEncoder(nn.Module):
    """Whisper: two 1-D convolutions over the spectrogram, positions, transformer blocks."""

    def __init__(self, width: int, depth: int, length: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(20, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.positions = nn.Parameter(torch.randn(length // 2, width) * 0.1)
        self.blocks = nn.Sequential(*(encoder(width, 4) for _ in range(depth)), nn.LayerNorm(width))

    def forward(self, mel: Tensor) -> Tensor:
        x = F.gelu(self.second(F.gelu(self.first(mel))))
        return self.blocks(x.permute(0, 2, 1) + self.positions)


def whisper_encoder() -> nn.Module:
    return _WhisperEncoder(64, 4, 64)


class _Positional(nn.Module):
    """Positions from a grouped convolution over the tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 8, padding=4, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.conv(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)


def wav2vec2() -> nn.Module:
    """wav2vec 2.0: seven strided convolutions, the first normalized per channel, then transformer blocks."""
    layers: list[nn.Module] = []
    channels = 1
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        layers.append(nn.Conv1d(channels, 32, kernel, stride, bias=False))
        if channels == 1:
            layers.append(nn.GroupNorm(32, 32))
        layers.append(nn.GELU())
        channels = 32
    layers += [_SwapLast(), nn.LayerNorm(32), nn.Linear(32, 48), Residual(nn.Identity(), _Positional(48))]
    return nn.Sequential(*layers, nn.LayerNorm(48), *(encoder(48, 4) for _ in range(3)), nn.Linear(48, 30))


class _Half(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * self.body(x)


def conformer() -> nn.Module:
    """Half an MLP, attention, a gated depthwise convolution, half an MLP; the spectrogram is subsampled in 2-D."""

    def block(width: int) -> nn.Module:
        conv = nn.Sequential(
            *(_SwapLast(), nn.Conv1d(width, 2 * width, 1), nn.GLU(1)),
            *(_conv1d(width, width, 15, 1, width, nn.SiLU), nn.Conv1d(width, width, 1), _SwapLast()),
        )
        return nn.Sequential(
            Residual(nn.LayerNorm(width), _Half(mlp(width, 4, nn.SiLU))),
            Residual(nn.LayerNorm(width), Attention(width, 4)),
            Residual(nn.LayerNorm(width), conv),
            Residual(nn.LayerNorm(width), _Half(mlp(width, 4, nn.SiLU))),
            nn.LayerNorm(width),
        )

    return nn.Sequential(_Subsample(48), *(block(48) for _ in range(3)), nn.Linear(48, 30), nn.LogSoftmax(-1))


class _Subsample(nn.Module):
    """Two strided 2-D convolutions over time and frequency; what is left of the frequencies becomes channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU())
        self.out = nn.Linear(16 * 4, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.convs(x.unsqueeze(1))
        return self.out(x.permute(0, 2, 1, 3).flatten(2))


class _Causal(nn.Module):
    """A dilated convolution that sees only the past: pads on both sides, the right one cut off."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.cut = (kernel - 1) * dilation
        self.conv = nn.Conv1d(inputs, outputs, kernel, padding=self.cut, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)[:, :, : -self.cut]


class _TemporalBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(
                _Causal(inputs, outputs, 3, dilation),
                nn.ReLU(),
                _Causal(outputs, outputs, 3, dilation),
                nn.ReLU(),
            )
        )
        self.side = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.side(x))


def tcn() -> nn.Module:
    widths = (4, 16, 16, 32, 32)
    blocks = [_TemporalBlock(a, b, 1 << level) for level, (a, b) in enumerate(pairwise(widths))]
    return nn.Sequential(*blocks, _SwapLast(), nn.Linear(32, 6))


class _WaveNet(nn.Module):
    """WaveNet: gated causal convolutions of growing dilation; what all of them give is added up for the output."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(_LeftPadded(width, 2 * width, 1 << level) for level in range(depth))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))
        self.keeps = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 32, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total = torch.zeros_like(x)
        for gate, skip, keep in zip(self.gates, self.skips, self.keeps, strict=True):
            left, right = gate(x).chunk(2, 1)
            y = left.tanh() * right.sigmoid()
            total, x = total + skip(y), x + keep(y)
        return self.head(total)


class _LeftPadded(nn.Module):
    """A causal convolution by a pad on the left alone."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(inputs, outputs, 2, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (self.dilation, 0)))


def wavenet() -> nn.Module:
    return _WaveNet(16, 8)


def vocoder() -> nn.Module:
    """HiFi-GAN's generator: transposed convolutions, after each of them residual blocks of three dilations."""

    def residuals(width: int) -> nn.Module:
        def dilated(dilation: int) -> nn.Module:
            return nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)

        return nn.Sequential(
            *(
                Residual(nn.LeakyReLU(0.1), nn.Sequential(dilated(d), nn.LeakyReLU(0.1), dilated(1)))
                for d in (1, 3, 5)
            )
        )

    layers: list[nn.Module] = [nn.Conv1d(20, 64, 7, padding=3)]
    for inputs, outputs, stride in ((64, 32, 4), (32, 16, 4), (16, 8, 2)):
        up = nn.ConvTranspose1d(inputs, outputs, 2 * stride, stride, stride // 2)
        layers += [nn.LeakyReLU(0.1), up, residuals(outputs)]
    return nn.Sequential(*layers, nn.LeakyReLU(), nn.Conv1d(8, 1, 7, padding=3), nn.Tanh())


def speech_commands() -> nn.Module:
    """A depthwise separable network over spectrograms, with means over time (keyword spotting)."""

    def separable(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(_conv1d(inputs, inputs, 9, 1, inputs), _conv1d(inputs, outputs, 1))

    return nn.Sequential(
        *(_conv1d(20, 32, 3, 2), separable(32, 32), separable(32, 48), separable(48, 48)),
        *(_SwapLast(), nn.LayerNorm(48), Mean(), nn.Linear(48, 12)),
    )
