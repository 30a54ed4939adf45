"""What a run starts from: where it computes, its tokenizer and its model."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, TorchDynamoPlugin, set_seed
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.loading import (
    find_model,
    load_config,
    load_model,
    load_tokenizer_of,
)
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.generation import PAPER_DECODING
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.presets import PRESETS, Preset
from hf_vanilla_transformer.tokenization import (
    join_tokenizers,
    load_tokenizer,
    train_tokenizer,
    vocabulary_fields,
)
from hf_vanilla_transformer.training.architecture import read_architecture
from hf_vanilla_transformer.training.arguments import LoopArguments, RunArguments
from hf_vanilla_transformer.training.trackers import choose_trackers
from hf_vanilla_transformer.writing import write_folder

DEFAULT_PRESET = "base"
TOKENIZER, LOGS = "tokenizer", "logs"
MIXED_PRECISION = {None: None, "fp32": "no", "bf16": "bf16", "fp16": "fp16"}

Texts = Callable[[], list[str]]


def start_accelerator() -> Accelerator:
    """Return the accelerator of this machine; without a GPU it is told so, to join processes."""
    return Accelerator(cpu=not torch.accelerator.is_available())


def configured_accelerator(run: RunArguments, loop: LoopArguments) -> Accelerator:
    """Return the accelerator that the options ask for.

    Raises:
        ValueError: fp16 is asked for without a GPU, a tracker is unknown or not installed, or
            Accelerate is configured to accumulate gradients by itself.
    """
    has_gpu = torch.accelerator.is_available()
    if loop.precision == "fp16" and not has_gpu:
        raise ValueError("precision=fp16 needs a GPU, and there is none; use bf16 or fp32")
    folder = ProjectConfiguration(project_dir=run.output, logging_dir=str(Path(run.output, LOGS)))
    accelerator = Accelerator(
        cpu=not has_gpu,
        mixed_precision=MIXED_PRECISION[loop.precision],
        log_with=choose_trackers(run.track) or None,
        project_config=folder,
        # Lengths change from batch to batch: compiled for each of them, training would stand still.
        dynamo_plugin=TorchDynamoPlugin(backend="inductor", dynamic=True) if loop.compile else None,
    )
    if (steps := accelerator.gradient_accumulation_steps) != 1:  # it would divide the loss again
        raise ValueError(
            f"accelerate is configured with gradient_accumulation_steps={steps}; set it to 1 and "
            f"give --accumulate {steps} here"
        )
    return accelerator


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: There is none of that name.
    """
    if name not in PRESETS:
        raise ValueError(f"preset {name!r} is unknown; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def preset_of(run: RunArguments) -> Preset | None:
    """Return the preset that a run takes its numbers from, with the fields that were given.

    It is None where there is a model to start from.

    Raises:
        ValueError: It is unknown, or a field is, or is out of range.
    """
    if run.from_model:
        return None
    preset = find_preset(run.preset or DEFAULT_PRESET)
    own = preset.architecture | read_architecture(run.architecture or [])
    preset = dataclasses.replace(preset, architecture=own)
    preset.config()  # refuses what is out of range
    return preset


def new_model(config: VanillaTransformerConfig) -> VanillaTransformerForConditionalGeneration:
    """Return an untrained model that decodes with the paper's settings by default."""
    model = VanillaTransformerForConditionalGeneration(config)
    model.generation_config.update(**PAPER_DECODING)
    return model


def prepare_tokenizer(
    run: RunArguments,
    texts: Texts,
    accelerator: Accelerator,
    *,
    checkpoint: Path | None,
    begin: Callable[[], None],
) -> PreTrainedTokenizerBase:
    """Bring or train the tokenizer in the main process; the others load what it saved.

    Args:
        run: Options of the run.
        texts: Returns sentences to learn from, by turns of the source and the target, if a
            tokenizer is to be trained.
        accelerator: It knows the main process.
        checkpoint: Where the run goes on from, with the tokenizer that is there.
        begin: Called before the first file of a new run is written.

    Raises:
        ValueError: The tokenizer cannot be brought or trained.
        FileNotFoundError: There is no tokenizer of that name.
    """
    folder = Path(run.output) / TOKENIZER
    with accelerator.main_process_first():
        if accelerator.is_main_process and not (checkpoint and folder.is_dir()):
            tokenizer = load_tokenizer_of(checkpoint) if checkpoint else new_tokenizer(run, texts)
            if not checkpoint:
                begin()
            with write_folder(folder) as unfinished:
                tokenizer.save_pretrained(unfinished)
        return load_tokenizer_of(checkpoint or folder)


def new_tokenizer(run: RunArguments, texts: Texts) -> PreTrainedTokenizerBase:
    """Return the tokenizer that the options ask for, as `prepare_tokenizer`."""
    if run.from_model:
        return load_tokenizer_of(find_model(run.from_model))
    if run.tokenizer:
        return load_tokenizer(run.tokenizer)
    learn = partial(
        train_tokenizer,
        vocab_size=run.vocab_size or preset_of(run).config().vocab_size,
        isolate_han=run.isolate_han,
        max_length=find_limit(run),
    )
    if run.separate_vocabularies:
        sides = texts()
        return join_tokenizers(learn(sides[::2]), learn(sides[1::2]))
    return learn(texts())


def find_limit(run: RunArguments) -> int:
    """Return how many tokens a side may have for the model that the options ask for."""
    found = run.from_model and find_model(run.from_model)
    config = load_config(found) if found else preset_of(run).config()
    return config.max_position_embeddings


def prepare_model(
    run: RunArguments,
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int,
    checkpoint: Path | None,
) -> VanillaTransformerForConditionalGeneration:
    """Return the model to train: a checkpoint's, the one to start from, or a new one.

    Raises:
        ValueError: The model to start from is of another kind or damaged, or its tokenizer has
            entries that it lacks.
    """
    options = {
        "source_language": run.source_lang,
        "target_language": run.target_lang,
        "label_smoothing": run.label_smoothing,
    }
    given = {name: value for name, value in options.items() if value is not None}
    set_seed(seed)
    if checkpoint is None and not run.from_model:
        model = new_model(preset_of(run).config(**given, **vocabulary_fields(tokenizer)))
        model.generation_config.update(**search_of(run))
        return model
    found = checkpoint or find_model(run.from_model)
    model = load_model(found)
    if not isinstance(model, VanillaTransformerForConditionalGeneration):
        raise ValueError(
            f"{found} is a {type(model).__name__}; this command trains VanillaTransformer models, "
            "Seq2SeqTrainer of transformers trains any"
        )
    _check_entries(model.config, tokenizer, str(found))
    for name, value in given.items():
        setattr(model.config, name, value)
    model.generation_config.update(**search_of(run))
    return model


def search_of(run: RunArguments) -> dict[str, object]:
    """Return the settings of beam search that the options ask for, by their names in `generate`."""
    asked = {"num_beams": run.beams, "gnmt_alpha": run.alpha}
    return {name: value for name, value in asked.items() if value is not None}


def _check_entries(
    config: VanillaTransformerConfig, tokenizer: PreTrainedTokenizerBase, place: str
) -> None:
    """Refuse a tokenizer whose ids would have no embedding.

    Raises:
        ValueError: It has more entries than the model.
    """
    target_rows = config.decoder_vocab_size or config.vocab_size
    for side, entries, rows in (
        ("source", len(tokenizer), config.vocab_size),
        ("target", len(getattr(tokenizer, "target", tokenizer)), target_rows),
    ):
        if entries > rows:
            raise ValueError(
                f"{place}: the {side} tokenizer has {entries:,} entries, the model embeddings for "
                f"{rows:,}; call model.resize_token_embeddings({entries}) and save it again"
            )
