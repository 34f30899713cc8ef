"""Bad input gets one clear sentence and changes nothing."""

import math

import pytest
import torch
from tests.nets import Detached, OnceOnly
from tests.oracles import tiny_images, tiny_net

import holdfast as hf

KEYS = torch.arange(2)


def attack(**changes) -> object:
    return hf.recipes.ifia(**({"eps": 0.1, "step_size": 0.05, "steps": 2, "k": 5, "ig_steps": 2} | changes))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "finite pixels"),
        (math.inf, "finite pixels"),
        (-0.1, r"pixels in \[0, 1\]"),
        (1.5, r"pixels in \[0, 1\]"),
    ],
)
@pytest.mark.parametrize("run", [attack(), hf.recipes.pgd(eps=0.1), hf.recipes.ifia_ensemble(eps=0.1, k=5, steps=1)])
def test_pixels(run, value: float, message: str) -> None:
    x = tiny_images(2)
    x[1, 0, 0, 0] = value
    before = x.clone()
    with pytest.raises(hf.InputError, match=message):
        run(tiny_net(), x, torch.zeros(2, dtype=torch.int64), keys=KEYS)
    assert torch.equal(x.nan_to_num(7.0), before.nan_to_num(7.0))


def test_nan_error_names_the_image() -> None:
    x = tiny_images(2)
    x[1, 0, 0, 0] = math.nan
    with pytest.raises(hf.InputError, match=r"images \[1\]"):
        attack()(tiny_net(), x, torch.zeros(2, dtype=torch.int64), keys=KEYS)


@pytest.mark.parametrize("y", [torch.tensor([0, 3]), torch.tensor([-1, 0])])
def test_labels_out_of_range(y: torch.Tensor) -> None:
    for run in (attack(), hf.recipes.pgd(eps=0.1)):
        with pytest.raises(hf.InputError, match="labels from 0 to 2"):
            run(tiny_net(), tiny_images(2), y, keys=KEYS)


@pytest.mark.parametrize("y", [torch.tensor([0]), torch.tensor([0.0, 1.0]), [0, 1]])
def test_labels_of_the_wrong_form(y) -> None:
    with pytest.raises(hf.InputError, match=r"int64 labels \[2\]"):
        attack()(tiny_net(), tiny_images(2), y, keys=KEYS)


def test_keys_of_the_wrong_form() -> None:
    with pytest.raises(hf.InputError, match="make_keys"):
        attack()(tiny_net(), tiny_images(2), torch.tensor([0, 1]), keys=torch.tensor([1]))


def test_bytes_are_not_pixels() -> None:
    with pytest.raises(hf.InputError, match="to_float"):
        attack()(tiny_net(), torch.zeros(2, 1, 6, 6, dtype=torch.uint8), torch.tensor([0, 1]), keys=KEYS)


def test_k_larger_than_the_map() -> None:
    net, x = tiny_net(), tiny_images(2)
    with pytest.raises(hf.InputError, match="1 <= k <= 36"):
        attack(k=37)(net, x, net(x).argmax(1), keys=KEYS)


@pytest.mark.parametrize(
    "changes", [{"eps": -0.1}, {"eps": math.nan}, {"step_size": -1.0}, {"steps": -1}, {"kind": "tpk"}]
)
def test_impossible_settings(changes: dict) -> None:
    with pytest.raises(hf.InputError, match="expected"):
        attack(**changes)


def test_target_kind_needs_a_target_of_the_right_size() -> None:
    with pytest.raises(hf.InputError, match="target"):
        attack(kind="target")
    net, x = tiny_net(), tiny_images(2)
    with pytest.raises(hf.InputError, match=r"a target map of \[6, 6\]"):
        attack(kind="target", target=torch.rand(5, 5))(net, x, net(x).argmax(1), keys=KEYS)


def test_a_model_that_returns_no_logits() -> None:
    for bad in (lambda x: (x,), lambda x: {"logits": x}):
        with pytest.raises(hf.InputError, match="returns logits"):
            attack()(bad, tiny_images(2), torch.tensor([0, 1]), keys=KEYS)


@pytest.mark.parametrize(("layer", "name"), [(OnceOnly(), "OnceOnly"), (Detached(), "Detached")])
def test_a_model_without_second_derivatives_is_named(layer: torch.nn.Module, name: str) -> None:
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(36, 8), torch.nn.ReLU(), layer, torch.nn.Linear(8, 3)
    ).double()
    x = tiny_images(2)
    with pytest.raises(hf.InputError, match=rf"3 \({name}\)"):
        attack()(net, x, net(x).argmax(1), keys=KEYS)


def test_training_attacks_check_labels_too() -> None:
    attack = hf.PGD(hf.losses.CrossEntropy(), ball=hf.Linf(0.1), steps=1, step_size=0.1, best_by=hf.LAST)
    with pytest.raises(hf.InputError, match="labels from 0 to 2"):
        attack(tiny_net(), tiny_images(2), torch.tensor([0, 5]), keys=KEYS)


def test_a_detaching_model_under_plain_pgd() -> None:
    net = torch.nn.Sequential(Detached(), torch.nn.Flatten(), torch.nn.Linear(36, 3)).double()
    x = tiny_images(2)
    with pytest.raises(hf.InputError, match="detaches its input"):
        hf.recipes.fgsm(eps=0.1)(net, x, net(x).argmax(1), keys=KEYS)


@pytest.mark.parametrize("eval_k", [0, 37])
def test_reported_k_must_fit_the_map(eval_k: int) -> None:
    net, x = tiny_net(), tiny_images(2)
    with pytest.raises(hf.InputError, match="eval_k"):
        attack(eval_k=eval_k)(net, x, net(x).argmax(1), keys=KEYS)


def test_manipulation_refuses_bad_input() -> None:
    net, x = tiny_net(), tiny_images(2)
    manipulate = hf.attacks.Manipulation(target=torch.ones(6, 6), steps=1)
    with pytest.raises(hf.InputError, match="labels from 0 to 2"):
        manipulate(net, x, torch.tensor([0, 9]))
    with pytest.raises(hf.InputError, match="returns logits"):
        manipulate(lambda v: (v,), x, torch.tensor([0, 1]))
    with pytest.raises(hf.InputError, match="some mass"):
        hf.attacks.Manipulation(target=torch.zeros(6, 6), steps=1)(net, x, torch.tensor([0, 1]))


def test_quantize_needs_grey_levels() -> None:
    net, x = tiny_net(), tiny_images(2)
    with pytest.raises(hf.InputError, match="whole multiples of 1/255"):
        attack(quantize=True)(net, x, net(x).argmax(1), keys=KEYS)


def test_empty_batch() -> None:
    result = attack().run(tiny_net(), tiny_images(2)[:0], KEYS[:0], keys=KEYS[:0])
    assert result.x_adv.shape == (0, 1, 6, 6)
    assert sum(result.counts.values()) == 0
