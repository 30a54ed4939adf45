"""Score translations as papers on Multi30k do: BLEU of lower-cased Moses tokens.

    python scripts/moses_bleu.py --source test.en --translations run/test/translations.txt \
        --reference test.de --language de --output moses.json

Both sides are lower-cased, then tokenised by sacremoses without escaping; BLEU is that of these
tokens, 4-grams of the whole corpus, without smoothing for counts above 0, as multi-bleu and fairseq
compute it (Wu et al. 2021 write 41.02 for Multi30k's test set of 2016, whose German side has 12,103
such tokens). It is not comparable with sacreBLEU of plain text, which `evaluate` gives.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU
from sacremoses import MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from hf_vanilla_transformer.data.lines import read_lines
from hf_vanilla_transformer.storage.files import write_json
from hf_vanilla_transformer.translation.output import refuse_overwriting

NAME = "BLEU of lower-cased Moses tokens"


def main() -> None:
    """Score, print, and write what `publish --report` puts on a card."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("source", "translations", "reference"):
        parser.add_argument(f"--{name}", required=True, metavar="F")
    languages = sorted({*NonbreakingPrefixes().available_langs.values()})
    parser.add_argument("--language", required=True, metavar="CODE", choices=languages)
    parser.add_argument("--output", required=True, metavar="F.json")
    options = parser.parse_args()
    if Path(options.output).is_dir():
        parser.error(f"--output {options.output} is a folder; name a file")
    try:
        refuse_overwriting(
            [options.source, options.translations, options.reference], [options.output]
        )
        _, lines, expected = read_aligned(options.source, options.translations, options.reference)
    except FileNotFoundError as error:
        parser.error(f"there is no {error.filename}")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    report = score(lines, expected, language=options.language)
    files = {"source": options.source, "reference": [options.reference]}
    write_json(options.output, {**files, "bleu_name": NAME, **report})
    sys.stdout.write(
        f"BLEU {report['bleu']} of lower-cased Moses tokens ({report['details']}; not sacreBLEU's "
        "own measure)\n"
    )


def read_aligned(*files: str) -> list[list[str]]:
    """Return the lines of files that belong together line by line.

    Raises:
        FileNotFoundError: One is missing.
        ValueError: One is no text, they have not equally many lines, or none.
    """
    texts = [read_lines(file) for file in files]
    if len(set(map(len, texts))) > 1:
        counts = [f"{file} has {len(text)}" for file, text in zip(files, texts, strict=True)]
        raise ValueError(f"{', '.join(counts)} lines; they belong together line by line")
    if not texts[0]:
        raise ValueError(f"{', '.join(files)} are empty; there is nothing to score")
    return texts


def score(
    translations: Sequence[str], reference: Sequence[str], *, language: str
) -> dict[str, object]:
    """Return BLEU with two decimals, how it was computed, and its parts."""
    hypotheses, references = (
        tokenize(texts, language=language) for texts in (translations, reference)
    )
    metric = BLEU(tokenize="none", force=True)
    found = metric.corpus_score(hypotheses, [references])
    precisions = "/".join(f"{precision:.1f}" for precision in found.precisions)
    return {
        "bleu": round(found.score, 2),
        "bleu_signature": f"lower-cased|sacremoses:{language}|{metric.get_signature()}",
        "details": f"{precisions}, BP {found.bp:.3f}, {found.ref_len:,} tokens in the reference",
    }


def tokenize(texts: Sequence[str], *, language: str) -> list[str]:
    """Return lower-cased texts with a space between tokens."""
    moses = MosesTokenizer(language)
    return [moses.tokenize(text.lower(), escape=False, return_str=True) for text in texts]


if __name__ == "__main__":
    main()
