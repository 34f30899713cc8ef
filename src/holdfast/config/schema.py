"""What a run is: data, network, method, training and evaluation, every key with its type. No PyTorch.

Types are strict and unknown keys are refused; a key without a default has to be given. A key that may be absent has
the default None, since TOML, in which a config is written, has no word for "nothing".
"""

import re
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.config.values import IndexOrKey, PerChannel, Radius, Real, Reals, Setting, Sides, Texts, Wholes, check_eps
from holdfast.errors import expected

Positive = Annotated[Real, Field(gt=0)]
NotNegative = Annotated[Real, Field(ge=0)]
Share = Annotated[Real, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A table of a config: strict types, no unknown keys, no changes after it is made."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def plain(self) -> dict[str, Any]:
        """Nested plain values as TOML can hold them: tuples as lists, absent keys left out."""
        values: dict[str, Any] = _plain(self.model_dump(exclude_none=True))
        return values


class Data(Section):
    """The images: a dataset's name, or the path of a folder or .npz file.

    `options` are those of the dataset, such as `train = 55000`. `train_transforms`, then `transforms`, are applied to
    the training images; only `transforms` to the test images. `limit` keeps a stratified part for training.
    """

    name: str
    root: str | None = None
    options: dict[str, Setting] = {}
    train_transforms: Texts = ()
    transforms: Texts = ()
    limit: Count | None = None


class Network(Section):
    """The network and the normalisation inside it.

    `name` is a registered name, `package.module:function` for an own network, `timm:NAME`, `torchvision:NAME` or
    `hf:FOLDER`. Classes, channels and size are those of the data unless given. `output` is the index or key of the
    logits if the network returns a tuple or a dict. With `softplus`, its ReLUs are
    softplus functions of that sharpness, in training and in evaluation.
    """

    name: str
    num_classes: Annotated[int, Field(ge=2)] | None = None
    in_channels: Count | None = None
    image_size: Sides | None = None
    options: dict[str, Setting] = {}
    mean: PerChannel | None = None
    std: PerChannel | None = None
    output: IndexOrKey | None = None
    softplus: Positive | None = None


class Method(Section):
    """The training method and its settings, which are the keyword arguments of its recipe."""

    name: str
    settings: dict[str, Setting] = {}

    @model_validator(mode="after")
    def _radius_of_pixels(self) -> "Method":
        eps = self.settings.get("eps")
        if isinstance(eps, int | float):
            check_eps(eps, "method.settings.eps")
        return self


_SCHEDULE_KEYS = {
    "constant": (),
    "piecewise": ("boundaries", "values"),
    "one-cycle": ("rise", "start_divisor", "end_divisor"),
    "cosine": ("floor",),
}


class Schedule(Section):
    """The learning rate over the steps; `train.lr` is its largest value, but `piecewise` has `values` of its own."""

    kind: Literal["constant", "piecewise", "one-cycle", "cosine"] = "constant"
    boundaries: Wholes | None = None
    values: Reals | None = None
    rise: Share | None = None
    start_divisor: Positive | None = None
    end_divisor: Positive | None = None
    floor: NotNegative | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The keys that were given for this kind."""
        return {key: value for key in _SCHEDULE_KEYS[self.kind] if (value := getattr(self, key)) is not None}

    @model_validator(mode="after")
    def _only_its_own_keys(self) -> "Schedule":
        own = _SCHEDULE_KEYS[self.kind]
        alien = sorted(key for key in self.model_fields_set - {"kind", *own} if getattr(self, key) is not None)
        if alien:
            raise expected(f"keys of a {self.kind} schedule ({', '.join(own) or 'it has none'})", got=", ".join(alien))
        if self.kind == "piecewise" and (self.boundaries is None or self.values is None):
            raise expected("boundaries and values of a piecewise schedule", got="only one or none of them")
        return self


class Train(Section):
    """How the weights are moved. `warm_up` is the share of the steps over which the attack budget grows from 0.

    `init` names weights to start from: a .safetensors file, the folder of a run, or a method whose run of the same
    seed lies beside this one. `keep_best_by` names a logged part whose largest value (with a minus before it,
    smallest) decides which weights are kept. `half_weights` writes them with 16 bits a number.

    With `batch_norm = "fixed"`, batch norm uses the statistics of the initial weights and does not update them.
    Otherwise the perturbed images and the path points of integrated gradients also change these statistics, although
    evaluation is on clean images.
    """

    optimizer: Literal["adam", "sgd"]
    lr: Positive | None = None
    momentum: Annotated[Real, Field(ge=0, lt=1)] | None = None
    nesterov: bool = False
    weight_decay: NotNegative = 0.0
    schedule: Schedule = Schedule()
    batch_size: Count
    steps: Count
    warm_up: Share = 0.0
    max_grad_norm: Positive | None = None
    explosion: Annotated[Real, Field(gt=1)] = 100.0
    amp: bool = False
    device: str = "auto"
    init: str | None = None
    keep_best_by: str | None = None
    log_every: Count = 50
    checkpoint_every: Count | None = None
    checkpoint_seconds: Positive = 600.0
    tensorboard: bool = False
    half_weights: bool = False
    batch_norm: Literal["update", "fixed"] = "update"

    @model_validator(mode="after")
    def _fits_together(self) -> "Train":
        if (self.lr is None) != (self.schedule.kind == "piecewise"):
            kind = self.schedule.kind
            fix = "give schedule.values" if kind == "piecewise" else "give lr"
            raise expected("lr, but not with a piecewise schedule", got=f"lr = {self.lr} with {kind}", fix=fix)
        if self.optimizer == "adam" and (self.momentum is not None or self.nesterov):
            raise expected("momentum and nesterov only with optimizer = 'sgd'", got="'adam'")
        return self


class PGDProtocol(Section):
    """Accuracy under PGD on the cross-entropy, random start; on `limit` test images, all of them without it."""

    eps: Radius
    steps: Count
    step_size: Positive
    restarts: Count = 1
    limit: Count | None = None


class APGDProtocol(Section):
    """Accuracy under Auto-PGD on the cross-entropy and then on the difference of logits ratio, on `limit` images."""

    eps: Radius
    steps: Count = 50
    restarts: Count = 1
    limit: Count | None = 500


class IFIAProtocol(Section):
    """The reference attack on the maps; `quantize` keeps its images at multiples of 1/255.

    `stuck` says what an image does where the attack has no gradient: step at random, or stay, as in RAR's code.
    `search_ig_steps` makes it the fast protocol: so many midpoints inside the search, `ig_steps` for the final maps.
    """

    eps: Radius
    step_size: Positive
    steps: Count
    k: Count
    eval_k: Count | None = None
    ig_steps: Count = 100
    search_ig_steps: Count | None = None
    quantize: bool = False
    stuck: Literal["random", "stay"] = "random"


class StrongestProtocol(Section):
    """The strongest attack, with `passes` example-passes per image; radius, k and quantisation are those of `ifia`.

    It takes `limit` of the images of the other attacks, by default all of them.
    """

    limit: Count | None = None
    passes: Count = 2000
    ig_steps: Count = 50
    judge_points: Count = 5


class EnsembleProtocol(Section):
    """The ensemble of attacks of version 0.1; radius, k and quantisation are those of `ifia`."""

    steps: Count = 50
    step_size: Positive | None = None
    ig_steps: Count = 100
    search_ig_steps: Count | None = None
    restarts: Count = 1
    kinds: Texts | None = None


class Evaluate(Section):
    """How the network is measured; the attacks on the maps take `limit` stratified test images.

    `map` names the explanation that is attacked, with its `map_options`. `maps` lists several, which are compared on
    the same images; the first of them replaces `map`, the others have no options. `attacks` names the attacks; without
    it the reference attack, the strongest attack on the maps of centred and true logit, and random noise on both.
    """

    limit: Count | None = None
    batch_size: Count = 50
    map: str = "ig"
    map_options: dict[str, Setting] = {}
    maps: Texts | None = None
    attacks: Texts | None = None
    pgd: PGDProtocol | None = None
    apgd: APGDProtocol | None = None
    ifia: IFIAProtocol | None = None
    strongest: StrongestProtocol = StrongestProtocol()
    ensemble: EnsembleProtocol | None = None


class RunConfig(Section):
    """A whole run. `preset` names where it started from, `seed` is the only source of randomness."""

    preset: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    data: Data
    model: Network
    method: Method
    train: Train
    evaluate: Evaluate = Evaluate()

    @property
    def dataset(self) -> str:
        """The dataset's name for tables; of a path, its last part without the suffix."""
        return PurePath(self.data.name).stem

    @property
    def label(self) -> str:
        """The method's name for tables: that of the preset while it is one of this method, as `erar-cacr-only`.

        The version of a method, as in `erar_plus_v1`, does not count.
        """
        named = self.preset.partition("/")[2].partition(":")[0]
        method = re.sub(r"_v\d+$", "", self.method.name)
        return named if f"{named}-".startswith(f"{method}-") else self.method.name


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
