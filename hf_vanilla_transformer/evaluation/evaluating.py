"""Evaluate a model on a test set."""

import logging
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.evaluation.metrics import METRICS, names_in_words
from hf_vanilla_transformer.evaluation.reference_loss import reference_loss
from hf_vanilla_transformer.evaluation.report import (
    EvaluationReport,
    EvaluationTask,
    Example,
    describe_environment,
    draw_examples,
)
from hf_vanilla_transformer.evaluation.scoring import RESAMPLES, Measurement, Scorer
from hf_vanilla_transformer.model.batches import BATCH_TOKENS
from hf_vanilla_transformer.translation.journal import Journal
from hf_vanilla_transformer.translation.output import in_one_line
from hf_vanilla_transformer.translation.translate import Sentences, translate_shared

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TestSet:
    """Sentences with reference translations.

    Attributes:
        sources: Text to translate.
        references: Sets of references; each set has one reference per sentence.
        baseline: Translations of another system.
        source_language: Language code.
        target_language: Language code; it chooses the tokenisation of BLEU.
        name: Name for the report: the file or corpus of the sources.
        reference_names: Files of the references.
        baseline_name: File of the baseline.
    """

    __test__ = False  # no class of tests for pytest

    sources: list[str]
    references: list[list[str]]
    baseline: list[str] | None = None
    source_language: str | None = None
    target_language: str | None = None
    name: str = "test set"
    reference_names: tuple[str, ...] = ()
    baseline_name: str | None = None


@dataclass(frozen=True)
class EvaluationSettings:
    """How a test set is translated and scored.

    Attributes:
        beams: Width of beam search; None: the model's own.
        alpha: Length penalty ((5 + n) / 6)^alpha; None: the model's own.
        batch_tokens: Budget of a batch: source tokens times beams, padding included.
        tokenize: Tokenisation of BLEU, by its sacreBLEU name; None: by the target language.
        lowercase: Whether BLEU and chrF ignore case.
        confidence: Whether scores have 95 % confidence intervals, by bootstrap.
        examples: Number of random sentences in the report.
        dtype: Type of the weights, for the report.
    """

    beams: int | None = None
    alpha: float | None = None
    batch_tokens: int = BATCH_TOKENS
    tokenize: str | None = None
    lowercase: bool = False
    confidence: bool = False
    examples: int = 0
    dtype: str | None = None

    @property
    def generation(self) -> dict[str, object]:
        """Return the arguments of `generate` that are set."""
        settings = {"num_beams": self.beams, "gnmt_alpha": self.alpha}
        return {name: value for name, value in settings.items() if value is not None}

    def sentences(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, sources: list[str]
    ) -> Sentences:
        """Return the sentences in batches, to be translated with these settings."""
        return Sentences(
            model,
            tokenizer,
            sentences=sources,
            batch_tokens=self.batch_tokens,
            generation=self.generation,
        )

    def scorer(self, test_set: TestSet) -> Scorer:
        """Return the scorer of translations of a test set.

        Raises:
            ValueError: The tokenisation cannot be used here.
        """
        return Scorer(
            test_set.references,
            target_language=test_set.target_language,
            tokenize=self.tokenize,
            lowercase=self.lowercase,
        )


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    test_set: TestSet,
    settings: EvaluationSettings | None = None,
    *,
    accelerator: Accelerator | None = None,
    journal: Journal | None = None,
    scorer: Scorer | None = None,
) -> EvaluationReport | None:
    """Translate a test set and score it.

    Args:
        model: Any sequence-to-sequence model.
        tokenizer: Its tokenizer.
        test_set: Sentences with references.
        settings: Options; None: the model's generation settings, no resampling.
        accelerator: Its processes share the sentences; None: the launcher's processes, if any.
        journal: Saves finished translations, to continue after an interrupt.
        scorer: Return value of `settings.scorer(test_set)`, if it exists already.

    Returns:
        The report; None on all processes but the main one.

    Raises:
        TypeError: A text is not a string.
        ValueError: The test set is empty, counts differ, or the tokenisation is not available.
    """
    settings = settings or EvaluationSettings()
    accelerator = accelerator or Accelerator(cpu=not torch.accelerator.is_available())
    scorer = scorer or settings.scorer(test_set)
    scorer.check_counts(test_set.sources, kind="sentences")
    if test_set.baseline is not None:
        scorer.check_counts(test_set.baseline, kind="baseline translations")
    sentences = settings.sentences(model, tokenizer, sources=test_set.sources)
    translations = _translated(sentences, accelerator, journal=journal)
    logger.info("loss of the references ...")
    pairs = test_set.sources, test_set.references
    loss = reference_loss(model, tokenizer, *pairs, accelerator=accelerator)
    if not accelerator.is_main_process:
        return None
    return EvaluationReport(
        task=_describe_task(model, test_set=test_set, settings=settings),
        translations=translations,
        measurements=_measured(scorer, translations, test_set=test_set, settings=settings),
        loss=loss,
        examples=_examples(translations, test_set, count=settings.examples),
        baseline=test_set.baseline_name,
    )


def _translated(
    sentences: Sentences, accelerator: Accelerator, *, journal: Journal | None
) -> list[str]:
    """Return the translations of all sentences, each in one line."""
    done = f", {len(journal.found):,} of them done" if journal and journal.found else ""
    logger.info("translating %s sentences%s ...", f"{len(sentences):,}", done)
    return list(map(in_one_line, translate_shared(sentences, accelerator, journal=journal)))


def _measured(
    scorer: Scorer, translations: list[str], *, test_set: TestSet, settings: EvaluationSettings
) -> list[Measurement]:
    """Log that scoring starts, which may take long, and return the scores."""
    baseline = test_set.baseline
    resamples = RESAMPLES if settings.confidence or baseline is not None else 0
    of_resamples = f", with {resamples:,} resamples of the test set" if resamples else ""
    names = names_in_words(METRICS[key] for key in scorer.metrics)
    logger.info("%s%s ...", names, of_resamples)
    return scorer.measure(translations, resamples=resamples, baseline=baseline)


def _examples(translations: list[str], test_set: TestSet, *, count: int) -> list[Example]:
    """Return random sentences of the test set for the model card."""
    return draw_examples(
        count,
        sources=test_set.sources,
        translations=translations,
        references=test_set.references[0],
    )


def _describe_task(
    model: PreTrainedModel, *, test_set: TestSet, settings: EvaluationSettings
) -> EvaluationTask:
    """Return test set, model and settings, for the report."""
    own = model.generation_config
    search = {"num_beams": own.num_beams or 1, "gnmt_alpha": getattr(own, "gnmt_alpha", None)}
    search |= settings.generation
    return EvaluationTask(
        sentences=len(test_set.sources),
        model=model.name_or_path or None,
        source=test_set.name,
        reference=list(test_set.reference_names),
        source_language=test_set.source_language,
        target_language=test_set.target_language,
        search={name: value for name, value in search.items() if value is not None},
        dtype=settings.dtype,
        batch_tokens=settings.batch_tokens,
        environment=describe_environment(),
    )
