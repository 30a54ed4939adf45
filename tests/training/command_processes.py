"""Run `vanilla-transformer` in processes of their own that start in milliseconds.

One process imports everything once; each run is forked from it. It must never have run a model:
PyTorch's autograd does not work in a child of a process that has.
"""

import contextlib
import multiprocessing
import os
import random
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PRELOAD = "hf_vanilla_transformer.cli"
LIMIT_SECONDS = 60


@dataclass
class Started:
    """Processes of one command.

    Attributes:
        processes: One for each rank.
        logs: What each of them prints.
    """

    processes: list
    logs: list[Path]

    def wait(self, seconds=LIMIT_SECONDS):
        """Return the exit status of every process; negative for a signal."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.1, end - time.monotonic()))
        codes = [process.exitcode for process in self.processes]
        for process in self.processes:
            process.kill()
        assert None not in codes, f"still running after {seconds} s: {self.text}"
        return codes

    @property
    def text(self):
        return "\n".join(log.read_text("utf-8") for log in self.logs)


def start(arguments, log_folder, *, processes=1, before=None):
    """Start `vanilla-transformer ARGUMENTS` on some processes that train together.

    Args:
        arguments: Words of the command line.
        log_folder: Folder for what they print.
        processes: How many.
        before: A function of a test module, called in each process before the command.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    number = random.SystemRandom().randrange(10**9)
    logs = [Path(log_folder) / f"{number}-{rank}.log" for rank in range(processes)]
    port = _free_port()
    started = []
    for rank in range(processes):
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_WORLD_SIZE": processes}
        environment = {name: str(value) for name, value in (ranks | where).items()}
        process = context.Process(
            target=_run,
            args=(list(map(str, arguments)), str(logs[rank]), environment, before),
            daemon=True,
        )
        logs[rank].touch()
        process.start()
        started.append(process)
    return Started(started, logs)


def _run(arguments, log, environment, before):
    """Be one process of a command."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    if environment["WORLD_SIZE"] != "1":
        os.environ.update(environment)
    from hf_vanilla_transformer.cli import main

    if before is not None:
        before()
    status = main(arguments)
    with contextlib.suppress(ValueError, OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
