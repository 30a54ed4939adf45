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
from functools import partial
from pathlib import Path

from accelerate.utils import set_seed

from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.evaluation.report import describe_environment
from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.explain.attention_map import PronounReading, draw_pronoun_attention
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.quickstart.corpus import (
    SHOWCASE,
    DemoCorpus,
    demo_corpus,
    names_right_referent,
)
from hf_vanilla_transformer.storage.files import write_folder, write_json
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.training.cpu import fast_cpu_products, training_threads
from hf_vanilla_transformer.training.fit import Training, train_and_average
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.setup import new_model, start_accelerator
from hf_vanilla_transformer.translation.translate import translate

logger = logging.getLogger(__name__)

SENTENCES = ("我爱猫", *(pair.source for pair in SHOWCASE))
MAX_LENGTH = 64
ARCHITECTURE = {
    "d_model": 128,
    "d_ff": 256,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "max_position_embeddings": MAX_LENGTH,
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
    save_every=150,
    keep_checkpoints=3,
    valid_beams=0,
)
PICTURE = "attention.png"
RESULTS = {"model", "report.json", PICTURE}
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
    """Train, score, save, load again and translate; write `model/`, `report.json` and a picture.

    The folder appears when all is done; until then an earlier quickstart's stays as it was.

    Args:
        output: Folder to write.
        texts: Chinese sentences to translate beside the built-in ones.

    Returns:
        The content of the report.

    Raises:
        ValueError: The folder holds something else than a quickstart's results.
        KeyboardInterrupt: The user ended it; the message says what the folder holds.
    """
    output = Path(output).resolve()
    _check_free(output)
    kept = f"{output} is as it was" if output.exists() else "nothing was written"
    try:
        with write_folder(output) as unfinished:
            report = _fill(unfinished, [*SENTENCES, *texts])
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {kept}") from None
    return report


def describe(report: dict[str, object], output: str, *, program: str) -> str:
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
            "   ".join(
                [
                    f"model: {output}/model",
                    f"report: {output}/report.json",
                    *(f"picture: {output}/{picture}" for picture in report["pictures"]),
                ]
            ),
            "",
            "translate more:       "
            f"echo 小狗怕大象，因为它太大了 | {program} translate {output}/model",
            f"train on your pairs:  {program} train --preset tiny --train pairs.tsv "
            "--valid valid.tsv --source-lang zh --target-lang en --output run",
        ]
    )


def _check_free(output: Path) -> None:
    """Refuse a folder that something else than a quickstart wrote to, or that we stand in."""
    if output in (Path.cwd(), *Path.cwd().parents):
        raise ValueError(f"{output} is the current folder or holds it; name a new one")
    if not output.exists() or not (names := {path.name for path in output.iterdir()}):
        return
    report = output / "report.json"
    if not (names <= RESULTS and report.is_file() and MADE_BY in report.read_text("utf-8")):
        raise ValueError(
            f"{output} holds something else than a quickstart's results; "
            "name a new folder with --output"
        )


def _fill(folder: Path, sentences: list[str]) -> dict[str, object]:
    """Write all results into a folder; return the content of the report."""
    began = time.monotonic()
    seconds: dict[str, float] = {}
    report = _train_and_score(folder, seconds)
    with _timed(seconds, "translate in a fresh process"):
        translations = _translate_in_a_fresh_process(folder / "model", sentences)
    translation_of = dict(zip(sentences, translations, strict=True))
    with _timed(seconds, "draw attention"):
        pictures = _draw_pronouns(folder, translation_of)
    report |= {
        "translations": [
            {"source": source, "translation": translation}
            for source, translation in translation_of.items()
        ],
        "pictures": pictures,
        "seconds": seconds | {"all": round(time.monotonic() - began, 2)},
    }
    write_json(folder / "report.json", report)
    return report


def _train_and_score(folder: Path, seconds: dict[str, float]) -> dict[str, object]:
    """Train tokenizer and model, save them in `folder/model`, and score them."""
    accelerator = start_accelerator()
    corpus = demo_corpus()
    with _timed(seconds, "train a tokenizer"):
        texts = (text for pair in corpus.train for text in pair)
        tokenizer = train_tokenizer(
            texts, vocab_size=VOCABULARY, isolate_han=True, max_length=MAX_LENGTH
        )
        encode = partial(encode_pairs, tokenizer=tokenizer, max_length=MAX_LENGTH)
        pairs = encode(corpus.train[VALIDATION_PAIRS:], name="training")
        valid = encode(corpus.train[:VALIDATION_PAIRS], name="validation")
    set_seed(LOOP.seed)
    model = new_model(VanillaTransformerConfig(vocab_size=len(tokenizer), **ARCHITECTURE))
    with (
        fast_cpu_products(),
        training_threads(model, pairs, accelerator=accelerator),
        _timed(seconds, "train"),
    ):
        training = train_and_average(
            Training(
                model=model,
                tokenizer=tokenizer,
                pairs_of=lambda _epoch: pairs,
                pairs=len(pairs),
                valid=valid,
                output=folder,
                loop=LOOP,
                accelerator=accelerator,
            )
        )
        environment = asdict(describe_environment())
    if training["stopped_by"] == "interrupt":
        raise KeyboardInterrupt
    shutil.rmtree(folder / "checkpoints")
    with _timed(seconds, "score"):
        scores = _score(folder / "model", corpus)
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
    draw_pronoun_attention(model, tokenizer, readings=readings, path=output / PICTURE)
    return [PICTURE]


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Announce a stage and note how long it took."""
    logger.info("%s ...", stage)
    began = time.monotonic()
    yield
    seconds[stage] = round(time.monotonic() - began, 2)
