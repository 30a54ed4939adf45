"""Figures of a training, as its report has them."""


def test_pairs_are_those_that_cleaning_kept_each_counted_once(runs, tmp_path):
    lines = (runs.files / "train.tsv").read_text().splitlines()
    corpus = tmp_path / "some.tsv"
    corpus.write_text("\n".join([*lines[:20], "\t", lines[20]]) + "\n")
    runs.run("run", train=corpus, weights=3, max_steps=1)
    report = runs.report("run")
    assert report["training"]["pairs"] == 21
    assert sum(report["left_out"].values()) == 1
