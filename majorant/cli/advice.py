"""What to do about a refusal, in the flags of the command line: the only place that says so."""

from __future__ import annotations

from majorant.cli import refusals

MARK = "say --decimal , (or .) if that is the mark before a fraction; marks between thousands are not read"

# With the fields of the refusal filled in.
ADVICE: dict[type[Exception], str] = {
    refusals.MissingValue: "say --missing mean to fill it in, or --missing drop to leave such rows out",
    refusals.MissingInChoice: "complete it, or leave out its situation; where an alternative was not available, it may "
    "lack anything but names: --availability is for the column that is 0 there",
    refusals.MissingLabel: "say --missing drop to leave such rows out",
    refusals.NoTarget: "say which with --target",
    refusals.Nameless: "leave out --target, --weight, --features, --drop and --categorical",
    refusals.NoHeader: "say --no-header to call them c1, c2, … or --header if these are the names",
    refusals.NotText: "say --encoding if it is text of another kind, such as latin-1 or utf-16",
    refusals.Packed: "{remedy}",
    refusals.NotANumber: "mend that cell, or empty it if its value is missing",
    refusals.OtherNotation: MARK,
    refusals.StrayWord: "mend that cell, empty it if its value is missing, or say --categorical {column!r} if its "
    "values are categories",
    refusals.EmptyColumn: "leave it out with --drop {column!r}",
    refusals.UnusableType: "leave it out with --drop {column}",
    refusals.NameOfRows: "leave it out with --drop {column}, or list the columns to use with --features",
    refusals.NumbersAsText: f"{MARK}; or leave it out with --drop {{column}}, or choose it as text with --features",
    refusals.NumbersAsTextWarning: MARK,
    refusals.NamelessWarning: "give it another name in the file to use it",
    refusals.UnevenRowComment: "say --comment '{mark}' if lines that begin so are comments",
    refusals.UnevenComment: "say --skip '#' if lines that begin so are comments, as in CoNLL-U",
}


def explain(problem: Exception | str) -> str:
    """Return what is wrong and, where that is known, what to do about it.

    Examples
    --------
    >>> explain(refusals.MissingLabel("t.csv", 7))
    'row 7 of t.csv has no label; say --missing drop to leave such rows out'
    """
    advice = ADVICE.get(type(problem)) if isinstance(problem, Exception) else None
    return str(problem) if advice is None else f"{problem}; {advice.format(**vars(problem))}"
