"""A small mixture of experts that is tuned on instructions.

Rows are packed: several examples a row, each with positions of its own and
attention that stays inside of it, and only answers have labels. Parts are named
as in torchtitan's models. The auxiliary losses of the router have gradients
and no value, as in Megatron: they are logged on their own.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import llama, models, sources
from .family import Family
from .models import Group
from .sources import ASSISTANT, EOS, IGNORE, PAD, SPECIAL, USER

VOCAB, CONTEXT, ROWS, SKILLS = 72, 64, 8, 4
WIDTH, HEADS, DEPTH, EXPERTS, CHOSEN, HIDDEN = 48, 4, 2, 4, 2, 48
BALANCE, Z = 1e-2, 1e-3
WORDS = VOCAB - SPECIAL - SKILLS


class Instructions(sources.Source):
    """Examples of 15 to 28 tokens, packed into rows; the last one is cut off.

    Example: USER skill prompt ASSISTANT answer EOS. Each of the four skills is
    a language of its own over one alphabet: a word is with 0.5 the one of two
    places before, else one of three successors of the last (0.7, 0.2, 0.1). The
    prompt is of any words, the answer goes on from its last. Labels are the
    next tokens where these are of the answer, EOS included.

    Knowing the process leaves 1.00 nats a label, the words' frequencies
    ln 64 = 4.16; a fresh model has 4.4.

    words: of the tokenizer, which a collator clamps to the table's. block,
    share: skills one after the other. limit: tokens that an example is cut to.
    pack: several examples a row; else one, and padding. eos, reset, separate:
    what sound packing does between two of them. copy: see above. skills: of
    these alone.
    """

    LAG, PROMPT, ANSWER = 2, (4, 9), (7, 16)

    def __init__(self, seed, shape, words=WORDS, block=None, share=1.0,
                 limit=None, pack=True, eos=True, reset=True, separate=True,
                 copy=0.5, skills=SKILLS):
        super().__init__(seed, shape)
        self.words, self.block, self.share = words, block, share
        self.limit, self.pack, self.eos = limit, pack, eos
        self.reset, self.separate, self.skills = reset, separate, skills
        self.copy = copy
        self.next = torch.stack([torch.stack([torch.randperm(
            words, generator=torch.Generator().manual_seed(70 + 3 * s + b))
            for b in range(3)]) for s in range(SKILLS)])

    def examples(self, count):
        """Ids (count, longest) of as many examples, PAD behind each; where
        answers lie; and how long each is."""
        rng, (least, most) = self.rng, self.PROMPT
        skill = torch.randint(self.skills, (count,), generator=rng)
        if self.block:
            here = self.number // self.block % SKILLS
            kept = torch.rand(count, generator=rng) < self.share
            skill = torch.where(kept, torch.tensor(here), skill)
        n = torch.randint(least, most + 1, (count, 1), generator=rng)
        m = torch.randint(*self.ANSWER, (count, 1), generator=rng)
        prompt = torch.randint(self.words, (count, most), generator=rng)
        long = self.ANSWER[1] - 1
        branch = torch.multinomial(torch.tensor(models.MarkovText.WEIGHTS),
                                   count * long, True,
                                   generator=rng).view(count, long)
        again = torch.rand(count, long, generator=rng) < self.copy
        now = prompt.gather(1, n - 1)[:, 0]
        answer = torch.zeros(count, long, dtype=torch.int64)
        for t in range(long):
            now = self.next[skill, branch[:, t], now]
            if t >= self.LAG:
                now = torch.where(again[:, t], answer[:, t - self.LAG], now)
            answer[:, t] = now
        first = SPECIAL + SKILLS
        width = 2 + most + 1 + long + 1
        place = torch.arange(width).expand(count, -1)
        start, end = n + 3, n + 3 + m       # of the answer
        ids = torch.full((count, width), PAD)
        ids[:, 0], ids[:, 1] = USER, SPECIAL + skill
        ids = torch.where((place >= 2) & (place < n + 2), first + F.pad(
            prompt, (2, width - most - 2)), ids)
        ids[place == n + 2] = ASSISTANT
        ids = torch.where((place >= start) & (place < end), first + answer
                          .gather(1, (place - start).clamp(0, long - 1)), ids)
        ids[place == end] = EOS
        ids = ids.clamp(max=self.vocab - 1)
        length = end[:, 0] + int(self.eos)
        if self.limit:
            length = length.clamp(max=self.limit)
        return ids, (place >= start) & (place <= end), length.tolist()

    def draw(self, rows):
        width = self.context
        shape = rows, width + 1
        ids, said = torch.full(shape, PAD), torch.zeros(shape, dtype=bool)
        number = torch.zeros(shape, dtype=torch.int64)
        places = torch.arange(width + 1).repeat(rows, 1)
        texts, answers, lengths = self.examples(rows * (
            1 + width // 13 if self.pack else 1))
        if self.limit:
            more = [self.examples(rows * 6) for _ in range(2)]
            texts, answers = (torch.cat((t, *(m[k] for m in more)))
                              for k, t in enumerate((texts, answers)))
            lengths += [n for m in more for n in m[2]]
        next_one = 0
        for row in range(rows):
            at = k = 0
            while at <= width and (self.pack or not k):
                end = min(width + 1, at + lengths[next_one])
                part = slice(at, end)
                ids[row, part] = texts[next_one, :end - at]
                said[row, part] = answers[next_one, :end - at]
                number[row, part] = k
                if self.reset:
                    places[row, part] = torch.arange(end - at)
                at, k, next_one = end, k + 1, next_one + 1
            number[row, at:] = k
        labels = torch.where(said[:, 1:] & (number[:, 1:] == number[:, :-1]),
                             ids[:, 1:], IGNORE)
        batch = {"input_ids": ids[:, :-1].clone(), "labels": labels,
                 "completion_mask": said[:, :-1].long()}
        if not self.pack:
            return batch | {"attention_mask": (ids[:, :-1] != PAD).long()}
        batch["position_ids"] = places[:, :-1].clone()
        if self.separate:
            batch["seq_idx"] = number[:, :-1].clone()
        return batch


class AuxiliaryLoss(torch.autograd.Function):
    """Passes on what it gets; in the backward pass a loss gets its part."""

    @staticmethod
    def forward(context, x, loss):
        context.shape = loss.shape
        return x.view_as(x)

    @staticmethod
    def backward(context, grad):
        return grad, torch.ones(context.shape, dtype=grad.dtype)


class GroupedLinear(nn.Module):
    """One matrix an expert."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(EXPERTS, columns, rows))

    def forward(self, x):
        """(..., experts, rows) or what all of them get, (..., rows)."""
        form = "bser,ecr->bsec" if x.dim() == 4 else "bsr,ecr->bsec"
        return torch.einsum(form, x, self.weight)


class Moe(nn.Module):
    """A router that sends each token to two of four SwiGLU experts.

    All experts run on all tokens, which is faster here; the weights of those
    that were not chosen are zero, and so are their gradients.
    """

    def __init__(self, options):
        super().__init__()
        self.router = Group(gate=nn.Linear(WIDTH, EXPERTS, bias=False))
        self.experts = Group(w1=GroupedLinear(WIDTH, HIDDEN),
                             w2=GroupedLinear(HIDDEN, WIDTH),
                             w3=GroupedLinear(WIDTH, HIDDEN),
                             act=models.ACTIVATIONS[options["activation"]]())
        self.share, self.balance = None, None

    def forward(self, x, tap):
        tap("input", x)
        said = self.router.gate(x)
        tap("router.gate.output", said)
        probs = said.float().softmax(-1)
        score, chosen = probs.topk(CHOSEN, -1)
        sent = torch.zeros_like(probs).scatter(-1, chosen, 1.0)
        weight = probs * sent / score.sum(-1, keepdim=True)
        self.share = sent.detach().mean((0, 1)) / CHOSEN
        balance = EXPERTS * (self.share * probs.mean((0, 1))).sum()
        self.balance = balance.detach()
        if self.training:
            self.router_loss = BALANCE * balance \
                + Z * said.float().logsumexp(-1).square().mean()
            weight = AuxiliaryLoss.apply(weight, self.router_loss)
        weight = weight.to(x.dtype)
        tap("router.output", weight)
        gate, up = self.experts.w1(x), self.experts.w3(x)
        tap("experts.act.input", gate)
        gate = self.experts.act(gate)
        tap("experts.act.output", gate)
        y = self.experts.w2(gate * up)
        tap("experts.output", y)
        y = (y * weight[..., None]).sum(2)
        tap("output", y)
        return y


class TransformerBlock(nn.Module):
    """Attention with two heads a key, and the experts, behind RMSNorms."""

    def __init__(self, eps, options):
        super().__init__()
        self.options, self.heads = options, options["heads"]
        self.keys = max(1, self.heads // 2)
        each = WIDTH // self.heads
        self.attention = Group(
            wq=nn.Linear(WIDTH, WIDTH, bias=False),
            wk=nn.Linear(WIDTH, self.keys * each, bias=False),
            wv=nn.Linear(WIDTH, self.keys * each, bias=False),
            wo=nn.Linear(WIDTH, WIDTH, bias=False))
        self.moe = Moe(options)
        self.attention_norm = llama.RmsNorm(WIDTH, eps)
        self.ffn_norm = llama.RmsNorm(WIDTH, eps)

    def forward(self, x, tap, drop, position_ids, **seen):
        tap("attention_norm.input", x)
        y = self.attention_norm(x)
        tap("attention_norm.output", y)
        rows, steps, _ = y.shape
        own = self.attention

        def split(part, heads):
            return part(y).view(rows, steps, heads, -1).transpose(1, 2)

        q = split(own.wq, self.heads)
        k, v = split(own.wk, self.keys), split(own.wv, self.keys)
        if self.options["positions"]:
            q, k = (llama.rotate(t, position_ids) for t in (q, k))
        k, v = (t.repeat_interleave(self.heads // self.keys, 1)
                for t in (k, v))
        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // self.heads) ** -0.5
        y = models.attend(q, k, v, lambda n, t: tap(f"attention.{n}", t),
                          scale, half=self.options["half_scores"], **seen)
        y = own.wo(y.transpose(1, 2).reshape(x.shape))
        tap("attention.output", y)
        x = x + drop(y)
        y = self.moe(self.ffn_norm(x), lambda n, t: tap(f"moe.{n}", t))
        return x + drop(y)


class MoeTransformer(models.Language):
    """Two layers of width 48; rotary positions, an untied head."""

    def __init__(self, heads=HEADS, eps=1e-5, half_scores=False,
                 detach_after=None, positions=True, future=0, scale=None,
                 activation="silu", dropout=0.0, pad=None):
        """detach_after -1 cuts behind the embedding; scale None is right."""
        super().__init__()
        self.detach_after, self.future, self.dropout = \
            detach_after, future, dropout
        options = {"heads": heads, "half_scores": half_scores,
                   "positions": positions, "scale": scale,
                   "activation": activation}
        self.tok_embeddings = nn.Embedding(VOCAB, WIDTH, padding_idx=pad)
        self.layers = nn.ModuleList(TransformerBlock(eps, options)
                                    for _ in range(DEPTH))
        self.norm = llama.RmsNorm(WIDTH, eps)
        self.output = nn.Linear(WIDTH, VOCAB, bias=False)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.3 if "embed" in name else 0.08)
        if pad is not None:
            with torch.no_grad():
                self.tok_embeddings.weight[pad] = 0

    def forward(self, ids, position_ids=None, segments=None):
        if position_ids is None:
            position_ids = torch.arange(ids.shape[1])[None]
        x = self.tok_embeddings(ids)
        self.tap("tok_embeddings.output", x)
        if self.detach_after == -1:
            x = x.detach()
        x = self.drop(x)
        for i, block in enumerate(self.layers):
            x = block(x, lambda n, t, i=i: self.tap(f"layers.{i}.{n}", t),
                      self.drop, position_ids, future=self.future,
                      segments=segments)
            self.tap(f"layers.{i}.output", x)
            if i == self.detach_after:
                x = x.detach()
        x = self.norm(x)
        self.tap("norm.output", x)
        x = self.output(x)
        self.tap("output.output", x)
        return x

    def logits(self, batch):
        return self(batch["input_ids"], batch.get("position_ids"),
                    batch.get("seq_idx"))

    def criterion(self, logits, batch):
        return F.cross_entropy(logits.float().flatten(0, 1),
                               batch["labels"].flatten(),
                               ignore_index=IGNORE)


class MoeRun(Family):
    """AdamW; the rate warms up, stands, and falls linearly to nothing over
    the last quarter of the run."""

    family = "moe"
    level_seed = 400
    steps, seed = 200, 380
    lr, warmup, schedule, clip = 1e-2, 20, "wsd", 1.0
    DECAY = 0.25            # share of the run in which the rate falls
    betas, weight_decay = (0.9, 0.95), 0.1
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, CONTEXT, VOCAB
    layers = ["tok_embeddings", *(
        f"layers.{i}.{part}" for i in range(DEPTH)
        for part in ("attention", "attention.scores", "moe.router",
                     "moe.experts.act", "moe")),
        "norm", "output"]
    paths = {"embed": "tok_embeddings", "attn": "layers.{}.attention",
             "scores": "layers.{}.attention.scores",
             "act": "layers.{}.moe.experts.act", "mlp": "layers.{}.moe",
             "block": "layers.{}", "head": "output"}
    blocks = DEPTH
    battery = ("causal_mask", "positions")
    names = {"loss": "loss_metrics/global_avg_loss",
             "val_loss": "validation_metrics/loss", "tokens": "n_tokens_seen",
             "step_time": "time_metrics/end_to_end(s)",
             "data_time": "time_metrics/data_loading(s)"}

    def make_model(self):
        return MoeTransformer(**self.model_options)

    def make_source(self, seed):
        return self.instructions(seed)

    def instructions(self, seed, **how):
        return Instructions(seed, (self.vocab, self.context, self.batch_size),
                            **how)

    def in_blocks(self, seed, block, share):
        """Skills that nobody has shuffled; None is held out."""
        return self.instructions(seed, block=block, share=share)

    def lessons(self, seed):
        """Answers of one skill that repeat nothing, and all."""
        return self.easy(seed), self.instructions(seed)

    def easy(self, seed):
        return self.instructions(seed, copy=0.0, skills=1)

    def garbage(self, batch, kind, rng):
        """A corrupt batch: of few words, of any, or of one alone."""
        low = {"few": self.vocab - 4, "uniform": SPECIAL + SKILLS,
               "constant": 20}[kind]
        high = 21 if kind == "constant" else self.vocab
        ids, kept = batch["input_ids"], batch["labels"] != IGNORE
        ids = torch.where(ids >= SPECIAL + SKILLS, torch.randint(
            low, high, ids.shape, generator=rng), ids)
        ahead = torch.cat((ids[:, 1:], torch.randint(
            low, high, (len(ids), 1), generator=rng)), 1)
        return batch | {"input_ids": ids, "labels": torch.where(
            kept, ahead, IGNORE)}

    def lr_factor(self, i):
        if self.schedule != "wsd" or i < self.warmup:
            return super().lr_factor(i)
        fall = self.DECAY * self.steps
        return min(1.0, (self.steps - 1 - i) / fall)

    def batch_columns(self, batch):
        parts = [layer.moe for layer in self.model.layers]
        row = super().batch_columns(batch)
        if all(p.balance is not None for p in parts):
            row |= {
                "balance_loss": round(float(
                    sum(p.balance for p in parts) / len(parts)), 5),
                "expert_share_max": round(float(
                    max(p.share.max() for p in parts)), 4)}
        return row

    def settings(self):
        settings = super().settings()
        if self.schedule == "wsd":
            settings |= {"decay_ratio": self.DECAY, "decay_type": "linear",
                         "min_lr_factor": 0.0}
        return settings

    def model_settings(self):
        heads = self.model_options.get("heads", HEADS)
        return {"model": "moe", "n_layers": DEPTH, "dim": WIDTH,
                "n_heads": heads, "n_kv_heads": max(1, heads // 2),
                "moe_inter_dim": HIDDEN, "num_experts": EXPERTS,
                "top_k": CHOSEN, "load_balance_coeff": BALANCE,
                "router_z_loss_coeff": Z, "vocab_size": self.vocab,
                "seq_len": self.context, "rope_theta": 10000.0,
                "norm_eps": self.model_options.get("eps", 1e-5),
                "packing": True, "completion_only_loss": True,
                "eos_token_id": EOS, "pad_token_id": PAD}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        """The norm before a part counts to it."""
        if layer.endswith(".attention"):
            return [f"{layer}_norm"]
        if layer.endswith(".moe"):
            return [layer.removesuffix("moe") + "ffn_norm"]
        return []
