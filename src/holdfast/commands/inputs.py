"""Options that `holdfast audit` and `holdfast harden` share: how to build the network and how to prepare the images."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.experiment.audit_inputs import ImageOptions
    from holdfast.experiment.networks import ModelOptions


@dataclass(frozen=True, kw_only=True)
class NetworkFlags:
    """How the network is built and what it takes and returns."""

    model_args: tuple[str, ...] = ()
    """Arguments of the function that builds the network, as key=value."""
    weights_key: str | None = None
    """Which weights of a checkpoint to take if it has several, for example ema."""
    builder: str | None = None
    """package.module:function that builds the custom network of a run directory; it is never imported automatically."""
    output: str | None = None
    """Index or key of the logits, if the network returns a tuple or a dict."""
    mean: tuple[float, ...] | None = None
    """Mean to subtract from pixels in [0, 1] before the network: one number, or one per channel."""
    std: tuple[float, ...] | None = None
    """Standard deviation to divide by after the mean is subtracted: one number, or one per channel."""
    normalize: Literal["imagenet", "cifar10", "none"] | None = None
    """Mean and standard deviation by name, instead of --mean and --std."""

    def options(self, weights: Path | None) -> "ModelOptions":
        """The options as `open_model` takes them."""
        from holdfast.config import index_or_key, parse_arguments
        from holdfast.experiment.networks import ModelOptions

        return ModelOptions(
            weights=weights,
            weights_key=self.weights_key,
            arguments=parse_arguments(self.model_args),
            mean=self.mean,
            std=self.std,
            normalize=self.normalize,
            output=index_or_key(self.output),
            builder=self.builder,
        )


@dataclass(frozen=True, kw_only=True)
class ImageFlags:
    """How the images are prepared, and the order of their classes."""

    size: int | None = None
    """Resize the images to this height and width; with --crop, resize the shorter side and keep the proportions."""
    crop: int | None = None
    """Cut a square of this side out of the centre, after resizing."""
    channels: Literal["rgb", "grey"] | None = None
    """Convert the images to three channels, or to one."""
    classes: Path | None = None
    """Class names in the order of the network's outputs: a text file with one per line, or JSON. By default the order
    that the network's config records, or else the alphabetical order of the class folders."""
    layout: str | None = None
    """Order of the axes in an .npz file if its shape is ambiguous: NHWC, NCHW or NHW."""
    quantize: bool = False
    """Round float pixels of an .npz file to multiples of 1/255."""

    def options(self, **more: Any) -> "ImageOptions":
        """The options as `open_images` takes them, with the part of the images and their labels as `more`."""
        from holdfast.experiment.audit_inputs import ImageOptions

        return ImageOptions(
            size=self.size,
            crop=self.crop,
            channels=self.channels,
            classes=self.classes,
            layout=self.layout,
            quantize=self.quantize,
            **more,
        )
