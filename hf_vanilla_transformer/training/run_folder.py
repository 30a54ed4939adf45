"""Find where a run goes on, and say what is not as it was."""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from accelerate import Accelerator
from accelerate.utils import DistributedType, broadcast_object_list

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.evaluation.report import REPORT_FILE
from hf_vanilla_transformer.storage.files import LOCK, only_run_in
from hf_vanilla_transformer.training.checkpoints import (
    MALFORMED,
    SavedState,
    list_checkpoints,
    newest_good_checkpoint,
    remove_checkpoint,
    remove_leftovers,
)
from hf_vanilla_transformer.training.config_file import is_written_option_file
from hf_vanilla_transformer.training.corpora import PASSES
from hf_vanilla_transformer.training.fit import CHECKPOINTS, MODEL_FOLDER
from hf_vanilla_transformer.training.setup import LOGS, TOKENIZER_FOLDER
from hf_vanilla_transformer.training.state import RunState

logger = logging.getLogger(__name__)

OPTIONS = "config.yaml"
# A run that ended before its first checkpoint leaves these, which the next one replaces. Its
# options are written first: by them its folder is known.
WRITTEN_FIRST = {LOCK, f".{OPTIONS}.new"}
WRITTEN_BEFORE_TRAINING = {
    *WRITTEN_FIRST,
    *(OPTIONS, LOGS, PASSES),
    *(TOKENIZER_FOLDER, f".{TOKENIZER_FOLDER}.new", f".{TOKENIZER_FOLDER}.old"),
}
MODEL_OPTIONS = (
    "preset",
    "architecture",
    "from",
    "tokenizer",
    "vocab_size",
    "separate_vocabularies",
    "isolate_han",
)
ORDER_OPTIONS = ("batch_tokens", "seed", "weights", "bpe_dropout")
SHARDED = (DistributedType.FSDP, DistributedType.DEEPSPEED)


@contextmanager
def alone_in_output(output: Path, accelerator: Accelerator, *, resume: bool) -> Iterator[None]:
    """Keep other runs out of the output folder; the system forgets the lock of a killed run.

    Raises:
        ValueError: The output folder is in use, and by another run or not one to resume.
    """
    if not accelerator.is_main_process:
        yield
        return
    _refuse_other_content(output, resume=resume)
    try:
        with only_run_in(output):
            yield
    finally:
        with suppress(OSError):  # a run that was refused leaves no folder behind
            output.rmdir()


def _refuse_other_content(output: Path, *, resume: bool) -> None:
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; name a new folder with --output")
    names = {path.name for path in output.iterdir()} if output.is_dir() else set()
    is_begun = is_written_option_file(output / OPTIONS)
    if is_begun and not list_checkpoints(output / CHECKPOINTS):
        names.discard(CHECKPOINTS)
    if names <= (WRITTEN_BEFORE_TRAINING if is_begun else WRITTEN_FIRST):
        return
    if not resume:
        raise ValueError(
            f"output folder {output} is not empty; name a new one, or go on with the run in it by "
            "--resume"
        )
    if not names & {CHECKPOINTS, MODEL_FOLDER}:
        raise ValueError(f"{output} holds files, but no run to go on with; name another --output")


def claim_output(output: Path, accelerator: Accelerator, *, resume: bool) -> SavedState | None:
    """Return the checkpoint that a run goes on from, the same on every process; None for a new run.

    Raises:
        ValueError: The run cannot be resumed.
    """
    if resume and accelerator.distributed_type in SHARDED:
        raise ValueError(
            f"resume: a run under {accelerator.distributed_type.value} cannot go on, as no process "
            "has the whole optimiser to save; start anew with --from and its last checkpoint"
        )
    found = [_claim(output, resume=resume) if accelerator.is_main_process else None]
    broadcast_object_list(found)
    return found[0]


def _claim(output: Path, *, resume: bool) -> SavedState | None:
    saved = _last_checkpoint(output / CHECKPOINTS)
    if saved is None and (output / MODEL_FOLDER).exists():
        raise ValueError(f"{output} holds a model but no checkpoint to go on from")
    if saved is None and resume and (output / OPTIONS).exists():
        logger.warning("%s holds no checkpoint to resume from: the run starts anew", output)
    if saved is None:
        shutil.rmtree(output / PASSES, ignore_errors=True)
    return saved


def _last_checkpoint(root: Path) -> SavedState | None:
    """Return the last good checkpoint, if there is any; delete damaged ones that came after it.

    Raises:
        ValueError: There are checkpoints, and none is good.
    """
    remove_leftovers(root)
    found = list_checkpoints(root)
    saved = newest_good_checkpoint(root)
    if found and saved is None:
        raise ValueError(
            f"{root} holds no checkpoint to go on from: their training_state is missing or "
            f"damaged; start anew, in another folder, with --from {found[-1]}"
        )
    for folder in found:
        if folder.name > saved.folder.name:
            remove_checkpoint(folder)
    return saved


def finished_report(output: Path, state: RunState) -> dict[str, object] | None:
    """Return the report of a run if it was written at `state`, the run's last one."""
    try:
        report = json.loads((output / REPORT_FILE).read_text("utf-8"))
        is_of_this_state = report["training"]["steps"] == state.steps
    except MALFORMED:
        return None
    return report if is_of_this_state and (output / MODEL_FOLDER).is_dir() else None


def describe_corpus(pairs: EncodedPairs) -> dict[str, object]:
    """Return number and checksum of training pairs, to recognise changed data."""
    checksum = hashlib.sha256(np.ascontiguousarray(pairs.digests))
    checksum.update(np.ascontiguousarray(pairs.lengths))
    return {"pairs": len(pairs), "sha256": checksum.hexdigest()}


def compare_facts(saved: SavedState, facts: Mapping[str, Mapping[str, object]]) -> None:
    """Warn of all differences between the saved run and this one.

    If the order of the pairs changes, the interrupted epoch restarts. Every process must call
    this.

    Raises:
        ValueError: An option that determined the model differs.
    """
    before, now = saved.facts["options"], facts["options"]
    for name in MODEL_OPTIONS:
        if before.get(name) != now.get(name):
            raise ValueError(
                f"resume: {name} was {before.get(name)}, now {now.get(name)}; the saved "
                "model cannot change it; restore the option, or start a new run in another folder"
            )
    for name, value in now.items():
        if before.get(name) != value:
            logger.warning("resume: %s was %s, now %s", name, before.get(name), value)
    is_other_corpus = saved.facts["corpus"] != facts["corpus"]
    if is_other_corpus:
        counts = [f"{of['corpus']['pairs']:,}" for of in (saved.facts, facts)]
        logger.warning("resume: the training pairs have changed (%s before, %s now)", *counts)
    is_other_order = any(before.get(name) != now[name] for name in ORDER_OPTIONS)
    if saved.state.batch and (is_other_corpus or is_other_order):
        logger.warning("resume: epoch %d restarts", saved.state.epoch + 1)
        saved.state.batch = 0
