"""Typed access to JSON files: a missing value is None or empty, a value of the wrong type is an error."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import DataError
from holdfast.runs.bootstrap import Interval

MAX_TEXT = 300


@dataclass(frozen=True)
class Document:
    """An object of a JSON file; `where` names the file and the part in error messages."""

    content: Mapping[str, Any] = field(default_factory=dict)
    where: str = "summary.json"

    def number(self, key: str) -> float | None:
        """A number, or None if missing."""
        value = self.content.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number or null", value)
        return float(value)

    def count(self, key: str) -> int:
        """An integer, 0 if missing."""
        return int(self.number(key) or 0)

    def text(self, key: str, default: str = "") -> str:
        """One line of text; a number is converted to text."""
        value = self.content.get(key)
        if value is None:
            return default
        if not isinstance(value, str | int | float):
            raise self._wrong(key, "text", value)
        return one_line(str(value)) or default

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of single-line texts, empty if missing."""
        value = [] if self.content.get(key) is None else self.content[key]
        if not isinstance(value, list) or not all(isinstance(item, str | int) for item in value):
            raise self._wrong(key, "a list of texts", value)
        return tuple(one_line(str(item)) for item in value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers, empty if missing."""
        value = [] if self.content.get(key) is None else self.content[key]
        if not isinstance(value, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
            raise self._wrong(key, "a list of numbers", value)
        return tuple(float(item) for item in value)

    def interval(self, key: str) -> Interval | None:
        """Two numbers, or None if missing."""
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2 or not all(isinstance(end, int | float) for end in value):
            raise self._wrong(key, "two numbers or null", value)
        return float(value[0]), float(value[1])

    def part(self, key: str) -> "Document":
        """A nested object, empty if missing."""
        value = {} if self.content.get(key) is None else self.content[key]
        if not isinstance(value, dict):
            raise self._wrong(key, "an object", value)
        return Document(value, f"{self.where}: {key}")

    def parts(self, key: str) -> dict[str, "Document"]:
        """All objects nested in the object `key`, by name."""
        inside = self.part(key)
        return {one_line(name): inside.part(name) for name in inside.content}

    def items(self, key: str) -> tuple["Document", ...]:
        """A list of objects, empty if missing."""
        value = [] if self.content.get(key) is None else self.content[key]
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(key, "a list of objects", value)
        return tuple(Document(item, f"{self.where}: {key}") for item in value)

    def _wrong(self, key: str, what: str, value: Any) -> DataError:
        return DataError(
            f"expected {what} as {key!r} in {self.where}, got {str(value)[:80]!r}; evaluate the run again."
        )


def one_line(text: str) -> str:
    """Text for a label: control and invisible characters become spaces, and it is cut at 300 characters.

    >>> one_line("a\\tb\\u202e")
    'a b'
    """
    shown = "".join(c if c.isprintable() else " " for c in text[: MAX_TEXT + 1]).strip()
    return shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 1]}…"
