"""Named architectures with the numbers they were trained with.

Every row of table 3 of Vaswani et al. 2017, where a row lists what differs from the base model, and
two models for small corpora.
"""

from dataclasses import dataclass, field

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig

PAPER_TRAINING = {"batch_tokens": 25_000, "warmup_steps": 4000, "max_steps": 100_000}


@dataclass(frozen=True)
class Preset:
    """An architecture and its training.

    Attributes:
        architecture: Fields of `VanillaTransformerConfig` that differ from the paper's base model.
        label_smoothing: eps_ls of §5.4.
        training: Options of the training loop, which end it too (§5).
        source: Where the row stands in the literature.
    """

    architecture: dict[str, object] = field(default_factory=dict)
    label_smoothing: float = 0.1
    training: dict[str, object] = field(default_factory=lambda: dict(PAPER_TRAINING))
    source: str = "Vaswani et al. 2017, table 3"

    def config(self, **overrides: object) -> VanillaTransformerConfig:
        """Build the configuration; `overrides` (vocabulary, languages...) win over the preset."""
        fields = {"label_smoothing": self.label_smoothing, **self.architecture, **overrides}
        return VanillaTransformerConfig(**fields)


def _row(**architecture: object) -> Preset:
    return Preset(architecture=architecture)


PRESETS: dict[str, Preset] = {
    "base": _row(),
    "A-heads-1": _row(num_heads=1, d_k=512, d_v=512),
    "A-heads-4": _row(num_heads=4, d_k=128, d_v=128),
    "A-heads-16": _row(num_heads=16, d_k=32, d_v=32),
    "A-heads-32": _row(num_heads=32, d_k=16, d_v=16),
    "B-dk-16": _row(d_k=16),
    "B-dk-32": _row(d_k=32),
    "C-layers-2": _row(encoder_layers=2, decoder_layers=2),
    "C-layers-4": _row(encoder_layers=4, decoder_layers=4),
    "C-layers-8": _row(encoder_layers=8, decoder_layers=8),
    "C-d_model-256": _row(d_model=256, d_k=32, d_v=32),
    "C-d_model-1024": _row(d_model=1024, d_k=128, d_v=128),
    "C-d_ff-1024": _row(d_ff=1024),
    "C-d_ff-4096": _row(d_ff=4096),
    "D-dropout-0.0": _row(dropout=0.0),
    "D-dropout-0.2": _row(dropout=0.2),
    "D-smoothing-0.0": Preset(label_smoothing=0.0),
    "D-smoothing-0.2": Preset(label_smoothing=0.2),
    "E-learned-positions": _row(position_type="learned"),
    "big": Preset(
        architecture={"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
        training=PAPER_TRAINING | {"max_steps": 300_000},
    ),
    "tiny": Preset(
        architecture={
            "vocab_size": 10_000,
            "d_model": 128,
            "d_ff": 256,
            "num_heads": 4,
            "encoder_layers": 4,
            "decoder_layers": 4,
            "dropout": 0.2,
            "norm_position": "pre",
        },
        training={
            "batch_tokens": 2048,
            "learning_rate": 3e-3,
            "warmup_steps": 800,
            "schedule": "linear",
            "epochs": 100,
        },
        source="sizes: Wu et al. 2021 (Transformer-Tiny for Multi30k)",
    ),
    "small": Preset(
        architecture={
            "vocab_size": 16_000,
            "d_model": 256,
            "d_ff": 1024,
            "num_heads": 4,
            "dropout": 0.3,
            "norm_position": "pre",
        },
        training={
            "batch_tokens": 4096,
            "learning_rate": 1e-3,
            "warmup_steps": 4000,
            "schedule": "linear",
            "epochs": 50,
        },
        source="sizes: JoeyNMT (Kreutzer et al. 2019) for the 160,000 pairs of IWSLT14",
    ),
}


FINE_TUNING = {"batch_tokens": 4096, "warmup_steps": 100, "learning_rate": 2e-4, "epochs": 3}
