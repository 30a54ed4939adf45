"""What the length penalty does, and what a beam's score means.

Reported of the library: https://github.com/huggingface/transformers/issues/18971
"""

import pytest
import torch
from reversing import reverse
from transformers import GenerationConfig

BEAMS = 4
PENALTIES = (-2.0, 0.0, 1.0, 2.0)
# Setting, its value, and by what the log-probability of n tokens is divided.
DIVISORS = [
    ({"length_penalty": 0.0}, lambda n: 1.0),
    ({"length_penalty": 0.6}, lambda n: n**0.6),
    ({"length_penalty": 1.0}, lambda n: float(n)),
    ({"gnmt_alpha": 0.6}, lambda n: ((5 + n) / 6) ** 0.6),
]


def generated_length(row, eos=3):
    """Count generated tokens with EOS, without the start token."""
    ids = row.tolist()[1:]
    return ids.index(eos) + 1 if eos in ids else len([i for i in ids if i != 0])


def log_probability(model, inputs, row):
    """Sum the log-probabilities of a translation that is fed to the decoder as a whole."""
    n = generated_length(row)
    target = row[: n + 1][None]
    logits = model(**inputs, decoder_input_ids=target[:, :-1]).logits
    logits[..., model.config.pad_token_id] = -torch.inf  # no token of the search
    chosen = logits.log_softmax(-1).gather(-1, target[:, 1:, None])
    return chosen.sum().item()


@pytest.fixture
def random_model(tiny_model):
    """Return a model whose translations end early and late."""
    model = tiny_model(vocab_size=12, output_bias=True)
    torch.nn.init.zeros_(model.lm_head.bias)
    model.lm_head.bias.data[3] = 1.0
    return model


def mean_length(model, inputs, **search):
    sequences = model.generate(**inputs, **search)
    return sum(map(generated_length, sequences)) / len(sequences)


def test_a_greater_penalty_makes_no_shorter_translations(reversing_model):
    assert len(reversing_model.dev) == 50
    inputs = reversing_model.encode(reversing_model.dev)
    lengths = [
        mean_length(reversing_model.model, inputs, num_beams=BEAMS, length_penalty=p)
        for p in PENALTIES
    ]
    assert lengths == sorted(lengths)


def test_a_greater_penalty_makes_longer_translations(random_model, ragged):
    ids, mask = ragged((7, 4, 2, 9, 5, 3, 6, 8), high=12)
    inputs = {"input_ids": ids, "attention_mask": mask}
    lengths = [
        mean_length(
            random_model,
            inputs,
            num_beams=BEAMS,
            length_penalty=p,
            max_new_tokens=12,
            early_stopping="never",
        )
        for p in PENALTIES
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_a_penalty_does_nothing_without_beams(reversing_model):
    first, *others = (
        reversing_model.translate(reversing_model.dev, length_penalty=p) for p in PENALTIES
    )
    pairs = zip(first, reversing_model.dev, strict=True)
    assert sum(found == reverse(source) for found, source in pairs) > 45
    assert all(other == first for other in others)


@pytest.mark.parametrize(("setting", "divisor"), DIVISORS, ids=lambda x: str(x)[:25])
@pytest.mark.parametrize("which", ["trained", "random"])
def test_the_score_is_the_log_probability_over_the_penalty(
    which, setting, divisor, reversing_model, random_model
):
    model = reversing_model.model if which == "trained" else random_model
    sources = reversing_model.dev[:8]
    inputs = reversing_model.encode(sources)
    if which == "random":
        inputs["input_ids"] = inputs["input_ids"].clamp(max=11)
    output = model.generate(
        **inputs,
        num_beams=BEAMS,
        num_return_sequences=BEAMS,
        max_new_tokens=12,
        return_dict_in_generate=True,
        output_scores=True,
        **setting,
    )
    steps = model.compute_transition_scores(output.sequences, output.scores, output.beam_indices)
    for i, row in enumerate(output.sequences):
        alone = {name: tensor[i // BEAMS][None] for name, tensor in inputs.items()}
        total = output.sequences_scores[i].item() * divisor(generated_length(row))
        assert total == pytest.approx(steps[i].sum().item(), rel=1e-4)
        assert total == pytest.approx(log_probability(model, alone, row), rel=1e-4, abs=1e-5)
    assert len({generated_length(row) for row in output.sequences}) > 1


@pytest.mark.parametrize("setting", [{"length_penalty": 1.0}, {"gnmt_alpha": 0.6}], ids=str)
@pytest.mark.parametrize("which", ["trained", "random"])
def test_the_best_hypotheses_are_sorted_and_distinct_and_begin_with_the_best(
    which, setting, reversing_model, random_model
):
    model = reversing_model.model if which == "trained" else random_model
    inputs = reversing_model.encode(["a b c", "d e f g f", "c a"])
    search = {"num_beams": BEAMS, "max_new_tokens": 12, **setting}
    output = model.generate(
        **inputs,
        **search,
        num_return_sequences=BEAMS,
        return_dict_in_generate=True,
        output_scores=True,
    )
    best = model.generate(**inputs, **search)
    for i in range(3):
        rows = output.sequences[i * BEAMS : (i + 1) * BEAMS].tolist()
        scores = output.sequences_scores[i * BEAMS : (i + 1) * BEAMS].tolist()
        assert len({tuple(row) for row in rows}) == BEAMS
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[-1]
        assert rows[0][: best.shape[1]] == best[i].tolist()


ALPHA, EXPONENT = {"gnmt_alpha": 2.0}, {"length_penalty": -3.0}
NEUTRAL = {"length_penalty": 1.0}
# Saved in the model, given in a generation config, given in the call; and what ranks in the end.
PRECEDENCE = {
    "saved alpha": (ALPHA, None, {}, ALPHA),
    "saved exponent": (EXPONENT, None, {}, EXPONENT),
    "config over saved": (ALPHA, EXPONENT, {}, EXPONENT),
    "alpha of a config": (EXPONENT, ALPHA, {}, ALPHA),
    "config without": (ALPHA, {"num_beams": 4}, {}, ALPHA),
    "call over saved": (ALPHA, None, NEUTRAL, NEUTRAL),
    "call over config": ({}, ALPHA, EXPONENT, EXPONENT),
    "call over contradiction": (ALPHA | EXPONENT, None, ALPHA, ALPHA),
}


@pytest.mark.parametrize("name", PRECEDENCE)
def test_the_penalty_that_was_set_last_ranks(random_model, ragged, name):
    saved, config, call, expected = PRECEDENCE[name]
    sources = ragged((7, 4, 2, 9), high=12)[0]

    def scores(**settings):
        return random_model.generate(
            sources,
            min_new_tokens=4,
            max_new_tokens=9,
            num_beams=4,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        ).sequences_scores

    wanted = scores(**expected)
    for key, value in saved.items():
        setattr(random_model.generation_config, key, value)
    if config is not None:
        call = {**call, "generation_config": GenerationConfig(**config)}
    torch.testing.assert_close(scores(**call), wanted)
    assert not torch.allclose(scores(length_penalty=0.37), wanted)


@pytest.mark.parametrize("settings", [{}, {"length_penalty": 1.0}, {"gnmt_alpha": 3.0}], ids=str)
def test_settings_that_were_prepared_before_rank_as_they_did(random_model, ragged, settings):
    """Pipelines and assistants hand the settings of one preparation to the next."""
    random_model.generation_config.gnmt_alpha = 0.6
    sources = ragged((7, 4, 2, 9), high=12)[0]
    settings = {"num_beams": 4, "max_new_tokens": 9, "output_scores": True, **settings}
    settings["return_dict_in_generate"] = True
    prepared, _ = random_model._prepare_generation_config(None, **settings)
    again = random_model.generate(sources, generation_config=prepared)
    assert torch.equal(
        again.sequences_scores, random_model.generate(sources, **settings).sequences_scores
    )


def test_an_assistant_may_have_a_saved_penalty(random_model, ragged):
    random_model.generation_config.gnmt_alpha = 0.6
    source = ragged((7,), high=12)[0]
    plain, aided = (
        random_model.generate(source, max_new_tokens=9, suppress_tokens=[3], **assistant)
        for assistant in ({}, {"assistant_model": random_model})
    )
    assert plain.shape[1] > 4
    assert torch.equal(aided, plain)


def test_two_saved_penalties_are_refused_before_anything_is_written(random_model, tmp_path):
    random_model.generation_config.gnmt_alpha = 0.6
    random_model.generation_config.length_penalty = 2.0
    random_model.generation_config.num_beams = 4
    with pytest.raises(ValueError, match=r"gnmt_alpha=0\.6 and length_penalty=2\.0 both rank"):
        random_model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    random_model.generation_config.gnmt_alpha = None
    random_model.save_pretrained(tmp_path / "model")
    loaded = type(random_model).from_pretrained(tmp_path / "model")
    assert loaded.generation_config.length_penalty == 2.0
    assert loaded.generation_config.gnmt_alpha is None
