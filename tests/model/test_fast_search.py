"""Both searches on a language that uses four words, against every text that it has."""

import itertools

import pytest
import torch

from hf_vanilla_transformer.model.fast_hypotheses import BeamTrace, Finished, end_number
from hf_vanilla_transformer.model.fast_rules import SearchRules
from hf_vanilla_transformer.model.fast_search import (
    BeamSearch,
    Search,
    batch_size,
    greedy_search,
)
from hf_vanilla_transformer.model.lengths import GnmtLengthPenalty

PAD, START, END, WORDS = 0, 1, 2, 100
SPOKEN = [END, 11, 57, 99]
LIMIT, SENTENCES = 5, 3


class Language:
    """The next word depends on the sentence and on the two words before it."""

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.full((SENTENCES, WORDS, WORDS, WORDS), -1e4)
        shape = (SENTENCES, WORDS, WORDS, len(SPOKEN))
        self.table[..., SPOKEN] = torch.randn(shape, generator=generator) * 2
        self.rows = torch.arange(SENTENCES)
        self.texts = None

    def step(self, token_ids, state):
        tokens = token_ids.view(len(self.rows), -1)
        if self.texts is None:
            self.texts = torch.full((*tokens.shape, 1), START)
        self.texts = torch.cat((self.texts, tokens[..., None]), -1)
        return self.table[self.rows[:, None], self.texts[..., -2], self.texts[..., -1]].flatten(
            0, 1
        )

    def follow(self, parents):
        self.texts = self.texts.take_along_dim(parents[..., None], 1)

    def keep(self, kept):
        self.rows, self.texts = self.rows[kept], self.texts[kept]

    def log_probability(self, sentence, text):
        before, total = (START, START), 0.0
        for word in text:
            total += self.table[sentence][before].log_softmax(-1)[word].item()
            before = (before[1], word)
        return total


def search_on(language, limits=(LIMIT,) * SENTENCES, ends=(END,)):
    none = torch.empty(0, dtype=torch.long)
    rules = SearchRules(torch.tensor(limits), torch.tensor(ends), none, banned=[PAD])
    return Search(language.step, language, torch.full((SENTENCES, 1), START), rules, PAD)


def texts(limit):
    """Return every text of at most `limit` words that ends, or has exactly so many words."""
    for length in range(1, limit + 1):
        for text in itertools.product(SPOKEN, repeat=length):
            has_end = text[-1] == END
            if END not in text[:-1] and (has_end or length == limit):
                yield text


@pytest.mark.parametrize("penalty", [0.0, 1.0, GnmtLengthPenalty(0.6)])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_as_wide_as_the_language_finds_the_best_text(seed, penalty):
    language = Language(seed)
    limits = (5, 4, 3)  # of decoder tokens, start included
    found = BeamSearch(search_on(language, limits), 40, penalty, "never").run(2)
    for row, limit in enumerate(limits):
        ranked = sorted(
            (
                (language.log_probability(row, text) / len(text) ** penalty, text)
                for text in texts(limit - 1)
            ),
            reverse=True,
        )
        for place, (score, text) in enumerate(ranked[:2]):
            sequence = found.sequences[2 * row + place].tolist()
            assert tuple(sequence[1 : len(text) + 1]) == text
            assert set(sequence[len(text) + 1 :]) <= {PAD}
            assert found.scores[2 * row + place].item() == pytest.approx(score, abs=1e-4)


def every_extension(language, row, running):
    """Return all texts one word longer, with their log-probabilities, best first."""
    texts = [(*text, word) for _, text in running for word in SPOKEN]
    return sorted(((language.log_probability(row, text), text) for text in texts), reverse=True)


def plain_beam_search(language, row, ends, beams):
    """Try every word behind every text; keep the n best that go on, and what ends among n best."""
    running, ended = [(0.0, ())], []
    for length in range(1, LIMIT):
        extensions = every_extension(language, row, running)
        is_last = length == LIMIT - 1
        over = [is_last or text[-1] in ends for _, text in extensions]
        best = zip(extensions[:beams], over[:beams], strict=True)
        ended += [(score / length**2, text) for (score, text), is_over in best if is_over]
        pairs = zip(extensions, over, strict=True)
        running = [extension for extension, is_over in pairs if not is_over][:beams]
    return sorted(ended, reverse=True)[:beams]


@pytest.mark.parametrize("ends", [(END,), (END, 11), (END, 11, 57)], ids=str)
@pytest.mark.parametrize("beams", [1, 2, 3])
def test_as_many_hypotheses_go_on_whatever_ends(ends, beams):
    """Even where every end is likelier than any other word."""
    for seed in range(3):
        language = Language(seed)
        language.table[..., ends] += 12.0
        found = BeamSearch(search_on(language, ends=ends), beams, 2.0, "never").run(beams)
        for row in range(SENTENCES):
            best = plain_beam_search(language, row, ends, beams)
            for place, (score, text) in enumerate(best):
                index = beams * row + place
                sequence = found.sequences[index].tolist()[1:]
                assert found.scores[index].item() == pytest.approx(score, rel=1e-4)
                assert tuple(sequence[: len(text)]) == text


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_word_each_time(seed):
    language = Language(seed)
    found = greedy_search(search_on(language, (9, 9, 4))).sequences
    for row, limit in enumerate((9, 9, 4)):
        before, text = (START, START), [START]
        while len(text) < limit and text[-1] != END:
            logits = language.table[row][before].clone()
            logits[PAD] = -torch.inf
            text.append(logits.argmax().item())
            before = (before[1], text[-1])
        assert found[row].tolist() == text + [PAD] * (found.shape[1] - len(text))


def test_a_sentence_does_not_depend_on_its_mates():
    alone = []
    for row in range(SENTENCES):
        language = Language(1)
        language.table = language.table[[row] * SENTENCES]
        alone.append(BeamSearch(search_on(language, (8, 8, 8)), 3, 1.0, False).run(1))
    together = BeamSearch(search_on(Language(1), (8, 8, 8)), 3, 1.0, False).run(1)
    for row, single in enumerate(alone):
        torch.testing.assert_close(single.scores[0], together.scores[row])
        length = single.sequences.shape[1]
        assert torch.equal(single.sequences[0], together.sequences[row, :length])


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_a_finished_sentence_takes_nothing_more_up_while_it_stays(early_stopping):
    for seed in range(20):
        found = []
        for keeps_scores in (True, False):  # nothing is dropped, or all that is finished
            search = search_on(Language(seed), (12, 12, 12))
            search.keeps_scores = keeps_scores
            found.append(BeamSearch(search, 2, 1.0, early_stopping).run(2))
        torch.testing.assert_close(found[0].scores, found[1].scores)
        assert torch.equal(found[0].sequences, found[1].sequences)


def test_greedily_finished_sentences_stay_padded_while_they_stay():
    for seed in range(10):
        found = []
        for keeps_scores in (True, False):
            search = search_on(Language(seed), (12, 3, 12))
            search.keeps_scores = keeps_scores
            found.append(greedy_search(search).sequences)
        assert torch.equal(*found)


def test_batches_have_four_sizes_in_a_doubling():
    sizes = [batch_size(count) for count in range(1, 1025)]
    assert all(count <= size <= max(count, 1.25 * count) for count, size in enumerate(sizes, 1))
    assert sorted(set(sizes) & set(range(64, 129))) == [64, 80, 96, 112, 128]


def test_a_hypothesis_is_read_back_through_its_parents():
    steps = [[[11, 12], [0, 0]], [[21, 22], [1, 0]], [[31, 32], [1, 1]]]
    trace = BeamTrace(2, [(torch.tensor([0]), torch.tensor([step])) for step in steps])
    prompt = torch.tensor([[START]])
    ends = torch.tensor([[int(end_number(2, *torch.tensor([0, 99]))), 0]])
    ends[0, 1] = end_number(1, *torch.tensor([1, 98]))
    ids, indices = trace.read(ends, prompt, pad_token_id=PAD)
    assert ids.tolist() == [[START, 12, 21, 99], [START, 12, 98, PAD]]
    assert indices.tolist() == [[0, 1, 0], [0, 1, -1]]


def test_only_what_has_ended_and_is_better_is_held():
    finished = Finished(2, 2, device=torch.device("cpu"))
    ends = torch.arange(4).view(2, 2)
    scores = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
    finished.add(scores, torch.tensor([[True, True], [False, True]]), ends=ends)
    assert finished.scores[0].tolist() == [-1.0, -2.0]
    assert finished.is_real.tolist() == [[True, True], [True, False]]
    finished.add(scores + 1.5, torch.tensor([[False, True], [True, True]]), ends=ends + 100)
    finished.put_away(torch.arange(2))
    best, places = finished.best(2)
    assert best.tolist() == [[-0.5, -1.0], [-1.5, -2.5]]
    assert places.tolist() == [[101, 0], [102, 103]]
