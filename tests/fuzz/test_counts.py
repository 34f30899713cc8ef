"""The long form is as long as is promised."""

import re
from pathlib import Path

from tests.fuzz.material import COUNTS, VOLUME
from tests.fuzz.test_volume import DOORS


def test_a_hundred_thousand_inputs() -> None:
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    used = [name for text in texts for name in re.findall(r'@fuzzed\("(.+)"\)', text)]
    assert set(used) == set(COUNTS)
    assert sum(COUNTS[name] for name in used) + VOLUME * len(DOORS) >= 100_000
