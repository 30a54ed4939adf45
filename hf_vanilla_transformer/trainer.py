"""The library's Seq2SeqTrainer, with figures that do not depend on batch size or processes."""

import logging
import math
from pathlib import Path

import torch
from accelerate.utils import gather_object
from huggingface_hub import HfApi
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Seq2SeqTrainer
from transformers.trainer import TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.trainer_utils import EvalLoopOutput, HubStrategy
from transformers.utils import CONFIG_NAME, PushInProgress

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.loss import IGNORED_LABEL
from hf_vanilla_transformer.model.vocabulary import suppress_rows_without_token
from hf_vanilla_transformer.publishing.card import write_card
from hf_vanilla_transformer.publishing.files import PICKLES

logger = logging.getLogger(__name__)


class TranslationTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer with exact evaluation and label smoothing.

    - The evaluation loss is the mean over all target tokens. The library weights every batch by
      its number of sentences, so its loss changes with
      `per_device_eval_batch_size`.
    - Every pair is evaluated once, in the order of the dataset. The library groups by length and
      drops the last batch in evaluation as in training, and with several processes it scores the
        first pairs twice, to fill the last batch; it also reads streamed data out of order, or
        stops. Here every process reads the whole stream before evaluation.
    - Data without labels is translated (`predict_with_generate`), whatever the collator.
    - `label_smoothing_factor` becomes the model's own `label_smoothing`: right with accumulation
      and several processes under every transformers version (4.57 multiplies the loss by their
      number), without a tensor of logits, and with any collator.
    - The card that is pushed is this package's: see `write_card`.
    - No pickle is pushed: neither the training arguments nor the state of a training.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if self.args.push_to_hub and "checkpoint" in self.args.hub_strategy:
            raise ValueError(
                f"hub_strategy={self.args.hub_strategy.value} would push pickles (optimizer.pt), "
                "which may run code where they are read; give every_save or end"
            )
        self._evaluated: list[tuple[float, int]] = []
        self._smooth_labels_in(self.model)

    def call_model_init(self, trial: object = None) -> nn.Module:
        """Make the model as the library does, and have it smooth its labels."""
        model = super().call_model_init(trial)
        self._smooth_labels_in(model)
        return model

    def create_model_card(self, *args: object, **kwargs: object) -> None:
        """Write this package's card for a model of ours, with the scores of every evaluation.

        What the library's arguments say (licence, tags, ...) is edited in the card's metadata
        instead, where it stays. For other models and for adapters the library writes its own card.

        Raises:
            ValueError: The configuration names a language that is none.
        """
        is_ours = self.model.config.model_type == VanillaTransformerConfig.model_type
        if not (is_ours and Path(self.args.output_dir, CONFIG_NAME).is_file()):
            super().create_model_card(*args, **kwargs)
            return
        if ignored := sorted(kwargs.keys() - {"model_name"}):
            logger.warning(
                "edit the metadata of README.md instead of giving %s", ", ".join(ignored)
            )
        training = {
            "steps": self.state.global_step,
            "passes": self.state.epoch,
            "validations": [
                {"step": one["step"], "loss": one["eval_loss"], "bleu": one.get("eval_bleu")}
                for one in self.state.log_history
                if math.isfinite(one.get("eval_loss", math.nan))
            ],
        }
        name = self.hub_model_id or self.args.hub_model_id
        write_card(self.args.output_dir, reports=[{"training": training}], repo_id=name)

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate as the library does, without repetitions; the loss is that of a target token."""
        self._evaluated = []
        if self.processing_class is not None:
            suppress_rows_without_token(self.model, self.processing_class)
        self.gather_function = self.accelerator.gather_for_metrics
        output = super().evaluation_loop(
            dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
        )
        sums = gather_object(self._evaluated)  # of all processes
        if tokens := sum(count for _, count in sums):
            output.metrics[f"{metric_key_prefix}_loss"] = sum(loss for loss, _ in sums) / tokens
        return output

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **generation: object,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Evaluate one batch as the library does, and note its summed loss and its tokens."""
        # The library's collator gives labels of None where the data has none.
        inputs = {name: value for name, value in inputs.items() if value is not None}
        if "labels" in inputs:
            inputs["labels"] = self._without_repetitions(inputs["labels"])
        result = super().prediction_step(
            model, inputs, prediction_loss_only, ignore_keys, **generation
        )
        if result[0] is not None:
            tokens = int(inputs["labels"].ne(IGNORED_LABEL).sum())
            self._evaluated.append((result[0].item() * tokens, tokens))
        return result

    def _save(self, output_dir: str | None = None, *args: object, **kwargs: object) -> None:
        """Save as the library does, but for the training arguments: a pickle that nobody reads."""
        super()._save(output_dir, *args, **kwargs)
        Path(output_dir or self.args.output_dir, TRAINING_ARGS_NAME).unlink(missing_ok=True)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Push the model of a checkpoint, as the library does, without the training's state."""
        last = self.push_in_progress
        is_busy = last is not None and not last.is_done() and not self.args.hub_always_push
        if is_busy or self.args.hub_strategy == HubStrategy.END or not self.is_world_process_zero():
            return
        job = HfApi(token=self.args.hub_token).upload_folder(
            repo_id=self.hub_model_id,
            folder_path=checkpoint_folder,
            commit_message=f"Training in progress, step {self.state.global_step}",
            revision=self.args.hub_revision,
            ignore_patterns=[*PICKLES, TRAINER_STATE_NAME],
            run_as_future=True,
        )
        self.push_in_progress = PushInProgress([*getattr(last, "jobs", []), job])

    def _smooth_labels_in(self, model: nn.Module) -> None:
        """Have a model smooth its labels itself, if it can and shall.

        Raises:
            ValueError: `label_smoothing_factor` is out of its range.
        """
        factor = self.args.label_smoothing_factor
        if not 0 <= factor < 1:
            raise ValueError(f"label_smoothing_factor={factor} must be from 0 to below 1")
        if factor and hasattr(model.config, "label_smoothing"):
            model.config.label_smoothing = factor
            self.label_smoother = None

    def _get_eval_sampler(self, eval_dataset: Dataset) -> None:
        """Return no sampler: evaluation keeps the order of the dataset, however training draws."""

    def _get_dataloader(
        self, dataset: Dataset, *args: object, is_training: bool = False, **kwargs: object
    ) -> DataLoader:
        """Load data like the library; for evaluation load all pairs, each with an index."""
        if is_training:
            return super()._get_dataloader(dataset, *args, is_training=True, **kwargs)
        if isinstance(dataset, IterableDataset):
            dataset = list(dataset)  # only what has a length is dealt out exactly
        sharing = self.accelerator.dataloader_config
        before = self.args.dataloader_drop_last, sharing.dispatch_batches, sharing.even_batches
        self.args.dataloader_drop_last = False
        sharing.dispatch_batches, sharing.even_batches = False, True
        try:
            return super()._get_dataloader(dataset, *args, **kwargs)
        finally:
            self.args.dataloader_drop_last, sharing.dispatch_batches, sharing.even_batches = before

    def _without_repetitions(self, labels: Tensor) -> Tensor:
        """Blank the labels [B, T] of pairs that only fill up the last batch of all processes."""
        state = self.accelerator.gradient_state
        if not state.end_of_dataloader or state.remainder <= 0:
            return labels
        first = self.accelerator.process_index * len(labels)
        number = torch.arange(first, first + len(labels), device=labels.device)
        return labels.masked_fill(number[:, None] >= state.remainder, IGNORED_LABEL)
