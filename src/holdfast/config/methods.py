"""A method's settings, checked against the signature of its recipe. PyTorch is loaded only when that is asked for."""

import inspect
from typing import Any, get_type_hints

from pydantic import create_model

from holdfast.config.problems import nearest, validated
from holdfast.config.schema import RunConfig, Section
from holdfast.errors import expected

_SECTION = "method.settings"


def complete(config: RunConfig) -> RunConfig:
    """The same config with every setting of its method in it, so that it depends on no default of the code."""
    settings = validated(_schema(config.method.name), config.method.settings, _SECTION)
    method = config.method.model_copy(update={"settings": settings.plain()})
    return config.model_copy(update={"method": method})


def _schema(name: str) -> type[Section]:
    """The keyword arguments of a method as a strict table."""
    from holdfast.recipes import METHODS

    if name not in METHODS:
        best = nearest(name.replace("-", "_"), METHODS)
        raise expected(f"method.name among {', '.join(METHODS)}", got=repr(name), fix=f"the nearest is {best!r}")
    hints = get_type_hints(METHODS[name])
    parameters = inspect.signature(METHODS[name]).parameters.values()
    fields: dict[str, Any] = {
        p.name: (hints[p.name], ... if p.default is p.empty else p.default)
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    }
    schema: type[Section] = create_model(name, __base__=Section, **fields)
    return schema
