"""Networks that make pictures: diffusion, decoders of autoencoders, larger pictures, other styles."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.blocks import Conv, CrossAttention, Residual, residual


class _Timed(nn.Module):
    """A residual block of the diffusion U-Net: GroupNorm, SiLU, convolution; the time is added between the two."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(time, outputs)
        self.second = nn.Sequential(
            nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.side = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(x) + self.time(F.silu(time))[:, :, None, None]
        return self.side(x) + self.second(y)


class _Conditioned(nn.Module):
    """Attention over the places of a picture, to itself and to a text (the transformer of Stable Diffusion)."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.norm, self.project_in = nn.GroupNorm(8, width), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = CrossAttention(width, 4), CrossAttention(width, 4, context)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.project_out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = self.project_in(self.norm(x)).permute(0, 2, 3, 1).reshape(n, h * w, c)
        z = self.norms[0](y)
        y = y + self.own(z, z)
        y = y + self.cross(self.norms[1](y), context)
        value, gate = self.up(self.norms[2](y)).chunk(2, -1)
        y = y + self.down(value * F.gelu(gate))
        return x + self.project_out(y.reshape(n, h, w, c).permute(0, 3, 1, 2))


class _DiffusionUNet(nn.Module):
    """Two resolutions of the U-Net of a latent diffusion model."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down_block, self.down_attention = _Timed(width, width, time), _Conditioned(width, context)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.low_first, self.low_attention = _Timed(width, 2 * width, time), _Conditioned(2 * width, context)
        self.low_second = _Timed(2 * width, 2 * width, time)
        self.up = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        )
        self.up_block, self.up_attention = _Timed(3 * width, width, time), _Conditioned(width, context)
        self.head = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

    def forward(self, sample: Tensor, timestep: Tensor, context: Tensor) -> Tensor:
        half = self.width // 2
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(half) / half)
        angles = timestep[:, None].float() * frequencies[None]
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x = self.first(sample)
        kept = self.down_attention(self.down_block(x, time), context)
        y = self.low_attention(self.low_first(self.down(kept), time), context)
        y = self.up(self.low_second(y, time))
        y = self.up_attention(self.up_block(torch.cat([y, kept], 1), time), context)
        return self.head(y)


def diffusion_unet() -> nn.Module:
    return _DiffusionUNet(32, 24)


class _PictureAttention(nn.Module):
    """One head of attention over all places, by 1x1 convolutions (the middle of a VAE)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.q, self.k, self.v, self.out = (nn.Conv2d(width, width, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = (p(y).reshape(n, c, h * w) for p in (self.q, self.k, self.v))
        scores = (torch.bmm(q.permute(0, 2, 1), k) * c**-0.5).softmax(2)
        mixed = torch.bmm(v, scores.permute(0, 2, 1)).reshape(n, c, h, w)
        return x + self.out(mixed)


def vae_decoder() -> nn.Module:
    def block(inputs: int, outputs: int) -> nn.Module:
        body = nn.Sequential(
            *(nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)),
            *(nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)),
        )
        return residual(body) if inputs == outputs else nn.Sequential(body)

    def up(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(width, width, 3, padding=1)
        )

    return nn.Sequential(
        *(nn.Conv2d(4, 48, 3, padding=1), block(48, 48), _PictureAttention(48), block(48, 48)),
        *(block(48, 48), up(48), block(48, 32), up(32), block(32, 16), block(16, 16)),
        *(nn.GroupNorm(8, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1)),
    )


def vae_encoder() -> nn.Module:
    """Down to mean and logarithm of the variance; the strided convolutions pad on one side only."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1)]
    for inputs, outputs in ((16, 32), (32, 48)):
        layers += [
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.Conv2d(inputs, outputs, 3, 2),
            nn.GroupNorm(8, outputs),
            nn.SiLU(),
        ]
    return nn.Sequential(*layers, _PictureAttention(48), nn.Conv2d(48, 8, 1))


def espcn() -> nn.Module:
    """Super-resolution: all work in the small picture, then three times the size by PixelShuffle."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 16, 3, padding=1), nn.Tanh()),
        *(nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3)),
    )


class _Tenth(nn.Module):
    """A tenth of what a body makes: without normalization, sums of many would grow."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) * 0.1


def edsr() -> nn.Module:
    """Super-resolution by residual blocks without normalization."""

    def block() -> nn.Module:
        convs = (nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1))
        return residual(_Tenth(nn.Sequential(*convs)))

    body = residual(nn.Sequential(*(block() for _ in range(8)), nn.Conv2d(24, 24, 3, padding=1)))
    up = (nn.Conv2d(24, 96, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(24, 3, 3, padding=1))
    return nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), body, *up)


def style_transfer() -> nn.Module:
    """Johnson's network: reflected edges, InstanceNorm, five residual blocks, nearest neighbours to grow."""

    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
        return nn.Sequential(nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride))

    def normalized(*layer: nn.Module, width: int) -> list[nn.Module]:
        return [*layer, nn.InstanceNorm2d(width, affine=True), nn.ReLU()]

    def block() -> nn.Module:
        body = (*normalized(conv(32, 32, 3), width=32), conv(32, 32, 3), nn.InstanceNorm2d(32, affine=True))
        return residual(nn.Sequential(*body))

    def up(inputs: int, outputs: int) -> list[nn.Module]:
        return normalized(
            nn.Upsample(scale_factor=2, mode="nearest"), conv(inputs, outputs, 3), width=outputs
        )

    return nn.Sequential(
        *normalized(conv(3, 8, 9), width=8),
        *(*normalized(conv(8, 16, 3, 2), width=16), *normalized(conv(16, 32, 3, 2), width=32)),
        *(*(block() for _ in range(5)), *up(32, 16), *up(16, 8), conv(8, 3, 9)),
    )


def cyclegan() -> nn.Module:
    """Transposed convolutions with output padding, InstanceNorm without parameters."""
    return nn.Sequential(
        *(nn.ReflectionPad2d(3), nn.Conv2d(3, 8, 7), nn.InstanceNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16), nn.ReLU()),
        *(residual(nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.InstanceNorm2d(16))) for _ in range(3)),
        *(nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(8), nn.ReLU()),
        *(nn.ReflectionPad2d(3), nn.Conv2d(8, 3, 7), nn.Tanh()),
    )


def dcgan() -> nn.Module:
    """A vector of noise to a picture by transposed convolutions."""
    layers: list[nn.Module] = [nn.Unflatten(1, (32, 1, 1))]
    for inputs, outputs, stride, pad in ((32, 64, 1, 0), (64, 32, 2, 1), (32, 16, 2, 1)):
        conv = nn.ConvTranspose2d(inputs, outputs, 4, stride, pad, bias=False)
        layers += [conv, nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())


class _SimpleGate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        return left * right


def nafnet() -> nn.Module:
    """Restoration: products of halves in place of activations, PixelUnshuffle down and PixelShuffle up."""

    def block(width: int) -> nn.Module:
        spatial = (
            nn.Conv2d(width, 2 * width, 1),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
        )
        first = nn.Sequential(*spatial, _SimpleGate(), nn.Conv2d(width, width, 1))
        second = nn.Sequential(nn.Conv2d(width, 2 * width, 1), _SimpleGate(), nn.Conv2d(width, width, 1))
        return nn.Sequential(
            Residual(nn.GroupNorm(1, width), first), Residual(nn.GroupNorm(1, width), second)
        )

    body = (
        nn.PixelUnshuffle(2),
        nn.Conv2d(12, 24, 1),
        block(24),
        block(24),
        nn.Conv2d(24, 12, 1),
        nn.PixelShuffle(2),
    )
    return residual(nn.Sequential(*body))


class _Modulated(nn.Module):
    """StyleGAN2: the weights of a convolution are scaled per picture, so that a grouped one runs the batch."""

    def __init__(self, inputs: int, outputs: int, style: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.style = nn.Linear(style, inputs)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        n, inputs, h, w = x.shape
        weight = self.weight * self.style(style).reshape(n, 1, inputs, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        weight = weight.reshape(-1, inputs, 3, 3)
        y = F.conv2d(x.reshape(1, n * inputs, h, w), weight, padding=1, groups=n)
        return F.leaky_relu(y.reshape(n, -1, h, w), 0.2)


class _StyleGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 32, 4, 4))
        self.mapping = nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 16))
        self.convs = nn.ModuleList(_Modulated(a, b, 16) for a, b in ((32, 32), (32, 16), (16, 8)))
        self.colours = nn.ModuleList(nn.Conv2d(width, 3, 1) for width in (32, 16, 8))

    def forward(self, noise: Tensor) -> Tensor:
        style = self.mapping(noise)
        x = self.start.expand(noise.shape[0], -1, -1, -1)
        picture: Tensor | None = None
        for conv, colour in zip(self.convs, self.colours, strict=True):
            x = conv(F.interpolate(x, scale_factor=2.0, mode="nearest"), style)
            made = cast(Tensor, colour(x))
            if picture is not None:
                made = made + F.interpolate(picture, scale_factor=2.0, mode="bilinear", align_corners=False)
            picture = made
        assert picture is not None
        return picture


def stylegan() -> nn.Module:
    return _StyleGenerator()


def autoencoder() -> nn.Module:
    """Strided convolutions down to a vector, transposed ones back."""
    return nn.Sequential(
        *(
            Conv(3, 8, 3, 2),
            Conv(8, 16, 3, 2),
            nn.Flatten(),
            nn.Linear(1024, 24),
            nn.ReLU(),
            nn.Linear(24, 1024),
        ),
        *(
            nn.Unflatten(1, (16, 8, 8)),
            nn.ConvTranspose2d(16, 8, 2, 2),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 3, 2, 2),
        ),
        nn.Sigmoid(),
    )
