"""RIS, ROS and the imputation of ROAD equal those of Quantus, where Quantus can be imported."""

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tests.outside import outside

import holdfast as hf
from holdfast.evaluation.road import impute
from holdfast.evaluation.stability import random_stability
from holdfast.rng import combine

SAMPLES = 4


@pytest.fixture(scope="module")
def quantus() -> ModuleType:
    return outside("quantus")


@pytest.fixture(scope="module")
def case() -> tuple:
    net = hf.models.build("digits-cnn", num_classes=7, in_channels=1, image_size=8, seed=1).eval()
    x = 0.1 + 0.8 * torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    x[0, 0, 0, :4] = 0.0  # entries that are zero in image and map
    return hf.Classifier(net).eval(), x, net(x).argmax(1)


@pytest.mark.parametrize(("theirs", "ours"), [("RelativeInputStability", "ris"), ("RelativeOutputStability", "ros")])
def test_relative_stability(quantus: ModuleType, case: tuple, theirs: str, ours: str) -> None:
    model, x, y = case
    keys, ball, ig = hf.make_keys(0, torch.arange(3)), hf.Linf(0.005), hf.InputXGradient()
    near = [ball.sample(combine(keys, number), x) for number in range(SAMPLES)]
    assert all(torch.equal(model(images).argmax(1), y) for images in near)  # or Quantus would return NaN
    queue = [images.flatten(1).numpy() for images in near]

    def explain(model: Any, inputs: np.ndarray, targets: np.ndarray, **_: Any) -> np.ndarray:
        return ig(model, torch.as_tensor(inputs), torch.as_tensor(targets)).numpy()

    metric = getattr(quantus, theirs)(
        nr_samples=SAMPLES, perturb_func=lambda arr, **_: queue.pop(0), disable_warnings=True
    )
    found = metric(
        model=model, x_batch=x.numpy(), y_batch=y.numpy(), explain_func=explain, softmax=False, channel_first=True
    )
    expected = getattr(random_stability(model, x, y, ig, keys=keys, ball=ball, samples=SAMPLES), ours)
    np.testing.assert_allclose(np.asarray(found), expected.numpy(), rtol=1e-3)


def test_imputation(quantus: ModuleType) -> None:
    from quantus.functions.perturb_func import noisy_linear_imputation

    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3, 9, 7, generator=generator, dtype=torch.float64)
    removed = torch.rand(9, 7, generator=generator) < 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = noisy_linear_imputation(x.numpy(), removed.flatten().nonzero().flatten().numpy(), noise=0.0)
    np.testing.assert_allclose(impute(x[None], removed[None])[0].numpy(), theirs, atol=1e-8)
