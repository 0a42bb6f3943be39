"""``majorant choice`` as a person uses it: files in a folder, what is printed, what is left behind."""

import csv
import gzip
import json

import numpy as np
import pytest

pytest.importorskip("typer")

import majorant
from tests.choice_data import ELECTRICITY
from tests.commands import CONTROL, call, warned, write
from tests.problems import shared_data

WEIGHT = ["--weight", "weight"]
PERSONS = ["--classes", "2", "--person", "person"]
MODES = np.array(["bus", "car", "train"])
WHO = ["--group", "trip", "--choice", "chosen"]
NAMED = [*WHO, "--alternative", "mode"]
FULL = [*NAMED, "--features", "price", "hours", "--by-alternative", "income", "--base", "car"]


def trips(people=30, each=6, seed=0):
    """Return columns of trips in long format, shuffled; those of every other person look at the price alone."""
    rng = np.random.default_rng(seed)
    count, person = people * each, np.repeat(np.arange(people), each)
    price, hours = rng.normal([5, 15, 10], 3, (count, 3)).round(3), rng.normal([4, 2, 3], 1, (count, 3)).round(3)
    income = rng.lognormal(1, 0.4, people)[person].round(3)
    taste = np.where(person % 2, 0.1, 1.0)[:, None]
    utility = -0.4 * taste * price - (1.5 - taste) * hours + rng.gumbel(size=(count, 3))
    utility[:, 1] += 0.6 * income
    order = rng.permutation(3 * count)
    columns = {
        "trip": np.repeat(np.arange(count), 3),
        "person": np.repeat([f"p{i}" for i in person], 3),
        "mode": np.tile(MODES, count),
        "price": price.ravel(),
        "hours": hours.ravel(),
        "income": np.repeat(income, 3),
        "weight": np.repeat(rng.integers(1, 4, people)[person], 3),
        "chosen": (utility == utility.max(axis=1, keepdims=True)).astype(int).ravel(),
    }
    return {name: values[order].tolist() for name, values in columns.items()}


def changed(columns, name, row, value):
    return columns | {name: [value if i == row else each for i, each in enumerate(columns[name])]}


def utilities(columns):
    """Return X of the full model, by hand: constants and incomes of bus and train, price and hours."""
    mode, price, hours, income = (np.array(columns[name]) for name in ("mode", "price", "hours", "income"))
    bus, train = mode == "bus", mode == "train"
    return np.column_stack([bus, train, price, hours, bus * income, train * income]).astype(float)


NAMES = ["(Intercept):bus", "(Intercept):train", "price", "hours", "income:bus", "income:train"]


def coefficients(said, field="estimate"):
    return [each[field] for each in said["coefficients"]]


# --- the model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [[], PERSONS], ids=["one", "hidden"])
def test_offsets_are_added_and_steps_are_limited(folder, classes):
    columns = trips()
    columns["discount"] = (0.4 * np.array(columns["price"])).tolist()
    data = write(folder / "t.csv", columns)
    plain, shifted = (
        json.loads(call("choice", data, *NAMED, "--features", "price", "hours", *classes, *more, "--json"))
        for more in ([], ["--offset", "discount"])
    )
    by_name = [{each["name"]: each["estimate"] for each in said["coefficients"]} for said in (plain, shifted)]
    for name, estimate in by_name[0].items():
        expected = estimate - 0.4 * name.endswith("price")
        np.testing.assert_allclose(by_name[1][name], expected, atol=1e-5)
    if not classes:
        limited = warned("choice", data, *NAMED, "--features", "price", "--max-iter", "1")
        assert "stopped at the limit of 1 step" in limited
    loose, usual = (
        json.loads(call("choice", data, *NAMED, *classes, "--features", "price", *more, "--json"))
        for more in (["--tol", "0.1"], [])
    )
    assert loose["steps"] < usual["steps"]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_the_model_is_that_of_rows_written_by_hand(folder, name):
    columns = trips()
    data = write(folder / name, columns, delimiter="\t" if name == "t.tsv" else ",")
    said = json.loads(call("choice", data, *FULL, "--cluster", "person", "--weight", "weight", "--json"))
    fitted = majorant.ConditionalLogit().fit(
        utilities(columns), columns["chosen"], columns["trip"], sample_weight=columns["weight"]
    )
    assert coefficients(said, "name") == NAMES
    np.testing.assert_allclose(coefficients(said), fitted.coef_, rtol=1e-6)
    errors = np.sqrt(np.diag(fitted.covariance("cluster", columns["person"])))
    np.testing.assert_allclose(coefficients(said, "std_err"), errors, rtol=1e-6)
    assert said["log_likelihood"] == pytest.approx(fitted.log_likelihood_, rel=1e-10)
    assert (said["covariance"], said["rows"], said["observations"]) == ("cluster", 540, sum(columns["weight"]) / 3)
    assert (said["model"], said["kind"], said["shares"]) == (None, "ConditionalLogit", None)
    assert sorted(path.name for path in folder.iterdir()) == [name]


@pytest.mark.parametrize("kind", ["hessian", "robust"])
def test_the_summary_is_printed_and_the_model_saved(folder, kind):
    columns = trips()
    data = write(folder / "t.csv", columns)
    said = call("choice", data, *FULL, "--covariance", kind, "--out", "m.npz")
    loaded = majorant.ConditionalLogit.load("m.npz")
    assert said == f"{loaded.summary(kind)}\nmodel written to m.npz\n"
    assert loaded.notes_["trained_on"] == "t.csv"
    frame = pytest.importorskip("pandas").DataFrame(columns)
    p = majorant.ConditionalLogit().fit(utilities(columns), frame.chosen, frame.trip)
    np.testing.assert_allclose(loaded.predict_proba(frame), p.predict_proba(utilities(columns), frame.trip), atol=1e-7)
    assert call("info", "m.npz") == f"{loaded.summary()}\n"
    assert json.loads(call("info", "m.npz", "--json"))["aic"] == pytest.approx(loaded._facts.aic)


def test_a_penalty_and_no_constants(folder):
    columns = trips()
    data = write(folder / "t.csv", columns)
    said = json.loads(call("choice", data, *NAMED, "--features", "price", "--no-constants", "--C", "0.01", "--json"))
    X = np.array(columns["price"])[:, None]
    fitted = majorant.ConditionalLogit(C=0.01).fit(X, columns["chosen"], columns["trip"])
    np.testing.assert_allclose(coefficients(said), fitted.coef_, rtol=1e-6)
    assert "penalised (C = 0.01)" in call("choice", data, *WHO, "--features", "price", "--C", "0.01")


def test_lists_of_words_and_lists_with_commas(folder):
    data = write(folder / "t.csv", trips())
    words = call("choice", data, "--features", "price", "hours", *NAMED)
    assert words == call("choice", "--features", "price,hours", data, *NAMED)
    assert words == call("choice", data, *NAMED, "--features=price", "--features", "hours")
    assert words == call("choice", "-", *NAMED, "--features", "price", "hours", stdin=data.read_text())


def test_several_files_are_one_table(folder):
    columns = trips()
    whole = call("choice", write(folder / "t.csv", columns), *FULL)
    for number, rows in enumerate((slice(0, 100), slice(100, None))):
        write(folder / f"part{number}.csv", {name: values[rows] for name, values in columns.items()})
    assert call("choice", "part*.csv", *FULL) == whole


def test_alternatives_that_are_numbers_are_sorted_as_such(folder):
    columns = trips()
    columns["mode"] = [{"bus": 2, "car": 10, "train": 9}[mode] for mode in columns["mode"]]
    data = write(folder / "t.csv", columns)
    first = json.loads(call("choice", data, *NAMED, "--json"))
    assert coefficients(first, "name") == ["(Intercept):9", "(Intercept):10"]
    other = json.loads(call("choice", data, *NAMED, "--base", "9", "--json"))
    assert coefficients(other, "name") == ["(Intercept):2", "(Intercept):10"]
    assert "--base must be one of the alternatives [2, 9, 10], got 'car'" in call(
        "choice", data, *NAMED, "--base", "car", code=1
    )


def test_names_that_look_like_numbers_stay_apart(folder):
    columns = trips(people=3)
    long = {0: "12345678901234567", 1: "12345678901234568", 2: "7", 3: "007"}
    columns["trip"] = [long.get(trip, f"{trip}x") for trip in columns["trip"]]
    said = json.loads(call("choice", write(folder / "t.csv", columns), *WHO, "--features", "price", "--json"))
    assert said["observations"] == 18


def test_what_is_not_available_needs_no_values(folder):
    columns = trips()
    rng = np.random.default_rng(1)
    here = [int(chosen or rng.random() < 0.8) for chosen in columns["chosen"]]
    here = [1 if mode == "bus" else each for mode, each in zip(columns["mode"], here, strict=True)]
    open_rows = [i for i, each in enumerate(here) if each]
    sizes = np.bincount(np.array(columns["trip"])[open_rows])
    kept = [i for i, trip in enumerate(columns["trip"]) if sizes[trip] > 1]
    gaps = columns | {"here": here}
    for name in ("price", "income"):
        gaps[name] = [value if at else "" for value, at in zip(columns[name], here, strict=True)]
    gaps = {name: [values[i] for i in kept] for name, values in gaps.items()}
    data = write(folder / "t.csv", gaps)
    said = json.loads(call("choice", data, *FULL, "--availability", "here", "--json"))
    rows = [i for i in kept if here[i]]
    X, y, groups = utilities(columns)[rows], np.array(columns["chosen"])[rows], np.array(columns["trip"])[rows]
    assert coefficients(said, "name") == NAMES
    np.testing.assert_allclose(coefficients(said), majorant.ConditionalLogit().fit(X, y, groups).coef_, rtol=1e-6)
    assert "lacks a value" in call("choice", data, *FULL, code=1)


# --- hidden classes ---------------------------------------------------------------------------------------


def test_hidden_classes(folder):
    columns = trips()
    data = write(folder / "t.csv", columns)
    told = ["--features", "price", "hours", "--base", "car", "--membership", "income", "--starts", "2", "--seed", "3"]
    asked = [*NAMED, *told, "--classes", "2", "--person", "person"]
    said = json.loads(call("choice", data, *asked, "--covariance", "robust", "--out", "m.npz", "--json"))
    model = majorant.LatentClassLogit(2, n_init=2, random_state=3).fit(
        utilities(columns)[:, :4],
        columns["chosen"],
        columns["trip"],
        columns["person"],
        membership=np.array(columns["income"])[:, None],
    )
    np.testing.assert_allclose(coefficients(said), np.append(model.coef_, model.membership_), rtol=1e-5)
    np.testing.assert_allclose(coefficients(said, "std_err"), np.sqrt(np.diag(model.covariance("robust"))), rtol=1e-4)
    assert coefficients(said, "name")[3:5] == ["class 1: hours", "class 2: (Intercept):bus"]
    assert coefficients(said, "name")[-1] == "membership 2: income"
    assert (said["observations"], said["unit"]) == (30, "people")
    np.testing.assert_allclose(said["shares"], model.shares_, rtol=1e-5)
    loaded = majorant.LatentClassLogit.load("m.npz")
    assert call("info", "m.npz") == f"{loaded.summary()}\n"


# --- published results ------------------------------------------------------------------------------------


def test_published_standard_errors_from_the_shell():
    data = shared_data("choice/electricity.csv.gz")
    said = json.loads(
        call("choice", data, "--group", "chid", "--choice", "choice", "--features", *ELECTRICITY, "--json")
    )
    assert said["log_likelihood"] == pytest.approx(-4958.649119, abs=1e-5)
    assert said["observations"] == 4308
    robust = json.loads(
        call("choice", data, "--group", "chid", "--choice", "choice", "--features", ",".join(ELECTRICITY),
             "--covariance", "robust", "--json")
    )  # fmt: skip
    readme = {"pf": (-0.6252278, 0.0232223, 0.0225917), "seas": (-5.840031, 0.186678, 0.181615)}
    for name, (estimate, error, sandwich) in readme.items():
        place = ELECTRICITY.index(name)
        assert coefficients(said)[place] == pytest.approx(estimate, rel=1e-6)
        assert coefficients(said, "std_err")[place] == pytest.approx(error, rel=1e-5)
        assert coefficients(robust, "std_err")[place] == pytest.approx(sandwich, rel=1e-5)


def test_published_effects_by_alternative_from_the_shell(folder):
    with gzip.open(shared_data("choice/ModeCanada.csv.gz"), "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["noalt"] == "4"]
    data = write(folder / "t.csv", {name: [row[name] for row in rows] for name in rows[0]})
    said = json.loads(
        call("choice", data, "--group", "case", "--alternative", "alt", "--choice", "choice", "--base", "air",
             "--features", "cost", "freq", "ovt", "--by-alternative", "income", "ivt", "--json")
    )  # fmt: skip
    assert said["log_likelihood"] == pytest.approx(-1874.342743, abs=1e-5)
    found = {each["name"]: (each["estimate"], each["std_err"]) for each in said["coefficients"]}
    assert len(found) == 13
    assert found["income:bus"] == pytest.approx((-0.08908692, 0.0183471), rel=1e-5)
    assert found["ivt:air"] == pytest.approx((0.05950969, 0.0100727), rel=1e-5)


# --- failures ---------------------------------------------------------------------------------------------


def row_of(columns, **values):
    return next(i for i in range(len(columns["trip"])) if all(columns[n][i] == v for n, v in values.items()))


def none_chosen(columns):
    return changed(columns, "chosen", row_of(columns, trip=5, chosen=1), 0)


def two_chosen(columns):
    return changed(columns, "chosen", row_of(columns, trip=5, chosen=0), 1)


def alternative_twice(columns):
    return changed(columns, "mode", row_of(columns, trip=5, mode="bus"), "car")


@pytest.mark.parametrize(
    ("wrong", "arguments", "sentence"),
    [
        (none_chosen, [], "group 5 has no chosen row: --choice has to be 1 at exactly one of its rows"),
        (two_chosen, [], "group 5 has 2 chosen rows (they sum to 2): --choice has to be"),
        (alternative_twice, [], "alternative 'car' stands 2 times in group 5"),
        (lambda c: changed(c, "price", 3, ""), [], "column 'price' of t.csv lacks a value in row 4"),
        (lambda c: changed(c, "trip", 3, ""), [], "column 'trip' of t.csv lacks a value in row 4"),
        (lambda c: changed(c, "mode", 3, "NA"), [], "column 'mode' of t.csv lacks a value in row 4"),
        (lambda c: changed(c, "chosen", 3, "?"), [], "column 'chosen' of t.csv lacks a value in row 4"),
        (lambda c: changed(c, "price", 3, "inf"), [], "column 'price' of t.csv is infinite in row 4"),
        (lambda c: changed(c, "price", 3, "dear"), [], "column 'price' of t.csv holds 'dear', which is not a num"),
        (lambda c: changed(c, "price", 3, "1,5"), [], "say --decimal ,"),
        (lambda c: changed(c, "chosen", 3, 7), [], "column 'chosen' of t.csv holds 7 in row 4, but a row is"),
        (lambda c: changed(c, "weight", 3, -1), WEIGHT, "holds the weight -1 in row 4, below zero"),
        (lambda c: changed(c, "weight", 3, 9), WEIGHT, "--weight must be the same for all rows of a group"),
        (lambda c: c | {"weight": [0] * len(c["trip"])}, WEIGHT, "--weight must be non-negative, finite and"),
        (lambda c: changed(c, "person", 3, "x"), ["--cluster", "person"], "--cluster must be the same for all rows of"),
        (lambda c: c | {"here": [1 - x for x in c["chosen"]]}, ["--availability", "here"], "available: column 'here'"),
        (lambda c: c, ["--features", "income"], "column 'income' is constant within every group"),
        (lambda c: c, ["--features", "prize"], "t.csv has no column 'prize'; it has trip, person, mode"),
        (lambda c: c, ["--features", "income"], "drop it, or say --C with a number"),
        (lambda c: c, ["--base", "plane"], "--base must be one of the alternatives ['bus', 'car', 'train'], got 'pl"),
        (lambda c: c, [*PERSONS, "--features", "income"], "column 'income' is constant within every group"),
        (lambda c: c, ["--C", "0"], "--C must be positive (inf for no penalty), got 0"),
        (lambda c: c, ["--covariance", "sandwich"], "--covariance must be one of"),
        (lambda c: c, [*PERSONS, "--membership-C", "0"], "--membership-C must be positive"),
        (lambda c: c, ["--classes", "40", "--person", "person"], "--classes 40 need as many people, got 30"),
        (
            lambda c: changed(c, "person", 3, "x"),
            PERSONS,
            "--person must be the same for all rows of a group",
        ),
        (
            lambda c: c,
            [*PERSONS, "--membership", "price"],
            "--membership must be the same for all rows of a group",
        ),
        (
            lambda c: c | {"one": [1] * len(c["trip"])},
            [*PERSONS, "--membership", "one"],
            "--membership 'one' is the same for all people",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(folder, wrong, arguments, sentence):
    write(folder / "t.csv", wrong(trips()))
    majorant.LogisticRegression().fit([[0.0], [1.0]], [0, 1]).save("m.npz")
    before = (folder / "m.npz").read_bytes()
    said = call("choice", "t.csv", *NAMED, "--features", "price", "hours", *arguments, "--out", "m.npz", code=1)
    assert sentence in said
    assert "should not happen" not in said
    assert (folder / "m.npz").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["m.npz", "t.csv"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--choice", "chosen", "--features", "price"], "--group"),
        (["--group", "trip", "--features", "price"], "--choice"),
        ([*WHO], "there is no coefficient to fit: name columns with --features"),
        ([*NAMED, "--no-constants"], "there is no coefficient to fit"),
        ([*WHO, "--by-alternative", "income"], "--by-alternative needs --alternative"),
        ([*WHO, "--features", "price", "--base", "car"], "--base needs --alternative"),
        ([*WHO, "--features", "price", "chosen"], "column chosen is that of --choice"),
        ([*NAMED, "--covariance", "cluster"], "--covariance cluster needs --cluster"),
        (
            [*NAMED, "--covariance", "robust", "--cluster", "person"],
            "--cluster goes with --covariance cluster, got",
        ),
        ([*NAMED, "--classes", "2", "--cluster", "person"], "--classes has no clusters"),
        ([*NAMED, "--person", "person"], "--person goes with --classes"),
        ([*NAMED, "--membership", "income"], "--membership goes with --classes"),
        ([*NAMED, "--membership-C", "1"], "--membership-C goes with --classes"),
        ([*NAMED, "--seed", "0"], "--seed goes with --classes"),
        ([*NAMED, "--classes", "0"], "--classes"),
    ],
)
def test_wrong_usage(folder, arguments, sentence):
    write(folder / "t.csv", trips(people=2))
    assert sentence in call("choice", "t.csv", *arguments, code=2)


def test_files_that_cannot_be_used(folder):
    data = write(folder / "t.csv", trips(people=2))
    assert "none.csv: No such file" in call("choice", "none.csv", *NAMED, code=1)
    assert "it is the file to be read" in call("choice", data, *NAMED, "--out", data, code=1)
    assert "there is no folder" in call("choice", data, *NAMED, "--out", "no/m.npz", code=1)
    np.savez("t.npz", X=np.ones((2, 2)), y=np.ones(2))
    assert "have no names: choices are read from CSV, TSV and Parquet" in call("choice", "t.npz", *NAMED, code=1)
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    days = pa.array([0, 1], pa.date32())
    pyarrow.parquet.write_table(pa.table({"trip": [1, 1], "chosen": [1, 0], "day": days}), "d.parquet")
    said = call("choice", "d.parquet", *WHO, "--features", "day", code=1)
    assert "column 'day' of d.parquet is of type" in said
    assert "--drop" not in said


def test_estimates_that_run_off_are_warned_of_and_still_printed(folder):
    columns = trips(people=3)
    columns["price"] = [-chosen for chosen in columns["chosen"]]
    said = warned("choice", write(folder / "t.csv", columns), *WHO, "--features", "price")
    assert "completely separated" in said
    assert said.endswith("say --C with a number.\n")


# --- help -------------------------------------------------------------------------------------------------


def test_help_says_what_there_is():
    from majorant import inference
    from majorant.cli import choice

    said = call("choice", "--help")
    assert choice.KINDS == inference.KINDS
    assert "hessian, robust or cluster" in " ".join(said.split())
    assert "majorant choice trips.csv --group trip" in said
    assert not CONTROL.search(said)
    assert all(option in said for option in ("--format", "--delimiter", "--decimal", "--encoding", "--comment"))


# --- what a saved model is for ----------------------------------------------------------------------------


def foreseen(*arguments):
    said = csv.DictReader(call("predict", *arguments).splitlines())
    return list(said)


def test_a_saved_model_predicts_and_is_measured(folder):
    columns = trips()
    data = write(folder / "t.csv", columns)
    call("choice", data, *FULL, "-o", "m.npz")
    new = write(folder / "new.csv", {n: v for n, v in reversed(columns.items()) if n not in ("chosen", "weight")})
    rows = foreseen("m.npz", new, "--keep", "person")
    assert list(rows[0]) == ["trip", "mode", "person", "prediction", "probability"]
    model, groups, flags = majorant.ConditionalLogit(), np.array(columns["trip"]), np.array(columns["chosen"])
    model.fit(utilities(columns), flags, groups)
    p = model.predict_proba(utilities(columns), groups)
    np.testing.assert_allclose([float(row["probability"]) for row in rows], p, rtol=1e-6)
    predicted = np.array([int(row["prediction"]) for row in rows])
    assert np.array_equal(predicted, model.predict(utilities(columns), groups))
    assert [row["mode"] for row in rows] == columns["mode"]
    found = json.loads(call("evaluate", "m.npz", data, "--json"))
    assert (found["rows"], found["situations"]) == (540, 180)
    assert found["accuracy"] == pytest.approx((predicted * flags).sum() / 180)
    assert found["log_loss"] == pytest.approx(-model.score(utilities(columns), flags, groups))
    assert "180 situations" in call("evaluate", "m.npz", data)
    assert "540 predictions written" in call("predict", "m.npz", data, "-o", "p.tsv")


def test_hidden_classes_predict(folder):
    columns = trips()
    data = write(folder / "t.csv", columns)
    features = [*NAMED, "--features", "price", "hours", *PERSONS, "--membership", "income", "--starts", "2"]
    call("choice", data, *features, "-o", "m.npz")
    model, mode = majorant.LatentClassLogit.load("m.npz"), np.array(columns["mode"])
    X = np.column_stack([mode == "car", mode == "train", columns["price"], columns["hours"]]).astype(float)
    p = model.predict_proba(X, np.array(columns["trip"]), membership=np.array(columns["income"])[:, None])
    np.testing.assert_allclose([float(row["probability"]) for row in foreseen("m.npz", data)], p, rtol=1e-9)
    assert 0 < json.loads(call("evaluate", "m.npz", data, "--json"))["log_loss"] < np.log(3)


def test_alternatives_that_are_numbers_or_not_available_are_predicted(folder):
    columns = trips(people=10)
    columns["mode"] = [{"bus": "2", "car": "10", "train": "x"}[each] for each in columns["mode"]]
    columns["here"] = ["yes" if c or i % 40 else "no" for i, c in enumerate(columns["chosen"])]
    columns["price"] = [p if h == "yes" else "" for p, h in zip(columns["price"], columns["here"], strict=True)]
    data = write(folder / "t.csv", columns)
    call("choice", data, *NAMED, "--features", "price", "--availability", "here", "-o", "m.npz")
    closed = np.array(columns["here"]) == "no"
    p = np.array([float(row["probability"]) for row in foreseen("m.npz", data)])
    assert closed.any()
    assert np.array_equal(p == 0, closed)
    some = [i for i, mode in enumerate(columns["mode"]) if mode != "x"]  # all that is left looks like numbers
    write(folder / "some.csv", {name: [values[i] for i in some] for name, values in columns.items()})
    assert len(foreseen("m.npz", "some.csv")) == len(some)
    write(folder / "more.csv", changed(columns, "mode", 4, "plane"))
    said = call("predict", "m.npz", "more.csv", code=1)
    assert "alternative 'plane' in row 5 of more.csv is none of the fit, which has 10, 2, x" in said


@pytest.mark.parametrize(
    ("wrong", "arguments", "code", "sentence"),
    [
        (lambda c: changed(c, "price", 3, "dear"), [], 1, "'dear', which is not a number (row 4); mend that cell"),
        (lambda c: {n: v for n, v in c.items() if n != "hours"}, [], 1, "t.csv has no column 'hours'"),
        (lambda c: c, ["--missing", "mean"], 2, "--missing does not go with m.npz, which holds a ConditionalLogit"),
        (lambda c: c, ["--features-name", "X"], 2, "--features-name does not go with"),
        (lambda c: c | {"probability": c["price"]}, ["--keep", "probability"], 1, "named 'probability'"),
    ],
)
def test_what_a_saved_model_cannot_read(folder, wrong, arguments, code, sentence):
    write(folder / "t.csv", trips(people=10))
    call("choice", "t.csv", *NAMED, "--features", "price", "hours", "-o", "m.npz")
    write(folder / "t.csv", wrong(trips(people=10)))
    assert sentence in call("predict", "m.npz", "t.csv", *arguments, "-o", "p.csv", code=code)
    assert not (folder / "p.csv").exists()


def test_what_was_not_fitted_to_a_file_says_so(folder):
    columns = trips(people=10)
    data = write(folder / "t.csv", columns)
    model = majorant.ConditionalLogit().fit(utilities(columns), columns["chosen"], columns["trip"])
    model.save("m.npz")
    assert "without the columns it reads: fit it with majorant choice" in call("predict", "m.npz", data, code=1)
    call("choice", data, *NAMED, "--features", "price", "-o", "m.npz")
    assert "group 5 has 2 chosen" in call("evaluate", "m.npz", write(folder / "w.csv", two_chosen(columns)), code=1)
    assert "it is the file to be read" in call("predict", "m.npz", data, "-o", data, code=1)


@pytest.mark.parametrize("words", [("yes", "no"), ("Y", "N"), ("TRUE", "FALSE")])
def test_yes_and_no_are_choices(folder, words):
    columns = trips(people=10)
    plain = call("choice", write(folder / "t.csv", columns), *NAMED, "--features", "price")
    columns["chosen"] = [words[0] if c else words[1] for c in columns["chosen"]]
    assert call("choice", write(folder / "w.csv", columns), *NAMED, "--features", "price") == plain
    said = call("choice", write(folder / "w.csv", changed(columns, "chosen", 3, "maybe")), *NAMED, code=1)
    assert "holds 'maybe' in row 4 of" in said
    assert "neither yes (1) nor no (0)" in said
