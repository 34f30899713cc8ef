"""The protocol of an evaluation that names none."""

from holdfast.data.dataset import Dataset
from holdfast.evaluation.protocol import EvaluationProtocol
from holdfast.recipes import AttackSettings, make_attacks, pgd
from holdfast.runs.names import CENTRED_CONTROL, CONTROL, STRONGEST, TRUE_LOGIT

EPS, LIMIT = 8 / 255, 64
"""Radius of the perturbations and number of attacked images, those of an audit."""


def default_protocol(data: Dataset) -> EvaluationProtocol:
    """The attacks of an audit and noise on both maps, within 8/255 on 64 images, a tenth of the pixels as top, PGD."""
    _, height, width = data.image_shape
    settings = AttackSettings(
        eps=EPS,
        steps=50,
        k=max(1, height * width // 10),
        ig_steps=30,
        search_ig_steps=5,
        strongest={"ig_steps": 30, "judge_points": 5},
    )
    return EvaluationProtocol(
        attacks=make_attacks(settings, (STRONGEST, TRUE_LOGIT, CONTROL, CENTRED_CONTROL)),
        pgd=pgd(eps=EPS, steps=20),
        limit=LIMIT,
        pgd_limit=LIMIT,
        batch_size=16,
    )
