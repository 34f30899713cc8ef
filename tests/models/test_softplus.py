"""A network with softplus activations: its values, its weights, and that attacks and runs see the same network."""

from pathlib import Path

import pytest
import torch
from tests.nets import AwkwardReLUs
from tests.oracles import tiny_images, tiny_net
from torch.nn import functional as F

import holdfast as hf
from holdfast.config import make_config
from holdfast.experiment.networks import build_model, put_weights
from holdfast.experiment.run import prepare, run_training
from holdfast.models import SoftplusNetwork
from holdfast.models.checksum import network_checksum


def test_values_by_hand() -> None:
    net, x = tiny_net(), tiny_images(3)
    by_hand = net.through(x, lambda z: F.softplus(z, beta=3.0))
    torch.testing.assert_close(SoftplusNetwork(net, 3.0)(x), by_hand)
    assert (SoftplusNetwork(net, 1e4)(x) - net(x)).abs().max() < 1e-2  # sharper is closer to the ReLU


def test_modules_functions_and_in_place_calls() -> None:
    net, x = AwkwardReLUs().double(), torch.rand(2, 1, 4, 4).double()
    with hf.softplus_surrogate(beta=2.0):
        expected = net(x)
    torch.testing.assert_close(SoftplusNetwork(net, 2.0)(x), expected)
    assert hf.double_backward_audit(SoftplusNetwork(net, 2.0), x[:1]) == []


def test_the_surrogate_of_an_attack_leaves_it_as_it_is() -> None:
    smooth, x = SoftplusNetwork(tiny_net(), 3.0), tiny_images(2)
    before = smooth(x)
    with hf.softplus_surrogate(beta=1.0):
        assert torch.equal(smooth(x), before)
    y, keys = before.argmax(1), torch.arange(2)
    settings = {"eps": 0.1, "step_size": 0.05, "steps": 3, "k": 5, "ig_steps": 3}
    with_surrogate, without = (hf.recipes.ifia(beta=beta, **settings) for beta in (1.0, None))
    torch.testing.assert_close(with_surrogate(smooth, x, y, keys=keys), without(smooth, x, y, keys=keys))


def test_the_sharpness_is_part_of_the_network() -> None:
    net = tiny_net()
    assert network_checksum(SoftplusNetwork(net, 3.0)) != network_checksum(SoftplusNetwork(net, 2.0))
    assert float(SoftplusNetwork(net, 3.0).state_dict()["beta"]) == 3.0
    for bad in (0.0, -1.0, float("inf")):
        with pytest.raises(hf.InputError, match="sharpness beta > 0"):
            SoftplusNetwork(net, bad)


def test_scale_invariance_is_passed_on() -> None:
    resnet = hf.models.build("paper-resnet", units_per_stage=1, seed=0)
    wrapped = hf.Classifier(SoftplusNetwork(resnet, 3.0))
    assert wrapped.scale_invariant is True
    assert hf.is_scale_invariant(wrapped, torch.rand(2, 3, 32, 32))
    assert SoftplusNetwork(tiny_net(), 3.0).scale_invariant is None


def test_run_and_load(tmp_path: Path) -> None:
    config = make_config("digits/natural-softplus", overrides=[("train.steps", "3")])
    assert config.model.softplus == 3.0
    trained = run_training(config, tmp_path / "run", progress=False).model
    loaded = hf.load(tmp_path / "run")
    assert isinstance(loaded.net, SoftplusNetwork)
    x = hf.data.to_float(hf.data.load("digits", split="test").x[:4])
    torch.testing.assert_close(loaded(x), trained.eval()(x))
    plain = make_config("digits/natural").model.model_copy(update={"num_classes": 10})
    with pytest.raises(hf.DataError, match="expected the tensors of this network"):
        put_weights(build_model(plain, seed=0), tmp_path / "run")


@pytest.mark.parametrize("normalised", [[], [("model.mean", "0.5"), ("model.std", "0.25")]])
def test_training_goes_on_from_a_relu_network(tmp_path: Path, normalised: list[tuple[str, str]]) -> None:
    """The softplus rows of the tables start from the Madry network of the table, which has ReLUs."""
    fields = [(name, "0.3" if name == "model.mean" else value) for name, value in normalised]
    natural = make_config("digits/natural", overrides=[("train.steps", "2"), *fields])
    run_training(natural, tmp_path / "relu", progress=False)
    start = prepare(make_config("digits/lga", overrides=normalised), start=tmp_path / "relu").model
    assert isinstance(start.net, SoftplusNetwork)
    assert float(start.net.beta) == 3.0
    trained = hf.load(tmp_path / "relu")
    torch.testing.assert_close(dict(start.net.net.state_dict()), dict(trained.net.state_dict()))
    assert start.mean is None or torch.equal(start.mean, trained.mean)
