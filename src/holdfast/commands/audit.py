"""The command `holdfast audit`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.data import Dataset
    from holdfast.evaluation.audit import AuditSettings
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
    passes: int = 2000,
    steps: int = 50,
    k: int | None = None,
    ig_steps: int = 30,
    search_ig_steps: int = 5,
    limit: int | None = 64,
    minutes: float | None = None,
    map: str = "ig",  # noqa: A002 - the name of the option
    strong: bool = True,
    thorough: bool = False,
    attacks: tuple[str, ...] = (),
    apgd: bool = False,
    certify: bool = False,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Measure how far small perturbations change the saliency maps of a PyTorch classifier.

    For every image, attacks search for a perturbation of at most --eps per pixel that keeps the prediction and changes
    the map as much as possible. The result is compared with random noise of the same size. The command prints a
    one-screen summary with a verdict and writes the rows, summary.json and report.html, which shows the worst examples.

    Usage examples:
        # your own network and weights; images/ has one subfolder per class
        holdfast audit --model package.module:build --weights w.safetensors --data images/ --out runs/mine
        # a network that expects normalised input
        holdfast audit --model nets:resnet --data photos.npz --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225
        # images without labels, and a smaller perturbation
        holdfast audit --model nets:resnet --data unsorted/ --labels predicted --eps 0.01

    Args:
        model: package.module:function that builds the network (called without arguments), a run directory, or
            zoo:NAME (`holdfast zoo list`).
        data: Folder with one subfolder of images per class, or an .npz file with x_test and y_test.
        weights: Weights of the network as a .safetensors file; by default the weights that the function creates.
        out: Output folder for rows, summary and report.html; an interrupted audit resumes from it.
        mean: Mean to subtract from pixels in [0, 1] before the network: one number, or one per channel.
        std: Standard deviation to divide by after the mean is subtracted: one number, or one per channel.
        size: Resize the images of a folder to this height and width in pixels.
        split: Part of the data: train, test or all. By default test if the data has a test split, else all.
        labels: Explain the given labels, or the classes that the network predicts (for images without labels).
        eps: Largest change per pixel; pixels are in [0, 1].
        passes: Budget of all attacks together, in example-passes per image: one image once forward or backward.
        steps: Number of steps of the top-k attack of the papers (with --no-strong or --attacks ifia-topk).
        k: Number of top pixels to compare; by default a tenth of the pixels.
        ig_steps: Number of points of integrated gradients.
        search_ig_steps: Number of points inside the search; the image that is found is scored with all points.
        limit: Number of images, a stratified subset drawn with the seed; None means all.
        minutes: Time limit: attack at most --limit images, as many as fit, with fewer passes if need be.
        map: Explanation to audit: ig, gradient, input-x-gradient or smoothgrad.
        thorough: Give the attacks ten times the passes.
        strong: Run the strongest attack; --no-strong runs the top-k attack of the papers instead.
        attacks: Run these attacks instead of the default ones, for example: ifia-topk ifia-cosine random.
        apgd: Also measure the accuracy under Auto-PGD, the core of AutoAttack, on --limit images.
        certify: Also certify the smoothed gradient map of 16 of the images: what no perturbation within a Euclidean
            radius can change. Adds to the time; --minutes does not count it.
        seed: Seed of the subset and of the random parts of the attacks.
        device: Device such as cpu or cuda; auto uses the GPU if there is one.
        quiet: Do not show progress bars.
    """
    from rich.console import Console

    from holdfast.commands.progress import measuring
    from holdfast.engine.passes import count_passes
    from holdfast.evaluation.audit import AuditSettings, fit_to_minutes
    from holdfast.evaluation.audit import audit as run_audit
    from holdfast.evaluation.certify import certify_audit
    from holdfast.evaluation.cost import CostEstimate
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
        passes=10 * passes if thorough else passes,
        steps=steps,
        k=k,
        ig_steps=ig_steps,
        search_ig_steps=search_ig_steps,
        limit=limit,
        map=map,
        strong=strong,
        attacks=attacks or None,
        apgd=apgd,
        seed=seed,
    )
    if minutes is not None:
        settings = fit_to_minutes(network, images, settings, minutes, device=where)
        fits = f"{settings.limit} images with {_depth(settings)} fit into {minutes:g} minutes"
        console.print(fits, style="dim", highlight=False)
    page, title = out / "report.html", f"Audit of {model}"
    try:
        with count_passes() as counter, measuring(console, quiet) as on_progress:
            cost = CostEstimate(settings.attack_names, counter, say=lambda text: console.print(text, highlight=False))

            def told_both(what: str, done: int, total: int) -> None:
                on_progress(what, done, total)
                cost.progress(what, done, total)

            answer = run_audit(
                network,
                images,
                settings,
                labels=labels,
                out=out,
                device=where,
                on_progress=told_both,
            )
            shared: dict[str, Any] = {"labels": labels, "out": out, "device": where, "on_progress": on_progress}
            proved = certify_audit(network, images, settings, **shared) if certify else None
    except KeyboardInterrupt:
        raise _interrupted(out, page, title, settings) from None
    console.print(str(answer), highlight=False, soft_wrap=True)
    if proved is not None:
        console.print(f"\n{proved}", highlight=False, soft_wrap=True)
    write_report(view_runs([read_run(out)]), page, title=title)
    console.print(f"\nreport: {page}", highlight=False, soft_wrap=True)


def _interrupted(out: Path, page: Path, title: str, settings: "AuditSettings") -> Exception:
    """Write the report of what is there, and say which command goes on."""
    from holdfast.report import view_runs, write_report
    from holdfast.runs import read_run
    from holdfast.training import Interrupted

    command = shlex.join(["holdfast", *_without_minutes(sys.argv[1:], settings)])
    rows = read_run(out).examples.rows if (out / "examples.csv").exists() else ()
    if not rows:
        return Interrupted(f"interrupted before the first rows; start again with: {command}", signal="SIGINT")
    write_report(view_runs([read_run(out)]), page, title=title)
    done = len({row.id for row in rows})
    return Interrupted(
        f"interrupted after {done} images; report so far: {page}; go on with: {command}", signal="SIGINT"
    )


def _without_minutes(words: list[str], settings: "AuditSettings") -> list[str]:
    """The command's words with the images and steps that --minutes chose in its place, so that the rows fit."""
    place = next((at for at, word in enumerate(words) if word.partition("=")[0] == "--minutes"), None)
    if place is None:
        return words
    behind = place + (1 if "=" in words[place] else 2)
    depth = ["--passes", str(settings.passes)] if settings.strong else ["--steps", str(settings.steps)]
    chosen = ["--limit", str(settings.limit), *depth]
    return [*words[:place], *words[behind:], *chosen]


def _depth(settings: "AuditSettings") -> str:
    return f"{settings.passes:,} passes each" if settings.strong else f"{settings.steps} steps"


def _network(
    model: str, weights: Path | None, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> "Classifier":
    from holdfast.config import Network
    from holdfast.errors import expected
    from holdfast.experiment.networks import build_model, load, put_weights

    in_zoo = model.startswith("zoo:")
    if in_zoo or ":" not in model:
        if not in_zoo and not Path(model).is_dir():
            raise expected("--model as package.module:function, a run directory or zoo:NAME", got=repr(model))
        if weights is not None or mean is not None or std is not None:
            fix = "a trained network has its own weights and normalisation"
            raise expected("no --weights, --mean or --std with a run directory or zoo:NAME", got="one of them", fix=fix)
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
    """The assumptions about data, normalisation, weights and labels, one line each, for printing."""
    mean, std = (None if v is None else [round(float(n), 4) for n in v] for v in (network.mean, network.std))
    inside = "none (the input is pixels in [0, 1])" if mean is None and std is None else f"mean {mean}, std {std}"
    channels, height, width = images.image_shape
    lines = [
        f"{len(images)} images of {channels} x {height} x {width}, from {images.source}, split {images.split}",
        f"normalisation before the network: {inside}",
    ]
    if weights is None and ":" in model and not model.startswith("zoo:"):
        lines.append(f"weights: created by {model}, since --weights was not given")
    if labels == "given":
        shown = ", ".join(f"{i} = {name}" for i, name in enumerate(images.class_names[:5]))
        more = ", ..." if images.num_classes > 5 else ""
        lines.append(f"assumed classes of the network's outputs: {shown}{more}")
    else:
        lines.append("labels: the classes that the network predicts")
    return lines
