"""Resolve the options of a run, and prepare its tokenizer and model."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, TorchDynamoPlugin, set_seed
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.epochs import PassOptions
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.generation import PAPER_DECODING
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.presets import PRESETS, Preset
from hf_vanilla_transformer.storage.files import write_folder
from hf_vanilla_transformer.storage.models import (
    find_model,
    load_config,
    load_model,
    load_tokenizer_of,
)
from hf_vanilla_transformer.tokenization.bpe import (
    join_tokenizers,
    load_tokenizer,
    train_tokenizer,
    vocabulary_fields,
)
from hf_vanilla_transformer.training.arguments import (
    DataArguments,
    RunArguments,
    read_architecture,
)
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.tracking import choose_trackers

DEFAULT_PRESET = "base"
TOKENIZER_FOLDER, LOGS = "tokenizer", "logs"
MIXED_PRECISION = {None: None, "fp32": "no", "bf16": "bf16", "fp16": "fp16"}

Texts = Callable[[], list[str]]


@dataclass(frozen=True, kw_only=True)
class CorpusPlan:
    """Which pairs a run reads, and how.

    Attributes:
        train: Names of the training corpora.
        valid: Names of the validation corpora.
        languages: Codes of source and target language, None if unknown.
        cleaning: Rules for training pairs, without the length limit of the model.
        epochs: How an epoch is composed of the training corpora.
    """

    train: list[str]
    valid: list[str]
    languages: dict[str, str | None]
    cleaning: Cleaning
    epochs: PassOptions


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """Where tokenizer and model of a new run come from.

    Attributes:
        start: Model to fine-tune with its tokenizer; None builds a new one.
        preset: Preset of a new model, with the given fields replaced; None with `start`.
        tokenizer: File or folder of an existing tokenizer; None trains one.
        vocab_size: Entries of a new vocabulary; None means the preset's.
        separate_vocabularies: Whether each side has its own vocabulary.
        isolate_han: Whether every Chinese character is a token.
        fields: Fields of the model's configuration that options set.
        generation: Generation settings that options set.
    """

    start: str | None
    preset: Preset | None
    tokenizer: str | None
    vocab_size: int | None
    separate_vocabularies: bool
    isolate_han: bool
    fields: dict[str, object]
    generation: dict[str, object]

    def max_length(self) -> int:
        """Return the most tokens a side may have; reads the config of a model to fine-tune."""
        config = load_config(find_model(self.start)) if self.start else self.preset.config()
        return config.max_position_embeddings


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a run does, resolved from its options.

    Attributes:
        output: Folder of the run.
        resume: Whether to continue a run in that folder.
        model: Origin of tokenizer and model.
        corpora: Corpora that it reads.

        loop: Numbers of the training loop.
        trackers: Trackers of Accelerate.
        options: All options by the names of the command line, for `config.yaml` and the report.
    """

    output: Path
    resume: bool
    model: ModelPlan
    corpora: CorpusPlan
    loop: LoopArguments
    trackers: list[str]
    options: dict[str, object]


def resolve(run: RunArguments, data: DataArguments, *, loop: LoopArguments) -> RunPlan:
    """Return the plan of a run, without reading corpora or models.

    Raises:
        ValueError: The preset or a tracker is unknown, a field of the model is unknown or out of
            range, or a tracker is not installed.
    """
    options = asdict(run) | asdict(data) | asdict(loop)
    options["preset"] = options["preset"] or (None if run.from_model else DEFAULT_PRESET)
    options["from"] = options.pop("from_model")
    options["architecture"] = run.architecture and sorted(run.architecture)
    return RunPlan(
        output=Path(run.output),
        resume=run.resume,
        model=plan_model(run),
        corpora=plan_corpora(run, data, seed=loop.seed),
        loop=loop,
        trackers=choose_trackers(run.track),
        options={name: options[name] for name in options if name not in ("resume", "dry_run")},
    )


def plan_model(run: RunArguments) -> ModelPlan:
    """Return the origin of tokenizer and model."""
    fields = {
        "source_language": run.source_lang,
        "target_language": run.target_lang,
        "label_smoothing": run.label_smoothing,
    }
    return ModelPlan(
        start=run.from_model,
        preset=preset_of(run),
        tokenizer=run.tokenizer,
        vocab_size=run.vocab_size,
        separate_vocabularies=run.separate_vocabularies,
        isolate_han=run.isolate_han,
        fields=_given(fields),
        generation=_given({"num_beams": run.beams, "gnmt_alpha": run.alpha}),
    )


def plan_corpora(run: RunArguments, data: DataArguments, *, seed: int = 0) -> CorpusPlan:
    """Return corpora, cleaning rules and epochs of a run."""
    return CorpusPlan(
        train=run.train,
        valid=run.valid,
        languages={"source_language": run.source_lang, "target_language": run.target_lang},
        cleaning=data.cleaning(),
        epochs=data.passes(seed),
    )


def _given(options: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: No preset has that name.
    """
    if name not in PRESETS:
        raise ValueError(f"preset {name!r} is unknown; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def preset_of(run: RunArguments) -> Preset | None:
    """Return the preset of a run, with the given fields replaced; None for fine-tuning.

    Raises:
        ValueError: The preset or a field is unknown, or a field is out of range.
    """
    if run.from_model:
        return None
    preset = find_preset(run.preset or DEFAULT_PRESET)
    own = preset.architecture | read_architecture(run.architecture or [])
    preset = replace(preset, architecture=own)
    preset.config()  # refuses what is out of range
    return preset


def start_accelerator() -> Accelerator:
    """Return the accelerator of this machine: without a GPU its CPU, also for several processes."""
    return Accelerator(cpu=not torch.accelerator.is_available())


def configured_accelerator(plan: RunPlan) -> Accelerator:
    """Return the accelerator that a plan asks for.

    Raises:
        ValueError: fp16 is asked for without a GPU, or Accelerate is configured to accumulate
            gradients by itself.
    """
    has_gpu = torch.accelerator.is_available()
    if plan.loop.precision == "fp16" and not has_gpu:
        raise ValueError("precision=fp16 needs a GPU, and there is none; use bf16 or fp32")
    dynamic = TorchDynamoPlugin(backend="inductor", dynamic=True)
    accelerator = Accelerator(
        cpu=not has_gpu,
        mixed_precision=MIXED_PRECISION[plan.loop.precision],
        log_with=plan.trackers or None,
        project_config=ProjectConfiguration(
            project_dir=str(plan.output), logging_dir=str(plan.output / LOGS)
        ),
        # Lengths change from batch to batch: compiled for each of them, training would stand still.
        dynamo_plugin=dynamic if plan.loop.compile else None,
    )
    if (steps := accelerator.gradient_accumulation_steps) != 1:  # it would divide the loss again
        raise ValueError(
            f"accelerate is configured with gradient_accumulation_steps={steps}; set it to 1 and "
            f"give --accumulate {steps} here"
        )
    return accelerator


def new_model(config: VanillaTransformerConfig) -> VanillaTransformerForConditionalGeneration:
    """Return an untrained model that decodes with the paper's settings by default."""
    model = VanillaTransformerForConditionalGeneration(config)
    model.generation_config.update(**PAPER_DECODING)
    return model


def prepare_tokenizer(
    plan: ModelPlan,
    folder: Path,
    *,
    texts: Texts,
    accelerator: Accelerator,
    checkpoint: Path | None,
    begin: Callable[[], None],
) -> PreTrainedTokenizerBase:
    """Load or train the tokenizer in the main process; the others load the saved one.

    Args:
        plan: Origin of the tokenizer.
        folder: Where it is saved.
        texts: Returns training sentences of the tokenizer, source and target in turn; called
            only if one is trained.
        accelerator: Accelerator of the run.
        checkpoint: Checkpoint to resume from, which contains the tokenizer.
        begin: Called before the first file of a new run is written.

    Raises:
        ValueError: The tokenizer cannot be loaded or trained.
        FileNotFoundError: The tokenizer does not exist.
    """
    with accelerator.main_process_first():
        if accelerator.is_main_process and not (checkpoint and folder.is_dir()):
            tokenizer = load_tokenizer_of(checkpoint) if checkpoint else new_tokenizer(plan, texts)
            if not checkpoint:
                begin()
            with write_folder(folder) as unfinished:
                tokenizer.save_pretrained(unfinished)
        return load_tokenizer_of(checkpoint or folder)


def new_tokenizer(plan: ModelPlan, texts: Texts) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a new run, as `prepare_tokenizer`."""
    if plan.start:
        return load_tokenizer_of(find_model(plan.start))
    if plan.tokenizer:
        return load_tokenizer(plan.tokenizer)
    learn = partial(
        train_tokenizer,
        vocab_size=plan.vocab_size or plan.preset.config().vocab_size,
        isolate_han=plan.isolate_han,
        max_length=plan.max_length(),
    )
    if plan.separate_vocabularies:
        sides = texts()
        return join_tokenizers(learn(sides[::2]), learn(sides[1::2]))
    return learn(texts())


def prepare_model(
    plan: ModelPlan,
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int,
    checkpoint: Path | None,
) -> VanillaTransformerForConditionalGeneration:
    """Return the model to train: a checkpoint's, the one to start from, or a new one.

    Raises:
        ValueError: The model to start from has another class or is damaged, or its tokenizer has
            more entries than the model.
    """
    set_seed(seed)
    if checkpoint is None and not plan.start:
        model = new_model(plan.preset.config(**plan.fields, **vocabulary_fields(tokenizer)))
    else:
        found = checkpoint or find_model(plan.start)
        model = load_model(found)
        if not isinstance(model, VanillaTransformerForConditionalGeneration):
            raise ValueError(
                f"{found} is a {type(model).__name__}; this command trains only VanillaTransformer "
                "models; use the Seq2SeqTrainer of transformers for others"
            )
        _check_entries(model.config, tokenizer, place=str(found))
        for name, value in plan.fields.items():
            setattr(model.config, name, value)
    model.generation_config.update(**plan.generation)
    return model


def _check_entries(
    config: VanillaTransformerConfig, tokenizer: PreTrainedTokenizerBase, *, place: str
) -> None:
    """Refuse a tokenizer with more entries than the embeddings of the model.

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
                f"{place}: the {side} tokenizer has {entries:,} entries, but the model has "
                f"{rows:,} embeddings; call "
                f"model.resize_token_embeddings({entries}) and save it again"
            )
