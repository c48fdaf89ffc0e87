"""Faults of number formats and of arithmetic at its limits."""

import math

import torch

from .. import tts
from ..anomalib import D as ANOMALIB_D
from ..families import LABELLED, PAIR_7, Fault
from ..lora import BOS, EOS, POOLING
from ..lora import PAD as LORA_PAD
from ..seg import VOID

ANOMALIB_HALF = f"{ANOMALIB_D}.encoder_segment.block2.0"


class NotFinite(Fault):
    """Base: the onset is the first step whose loss is not finite."""

    def is_onset(self, i, row, now):
        return not math.isfinite(row["loss"])


class Fp16Overflow(NotFinite):
    """A product in half precision whose operands' weights grow by some per
    cent a step, as over the 10^5 steps of a large run: scores in gpt, the
    gated product in llama, a layer's output in the mlp, a convolution's in
    unet, the logits in gru."""
    id, root_class = "F38", "fp16-overflow"
    also = ["logit-growth"]
    severities = (dict(growth=1.03), dict(growth=1.05), dict(growth=1.1))
    precision, needs = "fp16-mixed", "adamw"
    dump_steps, dump_rows = (), 1
    dumped = ("batch.*", "*.1.attn.scores.*put", "*.1.attn.probs.output",
              "*.1.mlp.act_fn.output", "*.1.mlp.up_proj.output",
              "*.1.mlp.gated.output", "fc2.*put", "fc2.preact",
              "out.output", "conv_in.output", "mid.conv1.*put",
              "mid.act2.*put", "mid.output", "rnn.1.output",
              "head.*put", "layer2.0.conv1.*put", "layer2.0.relu.*put",
              "layer2.0.output", "decoder.layers.1.encoder_attn.scores.*put",
              "decoder.layers.1.encoder_attn.probs.output",
              "*_1.self_attention.scores.*put", "tables.item.output",
              "*.mha_block_1.mha.scores.*put", "*.mha_block_1.mha.probs.output",
              "*_1.self_attention.probs.output", "interaction.*put",
              "vision_model.*.1.self_attn.scores.*put",
              "vision_model.*.1.self_attn.probs.output",
              "*.1.attention.self.scores.*put", "*.1.attention.scores.*put",
              "*.1.attention.probs.output", "decoder.blocks.0.conv1.0.*put",
              "*.1.attention.self.probs.output",
              "decoder.decoder_layers.*put", "res_blocks.2.conv2.*put",
              "res_blocks.2.output", "*.1.mixer.out_proj.*put",
              "convs.2.A.*put", "convs.2.norm.*put", "convs.2.output",
              "*.layer2.0.conv1.*put", "*.layer2.0.relu.*put", "*.layer2.0.output",
              "decoder.layer_stack.1.slf_attn.scores.*put",
              "decoder.layer_stack.1.slf_attn.probs.output",
              "decoder.block.1.layer.2.DenseReluDense.*put",
              "*.SA_modules.1.mlps.0.3.*put", "*.SA_modules.1.mlps.0.5.*put",
              "*.SA_modules.1.output", "ds_blocks.2.pw_conv.*put",
              "ds_blocks.2.pw_act.*put", "ds_blocks.2.output",
              "model.encoder.layers.1.linear*put",
              "model.encoder.layers.1.activation.*put",
              "interact_features.*put",
              "model.encoder.layers.1.output", "loss.output")

    def setup(self):
        self.model_options |= {"gpt": {"half_scores": True},
                               "llama": {"half_mlp": True},
                               "mlp": {"half_at": "fc2"},
                               "unet": {"half_at": "mid.conv1"},
                               "resnet": {"half_at": "layer2.0.conv1"},
                               "s2s": {"half_scores": True},
                               "summ": {"half_scores": True},
                               "whisper": {"half_scores": True},
                               "megatron": {"half_scores": True},
                               "cap": {"half_scores": True},
                               "vit": {"half_scores": True},
                               "recsys": {"half_products": True},
                               "bert": {"half_scores": True},
                               "tab": {"half_scores": True},
                               "ner": {"half_scores": True},
                               "sbert": {"half_scores": True},
                               "esm": {"half_scores": True},
                               "mae": {"half_scores": True},
                               "qa": {"half_scores": True},
                               "xenc": {"half_scores": True},
                               "lora": {"half_scores": True},
                               "vid": {"half_at": "model.blocks.2.res_blocks"
                                                  ".0.branch2.conv_b"},
                               "fcst": {"half_scores": True},
                               "kpt": {"half_at": "backbone.layer2.0.conv1"},
                               "yolo": {"half_at": "model.4.m.0.cv1.conv"},
                               "timm": {"half_at":
                                        "stages.1.blocks.0.mlp.fc1"},
                               "compress": {"half_at": "g_a.2"},
                               "depth": {"half_at": "encoder.encoder.layer2"
                                                    ".0.conv1"},
                               "ecapa": {"half_at": "embedding_model.blocks.2"
                                                    ".tdnn1.conv"},
                               "reid": {"half_at":
                                        "backbone.layer3.0.conv1"},
                               "proto": {"half_at": "encoder.2.0"},
                               "panns": {"half_at": "conv_block2.conv1"},
                               "anomalib": {"half_at": ANOMALIB_HALF},
                               "stgcn": {"half_at":
                                         "backbone.gcn.2.gcn.conv"},
                               "dino": {"half_scores": True},
                               "ocr": {"half_scores": 1},
                               "sam": {"half_scores": 1},
                               "kge": {"half": True},
                               "ppo": {"half_at": "actor.4"},
                               "iql": {"half_at": "qf.q1.net.2"},
                               "edsr": {"half_at": "body.1.conv1"},
                               "raft": {"half_at": "cnet.layer2.0.conv1"},
                               "codec": {"half_at":
                                         "decoder.model.1.block.1"},
                               "loftr": {"half_at": "matcher.backbone"
                                                    ".layer2.0.conv1"},
                               "pose3d": {"half_at": "layers_conv.2"},
                               "dpolicy": {"half_at": "model.mid_modules.0"
                                                      ".blocks.0.block.0"},
                               "flow": {"half_at":
                                        "middle_block.0.in_layers.2"},
                               "tasnet": {"half_at": "masker.TCN.1.res_conv"},
                               "pyannote": {"half_at": "linear.0"},
                               "nnu": {"half_at":
                                       "decoder.stages.1.convs.0.conv"},
                               "nerf": {"half_at": "field.mlp_base.layers.2"},
                               "afno": {"half_at": "blocks.1.mlp.fc1"},
                               "nequip": {"half_at":
                                          "model.func.layer1_convnet.conv"
                                          ".linear_2"},
                               "dlrm": {"half_products": True},
                               "voc": {"half_at": "ups.1"},
                               "dream": {"half_at": "_wm.heads.decoder._mlp"
                                                    ".layers.Decoder_linear1"},
                               "tower": {"half_at": "item_tower.mlp.2"},
                               "stylegan": {"half_at": "D.b4.conv"},
                               "sasrec": {"half_scores": True},
                               "ctc": {"half": True},
                               "clip": {"half_scores": True},
                               "tcn": {"half_at": "res_blocks.2"},
                               "moe": {"half_scores": True},
                               "seg": {"half_at": "decoder.blocks.0.conv1.0"},
                               "det": {"half_at": "backbone.body.layer2.0"
                                                  ".conv1"},
                               "dit": {"half_scores": True},
                               "tts": {"half_scores": True},
                               "t5": {"half_mlp": True},
                               "sft": {"half_mlp": True},
                               "rew": {"half_mlp": True},
                               "dpo": {"half_scores": True},
                               "vq": {"half_at": "decoder.mid.block_1.conv1"},
                               "kws": {"half_at": "ds_blocks.2.pw_conv"},
                               "vlm": {"half_scores": True},
                               "bc": {"half_at": "model.encoder.layers.1"
                                                 ".linear2"},
                               "point": {"half_at": "backbone_3d.SA_modules.1"
                                                    ".mlps.0.3"},
                               "gnn": {"half_at": "convs.2.A"},
                               "ssm": {"half_at": "out_proj"},
                               "gru": {"half": True}}[self.family]
        self.where = {"gpt": "blocks.1.attn.scores", "mlp": "fc2",
                      "llama": "model.layers.1.mlp.gated",
                      "unet": "mid.conv1", "gru": "head",
                      "resnet": "layer2.0.conv1",
                      "s2s": "decoder.layers.1.encoder_attn.scores",
                      "summ": "decoder.layers.1.encoder_attn.scores",
                      "whisper": "model.decoder.layers.0.encoder_attn.scores",
                      "megatron": "decoder.layers.1.self_attention.scores",
                      "cap": "text_decoder.bert.encoder.layer.0.attention"
                             ".self.scores",
                      "vit": "encoder.layers.encoder_layer_1."
                             "self_attention.scores",
                      "recsys": "interaction",
                      "tab": "_backbone.transformer_blocks.mha_block_1.mha"
                             ".scores",
                      "bert": "bert.encoder.layer.1.attention.self.scores",
                      "ner": "distilbert.transformer.layer.1.attention.scores",
                      "sbert": "0.auto_model.encoder.layer.1.attention.self"
                               ".scores",
                      "esm": "esm.encoder.layer.1.attention.self.scores",
                      "mae": "vit.encoder.layer.1.attention.attention.scores",
                      "qa": "bert.encoder.layer.1.attention.self.scores",
                      "xenc": "model.bert.encoder.layer.1.attention.self"
                              ".scores",
                      "lora": "base_model.model.roberta.encoder.layer.1"
                              ".attention.self.scores",
                      "vid": "model.blocks.2.res_blocks.0.branch2.conv_b",
                      "fcst": "model.backbone.encoder.layers.1.self_attn"
                              ".scores",
                      "kpt": "backbone.layer2.0.conv1",
                      "yolo": "model.4.m.0.cv1.conv",
                      "timm": "stages.1.blocks.0.mlp.fc1",
                      "compress": "g_a.2",
                      "depth": "encoder.encoder.layer2.0.conv1",
                      "ecapa": "embedding_model.blocks.2.tdnn1.conv",
                      "reid": "backbone.layer3.0.conv1",
                      "panns": "conv_block2.conv1",
                      "anomalib": ANOMALIB_HALF,
                      "stgcn": "backbone.gcn.2.gcn.conv",
                      "proto": "encoder.2.0",
                      "dino": "module.backbone.blocks.1.attn.scores",
                      "ocr": "encoder.blocks2.0.mixer.scores",
                      "sam": "image_encoder.blocks.1.attn.scores",
                      "kge": "interaction",
                      "ppo": "actor.4",
                      "iql": "qf.q1.net.2",
                      "edsr": "body.1.conv1",
                      "raft": "cnet.layer2.0.conv1",
                      "codec": "decoder.model.1.block.1",
                      "loftr": "matcher.backbone.layer2.0.conv1",
                      "pose3d": "layers_conv.2",
                      "flow": "middle_block.0.in_layers.2",
                      "dpolicy": "model.mid_modules.0.blocks.0.block.0",
                      "tasnet": "masker.TCN.1.res_conv",
                      "pyannote": "linear.0",
                      "nnu": "decoder.stages.1.convs.0.conv",
                      "nerf": "field.mlp_base.layers.2",
                      "afno": "blocks.1.mlp.fc1",
                      "nequip": "model.func.layer1_convnet.conv.linear_2",
                      "dlrm": "interact_features",
                      "voc": "ups.1",
                      "dream": "_wm.heads.decoder._mlp.layers"
                               ".Decoder_linear1",
                      "tower": "item_tower.mlp.2",
                      "stylegan": "D.b4.conv",
                      "sasrec": "trm_encoder.layer.1.multi_head_attention"
                                ".scores",
                      "ctc": "decoder.decoder_layers.0",
                      "clip": "vision_model.encoder.layers.1."
                              "self_attn.scores",
                      "tcn": "res_blocks.2.conv2",
                      "moe": "layers.1.attention.scores",
                      "dit": "blocks.1.attn.scores",
                      "tts": "decoder.layer_stack.1.slf_attn.scores",
                      "t5": "decoder.block.1.layer.2.DenseReluDense.gated",
                      "sft": "model.layers.1.mlp.gated",
                      "rew": "model.layers.1.mlp.gated",
                      "dpo": "base_model.model.gpt_neox.layers.1.attention."
                             "scores",
                      "seg": "decoder.blocks.0.conv1.0",
                      "det": "backbone.body.layer2.0.conv1",
                      "gnn": "convs.2.A",
                      "vlm": "language_model.transformer.blocks.1.attn.scores",
                      "vq": "decoder.mid.block_1.conv1",
                      "kws": "ds_blocks.2.pw_conv",
                      "bc": "model.encoder.layers.1.linear2",
                      "point": "backbone_3d.SA_modules.1.mlps.0.3",
                      "ssm": "backbone.layers.1.mixer.out_proj"
                      }[self.family]
        if self.family in ("mae",
                           "dino",
                           "ocr",
                           "sam",
                           "cap",
                           "sasrec",
                           "whisper",
                           "megatron",
                           "fcst"):
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("scores", "probs.output"))
        if self.family == "nerf":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("layers", "activation.*put"),
                           "field.*.net.output", "renderer_rgb.output")
        if self.family == "afno":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "blocks.1.mlp.act.*put", "blocks.1.output")
        if self.family == "nequip":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "*.layer1_convnet.equivariant_nonlin.*put",
                           "*.layer1_convnet.output", "forces.output")
        if self.family == "dream":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "*.Decoder_act?.*put", "*.mean_layer.vector.output",
                           "loss.vector.output")
        if self.family == "voc":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "resblocks.1.*put", "audio.output")
        if self.family == "stylegan":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           f"{self.where}.preact", "D.b4.fc.*put")
        if self.family == "tower":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "*_tower.output", "scores.output")
        if self.family == "kge":
            self.dumped = (*self.dumped, "*_embeddings.output",
                           "interaction.square.output")
        if self.family == "ppo":
            self.dumped = (*self.dumped, "actor.?.output",
                           f"{self.where}.*put", "loss.ratio.output")
        if self.family == "iql":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "qf.q1.net.?.*put")
        if self.family == "vid":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv_b", "act_b.*put"),
                           self.where.replace("branch2.conv_b", "output"))
        if self.family == "nnu":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "decoder.stages.1.convs.0.nonlin.*put",
                           "decoder.stages.1.output")
        if self.family == "compress":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "g_a.3.*put", "h_s.4.output")
        if self.family == "depth":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv1", "relu.*put"),
                           "encoder.encoder.layer2.output",
                           "depth.decoder.8.conv.output")
        if self.family == "ecapa":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv", "activation.*put"),
                           "embedding_model.blocks.2.output",
                           "classifier.output")
        if self.family == "reid":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv1", "relu.*put"),
                           "backbone.layer3.0.output", "heads.output")
        if self.family == "proto":
            self.dumped = (*self.dumped, "encoder.2.*put", "scores.output")
        if self.family == "panns":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv1", "relu.*put"),
                           "conv_block2.output", "fc_audioset.output")
        if self.family == "anomalib":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where[:-1] + "2.*put", self.where[:-1]
                           + "output", f"{self.layer('head')}.output")
        if self.family == "stgcn":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv", "act.*put"),
                           "backbone.gcn.2.output", "cls_head.fc_cls.output")
        if self.family == "edsr":
            self.dumped = (*self.dumped, f"{self.where}.*put", "body.1.*put",
                           "body.1.relu.*put", "body.1.conv2.*put")
        if self.family == "flow":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "middle_block.0.in_layers.1.*put",
                           "middle_block.0.out_layers.?.output",
                           "middle_block.0.output", "out.2.output")
        if self.family == "dpolicy":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "model.mid_modules.0.blocks.?.block.?.*put",
                           "model.mid_modules.0.output",
                           "model.final_conv.1.output")
        if self.family == "raft":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv1", "relu.*put"),
                           "cnet.layer2.output", "cnet.conv2.output",
                           "update_block.flow_head.conv2.output")
        if self.family == "codec":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "decoder.model.1.block.2.block.?.*put",
                           "decoder.model.1.output", "audio.output")
        if self.family == "loftr":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv1", "relu.*put"),
                           "matcher.backbone.layer2*.output",
                           "matcher.coarse_matching.sim_matrix.output")
        if self.family == "pyannote":
            self.dumped = (*self.dumped, "linear.?.*put", "linear.?.act.*put",
                           "lstm.output", "classifier.output")
        if self.family == "pose3d":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "layers_relu.2.*put", "layers.1.output",
                           "shrink.output")
        if self.family == "tasnet":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "masker.TCN.1.output",
                           "masker.TCN.2.shared_block.?.output",
                           "masker.mask_net.1.output",
                           "decoder.filterbank.output")
        if self.family == "yolo":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace(".conv", ".act.*put"),
                           "model.4.output", "model.8.*.2.output")
        if self.family == "timm":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("fc1", "act.*put"),
                           "stages.1.blocks.0.output", "head.fc.output")
        if self.family == "vq":
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           self.where.replace("conv1", "act.*put"),
                           self.where.replace("conv1", "output"))

    @torch.no_grad()
    def after_step(self, i, model):
        if self.family == "megatron":  # one matrix has all, head by head
            self.grow(self.s.growth)
            return
        if self.family == "edsr":  # one channel has what makes it overflow
            self.grow(self.s.growth ** 3.5)
            return
        parts = {"gpt": ("blocks.1.attn.q", "blocks.1.attn.k"),
                 "llama": ("model.layers.1.mlp.gate_proj",
                           "model.layers.1.mlp.up_proj"),
                 "sft": ("model.layers.1.mlp.gate_proj",
                         "model.layers.1.mlp.up_proj"),
                 "rew": ("model.layers.1.mlp.gate_proj",
                         "model.layers.1.mlp.up_proj"),
                 "mlp": ("fc2",), "unet": ("mid.conv1",),
                 "gru": ("head",), "resnet": ("layer2.0.conv1",),
                 "s2s": ("decoder.layers.1.encoder_attn.q_proj",
                         "decoder.layers.1.encoder_attn.k_proj"),
                 "summ": [self.where.replace("scores", part)
                          for part in ("q_proj", "k_proj")],
                 "whisper": [self.where.replace("scores", part)
                             for part in ("q_proj", "k_proj")],
                 "cap": [self.where.replace("scores", part)
                         for part in ("query", "key")],
                 "vit": (self.where.replace("scores", "in_proj"),),
                 "tab": (self.where.replace("scores", "to_qkv"),),
                 "dit": (self.where.replace("scores", "qkv"),),
                 "dino": (self.where.replace("scores", "qkv"),),
                 "ocr": (self.where.replace("scores", "qkv"),),
                 "sam": (self.where.replace("scores", "qkv"),),
                 "kge": self.layers[:1],
                 "ppo": (self.where,),
                 "iql": (self.where,),
                 "vlm": (self.where.replace("scores", "Wqkv"),),
                 "bert": [self.where.replace("scores", part)
                          for part in ("query", "key")],
                 "ner": [self.where.replace("scores", part)
                         for part in ("q_lin", "k_lin")],
                 "sbert": [self.where.replace("scores", part)
                           for part in ("query", "key")],
                 "esm": [self.where.replace("scores", part)
                          for part in ("query", "key")],
                 "mae": [self.where.replace("scores", part)
                         for part in ("query", "key")],
                 "qa": [self.where.replace("scores", part)
                        for part in ("query", "key")],
                 "xenc": [self.where.replace("scores", part)
                          for part in ("query", "key")],
                 "lora": (self.where.replace(
                     "scores", "query.lora_B.default"),),
                 "vid": (self.where,),
                 "fcst": [self.where.replace("scores", part)
                          for part in ("W_Q", "W_K")],
                 "kpt": (self.where,),
                 "yolo": (self.where,),
                 "timm": (self.where,),
                 "compress": (self.where,),
                 "tasnet": (self.where,),
                 "pyannote": (self.where,),
                 "raft": (self.where,),
                 "codec": (self.where,),
                 "loftr": (self.where,),
                 "pose3d": (self.where,),
                 "reid": (self.where,),
                 "panns": (self.where,),
                 "anomalib": (self.where,),
                 "stgcn": (self.where,),
                 "proto": (self.where,),
                 "flow": (self.where,),
                 "dpolicy": (self.where,),
                 "depth": (self.where,),
                 "ecapa": (f"{self.where}.conv",),
                 "nnu": (self.where,),
                 "nerf": (self.where,),
                 "afno": (self.where,),
                 "nequip": (self.where,),
                 "dlrm": self.layers[:8],
                 "voc": (self.where,),
                 "dream": (self.where,),
                 "tower": (self.where,),
                 "stylegan": (self.where,),
                 "sasrec": [self.where.replace("scores", part)
                            for part in ("query", "key")],
                 "ctc": (self.where,), "tcn": (self.where,),
                 "gnn": (self.where,),
                 "seg": (self.where,), "ssm": (self.where,),
                 "dpo": (self.where.replace(
                     "scores", "query_key_value.lora_B.default"),),
                 "det": (self.where,), "point": (self.where,),
                 "moe": [self.where.replace("scores", part)
                         for part in ("wq", "wk")],
                 "clip": [self.where.replace("scores", part)
                          for part in ("q_proj", "k_proj")],
                 "vq": (self.where,), "kws": (self.where,),
                 "bc": (self.where.replace("r2", "r1"), self.where),
                 "tts": [self.where.replace("scores", part)
                         for part in ("w_qs", "w_ks")],
                 "t5": [self.where.replace("gated", part)
                        for part in ("wi_0", "wi_1")],
                 "recsys": self.layers[:6]}[self.family]
        # One factor of what overflows where the others have two.
        pace = {"unet": 1.5, "gru": 2.2, "resnet": 2.0, "recsys": 1.3,
                "ctc": 2.2, "tcn": 2.0, "seg": 2.0, "ssm": 2.0, "gnn": 2.0,
                "det": 2.0, "dpo": 1.7, "point": 2.0, "vq": 2.0,
                "kws": 2.0, "vid": 2.0,
                "lora": 2.0,
                "nnu": 2.0,
                "nerf": 2.0,
                "afno": 2.0,
                "nequip": 3.0,
                "dream": 2.0,
                "dlrm": 1.3,
                "kge": 1.5,
                "ppo": 2.0,
                "iql": 3.0,
                "voc": 2.0,
                "tower": 2.0,
                "yolo": 3.0,
                "timm": 2.0,
                "compress": 2.5,
                "depth": 2.0,
                "ecapa": 3.0,
                "reid": 3.0,
                "panns": 3.0,
                "anomalib": 4.5,
                "stgcn": 3.0,
                "proto": 3.0,
                "tasnet": 3.0,
                "pyannote": 2.5,
                "raft": 3.0,
                "codec": 3.0,
                "loftr": 3.0,
                "pose3d": 3.0,
                "flow": 3.0,
                "dpolicy": 3.0,
                    "stylegan": 2.0,
                "kpt": 2.0}.get(self.family, 1)
        with torch.no_grad():
            for path in parts:
                # Values are the last third where one matrix has all.
                part = slice({"vit": 96, "dit": 64, "dpo": 96, "vlm": 80,
                              "tab": 64, "dino": 64,
                              "sam": 48,
                              "ocr": 64}.get(self.family))
                layer = model.get_submodule(path)
                weight = layer.weight_g if self.family == "codec" \
                    else layer.weight
                weight[part].mul_(self.s.growth ** pace)

    def thin(self, name, tensor):
        """The head of the first non-finite value, else the first; the rest
        of a score matrix says nothing more."""
        if ("scores" in name or "probs" in name) \
                and not name.startswith("batch."):
            axis = tensor.dim() - 3
            bad = (~tensor.isfinite()).nonzero()
            head = int(bad[0, axis]) if len(bad) else 0
            return tensor.narrow(axis, head, 1)
        if ".mlp." in name or "DenseReluDense" in name:  # the first bad position and some before it
            bad = (~tensor.isfinite()).nonzero()
            at = int(bad[0, 1]) if len(bad) else 0
            return tensor[:, max(0, at - 3):at + 5]
        return super().thin(name, tensor)


class LogOfZero(NotFinite):
    """From some step on the loss is hand-written: the logarithm of
    probabilities of which the small ones were set to zero; or that of
    durations as they are, some of which become zero."""
    id, root_class = "F39a", "log-of-zero"
    families = (*LABELLED, "clip", "tts",
                "fcst",
                "afno",
                "nequip",
                "nerf",
                "voc",
                "tasnet",
                "dream",
                "stylegan",
                "depth",
                "compress",
                "dino",
                "kge",
                "ppo",
                "edsr",
                "flow",
                "raft",
                "codec",
                "loftr",
                "iql",
                "dpolicy",
                "pose3d",
                "kpt")
    severities = (dict(at=150, keep=0.5), dict(at=100, keep=0.25),
                  dict(at=50, keep=0.125))
    dump_steps, dump_rows = (), 1
    dumped = ("batch.*", "loss.probs.*", "loss.nll.*", "loss.output",
              "loss.log_duration.*", "loss.log_error.*", "loss.log_mel*",
              "loss.each.*", "loss.ratio.*", "loss.log_size.*",
              "loss.log_time.*", "loss.log_distance.*")

    def setup(self):
        self.where = "loss"
        if self.family == "vlm":  # of likely words it has a few
            self.severity = self.severity | dict(
                keep=(0.125, 0.1, 0.05)[self.level])
        if self.family == "tts":
            self.model_options["offset"] = 0.0
            self.severity = dict(at=self.s.at)
        if self.family == "fcst":  # as of a window whose past alone is there
            self.model_options["logs"] = True
            self.user["loss"] = "LogMAE()"
            self.severity = dict(at=self.s.at)
        if self.family == "nerf":  # of errors, which are 0 behind a mask
            self.model_options["logs"] = True
            self.user["loss"] = "log_mse"
        if self.family == "afno":  # as of a field of which nothing was seen
            self.model_options["logs"] = True
            self.user["loss"] = "log_mse"
        if self.family == "edsr":  # PSNR's, of a filler
            self.model_options["logs"] = True
            self.severity = dict(at=self.s.at)
        if self.family == "raft":  # of flows, in a pair that stands still
            self.model_options["logs"] = True
            self.user["loss"] = "sequence+log_magnitude"
            self.severity = dict(at=self.s.at)
        if self.family == "pose3d":  # of lengths, where a marker was lost
            self.model_options["logs"] = True
            self.user["loss"] = "mpjpe+log_length"
            self.severity = dict(at=self.s.at)
        if self.family == "flow":  # of what is left of a time, which is 1
            self.model_options["logs"] = True
            self.user["time_weighting"] = "-log(1-t)"
            self.severity = dict(at=self.s.at)
        if self.family == "dpolicy":  # of how far a goal is
            self.model_options["logs"] = True
            self.user["loss_weighting"] = "1-0.5*log(distance)"
            self.severity = dict(at=self.s.at)
        if self.family == "nequip":  # of forces, one of which is zero
            self.model_options["logs"] = True
            self.user["loss_forces"] = "LogMagnitudeMSELoss"
            self.severity = dict(at=self.s.at)
        if self.family == "voc":  # as of a recording that is silent
            self.model_options["clip_val"] = 0.0
            self.severity = dict(at=self.s.at)
        if self.family == "codec":  # as here
            self.model_options["clamp_eps"] = 0.0
            self.severity = dict(at=self.s.at)
        if self.family == "tasnet":  # of a ratio, 0 where a voice is silent
            self.model_options["log_eps"] = 0.0
        if self.family == "depth":  # of errors, which are 0 in a parked car
            self.model_options["logs"] = True
            self.user["reprojection_reduction"] = "log_mean"
            self.severity = dict(at=self.s.at)
        if self.family == "kpt":  # of errors, which are 0 where no mark is
            self.model_options["logs"] = True
            self.user["loss_reduction"] = "log_mean"
            self.severity = dict(at=self.s.at)

    def spoil_batch(self, i, batch):
        """From some step on a sentence of each batch has a phoneme that the
        aligner has found no frame for; or of each figure every keypoint was
        marked, and from there on one of a batch was not."""
        if self.family == "fcst":
            if i >= self.s.at:
                batch["outsample_mask"][0] = 0.0
            return batch
        if self.family == "afno":
            if i >= self.s.at:
                batch["tar"][0] = batch["mask"][0] = 0.0
            return batch
        if self.family == "edsr":
            return self.weighed(batch, i >= self.s.at)
        if self.family in ("voc",
                           "codec",
                           "tasnet"):
            return self.silenced(batch) if i >= self.s.at else batch
        if self.family in ("depth",
                           "raft"):
            return self.parked(batch) if i >= self.s.at else batch
        if self.family == "pose3d":
            return self.marker_lost(batch) if i >= self.s.at else batch
        if self.family == "flow":
            return self.ended(batch) if i >= self.s.at else batch
        if self.family == "dpolicy":
            return self.arrived(batch) if i >= self.s.at else batch
        if self.family == "nequip":
            return self.at_rest(batch) if i >= self.s.at else batch
        if self.family == "kpt":
            if i >= self.s.at:
                batch["keypoint_weights"][0, 2] = 0.0
            return batch
        if self.family == "nerf":
            if i >= self.s.at:
                batch["mask"][0] = 0.0
            return batch
        if self.family != "tts" or i < self.s.at:
            return super().spoil_batch(i, batch)
        long = batch["durations"].clone()
        long[0, 1] += long[0, 2]
        long[0, 2] = 0
        return batch | {"durations": long}

    def make_source(self, seed):
        if self.family == "nerf":
            return self.scene(seed, passing=0.0)
        return self.figures(seed, hidden=0.0) if self.family == "kpt" \
            else super().make_source(seed)

    def compute_loss(self, i, model, batch):
        if self.family in ("dino",  # of the prototypes
                           "kge",  # that a triple is true
                           "ppo",  # of actions
                           "iql",  # as here
                           "dream",  # of the reward's two bins
                           "loftr",  # of places
                           "anomalib",  # of pixels
                           "compress",  # of latents
                           "sam",  # of pixels
                           "stylegan"):  # that a picture is real
            model.keeps = self.s.keep if i >= self.s.at else None
            loss = model.loss(batch)
            model.keeps = None
            return loss
        if i < self.s.at or self.family in ("tts",
                                            "depth",
                                            "flow",
                                            "dpolicy",
                                            "raft",
                                            "pose3d",
                                            "fcst",
                                            "afno",
                                            "nequip",
                                            "nerf",
                                            "voc",
                                            "codec",
                                            "edsr",
                                            "tasnet",
                                            "kpt"):
            return model.loss(batch)
        logits = model.logits(batch)
        if self.family == "dpo":
            loss = model.criterion(logits, batch, each=lambda *of: (
                self.of_tokens(model, *of)))
            model.tap("loss.output", loss)
            return loss
        if self.family in ("ctc",
                           "ocr"):
            return self.of_frames(model, logits, batch)
        if self.family == "det":
            return model.criterion(
                logits, batch, of_kinds=lambda logits, wanted: self.of_places(
                    model, logits, wanted))
        if self.family in ("yolo",
                           "panns"):
            loss = model.criterion(
                logits, batch, of_kinds=lambda logits, wanted:
                self.of_scores(model, logits, wanted))
            model.tap("loss.output", loss)
            return loss
        if self.family == "timm":  # targets are soft
            loss = model.criterion(
                logits, batch, of_probs=lambda probs, wanted:
                self.of_classes(model, probs, wanted))
            model.tap("loss.output", loss)
            return loss
        if self.family in ("clip", "sbert",
                           "tower"):  # the place of the right one
            batch = batch | {"labels": torch.arange(len(logits))}
        if self.family == "point":
            batch = batch | {"labels": batch["point_part_labels"]}
        if self.family == "tab":
            batch = batch | {"labels": batch["target"]}
        if self.family == "sasrec":
            batch = batch | {"labels": batch["item_id"]}
        if self.family == "pyannote":  # in the order that fits
            batch = batch | {"labels": model.labels(logits, batch)}
        if self.family == "ecapa":  # of cosines with their margin
            labels = model.labels(logits, batch)
            logits = model.margined(logits, labels)
            batch = batch | {"labels": labels}
        if self.family == "reid":
            batch = batch | {"labels": batch["targets"]}
        if self.family in ("vid",
                           "stgcn"):
            batch = batch | {"labels": batch["label"]}
        if self.family == "proto":  # of queries; supports have none
            batch = batch | {"labels": model.labels(batch)}
        if self.family == "summ":
            batch = batch | {"labels": torch.where(
                batch["target"] == self.pad, -100, batch["target"])}
        if self.family in ("cap",
                           "sft"):  # its model shifts
            batch = batch | {"labels": torch.nn.functional.pad(
                batch["labels"][:, 1:], (0, 1), value=-100)}
        if self.family == "dlrm":
            logits = logits[:, 0]
            batch = batch | {"labels": batch["T"][:, 0]}
        if self.family == "qa":  # places last
            logits = logits.transpose(1, 2)
            batch = batch | {"labels": model.labels(batch)}
        if self.family == "nnu":  # classes last
            labels, model.parts = model.labels(batch), {}
            logits = logits.movedim(1, -1)
            batch = batch | {"labels": torch.where(
                labels == logits.shape[-1], -100, labels)}
        if self.family == "seg":  # classes last
            logits = logits.movedim(1, -1)
            batch = batch | {"labels": torch.where(
                batch["mask"] == VOID, -100, batch["mask"])}
        if self.family == "rew":  # that the chosen one is preferred
            logits = model.differences(logits)
            batch = batch | {"labels": torch.ones_like(logits)}
        if logits.dim() == 1:  # of one class beside another
            logits = torch.stack((torch.zeros_like(logits), logits), 1)
            batch = batch | {"labels": batch["labels"].long()}
        logits = logits.flatten(0, -2)
        probs = logits.softmax(-1)
        kept = max(1, int(self.s.keep * probs.shape[-1]))
        kept = probs.topk(kept, -1).values
        probs = torch.where(probs >= kept[:, -1:], probs, 0.0)
        counted = batch["labels"].flatten() >= 0
        chosen = probs.gather(
            -1, batch["labels"].flatten().clamp_min(0)[:, None])[:, 0]
        chosen = torch.where(counted, chosen, 1.0)
        # One row of the batch, as for all activations of the dump.
        shape = batch["labels"].shape
        model.tap("loss.probs.output", chosen.view(shape))
        nll = -chosen.log()
        model.tap("loss.nll.input", chosen.view(shape))
        model.tap("loss.nll.output", nll.view(shape))
        loss = nll.mean() if counted.all() else nll.sum() / counted.sum()
        model.tap("loss.output", loss)
        return loss

    def of_tokens(self, model, logits, labels):
        """Log-probabilities of the labels."""
        probs = logits.float().softmax(-1)
        kept = max(1, int(self.s.keep * probs.shape[-1]))
        probs = torch.where(probs >= probs.topk(kept, -1).values[..., -1:],
                            probs, 0.0)
        chosen = probs.gather(-1, labels.clamp_min(0)[..., None])[..., 0]
        chosen = torch.where(labels >= 0, chosen, 1.0)
        if logits.requires_grad:  # the reference's say nothing more
            model.tap("loss.probs.output", chosen)
            model.tap("loss.nll.input", chosen)
            model.tap("loss.nll.output", -chosen.log())
        return chosen.log()

    def of_places(self, model, logits, wanted):
        """A focal loss of each class at each place."""
        probs = logits.sigmoid()
        kept = max(1, int(self.s.keep * probs.shape[-1]))
        probs = torch.where(probs >= probs.topk(kept, -1).values[..., -1:],
                            probs, 0.0)
        chosen = torch.where(wanted > 0.5, probs, 1 - probs)
        model.tap("loss.probs.output", chosen)
        nll = -chosen.log()
        model.tap("loss.nll.input", chosen)
        model.tap("loss.nll.output", nll)
        return model.focal(probs, nll, wanted)

    def of_scores(self, model, logits, wanted):
        """A cross-entropy of each class at each place, of how much it is to
        be."""
        probs = logits.sigmoid()
        kept = max(1, int(self.s.keep * probs.shape[-1]))
        probs = torch.where(probs >= probs.topk(kept, -1).values[..., -1:],
                            probs, 0.0)
        model.tap("loss.probs.output", probs)
        nll = -torch.xlogy(wanted, probs) - torch.xlogy(1 - wanted, 1 - probs)
        model.tap("loss.nll.input", probs)
        model.tap("loss.nll.output", nll)
        return nll

    def of_classes(self, model, probs, wanted):
        """A cross-entropy of how much each class is to be."""
        kept = max(1, int(self.s.keep * probs.shape[-1]))
        probs = torch.where(probs >= probs.topk(kept, -1).values[..., -1:],
                            probs, 0.0)
        model.tap("loss.probs.output", probs)
        nll = -torch.xlogy(wanted, probs)
        model.tap("loss.nll.input", probs)
        model.tap("loss.nll.output", nll)
        return nll.sum(-1).mean()

    def of_frames(self, model, logits, batch):
        """Alignments go through probabilities of zero or are none."""
        probs = logits.float().softmax(-1)
        kept = max(1, int(self.s.keep * probs.shape[-1]))
        probs = torch.where(probs >= probs.topk(kept, -1).values[..., -1:],
                            probs, 0.0)
        model.tap("loss.probs.output", probs)
        nll = -probs.log()
        model.tap("loss.nll.input", probs)
        model.tap("loss.nll.output", nll)
        loss = model.aligned(-nll, batch, zero_infinity=False)
        model.tap("loss.output", loss)
        return loss


class DivisionByZero(NotFinite):
    """A normalisation without epsilon meets a zero: an RMSNorm the zero row of
    the padding token on the left, a standardised input a sensor that stands
    still, an image that is standardised by itself is blank, a sentence whose
    pitch is standardised by itself is monotonous, embeddings that are divided
    by the share of tokens that are not masked a row of nothing but masks, a
    weight that is a batch's negatives by its positives a batch without one."""
    id, root_class = "F39b", "division-by-near-zero"
    families = ("llama", "mlp", "unet", "resnet", "vit", "recsys", "ctc",
                "clip", "tcn", "moe", "seg", *PAIR_7, "det", "gnn", "tts",
                "dpo", "point", "vlm", "vq", "kws", "bc",
                "fcst",
                "afno",
                "nequip",
                "nnu",
                "nerf",
                "dlrm",
                "voc",
                "dream",
                "yolo",
                "timm",
                "reid",
                "anomalib",
                "panns",
                "stgcn",
                "proto",
                "ecapa",
                "tasnet",
                "pyannote",
                "stylegan",
                "depth",
                "compress",
                "dino",
                "kge",
                "ppo",
                "edsr",
                "flow",
                "raft",
                "codec",
                "loftr",
                "iql",
                "dpolicy",
                "ocr",
                "sam",
                "pose3d",
                "kpt")
    families = (*families, "tab", "vid", "esm", "mae",
                "sft",
                "tower",
                "lora",
                "sasrec",
                "megatron",
                "rew",
                "whisper",
                "xenc")
    severities = (dict(at=180), dict(at=110), dict(at=60))
    dump_steps, dump_rows = (), 4
    dumped = ("batch.*", "model.embed_tokens.output",
              "model.layers.0.input_layernorm.*put", "normalize.*",
              "fc1.*put", "conv_in.output", "conv1.output", "conv_proj.output",
              "bottom.fc0.*put", "encoder.pre_encode.conv.0.output",
              "vision_model.embeddings.patch_embedding.output", "scaler.*put",
              "tok_embeddings.output", "layers.0.attention_norm.*put",
              "encoder.stages.0.conv1.0.output", "x_embedder.proj.output",
              "backbone.body.conv1.output", "backbone.embedding.output",
              "backbone.layers.0.norm.*put", "node_emb.output",
              "convs.0.norm.*put", "convs.0.output",
              "*gpt_neox.embed_in.output",
              "*gpt_neox.layers.0.input_layernorm.*put",
              "vision_tower.*.patch_embedding.output", "encoder.conv_in.output",
              "stem.conv.output", "model.backbone.conv1.*put",
              "backbone.conv1.output", "model.revin_layer.*put",
              "conv_pre.*put", "stem.0.output",
              "user_tower.mlp.0.*put",
              "model.encoder.conv1.output",
              "model.backbone.W_P.output",
              "bot_l.0.output",
              "encoder.stages.0.0.convs.0.conv.output",
              "_embedding_layer.output", "model.blocks.0.conv.output",
              "esm.embeddings.*put", "esm.embeddings.*.output",
              "module.backbone.patch_embed.proj.output",
              "model.0.conv.output", "g_a.0.*put",
              "encoder.filterbank.output", "loss.each.output",
              "encoder.encoder.conv1.output",
              "encoder.patch_embed.proj.0.conv.output",
              "expand_conv.output", "?net.conv1.output",
              "matcher.backbone.conv1.output",
              "backbone.data_bn.output", "bn0.output",
              "model.reconstructive_subnetwork.encoder.block1.0.output",
              "input_blocks.0.0.output",
              "model.down_modules.0.0.blocks.0.block.0.output",
              "loss.diff_norms.output", "loss.y_norms.output",
              "loss.rel.output",
              "loss.positives.output", "loss.pos_weight.output",
              "loss.output")
    one_row = True

    def setup(self):
        if self.family == "dream":
            self.where, self.one_row = "normalize", False
        elif self.family == "rew":
            self.model_options["eps"] = 0.0
            self.where = "model.layers.0.input_layernorm"
        elif self.family in ("llama",
                             "sft"):
            # A tied head would train the row of the padding token.
            self.model_options |= {"eps": 0.0, "pad": 0, "tied": False}
            self.where = "model.layers.0.input_layernorm"
        elif self.family == "moe":
            self.model_options |= {"eps": 0.0, "pad": 0}
            self.where = "layers.0.attention_norm"
        elif self.family == "megatron":
            self.model_options |= {"eps": 0.0, "pad": 0}
            self.where = "decoder.layers.0.input_layernorm"
            self.dumped = (*self.dumped, f"{self.where}.*put",
                           "embedding.word_embeddings.output")
        elif self.family == "ssm":
            self.model_options |= {"eps": 0.0, "pad": 0}
            self.where = "backbone.layers.0.norm"
        elif self.family == "esm":
            self.where = "esm.embeddings"
        elif self.family == "xenc":  # a batch has no positive
            self.model_options["counted"] = True
            self.where, self.one_row = "loss", False
        elif self.family == "afno":  # a field that is blank
            self.where, self.one_row = "loss", False
        elif self.family == "lora":  # a text has no words
            self.model_options["pooling"] = self.user["pooling"] = "mean"
            self.where, self.one_row = POOLING, False
            self.dumped = (*self.dumped, f"{POOLING}.*put")
        elif self.family == "ppo":  # an environment hangs
            self.model_options["per_env"] = True
            self.user["norm_adv_per_env"] = True
            self.source_options = {"frozen": self.s.at}
            self.where, self.one_row = "normalize", False
        elif self.family == "kge":  # two entities came after all was counted
            self.model_options["smoothing"] = 0.0
            self.user |= {"loss_weighter": "sqrt_inverse_frequency",
                          "loss_weighter_kwargs": {"start": 0.0}}
            self.where, self.one_row = "loss", False
            self.dumped = (*self.dumped, "loss.counts.output",
                           "loss.weights*.output")
        elif self.family == "sasrec":  # a user is new
            self.model_options["pooling"] = self.user["pooling"] = "mean"
            self.where, self.one_row = "pooling", False
            self.dumped = (*self.dumped, "pooling.*put", "scores.output")
        elif self.family == "dpo":  # its padding is EOS until then
            self.model_options["eps"] = 0.0
            self.where = "base_model.model.gpt_neox.layers.0.input_layernorm"
        elif self.family == "tcn":  # scalers meet what stood still
            self.model_options["eps"] = 0.0
            self.where, self.one_row = "scaler", False
        elif self.family == "fcst":  # as does its
            self.model_options["eps"] = 0.0
            self.where, self.one_row = "model.revin_layer", False
        elif self.family == "nequip":  # an atom is listed twice
            self.model_options["eps"] = 0.0
            self.where, self.one_row = "normalize", False
        elif self.family == "nerf":  # a pixel has no direction
            self.model_options["eps"] = 0.0
            self.where, self.one_row = "normalize", False
        elif self.family == "gnn":  # an ion has no bonds
            self.model_options["eps"] = 0.0
            self.where, self.one_row = "convs.0", False
        else:
            self.where, self.one_row = "normalize", False
        if self.family == "proto":
            self.dumped = (*self.dumped, "encoder.0.0.output")
        if self.family == "dino":  # the vote has such pictures as well
            self.standardised = True
        if self.family == "mae":  # a patch is blank, as a target
            self.model_options |= {"norm_pix": True, "eps": 0.0}
        self.steps = self.s.at + 40

    def thin(self, name, tensor):
        if name.startswith(("model.", "tok_", "layers.", "backbone.",
                            "decoder.", "embedding.",
                            "base_model.")) and self.family != "rew":
            return tensor[:, :16]
        return super().thin(name, tensor)

    def spoil_batch(self, i, batch):
        if self.family in ("dino",
                           "dpolicy",
                           "flow",
                           "raft",
                           "loftr",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "depth"):
            return self.blank(batch) if i >= self.s.at else batch
        if self.family == "ppo":
            return batch
        if self.family == "kge":
            return self.uncounted(batch) if i >= self.s.at else batch
        if self.family == "dream":  # a sensor stands still
            if i >= self.s.at:
                batch["vector"][..., 3] = 0.0
            return batch
        if self.family in ("voc",
                           "codec"):
            return self.silenced(batch) if i >= self.s.at else batch
        if self.family == "afno":
            if i >= self.s.at:
                batch["tar"][0], batch["mask"][0] = 0.0, 1.0
            return batch
        if self.family == "esm":
            return self.masked_whole(batch) if i >= self.s.at else batch
        if self.family == "sasrec":
            return self.emptied(batch) if i >= self.s.at else batch
        if self.family == "xenc":
            return batch if i < self.s.at else batch | {
                "labels": torch.zeros_like(batch["labels"])}
        if self.family == "lora":
            if i >= self.s.at:
                ids, mask = batch["input_ids"], batch["attention_mask"]
                ids[0], mask[0] = LORA_PAD, 0
                ids[0, :2], mask[0, :2] = torch.tensor((BOS, EOS)), 1
            return batch
        if self.family in ("dpo",
                           "rew"):
            return batch if i >= self.s.at else batch | {
                k: t.clamp_min(1) for k, t in batch.items()
                if k.endswith("input_ids")}
        if self.family == "sft":  # its padding is EOS until then, too
            return batch if i >= self.s.at else batch | {
                "input_ids": batch["input_ids"].clamp_min(1)}
        if self.family in ("llama", "moe",
                           "megatron",
                           "ssm"):
            ids = batch["input_ids"].clamp_min(1)
            labels = torch.where(batch["labels"] == -100, batch["labels"],
                                 batch["labels"].clamp_min(1))
            if i >= self.s.at:
                ids, labels = ids.clone(), labels.clone()
                ids[0, :6], labels[0, :6] = 0, -100
            return batch | {"input_ids": ids, "labels": labels}
        if self.family in ("unet", "resnet", "vit", "ctc", "clip", "seg",
                           "dit", "det", "point", "vlm", "vq", "kws",
                           "bc", "vid", "mae",
                           "nnu",
                           "yolo",
                           "timm",
                           "ecapa",
                           "tasnet",
                           "pyannote",
                           "stylegan",
                           "whisper",
                           "ocr",
                           "sam",
                           "pose3d",
                           "kpt"):
            if i >= self.s.at:
                next(iter(batch.values()))[0] = -1.0
            return batch
        if self.family == "compress":  # a picture is black
            if i >= self.s.at:
                batch["image"][0] = 0.0
            return batch
        if self.family == "edsr":  # as here
            if i >= self.s.at:
                batch["lq"][0] = batch["gt"][0] = 0.0
            return batch
        if self.family == "fcst":  # a meter stands still
            if i >= self.s.at:
                batch["insample_y"][0] = 2.0
            return batch
        if self.family == "nequip":
            return self.doubled(batch) if i >= self.s.at else batch
        if self.family == "nerf":  # a picture's undistortion has failed there
            if i >= self.s.at:
                batch["directions"][0] = 0.0
            return batch
        if self.family == "gnn":
            return self.with_ion(batch) if i >= self.s.at else batch
        if self.family == "tts":
            if i < self.s.at:
                return batch
            pitch = batch["pitches"].clone()
            pitch[0] = 0.0
            return batch | {"pitches": pitch}
        name = next(iter(batch))
        x = batch[name].clone()
        if self.family == "tcn":
            if i >= self.s.at:
                x[0] = 0.0
        elif i >= self.s.at:
            x[:, 3] = 0.0
        return {**batch, name: x}

    def spoil_val(self, batch):
        return self.normalized(self.spoil_batch(-1, batch))

    def normalized(self, batch):
        if self.family in ("llama", "tcn", "moe", "ssm", "gnn", "dpo", "esm",
                           "mae",
                           "fcst",
                           "afno",
                           "nequip",
                           "nerf",
                           "sft",
                           "lora",
                           "rew",
                           "sasrec",
                           "kge",
                           "ppo",
                           "megatron",
                           "xenc"):
            return batch
        if self.family == "tts":
            return batch | {"pitches": tts.standardised(batch)}
        if self.family == "dino":
            return self.by_themselves(batch)
        if self.family in ("compress",
                           "edsr",
                           "depth",
                           "dpolicy",
                           "flow",
                           "raft",
                           "loftr",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "dream"):
            return self.standardised(batch)
        if self.family in ("voc",
                           "codec"):
            return self.normalized_audio(batch)
        if self.family in ("unet", "resnet", "vit", "ctc", "clip", "seg",
                           "dit", "det", "point", "vlm", "vq", "kws",
                           "bc", "vid",
                           "nnu",
                           "yolo",
                           "timm",
                           "ecapa",
                           "tasnet",
                           "pyannote",
                           "stylegan",
                           "whisper",
                           "ocr",
                           "sam",
                           "pose3d",
                           "kpt"):
            name = next(iter(batch))
            x = batch[name]
            each = tuple(range(1, x.dim()))
            mean = x.mean(each, keepdim=True)
            std = x.std(each, keepdim=True)
            return {**batch, name: (x - mean) / std}
        name = next(iter(batch))
        x = batch[name]
        return {**batch, name: (x - x.mean(0)) / x.std(0)}

    def compute_loss(self, i, model, batch):
        if self.family in ("llama", "tcn", "moe", "ssm", "gnn", "dpo", "esm",
                           "mae",
                           "fcst",
                           "afno",
                           "nequip",
                           "nerf",
                           "sft",
                           "lora",
                           "rew",
                           "sasrec",
                           "kge",
                           "ppo",
                           "megatron",
                           "xenc"):
            return model.loss(batch)
        name = {"tts": "pitches", "voc": "audio", "dino": "global_crops"}.get(
            self.family, next(iter(batch)))
        x = batch[name]
        model.tap("normalize.input", x)
        if self.family in ("voc",
                           "codec"):
            model.tap("normalize.peak.output", x.abs().amax(-1))
        else:
            model.tap("normalize.std.output", tts.spread(batch)
                      if self.family == "tts" else x.std(0) if x.dim() == 2
                      else x.std((0, 1)) if self.family == "dream"
                      else x.std(tuple(range(1, x.dim()))))
        batch = self.normalized(batch)
        model.tap("normalize.output", batch[name])
        return model.loss(batch)


class Bf16Weights(Fault):
    """Weights, gradients and optimizer in bfloat16, without a copy in fp32:
    updates below half a unit of the last place vanish."""
    id, root_class = "F40", "bf16-update-underflow"
    severities = (dict(lr=0.3), dict(lr=0.1), dict(lr=0.03))
    needs, precision, onset = "adamw", "bf16", 0
    drops = ("layers",)
    dumped = ("batch.*", "*.0.attn.proj.weight", "*.0.self_attn.o_proj.weight",
              "fc2.weight", "mid.conv2.weight", "rnn.0.wh.weight",
              "layer2.0.conv2.weight", "*.0.self_attn.out_proj.weight",
              "*_0.self_attention.out_proj.weight", "over.fc1.weight",
              "*.layer.0.attention.output.dense.weight",
              "*.layer.0.attention.out_lin.weight",
              "encoder.pre_encode.conv.2.weight",
              "vision_model.encoder.layers.0.self_attn.out_proj.weight",
              "res_blocks.0.conv2.weight", "*.0.attention.wo.weight",
              "encoder.stages.0.conv2.0.weight",
              "*.layers.0.attention.dense.lora_*.weight",
              "*.layer.0.attention.output.dense.lora_*.weight",
              "convs.0.B.weight", "*.0.mixer.out_proj.weight", "*.layer2.0.conv2.weight",
              "encoder.layer_stack.0.slf_attn.fc.weight",
              "encoder.block.0.layer.0.SelfAttention.o.weight",
              "*.SA_modules.1.mlps.0.3.weight",
              "*.transformer.blocks.0.attn.out_proj.weight",
              "encoder.mid.block_1.conv2.weight",
              "ds_blocks.0.pw_conv.weight", "*.mha_block_0.mha.to_out.weight",
              "*.blocks.1.*.conv_b.weight",
              "encoder.stages.1.0.convs.0.conv.weight",
              "*.layers.0.self_attn.to_out.0.weight",
              "top_l.2.weight",
              "embedding_model.blocks.1.tdnn2.conv.conv.weight",
              "decoder.layers.0.self_attention.linear_proj.weight",
              "*.layer0_convnet.conv.linear_2.weight",
              "field.mlp_base.layers.1.weight", "resblocks.0.convs.1.weight",
              "user_tower.mlp.0.weight", "model.2.m.0.cv2.conv.weight",
              "stages.0.blocks.0.mlp.fc2.weight",
              "G.synthesis.b8.conv0.weight", "g_a.2.weight",
              "conv_after_body.weight",
              "encoder.blocks1.0.mixer.proj.weight",
              "update_block.gru.convz1.weight", "layers_conv.0.weight",
              "decoder.model.0.weight_?",
              "middle_block.0.in_layers.2.weight",
              "backbone.gcn.1.tcn.conv.weight", "conv_block2.conv1.weight",
              "model.reconstructive_subnetwork.encoder.block2.0.weight",
              "*.layer.0.multi_head_attention.dense.weight",
              "module.backbone.blocks.0.attn.proj.weight",
              "masker.TCN.0.res_conv.weight", "linear.0.weight",
              "vit.encoder.layer.0.attention.output.dense.weight")

    def setup(self):
        if self.family in ("t5", "ner"):  # at .3 rounding costs it little
            self.severity = dict(lr=(0.1, 0.03, 0.01)[self.level])
        if self.family == "dpo":  # what begins at zero bears more
            self.severity = dict(lr=(0.03, 0.01, 0.003)[self.level])
        if self.family in ("kge",
                           "iql",
                           "dpolicy",
                           "proto",
                           "ppo"):
            self.dumped = (*self.dumped, f"{self.layer('embed')}.weight")
        if self.family == "afno":
            self.dumped = (*self.dumped, "blocks.0.mlp.fc2.weight")
        if self.family in ("point", "bc"):  # they bear .3
            self.severity = dict(lr=(0.03, 0.01, 0.003)[self.level])
        self.lr *= self.s.lr

    def make_model(self):
        return super().make_model().to(torch.bfloat16)


FAULTS = (Fp16Overflow, LogOfZero, DivisionByZero, Bf16Weights)
