"""The model computes what torch.nn's Transformer computes with the same weights."""

import math

import pytest
import torch
from torch import nn

FIELDS = {
    "attention_bias": True,
    "output_bias": True,
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
}


def copy_attention(ours, theirs):
    for kind in ("weight", "bias"):
        parts = [getattr(getattr(ours, f"{name}_proj"), kind) for name in "qkv"]
        getattr(theirs, f"in_proj_{kind}").data.copy_(torch.cat(parts))
        getattr(theirs.out_proj, kind).data.copy_(getattr(ours.out_proj, kind))


def copy_layer(ours, theirs):
    copy_attention(ours.self_attn, theirs.self_attn)
    pairs = [(ours.ffn.fc1, theirs.linear1), (ours.ffn.fc2, theirs.linear2)]
    norms = [ours.self_attn_layer_norm, ours.ffn_layer_norm]
    if hasattr(ours, "cross_attn"):
        copy_attention(ours.cross_attn, theirs.multihead_attn)
        norms.insert(1, ours.cross_attn_layer_norm)
    pairs += [(norm, getattr(theirs, f"norm{i + 1}")) for i, norm in enumerate(norms)]
    for source, target in pairs:
        target.load_state_dict(source.state_dict())


class TorchTransformer(nn.Module):
    """The same network from torch.nn's layers, with embeddings and positions by the formula."""

    def __init__(self, model):
        super().__init__()
        config = model.config
        arguments = {
            "d_model": config.d_model,
            "nhead": config.num_heads,
            "dim_feedforward": config.d_ff,
            "dropout": 0.0,
            "activation": config.activation_function,
            "batch_first": True,
            "norm_first": config.norm_position == "pre",
        }
        self.stacks = nn.ModuleList()
        for kind, ours in (("Encoder", model.model.encoder), ("Decoder", model.model.decoder)):
            layer = getattr(nn, f"Transformer{kind}Layer")(**arguments)
            norm = nn.LayerNorm(config.d_model) if arguments["norm_first"] else None
            extra = {"enable_nested_tensor": False} if kind == "Encoder" else {}
            stack = getattr(nn, f"Transformer{kind}")(layer, len(ours.layers), norm=norm, **extra)
            for own, other in zip(ours.layers, stack.layers, strict=True):
                copy_layer(own, other)
            if norm is not None:
                stack.norm.load_state_dict(ours.layer_norm.state_dict())
            self.stacks.append(stack)
        self.source, self.target = (
            nn.Embedding.from_pretrained(stack.embed_tokens.weight.detach().clone(), freeze=False)
            for stack in (model.model.encoder, model.model.decoder)
        )
        self.output = nn.Linear(config.d_model, config.vocab_size)
        self.output.load_state_dict(model.lm_head.state_dict())

    def embed(self, embedding, ids):
        d_model = embedding.embedding_dim
        table = torch.tensor(
            [
                [
                    (math.cos if i % 2 else math.sin)(pos / 10_000 ** ((i - i % 2) / d_model))
                    for i in range(d_model)
                ]
                for pos in range(ids.shape[1])
            ]
        )
        return embedding(ids) * math.sqrt(d_model) + table

    def forward(self, ids, mask, target):
        is_padding = mask.eq(0)
        encoder, decoder = self.stacks
        memory = encoder(self.embed(self.source, ids), src_key_padding_mask=is_padding)
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
        states = decoder(
            self.embed(self.target, target),
            memory,
            tgt_mask=causal,
            memory_key_padding_mask=is_padding,
        )
        return self.output(states)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_logits_loss_and_gradients_equal_torch(
    tiny_model, ragged, norm_position, activation, backend
):
    model = tiny_model(norm_position=norm_position, activation_function=activation, **FIELDS)
    model.set_attn_implementation(backend)
    oracle = TorchTransformer(model)
    ids, mask = ragged((9, 5, 3))
    labels, label_mask = ragged((6, 4, 8), seed=2)
    labels = labels.masked_fill(label_mask.eq(0), -100)
    target = model.prepare_decoder_input_ids_from_labels(labels)

    output = model(input_ids=ids, attention_mask=mask, decoder_input_ids=target, labels=labels)
    logits = oracle(ids, mask, target)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert logits.std() > 0.5  # decisive enough that a difference would show
    torch.testing.assert_close(output.logits, logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.loss, loss, atol=1e-6, rtol=0)

    output.loss.backward()
    loss.backward()
    pairs = {
        "source": (model.model.encoder.embed_tokens.weight, oracle.source.weight),
        "target": (model.model.decoder.embed_tokens.weight, oracle.target.weight),
        "output": (model.lm_head.weight, oracle.output.weight),
    }
    for ours, theirs in zip((model.model.encoder, model.model.decoder), oracle.stacks, strict=True):
        for i, (own, other) in enumerate(zip(ours.layers, theirs.layers, strict=True)):
            name = f"{type(ours).__name__}.{i}"
            pairs[f"{name}.fc1"] = (own.ffn.fc1.weight, other.linear1.weight)
            pairs[f"{name}.norm"] = (
                own.ffn_layer_norm.weight,
                getattr(other, "norm3" if hasattr(other, "norm3") else "norm2").weight,
            )
            pairs[f"{name}.out"] = (own.self_attn.out_proj.weight, other.self_attn.out_proj.weight)
            rows = own.self_attn.q_proj.weight.grad
            torch.testing.assert_close(
                rows, other.self_attn.in_proj_weight.grad[: rows.shape[0]], atol=1e-5, rtol=0
            )
    for name, (own, other) in pairs.items():
        assert other.grad.abs().max() > 0, name
        torch.testing.assert_close(
            own.grad, other.grad, atol=1e-5, rtol=0, msg=lambda m, n=name: n + m
        )
