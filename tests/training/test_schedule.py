import pytest

from hf_vanilla_transformer.training.schedule import Schedule, paper_peak


@pytest.mark.parametrize("step", [1, 17, 4000, 4001, 100_000])
def test_paper_peak_gives_equation_three(step):
    d_model, warmup_steps = 512, 4000
    peak = paper_peak(d_model=d_model, warmup_steps=warmup_steps)
    expected = d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    rate = Schedule("inverse-sqrt", peak, warmup_steps).rate(step, done=0.9)
    assert rate == pytest.approx(expected, rel=1e-12)


def test_rate_peaks_at_the_end_of_warm_up_and_halves_at_four_times_as_many_steps():
    schedule = Schedule("inverse-sqrt", 1e-3, 100)
    rates = [schedule.rate(step, done=0) for step in range(1, 401)]
    assert max(rates) == rates[99] == pytest.approx(1e-3)
    assert rates[49] == pytest.approx(5e-4)
    assert rates[399] == pytest.approx(5e-4)


def test_a_linear_rate_falls_by_equal_amounts_and_is_highest_where_warm_up_ends():
    schedule = Schedule("linear", 1e-3, 10)
    rates = [schedule.rate(step, done=(step - 1) / 100) for step in range(1, 101)]
    assert rates[:5] == pytest.approx([1e-4, 2e-4, 3e-4, 4e-4, 5e-4])
    assert max(rates) == rates[9]
    assert rates[50] == pytest.approx(5e-4)
    falls = [before - after for before, after in zip(rates[10:], rates[11:], strict=False)]
    assert falls == pytest.approx([1e-5] * len(falls))
    assert rates[-1] == pytest.approx(1e-5), "the last update still learns"
    assert schedule.rate(500, done=1) == 0


@pytest.mark.parametrize("shape", ["linear", "inverse-sqrt"])
@pytest.mark.parametrize("updates", [9, 100, 4000])
def test_a_warm_up_that_follows_the_run_takes_a_tenth_of_it_at_most(shape, updates):
    schedule = Schedule(shape, 1e-3, 800, warmup_share=0.1)
    rates = [schedule.rate(step, done=(step - 1) / updates) for step in range(1, updates + 1)]
    highest = rates.index(max(rates)) + 1
    assert highest <= updates / 10 + 2
    assert max(rates) > 0.85e-3
    assert schedule.shortfall(updates) is None
    assert "rises for 800 steps, or 10% of the run if that is shorter," in str(schedule)


def test_a_warm_up_that_is_asked_for_has_its_length_whatever_the_run_has():
    schedule = Schedule("linear", 1e-3, 800)
    assert schedule.rate(80, done=0.8) == pytest.approx(1e-4)
    assert schedule.rate(80, done=0.95) == pytest.approx(5e-5)


def test_in_a_run_ten_times_as_long_as_its_warm_up_the_share_changes_nothing():
    for step in (1, 400, 800, 801, 5000, 8000):
        done = (step - 1) / 8000
        for shape in ("linear", "inverse-sqrt"):
            bounded, plain = Schedule(shape, 1e-3, 800, 0.1), Schedule(shape, 1e-3, 800)
            assert bounded.rate(step, done=done) == plain.rate(step, done=done)


def test_a_note_tells_where_the_rate_goes():
    linear = str(Schedule("linear", 3e-3, 800))
    assert "800 steps towards a line that falls from 3.00e-03 at the start" in linear
    paper = Schedule("inverse-sqrt", 3e-3, 800)
    assert str(paper) == "learning rate: the warm-up rises for 800 steps to 3.00e-03"
    assert paper.shortfall(800) is None
    assert "will end at step 799 of 800 warm-up steps" in paper.shortfall(799)
