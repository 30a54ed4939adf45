"""Write the card of a model: what it is, how to use it, what it was made of, how good it is."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from safetensors import safe_open
from transformers import GenerationConfig

from hf_vanilla_transformer.evaluation.metrics import (
    METRICS,
    names_in_words,
    shown_count,
    shown_score,
)
from hf_vanilla_transformer.languages import language_metadata, named_language
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.publishing.learning_curve import draw_learning_curve
from hf_vanilla_transformer.publishing.markup import code, plain, without_controls
from hf_vanilla_transformer.publishing.report import (
    evaluation_results,
    refuse_other_languages,
    training_command,
    training_data,
    training_figures,
)
from hf_vanilla_transformer.publishing.sections import renew_sections
from hf_vanilla_transformer.publishing.template import TEMPLATE
from hf_vanilla_transformer.storage.files import write_text
from hf_vanilla_transformer.storage.weights import weight_files

CARD, CURVE = "README.md", "learning_curve.png"
# What the library writes at the top of its template.
LIBRARY_DESCRIPTION = (
    "This is the model card of a 🤗 transformers model that has been pushed on the Hub. "
    "This model card has been automatically generated."
)
TAGS = ("translation", "vanilla_transformer")
WORD_LISTS = ("tags", "metrics", "datasets")


def write_card(
    folder: str | Path,
    *,
    reports: Sequence[dict[str, object]] = (),
    repo_id: str | None = None,
) -> ModelCard:
    """Write `README.md`, and `learning_curve.png` if a report has validations, into a model folder.

    What a person wrote into an earlier card stays: metadata that are not ours, such as the licence
    and the names of the corpora (`datasets`), sections of their own and sections that they edited.
    Scores replace those of the same test set and metric. What the library filled into its own
    template goes.

    Args:
        folder: A saved model.
        reports: Reports of training and of evaluation; figures stand on the card rounded.
        repo_id: Name that the model will have on the Hub; left out: the folder's.

    Raises:
        ValueError: The configuration names a language that is none, a report is of other
            languages, or the old card's metadata are broken.
    """
    folder = Path(folder)
    repo_id = repo_id or folder.resolve().name
    reports = [without_controls(report) for report in reports]
    config = VanillaTransformerConfig.from_pretrained(folder)
    old = _old_card(folder / CARD)
    data = _metadata(old.data, config, reports=reports, repo_id=repo_id)
    training = next((report for report in reports if "training" in report), {})
    if validations := _validations(training):
        draw_learning_curve(validations, folder / CURVE)
    values = _of_model(folder, config, data=data) | _of_training(training, reports)
    values |= {"repo_id": repo_id, "name": repo_id.split("/")[-1]}
    values |= {"count": shown_count, "score": shown_score, "plain": plain, "code": code}
    values |= _directions()
    new = ModelCard.from_template(data, template_str=TEMPLATE, **values)
    kept = "" if is_librarys_template(old) else old.text
    card = ModelCard(f"---\n{data.to_yaml()}\n---\n{renew_sections(kept, new.text)}")
    write_text(folder / CARD, str(card))
    return card


def _directions() -> dict[str, str]:
    """Return the metrics where more is better, and those where less is better."""
    return {
        "more_is_better": names_in_words(one for one in METRICS.values() if one.more_is_better),
        "less_is_better": names_in_words(one for one in METRICS.values() if not one.more_is_better),
    }


def is_librarys_template(card: ModelCard) -> bool:
    """Return whether a card is the unedited template of the library."""
    template = ModelCard.from_template(ModelCardData(), model_description=LIBRARY_DESCRIPTION)
    return card.text.strip() == template.text.strip()


def _old_card(path: Path) -> ModelCard:
    """Return the card that is there, or an empty one; its tags, metrics and datasets are lists."""
    if not path.exists():
        return ModelCard("---\n{}\n---\n")
    try:
        text = path.read_text("utf-8-sig")
        card = ModelCard(text)
        block = REGEX_YAML_BLOCK.search(text)
        given = block and yaml.safe_load(block[2]) or {}
        for name in WORD_LISTS:  # older huggingface_hub has split a string into its letters
            card.data[name] = _listed(name, given.get(name)) or None
    except Exception as error:  # of YAML, and of huggingface_hub's checks
        reason = " ".join(str(error).split())
        raise ValueError(f"{path.name}: broken metadata: {reason}") from error
    return card


def _listed(name: str, value: object) -> list[str]:
    """Return metadata that may be one word, a list of words, or missing."""
    words = [] if value is None else [value] if isinstance(value, str) else value
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        raise ValueError(f"{name} is {value!r}, not a list of words")
    return words


def _metadata(
    old: ModelCardData,
    config: VanillaTransformerConfig,
    *,
    reports: Sequence[dict[str, object]],
    repo_id: str,
) -> ModelCardData:
    """Return the old metadata with ours in it."""
    languages = language_metadata(config.source_language, config.target_language)
    for report in reports:
        refuse_other_languages(report, config)
    codes = [code for code in (config.source_language, config.target_language) if code]
    new = [result for report in reports for result in evaluation_results(report, codes)]
    results = _merged(old.eval_results or [], new)
    kept = old.to_dict()
    for name in ("model-index", "language_bcp47"):
        kept.pop(name, None)
    ours = {
        **languages,
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": list(dict.fromkeys([*(old.tags or []), *TAGS])),
    }
    if results:
        metrics = [*(old.metrics or []), *(result.metric_type for result in results)]
        ours["metrics"] = list(dict.fromkeys(metrics))
        ours |= {"eval_results": results, "model_name": repo_id.split("/")[-1]}
    return ModelCardData(**kept | ours)


def _merged(old: list[EvalResult], new: list[EvalResult]) -> list[EvalResult]:
    """Return all results, of one test set and measure the newest."""
    by_place = {
        (*one.unique_identifier, one.metric_type, one.metric_name): one for one in (*old, *new)
    }
    return list(by_place.values())


def _with_test_sets(results: Sequence[EvalResult]) -> list[tuple[str, EvalResult]]:
    """Return each result behind the name of its test set, or what is longer if others share it."""
    types = defaultdict(set)
    for one in results:
        types[one.dataset_name].add(one.dataset_type)
    return [
        (one.dataset_name if len(types[one.dataset_name]) == 1 else one.dataset_type, one)
        for one in results
    ]


def _of_model(
    folder: Path, config: VanillaTransformerConfig, *, data: ModelCardData
) -> dict[str, object]:
    """Return what the template shows of the model itself."""
    languages = (config.source_language, config.target_language)
    source, target = (
        named_language(code) if code else f"the {side} language of its training data"
        for code, side in zip(languages, ("source", "target"), strict=True)
    )
    return {
        "source": source,
        "target": target,
        "parameters": _count_parameters(folder),
        "architecture": (
            f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers, "
            f"d_model {config.d_model}, d_ff {config.d_ff}, {config.num_heads} heads, "
            f"{config.norm_position}-norm, {config.position_type} positions, "
            f"vocabulary of {config.vocab_size:,}"
        ),
        "decoding": _describe_decoding(GenerationConfig.from_pretrained(folder)),
        "longest": config.max_position_embeddings,
        "corpora": data.datasets or [],
        "licence": data.license,
        "results": _with_test_sets(data.eval_results or []),
    }


def _of_training(
    report: dict[str, object], reports: Sequence[dict[str, object]]
) -> dict[str, object]:
    """Return what the template shows of the training, and a sentence to translate."""
    examples = [one for report in reports for one in report.get("translations", [])]
    shown = [one for one in examples if one.get("reference") is None]
    tested = [one for one in examples if one.get("reference") is not None]
    return {
        "data": training_data(report),
        "trained_on": report.get("arguments", {}).get("max_length"),
        "training": training_figures(report),
        "command": training_command(report),
        "processes": report.get("training", {}).get("processes", 1),
        "curve": CURVE if _validations(report) else None,
        "examples": shown,
        "tested": tested,
        "example": json.dumps(examples[0]["source"] if examples else "...", ensure_ascii=False),
    }


def _validations(report: dict[str, object]) -> list[dict[str, float | None]]:
    return report.get("training", {}).get("validations") or []


def _count_parameters(folder: Path) -> int:
    """Return how many numbers the weights hold; only the heads of the files are read."""
    count = 0
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
            count += sum(map(math.prod, shapes))
    return count


def _describe_decoding(generation: GenerationConfig) -> str:
    """Return the settings of decoding in words."""
    beams = generation.num_beams or 1
    parts = ["greedy search" if beams == 1 else f"beam search of width {beams}"]
    alpha = getattr(generation, "gnmt_alpha", None)
    if alpha is not None:
        parts.append(f"length penalty ((5 + n) / 6)^{alpha}")
    extra = getattr(generation, "extra_decode_length", None)
    if extra is not None:
        parts.append(f"at most {extra} tokens more than the source has")
    return ", ".join(parts)
