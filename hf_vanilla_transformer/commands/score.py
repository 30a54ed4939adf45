"""`vanilla-transformer score`: how probable a model finds translations that are given."""

import argparse
import sys
from itertools import chain, islice

from hf_vanilla_transformer.commands.options import Commands, add_languages, add_model, languages
from hf_vanilla_transformer.data.corpus import open_corpora
from hf_vanilla_transformer.data.lines import ignore
from hf_vanilla_transformer.storage.models import find_model, load_config, load_for_translation
from hf_vanilla_transformer.translation.forced_decoding import log_probs_of_pairs
from hf_vanilla_transformer.translation.output import (
    StreamOutput,
    refuse_closed,
    refuse_overwriting,
)

WINDOW_PAIRS = 10_000


def add_score(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "score",
        help="log-probabilities of given translations",
        description="Write one line for each pair: the natural logarithm of the probability of the "
        "translation, a tab, and its mean over the tokens, end of sentence included.",
    )
    add_model(command)
    command.add_argument(
        "--source",
        required=True,
        metavar="F",
        help="source text; or pairs, in any format that train reads",
    )
    command.add_argument(
        "--target", metavar="F", help="their translations, unless --source holds pairs"
    )
    add_languages(command)
    command.add_argument(
        "--tokens",
        action="store_true",
        help="add a tab and every token with its own, as token=-0.1234, spaces between them",
    )
    command.set_defaults(run=run_score)


def run_score(options: argparse.Namespace) -> None:
    """Run the command."""
    refuse_closed(sys.stdout, 1)
    name = find_model(options.model)
    of_text = languages(options, load_config(name))
    files = [options.source, *([options.target] if options.target else [])]
    refuse_overwriting(files, [1])
    corpora = open_corpora(files, **of_text)
    pairs = chain.from_iterable(corpus.rows(ignore) for corpus in corpora)
    window = list(islice(pairs, WINDOW_PAIRS))
    if not window:
        raise ValueError(f"{' '.join(files)} holds no pairs: 0 sentences, 0 translations")
    model, tokenizer = load_for_translation(name, dtype=options.dtype, device=options.device)
    output = StreamOutput(sys.stdout.buffer)
    while window:
        lines, sources, targets = zip(*window, strict=True)
        found = log_probs_of_pairs(model, tokenizer, sources, targets, lines=lines)
        output.write([_row_of_pair(tokens, shows_tokens=options.tokens) for tokens in found])
        window = list(islice(pairs, WINDOW_PAIRS))


def _row_of_pair(tokens: list[tuple[str, float]], *, shows_tokens: bool) -> str:
    """Return the line of one pair."""
    total = sum(log_prob for _, log_prob in tokens)
    cells = [f"{total:.4f}", f"{total / len(tokens):.4f}"]
    if shows_tokens:
        cells.append(" ".join(f"{token}={log_prob:.4f}" for token, log_prob in tokens))
    return "\t".join(cells)
