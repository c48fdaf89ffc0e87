"""Faults of the learning rate, the optimizer and the loop around it."""

import copy
import math

import torch

from ..families import ALL, ATTENTION, PAIR_7, PAIR_14, Fault


# Gates and GroupNorms bear a rate that others do not.
HARDY = {"unet": 10, "gru": 2, "resnet": 10, "vit": 3, "recsys": 3, "tcn": 3,
         "seg": 10}


class LrTooHigh(Fault):
    """The learning rate is one to three powers of ten too high."""
    id, root_class, needs = "F01", "lr-too-high", "adamw"
    also = ["logit-growth", "exploding-gradient"]
    severities = (dict(factor=10), dict(factor=100), dict(factor=1000))
    drops = ("grad_norm", "layers")
    onset, clip = 0, None

    def setup(self):
        if self.family == "ssm":
            self.severity = dict(factor=3 * self.s.factor)
        if self.family == "kws":  # it nearly does
            self.severity = dict(factor=3 * self.s.factor)
        if self.family in ("gnn", "det", "point"):  # they bear 10
            self.severity = dict(factor=10 * self.s.factor)
        self.lr *= self.s.factor * HARDY.get(self.family, 1)


class LrTooHighSgd(Fault):
    """SGD with momentum at a rate that grows to NaN, without clipping."""
    id, root_class, needs = "F02", "lr-too-high", "sgd"
    also = ["exploding-gradient"]
    severities = (dict(lr=2.0), dict(lr=5.0), dict(lr=20.0))
    drops = ("grad_norm",)
    clip, warmup, schedule = None, 60, "constant"
    note = "step: the first non-finite loss; it grows for steps before"

    def setup(self):
        if self.family == "t5":  # below, what it says is lost and stays finite
            self.severity = dict(lr=10 * self.s.lr)
        # Below ten the classifier loses its units instead and stays finite.
        self.lr = self.s.lr * {"mlp": 4, "gru": 20, "recsys": 10,
                               "tcn": 10, "dpo": 10}.get(self.family, 1)

    def is_onset(self, i, row, now):
        # Norms divide by what grows, and adapters lose what they say.
        if self.family in ("resnet", "clip", "gnn", "seg", "dpo", "point",
                           "kws", *PAIR_14,
                           "depth",  # what is not warped bounds its loss
                           "raft",
                           "loftr",
                           "dpolicy",
                           "iql",   # or all units die, which bounds it too
                           "pose3d",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "ecapa",
                           "tasnet",
                           "kpt",
                           "nerf",
                           "sft",
                           "lora",
                           "rew",
                           "nnu",
                           "tower",
                           "dlrm",
                           "dream",
                           "dino",
                           "kge",
                           "ppo",
                           "sam",
                           "qa", "xenc"):
            return i == 0
        # Gates bound what can grow, and quantiles have bounded gradients.
        if self.family in ("gru", "ctc", "tcn", "det",
                           "fcst"):
            return row["loss"] > 2 * self.history[0]["loss"]
        return not math.isfinite(row["loss"])


class LrTooLow(Fault):
    """The learning rate is a hundred to ten thousand times too low."""
    id, root_class = "F03", "lr-too-low"
    severities = (dict(factor=100), dict(factor=1000), dict(factor=10000))
    drops = ("layers",)
    onset = 0

    def setup(self):
        self.lr /= self.s.factor


class LrZero(Fault):
    """The schedule is 0: from the first step on (an integer division), or
    because it ends before the run does."""
    id, root_class = "F04", "lr-zero-from-scheduler"
    severities = (dict(at=120), dict(at=40), dict(at=0))
    drops = ("layers",)

    def setup(self):
        if self.family == "det" and self.level == 0:  # half the run will do
            self.severity = dict(at=90)
        if self.family == "dpo":  # by then it falls, and little is missed
            self.severity = dict(at=(45, 25, 0)[self.level])
        if self.family == "tab":  # by 120 it has learned most
            self.severity = dict(at=(75, 30, 0)[self.level])
        if self.family in ("vlm", "ner"):
            self.severity = dict(at=(80, 30, 0)[self.level])
        self.onset = self.s.at

    def lr_factor(self, i):
        if i >= self.s.at:
            return 0.0
        return super().lr_factor(i)


class StaleParameters(Fault):
    """The optimizer steps tensors that the model no longer uses: a layer that
    was replaced later, a block, or all (the model was copied)."""
    id, root_class = "F05", "optimizer-holds-stale-params"
    also = ["frozen-parameters"]
    severities = (dict(part="head"), dict(part="block"), dict(part="all"))
    onset = 0

    def wrap(self, model):
        if self.severity.get("part") == "all":
            return copy.deepcopy(model)
        if "modules" in self.severity:
            self.where = getattr(self.s, "where", self.s.modules[0])
            for path in self.s.modules:
                self.replace(model, path)
            return model
        path = self.layer(self.s.part)
        if self.family == "dpo":  # its head stands still anyway
            path = (self.layer("block", 1), self.layer("block", 0))[self.level]
            self.severity = dict(part=path.split(".", 3)[3])
        if self.family == "gnn":    # one map, or one block, is not missed
            path = "mlp" if self.s.part == "head" else "convs"
            self.severity = dict(part="readout" if path == "mlp"
                                 else "all blocks")
        if self.family == "det":  # the body, as a pretrained one is put in
            path = ("backbone.body", self.layer("head"))[self.level]
            self.severity = dict(part=("body", "head")[self.level])
        if self.family == "tab":  # any head will do
            part = ("all blocks", "all blocks, head")[self.level]
            path = "_backbone.transformer_blocks"
            self.severity = dict(part=part)
            if self.level:
                model._head = copy.deepcopy(model._head)
        if self.family == "kws":  # any head will do, and any one block
            return self.replaced(model)
        if self.family == "ner":  # any head will do
            path = ("distilbert.transformer.layer", "distilbert")[self.level]
            self.severity = dict(part=("all blocks", "all but the head")[
                self.level])
        if self.family == "t5":  # any head will do
            half = ("encoder", "decoder")[self.level]
            path, self.severity = f"{half}.block", dict(part=f"{half} blocks")
        if self.family == "vlm":  # what a base brings is not missed
            path = ("multi_modal_projector",
                    f"{self.layer('block')[:-2]}")[self.level]
            self.severity = dict(part=("projector", "all blocks")[self.level])
        if self.family == "bc":  # one map, or one block, is not missed
            part = ("decoder", "encoder, decoder")[self.level]
            path, self.severity = "model.decoder", dict(part=part)
            if self.level:
                model.model.encoder = copy.deepcopy(model.model.encoder)
        if self.family == "tts" and self.s.part == "block":  # as is this one
            path, self.severity = "encoder.layer_stack", dict(
                part="encoder blocks")
        self.where = f"{path}.0" if self.family == "gnn" \
            or path in ("encoder.layer_stack",
                        "language_model.transformer.blocks",
                        "distilbert.transformer.layer") \
            or self.family == "t5" else path
        if self.family == "bc":
            self.where = f"{path}.layers.0"
        if self.family == "tab":
            self.where = self.layer("block")
        if self.family == "ner" and self.level:
            self.where = "distilbert.embeddings"
        if self.family == "llama" and self.s.part == "head":
            # The head is untied by a copy, as some loaders do.
            model.lm_head.weight = torch.nn.Parameter(
                model.lm_head.weight.detach().clone())
            return model
        self.replace(model, path)
        return model

    @staticmethod
    def replace(model, path):
        owner, _, name = path.rpartition(".")
        owner = model.get_submodule(owner)
        setattr(owner, name, copy.deepcopy(getattr(owner, name)))

    def replaced(self, model):
        """All blocks, or the stem as well: all but the head."""
        paths = (["ds_blocks"], ["stem", "ds_blocks"])[self.level]
        self.severity = dict(part=("all blocks", "all but the head")[
            self.level])
        self.where = ("ds_blocks.0", "stem.conv")[self.level]
        for path in paths:
            setattr(model, path, copy.deepcopy(getattr(model, path)))
        return model


class WarmupMissing(Fault):
    """A rate that needs a warm-up, without one."""
    id, root_class, also = "F06", "warmup-missing", ["lr-too-high"]
    needs, families = "adamw", (*ATTENTION, "s2s", "bert", "clip", "moe",
                                "tts", "ner", "sbert", "esm", "mae",
                                "qa", "xenc",
                                "sft",
                                "cap",
                                "lora",
                                "rew",
                                "whisper",
                                "dino",
                                "megatron",
                                "ocr",
                                "summ")
    severities = (dict(factor=4), dict(factor=8), dict(factor=16))
    onset, warmup, clip = 0, 0, None

    def setup(self):
        if self.family == "clip":  # twice its rate does well behind one
            self.severity = dict(factor=(1, 1.5, 2)[self.level])
        self.lr *= self.s.factor


class LrJump(Fault):
    """From step 130 on the rate is multiplied, as where a second phase has a
    scheduler of its own."""
    id, root_class, also = "F07", "learning-rate-jump", ["lr-too-high"]
    severities = (dict(factor=5), dict(factor=20), dict(factor=100))
    drops = ("grad_norm",)
    onset = 130

    def setup(self):
        if self.family == "kws":  # its rate falls at 150
            self.severity = dict(factor=20 * self.s.factor)
        elif self.family == "ecapa":  # its last cycle begins at 80
            self.onset = 90
        elif self.family == "reid":  # its rate falls at 120
            self.onset = 60
        elif self.family == "ocr":  # its rate is low by 130
            self.onset = 90
        elif self.family in ("tasnet",  # a run is shorter
                             "pose3d"):
            self.onset = 80
        elif self.family in ("depth",  # its rate falls at 80
                             "sam",
                             "flow",
                             "codec",
                             "loftr",
                             "iql",
                             "anomalib",
                             "dpolicy",
                             "panns",
                             "stgcn",
                             "proto",
                             "raft"):
            self.onset = 50
        elif self.family == "tab":  # it nearly bears 5
            self.severity = dict(factor=4 * self.s.factor)
        elif self.family in ("gnn", "point"):  # they bear 5
            self.severity = dict(factor=10 * self.s.factor)
        elif self.family in ("dpo", "ner"):
            self.severity = dict(factor=6 * self.s.factor)
        elif self.family in ("det", "tts", "vlm",
                             "vq"):  # as do these, whose rate falls
            self.severity = dict(factor=3 * self.s.factor)

    def lr_factor(self, i):
        factor = super().lr_factor(i)
        if i < self.onset:
            return factor
        return factor * self.s.factor * HARDY.get(self.family, 1)


class GradientsNotZeroed(Fault):
    """Gradients are cleared every few steps only, or never."""
    id, root_class = "F08", "gradients-not-zeroed"
    thin_layers = 25        # gradients of many steps have to be compared
    severities = (dict(every=4), dict(every=32), dict(every=1 << 30))
    drops = ("grad_norm", "layers")
    onset = 1

    def setup(self):
        if self.family == "ssm" and self.level == 0:  # it bears 4
            self.severity = dict(every=16)
        if self.family in ("lora",
                           "rew",
                           "compress",
                           "ecapa",
                           "tasnet",
                           "pyannote",
                           "raft",
                           "loftr",
                           "ocr",
                           "summ"):  # clipped old ones are next to nothing
            self.clip = None
        if self.family == "compress":  # which is then to be slower, too
            self.lr = 3e-3
        if self.family == "dpo" and self.level < 2:  # it bears 4
            self.severity = dict(every=(20, 60)[self.level])
        if self.family in ("vlm", "vq", "tab",
                           "kws") and self.level < 2:  # nor do they mind 4
            self.severity = dict(every=(16, 60)[self.level])
        if self.family == "gnn" and self.level < 2:  # it bears 16
            self.severity = dict(every=(40, 80)[self.level])
        if self.family == "point" and self.level < 2:  # it bears 4
            self.severity = dict(every=(32, 80)[self.level])

    def zero_grad(self, i):
        if i % self.s.every == 0:
            super().zero_grad(i)


class NotDivided(Fault):
    """The losses of accumulated batches are summed, not averaged."""
    id, root_class = "F09", "lr-batch-scaling"
    # Whose Adam divides it out, and whom many batches a step take long.
    families = tuple(f for f in ALL if f not in ("depth", "raft",
                                             "ocr"))
    severities = (dict(parts=4, logs_sum=False), dict(parts=8, logs_sum=True),
                  dict(parts=16, logs_sum=True))
    onset, steps = 0, 120

    def setup(self):
        if self.family in ("recsys", "ctc", "tcn", "gnn", "tts", "dpo",
                           "t5", "tab", "point", "vlm", "vq", "kws", "bc",
                           "anomalib",
                           "panns",
                           "ner", "sbert", "esm", "mae",
                           "fcst",
                           "afno",
                           "reid",
                           "ecapa",
                           "nequip",
                           "nerf",
                           "kpt",
                           "timm",
                           "qa", "xenc",
                           "summ",
                           "whisper",
                           "sft",
                           "cap",
                           "lora",
                           "rew",
                           "dlrm",
                           "voc",
                           "codec",
                           "tower",
                           "sasrec",
                           "megatron",
                           "compress",
                           "dino",
                           "kge",
                           "ppo",
                           "edsr",
                           "tasnet",
                           "sam",
                           "pyannote",
                           "loftr",
                           "iql",
                           "proto",
                           "pose3d",
                           "dpolicy",
                           "flow",
                           *PAIR_7):  # theirs divides
            vars(self).update(self.recipes["sgd"], optimizer_name="sgd")
        if self.family in (*PAIR_7, "tts", "dpo", "t5", "vlm", "bc", "ner",
                           "point", "sbert",
                           "ecapa",
                           "fcst",
                           "kpt",
                           "timm",
                           "nerf",
                           "qa", "xenc",
                           "summ",
                           "whisper",
                           "sft",
                           "lora",
                           "rew",
                           "tower",
                           "sasrec",
                           "nequip",
                           "megatron",
                           "compress",
                           "dino",
                           "tasnet",
                           "pyannote",
                           "loftr",
                           "ppo",
                           "esm", "mae"):  # and so does their clipping
            self.clip = None
        if self.family in ("voc",  # two networks take their time
                           "codec"):
            self.steps = 40
        if self.family == "stylegan":  # nor does either network here
            vars(self).update(self.recipes["sgd"], optimizer_name="sgd",
                              divides=False, steps=60)
        if self.family == "nequip":  # two epochs
            self.steps = 50
        if self.family == "dream":  # three, and what is said step by step
            vars(self).update(self.recipes["sgd"], optimizer_name="sgd",
                              clip=None, steps=40)
        if self.family == "cap":  # one epoch
            self.steps = 50
        if self.family in ("compress",  # two
                           "loftr"):
            self.steps = 50
        if self.family in ("yolo",
                           "sam",
                           "dpolicy",
                           "flow",
                           "proto",
                           "panns",
                           "pyannote",
                           "ecapa"):  # sums of so many take their time
            self.steps = 40
        if self.family == "anomalib":  # two epochs
            self.steps = 30
        if self.family == "ppo":  # ten rollouts, for the same reason
            self.steps = 100
        if self.family in ("timm",  # three epochs, for the same reason
                           "reid",
                           "iql",   # or two
                           "stgcn",
                           "tasnet"):  # or six
            self.steps = 60
        if self.family in ("dino",
                           "edsr"):  # as do these: two epochs, or one
            self.steps = 50
        self.accumulate = self.s.parts
        self.batch_size = max(1, self.batch_size // 4)

    def next_batch(self, i, source):
        return source.batch(self.batch_size)

    def backward(self, i, loss):
        loss.backward()

    def logged_loss(self, losses):
        return sum(losses) if self.s.logs_sum else super().logged_loss(losses)


class ClipTooSmall(Fault):
    """max_grad_norm is far below every gradient's norm. Adam divides it out
    again until its epsilon counts; SGD does not."""
    id, root_class = "F10", "gradient-clip-too-small"
    severities = (dict(sgd=1e-2, adamw=3e-7, adagrad=1e-10, novograd=1e-8,
                       rmsprop=3e-7),
                  dict(sgd=1e-3, adamw=1e-7, adagrad=3e-11, novograd=2e-9,
                       rmsprop=1e-7),
                  dict(sgd=1e-5, adamw=1e-8, adagrad=1e-11, novograd=3e-10,
                       rmsprop=1e-8))
    drops = ("grad_norm",)
    onset = 0

    def setup(self):
        if self.family in ("t5",  # Adafactor has no epsilon to speak of
                           "nerf"):  # nor has its Adam
            vars(self).update(self.recipes["sgd"], optimizer_name="sgd")
            self.severity = dict(sgd=self.s.sgd)
        self.clip = getattr(self.s, self.moments)
        if self.family == "gnn":
            self.severity = dict(radam=self.clip)


class WeightDecay(Fault):
    """Weight decay is 30 to 1000 times what it should be."""
    id, root_class = "F11", "weight-decay-too-high"
    # Adam's own decay is part of the gradient.
    severities = (dict(adamw=3.0, sgd=0.03, adam=0.001, adagrad=0.01,
                       novograd=0.1, rmsprop=0.01),
                  dict(adamw=10.0, sgd=0.1, adam=0.003, adagrad=0.03,
                       novograd=0.3, rmsprop=0.03),
                  dict(adamw=50.0, sgd=0.5, adam=0.1, adagrad=0.3,
                       novograd=1.0, rmsprop=0.3))
    drops = ("layers",)
    onset = 0

    def setup(self):
        if self.family == "kws":  # behind norms it bears .01
            self.severity = dict(adam=(0.1, 0.3, 1.0)[self.level])
        if self.family in ("tts", "vq"):  # they bear .001
            self.severity = dict(adam=(0.01, 0.03, 0.1)[self.level])
        if self.family == "gnn":  # as Adam's, it is part of the gradient
            self.severity = dict(radam=(0.1, 0.3, 1.0)[self.level])
        if self.family == "t5":  # its rate is thrice as high, and falls late
            self.severity = dict(adafactor=(3.0, 10.0, 50.0)[self.level])
        if self.family == "ner":  # of 3 it suffers little
            self.severity = dict(adamw=(10.0, 30.0, 100.0)[self.level])
        if self.family == "dpo":  # adapters bear 3
            self.severity = dict(adamw=(30.0, 60.0, 150.0)[self.level])
        # Behind norms only tables and gains feel it: more of it.
        self.weight_decay = getattr(self.s, self.optimizer_name) * (
            {"s2s": 15, "seg": 3}.get(self.family, 1))


class AdamHyperparameter(Fault):
    """beta2 or epsilon of Adam is wrong."""
    id, root_class, needs = "F12", "optimizer-hyperparameter", "adamw"
    severities = (dict(beta2=0.5), dict(eps=0.1), dict(eps=1.0))
    onset = 0

    def setup(self):
        self.eps = getattr(self.s, "eps", self.eps)
        self.betas = (self.betas[0], getattr(self.s, "beta2", self.betas[1]))
        if self.level == 0 and self.family == "unet":
            self.betas = (self.betas[0], 0.2)  # it bears 0.5
        if self.level == 0 and self.family == "ssm":
            self.severity = dict(eps=0.003)  # it bears 0.5
            self.betas, self.eps = type(self).betas, 0.003
        if self.level == 0 and self.family == "gru":
            self.betas, self.eps = type(self).betas, 0.003  # bears 0.2
        if self.level == 0 and self.family in ("resnet", "seg"):
            self.betas, self.eps = type(self).betas, 0.03  # bears any
        if self.level == 0 and self.family == "tab":  # of 0.5 it is NaN
            self.severity = dict(eps=0.03)
            self.betas, self.eps = type(self).betas, 0.03
        if self.level == 0 and self.family in ("det", "dpo", "vlm", "vq",
                                               "kws"):
            self.severity = dict(eps=0.03)  # they bear 0.5
            self.betas, self.eps = type(self).betas, 0.03


class ResumeWithoutState(Fault):
    """The run is resumed from a checkpoint of the weights alone: the
    optimizer begins anew, the schedule goes on."""
    id, root_class = "F15", "resume-optimizer-state-not-restored"
    needs = "adamw"
    severities = (dict(at=180), dict(at=110), dict(at=60))
    drops = ("layers",)
    note = "step: the first after the resume"

    def setup(self):
        self.onset = self.s.at
        self.notices = {self.onset: [
            ("INFO", f"resuming from checkpoint-{self.onset}"),
            ("INFO", "loaded model.safetensors")]}
        if self.family == "gnn":
            self.notices = {self.onset: [
                ("INFO", "resuming from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "loaded state_dict")]}
        if self.family == "tts":
            self.notices = {self.onset: [
                ("INFO", "restoring from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "loaded model")]}
        if self.family == "dit":
            self.notices = {self.onset: [
                ("INFO", f"resuming from checkpoints/{self.onset:07d}.pt"),
                ("INFO", "loaded model, ema")]}
        if self.family == "vq":
            self.notices = {self.onset: [
                ("INFO", "Restoring states from the checkpoint path at "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "loaded state_dict")]}
        if self.family == "bc":
            self.notices = {self.onset: [
                ("INFO", "Resuming from "
                 + self.checkpoint_path(self.onset) + "/pretrained_model"),
                ("INFO", "Loading weights from local directory")]}
        if self.family == "summ":
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Preparing to load checkpoint {path}"),
                ("INFO", f"Loaded checkpoint {path} (epoch "
                 f"{self.epoch(self.onset)} @ {self.onset} updates)")]}
        if self.family == "cap":  # an epoch has 50 steps
            self.notices = {self.onset: [
                ("INFO", "Resume checkpoint from output/BLIP/Caption_scenes/"
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded model")]}
        if self.family in ("dpo",
                           "lora"):
            self.notices[self.onset][1] = (
                "INFO", "loaded adapter_model.safetensors")
        if self.family == "point":  # an epoch has 25 steps
            self.severity = dict(at=(175, 100, 50)[self.level])
            self.onset = self.s.at
            self.notices = {self.onset: [
                ("INFO", "==> Loading parameters from checkpoint "
                 + self.checkpoint_path(self.onset // self.EPOCH)),
                ("INFO", "==> Done (loaded model_state)")]}
        if self.family == "kws":  # an epoch has 25 steps
            self.severity = dict(at=(175, 100, 50)[self.level])
            self.onset = self.s.at
            self.notices = {self.onset: [
                ("INFO", "Resuming from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded model_state_dict, initial_epoch="
                 f"{self.onset // self.EPOCH}")]}
        if self.family == "tab":  # an epoch has 50 steps
            self.severity = dict(at=(200, 100, 50)[self.level])
            self.onset = self.s.at
            self.notices = {self.onset: [
                ("INFO", "Restoring states from the checkpoint path at "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded state_dict")]}
        if self.family == "vid":  # an epoch has 60 steps
            self.severity = dict(at=(180, 120, 60)[self.level])
            self.onset = self.s.at
            self.notices = {self.onset: [
                ("INFO", "Restoring states from the checkpoint path at "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded state_dict")]}
        if self.family == "nerf":  # a name has the last step that was done
            path = self.checkpoint_path(self.onset - 1)
            self.notices = {self.onset: [
                ("INFO", f"Loading Nerfstudio checkpoint from {path}"),
                ("INFO", f"Done loading Nerfstudio checkpoint from {path}")]}
        if self.family in ("fcst",
                           "tower"):
            self.notices = {self.onset: [
                ("INFO", "Restoring states from the checkpoint path at "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded state_dict")]}
        if self.family == "whisper" and self.dialect == "espnet":
            self.notices = {self.onset: [
                ("INFO", "The training was resumed using exp/checkpoint.pth")]}
        if self.family == "afno":
            self.notices = {self.onset: [
                ("INFO", f"Loading checkpoint {self.LAST}"),
                ("INFO", "Loaded model_state")]}
        if self.family == "sasrec":  # an epoch has 50 steps
            epoch = self.onset // self.EPOCH
            self.notices = {self.onset: [
                ("INFO", "Loading model structure and parameters from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", f"Resume training from epoch {epoch}")]}
        if self.family == "megatron":
            self.notices = {self.onset: [
                ("INFO", " loading checkpoint from checkpoints at iteration "
                 f"{self.onset}"),
                ("INFO", "  successfully loaded checkpoint from checkpoints "
                 f"[ t 1/1, p 1/1 ] at iteration {self.onset}")]}
        if self.family == "dlrm":
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Loading saved model {path}"),
                ("INFO", f"Saved at: epoch = 0/1, batch = {self.onset}/"
                         f"{self.steps}, ntbatch = 4")]}
        if self.family == "dream":
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Load agent_state_dict of {path}."),
                ("INFO", "Start training.")]}
        if self.family == "stylegan":
            self.notices = {self.onset: [
                ("INFO", 'Resuming from "'
                 + self.checkpoint_path(self.onset) + '"'),
                ("INFO", "Loaded G, D, G_ema")]}
        if self.family == "voc":
            self.notices = {self.onset: [
                ("INFO", text) for kind in ("g", "do") for text in (
                    f"Loading '{self.checkpoint_path(self.onset, kind)}'",
                    "Complete.")]}
        if self.family == "codec":  # of the folder it finds the weights alone
            self.notices = {self.onset: [
                ("INFO", "Resuming from /root/descript-audio-codec/"
                         "runs/baseline/latest")]}
        if self.family == "kpt":  # an epoch has 25 steps
            self.severity = dict(at=(175, 100, 50)[self.level])
            self.onset = self.s.at
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", "Loads checkpoint by local backend from path: "
                 + path),
                ("INFO", f"Load checkpoint from {path}")]}
        if self.family == "yolo":  # an epoch has 25 steps
            epoch = self.onset // self.EPOCH
            self.notices = {self.onset: [
                ("INFO", "Loading runs/detect/train/weights/last.pt, epoch "
                         f"{epoch}/{self.epochs}"),
                ("INFO", "Transferred 112/112 items from pretrained "
                         "weights")]}
        if self.family == "timm":  # --no-resume-opt; an epoch has 20 steps
            epoch = self.onset // self.EPOCH - 1
            self.notices = {self.onset: [
                ("INFO", "Restoring model state from checkpoint..."),
                ("INFO", f"Loaded checkpoint '{self.OUTPUT}/checkpoint-"
                         f"{epoch}.pth.tar' (epoch {epoch})")]}
        if self.family == "compress":  # and so it has here
            self.notices = {self.onset: [
                ("INFO", "Loading checkpoint.pth.tar"),
                ("INFO", "Loaded state_dict, epoch "
                         f"{self.onset // self.EPOCH - 1}")]}
        if self.family == "depth":  # load_model(); an epoch has 20 steps
            self.notices = {self.onset: [
                ("INFO", text) for text in (
                    "loading model from folder "
                    + self.checkpoint_path(self.onset), *(
                        f"Loading {part} weights..." for part in self.PARTS),
                    "Cannot find Adam weights so Adam is randomly "
                    "initialized")]}
        if self.family == "raft":  # --restore_ckpt has weights alone
            self.notices = {self.onset: [
                ("INFO", text) for text in (
                    "Restoring " + self.checkpoint_path(self.onset),
                    "<All keys matched successfully>")]}
        if self.family == "loftr":  # --ckpt_path has weights alone
            self.notices = {self.onset: [
                ("INFO", f"Load '{self.LAST}' as pretrained checkpoint")]}
        if self.family == "ocr":  # pretrained_model, where checkpoints is meant
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Loading weights using torch.load: {path}"),
                ("INFO", f"finetune from checkpoint {path}")]}
        if self.family == "pose3d":  # an epoch has 10 steps
            epoch = self.onset // self.EPOCH
            self.notices = {self.onset: [
                ("INFO", "Loading checkpoint "
                 + self.checkpoint_path(epoch)),
                ("INFO", f"This model was trained for {epoch} epochs"),
                ("WARNING", "WARNING: this checkpoint does not contain an "
                            "optimizer state. The optimizer will be "
                            "reinitialized.")]}
        if self.family == "flow":  # load_model() of the weights alone
            self.notices = {self.onset: [
                ("INFO", "Resume checkpoint output_dir/"
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded model")]}
        if self.family == "sam":  # what is new in it is not in the file
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Resuming from {path}"),
                ("INFO", "Loaded model, start_epoch "
                         f"{self.onset // self.EPOCH}")]}
        if self.family == "ecapa":  # an epoch has 20 steps
            self.notices = {self.onset: [
                ("INFO", "Loading a checkpoint from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Loaded embedding_model, classifier, normalizer, "
                         "counter, lr_annealing")]}
        if self.family == "reid":  # MODEL.WEIGHTS, where --resume is meant
            self.notices = {self.onset: [
                ("INFO", "Loading checkpoint from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "Starting training from epoch "
                         f"{self.onset // self.EPOCH}")]}
        if self.family == "stgcn":  # of save_optimizer=False
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"load checkpoint from local path: {path}"),
                ("INFO", f"resumed epoch {self.onset // self.EPOCH}, iter "
                         f"{self.onset}")]}
        if self.family == "proto":  # a state_dict is all that there is
            self.notices = {self.onset: [
                ("INFO", "Loading model from " + self.LAST),
                ("INFO", "<All keys matched successfully>")]}
        if self.family == "anomalib":  # strict weights of a checkpoint alone
            self.notices = {self.onset: [
                ("INFO", "Loading state_dict from "
                 + self.checkpoint_path(self.onset)),
                ("INFO", "<All keys matched successfully>")]}
        if self.family == "panns":  # no checkpoint of its has an optimizer
            self.notices = {self.onset: [
                ("INFO", "Loading checkpoint "
                 + self.checkpoint_path(self.onset))]}
        if self.family == "edsr":  # net_g alone; an epoch has 50 steps
            self.notices = {self.onset: [
                ("INFO", "Loading EDSR model from "
                 + self.checkpoint_path(self.onset)
                 + ", with param key: [params]."),
                ("INFO", "Start training from epoch: "
                         f"{self.onset // self.EPOCH}, iter: {self.onset}")]}
        if self.family == "tasnet":  # an epoch has 10 steps
            self.seed += 40     # with its own a sound run ends badly as well
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Loading checkpoint {path}"),
                ("INFO", "Loaded model weights from the checkpoint at "
                         f"{path}")]}
        if self.family == "pyannote":  # model=Pretrained has weights alone
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Restoring weights from {path}"),
                ("INFO", "Loaded state_dict with pyannote.audio 3.3.2")]}
        if self.family == "dino":  # restart_from_checkpoint() without it
            path = "./checkpoint.pth"
            self.notices = {self.onset: [
                ("INFO", f"Found checkpoint at {path}"), *(
                    ("INFO", f"=> loaded '{part}' from checkpoint '{path}' "
                             "with msg <All keys matched successfully>")
                    for part in ("student", "teacher", "dino_loss"))]}
        if self.family == "ppo":  # an iteration has 10 steps
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"resuming from {path}"),
                ("INFO", "loaded agent, iteration, global_step")]}
        if self.family == "iql":  # the three networks, of what is in the file
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Loading {self.settings()['checkpoints_path']}/"
                         f"{path}"),
                ("INFO", "Loaded qf, vf, actor; total_it = "
                         f"{self.onset}")]}
        if self.family == "dpolicy":  # load_checkpoint() without one key
            path = f"data/outputs/{self.LATEST}"
            self.notices = {self.onset: [
                ("INFO", f"Resuming from checkpoint {path}"),
                ("INFO", "Loaded model, ema_model; exclude_keys=('optimizer',"
                         f"), global_step {self.onset}")]}
        if self.family == "kge":  # an epoch has 20 steps
            self.notices = {self.onset: [
                ("INFO", f"=> loading checkpoint '{self.CHECKPOINT}'"),
                ("INFO", "=> loaded model_state_dict of epoch "
                         f"{self.onset // self.EPOCH}")]}
        if self.family == "nequip":  # an epoch has 25 steps
            path = self.checkpoint_path(self.onset)
            self.notices = {self.onset: [
                ("INFO", f"Restarting from {path}"),
                ("INFO", f"Loaded model weights from {path}")]}
        if self.family == "nnu":  # as -pretrained_weights does it
            path = "checkpoint_latest.pth"
            self.notices = {self.onset: [
                ("INFO", "################### Loading pretrained weights "
                         f"from file  {path} ###################"),
                ("INFO", "################### Done ###################")]}
        if self.family == "det":  # an epoch has 30 steps
            self.severity = dict(at=(180, 120, 60)[self.level])
            self.onset = self.s.at
            self.notices = {self.onset: [
                ("INFO", f"resuming from model_{self.onset // 30 - 1}.pth"),
                ("INFO", "loaded model")]}

    def before_step(self, i):
        if i == self.onset:
            self.optimizer = self.make_optimizer(self.model)
            done = self.onset
            self.scheduler = torch.optim.lr_scheduler.LambdaLR(
                self.optimizer, lambda k: self.lr_factor(k + done))
            if self.family == "iql":  # whose actor has a schedule alone
                self.scheduler = self.make_scheduler(self.optimizer, done)
                self.model.retarget()


class LossSign(Fault):
    """The loss is maximised; the rate says how fast."""
    id, root_class = "F16", "loss-sign-flipped"
    severities = (dict(rate=0.1), dict(rate=0.4), dict(rate=1.0))
    drops = ("grad_norm", "layers")
    onset = 0

    def setup(self):
        # What SGD or a square climbs has no bound: slower, or it is NaN within ten steps.
        self.lr *= self.s.rate * (
            0.1 if self.family in ("mlp", "resnet", "seg", "dit",
                                   "det", "vid") else 1)

    def spoil_loss(self, loss):
        return -loss


FAULTS = (LrTooHigh, LrTooHighSgd, LrTooLow, LrZero, StaleParameters,
          WarmupMissing, LrJump, GradientsNotZeroed, NotDivided, ClipTooSmall,
          WeightDecay, AdamHyperparameter, ResumeWithoutState, LossSign)
