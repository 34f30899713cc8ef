"""Names of the attacks that tables and reports treat specially."""

REFERENCE = "ifia-topk"
"""The attack of the papers, on the map of the true logit; its results are shown beside the published ones."""

STRONGEST = "strongest"
"""The strongest attack, on the map of the centred logit; it decides comparisons if every run has it."""

TRUE_LOGIT = "strongest-true-logit"
"""The strongest attack on the map of the true logit."""

ENSEMBLE = "ifia-ensemble"
"""The ensemble of eight IFIA attacks of version 0.1."""

UNIVERSAL = "universal"
"""One perturbation for all images, found on training images, on the map of the centred logit."""

CONTROL = "random"
"""Random noise of the same size: how much maps change without an attack."""

DECISIVE = (STRONGEST, ENSEMBLE)
"""The attacks that decide comparisons, the first that every run has."""

HEADLINES = (REFERENCE, STRONGEST, TRUE_LOGIT, UNIVERSAL, ENSEMBLE)

ATTACK_WORDS = {
    REFERENCE: f"the reference attack ({REFERENCE})",
    STRONGEST: "the strongest attack",
    TRUE_LOGIT: "the strongest attack on the true logit",
    ENSEMBLE: f"the ensemble of attacks ({ENSEMBLE})",
    UNIVERSAL: "the universal perturbation",
    CONTROL: "random noise",
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
    return attack_of(name) == CONTROL


def control_of(name: str) -> str:
    """The random control on the map that an attack has.

    >>> control_of("strongest:gradcam"), control_of("strongest")
    ('random:gradcam', 'random')
    """
    return on_map(CONTROL, map_of(name)) if map_of(name) else CONTROL
