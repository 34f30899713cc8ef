"""Protocol of an evaluation (what to measure) and its result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from holdfast.attacks.apgd import APGD
from holdfast.attacks.base import ExplanationAttack, check_eval_k
from holdfast.attacks.pgd import PGD
from holdfast.data.dataset import Dataset, to_float
from holdfast.errors import expected
from holdfast.rng import make_keys
from holdfast.runs.dataframe import rows_to_dataframe
from holdfast.runs.panels import Panels
from holdfast.runs.rows import ExampleRow

if TYPE_CHECKING:
    from pandas import DataFrame

OnProgress = Callable[[str, int, int], None]
"""Called after every batch with (name of the measurement, examples done, examples in total)."""


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """What to measure: attacks on the maps by name, PGD and APGD on the prediction, and the number of images for each.

    >>> from holdfast.recipes import AttackSettings, make_attacks, pgd
    >>> attacks = make_attacks(AttackSettings(eps=0.1, steps=10, k=12, ig_steps=10), ["ifia-topk", "random"])
    >>> protocol = EvaluationProtocol(attacks=attacks, pgd=pgd(eps=0.1), limit=100)
    """

    attacks: Mapping[str, ExplanationAttack]
    pgd: PGD | None = None
    limit: int | None = None
    """Images for the attacks on explanations, a stratified subset drawn with the seed; None means all."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Attack -> smaller number of images for this attack, a stratified part of that subset."""
    pgd_limit: int | None = None
    """Images for PGD, drawn in the same way."""
    apgd: tuple[APGD, ...] = ()
    """Auto-PGD attacks; each runs on the images that the ones before have not fooled."""
    apgd_limit: int | None = None
    """Images for APGD, drawn in the same way."""
    accuracy_limit: int | None = None
    """Images for the natural accuracy, a stratified sample that includes all attacked images; None means all."""
    panels: int = 6
    """Examples kept as pictures, in addition to the three worst."""
    pictured: str = ""
    """Name of the attack that the pictures show; by default the first."""
    keep_images_of: str = ""
    """Name of an attack all of whose perturbed images are returned in `Evaluation.perturbed`."""
    diagnose: int = 0
    """Images on which the attacks are checked for gradient masking; 0 skips the check."""
    batch_size: int = 64
    first_batch: int | None = None
    """Images of the first batch under the attacks on explanations, if fewer, so that the first rows come early."""
    seed: int = 0


def check_protocol(protocol: EvaluationProtocol, data: Dataset) -> None:
    """Raise if `data` cannot be measured with these settings, before anything is measured or written.

    >>> import holdfast as hf
    >>> settings = hf.recipes.AttackSettings(eps=0.1, steps=2, k=65)
    >>> protocol = EvaluationProtocol(attacks=hf.recipes.make_attacks(settings, ["random"]))
    >>> check_protocol(protocol, hf.data.load("digits", split="test"))
    Traceback (most recent call last):
    holdfast.errors.InputError: expected 1 <= k <= 64, the number of entries of a map, got eval_k = 65.
    """
    for attack in protocol.attacks.values():
        if attack.eval_k != int(attack.eval_k):
            raise expected("a whole number of top pixels", got=f"eval_k = {attack.eval_k!r}")
        check_eval_k(attack.eval_k, data.x)
    if protocol.keep_images_of and protocol.keep_images_of not in protocol.attacks:
        known = ", ".join(protocol.attacks) or "no attack"
        raise expected(f"keep_images_of from the attacks of the protocol ({known})", got=protocol.keep_images_of)
    if protocol.batch_size < 1:
        raise expected("batch_size >= 1", got=protocol.batch_size)
    limits = {name: getattr(protocol, name) for name in ("limit", "pgd_limit", "apgd_limit", "accuracy_limit")}
    for name, limit in (limits | {f"limits of {name}": limit for name, limit in protocol.limits.items()}).items():
        if limit is not None and limit < 1:
            raise expected(f"{name} >= 1", got=limit, fix="None means all images")


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """One row per attack and example, their summary, and pictures of a few examples.

    `perturbed` holds the images of the attack `EvaluationProtocol.keep_images_of` by example id, as far as this call
    found them; of several processes only the first has them.
    """

    rows: tuple[ExampleRow, ...]
    summary: dict[str, Any]
    panels: Panels | None = None
    perturbed: Mapping[int, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        attacks = ", ".join(self.summary["attacks"]) or "no attack"
        return f"Evaluation({self.summary['dataset']}: {self.summary['n']} examples under {attacks})"

    def to_dataframe(self) -> "DataFrame":
        """The rows as a pandas data frame, with one column per metric."""
        return rows_to_dataframe(self.rows)


def tensors(part: Dataset, seed: int, device: torch.device | str | None) -> tuple[Tensor, Tensor, Tensor]:
    """Images, labels and random keys of a subset, on the device."""
    return to_float(part.x, device), part.y.to(device), make_keys(seed, part.ids.to(device))
