"""BLEU and chrF as a metric of the library `evaluate`, without a download."""

from collections.abc import Collection

import datasets
import evaluate

from hf_vanilla_transformer.evaluation.scoring import score_translations

DESCRIPTION = "BLEU and chrF by sacreBLEU, tokenised as the target language needs."
PLAIN, LISTED = "texts", "lists of texts"
CITATION = "Post 2018, A Call for Clarity in Reporting BLEU Scores; Popović 2015, chrF."


class TranslationMetric(evaluate.Metric):
    """Score predictions against references: `bleu`, `chrf` and their signatures.

    As everywhere in `evaluate`, `references` holds for each prediction one text, or a list of texts
    as long as that of every other prediction.

    Args:
        target_language: Language code; it chooses the tokenisation that BLEU needs.
        **kwargs: Arguments of `evaluate.Metric`.
    """

    def __init__(self, target_language: str | None = None, **kwargs: object) -> None:
        self.target_language = target_language
        super().__init__(**kwargs)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            features=[
                datasets.Features({"predictions": text, "references": references})
                for references in (datasets.Sequence(text), text)
            ],
        )

    def add_batch(
        self,
        *,
        predictions: Collection[str] | None = None,
        references: Collection[str] | Collection[Collection[str]] | None = None,
    ) -> None:
        """Add texts to score; `compute` comes here with those that it is given.

        Raises:
            ValueError: Predictions are no texts, or references neither texts nor lists of texts.
        """
        if _kinds(predictions) != {PLAIN} or _kinds(references) not in (
            {PLAIN},
            {LISTED},
        ):
            raise ValueError(
                f"predictions are {_describe(predictions)}, references are "
                f"{_describe(references)}; for each prediction, a text, there is a text or a list "
                "of texts"
            )
        super().add_batch(predictions=predictions, references=references)

    def _compute(
        self, predictions: list[str], references: list[str] | list[list[str]]
    ) -> dict[str, float | str]:
        rows = [[row] if isinstance(row, str) else row for row in references]
        for index, row in enumerate(rows):
            if len(row) != len(rows[0]) or not row:
                raise ValueError(
                    f"prediction 0 has {len(rows[0])} references, prediction {index} has "
                    f"{len(row)}; each needs equally many, at least one"
                )
        sets = [list(texts) for texts in zip(*rows, strict=True)]
        return vars(score_translations(predictions, *sets, target_language=self.target_language))


def _kinds(column: object) -> set[str]:
    """Return what a column consists of; a text, which would be one of characters, is no column."""
    if isinstance(column, str) or not isinstance(column, Collection):
        return {type(column).__name__}
    return set(map(_kind_of_entry, column))


def _kind_of_entry(entry: object) -> str:
    if isinstance(entry, str):
        return PLAIN
    is_list = isinstance(entry, Collection) and all(isinstance(text, str) for text in entry)
    return LISTED if is_list else f"{type(entry).__name__} objects"


def _describe(column: object) -> str:
    if isinstance(column, str):
        return f"a single text of {len(column)} characters"
    if not isinstance(column, Collection):
        return repr(column)
    return f"{len(column)} {' and '.join(sorted(_kinds(column))) or PLAIN}"
