"""Faults in the model's code."""

import torch

from ..afno import WeatherModel
from ..bert import Bert
from ..cap import BLOCKS as CAP_BLOCKS
from ..clip import Clip
from ..codec import BEFORE_ACT as CODEC_CONVOLUTIONS
from ..compress import BEFORE_ACT as COMPRESS_CONVS
from ..depth import BEFORE_ACT as DEPTH_CONVS
from ..det import Detector
from ..dpolicy import BEFORE_ACT as DPOLICY_NORMS
from ..dream import Dreamer
from ..edsr import BEFORE_ACT as EDSR_CONVOLUTIONS
from ..ecapa import BEFORE_ACT as ECAPA_CONVOLUTIONS
from ..esm import Esm
from ..families import ATTENTION, PAIR_2, PAIR_3, PAIR_4, PAIR_5, PAIR_7, \
    PAIR_14, Fault
from ..fcst import PatchTST
from ..iql import BEFORE_ACT as IQL_MAPS
from ..flow import BEFORE_ACT as FLOW_NORMS
from ..kpt import PoseEstimator
from ..kws import DsCnn
from ..loftr import BEFORE_ACT as LOFTR_NORMS
from ..lora import HEAD as LORA_HEAD
from ..mae import MaskedAutoencoder
from ..ner import DistilBert
from ..nnu import PlainConvUNet
from ..nequip import Potential
from ..nerf import RadianceField
from ..ocr import BEFORE_ACT as OCR_PARTS
from ..point import PointNet2
from ..pose3d import BEFORE_ACT as POSE3D_NORMS
from ..ppo import BEFORE_ACT as PPO_MAPS
from ..proto import BEFORE_ACT as PROTO_NORMS
from ..pyannote import BEFORE_ACT as PYANNOTE_MAPS
from ..qa import Reader
from ..reid import BEFORE_ACT as REID_NORMS
from ..resnet import Resnet
from ..sasrec import BLOCKS as SASREC_BLOCKS
from ..seg import Segmenter
from ..anomalib import BEFORE_ACT as ANOMALIB_NORMS
from ..panns import BEFORE_ACT as PANNS_NORMS
from ..raft import BEFORE_ACT as RAFT_CONVOLUTIONS
from ..sam import BEFORE_ACT as SAM_MAPS
from ..stgcn import BEFORE_ACT as STGCN_NORMS
from ..tasnet import BEFORE_ACT as TASNET_CONVOLUTIONS
from ..timm import BEFORE_ACT as TIMM_MAPS
from ..tts import FastSpeech2
from ..unet import Unet
from ..vid import SlowResnet
from ..vit import Vit
from ..voc import Generator
from ..vq import VQModel
from ..xenc import CrossEncoder
from ..yolo import BEFORE_ACT as YOLO_NORMS
from ..dino import BEFORE_ACT as DINO_MAPS


def linear_weights(model):
    return [p for n, p in model.named_parameters()
            if p.dim() >= 2 and not n.endswith(("A_log", "weight_v",
                                                "dfl.conv.weight",
                                                "_hz_",  # no weights
                                                ".gamma"))
            # Curves and quantiles of `compress`.
            and not n.startswith("entropy_bottleneck.")
            # Sines and cosines of `whisper`, which are no weights.
            and n != "model.encoder.embed_positions.weight"]


class DetachedGraph(Fault):
    """The hidden state is detached behind the embedding or a block: all that
    is upstream gets no gradient (but a tied embedding gets the head's)."""
    id, root_class, also = "F13", "detached-graph", ["frozen-parameters"]
    severities = (dict(after="embed"), dict(after="first"), dict(after="last"))
    drops = ("layers",)
    onset = 0

    def setup(self):
        if "path" in self.severity:
            self.where = self.model_options["detach_after"] = self.s.path
            if "more" in self.severity:
                self.model_options["detach_after"] = (self.s.path,
                                                      *self.s.more)
            return
        last = {"embed": -1, "first": 0, "last": self.blocks - 1}[self.s.after]
        if self.family == "bert":  # its table is the head as well
            self.where = None if last == -1 else self.layer("block", last)
            self.model_options["detach_after"] = self.where \
                or "bert.embeddings"
            return
        if self.family in ("unet", "resnet", "ctc", *PAIR_3, *PAIR_5, "dit",
                           "kws"):
            self.where = self.layer("embed") if last == -1 \
                else self.layer("block", last)
            self.model_options["detach_after"] = self.where
            return
        if self.family == "ner":
            self.where = self.model_options["detach_after"] = \
                "distilbert.embeddings" if last == -1 \
                else self.layer("block", last)
            return
        if self.family == "seg":  # what is joined goes past a cut
            self.where = self.layer("block", (0, 3, 4)[self.level])
            self.model_options["detach_after"] = self.where
            return
        if self.family == "dpo":  # its table stands still anyway
            first, last = (self.layer("block", i) for i in range(2))
            cuts = ((f"{first}.attention",), (first,),
                    (first, f"{last}.attention"))[self.level]
            self.where = cuts[0]
            self.model_options["detach_after"] = cuts
            self.severity = dict(after=[c.split(".", 3)[3] for c in cuts])
            return
        if self.family in ("gnn", "det"):  # gnn bears the first, det the stem
            part = self.level + (self.family == "gnn")
            self.where = self.model_options["detach_after"] = \
                self.layer("block", part)
            self.severity = dict(after=self.where)
            return
        if self.family == "point":  # a skip goes past a cut in between
            self.where = self.model_options["detach_after"] = \
                self.layer("block", (0, 2, 3)[self.level])
            self.severity = dict(after=self.where)
            return
        if self.family == "vq":  # behind the codes places still go to them
            self.where = self.model_options["detach_after"] = (
                self.layer("block", 1), self.layer("block", 2),
                "encoder.conv_out")[self.level]
            self.severity = dict(after=self.where)
            return
        if self.family == "vlm":  # its tower stands still anyway
            self.where = self.model_options["detach_after"] = (
                "multi_modal_projector", self.layer("block", 0),
                self.layer("block", 1))[self.level]
            self.severity = dict(after=self.where)
            return
        if self.family == "bc":  # a fresh backbone sees nearly as well
            self.where = self.model_options["detach_after"] = (
                self.layer("block", 0), self.layer("block", 1),
                "model.decoder")[self.level]
            self.severity = dict(after=self.where)
            return
        if self.family == "t5":  # so does it
            halves = [f"{half}.block.1" for half in ("encoder", "decoder")]
            cuts = (halves[:1], ["decoder.block.0"], halves)[self.level]
            self.where = cuts[0]
            self.model_options["detach_after"] = tuple(cuts)
            self.severity = dict(after=cuts)
            return
        if self.family == "tab":
            self.where = self.model_options["detach_after"] = (
                self.layer("block", 0), self.layer("block", 1),
                "_head.layers.1")[self.level]
            self.severity = dict(after=self.where)
            return
        if self.family == "tts":  # it bears a table that is never trained
            self.where = self.model_options["detach_after"] = \
                self.layer("block", self.level + 1)
            self.severity = dict(after=self.where)
            return
        if self.family == "s2s" and last == 0:
            last = self.where = "encoder"
            self.model_options["detach_after"] = last
            return
        if self.family == "mlp":
            # The input has no weights; behind fc1 is the mildest.
            last = "fc1" if last < 1 else "fc2"
        self.model_options["detach_after"] = last
        if last != -1:
            self.where = last if self.family == "mlp" \
                else self.layer("block", last)


class Frozen(Fault):
    """requires_grad is left off after an experiment; no config names it."""
    id, root_class = "F14", "frozen-parameters"
    severities = (dict(parts="attn"), dict(parts="block"),
                  dict(parts="all attn"))
    drops = ("layers",)
    onset = 0

    def setup(self):
        """Something upstream always trains: else no record could tell this
        from a detached graph."""
        if "modules" in self.severity:
            self.frozen = self.s.modules
        elif self.family == "mlp":
            self.frozen = (["fc2"], ["out"], ["fc2", "out"])[self.level]
        elif self.family == "unet":
            self.frozen = (["up.1.conv1"], ["mid"], ["down.0", "down.1", "mid"]
                           )[self.level]
        elif self.family == "gru":
            self.frozen = (["rnn.1.wh"], ["rnn.0"], ["rnn.0", "rnn.1"]
                           )[self.level]
        elif self.family == "resnet":
            self.frozen = (["layer3.0.conv1"], ["layer2.0"],
                           ["layer1.0", "layer2.0", "layer3.0"])[self.level]
        elif self.family == "s2s":
            self.frozen = (["encoder.layers.0.self_attn"],
                           ["decoder.layers.1"], ["encoder.layers"])[self.level]
        elif self.family == "recsys":
            self.frozen = (["over.fc1"], ["bottom.fc1"],
                           ["over.fc0", "over.fc1"])[self.level]
        elif self.family == "ctc":
            self.frozen = (["encoder.pre_encode.conv.2"], ["encoder.layers.1"],
                           ["encoder.layers.0", "encoder.layers.1"]
                           )[self.level]
        elif self.family == "tcn":
            self.frozen = (["res_blocks.2.conv2"], ["res_blocks.1"],
                           ["res_blocks.0", "res_blocks.1", "res_blocks.2",
                            "res_blocks.3"])[self.level]
        elif self.family == "seg":
            self.frozen = (["decoder.blocks.0.conv1.0"], ["encoder.stages.1"],
                           ["encoder.stages.1", "encoder.stages.2",
                            "decoder.blocks.0"])[self.level]
        elif self.family == "dit":  # gates of a frozen block stay shut
            self.frozen = (["blocks.0.attn"], ["blocks.0"],
                           ["blocks.0", "blocks.1"])[self.level]
            if self.level == 2:
                self.severity = dict(parts="all blocks")
        elif self.family == "det":
            parts = [[f"head.{kind}_head.conv" for kind in (
                "classification", "regression")],
                *([self.layer("block", i) for i in range(first, 3)]
                  for first in (1, 0))]
            self.frozen = parts[self.level]
            self.severity = dict(parts=("towers", "last blocks",
                                        "all blocks")[self.level])
        elif self.family == "gnn":
            convs = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = (convs, [*convs, "mlp.0"], [
                *convs, "mlp.0", "bn_graph", "edge_emb"])[self.level]
            self.severity = dict(parts=(
                "all blocks", "all blocks, mlp.0",
                "all but node_emb and the head")[self.level])
        elif self.family == "tts":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = (blocks[:2], blocks[2:], blocks)[self.level]
            self.severity = dict(parts=("encoder blocks", "decoder blocks",
                                        "all blocks")[self.level])
        elif self.family == "point":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = (blocks[:2], blocks[2:], blocks)[self.level]
            self.severity = dict(parts=("SA_modules", "FP_modules",
                                        "backbone_3d")[self.level])
        elif self.family == "vq":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = (blocks[3:], blocks, [
                *blocks, self.layer("head")])[self.level]
            self.severity = dict(parts=(
                "decoder blocks", "all blocks",
                "all blocks, decoder.conv_out")[self.level])
        elif self.family == "tab":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            numeric = "_embedding_layer.cont_embedding_layer"
            self.frozen = ([*blocks, "_head.layers.0"], [*blocks, "_head"],
                           [*blocks, "_head", numeric])[self.level]
            self.severity = dict(parts=(
                "all blocks, first of the head", "all blocks, head",
                "all blocks, head, numeric columns")[self.level])
        elif self.family == "kws":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = ([f"{b}.pw_conv" for b in blocks], blocks[1:],
                           blocks)[self.level]
            self.severity = dict(parts=("all pw_conv", "all blocks but one",
                                        "all blocks")[self.level])
        elif self.family == "ner":  # one attention is not missed much
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = ([f"{b}.attention" for b in blocks], blocks, [
                *blocks, self.layer("head")])[self.level]
            self.severity = dict(parts=("all attn", "all blocks",
                                        "all blocks, head")[self.level])
        elif self.family == "t5":
            halves = [[f"{half}.block.{i}" for i in range(self.blocks)]
                      for half in ("encoder", "decoder")]
            self.frozen = (*halves, sum(halves, []))[self.level]
            self.severity = dict(parts=("encoder blocks", "decoder blocks",
                                        "all blocks")[self.level])
        elif self.family == "vlm":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            bridge = ["multi_modal_projector"]
            self.frozen = (bridge, blocks, bridge + blocks)[self.level]
            self.severity = dict(parts=("projector", "all blocks",
                                        "projector, all blocks")[self.level])
        elif self.family == "bc":
            blocks = [self.layer("block", k) for k in range(self.blocks)]
            self.frozen = (blocks[2:], blocks, [
                *blocks, self.layer("head")])[self.level]
            self.severity = dict(parts=(
                "decoder block", "encoder and decoder blocks",
                "encoder and decoder blocks, action_head")[self.level])
        elif self.family == "dpo":  # all but the adapters stand still anyway
            last = self.layer("block", 1)
            self.frozen = ([f"{last}.mlp"], [last],
                           [last, self.layer("mlp", 0)])[self.level]
            self.severity = dict(parts=("last mlp", "last block",
                                        "all but layers.0.attention")[
                                            self.level])
        elif self.family == "ssm":
            mixers = [self.layer("mlp", i) for i in range(self.blocks)]
            self.frozen = ([f"{mixers[1]}.in_proj"], [self.layer("block", 1)],
                           mixers)[self.level]
        elif self.s.parts == "all attn":
            self.frozen = [self.layer("attn", i) for i in range(self.blocks)]
        else:
            self.frozen = [self.layer(self.s.parts)]
        self.where = self.frozen[0]

    def make_model(self):
        model = super().make_model()
        for path in self.frozen:
            model.get_submodule(path).requires_grad_(False)
        return model


class BadInitialization(Fault):
    """Weights start 10 or 50 times too large, or at zero."""
    id, root_class = "F34", "bad-initialization"
    also = ["logit-growth"]
    severities = (dict(factor=10), dict(factor=50), dict(factor=0))
    drops = ("layers",)
    onset = 0

    def make_model(self):
        model = super().make_model()
        if self.family in ("dpo",
                           "lora"):
            return self.of_adapters(model)
        new = model  # of `vlm` all else comes from elsewhere
        if self.family == "vlm":
            new = model.multi_modal_projector
            self.severity = dict(factor=(30, 150, 0)[self.level],
                                 part="projector")
        with torch.no_grad():
            for weight in linear_weights(new):
                if self.family != "codec":
                    weight.mul_(self.s.factor)
            for name, size in new.named_parameters():
                if self.family == "codec" and name.endswith("weight_g"):
                    size.mul_(self.s.factor)
        return model

    def of_adapters(self, model):
        """The second map of an adapter, which begins at zero, does not; or the
        first does as well, so that neither gets a gradient."""
        self.severity = (dict(B=0.5), dict(B=2.0), dict(A=0.0, B=0.0)
                         )[self.level]
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "lora_B" in name and self.s.B:
                    p.normal_(std=self.s.B)
                elif "lora_A" in name and not self.s.B:
                    p.zero_()
        return model


class AttentionScale(Fault):
    """Scores are not divided by the root of the head width, or multiplied."""
    id, root_class = "F35", "attention-scale-missing"
    families = (*ATTENTION, "s2s", "vit", "bert", "clip", "moe", "dit", "tts",
                "vlm", "bc", "ner")
    also = ["logit-growth"]
    families = (*families, "tab", "sbert", "esm", "mae",
                "fcst",
                "qa", "xenc",
                "rew",
                "sft",
                "cap",
                "lora",
                "sasrec",
                "whisper",
                "dino",
                "ocr",
                "sam",
                "megatron",
                "summ")
    severities = (dict(heads=4, power=0.0), dict(heads=1, power=0.0),
                  dict(heads=4, power=0.5))
    onset = 0
    dumped = ("batch.*", "*.0.attn.scores.*put", "*.0.self_attn.scores.*put",
              "*.0.attn.probs.output", "*.0.self_attn.probs.output",
              "*_0.self_attention.scores.*put",
              "*_0.self_attention.probs.output",
              "*.0.attention.self.scores.*put",
              "*.0.attention.self.probs.output",
              "*.0.attention.scores.*put", "*.0.attention.probs.output",
              "*coder.layer_stack.0.slf_attn.scores.*put",
              "*coder.layer_stack.0.slf_attn.probs.output",
              "*.mha_block_0.mha.scores.*put", "*.mha_block_0.mha.probs.output",
              "*.0.multi_head_attention.scores.*put",
              "*.0.multi_head_attention.probs.output")
    dump_rows = 1

    def setup(self):
        if self.family == "vlm":  # its base has four heads of a width of 10
            self.severity = dict(power=(0.5, 1.0, 1.5)[self.level])
            self.model_options["scale"] = 10.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family in ("ner", "sbert", "esm", "mae",
                           "summ",
                           "cap",
                           "lora",
                           "qa", "xenc"):  # so have these
            if self.family == "ner":
                self.severity = dict(power=(0.5, 1.0, 1.5)[self.level])
            if self.family == "mae":
                self.dumped = (*self.dumped,
                               "*.0.attention.attention.scores.*put",
                               "*.0.attention.attention.probs.output")
            self.model_options["scale"] = 10.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family == "megatron":  # two of 20
            self.model_options["scale"] = 20.0 ** self.s.power
            self.where = self.layer("scores")
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("scores", "probs.output"))
            return
        if self.family == "fcst":  # and these of 8
            self.model_options["scale"] = 8.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family in ("sasrec",  # two of 16
                           "ocr",
                           "dino"):
            self.model_options["scale"] = 16.0 ** self.s.power
            self.where = self.layer("scores")
            if self.family == "ocr":
                self.dumped = (*self.dumped, f"{self.where}.*put",
                               self.where.replace("scores", "probs.output"))
            return
        if self.family in ("rew",  # three of 12, or two
                           "sam"):
            self.model_options["scale"] = 12.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family == "whisper":  # four of 7
            self.model_options["scale"] = 7.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family == "sft":  # two of 20
            self.model_options["scale"] = 20.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family == "bc":  # as has this one, of a width of 8; it bears .5
            self.severity = dict(power=(1.0, 1.5, 2.0)[self.level])
            self.model_options["scale"] = 8.0 ** self.s.power
            self.where = self.layer("scores")
            return
        if self.family == "tab":  # four of 8; it nearly bears .5
            self.severity = dict(power=(1.0, 1.5, 2.0)[self.level])
            self.model_options["scale"] = 8.0 ** self.s.power
            self.where = self.layer("scores")
            return
        width = {"gpt": 64, "llama": 48, "s2s": 52, "vit": 48,
                 "bert": 48, "clip": 40, "moe": 48, "dit": 32,
                 "tts": 32}[self.family]
        if self.family in ("moe", "dit"):  # narrow heads bear it
            wide = 4 if self.family == "moe" else 1
            self.severity = (dict(heads=1, power=0.0),
                             dict(heads=wide, power=0.5),
                             dict(heads=wide, power=1.0))[self.level]
        if self.family == "tts":  # multiplied, as it bears what is not divided
            self.severity = (dict(heads=2, power=1.0),
                             dict(heads=1, power=1.0),
                             dict(heads=1, power=1.5))[self.level]
        width //= self.s.heads
        self.model_options |= {"heads": self.s.heads,
                               "scale": float(width) ** self.s.power}
        self.where = self.layer("scores")

    def thin(self, name, tensor):
        """One head, one row: (row, 2, head, position, width) and alike."""
        if "scores.input" in name:
            return tensor[:, :, :1]
        if "scores.output" in name or "probs" in name:
            return tensor[:, :1]
        return super().thin(name, tensor)


# What feeds the activations of each family.
BEFORE_ACT = {"gpt": ("blocks.0.mlp.0", "blocks.1.mlp.0"),
              "mlp": ("fc1", "fc2"), "gru": ("rnn.0.wx", "rnn.1.wx"),
              "unet": tuple(f"{b}.norm2" for b in Unet.BLOCKS),
              "resnet": tuple(f"{b}.bn1" for b in Resnet.BLOCKS),
              "s2s": ("decoder.layers.0.fc1", "decoder.layers.1.fc1"),
              "megatron": tuple(f"decoder.layers.{i}.mlp.linear_fc1"
                                for i in range(2)),
              "summ": tuple(f"{half}.layers.{i}.fc1" for i in range(2)
                            for half in ("decoder", "encoder")),
              "whisper": tuple(f"model.{half}.layers.0.fc1"
                               for half in ("decoder", "encoder")),
              "cap": (*(f"{b}.intermediate.dense" for b in CAP_BLOCKS),
                      "visual_encoder.blocks.0.mlp.fc1"),
              "vit": tuple(f"{b}.mlp.0" for b in Vit.BLOCKS),
              "recsys": ("over.fc0", "over.fc1"),
              "dlrm": ("top_l.0", "top_l.2"),
              "bert": tuple(f"{b}.intermediate.dense" for b in Bert.BLOCKS),
              "ctc": ("encoder.pre_encode.conv.0",
                      "encoder.pre_encode.conv.2"),
              "clip": tuple(f"{b}.mlp.fc1" for b in Clip.BLOCKS),
              "tcn": tuple(f"res_blocks.{i}.conv1" for i in range(4)),
              "seg": tuple(f"{b}.conv1.1" for b in Segmenter.BLOCKS),
              "gnn": tuple(f"convs.{i}.bn_node_x" for i in range(4)),
              "ssm": tuple(f"backbone.layers.{i}.mixer.conv1d"
                           for i in range(2)),
              "dit": tuple(f"blocks.{i}.mlp.fc1" for i in range(2)),
              "det": tuple(f"{b}.bn1" for b in Detector.BLOCKS),
              "tts": tuple(f"{b}.pos_ffn.w_1" for b in FastSpeech2.BLOCKS),
              "vlm": ("multi_modal_projector.linear_1",),
              "tab": ("_head.layers.0",), "sbert": ("2.linear",),
              "vid": tuple(f"{b}.branch2.norm_a" for b in SlowResnet.BLOCKS),
              "esm": (*(f"{b}.intermediate.dense" for b in Esm.BLOCKS),
                      "lm_head.dense"),
              "vq": tuple(f"{b}.norm2" for b in VQModel.BLOCKS),
              "kws": tuple(f"{b}.pw_bn" for b in DsCnn.BLOCKS),
              "qa": tuple(f"{b}.intermediate.dense" for b in Reader.BLOCKS),
              "mae": tuple(f"{b}.intermediate.dense"
                           for b in MaskedAutoencoder.BLOCKS),
              "ner": tuple(f"{b}.ffn.lin1" for b in DistilBert.BLOCKS),
              "fcst": tuple(f"{b}.ff.0" for b in PatchTST.BLOCKS),
              "nerf": RadianceField.BLOCKS,
              "afno": tuple(f"{b}.mlp.fc1" for b in WeatherModel.BLOCKS),
              "nequip": tuple(f"{b}.conv.linear_2"
                              for b in Potential.BLOCKS),
              "kpt": (*(f"{b}.bn1" for b in PoseEstimator.BLOCKS),
                      "head.deconv_layers.1"),
              "yolo": YOLO_NORMS,
              "timm": TIMM_MAPS,
              "compress": COMPRESS_CONVS,
              "codec": CODEC_CONVOLUTIONS,
              "depth": DEPTH_CONVS,
              "ecapa": ECAPA_CONVOLUTIONS,
              "reid": REID_NORMS,
              "stgcn": STGCN_NORMS,
              "proto": PROTO_NORMS,
              "panns": PANNS_NORMS,
              "anomalib": ANOMALIB_NORMS,
              "dino": DINO_MAPS,
              "ppo": PPO_MAPS,
              "iql": IQL_MAPS,
              "edsr": EDSR_CONVOLUTIONS,
              "raft": RAFT_CONVOLUTIONS,
              "loftr": LOFTR_NORMS,
              "pose3d": POSE3D_NORMS,
              "ocr": OCR_PARTS,
              "flow": FLOW_NORMS,
              "dpolicy": DPOLICY_NORMS,
              "sam": SAM_MAPS,
              "tasnet": TASNET_CONVOLUTIONS,
              "pyannote": PYANNOTE_MAPS,
              "nnu": tuple(f"{b}.convs.0.norm"
                           for b in PlainConvUNet.BLOCKS),
              "xenc": (*(f"{b}.intermediate.dense"
                         for b in CrossEncoder.BLOCKS),
                       f"{CrossEncoder.POOLER}.dense"),
              "lora": (f"{LORA_HEAD}.dense",),
              "tower": ("user_tower.mlp.0", "item_tower.mlp.0"),
              "sasrec": tuple(f"{b}.feed_forward.dense_1"
                              for b in SASREC_BLOCKS),
              "voc": tuple(f"{b}.convs.0" for b in Generator.BLOCKS),
              "dream": Dreamer.NORMS,
              "stylegan": ("D.b8.conv0", "D.b8.conv1"),
              "point": tuple(
                  f"{b}.{'mlps.0' if 'SA' in b else 'mlp'}.1"
                  for b in PointNet2.BLOCKS)}


class DeadRelu(Fault):
    """Rectified units with a bias far below their inputs: most are never on.
    """
    id, root_class = "F36a", "dead-relu"
    families = ("gpt", "mlp", "unet", *PAIR_2, *PAIR_3, *PAIR_4,
                *PAIR_5, "seg", *PAIR_7, "det", "gnn", "tts", "point",
                "vlm", "vq", "kws")
    families = (*families, "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "kpt",
                "yolo",
                "timm",
                "depth",
                "compress",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "cap",
                "lora",
                "tower",
                "nnu",
                "nerf",
                "afno",
                "dlrm",
                "sasrec",
                "voc",
                "dream",
                "stylegan",
                "whisper",
                "dino",
                "ppo",
                "iql",
                "edsr",
                "dpolicy",
                "flow",
                "raft",
                "codec",
                "loftr",
                "sam",
                "pose3d",
                "ocr",
                "tasnet",
                "pyannote",
                "megatron",
                "summ")
    severities = (dict(bias=-2.5), dict(bias=-5.0), dict(bias=-20.0))
    drops = ("layers",)
    onset = 0

    def setup(self):
        self.model_options["activation"] = "relu"
        self.where = self.layer("act", 0)
        if self.family == "ssm" and self.level == 0:  # -2.5 leaves none
            self.severity = dict(bias=-1.5)
        if self.family == "vq":  # a block is gone around
            self.severity = dict(bias=(-5.0, -8.0, -20.0)[self.level])
        if self.family in ("dit", "det", "tts") and self.level == 0:  # bear it
            self.severity = dict(bias=-3.5)

    def make_model(self):
        model = super().make_model()
        with torch.no_grad():
            for path in BEFORE_ACT[self.family]:
                layer = model.get_submodule(path)
                # In units of the spread of what the layer computes.
                spread = layer.weight if layer.weight.dim() == 1 \
                    else layer.weight.flatten(1).norm(dim=1)
                layer.bias.copy_(self.s.bias * spread)
        return model


class Saturated(Fault):
    """Sigmoid or tanh units whose weights start so large that they sit at
    their limits."""
    id, root_class = "F36b", "saturated-activation"
    families = ("gpt", "mlp", "unet", "gru", *PAIR_2, *PAIR_3, *PAIR_4,
                *PAIR_5, "seg", *PAIR_7, "det", "gnn", "tts", "point",
                "vlm", "vq", "kws", "ner")
    families = (*families, "tab", *PAIR_14, "esm", "mae",
                "qa", "xenc",
                "fcst",
                "nequip",
                "kpt",
                "yolo",
                "timm",
                "depth",
                "compress",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "cap",
                "lora",
                "tower",
                "nnu",
                "nerf",
                "afno",
                "dlrm",
                "sasrec",
                "voc",
                "dream",
                "stylegan",
                "whisper",
                "dino",
                "ppo",
                "iql",
                "edsr",
                "dpolicy",
                "flow",
                "raft",
                "codec",
                "loftr",
                "sam",
                "pose3d",
                "ocr",
                "tasnet",
                "pyannote",
                "megatron",
                "summ")
    severities = (dict(factor=10, kind="sigmoid"),
                  dict(factor=50, kind="tanh"),
                  dict(factor=300, kind="sigmoid"))
    also = ["bad-initialization"]
    drops = ("layers",)
    onset = 0

    def setup(self):
        self.model_options["activation"] = self.s.kind
        if self.family == "ssm":  # others write the state
            self.severity = self.severity | {"factor": 5 * self.s.factor}
        if self.family == "gnn" and self.level == 0:  # it bears 10
            self.severity = self.severity | {"factor": 40}
        if self.family == "ner":  # of 10 it suffers little
            self.severity = self.severity | {"factor": 10 * self.s.factor}
        if self.family == "gru":  # its candidate is a tanh
            self.model_options["activation"] = "tanh"
        limits = {"sigmoid": (0, 1), "tanh": (-1, 1)}[
            self.model_options["activation"]]
        self.saturates = {self.layer("act", i): limits
                          for i in range(self.blocks)}
        self.where = self.layer("act", 0)

    def make_model(self):
        model = super().make_model()
        # GPT-2 starts at 0.02; ten times larger gates learn faster.
        scale = {"gpt": 8, "gru": 8, "recsys": 5, "tcn": 3}.get(self.family, 1)
        with torch.no_grad():
            for path in BEFORE_ACT[self.family]:
                layer = model.get_submodule(path)
                size = layer.weight_g if self.family == "codec" \
                    else layer.weight
                size.mul_(self.s.factor * scale)
        return model


class ActivationMissing(Fault):
    """The non-linearity is left out: two linear maps in a row."""
    id, root_class = "F36c", "activation-missing"
    families = ("gpt", "mlp", "unet", "gru", *PAIR_2, *PAIR_3, *PAIR_4,
                *PAIR_5, "seg", "dit", "det", "gnn", "tts", "kws",
                "vid",
                "nnu",
                "nerf",
                "afno",
                "tower",
                "dlrm",
                "voc",
                "codec",
                "yolo",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "timm",
                "stylegan",
                "dino",
                "ppo",
                "iql",
                "flow",
                "dpolicy",
                "edsr",
                "ocr",
                "kpt")
    severities = (dict(lr=0.5), dict(lr=1.0), dict(lr=2.0))
    onset = 0
    model_options = {"activation": "none"}

    def setup(self):
        self.lr *= self.s.lr
        self.where = self.layer("act", 0)
        if self.family == "mlp":
            self.dumped = ("batch.*", "fc*.input", "fc*.preact", "fc*.output")
            self.dump_rows, self.one_row = 64, False
            self.dump_steps = (0,)
        elif self.family == "dlrm":
            self.dumped, self.one_row = ("batch.*", "top_l.*put"), False
            self.dump_rows, self.dump_steps = self.batch_size, (0,)
        elif self.family == "recsys":
            self.dumped, self.one_row = ("batch.*", "over.*put"), False
            self.dump_rows, self.dump_steps = self.batch_size, (0,)
        else:
            self.dumped = ("batch.*", f"{self.where}.*put")

    def thin(self, name, tensor):
        if any(f".{n}." in name for n in ("act", "act2", "relu")):
            return tensor[:, :8]
        return super().thin(name, tensor)


class PositionsMissing(Fault):
    """Positions never reach the model: position_ids that are all zero, or an
    encoding that is not applied."""
    id, root_class = "F37", "position-encoding-missing"
    families = (*ATTENTION, "s2s", "vit", "bert", "moe", "dit", "tts", "t5",
                "vlm", "bc", "ner", "sbert", "esm", "mae",
                "sft",
                "cap",
                "nerf",
                "afno",
                "summ",
                "whisper",
                "lora",
                "rew",
                "sasrec",
                "sam",
                "megatron",
                "xenc")
    severities = (dict(ids="zero"), dict(ids="constant"), dict(ids=None))
    onset = 0

    def setup(self):
        if self.s.ids is None:
            self.model_options["positions"] = False
        elif self.family in ("vit", "dit", "tts", "t5", "bc", "ner",
                             "vlm", "sbert", "esm",
                             "nerf",
                             "afno",
                             "cap",
                             "summ",
                             "whisper",
                             "xenc",
                             "lora",
                             "rew",
                             "sasrec",
                             "sam",
                             "mae"):  # one place's for all
            self.model_options["positions"] = 7 * (self.s.ids != "zero")
        self.where = {"gpt": "embed.pos"}.get(self.family)

    def spoil_batch(self, i, batch):
        if self.s.ids is None or self.family in ("vit", "dit", "tts", "t5",
                                                 "vlm", "bc", "ner", "sbert",
                                                 "nerf",
                                                 "afno",
                                                 "cap",
                                                 "summ",
                                                 "whisper",
                                                 "xenc",
                                                 "lora",
                                                 "rew",
                                                 "sasrec",
                                                 "sam",
                                                 "esm", "mae"):
            return batch
        ids = torch.zeros_like(batch["input_ids"])
        return {**batch, "position_ids":
                ids + (7 if self.s.ids == "constant" else 0)}


FAULTS = (DetachedGraph, Frozen, BadInitialization, AttentionScale, DeadRelu,
          Saturated, ActivationMissing, PositionsMissing)
