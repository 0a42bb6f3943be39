"""``majorant info``: what is in a saved model."""

from __future__ import annotations

from typing import Any

from majorant.cli.model_file import CHOICES, KINDS, TableModel, kind_saved, refuse_other_kinds
from majorant.cli.options import AsJson, Model, Verbose
from majorant.cli.output import show, show_json, show_sweep, show_table

# Coefficients shown of each class, the largest first.
SHOWN = 5


def info(model: Model, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Say what is in a saved model.

    Prints its classes, columns, settings and certificate, and the largest coefficients.

    \b
    majorant info flowers.npz
    """
    import majorant

    refuse_other_kinds(model, (*KINDS, "ChainCRF"), "predict")
    kind = kind_saved(model)
    if kind in CHOICES:
        from majorant.cli.choice import saved_choices

        choices = saved_choices(model)
        if as_json:
            show_json({"model": model, **choices.facts()})
        else:
            show(str(choices.summary))
        return
    if kind == "LinearProbe":
        probe = majorant.LinearProbe.load(model)
        facts = {**_facts(probe), "C": probe.C_, **(probe.notes_ if isinstance(probe.notes_, dict) else {})}
        if as_json:
            show_json({"model": model, **facts, "sweep": [row._asdict() for row in probe.scores_.rows]})
        else:
            _show_facts(model, facts)
            show_sweep(probe.scores_, verbose)
        return
    facts, coefficients = _of_chain(model) if kind == "ChainCRF" else _of_table(model)
    if as_json:
        show_json({"model": model, **facts, "coefficients": coefficients})
        return
    _show_facts(model, facts)
    show("\nLargest coefficients")
    for row in coefficients:
        largest = sorted(row["weights"].items(), key=lambda pair: -abs(pair[1]))[:SHOWN]
        show(f"{row['class']}: " + ", ".join(f"{name} {weight:+.3g}" for name, weight in largest))


def _of_chain(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from majorant import ChainCRF

    estimator = ChainCRF.load(path)
    states, transitions = estimator.state_features_, estimator.transition_features_
    facts = {
        "kind": "ChainCRF",
        "classes": estimator.classes_.tolist(),
        "attributes": len({attribute for attribute, _ in states}),
        "weights": len(states) + len(transitions),
        "result": str(estimator.result_),
        "gap": estimator.gap_,
        "steps": estimator.n_iter_,
        "settings": _settings(estimator),
    }
    weights: dict[Any, dict[str, float]] = {label: {} for label in estimator.classes_.tolist()}
    for (attribute, label), weight in states.items():
        weights[label][attribute] = weight
    for (before, label), weight in transitions.items():
        weights[label][f"after {before}"] = weight
    return facts, [{"class": label, "weights": of_label} for label, of_label in weights.items()]


def _of_table(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from majorant import LogisticRegression

    estimator = LogisticRegression.load(path)
    trained = TableModel.of(estimator, path)
    facts = _facts(estimator)
    if trained is None:
        names = list(getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)]))
    else:
        notes, schema = trained.notes, trained.schema
        names = schema.encoding.names
        facts |= {
            "trained_on": notes.get("trained_on"),
            "trained_by": f"majorant {notes.get('version')}",
            "rows": notes.get("rows"),
            "target": schema.target,
            "missing_values": schema.missing,
            "text_columns": schema.encoding.levels,
        }
    # Two classes share one row, which speaks for the second.
    classes = estimator.classes_ if len(estimator.coef_) > 1 else estimator.classes_[1:]
    return facts, [
        {"class": c, "intercept": b, "weights": dict(zip(names, w.tolist(), strict=True))}
        for c, b, w in zip(classes.tolist(), estimator.intercept_.tolist(), estimator.coef_, strict=True)
    ]


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


def _show_facts(title: str, facts: dict[str, Any]) -> None:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k}={v}" for k, v in value.items() if str(v) != "deprecated") or "none"
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        rows.append([name.replace("_", " "), f"{value:.3g}" if name == "gap" else str(value)])
    show_table(title, ["what", "value"], rows, left=2)
