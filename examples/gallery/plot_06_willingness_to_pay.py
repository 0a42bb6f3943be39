"""
Willingness to pay for an hour
==============================

A conditional logit of trips by bus, car or train. The ratio of two coefficients is the price that people would pay to
save an hour. Its interval allows for the ten answers of each person.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from majorant import ConditionalLogit
from majorant.plotting import BLUE, GREEN, ORANGE, SKY

rng = np.random.default_rng(0)
n = 2000  # ten trips of 200 people
df = pd.DataFrame({"trip": np.repeat(np.arange(n), 3), "mode": ["bus", "car", "train"] * n})
df["person"] = df.trip // 10
df["price"] = np.tile([5.0, 15.0, 10.0], n) + 2 * rng.normal(size=3 * n)
df["hours"] = np.tile([4.0, 2.0, 3.0], n) + 0.7 * rng.normal(size=3 * n)
df["income"] = rng.lognormal(1.0, 0.4, size=200)[df.person]
df["here"] = np.where(df["mode"] == "car", rng.random(200)[df.person] < 0.7, True).astype(int)
hurried = df.person % 2 == 1  # half of the people; the others compare prices
utility = np.where(hurried, -0.1, -0.5) * df.price + np.where(hurried, -2.0, -0.5) * df.hours
utility += 0.5 * df.income * (df["mode"] == "car") + rng.gumbel(size=3 * n)
utility = utility.where(df.here == 1, -np.inf)
df["chosen"] = (utility == utility.groupby(df.trip).transform("max")).astype(int)
columns = dict(choice="chosen", group="trip", alternative="mode", availability="here")
model = ConditionalLogit.from_long(df, features=["price", "hours"], by_alternative=["income"], base="bus", **columns)
print(model.summary("cluster", df.person))

# %%
# Left: the worth of one more hour of travel, with two kinds of standard errors. Right: shares of the modes if the price
# of the train changes.

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for at, (kind, name, colour) in enumerate(
    [("hessian", "trips are independent", BLUE), ("cluster", "clustered by person", SKY)]
):
    worth = model.wtp("hours", "price", kind=kind, cluster=df.person if kind == "cluster" else None)
    for width, level in ((9, 0.5), (3, 0.95)):
        left.plot(worth.interval(level), [at, at], lw=width, color=colour, solid_capstyle="butt")
    left.plot(worth.estimate, at, "o", color="white", ms=4)
    left.text(worth.estimate, at + 0.16, name, ha="center")
left.set(xlabel="worth of one more hour (50 %, 95 % intervals)", yticks=[], ylim=(-0.5, 1.6))

changes = np.linspace(-8, 8, 25)
shares = []
for change in changes:
    other = df.assign(price=df.price + change * (df["mode"] == "train"))
    p = model.predict_proba(other)
    shares.append(other.assign(p=p).groupby("mode").p.sum() / other.trip.nunique())
for mode, colour in zip(("bus", "car", "train"), (SKY, ORANGE, GREEN), strict=True):
    right.plot(changes, [share[mode] for share in shares], color=colour, lw=2)
    right.text(changes[-1] + 0.3, shares[-1][mode], mode, color=colour, va="center")
right.set(xlabel="change of the price of the train", ylabel="share of trips", ylim=(0, None), xlim=(-8.5, 10.5))
