"""A whole training run: corpus, tokenizer, model, loop, averaged weights and a report."""

import logging
import platform
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel

from hf_vanilla_transformer import __version__
from hf_vanilla_transformer.languages import language_metadata
from hf_vanilla_transformer.training.arguments import (
    LIMITS,
    DataArguments,
    LoopArguments,
    RunArguments,
)
from hf_vanilla_transformer.training.corpora import (
    open_training_corpora,
    prepare_training,
    training_texts,
)
from hf_vanilla_transformer.training.option_file import write_option_file
from hf_vanilla_transformer.training.options import spelt
from hf_vanilla_transformer.training.outcome import Training, train_and_average
from hf_vanilla_transformer.training.precision import fast_cpu_products
from hf_vanilla_transformer.training.resume import (
    OPTIONS,
    REPORT,
    alone_in_output,
    claim_output,
    compare_facts,
    describe_corpus,
    finished_report,
)
from hf_vanilla_transformer.training.run_state import limit_reached
from hf_vanilla_transformer.training.saved_state import SavedState
from hf_vanilla_transformer.training.start import (
    DEFAULT_PRESET,
    configured_accelerator,
    prepare_model,
    prepare_tokenizer,
    preset_of,
)
from hf_vanilla_transformer.training.threads import training_threads
from hf_vanilla_transformer.training.trackers import tracked_options
from hf_vanilla_transformer.writing import write_json

logger = logging.getLogger(__name__)

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "sacrebleu")


def run_training(run: RunArguments, data: DataArguments, loop: LoopArguments) -> dict[str, object]:
    """Train a model on parallel text, or go on with a run that was cut short.

    Writes `config.yaml`, `tokenizer/`, `checkpoints/`, `model/` and `report.json` into the output
    folder.

    Returns:
        The content of the report.

    Raises:
        ValueError: The output folder is in use, perhaps by another run; the preset is unknown, or
            a corpus cannot be read.
        FileNotFoundError: A file of pairs is missing.
        ArithmeticError: Training cannot go on with the loss that it met.
    """
    preset_of(run)  # refuses an unknown one before anything is read
    accelerator = _start(run, loop)
    with alone_in_output(run, accelerator):
        return _run_alone(run, data, loop, accelerator)


def _run_alone(
    run: RunArguments, data: DataArguments, loop: LoopArguments, accelerator: Accelerator
) -> dict[str, object]:
    """Do what `run_training` does."""
    output = Path(run.output)
    saved = claim_output(run, accelerator)
    limit = saved and limit_reached(saved.state, loop)
    if limit and (report := finished_report(output, saved.state)):
        logger.info(
            "nothing to do: the run in %s ended after step %d (%s); a higher limit lets it go on",
            output, saved.state.steps, limit,
        )  # fmt: skip
        accelerator.end_training()
        return report
    options = _resolved(run, data, loop)
    with fast_cpu_products():
        training = _prepare(run, data, options, saved, accelerator)
        if saved is not None:
            compare_facts(saved, training.facts)
            if accelerator.is_main_process:
                write_option_file(output / OPTIONS, options)
        accelerator.init_trackers("hf_vanilla_transformer", tracked_options(options))
        report = _train_and_report(training, loop, accelerator)
    if accelerator.is_main_process:
        write_json(output / REPORT, {"arguments": options} | report)
    _tell_of_end(report["training"], loop, output)
    accelerator.end_training()
    return {"arguments": options} | report


def _start(run: RunArguments, loop: LoopArguments) -> Accelerator:
    """Return where the run computes; only its main process goes on logging."""
    accelerator = configured_accelerator(run, loop)
    if not accelerator.is_main_process:  # accelerate's own logger would prefix every line
        logging.getLogger("hf_vanilla_transformer").setLevel(logging.ERROR)
    if run.track is None and not accelerator.log_with:
        logger.info("figures go to no tracker: install tensorboard, or choose one with track")
    return accelerator


def describe_environment() -> dict[str, object]:
    """Return versions, device and threads, for a report."""
    own = {"python": platform.python_version(), "hf_vanilla_transformer": __version__}
    return {
        "versions": own | {name: version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }


def _resolved(run: RunArguments, data: DataArguments, loop: LoopArguments) -> dict[str, object]:
    """Return all options by the names of the command line."""
    options = asdict(run) | asdict(data) | asdict(loop)
    options["preset"] = options["preset"] or (None if run.from_model else DEFAULT_PRESET)
    options["from"] = options.pop("from_model")
    options["architecture"] = run.architecture and sorted(run.architecture)
    return {name: options[name] for name in options if name not in ("resume", "dry_run")}


def _prepare(
    run: RunArguments,
    data: DataArguments,
    options: dict[str, object],
    saved: SavedState | None,
    accelerator: Accelerator,
) -> Training:
    """Bring the tokenizer, the model and the corpora."""
    corpora = open_training_corpora(run, data)
    texts = partial(training_texts, run, corpora[0])
    checkpoint = None if saved is None else saved.folder
    begin = partial(write_option_file, Path(run.output, OPTIONS), options)
    tokenizer = prepare_tokenizer(run, texts, accelerator, checkpoint=checkpoint, begin=begin)
    model = prepare_model(run, tokenizer, seed=options["seed"], checkpoint=checkpoint)
    pairs, valid = prepare_training(
        corpora,
        tokenizer,
        run,
        data,
        limit=model.config.max_position_embeddings,
        seed=options["seed"],
    )
    logger.info(
        "%s training and %s validation pairs, tokenizer of %d entries",
        f"{len(pairs.pairs):,}", f"{len(valid):,}", len(tokenizer),
    )  # fmt: skip
    return Training(
        model=model,
        tokenizer=tokenizer,
        pairs_of=pairs.epoch,
        pairs=len(pairs.pairs),
        discard_before=pairs.discard_before,
        valid=valid,
        output=Path(run.output),
        facts={
            "options": options,
            "corpus": describe_corpus(pairs.pairs),
            "left_out": pairs.pairs.counts,
        },
        saved=saved,
    )


def _train_and_report(
    training: Training, loop: LoopArguments, accelerator: Accelerator
) -> dict[str, object]:
    """Train with the number of threads that suits, and return figures and environment."""
    _tell_of_beginning(training.model, loop)
    saved = training.saved
    pairs = training.pairs_of(saved.state.epoch if saved else 0)
    threads = saved and saved.facts["threads"]
    with training_threads(training.model, pairs, accelerator, threads=threads):
        return {
            "left_out": training.facts["left_out"],
            "training": train_and_average(training, loop, accelerator),
            "environment": describe_environment(),
        }


def _tell_of_beginning(model: PreTrainedModel, loop: LoopArguments) -> None:
    """Say what is trained, by how much at a time, and when that ends."""
    config = model.config
    codes = config.source_language, config.target_language
    if None in codes:
        logger.info(
            "no language codes: --source-lang and --target-lang put them into the model, for its "
            "card and for the tokenisation of BLEU"
        )
    try:
        language_metadata(*codes)
    except ValueError as error:
        logger.warning("%s, before you publish the model", error)
    logger.info(
        "model: %d + %d layers, d_model %d, d_ff %d, %d heads, dropout %s, %s parameters",
        config.encoder_layers, config.decoder_layers, config.d_model, config.d_ff,
        config.num_heads, config.dropout, f"{model.num_parameters():,}",
    )  # fmt: skip
    limits = {spelt(name): getattr(loop, name) for name in LIMITS}
    logger.info(
        "updates of up to %s tokens a side; the end: %s",
        f"{loop.batch_tokens:,}",
        " or ".join(f"{name} {value}" for name, value in limits.items() if value is not None),
    )


def _tell_of_end(trained: dict[str, object], loop: LoopArguments, output: Path) -> None:
    """Say where the model is, and what looks wrong."""
    steps = trained["steps"]
    if loop.warmup_share == 1 and steps < loop.warmup_steps:
        peak = "" if loop.learning_rate else " and set --learning-rate, whose peak would rise"
        logger.warning(
            "stopped at step %d of %d warm-up steps: the model has learned little; give it more "
            "time, or lower --warmup-steps%s",
            steps, loop.warmup_steps, peak,
        )  # fmt: skip
    logger.info("saved %s/model, described in %s/report.json", output, output)
