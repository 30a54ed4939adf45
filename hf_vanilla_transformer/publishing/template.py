"""The text of a model card, as a template of Jinja."""

TEMPLATE = """---
{{ card_data }}
---
# {{ plain(name) }}

This model translates {{ source }} into {{ target }}.

It is the Transformer of "Attention is all you need" (Vaswani et al. 2017): {{ architecture }},
{{ count(parameters) }} parameters.

## How to use it

With transformers 4.57.6 or newer, version 5 included, and torch; nothing else is needed:

```python
from transformers import pipeline

translator = pipeline("translation", model="{{ repo_id }}", trust_remote_code=True)
print(translator({{ example }})[0]["translation_text"])
```

`trust_remote_code=True` runs the code files of this repository: read them first. Where the package
`hf_vanilla_transformer` is installed, its own code runs instead, and the argument is left out:

```python
import hf_vanilla_transformer
from transformers import pipeline

translator = pipeline("translation", model="{{ repo_id }}")
print(translator({{ example }})[0]["translation_text"])
```

Step by step, with either:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{{ repo_id }}", trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained("{{ repo_id }}", trust_remote_code=True)
inputs = tokenizer([{{ example }}], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```

Generation settings (`generation_config.json`): {{ decoding }}.
{% if examples %}
Translations of sentences after training:

{% for one in examples %}- {{ plain(one.source) }} → {{ plain(one.translation) }}
{% endfor %}{% endif %}{% if corpora or data %}
## Data

{% if corpora %}- corpus: {{ plain(corpora | join(", ")) }}
{% endif %}{{ data }}
{% endif %}{% if training %}
## Training

{% if command %}Made{% if processes > 1 %}, on {{ count(processes) }} processes,{% endif %} by

```bash
{{ command }}
```

{% endif %}| | |
|---|---|
{% for label, figure in training %}| {{ label }} | {{ plain(figure) }} |
{% endfor %}{% if curve %}
![Validation scores by step]({{ curve }})
{% endif %}{% endif %}{% if results %}
## Evaluation

More is better for {{ more_is_better }}, less for {{ less_is_better }}.

{% for test_set, one in results %}{% set metric, more = one.metric_type, one.metric_args or {} -%}
- {{ plain(one.metric_name) }} **{{ score(metric, one.metric_value) }}**
{%- if more.confidence %} (95 % confidence: {{ score(metric, more.confidence.mean) }} ±
{#- #} {{ score(metric, more.confidence.margin) }}){% endif %} on {{ plain(test_set) }}
{%- if one.dataset_split %}, {{ plain(one.dataset_split) }}{% endif %}
{%- if more.tokens is number %}, {{ count(more.tokens) }} tokens{% endif %}
{%- if more.dtype %}, {{ plain(more.dtype) }}{% endif %}
{%- if more.signature %} ({{ code(more.signature) }}){% endif %}
{% endfor %}{% endif %}{% if tested %}
## Examples

{{ tested | length }} sentences of test sets, chosen at random, not cherry-picked:

| source | translation | reference |
|---|---|---|
{% for one in tested %}| {{ plain(one.source) }} | {{ plain(one.translation) }}
{#- #} | {{ plain(one.reference) }} |
{% endfor %}{% endif %}
## Limits

- It translates sentence by sentence and knows nothing of the sentences around. A text of more than
  {{ count(longest) }} tokens is cut there
{%- if trained_on and trained_on < longest %}, and one of more than {{ count(trained_on) }}, the
  most that a sentence of its training could have, comes out badly{% endif %}.
- It was trained on the data named here and on no other: text of another domain, style or language
  comes out badly or invented, and fluently so.
- Numbers, names and negations may come out wrong. Have a person check what matters.
- It has learned the errors and prejudices in its training data.

## Licence

{% if licence %}{{ plain(licence) }}
{%- else %}None was chosen: ask the owner of this repository before you use the model.
{%- endif %}
"""
