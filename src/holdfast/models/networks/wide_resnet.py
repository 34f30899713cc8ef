"""'wrn-<depth>-<width>': wide residual networks, the CIFAR networks of ART."""

from torch import Tensor, nn

from holdfast.errors import expected
from holdfast.models.networks.initialize import he_normal_


class WideResNet(nn.Module):
    """conv 3x3x16, three groups of (depth - 4) / 6 blocks with 16/32/64 x width channels, BN, ReLU, pool, fc K.

    Groups two and three halve the resolution; global average pooling accepts images of any size. `dropout` is applied
    between the two convolutions of a block; 0.1 is ART's value. A k x k convolution is initialised from
    N(0, 2 / (k^2 out)), the last bias with 0.

    Reference: Zagoruyko and Komodakis 2016 (arXiv:1605.07146); in ART: Singh et al. 2020 (arXiv:1911.13073).
    """

    scale_invariant = False

    def __init__(self, *, num_classes: int, in_channels: int, depth: int, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        _check(depth, width, dropout)
        self.stem = _conv3x3(in_channels, 16)
        self.blocks = nn.Sequential(*_blocks((depth - 4) // 6, width, dropout))
        self.norm = nn.BatchNorm2d(64 * width)
        self.activation = nn.ReLU()
        self.head = nn.Linear(64 * width, num_classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        features = self.activation(self.norm(self.blocks(self.stem(x))))
        logits: Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


class WideBlock(nn.Module):
    """x -> skip + conv(drop(ReLU(BN(conv(ReLU(BN(x))))))).

    The skip is x itself or, if the number of channels changes, a 1 x 1 convolution of ReLU(BN(x)).
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.activation1 = nn.ReLU()
        self.conv1 = _conv3x3(channels_in, channels_out, stride)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.activation2 = nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.conv2 = _conv3x3(channels_out, channels_out)
        changes = channels_in != channels_out
        self.projection = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = self.activation1(self.norm1(x))
        inner = self.activation2(self.norm2(self.conv1(active)))
        residual: Tensor = self.conv2(self.dropout(inner))
        return residual + (x if self.projection is None else self.projection(active))


def _check(depth: int, width: int, dropout: float) -> None:
    if depth < 10 or depth % 6 != 4:
        raise expected("a depth of 6n + 4 with n >= 1", got=depth, fix="use 10, 16, 22, 28, 34, 40, ...")
    if width < 1:
        raise expected("width >= 1", got=width)
    if not 0 <= dropout < 1:
        raise expected("dropout in [0, 1)", got=dropout)


def _conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)


def _blocks(per_group: int, width: int, dropout: float) -> list[WideBlock]:
    """The blocks of all three groups in order; the first of a group changes channels and resolution."""
    blocks, channels_in = [], 16
    for channels_out, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
        blocks.append(WideBlock(channels_in, channels_out, stride, dropout))
        blocks.extend(WideBlock(channels_out, channels_out, 1, dropout) for _ in range(per_group - 1))
        channels_in = channels_out
    return blocks


def _initialise(net: WideResNet) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            he_normal_(module.weight)
    nn.init.zeros_(net.head.bias)
