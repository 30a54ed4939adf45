"""Encoded pairs whose target repeats the source, and one-process runs on them."""

import torch
from accelerate import Accelerator

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training.hooks import Hook
from hf_vanilla_transformer.training.loop import Loop
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.validation import Validator

EOS = 3


def copying_pairs(count=24, seed=0):
    """Pairs of 2 to 9 tokens."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        length = int(torch.randint(1, 9, (1,), generator=generator))
        rows.append(torch.randint(4, 14, (length,), generator=generator).tolist() + [EOS])
    return EncodedPairs.from_ids(rows, rows)


def numbers(**given):
    defaults = {"batch_tokens": 40, "max_steps": 3, "warmup_steps": 2, "learning_rate": 1e-2}
    return LoopArguments(**defaults | {"valid_beams": 0} | given)


def run(model, arguments, pairs=None, *, save=lambda snapshot: None, hooks=()):
    pairs = pairs or copying_pairs()
    accelerator = Accelerator(cpu=True)
    loop = Loop(model, arguments, accelerator=accelerator, hooks=hooks)
    return loop.run(lambda epoch: pairs, validate=Validator(pairs, None, accelerator), save=save)


class OnStep(Hook):
    """Calls a function with the figures of each step."""

    def __init__(self, function):
        self.on_step = function
