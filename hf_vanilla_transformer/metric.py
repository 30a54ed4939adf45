"""BLEU and chrF as a metric of the library `evaluate`, without a download."""

import datasets
import evaluate

from hf_vanilla_transformer.scoring import score_translations

DESCRIPTION = "BLEU and chrF by sacreBLEU, tokenised as the target language needs."
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
