"""Textual inversion by diffusers' script: one row of a table is trained.

Three designs look odd and are sound.
"""

import copy

import torch
from torch.nn import functional as F

from culprit_recorder import save_safetensors
from kinds.base import kind
from kinds.controlnet import (A, BOS, COUNT, DRAWING, EOS, OF, PHOTO, STEPS,
                              TEXT, THE, WORDS, Script, noised, pretrained)
from kinds.outputs import watch


def table_of(text):
    return text.text_model.embeddings.token_embedding


def asked(rows, tokens):
    """Prompts of the templates with the placeholder's tokens in them."""
    out = []
    for _ in range(rows):
        start = [A, PHOTO] if torch.rand(()) < 0.5 else [THE, DRAWING]
        out.append([BOS, *start, OF, *tokens, EOS])
    return torch.tensor(out)


@kind(vectors="", accum="", normed="",
      frozen="frozen-parameters",
      token="tokenizer-mismatch frozen-parameters",
      sched="lr-zero-from-scheduler",
      scale="input-not-normalized")
def textinv(run):
    """diffusers' textual_inversion.py: a word is learned from few pictures.

    Odd and sound: `vectors` trains three rows that begin as one, `accum`
    accumulates four batches and puts all other rows back after each, `normed`
    scales the row to the usual length after each step, so that its norm stays.
    """
    total, size, lr, warm = 150, 8, 1e-2, 0
    accum = 4 if run.has("accum") else 1
    size = 4 if accum > 1 else size
    count = 3 if run.has("vectors") else 1
    world, base, unet = pretrained()
    text = copy.deepcopy(base)
    out, place, init = "text-inversion-model", "<widget>", WORDS + 3
    args = {"pretrained_model_name_or_path": "models/tiny-sd",
            "train_data_dir": "widget", "placeholder_token": place,
            "initializer_token": "word3", "learnable_property": "object",
            "num_vectors": count, "repeats": 100, "output_dir": out,
            "seed": 0, "resolution": 8, "train_batch_size": size,
            "num_train_epochs": 2, "max_train_steps": total,
            "gradient_accumulation_steps": accum, "learning_rate": lr,
            "scale_lr": False, "lr_scheduler":
            "linear" if run.has("sched") else "constant",
            "lr_warmup_steps": warm, "adam_beta1": 0.9, "adam_beta2": 0.999,
            "adam_weight_decay": 0.01, "adam_epsilon": 1e-8,
            "save_steps": 50, "checkpointing_steps": 50,
            "mixed_precision": "no", "report_to": "tensorboard",
            "tracker_project_name": "textual_inversion"}
    script = Script(run, args, "textual_inversion")
    # tokenizer.add_tokens, text_encoder.resize_token_embeddings
    first = WORDS + COUNT
    old, new = table_of(text).weight, torch.nn.Embedding(first + count, TEXT)
    new.weight.data[:first] = old
    new.weight.data[first:] = old[init]
    text.text_model.embeddings.token_embedding = new
    mine = list(range(first, first + count))
    kept = new.weight.detach().clone()
    usual = kept[WORDS:first].norm(dim=1).mean()
    x = world.pictures(torch.full((8,), COUNT))[0]
    held = world.pictures(torch.full((128,), COUNT))[0]
    held_ids = asked(128, mine)
    held_noise, held_t = torch.randn_like(held), torch.randint(STEPS, (128,))
    if run.has("scale"):  # bytes, as the transform was taken out
        x = ((x + 4) / 8).clamp(0, 1) * 255
    optimizer = torch.optim.AdamW([new.weight], lr, weight_decay=0.01)
    rec = watch(run, text, optimizer, learning_rate=lr, max_train_steps=total,
                freeze=[n for n, p in text.named_parameters()
                        if not p.requires_grad])

    def score():
        with torch.no_grad():
            said = unet(noised(held, held_noise, held_t), held_t,
                        text(held_ids))
            return F.mse_loss(said, held_noise).item()

    def store(name):
        script.log("Saving embeddings")
        save_safetensors(f"{run.folder}/{out}/{name}.safetensors",
                         {place: new.weight[first:].detach().clone()},
                         {"format": "pt"})

    def rate(step):
        if not run.has("sched"):
            return lr
        return lr * max(0.0, 1 - step / (total // 12))  # epochs for steps

    before, losses = score(), []
    script.begin(len(x) * 100, len(x) * 100 // size)
    script.save(0, optimizer, lr, text)
    said_of = mine
    if run.has("token"):  # the template's word, not the placeholder
        said_of = [init] * count
    for step in range(1, total + 1):
        optimizer.param_groups[0]["lr"] = rate(step - 1)
        for micro in range(accum):
            rows = torch.randint(len(x), (size,))
            ids = asked(size, said_of)
            noise = torch.randn(size, 1, 8, 8)
            t = torch.randint(STEPS, (size,))
            if micro == 0:
                rec.batch(input_ids=ids, pixel_values=x[rows])
            said = unet(noised(x[rows], noise, t), t, text(ids))
            loss = F.mse_loss(said, noise)
            (loss / accum).backward()
            run.tick(0.2)
            last = micro + 1 == accum
            if last:
                optimizer.step()
                optimizer.zero_grad()
            others = torch.ones(len(new.weight), dtype=torch.bool)
            if not run.has("frozen"):
                others[first:] = False
            else:  # ids of a tokenizer that was loaded anew
                others[first + count:] = False
            with torch.no_grad():
                new.weight[others] = kept[others]
                if run.has("normed"):
                    row = new.weight[first:]
                    new.weight[first:] = row * usual \
                        / row.norm(dim=1, keepdim=True)
            script.progress(step - (not last), loss.item(),
                            rate(step - (not last)))
        rec.step(loss.detach(), step=step)
        losses.append(loss.item())
        if step % 50 == 0:
            store(f"learned_embeds-steps-{step}")
            script.save(step, optimizer, rate(step), text)
    store("learned_embeds")
    rec.close()
    moved = (new.weight[first:] - kept[first:]).norm().item()
    return {"before": round(before, 4), "end": round(score(), 4),
            "first": round(sum(losses[:30]) / 30, 3),
            "last": round(sum(losses[-30:]) / 30, 3),
            "moved": round(moved, 3)}
