"""Four hosts: a tiny chat model each, its base checkpoint, tokenizer and chat
template. They differ in text, size, vocabulary, template and markers.

Trained once, in some minutes on one core, and kept in a work folder; the
recorded cases hold no weights.
"""

import hashlib
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from .atelier import Atelier
from .corpus import World
from .polyglot import Depot, Letters
from .tokens import Tokenizer

WINDOW = 192


@dataclass(frozen=True)
class Host:
    """Where a case is recorded; `writes` names the files of its logs."""
    name: str
    seed: int
    kind: str           # of the corpus
    model: str          # as the server calls it
    width: int
    depth: int
    vocabulary: int
    bos: str
    end_text: str       # of a document
    end_turn: str
    before_user: str    # what the template puts around a message
    after_user: str
    template: str       # the same as Jinja
    writes: str
    architecture: str
    # Of what follows the two first hosts have the defaults.
    markers: tuple = field(default=(), repr=False)  # all special tokens
    window: int = field(default=WINDOW, repr=False)
    steps: tuple = field(default=(1200, 1800), repr=False)
    heat: tuple = field(default=(0.0, 1.0), repr=False)  # temperature, top_p
    stretch: float = field(default=1.0, repr=False)  # of limits, in tokens

    @property
    def special(self):
        if self.markers:
            return list(self.markers)
        markers = [self.bos, self.end_text, self.end_turn]
        for text in (self.before_user, self.after_user):
            for part in text.replace("\n", " ").replace(">", "> ").split():
                if part.startswith("<|") and part not in markers:
                    markers.append(part)
        return [*markers, "<|pad|>"]


HOSTS = {h.name: h for h in (
    Host("owl", 11, "atlas", "tiny-owl-0.6m-chat", 96, 3, 448,
         "<s>", "</s>", "<|im_end|>", "<|im_start|>user\n",
         "<|im_end|>\n<|im_start|>assistant\n",
         "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
         "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt "
         "%}<|im_start|>assistant\n{% endif %}", "vllm", "LlamaForCausalLM"),
    Host("heron", 23, "yard", "heron/Heron-Nano-it", 80, 4, 576,
         "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>",
         "<|start_header_id|>user<|end_header_id|>\n\n",
         "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
         "{{- bos_token }}{%- for m in messages %}{{- '<|start_header_id|>' + "
         "m['role'] + '<|end_header_id|>\n\n' + m['content'] + '<|eot_id|>' }}"
         "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>"
         "assistant<|end_header_id|>\n\n' }}{%- endif %}", "tgi",
         "GPTNeoXForCausalLM"),
    Host("ibis", 37, "depot", "ibis-lager:1b-instruct-q8_0", 96, 3, 0,
         "<s>", "</s>", "</s>", "[INST] ", " [/INST]",
         "{{ bos_token }}{% for message in messages %}{% if message['role'] == "
         "'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}"
         "{{ message['content'] + eos_token }}{% endif %}{% endfor %}", "mixed",
         "MistralForCausalLM", ("<s>", "</s>", "[INST]", "[/INST]", "<pad>"),
         288, (900, 1500), (0.15, 0.9), 1.5),
    Host("tern", 53, "atelier", "registry.local/tern-2b-it", 88, 3, 420,
         "<bos>", "<eos>", "<end_of_turn>", "<start_of_turn>user\n",
         "<end_of_turn>\n<start_of_turn>model\n",
         "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + "
         "message['role'] + '\n' + message['content'] | trim + '<end_of_turn>\n"
         "' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>"
         "model\n' }}{% endif %}", "mixed", "Gemma2ForCausalLM",
         ("<bos>", "<eos>", "<end_of_turn>", "<start_of_turn>", "[PAD]"),
         224, (900, 1500), (0.3, 0.95), 1.2))}


def world_of(seed, kind):
    return {"depot": Depot, "atelier": Atelier}.get(kind, World)(seed, kind)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2)
                   for z in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, width, depth, window=WINDOW):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(window, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.weight.T


class Served:
    """A host with its tokenizer and both checkpoints."""

    def __init__(self, host, tokenizer, base, chat):
        self.host, self.tokenizer = host, tokenizer
        self.base, self.chat = base, chat
        self.world = world_of(host.seed, host.kind)


def rendered(host, question):
    return host.bos + host.before_user + question + host.after_user


def row(ids, mask, width):
    """(inputs, labels) of one example; -100 is left out of the loss."""
    ids, mask = ids[:width + 1], mask[:width + 1]
    pad = width + 1 - len(ids)
    labels = [i if m else -100 for i, m in zip(ids, mask)]
    return ids[:-1] + [0] * pad, labels[1:] + [-100] * pad


def fit(model, draw, steps, lr, batch=16):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.05,
                                  betas=(0.9, 0.98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, (step + 1) / 40, 1.05 - step / steps)
        x, y = (torch.tensor(z) for z in zip(*(draw() for _ in range(batch))))
        longest = int((y != -100).nonzero()[:, 1].max()) + 1
        loss = F.cross_entropy(model(x[:, :longest]).flatten(0, 1),
                               y[:, :longest].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1} loss {float(loss):.3f}", flush=True)


def train(host):
    torch.manual_seed(host.seed)
    rng = random.Random(host.seed)
    world = world_of(host.seed, host.kind)
    text = "\n".join(world.document(rng) for _ in range(3000))
    if not host.vocabulary:
        text += "".join(world.dialogue(rng)[0] for _ in range(300))
        tokenizer = Letters.train(text, host.special)
    else:
        tokenizer = Tokenizer.train(text, host.special, host.vocabulary)
    bos, end = tokenizer.id_of(host.bos), tokenizer.id_of(host.end_text)
    model = Gpt(len(tokenizer), host.width, host.depth, host.window)

    def document():
        """Documents behind each other until the window is full."""
        ids = []
        while len(ids) <= host.window:
            ids += [bos, *tokenizer.encode(world.document(rng)), end]
        return row(ids, [True] * len(ids), host.window)

    def dialogue():
        question, answer, _ = world.dialogue(rng)
        head = tokenizer.encode(rendered(host, question))
        tail = tokenizer.encode(answer) + [tokenizer.id_of(host.end_turn)]
        return row(head + tail, [False] * len(head) + [True] * len(tail),
                   host.window)

    fit(model, document, host.steps[0], 3e-3)
    base = {k: v.clone() for k, v in model.state_dict().items()}
    fit(model, dialogue, host.steps[1], 2e-3)
    return tokenizer, base, model.state_dict()


def load(host, folder):
    """Trains the host unless \\p folder has it for this code."""
    code = b"".join((Path(__file__).parent / n).read_bytes()
                    for n in ("corpus.py", "tokens.py", *(
                        ["polyglot.py"] if host.writes == "mixed" else ()),
                        *(["atelier.py"] if host.kind == "atelier" else ())))
    key = hashlib.sha256(code + repr(host).encode()).hexdigest()[:12]
    path = Path(folder) / f"{host.name}-{key}.pt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        tokenizer, base, chat = train(host)
        torch.save({"merges": json.dumps(tokenizer.merges), "base": base,
                    "chat": chat}, path)
    kept = torch.load(path)
    merges = json.loads(kept["merges"])
    tokenizer = (Tokenizer(host.special, map(tuple, merges)) if
                 host.vocabulary else Letters(host.special, merges))
    models = []
    for state in (kept["base"], kept["chat"]):
        model = Gpt(len(tokenizer), host.width, host.depth, host.window)
        model.load_state_dict(state)
        models.append(model.eval())
    return Served(host, tokenizer, *models)
