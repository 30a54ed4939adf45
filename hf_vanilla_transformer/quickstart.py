"""A first run: train a small Chinese-English model, score it, save it and translate with it.

Every step is one that a real project takes; only the corpus, which the package carries, is small.
"""

import json
import logging
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from accelerate.utils import set_seed

from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.data.demo import SHOWCASE, DemoCorpus, demo_corpus, names_right_referent
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.evaluation import load_for_translation, score_translations, translate
from hf_vanilla_transformer.explain.attention_map import PronounReading, draw_pronoun_attention
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.tokenization import train_tokenizer
from hf_vanilla_transformer.training.arguments import LoopArguments
from hf_vanilla_transformer.training.precision import fast_cpu_products
from hf_vanilla_transformer.training.run import (
    describe_environment,
    new_model,
    start_accelerator,
    train_and_average,
)
from hf_vanilla_transformer.training.threads import fastest_threads
from hf_vanilla_transformer.writing import write_json

logger = logging.getLogger(__name__)

SENTENCES = ("我爱猫", *(pair.source for pair in SHOWCASE))
MAX_TOKENS = 64
ARCHITECTURE = {
    "d_model": 128,
    "d_ff": 256,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "max_position_embeddings": MAX_TOKENS,
    "source_language": "zh",
    "target_language": "en",
}
VOCABULARY = 4000
VALIDATION_PAIRS = 200
LOOP = LoopArguments(
    batch_tokens=1024,
    max_steps=900,
    warmup_steps=300,
    learning_rate=2e-3,
    save_every=50,
    max_length=MAX_TOKENS,
)
PICTURE = "attention.png"
MADE_BY = "vanilla-transformer quickstart"

IN_A_FRESH_PROCESS = """
import json, sys
import hf_vanilla_transformer
from transformers import pipeline
from transformers.utils import logging
logging.set_verbosity_error()
logging.disable_progress_bar()
translator = pipeline("translation", model=sys.argv[1])
translations = translator(json.load(sys.stdin))
json.dump([translation["translation_text"] for translation in translations], sys.stdout)
"""


def quickstart(output: str | Path, texts: Sequence[str] = ()) -> dict[str, object]:
    """Train, score, save, load again and translate; write `model/`, `report.json` and pictures.

    What an earlier quickstart left in the same folder is removed first.

    Args:
        output: Folder to write.
        texts: Chinese sentences to translate beside the built-in ones.

    Returns:
        The content of the report.

    Raises:
        ValueError: The folder holds something else than a quickstart's results.
        KeyboardInterrupt: The user ended it.
    """
    began = time.monotonic()
    output = Path(output)
    _make_room(output)
    seconds: dict[str, float] = {}
    report = _train_and_score(output, seconds)
    with _timed(seconds, "translate in a fresh process"):
        sentences = [*SENTENCES, *texts]
        translations = _translate_in_a_fresh_process(output / "model", sentences)
    with _timed(seconds, "draw attention"):
        pictures = _draw_pronouns(output, dict(zip(sentences, translations, strict=True)))
    report |= {
        "translations": [
            {"source": source, "translation": translation}
            for source, translation in zip(sentences, translations, strict=True)
        ],
        "pictures": pictures,
        "seconds": seconds | {"all": round(time.monotonic() - began, 2)},
    }
    write_json(output / "report.json", report)
    return report


def describe(report: dict[str, object], output: str, program: str) -> str:
    """Return what a user wants to see at the end: figures, translations, and how to go on.

    Args:
        report: What `quickstart` returned.
        output: Its folder, as the user wrote it.
        program: How the user calls the command line.
    """
    scores, referents = report["scores"], report["referents"]
    width = max(len(pair["source"]) for pair in report["translations"])
    translations = [
        f"  {pair['source'].ljust(width, '　')}  {pair['translation']}"
        for pair in report["translations"]
    ]
    return "\n".join(
        [
            "",
            f"held-out sentences: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}; "
            f"right noun for 它 in {referents['right']} of {referents['of']}",
            f"{report['training']['parameters']:,} parameters, trained in "
            f"{report['seconds']['train']:.0f} s, everything in {report['seconds']['all']:.0f} s",
            "",
            *translations,
            "",
            f"model: {output}/model   report: {output}/report.json   "
            f"pictures: {', '.join(report['pictures'])}",
            "",
            "translate more:       "
            f"echo 小狗怕大象，因为它太大了 | {program} translate {output}/model",
            f"train on your pairs:  {program} train --preset tiny --train pairs.tsv "
            "--valid valid.tsv --output run",
        ]
    )


def _make_room(output: Path) -> None:
    """Remove an earlier quickstart's results; refuse any other content."""
    report = output / "report.json"
    if output.exists() and any(output.iterdir()):
        if not report.is_file() or MADE_BY not in report.read_text(encoding="utf-8"):
            raise ValueError(f"{output} holds something else; name a new folder with --output")
        for name in ("report.json", PICTURE):
            (output / name).unlink(missing_ok=True)
        for name in ("model", "checkpoints"):
            shutil.rmtree(output / name, ignore_errors=True)
    write_json(report, {"made_by": MADE_BY})


def _train_and_score(output: Path, seconds: dict[str, float]) -> dict[str, object]:
    """Train tokenizer and model, save them in `output/model`, and score them."""
    accelerator = start_accelerator()
    corpus = demo_corpus()
    with _timed(seconds, "train a tokenizer"):
        texts = (text for pair in corpus.train for text in pair)
        tokenizer = train_tokenizer(
            texts, vocab_size=VOCABULARY, isolate_han=True, max_length=MAX_TOKENS
        )
        pairs, valid = (
            encode_pairs(part, tokenizer, max_length=MAX_TOKENS, name=name)
            for part, name in (
                (corpus.train[VALIDATION_PAIRS:], "training"),
                (corpus.train[:VALIDATION_PAIRS], "validation"),
            )
        )
    set_seed(LOOP.seed)
    model = new_model(VanillaTransformerConfig(vocab_size=len(tokenizer), **ARCHITECTURE))
    sample = collate_pairs(pairs.sources[:64], pairs.targets[:64], model.config.pad_token_id)

    def work() -> None:
        model(**sample).loss.backward()
        model.zero_grad()

    with fast_cpu_products(), fastest_threads(work):
        with _timed(seconds, "train"):
            training = train_and_average(
                model, tokenizer, pairs, valid, LOOP, accelerator=accelerator, output=output
            )
        shutil.rmtree(output / "checkpoints")
        if training["stopped_by"] == "interrupt":
            raise KeyboardInterrupt
        environment = describe_environment()
        with _timed(seconds, "score"):
            scores = _score(output / "model", corpus)
    return {"made_by": MADE_BY} | scores | {"training": training, "environment": environment}


def _score(model_folder: Path, corpus: DemoCorpus) -> dict[str, object]:
    """Return BLEU and chrF on the held-out pairs, and how many referents of 它 are right."""
    model, tokenizer = load_for_translation(str(model_folder))
    translations = translate(model, tokenizer, [pair.source for pair in corpus.test])
    references = [pair.target for pair in corpus.test]
    scores = score_translations(translations, references, target_language="en")
    of_source = dict(zip((pair.source for pair in corpus.test), translations, strict=True))
    right = [
        names_right_referent(of_source[pair.source], pair.target) for pair in corpus.pronoun_test
    ]
    return {"scores": asdict(scores), "referents": {"right": sum(right), "of": len(right)}}


def _translate_in_a_fresh_process(model_folder: Path, sentences: list[str]) -> list[str]:
    """Load the saved folder as a user would, in a Python that knows nothing of this one.

    Raises:
        ChildProcessError: That process failed.
    """
    fresh = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS, str(model_folder)],
        input=json.dumps(sentences),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if fresh.returncode:
        raise ChildProcessError(f"the saved model does not load: {fresh.stderr[-2000:]}")
    return json.loads(fresh.stdout)


def _draw_pronouns(output: Path, translations: dict[str, str]) -> list[str]:
    """Draw how 它 was read in the built-in sentences; return the names of the pictures."""
    model, tokenizer = load_for_translation(str(output / "model"))
    readings = [
        PronounReading(pair.source, translations[pair.source], found[1])
        for pair in SHOWCASE
        if (found := re.search(r"because the (\w+)", translations[pair.source]))
    ]
    if not readings:
        return []
    draw_pronoun_attention(model, tokenizer, readings, path=output / PICTURE)
    return [PICTURE]


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Announce a stage and note how long it took."""
    logger.info("%s ...", stage)
    began = time.monotonic()
    yield
    seconds[stage] = round(time.monotonic() - began, 2)
