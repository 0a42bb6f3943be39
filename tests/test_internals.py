"""docs/internals.md: every file that it names exists, and a fit takes the path that it shows."""

import re
import sys
from pathlib import Path

import numpy as np

import majorant
from majorant import LogisticRegression

ROOT = Path(__file__).parent.parent
PACKAGE = Path(majorant.__file__).parent
PAGE = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`?\b((?:\w+/)*\w+\.py)\b`?", PAGE))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (PACKAGE / name).is_file()] == []
    folders = set(re.findall(r"`((?:\w+/)+)`", PAGE))
    assert [name for name in sorted(folders) if not (PACKAGE / name).is_dir()] == []


def test_a_fit_takes_the_path_that_the_page_shows():
    path = re.search(r"<!-- path -->\n```\n(.*?)```", PAGE, re.DOTALL).group(1).splitlines()
    expected = [tuple(line.split()) for line in path]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2_000, 20)), rng.integers(2, size=2_000)
    stacks = set()

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.endswith("core/matrix.py"):
            stack = []
            while frame is not None:
                if frame.f_code.co_filename.startswith(str(PACKAGE)):
                    name = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
                    stack.append((name, frame.f_code.co_qualname))
                frame = frame.f_back
            stacks.add(tuple(reversed(stack)))

    sys.setprofile(watch)
    try:
        LogisticRegression(n_jobs=1).fit(X, y)
    finally:
        sys.setprofile(None)
    assert any(follows(stack, expected) for stack in stacks), max(stacks, key=len)


def follows(stack, expected):
    """Return whether calls come in the order of the page, others between them."""
    calls = iter(stack)
    return all(any(file == name and function.startswith(start) for name, function in calls) for file, start in expected)
