"""Register the model with transformers: its automatic classes, and the translation task.

Only names of transformers that this package registers are changed, and registering again changes
nothing. If a later version lacks a private name that the task needs, or changes it, importing the
package still works: one warning reports that `pipeline("translation")` is not available;
`TranslationPipeline(model=..., tokenizer=...)` still is.
"""

import functools
import logging
import re
from collections.abc import Callable
from typing import NoReturn

import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Pipeline,
    pipelines,
)

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
)
from hf_vanilla_transformer.model.pipeline_translation import TranslationPipeline
from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    VanillaTransformerTokenizer,
)

logger = logging.getLogger(__name__)


def register() -> None:
    """Register the classes of this package with the automatic classes and `pipeline`."""
    config = VanillaTransformerConfig
    AutoConfig.register(config.model_type, config, exist_ok=True)
    AutoModel.register(config, VanillaTransformerModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(
        config, VanillaTransformerForConditionalGeneration, exist_ok=True
    )
    AutoTokenizer.register(config, fast_tokenizer_class=VanillaTransformerTokenizer, exist_ok=True)
    try:
        register_translation_task(TranslationPipeline)
    except Exception as error:  # private names may change in any way; the import must not fail
        logger.warning(
            'pipeline("translation") is not available with transformers %s (%s: %s); build '
            "TranslationPipeline(model=..., tokenizer=...) instead",
            transformers.__version__, type(error).__name__, error,
        )  # fmt: skip


def register_translation_task(pipeline_class: type[Pipeline]) -> None:
    """Make `pipeline("translation")` and `pipeline("translation_xx_to_yy")` build a class.

    Every transformers version then accepts both forms, for any encoder-decoder model. Newer
    versions refuse them by name before the registry lookup (from 5.19 on), or lack the second
    (from 5.14 on at the latest): the two functions that check the name are wrapped. Other tasks are
    passed on to them. Calling this again changes nothing.

    Args:
        pipeline_class: The class that serves the task.
    """
    registry = pipelines.PIPELINE_REGISTRY
    # Not `register_pipeline`: it warns where the library has the task, and makes every model that
    # the pipeline saves demand remote code.
    registry.supported_tasks["translation"] = _TranslationTask(
        registry.supported_tasks.get("translation", {}),
        impl=pipeline_class,
        pt=(AutoModelForSeq2SeqLM,),
        type="text",
    )
    _accept_translation(pipelines, "_resolve_deprecated_task", accept=lambda resolve, task: task)
    _accept_translation(registry, "check_task", accept=lambda check, task: check("translation"))
    registry.check_task("translation_en_to_fr")  # raises KeyError if the task is not accepted


class _TranslationTask(dict):
    """Registry entry of the task; transformers looks up the default if no model is given."""

    def __missing__(self, key: str) -> NoReturn:
        if key == "default":
            raise ValueError(
                "translation has no default model: pass model=..., a folder or a Hub repository"
            )
        raise KeyError(key)


def _accept_translation(
    owner: object, name: str, *, accept: Callable[[Callable[[str], object], str], object]
) -> None:
    """Wrap a function that checks task names, if it exists and refuses translation tasks."""
    function = getattr(owner, name, None)
    try:
        if function is None or function("translation_en_to_fr"):
            return
    except KeyError:
        pass

    @functools.wraps(function)
    def wrapper(task: str) -> object:
        if re.fullmatch("translation(_[^_]+_to_[^_]+)?", task):
            return accept(function, task)
        return function(task)

    setattr(owner, name, wrapper)
