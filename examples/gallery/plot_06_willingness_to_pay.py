"""
What an hour is worth
=====================

Trips by bus, car or train, and a conditional logit of what people choose. The ratio of two coefficients is what they
would pay for an hour less; its interval takes into account that the same people were asked ten times.
"""

import matplotlib.pyplot as plt
import numpy as np

from examples.choice_of_travel import trips
from majorant import ConditionalLogit
from majorant.plotting import BLUE, GREEN, ORANGE

df = trips(people=200)
columns = dict(choice="chosen", group="trip", alternative="mode", availability="here")
model = ConditionalLogit.from_long(df, features=["price", "hours"], by_alternative=["income"], base="bus", **columns)
print(model.summary("cluster", df.person))

# %%
# Left, what one more hour on the way is worth (less than nothing), with two kinds of standard errors. Right, shares of
# the modes if the train cost more or less.

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for at, (kind, name, colour) in enumerate(
    [("hessian", "every trip for itself", BLUE), ("cluster", "by person", ORANGE)]
):
    worth = model.wtp("hours", "price", kind=kind, cluster=df.person if kind == "cluster" else None)
    for width, level in ((9, 0.5), (3, 0.95)):
        left.plot(worth.interval(level), [at, at], lw=width, color=colour, solid_capstyle="butt")
    left.plot(worth.estimate, at, "o", color="white", ms=4)
    left.text(worth.estimate, at + 0.16, name, ha="center")
left.set(xlabel="worth of one more hour, in money (50 % and 95 %)", yticks=[], ylim=(-0.5, 1.6))

changes = np.linspace(-8, 8, 25)
shares = []
for change in changes:
    other = df.assign(price=df.price + change * (df["mode"] == "train"))
    p = model.predict_proba(other)
    shares.append(other.assign(p=p).groupby("mode").p.sum() / other.trip.nunique())
for mode, colour in zip(("bus", "car", "train"), (BLUE, ORANGE, GREEN), strict=True):
    right.plot(changes, [share[mode] for share in shares], color=colour, lw=2)
    right.text(changes[-1] + 0.3, shares[-1][mode], mode, color=colour, va="center")
right.set(xlabel="change of the price of the train", ylabel="share of trips", ylim=(0, None), xlim=(-8.5, 10.5))
