"""Let contenders decode the same batches in turn, and keep the time of every run."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig

TOKENS_OF_A_TURN = 75
"""A turn is as many runs as decode this many tokens at least: one of a batch, 3 of a sentence."""

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Case:
    """What is decoded: B sentences of S source tokens each, with n beams, to T target tokens.

    Attributes:
        batch: B.
        beams: n; 1 is greedy search.
        source_tokens: S, end of sentence included.
        new_tokens: T, neither fewer nor more.
    """

    batch: int
    beams: int
    source_tokens: int
    new_tokens: int

    @property
    def name(self) -> str:
        """Sentences and beams, such as 32x4."""
        return f"{self.batch}x{self.beams}"

    @property
    def target_tokens(self) -> int:
        """Tokens of the best hypotheses, B * T."""
        return self.batch * self.new_tokens

    @property
    def runs(self) -> int:
        """Runs of a turn."""
        return -(-TOKENS_OF_A_TURN // self.target_tokens)


SourceRows = list[list[int]]
Contender = Callable[[SourceRows, Case], list[list[int]]]
"""Decodes sources (B rows of S ids) and returns the best hypotheses (B rows of T ids)."""

Rounds = list[list[float]]
"""Seconds of every run of every round."""


def draw_sources(case: Case, config: VanillaTransformerConfig) -> SourceRows:
    """Return random sentences of a case, the same at every call; each ends in the end token."""
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    special = {getattr(config, name) for name in names}
    words = torch.tensor([index for index in range(config.vocab_size) if index not in special])
    shape = (case.batch, case.source_tokens - 1)
    drawn = torch.randint(len(words), shape, generator=torch.Generator().manual_seed(1))
    return [[*row, config.eos_token_id] for row in words[drawn].tolist()]


class Race:
    """Contenders and the batches that they decode in turn.

    Attributes:
        seconds: For each case and contender, a list for each of its rounds.
        found: For each case and contender, the ids of its first run.

    Args:
        contenders: By name.
        sources: A batch for each case.
        clock: Returns seconds.
    """

    def __init__(
        self,
        contenders: Mapping[str, Contender],
        sources: Mapping[Case, SourceRows],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.contenders, self.sources, self.clock = contenders, sources, clock
        self.seconds: dict[Case, dict[str, Rounds]] = {
            case: {name: [] for name in contenders} for case in sources
        }
        self.found: dict[Case, dict[str, list[list[int]]]] = {case: {} for case in sources}
        self._expected: dict[tuple[Case, str], float] = {}

    def warm_up(self) -> Iterator[float]:
        """Run every contender on every case once, uncounted; yield 1 after each.

        Raises:
            ValueError: A contender gave more or fewer tokens than asked for.
        """
        for case, sources in self.sources.items():
            for name, decode in self.contenders.items():
                began = self.clock()
                found = self.found[case][name] = decode(sources, case)
                self._expected[case, name] = case.runs * (self.clock() - began)
                lengths = {len(row) for row in found}
                if len(found) != case.batch or lengths != {case.new_tokens}:
                    raise ValueError(
                        f"{name} gave {len(found)} translations of {sorted(lengths)} tokens where "
                        f"{case.batch} of {case.new_tokens} were asked for"
                    )
                yield 1.0

    def expected_seconds(self, rounds: int) -> float:
        """Return what rounds will take, as far as the warm-up tells."""
        return rounds * sum(self._expected.values())

    def run(self, rounds: int) -> Iterator[float]:
        """Measure: in a round everyone has a turn at every case; yield what was expected of it."""
        for _ in range(rounds):
            for case, sources in self.sources.items():
                for name, decode in self.contenders.items():
                    runs = [self._time(decode, sources, case=case) for _ in range(case.runs)]
                    self.seconds[case][name].append(runs)
                    yield self._expected[case, name]

    def _time(self, decode: Contender, sources: SourceRows, *, case: Case) -> float:
        began = self.clock()
        decode(sources, case)
        return self.clock() - began

    def whole_rounds(self, case: Case) -> dict[str, Rounds]:
        """Return the rounds of a case in which everyone had a turn."""
        count = min(len(rounds) for rounds in self.seconds[case].values())
        return {name: rounds[:count] for name, rounds in self.seconds[case].items()}


def speeds(case: Case, rounds: Rounds) -> list[float]:
    """Return the tokens per second of every round, those of the best hypotheses only."""
    return [case.target_tokens * len(runs) / sum(runs) for runs in rounds]


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of the rounds."""
    return statistics.median(own / other for own, other in zip(ours, theirs, strict=True))


def percentiles(rounds: Rounds) -> dict[str, float]:
    """Return p50, p90 and p99 of the seconds of all runs, between two runs interpolated."""
    values = np.percentile([run for runs in rounds for run in runs], PERCENTILES)
    return {f"p{rank}": float(value) for rank, value in zip(PERCENTILES, values, strict=True)}


def equal_share(rows: list[list[int]], others: list[list[int]]) -> float:
    """Return the share of tokens that are the same as the other's at their place."""
    pairs = [
        token == other
        for row, of_other in zip(rows, others, strict=True)
        for token, other in zip(row, of_other, strict=True)
    ]
    return sum(pairs) / len(pairs)
