"""What version_matrix.py runs in each environment: make a checkpoint, or translate with one.

`build DIR` overfits a small model to a few sentences, saves it with its tokenizer and the paper's
decoding, and writes its translations as one line of JSON. `translate DIR` loads the folder in every
way that users do, once with each way of decoding, and writes what each gave.
"""

import argparse
import json
import sys
from pathlib import Path

PACKAGE = "hf_vanilla_transformer"
PAIRS = (
    ("我爱猫。", "I love cats."),
    ("小猫没追上汽车。", "The kitten did not catch the car."),
    ("因为它跑得太快了。", "because it was too fast."),
)
# All hypotheses of a beam, since the best are the same; "paper" is what the folder itself says.
SETTINGS = {
    "greedy": {"num_beams": 1, "early_stopping": False},
    "beam 4": {"early_stopping": False, "length_penalty": 1.0, "num_return_sequences": 4},
    "paper": {"num_return_sequences": 4},
}
STEPS = 120

Translations = dict[str, list[list[int]]]


def build(folder: Path) -> dict[str, object]:
    """Train, translate and save; return the ids [sentence][token] for each setting."""
    import torch

    from hf_vanilla_transformer import (
        PAPER_DECODING,
        VanillaTransformerConfig,
        VanillaTransformerForConditionalGeneration,
    )
    from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

    torch.manual_seed(0)
    sources, targets = zip(*PAIRS, strict=True)
    tokenizer = train_tokenizer([*sources, *targets] * 3, vocab_size=420, max_length=64)
    config = VanillaTransformerConfig(
        vocab_size=len(tokenizer),
        **{"d_model": 32, "d_ff": 48, "num_heads": 4, "d_k": 6, "d_v": 10, "dropout": 0.0},
        **{"encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 64},
    )
    model = VanillaTransformerForConditionalGeneration(config)
    batch = tokenizer(list(sources), text_target=list(targets), padding=True, return_tensors="pt")
    batch["labels"] = batch["labels"].masked_fill(batch["labels"].eq(config.pad_token_id), -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(STEPS):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    model.generation_config.update(**{**PAPER_DECODING, "extra_decode_length": 15})
    translations = generate(model, tokenizer)
    is_learned = translations["greedy"] == tokenizer(list(targets))["input_ids"]
    if not is_learned or translations["beam 4"] == translations["paper"]:
        raise RuntimeError(f"these translations would not show a lost setting: {translations}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"texts": list(targets), "translations": {"built": translations}}


def translate(folder: Path, trust: bool, save_to: Path | None = None) -> dict[str, object]:
    """Load a folder in every way that users do; return the ids of each way and setting."""
    import transformers
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    options = {"trust_remote_code": True} if trust else {}
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, **options)
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    by_task = pipeline("translation", model=str(folder), **options)
    by_model = pipeline(model=str(folder), **options)
    translations = {
        "generate": generate(model, tokenizer),
        "generate without cache": generate(model, tokenizer, use_cache=False),
        "pipeline by task": run_pipeline(by_task),
        "pipeline by task without cache": run_pipeline(by_task, use_cache=False),
        "pipeline by model": run_pipeline(by_model),
    }
    if save_to is not None:
        model.save_pretrained(save_to)
        tokenizer.save_pretrained(save_to)
    parts = (model, model.config, tokenizer, by_task, by_task.model, by_model)
    return {
        "transformers": transformers.__version__,
        "code": sorted({type(part).__module__.split(".")[0] for part in parts}),
        "texts": [by_task(source)[0]["translation_text"] for source, _ in PAIRS],
        "translations": translations,
    }


def generate(model, tokenizer, **arguments: object) -> Translations:  # noqa: ANN001
    """Translate all sentences in one batch, with each setting."""
    batch = tokenizer([source for source, _ in PAIRS], padding=True, return_tensors="pt")
    return {
        name: [
            without_frame(ids, model.config)
            for ids in model.generate(**batch, **setting, **arguments)
        ]
        for name, setting in SETTINGS.items()
    }


def run_pipeline(pipe, **arguments: object) -> Translations:  # noqa: ANN001
    """Translate the sentences one by one, with each setting."""
    sources = [source for source, _ in PAIRS]
    return {
        name: [
            without_frame(result["translation_token_ids"], pipe.model.config)
            for source in sources
            for result in pipe(source, return_tensors=True, **setting, **arguments)
        ]
        for name, setting in SETTINGS.items()
    }


def without_frame(ids, config) -> list[int]:  # noqa: ANN001
    """Return ids [T] without the start token and the padding around a sentence."""
    return [
        i for i in ids.tolist() if i not in (config.decoder_start_token_id, config.pad_token_id)
    ]


def main() -> None:
    """Run one action and write its result as a last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("build", "translate"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--package", choices=("installed", "absent"), default="installed")
    parser.add_argument("--trust", action="store_true", help="pass trust_remote_code=True")
    parser.add_argument("--save-to", type=Path)
    options = parser.parse_args()
    if options.package == "absent":
        sys.modules[PACKAGE] = None  # every import of it fails, even if it is installed
    else:
        __import__(PACKAGE)
    if options.action == "build":
        result = build(options.folder)
    else:
        result = translate(options.folder, options.trust, options.save_to)
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
