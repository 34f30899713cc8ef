"""The command `holdfast audit`."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, arg

from holdfast.commands.inputs import ImageFlags, NetworkFlags
from holdfast.commands.processes import leads, program

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.data import Dataset
    from holdfast.evaluation.audit_result import Audit
    from holdfast.evaluation.audit_settings import AuditSettings
    from holdfast.evaluation.protocol import OnProgress
    from holdfast.experiment.networks import OpenedModel
    from holdfast.models import Classifier


def audit(
    model: str,
    data: Path | None = None,
    weights: Path | None = None,
    out: Path = Path("runs/audit"),
    network: Annotated[NetworkFlags, OmitArgPrefixes] = NetworkFlags(),  # noqa: B008 - frozen
    image: Annotated[ImageFlags, OmitArgPrefixes] = ImageFlags(),  # noqa: B008 - frozen
    split: str | None = None,
    holdout: int | float | None = None,
    labels: Literal["given", "predicted"] = "given",
    eps: Annotated[str, arg(metavar="NUMBER")] = "8/255",
    passes: int = 2000,
    steps: int = 50,
    k: int | None = None,
    ig_steps: int = 30,
    search_ig_steps: int = 5,
    limit: int | None = 64,
    minutes: float | None = None,
    maps: Annotated[tuple[str, ...], arg(aliases=("--map",))] = ("ig",),
    layer: str | None = None,
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
        holdfast audit --model package.module:build --weights w.pt --data images/ --out runs/mine
        # arguments of the function, photos of any size, and the usual normalisation
        holdfast audit --model nets:resnet --model-args num_classes=10 width=2 --weights last.ckpt --data photos/ \\
            --size 256 --crop 224 --normalize imagenet
        # networks of other packages; what they record about their input is used
        holdfast audit --model timm:resnet18 --model-args num_classes=10 --weights w.pth --data photos/
        holdfast audit --model hf:my-vit/ --data photos/
        # another order of classes: one name per line, in the order of the network's outputs
        holdfast audit --model torchvision:resnet18 --weights w.pth --data photos/ --classes names.txt
        # a run of `holdfast train`, on the test part of its own data
        holdfast audit --model runs/mine/erar
        # the same network with the weights of `holdfast harden`
        holdfast audit --model runs/mine/natural --weights runs/mine/hardened/weights.safetensors
        # which explanation of this network holds best
        holdfast audit --model runs/mine/erar --maps ig gradient gradcam
        # images without labels, and a smaller perturbation
        holdfast audit --model nets:resnet --data unsorted/ --labels predicted --eps 4/255
        # several processes or GPUs share the images
        torchrun --nproc-per-node 8 -m holdfast audit --model nets:resnet --data images/ --limit None

    Args:
        model: Network: package.module:function that builds it, timm:NAME, torchvision:NAME, hf:FOLDER (an image
            classifier saved by transformers), a run directory, or zoo:NAME (`holdfast zoo list`).
        data: Images: a folder with one subfolder per class or with labels.csv (file,label), or an .npz file with x_test
            and y_test, or with x and y. By default, for a run directory, the test part of the run's own data.
        weights: Weights: .safetensors, or .pt, .pth, .th, .ckpt or .bin of torch.save, read without executing code. By
            default those of the run directory, or those that the function creates.
        out: Output folder for rows, summary and report.html; an interrupted audit resumes from it.
        network: How the network is built and what it takes and returns.
        image: How the images are prepared, and the order of their classes.
        split: Part of the data: train, test or all. By default test if the data has a test split, else all.
        holdout: Hold out this share or number of the images and audit them, as --data.options.holdout of
            `holdfast train` does. The data of a run directory is divided as in its training.
        labels: Explain the given labels, or the classes that the network predicts (for images without labels).
        eps: Largest change per pixel, as a number or a fraction; pixels are in [0, 1].
        passes: Budget of all attacks together, in example-passes per image: one image once forward or backward. With
            several maps, of each of them.
        steps: Number of steps of the reference attack of the papers (with --no-strong or --attacks ifia-topk).
        k: Number of top pixels to compare; by default a tenth of the pixels.
        ig_steps: Number of points of integrated gradients.
        search_ig_steps: Number of points inside the search; the image that is found is scored with all points.
        limit: Number of images, a stratified subset drawn with the seed; None means all.
        minutes: Time limit: attack at most --limit images, as many as fit, with fewer passes if need be.
        maps: Explanation to audit: ig, gradient, input-x-gradient, smoothgrad, gradcam or gradcam++. Several are
            compared on the same images, and the first line of the result says which of them holds best.
        layer: Layer of gradcam and gradcam++, by the name of a module of the network or its end; by default the last
            layer with spatial features that no skip connection or other branch bypasses.
        thorough: Give the attacks ten times the passes.
        strong: Run the strongest attack; --no-strong runs the reference attack of the papers (ifia-topk) instead.
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
    from holdfast.config import check_eps, parse_number
    from holdfast.evaluation.audit import PAGE, write_page
    from holdfast.evaluation.audit_settings import AuditSettings
    from holdfast.evaluation.audit_time import fit_to_minutes
    from holdfast.evaluation.certify import certify_audit
    from holdfast.experiment.audit_inputs import open_images
    from holdfast.experiment.networks import open_model
    from holdfast.runs.folders import check_not_training_run
    from holdfast.training import joined, pick_device

    console, where = Console(quiet=not leads()), pick_device(device)
    strength = parse_number("eps", eps)
    check_eps(strength)
    check_not_training_run(out)
    opened = open_model(model, network.options(weights))
    classifier = opened.network.to(where)
    images = open_images(data, opened, image.options(split=split, holdout=holdout, labels=labels))
    for line in assumptions(opened, images, labels, weights, model):
        console.print(line, style="dim", highlight=False, soft_wrap=True)
    settings = AuditSettings(
        eps=strength,
        passes=10 * passes if thorough else passes,
        steps=steps,
        k=k,
        ig_steps=ig_steps,
        search_ig_steps=search_ig_steps,
        limit=limit,
        maps=maps,
        layer=layer,
        strong=strong,
        attacks=attacks or None,
        apgd=apgd,
        seed=seed,
    )
    with joined(where) as processes:
        if minutes is not None:
            fitted = fit_to_minutes(classifier, images, settings, minutes * processes.world_size, device=where)
            # Every process has its own clock; that of rank 0 decides.
            chosen: Any = processes.shared(
                lambda: {name: getattr(fitted, name) for name in ("limit", "steps", "passes")}
            )
            settings = replace(settings, **chosen)
            console.print(_fits(settings, minutes), style="dim", highlight=False)
        words = _without_minutes(sys.argv[1:], settings)
        about = {
            "model_name": model,
            "data_name": images.name if data is None else data.name,
            "origin": _origin(words, opened),
            "notes": opened.notes,
        }
        try:
            with measuring(console, quiet or not leads()) as on_progress:
                shared: dict[str, Any] = {"labels": labels, "out": out, "device": where}
                answer = _measured(classifier, images, settings, console, on_progress, **about, **shared)
                proved = None
                if certify and leads():
                    proved = certify_audit(classifier, images, settings, on_progress=on_progress, **shared)
        except KeyboardInterrupt:
            raise _interrupted(out, words) from None
    if not leads():
        return
    console.print(str(answer), highlight=False, soft_wrap=True)
    if proved is not None:
        console.print(f"\n{proved}", highlight=False, soft_wrap=True)
        write_page(out)
    console.print(f"\nreport: {out / PAGE}", highlight=False, soft_wrap=True)


def _measured(
    network: "Classifier",
    images: "Dataset",
    settings: "AuditSettings",
    console: "Console",
    on_progress: "OnProgress",
    **options: Any,
) -> "Audit":
    """Run the audit, and say what it costs: after the first batch, and of long work within the first minute."""
    from holdfast.engine.passes import count_passes
    from holdfast.evaluation.audit import audit as run_audit
    from holdfast.evaluation.audit_settings import budget_of, first_batch, number_of_images
    from holdfast.evaluation.cost import CostEstimate
    from holdfast.training.distributed import current

    with count_passes() as counter:
        processes = current().world_size
        cost = CostEstimate(
            settings.attack_names,
            counter,
            say=lambda text: console.print(text, highlight=False, soft_wrap=True),
            batch_size=(first_batch(images) or settings.batch_size) if processes > 1 else None,
            images=max(0, number_of_images(images, settings) - _images_done(options["out"])),
            budget=budget_of(settings),
            share=1 / processes,
        )

        def told_both(what: str, done: int, total: int) -> None:
            on_progress(what, done, total)
            cost.progress(what, done, total)

        return run_audit(network, images, settings, on_progress=told_both, **options)


def _origin(words: list[str], opened: "OpenedModel") -> dict[str, Any]:
    """What the next commands need: the words of this one, and the names of the run that trained the network."""
    run = opened.config
    known = {} if run is None else {"network": run.model.name, "dataset": run.dataset}
    return {**known, "command": words if words[:1] == ["audit"] else ()}


def _interrupted(out: Path, words: list[str]) -> Exception:
    """Say where the report of what is there is, and which command goes on."""
    from holdfast.evaluation.audit import PAGE
    from holdfast.training import Interrupted

    if not leads():
        return Interrupted("interrupted", signal="SIGINT")
    command = f"{program()} {shlex.join(words)}"
    done = _images_done(out)
    if not done:
        return Interrupted(f"interrupted before the first rows; start again with: {command}", signal="SIGINT")
    return Interrupted(
        f"interrupted after {done} images; report so far: {out / PAGE}; go on with: {command}", signal="SIGINT"
    )


def _images_done(out: Path) -> int:
    """How many images have rows in the output folder."""
    from holdfast.runs import read_run

    return len({row.id for row in read_run(out).examples.rows}) if (out / "examples.csv").exists() else 0


def _without_minutes(words: list[str], settings: "AuditSettings") -> list[str]:
    """The command's words with the images and steps that --minutes chose in its place, so that the rows fit.

    --thorough is left out where passes are written, since they are multiplied already.
    """
    place = next((at for at, word in enumerate(words) if word.partition("=")[0] == "--minutes"), None)
    if place is None:
        return words
    behind = place + (1 if "=" in words[place] else 2)
    unit, depth = _depth(settings)
    kept = [word for word in (*words[:place], *words[behind:]) if unit != "passes" or word != "--thorough"]
    return [*kept, "--limit", str(settings.limit), f"--{unit}", str(depth)]


def _depth(settings: "AuditSettings") -> tuple[str, int]:
    """What --minutes chose besides the images: passes if the strongest attack is run, else steps."""
    from holdfast.runs.names import STRONGEST

    return ("passes", settings.passes) if STRONGEST in settings.attack_names else ("steps", settings.steps)


def _fits(settings: "AuditSettings", minutes: float) -> str:
    """How many images and passes, or steps, fit into the time."""
    unit, number = _depth(settings)
    depth = f"{number:,} {unit}"
    time = "1 minute" if minutes == 1 else f"{minutes:g} minutes"
    if settings.limit == 1:
        return f"1 image with {depth} fits into {time}"
    return f"{settings.limit:,} images with {depth} each fit into {time}"


def assumptions(opened: "OpenedModel", images: "Dataset", labels: str, weights: Path | None, model: str) -> list[str]:
    """The assumptions about data, normalisation, weights and labels, one line each, for printing."""
    network = opened.network
    mean, std = (None if v is None else [round(float(n), 4) for n in v] for v in (network.mean, network.std))
    inside = "none (the input is pixels in [0, 1])" if mean is None and std is None else f"mean {mean}, std {std}"
    channels, height, width = images.image_shape
    lines = [
        f"{len(images)} images of {channels} x {height} x {width}, from {images.source}, split {images.split}",
        f"normalisation before the network: {inside}",
    ]
    if opened.preprocessing is not None:
        lines.append(f"preprocessing that {model} records: {opened.preprocessing}")
    if weights is None and opened.config is None and not model.startswith("hf:"):
        lines.append(f"weights: created by {model}, since --weights was not given")
    if labels == "given":
        shown = ", ".join(f"{i} = {name}" for i, name in enumerate(images.class_names[:5]))
        more = ", ..." if images.num_classes > 5 else ""
        lines.append(f"assumed classes of the network's outputs: {shown}{more}")
    else:
        lines.append("labels: the classes that the network predicts")
    return lines
