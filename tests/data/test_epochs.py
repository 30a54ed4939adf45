import logging
from collections import Counter

import numpy as np
import pytest

from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.corpus import open_corpora
from hf_vanilla_transformer.data.epochs import PassOptions, TrainingData, warn_of_overlap
from hf_vanilla_transformer.tokenization.bpe import join_tokenizers, load_tokenizer, train_tokenizer

WORDS = ["alpha", "beta", "gamma", "delta"]
RULES = Cleaning(max_length=16)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([" ".join(WORDS)] * 9, vocab_size=330)


@pytest.fixture
def corpora(tmp_path):
    paths = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    paths[0].write_text("".join(f"{WORDS[n % 4]} {n}\t{WORDS[n % 3]}\n" for n in range(40)))
    paths[1].write_text("".join(f"b {n}\t{WORDS[n % 4]}\n" if n % 2 else "\t\n" for n in range(20)))
    return open_corpora(paths)


@pytest.fixture
def prepare(corpora, tokenizer, tmp_path):
    def build(tokenizer=tokenizer, seed=1, **options):
        options = PassOptions(seed=seed, **options)
        return TrainingData.prepare(
            corpora, tokenizer, cleaning=RULES, options=options, passes=tmp_path / "passes"
        )

    return build


def origins(pairs):
    return Counter(pairs.origin(index) for index in range(len(pairs)))


def texts(pairs, tokenizer):
    return [
        tokenizer.batch_decode([ids.tolist() for ids in side], skip_special_tokens=True)
        for side in pairs.fetch(range(len(pairs)))
    ]


def test_without_weights_a_pass_has_every_pair_once(prepare):
    data = prepare()
    assert len(data.pairs) == 50
    assert set(origins(data.epoch(0)).values()) == {1}
    assert np.array_equal(data.epoch(0).lengths, data.epoch(1).lengths)


def test_weights_repeat_a_corpus_or_take_another_part_of_it_each_pass(prepare):
    data = prepare(weights=[0.25, 2.5])
    drawn = [origins(data.epoch(number)) for number in range(3)]
    for counts in drawn:
        first = {place: count for place, count in counts.items() if "a.tsv" in place}
        second = {place: count for place, count in counts.items() if "b.tsv" in place}
        assert len(first) == 10
        assert set(first.values()) == {1}
        assert sorted(second.values()) == [2] * 5 + [3] * 5
    assert drawn[0] != drawn[1] != drawn[2]
    assert origins(data.epoch(0)) == drawn[0]
    assert origins(prepare(weights=[0.25, 2.5], seed=2).epoch(0)) != drawn[0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "1 weights for 2 corpora"),
        ([1.0, 0.0], "weight 0.0 must be a positive"),
        ([1.0, -1.0], "weight -1.0 must be"),
        ([1e9, 1.0], "weight 1000000000.0 must be a positive number of at most 1000"),
        ([float("nan"), 1.0], "weight nan must be"),
        ([0.001, 0.001], "leave no pair of corpora of"),
    ],
)
def test_weights_that_cannot_be_meant_are_refused(prepare, weights, message):
    with pytest.raises(ValueError, match=message):
        prepare(weights=weights)


# Provilkov et al. 2020
def test_bpe_dropout_splits_anew_each_pass_and_changes_no_text(prepare, tokenizer):
    data = prepare(bpe_dropout=0.5, weights=[1.0, 2.0])
    plain, passes = data.pairs, [data.epoch(number) for number in range(2)]
    assert [len(pairs) for pairs in passes] == [60, 60]
    assert texts(passes[0], tokenizer) == texts(passes[1], tokenizer)
    assert texts(passes[0], tokenizer)[0][:50] == texts(plain, tokenizer)[0]
    assert passes[0].lengths[:50].sum() > plain.lengths.sum()
    assert not np.array_equal(passes[0].lengths, passes[1].lengths)
    assert passes[0].lengths.max() <= RULES.max_length
    assert [passes[0].origin(n) for n in range(50)] == [plain.origin(n) for n in range(50)]


def test_bpe_dropout_is_drawn_from_the_seed_and_the_pass(corpora, tokenizer, tmp_path):
    def drawn(folder, number, seed=1):
        options = PassOptions(seed=seed, bpe_dropout=0.5)
        data = TrainingData.prepare(
            corpora, tokenizer, cleaning=RULES, options=options, passes=tmp_path / folder
        )
        return [[ids.tolist() for ids in side] for side in data.epoch(number).fetch(range(50))]

    first = [drawn("first", number) for number in range(2)]
    assert [drawn("second", number) for number in (1, 0)] == first[::-1]
    assert first[0] != first[1]
    assert drawn("first", 0, seed=2) != first[0]


def test_bpe_dropout_leaves_no_trace_in_the_tokenizer(prepare, tokenizer):
    before = tokenizer.backend_tokenizer.to_str()
    prepare(bpe_dropout=0.5).epoch(0)
    assert tokenizer.backend_tokenizer.to_str() == before
    assert len({tuple(tokenizer(" ".join(WORDS)).input_ids) for _ in range(9)}) == 1


def test_both_of_two_vocabularies_are_split_anew(prepare, tokenizer):
    data = prepare(join_tokenizers(tokenizer, tokenizer), bpe_dropout=0.5)
    assert (data.epoch(0).lengths.sum(axis=0) > data.pairs.lengths.sum(axis=0)).all()


def test_a_pair_that_dropout_makes_too_long_keeps_its_own_ids(corpora, tokenizer, tmp_path):
    rules = Cleaning(max_length=7)  # "alpha" in letters, a number and EOS have more
    options = PassOptions(seed=1, bpe_dropout=0.9)
    data = TrainingData.prepare(
        corpora, tokenizer, cleaning=rules, options=options, passes=tmp_path / "passes"
    )
    pairs = data.epoch(0)
    assert len(pairs) == len(data.pairs)
    assert pairs.lengths.max() <= 7
    assert (pairs.lengths > data.pairs.lengths).any()
    assert texts(pairs, tokenizer) == texts(data.pairs, tokenizer)


def test_a_resumed_run_reads_the_ids_of_the_interrupted_one(prepare, tmp_path):
    first = [prepare(bpe_dropout=0.5).epoch(number) for number in range(3)]
    resumed = prepare(bpe_dropout=0.5)
    resumed.discard_before(1)
    names = sorted(path.name for path in (tmp_path / "passes").iterdir() if path.is_dir())
    assert [name.partition("-")[0] for name in names] == ["1", "2"]
    for number in (1, 2):
        for side, expected in zip(
            resumed.epoch(number).fetch(range(50)), first[number].fetch(range(50)), strict=True
        ):
            assert [ids.tolist() for ids in side] == [ids.tolist() for ids in expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z\tz\n" * 40, r"line: the corpus was changed"),
        ("alpha 0\talpha\n", "line 2 is no longer there"),
    ],
)
def test_a_corpus_that_changes_during_the_run_is_noticed(prepare, corpora, text, message):
    data = prepare(bpe_dropout=0.5)
    corpora[0].files[0].write_text(text)
    with pytest.raises(ValueError, match=rf"a\.tsv, {message}"):
        data.epoch(0)


def test_passes_of_other_pairs_are_not_taken_for_those_of_this_run(prepare, corpora, tokenizer):
    prepare(bpe_dropout=0.5).epoch(0)
    corpora[0].files[0].write_text("alpha 0\tdelta\n" * 40)
    pairs = prepare(bpe_dropout=0.5).epoch(0)
    assert texts(pairs, tokenizer)[1][:40] == ["delta"] * 40


def test_passes_of_another_tokenizer_or_probability_are_not_taken_for_those_of_this_run(
    prepare, tokenizer
):
    prepare(bpe_dropout=0.9).epoch(0)
    plain = prepare()
    assert prepare(bpe_dropout=1e-6).epoch(0).lengths.sum() == plain.pairs.lengths.sum()
    other = train_tokenizer(["delta gamma beta alpha 0123456789 b"] * 9, vocab_size=300)
    pairs = prepare(other, bpe_dropout=0.9).epoch(0)
    assert texts(pairs, other) == texts(plain.pairs, tokenizer)


@pytest.mark.parametrize("probability", [-0.1, 1.0, float("nan")])
def test_a_probability_out_of_range_is_refused(prepare, probability):
    with pytest.raises(ValueError, match=f"bpe_dropout={probability} must be at least 0 and below"):
        prepare(bpe_dropout=probability)


def test_a_tokenizer_without_merges_is_refused(prepare, tmp_path):
    from tokenizers import Tokenizer, models

    vocabulary = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "b": 4}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="bpe_dropout needs a BPE .* this is WordLevel"):
        prepare(load_tokenizer(tmp_path / "tokenizer.json"), bpe_dropout=0.1)


# https://github.com/pytorch/text/issues/349
def test_validation_pairs_that_are_trained_on_are_counted_in_a_warning(
    prepare, corpora, tokenizer, tmp_path, caplog
):
    path = tmp_path / "valid.tsv"
    path.write_text("alpha 0\talpha\nalpha 0\tnew\nb 1\tbeta\n")
    valid = TrainingData.prepare(
        open_corpora(path), tokenizer, cleaning=RULES, options=PassOptions(seed=1), passes=tmp_path
    ).pairs
    with caplog.at_level(logging.WARNING):
        assert warn_of_overlap(prepare().pairs, valid) == 2
        assert "2 of 3 validation pairs are training pairs, too" in caplog.text
        caplog.clear()
        assert warn_of_overlap(valid.select(np.array([1])), valid.select(np.array([0]))) == 0
        assert not caplog.text
