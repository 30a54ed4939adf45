"""Translate and score test sets; the public names of evaluation."""

from hf_vanilla_transformer.evaluation.evaluating import EvaluationSettings, TestSet, evaluate
from hf_vanilla_transformer.evaluation.reference_loss import ReferenceLoss, reference_loss
from hf_vanilla_transformer.evaluation.report import EvaluationReport
from hf_vanilla_transformer.evaluation.scoring import (
    Measurement,
    Scorer,
    Scores,
    score_translations,
)
from hf_vanilla_transformer.storage.models import find_model, load_for_translation
from hf_vanilla_transformer.translation.forced_decoding import log_probs_of_pairs
from hf_vanilla_transformer.translation.translate import (
    Hypothesis,
    Sentences,
    translate,
    translate_n_best,
    translate_shared,
)

__all__ = [
    "EvaluationReport",
    "EvaluationSettings",
    "Hypothesis",
    "Measurement",
    "ReferenceLoss",
    "Scorer",
    "Scores",
    "Sentences",
    "TestSet",
    "evaluate",
    "find_model",
    "load_for_translation",
    "log_probs_of_pairs",
    "reference_loss",
    "score_translations",
    "translate",
    "translate_n_best",
    "translate_shared",
]
