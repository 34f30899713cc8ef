"""Rows as a pandas data frame. pandas is not required by holdfast; it is loaded only here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import expected
from holdfast.runs.rows import AFTER_SCORES, BEFORE_SCORES, ExampleRow, metrics_of

if TYPE_CHECKING:
    from pandas import DataFrame


def rows_to_dataframe(rows: Sequence[ExampleRow]) -> "DataFrame":
    """One row per attack and example: what is in `examples.csv`, with missing scores as NaN."""
    try:
        import pandas as pd
    except ImportError:
        raise expected("pandas, which makes the data frame", got="no such package", fix="pip install pandas") from None
    metrics = metrics_of(rows)
    records = [
        {name: getattr(row, name) for name in BEFORE_SCORES}
        | {name: row.score(name) for name in metrics}
        | {name: getattr(row, name) for name in AFTER_SCORES}
        for row in rows
    ]
    return pd.DataFrame(records, columns=[*BEFORE_SCORES, *metrics, *AFTER_SCORES]).astype(
        dict.fromkeys(metrics, float)
    )
