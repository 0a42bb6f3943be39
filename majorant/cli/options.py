"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Wanted

READING = "Reading the file"
# As the help lists them: to ask the estimators would load everything, which help must not. A test holds them together.
SOLVERS = ("auto", "bbm", "sbm", "sbm-lowrank", "proximal", "scipy-lbfgs", "newton", "sgd", "asgd")
CHAIN_SOLVERS = ("auto", "proximal", "sbm", "bbm", "lbfgs")
# Old spellings of options, which still work.
RENAMED = {"choice": {"--out": "--model", "-o": "-m"}, "probe": {"--share": "--test-size"}}


def option(help: str, metavar: str | None = None, *names: str, panel: str | None = None, **settings: Any) -> Any:
    """Return an option as typer takes it; without names it is called as its parameter is."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **settings)


def argument(help: str, metavar: str) -> Any:
    """Return an argument as typer takes it."""
    return typer.Argument(metavar=metavar, help=help)


reading = functools.partial(option, panel=READING)

READABLE = "CSV, TSV, Parquet, svmlight or npz, also packed; - is standard input"
SEVERAL = "Several are one table; so are the files that match a pattern, or the .parquet files in and below a folder."
Data: TypeAlias = Annotated[str, argument(f"{READABLE}.", "DATA")]
ManyData: TypeAlias = Annotated[list[str], argument(f"{READABLE}. {SEVERAL}", "DATA")]
Model: TypeAlias = Annotated[str, argument("A model that majorant fit, choice or probe has written.", "MODEL")]
Target: TypeAlias = Annotated[str | None, option("Column of the labels; svmlight and npz need none.", "COL")]
Names: TypeAlias = list[str] | None
Encoding: TypeAlias = Annotated[str, reading("Of text: utf-8, latin-1, utf-16 and so on.", "NAME")]
Missing: TypeAlias = Annotated[str | None, reading("Missing values: error, mean (fill in) or drop (the row).", "RULE")]
AsJson: TypeAlias = Annotated[bool, option("Print one JSON object and nothing else.", None, "--json")]
Verbose: TypeAlias = Annotated[bool, option("Print all rows of the sweep over C.", None, "--verbose", "-v")]
Standardize: TypeAlias = Annotated[
    bool,
    reading("Bring numbers to mean 0, deviation 1 first.", None, "--standardize/--no-standardize", show_default=False),
]
Seed: TypeAlias = Annotated[int, option("Of all that is random: which rows test, starts, orders.", "N")]
FeaturesName: TypeAlias = Annotated[str | None, reading("Of the features of a probe, in a file of several.", "NAME")]
LabelsName: TypeAlias = Annotated[str | None, reading("The same for the labels.", "NAME")]


@dataclass(frozen=True)
class TableReading:
    """How tables are read: options that several commands have, in a parameter of this type."""

    format: Annotated[str | None, reading("csv, tsv, parquet, svmlight or npz, if the name does not say.", "NAME")] = (
        None
    )
    delimiter: Annotated[str | None, reading("Of CSV: a character, tab or space; found by default.", "CHAR")] = None
    header: Annotated[
        bool | None,
        reading(
            "Whether the first line of CSV names the columns; without, they are c1, c2, and so on.",
            None,
            "--header/--no-header",
            show_default=False,
        ),
    ] = None
    decimal: Annotated[str, reading("Mark before a fraction in CSV: . or ,", "CHAR")] = "."
    encoding: Encoding = "utf-8"
    comment: Annotated[str | None, reading("Lines of CSV that begin so are skipped.", "PREFIX")] = None

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
    """The columns to learn from: options of the commands that train, in a parameter of this type."""

    features: Annotated[Names, reading("Columns to use, as a,b,c; all by default.", "COLS")] = None
    drop: Annotated[Names, reading("Columns to leave out, as id,name.", "COLS")] = None
    categorical: Annotated[Names, reading("Columns of categories that look like numbers, as a,b.", "COLS")] = None
    missing: Missing = None

    def wanted(self, target: str | None, standardize: bool, weight: str | None = None) -> Wanted:
        """Return the options of learning, for a target."""
        from majorant.cli.schema import Wanted

        features, drop, categorical = (listed(names) for names in (self.features, self.drop, self.categorical))
        return Wanted(target, weight, features, drop, self.missing or "error", standardize, categorical)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of its parameters that are dataclasses as options of their own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @functools.wraps(command)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            options += [
                inspect.Parameter(
                    field.name, parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
                )
                for field in fields(groups[name])
            ]
        else:
            options.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))
    vars(call)["__signature__"] = inspect.Signature(options)
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


class Command(TyperCommand):
    """A command whose help calls arguments as the usage does, without the types that typer puts beside them.

    An option that names columns takes all words up to the next option, or up to a file: ``--features price hours`` is
    ``--features price,hours``. A list with commas is complete, so that something else may follow it.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for param in self.params:
            if isinstance(param, TyperArgument):
                vars(param).update(dict.fromkeys(("display_type", "display_type_rich"), lambda ctx: ""))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        columns = {name for param in self.params if param.metavar == "COLS" for name in param.opts}
        renamed = RENAMED.get(self.name or "", {})
        words: list[str] = []
        current, taken = "", False
        for given in args:
            name, *value = given.split("=", 1)
            word = "=".join([renamed.get(name, name), *value])
            if word.startswith("-"):
                current, taken = (word if word in columns else ""), False
            elif taken and ("*" in word or Path(word).exists()):
                current = ""
            elif current:
                words += [current] * taken
                taken = True
            words.append(word)
            if "," in word:
                current = ""
        return super().parse_args(ctx, words)


def either(names: Sequence[str]) -> str:
    """Return names as help lists them.

    Examples
    --------
    >>> either(("a", "b", "c"))
    'a, b or c'
    """
    return f"{', '.join(names[:-1])} or {names[-1]}"


def listed(texts: str | Sequence[str] | None) -> list[str]:
    """Return the names in a comma-separated list, or in several such lists.

    Examples
    --------
    >>> listed("a, b,"), listed(["a,b", "c"]), listed(None)
    (['a', 'b'], ['a', 'b', 'c'], [])
    """
    lists = [texts] if isinstance(texts, str) else texts or ()
    return [name.strip() for text in lists for name in text.split(",") if name.strip()]
