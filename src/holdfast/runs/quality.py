"""The quality measures in `summary.json`: title, range and direction of each, for tables and reports (no PyTorch)."""

import math
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, kw_only=True)
class QualityMeasure:
    """A measure of the maps of one network: its key in `summary.json`, and how to read it."""

    name: str
    title: str
    better: Better
    range: tuple[float, float]
    meaning: str

    @property
    def range_text(self) -> str:
        """The range as an interval.

        >>> QUALITY["insertion"].range_text, QUALITY["max_sensitivity"].range_text
        ('[0, 1]', '[0, inf)')
        """
        low, high = self.range
        left = f"[{low:g}" if math.isfinite(low) else "(-inf"
        return f"{left}, {high:g}]" if math.isfinite(high) else f"{left}, inf)"


_SHARE, _SIGNED, _SIZE, _ANY = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf), (-math.inf, math.inf)

QUALITY: dict[str, QualityMeasure] = {
    measure.name: measure
    for measure in (
        QualityMeasure(
            name="natural_spearman",
            title="Spearman with maps of the natural network",
            better="higher",
            range=_SIGNED,
            meaning="Spearman's rho with the maps of a naturally trained network, both of the true logit",
        ),
        QualityMeasure(
            name="insertion",
            title="Insertion",
            better="higher",
            range=_SHARE,
            meaning="mean probability of the class while the top pixels are inserted into a black image",
        ),
        QualityMeasure(
            name="adv_insertion",
            title="Adv-insertion",
            better="higher",
            range=_SHARE,
            meaning="insertion in the order of the attacked map, of the clean image; without misclassified images",
        ),
        QualityMeasure(
            name="insertion_change",
            title="Insertion, change under attack",
            better="higher",
            range=_SIGNED,
            meaning="adv-insertion minus insertion of the same image; only this compares the two maps, since insertion "
            "itself is over all images, also those that were not attacked",
        ),
        QualityMeasure(
            name="deletion",
            title="Deletion",
            better="lower",
            range=_SHARE,
            meaning="mean probability of the class while the top pixels are deleted",
        ),
        QualityMeasure(
            name="adv_deletion",
            title="Adv-deletion",
            better="lower",
            range=_SHARE,
            meaning="deletion in the order of the attacked map, of the clean image; without misclassified images",
        ),
        QualityMeasure(
            name="deletion_change",
            title="Deletion, change under attack",
            better="lower",
            range=_SIGNED,
            meaning="adv-deletion minus deletion of the same image",
        ),
        QualityMeasure(
            name="road_morf",
            title="ROAD, most relevant first",
            better="lower",
            range=_SHARE,
            meaning="mean probability of the class while the top 10 to 90 % of the pixels are imputed",
        ),
        QualityMeasure(
            name="road_lerf",
            title="ROAD, least relevant first",
            better="higher",
            range=_SHARE,
            meaning="mean probability of the class while the bottom 10 to 90 % of the pixels are imputed",
        ),
        QualityMeasure(
            name="max_sensitivity",
            title="Max-sensitivity, random",
            better="lower",
            range=_SIZE,
            meaning="largest relative change of the attribution over random samples in the ball of the attack: a lower "
            "bound of the true maximum",
        ),
        QualityMeasure(
            name="attacked_sensitivity",
            title="Sensitivity, attacked",
            better="lower",
            range=_SIZE,
            meaning="relative change of the attribution at the attacked image; without misclassified images",
        ),
        QualityMeasure(
            name="ris",
            title="RIS (log10)",
            better="lower",
            range=_ANY,
            meaning="relative input stability over the same random samples, logarithm to base 10",
        ),
        QualityMeasure(
            name="ros",
            title="ROS (log10)",
            better="lower",
            range=_ANY,
            meaning="relative output stability over the same random samples, logarithm to base 10",
        ),
        QualityMeasure(
            name="completeness",
            title="Completeness",
            better="lower",
            range=_SIZE,
            meaning="|sum of the map - change of the score| / |change of the score|",
        ),
        QualityMeasure(
            name="randomised",
            title="Randomised",
            better="lower",
            range=_SIGNED,
            meaning="Spearman's rho with the map of the same network with shuffled weights",
        ),
        QualityMeasure(
            name="image_spearman",
            title="Spearman with the image",
            better="neither",
            range=_SIGNED,
            meaning="Spearman's rho of the map with |x|; a map near 1 shows the image and little of the network",
        ),
    )
}
"""All quality measures by name, in the order of the table."""
