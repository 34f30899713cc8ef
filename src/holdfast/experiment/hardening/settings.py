"""What the caller of `harden` chooses; everything else follows from it and from the data (`plan.py`)."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.attribution import MAPS
from holdfast.attribution.registry import check_layer
from holdfast.config import check_eps
from holdfast.errors import expected
from holdfast.recipes import METHODS

DEFAULT_METHOD, DEFAULT_MAP = "erar_plus", "ig"


@dataclass(frozen=True, kw_only=True)
class HardenSettings:
    """Settings of `harden`.

    `eps` is the largest change per pixel (pixels are in [0, 1]); `map` names the explanation
    (`holdfast.attribution.MAPS`), `layer` the layer of Grad-CAM, which it chooses by default, and `method` the training
    method (`holdfast.recipes.METHODS`), whose settings `method_settings` changes. Only a method with a setting `map`,
    such as the default one, takes another map than integrated gradients. `minutes` is the time for everything;
    it decides on the number of training steps and of audited images. `steps`, `limit` (images of the audits) and
    `passes` set them directly; `passes` is the budget of the audits' attacks per image: passes of the strongest attack
    or, if `strong` is false, steps of the top-k attack.
    `lr` is the largest learning rate; by default it depends on the layers of the network (`plan.learning_rate`).

    Training goes on with weaker robustness terms whenever the accuracy on held-out images is more than
    `max_accuracy_drop` (a share, 0.02 is two points) below that of the original network. `holdout` is the share (or
    number) of the images that is held out if the data has no test part.

    With `batch_norm="fixed"` the statistics of batch norm stay as they are, since the images of the attacks and the
    points of integrated gradients would distort them; its scale and shift are trained. With "update" they are updated
    as in ordinary training. Layers that are in evaluation mode in a network that is otherwise in training mode stay so.

    >>> HardenSettings(minutes=10).method
    'erar_plus'
    """

    eps: float = 8 / 255
    minutes: float = 60.0
    method: str = DEFAULT_METHOD
    map: str = DEFAULT_MAP
    method_settings: Mapping[str, Any] = field(default_factory=dict)
    max_accuracy_drop: float = 0.02
    holdout: int | float = 0.2
    steps: int | None = None
    lr: float | None = None
    batch_size: int = 50
    limit: int = 200
    passes: int | None = None
    batch_norm: str = "fixed"
    strong: bool = True
    seed: int = 0
    layer: str | None = None

    def __post_init__(self) -> None:
        check_eps(self.eps)
        for name in ("eps", "minutes", "lr", "batch_size", "limit", "steps", "passes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise expected(f"{name} > 0", got=value)
        choices: dict[str, Collection[str]] = {"method": METHODS, "map": MAPS, "batch_norm": ("fixed", "update")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise expected(f"{name} to be one of {', '.join(known)}", got=repr(getattr(self, name)))
        check_layer(self.layer, [self.map])
        self._check_method_takes_map()
        if not 0 <= self.max_accuracy_drop <= 1:
            got, fix = self.max_accuracy_drop, "0.02 means two points"
            raise expected("max_accuracy_drop from 0 to 1, a share of the images", got=got, fix=fix)
        if not (0 < self.holdout < 1 or (isinstance(self.holdout, int) and self.holdout > 1)):
            raise expected("holdout as a share between 0 and 1, or a number of images", got=self.holdout)

    def _check_method_takes_map(self) -> None:
        """Refuse a map that the method would not see: only the audits would use it."""
        if self.map == DEFAULT_MAP or "map" in inspect.signature(METHODS[self.method]).parameters:
            return
        asked = f"map={self.map!r}" + ("" if self.layer is None else f" and layer={self.layer!r}")
        fix = f"pass method={DEFAULT_METHOD!r} or leave out {asked}"
        raise expected(f"a method that takes {asked}", got=f"method={self.method!r}", fix=fix)
