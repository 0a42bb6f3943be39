"""How the examples of the documentation are compared with what they print.

Outputs are written as they came, with real numbers. Digits differ from machine to machine, so numbers of an example
agree if they are close: within a percent, or both so small that they stand for rounding. A certificate ("within 7.3e-07
standard errors") agrees with any other of at most 1e-4. Everything else, integers included (but for a number of steps),
has to be the same.
"""

import doctest
import re
from math import isclose

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w.]*\w)")
STEPS = re.compile(r"\b\d+ steps?\b")
CERTIFICATE = re.compile(r"\bwithin \d(?:\.\d)?e-(?:0[4-9]|[1-9]\d)\b")
LARGEST_ROUNDING = 1e-8

exactly = doctest.OutputChecker.check_output


def is_close(expected: str, printed: str) -> bool:
    """Return whether two outputs are the same but for the last digits of numbers."""
    texts = [CERTIFICATE.sub("certified", STEPS.sub("some steps", text)) for text in (expected, printed)]
    pieces, numbers = [NUMBER.split(text) for text in texts], [NUMBER.findall(text) for text in texts]
    words = [[" ".join(piece.split()) for piece in text] for text in pieces]
    return words[0] == words[1] and all(map(_are_close, *numbers))


def _are_close(expected: str, printed: str) -> bool:
    if expected == printed:
        return True
    if "." not in expected + printed and "e" not in expected + printed:
        return False  # integers
    a, b = float(expected), float(printed)
    decimals = len(expected.partition("e")[0].partition(".")[2])
    last_digit = 10.0 ** (int(expected.partition("e")[2] or 0) - decimals)
    return max(abs(a), abs(b)) <= LARGEST_ROUNDING or isclose(a, b, rel_tol=0.01, abs_tol=1.5 * last_digit)


def check_output(self, want, got, optionflags):
    """Compare exactly, then numbers loosely."""
    return exactly(self, want, got, optionflags) or is_close(want, got)


doctest.OutputChecker.check_output = check_output
