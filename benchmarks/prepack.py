"""How fast all weights of a model are packed in one call, beside a copy of as many bytes and beside other libraries.

    python benchmarks/prepack.py                       ResNet-50 and BERT-base, one and two threads
    python benchmarks/prepack.py --model bert --kind s8 --threads 2

Every weight goes from the framework's row-major order into the layout that oneDNN's own convolution or matmul asks for
on this machine: f32; bf16 and s8 from f32, with a scale for each output channel; s8s8 from s8. Behind weights of s8
are the compensation sums for sources of s8 with a zero point. Our bytes are compared with oneDNN's before anything is
timed.

`oneDNN` is a loop over its reorders, each made beforehand; where it has none with scales for each channel (matmuls),
two: a conversion, and a reorder of the result. `torch` is a loop over what it packs weights for oneDNN with, into new
tensors; its s8 begins from s8. `copy` is one copy, the faster of a plain and a streaming one, that reads and writes as
many bytes together. Rates count the bytes of all sources and destinations. Contenders take turns; rates are those of
the best rounds, since a call this long is seldom left alone on a machine that others use too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray

from layout_ir.api.prepacking import Prepack, WeightPacking, compile_prepack
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.backends.llvm.machine.known_cpus import local_machine
from layout_ir.backends.llvm.runtime.copy_bandwidth import plain_copy, streaming_copy
from layout_ir.backends.llvm.runtime.timing import Limits, race, touched_bytes
from layout_ir.notations.onednn import BlockingDesc
from layout_ir.tools.benchmark.measure import confine
from layout_ir.tools.benchmark.summary import machine_lines
from tests.oracles import onednn
from tests.oracles.onednn_weights import convolution_weights, matmul_weights

KINDS = ("f32", "bf16", "s8", "s8s8")
"""Of f32 to f32, f32 to bf16, f32 to s8, s8 to s8."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Weight:
    """A weight of a model: (o, i, h, w) of a convolution over `image`, or (k, n) of a matmul."""

    shape: tuple[int, ...]
    image: int = 0
    stride: int = 1

    @property
    def channel(self) -> int:
        """The dim of output channels."""
        return 0 if self.image else 1

    def wanted(self, kind: str) -> onednn.Desc:
        """What oneDNN asks for."""
        dtype = {"f32": "f32", "bf16": "bf16"}.get(kind, "i8")
        options: dict[str, Any] = {"src": dtype, "wei": dtype, "src_zero": dtype == "i8"}
        if self.image:
            return convolution_weights(self.shape, dst=dtype, image=self.image, stride=self.stride, **options)
        return matmul_weights(self.shape, dst="f32", **options)


def resnet50() -> Iterator[Weight]:
    """The 53 convolutions and the last layer."""
    yield Weight((64, 3, 7, 7), 224, 2)
    inputs, image = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            yield Weight((width, inputs, 1, 1), image)
            yield Weight((width, width, 3, 3), image, stride)
            if not block:
                yield Weight((4 * width, inputs, 1, 1), image, stride)
            image //= stride
            yield Weight((4 * width, width, 1, 1), image)
            inputs = 4 * width
    yield Weight((2048, 1000))


def bert_base() -> Iterator[Weight]:
    """The matmuls of twelve layers, and the pooler."""
    for _ in range(12):
        yield from [Weight((768, 768))] * 4
        yield from (Weight((768, 3072)), Weight((3072, 768)))
    yield Weight((768, 768))


MODELS = {"resnet": ("ResNet-50", resnet50), "bert": ("BERT-base", bert_base)}


def packing(weight: Weight, kind: str, wanted: onednn.Desc, factors: Array | None) -> WeightPacking:
    """The same for us: the layout of the descriptor, and the sums behind it.

    The library multiplies where a scale of the destination divides, so `factors` are scales of the source.
    """
    x = wanted.described()
    layout = BlockingDesc(
        x.dims, x.padded_dims, x.padded_offsets, x.offset0, x.strides, x.inner_blks, x.inner_idxs
    ).layout()
    dtype = {"f32": "f32", "bf16": "bf16"}.get(kind, "i8")
    source = TensorDesc(weight.shape, "i8" if kind == "s8s8" else "f32")
    target = TensorDesc(weight.shape, dtype, replace(layout, pad="zero"))
    found = WeightPacking(source, target, None if factors is None else (factors, None), (weight.channel,))
    # What the library asks for is known by the size: it has sums behind the weights, or none.
    both = replace(found, compensation=("s8s8", "zero_point"))
    return both if dtype == "i8" and both.sizes[1] == wanted.size else found


class Model:
    """The weights of a model, and what every contender does with them."""

    def __init__(self, name: str, kind: str, threads: int, *, halved: Collection[int] = ()) -> None:
        """Our weights of the numbers `halved` are half as large: what oneDNN makes of some of s8 where products of u8
        and s8 are summed in 16 bits (without VNNI)."""
        rng = np.random.default_rng(0)
        self.kind, self.threads = kind, threads
        self.weights = list(MODELS[name][1]())
        self.wanted = [weight.wanted(kind) for weight in self.weights]
        self.sources = [self._source(weight, rng) for weight in self.weights]
        self.factors = [
            rng.uniform(25, 50, weight.shape[weight.channel]).astype(np.float32) if kind == "s8" else None
            for weight in self.weights
        ]
        self.packings = [
            packing(weight, kind, desc, self._halved(weight, factors) if k in halved else factors)
            for k, (weight, desc, factors) in enumerate(
                zip(self.weights, self.wanted, self.factors, strict=True)
            )
        ]
        self.ours = [self._row(p.sizes[1]) for p in self.packings]
        self.theirs = [self._row(desc.size) for desc in self.wanted]

    def _halved(self, weight: Weight, factors: Array | None) -> Array:
        return np.full(weight.shape[weight.channel], 0.5, np.float32) if factors is None else factors / 2

    def _source(self, weight: Weight, rng: np.random.Generator) -> Array:
        kind = np.dtype(np.int8 if self.kind == "s8s8" else np.float32)
        row = touched_bytes(int(np.prod(weight.shape)) * kind.itemsize).view(kind)
        row[:] = rng.integers(-100, 100, row.size) if kind == np.int8 else rng.normal(0, 1, row.size)
        return row.reshape(weight.shape)

    def _row(self, size: int) -> Array:
        width = {"f32": np.float32, "bf16": np.uint16}.get(self.kind, np.int8)
        return touched_bytes(size).view(width)

    def prepack(self) -> Prepack:
        """Ours."""
        return compile_prepack(self.packings, threads=self.threads)

    def onednn(self) -> Callable[[], None]:
        """A loop over the library's reorders."""
        calls: list[Callable[[], None]] = []
        for weight, source, factors, desc, out in zip(
            self.weights, self.sources, self.factors, self.wanted, self.theirs, strict=True
        ):
            dtype = "i8" if self.kind == "s8s8" else "f32"
            strides = [step // source.itemsize for step in source.strides]
            plain = onednn.Desc.from_strides(weight.shape, strides, dtype)
            if factors is None:
                calls.append(onednn.Primitive(plain, source, desc, out))
                continue
            attributes = onednn.Attributes(src_scale=(1 << weight.channel, factors))
            try:
                calls.append(onednn.Primitive(plain, source, desc, out, attributes))
            except onednn.OneDNNError:
                middle = onednn.Desc.from_strides(weight.shape, strides, "i8")
                between = np.zeros(source.shape, np.int8)
                calls.append(onednn.Primitive(plain, source, middle, between, attributes))
                calls.append(onednn.Primitive(middle, between, desc, out))

        def run() -> None:
            for call in calls:
                call()

        return run

    def torch(self) -> Callable[[], None] | None:
        """A loop over what torch packs weights with; None for kinds that it begins from other elements."""
        try:
            import torch
        except ImportError:
            return None
        torch.set_num_threads(self.threads)
        api: Any = torch
        dtype = {"f32": api.float32, "bf16": api.bfloat16, "s8s8": api.int8}.get(self.kind)
        if dtype is None:
            return None
        calls: list[Callable[[], object]] = []
        for weight, source in zip(self.weights, self.sources, strict=True):
            tensor = api.from_numpy(source)
            if self.kind == "s8s8":
                scales = torch.ones(weight.shape[weight.channel])
                zeros = torch.zeros(weight.shape[weight.channel], dtype=torch.int32)
                if weight.image:
                    shape = [1, weight.shape[1], weight.image, weight.image]
                    pad, stride = [weight.shape[2] // 2] * 2, [weight.stride] * 2
                    calls.append(
                        lambda t=tensor, s=scales, z=zeros, shape=shape, pad=pad, stride=stride: (
                            api.ops.onednn.qconv_prepack(t, s, 1.0, 1, stride, pad, [1, 1], 1, shape)
                        )
                    )
                else:
                    rows = tensor.t().contiguous()
                    calls.append(lambda t=rows: api.ops.onednn.qlinear_prepack(t, [128, t.shape[1]]))
            elif weight.image:
                pad, stride = [weight.shape[2] // 2] * 2, [weight.stride] * 2
                shape = [1, weight.shape[1], weight.image, weight.image]
                calls.append(
                    lambda t=tensor, pad=pad, stride=stride, shape=shape: (
                        api._C._nn.mkldnn_reorder_conv2d_weight(
                            t.to(dtype).to_mkldnn(), pad, stride, [1, 1], 1, shape
                        )
                    )
                )
            else:
                calls.append(
                    lambda t=tensor: api.ops.mkldnn._reorder_linear_weight(t.t().to(dtype).contiguous(), 128)
                )

        def run() -> None:
            for call in calls:
                call()

        try:
            run()
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            print(f"  torch takes no part: {str(error).splitlines()[0][:100]}")
            return None
        return run

    def copy(self, size: int) -> dict[str, Callable[[], object]]:
        """Copies that read and write `size` bytes together."""
        a, b = touched_bytes(size // 2), touched_bytes(size // 2)
        return {
            "plain": lambda: plain_copy(size // 2, self.threads)(a, b),
            "stream": lambda: streaming_copy(size // 2, self.threads)(a, b),
        }


def measure(name: str, kind: str, threads: int, seconds: float) -> str:
    """One line of the table. Raises AssertionError where our bytes are not oneDNN's."""
    differing: list[int] = []
    for _ in range(2):
        model = Model(name, kind, threads, halved=differing)
        ours, theirs = model.prepack(), model.onednn()
        ours(model.sources, model.ours)
        theirs()
        pairs = enumerate(zip(model.ours, model.theirs, strict=True))
        differing = [k for k, (a, b) in pairs if kind != "bf16" and not np.array_equal(a, b)]
        if not differing:
            break
    assert not differing, f"weight {differing[0]} differs from oneDNN's"
    contenders: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(model.sources, model.ours), "oneDNN": theirs,
    }  # fmt: skip
    torch = model.torch()
    if torch is not None:
        contenders["torch"] = torch
    contenders |= model.copy(ours.nbytes)
    limits = Limits(0.02, seconds, fewest=5)
    times = race(contenders, lambda t: t.speedup("ours", "oneDNN").uncertainty, limits, 0.004)
    rate = {one: ours.nbytes / times.best(one) / 1e9 for one in contenders}
    copy = max("plain", "stream", key=lambda one: rate[one])
    shown = [f"{rate[one]:6.1f}" if one in rate else "     -" for one in ("ours", copy, "oneDNN", "torch")]
    leads = [
        f"{rate['ours'] / rate[one]:5.2f}" if one in rate else "    -" for one in (copy, "oneDNN", "torch")
    ]
    return f"{MODELS[name][0]:10} {kind:5} {threads:7} {ours.nbytes / 1e6:7.1f} {' '.join(shown)}   {' '.join(leads)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=list(MODELS), action="append", help="default: both")
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each line, at most")
    args = parser.parse_args()
    threads: list[int] = args.threads or [1, 2]
    if (reason := onednn.executes()) is not None and len(threads) == 1:
        print(f"oneDNN cannot be used here: {reason}")
        return 1
    if len(threads) > 1:
        print("\n".join(machine_lines([], local_machine("host"))))
        print(
            "model      kind  threads      MB   ours   copy oneDNN  torch   ours over copy, oneDNN, torch",
            flush=True,
        )
        given = [f"--seconds={args.seconds}", *(f"--model={name}" for name in args.model or ())]
        given += [f"--kind={kind}" for kind in args.kind or ()]
        return max(
            subprocess.run([sys.executable, __file__, *given, f"--threads={n}"], check=False).returncode
            for n in threads
        )
    confine(threads[0])
    for name in args.model or MODELS:
        for kind in args.kind or KINDS:
            try:
                line = measure(name, kind, threads[0], args.seconds)
            except onednn.OneDNNError as error:  # no kernel for the type on this CPU, as for bf16 on AVX2
                line = f"{MODELS[name][0]:10} {kind:5} left out: {error}"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
