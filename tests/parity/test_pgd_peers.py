"""PGD is at least as strong as foolbox's and the ART toolbox's with the same budget, step and number of steps."""

import foolbox
import numpy as np
import pytest
import torch
from art.attacks.evasion import ProjectedGradientDescent
from art.estimators.classification import PyTorchClassifier
from tests.trained import digits, trained

import holdfast as hf

IMAGES = 200
# a budget at which some examples fall and some stand, so that a weaker attack would show
NETWORKS = [("digits-cnn", 8, {}, 0.08), ("paper-cnn", 28, {"init": "torch", "steps": 40}, 0.05)]


def accuracy(model: torch.nn.Module, x_adv: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return float((model(x_adv).argmax(1) == y).double().mean())


def with_foolbox(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, eps: float, step: float) -> float:
    attack = foolbox.attacks.LinfPGD(abs_stepsize=step, steps=20, random_start=True)
    _, clipped, _ = attack(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=eps)
    return accuracy(model, clipped, y)


def with_art(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, eps: float, step: float) -> float:
    np.random.seed(0)
    shape = tuple(x.shape[1:])
    wrapped = PyTorchClassifier(
        model, loss=torch.nn.CrossEntropyLoss(), input_shape=shape, nb_classes=10, clip_values=(0, 1), device_type="cpu"
    )
    attack = ProjectedGradientDescent(wrapped, eps=eps, eps_step=step, max_iter=20, num_random_init=1, verbose=False)
    return accuracy(model, torch.from_numpy(attack.generate(x.numpy(), y.numpy())), y)


@pytest.mark.parametrize("peer", [with_foolbox, with_art])
@pytest.mark.parametrize(("name", "size", "options", "eps"), NETWORKS, ids=[n for n, *_ in NETWORKS])
def test_no_weaker_than(peer, name: str, size: int, options: dict, eps: float) -> None:
    model = trained(name, size, **options)
    x, y = (part[:IMAGES] for part in digits("test", size))
    step = 2.5 * eps / 20
    attack = hf.recipes.pgd(eps=eps, steps=20, step_size=step)
    ours = accuracy(model, attack(model, x, y, keys=hf.make_keys(0, torch.arange(IMAGES))), y)
    theirs = peer(model, x, y, eps, step)
    assert 0.05 < theirs < accuracy(model, x, y) - 0.1  # the comparison says something
    assert ours <= theirs + 1 / IMAGES


def test_one_step_equals_foolbox_fgsm() -> None:
    model = trained("digits-cnn", 8)
    x, y = (part[:50] for part in digits("test"))
    theirs = foolbox.attacks.FGSM()(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=0.1)[1]
    ours = hf.recipes.fgsm(eps=0.1)
    last = hf.PGD(ours.loss, ball=ours.ball, steps=1, step_size=0.1, best_by=hf.LAST)
    torch.testing.assert_close(last(model, x, y, keys=torch.arange(50)), theirs, rtol=0, atol=1e-6)
