"""The command `holdfast audit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.data import Dataset
    from holdfast.models import Classifier


def audit(
    model: str,
    data: Path,
    weights: Path | None = None,
    out: Path = Path("runs/audit"),
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    size: int | None = None,
    split: str | None = None,
    labels: Literal["given", "predicted"] = "given",
    eps: float = 8 / 255,
    steps: int = 50,
    k: int | None = None,
    ig_steps: int = 50,
    limit: int | None = 64,
    map: str = "ig",  # noqa: A002 - the name of the flag
    strong: bool = True,
    attacks: tuple[str, ...] = (),
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Can I trust its saliency maps? Audit any torch classifier on a folder or .npz of images.

    Finds, for every image, a change too small to see that keeps the prediction and moves the map as far as it can,
    and compares that with random noise of the same size. Answers on one screen; the report in the output folder shows
    the worst examples.

        holdfast audit --model package.module:build --weights w.safetensors --data images/ --out runs/mine
        holdfast audit --model nets:resnet --data photos.npz --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225
        holdfast audit --model nets:resnet --data unsorted/ --labels predicted --eps 0.01

    Args:
        model: package.module:function that builds the network (called without arguments), or the folder of a run.
        data: A folder of class folders of images, or an .npz with x_test and y_test.
        weights: The network's weights as safetensors; without it the network is audited as the function builds it.
        out: Where rows, summary and report.html go; an interrupted audit goes on from there.
        mean: What the network subtracts from pixels in [0, 1], one number or one a channel; nothing if not given.
        std: What it divides by.
        size: Resize the images of a folder to this side.
        split: Which part of the data: train, test or all. If not given: test where the data has one, else all.
        labels: Explain the given label, or the class the network predicts (for images without labels).
        eps: The largest change of a pixel; pixels are in [0, 1].
        steps: Steps of the attack.
        k: How many of the top pixels are watched; a tenth of the image if not given.
        ig_steps: Points of integrated gradients.
        limit: How many images, a seeded stratified subset; None for all.
        map: The explanation to audit: ig, gradient, input-x-gradient or smoothgrad.
        strong: Also the ensemble of eight attacks, of which the worst counts; about four times the work.
        attacks: Run these attacks instead, such as ifia-topk ifia-cosine random.
        seed: Decides the subset and the random parts of the attacks.
        device: cpu, cuda, ...; auto takes the GPU if there is one.
        quiet: No progress line.
    """
    from rich.console import Console

    from holdfast.commands.progress import measuring
    from holdfast.evaluation.audit import AuditSettings
    from holdfast.evaluation.audit import audit as run_audit
    from holdfast.report import view_runs, write_report
    from holdfast.runs import read_run
    from holdfast.training import pick_device

    console, where = Console(), pick_device(device)
    network = _network(model, weights, mean, std).to(where)
    images = _images(data, size, split, labels)
    for line in _assumptions(network, images, labels, weights, model):
        console.print(line, style="dim", highlight=False, soft_wrap=True)
    settings = AuditSettings(
        eps=eps,
        steps=steps,
        k=k,
        ig_steps=ig_steps,
        limit=limit,
        map=map,
        strong=strong,
        attacks=attacks or None,
        seed=seed,
    )
    with measuring(console, quiet) as on_progress:
        answer = run_audit(network, images, settings, labels=labels, out=out, device=where, on_progress=on_progress)
    console.print(str(answer), highlight=False, soft_wrap=True)
    page = out / "report.html"
    write_report(view_runs([read_run(out)]), page, title=f"Audit of {model}")
    console.print(f"\nreport: {page}", highlight=False, soft_wrap=True)


def _network(
    model: str, weights: Path | None, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> "Classifier":
    from holdfast.config import Network
    from holdfast.errors import expected
    from holdfast.experiment.networks import build_model, load, put_weights

    if ":" not in model:
        if not Path(model).is_dir():
            raise expected("package.module:function or the folder of a run", got=repr(model))
        if weights is not None or mean is not None or std is not None:
            fix = "the folder of a run has its own"
            raise expected("no --weights, --mean or --std with the folder of a run", got="one of them", fix=fix)
        return load(model)
    network = build_model(Network(name=model, mean=mean, std=std), seed=0)
    if weights is not None:
        put_weights(network, weights)
    return network.eval()


def _images(path: Path, size: int | None, split: str | None, labels: str) -> "Dataset":
    from holdfast.data import load

    divided = path.is_dir() and (path / "test").is_dir() and (path / "train").is_dir()
    part = split or ("all" if path.is_dir() and not divided else "test")
    options: dict[str, Any] = {} if size is None else {"size": size}
    if path.is_dir() and labels == "predicted" and not divided:
        options["unlabelled"] = True
    return load(str(path), split=part, **options)


def _assumptions(network: "Classifier", images: "Dataset", labels: str, weights: Path | None, model: str) -> list[str]:
    """What was taken for granted, said aloud: nothing is guessed in silence."""
    mean, std = (None if v is None else [round(float(n), 4) for n in v] for v in (network.mean, network.std))
    inside = "none (pixels in [0, 1] go in as they are)" if mean is None and std is None else f"mean {mean}, std {std}"
    channels, height, width = images.image_shape
    lines = [
        f"{len(images)} images of {channels} x {height} x {width}, from {images.source}, split {images.split}",
        f"normalisation before the network: {inside}",
    ]
    if weights is None and ":" in model:
        lines.append(f"weights: as {model} makes them, since no --weights were given")
    if labels == "given":
        shown = ", ".join(f"{i} = {name}" for i, name in enumerate(images.class_names[:5]))
        more = ", ..." if images.num_classes > 5 else ""
        lines.append(f"outputs of the network are taken to be the classes in this order: {shown}{more}")
    else:
        lines.append("labels: what the network predicts")
    return lines
