"""'paper-resnet': the Flower and GTSRB network of RAR and ERAR."""

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import expected
from holdfast.models.networks.initialize import he_normal_, uniform_unit_scaling_
from holdfast.models.networks.standardize import standardize

LEAK = 0.1
STAGES = ((16, 16, 1), (16, 32, 2), (32, 64, 2))  # channels in, channels out, stride of the first unit


class PaperResNet(nn.Module):
    """Pre-activation residual network without batch norm: standardise, conv 3x3x16, stages 16/32/64, pool, fc K.

    The ERAR paper says "5 residual units with (16, 16, 32, 64) filters each", interpreted here as 5 units in each of
    the three stages, the default of `units_per_stage` (32 layers with weights). The released code has fewer: 1 per
    stage for Flower (17 classes) and 2 for GTSRB (43 classes).

    Each image is standardised inside the network, hence f(a x) = f(x) for every a > 0. Image sides must be divisible
    by 4.

    Convolutions have no bias and are initialised from N(0, 2 / (9 out)); the last layer uses uniform unit scaling and
    bias 0.

    Reference: Chen et al. 2019, Robust Attribution Regularization (arXiv:1905.09957), released code.
    """

    scale_invariant = True

    def __init__(self, *, num_classes: int, in_channels: int, units_per_stage: int = 5) -> None:
        super().__init__()
        if not isinstance(units_per_stage, int) or units_per_stage < 1:
            raise expected("a whole number units_per_stage >= 1", got=repr(units_per_stage))
        self.stem = same_conv3x3(in_channels, 16)
        self.units = nn.Sequential(*_units(units_per_stage))
        self.activation = nn.LeakyReLU(LEAK)
        self.head = nn.Linear(64, num_classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2] % 4 or x.shape[-1] % 4:
            raise expected("images with sides divisible by 4", got=list(x.shape))
        features = self.activation(self.units(self.stem(standardize(x))))
        logits: Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


class ResidualUnit(nn.Module):
    """x -> shortcut(x) + conv(act(conv(act(x)))), act a leaky ReLU of slope 0.1.

    With `shared` the first activation comes before the split, so that the shortcut receives act(x). The first unit of
    the network is of this kind.
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int = 1, *, shared: bool = False) -> None:
        super().__init__()
        self.channels, self.stride, self.shared = channels_out, stride, shared
        self.activation1 = nn.LeakyReLU(LEAK)
        self.conv1 = same_conv3x3(channels_in, channels_out, stride)
        self.activation2 = nn.LeakyReLU(LEAK)
        self.conv2 = same_conv3x3(channels_out, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        active = self.activation1(x)
        residual: Tensor = self.conv2(self.activation2(self.conv1(active)))
        return shortcut(active if self.shared else x, self.channels, self.stride) + residual


def same_conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Module:
    """A 3 x 3 convolution without bias and with TensorFlow's SAME padding, for stride 1, or stride 2 on even sides.

    SAME pads max((ceil(n / s) - 1) s + 3 - n, 0) in total, the smaller half first: 1 + 1 at stride 1, but 0 before and
    1 after at stride 2 on even n. PyTorch's padding=1 would shift the windows by one pixel there.
    """
    if stride == 1:
        return nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
    return nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(channels_in, channels_out, 3, stride=stride, bias=False))


def shortcut(x: Tensor, channels: int, stride: int) -> Tensor:
    """Average-pool stride x stride windows, then pad with zero channels on both sides up to `channels`."""
    pooled = F.avg_pool2d(x, stride) if stride > 1 else x
    missing = channels - x.shape[1]
    return F.pad(pooled, (0, 0, 0, 0, missing // 2, missing - missing // 2)) if missing else pooled


def _units(per_stage: int) -> list[ResidualUnit]:
    """The residual units of all stages in order; the first of a stage changes channels and resolution."""
    units: list[ResidualUnit] = []
    for channels_in, channels_out, stride in STAGES:
        units.append(ResidualUnit(channels_in, channels_out, stride, shared=not units))
        units.extend(ResidualUnit(channels_out, channels_out) for _ in range(per_stage - 1))
    return units


def _initialise(net: PaperResNet) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            he_normal_(module.weight)
    uniform_unit_scaling_(net.head.weight)
    nn.init.zeros_(net.head.bias)
