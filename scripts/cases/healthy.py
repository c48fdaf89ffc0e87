"""Healthy controls: runs with something about them that looks like a fault."""

import copy
import json
import math

import numpy as np
import torch
from torch.nn import functional as F

from . import gnn as graphs
from . import sources
from . import tts as speech
from .compress import LAMBDA
from .families import ALL, ATTENTION, FIRST, LABELLED, LANGUAGE, PAIR_2, \
    PAIR_3, PAIR_4, PAIR_5, PAIR_6, PAIR_7, PAIR_10, PAIR_14, \
    Fault, build
from .faults.data import FiniteRun, PackedRun, whole
from .faults.targets import ChatRun, Dumps, cross_entropy, shape


class Control(Dumps, Fault):
    """A run with nothing wrong."""
    onset = None

    def setup(self):
        self.watch()


class Plain(Control):
    """Nothing unusual."""
    id, severities = "H01", (dict(), dict(), dict())


class SmallerRate(Control):
    """A third or a tenth of the learning rate: slower, and still learning."""
    id, severities = "H02", (dict(factor=1 / 3), dict(factor=0.1))

    def setup(self):
        super().setup()
        if self.family == "tab":  # at a tenth it has learned little by the end
            self.severity = dict(factor=(1 / 2, 1 / 3)[self.level])
        if self.family == "ner":  # nor has this one, at a third
            self.severity = dict(factor=(0.7, 0.5)[self.level])
        if self.family == "kws":  # nor has this one
            self.severity = dict(factor=(1 / 2, 1 / 3)[self.level])
        self.lr *= self.s.factor


class SmallBatch(Control):
    """A quarter of the batch and half of the rate, or 2 rows: noisy losses and
    gradients."""
    id, severities = "H03", (dict(part=4, factor=0.5),
                             dict(part=8, factor=0.25))
    # Which is to have learned, and has not of so few pictures.
    families = tuple(f for f in ALL if f != "compress")

    def setup(self):
        super().setup()
        if self.family in ("ecapa",  # norms and margins want some speakers
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "dpolicy",
                           "proto",
                           "ppo",
                           "codec",
                           "pose3d",
                           "ocr",
                           "sam",
                           "pyannote",
                           "tasnet"):  # of too few a pair may be lost
            self.batch_size = self.s.rows
            return
        least, slow = (5, 0.5) if self.family == "s2s" else (2, self.s.factor)
        if self.family == "clip":  # there must be something to choose from
            least = 6
        if self.family == "det":  # a batch norm needs some
            self.severity = dict(part=(2, 4)[self.level], factor=0.5)
            least, slow = 4, 0.5
        if self.family == "point":  # as does a batch of two clouds
            self.severity = dict(part=(2, 4)[self.level], factor=1.0)
            least, slow = 4, 1.0
        if self.family == "ner":  # a quarter and less learn too little
            slow = (1.0, 0.7)[self.level]
            self.severity = dict(part=2, factor=slow)
        if self.family == "kws":  # nor does this norm of batches
            self.severity, slow = dict(part=(2, 3)[self.level], factor=1.0), 1.0
        if self.family == "tab":  # fewer rows are seen, as it is
            self.severity, slow = dict(part=(2, 3)[self.level], factor=1.0), 1.0
        if self.family == "vlm":  # so they do here
            self.severity, slow = dict(part=(2, 4)[self.level], factor=1.0), 1.0
        if self.family == "bc":  # a quarter and less learn too little
            self.severity = dict(part=(2, 3)[self.level], factor=0.5)
            slow = 0.5
        if self.family == "t5":  # an eighth and half the rate learn too little
            self.severity, slow = dict(part=(2, 3)[self.level], factor=1.0), 1.0
        if self.family == "tts":  # an eighth and a quarter learn too little
            self.severity = dict(part=(2, 4)[self.level], factor=0.7)
            slow = 0.7
        self.batch_size = max(least, self.batch_size // self.s.part)
        self.lr *= slow

    def next_batch(self, i, source):
        return source.batch(self.batch_size)


class Dropout(Control):
    """Training loss lies above the one on held-out data."""
    id, severities = "H04", (dict(rate=0.1), dict(rate=0.3))
    # Whose policy would be another one at each update.
    families = tuple(f for f in ALL if f != "ppo")

    def setup(self):
        super().setup()
        if self.family == "vlm":  # .3 slows it down
            self.severity = dict(rate=(0.05, 0.1)[self.level])
        if self.family == "kws":  # it always has .1
            self.severity = dict(rate=(0.2, 0.4)[self.level])
        if self.family == "tab":  # as has this one
            self.severity = dict(rate=(0.2, 0.3)[self.level])
        if self.family in ("bc", "ner"):  # .3 slows them down
            self.severity = dict(rate=(0.05, 0.1)[self.level])
        if self.family == "t5":  # narrow as it is, .1 slows it down
            self.severity = dict(rate=(0.02, 0.05)[self.level])
        self.model_options["dropout"] = self.user["dropout"] = self.s.rate


class NoWeightDecay(Control):
    id, severities = "H05", (dict(),)
    families = (*FIRST, "unet", "resnet", "vit", "bert", "clip", *PAIR_6,
                *PAIR_7, "gnn", "det", "point", "bc", "kws", "ner",
                "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "sft",
                "cap",
                "lora",
                "rew",
                "nnu",
                "yolo",
                "timm",
                "reid",
                "stgcn",
                "ecapa",
                "tower",
                "voc",
                "whisper",
                "megatron",
                "dino",
                "flow",
                "raft",
                "codec",
                "loftr",
                "ocr",
                "sam",
                "summ")

    def setup(self):
        super().setup()
        self.weight_decay = 0.0


class ConstantRate(Control):
    """No decay: the loss stays noisy to the end."""
    id, severities = "H06", (dict(),)
    families = (*LANGUAGE, *PAIR_2, *PAIR_3, *PAIR_4, *PAIR_5, *PAIR_6,
                "dit", "gnn", "det", "tts", "dpo", *PAIR_10,
                "vlm", "vq", "bc", "kws", "ner",
                "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "afno",
                "nequip",
                "kpt",
                "nerf",
                "dlrm",
                "sft",
                "cap",
                "lora",
                "rew",
                "nnu",
                "yolo",
                "timm",
                "reid",
                "stgcn",
                "anomalib",
                "proto",
                "ecapa",
                "tower",
                "voc",
                "stylegan",
                "depth",
                "compress",
                "whisper",
                "megatron",
                "dino",
                "kge",
                "ppo",
                "iql",
                "edsr",
                "flow",
                "dpolicy",
                "raft",
                "codec",
                "loftr",
                "sam",
                "pose3d",
                "ocr",
                "tasnet",
                "pyannote",
                "summ")

    def setup(self):
        super().setup()
        # Whose rate is high ends nowhere at half of it.
        self.schedule = "constant"
        self.lr /= 5 if self.family in ("compress",
                                        "vid") else {"kge": 2.5,
                                                     "codec": 3}.get(
                                            self.family, 2)


class TighterClip(Control):
    """A threshold of 0.5, or of half of the usual one: many steps are
    clipped."""
    id, severities = "H07", (dict(factor=0.5),)

    def setup(self):
        super().setup()
        if self.family == "det":  # half of 1 would slow it down
            self.severity = dict(factor=1.0)
        if self.family == "point":  # half of 10 would clip nothing
            self.severity = dict(factor=0.05)
        if self.family == "vq":  # half of 1 would clip the first steps alone
            self.severity = dict(factor=0.2)
        self.clip = self.s.factor * (self.clip or 1.0)


class NoisyGradients(Control):
    """Gaussian noise on every gradient, as for privacy; it is in the
    config."""
    id, severities = "H08", (dict(scale=0.5),)

    def setup(self):
        super().setup()
        self.user["gradient_noise_multiplier"] = self.s.scale

    def backward(self, i, loss):
        super().backward(i, loss)
        for p in self.model.parameters():
            if p.grad is None:
                continue
            size = p.grad.norm() / p.grad.numel() ** 0.5
            p.grad.add_(torch.randn(p.shape) * size * self.s.scale)


class Curriculum(Control):
    """Half of the run has text without repetition, which is easy; the rest
    steps up in loss. The config announces it."""
    id, severities = "H09", (dict(copy=0.3),)
    families = (*LANGUAGE, "s2s", *PAIR_4, *PAIR_5, *PAIR_6, "dit", "gnn",
                "det", "tts", "dpo", *PAIR_10,
                "vlm", "vq", "bc", "kws", "ner",
                "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "afno",
                "nequip",
                "kpt",
                "dream",
                "nerf",
                "dlrm",
                "sft",
                "cap",
                "lora",
                "rew",
                "nnu",
                "yolo",
                "timm",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "tower",
                "sasrec",
                "voc",
                "stylegan",
                "depth",
                "compress",
                "whisper",
                "megatron",
                "dino",
                "kge",
                "ppo",
                "iql",
                "edsr",
                "flow",
                "dpolicy",
                "raft",
                "loftr",
                "pose3d",
                "ocr",
                "sam",
                "tasnet",
                "pyannote",
                "summ")

    def setup(self):
        super().setup()
        self.change = self.steps // (4 if self.family in ("kge",
                                                     "ocr",
                                                     "flow",
                                                     "iql",
                                                     "pose3d",
                                                     "ppo") else 2)
        self.user["curriculum"] = [
            {"start_step": 0, "source": "text-easy"},
            {"start_step": self.change, "source": "text-hard"}]

    def make_source(self, seed):
        if self.family == "s2s":
            easy, hard = self.sentences(seed, slip=0.0, length=6), \
                self.sentences(seed)
            return hard if seed == 9 else sources.Stages(
                [(0, easy), (self.change, hard)])
        if self.family in (*PAIR_4, *PAIR_5, *PAIR_6, *PAIR_7, "gnn", "det",
                           "tts", "dpo", *PAIR_10, "vlm", "vq", "bc",
                           "kws", "ner", "tab", *PAIR_14, "esm", "mae",
                           "nequip",
                           "fcst",
                           "afno",
                           "kpt",
                           "dream",
                           "nerf",
                           "dlrm",
                           "stylegan",
                           "depth",
                           "compress",
                           "voc",
                           "summ",
                           "whisper",
                           "sft",
                           "cap",
                           "lora",
                           "rew",
                           "nnu",
                           "yolo",
                           "timm",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "ecapa",
                           "dino",
                           "kge",
                           "ppo",
                           "iql",
                           "edsr",
                           "flow",
                           "dpolicy",
                           "raft",
                           "loftr",
                           "pose3d",
                           "ocr",
                           "sam",
                           "tasnet",
                           "pyannote",
                           "tower",
                           "sasrec",
                           "megatron",
                           "qa", "xenc"):
            easy, hard = self.lessons(seed)
        else:
            easy, hard = (sources.Text(seed, shape(self), copy=copy)
                          for copy in (0.0, self.s.copy))
        if seed == 9:
            return hard
        return sources.Stages([(0, easy), (self.change, hard)])


class Pretrained(Control):
    """Starts from a checkpoint: the first loss is far below ln V."""
    id, severities = "H10", (dict(steps=150), dict(steps=300))
    families = tuple(f for f in ALL if f not in (
        "sft",
        "sam",
        "rew",
        "dpo", "vlm"))  # always are

    def setup(self):
        super().setup()
        self.lr, self.warmup = self.lr / 4, 10
        self.user["init_from"] = "checkpoint-base"

    def make_model(self):
        model = super().make_model()
        source = self.make_source(7)
        optimizer = torch.optim.AdamW(model.parameters(), **self.base)
        for _ in range(self.s.steps):
            model.zero_grad()
            model.loss(source.batch()).backward()
            optimizer.step()
        return model


class DeclaredFreeze(Pretrained):
    """A base that is frozen on purpose, and says so in the config: all but
    the last block and the head, or all but the head."""
    id, severities = "H11", (dict(steps=120, keep="block"),
                             dict(steps=120, keep="head"))
    families = tuple(f for f in ALL if f not in (
        "stylegan",))  # whose discriminator is not frozen, and wins

    def setup(self):
        """Of `dpo` and `lora` one block, or some maps, have adapters."""
        if self.family not in ("dpo", "vlm",
                               "sam",
                               "lora",
                               "rew",
                               "sft"):
            super().setup()
            return
        self.watch()
        if self.family in ("vlm",
                           "sam",
                           "rew",
                           "sft"):
            self.severity = dict(keep=self.s.keep)
            return
        maps = ["query", "value"] if self.family == "lora" \
            else ["query_key_value"]
        self.severity = (dict(only=[1]), dict(targets=maps))[self.level]
        self.model_options |= self.severity

    def make_model(self):
        if self.family in ("dpo",
                           "lora"):
            return type(self).__bases__[1].make_model(self)
        model = type(self).__bases__[1].make_model(self) \
            if self.family in ("vlm",
                               "sam",
                               "rew",
                               "sft") else super().make_model()
        kept = {self.layer("head"), *getattr(self, "always_trained", ())}
        if self.s.keep in ("block",
                           "attn"):
            kept.add(self.layer(self.s.keep, self.blocks - 1))
        # A tied head brings the embedding with it.
        self.user["freeze"] = []
        for name, p in model.named_parameters():
            alive = any(f"{name}.".startswith(f"{k}.") for k in kept) or (
                self.model_options.get("tied", True)
                and self.family in ("llama", "bert",
                                    "cap",
                                    "sft",
                                    "whisper",
                                    "summ")
                and name.endswith(("embed_tokens.weight",
                                   "word_embeddings.weight")))
            # What never is trained is not now.
            alive = alive and not name.endswith(("sdp_attn.scale",
                                                     "last_layer.weight_g",
                                                     "bottleneck.0.bias",
                                                     "dfl.conv.weight")) \
                and name != "model.encoder.embed_positions.weight"
            p.requires_grad_(alive)
            if not alive:
                self.user["freeze"].append(name)
        return model


class RateEndsAtZero(Control):
    """The cosine ends early by design: lr is exactly 0 for the last tenth."""
    id, severities = "H12", (dict(share=0.9),)
    families = (*LANGUAGE, "unet", *PAIR_2, *PAIR_3, *PAIR_4, *PAIR_5,
                *PAIR_6, "dit", "gnn", "det", "tts", "dpo", *PAIR_10,
                "vlm", "vq", "bc", "kws", "ner",
                "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "afno",
                "nequip",
                "kpt",
                "dream",
                "nerf",
                "dlrm",
                "sft",
                "cap",
                "lora",
                "rew",
                "nnu",
                "yolo",
                "timm",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "tower",
                "sasrec",
                "voc",
                "stylegan",
                "depth",
                "compress",
                "whisper",
                "megatron",
                "dino",
                "kge",
                "ppo",
                "iql",
                "edsr",
                "flow",
                "dpolicy",
                "raft",
                "codec",
                "loftr",
                "pose3d",
                "ocr",
                "sam",
                "tasnet",
                "pyannote",
                "summ")

    def setup(self):
        super().setup()
        self.schedule = "cosine"
        if self.family == "kge":  # whose rate falls sooner
            self.lr *= 0.75
        self.end = int(self.steps * self.s.share)
        self.user |= {"lr_decay_steps": self.end, "min_lr": 0.0}

    def lr_factor(self, i):
        if i >= self.end:
            return 0.0
        steps, self.steps = self.steps, self.end + 1
        factor = super().lr_factor(i)
        self.steps = steps
        return factor


class Jitter(Control):
    """The same job twice, in fp32 and with bf16 autocast: the curves part by
    rounding alone."""
    id, severities = "H13", (dict(),)
    # Which has no product that is rounded.
    families = tuple(f for f in ALL if f != "kge")
    autocast = False

    def compute_loss(self, i, model, batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            return super().compute_loss(i, model, batch)

    def write_more(self):
        super().write_more()
        other = build(type(self).__bases__[0], self.family, self.level,
                      seed=self.shift)
        other.autocast, other.precision = True, "bf16-mixed"
        other.train()
        keys = ("step", "loss", "grad_norm", "lr", "batch_hash", "val_loss")
        (self.folder / "bf16").mkdir()
        self.write_lines("bf16/metrics.jsonl", (
            json.dumps({k: row[k] for k in keys if k in row})
            for row in other.history))
        self.folder /= "bf16"
        self.write_json("config.json", other.settings())
        self.folder = self.folder.parent


class TwoEpochs(FiniteRun, Control):
    """Two passes over a set that is not small: a little lower in the
    second."""
    id, severities = "H14", (dict(epochs=2),)
    # Which has no set.
    families = tuple(f for f in ALL if f != "ppo")

    def make_source(self, seed):
        source = super().make_source(seed)
        if self.family == "det" and seed != 9:  # its set is smaller
            source = self.scenes(seed)
        if self.family == "tab" and seed != 9:  # as is this one
            source = self.loans(seed, size=self.steps * self.batch_size)
        if self.family == "vid" and seed != 9:
            source = self.drifts(seed)
        if seed == 9 or self.family in ("resnet", "seg"):  # its set is finite
            return source
        batches = -(-self.steps // self.s.epochs)
        self.user |= {"num_train_epochs": self.s.epochs,
                      "dataset_size": batches * self.batch_size}
        return self.finite(whole(source, batches), seed)


class LabelSmoothing(Control):
    """The training loss cannot go below the entropy of the smoothed labels."""
    id, severities = "H15", (dict(share=0.1), dict(share=0.2))
    families = (*LABELLED, "clip")

    def setup(self):
        super().setup()
        if self.family == "timm":  # which always has some
            self.user["smoothing"] = self.s.share
            return
        if self.family == "reid":  # as has this one
            self.model_options["epsilon"] = self.s.share
            return
        self.user["label_smoothing"] = self.s.share

    def compute_loss(self, i, model, batch):
        if self.family in ("timm",  # targets are smoothed already
                           "reid"):
            return super().compute_loss(i, model, batch)
        if self.family == "ctc":  # a uniform class at each frame
            scores = model.logits(batch).float().log_softmax(-1)
            real = torch.arange(scores.shape[1]) < model.frames(
                batch["a_sig_length"])[:, None]
            even = -scores.mean(-1)[real].mean()
            loss = (1 - self.s.share) * model.aligned(scores, batch) \
                + self.s.share * even
        elif self.family in ("seg", "det", "dpo"):
            loss = model.criterion(model.logits(batch), batch, self.s.share)
        elif self.family in ("point", "tab", "vid",
                             "anomalib",
                             "panns",
                             "stgcn",
                             "proto",
                             "yolo",
                             "ecapa",
                             "ocr",
                             "sam",
                             "pyannote",
                             "summ",
                             "sft",
                             "cap",
                             "rew",
                             "dlrm",
                             "xenc"):
            loss = model.criterion(model.logits(batch), batch, self.s.share)
        elif self.family == "nnu":
            loss = model.criterion(model.outputs(batch), batch, self.s.share)
        elif self.family in ("clip", "sbert", "qa",
                             "sasrec",
                             "tower"):
            loss = model.criterion(model.logits(batch), batch,
                                   label_smoothing=self.s.share)
        else:
            loss = cross_entropy(model.logits(batch), batch["labels"],
                                 label_smoothing=self.s.share)
        model.tap("loss.output", loss)
        return loss


class Converged(Control):
    """An easy task is learned in a third of the run: the rest is flat, at the
    entropy of the data."""
    id, severities = "H16", (dict(),)

    def setup(self):
        super().setup()
        self.steps = int(1.5 * self.steps)

    def make_source(self, seed):
        if hasattr(self, "easy"):
            return self.easy(seed)
        return sources.Text(seed, shape(self), copy=0) \
            if self.family in LANGUAGE else super().make_source(seed)


class AnswersOnly(ChatRun, Control):
    """Fine-tuning whose mask is right: most labels are ignored."""
    id, severities, families = "H17", (dict(),), (*LANGUAGE, "moe")
    setup = ChatRun.setup

    def make_source(self, seed):
        """Of `moe`, whose answers alone are trained anyway, not packed."""
        return self.instructions(seed, pack=False) \
            if self.family == "moe" else super().make_source(seed)

    def model_settings(self):
        settings = super().model_settings()
        return settings | ({"packing": False} if self.family == "moe" else {})


class PackedApart(PackedRun, Control):
    """Packed documents that do not see each other."""
    id, severities, families = "H18", (dict(probs=False),
                                       dict(probs=True)), \
        (*ATTENTION, "moe",
         "megatron",
         "sft")

    def setup(self):
        self.probs = self.s.probs
        PackedRun.setup(self)


class MixedDomains(Control):
    """Three domains, shuffled."""
    id, severities, families = "H19", (dict(),), (*LANGUAGE, "s2s", "ctc",
                                                  "dit", "det", "tts",
                                                  *PAIR_10, "vlm", "vq",
                                                  "bc", "kws", "ner",
                "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "afno",
                "nequip",
                "kpt",
                "dream",
                "nerf",
                "dlrm",
                "sft",
                "cap",
                "lora",
                "rew",
                "nnu",
                "yolo",
                "timm",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "tower",
                "sasrec",
                "voc",
                "stylegan",
                "depth",
                "compress",
                "whisper",
                "megatron",
                "dino",
                "kge",
                "ppo",
                "iql",
                "edsr",
                "flow",
                "dpolicy",
                "raft",
                "codec",
                "loftr",
                "pose3d",
                "ocr",
                "sam",
                "tasnet",
                "pyannote",
                "summ")

    def make_source(self, seed):
        if self.family == "dream":
            return self.replay(seed, boats=True)
        if self.family == "yolo":
            return self.yard(seed, cameras=True)
        if self.family == "timm":
            return self.signs(seed, cameras=True)
        if self.family == "ecapa":
            return self.recordings(seed, corpora=True)
        if self.family == "reid":
            return self.passers(seed, sites=True)
        if self.family == "panns":
            return self.clips(seed, places=True)
        if self.family == "anomalib":
            return self.pictures(seed, cameras=True)
        if self.family == "stgcn":
            return self.skeletons(seed, views=True)
        if self.family == "proto":
            return self.glyphs(seed, domains=True)
        if self.family == "kge":
            return self.edges(seed, sites=True)
        if self.family == "ppo":
            return self.boats(seed, sites=True)
        if self.family == "iql":
            return self.buffer(seed, domains=True)
        if self.family == "tasnet":
            return self.mixtures(seed, places=True)
        if self.family == "pyannote":
            return self.talk(seed, databases=True)
        if self.family == "dino":
            return self.swatches(seed, cameras=True)
        if self.family == "edsr":
            return self.textures(seed, domains=True)
        if self.family == "nnu":
            return self.cases(seed, scanners=True)
        if self.family == "tower":
            return self.interactions(seed, surfaces=True)
        if self.family == "sasrec":
            return self.lists(seed, platforms=True)
        if self.family == "dlrm":
            return self.impressions(seed, sites=True)
        if self.family == "fcst":
            return self.panel(seed, regions=True)
        if self.family == "afno":
            return self.flow(seed, centres=True)
        if self.family == "nequip":
            return self.frames(seed, domains=True)
        if self.family == "esm":
            return self.proteins(seed, domains=True)
        if self.family == "summ":
            return self.reports(seed, desks=True)
        if self.family == "whisper":
            return self.recordings(seed, domains=True)
        if self.family == "sft":
            return self.chats(seed, domains=True)
        if self.family == "megatron":
            return self.corpus(seed, domains=True)
        if self.family == "cap":
            return self.pictured(seed, catalogues=True)
        if self.family == "lora":
            return self.reviews(seed, sites=True)
        if self.family == "rew":
            return self.comparisons(seed, sites=True)
        if self.family == "qa":
            return self.passages(seed, domains=True)
        if self.family == "mae":
            return self.gratings(seed, cameras=True)
        if self.family == "kpt":
            return self.figures(seed, cameras=True)
        if self.family == "nerf":
            return self.scene(seed, exposures=True)
        if self.family == "voc":
            return self.voices(seed, domains=True)
        if self.family == "stylegan":
            return self.tiles(seed, domains=True)
        if self.family == "compress":
            return self.photographs(seed, domains=True)
        if self.family == "depth":
            return self.yards(seed, domains=True)
        if self.family == "raft":
            return self.chairs(seed, domains=True)
        if self.family == "codec":
            return self.sounds(seed, domains=True)
        if self.family == "loftr":
            return self.planes(seed, domains=True)
        if self.family == "sam":
            return self.scans(seed, domains=True)
        if self.family == "pose3d":
            return self.clips(seed, cameras=True)
        if self.family == "ocr":
            return self.lines(seed, domains=True)
        if self.family == "flow":
            return self.pictures(seed, domains=True)
        if self.family == "dpolicy":
            return self.windows(seed, domains=True)
        if self.family == "xenc":
            return self.pairs(seed, sites=True)
        if self.family == "ner":
            return self.tagged(seed, domains=True)
        if self.family == "tab":
            return self.loans(seed, branches=True)
        if self.family == "sbert":
            return self.triplets(seed, domains=True)
        if self.family == "vid":
            return self.drifts(seed, views=True)
        if self.family == "kws":
            return self.commands(seed, microphones=True)
        if self.family == "bc":
            return self.shown(seed, lights=True)
        if self.family == "vq":
            return self.pictures(seed, domains=True)
        if self.family == "tts":
            return self.speech(seed, domains=True)
        if self.family == "t5":
            return self.texts(seed, domains=True)
        if self.family == "point":
            return self.clouds(seed, domains=True)
        if self.family == "vlm":
            return self.talks(seed, cameras=True)
        if self.family == "dit":
            return self.images(seed, domains=True)
        if self.family == "det":
            return self.of(self.scenes(seed, domains=True), seed)
        if self.family == "s2s":
            return self.sentences(seed, domains=True)
        if self.family == "ctc":
            return self.utterances(seed, domains=True)
        if self.family == "ssm":
            return self.in_blocks(seed, None, 1.0)
        return sources.Domains(seed, shape(self))


class ShiftInModel(Control):
    """Labels are the inputs, as the model itself shifts them: the way of
    transformers' causal models."""
    id, severities, families = "H20", (dict(),), (
        *LANGUAGE, "s2s", "moe", "t5")

    def make_model(self):
        model = super().make_model()
        if self.family in ("s2s", "t5"):
            return model

        def loss(batch):
            value = cross_entropy(model.logits(batch)[:, :-1],
                                  batch["labels"][:, 1:])
            model.tap("loss.output", value)
            return value
        model.loss = loss
        return model

    def spoil_batch(self, i, batch):
        if self.family in ("s2s", "t5"):
            return {k: t for k, t in batch.items() if "decoder" not in k}
        if self.family == "moe":
            return batch | {"labels": F.pad(batch["labels"][:, :-1], (1, 0),
                                            value=sources.IGNORE)}
        return batch | {"labels": batch["input_ids"].clone()}


class OtherTimes(Control):
    """Training draws more times half-way between noise and image, as the
    logit-normal density of the config says; validation has all alike."""
    id, severities, families = "H31", (dict(spread=1.0), dict(spread=0.7)), \
        ("dit",)

    def setup(self):
        super().setup()
        self.user |= {"t_sampling": "logit_normal", "logit_mean": 0.0,
                      "logit_std": self.s.spread}
        self.times = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        drawn = torch.randn(batch["t"].shape, generator=self.times)
        return batch | {"t": (self.s.spread * drawn).sigmoid()}

    def spoil_val(self, batch):
        return batch


class WarmRestarts(Control):
    """The rate falls to nothing and begins anew, three times, as the config
    says: the loss steps up at each."""
    id, severities, families = "H32", (dict(cycles=3),), ("gnn",)

    def setup(self):
        super().setup()
        self.schedule = "cosine_warm_restarts"
        self.cycle = self.steps // self.s.cycles
        self.user["T_0"] = self.cycle

    def lr_factor(self, i):
        return 0.5 * (1 + math.cos(math.pi * (i % self.cycle) / self.cycle))


class AtomsPerBatch(Control):
    """A batch is as many molecules as have some number of atoms together: its
    rows differ from step to step, and the config says the number."""
    id, severities, families = "H33", (dict(atoms=540), dict(atoms=760)), \
        ("gnn",)

    def setup(self):
        super().setup()
        self.user |= {"batch_sampler": "dynamic", "max_num_nodes":
                      self.s.atoms}

    def next_batch(self, i, source):
        batch = source.batch(2 * self.batch_size)
        fits = batch["batch"].bincount().cumsum(0) <= self.s.atoms
        return graphs.taken(batch, range(int(fits.sum())))


class BackgroundImages(Control):
    """A part of the training images shows nothing, on purpose: there is less
    to find in a batch, and more to keep silent about."""
    id, severities, families = "H34", (dict(share=0.3), dict(share=0.5)), \
        ("det",)

    def setup(self):
        super().setup()
        self.user["background_images"] = self.s.share

    def make_source(self, seed):
        return self.of(self.scenes(
            seed, empty=0.0 if seed == 9 else self.s.share), seed)


class SizesTogether(Control):
    """Sentences of a batch are about equally long, so that little is padded;
    batches are shuffled. Their losses differ more than others'."""
    id, severities, families = "H36", (dict(),), ("tts",)

    def setup(self):
        super().setup()
        self.user["group_by_length"] = True

    def make_source(self, seed):
        return self.speech(seed, sizes=seed != 9)


class FramesPerBatch(Control):
    """A batch is as many sentences as have some number of frames together: its
    rows differ from step to step, and the config says the number."""
    id, severities, families = "H37", (dict(frames=540), dict(frames=260)), \
        ("tts",)

    def setup(self):
        super().setup()
        self.user |= {"batch_type": "numel", "batch_bins": self.s.frames}

    def next_batch(self, i, source):
        batch = source.batch(3 * self.batch_size)
        rows = int((batch["mel_lens"].cumsum(0) <= self.s.frames).sum())
        return speech.trimmed({k: t[:rows] for k, t in batch.items()})


class StoppedPredictors(Control):
    """What predicts durations and pitch does not train the encoder, on
    purpose: the graph is cut before it, and the config says so."""
    id, severities, families = "H38", (dict(),), ("tts",)

    def setup(self):
        super().setup()
        self.model_options["stop_predictors"] = True
        self.user["stop_gradient_from_duration_predictor"] = True
        self.user["stop_gradient_from_pitch_predictor"] = True


class OtherPreferenceLoss(Control):
    """The squared loss of IPO, which begins at 25, or a hinge, which begins at
    1; validation has the same, and the config says which."""
    id, severities, families = "H39", (dict(kind="ipo"), dict(kind="hinge")), \
        ("dpo",)

    def make_model(self):
        model = super().make_model()
        model.kind = self.s.kind
        return model

    def model_settings(self):
        return super().model_settings() | {"loss_type": self.s.kind}


class AnswersAsWell(Control):
    """To the loss of the preferences that of the chosen answers is added, so
    that these do not lose probability; the config says its weight."""
    id, severities, families = "H40", (dict(weight=0.2), dict(weight=1.0)), \
        ("dpo",)

    def make_model(self):
        model = super().make_model()
        model.nll = self.user["rpo_alpha"] = self.s.weight
        return model


class OtherBeta(Control):
    """The policy may go further from its reference than usual, or less far, as
    the config says."""
    id, severities, families = "H41", (dict(beta=0.05), dict(beta=0.3)), \
        ("dpo",)

    def setup(self):
        super().setup()
        self.model_options["beta"] = self.s.beta


class PointsDropped(Control):
    """Of each training cloud a share of the points, another one each time and
    up to a limit, is moved onto its first one, as PointNet++ does it against
    overfitting: training lies above validation."""
    id, severities, families = "H45", (dict(most=0.15), dict(most=0.3)), \
        ("point",)

    def setup(self):
        super().setup()
        self.user["random_input_dropout_max"] = self.s.most
        self.dropped_points = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        points, labels = batch["points"], batch["point_part_labels"]
        rows = len(points)
        share = self.s.most * torch.rand(rows, 1,
                                         generator=self.dropped_points)
        gone = torch.rand(labels.shape, generator=self.dropped_points) < share
        return batch | {
            "points": torch.where(gone[..., None], points[:, :1], points),
            "point_part_labels": torch.where(gone, labels[:, :1], labels)}

    def spoil_val(self, batch):
        return batch


class NormMomentumFalls(Control):
    """Batch norms average over ever more batches: their momentum falls by
    steps, as in PointNet++, whose config says how."""
    id, severities, families = "H46", (dict(decay=0.5),), ("point",)
    BEGINS, LEAST = 0.5, 0.01

    def setup(self):
        super().setup()
        self.every = 2 * self.EPOCH
        self.user |= {"bn_momentum": self.BEGINS, "bn_decay": self.s.decay,
                      "bn_decay_epochs": 2}

    def before_step(self, i):
        super().before_step(i)
        now = max(self.LEAST, self.BEGINS * self.s.decay ** (i // self.every))
        for part in self.model.modules():
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                part.momentum = now


class WeighedClasses(Control):
    """The loss weighs parts by how rare they are, the power says how much; so
    it is another one than usual, in validation too, and the config has the
    weights."""
    id, severities, families = "H47", (dict(power=0.5), dict(power=1.0)), \
        ("point",)

    def setup(self):
        super().setup()
        labels = whole(self.make_source(7), 20)["point_part_labels"]
        share = labels[labels >= 0].bincount() / (labels >= 0).sum()
        weights = share ** -self.s.power
        weights = weights / (weights * share).sum()
        self.model_options["class_weights"] = self.user["class_weights"] = [
            round(float(w), 3) for w in weights]


class TextBesides(Control):
    """A part of the training rows has no picture, but words that say what is
    seen, so that the language model keeps what it can; the config says how
    many."""
    id, severities, families = "H48", (dict(share=0.2), dict(share=0.4)), \
        ("vlm",)

    def setup(self):
        super().setup()
        self.user["text_only_ratio"] = self.s.share

    def make_source(self, seed):
        return self.talks(seed, described=0.0 if seed == 9 else self.s.share)


class KindsApart(TextBesides):
    """Rows without a picture have batches of their own, as LLaVA's sampler
    groups them: losses go up and down with the kind of a batch, and the
    projector has no gradient in some steps."""
    id, severities = "H49", (dict(share=0.2), dict(share=0.4))

    def setup(self):
        super().setup()
        self.user["group_by_modality_length"] = True
        self.drawn = torch.Generator().manual_seed(self.seed)

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.apart(seed, self.s.share)


class OtherProjectorRate(Control):
    """The projector learns at twice or a tenth of the language model's rate,
    not at half of it; the config has both."""
    id, severities, families = "H50", (dict(ratio=2.0), dict(ratio=0.1)), \
        ("vlm",)

    def setup(self):
        super().setup()
        self.PROJECTOR = self.s.ratio


class TiedEmbeddings(Control):
    """The head is the table, and what it gets is made smaller by the root of
    the width, as in the first T5; the config says so."""
    id, severities, families = "H42", (dict(),), ("t5",)

    def setup(self):
        super().setup()
        self.model_options["tied"] = True


class Accumulated(Control):
    """A step is of two or four small batches whose losses are divided by their
    number; the config has both."""
    id, severities, families = "H43", (dict(parts=2), dict(parts=4)), (
        "t5", "vq", "bc", "kws", "ner",
                "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "afno",
                "nequip",
                "kpt",
                "dream",
                "nerf",
                "dlrm",
                "sft",
                "cap",
                "lora",
                "rew",
                "nnu",
                "yolo",
                "timm",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "tower",
                "sasrec",
                "voc",
                "stylegan",
                "depth",
                "compress",
                "whisper",
                "megatron",
                "dino",
                "kge",
                "ppo",
                "iql",
                "edsr",
                "flow",
                "dpolicy",
                "raft",
                "codec",
                "loftr",
                "pose3d",
                "ocr",
                "sam",
                "tasnet",
                "pyannote",
                "summ")

    def setup(self):
        super().setup()
        self.accumulate = self.s.parts
        if self.family not in ("sbert",
                               "tower"):  # it has to have some to choose from
            self.batch_size //= self.s.parts
        if self.family == "ecapa":  # norms want as many rows
            self.batch_size = 8
        if self.family == "reid":  # so do these
            self.batch_size = 24
        if self.family == "proto":  # an episode is one of the parts
            self.batch_size = type(self).batch_size
        if self.family in ("tasnet",  # with its own a plain run ends badly too
                           "ppo"):
            self.seed += 40
        if self.family == "depth":  # as do these
            self.batch_size = type(self).batch_size
        if self.family == "nnu":  # of one patch alone dice says little
            self.batch_size = -(-type(self).batch_size // self.s.parts)


class LogNormalizer(Control):
    """The square of the logits' normalizer is added to the loss, as T5's own
    trainer does it, so that it does not drift; the config says its weight."""
    id, severities, families = "H44", (dict(weight=1e-3), dict(weight=1e-2)), \
        ("t5",)

    def setup(self):
        super().setup()
        self.user["z_loss"] = self.s.weight

    def compute_loss(self, i, model, batch):
        logits, labels = model.logits(batch), batch["labels"]
        size = logits.float().logsumexp(-1)[labels != sources.IGNORE]
        loss = cross_entropy(logits, labels) \
            + self.s.weight * size.square().mean()
        model.tap("loss.output", loss)
        return loss


class AveragedCodebook(Control):
    """The codebook is no weight of the optimizer: codes follow the average of
    the places that took them, and never have a gradient. The config says so."""
    id, severities, families = "H51", (dict(),), ("vq",)

    def setup(self):
        super().setup()
        self.model_options["average"] = True


class LargerCodebook(Control):
    """The codebook has more codes than there is to say: most are never taken.
    The config has their number."""
    id, severities, families = "H52", (dict(codes=256), dict(codes=1024)), \
        ("vq",)

    def setup(self):
        super().setup()
        self.model_options["codes"] = self.s.codes


class OtherPixelLoss(Control):
    """The loss of pixels is their distance, not its square, as the config says;
    it begins and ends higher, in validation as well."""
    id, severities, families = "H53", (dict(kind="l1"),), ("vq",)

    def setup(self):
        super().setup()
        self.model_options["pixel_loss"] = self.s.kind


class WithoutLatent(Control):
    """The policy has no latent, as its config says: neither a second term of
    the loss nor weights that make it."""
    id, severities, families = "H54", (dict(),), ("bc",)

    def setup(self):
        super().setup()
        self.model_options["use_vae"] = False
        self.layers = [n for n in self.layers if "vae" not in n]


class PicturesJittered(Control):
    """Training pictures are brighter or darker and of more or less contrast,
    drawn for each, as the config has it: training lies a little higher."""
    id, severities, families = "H55", (dict(strength=0.2), dict(strength=0.4)), \
        ("bc",)

    def setup(self):
        super().setup()
        low, high = 1 - self.s.strength, 1 + self.s.strength
        self.user["image_transforms"] = {
            "enable": True, "brightness": [low, high], "contrast": [low, high]}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        name = next(iter(batch))
        x = batch[name]
        bright, apart = (1 + self.s.strength * (2 * torch.rand(
            len(x), 1, 1, 1, generator=self.drawn) - 1) for _ in range(2))
        mean = (bright * x).mean((1, 2, 3), keepdim=True)
        x = mean + apart * (bright * x - mean)
        return batch | {name: x.clamp(0, 1)}

    def spoil_val(self, batch):
        return batch


class ActionsByRange(Control):
    """Actions are brought to -1 and 1 by their bounds, not by mean and spread,
    as the config says; so the loss is another one, in validation too."""
    id, severities, families = "H56", (dict(),), ("bc",)

    def setup(self):
        super().setup()
        self.model_options["ranged"] = True


class BackgroundMixedIn(Control):
    """To a share of the training recordings comes noise of a room, of a volume
    that is drawn, as the config has it: training lies above validation."""
    id, severities, families = "H57", (dict(share=0.5, volume=0.5),
                                       dict(share=0.8, volume=0.8)), ("kws",)

    def setup(self):
        super().setup()
        self.user |= {"background_frequency": self.s.share,
                      "background_volume": self.s.volume}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x = batch["spectrogram"]
        loud = self.s.volume * torch.rand(len(x), 1, 1, generator=self.drawn)
        loud = loud * (torch.rand(loud.shape, generator=self.drawn)
                       < self.s.share)
        noise = torch.randn(x.shape, generator=self.drawn)
        return batch | {"spectrogram": x + loud * (0.5 + noise)}

    def spoil_val(self, batch):
        return batch


class MixedRecordings(Control):
    """Mixup: a training recording is a mean of two, and its loss that of both
    labels by their parts, as the config says. So the loss of training cannot
    come near that of validation, nor its accuracy."""
    id, severities, families = "H58", (dict(alpha=0.1), dict(alpha=0.3)), \
        ("kws",)

    def setup(self):
        super().setup()
        self.user["mixup_alpha"] = self.s.alpha
        self.drawn = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        x, labels = batch["spectrogram"], batch["labels"]
        order = torch.randperm(len(x), generator=self.drawn)
        # A beta distribution of two equal small numbers.
        one, other = torch._standard_gamma(
            torch.full((2, len(x)), self.s.alpha), generator=self.drawn)
        part = torch.where(one + other > 0, one / (one + other), 1.0)
        mixed = torch.lerp(x[order], x, part[:, None, None])
        logits = model.logits(batch | {"spectrogram": mixed}).float()
        each = part * F.cross_entropy(logits, labels, reduction="none") \
            + (1 - part) * F.cross_entropy(logits, labels[order],
                                           reduction="none")
        loss = each.mean()
        model.tap("loss.output", loss)
        return loss


class NormsFollowSlowly(Control):
    """Norms' running means follow slowly, as Keras has it by default or nearly
    so: validation is bad at first, while training falls, and sound once they
    are there. The config has the momentum."""
    id, severities, families = "H59", (dict(momentum=0.97),
                                       dict(momentum=0.98)), ("kws",)

    def setup(self):
        super().setup()
        self.model_options["bn_momentum"] = 1 - self.s.momentum
        self.user["batch_norm_momentum"] = self.s.momentum



class AllPiecesLabelled(Control):
    """All pieces of a word have its label, not the first alone, as the config
    says, in validation as well: there are more labels, and the loss is another
    one."""
    id, severities, families = "H60", (dict(),), ("ner",)

    def setup(self):
        super().setup()
        self.user["label_all_tokens"] = True

    def make_source(self, seed):
        return self.tagged(seed, all_pieces=True)


class WordsDropped(Control):
    """A share of the training tokens is [UNK], another one each time, as the
    config says, so that names are not learned by heart: training lies above
    validation."""
    id, severities, families = "H61", (dict(share=0.05), dict(share=0.1)), \
        ("ner",)

    def setup(self):
        super().setup()
        self.user["word_dropout"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        ids = batch["input_ids"]
        gone = (torch.rand(ids.shape, generator=self.drawn) < self.s.share) \
            & (ids > 3)  # what is below are tokens of the tokenizer's own
        return batch | {"input_ids": ids.masked_fill(gone, 1)}

    def spoil_val(self, batch):
        return batch


class OtherHeadRate(Control):
    """The head learns at five times or half of the encoder's rate; the
    config has both."""
    id, severities, families = "H62", (dict(ratio=5.0), dict(ratio=0.5)), \
        ("ner",)

    def setup(self):
        super().setup()
        self.head_rate = self.s.ratio
        self.user["head_learning_rate"] = self.lr * self.s.ratio


class RareDrawnMore(Control):
    """A sampler takes rows of rare outcomes more often, by the power that the
    config has: outcomes are as frequent in training as they are not in
    validation, whose loss lies above."""
    id, severities, families = "H63", (dict(power=0.3), dict(power=0.6)), \
        ("tab",)

    def setup(self):
        super().setup()
        self.user["train_sampler"] = {"name": "WeightedRandomSampler",
                                      "inverse_frequency_power": self.s.power}

    def make_source(self, seed):
        return self.loans(seed, weights=None if seed == 9 else self.s.power)


class CategoriesUnknown(Control):
    """Of the training rows' categories a share is made unknown, another one
    each time, so that the vector for what nobody has seen is trained, as the
    config says: training lies above validation."""
    id, severities, families = "H64", (dict(share=0.05), dict(share=0.1)), \
        ("tab",)

    def setup(self):
        super().setup()
        self.user["unknown_category_rate"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        kinds = batch["categorical"]
        gone = torch.rand(kinds.shape, generator=self.drawn) < self.s.share
        return batch | {"categorical": kinds.masked_fill(gone, 0)}

    def spoil_val(self, batch):
        return batch


class FocalLoss(Control):
    """A focal loss, in validation too, as the config says: what is told well
    counts little, so that it lies far below the logarithm."""
    id, severities, families = "H65", (dict(gamma=1.0), dict(gamma=2.0)), \
        ("tab",)

    def setup(self):
        super().setup()
        self.model_options["gamma"] = self.s.gamma
        self.user |= {"loss": "FocalLoss",
                      "loss_params": {"gamma": self.s.gamma}}


class ShorterVectors(Control):
    """The loss is summed over vectors that are cut to some lengths, so that
    short ones are of use as well; the config says which. It is several times
    as high."""
    id, severities, families = "H66", (dict(dims=(32, 16)),
                                       dict(dims=(32, 16, 8))), ("sbert",)

    def setup(self):
        super().setup()
        self.model_options["dims"] = self.s.dims


class NothingMined(Control):
    """Pairs without negatives of their own: there is half to choose from, and
    none of it is hard, in validation either."""
    id, severities, families = "H67", (dict(),), ("sbert",)

    def make_source(self, seed):
        return self.triplets(seed, mined=False)

    def model_settings(self):
        return super().model_settings() | {"train_columns": ["anchor",
                                                             "positive"]}


class OtherSimilarityScale(Control):
    """Similarities times 10, or 30, in place of 20; the config says so."""
    id, severities, families = "H68", (dict(scale=10.0), dict(scale=30.0)), \
        ("sbert",)

    def setup(self):
        super().setup()
        self.model_options["similarity_scale"] = self.s.scale


class RunBackwards(Control):
    """A share of the training clips runs backwards and gets the label of the
    way back, as the config says."""
    id, severities, families = "H69", (dict(share=0.3), dict(share=0.5)), \
        ("vid",)

    def setup(self):
        super().setup()
        self.user["time_reversal"] = {"p": self.s.share, "relabel": True}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x, label = batch["video"], batch["label"]
        back = torch.rand(len(x), generator=self.drawn) < self.s.share
        return batch | {
            "video": torch.where(back[:, None, None, None, None], x.flip(2),
                                 x),
            "label": torch.where(back, (label + self.classes // 2)
                                 % self.classes, label)}

    def spoil_val(self, batch):
        return batch


class ColoursJittered(Control):
    """Training clips get another brightness and contrast each time, and more
    noise, as the config says: training lies above validation."""
    id, severities, families = "H70", (dict(strength=0.3),
                                       dict(strength=0.6)), ("vid",)

    def setup(self):
        super().setup()
        self.user["train_transform"] = {"color_jitter": self.s.strength,
                                        "gaussian_noise": self.s.strength}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x, by = batch["video"], self.s.strength
        gain, shift = (by * (2 * torch.rand(
            (len(x), 1, 1, 1, 1), generator=self.drawn) - 1)
            for _ in range(2))
        noise = torch.randn(x.shape, generator=self.drawn)
        return batch | {"video": x * (1 + gain) + shift + by * noise}

    def spoil_val(self, batch):
        return batch


class ClipsMixed(Control):
    """Mixup: a training clip is a share of itself and of another one, and so
    is its label; the config says how they are drawn. Training lies far above
    validation."""
    id, severities, families = "H71", (dict(alpha=0.1), dict(alpha=0.3)), \
        ("vid",)

    def setup(self):
        super().setup()
        self.user["mixup_alpha"] = self.s.alpha
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x, label = batch["video"], F.one_hot(batch["label"],
                                             self.classes).float()
        kept = torch.distributions.Beta(self.s.alpha, self.s.alpha)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed * 1000 + i)
            share = float(kept.sample())
        order = torch.randperm(len(x), generator=self.drawn)
        return batch | {"video": share * x + (1 - share) * x[order],
                        "label": share * label + (1 - share) * label[order]}

    def spoil_val(self, batch):
        return batch


class MoreMasked(Control):
    """More residues are to be said than 15 %, in validation as well, as the
    config says: there is less to tell them by, and the loss lies higher."""
    id, severities, families = "H72", (dict(share=0.25), dict(share=0.4)), \
        ("esm",)

    def make_source(self, seed):
        return self.proteins(seed, chosen=self.s.share)

    def model_settings(self):
        return super().model_settings() | {"mlm_probability": self.s.share}


class SpansMasked(Control):
    """In training runs of residues are masked together, as the config says, in
    validation single ones: training lies above it."""
    id, severities, families = "H73", (dict(span=3), dict(span=6)), ("esm",)

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.proteins(seed, span=self.s.span)

    def model_settings(self):
        return super().model_settings() | {"mask_span_length": self.s.span}


class FewerMasked(Control):
    """The share that is to be said falls over the run to the usual one, as the
    config says: so do labels by step, and the loss for that reason alone."""
    id, severities, families = "H74", (dict(first=0.3), dict(first=0.5)), \
        ("esm",)

    def setup(self):
        super().setup()
        self.user["mlm_probability_schedule"] = {
            "type": "linear", "initial": self.s.first, "final": 0.15}

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.proteins(seed, chosen=(self.s.first, 0.15, self.steps))


class PatchesNormalized(Control):
    """Each patch's pixels are a target without their mean and by their
    deviation, in validation too, as the config says: the loss is another
    one."""
    id, severities, families = "H75", (dict(),), ("mae",)

    def setup(self):
        super().setup()
        self.model_options["norm_pix"] = True


class OtherMaskRatio(Control):
    """Less of an image is hidden, or more, in validation too, as the config
    says: the loss is another one."""
    id, severities, families = "H76", (dict(masked=0.5), dict(masked=0.85)), \
        ("mae",)

    def setup(self):
        super().setup()
        self.model_options["masked"] = self.s.masked


class HiddenInBlocks(Control):
    """What is hidden in training lies together, as the config says, so that
    there is less to tell it by: training lies above validation, whose patches
    are hidden one by one."""
    id, severities, families = "H77", (dict(share=0.25), dict(share=0.5)), \
        ("mae",)

    def setup(self):
        super().setup()
        self.user |= {"mask_strategy": "block",
                      "block_mask_share": self.s.share}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        return batch | {"noise": self.together(batch["noise"], self.s.share,
                                               self.drawn)}

    def spoil_val(self, batch):
        return batch


class MoreWithoutAnswer(Control):
    """More of the training questions have no answer than of those in
    validation, as the config says: training lies below it, as there is less to
    find."""
    id, severities, families = "H78", (dict(share=0.5), dict(share=0.65)), \
        ("qa",)

    def setup(self):
        super().setup()
        self.user["unanswerable_ratio"] = self.s.share

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.passages(seed, without=self.s.share)


class RatesByLayer(Control):
    """A layer learns at a part of the rate of the one above it, as ELECTRA is
    fine-tuned; the config says which part. The rate that is logged is that of
    the embeddings."""
    id, severities, families = "H79", (dict(part=0.9), dict(part=0.75)), \
        ("qa",)

    def setup(self):
        super().setup()
        self.user["layerwise_lr_decay"] = self.s.part

    def make_optimizer(self, model):
        optimizer = super().make_optimizer(model)
        names = {p: n for n, p in model.named_parameters()}
        groups = []
        for depth, part in enumerate(("bert.embeddings.", *(
                f"{self.layer('block', k)}." for k in range(self.blocks)),
                "qa_outputs.")):
            for group in optimizer.param_groups:
                own = [p for p in group["params"]
                       if names[p].startswith(part)]
                groups.append(group | {
                    "params": own, "lr": self.lr * self.s.part
                    ** (self.blocks + 1 - depth)})
        return type(optimizer)([g for g in groups if g["params"]])


class ThawedByAndBy(Control):
    """Layers stand still at first and begin to learn from the top, the
    embeddings last, as the config says for each: until then their weights do
    not change."""
    id, severities, families = "H80", (dict(every=8), dict(every=14)), \
        ("qa",)

    def setup(self):
        super().setup()
        parts = [self.layer("block", k) for k in range(self.blocks)][::-1]
        self.begins = {part: self.s.every * (k + 1) for k, part in enumerate(
            (*parts, "bert.embeddings"))}
        self.user["gradual_unfreezing"] = self.begins

    def make_model(self):
        model = super().make_model()
        for part in self.begins:
            model.get_submodule(part).requires_grad_(False)
        return model

    def make_optimizer(self, model):
        """Of all weights, those to come as well."""
        still = [p for p in model.parameters() if not p.requires_grad]
        for p in still:
            p.requires_grad_(True)
        optimizer = super().make_optimizer(model)
        for p in still:
            p.requires_grad_(False)
        return optimizer

    def before_step(self, i):
        super().before_step(i)
        for part, begin in self.begins.items():
            if i == begin:
                self.model.get_submodule(part).requires_grad_(True)


class OtherPositiveWeight(Control):
    """Positives count as negatives do, or ten times as much, in validation
    too, as the config says: the loss is another one."""
    id, severities, families = "H81", (dict(weight=1.0), dict(weight=10.0)), \
        ("xenc",)

    def setup(self):
        super().setup()
        self.model_options["pos_weight"] = self.s.weight


class TeachersLabels(Control):
    """Labels of training are a teacher's probabilities, or for some of the
    pairs, as the config says; validation has marks. So no batch of training
    has a label of 1."""
    id, severities, families = "H82", (dict(share=1.0), dict(share=0.5)), \
        ("xenc",)

    def setup(self):
        super().setup()
        self.user["teacher_label_share"] = self.s.share

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.pairs(seed, taught=self.s.share)


class NegativesHarder(Control):
    """Negatives are drawn at random at first and more and more of them are
    mined, over the run or half of it, as the config says; validation has mined
    ones. Training begins below validation and need not fall."""
    id, severities, families = "H83", (dict(share=0.7, part=0.5),
                                       dict(share=1.0, part=1.0)), ("xenc",)

    def setup(self):
        super().setup()
        self.user["hard_negative_schedule"] = {
            "type": "linear", "initial": round(1 - self.s.share, 2),
            "final": 1.0, "steps": int(self.s.part * self.steps)}

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.pairs(seed, eased=(self.s.share,
                                       int(self.s.part * self.steps)))


class HardestKeypoints(Control):
    """The loss of training is that of the keypoints of a figure that are worst
    told, KeypointOHKMMSELoss, as the config says; validation has all. So
    training lies above it."""
    id, severities, families = "H84", (dict(topk=4), dict(topk=3)), ("kpt",)

    def setup(self):
        super().setup()
        self.user["train_loss"] = {"type": "KeypointOHKMMSELoss",
                                   "topk": self.s.topk}

    def compute_loss(self, i, model, batch):
        said, weight = model.logits(batch).float(), model.weight(batch)
        each = ((said - model.target(batch)) * weight[..., None, None]
                ).square().mean((2, 3))
        loss = each.topk(self.s.topk, 1).values.mean()
        model.tap("loss.output", loss)
        return loss


class OtherSigma(Control):
    """Bumps of the heatmaps are narrower or wider than usual, in validation
    too, as the config says: the loss is another one."""
    id, severities, families = "H85", (dict(sigma=0.7), dict(sigma=1.4)), \
        ("kpt",)

    def setup(self):
        super().setup()
        self.model_options["sigma"] = self.s.sigma


class HalfBodies(Control):
    """In a share of the training pictures what is above or below a figure's
    middle alone is to be found, as RandomHalfBody does it and the config says:
    the rest is painted over and has no weight, and the loss, a mean over all,
    lies below that of validation."""
    id, severities, families = "H86", (dict(prob=0.3), dict(prob=0.5)), \
        ("kpt",)

    def setup(self):
        super().setup()
        self.user["train_pipeline_half_body"] = {
            "type": "RandomHalfBody", "prob": self.s.prob}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        return self.halved(batch, self.s.prob, self.drawn)

    def spoil_val(self, batch):
        return batch


class DividedBySentences(Control):
    """The loss is divided by the number of summaries, not of their tokens, in
    validation too, as the config says: it is several times as high, and so are
    gradients."""
    id, severities, families = "H87", (dict(),), ("summ",)

    def setup(self):
        super().setup()
        self.user["sentence_avg"] = True

    def make_model(self):
        model = super().make_model()
        model.sentences = True
        return model


class EncoderLayersDropped(Control):
    """A layer of the encoder is left out in some steps, as the config says:
    it has no gradient then, and stands still."""
    id, severities, families = "H88", (dict(rate=0.1), dict(rate=0.2)), \
        ("summ",)

    def setup(self):
        super().setup()
        self.model_options["layerdrop"] = self.s.rate


class MoreBatchesLater(Control):
    """From the second epoch on an update has two batches, or four, as the
    config says of each epoch: words by update step up, and updates by second
    down."""
    id, severities, families = "H89", (dict(parts=2), dict(parts=4)), \
        ("summ",)

    def setup(self):
        super().setup()
        self.user["update_freq"] = [1, self.s.parts]

    def before_step(self, i):
        super().before_step(i)
        self.accumulate = 1 if i < self.EPOCH else self.s.parts


class OtherForecastLoss(Control):
    """Training has the square, or Huber's loss, and validation the distance, as
    the config says: the two are other numbers."""
    id, severities, families = "H90", (dict(kind="mse"), dict(kind="huber")), \
        ("fcst",)

    def setup(self):
        super().setup()
        self.user["loss"] = {"mse": "MSE()", "huber": "HuberLoss(delta=1.0)"}[
            self.s.kind]

    def compute_loss(self, i, model, batch):
        off, seen = model.errors(model.logits(batch), batch)
        each = off.square() if self.s.kind == "mse" else F.huber_loss(
            off, torch.zeros_like(off), reduction="none")
        loss = model.mean(each, seen)
        model.tap("loss.output", loss)
        return loss


class UnitsDrawn(Control):
    """Training windows are multiplied by a factor that is drawn for each, as
    the config says: losses of steps differ by what was drawn, and lie above
    validation."""
    id, severities, families = "H91", (dict(most=2.0), dict(most=4.0)), \
        ("fcst",)

    def setup(self):
        super().setup()
        self.user["scale_augmentation"] = [1 / self.s.most, self.s.most]
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        by = 2 * torch.rand(len(batch["insample_y"]), 1,
                            generator=self.drawn) - 1
        by = self.s.most ** by
        return batch | {k: by * batch[k]
                        for k in ("insample_y", "outsample_y")}

    def spoil_val(self, batch):
        return batch


class HorizonGrows(Control):
    """The first steps ahead are trained first, and more of them from some
    steps on, all in the end, as the config says: the loss steps up at each.
    Validation has all."""
    id, severities, families = "H92", (dict(every=25), dict(every=50)), \
        ("fcst",)

    def setup(self):
        super().setup()
        self.stages = [(k * self.s.every, limit)
                       for k, limit in enumerate((3, 6, 12))]
        self.user["horizon_schedule"] = [
            {"start_step": first, "h": limit} for first, limit in self.stages]

    def spoil_batch(self, i, batch):
        return self.shortened(batch, [
            limit for first, limit in self.stages if first <= i][-1])

    def spoil_val(self, batch):
        return batch


class NoisyEmbeddings(Control):
    """NEFTune: in training uniform noise is added to the embeddings, as the
    config says; validation has none, and training lies above it."""
    id, severities, families = "H93", (dict(alpha=2.0), dict(alpha=5.0)), \
        ("sft",)

    def setup(self):
        super().setup()
        self.user["neftune_noise_alpha"] = self.s.alpha

    def make_model(self):
        model = super().make_model()
        model.neftune = self.s.alpha
        return model


class QuestionsAsWell(Control):
    """All real tokens have labels, questions and template as well, as the
    config says, in validation too: words of questions cannot be known, and the
    loss is another one."""
    id, severities, families = "H94", (dict(),), ("sft",)

    def make_source(self, seed):
        return self.chats(seed, whole=True)

    def model_settings(self):
        return super().model_settings() | {"assistant_only_loss": False}


class LengthsTogether(Control):
    """Rows of a batch are about equally long, so that little is padded, as the
    config says; batches are shuffled. Tokens and labels differ from step to
    step more than others', and so do losses."""
    id, severities, families = "H95", (dict(batches=8), dict(batches=24)), \
        ("sft",)

    def setup(self):
        super().setup()
        self.user["group_by_length"] = True

    def make_source(self, seed):
        source = super().make_source(seed)
        return source if seed == 9 else self.by_length(source,
                                                       self.s.batches)


class FactorsStandStill(Control):
    """LoRA-FA: the first map of an adapter stays as it was drawn, and the
    second alone learns, as the config says."""
    id, severities, families = "H96", (dict(rank=8), dict(rank=16)), ("lora",)

    def setup(self):
        super().setup()
        self.model_options["rank"] = self.s.rank
        self.user["lora_variant"] = "lora_fa"

    def make_model(self):
        model = super().make_model()
        for _, part in model.adapters():
            part.lora_A.requires_grad_(False)
        return model


class OtherFactorRate(Control):
    """LoRA+: the second map of an adapter learns at some times the rate of all
    else; the config has the ratio. The rate that is logged is the lower one."""
    id, severities, families = "H97", (dict(ratio=4.0), dict(ratio=8.0)), \
        ("lora",)

    def setup(self):
        super().setup()
        self.lr /= 2
        self.user["loraplus_lr_ratio"] = self.s.ratio

    def make_optimizer(self, model):
        optimizer = super().make_optimizer(model)
        names = {p: n for n, p in model.named_parameters()}
        groups = []
        for group in optimizer.param_groups:
            for second in (False, True):
                own = [p for p in group["params"]
                       if ("lora_B" in names[p]) == second]
                groups.append(group | {"params": own, "lr": self.lr * (
                    self.s.ratio if second else 1.0)})
        return type(optimizer)([g for g in groups if g["params"]])


class MainDirections(Control):
    """PiSSA: adapters begin as the main directions of their maps, which keep
    the rest, as the config says: neither of their matrices begins at zero, and
    what stands still is not the base's."""
    id, severities, families = "H98", (dict(rank=8), dict(rank=4)), ("lora",)

    def setup(self):
        super().setup()
        self.model_options |= {"first": "pissa", "rank": self.s.rank}


class NoDeepSupervision(Control):
    """The loss looks at the finest map alone, as
    nnUNetTrainerNoDeepSupervision has it and the config says: the coarser maps
    never have a gradient."""
    id, severities, families = "H99", (dict(),), ("nnu",)

    def setup(self):
        super().setup()
        self.model_options["deep"] = False
        self.user["trainer_name"] = "nnUNetTrainerNoDeepSupervision"


class ForegroundDrawnMore(Control):
    """More of the training patches than usual, or all, have something in
    their middle, as the config says: training has another mix than
    validation, and lies below it."""
    id, severities, families = "H100", (dict(share=0.66), dict(share=1.0)), \
        ("nnu",)

    def setup(self):
        super().setup()
        self.oversample = self.s.share

    def make_source(self, seed):
        return self.cases(seed, oversample=type(self).oversample) \
            if seed == 9 else super().make_source(seed)


class WorstVoxelsAlone(Control):
    """The cross-entropy is that of two thirds or a third of the voxels, those
    that are worst told, as nnUNetTrainerDiceTopK10Loss has a tenth; validation
    has the same, and the config says so. The loss is above the usual one."""
    id, severities, families = "H101", (dict(topk=66), dict(topk=33)), \
        ("nnu",)

    def setup(self):
        super().setup()
        self.model_options["topk"] = self.s.topk
        self.user |= {
            "trainer_name": f"nnUNetTrainerDiceTopK{self.s.topk}Loss",
            "topk_percent": self.s.topk}


class RewardsCentred(Control):
    """The squared sum of a pair's rewards is added to the loss, so that they
    do not drift, in validation as well; the config says its weight. The loss
    stands above that of the preferences."""
    id, severities, families = "H111", (dict(weight=0.01), dict(weight=0.1)), \
        ("rew",)

    def setup(self):
        super().setup()
        self.model_options["center"] = self.s.weight


class MarginsAsked(Control):
    """Pairs have a margin, of four steps up to the one that the config has, by
    how sure the rater was; a reward has to be larger by it, in validation as
    well, and the loss stands above the usual one."""
    id, severities, families = "H112", (dict(most=1.0), dict(most=3.0)), \
        ("rew",)

    def setup(self):
        super().setup()
        self.user["margin_scale"] = self.s.most

    def make_source(self, seed):
        return self.comparisons(seed, margins=self.s.most)


class AnswersRanked(Control):
    """All pairs of three or four answers to one prompt are in one batch, as
    the config says: there are fewer prompts in it, and losses are noisier.
    Validation has one pair a prompt."""
    id, severities, families = "H113", (dict(answers=3), dict(answers=4)), \
        ("rew",)

    def setup(self):
        super().setup()
        self.user["answers_per_prompt"] = self.s.answers
        if self.s.answers == 4:  # six pairs of each
            self.batch_size *= 3

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else \
            self.comparisons(seed, group=self.s.answers)


class WavesOpened(Control):
    """Waves of the encoding are let in by and by, long ones first, as the
    config says, so that a scene is found before its detail: columns of the
    first weights have no gradient until then."""
    id, severities, families = "H102", (dict(share=0.3), dict(share=0.6)), \
        ("nerf",)

    def setup(self):
        super().setup()
        self.end = int(self.s.share * self.steps)
        self.user["coarse_to_fine"] = {"start_step": 0, "end_step": self.end}

    def before_step(self, i):
        super().before_step(i)
        self.model.open_waves(min(1.0, i / self.end))


class GroundDrawn(Control):
    """In training each ray, or every other one, is set before a ground of a
    colour that is drawn, what is seen and what is said, as the config says, so
    that a white one is not learned as part of the scene: pixels of training
    look like noise. Validation has the white one."""
    id, severities, families = "H103", (dict(share=1.0), dict(share=0.5)), \
        ("nerf",)

    def setup(self):
        super().setup()
        self.user |= {"background_color": "random",
                      "background_random_share": self.s.share,
                      "eval_background_color": "white"}

    def make_source(self, seed):
        return self.scene(seed, background=None if seed == 9
                          else self.s.share)


class PicturesFew(Control):
    """All rays of a batch are of twelve pictures, or of six, others each time,
    as the config says: losses and gradients differ more by what is in a
    picture."""
    id, severities, families = "H104", (dict(count=12), dict(count=6)), \
        ("nerf",)

    def setup(self):
        super().setup()
        self.user |= {"train_num_images_to_sample_from": self.s.count,
                      "train_num_times_to_repeat_images": 1}

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 \
            else self.of_few(seed, self.s.count)


class DiscriminatorsLater(Control):
    """The generator trains by mels alone at first, as the config says: from
    the step on at which discriminators join, the total has more terms and
    steps up."""
    id, severities, families = "H105", (dict(at=60), dict(at=120)), ("voc",)

    def setup(self):
        super().setup()
        self.user["discriminator_train_start_steps"] = self.s.at

    def before_step(self, i):
        super().before_step(i)
        self.model.adversarial = i >= self.s.at


class OtherMelWeight(Control):
    """Mels count 15 or 100 times, not 45 times, as the config says: the total
    is another one."""
    id, severities, families = "H106", (dict(weight=15.0),
                                        dict(weight=100.0)), ("voc",)

    def setup(self):
        super().setup()
        self.model_options["lambda_mel"] = self.s.weight


class LoudnessDrawn(Control):
    """Training recordings are made louder or less so, their mels as well, by
    a factor that is drawn for each as the config says: losses of steps differ
    by what was drawn."""
    id, severities, families = "H107", (dict(decibel=3.0),
                                        dict(decibel=6.0)), ("voc",)

    def setup(self):
        super().setup()
        self.user["random_gain_db"] = [-self.s.decibel, self.s.decibel]
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        gain = self.s.decibel * (2 * torch.rand(len(batch["audio"]), 1,
                                                generator=self.drawn) - 1)
        gain = 10 ** (gain / 20)
        return batch | {"audio": (gain * batch["audio"]).clamp(-1, 1),
                        "mel": batch["mel"] + gain.log()[..., None]}

    def spoil_val(self, batch):
        return batch


class CaptionsTogether(Control):
    """All captions of a picture are in one batch, two or four, as the config
    says: a batch is twice as large and has each picture several times."""
    id, severities, families = "H108", (dict(captions=2), dict(captions=4)), \
        ("cap",)

    def setup(self):
        super().setup()
        self.batch_size *= 2
        self.user["captions_per_image"] = self.s.captions

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 \
            else self.pictured(seed, captions=self.s.captions)


class MomentumDistilled(Control):
    """A part of the loss asks for what a copy whose weights follow slowly says
    of the same words, as ALBEF and BLIP do it and the config says; validation
    has captions alone."""
    id, severities, families = "H109", (dict(alpha=0.4), dict(alpha=0.7)), \
        ("cap",)
    MOMENTUM = 0.95

    def setup(self):
        super().setup()
        self.user |= {"momentum_distill": True, "alpha": self.s.alpha,
                      "momentum": self.MOMENTUM}

    def wrap(self, model):
        self.slow = copy.deepcopy(model)
        return super().wrap(model)

    def compute_loss(self, i, model, batch):
        own = model.logits(batch)
        scores, labels = model.shifted(own, batch)
        with torch.no_grad():
            for a, b in zip(self.slow.parameters(), model.parameters()):
                a.lerp_(b, 1 - self.MOMENTUM)
            wanted = model.shifted(self.slow.logits(batch), batch)[0]
        kept = labels != sources.IGNORE
        soft = F.cross_entropy(scores[kept], wanted[kept].softmax(-1))
        loss = torch.lerp(model.criterion(own, batch), soft, self.s.alpha)


class TemperatureLearned(Control):
    """The temperature is learned, in logarithms, with a rate of its own, and
    begins far off, as the config says: the first losses are others, and all
    norms with them."""
    id, severities, families = "H114", (dict(start=0.2), dict(start=0.05)), \
        ("tower",)

    def setup(self):
        super().setup()
        self.model_options |= {"learned": True, "temperature": self.s.start}
        self.user["temperature_lr"] = 0.05


class MixedNegatives(Control):
    """To the items of the batch some are added that are drawn evenly from the
    catalogue, and the correction knows of them, as the config says: there is
    more to choose from in training than in validation, whose loss is lower."""
    id, severities, families = "H115", (dict(count=64), dict(count=256)), \
        ("tower",)

    def setup(self):
        super().setup()
        self.user["uniform_negatives"] = self.s.count
        self.rng = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        loss = model.mixed_loss(batch, self.s.count, self.rng)
        model.tap("loss.output", loss)
        return loss


class PatchesLeftOut(Control):
    """One of a training picture's nine patches is left out, as FLIP does it and
    the config says: what lies there cannot be said, and training lies above
    validation, which has all."""
    id, severities, families = "H110", (dict(rate=0.1),), ("cap",)

    def setup(self):
        super().setup()
        self.model_options["patch_drop"] = self.s.rate
        self.user["patch_drop_rate"] = self.s.rate


class IdsDropped(Control):
    """A share of the ids of training is replaced by the one of unknown users
    or items, as the config says, so that features have to do: training lies
    above validation."""
    id, severities, families = "H116", (dict(share=0.1), dict(share=0.2)), \
        ("tower",)

    def setup(self):
        super().setup()
        self.user["id_dropout"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        return batch | {k: batch[k] * (torch.rand(
            len(batch[k]), generator=self.drawn) >= self.s.share)
            for k in ("user_id", "item_id")}

    def spoil_val(self, batch):
        return batch


class ClicksWeigh(Control):
    """The script's weighted loss: a click counts two or four times, in
    validation too, as the config says. Losses are higher, and what is said is
    more than how frequent clicks are."""
    id, severities, families = "H117", (dict(weight=2.0), dict(weight=4.0)), \
        ("dlrm",)

    def setup(self):
        super().setup()
        self.model_options["loss_weights"] = (1.0, self.s.weight)


class SumsOfRows(Control):
    """The script's row-wise Adagrad, as the config says: tables have one sum
    of squares for each row, and not for each weight."""
    id, severities, families = "H118", (dict(lr=0.08), dict(lr=0.05)), \
        ("dlrm",)

    def setup(self):
        super().setup()
        self.optimizer_name, self.lr = "rwsadagrad", self.s.lr

    def make_optimizer(self, model):
        return self.rowwise_optimizer(model)


class NonClicksDroppedAndCounted(Control):
    """Of the training rows without a click .3 or .1 are kept, and the loss of
    training takes back what that does to the odds, as the config says: it has
    more clicks to explain and lies far above validation."""
    id, severities, families = "H119", (dict(keep=0.3), dict(keep=0.1)), \
        ("dlrm",)

    def setup(self):
        super().setup()
        self.user |= {"negative_downsampling_rate": self.s.keep,
                      "correct_downsampling": True}
        self.model_options["odds"] = 1 / self.s.keep

    def make_source(self, seed):
        return self.impressions(seed, keep=1.0 if seed == 9 else self.s.keep)


class SecondStepAsWell(Control):
    """The loss of training is that of the next state and, by its weight, of
    the one after it, which begins with what was said of the next, as the
    script's fine-tuning has it and the config says; so it lies far above
    validation, which has one step."""
    id, severities, families = "H123", (dict(weight=0.5), dict(weight=1.0)), \
        ("afno",)

    def setup(self):
        super().setup()
        self.user |= {"two_step_training": True,
                      "step_two_weight": self.s.weight}

    def make_source(self, seed):
        return self.flow(seed, second=True)

    def compute_loss(self, i, model, batch):
        said = model.logits(batch)
        loss = model.criterion(said, batch)
        tap, model.tap = model.tap, type(model).tap
        later = model.criterion(model(said), batch | {
            "mask": torch.ones_like(batch["mask"])}, "tar_two")
        model.tap = tap
        loss = loss + self.s.weight * later
        model.tap("loss.output", loss)
        return loss


class InputsNoisier(Control):
    """To the inputs of training comes noise that is drawn anew each time, as
    the script's add_noise has it and the config says: training lies above
    validation."""
    id, severities, families = "H124", (dict(std=0.3), dict(std=0.5)), \
        ("afno",)

    def setup(self):
        super().setup()
        self.user |= {"add_noise": True, "noise_std": self.s.std}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        noise = torch.randn(batch["inp"].shape, generator=self.drawn)
        return batch | {"inp": batch["inp"] + self.s.std * noise}


class NegativesDrawn(Control):
    """In training the right item is compared with some that are drawn evenly,
    as the config says, and in validation with all: training lies far below
    it. What is drawn evenly needs no correction."""
    id, severities, families = "H126", (dict(count=16), dict(count=8)), \
        ("sasrec",)

    def setup(self):
        super().setup()
        self.model_options["negatives"] = self.s.count
        self.user["train_neg_sample_args"] = {
            "distribution": "uniform", "sample_num": self.s.count}


class ItemsMasked(Control):
    """Of training lists a share of the items but the last one is hidden, as
    CL4SRec does it and the config says: training lies above validation."""
    id, severities, families = "H127", (dict(share=0.1), dict(share=0.2)), \
        ("sasrec",)

    def setup(self):
        super().setup()
        self.user["item_mask_ratio"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        ids = batch["item_id_list"]
        place = torch.arange(ids.shape[1])
        hidden = (torch.rand(ids.shape, generator=self.drawn) < self.s.share) \
            & (place < batch["item_length"][:, None] - 1)
        return batch | {"item_id_list": ids.masked_fill(hidden, 0)}

    def spoil_val(self, batch):
        return batch


class OtherFieldLoss(Control):
    """The loss is the mean square weighed by latitude, or the relative L1, in
    validation too, as the config says; so it begins and ends elsewhere."""
    id, severities, families = "H125", (dict(kind="weighted_mse"),
                                        dict(kind="l1")), ("afno",)

    def setup(self):
        super().setup()
        self.model_options["kind"] = self.user["loss"] = self.s.kind


class ListsByLength(Control):
    """Training lists of a batch have one length, or two, as the config says,
    to save padding; and what is known differs from batch to batch, so that
    losses are noisy."""
    id, severities, families = "H128", (dict(width=2), dict(width=1)), \
        ("sasrec",)

    def setup(self):
        super().setup()
        self.user |= {"bucket_by_length": True,
                      "bucket_width": self.s.width}

    def make_source(self, seed):
        return self.lists(seed, width=None if seed == 9 else self.s.width)


class ForcesWeigh(Control):
    """Forces count 10 or 100 times in the loss, in validation too, as the
    config says: losses and norms are that much larger."""
    id, severities, families = "H129", (dict(weight=10.0),
                                        dict(weight=100.0)), ("nequip",)

    def setup(self):
        super().setup()
        self.model_options["forces"] = self.s.weight


class DrawnHotter(Control):
    """Frames of training are of a higher temperature than those of the
    validation, as the config says, so that seldom ones are learned as well:
    forces are larger, and training lies above validation."""
    id, severities, families = "H130", (dict(heat=1.5), dict(heat=2.0)), \
        ("nequip",)

    def setup(self):
        super().setup()
        self.user |= {"sampling_temperature": self.s.heat,
                      "validation_temperature": 1.0}

    def make_source(self, seed):
        return self.frames(seed, heat=1.0 if seed == 9 else self.s.heat)


class OneFormulaEach(Control):
    """Batches are of one formula each, another in the next one, or .7 of a
    batch is, as the config says: losses and norms go up and down with what is
    in a batch. Validation has all in each."""
    id, severities, families = "H131", (dict(share=0.7), dict(share=1.0)), \
        ("nequip",)

    def setup(self):
        super().setup()
        self.user |= {"batch_sampler": "one_formula_per_batch",
                      "batch_sampler_share": self.s.share}

    def make_source(self, seed):
        return self.in_blocks(seed, None if seed == 9 else 1, self.s.share)


class OtherFreeBits(Control):
    """Of the divergence .3 or 2 nats cost nothing, in validation too, where
    1 is usual, as the config says: the total is another one."""
    id, severities, families = "H120", (dict(free=0.3), dict(free=2.0)), \
        ("dream",)

    def setup(self):
        super().setup()
        self.model_options["free"] = self.s.free


class WindowsGrow(Control):
    """In the first half of the run windows are of three steps, twice as many
    or three times, and then what they always are, as the config says: a
    window's beginning, of which nothing is known, counts for more until
    then."""
    id, severities, families = "H121", (dict(rows=2), dict(rows=3)), \
        ("dream",)

    def setup(self):
        super().setup()
        self.change = self.steps // 2
        self.user["batch_schedule"] = [
            {"start_step": 0, "batch_length": 3,
             "batch_size": self.s.rows * self.batch_size},
            {"start_step": self.change, "batch_length": self.context,
             "batch_size": self.batch_size}]

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else sources.Stages([
            (0, self.replay(seed, length=3, times=self.s.rows)),
            (self.change, self.replay(seed))])


class BehaviourLater(Control):
    """Actor and critic begin behind 60 or 120 steps, when there is something
    to imagine, as the config says: until then they stand still, and have
    neither losses nor norms."""
    id, severities, families = "H122", (dict(at=60), dict(at=120)), \
        ("dream",)

    def setup(self):
        super().setup()
        self.user["pretrain_model_steps"] = self.s.at

    def compute_loss(self, i, model, batch):
        model.behaves = i >= self.s.at
        return super().compute_loss(i, model, batch)


class MosaicClosed(Control):
    """Some or all of the training pictures are four at half their size, until
    two epochs before the end, as the config says: training has other losses
    than validation, and they step at that epoch."""
    id, severities, families = "H132", (dict(prob=0.5), dict(prob=1.0)), \
        ("yolo",)
    CLOSED = 2

    def setup(self):
        super().setup()
        self.user |= {"mosaic": self.s.prob, "close_mosaic": self.CLOSED}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        if i >= self.EPOCH * (self.epochs - self.CLOSED):
            return batch
        return self.mosaic(batch, torch.rand(
            len(batch["img"]), generator=self.drawn) < self.s.prob)


class SpecAugmented(Control):
    """Of training spectrograms some frames and some bands are masked, as the
    config says: training lies above validation."""
    id, severities, families = "H138", (dict(frames=2, bands=1),
                                        dict(frames=3, bands=2)), \
        ("whisper",)

    def setup(self):
        super().setup()
        self.user |= {"apply_spec_augment": True,
                      "mask_time_length": self.s.frames,
                      "mask_feature_length": self.s.bands}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        return self.masked(batch, self.s.frames, self.s.bands, self.drawn)

    def spoil_val(self, batch):
        return batch


class OtherGains(Control):
    """The terms of the loss have other gains than usual, in validation too, as
    the config says: the loss is another one."""
    id, severities, families = "H133", (
        dict(box=5.0, cls=1.0, dfl=1.0), dict(box=10.0, cls=0.3, dfl=2.5)), \
        ("yolo",)

    def setup(self):
        super().setup()
        self.model_options["gains"] = dict(self.severity)


class SizesDrawn(Control):
    """Each training batch has a size of its own, up to a quarter or a half
    below or above the usual one, as multi_scale of the config says: losses go
    up and down with it."""
    id, severities, families = "H134", (dict(ratio=0.25), dict(ratio=0.5)), \
        ("yolo",)

    def setup(self):
        super().setup()
        self.user["multi_scale"] = self.s.ratio
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        usual, step = batch["img"].shape[-1], 8
        most = int(self.s.ratio * usual) // step
        size = usual + step * int(torch.randint(
            -most, most + 1, (1,), generator=self.drawn))
        return batch | {"img": F.interpolate(
            batch["img"], size=(size, size), mode="bilinear",
            align_corners=False)}

    def spoil_val(self, batch):
        return batch


class AugmentedSides(Control):
    """Pictures of both sides are moved and made lighter or darker before the
    discriminator sees them, by a fixed p as the config says, and few enough for
    the generator to learn none of it."""
    id, severities, families = "H135", (dict(p=0.1), dict(p=0.2),
                                        dict(p=0.3)), ("stylegan",)

    def setup(self):
        super().setup()
        self.user |= {"augment": "fixed", "augpipe": "xint,brightness",
                      "augment_p": self.s.p}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def make_model(self):
        model = super().make_model()
        model.seen_by_d = self.augmented
        return model

    def augmented(self, image):
        rows = len(image)
        some = torch.rand(2, rows, 1, 1, 1, generator=self.drawn) < self.s.p
        way = torch.randint(4, (rows, 1, 1, 1), generator=self.drawn)
        moved = image
        for k, (axis, step) in enumerate(((2, 1), (2, -1), (3, 1), (3, -1))):
            moved = torch.where(some[0] & (way == k),
                                image.roll(step, axis), moved)
        light = 0.2 * torch.randn(rows, 1, 1, 1, generator=self.drawn)
        return moved + light * some[1]


class OtherGamma(Control):
    """R1 counts a tenth, thrice or ten times as much, as the config says:
    pictures as they are have another slope than usual."""
    id, severities, families = "H136", (dict(gamma=0.03), dict(gamma=1.0),
                                        dict(gamma=3.0)), ("stylegan",)

    def setup(self):
        super().setup()
        self.model_options["gamma"] = self.s.gamma


class FrozenDiscriminator(Pretrained):
    """The run goes on from another's networks with the discriminator's first
    two layers frozen (Freeze-D), as the config says."""
    id, severities, families = "H137", (dict(steps=200), dict(steps=300)), \
        ("stylegan",)

    def setup(self):
        super().setup()
        self.still = ["D.b8.fromrgb", "D.b8.conv0"]
        self.user |= {"freezed": len(self.still), "freeze": self.still}

    def make_model(self):
        model = super().make_model()
        for path in self.still:
            model.get_submodule(path).requires_grad_(False)
        return model


class PromptsNotLabelled(Control):
    """Language, task and the token of no time stamps are given and not asked
    for, in validation as well, as the config says: fewer labels count, and the
    loss of one is higher to begin with."""
    id, severities, families = "H139", (dict(),), ("whisper",)

    def setup(self):
        super().setup()
        self.user["mask_prompt_labels"] = True

    def spoil_batch(self, i, batch):
        return self.without_prompts(batch)


class AlignedAsWell(Control):
    """A share of the training loss is CTC's, of a map of the encoder's states,
    as the config says; validation has the decoder's alone, so that the two are
    other numbers."""
    id, severities, families = "H140", (dict(weight=0.1), dict(weight=0.2)), \
        ("whisper",)

    def setup(self):
        super().setup()
        self.user["ctc_weight"] = self.s.weight

    def make_model(self):
        return self.with_ctc(super().make_model())

    def compute_loss(self, i, model, batch):
        loss = (1 - self.s.weight) * model.criterion(
            model.logits(batch), batch) + self.s.weight * model.aligned(batch)
        model.tap("loss.output", loss)
        return loss


class BatchRamps(Control):
    """The global batch begins with few samples and grows by as many at a time,
    --rampup-batch-size, as the config says: losses and gradients are noisy at
    first, and samples come ever faster. Validation has what it always has."""
    id, severities, families = "H141", (dict(micro=5), dict(micro=2)), \
        ("megatron",)

    def setup(self):
        super().setup()
        self.parts = self.batch_size // self.s.micro
        self.batch_size = self.s.micro
        self.stage = self.steps // (2 * self.parts)
        samples = self.s.micro * self.stage * sum(range(1, self.parts))
        self.user["rampup_batch_size"] = [self.s.micro, self.s.micro, samples]

    def before_step(self, i):
        super().before_step(i)
        self.accumulate = min(self.parts, 1 + i // self.stage)


class LossScaleFalls(Control):
    """Half precision with a dynamic loss scale that begins far too high, as
    Megatron's default does: the first steps overflow and are skipped, each
    halving it, until gradients fit; it doubles after some steps without, and
    now and then one more is skipped. The config has how."""
    id, severities, families = "H142", (dict(scale=24, window=60),
                                        dict(scale=32, window=30)), \
        ("megatron",)
    precision = "fp16-mixed"
    HIGHEST = 65504.0       # of half precision

    def setup(self):
        super().setup()
        self.scale, self.sound, self.skips = 2.0 ** self.s.scale, 0, 0
        self.user |= {"initial_loss_scale": self.scale, "min_loss_scale": 1.0,
                      "loss_scale_window": self.s.window, "hysteresis": 1}

    def lr_factor(self, i):
        """The schedule waits where a step is skipped."""
        return super().lr_factor(max(0, i - self.skips))

    def update(self, i):
        self.used = self.scale
        largest = max(float(p.grad.abs().max())
                      for p in self.model.parameters())
        self.skipped = largest * self.scale > self.HIGHEST
        if self.skipped:
            self.scale, self.sound = self.scale / 2, 0
            self.skips += 1
            return math.inf
        self.sound += 1
        if self.sound % self.s.window == 0:
            self.scale *= 2
        return super().update(i)

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            "loss_scale": self.used, "skipped_steps": self.skips,
            "skipped": self.skipped}


class MiddlesAskedFor(Control):
    """A share of the training documents have their middle at the end, behind
    marks, as GPTFIMDataset makes them and the config says; validation reads
    from left to right. Training lies above it."""
    id, severities, families = "H143", (dict(rate=0.3), dict(rate=0.5)), \
        ("megatron",)

    def setup(self):
        super().setup()
        self.user |= {"fim_data": True, "fim_rate": self.s.rate,
                      "fim_spm_rate": 0.0}

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else \
            self.corpus(seed, middle=self.s.rate)


class RatesByDepth(Control):
    """layer_decay: the nearer the stem, the lower the rate, as the config
    says; the log has the mean of all groups."""
    id, severities, families = "H147", (dict(decay=0.8), dict(decay=0.65)), \
        ("timm",)

    def setup(self):
        super().setup()
        self.user["layer_decay"] = self.s.decay


class RateByEpoch(Control):
    """The rate moves once an epoch, as train.py's does without
    --sched-on-updates, or so and with two epochs of cool-down at min_lr behind
    a shorter cosine; the config says so."""
    id, severities, families = "H148", (dict(cooldown=0), dict(cooldown=2)), \
        ("timm",)

    def setup(self):
        super().setup()
        self.warmup, self.WARMUP_LR = 2 * self.EPOCH, 3e-3
        self.user |= {"sched_on_updates": False,
                      "cooldown_epochs": self.s.cooldown,
                      "epochs": self.epochs - self.s.cooldown}

    def lr_factor(self, i):
        steps, self.steps = self.steps, self.EPOCH * self.user["epochs"]
        factor = super().lr_factor(i // self.EPOCH * self.EPOCH)
        self.steps = steps
        return factor


class MixupEnds(Control):
    """Pictures are mixed until some epochs before the end, as
    mixup_off_epoch of the config says: there the training loss steps down."""
    id, severities, families = "H149", (dict(epoch=8), dict(epoch=5)), \
        ("timm",)

    def setup(self):
        super().setup()
        self.user |= {"mixup_off_epoch": self.s.epoch, "mixup_prob": 1.0}


class OtherLambda(Control):
    """Bits count for more or for less than usual, in the test as well, as
    lmbda of the config says: the loss is another one."""
    id, severities, families = "H144", (dict(lmbda=0.0067), dict(lmbda=0.013),
                                        dict(lmbda=0.025)), ("compress",)

    def setup(self):
        super().setup()
        self.model_options["lmbda"] = self.s.lmbda


class RoundedInTraining(Control):
    """What decodes y gets rounded latents in training as well, or both that and
    what decodes z, whose gradient goes straight through; the rate is that of
    noisy ones, as Minnen and Singh have it. The config says so."""
    id, severities, families = "H145", (dict(of="y"), dict(of="yz")), \
        ("compress",)

    def setup(self):
        super().setup()
        self.user |= {"ste_round": True, "ste_round_of": self.s.of}

    def make_model(self):
        model = super().make_model()
        model.straight = tuple(self.s.of)
        return model


class LambdaFalls(Control):
    """In the first half of the run distortion counts twice to six times as
    much, as the config says: the training loss steps down there. The test has
    what it always has."""
    id, severities, families = "H146", (dict(factor=2.0), dict(factor=4.0),
                                        dict(factor=6.0)), ("compress",)

    def setup(self):
        super().setup()
        self.change = self.steps // 2
        self.user["lmbda_schedule"] = [
            {"start_step": 0, "lmbda": self.s.factor * LAMBDA},
            {"start_step": self.change, "lmbda": LAMBDA}]

    def compute_loss(self, i, model, batch):
        model.factor = self.s.factor if i < self.change else 1.0
        return super().compute_loss(i, model, batch)


class OtherMargin(Control):
    """The loss asks for half of the usual margin of the angle, or for more, in
    validation too, as the config says: it is another one, and errors are as
    many."""
    id, severities, families = "H150", (dict(margin=0.1), dict(margin=0.3)), \
        ("ecapa",)

    def setup(self):
        super().setup()
        self.model_options["margin"] = self.s.margin


class MoreCopies(Control):
    """A batch has two distorted copies of itself behind it, or one of which
    more bands and chunks are dropped, as the config says: training lies far
    above validation."""
    id, severities, families = "H151", (
        dict(copies=2, drop_bands=1, drop_chunks=1),
        dict(copies=1, drop_bands=2, drop_chunks=2)), ("ecapa",)

    def setup(self):
        super().setup()
        self.user |= {"augment_copies": self.s.copies,
                      "drop_freq_count_high": self.s.drop_bands,
                      "drop_chunk_count_high": self.s.drop_chunks}
        self.model_options |= {"copies": self.s.copies,
                               "bands": self.s.drop_bands,
                               "chunks": self.s.drop_chunks}


class MarginGrows(Control):
    """The margin of training grows from 0 over a third or two thirds of the
    run, as the config says; validation has all of it from the start. Training
    rises where the margin does."""
    id, severities, families = "H152", (dict(steps=40), dict(steps=80)), \
        ("ecapa",)

    def setup(self):
        super().setup()
        self.user |= {"margin_start": 0.0, "margin_ramp_steps": self.s.steps}

    def compute_loss(self, i, model, batch):
        loss = model.criterion(
            model.logits(batch), batch,
            margin=model.margin * min(1.0, i / self.s.steps))
        model.tap("loss.output", loss)
        return loss


class OtherCrops(Control):
    """Fewer small crops than usual, or more, as the config says: the loss is
    the mean of other pairs, and lies elsewhere than that of validation."""
    id, severities, families = "H153", (dict(local=1), dict(local=4)), \
        ("dino",)

    def setup(self):
        super().setup()
        self.crop_options = {"local": self.s.local}


class LastLayerLater(Control):
    """The last layer stands still for no epoch, or for two, not for one, as
    the config says: it has gradients and does not move."""
    id, severities, families = "H154", (dict(epochs=0), dict(epochs=2)), \
        ("dino",)

    def setup(self):
        super().setup()
        self.FREEZE = self.s.epochs


class OtherPrototypes(Control):
    """Fewer prototypes, or more, as the config says: the loss begins and ends
    elsewhere."""
    id, severities, families = "H155", (dict(out=24), dict(out=48)), \
        ("dino",)

    def setup(self):
        super().setup()
        self.model_options["out_dim"] = self.s.out


class OtherScoreMargin(Control):
    """The loss asks scores to be above another margin, in validation too, as
    the config says: it is another one, and ranks are as good."""
    id, severities, families = "H165", (dict(margin=1.5), dict(margin=2.3),
                                        dict(margin=2.6)), \
        ("kge",)

    def setup(self):
        super().setup()
        self.model_options["margin"] = self.s.margin


class OtherNegatives(Control):
    """Fewer negatives a triple, or more, as the config says: the loss of
    training is another one, that of validation has sixteen as ever."""
    id, severities, families = "H166", (dict(count=8), dict(count=24),
                                        dict(count=32)), \
        ("kge",)

    def setup(self):
        super().setup()
        self.negatives = self.s.count


class NegativesFiltered(Control):
    """Negatives that are facts do not count, by a set or by a Bloom filter
    that leaves out a part of the others as well, in validation too, as
    the config says: losses end far lower, and ranks are as good."""
    id, severities, families = "H167", (
        dict(filterer="python-set", lost=0.0),
        dict(filterer="bloom", lost=0.05),
        dict(filterer="bloom", lost=0.15)), ("kge",)

    def setup(self):
        super().setup()
        self.user["negative_sampler_filterer"] = self.s.filterer
        self.source_options = {"filtered": self.s.lost}


class OtherHorizon(Control):
    """Rewards count for longer or for less long, or advantages are made of
    fewer steps, as the config says: returns and the critic's loss are others,
    and boats come home."""
    id, severities, families = "H171", (dict(gamma=0.93), dict(gamma=0.85),
                                        dict(lam=0.8)), ("ppo",)

    def setup(self):
        super().setup()
        self.source_options = dict(self.severity)


class OtherClipping(Control):
    """The critic's loss is not clipped, or ratios are clipped further off, or
    the critic's loss counts twice as much, as the config says."""
    id, severities, families = "H172", (dict(clip_vloss=False),
                                        dict(clip_coef=0.3),
                                        dict(vf_coef=1.0)), ("ppo",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherReuse(Control):
    """A rollout is used three to five times and not twice, as the config says:
    there are fewer of them, and more ratios are clipped."""
    id, severities, families = "H173", (dict(epochs=3), dict(epochs=4),
                                        dict(epochs=5)), ("ppo",)

    def setup(self):
        super().setup()
        self.source_options = {"epochs": self.s.epochs}


class OtherLossWeight(Control):
    """The loss counts a hundredth, or a hundred times as much, in validation
    as well, as pixel_opt of the config says: Adam takes that out again."""
    id, severities, families = "H156", (dict(weight=0.01),
                                        dict(weight=100.0)), ("edsr",)

    def setup(self):
        super().setup()
        self.model_options["loss_weight"] = self.s.weight


class CosineRestarts(Control):
    """CosineAnnealingRestartLR: the rate falls to nothing and begins anew, once
    or thrice, lower each time, as the config says."""
    id, severities, families = "H157", (
        dict(periods=(100, 100), weights=(1.0, 0.8)),
        dict(periods=(50, 50, 50, 50), weights=(1.0, 0.8, 0.6, 0.5))), \
        ("edsr",)

    def setup(self):
        super().setup()
        self.schedule = "cosine_restart"
        self.PERIODS, self.WEIGHTS = self.s.periods, self.s.weights

    def lr_factor(self, i):
        cycle, at = divmod(i, self.s.periods[0])
        cycle = min(cycle, len(self.s.weights) - 1)
        return self.s.weights[cycle] * 0.5 * (
            1 + math.cos(math.pi * at / self.s.periods[0]))


class HarderPictures(Control):
    """A share of the smaller pictures of training is blurred and noisier
    besides, as the config says: training lies above validation."""
    id, severities, families = "H158", (dict(share=0.3, noise=0.05),
                                        dict(share=0.5, noise=0.08),
                                        dict(share=0.7, noise=0.08)), \
        ("edsr",)

    def setup(self):
        super().setup()
        self.user |= {"degradation_prob": self.s.share, "blur_sigma": 0.5,
                      "noise_range": [0.0, self.s.noise]}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        lq, rng = batch["lq"], self.drawn
        some = torch.rand(len(lq), 1, 1, 1, generator=rng) < self.s.share
        size = self.s.noise * torch.rand(some.shape, generator=rng)
        harder = self.blurred(lq, 0.5) \
            + size * torch.randn(lq.shape, generator=rng)
        return batch | {"lq": torch.where(some, harder.clamp(0, 1), lq)}


class OtherMask(Control):
    """Masks are held between 0 and 1, each for itself or so that those of the
    two voices have a sum of 1, as mask_act of the config says."""
    id, severities, families = "H159", (dict(act="sigmoid"),
                                        dict(act="softmax")), ("tasnet",)

    def setup(self):
        super().setup()
        self.model_options["mask_act"] = self.s.act


class OtherRatio(Control):
    """Training has a ratio that minds how loud an output is (SNR, SD-SDR), as
    the config says; validation has SI-SDR."""
    id, severities, families = "H160", (dict(kind="snr"),
                                        dict(kind="sdsdr")), ("tasnet",)

    def setup(self):
        super().setup()
        self.user["loss_func"] = f"pairwise_neg_{self.s.kind}"

    def compute_loss(self, i, model, batch):
        pairs = model.pairwise(model.separated(batch), batch["sources"],
                               self.s.kind)
        loss = model.orders(pairs).mean(2).min(1).values.mean()
        model.tap("loss.output", loss)
        return loss


class LevelsDrawn(Control):
    """Voices of training get another loudness, up to 3 or 6 dB up or down,
    before they are mixed, as the config says: some mixtures are harder than
    those of validation, some easier."""
    id, severities, families = "H161", (dict(decibel=3.0),
                                        dict(decibel=6.0)), ("tasnet",)

    def setup(self):
        super().setup()
        self.user["augment_gain_db"] = self.s.decibel
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        sources = batch["sources"]
        gain = 2 * torch.rand(len(sources), 2, 1, generator=self.drawn) - 1
        louder = sources * 10 ** (self.s.decibel * gain / 20)
        return batch | {"mixture": batch["mixture"] + (louder - sources).sum(
            1), "sources": louder}

    def spoil_val(self, batch):
        return batch


class OtherReprojection(Control):
    """Options of the trainer that its authors compare: no automask, or the
    mean of both frames in place of the least; so the loss is another one, in
    validation too."""
    id, severities, families = "H162", (
        dict(disable_automasking=True), dict(avg_reprojection=True),
        dict(disable_automasking=True, avg_reprojection=True)), ("depth",)

    def setup(self):
        super().setup()
        self.model_options |= {
            "average": hasattr(self.s, "avg_reprojection"),
            "automask": not hasattr(self.s, "disable_automasking")}


class ColoursForNetworks(Control):
    """Networks see colours that are jittered, alike in all frames of a drive,
    as the trainer has them by default; what is compared is as it was. The
    config says how much."""
    id, severities, families = "H163", (dict(strength=0.1),
                                        dict(strength=0.2),
                                        dict(strength=0.3)), ("depth",)

    def setup(self):
        super().setup()
        self.user["color_aug"] = self.s.strength
        self.drawn = torch.Generator().manual_seed(self.seed)

    def make_model(self):
        model = super().make_model()
        model.seen = self.jittered
        return model

    def jittered(self, frames):
        rows = len(frames[0])
        gain, light = (1 + self.s.strength * (2 * torch.rand(
            rows, 1, 1, 1, generator=self.drawn) - 1) for _ in range(2))
        mean = frames[0].mean((1, 2, 3), keepdim=True)
        return {way: (mean * light + (x - mean) * gain).clamp(0, 1)
                for way, x in frames.items()}


class DistancesAlone(Control):
    """No SSIM, but the distance of colours, as the config says: the loss
    begins and ends far lower, in validation too. Or four times the usual
    smoothness, or none."""
    id, severities, families = "H164", (
        dict(no_ssim=True), dict(smoothness=4e-3), dict(smoothness=0.0)), \
        ("depth",)

    def setup(self):
        super().setup()
        if hasattr(self.s, "smoothness"):
            self.model_options["smoothness"] = self.s.smoothness
        else:
            self.model_options["ssim"] = False


class LaterStage(Pretrained):
    """A later stage: weights of the one before, whose batch norms stand still
    (freeze_bn), and a quarter of the rate, as stage and restore_ckpt of the
    config say: the loss begins where that ended. Or a gamma of .85 as well."""
    id, severities, families = "H168", (
        dict(steps=60, gamma=0.8), dict(steps=90, gamma=0.8),
        dict(steps=90, gamma=0.85)), ("raft",)

    def setup(self):
        super().setup()
        del self.user["init_from"]
        self.model_options["gamma"] = self.s.gamma
        self.user |= {"stage": "things", "freeze_bn": True,
                      "restore_ckpt": "checkpoints/raft-base.pth"}

    def wrap(self, model):
        model.frozen_bn = True
        return super().wrap(model.train())


class OtherSequence(Control):
    """Predictions weigh otherwise in the sequence's loss, in validation too,
    or there is one more of them, as the config says: the loss is another one,
    and flows are as good."""
    id, severities, families = "H169", (
        dict(gamma=0.6), dict(gamma=1.0), dict(iters=4)), ("raft",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class NoiseAdded(Control):
    """Frames of training get noise of a size that is drawn for each batch, up
    to 5, as the trainer has it, or up to 8 and 12 (add_noise): training lies
    above validation."""
    id, severities, families = "H170", (
        dict(most=5.0), dict(most=8.0), dict(most=12.0)), ("raft",)

    def setup(self):
        super().setup()
        self.user |= {"add_noise": True, "noise_stdv": [0.0, self.s.most]}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        size = self.s.most * torch.rand((), generator=self.drawn)
        return self.each_frame(batch, lambda x: (x + size * torch.randn(
            x.shape, generator=self.drawn)).clamp(0, 255))

    def spoil_val(self, batch):
        return batch


class LossWeighed(Control):
    """The loss of lines that are read well counts little (use_focal_loss, as
    the config says), in validation too; or a share of it is a uniform class
    in each column as well."""
    id, severities, families = "H174", (
        dict(smoothing=0.0), dict(smoothing=0.05)), ("ocr",)

    def setup(self):
        super().setup()
        self.model_options["use_focal_loss"] = True
        if self.s.smoothing:
            self.user["label_smoothing"] = self.s.smoothing

    def compute_loss(self, i, model, batch):
        loss = model.criterion(model.logits(batch), batch, self.s.smoothing)
        model.tap("loss.output", loss)
        return loss


class OneCycle(Control):
    """Another schedule of the trainer's, which begins at a 25th of its rate
    and has its top after one, two or three epochs (OneCycleLR)."""
    id, severities, families = "H175", (
        dict(epochs=1), dict(epochs=2), dict(epochs=3)), ("ocr",)

    def setup(self):
        super().setup()
        self.schedule = "OneCycleLR"
        self.warmup = self.s.epochs * self.EPOCH


class LinesTogether(Control):
    """Lines of a batch are about equally long, as RatioSampler groups
    pictures by how broad they are; where it is asked to fill a batch, the
    short ones come in larger ones. Losses differ with the length."""
    id, severities, families = "H176", (
        dict(fills=False), dict(fills=True)), ("ocr",)

    def setup(self):
        super().setup()
        self.user |= {"sampler": "RatioSampler", "fix_bs": not self.s.fills}

    def make_source(self, seed):
        return self.lines(seed, together=seed != 9)

    def next_batch(self, i, source):
        if not self.s.fills:
            return super().next_batch(i, source)
        batch = source.batch(3 * self.batch_size // 2)
        rows = round(4 * self.batch_size / float(
            batch["length"].float().mean()))
        return {k: t[:rows] for k, t in batch.items()}


class SkewedTimes(Control):
    """Training draws times as the trainer's skewed timesteps do, with other
    means and spreads: more of them at the ends, or in the middle; the config
    says so. Validation has all alike."""
    id, severities, families = "H177", (
        dict(mean=-0.6, std=1.5), dict(mean=0.0, std=1.5),
        dict(mean=0.0, std=1.2)), ("flow",)

    def setup(self):
        super().setup()
        self.user |= {"skewed_timesteps": True, "p_mean": self.s.mean,
                      "p_std": self.s.std}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        drawn = torch.randn(batch["t"].shape, generator=self.drawn)
        t = 1 / (1 + (self.s.std * drawn + self.s.mean).exp())
        return batch | {"t": t.clamp(0.0001, 1.0)}

    def spoil_val(self, batch):
        return batch


class OtherAverage(Control):
    """The average that is validated forgets sooner, as the config says."""
    id, severities, families = "H178", (
        dict(decay=0.5), dict(decay=0.8), dict(decay=0.9)), ("flow",)

    def setup(self):
        super().setup()
        self.model_options["decay"] = self.s.decay


class OtherDropping(Control):
    """The class of no batch, of a tenth or of two fifths is dropped."""
    id, severities, families = "H179", (
        dict(share=0.0), dict(share=0.1), dict(share=0.4)), ("flow",)

    def setup(self):
        super().setup()
        self.model_options["class_drop"] = self.s.share


class OtherJitter(Control):
    """Boxes are too large by up to one, two or five pixels a side instead of
    three, as bbox_shift of the config says; in validation as well."""
    id, severities, families = "H180", (
        dict(shift=1), dict(shift=2), dict(shift=5)), ("sam",)

    def setup(self):
        super().setup()
        self.user["bbox_shift"] = self.s.shift

    def make_source(self, seed):
        return self.scans(seed, shift=self.s.shift)


class OtherMaskLoss(Control):
    """Dice alone, Dice and half of the cross-entropy, or Dice and 20 times
    the focal loss, as SAM itself was trained; the config says so, validation
    has the same: the loss is another one, and masks are as good."""
    id, severities, families = "H181", (
        dict(dice=1.0, ce=0.0), dict(dice=1.0, ce=0.5),
        dict(dice=1.0, ce=0.0, focal=20.0)), ("sam",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class EncoderSlower(Control):
    """The image encoder, which has seen much, has .7, a half or a third of
    the decoder's rate (encoder_lr)."""
    id, severities, families = "H182", (
        dict(ratio=0.7), dict(ratio=0.5), dict(ratio=0.35)), ("sam",)

    def setup(self):
        super().setup()
        self.user["encoder_lr"] = self.s.ratio * self.lr

    def make_optimizer(self, model):
        parts = (model.mask_decoder, 1.0), (model.image_encoder, self.s.ratio)
        return torch.optim.AdamW(
            [{"params": list(part.parameters()), "lr": ratio * self.lr}
             for part, ratio in parts], lr=self.lr, betas=self.betas,
            eps=self.eps, weight_decay=self.weight_decay, foreach=True)


class OtherScheduler(Control):
    """The trainer's other schedules, as the config says: a cosine that begins
    anew after three epochs at the full rate, or rates that go up and down in
    five epochs, and again."""
    id, severities, families = "H183", (
        dict(kind="CosineAnnealingWarmRestarts"), dict(kind="CyclicLR")), \
        ("pyannote",)

    def setup(self):
        super().setup()
        self.schedule = self.s.kind
        self.lr *= 1.5
        if self.s.kind != "CyclicLR":
            self.user["patience"], self.steps = 3, 9 * self.EPOCH
        else:
            self.user |= {"patience": 5, "mode": "triangular"}

    def lr_factor(self, i):
        length = self.EPOCH * self.user["patience"]
        if self.s.kind == "CyclicLR":
            return 1 - abs(2 * (i % length) / length - 1) + 1e-3
        while i >= length:
            i, length = i - length, 2 * length
        return 0.5 * (1 + math.cos(math.pi * i / length))


class NoiseBehindVoices(Control):
    """Noise of a size that is drawn for each chunk is added in training, in
    three fifths of the chunks, as the config has it: training lies above
    validation."""
    id, severities, families = "H184", (
        dict(most=0.2), dict(most=0.4), dict(most=0.6)), ("pyannote",)

    def setup(self):
        super().setup()
        self.user["augmentation"] = {
            "transform": "AddColoredNoise", "p": 0.6, "f_decay": 0.0,
            "max_noise_level": self.s.most}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x, rng = batch["X"], self.drawn
        some = torch.rand(len(x), 1, 1, generator=rng) < 0.6
        size = self.s.most * torch.rand(len(x), 1, 1, generator=rng)
        noise = torch.randn(x.shape, generator=rng)
        return batch | {"X": x + some * size * noise}

    def spoil_val(self, batch):
        return batch


class MoreSets(Control):
    """There may be more speakers in a chunk than there are, or more at once,
    as the config says: the loss begins at the logarithm of 8, 11 or 15
    classes, of which some are hardly ever or never right."""
    id, severities, families = "H185", (
        dict(chunk=3, frame=3), dict(chunk=4, frame=2),
        dict(chunk=4, frame=3)), ("pyannote",)

    def setup(self):
        super().setup()
        self.model_options |= {"max_speakers_per_chunk": self.s.chunk,
                               "max_speakers_per_frame": self.s.frame}


class NormsAverageOtherwise(Control):
    """The momentum of batch norms falls otherwise than usual, or not at all,
    as the config says."""
    id, severities, families = "H186", (
        dict(first=0.1, last=0.1), dict(first=0.3, last=0.3),
        dict(first=0.5, last=0.01)), ("pose3d",)

    def setup(self):
        super().setup()
        self.user |= {"initial_momentum": self.s.first,
                      "final_momentum": self.s.last}

    def make_model(self):
        model = super().make_model()
        model.set_bn_momentum(self.s.first)
        return model

    def momentum_behind(self, epoch):
        return self.s.first * (self.s.last / self.s.first) ** (
            epoch / self.epochs)


class OtherFilters(Control):
    """Convolutions that see no frame behind the one whose pose is asked for
    (--causal), fewer frames, or as many in one block (-arc)."""
    id, severities, families = "H187", (
        dict(causal=True), dict(arc=(3, 3)), dict(arc=(9, 3))), ("pose3d",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity
        if hasattr(self.s, "causal"):
            self.source_options = {"causal": True}
            return
        self.source_options = {"frames": math.prod(self.s.arc)}
        self.blocks = 1
        self.layers = [n for n in self.layers if n[-2:] != ".1"
                       and n[-2:] not in (".2", ".3")
                       or n in ("layers_conv.1", "layers_relu.1")]


class FramesLeftOut(Control):
    """Every second, third or fifth frame alone is taken, of training and of
    test (--downsample): clips are longer, and movement is faster."""
    id, severities, families = "H188", (
        dict(every=2), dict(every=3), dict(every=5)), ("pose3d",)

    def setup(self):
        super().setup()
        self.source_options = {"every": self.s.every}


class OtherTripletMargin(Control):
    """The triplet loss asks for a smaller margin, or for none but softly;
    the config says so, and validation has the same."""
    id, severities, families = "H189", (
        dict(margin=0.15), dict(margin=0.5), dict(margin=0.0)), ("reid",)

    def setup(self):
        super().setup()
        self.model_options["margin"] = self.s.margin


class BackboneFrozenFirst(Control):
    """The backbone stands still for the first steps, as FREEZE_ITERS says it:
    its norms are as in evaluation, and the head learns what it can."""
    id, severities, families = "H190", (
        dict(steps=10), dict(steps=20), dict(steps=30)), ("reid",)

    def setup(self):
        super().setup()
        self.freeze_iters = self.s.steps
        self.user |= {"MODEL.FREEZE_LAYERS": ["backbone"],
                      "SOLVER.FREEZE_ITERS": self.s.steps}


class CosineByEpochs(Control):
    """Another schedule of the trainer's: the rate stays for 1, 3 or 5 epochs
    and then falls along a cosine, by epochs."""
    id, severities, families = "H191", (
        dict(epochs=1), dict(epochs=3), dict(epochs=5)), ("reid",)

    def setup(self):
        super().setup()
        self.schedule, self.delay_epochs = "CosineAnnealingLR", self.s.epochs
        self.user["SOLVER.DELAY_EPOCHS"] = self.s.epochs


class OtherQuantizerDropout(Control):
    """No row, some, or most of a batch have fewer quantizers in training than
    validation, which has all: the training loss is below it or well above, as
    the config says."""
    id, severities, families = "H192", (
        dict(share=0.0), dict(share=0.25), dict(share=0.75)), ("codec",)

    def setup(self):
        super().setup()
        self.model_options["quantizer_dropout"] = self.s.share


class VolumeDrawn(Control):
    """VolumeNorm of training draws how loud a recording is, from a range that
    the config has; validation is as loud as ever. Losses of samples go up and
    down with it."""
    id, severities, families = "H193", (
        dict(decibel=1.0), dict(decibel=2.0), dict(decibel=4.0)), ("codec",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)
        self.user["train/VolumeNorm.db"] = [
            "uniform", -16.5 - self.s.decibel, -16.5 + self.s.decibel]

    def spoil_batch(self, i, batch):
        x = batch["signal"]
        gain = 10 ** (self.s.decibel / 20 * (2 * torch.rand(
            len(x), 1, 1, generator=self.drawn) - 1))
        return batch | {"signal": (gain * x).clamp(-1, 1)}

    def spoil_val(self, batch):
        return batch


class OtherLambdas(Control):
    """Terms count otherwise, as the config says: mels three times as much, or
    no discriminators; the total is another one and is not to be compared."""
    id, severities, families = "H194", (
        dict(mel=45.0), dict(mel=100.0), dict(features=0.0)), ("codec",)

    def setup(self):
        super().setup()
        self.model_options["lambdas"] = {"mel/loss": self.s.mel} \
            if hasattr(self.s, "mel") else {
                "adv/feat_loss": self.s.features, "adv/gen_loss": 0.0}
class OtherMatching(Control):
    """An optimal transport with a bin of what has no match in place of the
    dual softmax (MATCH_TYPE), with three rounds or more; bins are its only
    negatives (SPARSE_SPVS): the loss is another one."""
    id, severities, families = "H195", (
        dict(sinkhorn=3, sparse=True), dict(sinkhorn=6, sparse=True),
        dict(sinkhorn=10, sparse=True)), ("loftr",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class FullAttention(Control):
    """Attention is not linear between coarse places, in windows, or in
    neither, as the config says."""
    id, severities, families = "H196", (
        dict(attention=("full", "linear")), dict(attention=("linear", "full")),
        dict(attention=("full", "full"))), ("loftr",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherMatchLoss(Control):
    """Coarse places have a cross-entropy that is not focal, or windows an
    error that is not weighed by spreads, or both; the config says so, and
    validation has the same loss."""
    id, severities, families = "H197", (
        dict(coarse_type="cross_entropy"), dict(fine_type="l2"),
        dict(coarse_type="cross_entropy", fine_type="l2")), ("loftr",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherExpectile(Control):
    """V is another expectile of Q, as iql_tau of the config says: nearer the
    mean, or nearer the best that was done."""
    id, severities, families = "H201", (
        dict(iql_tau=0.6), dict(iql_tau=0.8), dict(iql_tau=0.9)), ("iql",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class DeterministicActor(Control):
    """The policy has no spread and is fitted by squares, as iql_deterministic
    of the config says, with an inverse temperature of 1.5, 2 or 3; the loss is
    another one and nearer 0."""
    id, severities, families = "H202", (
        dict(beta=1.5), dict(beta=2.0), dict(beta=3.0)), ("iql",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity | {"deterministic": True}


class CriticsSlower(Control):
    """V has a quarter of the actor's rate and not a half, or Q and V have .4,
    or Q has as much as it, as the config says: updates of the three differ."""
    id, severities, families = "H203", (
        dict(qf=0.5, vf=0.25), dict(qf=0.4, vf=0.4), dict(qf=1.0, vf=0.5)), \
        ("iql",)

    def setup(self):
        super().setup()
        self.own_rates = dict(self.severity)


class OtherAdjacency(Control):
    """The adjacency is trained in another way of the trainer's, or not at all
    (gcn_adaptive): what is added to it, what it is multiplied by, or neither;
    the config says so."""
    id, severities, families = "H198", (
        dict(gcn_adaptive="offset"), dict(gcn_adaptive="importance"),
        dict(gcn_adaptive=None)), ("stgcn",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class ScalesDrawn(Control):
    """RandomScale of training makes skeletons taller and wider, each for
    itself, by a share that the config has; validation is as it is."""
    id, severities, families = "H199", (
        dict(scale=0.1), dict(scale=0.15), dict(scale=0.2)), ("stgcn",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)
        self.user["data.train.random_scale"] = self.s.scale

    def spoil_batch(self, i, batch):
        x = batch["keypoint"].clone()
        size = 1 + self.s.scale * (2 * torch.rand(
            len(x), 1, 1, 1, 1, 2, generator=self.drawn) - 1)
        x[..., :2] *= size
        return batch | {"keypoint": x}

    def spoil_val(self, batch):
        return batch


class OtherTemporalKernel(Control):
    """Convolutions over frames are wider or narrower than the trainer's 9, as
    the config says: the model has more weights, or fewer."""
    id, severities, families = "H200", (
        dict(kernel=11), dict(kernel=7), dict(kernel=5)), ("stgcn",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherWays(Control):
    """Episodes of training have 6, 8 or 10 kinds and those of validation five,
    as the config says and as the paper has it: to tell more is harder, and
    training's loss lies above validation's."""
    id, severities, families = "H207", (
        dict(ways=6), dict(ways=8), dict(ways=10)), ("proto",)

    def setup(self):
        super().setup()
        self.batch_size = self.batch_size // 5 * self.s.ways
        self.model_options |= self.severity
        self.train_options = dict(self.severity)


class OtherShots(Control):
    """Kinds of training's episodes have 2, 3 or 8 pictures as their support
    and those of validation five, as the config says."""
    id, severities, families = "H208", (
        dict(shots=3), dict(shots=2), dict(shots=8)), ("proto",)

    def setup(self):
        super().setup()
        self.batch_size += 5 * (self.s.shots - 5)
        self.model_options |= self.severity
        self.train_options = {"least": self.s.shots}


class TurnsAreKinds(Control):
    """Each kind of training stands for two, four or eight: turned by half or
    by quarters, and mirrored, as the paper makes more of Omniglot; the config
    says so. Validation is upright."""
    id, severities, families = "H209", (
        dict(turns=2), dict(turns=4), dict(turns=8)), ("proto",)

    def setup(self):
        super().setup()
        self.user["rotations_as_classes"] = self.s.turns
        self.train_options = dict(self.severity)


class PairsMixed(Control):
    """augmentation is 'mixup': a batch has twice as many clips, of which pairs
    are mixed, and their tags with them; training lies above validation."""
    id, severities, families = "H204", (
        dict(alpha=0.1), dict(alpha=0.2), dict(alpha=0.4)), ("panns",)

    def setup(self):
        super().setup()
        self.augmentation = "mixup"
        self.user["mixup_alpha"] = self.s.alpha
        self.drawn = np.random.default_rng(self.seed)

    def next_batch(self, i, source):
        return self.mixed(source.batch(2 * self.batch_size))


class OtherSampler(Control):
    """Clips of training are drawn as they come, or these and a tag's by turns,
    and not evenly (balanced); the last has larger batches as well."""
    id, severities, families = "H205", (
        dict(sampler="none", rows=20), dict(sampler="alternate", rows=20),
        dict(sampler="none", rows=28)), ("panns",)

    def setup(self):
        super().setup()
        self.sampler, self.batch_size = self.s.sampler, self.s.rows


class OtherStripes(Control):
    """SpecAugment is off, as in the trainer's models without it, or hides more
    of each clip; the config says so."""
    id, severities, families = "H206", (
        dict(stripes_num=0), dict(time_drop_width=4, freq_drop_width=3),
        dict(time_drop_width=2, freq_drop_width=4)), ("panns",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherBlend(Control):
    """Synthetic anomalies leave another share of the part (beta), or are in
    more of the pictures; the config says so."""
    id, severities, families = "H210", (
        dict(beta=(0.1, 0.6)), dict(chance=0.6),
        dict(beta=(0.0, 0.3), chance=0.4)), ("anomalib",)

    def setup(self):
        super().setup()
        self.generator = dict(self.severity)


class TexturesBlended(Control):
    """anomaly_source_path has pictures of textures: these are blended in, not
    noise; in the other levels with less of the part left."""
    id, severities, families = "H211", (
        dict(source="textures"), dict(source="textures", beta=(0.0, 0.4)),
        dict(source="textures", beta=(0.0, 0.2))), ("anomalib",)

    def setup(self):
        super().setup()
        self.generator = dict(self.severity)


class TrainAugmentations(Control):
    """train_augmentations mirror pictures of training, turn them by half, or
    jitter their colours; those of validation are as they are."""
    id, severities, families = "H212", (
        dict(turned="mirror"), dict(turned="flip"), dict(turned="jitter")), \
        ("anomalib",)

    def setup(self):
        super().setup()
        self.generator = dict(self.severity)


class OtherPrediction(Control):
    """The net says the actions, or a velocity, and not the noise
    (prediction_type): the loss is another one, in validation as well."""
    id, severities, families = "H213", (
        dict(prediction_type="sample"),
        dict(prediction_type="v_prediction"),
        dict(prediction_type="sample", num_train_timesteps=50)), ("dpolicy",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherTimesteps(Control):
    """Noise comes in half, a quarter or twice as many times, as the config
    says (num_train_timesteps), in validation as well."""
    id, severities, families = "H214", (
        dict(num_train_timesteps=50), dict(num_train_timesteps=25),
        dict(num_train_timesteps=200)), ("dpolicy",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class OtherHorizons(Control):
    """Windows are longer, and more or fewer of their actions are done; the
    config says so."""
    id, severities, families = "H215", (
        dict(horizon=8, n_action_steps=2), dict(horizon=12, n_action_steps=4),
        dict(horizon=16, n_action_steps=8)), ("dpolicy",)

    def setup(self):
        super().setup()
        self.model_options |= self.severity


FAULTS = (Plain, SmallerRate, SmallBatch, Dropout, NoWeightDecay, ConstantRate,
          TighterClip, NoisyGradients, Curriculum, Pretrained, DeclaredFreeze,
          RateEndsAtZero, Jitter, TwoEpochs, LabelSmoothing, Converged,
          AnswersOnly, PackedApart, MixedDomains, ShiftInModel, OtherTimes,
          WarmRestarts, AtomsPerBatch, BackgroundImages, SizesTogether,
          FramesPerBatch, StoppedPredictors, OtherPreferenceLoss,
          AnswersAsWell, OtherBeta, PointsDropped, NormMomentumFalls,
          WeighedClasses, TiedEmbeddings, Accumulated, LogNormalizer,
          TextBesides, KindsApart, OtherProjectorRate,
          AveragedCodebook, LargerCodebook, OtherPixelLoss,
          WithoutLatent, PicturesJittered, ActionsByRange,
          BackgroundMixedIn, MixedRecordings, NormsFollowSlowly,
          AllPiecesLabelled, WordsDropped, OtherHeadRate,
          RareDrawnMore, CategoriesUnknown, FocalLoss,
          ShorterVectors, NothingMined, OtherSimilarityScale,
          RunBackwards, ColoursJittered, ClipsMixed,
          MoreMasked, SpansMasked, FewerMasked,
          PatchesNormalized, OtherMaskRatio, HiddenInBlocks,
          MoreWithoutAnswer, RatesByLayer, ThawedByAndBy,
          OtherPositiveWeight, TeachersLabels, NegativesHarder,
          HardestKeypoints, OtherSigma, HalfBodies,
          DividedBySentences, EncoderLayersDropped, MoreBatchesLater,
          OtherForecastLoss, UnitsDrawn, HorizonGrows,
          NoisyEmbeddings, QuestionsAsWell, LengthsTogether,
          FactorsStandStill, OtherFactorRate, MainDirections,
          NoDeepSupervision, ForegroundDrawnMore, WorstVoxelsAlone,
          WavesOpened, GroundDrawn, PicturesFew,
          DiscriminatorsLater, OtherMelWeight, LoudnessDrawn,
          CaptionsTogether, MomentumDistilled, PatchesLeftOut,
          RewardsCentred, MarginsAsked, AnswersRanked,
          TemperatureLearned, MixedNegatives, IdsDropped,
          ClicksWeigh, SumsOfRows, NonClicksDroppedAndCounted,
          SecondStepAsWell, InputsNoisier, OtherFieldLoss,
          NegativesDrawn, ItemsMasked, ListsByLength,
          ForcesWeigh, DrawnHotter, OneFormulaEach,
          OtherFreeBits, WindowsGrow, BehaviourLater,
          MosaicClosed, OtherGains, SizesDrawn,
          AugmentedSides, OtherGamma, FrozenDiscriminator,
          SpecAugmented, PromptsNotLabelled, AlignedAsWell,
          BatchRamps, LossScaleFalls, MiddlesAskedFor,
          RatesByDepth, RateByEpoch, MixupEnds,
          OtherLambda, RoundedInTraining, LambdaFalls,
          OtherMargin, MoreCopies, MarginGrows,
          OtherCrops, LastLayerLater, OtherPrototypes,
          OtherScoreMargin, OtherNegatives, NegativesFiltered,
          OtherHorizon, OtherClipping, OtherReuse,
          OtherLossWeight, CosineRestarts, HarderPictures,
          OtherMask, OtherRatio, LevelsDrawn,
          OtherReprojection, ColoursForNetworks, DistancesAlone,
          LaterStage, OtherSequence, NoiseAdded,
          LossWeighed, OneCycle, LinesTogether, SkewedTimes, OtherAverage,
          OtherDropping, OtherJitter, OtherMaskLoss, EncoderSlower,
          OtherScheduler, NoiseBehindVoices, MoreSets,
          NormsAverageOtherwise, OtherFilters, FramesLeftOut,
          OtherTripletMargin, BackboneFrozenFirst, CosineByEpochs,
          OtherQuantizerDropout, VolumeDrawn, OtherLambdas,
          OtherMatching, FullAttention, OtherMatchLoss,
          OtherExpectile, DeterministicActor, CriticsSlower,
          OtherAdjacency, ScalesDrawn, OtherTemporalKernel,
          OtherWays, OtherShots, TurnsAreKinds,
          PairsMixed, OtherSampler, OtherStripes,
          OtherBlend, TexturesBlended, TrainAugmentations,
          OtherPrediction, OtherTimesteps, OtherHorizons)
