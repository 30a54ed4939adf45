"""Train with checkpoints, and make the model of them."""

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.storage.models import load_model
from hf_vanilla_transformer.storage.weights import average_checkpoints, check_weights
from hf_vanilla_transformer.training.checkpoints import (
    SavedState,
    drop_old_states,
    list_checkpoints,
    save_checkpoint,
    write_saved_state,
)
from hf_vanilla_transformer.training.hooks import Hook
from hf_vanilla_transformer.training.loop import Loop, Save, Snapshot
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.state import RunState, Validation
from hf_vanilla_transformer.training.updates import PairsOfEpoch
from hf_vanilla_transformer.training.validation import Validator

logger = logging.getLogger(__name__)

CHECKPOINTS, MODEL_FOLDER = "checkpoints", "model"


@dataclass(frozen=True, kw_only=True)
class Training:
    """Model, data and output folder of a training.

    Attributes:
        model: The model, which training changes in place.
        tokenizer: Its tokenizer, saved with every checkpoint.
        pairs_of: Returns the training pairs of an epoch, given its number.
        pairs: Number of training pairs, each counted once.
        valid: Validation pairs.
        output: Folder for `checkpoints/` and `model/`.
        loop: Numbers of the training loop.
        accelerator: Where it is trained.
        discard_before: Called with the first epoch still needed; earlier data can be deleted.
        facts: Saved with every checkpoint; a resumed run is compared with them.
        saved: Checkpoint to resume from.
        hooks: Called by the loop.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    pairs_of: PairsOfEpoch
    pairs: int
    valid: EncodedPairs
    output: Path
    loop: LoopArguments
    accelerator: Accelerator
    discard_before: Callable[[int], None] = lambda epoch: None
    facts: dict[str, object] = field(default_factory=dict)
    saved: SavedState | None = None
    hooks: Sequence[Hook] = ()

    def validator(self, *, beams: int) -> Validator:
        """Return the function that scores a model; beams of 0 measure the loss alone."""
        return Validator(self.valid, self.tokenizer, self.accelerator, beams=beams)


def train_and_average(training: Training) -> dict[str, object]:
    """Train, and save the average of the last checkpoints as `output/model`.

    Where a single checkpoint, the last or the best, scores better than the average by
    `loop.judged_by`, as after a run too short for averaging, that one is saved instead.

    Returns:
        Figures of the training, for the report.
    """
    arguments = training.loop
    loop = Loop(
        training.model,
        arguments,
        accelerator=training.accelerator,
        saved=training.saved,
        hooks=training.hooks,
    )
    state = loop.run(
        training.pairs_of,
        validate=training.validator(beams=arguments.valid_beams),
        save=_checkpoint_writer(training),
    )
    chosen, scores = _save_model(training, state)
    best = state.best(arguments.judged_by) or state.best("loss")
    return state.as_json() | {
        "pairs": training.pairs,
        "epochs": state.epochs,
        "parameters": sum(parameter.numel() for parameter in training.model.parameters()),
        "processes": training.accelerator.num_processes,
        "tokens_per_second": state.tokens / max(state.seconds, 1e-9),
        "best": asdict(best),
        "averaged": [path.name for path in chosen],
        "validation_loss": scores.loss,
        "validation_perplexity": scores.perplexity,
        "validation_bleu": scores.bleu,
    }


def _checkpoint_writer(training: Training) -> Save:
    """Return the function that saves a checkpoint and discards what it makes superfluous."""
    root = training.output / CHECKPOINTS
    begun = training.saved.state if training.saved else RunState()
    epoch_of = {begun.steps: begun.epoch}

    def save(snapshot: Snapshot) -> Path:
        state = snapshot.state
        best = state.best(training.loop.judged_by)
        saved = save_checkpoint(
            lambda folder: _write_checkpoint(folder, snapshot, training=training),
            root,
            step=state.steps,
            keep=training.loop.keep_checkpoints,
            best=best and best.step,
        )
        drop_old_states(root)
        epoch_of[state.steps] = state.epoch
        before = list(epoch_of.values())[-2:][0]  # the checkpoint before this one may be needed
        training.discard_before(before)
        return saved

    return save


def _write_checkpoint(folder: Path, snapshot: Snapshot, *, training: Training) -> None:
    """Write model, tokenizer and training state into an empty folder."""
    snapshot.model.save_pretrained(folder, state_dict=snapshot.weights)
    training.tokenizer.save_pretrained(folder)
    write_saved_state(
        folder,
        optimizer=snapshot.optimizer,
        state=snapshot.state,
        facts=training.facts | {"threads": torch.get_num_threads()},
    )


def _save_model(training: Training, state: RunState) -> tuple[list[Path], Validation]:
    """Save the average, or a better single checkpoint; return what it was made of, and scores."""
    loop = training.loop
    root, target = training.output / CHECKPOINTS, training.output / MODEL_FOLDER
    kept = [folder for folder in list_checkpoints(root) if _is_whole(folder)]
    last = kept[-loop.keep_checkpoints :]
    beams = loop.valid_beams if loop.judged_by == "bleu" else 0
    validate = training.validator(beams=beams)
    average = _save_average(last, target, validate=validate, step=state.steps)
    single = RunState(
        validations=[one for one in state.validations if root / f"step-{one.step:08d}" in kept]
    ).best(loop.judged_by)
    if single is not None and single.is_better(average, loop.judged_by):
        last = [root / f"step-{single.step:08d}"]
        average = _save_average(last, target, validate=validate, step=single.step)
    what = "the average of" if len(last) > 1 else "that of"
    names = ", ".join(folder.name for folder in last)
    logger.info("model: %s %s, %s", what, names, average.scores)
    return last, average


def _is_whole(checkpoint: Path) -> bool:
    """Tell whether the weights of a checkpoint can be read; a warning says if not."""
    try:
        check_weights(checkpoint)
    except ValueError as error:
        logger.warning("not averaged: %s", error)
        return False
    return True


def _keep_card(model: Path) -> None:
    """Copy the card of a model that is to be replaced: a person may have written into it."""
    card, kept = model / "README.md", model.parent / "README.earlier.md"
    if card.is_file():
        shutil.copy(card, kept)
        logger.info("the card of the earlier model is kept as %s", kept)


def _save_average(
    checkpoints: list[Path], output: Path, *, validate: Validator, step: int
) -> Validation:
    """Save the mean of checkpoints as a model; return its scores."""
    accelerator = validate.accelerator
    if accelerator.is_main_process:
        _keep_card(output)
        average_checkpoints(checkpoints, output)
    accelerator.wait_for_everyone()
    model = load_model(output).to(accelerator.device)
    return validate(model, step)
