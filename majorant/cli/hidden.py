"""Options of ``majorant choice`` for hidden classes of people, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from majorant.cli.options import all_listed

HIDDEN = "Hidden classes of people"

Classes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Fit so many hidden classes of people, each with coefficients of its own.",
        rich_help_panel=HIDDEN,
    ),
]
Person: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Who chose; by default every situation is another person's.", rich_help_panel=HIDDEN
    ),
]
Membership: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLS", help="What is known of a person, and may tell the class, as a b or a,b.", rich_help_panel=HIDDEN
    ),
]
MembershipPenalty: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--membership-C",
        metavar="X",
        help="Inverse of a penalty on what --membership does; inf, the default, is none.",
        rich_help_panel=HIDDEN,
    ),
]
Starts: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Starts, of which the best is kept; 10 by default.", rich_help_panel=HIDDEN),
]
Seed: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Of the starts; 0 by default.", rich_help_panel=HIDDEN)
]


@dataclass(frozen=True)
class HiddenClasses:
    """How many hidden classes there are, and of whom."""

    classes: Classes = None
    person: Person = None
    membership: Membership = None
    membership_C: MembershipPenalty = None
    starts: Starts = None
    seed: Seed = None

    @property
    def known(self) -> list[str]:
        """What is known of people."""
        return all_listed(self.membership)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the estimator, as far as they were given."""
        given: dict[str, Any] = {
            "n_classes": self.classes,
            "n_init": self.starts,
            "random_state": self.seed,
            "membership_C": self.membership_C,
        }
        return {name: value for name, value in given.items() if value is not None}

    def check(self) -> None:
        """Refuse what only hidden classes have, where there are none."""
        if self.classes is not None:
            return
        if self.person is not None:
            raise typer.BadParameter(
                "--person goes with --classes; for standard errors that know of people, say --cluster instead"
            )
        others = {"membership": self.membership, "membership-C": self.membership_C}
        for name, value in (others | {"starts": self.starts, "seed": self.seed}).items():
            if value is not None and value != []:
                raise typer.BadParameter(f"--{name} goes with --classes, the number of hidden classes")
