"""A blind vote on the maps, as in the human test of the paper: which map matches the object best?

The page shows the maps of the methods without names, in a random order per example. Votes are stored under anonymous
keys; a second file, which voters must not see, maps each key to its method.
"""

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import DataError, expected
from holdfast.report.document import one_line
from holdfast.report.overlay import png_uri
from holdfast.report.page import render_page
from holdfast.report.payload import PICTURE_BYTES, to_script_json
from holdfast.report.pictures import Picture, pictures
from holdfast.report.view import RunView, Stat
from holdfast.runs.bootstrap import wilson
from holdfast.storage.json_files import read_text

STYLES = ("base.css", "vote.css")
SCRIPTS = ("heat.js", "vote.js")
_KEY_COLUMNS = ("key", "dataset", "example", "method", "run")


def vote_pages(views: Sequence[RunView], *, title: str = "", seed: int = 0) -> tuple[str, str]:
    """The page and the key file (CSV). The same seed gives the same order and the same keys."""
    shared = [picture for picture in pictures(views) if len(picture.shots) > 1]
    if not shared:
        fix = "evaluate the runs on the same examples, with pictures (panels > 0)"
        raise expected("pictures of the same examples in two runs or more", got="none", fix=fix)
    questions, keys = _questions(views, shared, seed)
    page = render_page(
        "vote.html.jinja",
        styles=STYLES,
        scripts=SCRIPTS,
        title=title or "Which map matches the object best?",
        data=to_script_json(questions),
        count=len(questions),
    )
    return page, _to_csv(keys)


def count_votes(votes: Sequence[Path], key: Path) -> dict[str, Stat]:
    """Method -> share of the votes with Wilson interval and n, over all voters; undecided votes count only in n."""
    method_of = {row["key"]: row["method"] for row in _read(key, _KEY_COLUMNS)}
    cast = [row["key"] for path in votes for row in _read(path, ("dataset", "example", "choice", "key"))]
    unknown = {name for name in cast if name and name not in method_of}
    if unknown:
        raise DataError(
            f"expected keys of {key.name} in the votes, got {sorted(unknown)[:3]}; use the page's key file."
        )
    counts, n = Counter(method_of[name] for name in cast if name), len(cast)
    methods = dict.fromkeys(method_of.values())
    return {m: Stat(median=counts[m] / n if n else None, ci95=wilson(counts[m], n), n=n) for m in methods}


def _questions(
    views: Sequence[RunView], shared: Sequence[Picture], seed: int
) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    rng = np.random.default_rng(seed)
    questions: list[dict[str, Any]] = []
    keys: list[tuple[Any, ...]] = []
    size = 0
    for picture in shared:
        order = rng.permutation(len(picture.shots))
        shots = [picture.shots[at] for at in order]
        secrets = [_key(seed, picture, views[shot.view]) for shot in shots]
        maps = [{"key": k, "map": png_uri(shot.clean_map)} for k, shot in zip(secrets, shots, strict=True)]
        question = {"dataset": picture.dataset, "id": picture.id, "clean": png_uri(picture.clean), "maps": maps}
        size += len(str(question))
        if questions and size > PICTURE_BYTES:
            break
        questions.append(question)
        named = [(views[shot.view].label, one_line(views[shot.view].run.name)) for shot in shots]
        keys += [(k, picture.dataset, picture.id, *names) for k, names in zip(secrets, named, strict=True)]
    return questions, keys


def _key(seed: int, picture: Picture, view: RunView) -> str:
    text = repr((seed, picture.dataset, picture.id, view.label, view.run.name))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _to_csv(rows: Sequence[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_KEY_COLUMNS, *rows])
    return text.getvalue()


def _read(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(read_text(path)))
    if not set(columns) <= set(reader.fieldnames or ()):
        raise DataError(f"expected the columns {', '.join(columns)} in {path}, got {reader.fieldnames}.")
    return list(reader)
