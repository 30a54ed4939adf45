"""The demo corpus: what it holds, what it holds out, and that it contradicts itself nowhere."""

import re
from collections import Counter
from functools import cache

import pytest

from hf_vanilla_transformer.data.corpus import Pair
from hf_vanilla_transformer.quickstart.corpus import SHOWCASE, demo_corpus, names_right_referent

corpus_of = cache(demo_corpus)
CORPUS = corpus_of(0)
PRONOUN = re.compile(r"The (\w+) (.+) the (\w+) because the (\w+) (was|is) (too|very) [\w ]+\.")


def bare(source):
    return source.rstrip("。？")


def words(sentence):
    return re.findall(r"\w+|[^\w\s]", sentence)


def test_it_has_the_promised_size_and_no_pair_twice():
    assert 6000 <= len(CORPUS.train) <= 12_000
    assert 300 <= len(CORPUS.test) <= 500
    assert 150 <= len(CORPUS.pronoun_test) <= 300
    assert set(CORPUS.pronoun_test) < set(CORPUS.test)
    everything = CORPUS.train + CORPUS.test
    assert len(set(everything)) == len(everything)


def test_equal_seeds_give_equal_corpora_and_others_differ():
    assert demo_corpus() == CORPUS
    assert corpus_of(1).test != CORPUS.test


def test_the_first_sentence_is_learnt_and_the_showcase_is_held_out():
    assert Pair("我爱猫", "I love cats.") in CORPUS.train
    assert Pair("我爱猫。", "I love cats.") in CORPUS.train
    fast, tired = SHOWCASE
    assert fast.target == "The kitten did not catch the car because the car was too fast."
    assert tired.target == "The kitten did not catch the car because the kitten was too tired."
    for source, target in SHOWCASE:
        for form in (source, source + "。"):
            assert Pair(form, target) in CORPUS.pronoun_test


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_source_has_one_translation_whatever_its_final_punctuation(seed):
    corpus = corpus_of(seed)
    translations = {}
    for source, target in corpus.train + corpus.test:
        assert translations.setdefault(bare(source), target) == target


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_held_out_sentence_occurs_in_training_but_each_of_its_words_does(seed):
    corpus = corpus_of(seed)
    assert not {bare(p.source) for p in corpus.train} & {bare(p.source) for p in corpus.test}
    characters = set().union(*(p.source for p in corpus.train))
    english = set().union(*(words(p.target) for p in corpus.train))
    for source, target in corpus.test:
        assert characters.issuperset(source)
        assert english.issuperset(words(target))


def test_no_word_is_too_rare_to_be_learnt():
    counts = Counter(word for pair in CORPUS.train for word in words(pair.target))
    assert 150 <= len(counts) <= 250
    assert min(counts.values()) >= 10, counts.most_common()[-5:]


def test_sentences_are_short_and_end_as_sentences_do():
    for source, target in CORPUS.train + CORPUS.test:
        assert len(source) <= 20
        assert len(words(target)) <= 20
        assert target[-1] in ".?"
        assert target[0].isupper()
        assert not source.endswith("？" if target.endswith(".") else "。")


def test_sources_come_with_and_without_final_punctuation():
    for mark in "。？":
        end = "." if mark == "。" else "?"
        sources = [p.source for p in CORPUS.train if p.target.endswith(end)]
        share = sum(source.endswith(mark) for source in sources) / len(sources)
        assert 0.3 < share < 0.8


@pytest.mark.parametrize(
    "mistake",
    [
        r"\ba [aeiou]",
        r"\ban [^aeiou]",
        r"^(He|She|Mom|Dad) (love|like|have|go|eat|drink|are|do)\b",
        r"^(I|You|We|They) (loves|likes|has|goes|eats|drinks|is|does)\b",
        r"^(Do|Are) (he|she|Mom|Dad|the|my)\b",
        r"^(Does|Is) (you|they)\b",
        r"\b(two|three|four|five|ten) (\w+ )?(cat|car|dog|box|foxe|puppie)\b",
        r"\b(foxs|boxs|buss|puppys|fishs|breads)\b",
    ],
)
def test_english_is_free_of_this_mistake(mistake):
    wrong = [p.target for p in CORPUS.train + CORPUS.test if re.search(mistake, p.target)]
    assert not wrong


def test_held_out_pronouns_mean_either_noun_in_scenes_never_seen_in_training():
    seen = {PRONOUN.fullmatch(p.target).groups()[:3] for p in CORPUS.train if "它" in p.source}
    subjects = 0
    for source, target in CORPUS.pronoun_test:
        actor, verb, thing, referent, *_ = PRONOUN.fullmatch(target).groups()
        assert "它" in source
        assert (actor, verb, thing) not in seen
        assert actor != thing
        assert referent in (actor, thing)
        subjects += referent == actor
    assert 0.3 < subjects / len(CORPUS.pronoun_test) < 0.7


def test_a_pronoun_cannot_be_understood_from_the_reason_alone():
    meanings = {}
    for pair in CORPUS.train:
        if "它" in pair.source:
            actor, _, _, referent, *_ = PRONOUN.fullmatch(pair.target).groups()
            reason = bare(pair.source).split("它")[1]
            meanings.setdefault(reason, Counter())[referent == actor] += 1
    pairs = sum(counts.total() for counts in meanings.values())
    guessed = sum(max(counts.values()) for counts in meanings.values())
    assert guessed / pairs < 0.85
    assert sum(len(counts) == 2 for counts in meanings.values()) >= 8


def test_the_right_referent_is_the_noun_of_the_reason():
    reference = "The kitten did not catch the car because the car was too fast."
    assert names_right_referent("A cat lost, BECAUSE THE Car was quick", reference)
    assert not names_right_referent(reference.replace("the car was", "the kitten was"), reference)
    assert not names_right_referent("The car because a car.", reference)
    assert not names_right_referent("", reference)
    with pytest.raises(ValueError, match="It rained"):
        names_right_referent(reference, "It rained.")
