"""Adapters of PEFT: loaded by the library itself, and prefixes that live in a cache."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
IDS = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
TARGET = torch.tensor([[2, 11, 12], [2, 13, 14]])
LABELS = torch.tensor([[11, 12, 3], [13, 3, -100]])


def seq2seq(kind, **settings):
    return kind(task_type="SEQ_2_SEQ_LM", **settings)


def test_the_library_loads_an_adapter_from_another_folder(tiny_model, tmp_path):
    base, folder = tmp_path / "base", tmp_path / "adapter"
    model = tiny_model()
    model.save_pretrained(base)
    model.name_or_path = str(base)
    settings = seq2seq(
        peft.LoraConfig, r=2, target_modules=["q_proj", "fc1"], init_lora_weights=False
    )
    adapted = peft.get_peft_model(model, settings).eval()
    adapted.save_pretrained(folder)
    expected = adapted(input_ids=IDS, decoder_input_ids=TARGET).logits
    named, bare = (AutoModelForSeq2SeqLM.from_pretrained(each).eval() for each in (folder, base))
    assert (bare(input_ids=IDS, decoder_input_ids=TARGET).logits - expected).abs().max() > 0.01
    bare.load_adapter(folder)
    for loaded in (named, bare):
        found = loaded(input_ids=IDS, decoder_input_ids=TARGET).logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.fixture
def prefixed(tiny_model):
    model = tiny_model()
    settings = seq2seq(peft.PrefixTuningConfig, num_virtual_tokens=4)
    prefixed = peft.get_peft_model(model, settings).eval()
    for parameter in prefixed.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=2.0)
    return prefixed


def test_a_prefix_is_trained_by_the_loss_of_the_labels(prefixed):
    output = prefixed(input_ids=IDS, labels=LABELS)
    given = prefixed(input_ids=IDS, decoder_input_ids=torch.tensor([[2, 11, 12], [2, 13, 0]]))
    chosen = given.logits.log_softmax(-1).gather(-1, LABELS.clamp(min=0)[..., None])[..., 0]
    expected = -chosen[LABELS.ne(-100)].mean()
    torch.testing.assert_close(output.loss, expected)
    prefixed.train()(input_ids=IDS, labels=LABELS).loss.backward()
    trained = [p for p in prefixed.parameters() if p.requires_grad]
    assert trained
    assert all(p.grad.abs().max() > 0 for p in trained)


@pytest.mark.parametrize("num_beams", [1, 3])
@torch.no_grad()
def test_a_prefix_leads_the_search(prefixed, num_beams):
    settings = {"num_beams": num_beams, "max_new_tokens": 6, "min_new_tokens": 6}
    output = prefixed.generate(
        input_ids=IDS, **settings, output_scores=True, return_dict_in_generate=True
    )
    found = output.sequences
    plain = prefixed.get_base_model().generate(IDS, **settings)
    assert not found.equal(plain)
    scores = prefixed(input_ids=IDS, decoder_input_ids=found[:, :-1]).logits
    if num_beams == 1:
        scores[..., [0, 3]] = -torch.inf
        assert scores.argmax(-1).equal(found[:, 1:])
    else:
        scores[..., 0] = -torch.inf  # padding has no share of the probability
        chosen = scores.log_softmax(-1).gather(-1, found[:, 1:, None])[..., 0]
        torch.testing.assert_close(output.sequences_scores, chosen.mean(-1), atol=1e-5, rtol=0)
