"""Every table and figure of the paper, and the runs needed to reproduce it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.config import preset_names
from holdfast.errors import InputError, expected
from holdfast.experiment.jobs import Job
from holdfast.experiment.layout import dataset_folder, run_folder

MAIN = ("natural", "madry", "ig_norm", "ig_sum_norm", "erar", "erar_plus")
OURS = ("igr",)  # not in the paper; related to its regularizers
CONTROLS = ("madry-continued", "trades")  # what more training brings without a regularizer of maps
FAIR = (*MAIN[:2], *CONTROLS, *MAIN[2:], *OURS)  # all after Madry go on from it, with the same number of passes
FIRST_LAYER = ("madry-first-layer", "erar_plus-first-layer")  # what penalties on the first layer alone bring
RIVALS = ("lga", "r2et", "adv_aat", "curvature")  # published since the paper
BEST_RIVALS = ("adv_aat", "lga")  # under the strongest attack on Fashion-MNIST
NULL = ("natural-softplus", "natural-weight-decay", "natural-small-batches")  # what training without an attack reaches
WIDE = ("natural", "madry", "madry-continued", "art", "erar", "erar_plus")
OUR_TIER = "cpu"
GREY_AND_FLOWER = ("mnist", "fashion-mnist", "flower17")


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table: its datasets, its methods, whether it needs the quality measures, and whether the paper has it."""

    name: str
    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    quality: bool = False
    in_paper: bool = True

    def jobs(
        self,
        out: Path,
        *,
        tier: str,
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (0,),
        options: Mapping[str, Any] | None = None,
    ) -> list[Job]:
        """The jobs of this table: one per dataset, method and seed, each in its own folder under `out`."""
        if not self.in_paper and tier != OUR_TIER:
            raise expected(f"tier {OUR_TIER}, the only one of a table that is not in the paper", got=tier)
        available = set(preset_names())
        others = [m for m in methods if m not in self.methods]  # any method with a preset can be added to the table
        unknown = [m for m in others if not any(f"{dataset}/{m}:{tier}" in available for dataset in self.datasets)]
        if unknown:
            raise expected(f"methods from {', '.join(self.methods)}", got=", ".join(unknown))
        listed = [m for m in self.methods if not methods or m in methods or (self.quality and m == "natural")]
        chosen = [*listed, *others]
        found = [
            self._job(out, dataset, method, tier, seed, dict(options or {}))
            for dataset in self.datasets
            for method in chosen
            for seed in seeds
        ]
        runnable = [job for job in found if job.preset in available]
        if not runnable or (methods and len(runnable) < len(found)):
            missing = next(job.preset for job in found if job.preset not in available)
            wanted = {f"{dataset}/{method}" for dataset in self.datasets for method in chosen}
            tiers = sorted({tier for name, _, tier in (p.partition(":") for p in available) if name in wanted})
            raise expected(f"a tier from {', '.join(tiers)} that has these methods", got=f"{tier} without {missing}")
        return runnable

    def left_out(self, tier: str) -> list[str]:
        """Presets of the table that do not exist in this tier."""
        available = set(preset_names())
        wanted = [f"{dataset}/{method}:{tier}" for dataset in self.datasets for method in self.methods]
        return [preset for preset in wanted if preset not in available]

    def _job(self, out: Path, dataset: str, method: str, tier: str, seed: int, options: dict[str, Any]) -> Job:
        if self.quality:
            options |= {"quality": True}
            if method != "natural":
                options["natural"] = dataset_folder(out, tier, dataset) / "natural"
        preset = f"{dataset}/{method}:{tier}"
        return Job(preset=preset, folder=run_folder(preset, seed, out), seed=seed, options=options)


def _table(name: str, title: str, datasets: tuple[str, ...], methods: tuple[str, ...], **more: Any) -> PaperTable:
    return PaperTable(name=name, title=title, datasets=datasets, methods=methods, **more)


TABLES = {
    table.name: table
    for table in (
        _table("mnist", "Results on MNIST", ("mnist",), (*FAIR, *FIRST_LAYER)),
        _table("fashion-mnist", "Results on Fashion-MNIST", ("fashion-mnist",), (*FAIR, *FIRST_LAYER)),
        _table("gtsrb", "Results on GTSRB", ("gtsrb",), FAIR),
        _table("flower17", "Results on Flower", ("flower17",), FAIR),
        _table("gtsrb-wrn", "Results on GTSRB (WRN-28-10; tier cpu: wrn-16-2)", ("gtsrb-wrn",), WIDE),
        _table("flower17-wrn", "Results on Flower (WRN-28-10; tier cpu: wrn-16-2, 64 x 64)", ("flower17-wrn",), WIDE),
        _table("ablation-cacr", "Results of using only CACR", GREY_AND_FLOWER, ("erar", "erar-cacr-only")),
        _table("ablation-wacr", "Results of using only WACR", GREY_AND_FLOWER, ("erar", "erar-wacr-only")),
        _table(
            "coefficients", "Coefficients (1, 0.7) and (0.7, 1)", GREY_AND_FLOWER, ("erar", "erar-1-0.7", "erar-0.7-1")
        ),
        _table(
            "ablation-nca",
            "Effect of KL(P_ME || P_NCA), a figure in the paper",
            GREY_AND_FLOWER,
            ("erar", "erar-no-nca"),
        ),
        _table(
            "ablation-scale",
            "Not in the paper: attributions times 100 in CACR",
            GREY_AND_FLOWER,
            ("erar", "erar-cacr-only", "erar-scale-100", "erar-cacr-only-scale-100"),
            in_paper=False,
        ),
        _table("ablation-base", "Removing the base attribution from WACR", GREY_AND_FLOWER, ("erar", "erar-no-base")),
        _table("spearman", "Median Spearman (WRN-28-10; tier cpu: wrn-16-2)", ("flower17-wrn", "gtsrb-wrn"), WIDE),
        _table(
            "quality",
            "Spearman with the maps of a naturally trained network",
            ("mnist", "fashion-mnist", "gtsrb", "flower17"),
            ("natural", "madry", "ig_sum_norm", "erar"),
            quality=True,
        ),
        _table(
            "rivals",
            "Not in the paper: methods published since, and natural training that may explain them",
            ("fashion-mnist",),
            (*CONTROLS, *RIVALS, *NULL, "erar_plus"),
            in_paper=False,
        ),
        _table(
            "rivals-gtsrb",
            "Not in the paper: the two best of these methods on GTSRB",
            ("gtsrb",),
            (*CONTROLS, *BEST_RIVALS, "erar_plus"),
            in_paper=False,
        ),
        _table(
            "digits",
            "Not in the paper: the same methods on the embedded digits",
            ("digits",),
            MAIN,
            in_paper=False,
        ),
    )
}
"""Name, as passed to `holdfast reproduce`, -> table."""


FIGURES = {
    "first figure": ("Image, perturbed image and both maps of each method", "holdfast report RUNS --figures FOLDER"),
    "variance figure": ("Box plots of top-k and Kendall", "holdfast report RUNS --figures FOLDER"),
    "ablation figures": (
        "Maps with CACR only, WACR only, both, without P_NCA",
        "ablation-* above, then holdfast report RUNS --figures FOLDER",
    ),
    "human test": ("Which map matches the object best", "holdfast report RUNS --vote"),
}
"""Figures of the paper: name -> (what it shows, the command that makes it from the runs of a table)."""


def state_of(table: PaperTable, out: Path, tier: str) -> str:
    """Text that says how many runs of a table are finished."""
    try:
        jobs = table.jobs(out, tier=tier)
    except InputError:
        return f"no presets of tier {tier}"
    finished = sum(job.finished for job in jobs)
    return "done" if finished == len(jobs) else f"{finished} of {len(jobs)} runs done"
