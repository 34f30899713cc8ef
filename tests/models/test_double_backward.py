"""The audit names the layer that stops a second derivative, and nothing else."""

import torch
from tests.nets import AttentionNet, AwkwardReLUs, BatchNormNet, Detached, OnceOnly
from torch import nn

from holdfast.models import build, double_backward_audit

X = torch.rand(2, 1, 4, 4)


def test_ordinary_networks_pass() -> None:
    for model in (AwkwardReLUs(), BatchNormNet(), AttentionNet(), nn.Sequential(nn.Flatten(), nn.Linear(16, 2))):
        assert double_backward_audit(model, X) == []
    assert double_backward_audit(build("digits-cnn", num_classes=10), torch.rand(2, 1, 8, 8)) == []


def test_names_the_innermost_layer() -> None:
    block = nn.Sequential(nn.Linear(16, 8), nn.Sequential(nn.ReLU(), OnceOnly()), nn.Linear(8, 3))
    obstacles = double_backward_audit(nn.Sequential(nn.Flatten(), block), X)
    assert [(o.name, o.kind) for o in obstacles] == [("1.1.1", "OnceOnly")]
    assert "once_differentiable" in obstacles[0].reason


def test_names_every_obstacle() -> None:
    # each layer is asked alone, so an earlier obstacle does not hide a later one
    model = nn.Sequential(nn.Flatten(), OnceOnly(), nn.Linear(16, 4), Detached(), nn.Linear(4, 3))
    assert [o.name for o in double_backward_audit(model, X)] == ["1", "3"]
    assert "detached" in str(double_backward_audit(model, X)[1])


def test_names_the_module_whose_forward_is_to_blame() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.inner(OnceOnly()(torch.relu(x.flatten(1)))))

    assert [o.name for o in double_backward_audit(nn.Sequential(Functional()), X)] == ["0"]
    assert [o.name for o in double_backward_audit(Functional(), X)] == ["(the network)"]


def test_a_part_that_ignores_its_input_is_no_obstacle() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.table[:, : x.shape[1]]

    class WithPositions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions, self.inner = Positions(), nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            flat = x.flatten(1)
            return self.inner(torch.relu(flat + self.positions(flat)))

    assert double_backward_audit(WithPositions(), X) == []


def test_leaves_the_network_as_found() -> None:
    model = BatchNormNet().train()
    model.head.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    double_backward_audit(model, X)
    assert model.training
    assert model.stem[1].training
    assert not model.head.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
