"""The likeliest next tokens: the highest of many logits first, and one normalisation for them.

The reference is `log_softmax` over the vocabulary, then `topk` over all hypotheses of a sentence.
"""

import math

import torch
from torch import Tensor

from .fast_rules import SearchRules

NEVER = -1.0e9  # the score of what does not exist, as in the library
BLOCK = 64  # neighbouring logits that are looked at as one, a power of 2
SHIFT = BLOCK.bit_length() - 1
FEWEST = 2048  # logits from which blocks are worth it
CACHED = 1 << 19  # logits that fit into a processor's cache
LOG2_E = math.log2(math.e)


def highest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` highest of logits [R, V] in falling order, and their indices [R, count].

    A value among the highest stands in one of the blocks with the highest maxima.
    """
    size = logits.shape[1]
    blocks = size >> SHIFT
    if size < FEWEST or blocks < count or logits.device.type != "cpu":
        return logits.topk(count)
    body, tail = logits[:, : blocks << SHIFT].unflatten(1, (blocks, BLOCK)), blocks << SHIFT
    chosen = body.amax(-1).topk(count).indices  # [R, count]
    candidates = body.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    if tail < size:
        candidates = torch.cat((candidates, logits[:, tail:]), 1)
        chosen = torch.cat((chosen, chosen.new_full((len(chosen), 1), blocks)), 1)
    values, places = candidates.topk(count)
    return values, (chosen.gather(1, places >> SHIFT) << SHIFT) + (places & BLOCK - 1)


def log_normalizer(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return two terms [R, 1] of which the sum is the log-sum-exp of float32 logits [R, V].

    The first is the highest logit; subtracted one after the other, they cost no digits.
    """
    peak = logits.amax(-1, keepdim=True)
    # On CPUs powers of 2 take a third of the time of powers of e.
    powers = (logits - peak).mul_(LOG2_E).exp2_()
    return peak, powers.sum(-1, keepdim=True).log()


def top_token(
    logits: Tensor, rules: SearchRules, *, length: int, keeps_scores: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the likeliest token [B] of logits [B, V], and the processed logits if they are kept.

    Args:
        logits: Overwritten.
        rules: What may be generated.
        length: Of the hypotheses with the new token.
        keeps_scores: Whether to return processed logits.
    """
    scores = _restricted(logits.float(), rules, length=length)
    tokens = _likeliest(scores[0]) if len(scores) == 1 else highest(scores, 1)[1][:, 0]
    return tokens, scores if keeps_scores else None


def _likeliest(logits: Tensor) -> Tensor:
    """Return the index [1] of the highest of logits [V]."""
    if len(logits) < FEWEST or len(logits) % BLOCK or logits.device.type != "cpu":
        return logits.argmax(-1, keepdim=True)
    blocks = logits.view(-1, BLOCK)
    first = int(blocks.amax(-1).argmax())
    return blocks[first].argmax(-1, keepdim=True) + (first << SHIFT)


def top_continuations(
    logits: Tensor,
    running: Tensor,
    *,
    rules: SearchRules,
    length: int,
    count: int,
    keeps_scores: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Find the best continuations of each sentence.

    Args:
        logits: [B*n, V], overwritten.
        running: Log-probability [B, n] of each hypothesis.
        rules: What may be generated.
        length: Of the hypotheses with the new token.
        count: Continuations of a sentence.
        keeps_scores: Whether to return processed log-probabilities.

    Returns:
        Log-probabilities [B, count] in falling order, tokens, the hypotheses that they continue,
        and the processed log-probabilities [B*n, V] if they are kept.
    """
    kept = None
    if keeps_scores:
        logits = logits.float().index_fill_(1, rules.removed, -torch.inf)
        kept = _restricted(logits.log_softmax(-1), rules, length=length)
        values, tokens = highest(kept, count)
    else:
        values, tokens = _top_log_probs(logits, rules, length=length, count=count)
    values = values.clamp(min=NEVER).unflatten(0, running.shape) + running[..., None]
    scores, places = values.flatten(1).topk(count)
    tokens = tokens.unflatten(0, running.shape).flatten(1).gather(1, places)
    return scores, tokens, places // count, kept


def _top_log_probs(
    logits: Tensor, rules: SearchRules, *, length: int, count: int
) -> tuple[Tensor, Tensor]:
    banned = rules.banned_at(length)
    # Few rows at a time, which stay in the processor's cache.
    parts = logits.split(max(1, CACHED // logits.shape[1]))
    found = [_top_of_rows(part, rules.removed, banned=banned, count=count) for part in parts]
    values, tokens = found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
    forced = rules.forced_at(length)
    if forced is not None:
        token, rows = forced[0], _rows(forced[1], len(logits))
        certain = torch.full_like(values, NEVER)
        certain[:, 0] = 0.0
        values = torch.where(rows, certain, values)
        tokens = torch.where(rows, token, tokens)
    return values, tokens


def _top_of_rows(
    logits: Tensor, removed: Tensor, *, banned: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return the highest log-probabilities [R, count] and their tokens, none of them banned."""
    logits = logits.float().index_fill_(1, removed, -torch.inf)
    # What is banned has its share of the probability, what is removed has none.
    peak, log_sum = log_normalizer(logits)
    values, tokens = highest(logits.index_fill_(1, banned, -torch.inf), count)
    return (values - peak) - log_sum, tokens


def _restricted(scores: Tensor, rules: SearchRules, *, length: int) -> Tensor:
    """Set scores [R, V] of what must not be generated to minus infinity, in place."""
    scores.index_fill_(1, rules.banned_at(length), -torch.inf)
    forced = rules.forced_at(length)
    if forced is not None:
        token, rows = forced[0], _rows(forced[1], len(scores))
        scores.masked_fill_(rows, -torch.inf)
        scores[:, token] = torch.where(rows[:, 0], 0.0, scores[:, token])
    return scores


def _rows(sentences: Tensor, rows: int) -> Tensor:
    """Turn truth values of sentences [B] into those of rows [R, 1]."""
    return sentences.repeat_interleave(rows // len(sentences))[:, None]
