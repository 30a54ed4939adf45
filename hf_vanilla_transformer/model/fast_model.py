"""The fast version of a model, built at the first generation and again when weights change."""

import weakref

import torch
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks
from transformers import GenerationMixin, PreTrainedModel

from .attention import CrossAttention, SelfAttention
from .fast_dropout import FastDropout
from .fast_int8 import Int8Linear
from .fast_layers import FastDecoder, FastEncoder
from .finite import is_finite
from .layers import DecoderLayer, EncoderLayer, FeedForward
from .positions import POSITIONS
from .stacks import Decoder, Encoder, ScaledEmbedding

KNOWN_PARTS = {
    *(CrossAttention, Decoder, DecoderLayer, Encoder, EncoderLayer, FastDropout, FeedForward),
    *(Int8Linear, ScaledEmbedding, SelfAttention, *POSITIONS.values()),
    *(nn.LayerNorm, nn.Linear, nn.ModuleList),
}
KNOWN_FORWARDS = {
    "VanillaTransformerModel.forward",
    "VanillaTransformerForConditionalGeneration.forward",
}
MODELS = __name__.rpartition(".")[0] + ".modeling_vanilla_transformer"
PREPARE = GenerationMixin.prepare_inputs_for_generation
KNOWN_TYPES = {torch.float32, torch.bfloat16, torch.float16}


class FastModel:
    """Encoder and decoder on packed weights, and what tells whether these are still the model's.

    Args:
        model: The reference model, with reference modules.
        pieces: Its modules.
        tensors: Its weights.
    """

    def __init__(
        self, model: PreTrainedModel, pieces: list[nn.Module], *, tensors: list[Tensor]
    ) -> None:
        self.encoder = FastEncoder(model.get_encoder())
        self.decoder = FastDecoder(model.get_decoder(), model.get_output_embeddings())
        self._identity = _identity(tensors)
        # Elsewhere than on a CPU the live weights are used, and there is nothing to compare.
        is_copy = tensors[0].device.type == "cpu"
        packed = [
            tensor for piece in pieces if type(piece) is nn.Linear for tensor in _weights(piece)
        ]
        self._places = [_some_of(tensor) for tensor in packed]
        self._samples = torch.cat(self._places) if is_copy and packed else None

    def is_current(self, tensors: list[Tensor]) -> bool:
        """Tell whether the model's weights are still those that were packed."""
        if self._identity != _identity(tensors):
            return False
        return self._samples is None or torch.equal(torch.cat(self._places), self._samples)


_made: "weakref.WeakKeyDictionary[PreTrainedModel, FastModel]" = weakref.WeakKeyDictionary()


def fast_model(model: PreTrainedModel) -> FastModel | None:
    """Return the fast version of a model in its current state, or None if it has none.

    A fast version exists for inference, in float32, half precision or int8, if the model has its
    original modules, without hooks, adapters or compiled modules, and finite weights.
    """
    if not model.fast or model.training or torch.is_grad_enabled():
        return None
    pieces = _pieces(model)
    tensors = [tensor for piece in pieces for tensor in _weights(piece)]
    if not _is_plain(model, pieces, tensors=tensors):
        return None
    twin = _made.get(model)
    if twin is None or not twin.is_current(tensors):
        if not all(map(is_finite, tensors)):  # the ReLU of oneDNN would make 0 of NaN
            return None
        twin = _made[model] = FastModel(model, pieces, tensors=tensors)
    return twin


def _pieces(model: PreTrainedModel) -> list[nn.Module]:
    """Return every module of encoder, decoder and projection."""
    left = [model.get_encoder(), model.get_decoder(), model.get_output_embeddings()]
    pieces = []
    while left:
        pieces.append(left.pop())
        left += [piece for piece in pieces[-1]._modules.values() if piece is not None]
    return pieces


def _weights(piece: nn.Module) -> list[Tensor]:
    own = [parameter for parameter in piece._parameters.values() if parameter is not None]
    return [*own, piece.weight] if type(piece) is Int8Linear else own


def _is_plain(model: PreTrainedModel, pieces: list[nn.Module], *, tensors: list[Tensor]) -> bool:
    if torch.compiler.is_compiling() or any(map(_is_foreign, (model, model.base_model))):
        return False
    if any(type(piece) not in KNOWN_PARTS or _is_wrapped(piece) for piece in pieces):
        return False
    if global_hooks._global_forward_hooks or global_hooks._global_forward_pre_hooks:
        return False
    if any(
        type(tensor) not in (nn.Parameter, Tensor) for tensor in tensors
    ):  # quantised by torchao
        return False
    kinds = {(tensor.device, tensor.dtype) for tensor in tensors if tensor.dtype is not torch.int8}
    if len(kinds) > 1 or torch.is_autocast_enabled(tensors[0].device.type):
        return False
    return kinds.pop()[1] in KNOWN_TYPES


def _is_foreign(model: PreTrainedModel) -> bool:
    """Tell whether a model is of another class than those of this package, or does other things."""
    kind = type(model)
    is_ours = kind.forward.__qualname__ in KNOWN_FORWARDS and kind.forward.__module__ == MODELS
    prepares = getattr(kind, "prepare_inputs_for_generation", PREPARE)
    is_changed = prepares is not PREPARE or "prepare_inputs_for_generation" in model.__dict__
    return not is_ours or is_changed or _is_wrapped(model)


def _is_wrapped(part: nn.Module) -> bool:
    is_replaced = "forward" in part.__dict__ or part._compiled_call_impl is not None
    return bool(is_replaced or part._forward_hooks or part._forward_pre_hooks)


def _identity(tensors: list[Tensor]) -> list[tuple[int, int, int | None]]:
    # Tensors of inference mode do not count their changes.
    return [
        (id(tensor), tensor.data_ptr(), None if tensor.is_inference() else tensor._version)
        for tensor in tensors
    ]


def _some_of(tensor: Tensor) -> Tensor:
    """Return a view of a tensor by which a change is noticed that PyTorch does not count."""
    tensor = tensor.detach()
    return tensor if tensor.dim() == 1 else tensor[:, 0]
