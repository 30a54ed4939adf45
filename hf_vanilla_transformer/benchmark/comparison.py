"""A whole comparison: a model, its contenders, their race and their memory, as one report."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from tqdm import tqdm

from hf_vanilla_transformer.benchmark.contenders import Contenders, Model
from hf_vanilla_transformer.benchmark.measuring import Case, Race, draw_sources
from hf_vanilla_transformer.benchmark.memory import describe_memory
from hf_vanilla_transformer.benchmark.report import Record, describe_case, describe_machine
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)

BAR = "{desc}: {percentage:.0f} %, {remaining} left"
RESERVED_IDS = 4


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Attributes:
        title: Name of the model.
        load: Returns model and tokenizer; it can be pickled, for other processes.
        cases: What everyone decodes.
        lengths: The same with more and more new tokens.
        memory: A case whose memory is measured; None measures none.
        names: Contenders; None takes all that there can be.
        rounds: Turns of everyone at every case.
        threads: CPU threads of everyone.
    """

    title: str
    load: Callable[[], Model]
    cases: Sequence[Case]
    lengths: Sequence[Case]
    memory: Case | None
    names: Sequence[str] | None
    rounds: int
    threads: int

    @property
    def all_cases(self) -> list[Case]:
        """Every case that anything is measured at."""
        return [*self.cases, *self.lengths, *([self.memory] if self.memory else [])]


def compare(plan: Plan) -> Record:
    """Measure and return the report; Ctrl-C ends it early, with what there is.

    Raises:
        ValueError: The model is not fit for a case, or a contender not for the model.
    """
    model, tokenizer = plan.load()
    plan = _within_limit(plan, model.config.max_position_embeddings)
    for case in plan.all_cases:
        _check_fits(case, model)
    longest = max(case.new_tokens for case in plan.all_cases)
    makes = Contenders(model, tokenizer, threads=plan.threads, longest=longest)
    contenders, missing = makes.make_all(plan.names)
    sources = {case: draw_sources(case, model.config) for case in (*plan.cases, *plan.lengths)}
    race = Race(contenders, sources)
    memory: dict[str, Record] = {}
    interrupted = False
    try:
        _follow(race.warm_up(), "warm-up", total=len(contenders) * len(sources))
        _follow(race.run(plan.rounds), "measuring", total=race.expected_seconds(plan.rounds))
        if plan.memory:
            _follow(
                _measure_memory(plan, makes, names=contenders, memory=memory),
                "memory",
                total=len(contenders),
            )
    except KeyboardInterrupt:
        interrupted = True
    held = {**asdict(plan.memory), "contenders": memory} if memory else None
    return {
        "model": plan.title,
        "parameters": model.num_parameters(),
        "machine": describe_machine(),
        "interrupted": interrupted,
        **_describe_cases(plan, race),
        "memory": held,
        "missing": missing,
    }


def _describe_cases(plan: Plan, race: Race) -> Record:
    """Return the figures of cases and lengths, and the rounds in which all of them had a turn."""
    figures = {case: describe_case(race, case) for case in race.sources}
    cases, lengths = (
        [figures[case] for case in dict.fromkeys(part) if figures[case]]
        for part in (plan.cases, plan.lengths)
    )
    rounds = min(one["rounds"] if one else 0 for one in figures.values())
    return {"rounds": rounds, "cases": cases, "lengths": lengths}


def _within_limit(plan: Plan, longest: int) -> Plan:
    """Return the plan with no more source tokens in the case of memory than a model takes."""
    if plan.memory is None:
        return plan
    source_tokens = min(plan.memory.source_tokens, longest)
    return replace(plan, memory=replace(plan.memory, source_tokens=source_tokens))


def _check_fits(case: Case, model: VanillaTransformerForConditionalGeneration) -> None:
    """Refuse a case that a model cannot decode.

    Raises:
        ValueError: Names the number and the limit.
    """
    longest = model.config.max_position_embeddings
    if case.source_tokens > longest:
        raise ValueError(f"{case.source_tokens} source tokens are over the model's {longest}")
    entries = min(model.config.vocab_size, model.lm_head.out_features)
    if entries < RESERVED_IDS + 2 * case.beams:
        raise ValueError(f"{case.beams} beams are too many for a vocabulary of {entries}")


def _measure_memory(
    plan: Plan, makes: Contenders, *, names: Iterable[str], memory: dict[str, Record]
) -> Iterator[float]:
    """Enter the memory of every contender, yielding 1 after each."""
    for name in names:
        memory[name] = describe_memory(makes, name, case=plan.memory, load=plan.load)
        yield 1.0


def _follow(steps: Iterable[float], what: str, *, total: float) -> None:
    """Take all steps; on a terminal, show how far they are and what time is left."""
    is_seen = sys.stderr.isatty()
    with tqdm(
        total=total, desc=what, bar_format=BAR, leave=False, file=sys.stderr, disable=not is_seen
    ) as bar:
        for step in steps:
            bar.update(step)
