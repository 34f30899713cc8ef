"""ResNet-20 for small colour images, with the layers of pytorchcv: the foreign network of results/harden.

    holdfast train gtsrb/natural:cpu --model examples.resnet20:build --out runs/resnet20

Needs pytorchcv: pip install --no-deps pytorchcv
"""

from pytorchcv.models.resnet_cifar import CIFARResNet
from torch import nn


def build(num_classes: int = 10) -> nn.Module:
    """He et al. 2016: three stages of three units with 16, 32 and 64 channels, batch norm after every convolution."""
    stages = [[channels] * 3 for channels in (16, 32, 64)]
    net: nn.Module = CIFARResNet(channels=stages, init_block_channels=16, bottleneck=False, num_classes=num_classes)
    return net
