"""Names of the attacks that tables and reports treat specially."""

from collections.abc import Collection

REFERENCE = "ifia-topk"
"""The attack of the papers, on the map of the true logit; its results are shown beside the published ones."""

STRONGEST = "strongest"
"""The strongest attack, on the map of the centred logit; it decides comparisons if most runs have it."""

TRUE_LOGIT = "strongest-true-logit"
"""The strongest attack on the map of the true logit."""

ENSEMBLE = "ifia-ensemble"
"""The ensemble of eight IFIA attacks of version 0.1."""

UNIVERSAL = "universal"
"""One perturbation for all images, found on training images, on the map of the centred logit."""

CONTROL = "random"
"""Random noise of the same size: how much maps change without an attack. In an evaluation it is on the map of the true
logit, in an audit on that of the attack that decides."""

CENTRED_CONTROL = "random-centred"
"""The same noise on the map of the strongest attack, that of the centred logit."""

CONTROLS = (CONTROL, CENTRED_CONTROL)

ON_CENTRED_LOGIT = (STRONGEST, UNIVERSAL)
"""The attacks on the map of the centred logit."""

DECISIVE = (STRONGEST, ENSEMBLE)
"""The attacks that decide comparisons: the first that most of the compared runs have."""

HEADLINES = (REFERENCE, STRONGEST, TRUE_LOGIT, UNIVERSAL, ENSEMBLE)

ATTACK_WORDS = {
    REFERENCE: f"the reference attack ({REFERENCE})",
    STRONGEST: "the strongest attack",
    TRUE_LOGIT: "the strongest attack on the true logit",
    ENSEMBLE: f"the ensemble of attacks ({ENSEMBLE})",
    UNIVERSAL: "the universal perturbation",
    CONTROL: "random noise",
    CENTRED_CONTROL: "random noise",
}
"""Attack -> its name in sentences."""

MAP_TITLES = {
    "ig": "integrated gradients",
    "gradient": "gradient",
    "input-x-gradient": "input x gradient",
    "smoothgrad": "SmoothGrad",
    "gradcam": "Grad-CAM",
    "gradcam++": "Grad-CAM++",
}
"""Registered map -> its name in sentences."""


def on_map(attack: str, name: str) -> str:
    """The name of an attack on a map other than the first of its audit; on the first, the attack has its plain name.

    >>> on_map("strongest", "gradcam")
    'strongest:gradcam'
    """
    return f"{attack}:{name}"


def attack_of(name: str) -> str:
    """The plain name of an attack, without the map that it attacks.

    >>> attack_of("strongest:gradcam"), attack_of("strongest")
    ('strongest', 'strongest')
    """
    return name.partition(":")[0]


def in_words(name: str) -> str:
    """An attack, on any map, in a sentence.

    >>> in_words("strongest:gradcam"), in_words("ifia-topk"), in_words("ifia-cosine")
    ('the strongest attack', 'the reference attack (ifia-topk)', 'the attack ifia-cosine')
    """
    return ATTACK_WORDS.get(attack_of(name), f"the attack {attack_of(name)}")


def map_of(name: str) -> str:
    """The map in the name of an attack; empty for the first map of its audit.

    >>> map_of("strongest:gradcam"), map_of("strongest")
    ('gradcam', '')
    """
    return name.partition(":")[2]


def is_control(name: str) -> bool:
    """Whether this is random noise, on any map."""
    return attack_of(name) in CONTROLS


def control_of(name: str, measured: Collection[str] = ()) -> str:
    """The random control on the map that an attack has; `measured` are the attacks of the run.

    For attacks on the centred logit it is noise on that map if the run has it. Older runs and audits do not.

    >>> control_of("strongest:gradcam"), control_of("strongest")
    ('random:gradcam', 'random')
    >>> [control_of(name, ["random", "random-centred"]) for name in ("strongest", "ifia-topk")]
    ['random-centred', 'random']
    """
    if is_control(name):
        return name
    plain, centred = (on_map(control, map_of(name)) if map_of(name) else control for control in CONTROLS)
    return centred if attack_of(name) in ON_CENTRED_LOGIT and centred in measured else plain
