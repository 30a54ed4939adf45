"""`vanilla-transformer publish`: check a model, describe it, put it on the Hub."""

import argparse
from pathlib import Path

from hf_vanilla_transformer.commands.options import Commands
from hf_vanilla_transformer.publishing.push import publish


def add_publish(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "publish",
        help="share a model on the Hub",
        description="Check a model folder, write its card (README.md) and push all of it to the "
        "Hub in one commit; again, it pushes what has changed. Log in with `hf auth login` before.",
    )
    command.add_argument("folder", metavar="DIR", help="saved model folder, as OUTPUT/model")
    command.add_argument("repo_id", metavar="REPO_ID", help="USER/NAME or ORGANISATION/NAME")
    command.add_argument(
        "--report",
        action="append",
        metavar="F",
        help="report.json of evaluate, or its folder, for the card; may be given several times "
        "(that of the training is found beside DIR)",
    )
    command.add_argument("--private", action="store_true", help="let nobody else see it")
    command.add_argument("--revision", metavar="R", help="branch; left out: main")
    command.add_argument(
        "--create-pr", action="store_true", help="open a pull request, leave main as it is"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="check and write the card, send nothing"
    )
    command.set_defaults(run=run_publish)


def run_publish(options: argparse.Namespace) -> str:
    """Run the command; return the address to print."""
    address = publish(
        options.folder,
        options.repo_id,
        reports=options.report or (),
        private=options.private,
        revision=options.revision,
        create_pr=options.create_pr,
        dry_run=options.dry_run,
    )
    if not options.dry_run:
        return address
    card = Path(options.folder, "README.md")
    return f"nothing was sent; the card is {card}, and without --dry-run all goes to {address}"
