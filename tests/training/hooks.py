"""What tests change inside the processes that they start."""

import json
import os
import resource
import signal
import sys

import torch

from hf_vanilla_transformer.training import fit, loop, tracking, updates, validation
from hf_vanilla_transformer.training.hooks import Hook


def show(**figures):
    """Print figures for the test to read."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def every_loss():
    """Print the figures of every step, as JSON, on the main process."""
    tracking.TRACK_EVERY = 1

    def log(self, values, step=None, log_kwargs=None):
        if self.is_main_process:
            show(step=step, **values)

    loop.Accelerator.log = log


def plain_descent():
    """Train by SGD, whose steps show a wrong scale of the gradients; Adam hides it."""
    every_loss()
    torch.optim.Adam = lambda parameters, lr, **_: torch.optim.SGD(parameters, lr=lr)


def die_after(step):
    """Be killed after a step, before anything of it is saved."""
    every_loss()
    _after_step(step, signal.SIGKILL)


def die_while_saving(step, instant):
    """Be killed in the middle of a save: before the state, or after the rename."""
    every_loss()
    name = {"half": "write_saved_state", "renamed": "drop_old_states"}[instant]
    original = getattr(fit, name)

    def killed(*arguments, **options):
        state = options.get("state")
        folder = arguments[0]
        if (state and state.steps == step) or (folder / f"step-{step:08d}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments, **options)

    setattr(fit, name, killed)


def full_disk(step):
    """Have no room for large files from the checkpoint of a step on."""
    save = fit.save_checkpoint

    def limited(write, root, **options):
        if options["step"] == step:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        return save(write, root, **options)

    fit.save_checkpoint = limited


def terminate_after(step):
    """Be asked to end, as a scheduler asks, after a step."""
    _after_step(step, signal.SIGTERM)


def _after_step(number, to_send):
    on_step = loop.Progress.on_step

    def sent(self, step):
        on_step(self, step)
        if step.number == number:
            os.kill(os.getpid(), to_send)

    loop.Progress.on_step = sent


def accumulate_by_accelerate():
    """Be launched with a configuration that accumulates."""
    os.environ["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = "4"


def fail_on_second_process():
    """Meet bad input on one process alone."""
    collate_part = updates.collate_part

    def corrupt(pairs, part, *, collate):
        if os.environ.get("RANK") == "1" and len(part):
            raise ValueError("line 7 is corrupt")
        return collate_part(pairs, part, collate=collate)

    updates.collate_part = corrupt


def note_translations():
    """Print how many sentences each process translates in validation."""
    generate = validation._generate

    def noted(model, sources, *, beams):
        process = os.environ.get("RANK", "0")
        show(translated=len(sources), beams=beams, process=process)
        return generate(model, sources, beams=beams)

    validation._generate = noted
    validation.VALIDATION_TOKENS = 40


def follow():
    """Print the events of every process."""
    plain = fit.Loop

    class Printing(Hook):
        def on_step(self, step):
            self.write(f"step {step.number}")

        def on_validation(self, validation):
            self.write(f"validation {validation.step}")

        def on_checkpoint(self, folder):
            self.write(f"checkpoint {folder}")

        def write(self, text):
            os.write(1, f"process {os.environ['RANK']}: {text}\n".encode())

    fit.Loop = lambda *given, hooks, **named: plain(*given, hooks=[*hooks, Printing()], **named)
