import json
import logging
import multiprocessing
import os
import shutil
import signal

import datasets
import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models

from hf_vanilla_transformer.data import encoding, token_cache
from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.corpus import open_corpora
from hf_vanilla_transformer.data.token_cache import cache_key, open_pairs, prepare_pairs
from hf_vanilla_transformer.tokenization.bpe import join_tokenizers, load_tokenizer, train_tokenizer

RULES = Cleaning(max_length=12)
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d e"] * 3, vocab_size=300)


def write_tsv(path, count=50):
    lines = (f"{' a' * (n % 14)}b\tc{' d' * (n % 5)}\n" for n in range(count))
    path.write_text("".join(lines))
    return path


def folders(cache):
    return [path for path in cache.iterdir() if path.is_dir()]


def test_cached_pairs_are_those_of_the_tokenizer_and_their_origins(tmp_path, tokenizer, cache):
    corpora = open_corpora([write_tsv(tmp_path / "a.tsv"), write_tsv(tmp_path / "b.tsv", 7)])
    pairs = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
    rows = [row for corpus in corpora for row in corpus.rows(lambda _: None)]
    expected = [(tokenizer(s).input_ids, tokenizer(text_target=t).input_ids) for _, s, t in rows]
    kept = [index for index, sides in enumerate(expected) if max(map(len, sides)) <= 12]
    assert 0 < len(kept) < len(rows)
    sources, targets = pairs.fetch(range(len(pairs)))
    assert [ids.tolist() for ids in sources] == [expected[index][0] for index in kept]
    assert [ids.tolist() for ids in targets] == [expected[index][1] for index in kept]
    assert {ids.dtype for ids in sources + targets} == {np.dtype(np.uint16)}
    assert pairs.counts == {"blank": 0, "too_long": len(rows) - len(kept)}
    assert pairs.origin(len(pairs) - 1) == f"{tmp_path}/b.tsv, line 7"
    assert sum(pairs.sizes) == len(pairs)
    assert pairs.sizes[1] == 7
    (folder,) = folders(cache)
    assert len(datasets.Dataset.from_file(str(folder / "pairs.arrow"))) == len(pairs)


def test_ids_of_a_large_vocabulary_are_kept_whole(tmp_path):
    words = ["<pad>", "<unk>", "<s>", "</s>", *(f"w{n}" for n in range(4, 70_000))]
    backend = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.tsv").write_text("w69999\tw65536\n")
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json")
    corpora = open_corpora(tmp_path / "a.tsv")
    for tokens in (tokenizer, join_tokenizers(tokenizer, tokenizer)):
        (source,), (target,) = prepare_pairs(
            corpora, tokens, cleaning=RULES, name="training"
        ).fetch([0])
        assert (source.tolist(), target.tolist()) == ([69_999, 3], [65_536, 3])


def test_the_second_run_tokenises_nothing(tmp_path, tokenizer, cache, caplog, monkeypatch):
    corpora = open_corpora(write_tsv(tmp_path / "a.tsv"))
    first = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
    monkeypatch.setattr(encoding, "encode_texts", None)  # would raise
    caplog.set_level(logging.INFO)
    assert first.counts["too_long"] > 0
    second = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
    assert "training: tokenised before" in caplog.text
    assert f"training: {len(first)} pairs kept; left out: 0 blank" in caplog.text
    assert np.array_equal(first.lengths, second.lengths)
    assert np.array_equal(first.digests, second.digests)
    assert second.counts == first.counts


def test_whatever_decides_the_ids_decides_the_name(tmp_path, tokenizer):
    path = write_tsv(tmp_path / "a.tsv")
    corpora = open_corpora(path)
    key = cache_key(corpora, tokenizer, cleaning=RULES)
    tokenizer("a", truncation=True, max_length=2, padding="max_length")
    assert cache_key(open_corpora(path), tokenizer, cleaning=RULES) == key
    other = train_tokenizer(["a b c d e f"] * 3, vocab_size=300)
    changed = [
        cache_key(corpora, other, cleaning=RULES),
        cache_key(corpora, join_tokenizers(tokenizer, other), cleaning=RULES),
        cache_key(corpora, tokenizer, cleaning=Cleaning(max_length=11)),
        cache_key(open_corpora(path, source_language="d"), tokenizer, cleaning=RULES),
        cache_key([*corpora, *corpora], tokenizer, cleaning=RULES),
    ]
    write_tsv(path, 51)
    changed.append(cache_key(corpora, tokenizer, cleaning=RULES))
    assert len({key, *changed}) == 7


def test_a_corpus_of_which_nothing_is_left_is_not_cached(tmp_path, tokenizer, cache):
    path = tmp_path / "a.tsv"
    path.write_text("a b\tc d\n \tc\n")
    corpora = open_corpora(path)
    with pytest.raises(ValueError, match="no pair is left to use: .* 1 blank, 1 of more than 2"):
        prepare_pairs(corpora, tokenizer, cleaning=Cleaning(max_length=2), name="training")
    assert not folders(cache)


def test_a_kill_while_writing_leaves_nothing_that_is_taken_for_whole(
    tmp_path, tokenizer, cache, monkeypatch
):
    corpora = open_corpora(write_tsv(tmp_path / "a.tsv"))
    monkeypatch.setattr(encoding, "BLOCK_PAIRS", 10)

    def die_half_way():
        def tell(progress, pairs):
            progress.told = getattr(progress, "told", 0) + pairs
            if progress.told >= 30:
                os.kill(os.getpid(), signal.SIGKILL)

        token_cache.TokenisingProgress.tell = tell
        prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")

    process = FORK.Process(target=die_half_way)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    (unfinished,) = folders(cache)
    assert unfinished.name.startswith(".")
    pairs = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
    assert len(pairs) == len(
        prepare_pairs(corpora, tokenizer, cleaning=RULES, name="x", cache=tmp_path)
    )
    (folder,) = folders(cache)
    assert not folder.name.startswith(".")


def test_of_two_processes_one_tokenises_and_the_other_waits(tmp_path, tokenizer):
    corpora = open_corpora(write_tsv(tmp_path / "a.tsv", 5000))
    worked, lengths = tmp_path / "worked", FORK.Queue()

    def prepare():
        real = token_cache.check_some_kept

        def report(cleaner, name):
            with worked.open("a") as file:
                file.write("once\n")
            real(cleaner, name)

        token_cache.check_some_kept = report
        pairs = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
        lengths.put(pairs.lengths.tolist())

    processes = [FORK.Process(target=prepare) for _ in range(2)]
    for process in processes:
        process.start()
    first, second = (lengths.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(60)
    assert worked.read_text() == "once\n"
    assert first == second


def test_progress_tells_rate_and_remaining_time(tmp_path, tokenizer, caplog, monkeypatch):
    monkeypatch.setattr(token_cache, "SECONDS_BETWEEN_REPORTS", 0.0)
    monkeypatch.setattr(encoding, "BLOCK_PAIRS", 20)
    caplog.set_level(logging.INFO)
    corpora = open_corpora([write_tsv(tmp_path / f"{n}.tsv", 40) for n in range(2)])
    prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
    assert "training: 80 pairs tokenised (100%)" in caplog.text
    assert "pairs/s, about 0 s left" in caplog.text


def test_info_is_readable(tmp_path, tokenizer, cache):
    prepare_pairs(
        open_corpora(write_tsv(tmp_path / "a.tsv")), tokenizer, cleaning=RULES, name="training"
    )
    info = json.loads((folders(cache)[0] / "info.json").read_text())
    assert info["places"] == [f"{tmp_path}/a.tsv, line"]


def cut_at_a_message(arrow):
    """Drop the last blocks of a stream, as a copy that was broken off may do."""
    with pa.ipc.open_stream(arrow.read_bytes()) as reader:
        first = reader.read_next_batch()
    with pa.OSFile(str(arrow), "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
        writer.write_batch(first)


def flip_a_byte(arrow):
    data = bytearray(arrow.read_bytes())
    data[len(data) // 2] ^= 1
    arrow.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("info.json", lambda info: info.write_text("{}")),
        ("info.json", lambda info: info.write_text("[]")),
        ("info.json", lambda info: info.write_text('{"places": ')),
        ("info.json", lambda info: info.write_bytes(b"\xff\x00")),
        ("info.json", lambda info: info.write_text(info.read_text().replace("line", "lime"))),
        ("info.json", os.remove),
        ("pairs.arrow", os.remove),
        ("pairs.arrow", lambda arrow: arrow.write_bytes(b"")),
        ("pairs.arrow", lambda arrow: arrow.write_bytes(bytes(arrow.stat().st_size))),
        ("pairs.arrow", lambda arrow: os.truncate(arrow, arrow.stat().st_size // 2)),
        ("pairs.arrow", flip_a_byte),
        ("pairs.arrow", cut_at_a_message),
    ],
)
def test_a_damaged_entry_is_noticed_and_tokenised_again(
    tmp_path, tokenizer, cache, caplog, monkeypatch, name, damage
):
    monkeypatch.setattr(encoding, "BLOCK_PAIRS", 20)
    corpora = open_corpora(write_tsv(tmp_path / "a.tsv"))
    written = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
    (folder,) = folders(cache)
    shutil.copy(folder / name, tmp_path / name)  # `written` goes on mapping the first one
    (tmp_path / name).replace(folder / name)
    damage(folder / name)
    with pytest.raises(ValueError, match="is damaged; remove it"):
        open_pairs(folder)
    for expected in ([f"training: {folder} is damaged and tokenised again"], []):
        caplog.clear()
        pairs = prepare_pairs(corpora, tokenizer, cleaning=RULES, name="training")
        assert [one.message for one in caplog.records if one.levelname == "WARNING"] == expected
        assert pairs.lengths.tolist() == written.lengths.tolist()
        assert pairs.counts == written.counts
        assert pairs.origin(3) == written.origin(3)
