"""``python -m majorant`` is the same as ``majorant``."""

from majorant.cli import main

if __name__ == "__main__":
    main()
