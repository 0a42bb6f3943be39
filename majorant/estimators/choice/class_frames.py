"""Latent class models from long data frames, pandas or polars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.choice.long import LongLayout
from majorant.estimators.choice.panel import People, read_people
from majorant.estimators.choice.terms import column_of, numbers_of, refuse_none


class LatentFrames:
    """``from_long``, for latent classes."""

    @classmethod
    def from_long(
        cls,
        df: Any,
        *,
        choice: str,
        group: str,
        person: str | None = None,
        alternative: str | None = None,
        features: Sequence[str] = (),
        by_alternative: Sequence[str] = (),
        base: Any = None,
        constants: bool | None = None,
        availability: str | None = None,
        membership: Sequence[str] = (),
        sample_weight: str | None = None,
        offset: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each alternative of each choice situation.

        Later calls, such as ``predict_proba``, take X with a column for each coefficient of a class.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        person : str, optional
            The column that says who made a choice; if not given, every choice is another person's.
        membership : list of str
            Columns of what is known of people: the same in all rows of a person.
        sample_weight : str, optional
            The column of weights of people.
        choice, group, alternative, features, by_alternative, base, constants, availability, offset
            As for :meth:`~majorant.ConditionalLogit.from_long`.
        **settings
            Of the estimator, such as ``n_classes=``.

        Returns
        -------
        estimator
            Fitted.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import LatentClassLogit
        >>> rng = np.random.default_rng(0)
        >>> row, price = np.arange(240), rng.normal(size=240)
        >>> trips = pd.DataFrame({"price": price, "trip": row // 2, "who": row // 12})
        >>> taste = np.where(trips.who % 2, 3.0, -3.0)  # of every second person the opposite
        >>> utility = (taste * trips.price + rng.gumbel(size=240)).to_numpy().reshape(-1, 2)
        >>> trips["chosen"] = (utility == utility.max(axis=1, keepdims=True)).ravel().astype(int)
        >>> columns = dict(choice="chosen", group="trip", person="who", features=["price"])
        >>> LatentClassLogit.from_long(trips, **columns, n_init=2).shares_.round(1)
        array([0.5, 0.5])
        """
        layout = LongLayout.learn(
            df,
            choice=choice,
            group=group,
            alternative=alternative,
            features=features,
            by=by_alternative,
            base=base,
            constants=constants,
            availability=availability,
            offset=offset,
        )
        return cls(**settings)._fit_frame(layout, df, person, membership, sample_weight)

    def _fit_frame(
        self: Any, layout: LongLayout, df: Any, person: str | None, membership: Sequence[str], weight: str | None
    ) -> Any:
        with all_or_nothing(self):
            self._check_settings()
            refuse_none(layout.terms)
            self.n_features_in_ = len(layout.names)
            self._fit_people(_people(layout, df, person, membership, weight), layout.names)
        self._warn()
        return self


def _people(layout: LongLayout, df: Any, person: str | None, membership: Sequence[str], weight: str | None) -> People:
    """Return who chose what."""
    persons = None if person is None else column_of(df, person, "person")
    known = [numbers_of(df, name, "membership") for name in membership]
    weights = None if weight is None else numbers_of(df, weight, "sample_weight")
    Z = np.column_stack(known) if known else None
    people = read_people(layout.situations(df), layout.chosen(df), persons, Z, layout.measure(df), weights)
    return replace(people, covariates=[str(name) for name in membership])
