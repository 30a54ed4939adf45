"""A whole training run: corpus, tokenizer, model, loop, averaged weights and a report."""

import logging
import math
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer import __version__
from hf_vanilla_transformer.data.corpus import Pair, read_pairs
from hf_vanilla_transformer.data.encoding import EncodedPairs, encode_pairs
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.generation import PAPER_DECODING
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    VanillaTransformerTokenizer,
)
from hf_vanilla_transformer.presets import PRESETS, Preset
from hf_vanilla_transformer.tokenization import train_tokenizer
from hf_vanilla_transformer.training.arguments import LoopArguments, RunArguments
from hf_vanilla_transformer.training.checkpoints import (
    average_checkpoints,
    list_checkpoints,
    save_checkpoint,
)
from hf_vanilla_transformer.training.loop import train
from hf_vanilla_transformer.training.threads import training_threads
from hf_vanilla_transformer.training.validation import validation_loss
from hf_vanilla_transformer.writing import write_folder, write_json

logger = logging.getLogger(__name__)

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "sacrebleu")


def run_training(run: RunArguments, loop: LoopArguments) -> dict[str, object]:
    """Train a model on files of pairs.

    Writes `tokenizer/`, `checkpoints/`, `model/` and `report.json` into the output folder.

    Returns:
        The content of the report.

    Raises:
        ValueError: The output folder is in use, the preset is unknown, or a corpus cannot be read.
        FileNotFoundError: A file of pairs is missing.
    """
    accelerator = start_accelerator()
    if not accelerator.is_main_process:  # accelerate's own logger would prefix every line
        logging.getLogger("hf_vanilla_transformer").setLevel(logging.WARNING)
    output, preset = Path(run.output), find_preset(run.preset)
    # A run that ended before it trained leaves its tokenizer, which the next one replaces.
    is_in_use = output.exists() and any(path.name != "tokenizer" for path in output.iterdir())
    if accelerator.is_main_process and is_in_use:
        raise ValueError(f"output folder {output} is not empty; name a new one")
    pairs, valid = _read_corpora(run)
    with accelerator.main_process_first():
        tokenizer = _shared_tokenizer(pairs, run, preset, is_main=accelerator.is_main_process)
    languages = {"source_language": run.source_lang, "target_language": run.target_lang}
    config = preset.config(vocab_size=len(tokenizer), **languages)
    limit = min(loop.max_length, config.max_position_embeddings)
    corpora = [
        encode_pairs(part, tokenizer, max_length=limit, name=name)
        for part, name in ((pairs, "training"), (valid, "validation"))
    ]
    logger.info(
        "%d training and %d validation pairs, tokenizer of %d entries",
        *(len(corpus.sources) for corpus in corpora),
        len(tokenizer),
    )
    set_seed(loop.seed)
    model = new_model(config)
    with training_threads(model, corpora[0], accelerator):
        trained = train_and_average(
            model, tokenizer, *corpora, loop, accelerator=accelerator, output=output
        )
        environment = describe_environment()
    report = {
        "arguments": asdict(run) | asdict(loop),
        "left_out": {"blank": corpora[0].blank, "too_long": corpora[0].too_long},
        "training": trained,
        "environment": environment,
    }
    if accelerator.is_main_process:
        write_json(output / "report.json", report)
        _warn_of_short_training(trained["steps"], loop)
    logger.info("saved %s/model, described in %s/report.json", output, output)
    return report


def start_accelerator() -> Accelerator:
    """Return the accelerator of this machine; without a GPU it is told so, to join processes."""
    return Accelerator(cpu=not torch.accelerator.is_available())


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: There is none of that name.
    """
    if name not in PRESETS:
        raise ValueError(f"preset {name!r} is unknown; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def new_model(config: VanillaTransformerConfig) -> VanillaTransformerForConditionalGeneration:
    """Return an untrained model that decodes with the paper's settings by default."""
    model = VanillaTransformerForConditionalGeneration(config)
    model.generation_config.update(**PAPER_DECODING)
    return model


def train_and_average(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: EncodedPairs,
    valid: EncodedPairs,
    loop: LoopArguments,
    *,
    accelerator: Accelerator,
    output: Path,
) -> dict[str, object]:
    """Train, and save the average of the last checkpoints as `output/model`.

    Where the average has a higher validation loss than the last checkpoint, as after a run too
    short for it, the last checkpoint is saved instead.

    Returns:
        Figures of the training, for the report.
    """
    checkpoints = output / "checkpoints"

    def save(trained: PreTrainedModel, step: int) -> None:
        def write(folder: Path) -> None:
            trained.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

        save_checkpoint(write, checkpoints, step=step, keep=loop.keep_checkpoints)

    result = train(model, pairs, valid, loop, accelerator=accelerator, save=save)
    kept = list_checkpoints(checkpoints)
    last_loss = result.validations[-1].loss
    average_loss = _save_average(kept, output / "model", valid, accelerator)
    if average_loss > last_loss:
        kept = kept[-1:]
        _save_average(kept, output / "model", valid, accelerator)
    loss = min(average_loss, last_loss)
    logger.info("model: averaged checkpoints: %d, validation loss %.4f", len(kept), loss)
    return asdict(result) | {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "processes": accelerator.num_processes,
        "tokens_per_second": result.tokens / result.seconds,
        "averaged": [path.name for path in kept],
        "validation_loss": loss,
        "validation_perplexity": math.exp(loss),
    }


def describe_environment() -> dict[str, object]:
    """Return versions, device and threads, for a report."""
    own = {"python": platform.python_version(), "hf_vanilla_transformer": __version__}
    return {
        "versions": own | {name: version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }


def _read_corpora(run: RunArguments) -> list[list[Pair]]:
    """Read training and validation pairs, none before all their files are known to exist."""
    for file in (*run.train, *run.valid):
        Path(file).stat()
    languages = {"source_language": run.source_lang, "target_language": run.target_lang}
    corpora = []
    for files in (run.train, run.valid):
        pairs = read_pairs(files, **languages)
        if not pairs:
            raise ValueError(f"{' '.join(files)} holds no pairs")
        corpora.append(pairs)
    return corpora


def _warn_of_short_training(steps: int, loop: LoopArguments) -> None:
    """Say so if training ended while the learning rate was still rising."""
    if steps < loop.warmup_steps:
        logger.warning(
            "stopped at step %d of %d warm-up steps: the model has learned little; give it more "
            "time or lower warmup_steps",
            steps,
            loop.warmup_steps,
        )


def _shared_tokenizer(
    pairs: list[Pair], run: RunArguments, preset: Preset, *, is_main: bool
) -> PreTrainedTokenizerBase:
    """Train the tokenizer in the main process, and load what it saved in the others."""
    folder = Path(run.output) / "tokenizer"
    if not is_main:
        return VanillaTransformerTokenizer.from_pretrained(folder)
    config = preset.config()
    tokenizer = train_tokenizer(
        (text for pair in pairs for text in pair),
        vocab_size=run.vocab_size or config.vocab_size,
        isolate_han=run.isolate_han,
        max_length=config.max_position_embeddings,
    )
    with write_folder(folder) as unfinished:
        tokenizer.save_pretrained(unfinished)
    return tokenizer


def _save_average(
    checkpoints: list[Path], output: Path, valid: EncodedPairs, accelerator: Accelerator
) -> float:
    """Save the mean of checkpoints as a model; return its validation loss."""
    if accelerator.is_main_process:
        average_checkpoints(checkpoints, output)
    accelerator.wait_for_everyone()
    model = AutoModelForSeq2SeqLM.from_pretrained(output).to(accelerator.device)
    return validation_loss(model, valid, accelerator, pad_token_id=model.config.pad_token_id)
