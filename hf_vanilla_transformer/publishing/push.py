"""Put a model folder on the Hub: checked, described, and all of it in one commit."""

import logging
import re
import shutil
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import quote

from huggingface_hub import HfApi
from huggingface_hub.utils import validate_repo_id

from hf_vanilla_transformer.evaluation.report import REPORT_FILE
from hf_vanilla_transformer.evaluation.report_file import read_report, read_scores
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.publishing.card import CARD, CURVE, write_card
from hf_vanilla_transformer.publishing.check import check_folder
from hf_vanilla_transformer.publishing.files import OBJECTS, stray_files
from hf_vanilla_transformer.publishing.report import refuse_other_weights
from hf_vanilla_transformer.storage.files import write_text

logger = logging.getLogger(__name__)

# Deleted from the repository where this model has no such file: an earlier one may have had more.
UPLOADED_WEIGHTS = ["*.safetensors", "*.index.json", "pytorch_model*.bin", "adapter_model.bin"]
VOCABULARIES = ["vocab.json", "vocab.txt", "merges.txt", "spiece.model", "source.spm", "target.spm"]
SETTINGS = ["adapter_config.json", "chat_template.jinja", "training_args.bin"]
REPLACED = ["*.py", *OBJECTS, *UPLOADED_WEIGHTS, *VOCABULARIES, *SETTINGS]
COMMIT_MESSAGE = "Upload model"
# What git refuses in the name of a branch (git-check-ref-format).
NO_BRANCH = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|(^|/)\.|\.lock(/|$)|[./]$|^(HEAD)?$"
)
MODEL_FOLDER = "model"  # as training names it


def publish(
    folder: str | Path,
    repo_id: str,
    *,
    reports: Sequence[str | Path] = (),
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    dry_run: bool = False,
) -> str:
    """Check a model folder, write its card, and push it to the Hub.

    Everything goes into one commit: whoever loads the model meets the old one or the new one.
    Doing it again changes what has changed. The token is that of `hf auth login` or `HF_TOKEN`.

    Args:
        folder: A saved model; its card is written into it.
        repo_id: Name on the Hub, USER/NAME or ORGANISATION/NAME; it is made if it is missing.
        reports: Files with scores for the card, or folders that `evaluate` wrote them to; the
            report that training left next to the folder is taken too.
        private: Whether the repository must be private.
        revision: Branch to push to, made if it is missing; left out: main.
        create_pr: Whether to open a pull request instead of changing main.
        dry_run: Whether to stop before anything is sent.

    Returns:
        Address of the model, or of the pull request.

    Raises:
        ValueError: The folder is not fit to be shared, a report has no scores or those of another
            model, the options contradict each other, or the Hub refuses the card's metadata.
        OSError: The Hub cannot be reached, or refuses.
    """
    folder = Path(folder)
    _check_names(repo_id, revision, create_pr=create_pr)
    files = [path / REPORT_FILE if path.is_dir() else path for path in map(Path, reports)]
    scored = {path: read_scores(path) for path in files}
    found = [*map(read_report, _report_of_training(folder)), *scored.values()]
    with tempfile.TemporaryDirectory() as place:
        # What is checked is what is pushed, whatever happens to the folder meanwhile.
        frozen = Path(place) / "model"
        _freeze(folder, frozen)
        for path, report in scored.items():
            refuse_other_weights(path, report, folder=frozen)
        _add_card(folder, frozen, reports=found, repo_id=repo_id)
        if dry_run:
            return f"{HfApi().endpoint}/{repo_id}"
        try:
            return _push(frozen, repo_id, private=private, revision=revision, create_pr=create_pr)
        except (ValueError, OSError):
            raise
        except Exception as error:  # every version of huggingface_hub has other network errors
            raise OSError(
                f"{repo_id} was not pushed ({error}); what is on the Hub is as it was, and the "
                "same command tries again"
            ) from error


def _check_names(repo_id: str, revision: str | None, *, create_pr: bool) -> None:
    """Refuse names that do not go together, before anything takes time."""
    validate_repo_id(repo_id)
    if "/" not in repo_id:
        raise ValueError(f"{repo_id} names no owner; give USER/{repo_id} or ORGANISATION/{repo_id}")
    if revision is None:
        return
    if create_pr:
        raise ValueError(f"a pull request goes to main, not to {revision}; leave one of them out")
    if NO_BRANCH.search(revision):
        raise ValueError(f"revision={revision!r} cannot be a branch of git; give a name as v1.2")


def _report_of_training(folder: Path) -> list[Path]:
    """Return the report that training wrote next to the model, if it is there."""
    report = folder.resolve().parent / REPORT_FILE
    return [report] if folder.resolve().name == MODEL_FOLDER and report.is_file() else []


def _freeze(folder: Path, copy: Path) -> None:
    """Copy a folder and check the copy; stray files, perhaps large, are refused before.

    Raises:
        ValueError: It is not fit to be shared.
    """
    problems = stray_files(folder)
    if not problems:
        shutil.copytree(folder, copy)
        logger.info("%s: checking, also in a process without this package ...", folder)
        problems = check_folder(copy)
    if problems:
        raise ValueError(f"{folder} is not fit to be shared: {'; '.join(problems)}")


def _add_card(
    folder: Path, frozen: Path, *, reports: Sequence[dict[str, object]], repo_id: str
) -> None:
    """Write the card of the copy, and put it into the folder, where its user reads and edits it."""
    if (folder / CARD).is_file():  # perhaps edited meanwhile
        shutil.copy(folder / CARD, frozen)
    card = write_card(frozen, reports=reports, repo_id=repo_id)
    if folder.is_dir():  # perhaps gone meanwhile
        write_text(folder / CARD, str(card))
        if (frozen / CURVE).is_file():
            shutil.copy(frozen / CURVE, folder)
    for name, what in (("license", "licence"), ("datasets", "corpus")):
        if not card.data.get(name):
            logger.info("no %s: `%s:` at the top of %s names one", what, name, folder / CARD)
    config = VanillaTransformerConfig.from_pretrained(frozen)
    for side in ("source", "target"):
        name, file = f"{side}_language", folder / "config.json"
        if not getattr(config, name):
            logger.info('no %s language: `"%s": "en"` in %s names one', side, name, file)
    sizes = [file.stat().st_size for file in frozen.iterdir()]
    logger.info("%s: %d files, %.1f MB", folder, len(sizes), sum(sizes) / 1e6)


def _files_of_a_model(names: Sequence[str]) -> list[str]:
    """Return those names that a model has; what lies in folders is of others."""
    top = [name for name in names if "/" not in name]
    return [name for name in top if any(fnmatch(name, pattern) for pattern in REPLACED)]


def _push(
    folder: Path, repo_id: str, *, private: bool, revision: str | None, create_pr: bool
) -> str:
    """Push a folder in one commit; return its address.

    Raises:
        ValueError: The repository must be private and is there already, for all to see.
    """
    api = HfApi()
    api.create_repo(repo_id, private=private or None, exist_ok=True)
    if private and not api.model_info(repo_id).private:
        raise ValueError(f"{repo_id} is public already; make it private on the Hub, or rename it")
    if revision:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    commit = api.upload_folder(
        repo_id=repo_id,
        folder_path=folder,
        commit_message=COMMIT_MESSAGE,
        revision=revision,
        create_pr=create_pr,
        delete_patterns=_files_of_a_model(api.list_repo_files(repo_id, revision=revision)),
    )
    address = f"{api.endpoint}/{repo_id}"
    branch = f"/tree/{quote(revision, safe='')}" if revision else ""
    return commit.pr_url or address + branch
