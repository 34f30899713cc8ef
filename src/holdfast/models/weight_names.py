"""Puts a state dict into a network, although wrappers have changed the names of its tensors.

`DataParallel` adds `module.`, `torch.compile` adds `_orig_mod.`, a Lightning module adds the name of its attribute, and
a wrapper of the user's own may have been there when the weights were saved or be there now. Every way to take such
prefixes off, or to put the network's own prefix on, is tried; the names then have to agree exactly.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from holdfast.errors import DataError

PREFIXES = ("module.", "model.", "_orig_mod.", "net.", "network.", "backbone.")
INSIDE = ("_orig_mod.", "module.")
"""Parts that wrappers of single layers leave in the middle of a name."""

OPTIONAL = "num_batches_tracked"
"""Buffers of batch norm that old files lack; evaluation does not use them."""

SHOWN = 5
"""How many names of each kind an error lists."""


@dataclass(frozen=True)
class Unlike:
    """A tensor of the same name in network and file that cannot be copied: another shape, or whole numbers."""

    name: str
    network: Tensor
    file: Tensor

    def __str__(self) -> str:
        return f"{self.name} is {_form(self.file)} in the file and {_form(self.network)} in the network"


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """How the tensors of a file differ from those of a network."""

    missing: tuple[str, ...]
    left_over: tuple[str, ...]
    unlike: tuple[Unlike, ...]

    @property
    def size(self) -> int:
        """Number of tensors that do not fit."""
        return len(self.missing) + len(self.left_over) + len(self.unlike)

    def __str__(self) -> str:
        kinds = {"missing": self.missing, "left over": self.left_over, "of another shape": self.unlike}
        return ", ".join(f"{len(found)} {kind} ({_some(found)})" for kind, found in kinds.items() if found)


@dataclass(frozen=True, kw_only=True)
class Match:
    """The network that the tensors of a file belong to, and the name there of each tensor of the file."""

    target: nn.Module
    names: dict[str, str]


def match_names(targets: Sequence[nn.Module], tensors: Mapping[str, Tensor], name: str) -> Match:
    """Find the first of `targets` whose names and shapes the tensors have; `name` is that of the file.

    >>> match_names([nn.Linear(3, 2)], {f"module.{key}": value for key, value in nn.Linear(3, 2).state_dict().items()},
    ...             "w.pt").names
    {'module.weight': 'weight', 'module.bias': 'bias'}
    """
    tried: list[tuple[int, int, Mismatch]] = []  # of equally near ones, that of the innermost network is told
    for inside, target in enumerate(targets):
        own = target.state_dict()
        for renamed in _renamings(tensors, own):
            found = compare(own, renamed)
            if not found.size:
                return Match(target=target, names=dict(zip(tensors, renamed, strict=True)))
            tried.append((found.size, -inside, found))
    best = min(tried, key=lambda entry: entry[:2])[2]
    fix = _nearest_fix(best, len(tensors))
    raise DataError(f"expected the tensors of this network, got other ones in {name}: {best}; {fix}.")


def fit_weights(targets: Sequence[nn.Module], tensors: Mapping[str, Tensor], name: str) -> nn.Module:
    """Load `tensors` into the first of `targets` whose names and shapes they have; `name` is that of the file.

    >>> layer = nn.Linear(3, 2)
    >>> saved = {f"module._orig_mod.{key}": value for key, value in nn.Linear(3, 2).state_dict().items()}
    >>> fit_weights([layer], saved, "w.pt") is layer
    True
    """
    found = match_names(targets, tensors, name)
    renamed = {found.names[key]: value for key, value in tensors.items()}
    found.target.load_state_dict({**found.target.state_dict(), **renamed})
    return found.target


def compare(own: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> Mismatch:
    """The difference between the tensors of a network and those of a file."""
    shared = [Unlike(key, own[key], found[key]) for key in own if key in found]
    return Mismatch(
        missing=tuple(key for key in own if key not in found and key.rpartition(".")[2] != OPTIONAL),
        left_over=tuple(key for key in found if key not in own),
        unlike=tuple(pair for pair in shared if not _fits(pair)),
    )


def _fits(pair: Unlike) -> bool:
    quantised = pair.network.is_floating_point() and not pair.file.is_floating_point()
    return pair.network.shape == pair.file.shape and not quantised


def _renamings(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Iterator[Mapping[str, Tensor]]:
    """The tensors under their own names and under all names without wrappers, then with the wrapper of the network."""
    seen: set[tuple[str, ...]] = set()
    waiting = [tuple(tensors)]
    while waiting:
        names = waiting.pop(0)
        if names in seen:
            continue
        seen.add(names)
        yield dict(zip(names, tensors.values(), strict=True))
        starts = map(_without_start, _common_starts(names)[:1])  # the attribute of a wrapper of the user's own
        renamed = [tuple(map(change, names)) for change in (*_CHANGES, *starts)]
        waiting += [others for others in renamed if len(set(others)) == len(others)]
    for start in _common_starts(tuple(own)):
        for names in seen:
            yield {f"{start}{name}": value for name, value in zip(names, tensors.values(), strict=True)}


def _without_start(prefix: str) -> Callable[[str], str]:
    return lambda name: name.removeprefix(prefix)


def _without_inside(part: str) -> Callable[[str], str]:
    return lambda name: name.replace(f".{part}", ".")


_CHANGES = (*map(_without_start, PREFIXES), *map(_without_inside, INSIDE))


def _common_starts(names: Sequence[str]) -> list[str]:
    """Prefixes of one or two parts that all names have, such as `model.`.

    >>> _common_starts(["model.conv.weight", "model.conv.bias"])
    ['model.', 'model.conv.']
    """
    starts = []
    for parts in (1, 2):
        found = {".".join(name.split(".")[:parts]) + "." for name in names}
        if len(found) == 1 and all(name.count(".") >= parts for name in names):
            starts.append(found.pop())
    return starts


def _nearest_fix(found: Mismatch, count: int) -> str:
    """What most likely makes the weights fit."""
    if found.unlike and not found.missing and not found.left_over:
        return _fix_of_shapes(found.unlike)
    if found.left_over and set(found.left_over) <= {"mean", "std"} and not found.missing:
        return "the file holds the normalisation of its network: pass the same mean and std"
    if len(found.left_over) == count:
        return "no name agrees, so check that the file belongs to this network"
    if found.left_over and not found.missing and not found.unlike:
        return "build the network with the layers that are left over, or save only its own weights"
    return "check that the file belongs to this network and that it is built with the same options"


def _fix_of_shapes(unlike: Sequence[Unlike]) -> str:
    pairs = [(list(pair.network.shape), list(pair.file.shape)) for pair in unlike]
    if any(pair.network.shape == pair.file.shape for pair in unlike):
        return "the file has quantised weights: save them in floating point"
    if len(pairs) <= 2 and all(ours[1:] == theirs[1:] for ours, theirs in pairs):
        return f"the last layer of the file has {pairs[0][1][0]} classes: build with num_classes={pairs[0][1][0]}"
    if len(pairs) == 1 and len(pairs[0][1]) == 4 == len(pairs[0][0]) and pairs[0][0][2:] == pairs[0][1][2:]:
        channels = pairs[0][1][1]
        return f"the first layer of the file takes {channels} channels: build with in_channels={channels}"
    return "build the network with the sizes it was trained with"


def _form(tensor: Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    return shape if tensor.is_floating_point() else f"{shape} ({str(tensor.dtype).removeprefix('torch.')})"


def _some(found: Sequence[object]) -> str:
    return ", ".join(map(str, found[:SHOWN])) + (", ..." if len(found) > SHOWN else "")
