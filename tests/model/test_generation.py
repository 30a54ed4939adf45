"""Every way of decoding, its settings, and how they are kept."""

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig

from hf_vanilla_transformer import PAPER_DECODING, VanillaTransformerForConditionalGeneration
from hf_vanilla_transformer.model.cache import VanillaTransformerCache
from hf_vanilla_transformer.model.compat import CACHE_KEY

PAD, EOS = 0, 3
VARIED = {"no_repeat_ngram_size": 1, "max_new_tokens": 14}


@pytest.fixture
def model(tiny_model):
    return tiny_model(seed=5)


@pytest.fixture
def source(ragged):
    return ragged((9, 5, 2))[0]


SEARCHES = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 40, "top_p": 0.9},
    "repetition": {"repetition_penalty": 1.4},
    "beams": {"num_beams": 4},
    "paper": PAPER_DECODING,
    "beam-sampling": {"num_beams": 3, "do_sample": True},
    "several": {"num_beams": 4, "num_return_sequences": 3},
    "sampling-several": {"do_sample": True, "num_return_sequences": 3},
}


def run(model, source, seed=0, **settings):
    torch.manual_seed(seed)
    return model.generate(source, **{**VARIED, **settings})


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_is_the_same_with_every_cache(model, source, name):
    settings = SEARCHES[name]
    ours = run(model, source, **settings)
    assert ours.unique().numel() > 8
    caches = [{"use_cache": False}, {"cache_implementation": "static"}]
    caches.append({CACHE_KEY: EncoderDecoderCache(DynamicCache(), DynamicCache())})
    for cache in caches:
        assert torch.equal(run(model, source, **settings, **cache), ours), cache


def test_sampling_depends_on_the_seed_and_its_filters(model, source):
    settings = {"do_sample": True, "max_new_tokens": 10}
    first = run(model, source, seed=1, **settings)
    assert torch.equal(first, run(model, source, seed=1, **settings))
    assert not torch.equal(first, run(model, source, seed=2, **settings))
    greedy = run(model, source)
    assert torch.equal(run(model, source, do_sample=True, top_k=1), greedy)
    assert torch.equal(run(model, source, do_sample=True, temperature=1e-4), greedy)
    assert torch.equal(run(model, source, do_sample=True, top_p=1e-6), greedy)


def test_sampling_frequencies_follow_the_model(model):
    source = torch.tensor([[7, 8, 3]]).repeat(4000, 1)
    drawn = model.generate(source, do_sample=True, top_k=0, max_new_tokens=1)[:, 1]
    start = torch.tensor([[model.config.decoder_start_token_id]])
    logits = model(input_ids=source[:1], decoder_input_ids=start).logits[0, 0].detach()
    logits[PAD] = -torch.inf
    expected = logits.softmax(-1)
    observed = drawn.bincount(minlength=100) / len(drawn)
    assert (observed - expected).abs().max() < 4 * (0.25 / len(drawn)) ** 0.5


@pytest.mark.parametrize("helper", ["assistant", "prompt lookup"])
def test_assisted_decoding_gives_greedy_ids(model, tiny_model, source, helper):
    assistant = tiny_model(seed=6, encoder_layers=1, decoder_layers=1, d_model=32)
    extra = {"assistant_model": assistant}
    if helper == "prompt lookup":
        extra = {"prompt_lookup_num_tokens": 2}
    for row in range(3):
        single = source[row : row + 1]
        plain = model.generate(single, max_new_tokens=20, repetition_penalty=1.5)
        aided = model.generate(single, max_new_tokens=20, repetition_penalty=1.5, **extra)
        assert torch.equal(aided[:, :20], plain[:, :20])
    itself = model.generate(source[:1], max_new_tokens=20, assistant_model=model)
    assert torch.equal(itself, model.generate(source[:1], max_new_tokens=20))


def test_scores_rebuild_the_log_probability_of_a_beam(model, source):
    output = model.generate(
        source,
        num_beams=4,
        num_return_sequences=2,
        max_new_tokens=12,
        length_penalty=0.5,
        output_scores=True,
        return_dict_in_generate=True,
    )
    transitions = model.compute_transition_scores(
        output.sequences, output.scores, output.beam_indices, normalize_logits=False
    )
    lengths = output.beam_indices.ge(0).sum(-1)
    is_generated = torch.arange(transitions.shape[1]) < lengths[:, None]
    total = transitions.masked_fill(~is_generated, 0).sum(-1) / lengths**0.5
    torch.testing.assert_close(total, output.sequences_scores, atol=1e-4, rtol=1e-4)
    logits = model(
        input_ids=source.repeat_interleave(2, 0), decoder_input_ids=output.sequences[:, :-1]
    ).logits
    logits[..., PAD] = -torch.inf  # no token of the search
    chosen = logits.log_softmax(-1).gather(-1, output.sequences[:, 1:, None])[..., 0]
    forced = chosen.masked_fill(~is_generated, 0).sum(-1) / lengths**0.5
    torch.testing.assert_close(forced, output.sequences_scores, atol=1e-4, rtol=1e-4)


def test_attentions_of_every_step_have_their_shapes_and_sum_to_one(model, source):
    output = model.generate(
        source,
        num_beams=2,
        max_new_tokens=5,
        output_attentions=True,
        output_hidden_states=True,
        return_dict_in_generate=True,
    )
    assert output.encoder_attentions[0].shape == (3, 4, 9, 9)
    for step, (own, cross) in enumerate(
        zip(output.decoder_attentions, output.cross_attentions, strict=True)
    ):
        assert own[1].shape == (6, 4, 1, step + 1)
        assert cross[1].shape == (6, 4, 1, 9)
        torch.testing.assert_close(cross[1].sum(-1), torch.ones(6, 4, 1))
        is_padding = source.eq(PAD).repeat_interleave(2, 0)[:, None, None].expand_as(cross[1])
        assert cross[1][is_padding].eq(0).all()


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"do_sample": True}])
def test_each_sentence_has_its_own_default_limit(tiny_model, source, search):
    model = tiny_model(seed=5, output_bias=True)
    model.lm_head.bias.data[EOS] = -1e4  # never ends by itself
    ids = model.generate(source, extra_decode_length=4, no_repeat_ngram_size=1, **search)
    generated = ids[:, 1:].ne(PAD).sum(-1)
    assert generated.tolist() == [9 + 4, 5 + 4, 2 + 4]
    assert ids.ne(EOS).all()
    fixed = model.generate(source, max_new_tokens=6, no_repeat_ngram_size=1, **search)
    assert fixed[:, 1:].ne(PAD).sum(-1).tolist() == [6, 6, 6]
    assert model.generate(source, max_length=6, **search).shape[1] == 6


def test_default_limit_is_source_length_plus_fifty(tiny_model):
    model = tiny_model(seed=5, output_bias=True)
    model.lm_head.bias.data[EOS] = -1e4
    assert model.generate(torch.tensor([[7, 8, 9, 3]])).shape[1] == 1 + 4 + 50


def test_paper_decoding_survives_saving_and_loading(model, source, tmp_path):
    expected = model.generate(source, **PAPER_DECODING)
    assert not torch.equal(expected, model.generate(source, num_beams=1))
    for name, value in PAPER_DECODING.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(tmp_path / "first")
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "first")
    loaded.save_pretrained(tmp_path / "second")
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "second")
    kept = {name: getattr(loaded.generation_config, name) for name in PAPER_DECODING}
    assert kept == PAPER_DECODING
    assert torch.equal(loaded.generate(source), expected)


def test_a_generation_config_of_the_user_is_followed(model, source):
    settings = GenerationConfig(
        num_beams=3, max_new_tokens=7, decoder_start_token_id=2, pad_token_id=PAD, eos_token_id=EOS
    )
    assert torch.equal(
        model.generate(source, generation_config=settings),
        model.generate(source, num_beams=3, max_new_tokens=7),
    )
    settings = GenerationConfig(
        num_beams=4,
        gnmt_alpha=5.0,
        extra_decode_length=9,
        decoder_start_token_id=2,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )
    assert torch.equal(
        model.generate(source, generation_config=settings),
        model.generate(source, num_beams=4, gnmt_alpha=5.0, extra_decode_length=9),
    )


def test_padding_is_never_generated_before_the_end(tiny_model, source):
    model = tiny_model(seed=5, output_bias=True)
    model.lm_head.bias.data[PAD] = 1e4
    for settings in SEARCHES.values():
        for row in run(model, source, **settings).tolist():
            text = row[1 : row.index(EOS)] if EOS in row else row[1:]
            stripped = [i for i in text if i != PAD]
            assert text[: len(stripped)] == stripped
            assert stripped


def test_a_forced_prefix_is_continued(model, source):
    settings = {"no_repeat_ngram_size": 1, "suppress_tokens": [EOS]}
    free = model.generate(source, max_new_tokens=6, **settings)
    forced = model.generate(source, decoder_input_ids=free[:, :4], max_new_tokens=3, **settings)
    assert torch.equal(forced, free)
    prefix = torch.tensor([[2, 40, 41]]).expand(3, -1)
    beams = model.generate(source, decoder_input_ids=prefix, num_beams=3, max_new_tokens=4)
    assert torch.equal(beams[:, :3], prefix)


def test_a_left_padded_prefix_equals_the_bare_one(model, source):
    prefixes = torch.tensor([[2, 40, 41], [PAD, 2, 50], [PAD, PAD, 2]])
    batched = model.generate(
        source,
        decoder_input_ids=prefixes,
        decoder_attention_mask=prefixes.ne(PAD).long(),
        max_new_tokens=5,
    )
    for row in range(3):
        prefix = prefixes[row][prefixes[row].ne(PAD)][None]
        bare = source[row][source[row].ne(PAD)][None]
        single = model.generate(bare, decoder_input_ids=prefix, max_new_tokens=5)
        generated = single[0, prefix.shape[1] :]
        assert torch.equal(batched[row, 3 : 3 + len(generated)], generated)


def test_encoder_outputs_and_embeddings_stand_in_for_ids(model, source):
    mask = source.ne(PAD).long()
    expected = model.generate(source, num_beams=3, max_new_tokens=8)
    memory = model.get_encoder()(source, mask)
    before = memory.last_hidden_state.clone()
    for cache in ({}, {"cache_implementation": "static"}):
        given = model.generate(
            encoder_outputs=memory, attention_mask=mask, num_beams=3, max_new_tokens=8, **cache
        )
        assert torch.equal(given, expected)
        assert torch.equal(memory.last_hidden_state, before)
    embeddings = model.get_input_embeddings()(source)
    assert torch.equal(
        model.generate(
            inputs_embeds=embeddings, attention_mask=mask, num_beams=3, max_new_tokens=8
        ),
        expected,
    )


def test_memory_is_held_once_per_sentence_in_the_librarys_loop_too(model, source):
    model.fast = False
    output = model.generate(source, num_beams=4, max_new_tokens=5, return_dict_in_generate=True)
    cache = output[CACHE_KEY]
    assert isinstance(cache, VanillaTransformerCache)
    key, value = cache.memory(0)
    assert key.shape[0] == value.shape[0] == 3
    assert cache.get_seq_length() >= 4


def test_a_foreign_cache_is_refused(model, source):
    with pytest.raises(TypeError, match="DynamicCache"):
        model(input_ids=source, decoder_input_ids=source, past_key_values=DynamicCache())


def test_unknown_arguments_are_refused(model, source):
    with pytest.raises(TypeError, match="position_idz=3"):
        model(input_ids=source, decoder_input_ids=source, position_idz=3)
    with pytest.raises(ValueError, match="num_beans"):
        model.generate(source, num_beans=4)


def test_rows_that_only_pad_the_matrix_are_never_generated(model, source):
    with torch.no_grad():
        model.resize_token_embeddings(101, pad_to_multiple_of=64)
        model.model.shared.weight[101:] *= 50
    assert model.lm_head.out_features == len(model.model.shared.weight) == 128
    settings = {"max_new_tokens": 40, "no_repeat_ngram_size": 1}
    assert model.generate(source, **settings).max() < 101
    model.resize_token_embeddings(128)
    assert model.generate(source, **settings).max() > 100


def test_a_length_penalty_in_a_generation_config_is_followed(model, source):
    ids = {"decoder_start_token_id": 2, "pad_token_id": PAD, "eos_token_id": EOS}
    settings = {"num_beams": 4, "max_new_tokens": 12, "length_penalty": -4.0}
    expected = model.generate(source, **settings)
    model.generation_config.gnmt_alpha = 5.0
    given = GenerationConfig(**settings, **ids)
    assert torch.equal(model.generate(source, generation_config=given), expected)
    saved = model.generate(source, num_beams=4, max_new_tokens=12)
    assert not torch.equal(saved, expected)
    model.generation_config.length_penalty = -4.0
    with pytest.raises(ValueError, match=r"gnmt_alpha=5\.0 and length_penalty=-4\.0"):
        model.generate(source, num_beams=4)


def test_encoder_outputs_without_a_mask_are_masked_by_the_ids(model, source):
    memory = model.get_encoder()(source, source.ne(PAD))
    given = model.generate(source, encoder_outputs=memory, max_new_tokens=8)
    assert torch.equal(given, model.generate(source, max_new_tokens=8))


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}])
def test_a_forced_end_comes_at_each_sentences_own_limit(tiny_model, source, search):
    model = tiny_model(seed=5, output_bias=True)
    model.lm_head.bias.data[EOS] = -1e4
    settings = {"forced_eos_token_id": EOS, "extra_decode_length": 3, **search}
    batched = model.generate(source, **settings)
    for row, length in enumerate((9, 5, 2)):
        single = model.generate(source[row : row + 1, :length], **settings)[0]
        assert single[-1] == EOS
        assert torch.equal(batched[row, : len(single)], single)


@pytest.mark.parametrize("value", [None, -1, "5", True])
def test_extra_length_out_of_range_is_refused(model, source, value):
    model.generation_config.extra_decode_length = value
    with pytest.raises(ValueError, match="extra_decode_length="):
        model.generate(source)
