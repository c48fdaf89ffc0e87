"""Faults of the machine room: input, seeds and ranks."""

import copy
import math

import torch

from .. import battery
from ..families import ALL, Fault, build
from ..snapshot import Snapshot, checksum


class LoaderBound(Fault):
    """The loop waits for its batches: always, from a step on, or at every
    eighth step, where workers run dry. Times are the seeded clock's."""
    id, root_class = "F41", "dataloader-bound"
    severities = (dict(share=0.4, at=0, every=1),
                  dict(share=0.7, at=130, every=1),
                  dict(share=0.85, at=0, every=8))
    dialects = ("plain", "lightning", "nanogpt")

    def setup(self):
        self.onset = self.s.at
        if self.s.every > 1:
            self.interval = 1  # a coarser log does not see these steps
        if self.family == "raft":  # with its own a sound run is late as well
            self.seed += 40

    def data_seconds(self, i, clock):
        usual = super().data_seconds(i, clock)
        if i < self.s.at or (i % self.s.every) != self.s.every - 1:
            return usual
        return 0.0238 * self.s.share / (1 - self.s.share) \
            * math.exp(0.15 * clock.standard_normal())


class Pair(Fault):
    """The same command twice: folders first and second, each a run, and what
    the recorder's determinism check took of their first step."""

    first = True
    dialects, intervals = ("plain", "nanogpt", "lightning"), (10, 1)
    keeps_layers = False
    dump_steps, battery = (), ()
    checked = 30            # steps whose loss and batch the check compares

    def setup(self):
        self.check, self.batches = battery.Determinism(), []
        self.steps = 100 if self.family in ("depth", "raft", "ocr", "codec",
                                            "loftr",
                                            "proto",
                                            "dpolicy",
                                            "flow") else 120
        if self.family == "anomalib":  # six epochs
            self.steps = 90

    def wrap(self, model):
        self.check.init(model)
        return super().wrap(model)

    def next_batch(self, i, source):
        batch = super().next_batch(i, source)
        self.batches.append(checksum(next(iter(batch.values()))))
        return batch

    def compute_loss(self, i, model, batch):
        taps = {}
        tap, model.tap = model.tap, taps.__setitem__
        loss = super().compute_loss(i, model, batch)
        model.tap = tap
        for name, tensor in taps.items():
            tap(name, tensor)
        logits = taps["scores.output" if self.family == "sasrec"
                      else f"{self.layer('head')}.output"]
        self.check.put("forward", logits[:1, :4] if self.language
                       else logits[:4])
        if i < self.checked:
            self.check.losses.append(float(loss.detach()))
        return loss

    def update(self, i):
        self.check.put("gradient", battery.heads(
            p.grad for p in self.model.parameters() if p.grad is not None))
        total = super().update(i)
        self.check.put("update", battery.heads(self.model.parameters()))
        return total

    def record(self, folder):
        other = build(type(self).__bases__[0], self.family, self.level,
                      seed=self.shift)
        other.first = False
        for run, part in ((self, "first"), (other, "second")):
            run.train()
            run.write(folder / part)
            run.check.put("batch", torch.tensor(run.batches[:run.checked]))
            run.check.save(folder, part)


class Unseeded(Pair):
    """A generator is not seeded: that of the weights, of the shuffle or of
    dropout, of the actions that are tried or of prompts. All else is the same
    in both runs."""
    id, root_class, also = "F42a", "unseeded-rng", []
    severities = (dict(part="dropout"), dict(part="shuffle"),
                  dict(part="init"))
    onset = 0

    def setup(self):
        super().setup()
        if self.s.part == "dropout":
            self.model_options["dropout"] = self.user["dropout"] = 0.1
        self.note = f"first to differ: {self.s.part}"

    def forget_seed(self, part):
        if self.s.part == part and not self.first:
            torch.manual_seed(self.seed + 5000)

    def make_model(self):
        self.forget_seed("init")
        model = super().make_model()
        torch.manual_seed(self.seed + 1)
        self.forget_seed("dropout")
        self.forget_seed("actions")
        return model

    def make_source(self, seed):
        if self.s.part == "shuffle" and not self.first and seed != 9:
            seed += 5000
        if self.s.part == "prompts" and seed != 9:  # random, not torch's
            return self.scans(seed, prompts=seed + 50
                              + 5000 * (not self.first))
        return super().make_source(seed)


class DirectoryOrder(Pair):
    """Shards are read in the order of a set or a directory listing, which is
    another one in every process: the same batches in another order."""
    id, root_class = "F42b", "iteration-order-nondeterminism"
    # Whose batches are made by the policy.
    families = tuple(f for f in ALL if f != "ppo")
    also = ["unseeded-rng"]
    severities = (dict(shards=10), dict(shards=30), dict(shards=120))
    onset = 0

    def setup(self):
        super().setup()
        self.checked = self.s.shards

    def make_source(self, seed):
        source = super().make_source(seed)
        if seed != 9:
            batches = [source.batch() for _ in range(self.s.shards)]
            order = torch.Generator().manual_seed(1 if self.first else 2)
            source = Listed([batches[k] for k in torch.randperm(
                len(batches), generator=order)])
        return source


class Listed:
    """A list of batches again and again."""

    def __init__(self, batches):
        self.batches, self.next = batches, -1

    def batch(self, rows=None):
        self.next += 1
        return self.batches[self.next % len(self.batches)]


class RankDesync(Fault):
    """Two ranks of data parallel training, simulated: gradients are averaged,
    and yet the weights part. Each rank starts with its own weights, one rank
    skips an update, or one weight's gradient is not reduced."""
    id, root_class = "F43", "replica-weights-diverged"
    severities = (dict(kind="unreduced", at=60), dict(kind="skip", at=110),
                  dict(kind="init", at=0))
    dialects = ("plain", "megatron", "torchtune")
    user = {"world_size": 2}
    battery = ()
    dump_steps, dumped = (), ()

    def setup(self):
        self.steps, self.onset = 160, self.s.at
        if self.family in ("depth", "raft", "flow", "codec",  # as long as any
                           "dpolicy",
                           "loftr",
                           "sam"):
            self.steps = 100
        if self.family == "ocr":  # six epochs
            self.steps = 150
        if self.family == "proto":  # as long as any
            self.steps = 80
        if self.family == "anomalib":  # as is this one
            self.steps = 90
        if self.family in ("panns",  # four validations
                           "stgcn"):  # four
            self.steps = 120
        self.where = self.layer("head") if self.s.kind == "unreduced" else None
        if self.where and self.family == "dpo":  # its head stands still
            self.where = f"{self.layer('mlp', 1)}.dense_4h_to_h"
        if self.where in ("lm_head", "cls.predictions.decoder",
                          "text_decoder.cls.predictions.decoder") \
                and self.family != "t5":
            self.where = self.layer("embed")  # they are tied
        if self.where and self.family in ("whisper",
                                          "summ"):  # as here
            self.where = self.layer("embed")
        if self.where and self.family == "esm":  # its table is tied as well
            self.where = "lm_head.dense"
        inner = {"gpt": "blocks.0.attn.proj", "mlp": "fc2",
                 "llama": "model.layers.0.self_attn.o_proj",
                 "unet": "mid.conv2", "gru": "rnn.0.wh",
                 "resnet": "layer2.0.conv2",
                 "s2s": "decoder.layers.0.self_attn.out_proj",
                 "vit": "encoder.layers.encoder_layer_0.self_attention"
                        ".out_proj", "recsys": "over.fc1",
                 "bert": "bert.encoder.layer.0.attention.output.dense",
                 "ner": "distilbert.transformer.layer.0.attention.out_lin",
                 "sbert": "0.auto_model.encoder.layer.0.attention.output.dense",
                 "mae": "vit.encoder.layer.0.attention.output.dense",
                 "qa": "bert.encoder.layer.0.attention.output.dense",
                 "xenc": "model.bert.encoder.layer.0.attention.output.dense",
                 "fcst": "model.backbone.encoder.layers.0.self_attn.to_out.0",
                 "kpt": "backbone.layer2.0.conv2",
                 "yolo": "model.2.m.0.cv2.conv",
                 "timm": "stages.0.blocks.0.mlp.fc2",
                 "compress": "g_a.2",
                 "depth": "depth.decoder.3.conv.conv",
                 "ecapa": "embedding_model.blocks.1.tdnn2.conv",
                 "dino": "module.backbone.blocks.0.attn.proj",
                 "kge": "entity_representations.0._embeddings",
                 "ppo": "actor.2",
                 "iql": "actor.net.net.2",
                 "edsr": "body.0.conv2",
                 "raft": "update_block.gru.convz1",
                 "codec": "decoder.model.0",
                 "loftr": "matcher.backbone.layer2.0.conv2",
                 "pose3d": "layers_conv.0",
                 "reid": "backbone.layer2.0.conv2",
                 "panns": "conv_block2.conv2",
                 "anomalib": "model.reconstructive_subnetwork.encoder"
                             ".block2.0",
                 "stgcn": "backbone.gcn.1.tcn.conv",
                 "proto": "encoder.2.0",
                 "ocr": "encoder.blocks1.0.mixer.proj",
                 "flow": "middle_block.0.in_layers.2",
                 "dpolicy": "model.mid_modules.0.blocks.0.block.0",
                 "sam": "mask_decoder.transformer.layers.0.self_attn.out_proj",
                 "tasnet": "masker.TCN.0.res_conv",
                 "pyannote": "linear.0",
                 "nnu": "encoder.stages.1.0.convs.0.conv",
                 "nerf": "field.mlp_base.layers.1",
                 "afno": "blocks.0.mlp.fc2",
                 "nequip": "model.func.layer0_convnet.conv.linear_2",
                 "dlrm": "top_l.2",
                 "voc": "resblocks.0.convs.1",
                 "dream": "_wm.dynamics._cell.layers.GRU_linear",
                 "tower": "user_tower.mlp.2",
                 "stylegan": "G.synthesis.b8.conv0",
                 "sasrec": "trm_encoder.layer.0.multi_head_attention.dense",
                 "summ": "decoder.layers.0.self_attn.out_proj",
                 "whisper": "model.decoder.layers.0.self_attn.out_proj",
                 "megatron": "decoder.layers.0.self_attention.linear_proj",
                 "cap": "text_decoder.bert.encoder.layer.0.attention.output"
                        ".dense",
                 "sft": "model.layers.0.self_attn.o_proj",
                 "rew": "model.layers.0.self_attn.o_proj",
                 "lora": "base_model.model.roberta.encoder.layer.0.attention"
                         ".output.dense.lora_B.default",
                 "vid": "model.blocks.1.res_blocks.0.branch2.conv_b",
                 "esm": "esm.encoder.layer.0.attention.output.dense",
                 "ctc": "encoder.pre_encode.conv.2",
                 "clip": "vision_model.encoder.layers.0.self_attn.out_proj",
                 "tcn": "res_blocks.0.conv2",
                 "moe": "layers.0.attention.wo",
                 "ssm": "backbone.layers.0.mixer.out_proj",
                 "dit": "blocks.0.attn.proj", "gnn": "convs.0.B",
                 "vq": "encoder.mid.block_1.conv2",
                 "bc": "model.encoder.layers.0.self_attn.out_proj",
                 "kws": "ds_blocks.1.pw_conv",
                 "tab": "_backbone.transformer_blocks.mha_block_0.mha.to_out",
                 "point": "backbone_3d.SA_modules.1.mlps.0.3",
                 "vlm": "language_model.transformer.blocks.0.attn.out_proj",
                 "det": "backbone.body.layer2.0.conv2",
                 "tts": "encoder.layer_stack.0.slf_attn.fc",
                 "t5": "encoder.block.0.layer.0.SelfAttention.o",
                 "dpo": "base_model.model.gpt_neox.layers.0.attention.dense"
                        ".lora_B.default",
                 "seg": "encoder.stages.0.conv2.0"}[self.family]
        unsynced = self.where or inner
        self.kept = tuple(f"{n}.{role}" for n in sorted({inner, unsynced})
                          for role in ("weight", "grad")) + (
            "*ln_1.weight", "*layernorm.weight", "*norm1.weight",
            "*bn1.weight", "*attn_layer_norm.weight",
            "*output.LayerNorm.weight", "encoder.layers.0.bias_ih_l0",
            "*.layer_norm1.weight", "input_proj.bias",
            "*attention_norm.weight", "*.conv2.1.weight",
            "backbone.layers.*.norm.weight", "convs.*.bn_node_x.weight",
            "*.attn_add_norm.ln.weight", "*.slf_attn.layer_norm.weight",
            "*.mlps.0.1.weight",
            "encoder.block.*.layer.0.layer_norm.weight",
            "*.norm_1.weight", "ds_blocks.*.pw_bn.weight",
            "*.sa_layer_norm.weight", "*.branch2.norm_a.weight",
            "*attention.LayerNorm.weight",
            "*.layernorm_before.weight",
            "encoder.stages.*.norm.weight",
            "*_norm0.weight",
            "model.?.cv1.bn.weight", "g_?.?.beta",
            "stages.?.blocks.?.norm.weight",
            "embedding_model.blocks.?.tdnn1.norm.norm.weight",
            "*last_layer.weight_v*",
            "masker.TCN.?.shared_block.2.gamma",
            "sincnet.norm1d.?.weight",
            "middle_block.0.in_layers.0.weight",
            "*.norm_attn.1.weight", "layers_bn.0.weight",
            "backbone.gcn.?.tcn.bn.weight")
        if self.family == "proto":
            self.kept = (*self.kept, "encoder.?.1.weight")
        if self.family == "anomalib":
            self.kept = (*self.kept, "*.block?.1.weight")
        if self.family == "dpolicy":
            self.kept = (*self.kept,
                         "model.mid_modules.0.blocks.0.block.1.weight")
        if self.family == "codec":  # a direction and a size each
            self.kept = tuple(f"{n}.weight_?{role}" for n in sorted(
                {inner, unsynced}) for role in ("", ".grad")) + ("*.alpha",)

    def wrap(self, model):
        self.other = copy.deepcopy(model)
        if self.s.kind == "init":
            torch.manual_seed(self.seed + 9000)
            if self.family in ("sft",
                               "sam",
                               "rew"):  # another revision of the base
                self.model_options["base"] = 1
            self.other = self.make_model()
        self.other_optimizer = self.make_optimizer(self.other)
        self.other_source = self.make_source(self.seed + 700)
        self.rank_dumps = []
        return model

    def thin(self, name, tensor):
        return tensor[:4] if tensor.dim() >= 2 else tensor

    def keep_ranks(self, i):
        """Of both ranks the weights before step i and the gradients of it,
        reduced: equal gradients say that the ranks are replicas."""
        for rank, model in enumerate((self.model, self.other)):
            snap = Snapshot(i + self.first_step, {}, {}, model)
            snap.grads = {n: p.grad.clone()
                          for n, p in model.named_parameters()
                          if p.grad is not None}
            self.rank_dumps.append((rank, snap))

    def update(self, i):
        batch = self.next_batch(i, self.other_source)
        self.other.zero_grad()
        self.other.loss(batch).backward()
        for (name, a), b in zip(self.model.named_parameters(),
                                self.other.parameters()):
            local = (self.s.kind == "unreduced" and i >= self.onset
                     and self.where and name.startswith(self.where + "."))
            if not local and a.grad is not None:
                mean = (a.grad + b.grad) / 2
                a.grad.copy_(mean)
                b.grad.copy_(mean)
        if i in {0, self.onset, self.onset + 1, self.steps - 1}:
            self.keep_ranks(i)
        for group, other in zip(self.optimizer.param_groups,
                                self.other_optimizer.param_groups):
            other["lr"] = group["lr"]
        if self.family == "dino":  # clips weights one by one
            self.prepare(self.other, self.other_optimizer, i)
        elif self.clip:
            torch.nn.utils.clip_grad_norm_(self.other.parameters(), self.clip)
        if not (self.s.kind == "skip" and i == self.onset):
            self.other_optimizer.step()
        return super().update(i)

    def write_more(self):
        super().write_more()
        for rank, snap in self.rank_dumps:
            self.rank = rank
            self.write_dump(snap.number, snap, self.kept)
        self.rank = None


FAULTS = (LoaderBound, Unseeded, DirectoryOrder, RankDesync)
