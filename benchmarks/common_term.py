"""What the map of the true logit contains that explains nothing, on the committed networks.

    .venv/bin/python benchmarks/common_term.py results/mnist/madry results/mnist/erar_plus

A term common to all logits changes the map of the true logit and no prediction. Prints, as means over the correctly
predicted of 100 stratified test images: the L1 norm of the attribution of the mean logit as a share of that of the true
logit; and Spearman's rho of the map of the centred logit with the image itself taken as a map, and of the map of the
network with shuffled weights with the image.
"""

import argparse
from pathlib import Path

import torch

import holdfast as hf
from holdfast.config import config_from_file
from holdfast.data import to_float
from holdfast.evaluation.controls import image_map, shuffled_weights
from holdfast.experiment.run import load_data

SEED = 5


def mean_logit(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return logits.mean(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    for run in parser.parse_args().runs:
        data = load_data(config_from_file(run / "config.toml"), "test").stratified(100, seed=SEED)
        model, x, y = hf.load(run).eval(), to_float(data.x), data.y
        right = model(x).argmax(1) == y
        x, y = x[right], y[right]
        common, true, centred = (
            hf.IntegratedGradients(steps=50, score=score)(model, x, y)
            for score in (mean_logit, hf.true_logit, hf.centred_logit)
        )
        share = common.flatten(1).abs().sum(1) / true.flatten(1).abs().sum(1)
        other = hf.IntegratedGradients(steps=50, score=hf.centred_logit)(shuffled_weights(model, SEED), x, y)
        rho = [
            hf.metrics.spearman_rho(hf.saliency_map(a).flatten(1), image_map(x).flatten(1)).mean()
            for a in (centred, other)
        ]
        print(
            f"{run.parent.name}/{run.name}: n = {len(x)}, common term {share.mean():.0%} of the attribution, "
            f"Spearman with the image {rho[0]:.3f}, of shuffled weights {rho[1]:.3f}"
        )


if __name__ == "__main__":
    main()
