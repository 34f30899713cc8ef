"""One perturbation for all images."""

from dataclasses import replace

import torch

import holdfast as hf
from holdfast.attacks import SharedPerturbation


def fitted(steps: int) -> tuple[hf.attacks.ProposalAttack, torch.nn.Module, torch.Tensor]:
    model = hf.models.build("digits-cnn", seed=0)
    x = hf.data.to_float(hf.data.load("digits", split="train").x[:40])
    attack = hf.recipes.universal(
        model, x, model(x).argmax(1), keys=torch.arange(40), eps=0.15, k=12, steps=steps, ig_steps=5
    )
    return attack, model, hf.data.to_float(hf.data.load("digits", split="test").x[:30])


def test_one_delta_inside_the_ball_is_applied_to_every_image() -> None:
    attack, model, x = fitted(steps=3)
    delta = attack.propose.delta
    assert delta.shape == (1, 1, 8, 8)
    assert bool((delta.abs() <= 0.15).all())
    result = attack.run(model, x, model(x).argmax(1), keys=torch.arange(30))
    attacked = result.outcome == hf.attacks.Outcome.ATTACKED
    assert torch.equal(result.x_adv[attacked], (x + delta).clamp(0, 1)[attacked])
    assert torch.equal(model(result.x_adv).argmax(1), model(x).argmax(1))


def test_it_does_more_damage_than_random_signs_on_the_images_it_was_found_on() -> None:
    attack, model, _ = fitted(steps=20)
    x = hf.data.to_float(hf.data.load("digits", split="train").x[:40])
    y, keys = model(x).argmax(1), torch.arange(40)
    damage = []
    for seed in range(5):
        signs = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).sub(0.5).sign()
        control = replace(attack, propose=SharedPerturbation(0.15 * signs))
        damage.append(float(control.run(model, x, y, keys=keys).scores.top_k.nanmean()))
    assert float(attack.run(model, x, y, keys=keys).scores.top_k.nanmean()) < sum(damage) / len(damage)


def test_repr_names_the_delta_by_its_checksum() -> None:
    one, other = SharedPerturbation(torch.zeros(1, 1, 2, 2)), SharedPerturbation(torch.ones(1, 1, 2, 2))
    assert repr(one) != repr(other)
    assert repr(one) == repr(SharedPerturbation(torch.zeros(1, 1, 2, 2)))
