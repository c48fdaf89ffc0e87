"""The model families of the fault cases, and what a fault is.

A fault is written once, as a mixin of hooks, and combined with every family
in which it makes sense:

    class LrTooHigh(Fault):
        '''The learning rate is some powers of ten too high.'''
        id = "F01"
        root_class = "lr-too-high"        # of kb/classes.tsv
        also = ["exploding-gradient"]     # classes that are right as well
        families = ALL
        severities = (dict(factor=10), dict(factor=100), dict(factor=1000))

        def setup(self):                  # before training; self.s has the
            self.lr *= self.s.factor      # severity, self.family the family

    FAULTS = (LrTooHigh, ...)             # each module of faults/ ends so

Hooks are the methods of `recorder.Run` under "The places where a fault can
sit": make_model (through self.model_options), make_source, next_batch,
spoil_batch (training batches), spoil_val (held-out ones; by default
spoil_batch(-1, ...), so override it when only training is at fault),
make_optimizer, lr_factor, before_step, compute_loss, spoil_loss, zero_grad,
backward, logged_loss, update, after_step, data_seconds, wrap, is_onset,
write_more. A batch is a dict (models.py); keys that are not the model's, such
as domain or attention_mask, are dumped as batch.<key>.

    self.onset = 150          step index of the onset, 0 for "from the start";
                              or override is_onset(i, row, now)
    self.where = "blocks.0"   layer the evidence must name, if there is one
    self.user = {...}         settings that the user's config has besides
                              (freeze, gradient_accumulation_steps, ...)
    intervals = (1, 10, 25)   logging intervals to rotate through
    dialects = (...)          writers of logs.py to rotate through
    drops = ("grad_norm", "layers")   also record the middle severity
                              once without each of these
    dump_steps = (0, -1)      step indices that are dumped, -1 is the last
    dumped = ("batch.*",)     globs of `<module path>.<role>`
    dump_rows = 4             rows of the batch, and of activations, in a dump
    battery = ("causal_mask", "positions")  checks of battery.py that are
                              recorded at the end, these by default

A family says in `graded` which severities of a fault are its own:
{"F07": (dict(factor=20), ...)}. Those of F05, F13 and F14 name modules.

Healthy controls are the same with root_class None and an id H01, H02, ...
Faults U01, U02, ... have the class "unknown": no class of kb/classes.tsv is
right for them, and the right verdict is "uncertain".

self.layer("attn", 0) is the module path of the attention of block 0 in this
family (None where there is none), "mlp", "act", "scores", "embed", "head"
likewise.

gpt, llama and mlp were there first. The pairs were each held out: culprit read
them once, when all else stood still, before anything was changed for what came
out. docs/fault-cases.md says when, and with what result.

llama has another text, vocabulary,
context, batch size, depth, width, schedule, betas and initialisation than gpt,
and a tied head; mlp is a classifier that trains with SGD; unet is a denoiser of
images, gru a recurrent language model. A fault that is about one optimizer
says `needs = "adamw"` or "sgd" and gets the family's recipe of it.
"""

import math
from types import SimpleNamespace

from . import llama, models
from .afno import AfnoRun
from .anomalib import AnomalibRun
from .bc import BcRun
from .bert import BertRun
from .cap import CapRun
from .clip import ClipRun
from .codec import CodecRun
from .compress import CompressRun
from .ctc import CtcRun
from .depth import DepthRun
from .det import DetRun
from .dino import DinoRun
from .dit import DitRun
from .dlrm import DlrmRun
from .dpo import DpoRun
from .dpolicy import DpolicyRun
from .dream import DreamRun
from .ecapa import EcapaRun
from .edsr import EdsrRun
from .esm import EsmRun
from .family import Family
from .fcst import FcstRun
from .flow import FlowRun
from .gnn import GnnRun
from .gru import GruRun
from .iql import IqlRun
from .kge import KgeRun
from .kpt import KptRun
from .kws import KwsRun
from .loftr import LoftrRun
from .lora import LoraRun
from .mae import MaeRun
from .megatron import MegatronRun
from .moe import MoeRun
from .nequip import NequipRun
from .ner import NerRun
from .nerf import NerfRun
from .nnu import NnuRun
from .ocr import OcrRun
from .panns import PannsRun
from .point import PointRun
from .pose3d import Pose3dRun
from .ppo import PpoRun
from .proto import ProtoRun
from .pyannote import PyannoteRun
from .qa import QaRun
from .raft import RaftRun
from .recsys import RecsysRun
from .reid import ReidRun
from .resnet import ResnetRun
from .rew import RewRun
from .s2s import S2sRun
from .sam import SamRun
from .sasrec import SasrecRun
from .sbert import SbertRun
from .seg import SegRun
from .sft import SftRun
from .ssm import SsmRun
from .stgcn import StgcnRun
from .stylegan import StyleganRun
from .summ import SummRun
from .t5 import T5Run
from .tab import TabRun
from .tasnet import TasnetRun
from .tcn import TcnRun
from .timm import TimmRun
from .tower import TowerRun
from .tts import TtsRun
from .unet import UnetRun
from .vid import VidRun
from .vit import VitRun
from .vlm import VlmRun
from .voc import VocRun
from .vq import VqRun
from .whisper import WhisperRun
from .xenc import XencRun
from .yolo import YoloRun


class GptRun(Family):
    """Learned positions, LayerNorm, GELU; AdamW with a cosine to 0."""

    family = "gpt"
    steps, clip = 250, 1.0
    context, vocab = models.CONTEXT, models.VOCAB
    layers = ["embed.tok", "embed.pos", *(
        f"blocks.{i}.{part}" for i in range(2)
        for part in ("attn", "attn.scores", "mlp.act", "mlp")),
        "ln_f", "head"]
    paths = {"embed": "embed.tok", "attn": "blocks.{}.attn",
             "scores": "blocks.{}.attn.scores", "act": "blocks.{}.mlp.act",
             "mlp": "blocks.{}.mlp", "block": "blocks.{}", "head": "head"}
    blocks = 2
    battery = ("causal_mask", "positions")

    def model_settings(self):
        return {"model": "gpt", "n_layer": 2,
                "n_head": self.model_options.get("heads", 4), "d_model": 64,
                "vocab_size": self.vocab, "context": self.context}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        """embed.pos is a part of its own, scores and act have no weights."""
        if layer.endswith((".scores", ".act")):
            return []
        return super().fed_by(layer)


class LlamaRun(Family):
    """Another text and recipe; see the top of the file."""

    family = "llama"
    steps, seed, lr, warmup, schedule = 240, 20, 4e-3, 12, "linear"
    betas, weight_decay, clip = (0.9, 0.95), 0.01, 0.5
    batch_size = models.ZipfText.BATCH
    context, vocab = models.ZipfText.CONTEXT, models.ZipfText.VOCAB
    layers = ["model.embed_tokens", *(
        f"model.layers.{i}.{part}" for i in range(3)
        for part in ("self_attn", "self_attn.scores", "mlp.act_fn", "mlp")),
        "model.norm", "lm_head"]
    paths = {"embed": "model.embed_tokens", "attn": "model.layers.{}.self_attn",
             "scores": "model.layers.{}.self_attn.scores",
             "act": "model.layers.{}.mlp.act_fn", "mlp": "model.layers.{}.mlp",
             "block": "model.layers.{}", "head": "lm_head"}
    blocks = 3
    battery = ("causal_mask", "positions")

    def make_model(self):
        return llama.Llama(**self.model_options)

    def make_source(self, seed):
        return models.ZipfText(seed)

    def model_settings(self):
        return {"model": "llama", "n_layer": 3,
                "n_head": self.model_options.get("heads", 4), "d_model": 48,
                "vocab_size": self.vocab, "context": self.context,
                "tie_word_embeddings": self.model_options.get("tied", True)}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        if layer.endswith("self_attn"):
            return [layer.replace("self_attn", "input_layernorm")]
        if layer.endswith(".mlp"):
            return [layer.replace("mlp", "post_attention_layernorm")]
        return []


class MlpRun(Family):
    """A classifier with a known Bayes error; SGD, constant rate, no clip."""

    family = "mlp"
    steps, seed, language = 300, 40, False
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.05, 0.9, 1e-4
    recipes = {"adamw": dict(lr=1e-3, weight_decay=0.01)}
    warmup, schedule, clip = 0, "constant", None
    batch_size = 64
    layers, blocks = models.Mlp.LAYERS, 2
    paths = {"embed": "fc1", "attn": None, "scores": None, "act": "fc{}",
             "mlp": "fc{}", "block": "fc{}", "head": "out"}

    def make_model(self):
        return models.Mlp(**self.model_options)

    def make_source(self, seed):
        return models.GaussianMixture(seed)

    def model_settings(self):
        return {"model": "mlp", "in_features": models.FEATURES, "hidden": 64,
                "num_classes": models.CLASSES}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block + 1)

    def fed_by(self, layer):
        return []


FAMILIES = {f.family: f for f in (GptRun, LlamaRun, MlpRun, UnetRun, GruRun,
                                  ResnetRun, S2sRun, VitRun, RecsysRun, BertRun,
                                  CtcRun, ClipRun, TcnRun, MoeRun, SegRun,
                                  SsmRun, DitRun, GnnRun, DetRun, TtsRun,
                                  DpoRun, T5Run, PointRun, VlmRun, VqRun,
                                  BcRun, KwsRun, NerRun, TabRun, SbertRun,
                                  VidRun, EsmRun, MaeRun, QaRun, XencRun,
                                  KptRun, SummRun, FcstRun, SftRun,
                                  LoraRun, NnuRun, NerfRun, VocRun,
                                  CapRun, RewRun, TowerRun, DlrmRun,
                                  DreamRun, AfnoRun, SasrecRun, NequipRun,
                                  YoloRun, StyleganRun, WhisperRun,
                                  MegatronRun, CompressRun, TimmRun,
                                  EcapaRun, DinoRun, EdsrRun, TasnetRun,
                                  DepthRun, KgeRun, RaftRun, PpoRun, OcrRun,
                                  FlowRun, SamRun, PyannoteRun, Pose3dRun,
                                  ReidRun, CodecRun, LoftrRun, StgcnRun,
                                  IqlRun, PannsRun, ProtoRun, AnomalibRun,
                                  DpolicyRun)}
FIRST = ("gpt", "llama", "mlp")
PAIR_1, PAIR_2, PAIR_3 = ("unet", "gru"), ("resnet", "s2s"), ("vit", "recsys")
PAIR_4, PAIR_5 = ("bert", "ctc"), ("clip", "tcn")
PAIR_6 = ("moe", "seg")
PAIR_7 = ("ssm", "dit")
PAIR_8 = ("gnn", "det")
PAIR_9 = ("tts", "dpo")
PAIR_10 = ("t5", "point")
PAIR_11 = ("vlm", "vq")
PAIR_12 = ("bc", "kws")
PAIR_13 = ("ner", "tab")
PAIR_14 = ("sbert", "vid")
PAIR_15 = ("esm", "mae")
PAIR_16 = ("qa", "xenc")
PAIR_17 = ("kpt", "summ")
PAIR_18 = ("fcst", "sft")
PAIR_19 = ("lora", "nnu")
PAIR_20 = ("nerf", "voc")
PAIR_21 = ("cap", "rew")
PAIR_22 = ("tower", "dlrm")
PAIR_23 = ("dream", "afno")
PAIR_24 = ("sasrec", "nequip")
PAIR_25 = ("yolo", "stylegan")
PAIR_26 = ("whisper", "megatron")
PAIR_27 = ("compress", "timm")
PAIR_28 = ("ecapa", "dino")
PAIR_29 = ("edsr", "tasnet")
PAIR_30 = ("depth", "kge")
PAIR_31 = ("raft", "ppo")
PAIR_32 = ("ocr", "flow")
PAIR_33 = ("sam", "pyannote")
PAIR_34 = ("pose3d", "reid")
PAIR_35 = ("codec", "loftr")
PAIR_36 = ("stgcn", "iql")
PAIR_37 = ("panns", "proto")
PAIR_38 = ("anomalib", "dpolicy")
ATTENTION = ("gpt", "llama")
LANGUAGE = (*ATTENTION, "gru", "ssm")
LABELLED = (*FIRST, "gru", *PAIR_2, *PAIR_3, *PAIR_4,
            *PAIR_6, "ssm", "det", "dpo", "t5", "point",
            "vlm", "kws", "ner", "tab",
            *PAIR_14, "esm",
            "qa", "xenc",
            "summ",
            "nnu",
            "sft",
            "cap",
            "rew",
            "tower",
            "dlrm",
            "sasrec",
            "yolo",
            "timm",
            "lora",
            "whisper",
            "megatron",
            "ocr",
            "sam",
            "pyannote",
            "reid",
            "panns",
            "anomalib",
            "stgcn",
            "proto",
            "ecapa")  # a loss of labels
ALL = tuple(FAMILIES)


UNKNOWN = "unknown"     # a root cause that no class covers


class Fault:
    """Mixin before a family; see the top of the file."""

    id = None
    root_class, also, needs = None, [], None
    families, severities = ALL, ()
    intervals = (1, 10, 25)
    dialects = ("plain", "nanogpt", "hf_trainer", "lightning", "megatron",
                "torchtune")
    drops = ()
    note = ""

    @property
    def s(self):
        return SimpleNamespace(**self.severity)


def number(fault):
    """Where the rotations of a fault begin: F09 and F10 differ."""
    return int("".join(c for c in fault.id if c.isdigit())) + sum(
        ord(c) for c in fault.id if c.islower()) + (
        60 if fault.id.startswith("U") else 0)


def case_name(fault, family, level, dropped=""):
    name = f"{fault.id.lower()}-{family}-{level}"
    return name + ("-no" + dropped.replace("_", "") if dropped else "")


def build(fault, family, level, dropped="", thin=False, seed=0):
    """The Run of one case: `fault` at severity `level` in a family; a thin one
    records less of what the fault does not need. `seed` is added to the seed
    of the case, from which weights, batches and clock are drawn, and turns
    logger and interval on: another seed gives another run and another log."""
    base = FAMILIES[family]
    place = list(FAMILIES).index(base.beside or family)
    turn = number(fault) + level + 2 * place + seed
    healthy = fault.root_class is None
    dialect = fault.dialects[turn // 3 % len(fault.dialects)
                             if len(fault.dialects) > 2 else
                             turn % len(fault.dialects)]
    case = type(fault.__name__ + base.__name__, (fault, base), {
        "name": case_name(fault, family, level, dropped), "level": level,
        "severity": base.graded.get(fault.id, fault.severities)[level],
        "seed": base.seed + number(fault) + seed + level * base.level_seed,
        "shift": seed, "__doc__": fault.__doc__,
        "interval": fault.intervals[turn % len(fault.intervals)],
        "dialect": base.instead.get(dialect, dialect),
        "dropped": (dropped,) if dropped else (),
        "verdict": "healthy" if healthy else
                   "uncertain" if fault.root_class == UNKNOWN else "diagnosed"})
    run = case()
    if fault.needs and fault.needs not in (run.optimizer_name, run.moments):
        vars(run).update(run.recipes[fault.needs],
                         optimizer_name=fault.needs)
    run.model_options, run.user = dict(run.model_options), dict(run.user)
    if run.dialect in ("hf_trainer", "megatron",
                       "mmengine",
                       "dlrm",
                       "nequip",
                       "megatron_lm",
                       "fairseq",
                       "espnet",
                       "speechbrain",
                       "basicsr",
                       "raft",
                       "dac",
                       "corl",
                       "pyskl",
                       "protonet",
                       "openocr"):
        run.first_step = 1
    if run.interval == 1:
        run.layers_every = 50  # the metrics are large enough
    run.setup()
    if thin:
        run.thin_out()
    run.val_every = math.ceil(50 / run.interval) * run.interval
    return run


def expand(faults):
    """Every (fault, family, level, dropped) of the grid, in order."""
    for fault in faults:
        for family in fault.families:
            for level in range(len(fault.severities)):
                yield fault, family, level, ""
            for column in fault.drops:
                yield fault, family, len(fault.severities) // 2, column
