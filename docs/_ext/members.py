"""Which members an API page shows: ours. What is inherited from scikit-learn or the standard library is told there."""

from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Leave out members that were not written here."""
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    if what != "class":
        return None
    member = member.fget if isinstance(member, property) else member
    home = getattr(getattr(member, "__func__", member), "__module__", "") or ""
    return None if home.startswith("majorant") else True
