"""``majorant info``: what is in a saved model."""

from __future__ import annotations

from typing import Any

from majorant.cli.options import AsJson, Model
from majorant.cli.output import show, show_json, show_table
from majorant.cli.saved import CHOICES, KINDS, PREDICT, kind_saved, refuse_other_kinds

# Coefficients shown of each class, the largest first.
SHOWN = 5


def info(model: Model, as_json: AsJson = False) -> None:
    """Say what is in a saved model: its classes, columns, settings and certificate.

    \b
    majorant info flowers.npz
    """
    refuse_other_kinds(model, (*KINDS, "ChainCRF"), PREDICT)
    kind = kind_saved(model)
    if kind in CHOICES:
        _say_choices(model, as_json)
        return
    if kind == "LinearProbe":
        _say_probe(model, as_json)
        return
    facts, coefficients = _chain(model) if kind == "ChainCRF" else _table(model)
    if as_json:
        show_json({"model": model, **facts, "coefficients": coefficients})
        return
    rows = [[name.replace("_", " "), _spoken(value)] for name, value in facts.items()]
    show_table(model, ["what", "value"], rows, left=2)
    show("\nLargest coefficients")
    for row in coefficients:
        largest = sorted(row["weights"].items(), key=lambda pair: -abs(pair[1]))[:SHOWN]
        show(f"{row['class']}: " + ", ".join(f"{name} {weight:+.3g}" for name, weight in largest))


def _say_choices(path: str, as_json: bool) -> None:
    from majorant.cli.choosing import saved_choices

    found = saved_choices(path)
    if as_json:
        show_json({"model": path, **found.facts()})
    else:
        show(str(found.summary))


def _say_probe(path: str, as_json: bool) -> None:
    from majorant import LinearProbe
    from majorant.cli.sweeps import show_sweep

    found = LinearProbe.load(path)
    facts = {**_facts(found), "C": found.C_, **(found.notes_ if isinstance(found.notes_, dict) else {})}
    if as_json:
        show_json({"model": path, **facts, "sweep": [row._asdict() for row in found.scores_.rows]})
        return
    show_table(path, ["what", "value"], [[name.replace("_", " "), _spoken(value)] for name, value in facts.items()], 2)
    show_sweep(found.scores_)


def _chain(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from majorant import ChainCRF

    estimator = ChainCRF.load(path)
    states, steps = estimator.state_features_, estimator.transition_features_
    facts = {
        "kind": "ChainCRF",
        "classes": estimator.classes_.tolist(),
        "attributes": len({attribute for attribute, _ in states}),
        "weights": len(states) + len(steps),
        "result": str(estimator.result_),
        "gap": estimator.gap_,
        "steps": estimator.n_iter_,
        "settings": _settings(estimator),
    }
    weights: dict[Any, dict[str, float]] = {label: {} for label in estimator.classes_.tolist()}
    for (attribute, label), weight in states.items():
        weights[label][attribute] = weight
    for (before, label), weight in steps.items():
        weights[label][f"after {before}"] = weight
    return facts, [{"class": label, "weights": each} for label, each in weights.items()]


def _table(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from majorant import LogisticRegression
    from majorant.cli.trained import Trained

    estimator = LogisticRegression.load(path)
    trained = Trained.of(estimator, path)
    if trained is None:
        names = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)])
        return _facts(estimator), _coefficients(estimator, list(names))
    notes, schema = trained.notes, trained.schema
    more = {
        "trained_on": notes.get("trained_on"),
        "trained_by": f"majorant {notes.get('version')}",
        "rows": notes.get("rows"),
        "target": schema.target,
        "missing_values": schema.missing,
        "text_columns": schema.encoding.levels,
    }
    return _facts(estimator) | more, _coefficients(estimator, schema.encoding.names)


def _settings(estimator: Any) -> dict[str, Any]:
    return {k: v for k, v in estimator.get_params().items() if v is not None and k not in ("callbacks", "verbose")}


def _facts(estimator: Any) -> dict[str, Any]:
    return {
        "kind": type(estimator).__name__,
        "classes": estimator.classes_.tolist(),
        "features": estimator.n_features_in_,
        "result": str(estimator.result_),
        "gap": estimator.gap_,
        "steps": int(estimator.n_iter_[0]),
        "settings": _settings(estimator),
    }


def _coefficients(estimator: Any, names: list[str]) -> list[dict[str, Any]]:
    """Return the weights by class; two classes share one row, which speaks for the second."""
    classes = estimator.classes_ if len(estimator.coef_) > 1 else estimator.classes_[1:]
    return [
        {"class": c, "intercept": b, "weights": dict(zip(names, w.tolist(), strict=True))}
        for c, b, w in zip(classes.tolist(), estimator.intercept_.tolist(), estimator.coef_, strict=True)
    ]


def _spoken(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
