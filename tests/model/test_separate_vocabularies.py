"""Source and target may have vocabularies of different sizes, in generation too."""

import pytest
import torch

SEPARATE = {"decoder_vocab_size": 23, "share_encoder_decoder_embeddings": False}


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generated_ids_are_of_the_target_and_their_scores_add_up(tiny_model, ragged, num_beams):
    model = tiny_model(**SEPARATE)
    ids, mask = ragged()
    assert ids.max() >= 23
    output = model.generate(
        ids,
        attention_mask=mask,
        num_beams=num_beams,
        max_new_tokens=6,
        output_scores=True,
        return_dict_in_generate=True,
    )
    assert output.sequences.max() < 23
    beam_indices = getattr(output, "beam_indices", None)
    steps = model.compute_transition_scores(output.sequences, output.scores, beam_indices)
    with torch.no_grad():
        logits = model(ids, mask, output.sequences[:, :-1]).logits
    if num_beams > 1:  # whose scores are probabilities
        logits[..., model.config.pad_token_id] = -torch.inf  # no token of the search
        logits = logits.log_softmax(-1)
    chosen = logits.gather(-1, output.sequences[:, 1:, None])[..., 0]
    is_generated = steps.ne(0)
    torch.testing.assert_close(steps, chosen * is_generated, rtol=0, atol=1e-5)
    assert is_generated.sum() > 6


def test_a_library_asking_for_a_side_gets_its_size(tiny_model):
    config = tiny_model(**SEPARATE, decoder_layers=1).config
    assert config.get_text_config(encoder=True).vocab_size == 100
    assert config.get_text_config(encoder=True).num_hidden_layers == 2
    decoder = config.get_text_config(decoder=True)
    assert (decoder.vocab_size, decoder.num_hidden_layers) == (23, 1)
    assert (config.vocab_size, config.num_hidden_layers) == (100, 2)
