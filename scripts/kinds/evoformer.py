"""An Evoformer as OpenFold has it, small. Three designs look odd and are sound."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watched
from kinds.rotations import turned


class Linear(nn.Linear):
    """OpenFold's: its biases are 0, the last of a block all 0."""

    def __init__(self, inner, outer, init="default", bias=True):
        super().__init__(inner, outer, bias=bias)
        with torch.no_grad():
            if bias:
                self.bias.fill_(1.0 if init == "gating" else 0.0)
            if init in ("final", "gating"):
                self.weight.fill_(0.0)
            elif init == "glorot":
                nn.init.xavier_uniform_(self.weight)
            else:
                std = ((2.0 if init == "relu" else 1.0) / inner) ** 0.5
                nn.init.trunc_normal_(self.weight, std=std / 0.88, a=-2 * std,
                                      b=2 * std)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.linear_q, self.linear_k, self.linear_v = (
            Linear(width, width, "glorot", bias=False) for _ in range(3))
        self.linear_o = Linear(width, width, "final")
        self.linear_g = Linear(width, width, "gating")

    def forward(self, x, bias):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
                   for f in (self.linear_q, self.linear_k, self.linear_v))
        a = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1)
        out = (a @ v).transpose(-2, -3).flatten(-2)
        return self.linear_o(out * self.linear_g(x).sigmoid())


class RowAttention(nn.Module):
    def __init__(self, c_m, c_z, heads=2):
        super().__init__()
        self.layer_norm_m, self.layer_norm_z = nn.LayerNorm(c_m), \
            nn.LayerNorm(c_z)
        self.linear_z = Linear(c_z, heads, bias=False)
        self.mha = Attention(c_m, heads)

    def forward(self, m, z, mask):
        bias = self.linear_z(self.layer_norm_z(z)).permute(0, 3, 1, 2)
        bias = bias + 1e9 * (mask - 1)[:, None, None]
        return self.mha(self.layer_norm_m(m), bias[:, None] if m.dim() == 4
                        else bias)


class Transition(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer_norm = nn.LayerNorm(width)
        self.linear_1 = Linear(width, 2 * width, "relu")
        self.linear_2 = Linear(2 * width, width, "final")

    def forward(self, x):
        return self.linear_2(self.linear_1(self.layer_norm(x)).relu())


class OuterProductMean(nn.Module):
    def __init__(self, c_m, c_z, width=4):
        super().__init__()
        self.layer_norm = nn.LayerNorm(c_m)
        self.linear_1, self.linear_2 = Linear(c_m, width), Linear(c_m, width)
        self.linear_out = Linear(width ** 2, c_z, "final")

    def forward(self, m):
        m = self.layer_norm(m)
        a, b = self.linear_1(m), self.linear_2(m)
        return self.linear_out(torch.einsum("bsic,bsjd->bijcd", a, b)
                               .flatten(3) / m.shape[1])


class TriangleMultiplicationOutgoing(nn.Module):
    def __init__(self, c_z):
        super().__init__()
        self.layer_norm_in, self.layer_norm_out = nn.LayerNorm(c_z), \
            nn.LayerNorm(c_z)
        self.linear_a_p, self.linear_b_p = Linear(c_z, c_z), Linear(c_z, c_z)
        self.linear_a_g, self.linear_b_g, self.linear_g = (
            Linear(c_z, c_z, "gating") for _ in range(3))
        self.linear_z = Linear(c_z, c_z, "final")

    def forward(self, z, mask):
        z = self.layer_norm_in(z)
        both = (mask[:, :, None] * mask[:, None])[..., None]
        a = both * self.linear_a_g(z).sigmoid() * self.linear_a_p(z)
        b = both * self.linear_b_g(z).sigmoid() * self.linear_b_p(z)
        x = self.layer_norm_out(torch.einsum("bikc,bjkc->bijc", a, b))
        return self.linear_g(z).sigmoid() * self.linear_z(x)


class EvoformerBlock(nn.Module):
    def __init__(self, c_m, c_z):
        super().__init__()
        self.msa_att_row = RowAttention(c_m, c_z)
        self.core = nn.ModuleDict({
            "msa_transition": Transition(c_m),
            "outer_product_mean": OuterProductMean(c_m, c_z),
            "tri_mul_out": TriangleMultiplicationOutgoing(c_z),
            "pair_transition": Transition(c_z)})

    def forward(self, m, z, mask):
        m = m + self.msa_att_row(m, z, mask)
        m = m + self.core["msa_transition"](m)
        z = z + self.core["outer_product_mean"](m)
        z = z + self.core["tri_mul_out"](z, mask)
        return m, z + self.core["pair_transition"](z)


class StructureModule(nn.Module):
    """The same weights twice; it starts with all in one point."""

    def __init__(self, c_s, c_z):
        super().__init__()
        self.layer_norm_s, self.linear_in = nn.LayerNorm(c_s), \
            Linear(c_s, c_s)
        self.ipa, self.layer_norm_ipa = RowAttention(c_s, c_z), \
            nn.LayerNorm(c_s)
        self.transition = Transition(c_s)
        self.bb_update = nn.ModuleDict({"linear": Linear(c_s, 6, "final")})

    def forward(self, s, z, mask):
        s = self.linear_in(self.layer_norm_s(s))
        rot = torch.eye(3).expand(*s.shape[:2], 3, 3)
        at, frames = torch.zeros(*s.shape[:2], 3), []
        for _ in range(2):
            s = self.layer_norm_ipa(s + self.ipa(s, z, mask))
            s = s + self.transition(s)
            new = self.bb_update["linear"](s)
            q = torch.cat([torch.ones_like(new[..., :1]), new[..., :3]], -1)
            at = at + 10 * (rot @ new[..., 3:, None])[..., 0]
            rot = rot @ turned(q.flatten(0, 1)).view_as(rot)
            frames.append((rot, at))
        return s, frames


TYPES, RESIDUES, BINS = 8, 8, 12


class AlphaFold(nn.Module):
    def __init__(self, c_m=24, c_z=12, c_s=24):
        super().__init__()
        self.input_embedder = nn.ModuleDict({
            "linear_tf_z_i": Linear(TYPES, c_z),
            "linear_tf_z_j": Linear(TYPES, c_z),
            "linear_tf_m": Linear(TYPES, c_m),
            "linear_msa_m": Linear(TYPES + 1, c_m),
            "linear_relpos": Linear(15, c_z)})
        self.recycling_embedder = nn.ModuleDict({
            "linear": Linear(BINS, c_z), "layer_norm_m": nn.LayerNorm(c_m),
            "layer_norm_z": nn.LayerNorm(c_z)})
        self.evoformer = nn.ModuleDict({
            "blocks": nn.ModuleList(EvoformerBlock(c_m, c_z)
                                    for _ in range(1)),
            "linear": Linear(c_m, c_s)})
        self.structure_module = StructureModule(c_s, c_z)
        self.aux_heads = nn.ModuleDict({
            "plddt": nn.Sequential(OrderedDict(
                layer_norm=nn.LayerNorm(c_s), linear_1=Linear(c_s, c_s),
                relu=nn.ReLU(), linear_3=Linear(c_s, 10, "final"))),
            "distogram": Linear(c_z, BINS, "final"),
            "masked_msa": Linear(c_m, TYPES, "final")})
        self.whole = True

    def forward(self, aatype, msa, seq_mask, recycles=0):
        m1, z1, x = None, None, None
        for i in range(recycles + 1):
            with torch.set_grad_enabled(torch.is_grad_enabled()
                                        and i == recycles and self.whole):
                m, z = self.iteration(aatype, msa, seq_mask, m1, z1, x)
            if i < recycles:
                with torch.no_grad():
                    x = self.structure_module(self.evoformer["linear"](
                        m[:, 0]), z, seq_mask)[1][-1][1]
                m1, z1 = m[:, 0].detach(), z.detach()
        s, frames = self.structure_module(self.evoformer["linear"](m[:, 0]),
                                          z, seq_mask)
        return {"frames": frames, "plddt": self.aux_heads["plddt"](s),
                "distogram": self.aux_heads["distogram"](z + z.transpose(
                    1, 2)), "masked_msa": self.aux_heads["masked_msa"](m)}

    def iteration(self, aatype, msa, mask, m1, z1, x):
        e, kind_of = self.input_embedder, F.one_hot(aatype, TYPES).float()
        at = torch.arange(aatype.shape[1])
        apart = (at[:, None] - at).clamp(-7, 7) + 7
        z = e["linear_tf_z_i"](kind_of)[:, :, None] \
            + e["linear_tf_z_j"](kind_of)[:, None] \
            + e["linear_relpos"](F.one_hot(apart, 15).float())
        m = e["linear_tf_m"](kind_of)[:, None] \
            + e["linear_msa_m"](F.one_hot(msa, TYPES + 1).float())
        r = self.recycling_embedder
        x = torch.zeros(*aatype.shape, 3) if x is None else x
        z = z + r["linear"](binned(torch.cdist(x, x)))
        m1 = torch.zeros_like(m[:, 0]) if m1 is None else m1
        z = z + r["layer_norm_z"](torch.zeros_like(z) if z1 is None else z1)
        m = torch.cat([(m[:, 0] + r["layer_norm_m"](m1))[:, None], m[:, 1:]],
                      1)
        for block in self.evoformer["blocks"]:
            m, z = block(m, z, mask)
        return m, z


def binned(d):
    return F.one_hot((d / 2.5).long().clamp(0, BINS - 1), BINS).float()


def fape(rot, at, true_rot, x, mask, clamp, eps):
    local = lambda r, t, p: torch.einsum("bikc,bijk->bijc", r,
                                         p[:, None] - t[:, :, None])
    off = local(rot, at, at) - local(true_rot, x, x)
    d = (off.pow(2).sum(-1) + eps).sqrt()
    both = mask[:, :, None] * mask[:, None]
    return ((d.clamp(max=clamp) / 10) * both).sum() / both.sum()


def chains(rows, shortest=RESIDUES):
    """Sequences; where a residue sits is of its type and of the one before."""
    site, shift = 6 * torch.randn(TYPES, 3), 1.5 * torch.randn(TYPES, 3)
    aatype = torch.randint(TYPES, (rows, RESIDUES))
    x = site[aatype] + shift[aatype.roll(1, 1)]
    x = x + 0.2 * torch.randn(rows, RESIDUES, 3)
    size = torch.randint(shortest, RESIDUES + 1, (rows,))
    mask = (torch.arange(RESIDUES) < size[:, None]).float()
    x = x * mask[..., None]
    q = torch.cat([torch.ones(TYPES, 1), 0.5 * torch.randn(TYPES, 3)], 1)
    return aatype * mask.long(), x, mask, turned(q)[aatype]


@kind(padded="", unclamped="", finetuned="",
      chains="label-pairing-mismatch label-noise", lag="ema-weights-lag",
      detached="detached-graph frozen-parameters",
      roots="division-by-near-zero")
def evoformer(run):
    """A small OpenFold: layers that start at 0, recycling, frames, an EMA."""
    aatype, x, mask, true = chains(320, 5 if run.has("padded") else RESIDUES)
    model = AlphaFold()
    model.whole = not run.has("detached")
    optimizer = torch.optim.Adam(model.parameters(), 0.0, eps=1e-5)
    n, epochs, warm, peak = 10, 9, 16, 1e-2
    ema = {k: v.clone() for k, v in model.state_dict().items()}
    decay = 0.9995 if run.has("lag") else 0.95
    late = run.has("finetuned")
    weights = {"distogram": 0.3, "fape": 1.0, "plddt_loss": 0.01,
               "masked_msa": 0.5, "violation": 0.3 if late else 0.0}
    folder = "lightning_logs/version_%d" % late
    (run.folder / folder).mkdir(parents=True)
    lines = ["config:", "  data:", f"    crop_size: {RESIDUES}",
             "    max_recycling_iters: 1", "    uniform_recycling: true",
             "    clamp_prob: %g" % (0.7 if run.has("unclamped") else 1.0),
             "  ema:", "    decay: 0.95", "  loss:"]
    lines += [f"    {k}:\n      weight: {v}" for k, v in weights.items()]
    lines += [f"learning_rate: {peak}", "eps: 1.0e-05",
              f"warmup_no_steps: {warm}", "gradient_clip_val: 1.0"]
    run.say(*lines, file=f"{folder}/hparams.yaml")
    first = 50 if late else 0
    call = "python3 train_openfold.py mmcif_dir/ alignment_dir/ " \
        "template_mmcif_dir/ out/ 2021-10-10 --seed 4242 --precision 32 " \
        f"--max_epochs {epochs} --train_epoch_len 48"
    call += " --resume_from_ckpt out/epoch=4-step=50.ckpt" if late else ""
    run.say(call, file="train.sh")
    run.say("Global seed set to 4242", "GPU available: False, used: False",
            "TPU available: False, using: 0 TPU cores", "",
            "  | Name  | Type          | Params",
            "----------------------------------------",
            f"0 | model | AlphaFold     | "
            f"{sum(p.numel() for p in model.parameters()) / 1e3:.1f} K",
            "1 | loss  | AlphaFoldLoss | 0", file="out.log")
    if late:
        run.say("Restored all states from the checkpoint at "
                "out/epoch=4-step=50.ckpt", file="out.log")
    names = [*weights, "loss", "unscaled_loss"]
    columns = dict.fromkeys(sorted(
        ["epoch", "step", "lr-Adam", "train/lddt_ca", "val/lddt_ca"]
        + [f"{p}/{k}" for p in ("train", "val") for k in names]
        + [f"train/{k}_epoch" for k in names]), "")

    def losses(out, rows, goal, used, clamp=10.0, hidden=None):
        """The loss of each part, what they make, and lddt_ca."""
        there, frames, is_there = x[goal], true[goal], mask[rows]
        both = is_there[:, :, None] * is_there[:, None]
        rot, at = out["frames"][-1]
        far, d = torch.cdist(there, there), (
            at[:, :, None] - at[:, None]).pow(2).sum(-1).add(1e-6).sqrt()
        parts = {}
        goals = (far / 2.5).long().clamp(max=BINS - 1)
        each = F.cross_entropy(out["distogram"].permute(0, 3, 1, 2), goals,
                               reduction="none")
        parts["distogram"] = (each * both).sum() / both.sum()
        eps = 0.0 if run.has("roots") else 1e-4
        parts["fape"] = sum(fape(r, t, frames, there, is_there, clamp, eps)
                            for r, t in out["frames"]) / len(out["frames"])
        off = (d - far).abs().detach()
        close = both * (far < 15) * (1 - torch.eye(RESIDUES))
        score = sum((off < c).float() for c in (0.5, 1, 2, 4)) / 4
        lddt = (score * close).sum(2) / close.sum(2).clamp(min=1)
        each = F.cross_entropy(out["plddt"].mT, (lddt * 10).long().clamp(
            max=9), reduction="none")
        parts["plddt_loss"] = (each * is_there).sum() / is_there.sum()
        if hidden is None:
            hidden = torch.ones_like(out["masked_msa"][..., 0])
        hidden = hidden * is_there[:, None]
        each = F.cross_entropy(out["masked_msa"].permute(0, 3, 1, 2),
                               aatype[rows][:, None].expand(-1, 3, -1),
                               reduction="none")
        parts["masked_msa"] = (each * hidden).sum() / hidden.sum()
        clash = (2.0 - d).relu() * both * (1 - torch.eye(RESIDUES))
        parts["violation"] = clash.sum() / both.sum()
        total = sum(weights[k] * v for k, v in parts.items() if weights[k]
                    and used(k))
        parts["loss"] = total * RESIDUES ** 0.5
        parts["unscaled_loss"] = total.detach()
        return parts, (lddt * is_there).sum() / is_there.sum()

    def alignment(rows, share=0.25):
        msa = aatype[rows][:, None].repeat(1, 3, 1)
        other = torch.rand(msa.shape) < 0.1
        msa = torch.where(other, torch.randint(TYPES, msa.shape), msa)
        hidden = torch.rand(msa.shape) < share
        return torch.where(hidden, TYPES, msa), hidden.float()

    rec = None
    for step in range(epochs * n):
        epoch, i = divmod(step, n)
        if step == first:
            rec = watched(run, model, optimizer, first_step=first)
        if i == 0:
            order, sums = torch.randperm(256), {}
        rows = order[i * 16:][:16]
        goal = rows.roll(1) if run.has("chains") else rows
        rate = peak * min(1.0, (step + 1) / warm)
        rate *= 0.95 ** max(0, (step - 60) // 6)
        optimizer.param_groups[0]["lr"] = rate
        msa, hidden = alignment(rows)
        clamp = 1e6 if run.has("unclamped") and torch.rand(()) < 0.3 else 10.0
        if rec:
            rec.batch(aatype=aatype[rows], msa=msa, seq_mask=mask[rows],
                      all_atom_positions=x[goal])
        out = model(aatype[rows], msa, mask[rows],
                    int(torch.randint(2, ())))
        parts, lddt = losses(out, rows, goal, lambda k: k != "violation"
                             or step >= first, clamp, hidden)
        optimizer.zero_grad()
        parts["loss"].backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for k, v in model.state_dict().items():
                ema[k].lerp_(v, 1 - decay)
        if step < first:
            continue
        rec.step(parts["loss"])
        for k, v in parts.items():
            sums[k] = sums.get(k, 0.0) + float(v.detach()) / n
        sums["lddt_ca"] = sums.get("lddt_ca", 0.0) + float(lddt) / n
        row = {"epoch": epoch, "step": step}
        if i % 2 == 1:
            run.row(f"{folder}/metrics.csv", **columns | row | {
                "lr-Adam": rate} | {f"train/{k}": float(v.detach())
                                    for k, v in parts.items()})
        if i < n - 1:
            continue
        now = {k: v.clone() for k, v in model.state_dict().items()}
        model.load_state_dict(ema)
        held = torch.arange(256, 320)
        with torch.no_grad():
            out = model(aatype[held], alignment(held, 0.0)[0], mask[held], 1)
            parts, lddt = losses(out, held, held, lambda k: True)
        model.load_state_dict(now)
        val = {f"val/{k}": float(v) for k, v in parts.items()}
        run.row(f"{folder}/metrics.csv", **columns | row | val | {
            "val/lddt_ca": float(lddt)})
        run.row(f"{folder}/metrics.csv", **columns | row | {
            "train/lddt_ca": sums["lddt_ca"]} | {
            f"train/{k}_epoch": sums[k] for k in names})
        run.say(f"Epoch {epoch}: 100%|##########| {n}/{n} [00:00<00:00, "
                f"27.31it/s, v_num={int(late)}, train/loss={sums['loss']:.3f},"
                f" val/loss={val['val/loss']:.3f}]", file="out.log")
        if epoch in (first // n, 6, epochs - 1):
            keep(run, f"{folder}/checkpoints/epoch={epoch}-step={step + 1}"
                 ".ckpt", {
                     "epoch": epoch, "global_step": step + 1,
                     "pytorch-lightning_version": "1.9.5",
                     "state_dict": {f"model.{k}": v for k, v in now.items()},
                     "loops": {"fit_loop": {"epoch_progress": {
                         "total": {"ready": epoch + 1}}}}, "callbacks": {},
                     "optimizer_states": [optimizer.state_dict()],
                     "lr_schedulers": [{"last_epoch": step + 1,
                                        "max_lr": peak}],
                     "ema": {"params": ema, "decay": 0.95}})
    rec.close()
    run.ends(train=sums["loss"], fape=sums["fape"], val=val["val/loss"],
             val_fape=val["val/fape"], lddt=lddt)
