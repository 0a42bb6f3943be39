"""What the library says of its arguments, said of the flags of the command line."""

from __future__ import annotations

import re

SPOKEN = (
    (r"use a finite membership_C\b", "say --membership-C with a number"),
    (r"\bmembership_C must be", "--membership-C must be"),
    (r"set penalize_intercept=True", "say --penalize-intercept"),
    (r"must be positive \(np\.inf for no penalty\)", "must be positive (inf for no penalty)"),
    (r"(?<!-)\bC must be positive", "--C must be positive"),
    (r"got C=np\.inf; use a large C", "got --C inf; use a large --C"),
    (r"C=np\.inf", "--C inf"),
    (r"(?:set|needs) ridge > 0(?:, got 0)?", "say --ridge with a number above 0"),
    (r"use BatchMajorization without a penalty", "bbm does without a penalty"),
    (r"a solver without curvature such as LBFGS", "--solver lbfgs"),
    (r"choose curvature='low-rank' or 'diagonal', or", "choose"),
    (r"solver='([\w-]+)'", r"--solver \1"),
    (r"class_weight='balanced'", "--class-weight balanced"),
    (r"; pass a dict of weights to partial_fit", "; say --class-weight with a weight for each class"),
    (r"\bpartial_fit\b", "--stream"),
    (r"y holds (\w+) that were not named at the first call", r"the file holds \1 that --classes does not name"),
    (r"less than min_freq", "less than --min-freq"),
    (r"resume_from='([^']*)'", r"--resume: \1"),
    (r"use a finite C\b", "say --C with a number"),
    (r"\by has to be 1", "--choice has to be 1"),
    (r"\by sums to", "they sum to"),
    (r"n_classes=(\d+) classes", r"--classes \1"),
    (r"\bmembership columns? (?=')", "--membership "),
    (r"\bmembership columns are", "columns of --membership are"),
    (r"\bC was (\S+) in the fit", r"--C was \1 in the fit"),
    (r"only tol, max_iter, verbose, n_jobs and callbacks may change", "only --tol and --max-iter may change"),
    (r"validation must be a share between 0 and 1, rows, or \(X, y\)", "--share must lie between 0 and 1"),
    (r"; pass X_val and y_val", "; say --validation with files"),
    (r"\bCs must be", "--cs must be"),
    (r"\by_val holds", "the labels of --validation hold"),
    (
        r"\b(solver|tol|max_iter|c2|min_freq|random_state|delimiter|decimal|encoding|format|missing|separator|base|covariance|"
        r"cluster|persons|membership|sample_weight|metric|patience) must be",
        None,
    ),
)
NAMES = {"random_state": "--seed", "persons": "--person", "sample_weight": "--weight"}


def in_flags(text: str) -> str:
    """Return a sentence of the library as a user of the command line would say it.

    Examples
    --------
    >>> in_flags("solver='sbm' penalises every parameter: set penalize_intercept=True")
    '--solver sbm penalises every parameter: say --penalize-intercept'
    >>> in_flags("max_iter must be a whole number")
    '--max-iter must be a whole number'
    """
    for pattern, words in SPOKEN:
        text = re.sub(pattern, _flag if words is None else words, text)
    return text


def _flag(found: re.Match[str]) -> str:
    name = found[1]
    return NAMES.get(name, "--" + name.replace("_", "-")) + " must be"
