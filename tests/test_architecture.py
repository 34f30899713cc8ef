"""The picture of the rooms is what the imports say."""

import importlib.util
from pathlib import Path

from tests.test_layers import IMPORTS, ROOMS, room

ROOT = Path(__file__).parents[1]


def drawing():
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_up_to_date() -> None:
    assert (ROOT / "docs" / "rooms.svg").read_text() == drawing().picture(), "run: python docs/rooms.py"


def test_it_shows_every_room_and_no_import_is_missing() -> None:
    module = drawing()
    edges = module.room_imports()
    assert set(edges) == set(ROOMS) == set(module.ROOMS)
    for name, others in IMPORTS.items():
        beyond = {room(other) for other in others} & set(ROOMS) - {room(name)}
        if room(name) in edges:
            assert beyond <= edges[room(name)], name
    reduced = module.direct(edges)
    assert all(module.reach(name, reduced) == module.reach(name, edges) for name in edges)
