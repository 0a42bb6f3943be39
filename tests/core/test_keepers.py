"""Keepers: rows in the memory of Dask workers, and what is kept with them."""

import gc
import sys
from functools import partial

import numpy as np
import pytest

from majorant import Labelled, Multinomial
from majorant.core import remote as keepers
from majorant.core.line_search import first, gradient_there, loss_along
from majorant.core.remote import ActorBlocks, Actors, Call, packed
from majorant.core.rows import LocalBlocks, Recompute
from majorant.curvature import form

dask = pytest.importorskip("dask", reason="Dask is not installed")
distributed = pytest.importorskip("distributed")

MODEL, SHARES = Multinomial(3), 3


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


def blocks(share):
    rng = np.random.default_rng(share)
    return [Labelled(rng.normal(size=(20 + share, 4)), np.arange(20 + share) % 3) for _ in range(2)]


@pytest.fixture
def kept(client):
    return ActorBlocks(Actors(client, [dask.delayed(blocks)(share) for share in range(SHARES)], memory=1e9))


def here():
    return LocalBlocks([block for share in range(SHARES) for block in blocks(share)])


def leapt_both_ways(kept, theta, direction):
    """A step whole, and what it finds, with keepers and here."""
    found = []
    for each in (kept, here()):
        (loss, gradient), scores = each.run(partial(MODEL.evaluate, theta))
        step, there = each.run(partial(MODEL.unit_step, direction), scores)
        found.append(((loss, gradient, *step), scores, there))
    return found


def assert_alike(a, b):
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("arity", [1, 2, 8])
def test_sums_are_those_of_one_process_however_keepers_ask_each_other(kept, monkeypatch, arity):
    monkeypatch.setattr(keepers, "ARITY", arity)
    theta, direction = np.linspace(-1, 1, 12), np.linspace(1, 2, 12)
    theirs, ours = leapt_both_ways(kept, theta, direction)
    assert_alike(theirs[0], ours[0])
    assert kept.rounds == 2
    assert kept.fits(theirs[1])
    assert not kept.fits(ours[1])


def test_what_nobody_knows_any_more_is_not_kept(client, kept):
    _, scores = kept.run(partial(MODEL.evaluate, np.zeros(12)))
    name = scores.name
    del scores
    gc.collect()
    kept.total(partial(MODEL.loss_and_gradient, np.zeros(12)))
    with client.as_current():
        assert all(keeper.lacks([name]).result() == [name] for keeper in kept.actors.actors)


def test_what_was_lost_is_found_again(client, kept):
    """Of every kind of thing that is kept, as if a keeper had been made anew."""
    theta, direction = np.linspace(-1, 1, 12), np.linspace(1, 2, 12)
    theirs, ours = leapt_both_ways(kept, theta, direction)
    slopes = kept.map(partial(MODEL.potentials, direction))
    along = kept.run(partial(loss_along, MODEL, 0.5), theirs[1], slopes)[1]
    scores = partial(MODEL.scores, theta + 0.5 * direction)
    landed = kept.run(partial(gradient_there, MODEL), along, recover=scores)[1]
    with client.as_current():
        for keeper in kept.actors.actors[1:]:
            everything = [theirs[1].name, theirs[2].name, slopes.name, along.name, landed.name]
            keeper.run(packed(Call(partial(MODEL.scores, theta), "cached", (), 10**6, everything))).result()
    there = kept.map(first, theirs[2], recover=partial(MODEL.scores, theta + direction))
    assert isinstance(there, Recompute)
    assert_alike(kept.run(partial(MODEL.unit_step, direction), there)[0], here_after(theta + direction, direction))
    assert_alike(
        kept.run(partial(MODEL.unit_step, direction), landed)[0], here_after(theta + 0.5 * direction, direction)
    )
    assert_alike(kept.run(partial(loss_along, MODEL, 1.0), theirs[1], slopes)[0], ours[0][2:4])


def here_after(theta, direction):
    blocks = here()
    return blocks.run(partial(MODEL.unit_step, direction), blocks.map(partial(MODEL.scores, theta)))[0]


def test_recipes_do_not_grow_with_the_number_of_steps(kept):
    """Nor does what they hold on to: scores of a point are found of θ alone."""
    theta, direction = np.zeros(12), np.full(12, 1e-3)
    scores = kept.run(partial(MODEL.evaluate, theta))[1]
    for _ in range(5):
        theta = theta + direction
        there = kept.run(partial(MODEL.unit_step, direction), scores)[1]
        scores = kept.map(first, there, recover=partial(MODEL.scores, theta))
    assert [find.func for find in there.recover.args[2]] == [MODEL.scores]


def test_rows_are_cut_for_the_work_at_hand(client, kept):
    """So many at a time: sums are the same; curvatures are found of whole blocks, from what was kept with parts."""
    few, theta, direction = kept.cut(7), np.linspace(-1, 1, 12), np.linspace(1, 2, 12)
    theirs, ours = leapt_both_ways(few, theta, direction)
    assert_alike(theirs[0], ours[0])
    assert few.fits(theirs[1])
    assert not kept.fits(theirs[1])
    there = few.map(first, theirs[2], recover=partial(MODEL.scores, theta + direction))
    curve = partial(MODEL.curvature, form("dense"), True)
    exact = here().total(curve, here().map(partial(MODEL.scores, theta + direction)))
    np.testing.assert_allclose(few.total_of_large(curve, 14, 144, there).as_matrix(), exact.as_matrix(), rtol=1e-12)
    assert few.rounds == kept.rounds == 3
    cut = few._cut.name
    del few
    gc.collect()
    kept.total(partial(MODEL.loss_and_gradient, theta))
    with client.as_current():
        assert all(keeper.lacks([cut]).result() == [cut] for keeper in kept.actors.actors)


def test_single_precision(kept):
    narrow = kept.narrowed()
    total, scores = narrow.run(partial(MODEL.evaluate, np.linspace(-1, 1, 12)))
    exact = here().total(partial(MODEL.loss_and_gradient, np.linspace(-1, 1, 12)))
    np.testing.assert_allclose(total[1], exact[1], rtol=1e-4)
    assert not np.array_equal(total[1], exact[1])
    assert kept.rounds == 1  # they are counted together
    assert narrow.fits(scores)
    assert narrow.has_room(1.0)


def fresh_pages():
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(2**17)  # 256 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers do as they like")
def test_workers_that_keep_rows_use_memory_again(client, kept):
    assert all(pages < 5000 for pages in client.run(fresh_pages).values())


def test_mistakes_in_a_task_are_not_taken_for_lost_workers(kept, monkeypatch):
    monkeypatch.setattr(keepers, "NOTICED_WITHIN", 0.1)
    with pytest.raises(RuntimeError, match="a mistake"):
        kept.run(mistake)


def mistake(block):
    raise RuntimeError("a mistake")


@pytest.mark.parametrize("within", [True, False], ids=["called", "out of reach"])
def test_workers_are_called_without_the_scheduler_where_they_answer(client, monkeypatch, within):
    connect, asked = distributed.comm.connect, []

    async def tried(address, **how):
        asked.append(address)
        if not within:
            raise OSError("no route to host")
        return await connect(address, **how)

    monkeypatch.setattr(distributed.comm, "connect", tried)
    kept = ActorBlocks(Actors(client, [dask.delayed(blocks)(share) for share in range(SHARES)], memory=1e9))
    assert [keeper._address for keeper in kept.actors.actors] == asked
    assert [bool(keeper._client.direct_to_workers) for keeper in kept.actors.actors] == [within] * SHARES
    theirs, ours = leapt_both_ways(kept, np.linspace(-1, 1, 12), np.linspace(1, 2, 12))
    assert_alike(theirs[0], ours[0])


def test_who_asks_for_the_scheduler_gets_it(cluster):
    with distributed.Client(cluster, set_as_default=False, direct_to_workers=False) as client:
        kept = ActorBlocks(Actors(client, [dask.delayed(blocks)(share) for share in range(SHARES)], memory=1e9))
        assert not any(keeper._client.direct_to_workers for keeper in kept.actors.actors)
