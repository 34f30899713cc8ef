"""The audit of one run as the report shows it: verdict, notes, protocol and next steps."""

from dataclasses import dataclass
from typing import Any

from holdfast.report.document import Document, one_line
from holdfast.runs.budget import eps_text
from holdfast.runs.map_comparison import title
from holdfast.runs.names import MAP_TITLES, STRONGEST
from holdfast.runs.next_steps import Step, next_steps
from holdfast.runs.verdict import precedes_maps

ANSWERS = ("robust", "partly robust", "not robust", "cannot say")
_SHOWN = ("eps", "passes", "steps", "k", "ig_steps", "seed", "map", "maps", "attacks", "limit")
"""Settings with a line of their own in the protocol; the others share one."""


@dataclass(frozen=True, kw_only=True)
class AuditView:
    """What an audit says about one network on one dataset."""

    model: str
    data: str
    labels: str
    answer: str
    sentence: str
    before_maps: bool
    """Whether the sentence is said before that about several maps."""
    attack: str
    notes: tuple[str, ...]
    protocol: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]

    @property
    def title(self) -> str:
        """The title of the page."""
        return f"Audit of {self.model} on {self.data}"


def view_audit(data: Document) -> AuditView:
    """The audit in a summary."""
    audit = data.part("audit")
    verdict = audit.part("verdict")
    answer = verdict.text("answer")
    return AuditView(
        model=audit.text("model", "a network"),
        data=audit.text("data", data.text("dataset", "images")),
        labels=audit.text("labels", "given"),
        answer=answer if answer in ANSWERS else "cannot say",
        sentence=verdict.text("sentence", "This audit has no verdict."),
        before_maps=precedes_maps(verdict.part("reasons").content),
        attack=verdict.text("attack"),
        notes=audit.texts("notes"),
        protocol=_protocol(data, audit),
        steps=_steps(data, audit, verdict) if answer in ANSWERS else (),
    )


def _protocol(data: Document, audit: Document) -> tuple[tuple[str, str], ...]:
    settings = audit.part("settings")
    eps, points = settings.number("eps"), settings.count("ig_steps")
    strong = STRONGEST in data.part("attacks").content
    each = "per image and map" if "maps" in settings.content else "per image"
    depth = f"{settings.count('passes'):,} passes {each}" if strong else f"{settings.count('steps'):,} steps"
    names = settings.texts("maps") or (settings.text("map", "ig"),)
    explained = ", ".join(_explained(name, points) for name in names)
    explained += " (of the centred logit)" if strong and set(names) <= MAP_TITLES.keys() else ""
    labels = audit.text("labels", "given")
    n, there = data.count("n"), audit.count("images")
    other = [f"{one_line(key)} {settings.text(key)}" for key in settings.content if key not in _SHOWN]
    lines = {
        "Model": audit.text("model"),
        "Data": audit.text("data"),
        "Perturbation": f"at most {eps_text(eps)} per pixel, prediction kept" if eps is not None else "",
        "Explanation": f"{explained}, for the {labels if labels == 'predicted' else 'given'} class",
        "Attacks": f"{', '.join(data.part('attacks').content)}; {depth}",
        "Compared": f"the {audit.count('k')} most important pixels of each map" if audit.count("k") else "",
        "Images": f"{n:,} of {there:,}, a stratified sample" if there > n else f"all {n:,}",
        "Seed": settings.text("seed"),
        "Other settings": ", ".join(text for text in other if not text.endswith(" ")),
    }
    return tuple((key, one_line(text)) for key, text in lines.items() if text)


def _explained(name: str, points: int) -> str:
    return f"{title(name)} with {points} points" if name == "ig" and points else title(name)


def _steps(data: Document, audit: Document, verdict: Document) -> tuple[Step, ...]:
    """The next steps, from values whose types have been checked."""
    settings, reasons = audit.part("settings"), verdict.part("reasons")
    known: dict[str, Any] = {"map": settings.text("map", "ig")}
    known |= {key: value for key in ("eps", "passes", "steps") if (value := settings.number(key)) is not None}
    return next_steps(
        {
            "n": data.count("n"),
            "maps": {"best": data.part("maps").text("best")},
            "attacks": {
                name: {"top_k": {"n": part.part("top_k").count("n")}} for name, part in data.parts("attacks").items()
            },
            "audit": {
                "command": audit.texts("command"),
                "images": audit.count("images"),
                "network": audit.text("network"),
                "dataset": audit.text("dataset"),
                "split": audit.text("split"),
                "settings": known,
                "verdict": {
                    "answer": verdict.text("answer"),
                    "attack": verdict.text("attack"),
                    "reasons": list(reasons.content),
                },
            },
        }
    )
