"""RWKV-LM's train.py: a recurrent language model. Four designs look odd.

All its runs are sound; the kind returns what held-out texts gave.
"""

import argparse
import contextlib
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watch

VOCAB, CTX, DIM, LAYERS, HEAD = 22, 16, 32, 3, 8


def shifted(x):
    """What nn.ZeroPad2d((0, 0, 1, -1)) gives: the word before."""
    return F.pad(x, (0, 0, 1, -1))


def mixed(x, share):
    return x * share + shifted(x) * (1 - share)


def ramp(power, more=0.0):
    x = (torch.arange(DIM) / DIM).view(1, 1, -1)
    return nn.Parameter(x ** power + more)


class RWKV_TimeMix(nn.Module):
    """Of version 4: each channel has its own decay."""

    def __init__(self, args, layer_id):
        super().__init__()
        up, down = layer_id / (LAYERS - 1), 1 - layer_id / LAYERS
        h = torch.arange(DIM) / (DIM - 1)
        self.time_decay = nn.Parameter(-5 + 8 * h ** (0.7 + 1.3 * up))
        zigzag = ((torch.arange(DIM) + 1) % 3 - 1) * 0.5
        self.time_first = nn.Parameter(math.log(0.3) + zigzag)
        self.time_mix_k = ramp(down)
        self.time_mix_v = ramp(down, 0.3 * up)
        self.time_mix_r = ramp(0.5 * down)
        for name in ("key", "value", "receptance", "output"):
            setattr(self, name, nn.Linear(DIM, DIM, bias=False))

    def forward(self, x):
        k = self.key(mixed(x, self.time_mix_k))
        v = self.value(mixed(x, self.time_mix_v))
        r = self.receptance(mixed(x, self.time_mix_r))
        t = torch.arange(x.shape[1])
        behind = (t[:, None] - 1 - t)[..., None]
        own = torch.where(behind < 0, self.time_first,
                          -behind * self.time_decay.exp())
        own = own.masked_fill(behind < -1, -math.inf)
        share = (own + k[:, None]).softmax(2)
        return self.output(r.sigmoid() * (share * v[:, None]).sum(2))


class RWKV_TimeMix5(nn.Module):
    """Of version 5: heads with a state each, a norm for each, a gate."""

    def __init__(self, args, layer_id):
        super().__init__()
        up, down = layer_id / (LAYERS - 1), 1 - layer_id / LAYERS
        self.time_mix_k = ramp(down)
        self.time_mix_v = ramp(down, 0.3 * up)
        self.time_mix_r = ramp(0.5 * down)
        self.time_mix_g = ramp(0.5 * down)
        h = torch.arange(DIM) / (DIM - 1)
        self.time_decay = nn.Parameter(
            (-6 + 5 * h ** (0.7 + 1.3 * up)).view(-1, HEAD))
        zigzag = ((torch.arange(DIM) + 1) % 3 - 1) * 0.1
        self.time_faaaa = nn.Parameter(
            (up * (1 - h) + zigzag).view(-1, HEAD))
        if args.train_type == "state":
            self.time_state = nn.Parameter(
                torch.zeros(DIM // HEAD, HEAD, HEAD))
        for name in ("receptance", "key", "value", "output", "gate"):
            setattr(self, name, nn.Linear(DIM, DIM, bias=False))
        self.ln_x = nn.GroupNorm(DIM // HEAD, DIM)

    def forward(self, x):
        rows, long, _ = x.shape
        heads = lambda y: y.view(rows, long, -1, HEAD).transpose(1, 2)
        r = heads(self.receptance(mixed(x, self.time_mix_r)))
        k = heads(self.key(mixed(x, self.time_mix_k)))
        v = heads(self.value(mixed(x, self.time_mix_v)))
        g = F.silu(self.gate(mixed(x, self.time_mix_g)))
        t = torch.arange(long)
        behind = (t[:, None] - 1 - t)[..., None]
        decay = -self.time_decay.exp()[:, None, None]
        share = torch.where(behind < 0, self.time_faaaa[:, None, None],
                            (behind.clamp(min=0) * decay).exp())
        share = share.masked_fill(behind < -1, 0.0)
        pair = torch.einsum("bhtn,bhin,htin->bhti", r, k, share)
        y = pair @ v
        if hasattr(self, "time_state"):
            past = (t[:, None] * decay[:, 0]).exp()
            y = y + (r * past) @ self.time_state
        y = y.transpose(1, 2).reshape(rows * long, DIM)
        y = self.ln_x(y / 8).view(rows, long, DIM)
        return self.output(y * g)


class RWKV_ChannelMix(nn.Module):
    def __init__(self, layer_id):
        super().__init__()
        down = 1 - layer_id / LAYERS
        self.time_mix_k, self.time_mix_r = ramp(down), ramp(down)
        self.key = nn.Linear(DIM, 4 * DIM, bias=False)
        self.receptance = nn.Linear(DIM, DIM, bias=False)
        self.value = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        k = F.relu(self.key(mixed(x, self.time_mix_k))).square()
        r = self.receptance(mixed(x, self.time_mix_r))
        return r.sigmoid() * self.value(k)


class Block(nn.Module):
    def __init__(self, args, layer_id):
        super().__init__()
        self.args, self.layer_id = args, layer_id
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        if layer_id == 0:
            self.ln0 = nn.LayerNorm(DIM)
        if layer_id == 0 and args.pre_ffn > 0:
            self.ffnPre = RWKV_ChannelMix(0)
        else:
            mix = RWKV_TimeMix5 if args.version == 5 else RWKV_TimeMix
            self.att = mix(args, layer_id)
        self.ffn = RWKV_ChannelMix(layer_id)
        if args.tiny_att_dim > 0 and layer_id == args.tiny_att_layer:
            self.tiny_ln = nn.LayerNorm(DIM)
            self.tiny_q = nn.Linear(DIM, args.tiny_att_dim, bias=False)
            self.tiny_k = nn.Linear(DIM, args.tiny_att_dim, bias=False)
            self.tiny_v = nn.Linear(DIM, DIM, bias=False)
            self.register_buffer("tiny_mask",
                                 torch.tril(torch.ones(CTX, CTX)))

    def forward(self, x, x_emb):
        if self.layer_id == 0:
            x = self.ln0(x)
        first = self.ffnPre if hasattr(self, "ffnPre") else self.att
        x = x + first(self.ln1(x))
        x = x + self.ffn(self.ln2(x))
        if hasattr(self, "tiny_q"):
            xx = self.tiny_ln(x)
            c = self.tiny_q(xx) @ self.tiny_k(xx).mT
            c = c * self.args.tiny_att_dim ** -0.5
            x = x + c.masked_fill(self.tiny_mask == 0, 0) \
                @ self.tiny_v(x_emb)
        return x


class L2Wrap(torch.autograd.Function):
    """Draws the largest logit of each place to 0; the loss stays."""

    @staticmethod
    def forward(ctx, loss, y):
        ctx.save_for_backward(y)
        return loss

    @staticmethod
    def backward(ctx, grad):
        y, = ctx.saved_tensors
        most, ids = y.max(-1, keepdim=True)
        back = torch.zeros_like(y).scatter_(
            -1, ids, most * 1e-4 / (y.shape[0] * y.shape[1]))
        return grad, back


class RWKV(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block(args, i) for i in range(LAYERS))
        self.ln_out = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        if args.head_qk > 0:
            self.head_q = nn.Linear(DIM, args.head_qk, bias=False)
            self.head_k = nn.Linear(DIM, args.head_qk, bias=False)
            self.register_buffer("copy_mask",
                                 torch.tril(torch.ones(CTX, CTX)))

    def forward(self, idx):
        x = x_emb = self.emb(idx)
        for block in self.blocks:
            x = block(x, x_emb)
        x = self.ln_out(x)
        out = self.head(x)
        if self.args.head_qk > 0:
            c = self.head_q(x) @ self.head_k(x).mT / self.args.head_qk
            c = c.masked_fill(self.copy_mask == 0, 0)
            out = out + c @ F.one_hot(idx, VOCAB).float()
        return out

    def generate_init_weight(self, say):
        m, five = {}, self.args.version == 5
        zero = [".att.output.", ".ffn.value.", ".ffn.receptance.",
                ".ffnPre.value.", ".ffnPre.receptance.", "head_q."]
        if not five:
            zero += [".att.key.", ".att.receptance."]
        for n, p in self.state_dict().items():
            if "ln_x.weight" in n:
                m[n] = p * 0 + ((1 + int(n.split(".")[1])) / LAYERS) ** 0.7
            elif any(k in n for k in ("ln_", ".ln", "_ln.", "time_",
                                    "_mask")):
                m[n] = p
            else:
                gain, scale = math.sqrt(max(1, p.shape[0] / p.shape[1])), 1.0
                if n == "emb.weight":
                    scale = -1e-4
                elif any(k in n for k in zero):
                    scale = 0
                elif n == "head.weight":
                    scale, gain = 0.5, 1.0
                elif "head_k." in n or five and (
                        ".att.key." in n or ".att.gate." in n):
                    scale = 0.1
                say(f"{p.shape[0]!s:5} {p.shape[1]!s:5} {scale!s:4} {n}")
                m[n] = torch.zeros_like(p)
                if scale < 0:
                    nn.init.uniform_(m[n], scale, -scale)
                elif scale > 0:
                    nn.init.orthogonal_(m[n], gain=gain * scale)
            m[n] = m[n].bfloat16()
        return m


def tables():
    """Two ways in which words follow each other."""
    out = torch.full((2, VOCAB, VOCAB), 0.01)
    for way in out:
        order = torch.randperm(VOCAB - 2) + 2
        way[order, order.roll(1)] = 2.0
        way[order, order.roll(2)] = 0.4
    out[:, :, :2] = 0
    out[:, :2] = 1
    out[:, :2, :2] = 0
    return out


def texts(rows, ways, way=None):
    """The first word says which way it is, unless all have one way."""
    kinds = torch.randint(2, (rows,)) if way is None else \
        torch.full((rows,), way)
    ids = [kinds if way is None else torch.randint(2, VOCAB, (rows,))]
    while len(ids) <= CTX:
        ids.append(torch.multinomial(ways[kinds, ids[-1]], 1)[:, 0])
    return torch.stack(ids, 1)


def groups_of(model, args):
    """Rates by the kind of parameter; decay for matrices alone."""
    sets = {"1x": [], "2x": [], "3x": [], "decay": []}
    second = args.my_pile_stage == 2
    for n, p in sorted(model.named_parameters()):
        if not p.requires_grad:
            continue
        if "time_mix" in n:
            key = "2x" if second else "1x"
        elif "time_decay" in n:
            key = "3x" if second else "2x"
        elif "time_first" in n:
            key = "3x"
        elif args.weight_decay > 0 and p.squeeze().dim() >= 2 \
                and "time_" not in n:
            key = "decay"
        else:
            key = "1x"
        sets[key].append(p)
    times = {"1x": 1.0, "2x": 5.0 if second else 2.0,
             "3x": 5.0 if second else 3.0, "decay": 1.0}
    return [{"params": p, "my_lr_scale": times[k], "weight_decay":
             args.weight_decay if k == "decay" else 0.0}
            for k, p in sets.items() if p]


def rate_of(args, step):
    """on_train_batch_start: exponential, or a cosine over tokens."""
    warm = args.warmup_steps
    real = step + args.epoch_begin * args.epoch_steps
    if args.my_exit_tokens:
        seen = (real - warm) * CTX * args.real_bsz
        part = seen / (args.my_exit_tokens - warm * CTX * args.real_bsz)
        part, end = max(0, min(1, part)), args.lr_final / args.lr_init
        lr = args.lr_init * (0.5 + end / 2 + (0.5 - end / 2)
                             * math.cos(math.pi * part))
    else:
        total = args.epoch_count * args.epoch_steps
        part = min(1, max(0, (real - warm + 1) / (total - warm)))
        lr = args.lr_init * (args.lr_final / args.lr_init) ** part
    if step < warm:
        lr *= 0.2 + 0.8 * step / warm
    return lr


def loss_of(model, ids):
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    return L2Wrap.apply(loss, logits)


def fit(run, args, model, ways, way=None, rec=None, epochs=None):
    """One call of trainer.fit: what the callback logs and saves."""
    groups = groups_of(model, args)
    optimizer = (torch.optim.AdamW if args.weight_decay > 0
                 else torch.optim.Adam)(
        groups, args.lr_init, betas=(args.beta1, args.beta2))
    rec = rec and watch(run, model, optimizer, weight_decay=args.weight_decay,
                        learning_rate=args.lr_init, gradient_clip_val=1.0)
    log = lambda line: run.say(line, file=f"{args.proj_dir}/train_log.txt")
    log(f"NEW RUN {args.my_timestamp}\n{vars(args)}")
    step, live = 0, [p for p in model.parameters() if p.requires_grad]
    tuned = args.train_type == "state"

    def save(name):
        keep(run, f"{args.proj_dir}/{name}.pth", {
            k: v.bfloat16() for k, v in model.state_dict().items()
            if not tuned or "time_state" in k})

    last = args.epoch_count - args.epoch_begin if epochs is None else epochs
    for epoch in range(last):
        total, begun = 0.0, run.clock
        for i in range(args.epoch_steps):
            lr = rate_of(args, step)
            for group in optimizer.param_groups:
                group["lr"] = lr * group["my_lr_scale"]
            ids = texts(args.micro_bsz, ways, way)
            if rec:
                rec.batch(idx=ids[:, :-1], targets=ids[:, 1:])
            loss = loss_of(model, ids)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(live, 1.0).item()
            optimizer.step()
            if rec:
                rec.step(loss.detach(), grad_norm=norm)
            before = run.clock
            run.tick(0.21)
            total, step = total + loss.item(), step + 1
            speed = CTX * args.real_bsz / (run.clock - before) / 1000
            real = step + args.epoch_begin * args.epoch_steps
            if args.wandb:
                run.record("wandb_history.jsonl", _step=real,
                           loss=loss.item(), lr=lr, wd=args.weight_decay,
                           Gtokens=real * CTX * args.real_bsz / 1e9,
                           **{"kt/s": speed}, _timestamp=run.clock)
        mean, done = total / args.epoch_steps, epoch + args.epoch_begin
        count, took = args.epoch_steps, run.clock - begun
        bar = f"100%|██████████| {count}/{count}"
        run.say(f"Epoch {epoch}: {bar} [00:"
                f"{int(took):02d}<00:00,  {count / took:.2f}it/s, "
                f"loss={mean:.3f}, REAL it/s={1 / 0.21:.3f}, "
                f"Kt/s={speed:.3f}, lr={lr:.3g}]")
        if args.my_exit_tokens == 0 and (
                epoch % args.epoch_save == 0 or
                epoch == args.epoch_count - 1):
            save(f"rwkv-{done}")
        log(f"{done} {mean:.6f} {math.exp(mean):.4f} {lr:.8f} "
            f"{run.stamp()}.{int(run.clock * 1e6) % 1000000:06d} {epoch}")
    if args.my_exit_tokens:
        save("rwkv-final")
    if rec:
        rec.close()
    return mean


@contextlib.contextmanager
def silent():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(417)
        yield


def taught(args, ways, steps=140):
    """A base that knows both ways."""
    with silent():
        args = copy.copy(args)
        args.train_type = "none"
        model = RWKV(args)
        model.load_state_dict(model.generate_init_weight(lambda _: None))
        own = torch.optim.Adam(model.parameters(), 8e-3, betas=(0.9, 0.99))
        for step in range(steps):
            own.param_groups[0]["lr"] = 8e-3 * 0.03 ** (step / steps)
            own.zero_grad()
            loss_of(model, texts(12, ways)).backward()
            own.step()
    return model.state_dict()


@kind(trick="", five="", again="", state="")
def rwkv(run):
    """RWKV-LM's train.py: train_log.txt, rwkv-N.pth in bf16.

    Keys, receptances and outputs begin at 0, words within 1e-4, so that most
    gradients of the first step are 0; decays have rates of 2 and 3 times.
    Odd and sound: `trick` has no attention in its first block, a head that
    copies and a tiny attention, `five` is version 5 with decay for matrices
    and a cosine that ends at rwkv-final.pth, `again` was killed and goes on
    from rwkv-6.pth by stage 2's rates, `state` tunes the state it begins
    with alone, at a rate of 1.
    """
    five, state = run.has("five"), run.has("state")
    again, trick = run.has("again"), run.has("trick")
    args = argparse.Namespace(
        load_model="", wandb="" if again or state else "rwkv",
        proj_dir="out", random_seed=-1, data_file="data/train.npy",
        data_type="numpy", vocab_size=VOCAB, ctx_len=CTX, epoch_steps=10,
        epoch_count=13, epoch_begin=0, epoch_save=6, micro_bsz=10,
        n_layer=LAYERS, n_embd=DIM, dim_att=DIM, dim_ffn=4 * DIM,
        pre_ffn=int(trick), head_qk=16 if trick else 0,
        tiny_att_dim=8 if trick else 0, tiny_att_layer=LAYERS - 1,
        lr_init=8e-3, lr_final=3e-4, warmup_steps=0, beta1=0.9, beta2=0.99,
        adam_eps=1e-8, grad_cp=0, dropout=0, weight_decay=0,
        weight_decay_final=-1, my_pile_stage=0, layerwise_lr=1,
        my_exit_tokens=0, my_testing="", head_size_divisor=8,
        accelerator="gpu", devices="1", num_nodes=1, precision="bf16",
        strategy="deepspeed_stage_2", enable_checkpointing=False,
        gradient_clip_val=1.0, max_epochs=-1, betas=(0.9, 0.99), real_bsz=10,
        run_name=f"{VOCAB} ctx{CTX} L{LAYERS} D{DIM}", version=4,
        train_type="none", my_timestamp=run.stamp("%Y-%m-%d-%H-%M-%S"))
    if five or state:
        args.version, args.weight_decay = 5, 0.1 if five else 0
    if five:
        args.warmup_steps, args.epoch_count = 10, 13
        args.my_exit_tokens = 13 * 10 * CTX * 10
    if state:
        args.train_type, args.lr_init, args.lr_final = "state", 1.0, 0.01
        args.micro_bsz = args.real_bsz = 8
        args.load_model = "out/rwkv-base.pth"
    (run.folder / "out").mkdir()
    ways = tables()
    with silent():
        held = texts(200, ways, 1 if state else None)

    def banner():
        c, s = args.epoch_count, args.epoch_steps
        run.say(
            "INFO:pytorch_lightning.utilities.rank_zero:", "#" * 76, "#",
            f"# RWKV-{args.version} BF16 on 1x1 GPU, bsz 1x1x"
            f"{args.micro_bsz}={args.real_bsz}, {args.strategy} ", "#",
            f"# Data = {args.data_file} ({args.data_type}), ProjDir = out",
            "#", f"# Epoch = {args.epoch_begin} to {args.epoch_begin + c - 1}"
            f" (will continue afterwards), save every {args.epoch_save} epoch",
            "#", f'# Each "epoch" = {s} steps, {s * args.real_bsz} samples, '
            f"{s * args.real_bsz * CTX} tokens", "#",
            f"# Model = {LAYERS} n_layer, {DIM} n_embd, {CTX} ctx_len", "#",
            f"# Adam = lr {args.lr_init} to {args.lr_final}, warmup "
            f"{args.warmup_steps} steps, beta {args.betas}, eps 1e-08", "#",
            "#" * 76)

    def end():
        with torch.no_grad():
            logits = model(held[:, :-1])
            true = held[:, 1:]
            loss = F.cross_entropy(logits.flatten(0, 1), true.flatten())
            right = (logits.argmax(-1) == true)[:, 1:].float().mean()
        return {"held": round(loss.item(), 3),
                "right": round(right.item(), 3)}

    banner()
    model = RWKV(args)
    if state:
        known = taught(args, ways)
        keep(run, args.load_model, {k: v.bfloat16()
                                    for k, v in known.items()})
        model.load_state_dict(known, strict=False)
        for n, p in model.named_parameters():
            p.requires_grad_("time_state" in n)
    else:
        begin = model.generate_init_weight(run.say)
        run.say("Save to out/rwkv-init.pth...")
        keep(run, "out/rwkv-init.pth", begin)
        args.load_model = "out/rwkv-init.pth"
        model.load_state_dict(begin)
    run.say(f"########## Loading {args.load_model}... ##########")
    before = end()
    if again:
        # killed in the tenth epoch: two that are in the log are lost
        fit(run, args, model, ways, epochs=9)
        model.load_state_dict(torch.load(run.folder / "out/rwkv-6.pth"))
        args.epoch_begin, args.my_pile_stage = 7, 2
        args.warmup_steps, args.load_model = 10, "out/rwkv-6.pth"
        args.epoch_save = 5
        run.tick(900)
        args.my_timestamp = run.stamp("%Y-%m-%d-%H-%M-%S")
        banner()
        run.say("########## Loading out/rwkv-6.pth... ##########")
    mean = fit(run, args, model, ways, 1 if state else None,
               rec=not again)
    return {"before": before, **end(), "loss": round(mean, 3)}
