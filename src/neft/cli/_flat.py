"""Bundles of options: a dataclass stands for its fields, so that a group of options is written once."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every parameter that is a dataclass replaced by the dataclass's fields.

    >>> @dataclasses.dataclass
    ... class Size:
    ...     width: int = 3
    >>> def area(size: Size, height: int = 2): print(size.width * height)
    >>> inspect.signature(flat(area))
    <Signature (*, width: int = 3, height: int = 2)>
    >>> flat(area)(width=4, height=5)
    20
    """
    hints = typing.get_type_hints(command, include_extras=True)
    own, bundles = [], {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            bundles[parameter.name] = hint
            own += [_parameter(field, hint) for field in dataclasses.fields(hint)]
        else:
            own.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, bundle in bundles.items():
            fields = [field.name for field in dataclasses.fields(bundle)]
            values[name] = bundle(**{field: values.pop(field) for field in fields if field in values})
        command(**values)

    run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return run


def _parameter(field: dataclasses.Field, bundle: type) -> inspect.Parameter:
    hint = typing.get_type_hints(bundle, include_extras=True)[field.name]
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
