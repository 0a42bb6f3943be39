"""How estimators look in a notebook."""

from __future__ import annotations

from typing import Any

from majorant._html import paragraph


class InNotebooks:
    """scikit-learn's diagram of an estimator and, once it is fitted, what its result says.

    Examples
    --------
    >>> from majorant import LogisticRegression
    >>> model = LogisticRegression()
    >>> "certified" in model._repr_html_()
    False
    >>> "certified to be within" in model.fit([[0.0], [1.0], [2.0]], [0, 1, 0])._repr_html_()
    True
    """

    def _repr_html_inner(self) -> str:  # what scikit-learn's _repr_html_ gives, where diagrams are wanted
        return f"{super()._repr_html_inner()}{_sentence(self)}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**settings)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += _sentence(self)
        return bundle


def _sentence(estimator: Any) -> str:
    result = vars(estimator).get("result_")
    return "" if result is None else paragraph(str(result))
