"""Launcher for `accelerate launch scripts/train.py ...`; options as `vanilla-transformer train`."""

import sys

from hf_vanilla_transformer.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
