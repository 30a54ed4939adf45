import pytest

from hf_vanilla_transformer.training.schedule import learning_rate, paper_peak


@pytest.mark.parametrize("step", [1, 17, 4000, 4001, 100_000])
def test_paper_peak_gives_equation_three(step):
    d_model, warmup_steps = 512, 4000
    peak = paper_peak(d_model=d_model, warmup_steps=warmup_steps)
    expected = d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    rate = learning_rate(step, peak=peak, warmup_steps=warmup_steps)
    assert rate == pytest.approx(expected, rel=1e-12)


def test_rate_peaks_at_the_end_of_warm_up_and_halves_at_four_times_as_many_steps():
    rates = [learning_rate(step, peak=1e-3, warmup_steps=100) for step in range(1, 401)]
    assert max(rates) == rates[99] == pytest.approx(1e-3)
    assert rates[49] == pytest.approx(5e-4)
    assert rates[399] == pytest.approx(5e-4)
