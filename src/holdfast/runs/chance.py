"""What the accuracy of an audit says about the network and its labels: whether it is better than guessing."""

import math

CHANCE_LEVEL = 0.05
"""Accuracy counts as chance if guessing is at least as good with this probability."""


def chance_note(right: int, n: int, classes: int) -> str:
    """A note if the accuracy is not better than guessing, else ""; by the binomial tail P(X >= right).

    >>> chance_note(9, 100, 10)
    'accuracy is at chance level: 9 of 100 predictions are right, and guessing among 10 classes gives 10 on average'
    >>> chance_note(90, 100, 10)
    ''
    """
    if n == 0 or classes < 2 or binomial_tail(right, n, 1 / classes) < CHANCE_LEVEL:
        return ""
    average = f"{n / classes:.0f}" if n / classes >= 1 else "fewer than 1"
    guessing = f"guessing among {classes} classes gives {average} on average"
    return f"accuracy is at chance level: {right} of {n} predictions are right, and {guessing}"


def binomial_tail(least: int, n: int, p: float) -> float:
    """P(X >= least) for X ~ Binomial(n, p), with 0 < p < 1.

    >>> round(binomial_tail(2, 2, 0.5), 6), binomial_tail(0, 5, 0.1)
    (0.25, 1.0)
    """
    if least <= 0:
        return 1.0
    log_p, log_q, whole = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    terms = [
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q)
        for k in range(least, n + 1)
    ]
    return min(1.0, math.fsum(terms))
