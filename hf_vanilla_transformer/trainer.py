"""The library's Seq2SeqTrainer, with figures that do not depend on batch size or processes."""

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Seq2SeqTrainer
from transformers.trainer_utils import EvalLoopOutput

from hf_vanilla_transformer.model.loss import IGNORED_LABEL


class TranslationTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer that is exact where the library's is not.

    - The evaluation loss is that of all target tokens divided by their number. The library weighs
      every batch by its sentences, whatever their length, so its loss changes with
      `per_device_eval_batch_size`.
    - Every pair is evaluated once. With several processes the library repeats the first pairs to
      fill up the last batch, and scores them again.
    - `label_smoothing_factor` becomes the model's own `label_smoothing`: right with accumulation
      and several processes under every transformers version (4.57 multiplies the loss by their
      number), without a tensor of logits, and with any collator.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._evaluated: list[tuple[float, int]] = []
        if self.label_smoother is not None and hasattr(self.model.config, "label_smoothing"):
            self.model.config.label_smoothing = self.args.label_smoothing_factor
            self.label_smoother = None

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
        if "labels" in inputs:
            inputs = {**inputs, "labels": self._without_repetitions(inputs["labels"])}
        result = super().prediction_step(
            model, inputs, prediction_loss_only, ignore_keys, **generation
        )
        if result[0] is not None:
            tokens = int(inputs["labels"].ne(IGNORED_LABEL).sum())
            self._evaluated.append((result[0].item() * tokens, tokens))
        return result

    def _without_repetitions(self, labels: Tensor) -> Tensor:
        """Blank the labels [B, T] of pairs that only fill up the last batch of all processes."""
        state = self.accelerator.gradient_state
        if not state.end_of_dataloader or state.remainder <= 0:
            return labels
        first = self.accelerator.process_index * len(labels)
        number = torch.arange(first, first + len(labels), device=labels.device)
        return labels.masked_fill(number[:, None] >= state.remainder, IGNORED_LABEL)
