"""Attributes that are found when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """An attribute that a method finds once, and that stays.

    Before Python 3.12 ``functools.cached_property`` lets one thread at a time find any of a class: fits that wait for
    each other (``majorant.objective.together``) would wait for ever.
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> Self | T:
        if instance is None:
            return self
        found = vars(instance)[self._name] = self._find(instance)
        return found
