"""The work of certificates in parts: bars that never fall, and the same results in several processes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from flint import acb, arb, ctx

import hockeystick as hs
from hockeystick_verify import (
    NotProvenError,
    allocation,
    check,
    correlated,
    few_steps,
    large_groups,
    lattice,
    parallel,
    read,
)

CERTIFICATES = Path(__file__).parents[1] / "docs" / "certificates"


def forget():
    """Empty what the checker keeps between the ordered pairs of a run."""
    for kept in (allocation.rays, allocation.transforms, correlated.transform_of, correlated.transforms):
        kept.cache_clear()
    for kept in (lattice.prepared, lattice.composed_run, lattice.known_laws, parallel.rules_of_job):
        kept.cache_clear()
    for kept in (few_steps.kept, large_groups.known_composition):
        kept.cache_clear()


def thirds(job):
    return [arb(job) / 3, acb(arb(1) / job, arb(job) / 7), (job, None)]


def ends(ball):
    return ball.mid(), ball.rad().man_exp()


@pytest.fixture(autouse=True)
def precision():
    before, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = before
    forget()


def test_two_threads_that_check_one_certificate_agree(monkeypatch):
    """Both compute what is kept before either keeps it: each must find all of it, and so must the next."""
    certificate = read(
        hs.privacy_curve(noise_multiplier=0.7, sample_rate=0.01, steps=5).certify(delta=1e-6).to_json()
    )
    assert any("near_tilt" in witness for witness in certificate["witness"].values())
    barrier, computed = threading.Barrier(2, timeout=60), few_steps.both_parts

    def together(*arguments):
        found = computed(*arguments)
        barrier.wait()
        return found

    forget()
    monkeypatch.setattr(few_steps, "both_parts", together)
    with ThreadPoolExecutor(2) as threads:
        verdicts = list(threads.map(check, [certificate, certificate]))
    assert verdicts[0] == verdicts[1] == check(certificate)


def test_balls_from_another_process_are_those_of_this_one():
    alone = list(parallel.mapped(thirds, [1, 2, 3]))
    with parallel.working(None, 2, 10):
        shared = list(parallel.mapped(thirds, [1, 2, 3]))
    for job, here, there in zip((1, 2, 3), alone, shared, strict=True):
        assert ends(here[0]) == ends(there[0])
        assert ends(here[1].real) == ends(there[1].real)
        assert ends(here[1].imag) == ends(there[1].imag)
        assert here[2] == there[2] == [job, None]
        wanted = thirds(job)
        assert here[0].contains(wanted[0])
        assert here[0].rad() < 1.01 * wanted[0].rad() + arb(2) ** -200
        assert here[1].contains(wanted[1])


def test_balls_without_an_end_are_no_answers():
    with pytest.raises(NotProvenError, match="not finite"):
        list(parallel.mapped(lambda job: job / arb(0), [arb(1)]))


def test_bars_never_fall_and_end_full():
    done = []
    with parallel.working(lambda *numbers: done.append(numbers), 1, 10):
        with parallel.stage(0.0, 0.5):
            list(parallel.mapped(thirds, [1, 2, 3, 4, 5]))
        with parallel.stage(0.2, 0.4):  # a second try: what was reached stays
            list(parallel.mapped(thirds, [1, 2]))
        with parallel.working(None, 1, 3), parallel.stage(0.5, 0.7), parallel.stage(0.5, 1.0):
            list(parallel.mapped(thirds, [1]))
    assert done == [(each, 10) for each in (0, 1, 2, 3, 4, 5, 7, 10)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["random-allocation", "laplace-three-records", pytest.param("correlated-bins", marks=pytest.mark.long)],
)
def test_what_is_proven_does_not_depend_on_the_number_of_processes(name):
    document, done = read((CERTIFICATES / f"{name}.json").read_text("utf-8")), []
    alone = check(document, progress=lambda *numbers: done.append(numbers))
    forget()
    assert check(document, processes=2) == alone
    assert all(each.holds for each in alone)
    share, total = zip(*done, strict=True)
    assert list(share) == sorted(set(share))
    assert (share[0], share[-1], set(total)) == (0, total[0], {total[0]})
    # No part of the bar is more than a fifth of it.
    assert max(after - before for before, after in pairwise(share)) <= total[0] // 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "about"),
    [
        ({"noise_multiplier": 1.0, "sample_rate": 0.01}, {"alpha": 0.1}),
        ({"noise_multiplier": 1.0, "sample_rate": 0.01}, {"order": 4.0}),
        ({"mechanism": hs.Laplace(2.0), "sample_rate": 0.1}, {"delta": 1e-5}),
        ({"noise_multiplier": 3.0, "sampling": hs.RandomAllocation(5)}, {"epsilon": 0.5}),
    ],
)
def test_certificates_are_made_with_a_bar_and_in_several_processes(run, about):
    curve, done = hs.privacy_curve(**run, steps=10), []
    certificate = curve.certify(**about, progress=lambda *numbers: done.append(numbers))
    forget()
    assert curve.certify(**about, processes=2).to_json() == certificate.to_json()
    share = [each for each, total in done if total == 100]
    assert len(share) == len(done)
    assert share == sorted(set(share))
    assert (share[0], share[-1]) == (0, 100)
    with pytest.raises(ValueError, match="processes must be at least 1, got 0"):
        curve.certify(**about, processes=0)
    with pytest.raises(TypeError, match="processes"):
        curve.certify(**about, processes="2")


def test_the_command_line_shows_a_bar_on_stderr(tmp_path):
    from click import testing

    from hockeystick.cli._commands import hockeystick

    path = str(tmp_path / "made.json")
    run = ["--mechanism", "laplace", "--scale", "2", "--sample-rate", "0.1", "--steps", "10"]
    given = ["certify", "--path", path, "--delta", "1e-5", "--progress", "--processes", "2", *run]
    made = testing.CliRunner().invoke(hockeystick, given)
    assert made.exit_code == 0, made.output
    assert made.stderr.count("100/100\n") == 1
    assert "100/100" not in made.stdout
    assert hs.privacy_curve(mechanism=hs.Laplace(2.0), sample_rate=0.1, steps=10).certify(
        delta=1e-5
    ).to_json() == Path(path).read_text("utf-8")


def test_sums_over_a_window_are_those_of_each_epsilon():
    law = {place: arb(1) / (3 + place % 7) for place in range(-40, 60)}
    kind = lattice.Kind(law, lattice.Grid(arb("0.3"), arb("0.25"), [], []), 1)
    window = lattice.Window(128, -60, arb("0.7"), arb(1), arb(0))
    epsilons = [arb(each) for each in ("0.0", "7.3", "0.3", "-10", "5.21", "0.301", "14.9", "30")]
    found = lattice.sums([kind], window, epsilons)
    for epsilon, total in zip(epsilons, found, strict=True):
        losses = {place: arb("0.3") + place * arb("0.25") for place in law}
        wanted = sum(
            (law[place] * (1 - (epsilon - loss).exp()).max(arb(0)) for place, loss in losses.items()), arb(0)
        )
        assert total.overlaps(wanted)
        assert total.rad() < arb(2) ** -80
    wide = lattice.Kind({0: arb(1)}, lattice.Grid(arb(0), arb("0.25").union(arb("0.26")), [], []), 1)
    with pytest.raises(NotProvenError, match="V12"):
        lattice.sums([wide], window._replace(first=-600, points=2), [arb(-140)])
