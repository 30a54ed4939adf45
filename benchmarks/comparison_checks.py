"""What would spoil a comparison, found before anything is trained."""

import argparse
from dataclasses import fields

from comparison_files import languages
from comparison_options import our_options

from hf_vanilla_transformer.commands.train import TRAIN_ARGUMENTS
from hf_vanilla_transformer.data.corpus import read_pairs
from hf_vanilla_transformer.evaluation.scoring import Scorer
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.tokenization.bpe import load_tokenizer, vocabulary_fields
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.corpora import open_training_corpora
from hf_vanilla_transformer.training.defaults import choose_by_amount
from hf_vanilla_transformer.training.loop_arguments import LIMITS, LoopArguments
from hf_vanilla_transformer.training.options import spelt
from hf_vanilla_transformer.training.setup import plan_corpora, preset_of

UNEQUAL = {
    **dict.fromkeys((*LIMITS, "patience"), "--minutes sets the end of both; leave it out"),
    "valid_beams": "both are validated by greedy search; leave it out",
    "from_model": "Marian starts untrained; leave it out",
    "dry_run": "nothing would be trained; leave it out",
    **{
        name: f"it would hold for ours alone; give {spelt(name)} to this command in its place"
        for name in ("source_lang", "target_lang")
    },
}
"""What the file of our training may not hold, and why."""
MOST_TOKENS = 512
"""Longest side of a pair: Marian's positions are a table."""


def check_comparable(options: argparse.Namespace) -> None:
    """Refuse what would end the comparison later.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Names what is wrong.
    """
    if options.test:
        _, references = read_test(options)
        Scorer([references], target_language=options.target_lang)
    given = our_options(options, options.config)
    run, data, loop = (
        {one.name: getattr(given, one.name) for one in fields(arguments)}
        for arguments in TRAIN_ARGUMENTS
    )
    loop |= {"max_minutes": options.minutes}
    run, data = RunArguments(**run), DataArguments(**data)
    open_training_corpora(plan_corpora(run, data))
    run, loop = choose_by_amount(run, data, loop=loop)
    preset = preset_of(run)
    LoopArguments.with_preset(preset, loop)
    vocabulary = {"share_encoder_decoder_embeddings": not run.separate_vocabularies}
    if run.tokenizer:
        vocabulary = vocabulary_fields(load_tokenizer(run.tokenizer))
    check_fits(preset.config(**vocabulary), max_length=data.max_length)


def refuse_unequal(options: argparse.Namespace) -> None:
    """Refuse options in the file of our training that would hold for ours alone.

    Raises:
        ValueError: Names the first.
    """
    given, typed = (our_options(options, config) for config in (options.config, None))
    for name, why in UNEQUAL.items():
        value = getattr(given, name)
        if value != getattr(typed, name):
            raise ValueError(
                f"{options.config}: {spelt(name)[2:]} {value} does not go with a comparison: {why}"
            )


def read_test(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return sources and references of the test pairs.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: They cannot be read, or there are none.
    """
    pairs = read_pairs(options.test, **languages(options))
    if not pairs:
        raise ValueError(f"--test {' '.join(options.test)} holds no pairs; name others")
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def check_fits(config: VanillaTransformerConfig, *, max_length: int) -> None:
    """Refuse a model of ours that Marian has no like of.

    Args:
        config: Of our model.
        max_length: Tokens that a side of a pair may have.

    Raises:
        ValueError: Names what Marian lacks.
    """
    if not config.share_encoder_decoder_embeddings:
        raise ValueError(
            "Marian is compared with one vocabulary for both sides: leave out "
            "separate-vocabularies, or bring a tokenizer that has one"
        )
    if {config.d_k, config.d_v} != {config.d_model / config.num_heads}:
        raise ValueError(
            f"d_k={config.d_k} and d_v={config.d_v}: Marian's heads are d_model / num_heads = "
            f"{config.d_model} / {config.num_heads} wide; choose these so that d_k and d_v are, too"
        )
    if max_length > MOST_TOKENS:
        raise ValueError(f"max-length {max_length} is over Marian's {MOST_TOKENS}; lower it")
