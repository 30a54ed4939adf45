"""A script that the vocabulary spells in bytes is told; emoji and rare characters are not."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer, WordLevelTrainer
from transformers import PreTrainedTokenizerFast

from hf_vanilla_transformer.data.corpus import open_corpora
from hf_vanilla_transformer.tokenization.bpe import join_tokenizers, train_tokenizer
from hf_vanilla_transformer.tokenization.byte_share import warn_of_bytes, warn_of_bytes_in_pairs

ENGLISH = ["I love cats and dogs.", "We saw blue cars in town.", "The puppy is here."] * 4
RUSSIAN = ["Я люблю кошек и собак.", "Мы видели машины.", "Щенок тут."] * 4
AMHARIC = "ሰላም እንዴት ነህ"


@pytest.fixture(scope="module")
def english():
    return train_tokenizer(ENGLISH, vocab_size=360)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (AMHARIC, "90 %"),
        (RUSSIAN[0], "87 %"),  # 17 letters of two bytes, 5 space marks
        ("猫狗鱼鸟", "100 %"),
        ("I love cats 😀😀😀😀 👨\u200d👩\u200d👧 → ❤\ufe0f!", None),
        ("The puppy saw blue cars in town " * 3 + "猫 café 猫 naïve señor", None),
        ("I LOVE CATS AND DOGS. QUITE ZANY!", None),
        ("猫", None),
        ("", None),
        ("\t \ud800", None),
    ],
)
def test_text_in_a_script_of_bytes_is_told_with_its_share(english, caplog, text, share):
    warn_of_bytes(english, ["I love cats."] * (share is None) + [text])
    assert len(caplog.messages) == (share is not None)
    assert f"text to translate: {share} of the tokens are bytes" in caplog.text or share is None


def test_each_side_of_the_training_pairs_is_looked_at_with_its_vocabulary(
    english, caplog, tmp_path
):
    file = tmp_path / "pairs.tsv"
    lines = (f"{one}\t{other}\n" for one, other in zip(ENGLISH, RUSSIAN, strict=True))
    file.write_text("".join(lines), "utf-8")
    corpora = open_corpora(file)
    warn_of_bytes_in_pairs(english, corpora)
    (message,) = caplog.messages
    assert message.startswith("target of the training pairs: ")
    assert "leave out --tokenizer and --from" in message
    caplog.clear()
    russian = train_tokenizer(RUSSIAN, vocab_size=360)
    warn_of_bytes_in_pairs(join_tokenizers(english, russian), corpora)
    assert not caplog.messages


@pytest.mark.parametrize("kind", ["byte-level", "words"])
def test_vocabularies_of_other_kinds_are_understood(caplog, kind):
    if kind == "words":
        backend = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False)
    else:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel()
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(ENGLISH, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    warn_of_bytes(tokenizer, ENGLISH)
    assert not caplog.messages
    warn_of_bytes(tokenizer, RUSSIAN)
    assert len(caplog.messages) == 1
