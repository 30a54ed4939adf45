"""Attention pictures: what they show, and that every character in them has a glyph."""

import re
import warnings
from importlib.resources import files
from types import SimpleNamespace

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.image import imread

from hf_vanilla_transformer.explain import fonts
from hf_vanilla_transformer.explain.attention_map import (
    PronounReading,
    draw_attention,
    draw_pronoun_attention,
)
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.quickstart.corpus import SHOWCASE, demo_corpus
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

READINGS = [
    PronounReading(source, target, word)
    for (source, target), word in zip(SHOWCASE, ("car", "kitten"), strict=True)
]
ENCODER_SEES, DECODER_SEES = 2, 5


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in SHOWCASE for text in pair] * 3
    return train_tokenizer(texts, vocab_size=400, isolate_han=True)


@pytest.fixture
def figures(monkeypatch):
    """Collect each figure that is saved."""
    saved, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *a, **k: (saved.append(self), save(self, *a, **k))
    )
    return saved


class OneHotAttention:
    """Stands in for a model: 它 sees one token, the word for it another, all else the last."""

    device, training = torch.device("cpu"), True

    def __init__(self, pronoun_row, word_row, layers=2, heads=3):
        self.rows, self.shape = (pronoun_row, word_row), (layers, heads)

    def eval(self):
        self.training = False

    def train(self, mode):
        self.training = mode

    def __call__(self, input_ids, attention_mask, labels, output_attentions):
        assert output_attentions
        assert not self.training
        source, target = input_ids.shape[1], labels.shape[1]
        return SimpleNamespace(
            encoder_attentions=self._weights(source, source, self.rows[0], ENCODER_SEES),
            cross_attentions=self._weights(target, source, self.rows[1], DECODER_SEES),
        )

    def _weights(self, queries, keys, row, column):
        weights = torch.zeros(1, self.shape[1], queries, keys)
        weights[..., -1] = 1
        weights[:, :, row] = torch.eye(keys)[column]
        return (weights,) * self.shape[0]


def percentages(axes):
    return [int(text.get_text()[:-1]) for text in axes.texts]


def test_every_character_of_the_demo_corpus_has_a_glyph():
    font = FT2Font(str(files("pylopdf_fonts_zh_cn") / fonts.FONT_FILE))
    corpus = demo_corpus()
    characters = set().union(*(pair.source + pair.target for pair in corpus.train + corpus.test))
    assert len(characters) > 200
    assert not {c for c in characters | set("它</s>%") if not font.get_char_index(ord(c))}


def test_pictures_are_drawn_without_a_missing_glyph(tmp_path, tokenizer):
    config = VanillaTransformerConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        d_ff=16,
        num_heads=2,
        encoder_layers=2,
        decoder_layers=1,
    )
    model = VanillaTransformerForConditionalGeneration(config)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_pronoun_attention(model, tokenizer, readings=READINGS, path=tmp_path / "它.png")
    height, width = imread(tmp_path / "它.png").shape[:2]
    assert width > 1500
    assert height > 600


def test_font_package_that_is_missing_is_named_with_its_remedy(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    fonts._register_font.cache_clear()
    monkeypatch.setattr(fonts, "files", missing)
    with pytest.raises(FileNotFoundError, match="pip install pylopdf-fonts-zh-cn"):
        fonts.text_font(10)


def test_strips_show_the_rows_of_the_pronoun_and_of_the_word_that_stands_for_it(
    tmp_path, tokenizer, figures
):
    source, target = SHOWCASE[0]
    word_row = target.split().index("because") + 2  # "because the car"
    model = OneHotAttention(pronoun_row=source.index("它"), word_row=word_row)
    draw_pronoun_attention(model, tokenizer, readings=READINGS[:1], path=tmp_path / "p.png")
    encoder, decoder = figures[0].axes
    length = len(source) + 1
    assert percentages(encoder) == [100 * (i == ENCODER_SEES) for i in range(length)]
    assert percentages(decoder) == [100 * (i == DECODER_SEES) for i in range(length)]
    for axes in (encoder, decoder):
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert labels == [*source, "</s>"]
        assert len(axes.collections) == 1 + 2 * 3  # the mean, and each head of each layer
    assert "'car'" in decoder.get_title(loc="left")
    assert model.training


def test_each_sentence_gets_its_strips_under_its_own_title(tmp_path, tokenizer, figures):
    model = OneHotAttention(0, 0)
    draw_pronoun_attention(model, tokenizer, readings=READINGS, path=tmp_path / "p.png")
    titles = [text.get_text() for text in figures[0].texts]
    assert len(figures[0].axes) == 4
    for (source, target), title in zip(SHOWCASE, titles, strict=True):
        assert source in title
        assert target in title


@pytest.mark.parametrize(
    ("reading", "named"),
    [
        (PronounReading("小猫没追上汽车", "The car was too fast.", "car"), "它"),
        (READINGS[0]._replace(word="dog"), "dog"),
        (READINGS[0]._replace(word="kit"), "kit"),
    ],
)
def test_pronoun_or_word_that_is_not_there_is_named(tmp_path, tokenizer, reading, named):
    with pytest.raises(ValueError, match=f"'{named}' is not"):
        draw_pronoun_attention(
            OneHotAttention(0, 0), tokenizer, readings=[reading], path=tmp_path / "p.png"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("heads", [None, 1, 3])
def test_map_shows_the_weights_with_tokens_freed_of_their_marker(tmp_path, figures, heads):
    shape = (2, 3) if heads is None else (heads, 2, 3)
    weights = torch.rand(shape).softmax(-1)
    draw_attention(
        weights,
        ["▁The", "▁cat"],
        ["▁我", "爱", "猫"],
        title="我爱猫",
        path=tmp_path / "map.png",
        highlight=1,
    )
    axes = figures[0].axes
    for one, expected in zip(axes, weights.view(-1, 2, 3), strict=True):
        assert torch.equal(torch.as_tensor(one.images[0].get_array()), expected)
        assert [label.get_text() for label in one.get_xticklabels()] == ["我", "爱", "猫"]
        assert [label.get_text() for label in one.get_yticklabels()] == ["The", "cat"]
        assert one.patches[0].get_bbox().bounds == (-0.5, 0.5, 3, 1)
    assert figures[0].get_suptitle() == "我爱猫"
    assert imread(tmp_path / "map.png").std() > 0.05


def test_map_refuses_tokens_that_do_not_fit_the_weights(tmp_path):
    with pytest.raises(ValueError, match=re.escape("(4, 2, 3) do not fit 3 query")):
        draw_attention(torch.ones(4, 2, 3), "abc", "ab", title="", path=tmp_path / "map.png")
