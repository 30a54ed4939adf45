"""The fast twin of a model: made when it first generates, and again when its weights change."""

import weakref

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .attention import CrossAttention, SelfAttention
from .fast_dropout import FastDropout
from .fast_layers import FastDecoder, FastEncoder
from .layers import DecoderLayer, EncoderLayer, FeedForward
from .positions import LearnedPositions, SinusoidalPositions
from .quantized_linear import Int8Linear
from .stacks import Decoder, Encoder, ScaledEmbedding

KNOWN_PARTS = {
    *(CrossAttention, Decoder, DecoderLayer, Encoder, EncoderLayer, FastDropout, FeedForward),
    *(Int8Linear, LearnedPositions, ScaledEmbedding, SelfAttention, SinusoidalPositions),
    *(nn.LayerNorm, nn.Linear, nn.ModuleList),
}
KNOWN_FORWARDS = {
    "VanillaTransformerModel.forward",
    "VanillaTransformerForConditionalGeneration.forward",
}
KNOWN_TYPES = {torch.float32, torch.bfloat16, torch.float16}
SAMPLES = 16  # weights of each tensor by which a change is noticed that PyTorch does not count


class FastModel:
    """Encoder and decoder on packed weights.

    Args:
        model: The plain twin, whose parts are plain as well.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.encoder = FastEncoder(model.get_encoder())
        self.decoder = FastDecoder(model.get_decoder(), model.get_output_embeddings())


_made: "weakref.WeakKeyDictionary[PreTrainedModel, tuple[list[object], Tensor, FastModel]]" = (
    weakref.WeakKeyDictionary()
)


def fast_model(model: PreTrainedModel) -> FastModel | None:
    """Return the fast twin of a model as it is now, or None if it has none.

    It has one if it only infers, in float32, bfloat16 or int8, and consists of its own parts, with
    no hook, adapter or compiled piece among them.
    """
    if not model.fast or model.training or torch.is_grad_enabled() or not _is_plain(model):
        return None
    identity, samples = _fingerprint(model)
    made = _made.get(model)
    if made is None or made[0] != identity or not torch.equal(made[1], samples):
        made = _made[model] = identity, samples, FastModel(model)
    return made[2]


def _is_plain(model: PreTrainedModel) -> bool:
    device, dtype = model.device, model.dtype
    if torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling():
        return False
    if dtype not in KNOWN_TYPES or any(map(_is_foreign, (model, model.base_model))):
        return False
    pieces = [piece for part in _parts(model) for piece in part.modules()]
    if any(type(piece) not in KNOWN_PARTS or _is_wrapped(piece) for piece in pieces):
        return False
    return all((p.device, p.dtype) == (device, dtype) for p in model.parameters())


def _parts(model: PreTrainedModel) -> tuple[nn.Module, nn.Module, nn.Module]:
    return model.get_encoder(), model.get_decoder(), model.get_output_embeddings()


def _is_foreign(model: PreTrainedModel) -> bool:
    return type(model).forward.__qualname__ not in KNOWN_FORWARDS or _is_wrapped(model)


def _is_wrapped(part: nn.Module) -> bool:
    is_replaced = "forward" in vars(part) or part._compiled_call_impl is not None
    return bool(is_replaced or part._forward_hooks or part._forward_pre_hooks)


def _fingerprint(model: PreTrainedModel) -> tuple[list[object], Tensor]:
    """Return what tells whether weights are still the ones that a fast twin was made of."""
    tensors = [tensor for part in _parts(model) for tensor in _weights(part)]
    identity = [
        # Tensors of inference mode do not count their changes.
        (id(tensor), tensor.data_ptr(), None if tensor.is_inference() else tensor._version)
        for tensor in tensors
    ]
    if tensors[0].device.type != "cpu":  # there the live weights are used
        return identity, torch.empty(0)
    flat = [tensor.detach().reshape(-1) for tensor in tensors]
    return identity, torch.cat([row[:: len(row) // SAMPLES + 1].float() for row in flat])


def _weights(part: nn.Module) -> list[Tensor]:
    quantized = [piece.weight for piece in part.modules() if isinstance(piece, Int8Linear)]
    return [*part.parameters(), *quantized]
