"""`vanilla-transformer translate`: lines in, lines out."""

import argparse
import codecs
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice, zip_longest

from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.commands.options import (
    Commands,
    add_model,
    add_search,
    search_settings,
    whole_number,
)
from hf_vanilla_transformer.data.corpus import holds_pairs
from hf_vanilla_transformer.data.lines import decode_lines, iterate_lines
from hf_vanilla_transformer.storage.models import find_model, load_for_translation, model_stamp
from hf_vanilla_transformer.tokenization.byte_share import warn_of_bytes
from hf_vanilla_transformer.translation.output import (
    LineOutput,
    beside,
    open_output,
    refuse_closed,
    refuse_overwriting,
)
from hf_vanilla_transformer.translation.paragraphs import translate_paragraphs
from hf_vanilla_transformer.translation.translate import translate, translate_n_best

logger = logging.getLogger(__name__)

WINDOW_LINES = 10_000
"""Lines that are held in memory, sorted by length and translated together."""


def add_translate(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "translate",
        help="translate text, line by line",
        description="Translate files, or standard input: one line out for each line in, in order.",
    )
    add_model(command)
    command.add_argument(
        "files", nargs="*", metavar="FILE", help="UTF-8 text, .gz too; left out: standard input"
    )
    command.add_argument(
        "--output",
        metavar="F",
        help="file to write, named F.partial until complete; left out: standard output",
    )
    command.add_argument(
        "--resume", action="store_true", help="continue the F.partial of an interrupted run"
    )
    add_search(command)
    command.add_argument(
        "--n-best",
        type=whole_number,
        metavar="N",
        help="write the N best translations of each line as N lines: score, tab, translation",
    )
    command.add_argument(
        "--prefix", metavar="F", help="text file: line i is the start of translation i"
    )
    command.add_argument(
        "--split-sentences",
        action="store_true",
        help="translate a line that holds several sentences one by one, and join them again",
    )
    command.set_defaults(run=run_translate)


def run_translate(options: argparse.Namespace) -> None:
    """Run the command."""
    if options.split_sentences and (options.prefix or options.n_best):
        raise ValueError("--split-sentences cannot be combined with --prefix or --n-best")
    prefix = [options.prefix] if options.prefix else []
    _check_output(options.output, resume=options.resume)
    _check_files(options.files, prefix, output=options.output)
    name = find_model(options.model)
    loaded = load_for_translation(name, dtype=options.dtype, device=options.device)
    search = search_settings(options)
    task = {
        **model_stamp(name, loaded[1]),
        "search": search,
        "n-best": options.n_best,
        "split-sentences": options.split_sentences,
        "batch-tokens": options.batch_tokens,
        "dtype": options.dtype,
    }
    translate_window = partial(
        _window_translator(options.n_best, splits=options.split_sentences),
        *loaded,
        batch_tokens=options.batch_tokens,
        **search,
    )
    block_lines = WINDOW_LINES * (options.n_best or 1)
    opened = open_output(options.output, task, block_lines=block_lines, resume=options.resume)
    with closing(opened) as output, _progress(is_elsewhere=bool(options.output)) as progress:
        try:
            rows = _with_prefixes(_lines_of(options.files), options.prefix)
            _translate_windows(
                rows, translate_window, output=output, progress=progress, tokenizer=loaded[1]
            )
        except KeyboardInterrupt:
            kept = f"{output.blocks * WINDOW_LINES} lines are saved; continue with --resume"
            message = f"interrupted; {kept}" if options.output and output.blocks else "interrupted"
            raise KeyboardInterrupt(message) from None
        output.finish()


def _check_files(files: Sequence[str], prefix: Sequence[str], *, output: str | None) -> None:
    """Refuse, before anything is read, files that cannot be translated."""
    if not files:
        refuse_closed(sys.stdin, 0)
    for file in files:
        if holds_pairs(file):
            raise ValueError(f"{file} holds pairs; give the lines to translate (cut -f1 {file})")
    for file in [*files, *prefix]:
        os.stat(file)
    written = [output, *beside(output)] if output else [1]
    refuse_overwriting([*(files or [0]), *prefix], written)


def _check_output(output: str | None, *, resume: bool) -> None:
    """Refuse an output that cannot be written."""
    if resume and not output:
        raise ValueError("--resume needs --output; output sent to stdout cannot be resumed")
    if not output:
        refuse_closed(sys.stdout, 1)
    elif output.lower().endswith(".gz"):
        raise ValueError(
            f"{output}: the output is plain text; name it without .gz, and compress it afterwards"
        )


def _translate_windows(
    rows: Iterator[tuple[str, str | None]],
    translate_window: Callable[..., list[str]],
    *,
    output: LineOutput,
    progress: tqdm,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Translate the lines that are missing in the output, window by window."""
    number = 0
    while window := list(islice(rows, WINDOW_LINES)):
        made_from = [(line, prefix or "") for line, prefix in window]
        if not output.holds(made_from):
            sources, prefixes = map(list, zip(*window, strict=True))
            if not number:
                warn_of_bytes(tokenizer, sources)
            given = {} if prefixes[0] is None else {"prefixes": prefixes}
            numbers = range(number + 1, number + 1 + len(window))
            output.write(translate_window(sources, lines=numbers, **given), made_from)
        number += len(window)
        progress.update(len(window))


def _window_translator(n_best: int | None, *, splits: bool) -> Callable[..., list[str]]:
    """Return the function that makes the output lines of a window."""
    if not n_best:
        return translate_paragraphs if splits else translate

    def translate_and_score(*arguments: object, **settings: object) -> list[str]:
        found = translate_n_best(*arguments, count=n_best, **settings)
        return [f"{one.score:.4f}\t{one.text}" for each in found for one in each]

    return translate_and_score


def _lines_of(files: Sequence[str]) -> Iterator[str]:
    """Yield the lines of files, or of standard input if there are none."""
    return chain.from_iterable(map(iterate_lines, files)) if files else _standard_input()


def _with_prefixes(lines: Iterator[str], file: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield every line with the prefix of its translation; None without a prefix file.

    Raises:
        ValueError: The numbers of prefixes and lines differ.
    """
    if not file:
        yield from ((line, None) for line in lines)
        return
    prefixes = iterate_lines(file)
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes)):
        if line is None or prefix is None:
            rest = 1 + sum(1 for _ in (prefixes if line is None else lines))
            counts = (number, number + rest) if line is None else (number + rest, number)
            raise ValueError(
                f"{counts[0]} lines to translate, but {file} has {counts[1]}; a prefix "
                "file needs one line per sentence, blank for no prefix"
            )
        yield line, prefix


def _standard_input() -> Iterator[str]:
    """Yield the lines of standard input."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if number > 1 and line.startswith(codecs.BOM_UTF8):
            line = codecs.BOM_UTF8 + line  # the one that is dropped; inside a text it is text
        yield from decode_lines(line, name=f"standard input, line {number}")


def _progress(*, is_elsewhere: bool) -> tqdm:
    """Return a progress bar of lines; disabled without a terminal or if output goes to it."""
    is_seen = sys.stderr.isatty() and (is_elsewhere or not sys.stdout.isatty())
    return tqdm(unit=" lines", disable=not is_seen, file=sys.stderr)
