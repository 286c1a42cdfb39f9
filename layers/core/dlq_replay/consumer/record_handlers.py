"""Runs the handler of one record inside a context manager. Standard library only."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypeVar, cast

Handler = TypeVar("Handler", bound=Callable[..., Any])


def within(handler: Handler, block_of: Callable[[Any], AbstractContextManager[object]]) -> Handler:
    """Wrap *handler*, synchronous or async, so that each call runs inside ``block_of(record)``.

    The record is the argument named ``record``, as Powertools passes it, or else the first.
    """
    if inspect.iscoroutinefunction(handler):

        @wraps(handler)
        async def handle(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the handler's own
            with block_of(_record_among(args, kwargs)):
                return await handler(*args, **kwargs)

    else:

        @wraps(handler)
        def handle(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the handler's own
            with block_of(_record_among(args, kwargs)):
                return handler(*args, **kwargs)

    return cast("Handler", handle)


def _record_among(args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
    return kwargs["record"] if "record" in kwargs else next(iter(args), None)
