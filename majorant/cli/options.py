"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Wanted

READING = "Reading the file"
# As the help lists them: to ask the estimators would load everything, which help must not. A test holds them together.
SOLVERS = ("auto", "bbm", "sbm", "sbm-lowrank", "proximal", "lbfgs", "newton", "sgd", "asgd")
CHAIN_SOLVERS = ("auto", "proximal", "sbm", "bbm", "lbfgs")

READABLE = "CSV, TSV, Parquet, svmlight or npz, also packed; - is standard input"

Data: TypeAlias = Annotated[str, typer.Argument(metavar="DATA", help=f"{READABLE}.")]
ManyData: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help=f"{READABLE}. Several are one table; so are the files that match a pattern, or the .parquet files in and "
        "below a folder.",
    ),
]
Model: TypeAlias = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model that majorant fit, choice or probe has written.")
]
Target: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of the labels; svmlight and npz need none.")
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="csv, tsv, parquet, svmlight or npz, if the name of the file does not say.",
        rich_help_panel=READING,
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="CHAR", help="Of CSV: a character, tab or space; found by default.", rich_help_panel=READING),
]
Header: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of CSV names the columns; without, they are c1, c2, and so on.",
        show_default=False,
        rich_help_panel=READING,
    ),
]
Decimal: TypeAlias = Annotated[
    str, typer.Option(metavar="CHAR", help="Mark before a fraction in CSV: . or ,", rich_help_panel=READING)
]
Encoding: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Of text: utf-8, latin-1, utf-16 and so on.", rich_help_panel=READING)
]
Comment: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PREFIX", help="Lines of CSV that begin so are skipped.", rich_help_panel=READING)
]
Missing: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="RULE", help="Missing values: error, mean (fill in) or drop (the row).", rich_help_panel=READING
    ),
]
Features: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLS", help="Columns to use, as a,b,c; all by default.", rich_help_panel=READING)
]
Drop: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLS", help="Columns to leave out, as id,name.", rich_help_panel=READING)
]
Categorical: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLS",
        help="Columns whose values are categories, even if they look like numbers, as a,b.",
        rich_help_panel=READING,
    ),
]
Standardize: TypeAlias = Annotated[
    bool, typer.Option("--standardize", help="Bring numbers to mean 0, deviation 1 first.", rich_help_panel=READING)
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
FeaturesName: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of the features of a probe, in a file of several.", rich_help_panel=READING),
]
LabelsName: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The same for the labels.", rich_help_panel=READING),
]


@dataclass(frozen=True)
class TableReading:
    """How tables are read: options that several commands have, in a parameter of this type."""

    format: Format = None
    delimiter: Delimiter = None
    header: Header = None
    decimal: Decimal = "."
    encoding: Encoding = "utf-8"
    comment: Comment = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that say something else than usually."""
        return {name: value for name, value in vars(self).items() if value != getattr(TableReading(), name)}

    def source(self, *paths: str) -> Tables:
        """Return files to be read so, as one table; a path may be a pattern, or a folder of Parquet files."""
        from majorant.cli.readers import Files, Source, files_of

        found = [Source(file, **vars(self)) for path in paths for file in files_of(path)]
        return found[0] if len(found) == 1 else Files(tuple(found))


@dataclass(frozen=True)
class Learning:
    """What is learnt from a table: options of the commands that train, in a parameter of this type."""

    features: Features = None
    drop: Drop = None
    categorical: Categorical = None
    missing: Missing = None
    standardize: Standardize = False

    def wanted(self, target: str | None, weight: str | None = None) -> Wanted:
        """Return what to learn, for a target."""
        from majorant.cli.schema import Wanted

        features, drop, categorical = (listed(each) for each in (self.features, self.drop, self.categorical))
        return Wanted(target, weight, features, drop, self.missing or "error", self.standardize, categorical)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of its parameters that are dataclasses as options of their own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @functools.wraps(command)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    options = [option for each in inspect.signature(command).parameters.values() for option in _options(each, hints)]
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _options(parameter: inspect.Parameter, hints: dict[str, Any]) -> list[inspect.Parameter]:
    """Return what a parameter stands for: itself, or the fields of its dataclass."""
    hint, kind = hints[parameter.name], inspect.Parameter.KEYWORD_ONLY
    if not is_dataclass(hint):
        return [parameter.replace(annotation=hint, kind=kind)]
    types = get_type_hints(hint, include_extras=True)
    return [
        inspect.Parameter(each.name, kind, default=each.default, annotation=types[each.name]) for each in fields(hint)
    ]


def either(names: tuple[str, ...]) -> str:
    """Return names as help lists them.

    Examples
    --------
    >>> either(("a", "b", "c"))
    'a, b or c'
    """
    return f"{', '.join(names[:-1])} or {names[-1]}"


def all_listed(texts: list[str] | None) -> list[str]:
    """Return the names in several such lists."""
    return [name for text in texts or () for name in listed(text)]


def listed(text: str | None) -> list[str]:
    """Return the names in a comma-separated list."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
