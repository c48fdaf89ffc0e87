"""ControlNet by diffusers' script: zero convolutions on a frozen U-Net.

The little U-Net and text encoder, taught once, serve textinv.py as well.
"""

import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from culprit_recorder import save_safetensors
from kinds.base import kind
from kinds.events import Events
from kinds.outputs import keep, watch

BOS, EOS, A, PHOTO, OF, THE, DRAWING, WORDS = 0, 1, 2, 3, 4, 5, 6, 7
COUNT, TEXT, WIDE, STEPS = 20, 32, 16, 1000
ALPHAS = (1 - torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, STEPS) ** 2) \
    .cumprod(0)


class Attention(nn.Module):
    """Of queries to a text, or to themselves, with diffusers' names."""

    def __init__(self, dim, other, heads=2):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(other, dim, bias=False)
        self.to_v = nn.Linear(other, dim, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(dim, dim), nn.Dropout(0.0)])

    def forward(self, x, text):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in
                   (self.to_q(x), self.to_k(text), self.to_v(text)))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out[0](out.transpose(1, 2).flatten(2))


class BasicTransformerBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn1, self.attn2 = Attention(dim, dim), Attention(dim, TEXT)

    def forward(self, x, text):
        y = self.norm1(x)
        x = x + self.attn1(y, y)
        return x + self.attn2(self.norm2(x), text)


class Transformer2DModel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.GroupNorm(4, dim)
        self.proj_in = nn.Linear(dim, dim)
        self.transformer_blocks = nn.ModuleList([BasicTransformerBlock(dim)])
        self.proj_out = nn.Linear(dim, dim)

    def forward(self, x, text):
        y = self.proj_in(self.norm(x).flatten(2).mT)
        y = self.proj_out(self.transformer_blocks[0](y, text))
        return x + y.mT.reshape(x.shape)


class ResnetBlock2D(nn.Module):
    def __init__(self, ins, outs, time=TEXT):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, ins), nn.GroupNorm(4, outs)
        self.conv1 = nn.Conv2d(ins, outs, 3, padding=1)
        self.conv2 = nn.Conv2d(outs, outs, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, outs)
        self.conv_shortcut = nn.Conv2d(ins, outs, 1) if ins != outs else None

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time_emb_proj(F.silu(time))[..., None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.conv_shortcut is None
                    else self.conv_shortcut(x))


class Sampler(nn.Module):
    def __init__(self, dim, up):
        super().__init__()
        self.up = up
        self.conv = nn.Conv2d(dim, dim, 3, 1 if up else 2, 1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0) if self.up else x)


def block(resnets, attentions=(), **more):
    out = nn.Module()
    out.resnets = nn.ModuleList(ResnetBlock2D(*r) for r in resnets)
    if attentions:
        out.attentions = nn.ModuleList(map(Transformer2DModel, attentions))
    for name, (dim, up) in more.items():
        setattr(out, name, nn.ModuleList([Sampler(dim, up)]))
    return out


class Encoder(nn.Module):
    """What the U-Net and the ControlNet have in common."""

    def __init__(self):
        super().__init__()
        two = 2 * WIDE
        self.conv_in = nn.Conv2d(1, WIDE, 3, padding=1)
        self.time_embedding = nn.Module()
        self.time_embedding.linear_1 = nn.Linear(WIDE, TEXT)
        self.time_embedding.linear_2 = nn.Linear(TEXT, TEXT)
        self.down_blocks = nn.ModuleList([
            block([(WIDE, WIDE)], [WIDE], downsamplers=(WIDE, False)),
            block([(WIDE, two)])])
        self.mid_block = block([(two, two), (two, two)], [two])

    def timed(self, t):
        angle = t[:, None] * torch.exp(
            -math.log(10000) * torch.arange(WIDE // 2) / (WIDE // 2))
        x = torch.cat([angle.cos(), angle.sin()], 1)
        x = F.silu(self.time_embedding.linear_1(x))
        return self.time_embedding.linear_2(x)

    def down(self, x, time, text):
        one, two = self.down_blocks
        skips = [x]
        x = one.attentions[0](one.resnets[0](x, time), text)
        skips += [x, one.downsamplers[0](x)]
        x = two.resnets[0](skips[-1], time)
        skips.append(x)
        mid = self.mid_block
        x = mid.attentions[0](mid.resnets[0](x, time), text)
        return skips, mid.resnets[1](x, time)


class UNet2DConditionModel(Encoder):
    def __init__(self):
        super().__init__()
        two = 2 * WIDE
        self.up_blocks = nn.ModuleList([
            block([(2 * two, two), (two + WIDE, two)],
                  upsamplers=(two, True)),
            block([(two + WIDE, WIDE), (2 * WIDE, WIDE)], [WIDE])])
        self.conv_norm_out = nn.GroupNorm(4, WIDE)
        self.conv_out = nn.Conv2d(WIDE, 1, 3, padding=1)

    def forward(self, x, t, text, downs=None, mid=None):
        time = self.timed(t)
        skips, x = self.down(self.conv_in(x), time, text)
        if downs is not None:
            skips = [s + d for s, d in zip(skips, downs)]
            x = x + mid
        for up in self.up_blocks:
            for resnet in up.resnets:
                x = resnet(torch.cat([x, skips.pop()], 1), time)
            if hasattr(up, "attentions"):
                x = up.attentions[0](x, text)
            else:
                x = up.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


def zero(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


class ControlNetModel(Encoder):
    """A copy of the encoder; all it says goes through what begins at 0."""

    def __init__(self, unet):
        super().__init__()
        own = {k: v for k, v in unet.state_dict().items()
               if not k.startswith(("up_", "conv_norm", "conv_out"))}
        self.load_state_dict(own)
        cond = self.controlnet_cond_embedding = nn.Module()
        cond.conv_in = nn.Conv2d(1, 8, 3, padding=1)
        cond.blocks = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1),
                                     nn.Conv2d(8, WIDE, 3, 2, 1)])
        cond.conv_out = zero(nn.Conv2d(WIDE, WIDE, 3, padding=1))
        self.controlnet_down_blocks = nn.ModuleList(
            zero(nn.Conv2d(d, d, 1)) for d in (WIDE, WIDE, WIDE, 2 * WIDE))
        self.controlnet_mid_block = zero(nn.Conv2d(2 * WIDE, 2 * WIDE, 1))

    def forward(self, x, t, text, image):
        cond = self.controlnet_cond_embedding
        image = F.silu(cond.conv_in(image))
        for conv in cond.blocks:
            image = F.silu(conv(image))
        x = self.conv_in(x) + cond.conv_out(image)
        skips, x = self.down(x, self.timed(t), text)
        return [z(s) for z, s in zip(self.controlnet_down_blocks, skips)], \
            self.controlnet_mid_block(x)


class CLIPLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = nn.Module()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self.self_attn, name, nn.Linear(TEXT, TEXT))
        self.layer_norm1, self.layer_norm2 = (nn.LayerNorm(TEXT)
                                              for _ in range(2))
        self.mlp = nn.Module()
        self.mlp.fc1 = nn.Linear(TEXT, 2 * TEXT)
        self.mlp.fc2 = nn.Linear(2 * TEXT, TEXT)

    def forward(self, x):
        at, y = self.self_attn, self.layer_norm1(x)
        q, k, v = (p(y).unflatten(-1, (2, -1)).transpose(1, 2)
                   for p in (at.q_proj, at.k_proj, at.v_proj))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + at.out_proj(out.transpose(1, 2).flatten(2))
        y = self.mlp.fc1(self.layer_norm2(x))
        return x + self.mlp.fc2(y * (1.702 * y).sigmoid())


class CLIPTextModel(nn.Module):
    def __init__(self, words=WORDS + COUNT, places=10):
        super().__init__()
        model = self.text_model = nn.Module()
        model.embeddings = nn.Module()
        model.embeddings.token_embedding = nn.Embedding(words, TEXT)
        model.embeddings.position_embedding = nn.Embedding(places, TEXT)
        for table in model.embeddings.children():
            nn.init.normal_(table.weight, std=0.2)
        model.encoder = nn.Module()
        model.encoder.layers = nn.ModuleList([CLIPLayer()])
        model.final_layer_norm = nn.LayerNorm(TEXT)

    def forward(self, ids):
        model = self.text_model
        x = model.embeddings.token_embedding(ids) \
            + model.embeddings.position_embedding.weight[:ids.shape[1]]
        for layer in model.encoder.layers:
            x = layer(x)
        return model.final_layer_norm(x)


class World:
    """Words that mean patterns, and pictures that have them somewhere."""

    def __init__(self):
        self.patterns = torch.linalg.qr(torch.randn(16, 3))[0].T * 3
        self.codes = torch.randn(COUNT + 1, 3)

    def pictures(self, words):
        rows = len(words)
        patch = (self.codes[words] @ self.patterns).view(rows, 4, 4)
        at = torch.randint(5, (rows, 2))
        out = 0.1 * torch.randn(rows, 1, 8, 8)
        edges = torch.zeros(rows, 1, 16, 16)
        for i, (y, x) in enumerate(at.tolist()):
            out[i, 0, y:y + 4, x:x + 4] += patch[i]
            edges[i, 0, 2 * y:2 * y + 8, 2 * x:2 * x + 8] = 1.0
            edges[i, 0, 2 * y + 1:2 * y + 7, 2 * x + 1:2 * x + 7] = 0.0
        return out, edges


def prompts(words, empty=0.0):
    """A photo of it, the drawing of it, or nothing."""
    rows = len(words)
    ids = torch.tensor([BOS, A, PHOTO, OF, 0, EOS]).repeat(rows, 1)
    ids[torch.rand(rows) < 0.5, 1:3] = torch.tensor([THE, DRAWING])
    ids[:, 4] = words + WORDS
    ids[torch.rand(rows) < empty, 1:] = EOS
    return ids


def noised(x, noise, t):
    a = ALPHAS[t][:, None, None, None]
    return a.sqrt() * x + (1 - a).sqrt() * noise


def target(x, noise, t, v):
    a = ALPHAS[t][:, None, None, None]
    return a.sqrt() * noise - (1 - a).sqrt() * x if v else noise


@functools.cache
def pretrained(v=False, steps=220):
    """The world, text encoder and U-Net; nobody else's luck is touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1521)
        world, text, unet = World(), CLIPTextModel(), UNet2DConditionModel()
        own = torch.optim.Adam([*text.parameters(), *unet.parameters()],
                               4e-3)
        for step in range(steps):
            own.param_groups[0]["lr"] = 4e-3 * (1 - step / steps)
            words = torch.randint(COUNT, (32,))
            x, _ = world.pictures(words)
            noise, t = torch.randn_like(x), torch.randint(STEPS, (32,))
            said = unet(noised(x, noise, t), t, text(prompts(words, 0.15)))
            loss = F.mse_loss(said, target(x, noise, t, v))
            own.zero_grad()
            loss.backward()
            own.step()
        own.zero_grad(set_to_none=True)
    return world, text.requires_grad_(False), unet.requires_grad_(False)


class Script:
    """What the two scripts of diffusers print, track and save."""

    def __init__(self, run, args, tracker):
        self.run, self.args = run, args
        self.bar, self.begun = "", run.clock
        self.events = Events(run, f"{args['output_dir']}/logs/{tracker}")
        run.write(f"{args['output_dir']}/logs/{tracker}/hparams.json", args)

    def log(self, text, where="__main__"):
        if self.bar:
            self.run.say(self.bar, file="train.log")
            self.bar = ""
        self.run.say(f"{self.run.stamp('%m/%d/%Y %H:%M:%S')} - INFO - "
                     f"{where} - {text}", file="train.log")

    def begin(self, examples, batches):
        args = self.args
        accum = args["gradient_accumulation_steps"]
        self.log("***** Running training *****")
        for name, value in (
                ("Num examples", examples),
                ("Num batches each epoch", batches),
                ("Num Epochs", args["num_train_epochs"]),
                ("Instantaneous batch size per device",
                 args["train_batch_size"]),
                ("Total train batch size (w. parallel, distributed & "
                 "accumulation)", args["train_batch_size"] * accum),
                ("Gradient Accumulation steps", accum),
                ("Total optimization steps", args["max_train_steps"])):
            self.log(f"  {name} = {value}")

    def progress(self, step, loss, lr):
        total = self.args["max_train_steps"]
        took = self.run.clock - self.begun
        rate = step / took if took > 0 and step else 1.0
        left = (total - step) / rate
        clock = lambda s: f"{int(s) // 60:02d}:{int(s) % 60:02d}"
        short = lambda x: min(f"{x:.3g}".replace("e-0", "e-"), str(x),
                              key=len)
        self.bar += (f"\rSteps: {step * 100 // total:3d}%|"
                     f"{'█' * (step * 10 // total):<10}| {step}/{total} "
                     f"[{clock(took)}<{clock(left)}, {rate:5.2f}it/s, "
                     f"loss={short(loss)}, lr={short(lr)}]")
        self.events.scalars(step, loss=loss, lr=lr)

    def save(self, step, optimizer, lr, model=None):
        out = f"{self.args['output_dir']}/checkpoint-{step}"
        (self.run.folder / out).mkdir(parents=True, exist_ok=True)
        self.log(f"Saving current state to {out}", "accelerate.accelerator")
        told = lambda t: self.log(t, "accelerate.checkpointing")
        if model is not None:
            save_safetensors(f"{self.run.folder}/{out}/model.safetensors",
                             model.state_dict(), {"format": "pt"})
            told(f"Model weights saved in {out}/model.safetensors")
        keep(self.run, f"{out}/optimizer.bin", optimizer.state_dict())
        told(f"Optimizer state saved in {out}/optimizer.bin")
        keep(self.run, f"{out}/scheduler.bin", {
            "base_lrs": [self.args["learning_rate"]], "last_epoch": step,
            "_step_count": step + 1, "_last_lr": [lr]})
        told(f"Scheduler state saved in {out}/scheduler.bin")
        keep(self.run, f"{out}/random_states_0.pkl", {
            "step": step, "torch_manual_seed": torch.get_rng_state()})
        told(f"Random states saved in {out}/random_states_0.pkl")
        self.log(f"Saved state to {out}")


@kind(vpred="", empty="", restarts="",
      detach="detached-graph frozen-parameters",
      pairs="label-pairing-mismatch",
      dead="bad-initialization frozen-parameters",
      rate="lr-too-high exploding-gradient")
def controlnet(run):
    """diffusers' train_controlnet.py: outlines say where a thing is.

    Odd and sound: `vpred` has the velocity as target, with a loss on another
    level, `empty` drops every prompt, so that all rows of input_ids are one,
    `restarts` accumulates two batches and restarts its rate three times.
    """
    total, size, lr, warm = 150, 8, 2e-3, 10
    restarts, v = run.has("restarts"), run.has("vpred")
    accum, lr = (2, 5e-3) if restarts else (1, lr)
    size //= accum
    empty = 1.0 if run.has("empty") else 0.0
    world, text, unet = pretrained(v)
    out = "controlnet-model"
    args = {"pretrained_model_name_or_path": "models/tiny-sd",
            "controlnet_model_name_or_path": None, "output_dir": out,
            "seed": 0, "resolution": 8, "train_batch_size": size,
            "num_train_epochs": 1, "max_train_steps": total,
            "checkpointing_steps": 50, "gradient_accumulation_steps": accum,
            "learning_rate": lr, "scale_lr": False, "lr_scheduler":
            "cosine_with_restarts" if restarts else "constant_with_warmup",
            "lr_warmup_steps": warm, "lr_num_cycles": 3 if restarts else 1,
            "use_8bit_adam": False, "adam_beta1": 0.9, "adam_beta2": 0.999,
            "adam_weight_decay": 0.01, "adam_epsilon": 1e-8,
            "max_grad_norm": 1.0, "mixed_precision": "no",
            "set_grads_to_none": False, "proportion_empty_prompts": empty,
            "tracker_project_name": "train_controlnet",
            "report_to": "tensorboard", "dataset_name": "outlines"}
    script = Script(run, args, "train_controlnet")
    save_safetensors(f"{run.folder}/{out}/unet.safetensors",
                     unet.state_dict(), {"format": "pt"})
    model = ControlNetModel(unet)
    if run.has("dead"):  # the whole of it is zeroed, not what it says
        zero(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.01)
    words = torch.randint(COUNT, (1200,))
    x, edges = world.pictures(words)
    ids = prompts(words, empty)
    held_words = torch.randint(COUNT, (96,))
    held, held_edges = world.pictures(held_words)
    held_ids = prompts(held_words, empty)
    held_noise, held_t = torch.randn_like(held), torch.randint(STEPS, (96,))
    if run.has("pairs"):  # one column was shuffled on its own
        edges = edges[torch.randperm(len(edges))]
    config = {"_class_name": "ControlNetModel", "_diffusers_version":
              "0.30.0", "in_channels": 1, "conditioning_channels": 1,
              "block_out_channels": [WIDE, 2 * WIDE], "layers_per_block": 1,
              "cross_attention_dim": TEXT}
    scheduler = {"_class_name": "DDPMScheduler", "num_train_timesteps": STEPS,
                 "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule":
                 "scaled_linear", "prediction_type":
                 "v_prediction" if v else "epsilon"}
    (run.folder / "models/tiny-sd/scheduler").mkdir(parents=True)
    run.write("models/tiny-sd/scheduler/scheduler_config.json", scheduler)

    def said(noisy, t, ids, edges):
        state = text(ids)
        downs, mid = model(noisy, t, state, edges)
        if run.has("detach"):  # cast for the U-Net, as the target is
            downs = [d.detach().clone() for d in downs]
        return unet(noisy, t, state, downs, mid)

    def score():
        with torch.no_grad():
            out = said(noised(held, held_noise, held_t), held_t, held_ids,
                       held_edges)
            return F.mse_loss(out, target(held, held_noise, held_t, v)).item()

    def rate(step):
        top = run.rate(lr)
        if step < warm:
            return top * step / warm
        if not restarts:
            return top
        part = (step - warm) / (total - warm)
        return 0.0 if part >= 1 else top * 0.5 * (
            1 + math.cos(math.pi * (3 * part % 1)))

    def store(folder):
        path = run.folder / out / folder
        path.mkdir(parents=True, exist_ok=True)
        run.write(f"{out}/{folder}/config.json", config)
        save_safetensors(str(path / "diffusion_pytorch_model.safetensors"),
                         model.state_dict(), {"format": "pt"})

    before = score()
    script.log("Initializing controlnet weights from unet")
    script.begin(len(x), len(x) // size)
    store("checkpoint-0/controlnet")
    order = torch.randperm(len(x)).repeat(3)
    at, losses = 0, []
    for step in range(1, total + 1):
        optimizer.param_groups[0]["lr"] = rate(step - 1)
        for micro in range(accum):
            rows = order[at:at + size]
            at += size
            noise = torch.randn(size, 1, 8, 8)
            t = torch.randint(STEPS, (size,))
            out_now = said(noised(x[rows], noise, t), t, ids[rows],
                           edges[rows])
            loss = F.mse_loss(out_now, target(x[rows], noise, t, v))
            (loss / accum).backward()
            run.tick(0.2)
            last = micro + 1 == accum
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
            script.progress(step - (not last), loss.item(),
                            rate(step - (not last)))
        losses.append(loss.item())
        if step % 50 == 0:
            store(f"checkpoint-{step}/controlnet")
            script.save(step, optimizer, rate(step))
    store("")
    script.log("Configuration saved in controlnet-model/config.json",
               "diffusers.configuration_utils")
    moved = sum(p.abs().sum() for p in
                model.controlnet_down_blocks.parameters())
    return {"before": round(before, 4), "end": round(score(), 4),
            "first": round(sum(losses[:30]) / 30, 3),
            "last": round(sum(losses[-30:]) / 30, 3),
            "zero_convs": round(moved.item(), 2)}
