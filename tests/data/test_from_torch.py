"""Tensors and ordinary DataLoaders where a user has no holdfast dataset."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import holdfast as hf
from holdfast.recipes import AttackSettings, make_attacks


def images(count: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    data = hf.data.load("digits", split="test").subset(range(count))
    return hf.data.to_float(data.x), data.y


def protocol() -> hf.EvaluationProtocol:
    attacks = make_attacks(AttackSettings(eps=0.1, steps=2, k=12, ig_steps=3), ["ifia-topk"])
    return hf.EvaluationProtocol(attacks=attacks, pgd=hf.recipes.pgd(eps=0.1, steps=2), panels=2)


def model() -> hf.Classifier:
    return hf.Classifier(hf.models.build("digits-cnn", num_classes=10, seed=0))


@pytest.mark.parametrize("with_ids", [False, True])
def test_evaluate_takes_a_data_loader(with_ids: bool) -> None:
    x, y = images()
    columns = (x, y, torch.arange(24) + 100) if with_ids else (x, y)
    found = hf.evaluate(model(), DataLoader(TensorDataset(*columns), batch_size=5), protocol())
    assert [row.id for row in found.rows] == [i + 100 * with_ids for i in range(24)]
    same = hf.evaluate(model(), hf.data.from_tensors(x, y), protocol())
    assert same.summary["natural_accuracy"] == found.summary["natural_accuracy"]


def test_audit_takes_a_data_loader() -> None:
    loader = DataLoader(TensorDataset(*images()), batch_size=7)
    settings = hf.AuditSettings(eps=0.1, steps=2, ig_steps=3, limit=6, strong=False)
    assert hf.audit(model(), loader, settings, labels="predicted").summary["n"] == 6


@pytest.mark.parametrize("with_ids", [False, True])
def test_fit_takes_a_data_loader_epoch_after_epoch(with_ids: bool) -> None:
    x, y = images()
    columns = (x, y, torch.arange(24)) if with_ids else (x, y)
    loader = DataLoader(TensorDataset(*columns), batch_size=10)  # three batches, the last of four
    weights = []
    for source in (loader, hf.data.Loader(hf.data.from_tensors(x, y), 10, shuffle=False)):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        objective = hf.recipes.madry(net, eps=0.1, attack_steps=1, step_size=0.1)
        assert hf.fit(objective, source, optimizer, steps=7, progress=False).step == 7
        weights.append(nn.utils.parameters_to_vector(net.parameters()).detach())
    assert torch.equal(*weights)


def test_a_resumed_run_skips_the_batches_that_are_done(tmp_path) -> None:
    x, y = images()
    results = []
    for name, sittings in (("once", (7,)), ("twice", (4, 7))):
        net = model()
        for steps in sittings:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            loader = DataLoader(TensorDataset(x, y), batch_size=10)
            settings = hf.FitSettings(steps=steps, run_dir=tmp_path / name, resume=steps != sittings[0], progress=False)
            hf.fit(hf.recipes.natural(net), loader, optimizer, settings)
        results.append(nn.utils.parameters_to_vector(net.parameters()).detach())
    assert torch.equal(*results)


def test_what_cannot_be_used_is_said() -> None:
    x, y = images(4)
    with pytest.raises(hf.InputError, match=r"batches \(x, y\) or \(x, y, id\), got Tensor"):
        hf.data.from_loader([x])
    with pytest.raises(hf.InputError, match=r"pixels in \[0, 1\], got \[0, 255\]"):
        hf.data.from_tensors(x * 255, y)
    with pytest.raises(hf.InputError, match="at least one batch"):
        hf.data.from_loader([])
    with pytest.raises(hf.InputError, match="a DataLoader"):
        hf.evaluate(model(), 3, protocol())
    with pytest.raises(hf.InputError, match="settings or options"):
        hf.fit(hf.recipes.natural(model()), [(x, y)], None, hf.FitSettings(steps=1), steps=2)
    assert hf.data.from_tensors(x, y).checksum != hf.data.from_tensors(1 - x, y).checksum
