"""Refusals: what is wrong with a file or an option and what to do about it, in the words of the command line."""

from __future__ import annotations

import re


class Refusal(ValueError):
    """A file or an option that cannot be used; ``hint`` says what to do about it.

    Examples
    --------
    >>> str(Refusal("row 7 of t.csv has no label", "say --missing drop to leave such rows out"))
    'row 7 of t.csv has no label; say --missing drop to leave such rows out'
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.args[0], self.hint)))


class NoRows(Refusal):
    """A file without rows, which is no fault where other files have some."""


# What sentences of the library call their arguments, and the options that set these.
OPTIONS = {
    "C": "--C",
    "base": "--base",
    "c2": "--c2",
    "class_weight": "--class-weight",
    "cluster": "--cluster",
    "covariance": "--covariance",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "encoding": "--encoding",
    "format": "--format",
    "max_iter": "--max-iter",
    "membership": "--membership",
    "membership_C": "--membership-C",
    "metric": "--metric",
    "min_freq": "--min-freq",
    "missing": "--missing",
    "patience": "--patience",
    "separator": "--separator",
    "solver": "--solver",
    "tol": "--tol",
    "Cs": "--cs",
    "n_classes": "--classes",
    "persons": "--person",
    "random_state": "--seed",
    "resume_from": "--resume:",
    "sample_weight": "--weight",
}
# Phrases that name arguments in other ways.
PHRASES = {
    "pass a dict of weights to partial_fit": "say --class-weight with a weight for each class",
    "pass X_val and y_val": "say --validation with files",
    "a solver without curvature such as LBFGS": "--solver lbfgs",
    "C was": "--C was",
    "classes need as many people": "need as many people",
    "choose curvature='low-rank' or 'diagonal', or": "choose",
    "less than min_freq": "less than --min-freq",
    "membership columns are": "columns of --membership are",
    "membership column": "--membership",
    "membership columns": "--membership",
    "needs ridge > 0": "say --ridge with a number above 0",
    "np.inf": "inf",
    "only tol, max_iter, verbose, n_jobs and callbacks may change": "only --tol and --max-iter may change",
    "partial_fit": "--stream",
    "set penalize_intercept=True": "say --penalize-intercept",
    "set ridge > 0": "say --ridge with a number above 0",
    "that were not named at the first call": "that --classes does not name",
    "use BatchMajorization without a penalty": "bbm does without a penalty",
    "use a finite C": "say --C with a number",
    "use a finite membership_C": "say --membership-C with a number",
    "use a large C": "use a large --C",
    "validation must be a share between 0 and 1, rows, or (X, y)": "--share must lie between 0 and 1",
    "y has to be 1": "--choice has to be 1",
    "y holds": "the file holds",
    "y sums to": "they sum to",
    "y_val holds": "the labels of --validation hold",
}
_PHRASE = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, sorted(PHRASES, key=len, reverse=True))) + r")(?!\w)")
_OPTION = re.compile(rf"(?<![\w-])({'|'.join(OPTIONS)})(?: (?=must be)|=(?:'([^']*)'|(?=\w)))")


def in_options(text: str) -> str:
    """Return a sentence of the library as a user of the command line would say it.

    Examples
    --------
    >>> in_options("solver='sbm' penalises every parameter: set penalize_intercept=True")
    '--solver sbm penalises every parameter: say --penalize-intercept'
    >>> in_options("max_iter must be a whole number")
    '--max-iter must be a whole number'
    """
    text = _PHRASE.sub(lambda found: PHRASES[found[1]], text)
    return _OPTION.sub(lambda found: f"{OPTIONS[found[1]]} {found[2] or ''}", text)
