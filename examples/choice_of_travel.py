"""How people travel: a conditional logit, what an hour is worth to them, and two kinds of people.

python -m examples.choice_of_travel
"""

import numpy as np
import pandas as pd

from majorant import ConditionalLogit, LatentClassLogit

MODES = ["bus", "car", "train"]


def trips(people: int = 50, each: int = 10, seed: int = 0) -> pd.DataFrame:
    """Return trips in long format. Half of the people are in a hurry, the others look at the price."""
    rng = np.random.default_rng(seed)
    count = people * each
    hurried = np.repeat(np.arange(people) % 2, each)[:, None]
    price = np.array([5.0, 15.0, 10.0]) + 2.0 * rng.normal(size=(count, 3))
    hours = np.array([4.0, 2.0, 3.0]) + 0.7 * rng.normal(size=(count, 3))
    here = np.column_stack([np.ones(count), np.repeat(rng.random(people) < 0.7, each), np.ones(count)]).astype(int)
    income = np.repeat(rng.lognormal(1.0, 0.4, size=people), each)
    utility = np.where(hurried, -0.1 * price - 2.0 * hours, -0.5 * price - 0.5 * hours)
    utility[:, 1] += 0.5 * income
    utility = np.where(here == 1, utility + rng.gumbel(size=(count, 3)), -np.inf)
    return pd.DataFrame(
        {
            "trip": np.repeat(np.arange(count), 3),
            "person": np.repeat(np.arange(people), 3 * each),
            "mode": np.tile(MODES, count),
            "price": price.ravel(),
            "hours": hours.ravel(),
            "income": np.repeat(income, 3),
            "here": here.ravel(),
            "chosen": (utility == utility.max(axis=1, keepdims=True)).astype(int).ravel(),
        }
    )


def main() -> None:
    df = trips()
    columns = dict(choice="chosen", group="trip", alternative="mode", availability="here")
    model = ConditionalLogit.from_long(df, features=["price", "hours"], by_alternative=["income"], **columns)
    print(model.summary("cluster", df.person))
    print("An hour is worth", model.wtp("hours", "price", kind="cluster", cluster=df.person))
    closed = np.where(df.here == 1, 0.0, -np.inf)
    kinds = LatentClassLogit(2).fit(df[["price", "hours"]], df.chosen, df.trip, df.person, offset=closed)
    print(kinds.summary())


if __name__ == "__main__":
    main()
