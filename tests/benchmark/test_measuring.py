"""Turns, medians, ratios and percentiles, on a clock that only the contenders move."""

import statistics
from itertools import chain, repeat

import pytest

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.benchmark.measuring import (
    Case,
    Race,
    draw_sources,
    equal_share,
    median_ratio,
    percentiles,
    speeds,
)

BATCH = Case(batch=2, beams=4, source_tokens=5, new_tokens=50)
SENTENCE = Case(batch=1, beams=1, source_tokens=5, new_tokens=25)
SOURCES = {case: [[4, 5, 6, 7, 3]] * case.batch for case in (BATCH, SENTENCE)}


class Clock:
    """Time that passes only while somebody decodes."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def __call__(self):
        return self.now

    def contender(self, name, seconds, length=None):
        """Return one that takes so many seconds each time, the last of them for ever after."""
        left = chain(seconds, repeat(seconds[-1]))

        def decode(sources, case):
            self.log.append((name, case))
            self.now += next(left)
            return [[7] * (length or case.new_tokens) for _ in sources]

        return decode


def race(clock, *cases, **seconds):
    contenders = {name: clock.contender(name, each) for name, each in seconds.items()}
    return Race(contenders, {case: SOURCES[case] for case in cases}, clock=clock)


def test_everyone_has_a_turn_at_every_case_before_anyone_has_another():
    clock = Clock()
    running = race(clock, BATCH, SENTENCE, ours=[1.0], marian=[2.0], other=[3.0])
    assert sum(running.warm_up()) == 6
    clock.log.clear()
    list(running.run(2))
    turns = [(name, BATCH) for name in ("ours", "marian", "other")]
    turns += [(name, SENTENCE) for name in ("ours", "marian", "other") for _ in range(3)]
    assert clock.log == turns * 2


def test_the_warm_up_is_not_counted():
    running = race(Clock(), BATCH, ours=[60.0, 2.0, 4.0, 8.0])
    list(running.warm_up())
    list(running.run(3))
    assert running.seconds[BATCH] == {"ours": [[2.0], [4.0], [8.0]]}


def test_what_is_expected_of_the_rounds_adds_up():
    running = race(Clock(), BATCH, SENTENCE, ours=[0.5], marian=[4.0])
    list(running.warm_up())
    assert running.expected_seconds(3) == 3 * (0.5 + 4.0 + 3 * 0.5 + 3 * 4.0)
    assert list(running.run(3)) == [0.5, 4.0, 1.5, 12.0] * 3


@pytest.mark.parametrize(
    ("batch", "new_tokens", "runs"), [(1, 25, 3), (1, 16, 5), (32, 25, 1), (1, 1024, 1)]
)
def test_short_runs_are_repeated_in_a_turn(batch, new_tokens, runs):
    assert Case(batch, 4, 25, new_tokens).runs == runs


def test_speed_counts_the_tokens_of_the_best_hypotheses():
    assert speeds(BATCH, [[2.0], [1.0, 4.0]]) == [50.0, 40.0]


def test_a_ratio_is_the_median_of_the_rounds_and_not_a_ratio_of_medians():
    ours, theirs = [10.0, 4.0, 9.0], [5.0, 1.0, 9.0]
    assert median_ratio(ours, theirs) == 2.0
    assert statistics.median(ours) / statistics.median(theirs) != 2.0


def test_percentiles_are_of_all_runs():
    rounds = [[float(x), float(100 - x)] for x in range(50)] + [[50.0]]
    assert percentiles(rounds) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}


def test_a_round_cut_short_is_left_out():
    clock = Clock()
    running = race(clock, BATCH, SENTENCE, ours=[1.0], marian=[1.0])
    list(running.warm_up())
    turns = running.run(3)
    for _ in range(5):
        next(turns)
    assert len(running.seconds[BATCH]["ours"]) == 2
    assert running.whole_rounds(BATCH) == {"ours": [[1.0]], "marian": [[1.0]]}
    assert running.whole_rounds(SENTENCE) == {"ours": [[1.0] * 3], "marian": [[1.0] * 3]}


@pytest.mark.parametrize("length", [49, 51])
def test_a_contender_that_does_less_or_more_is_refused_by_name(length):
    clock = Clock()
    contenders = {"fair": clock.contender("", [1.0]), "odd": clock.contender("", [1.0], length)}
    running = Race(contenders, {BATCH: SOURCES[BATCH]}, clock=clock)
    with pytest.raises(ValueError, match=rf"odd gave 2 translations of \[{length}\] .*2 of 50"):
        list(running.warm_up())


def test_sources_are_words_and_one_end_and_the_same_for_everyone():
    config = VanillaTransformerConfig(vocab_size=12, d_model=8, num_heads=2)
    case = Case(batch=40, beams=1, source_tokens=9, new_tokens=1)
    sources = draw_sources(case, config)
    assert sources == draw_sources(case, config)
    assert {len(row) for row in sources} == {9}
    assert {row[-1] for row in sources} == {config.eos_token_id}
    assert {index for row in sources for index in row[:-1]} == set(range(12)) - {0, 2, 3}
    assert len({tuple(row) for row in sources}) == 40


def test_equal_share_counts_tokens():
    assert equal_share([[1, 2], [3, 4]], [[1, 9], [3, 4]]) == 0.75
