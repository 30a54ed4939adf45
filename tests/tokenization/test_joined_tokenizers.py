"""Source and target with a vocabulary each: the right one is used everywhere, in every call.

Report: https://github.com/huggingface/transformers/issues/6262 (related: #16050, #10294, #19943).
"""

import copy
import json
import os
import pickle
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from datasets import Dataset
from stock_trainer import QUIET
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    pipeline,
)

from hf_vanilla_transformer import VanillaTransformerTokenizer
from hf_vanilla_transformer.data.corpus import Pair
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.tokenization.bpe import (
    join_tokenizers,
    load_tokenizer,
    train_tokenizer,
    vocabulary_fields,
)
from hf_vanilla_transformer.translation.translate import translate

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
LATIN = "abcdefghijklmnopqrstuvwxyz0123456789"
CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЖЗИЙКЛМНОПРСТУ"
# Letters of the corpus: "a" is "е", the sixth of its alphabet.
TRANSLITERATED = dict(zip(LATIN[:10], CYRILLIC[5:15], strict=True))

WITHOUT_PACKAGE = """
import json, sys
sys.modules["hf_vanilla_transformer"] = None
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer.save_pretrained(sys.argv[2])
encoded = tokenizer("a b", text_target="а б")
texts = [tokenizer.decode(encoded["labels"]), tokenizer.decode(encoded["input_ids"])]
print(json.dumps([encoded["input_ids"], encoded["labels"], texts, len(tokenizer.target)]))
"""


def word_tokenizer(letters, folder, specials=SPECIALS):
    vocabulary = {word: number for number, word in enumerate([*specials, *letters])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir(exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sides")
    return word_tokenizer(LATIN, folder / "source"), word_tokenizer(CYRILLIC, folder / "target")


@pytest.fixture
def tokenizer(sides):
    return join_tokenizers(*sides)


def transliterate(text):
    return " ".join(TRANSLITERATED[letter] for letter in text.split())


def assert_has_both_sides(tokenizer):
    encoded = tokenizer("a b", text_target="а б")
    assert encoded["input_ids"] == [4, 5, 3]
    assert encoded["labels"] == [4, 5, 3]
    assert tokenizer("j", text_target="У").data == tokenizer("j").data | {"labels": [55, 3]}
    assert tokenizer.decode([4, 5, 3], skip_special_tokens=True) == "а б"
    source = tokenizer.decode([4, 5, 3], skip_special_tokens=True, use_source_tokenizer=True)
    assert source == "a b"
    assert (len(tokenizer), len(tokenizer.target)) == (40, 56)


def test_every_id_is_of_its_own_side_and_known_there(tokenizer):
    sources, targets = " ".join(LATIN), " ".join(CYRILLIC)
    encoded = tokenizer([sources, "a"], text_target=[targets, "У"])
    assert encoded["input_ids"] == [[*range(4, 40), 3], [4, 3]]
    assert encoded["labels"] == [[*range(4, 56), 3], [55, 3]]
    assert tokenizer(text_target=targets)["input_ids"] == encoded["labels"][0]
    assert tokenizer.encode(sources) == encoded["input_ids"][0]
    assert tokenizer.target.encode(targets) == encoded["labels"][0]
    assert tokenizer.tokenize("a У") == ["a", "<unk>"]
    assert tokenizer.target.tokenize("a У") == ["<unk>", "У"]
    assert (tokenizer.vocab_size, tokenizer.target.vocab_size) == (40, 56)
    pairs = encode_pairs([Pair("a b", "а У")], tokenizer, max_length=9, name="corpus")
    assert [ids[0].tolist() for ids in pairs.fetch([0])] == [[4, 5, 3], [4, 55, 3]]


def test_padding_and_limits_hold_for_both_sides(tokenizer):
    tokenizer.model_max_length = 4
    texts = ["a b c d e f", "a"], ["а б в г д е", "а"]
    encoded = tokenizer(
        texts[0], text_target=texts[1], padding=True, truncation=True, return_tensors="pt"
    )
    for name in ("input_ids", "labels"):
        assert encoded[name].tolist() == [[4, 5, 6, 3], [4, 3, 0, 0]]


def test_generated_ids_decode_to_the_target_and_inputs_on_request(tokenizer):
    ids = [[2, 4, 5, 3, 0], [2, 13, 3, 0, 0]]
    options = {"skip_special_tokens": True}
    assert tokenizer.batch_decode(ids, **options) == ["а б", "й"]
    assert tokenizer.batch_decode(ids, use_source_tokenizer=True, **options) == ["a b", "j"]


@pytest.mark.parametrize("broken", [{"text": ["a", 5]}, {"text_target": ["а", 5]}])
def test_the_call_after_an_error_means_the_same_sides(tokenizer, broken):
    with pytest.raises((TypeError, ValueError)):
        tokenizer(**{"text": ["a", "b"], "text_target": ["а", "б"], **broken})
    assert tokenizer.decode([4, 5]) == "а б"
    assert len(tokenizer) == 40
    assert_has_both_sides(tokenizer)


@pytest.fixture
def eager_threads():
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_threads")
def test_two_threads_on_two_sides_do_not_meet(tokenizer):
    both = threading.Barrier(2)

    def encode_sources():
        both.wait()
        return [tokenizer("a b c d", truncation=True, max_length=3) for _ in range(2000)]

    def encode_targets():
        both.wait()
        return [tokenizer(text_target="а б в г") for _ in range(2000)]

    with ThreadPoolExecutor(2) as pool:
        sources, targets = [pool.submit(work) for work in (encode_sources, encode_targets)]
        assert {tuple(row["input_ids"]) for row in sources.result()} == {(4, 5, 3)}
        assert {tuple(row["input_ids"]) for row in targets.result()} == {(4, 5, 6, 7, 3)}


def test_saved_folders_and_copies_have_both_sides(tokenizer, tmp_path):
    saved = tokenizer.save_pretrained(tmp_path)
    assert str(tmp_path / "target_tokenizer.json") in saved
    tokenizer(["a b"], text_target=["а б"], padding=True, truncation=True, max_length=2)
    tokenizer.save_pretrained(tmp_path / "again")
    for name in ("tokenizer.json", "target_tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_text() == (tmp_path / "again" / name).read_text()
    vocabulary_config = vocabulary_fields(tokenizer)
    for found in (
        AutoTokenizer.from_pretrained(tmp_path),
        VanillaTransformerTokenizer.from_pretrained(tmp_path),
        load_tokenizer(tmp_path),
        copy.deepcopy(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert_has_both_sides(found)
        assert vocabulary_fields(found) == vocabulary_config


def test_a_folder_has_both_sides_without_the_package(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "first")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, str(tmp_path / "first"), str(tmp_path / "second")],
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == [[4, 5, 3], [4, 5, 3], ["а б </s>", "а б </s>"], 56]
    assert_has_both_sides(AutoTokenizer.from_pretrained(tmp_path / "second"))


def test_a_folder_that_lost_the_targets_file_is_refused(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "target_tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"lacks target_tokenizer\.json"):
        AutoTokenizer.from_pretrained(tmp_path)


def test_one_vocabulary_needs_and_reads_no_second_file(sides, tokenizer, tmp_path):
    alone, _ = sides
    tokenizer.save_pretrained(tmp_path)
    alone.save_pretrained(tmp_path)  # the other's target_tokenizer.json is still there
    found = AutoTokenizer.from_pretrained(tmp_path)
    assert found.target is found
    tokenizer.target.save_pretrained(tmp_path / "target")
    assert AutoTokenizer.from_pretrained(tmp_path / "target").tokenize("a У") == ["<unk>", "У"]
    assert found("a", text_target="a")["labels"] == [4, 3]
    found.save_pretrained(tmp_path / "again")
    assert not (tmp_path / "again" / "target_tokenizer.json").exists()
    assert "separate" not in (tmp_path / "again" / "tokenizer_config.json").read_text()


@pytest.mark.parametrize("side", [0, 1])
def test_sides_whose_special_tokens_differ_are_refused(sides, tmp_path, side):
    other = word_tokenizer(LATIN, tmp_path, ["<unk>", "<pad>", "<s>", "</s>"])
    with pytest.raises(ValueError, match=r"pad_token is \('<pad>', .\) in the source's"):
        join_tokenizers(*(other if number == side else each for number, each in enumerate(sides)))


def test_joined_tokenizers_are_not_joined_again(sides, tokenizer):
    with pytest.raises(ValueError, match="two vocabularies cannot be joined"):
        join_tokenizers(sides[0], tokenizer)


@pytest.mark.parametrize("cleans", [True, False])
def test_spaces_are_cleaned_up_as_the_targets_tokenizer_does(sides, tmp_path, cleans):
    source, target = copy.deepcopy(sides[0]), word_tokenizer(["а", "."], tmp_path)
    source.clean_up_tokenization_spaces = not cleans
    target.clean_up_tokenization_spaces = cleans
    assert join_tokenizers(source, target).decode([4, 5]) == ("а." if cleans else "а .")


def test_joining_copies(sides):
    joined = join_tokenizers(*sides)
    joined.add_tokens(["new"])
    joined.target.add_tokens(["новый", "новая"])
    assert (len(joined), len(joined.target)) == (41, 58)
    assert [len(side) for side in sides] == [40, 56]


@pytest.mark.skipif(
    not hasattr(VanillaTransformerTokenizer, "as_target_tokenizer"), reason="transformers 4 has it"
)
@pytest.mark.filterwarnings("ignore:`as_target_tokenizer`")
def test_the_hidden_mode_of_transformers_4_is_refused(sides, tokenizer):
    with pytest.raises(ValueError, match="text_target="), tokenizer.as_target_tokenizer():
        pass
    with sides[0].as_target_tokenizer():
        assert sides[0]("a")["input_ids"] == [4, 3]


def test_trained_vocabularies_differ_even_in_size(tmp_path):
    joined = join_tokenizers(
        train_tokenizer(["a b c d a b"] * 3, vocab_size=300, max_length=9),
        train_tokenizer(["а б в г д е а б"] * 3, vocab_size=300, max_length=8),
    )
    fields = vocabulary_fields(joined)
    assert fields["vocab_size"] == len(joined) < len(joined.target) == fields["decoder_vocab_size"]
    assert joined.model_max_length == 8
    joined.save_pretrained(tmp_path)
    found = AutoTokenizer.from_pretrained(tmp_path)
    text = "а, é ▁</s>"
    ids = found(text_target=text)["input_ids"]
    assert ids.count(3) == 1
    assert found.decode(ids, skip_special_tokens=True) == text


@pytest.fixture(scope="module")
def corpus():
    draw = random.Random(0)
    lines = {" ".join(draw.choices(LATIN[:10], k=draw.randint(4, 8))) for _ in range(2000)}
    pairs = [{"source": line, "target": transliterate(line)} for line in sorted(lines)]
    draw.shuffle(pairs)
    return pairs


def test_training_evaluation_and_pipeline_use_the_right_side(tiny_model, sides, corpus, tmp_path):
    tokenizer = join_tokenizers(*sides)
    train, test = Dataset.from_list(corpus[50:]), corpus[:50]
    model = tiny_model(**vocabulary_fields(tokenizer))
    run = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path / "run"),
            **QUIET,
            max_steps=150,
            per_device_train_batch_size=48,
            learning_rate=4e-3,
            warmup_steps=30,
        ),
        train_dataset=train.map(
            lambda row: tokenizer(row["source"], text_target=row["target"]), batched=True
        ),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )
    run.train()
    run.save_model(str(tmp_path / "model"))
    sources, references = zip(*(pair.values() for pair in test), strict=True)
    hypotheses = translate(model, tokenizer, sources)
    assert score_translations(hypotheses, references).bleu > 90
    ids = model.generate(**tokenizer(list(sources), padding=True, return_tensors="pt"))
    wrong = tokenizer.batch_decode(ids, skip_special_tokens=True, use_source_tokenizer=True)
    assert score_translations(wrong, references).bleu < 1
    translator = pipeline("translation", model=str(tmp_path / "model"))
    assert [result["translation_text"] for result in translator(list(sources))] == hypotheses
