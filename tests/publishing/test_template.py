"""The template of a card is whole: every name in it is given a value."""

from jinja2 import Environment, StrictUndefined, meta

from hf_vanilla_transformer.publishing import card
from hf_vanilla_transformer.publishing.card import write_card
from hf_vanilla_transformer.publishing.template import TEMPLATE


def given_values(folder, monkeypatch, **options):
    """Return what `write_card` gives the template."""
    given = {}

    class Recorder(card.ModelCard):
        @classmethod
        def from_template(cls, card_data, *, template_str=None, **values):
            if template_str == TEMPLATE:
                given.update(values, card_data=card_data.to_yaml())
            return super().from_template(card_data, template_str=template_str, **values)

    monkeypatch.setattr(card, "ModelCard", Recorder)
    write_card(folder, **options)
    return given


def test_every_name_has_a_value_and_every_value_a_place(folder, monkeypatch):
    given = given_values(folder, monkeypatch, repo_id="someone/model")
    names = meta.find_undeclared_variables(Environment().parse(TEMPLATE))
    assert names == given.keys()


def test_a_card_without_any_report_renders_strictly(folder, monkeypatch):
    given = given_values(folder, monkeypatch, repo_id="someone/model")
    template = Environment(undefined=StrictUndefined).from_string(TEMPLATE)
    text = template.render(given)
    assert 'pipeline("translation", model="someone/model"' in text
    assert "## Training" not in text
    assert "## Evaluation" not in text
    assert "{{" not in text
    assert "{%" not in text
