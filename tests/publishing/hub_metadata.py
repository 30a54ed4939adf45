"""What the Hub checks in the metadata of a model card, as far as it is documented."""

import re

import yaml


def metadata(card):
    """Return the YAML between the first two lines of hyphens."""
    block = re.match(r"---\n(.*?)\n---", card, flags=re.DOTALL)
    return (yaml.safe_load(block[1]) if block else None) or {}


def metadata_errors(card):
    """Return what the Hub would object to in a card."""
    try:
        found = metadata(card)
    except yaml.YAMLError as error:
        return [f"YAML: {error}"]
    errors = [f'"{name}" must not be null' for name, value in found.items() if value is None]
    languages = found.get("language", [])
    for language in languages if isinstance(languages, list) else [languages]:
        if not (isinstance(language, str) and re.fullmatch("[a-z]{2,3}", language)):
            errors.append(f'"language" must only contain ISO 639 codes, not {language}')
    for name in ("tags", "datasets", "metrics"):
        if not all(isinstance(one, str) and one for one in found.get(name, [])):
            errors.append(f'"{name}" must be a list of strings')
    for model in found.get("model-index", []):
        errors += [f'"model-index" lacks {part}' for part in missing_parts(model)]
    return errors


def missing_parts(model):
    """Name what a model of a model-index lacks."""
    parts = ["name"] if not model.get("name") else []
    for result in model["results"]:
        wanted = {"task": ["type"], "dataset": ["type", "name"]}
        for part, names in wanted.items():
            parts += [f"{part}.{name}" for name in names if not result.get(part, {}).get(name)]
        for metric in result.get("metrics") or [{}]:
            parts += [f"metrics.{name}" for name in ("type", "value") if metric.get(name) is None]
    return parts
