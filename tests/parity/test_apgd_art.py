"""Auto-PGD beside that of the ART toolbox: the same checkpoints, the same loss, and the same robust accuracy.

The toolbox counts a step as an increase only if it beats every point before, and looks one step later. Its step sizes
therefore differ on networks where the loss oscillates; where it never increases, both halve at every checkpoint.
"""

import numpy as np
import pytest
import torch
from art.attacks.evasion import AutoProjectedGradientDescent
from art.attacks.evasion import auto_projected_gradient_descent as module
from art.estimators.classification import PyTorchClassifier
from tests.nets import LinearSoftmax
from tests.trained import digits, trained
from torch import Tensor, nn

import holdfast as hf
from holdfast.attacks.apgd import checkpoints

IMAGES, STEPS = 200, 50
NAMES = {"ce": "cross_entropy", "dlr": "difference_logits_ratio"}


def peer(model: nn.Module, x: Tensor, eps: float, loss: str) -> AutoProjectedGradientDescent:
    wrapped = PyTorchClassifier(
        model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape[1:]),
        nb_classes=10,
        clip_values=(0, 1),
        device_type="cpu",
    )
    settings = {"nb_random_init": 1, "batch_size": len(x), "loss_type": NAMES[loss], "verbose": False}
    return AutoProjectedGradientDescent(wrapped, eps=eps, eps_step=2 * eps, max_iter=STEPS, **settings)


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return float((model(x).argmax(1) == y).double().mean())


@pytest.mark.parametrize("eps", [0.06, 0.1])
def test_robust_accuracy(eps: float) -> None:
    model = trained("digits-cnn", 8)
    x, y = (part[:IMAGES] for part in digits("test"))
    keys = hf.make_keys(0, torch.arange(IMAGES))
    ours, theirs = [], []
    for loss in NAMES:
        np.random.seed(0)
        theirs.append(torch.from_numpy(peer(model, x, eps, loss).generate(x.numpy(), y.numpy())))
        ours.append(hf.recipes.apgd(eps=eps, steps=STEPS, loss=loss)(model, x, y, keys=keys))
        # one random start each: with five the accuracies are the same
        assert accuracy(model, ours[-1], y) == pytest.approx(accuracy(model, theirs[-1], y), abs=0.02)
    assert 0.05 < accuracy(model, theirs[0], y) < accuracy(model, x, y) - 0.1  # the comparison says something
    worst = [
        float(torch.stack([model(images).argmax(1) == y for images in found]).all(0).double().mean())
        for found in (ours, theirs)
    ]
    assert worst[0] == pytest.approx(worst[1], abs=1.5 / IMAGES)
    pgd = hf.recipes.pgd(eps=eps, steps=STEPS)(model, x, y, keys=keys)
    assert worst[0] <= accuracy(model, pgd, y) + 0.5 / IMAGES


def test_the_loss_is_the_same() -> None:
    model = trained("digits-cnn", 8)
    x, y = (part[:50] for part in digits("test"))
    theirs = peer(model, x, 0.1, "dlr").estimator.compute_loss(x.numpy(), np.eye(10)[y], reduction="none")
    ours = hf.losses.DLR()(model, hf.Pair(x, x, y))
    torch.testing.assert_close(ours.detach(), torch.from_numpy(np.asarray(theirs)).float(), rtol=1e-5, atol=1e-6)


class Recording(hf.Linf):
    """The ball, with every point that is proposed to it."""

    def project(self, x_adv: Tensor, x: Tensor) -> Tensor:
        proposals.append(x_adv.clone())
        return super().project(x_adv, x)


proposals: list[Tensor] = []


def halvings(sizes: list[float]) -> list[int]:
    """The places after which a size is half of the one before."""
    return [k for k in range(1, len(sizes)) if sizes[k] < 0.75 * sizes[k - 1]]


def test_checkpoints_and_step_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a linear network the first step reaches the maximum, so both halve at every checkpoint."""
    torch.manual_seed(0)
    model, eps, x = LinearSoftmax(4, 10), 0.01, torch.full((3, 1, 2, 2), 0.5)
    with torch.no_grad():
        model.layer.bias[0] += 5  # a prediction that no step changes
    y = torch.zeros(3, dtype=torch.int64)
    attack = peer(model, x, eps, "ce")
    gradient, theirs = attack.estimator.loss_gradient, []

    def watched(*args: object) -> object:
        theirs.append(float(getattr(attack, "eta_w_j_m_1", np.array([2 * eps])).max()))
        return gradient(*args)

    monkeypatch.setattr(attack.estimator, "loss_gradient", watched)
    monkeypatch.setattr(module, "random_sphere", lambda n, m, *_: np.zeros((n, m)))  # start at the image, as below
    attack.generate(x.numpy(), y.numpy())
    ours = hf.attacks.APGD(hf.losses.CrossEntropy(), ball=Recording(eps), steps=STEPS, random_start=False)
    proposals.clear()
    ours(model, x, y, keys=torch.arange(3))
    corner = proposals[1]  # the first step ends there; later ones start there
    sizes = [2 * eps, *(float((ahead - corner).abs().max()) for ahead in proposals[2::2])]
    assert len(theirs) == len(sizes) == STEPS
    inside = [w for w in checkpoints(STEPS) if w < STEPS]
    assert halvings(sizes) == inside
    assert halvings(theirs) == [w + 1 for w in inside if w + 1 < STEPS]  # it takes one more step before it looks
    assert sizes[-1] == pytest.approx(2 * eps / 2 ** len(inside), rel=1e-3)
    assert theirs[-1] == pytest.approx(sizes[-1], rel=1e-3)
