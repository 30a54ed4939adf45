"""A whole training run: corpus, tokenizer, model, loop, averaged weights and a report."""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from accelerate import Accelerator

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.evaluation.report import REPORT_FILE, describe_environment
from hf_vanilla_transformer.languages import language_metadata
from hf_vanilla_transformer.storage.files import write_json
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.checkpoints import SavedState
from hf_vanilla_transformer.training.config_file import write_option_file
from hf_vanilla_transformer.training.corpora import (
    open_training_corpora,
    prepare_training,
    training_texts,
)
from hf_vanilla_transformer.training.cpu import fast_cpu_products, training_threads
from hf_vanilla_transformer.training.fit import Training, train_and_average
from hf_vanilla_transformer.training.hooks import Hook
from hf_vanilla_transformer.training.loop_arguments import LIMITS, LoopArguments
from hf_vanilla_transformer.training.options import spelt
from hf_vanilla_transformer.training.run_folder import (
    OPTIONS,
    alone_in_output,
    claim_output,
    compare_facts,
    describe_corpus,
    finished_report,
)
from hf_vanilla_transformer.training.setup import (
    TOKENIZER_FOLDER,
    RunPlan,
    configured_accelerator,
    prepare_model,
    prepare_tokenizer,
    resolve,
)
from hf_vanilla_transformer.training.tracking import tracked_options

logger = logging.getLogger(__name__)


def run_training(
    run: RunArguments, data: DataArguments, *, loop: LoopArguments, hooks: Sequence[Hook] = ()
) -> dict[str, object]:
    """Train a model on parallel text, or resume an interrupted run.

    Writes `config.yaml`, `tokenizer/`, `checkpoints/`, `model/` and `report.json` into the output
    folder.

    Args:
        run: Where the run reads and writes, and which model it trains.
        data: Which training pairs are used, and how.
        loop: Numbers of the training loop.
        hooks: Called by the loop, in this order, on every process.

    Returns:
        The content of the report.

    Raises:
        ValueError: The output folder is in use, perhaps by another run; the preset is unknown, or
            a corpus cannot be read.
        FileNotFoundError: A file of pairs is missing.
        ArithmeticError: The loss is not finite, or it spiked.
    """
    plan = resolve(run, data, loop=loop)
    accelerator = _start(plan)
    with alone_in_output(plan.output, accelerator, resume=plan.resume):
        return _run_alone(plan, accelerator, hooks=hooks)


def _run_alone(
    plan: RunPlan, accelerator: Accelerator, *, hooks: Sequence[Hook]
) -> dict[str, object]:
    """Do what `run_training` does."""
    output = plan.output
    saved = claim_output(output, accelerator, resume=plan.resume)
    limit = saved and plan.loop.limit_reached(saved.state)
    if limit and (report := finished_report(output, saved.state)):
        logger.info(
            "nothing to do: the run in %s ended after step %d (%s); a higher limit lets it go on",
            output, saved.state.steps, limit,
        )  # fmt: skip
        accelerator.end_training()
        return report
    with fast_cpu_products():
        training = _prepare(plan, accelerator, saved=saved, hooks=hooks)
        if saved is not None:
            compare_facts(saved, training.facts)
            if accelerator.is_main_process:
                write_option_file(output / OPTIONS, plan.options)
        accelerator.init_trackers("hf_vanilla_transformer", tracked_options(plan.options))
        report = {"arguments": plan.options} | _train_and_report(training)
    if accelerator.is_main_process:
        write_json(output / REPORT_FILE, report)
    _tell_of_end(plan, steps=report["training"]["steps"])
    accelerator.end_training()
    return report


def _start(plan: RunPlan) -> Accelerator:
    """Return where the run computes; only its main process goes on logging."""
    accelerator = configured_accelerator(plan)
    if not accelerator.is_main_process:  # accelerate's own logger would prefix every line
        logging.getLogger("hf_vanilla_transformer").setLevel(logging.ERROR)
    if plan.options["track"] is None and not accelerator.log_with:
        logger.info("figures go to no tracker: install tensorboard, or choose one with track")
    return accelerator


def _prepare(
    plan: RunPlan, accelerator: Accelerator, *, saved: SavedState | None, hooks: Sequence[Hook]
) -> Training:
    """Bring the tokenizer, the model and the corpora."""
    corpora = open_training_corpora(plan.corpora)
    checkpoint = None if saved is None else saved.folder
    tokenizer = prepare_tokenizer(
        plan.model,
        plan.output / TOKENIZER_FOLDER,
        texts=partial(training_texts, corpora[0], names=plan.corpora.train),
        accelerator=accelerator,
        checkpoint=checkpoint,
        begin=partial(write_option_file, plan.output / OPTIONS, plan.options),
    )
    model = prepare_model(plan.model, tokenizer, seed=plan.loop.seed, checkpoint=checkpoint)
    pairs, valid = prepare_training(
        plan.corpora,
        corpora,
        tokenizer=tokenizer,
        output=plan.output,
        limit=model.config.max_position_embeddings,
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
        output=plan.output,
        loop=plan.loop,
        accelerator=accelerator,
        facts=_facts(plan, pairs.pairs),
        saved=saved,
        hooks=hooks,
    )


def _facts(plan: RunPlan, pairs: EncodedPairs) -> dict[str, object]:
    """Return the description of a run that its checkpoints carry, to compare a resumed run with."""
    counts = {"corpus": describe_corpus(pairs), "left_out": pairs.counts}
    return {"options": plan.options, **counts}


def _train_and_report(training: Training) -> dict[str, object]:
    """Train with the number of threads that suits, and return figures and environment."""
    _tell_of_beginning(training)
    saved = training.saved
    pairs = training.pairs_of(saved.state.epoch if saved else 0)
    threads = saved and saved.facts["threads"]
    with training_threads(training.model, pairs, accelerator=training.accelerator, threads=threads):
        return {
            "left_out": training.facts["left_out"],
            "training": train_and_average(training),
            "environment": asdict(describe_environment()),
        }


def _tell_of_beginning(training: Training) -> None:
    """Log model, step size and limits of the run."""
    model, loop = training.model, training.loop
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
        "steps of up to %s tokens a side; training ends at %s",
        f"{loop.batch_tokens:,}",
        " or ".join(f"{name} {value}" for name, value in limits.items() if value is not None),
    )


def _tell_of_end(plan: RunPlan, *, steps: int) -> None:
    """Log where the model is; warn if the warm-up did not end."""
    loop, output = plan.loop, plan.output
    if loop.warmup_share == 1 and steps < loop.warmup_steps:
        peak = "" if loop.learning_rate else " and set --learning-rate, whose peak would rise"
        logger.warning(
            "stopped at step %d of %d warm-up steps: the model has learned little; give it more "
            "time, or lower --warmup-steps%s",
            steps, loop.warmup_steps, peak,
        )  # fmt: skip
    logger.info("saved %s/model, described in %s/report.json", output, output)
