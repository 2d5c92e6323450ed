"""The price models that come with the package, measured here: oneDNN's kernels on avx2 and on avx512.

    python benchmarks/shipped_prices.py avx512 [--seconds 120] [--prices FILE] [--ops nn.concat nn.mul]
    ONEDNN_MAX_CPU_ISA=AVX2 python benchmarks/shipped_prices.py avx2

Measures what the ops of the networks of the onnx package and of those of `tests/zoo` listed below could run as, in the
layouts of target onednn, on one thread, until the seconds are over: a few options of every network at first. The
options of an op take turns, and the least time of each counts; their operands are in the caches as far as they fit,
their weights are not. What was measured is added to --prices, so that several runs go on where the one before ended;
with --again they measure all of it once more, and of two prices the lesser stays. The model that fits all of it is
written into the package; groups without prices enough keep their fit. With --ops, only what these take is measured
(`nn.conv`, or `nn.conv:grouped` for a variant of it), and the rest of the model stays as it is, with the machine that
it names. --networks are of tests/zoo, or files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import monotonic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layout_ir.api.measured_selection import measured_costs
from layout_ir.backends.llvm.runtime.timing import Limits
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_timing import measured, price_source, rounds_of
from layout_ir.frontends.onnx import from_onnx
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.costs.price_keys import PriceKey
from layout_ir.passes.selection.costs.price_model import PriceModel, fitted_model, group_of
from layout_ir.passes.selection.costs.price_model_file import model_text, shipped_model
from layout_ir.passes.selection.costs.price_table import Price, PriceTable, read_prices
from layout_ir.passes.selection.translation.deciding_prices import Answers
from layout_ir.passes.selection.translation.priced_selection import Question
from layout_ir.tools.program import shipped_network
from tests.zoo import NETWORKS

ROOT = Path(__file__).resolve().parents[1]

SHIPPED = ("resnet50", "densenet121", "inception_v1", "shufflenet", "squeezenet", "vgg19", "bvlc_alexnet")
"""Of the networks of the onnx package."""

ZOO = (
    "efficientnet_b0-full", "ghostnet-full", "res2net50-full", "regnet_y-full", "cspdarknet53-full", "mobilenet_v2",
    "mobilenet_v3_large", "convnext_tiny", "unet_resized", "unet_transposed", "deeplabv3", "diffusion_unet", "c3d",
    "audio_cnn", "vit_tiny", "swin_tiny", "maxvit", "segformer", "bert", "gpt2", "unet_3d", "wavenet", "resnext50",
    "xception", "nasnet", "inception_v3", "repvgg", "shufflenet_v2", "se_resnet50", "yolov8-full",
)  # fmt: skip


_ROUNDS = Limits(precision=0.0, seconds=0.5, fewest=12, most=40, batch=0.0005)
"""Rounds of options of an op, which take turns: as many as there is time for."""


def _least_prices(calls: Sequence[Callable[[], object]]) -> list[Price]:
    """The price of each call is its least time: whatever else the machine does only adds. The rounds would have to be
    undisturbed for their medians to be those of another day."""
    prices: list[Price] = []
    for own in rounds_of(calls, _ROUNDS):
        least, middle = (max(round(1e9 * each), 1) for each in (min(own), median(own)))
        prices.append(Price(least, least, middle))
    return prices


def _is_asked(ops: Sequence[str], op: str, variant: str) -> bool:
    return op in ops or f"{op}:{variant}" in ops


def _answers(ops: Sequence[str] | None) -> Answers:
    """Who answers questions about prices: about `ops` alone, where some are named."""

    def is_asked(key: PriceKey) -> bool:
        return ops is None or _is_asked(ops, *group_of(key)[:2])

    def ask(
        questions: Sequence[tuple[PriceKey, Question]],
    ) -> Iterator[tuple[PriceKey, Price | None]]:
        yield from ((key, None) for key, _ in questions if not is_asked(key))
        yield from measured([pair for pair in questions if is_asked(pair[0])], library(), 1, _least_prices)

    return ask


def main() -> None:
    """Measures, and writes the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("extension", choices=("avx2", "avx512"))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--prices", metavar="FILE", help="what was measured before, and is added to")
    parser.add_argument("--again", action="store_true", help="measure what has a price, too")
    parser.add_argument("--ops", nargs="+", metavar="OP", help="measure these alone")
    parser.add_argument(
        "--networks", nargs="+", metavar="NAME", help="of tests/zoo, or files, in place of all"
    )
    args = parser.parse_args()
    source = price_source(library(), 1)
    if not library().instruction_set.startswith(args.extension):
        raise SystemExit(f"the kernels use {library().instruction_set}: ONEDNN_MAX_CPU_ISA caps it")
    table = read_prices(args.prices) if args.prices and Path(args.prices).exists() else PriceTable()
    known = dict(table.of(source))
    costs = MeasuredCosts({} if args.again else dict(known), source)
    answers = _answers(args.ops)
    end = monotonic() + args.seconds
    models = [] if args.networks else [("onnx:" + name, shipped_network("onnx:" + name)) for name in SHIPPED]
    models += [(name, name if name.endswith(".onnx") else None) for name in args.networks or ZOO]
    for number, (name, path) in enumerate(models):
        left = end - monotonic()
        if left <= 0:
            break
        try:
            module = from_onnx(path if path is not None else NETWORKS[name].build())
        except Exception as error:  # one network less is no reason to end
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        before = len(costs.prices)
        share = left / (len(models) - number)
        measured_costs(module, "onednn", costs, "all", seconds=share, keep=False, answers=answers)
        print(f"{name}: {len(costs.prices) - before} prices", flush=True)
    prices = known | {
        key: price for key, price in costs.prices.items() if key not in known or price.ns < known[key].ns
    }
    if args.prices:
        table.prices[source] = prices
        Path(args.prices).write_text(table.text(), encoding="utf-8")
    model = fitted_model(prices)
    if model is None:
        raise SystemExit("too few prices for a model")
    shipped, machine = shipped_model(f"onednn-{args.extension}")
    fits = {
        group: fit
        for group, fit in model.groups.items()
        if args.ops is None or _is_asked(args.ops, *group[:2])
    }
    kept = [group for group in shipped.groups if group not in fits]
    model, source = PriceModel({**shipped.groups, **fits}), machine if args.ops else source
    path = ROOT / "passes" / "selection" / "costs" / f"onednn-{args.extension}.json"
    path.write_text(model_text(model, source), encoding="utf-8")
    print(f"{len(prices)} prices, {len(fits)} groups and {len(kept)} as they were, in {path}")


if __name__ == "__main__":
    main()
