"""The card of a model that goes to the Hub by the library's own `push_to_hub`."""

import functools
from pathlib import Path

from huggingface_hub import ModelCard, ModelCardData
from transformers import PretrainedConfig
from transformers.utils import CONFIG_NAME, PushToHubMixin

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig

CARD = "README.md"
# What the library writes at the top of its template.
DESCRIPTION = (
    "This is the model card of a 🤗 transformers model that has been pushed on the Hub. "
    "This model card has been automatically generated."
)


def push_with_card(kind: type[PushToHubMixin]) -> None:
    """Have a class push this package's card where the library would push its empty template.

    A card that somebody wrote is pushed as it is. The class is ours; should a later version of the
    library push by another method, its template goes out as before.
    """
    upload = getattr(kind, "_upload_modified_files", None)
    if upload is None:
        return

    @functools.wraps(upload)
    def upload_with_card(
        self: PushToHubMixin, folder: str | Path, repo_id: str, *args: object, **kwargs: object
    ) -> object:
        _fill_in_card(Path(folder), repo_id)
        return upload(self, folder, repo_id, *args, **kwargs)

    kind._upload_modified_files = upload_with_card


def is_librarys_template(card: ModelCard) -> bool:
    """Tell whether a card is the library's template, in which nobody has written."""
    template = ModelCard.from_template(ModelCardData(), model_description=DESCRIPTION)
    return card.text.strip() == template.text.strip()


def _fill_in_card(folder: Path, repo_id: str) -> None:
    """Write our card over the library's template, if the folder holds a model of ours."""
    from hf_vanilla_transformer.publishing.card import write_card  # it imports matplotlib

    if not (folder / CONFIG_NAME).is_file():  # an adapter alone
        return
    settings, _ = PretrainedConfig.get_config_dict(folder)
    is_ours = settings.get("model_type") == VanillaTransformerConfig.model_type
    if is_ours and is_librarys_template(ModelCard.load(folder / CARD)):
        write_card(folder, repo_id=repo_id)
