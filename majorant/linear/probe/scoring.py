"""A probe as a layer of PyTorch.

What a sweep has found, as a table: text, HTML in notebooks, a data frame, or a figure.

Probes as files: a NumPy archive, or safetensors under the names that a layer of PyTorch has for them.

How well a fit does on rows that it has not seen, and when a sweep has clearly passed its best.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from majorant.core.checks import Array, needed, new_axes
from majorant.core.files import replacing
from majorant.core.result import table
from majorant.estimators.saving import Field, check_arrays, fact, readable
from majorant.linear.probe.features import Split, in_chunks, losses_and_best, take


def linear_layer(probe: Any) -> Any:
    """Return ``torch.nn.Linear`` with the weights of a probe; no random numbers are drawn for them first."""
    torch = needed("torch", "head()", "torch")
    weight, bias = (torch.as_tensor(each) for each in two_sided(probe))
    classes, columns = weight.shape
    layer = torch.nn.utils.skip_init(
        torch.nn.Linear, columns, classes, bias=bool(probe.fit_intercept), dtype=weight.dtype
    )
    with torch.no_grad():
        layer.weight.copy_(weight)
        if probe.fit_intercept:
            layer.bias.copy_(bias)
    return layer


class Row(NamedTuple):
    """One C of a sweep.

    ``gap`` is certified; ``estimate`` is what the last steps foretell that there is left to gain, relative to F, and
    certifies nothing. Either is NaN where it says nothing.
    """

    C: float
    score: float
    loss: float
    gap: float
    estimate: float
    passes: float
    seconds: float


class SweepTable(Mapping[str, Array]):
    """One row for each C that was fitted, from the smallest on; ``table["score"]`` is a column.

    Examples
    --------
    >>> table = SweepTable([Row(0.1, 0.7, 0.9, 1e-5, 1e-6, 4.0, 0.1), Row(1.0, 0.8, 0.6, np.nan, 2e-5, 9.0, 0.2)], 1)
    >>> table["score"]
    array([0.7, 0.8])
    >>> print(table)
         C  score  loss    gap  estimate  passes  seconds
       0.1    0.7   0.9  1e-05     1e-06       4      0.1
    *    1    0.8   0.6            2e-05       9      0.2
    """

    def __init__(self, rows: Sequence[Row], best: int) -> None:
        self.rows, self.best = tuple(rows), best

    @classmethod
    def of(cls, columns: Mapping[str, Array], best: int) -> SweepTable:
        """Return the table of these columns."""
        values = zip(*(columns[name] for name in Row._fields), strict=True)
        return cls([Row(*map(float, each)) for each in values], best)

    def __getitem__(self, name: str) -> Array:
        if name not in Row._fields:
            raise KeyError(f"{name!r}; the table has {', '.join(Row._fields)}")
        return np.array([getattr(row, name) for row in self.rows])

    def __iter__(self) -> Iterator[str]:
        return iter(Row._fields)

    def __len__(self) -> int:
        return len(Row._fields)

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        return needed("pandas", "to_frame()", "frames").DataFrame(self.rows, columns=list(Row._fields))

    def cells(self) -> list[tuple[str, ...]]:
        """Return the numbers as they are printed."""
        return [tuple("" if np.isnan(value) else f"{value:.4g}" for value in row) for row in self.rows]

    def __str__(self) -> str:
        cells = [("", *Row._fields), *(("*" if k == self.best else "", *row) for k, row in enumerate(self.cells()))]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (" ".join([row[0].ljust(1), *map(str.rjust, row[1:], (w + 1 for w in widths[1:]))]) for row in cells)
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(Row._fields, self.cells(), marked=self.best)

    def plot(self, ax: Any = None, metric: str = "score") -> Any:
        """Draw score and held-out loss over C, the best marked; return the axes. Needs matplotlib."""
        axis = new_axes() if ax is None else ax
        C, best = self["C"], self.rows[self.best]
        # Labels have the colours of their curves: a legend would cover one of the two, or the user's title.
        axis.plot(C, self["score"], color="#0072B2", marker="o", ms=3)
        axis.plot([best.C], [best.score], color="#D55E00", marker="o", ls="")
        axis.set(xscale="log", xlabel=f"C (best: {best.C:.3g}, orange)")
        axis.set_ylabel(f"held-out {metric}", color="#0072B2")
        beside = axis.twinx()
        beside.plot(C, self["loss"], color="#707070", ls="--")
        beside.set_ylabel("held-out loss (dashed)", color="#707070")
        return axis


FORMAT = "majorant probe"
ENDING = ".safetensors"
WHAT = "safetensors file of a probe"


def write_safetensors(probe: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a fitted probe to a file that PyTorch reads as the layer of :func:`linear_layer`."""
    beside = {name: each for name, each in arrays.items() if name not in ("coef", "intercept")}
    header = {"facts": facts, **{name: [each.dtype.str, each.tolist()] for name, each in beside.items()}}
    weight, bias = two_sided(probe)
    tensors = {"weight": np.ascontiguousarray(weight), "bias": bias.astype(weight.dtype)}
    with replacing(path) as temporary:
        _safetensors().save_file(tensors, temporary, {"format": FORMAT, "probe": json.dumps(header)})


def read_safetensors(path: Any, fields: Mapping[str, Field]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and arrays of a probe that :func:`write_safetensors` wrote."""
    _safetensors()
    from safetensors import safe_open

    with readable(WHAT):
        file: Any = safe_open(path, framework="numpy")
    with file:
        with readable(WHAT):
            header = json.loads((file.metadata() or {}).get("probe", "null"))
        if header is None:
            raise ValueError("it holds tensors, but no probe that majorant has saved")
        with readable(WHAT):
            weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
            if len(weight) == 2:  # of two classes, the difference
                weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
            arrays = {"coef": weight, "intercept": bias.astype(np.float64)}
            for name in fields:
                if name in header:
                    dtype, values = header[name]
                    # Strings are as long as they are, whatever the file says.
                    kind = {"U": str, "S": bytes}.get(np.dtype(dtype).kind, dtype)
                    arrays[name] = np.array(values, dtype=kind)
    check_arrays(fields, arrays)
    return fact(header, "facts", dict), arrays


def two_sided(probe: Any) -> tuple[Array, Array]:
    """Return weights and biases with a row for each class: of two classes, half of the difference for each."""
    W = probe.coef_.toarray() if sparse.issparse(probe.coef_) else probe.coef_
    b = probe.intercept_
    return (np.vstack([-W / 2, W / 2]), np.append(-b / 2, b / 2)) if len(probe.classes_) == 2 else (W, b)


def _safetensors() -> Any:
    return needed("safetensors.numpy", f"a {ENDING} file", "safetensors")


Metric: TypeAlias = str | Callable[[Array, Array], float]
NAMED = ("accuracy", "balanced_accuracy", "loss")
# Standard errors by which a score has to be below the best one to be worse beyond chance.
CLEARLY = 2.0


def check_metric(metric: Any) -> None:
    """Refuse what is neither a known name nor a function."""
    if not (callable(metric) or (isinstance(metric, str) and metric in NAMED)):
        raise ValueError(f"metric must be one of {', '.join(map(repr, NAMED))} or a function, got {metric!r}")


def name_of(metric: Metric) -> str:
    """Return what a metric is called."""
    return metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))


@dataclass(frozen=True, eq=False)
class Score:
    """A score (higher is better), the mean held-out loss, and what each row adds to the score, where it is a mean.

    A score that is NaN is below all others.
    """

    value: float
    loss: float
    of_rows: Array | None

    def beats(self, other: Score | None) -> bool:
        """Return whether it is better; of equal scores, which few rows have often, the lower loss is."""
        return other is None or (self._rank, -self.loss) > (other._rank, -other.loss)

    def is_clearly_below(self, best: Score) -> bool:
        """Return whether it is worse beyond chance, row by row: the same rows were scored."""
        if self.of_rows is None or best.of_rows is None:
            return self._rank < best._rank
        apart = best.of_rows - self.of_rows
        return bool(apart.mean() > CLEARLY * apart.std() / np.sqrt(len(apart)))

    @property
    def _rank(self) -> float:
        return -np.inf if np.isnan(self.value) else self.value


def score(model: Any, split: Split, metric: Metric) -> Score:
    """Return how well a fitted model does on the rows that are held out."""
    losses, best = np.empty(len(split.codes)), np.empty(len(split.codes), dtype=np.int64)
    for some in in_chunks(len(losses), max(len(split.classes), split.X_held.shape[1])):
        found = model.decision_function(take(split.X_held, some))
        losses[some], best[some] = losses_and_best(found, split.codes[some])
    if callable(metric):
        found = metric(split.held_labels, split.classes[best])
        try:
            return Score(float(found), float(losses.mean()), None)
        except (TypeError, ValueError):
            raise ValueError(f"metric must return a number, got {found!r:.80} from {name_of(metric)}") from None
    of_rows = _of_rows(metric, losses, best == split.codes, split.codes)
    return Score(float(of_rows.mean()), float(losses.mean()), of_rows)


def _of_rows(metric: str, losses: Array, right: Array, codes: Array) -> Array:
    """Return what each row adds to a score that is their mean."""
    if metric == "loss":
        return -losses
    if metric == "accuracy":
        return right.astype(np.float64)
    sizes = np.bincount(codes)
    return right * (len(codes) / np.count_nonzero(sizes) / sizes[codes])


@dataclass
class Turning:
    """Tells when a sweep has passed its best: so many scores in a row are worse than the best one beyond chance."""

    patience: int | None
    best: Score | None = None
    _below: int = 0

    def add(self, found: Score) -> bool:
        """Take down a score; return whether it is the best so far."""
        better = found.beats(self.best)
        self._below = self._below + 1 if self.best is not None and found.is_clearly_below(self.best) else 0
        self.best = found if better or self.best is None else self.best
        return better

    @property
    def is_over(self) -> bool:
        """Whether nothing better is to come."""
        return self.patience is not None and self._below >= self.patience
