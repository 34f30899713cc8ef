"""The command `holdfast harden`."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, arg

from holdfast.commands.inputs import ImageFlags, NetworkFlags

Number = Annotated[str, arg(metavar="NUMBER")]


def harden(
    model: str,
    data: Path | None = None,
    weights: Path | None = None,
    out: Path = Path("runs/harden"),
    minutes: float = 60.0,
    method: str = "erar_plus",
    maps: Annotated[str, arg(aliases=("--map",))] = "ig",
    layer: str | None = None,
    eps: Number = "8/255",
    max_accuracy_drop: float = 2.0,
    resume: bool = False,
    network: Annotated[NetworkFlags, OmitArgPrefixes] = NetworkFlags(),  # noqa: B008 - frozen
    image: Annotated[ImageFlags, OmitArgPrefixes] = ImageFlags(),  # noqa: B008 - frozen
    holdout: int | float = 0.2,
    method_args: tuple[str, ...] = (),
    steps: int | None = None,
    lr: float | None = None,
    batch_size: int = 50,
    batch_norm: Literal["fixed", "update"] = "fixed",
    limit: int = 200,
    passes: int | None = None,
    strong: bool = True,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Fine-tune a trained PyTorch classifier so that small perturbations change its saliency maps less.

    The command holds out images and audits the network on them. It fine-tunes the network on the other images, limits
    the loss of accuracy (--max-accuracy-drop), and audits the same held-out images again. The output folder gets the
    weights under the names and in the precision of your own file, and report.html, which compares the network before
    and after.

    Usage examples:
        # your own network, weights and images; a fifth of the images is held out
        holdfast harden --model package.module:build --weights w.pt --data images/ --out runs/h
        # less time, a smaller perturbation, and at most one point of accuracy
        holdfast harden --model nets:resnet --weights w.pth --data images/ --minutes 20 --eps 4/255 \\
            --max-accuracy-drop 1
        # another explanation
        holdfast harden --model timm:resnet18 --weights w.pth --data photos/ --maps gradcam
        # a run of `holdfast train`, on its own data
        holdfast harden --model runs/mine/natural --out runs/mine/hardened
        # after Ctrl-C: the same command with --resume
        holdfast harden --model nets:resnet --weights w.pth --data images/ --out runs/h --resume

    Args:
        model: Network: package.module:function that builds it, timm:NAME, torchvision:NAME, hf:FOLDER (an image
            classifier saved by transformers), a run directory, or zoo:NAME (`holdfast zoo list`).
        data: Labelled images: a folder with one subfolder per class or with labels.csv (file,label), an .npz file, or
            the name of a dataset. By default, for a run directory, the run's own data.
        weights: Weights: .safetensors, or .pt, .pth, .th, .ckpt or .bin of torch.save, read without executing code. By
            default those of the run directory, or those that the function creates.
        out: Output folder for weights, report.html and both audits.
        minutes: Time for everything: it decides on the number of training steps and of audited images.
        method: Training method, as in `holdfast presets`. The default, erar_plus, is comparatively cheap: its search
            does not differentiate the maps.
        maps: Explanation to harden: ig, gradient, input-x-gradient, smoothgrad or gradcam. All but ig need a method
            that takes a map, as erar_plus does.
        layer: Layer of gradcam, by the name of a module of the network or its end; by default the last layer with
            spatial features that no skip connection or other branch bypasses.
        eps: Largest change per pixel, as a number or a fraction; pixels are in [0, 1].
        max_accuracy_drop: Largest loss of accuracy on held-out images, in points.
        resume: Continue the run in the output folder; the result equals that of an uninterrupted run.
        network: How the network is built and what it takes and returns.
        image: How the images are prepared, and the order of their classes.
        holdout: Share or number of the images that are held out, if the data has no test part.
        method_args: Settings of the method, as key=value, for example weight=8 trades_weight=1.
        steps: Number of training steps, instead of as many as fit into the time.
        lr: Largest learning rate; it rises and falls once over the run. By default 1e-3, or 1e-4 for networks with
            layer norm, such as transformers.
        batch_size: Images per step.
        batch_norm: Keep the statistics of batch norm fixed, or update them as in ordinary training.
        limit: Largest number of images of the audits.
        passes: Budget of the audits' attacks in example-passes per image (with --no-strong in steps), instead of what
            fits into the time.
        strong: Audit with the strongest attack; --no-strong uses the reference attack of the papers.
        seed: Seed of the held-out parts, of the order of the batches and of the noise.
        device: Device such as cpu or cuda; auto uses the GPU if there is one.
        quiet: Do not show progress bars.
    """
    from rich.console import Console

    from holdfast.commands.audit import assumptions
    from holdfast.commands.progress import measuring
    from holdfast.config import large_steps, parse_arguments, parse_number
    from holdfast.experiment.hardening.harden import harden as run
    from holdfast.experiment.hardening.inputs import form_of, open_both_parts
    from holdfast.experiment.hardening.job import PAGE
    from holdfast.experiment.hardening.settings import HardenSettings
    from holdfast.experiment.networks import open_model

    console = Console()
    _check_one_process()
    _check_points(max_accuracy_drop)

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    settings = HardenSettings(
        eps=parse_number("eps", eps),
        minutes=minutes,
        method=method,
        map=maps,
        layer=layer,
        method_settings=parse_arguments(method_args, "--method-args", "weight=8 trades_weight=1"),
        max_accuracy_drop=max_accuracy_drop / 100,
        holdout=holdout,
        steps=steps,
        lr=lr,
        batch_size=batch_size,
        batch_norm=batch_norm,
        limit=limit,
        passes=passes,
        strong=strong,
        seed=seed,
    )
    for note in large_steps({"eps": settings.eps, **settings.method_settings}, option="--method-args {}="):
        say(f"note: {note}")
    how = network.options(weights)
    opened = open_model(model, how)
    train, held_out = open_both_parts(data, opened, image.options(holdout=holdout))
    say(f"{len(train):,} images to train on, {len(held_out):,} held out, from {train.source}")
    for line in assumptions(opened, held_out, "given", weights, model)[1:]:
        console.print(line, style="dim", highlight=False, soft_wrap=True)
    form = form_of(model, opened, how)
    words = [word for word in sys.argv[1:] if word != "--resume"]
    again = shlex.join(["holdfast", *words, "--resume"])
    try:
        with measuring(console, quiet) as on_progress:
            found = run(
                opened.for_training(),
                train,
                settings,
                held_out=held_out,
                out=out,
                resume=resume,
                weights=form,
                device=device,
                progress=not quiet,
                on_progress=on_progress,
                say=say,
                notes=opened.notes,
                model_name=model,
                data_name=train.name if data is None else data.name,
                resume_command=again,
                continue_with=_continued(words, form.files(out)[-1], out),
            )
    except KeyboardInterrupt:
        raise _interrupted(again) from None
    say(f"\n{found}\n")
    say(f"weights: {', '.join(str(path) for path in found.files)}")
    say(f"report: {out / PAGE}")
    if found.continue_with:
        say(f"to continue from there: {found.continue_with}")


def _check_one_process() -> None:
    from holdfast.errors import expected

    processes = os.environ.get("WORLD_SIZE", "1")
    if processes != "1":
        raise expected("one process", got=f"{processes} of torchrun", fix="start holdfast harden without it")


def _check_points(drop: float) -> None:
    from holdfast.errors import expected

    if not 0 <= drop <= 100:
        raise expected("--max-accuracy-drop from 0 to 100, in points", got=f"{drop:g}")


def _interrupted(command: str) -> Exception:
    from holdfast.training import Interrupted

    return Interrupted(f"interrupted; continue with: {command}", signal="SIGINT")


def _continued(words: list[str], weights: Path, out: Path) -> str:
    """The command that hardens the result further, with the weights that are written now, and another folder."""
    if words[:1] != ["harden"]:
        return ""
    changes: dict[str, Any] = {"--weights": weights, "--out": f"{out}-2"}
    kept = list(words)
    for option, value in changes.items():
        place = next((at for at, word in enumerate(kept) if word.partition("=")[0] == option), None)
        if place is not None:
            del kept[place : place + (1 if "=" in kept[place] else 2)]
        kept += [option, str(value)]
    return shlex.join(["holdfast", *kept])
