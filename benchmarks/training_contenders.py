"""The training steps that `benchmark_training.py` compares."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional
from transformers import (
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.training.cpu import fast_cpu_products

ADAM = {"lr": 1e-4, "betas": (0.9, 0.98), "eps": 1e-9}
SMOOTHING = 0.1

Batch = dict[str, Tensor]
Contender = Callable[[list[Batch]], None]


@contextmanager
def bf16_autocast() -> Iterator[None]:
    """Run matrix products in bfloat16."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield


def ours(
    config: VanillaTransformerConfig, autocast: Callable[[], AbstractContextManager[None]]
) -> Contender:
    """Return our training step."""
    model = our_model(config)
    optimizer = torch.optim.Adam(model.parameters(), fused=True, **ADAM)

    def train(batches: list[Batch]) -> None:
        with fast_cpu_products():
            for batch in batches:
                with autocast():
                    loss = model(**batch).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    return train


def our_model(config: VanillaTransformerConfig) -> VanillaTransformerForConditionalGeneration:
    """Return our model."""
    set_seed(1)
    return VanillaTransformerForConditionalGeneration(config).train()


def marian_model(config: VanillaTransformerConfig) -> MarianMTModel:
    """Return a Marian model of the same size."""
    set_seed(1)
    return MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            decoder_vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            dropout=config.dropout,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=config.pad_token_id,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
            max_position_embeddings=512,
        )
    ).train()


def marian(
    config: VanillaTransformerConfig, autocast: Callable[[], AbstractContextManager[None]]
) -> Contender:
    """Return the training step that users write around Marian."""
    model = marian_model(config)
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)

    def train(batches: list[Batch]) -> None:
        for batch in batches:
            labels = batch["labels"]
            decoder_input_ids = model.prepare_decoder_input_ids_from_labels(labels)
            with autocast():
                logits = model(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    decoder_input_ids=decoder_input_ids,
                ).logits
                loss = functional.cross_entropy(
                    logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING
                )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return train


def trainer(model: PreTrainedModel, *, bf16: bool = False, smoothing: float = 0.0) -> Contender:
    """Return the loop of `Seq2SeqTrainer`; each item of its data is a whole batch."""

    def train(batches: list[Batch]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            arguments = Seq2SeqTrainingArguments(
                folder,
                per_device_train_batch_size=1,
                num_train_epochs=1,
                label_smoothing_factor=smoothing,
                bf16=bf16,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                adam_beta2=ADAM["betas"][1],
                adam_epsilon=ADAM["eps"],
            )
            loop = Seq2SeqTrainer(
                model,
                arguments,
                train_dataset=batches,
                data_collator=lambda items: with_decoder_inputs(model, items[0]),
            )
            loop.remove_callback(PrinterCallback)
            loop.train()

    return train


def with_decoder_inputs(model: PreTrainedModel, batch: Batch) -> Batch:
    """Return a batch as `DataCollatorForSeq2Seq` would."""
    inputs = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    return batch | {"decoder_input_ids": inputs}


CONTENDERS: dict[str, Callable[[VanillaTransformerConfig], Contender]] = {
    "marian": lambda config: marian(config, nullcontext),
    "marian-bf16": lambda config: marian(config, bf16_autocast),
    "trainer": lambda config: trainer(marian_model(config), smoothing=SMOOTHING),
    "trainer-bf16": lambda config: trainer(marian_model(config), bf16=True, smoothing=SMOOTHING),
    "trainer-ours": lambda config: trainer(our_model(config)),
    "trainer-ours-bf16": lambda config: trainer(our_model(config), bf16=True),
    "ours": lambda config: ours(config, nullcontext),
    "ours-bf16": lambda config: ours(config, bf16_autocast),
}
