"""Run directories made up for the report: real digits, invented maps of five methods, all files of a run."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, zoom
from tests.runs.material import example_row

from holdfast.report.before_after import BeforeAfter
from holdfast.runs import (
    Bootstrap,
    Difference,
    ExampleRow,
    Examples,
    Panels,
    RunInfo,
    add_verdict,
    collect_provenance,
    finish,
    summarise,
    write_json_atomic,
    write_panels,
    write_text_atomic,
)
from holdfast.runs.training_log import log_line
from holdfast.storage.json_files import read_json
from holdfast.storage.lines import append_lines

STRENGTH = {"natural": 0.10, "madry": 0.45, "ig_sum_norm": 0.62, "erar": 0.72, "erar_plus": 0.82}
"""Method -> share of the map that an attack leaves in place."""


def make_rows(
    method_strength: float, n: int, seed: int, attacks: tuple[str, ...] = ("ifia-topk", "random")
) -> list[ExampleRow]:
    """Rows whose numbers spread around the strength; a few misclassified, lost and unmoved."""
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(1).integers(0, 10, n)
    outcomes = rng.choice(
        ["attacked", "misclassified", "label_lost", "unmoved", "nan_map"], n, p=[0.9, 0.04, 0.03, 0.02, 0.01]
    )
    rows = []
    for attack in attacks:
        middle = method_strength if attack != "random" else 0.9 + 0.08 * method_strength
        spread = rng.normal(middle, 0.1 if attack != "random" else 0.03, n)
        for i in range(n):
            moved = float(np.clip(spread[i], 0.0, 1.0)) if outcomes[i] == "attacked" else None
            rows.append(
                example_row(
                    attack=attack,
                    id=i,
                    label=int(labels[i]),
                    prediction=int((labels[i] + (outcomes[i] == "misclassified")) % 10),
                    pgd_correct=bool(rng.random() < method_strength),
                    outcome=str(outcomes[i]),
                    top_k=moved,
                    kendall=None if moved is None else 0.8 * moved - 0.05,
                    spearman=None if moved is None else 0.9 * moved,
                    cosine=None if moved is None else 0.2 + 0.8 * moved,
                    center_shift=None if moved is None else 3 * (1 - moved),
                    winner="topk restart 1" if moved is not None and attack != "random" else "",
                    completeness_gap=0.01,
                )
            )
    return rows


def make_panels(strength: float, seed: int, count: int = 8, attack: str = "ifia-topk") -> Panels:
    """Pictures of the first digits: smooth maps on the strokes, moved as far as the strength lets them."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    digits = load_digits()
    images = np.stack([np.clip(zoom(image / 16.0, 3.5, order=1), 0, 1) for image in digits.images[:count]])
    texture = gaussian_filter(rng.random(images.shape), (0, 1.2, 1.2))
    clean = images * (texture - texture.min() + 0.02) ** 2
    elsewhere = gaussian_filter(rng.random(images.shape), (0, 1.6, 1.6))
    other = (elsewhere - elsewhere.min()) ** 3 * (0.25 + images)
    clean, other = (m / m.mean((1, 2), keepdims=True) for m in (clean, other))
    moved = np.clip(images + 0.08 * np.sign(rng.normal(size=images.shape)), 0, 1)
    labels = digits.target[:count]
    return Panels(
        attack=attack,
        ids=np.arange(count),
        labels=labels,
        predictions=labels,
        clean=np.rint(images[:, None] * 255).astype(np.uint8),
        perturbed=moved[:, None].astype(np.float16),
        clean_map=clean.astype(np.float16),
        perturbed_map=(strength * clean + (1 - strength) * other).astype(np.float16),
    )


def write_log(path: Path, strength: float, steps: int = 40) -> None:
    rng = np.random.default_rng(3)
    for i in range(steps):
        ce = 2.3 * np.exp(-i / 9) + 0.05 + 0.02 * rng.random() + 0.3 * strength
        parts: dict[str, float] = {"total": ce, "ce": ce}
        if strength > 0.5:
            parts |= {"cacr": -1e-4 * i / steps, "wacr": 1e-2 * np.exp(-i / 5) + 1e-5}
            parts["total"] = ce + parts["cacr"] + parts["wacr"]
        append_lines(
            path,
            log_line(
                {
                    "step": 10 * i,
                    "seconds": 0.1 * i,
                    "lr": 1e-3,
                    "parts": parts,
                    "accuracy_clean": 1 - 0.9 * np.exp(-i / 6),
                    "accuracy_perturbed": strength * (1 - np.exp(-i / 8)),
                    "example_passes": 500 * i,
                }
            ),
        )


def write_run(
    folder: Path,
    *,
    method: str = "erar",
    dataset: str = "mnist",
    n: int = 136,
    seed: int = 0,
    panels: Panels | None = None,
    log: bool = True,
    attacks: tuple[str, ...] = ("ifia-topk", "random"),
    quality: dict[str, Any] | None = None,
    **known: Any,
) -> Path:
    strength = STRENGTH.get(method, 0.5)
    rows = make_rows(strength, n, seed, attacks)
    provenance = finish(
        collect_provenance(seeds=[seed], command=["holdfast", "train", f"{dataset}/{method}"], threads=2)
    )
    known = {"preset": "cpu", "limit": f"{n} of 10,000 test images, stratified, seed 0"} | known
    summary = summarise(
        rows,
        RunInfo(
            dataset=dataset,
            method=method,
            seed=seed,
            example_passes=120_000,
            train_seconds=93.5,
            provenance=provenance,
            **known,
        ),
        bootstrap=Bootstrap(resamples=200),
    )
    Examples(folder / "examples.csv").append(rows)
    write_json_atomic(folder / "summary.json", summary | ({"quality": quality} if quality else {}))
    write_json_atomic(folder / "provenance.json", provenance)
    write_text_atomic(folder / "config.toml", f'method = "{method}"\n\n[train]\nsteps = 400\nlr = 1e-3\n')
    if log:
        write_log(folder / "log.jsonl", strength)
    if panels is not None:
        write_panels(folder / "panels.npz", panels)
    return folder


def write_demo(root: Path) -> list[Path]:
    """Five methods on digits, with pictures and logs."""
    folders = []
    for at, (method, strength) in enumerate(STRENGTH.items()):
        middle = 0.7 + 0.05 * at
        spearman = {"median": middle, "ci95": [middle - 0.05, middle + 0.04], "n": 130}
        quality = {"natural_spearman": spearman, "insertion_area": middle - 0.2} if at else {}
        panels = make_panels(strength, at)
        folders.append(write_run(root / method, method=method, seed=at, panels=panels, quality=quality))
    return folders


KEPT = {0: None, 1: 0.9, 2: 0.6, 3: 0.1, 4: 0.15, 5: 0.05}
"""Example of `write_audit` -> share of the top pixels that it keeps; 0 is misclassified, all others keep `kept`."""


def write_audit(
    folder: Path, *, n: int = 40, kept: float = 0.4, notes: str = "", maps: dict[str, float] | None = None, **about: Any
) -> Path:
    """An audit of a made-up network: its rows, pictures of the first six examples, and its summary with a verdict.

    `maps` are further maps with the share that each image keeps of them.
    """
    rows = []
    shares: dict[str, Any] = {"strongest": lambda i: KEPT.get(i, kept), "random": lambda i: None if i == 0 else 0.95}
    for name, share in (maps or {}).items():
        shares |= {f"strongest:{name}": lambda i, share=share: None if i == 0 else share}
        shares |= {f"random:{name}": lambda i: None if i == 0 else 0.95}
    for attack, share_of in shares.items():
        for i in range(n):
            share = share_of(i)
            known = {"outcome": "misclassified" if i == 0 else "attacked", "notes": notes}
            scores = dict.fromkeys(("top_k", "kendall"), share)
            rows.append(example_row(attack=attack, id=i, label=1, prediction=int(i > 0), **known, **scores))
    settings: dict[str, Any] = {"maps": ["ig", *maps]} if maps else {}
    settings |= {
        "eps": 8 / 255,
        "passes": 2000,
        "steps": 50,
        "ig_steps": 50,
        "map": "ig",
        "seed": 7,
        "attacks": [],
        "batch_size": 16,
    }
    audit = {"model": "nets:resnet18", "data": "street-signs", "labels": "given", "images": 900, "k": 12}
    audit |= {"split": "test", "settings": settings, "command": AUDIT_COMMAND} | about
    info = RunInfo(
        dataset=audit["data"],
        method=audit["model"],
        preset="audit",
        seed=7,
        class_names=("stop", "give way"),
        provenance=collect_provenance(seeds=[7], command=["holdfast", *AUDIT_COMMAND]),
        audit=audit,
        maps=("ig", *(maps or {})),
    )
    Examples(folder / "examples.csv").append(rows)
    summary = summarise(rows, info, bootstrap=Bootstrap(resamples=200))
    for attack in summary["attacks"].values():
        attack["budget"] = {"norm": "Linf", "eps": audit["settings"]["eps"], "k": audit["k"]}
    write_json_atomic(folder / "summary.json", add_verdict(summary))
    write_panels(
        folder / "panels.npz", make_panels(0.2, 0, count=6, attack=summary.get("maps", {}).get("attack", "strongest"))
    )
    return folder


def write_doubtful_audit(folder: Path, cause: str) -> dict[str, Any]:
    """An audit of three maps at chance accuracy, or whose attacks on the best map mostly failed; its summary."""
    write_audit(folder, maps={"gradient": 0.2, "gradcam": 0.85})
    summary = read_json(folder / "summary.json")
    if cause == "near chance":
        summary["natural_accuracy"] = 0.5
    else:
        summary["attacks"]["strongest:gradcam"] |= {"failed_share": 0.6, "outcomes": {"label_lost": 24}}
    summary = add_verdict(summary)
    write_json_atomic(folder / "summary.json", summary)
    return summary


AUDIT_COMMAND = [
    *(
        "audit",
        "--model",
        "nets:resnet18",
        "--weights",
        "w.safetensors",
        "--data",
        "street-signs",
        "--out",
        "runs/signs",
    )
]


def gain(metric: str, mean: float, low: float, high: float) -> Difference:
    """A paired difference of 40 images."""
    return Difference(metric=metric, median=mean, ci95=(low, high), mean=mean, mean_ci95=(low, high), n=40, unpaired=2)


BETTER = BeforeAfter(
    kept=(0.3, 0.52),
    kendall=(0.4, 0.55),
    attacked=(42, 40),
    gains={"top_k": gain("top_k", 0.21, 0.15, 0.27), "kendall": gain("kendall", 0.15, 0.1, 0.2)},
    natural=(0.98, 0.965),
    natural_n=1000,
    under_pgd=(0.1, 0.6),
    pgd_n=200,
    attack="strongest",
    story=("Ten steps.",),
    notes=("few images",),
)
"""A network whose maps hold better after hardening."""
