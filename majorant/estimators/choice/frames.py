"""Choice models from data frames, pandas or polars, long or wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.choice.long import LongLayout
from majorant.estimators.choice.terms import Term, refuse_none
from majorant.estimators.choice.wide import WideLayout

FrameLayout = LongLayout | WideLayout


class ChoiceFrames:
    """``from_long`` and ``from_wide``, for a conditional logit."""

    _layout: FrameLayout | None = None

    @classmethod
    def from_long(
        cls,
        df: Any,
        *,
        choice: str,
        group: str,
        alternative: str | None = None,
        features: Sequence[str] = (),
        by_alternative: Sequence[str] = (),
        base: Any = None,
        constants: bool | None = None,
        availability: str | None = None,
        sample_weight: str | None = None,
        offset: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each alternative of each choice situation.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        choice, group, alternative : str
            Columns: 1 (or True) where a row was chosen, the choice situation, and which alternative a row is.
        features : list of str
            Columns with one coefficient for all alternatives.
        by_alternative : list of str
            Columns with a coefficient for each alternative; of one that is constant within every group (an income,
            say) for each but the base.
        base : label, optional
            The alternative that others are compared with; the first if not given.
        constants : bool, optional
            Whether alternatives but the base have a constant; if not given, they do where ``alternative`` is.
        availability, sample_weight, offset : str, optional
            Columns: 0 where an alternative was not available, weights of situations, numbers added to θᵀx.
        **settings
            Of the estimator, such as ``C=``.

        Returns
        -------
        estimator
            Fitted; from now on it takes data frames like this one.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import ConditionalLogit
        >>> trips = pd.DataFrame(
        ...     {
        ...         "trip": [1, 1, 2, 2, 3, 3, 4, 4],
        ...         "mode": ["car", "bus"] * 4,
        ...         "price": [9, 4, 8, 2, 7, 6, 5, 4],
        ...         "chosen": [1, 0, 0, 1, 1, 0, 0, 1],
        ...     }
        ... )
        >>> columns = dict(choice="chosen", group="trip", alternative="mode", features=["price"])
        >>> model = ConditionalLogit.from_long(trips, **columns)
        >>> model.param_names_, model.predict(trips)
        (['(Intercept):car', 'price'], array([0, 1, 0, 1, 1, 0, 1, 0]))
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
        return cls(**settings)._fit_frame(layout, df, sample_weight)

    @classmethod
    def from_wide(
        cls,
        df: Any,
        *,
        choice: str,
        alternatives: Any,
        varying: Mapping[str, Mapping[Any, Any]] | None = None,
        by_alternative: Sequence[str] = (),
        fixed: Sequence[str] = (),
        availability: Mapping[Any, str] | None = None,
        base: Any = None,
        constants: bool = True,
        sample_weight: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each choice situation.

        Situations that look alike are written out once, however many there are.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        choice : str
            The column that says what was chosen.
        alternatives : list, or dict
            What may be chosen, as that column has it; a dict gives names to the alternatives.
        varying : dict of dicts, optional
            For the name of each coefficient, and each alternative that it is for, a column, or a number where all
            situations are alike: ``{"time": {"car": "CAR_TT", "train": "TRAIN_TT"}}``.
        by_alternative : list of str
            Names in ``varying`` with a coefficient for each alternative instead of one for all.
        fixed : list of str
            Columns that describe the situation or the person: a coefficient for each alternative but the base.
        availability : dict, optional
            For alternatives that are not always available, the column that is 0 where they are not.
        base : label, optional
            The alternative that others are compared with; the first if not given.
        constants : bool
            Whether alternatives but the base have a constant.
        sample_weight : str, optional
            The column of weights.
        **settings
            Of the estimator, such as ``C=``.

        Returns
        -------
        estimator
            Fitted; from now on it takes data frames like this one.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import ConditionalLogit
        >>> trips = pd.DataFrame({"went": ["car", "bus"] * 2, "car_price": [9, 8, 7, 5], "bus_price": [4, 2, 6, 4]})
        >>> price = {"car": "car_price", "bus": "bus_price"}
        >>> model = ConditionalLogit.from_wide(trips, choice="went", alternatives=list(price), varying={"price": price})
        >>> model.param_names_, model.predict_proba(trips).shape
        (['(Intercept):bus', 'price'], (4, 2))
        """
        layout = WideLayout.learn(
            choice=choice,
            alternatives=alternatives,
            varying=varying or {},
            by=by_alternative,
            fixed=fixed,
            availability=availability or {},
            base=base,
            constants=constants,
        )
        return cls(**settings)._fit_frame(layout, df, sample_weight)

    def _refuse_offset(self, offset: Any) -> None:
        if offset is not None:
            raise ValueError(
                "offset is for arrays: a model of data frames takes it from the column that from_long(…, offset=) named"
            )

    def _fit_frame(self: Any, layout: FrameLayout, df: Any, weight: str | None) -> Any:
        with all_or_nothing(self):
            self._check_settings()
            refuse_none(layout.terms)
            sample, table = layout.sample(df, weight)
            self.n_features_in_ = len(layout.names)
            self._fit_sample(sample, layout.names)
            self._layout, self._table = layout, None if table is None else table.without_rows()
        return self


def layout_from(saved: dict[str, Any], names: list[str]) -> FrameLayout:
    """Return a layout that was saved, if its coefficients have these names."""
    try:
        layout = _layout_of(saved)
        whole = layout.names == names and layout.is_whole()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"it says of data frames {saved!r:.80}, which does not go with its coefficients")
    return layout


def _layout_of(saved: dict[str, Any]) -> FrameLayout:
    kind, fields = saved["kind"], {name: _tuple(value) for name, value in saved.items() if name != "kind"}
    fields["terms"] = tuple(Term(term["name"], _tuple(term["alternatives"])) for term in saved["terms"])
    return {"long": LongLayout, "wide": WideLayout}[kind](**fields)


def _tuple(value: Any) -> Any:
    return tuple(_tuple(each) for each in value) if isinstance(value, list | tuple) else value
