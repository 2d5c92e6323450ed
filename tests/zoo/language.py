"""Text: encoders, decoders with and without caches, two towers, recommendation from sparse features."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.blocks import Attention, CrossAttention, First, PatchEmbedding, Residual, encoder, mlp


class _Bert(nn.Module):
    """BERT: normalizes after each sum, masks padding, pooler of the first token."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(depth))
        self.mixes = nn.ModuleList(mlp(width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(2 * depth))
        self.pool = nn.Sequential(First(), nn.Linear(width, width), nn.Tanh())

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        places = torch.arange(input_ids.shape[1]).unsqueeze(0)
        x = self.norm(self.words(input_ids) + self.positions(places) + self.types(token_type_ids))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for index, (attention, mix) in enumerate(zip(self.attentions, self.mixes, strict=True)):
            x = self.norms[2 * index](x + attention(x, bias))
            x = self.norms[2 * index + 1](x + mix(x))
        return x, self.pool(x)


def bert() -> nn.Module:
    return _Bert(200, 64, 4, 4, 32)


def bert_full() -> nn.Module:
    """BERT-base."""
    return _Bert(30522, 768, 12, 12, 512)


class _Gpt2(nn.Module):
    """GPT-2: normalizes first, causal, GELU by tanh, logits from the embedding's own weights."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, length: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        blocks: list[nn.Module] = []
        for _ in range(depth):
            blocks.append(Residual(nn.LayerNorm(width), Attention(width, heads, causal=True)))
            blocks.append(Residual(nn.LayerNorm(width), mlp(width, 4, _TanhGelu)))
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width))

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        return self.blocks(x) @ self.words.weight.t()


class _TanhGelu(nn.Module):
    """GELU by its approximation, written out as old exports have it."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gpt2() -> nn.Module:
    return _Gpt2(200, 64, 4, 4, 32)


def gpt2_full() -> nn.Module:
    """GPT-2, the smallest of those published."""
    return _Gpt2(50257, 768, 12, 12, 1024)


class _CachedDecoder(nn.Module):
    """One step of a decoder: keys and values of earlier tokens come in, those with the new one go out."""

    def __init__(self, vocabulary: int, width: int, heads: int) -> None:
        super().__init__()
        self.words, self.heads = nn.Embedding(vocabulary, width), heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query, self.key, self.value = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.Linear(width, width),
        )
        self.out, self.mix, self.head = nn.Linear(width, width), mlp(width), nn.Linear(width, vocabulary)

    def forward(self, token: Tensor, past_keys: Tensor, past_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.words(token)
        y = self.norms[0](x)
        n, _, width = y.shape
        q, k, v = (
            p(y).reshape(n, 1, self.heads, width // self.heads).transpose(1, 2)
            for p in (self.query, self.key, self.value)
        )
        keys, values = torch.cat([past_keys, k], 2), torch.cat([past_values, v], 2)
        scores = (q @ keys.transpose(2, 3) * (width // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((scores @ values).transpose(1, 2).reshape(n, 1, width))
        return self.head(x + self.mix(self.norms[1](x))), keys, values


def gpt2_step() -> nn.Module:
    return _CachedDecoder(200, 64, 4)


class _RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class _Biased(nn.Module):
    """A block of T5: attention with the bias that all blocks share, no scale, RMS norms."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.attention = _RmsNorm(width), Attention(width, heads)
        self.mix = Residual(_RmsNorm(width), _Gated(width, nn.GELU()))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.mix(x + self.attention(self.norm(x), bias))


class _Gated(nn.Module):
    """An MLP one half of whose inner layer scales the other (GEGLU, SwiGLU)."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down, self.activation = nn.Linear(2 * width, width, bias=False), activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class _T5Encoder(nn.Module):
    """T5: positions only as a bias per bucket of distances, near ones exact, far ones by the logarithm."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.words, self.table = nn.Embedding(vocabulary, width), nn.Embedding(16, heads)
        self.blocks = nn.ModuleList(_Biased(width, heads) for _ in range(depth))
        self.norm = _RmsNorm(width)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids)
        places = torch.arange(input_ids.shape[1])
        apart = places[None, :] - places[:, None]
        distance = apart.abs()
        far = 4 + (torch.log(distance.clamp(min=1).float() / 4) / math.log(32 / 4) * 4).long()
        bucket = torch.where(distance < 4, distance, far.clamp(max=7)) + (apart > 0).long() * 8
        bias = self.table(bucket).permute(2, 0, 1).unsqueeze(0)
        for block in self.blocks:
            x = block(x, bias)
        return self.norm(x)


def t5_encoder() -> nn.Module:
    return _T5Encoder(200, 64, 4, 4)


def t5_encoder_full() -> nn.Module:
    """The encoder of T5-base."""
    return _T5Encoder(32128, 768, 12, 12)


class _Rotary(nn.Module):
    """Causal attention with rotary positions and fewer heads for keys and values than for queries."""

    def __init__(self, width: int, heads: int, groups: int, length: int) -> None:
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.depth, bias=False)
        self.value = nn.Linear(width, groups * self.depth, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        frequencies = 10000.0 ** (-torch.arange(0, self.depth, 2) / self.depth)
        angles = torch.outer(torch.arange(float(length)), frequencies).repeat(1, 2)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def _turn(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        length = x.shape[2]
        cosines, sines = cast(Tensor, self.cosines)[:length], cast(Tensor, self.sines)[:length]
        return x * cosines + torch.cat([-right, left], -1) * sines

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q = self._turn(self.query(x).reshape(n, length, self.heads, self.depth).transpose(1, 2))
        k = self._turn(self.key(x).reshape(n, length, self.groups, self.depth).transpose(1, 2))
        v = self.value(x).reshape(n, length, self.groups, self.depth).transpose(1, 2)
        repeats = self.heads // self.groups
        k = k[:, :, None].expand(-1, -1, repeats, -1, -1).reshape(n, self.heads, length, self.depth)
        v = v[:, :, None].expand(-1, -1, repeats, -1, -1).reshape(n, self.heads, length, self.depth)
        future = torch.full((length, length), -1e9).triu(1)
        scores = (q @ k.transpose(2, 3) / math.sqrt(self.depth) + future).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(n, length, width))


class _Llama(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, groups: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        blocks: list[nn.Module] = []
        for _ in range(depth):
            blocks.append(Residual(_RmsNorm(width), _Rotary(width, heads, groups, length)))
            blocks.append(Residual(_RmsNorm(width), _Gated(width, nn.SiLU())))
        self.blocks = nn.Sequential(*blocks, _RmsNorm(width), nn.Linear(width, vocabulary, bias=False))

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.blocks(self.words(input_ids))


def llama() -> nn.Module:
    return _Llama(200, 64, 4, 4, 2, 32)


def llama_full() -> nn.Module:
    """A Llama in the widths of SmolLM-135M."""
    return _Llama(49152, 576, 30, 9, 3, 512)


class _Clip(nn.Module):
    """Two towers and the cosines between what they make of pictures and of texts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.picture = nn.Sequential(
            PatchEmbedding(width, 16, 64, True),
            *(encoder(width, 4) for _ in range(3)),
            nn.LayerNorm(width),
            First(),
        )
        self.words = nn.Embedding(200, width)
        text = [Residual(nn.LayerNorm(width), Attention(width, 4, causal=True)) for _ in range(3)]
        self.text = nn.Sequential(*text, nn.LayerNorm(width))
        self.picture_out, self.text_out = nn.Linear(width, 32, bias=False), nn.Linear(width, 32, bias=False)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, pixels: Tensor, input_ids: Tensor) -> Tensor:
        picture = self.picture_out(self.picture(pixels))
        ends = input_ids.argmax(-1)
        text = self.text(self.words(input_ids))
        text = self.text_out(text[torch.arange(text.shape[0]), ends])
        picture = picture / picture.norm(dim=-1, keepdim=True)
        text = text / text.norm(dim=-1, keepdim=True)
        return self.scale.exp() * picture @ text.t()


def clip() -> nn.Module:
    return _Clip(48)


class _Dlrm(nn.Module):
    """DLRM: dense features through an MLP, bags of sparse ones through embeddings, all pairs of products, an MLP."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        count = tables + 1
        pairs = torch.tril_indices(count, count, -1)
        self.register_buffer("pairs", pairs[0] * count + pairs[1])
        self.top = nn.Sequential(
            nn.Linear(width + pairs.shape[1], 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid()
        )

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [table(sparse[:, index]).sum(1) for index, table in enumerate(self.tables)]
        features = torch.stack([x, *bags], 1)
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, products.index_select(1, cast(Tensor, self.pairs))], 1))


def dlrm() -> nn.Module:
    return _Dlrm(6, 50, 16)


class _EinsumAttention(nn.Module):
    """Attention in Einstein's notation, queries, keys and values per head from weights of three dims."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        depth = width // heads
        self.weights = nn.Parameter(torch.randn(3, width, heads, depth) / width**0.5)
        self.out = nn.Parameter(torch.randn(heads, depth, width) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("nlc,chd->nhld", x, self.weights[index]) for index in range(3))
        scores = torch.einsum("nhld,nhmd->nhlm", q, k).softmax(-1)
        return torch.einsum("nhld,hdc->nlc", torch.einsum("nhlm,nhmd->nhld", scores, v), self.out)


def einsum_transformer() -> nn.Module:
    blocks = [
        Residual(nn.LayerNorm(64), body) for _ in range(4) for body in (_EinsumAttention(64, 4), mlp(64))
    ]
    return nn.Sequential(nn.Embedding(200, 64), *blocks, nn.Linear(64, 200))


class _Seq2Seq(nn.Module):
    """The transformer as first published: encoder, decoder that sees it, sines for positions."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        angles = torch.outer(torch.arange(32.0), 10000.0 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], 2).flatten(1))
        self.encoder = nn.Sequential(encoder(width, 4), encoder(width, 4))
        self.own = nn.ModuleList(Residual(nn.LayerNorm(width), Attention(width, 4, True)) for _ in range(2))
        self.cross = nn.ModuleList(CrossAttention(width, 4) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mixes = nn.ModuleList(Residual(nn.LayerNorm(width), mlp(width, 4, nn.ReLU)) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        positions = cast(Tensor, self.positions)
        memory = self.encoder(self.words(source) + positions[: source.shape[1]])
        y = self.words(target) + positions[: target.shape[1]]
        for own, cross, norm, mix in zip(self.own, self.cross, self.norms, self.mixes, strict=True):
            y = own(y)
            y = mix(y + cross(norm(y), memory))
        return F.log_softmax(self.head(y), -1)


def translator() -> nn.Module:
    return _Seq2Seq(200, 48)


class _Experts(nn.Module):
    """Mixture of experts: the two best of four, chosen per token by TopK, all computed, the chosen added."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.first = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.second = nn.Parameter(torch.randn(experts, 2 * width, width) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        best, chosen = self.router(x).topk(2, -1)
        weights = torch.zeros_like(self.router(x)).scatter(-1, chosen, best.softmax(-1))
        inner = torch.matmul(x.unsqueeze(1), self.first).relu()
        results = torch.matmul(inner, self.second)
        return (results * weights.transpose(1, 2).unsqueeze(-1)).sum(1)


def mixture_of_experts() -> nn.Module:
    blocks = [
        Residual(nn.LayerNorm(32), body)
        for _ in range(2)
        for body in (Attention(32, 4, True), _Experts(32, 4))
    ]
    return nn.Sequential(nn.Embedding(200, 32), *blocks, nn.Linear(32, 200))
