"""``majorant compare``."""


def compare() -> None:
    """Compare."""
