"""Fine-tune a translation model on your own pairs with the library's trainer.

    python scripts/finetune_trainer.py --model runs/base/model \
        --train mine.tsv --valid dev.tsv --output_dir runs/fine --num_train_epochs 3

Takes every option of `Seq2SeqTrainingArguments` beside its own, runs under `torchrun` and
`accelerate launch` as well, and leaves a model folder that the pipeline loads. An example to copy
and change: docs/trainer.md explains it, `vanilla-transformer train --from` does more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datasets import Dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BatchEncoding,
    DataCollatorForSeq2Seq,
    EvalPrediction,
    HfArgumentParser,
    PreTrainedModel,
    Seq2SeqTrainingArguments,
)

from hf_vanilla_transformer.data.corpus import read_pairs
from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.trainer import TranslationTrainer

if TYPE_CHECKING:
    from peft import PeftModel

# Instead of the library's: decode and score after every epoch, and keep the best checkpoint.
DEFAULTS = {
    "predict_with_generate": True,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 2,
    "load_best_model_at_end": True,
    "metric_for_best_model": "bleu",
    "per_device_train_batch_size": 32,
    "per_device_eval_batch_size": 32,
    "learning_rate": 1e-4,
    "report_to": "none",
}


@dataclass
class FinetuneArguments:
    """What to fine-tune, and on what."""

    model: str = field(metadata={"help": "model folder, or its name on the Hub"})
    train: list[str] = field(
        metadata={"help": "pairs to train on: .tsv, .jsonl, or two text files"}
    )
    valid: list[str] = field(metadata={"help": "pairs to score after every epoch"})
    source_lang: str | None = field(default=None, metadata={"help": "name of the source's column"})
    target_lang: str | None = field(default=None, metadata={"help": "name of the target's column"})
    lora: int = field(default=0, metadata={"help": "rank of LoRA adapters; 0 trains all weights"})


def main(words: Sequence[str] | None = None) -> None:
    """Train, keep the best checkpoint (by BLEU unless told otherwise), and save it as a model."""
    options, training = read_arguments(words)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(options.model)
    target_language = getattr(model.config, "target_language", None)
    if options.lora:
        model = with_adapters(model, options.lora)
    train, valid = (read_dataset(names, options) for names in (options.train, options.valid))

    def encode(batch: dict[str, list[str]]) -> BatchEncoding:
        return tokenizer(batch["source"], text_target=batch["target"], truncation=True)

    def score(evaluated: EvalPrediction) -> dict[str, float]:
        # -100 fills up rows; the references are the texts, not what truncation left of them:
        # TranslationTrainer evaluates every pair, in this order.
        predictions = evaluated.predictions
        batches = predictions if isinstance(predictions, list) else [predictions]
        rows = [row[row >= 0] for batch in batches for row in batch]
        hypotheses = tokenizer.batch_decode(rows, skip_special_tokens=True)
        references = list(valid["target"])
        scores = score_translations(hypotheses, references, target_language=target_language)
        return {"bleu": scores.bleu, "chrf": scores.chrf}

    trainer = TranslationTrainer(
        model=model,
        args=training,
        train_dataset=train.map(encode, batched=True, remove_columns=train.column_names),
        eval_dataset=valid.map(encode, batched=True, remove_columns=valid.column_names),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=score,
    )
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    best = trainer.accelerator.unwrap_model(trainer.model)
    if options.lora:
        best = best.merge_and_unload()
    if trainer.is_world_process_zero():
        best.save_pretrained(training.output_dir)
        tokenizer.save_pretrained(training.output_dir)


def read_arguments(
    words: Sequence[str] | None,
) -> tuple[FinetuneArguments, Seq2SeqTrainingArguments]:
    """Read the command line; without translations, checkpoints go by their loss."""
    parser = HfArgumentParser((FinetuneArguments, Seq2SeqTrainingArguments))
    parser.set_defaults(**DEFAULTS)
    options, training = parser.parse_args_into_dataclasses(words)
    if training.prediction_loss_only or not training.predict_with_generate:
        training.prediction_loss_only = True
        training.metric_for_best_model, training.greater_is_better = "loss", False
    return options, training


def with_adapters(model: PreTrainedModel, rank: int) -> "PeftModel":
    """Freeze a model and give it LoRA adapters (Hu et al. 2022), on queries and values (§4.2)."""
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(task_type="SEQ_2_SEQ_LM", r=rank, target_modules=["q_proj", "v_proj"])
    adapted = get_peft_model(model, adapters)
    adapted.enable_input_require_grads()  # else checkpointed layers would have no gradient
    return adapted


def read_dataset(names: list[str], options: FinetuneArguments) -> Dataset:
    """Return pairs as a dataset with the columns `source` and `target`."""
    languages = {"source_language": options.source_lang, "target_language": options.target_lang}
    pairs = read_pairs(names, **languages)
    if not pairs:
        raise ValueError(f"{' '.join(names)} holds no pairs; name a corpus that does")
    return Dataset.from_list([pair._asdict() for pair in pairs])


if __name__ == "__main__":
    main()
