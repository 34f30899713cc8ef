"""What an evaluation measures, and what it returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.attacks.base import ExplanationAttack
from holdfast.attacks.pgd import PGD
from holdfast.runs.panels import Panels
from holdfast.runs.rows import ExampleRow

OnProgress = Callable[[str, int, int], None]
"""Called after every batch with (what is being done, examples done, examples in all)."""


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """What to measure: the attacks by name, PGD on the prediction, and on how many images each.

    >>> from holdfast.recipes import AttackSettings, make_attacks, pgd
    >>> attacks = make_attacks(AttackSettings(eps=0.1, steps=10, k=12, ig_steps=10), ["ifia-topk", "random"])
    >>> protocol = EvaluationProtocol(attacks=attacks, pgd=pgd(eps=0.1), limit=100)
    """

    attacks: Mapping[str, ExplanationAttack]
    pgd: PGD | None = None
    limit: int | None = None
    """Images for the attacks on explanations, a stratified subset drawn from the seed; None is all."""
    pgd_limit: int | None = None
    panels: int = 6
    """Examples kept as pictures, besides the three worst."""
    diagnose: int = 0
    """Images on which the attacks themselves are checked for gradient masking; 0 leaves that out."""
    batch_size: int = 64
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One row for each attack and example, the summary of them, and pictures of a few."""

    rows: tuple[ExampleRow, ...]
    summary: dict[str, Any]
    panels: Panels | None = None
