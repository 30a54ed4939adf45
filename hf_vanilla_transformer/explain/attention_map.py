"""Draw attention weights: as maps of a whole sentence, or as what one pronoun looks at."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor
from transformers import BatchEncoding, PreTrainedModel
from transformers.utils import ModelOutput

from hf_vanilla_transformer.explain.fonts import text_font
from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    VanillaTransformerTokenizer,
)

WORD_START = "▁"
INK, FAINT, ACCENT = "#1b1f24", "#68717b", "#d9480f"
ENCODER_COLOURS, DECODER_COLOURS = "Blues", "Oranges"
DOTS_PER_INCH = 160

# Of a map, in inches.
MAP_CELL, MAP_MARGIN, MAPS_IN_A_ROW = 0.36, 1.1, 2
LONGEST_UPRIGHT = 4  # characters

# Of a strip, in inches.
TOKEN_WIDTH, HEAD_HEIGHT, MEAN_HEIGHT, LAYER_GAP = 0.44, 0.17, 0.5, 0.08
STRIP_LEFT, STRIP_RIGHT, STRIP_TOP, STRIP_BOTTOM, TITLE_HEIGHT = 1.0, 0.2, 0.75, 0.25, 0.6


class PronounReading(NamedTuple):
    """Name a sentence and how its pronoun was translated.

    Attributes:
        sentence: Source text with the pronoun.
        translation: Target text, as the model wrote it.
        word: Word of the translation that stands for the pronoun; its last occurrence counts.
    """

    sentence: str
    translation: str
    word: str


class _Strip(NamedTuple):
    """What one token attends to: weights [layers, h, S] over the tokens of the source."""

    weights: Tensor
    tokens: list[str]
    pronoun: int
    title: str
    colours: str


def draw_attention(
    weights: Tensor,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    title: str,
    path: str | Path,
    highlight: int | None = None,
) -> None:
    """Draw attention weights as maps: a row for each query, a column for each key.

    Args:
        weights: [h, L, S], one map for each head, or [L, S].
        query_tokens: L tokens that attend.
        key_tokens: S tokens that are attended to.
        title: Line above the picture.
        path: PNG file to write.
        highlight: Row to frame.

    Raises:
        ValueError: The numbers of tokens do not fit the weights.
    """
    queries, keys = ([_shown(token) for token in tokens] for tokens in (query_tokens, key_tokens))
    maps = _maps(weights, queries=queries, keys=keys)
    columns = min(len(maps), MAPS_IN_A_ROW)
    rows = -(-len(maps) // columns)
    figure = _figure(
        columns * (len(keys) * MAP_CELL + MAP_MARGIN),
        rows * (len(queries) * MAP_CELL + MAP_MARGIN) + TITLE_HEIGHT,
    )
    figure.set_layout_engine("constrained")
    figure.suptitle(title, fontproperties=text_font(14), color=INK)
    for number, of_head in enumerate(maps, start=1):
        axes = figure.add_subplot(rows, columns, number)
        _draw_map(axes, of_head, queries=queries, keys=keys)
        if len(maps) > 1:
            axes.set_title(f"head {number}", fontproperties=text_font(11), color=FAINT)
        if highlight is not None:
            _frame(axes, (-0.5, highlight - 0.5), size=(len(keys), 1))
    figure.savefig(path, format="png", bbox_inches="tight")


def _maps(weights: Tensor, *, queries: list[str], keys: list[str]) -> Tensor:
    """Return weights as maps [h, L, S], if their shape fits the tokens."""
    maps = weights.detach().float().cpu()
    maps = maps[None] if maps.dim() == 2 else maps  # [h, L, S]
    if tuple(maps.shape[1:]) != (len(queries), len(keys)):
        raise ValueError(
            f"weights of shape {tuple(weights.shape)} do not fit {len(queries)} query tokens and "
            f"{len(keys)} key tokens; give [heads, queries, keys] or [queries, keys]"
        )
    return maps


def _draw_map(axes: Axes, weights: Tensor, *, queries: list[str], keys: list[str]) -> None:
    """Draw weights [L, S], the tokens as labels."""
    axes.imshow(weights.numpy(), cmap=ENCODER_COLOURS, vmin=0, vmax=1)
    axes.set_yticks(range(len(queries)), queries)
    axes.set_xticks(range(len(keys)), keys)
    _tidy(axes)
    for label in axes.get_xticklabels():
        label.set_rotation(90 if len(label.get_text()) > LONGEST_UPRIGHT else 0)


def draw_pronoun_attention(
    model: PreTrainedModel,
    tokenizer: VanillaTransformerTokenizer,
    *,
    readings: Sequence[PronounReading],
    path: str | Path,
    pronoun: str = "它",
) -> None:
    """Draw, one sentence above the other, where a pronoun looks and how it is understood.

    Each sentence has two strips: the encoder's attention of the pronoun, and the decoder's when it
    writes the noun. Columns are source tokens; rows are all heads, and above them their mean.

    Args:
        model: Sequence-to-sequence model that returns its attention weights.
        tokenizer: Its tokenizer.
        readings: Sentences with their translations.
        path: PNG file to write.
        pronoun: Text of the pronoun; its first occurrence counts.

    Raises:
        ValueError: A sentence lacks the pronoun, or a translation its noun.
    """
    strips = [_read(model, tokenizer, reading=reading, pronoun=pronoun) for reading in readings]
    flat = [strip for pair in strips for strip in pair]
    width = STRIP_LEFT + TOKEN_WIDTH * max(len(strip.tokens) for strip in flat) + STRIP_RIGHT
    height = STRIP_TOP + max(_height(strip.weights) for strip in flat) + STRIP_BOTTOM + TITLE_HEIGHT
    figure = _figure(2 * width, len(readings) * height)
    for row, (reading, pair) in enumerate(zip(readings, strips, strict=True)):
        top = (len(readings) - row) * height
        figure.text(
            STRIP_LEFT / (2 * width),
            (top - TITLE_HEIGHT / 2) / (len(readings) * height),
            f"{reading.sentence}   {reading.translation}",
            fontproperties=text_font(17),
            color=INK,
            va="center",
        )
        for column, strip in enumerate(pair):
            corner = column * width + STRIP_LEFT, top - TITLE_HEIGHT - STRIP_TOP
            _draw_strip(figure, _box(strip, corner), strip=strip)
    figure.savefig(path, format="png", bbox_inches="tight")


def _box(strip: _Strip, corner: tuple[float, float]) -> tuple[float, float, float, float]:
    """Return left, bottom, width and height of a strip, given its upper left corner."""
    left, top = corner
    height = _height(strip.weights)
    return left, top - height, TOKEN_WIDTH * len(strip.tokens), height


def _read(
    model: PreTrainedModel,
    tokenizer: VanillaTransformerTokenizer,
    *,
    reading: PronounReading,
    pronoun: str,
) -> tuple[_Strip, _Strip]:
    """Run the model; return what the pronoun reads and what its translation reads."""
    source = tokenizer(reading.sentence, return_tensors="pt").to(model.device)
    labels = tokenizer(text_target=reading.translation, return_tensors="pt").input_ids
    tokens = tokenizer.convert_ids_to_tokens(source.input_ids[0])
    target = tokenizer.target.convert_ids_to_tokens(labels[0])
    here = _position(re.escape(pronoun), tokens, name=pronoun, last=False)
    there = _position(
        rf"(?<!\w){re.escape(reading.word)}(?!\w)", target, name=reading.word, last=True
    )
    output = _attentions(model, source, labels=labels)
    shown = [_shown(token) for token in tokens]
    read = f"Encoder: what {pronoun} looks at"
    wrote = f"Decoder: what it looks at when it writes {reading.word!r} for {pronoun}"
    encoder, cross = output.encoder_attentions, output.cross_attentions
    return (
        _Strip(_rows_of(encoder, here), shown, here, read, ENCODER_COLOURS),
        _Strip(_rows_of(cross, there), shown, here, wrote, DECODER_COLOURS),
    )


@torch.no_grad()
def _attentions(model: PreTrainedModel, source: BatchEncoding, *, labels: Tensor) -> ModelOutput:
    """Run the model in evaluation mode and return its output with attention weights."""
    was_training = model.training
    model.eval()
    output = model(**source, labels=labels.to(model.device), output_attentions=True)
    model.train(was_training)
    return output


def _rows_of(attentions: Sequence[Tensor], query: int) -> Tensor:
    """Pick one query from the weights of every layer, each [1, h, L, S]: [layers, h, S]."""
    return torch.stack([layer[0, :, query] for layer in attentions]).float().cpu()


def _position(pattern: str, tokens: Sequence[str], *, name: str, last: bool) -> int:
    """Return the index of the token in which the first, or last, match of `pattern` begins.

    Raises:
        ValueError: There is no match.
    """
    matches = list(re.finditer(pattern, "".join(tokens)))
    if not matches:
        raise ValueError(f"{name!r} is not among the tokens {' '.join(tokens)}; name a word of it")
    begin = matches[-1 if last else 0].start()
    ends = torch.tensor([len(token) for token in tokens]).cumsum(0)
    return int((ends <= begin).sum())


def _height(weights: Tensor) -> float:
    layers, heads = weights.shape[:2]
    return MEAN_HEIGHT + layers * (LAYER_GAP + heads * HEAD_HEIGHT)


def _draw_strip(figure: Figure, box: tuple[float, float, float, float], *, strip: _Strip) -> None:
    """Draw a strip into a box of left, bottom, width and height, in inches."""
    width, height = figure.get_size_inches()
    left, bottom, box_width, box_height = box
    axes = figure.add_axes((left / width, bottom / height, box_width / width, box_height / height))
    axes.set(xlim=(0, len(strip.tokens)), ylim=(box_height, 0))
    mean = strip.weights.mean((0, 1))
    _draw_row(axes, mean, top=0.0, height=MEAN_HEIGHT, colours=strip.colours)
    for column, share in enumerate(mean.tolist()):
        axes.text(
            column + 0.5,
            MEAN_HEIGHT / 2,
            f"{share:.0%}",
            fontproperties=text_font(9),
            color="white" if share > 0.4 else INK,
            ha="center",
            va="center",
        )
    marks = {MEAN_HEIGHT / 2: "all heads"}
    top = MEAN_HEIGHT
    for number, layer in enumerate(strip.weights, start=1):
        top += LAYER_GAP
        marks[top + len(layer) * HEAD_HEIGHT / 2] = f"layer {number}"
        for of_head in layer:
            _draw_row(axes, of_head, top=top, height=HEAD_HEIGHT, colours=strip.colours)
            top += HEAD_HEIGHT
    axes.set_yticks(list(marks), list(marks.values()))
    axes.set_xticks([column + 0.5 for column in range(len(strip.tokens))], strip.tokens)
    axes.xaxis.tick_top()
    axes.set_title(strip.title, fontproperties=text_font(12), color=FAINT, loc="left", pad=10)
    _frame(axes, (strip.pronoun, 0), size=(1, MEAN_HEIGHT))
    _tidy(axes)
    for label in axes.get_xticklabels():
        label.set_fontproperties(text_font(17))
    axes.get_xticklabels()[strip.pronoun].set_color(ACCENT)


def _draw_row(axes: Axes, weights: Tensor, *, top: float, height: float, colours: str) -> None:
    axes.pcolormesh(
        range(len(weights) + 1),
        [top, top + height],
        weights[None].numpy(),
        cmap=colours,
        norm=PowerNorm(0.7, vmin=0, vmax=1),
        edgecolor="white",
        linewidth=0.8,
    )


def _frame(axes: Axes, corner: tuple[float, float], *, size: tuple[float, float]) -> None:
    axes.add_patch(
        Rectangle(corner, *size, fill=False, edgecolor=ACCENT, linewidth=1.8, clip_on=False)
    )


def _tidy(axes: Axes) -> None:
    """Take away the box and the tick marks, and set the labels in the font for all scripts."""
    axes.tick_params(length=0, colors=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for label in axes.get_xticklabels() + axes.get_yticklabels():
        label.set_fontproperties(text_font(11))


def _figure(width: float, height: float) -> Figure:
    """Return a figure, sizes in inches, apart from pyplot: no window system, no global state."""
    return Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor="white")


def _shown(token: str) -> str:
    return token.replace(WORD_START, "") or token
