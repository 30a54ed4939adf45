"""A parser for commands with hyphens in options, options in files, and errors in one line."""

import argparse
import difflib
import re
import sys
from collections.abc import Sequence

from transformers import HfArgumentParser

from hf_vanilla_transformer.commands.terminal import in_one_line
from hf_vanilla_transformer.training.arguments import FIELDS
from hf_vanilla_transformer.training.config_file import read_option_file

CONFIG = "--config"


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show a default only where there is one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


class CommandParser(HfArgumentParser):
    """A parser with hyphens in options, flags without a value, and errors in one line.

    Options are spelt out, and a list is given once: the words of a second one would replace it.
    With an option `--config`, the options of that file precede the typed ones.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.spellings: list[str] = []
        self.words: list[str] = []
        self._once: list[str] = []
        super().__init__(*args, formatter_class=_HelpFormatter, allow_abbrev=False, **kwargs)

    def add_argument(self, *names: str, **kwargs: object) -> argparse.Action:
        """Add an option without the spellings that have underscores; an alias is its only name."""
        if names[0].startswith("--"):
            kwargs.setdefault("dest", names[0].removeprefix("--").replace("-", "_"))
            names = names[-1:] if "_" in names[0] else names
        if kwargs.get("const") is True:  # what HfArgumentParser makes of a bool
            kwargs = {"action": "store_true", "help": kwargs["help"], "dest": kwargs["dest"]}
        elif kwargs.get("type") in (int, float):
            kwargs["metavar"] = kwargs.get("metavar") or "N"
        self.spellings += names
        if CONFIG in names or (kwargs.get("nargs") in ("+", "*") and "action" not in kwargs):
            self._once += names
        return super().add_argument(*names, **kwargs)

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; report unknown options under the name of the sub-command."""
        self.words = list(sys.argv[1:] if args is None else args)
        given = self._given_options()
        for name in self._once:
            if given.count(name) > 1:
                also = "" if name == CONFIG else f", with all values after it: {name} A B"
                self.error(f"{name} is given {given.count(name)} times; give it once{also}")
        options, unknown = super().parse_known_args(
            [*self._words_of_file(), *self.words], namespace
        )
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown[0])}")
        return options, unknown

    def error(self, message: str) -> None:
        """Print the error in one line, and exit with status 2."""
        if "are required" in message and (unknown := self._unknown_options()):
            hint = self._hint(unknown[0])
            message = f"unrecognized arguments: {' '.join(unknown)}{hint}; {message}"
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            choices = re.findall(r"[\w-]+", choice[2])
            if near := difflib.get_close_matches(choice[1], choices, n=1):
                message += f"; did you mean {near[0]}"
        self.exit(2, f"{in_one_line(f'{self.prog}: {message}; {self.prog} --help explains')}\n")

    def _words_of_file(self) -> list[str]:
        """Return the options in the file given by `--config`."""
        if CONFIG not in self.spellings:
            return []
        finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        finder.add_argument(CONFIG, nargs="?")
        file = finder.parse_known_args(self.words)[0].config
        if file is None:
            return []
        try:
            flags = [name for one in self._actions if one.nargs == 0 for name in one.option_strings]
            names = [name for name in self.spellings if name not in (CONFIG, "--help", "-h")]
            return read_option_file(file, names, flags=flags)
        except OSError as error:
            self.error(f"{file}: {(error.strerror or str(error)).lower()}")
        except ValueError as error:
            self.error(str(error))
        return []

    def _hint(self, option: str) -> str:
        """Return a hint at a known option that resembles an unknown one."""
        name = option.partition("=")[0]
        field = name.removeprefix("--").replace("-", "_")
        if "--architecture" in self.spellings and field in FIELDS:
            return f"; did you mean --architecture {field}=VALUE"
        near = difflib.get_close_matches(name, self.spellings, n=1, cutoff=0.75)
        return f"; did you mean {near[0]}" if near else ""

    def _unknown_options(self) -> list[str]:
        """Return the unknown options of the command line."""
        return [option for option in self._given_options() if option not in self.spellings]

    def _given_options(self) -> list[str]:
        """Return the names of the options that were typed."""
        return [word.partition("=")[0] for word in self.words if word.startswith("--")]
