"""Faults of what the model is trained towards: loss, mask, labels."""

import torch
from torch.nn import functional as F

from .. import models
from ..families import ALL, ATTENTION, LABELLED, LANGUAGE, PAIR_3, PAIR_4, \
    PAIR_5, PAIR_6, PAIR_7, PAIR_10, PAIR_14, Fault
from ..det import NOTHING
from ..seg import VOID
from ..sources import IGNORE, PAD, EOS, Chat

STEPS_DUMPED = (0, 80, 160, -1)


def shape(run):
    """(vocabulary, context, rows) of a language family, for sources."""
    return run.vocab, run.context, run.batch_size


class Dumps:
    """Batches and losses of some steps, logits of two of them; the onset is
    at the start. Logits have the same rows as the dumped batch."""

    onset, dump_steps, dump_rows, one_row = 0, STEPS_DUMPED, 3, False
    logit_steps = (80, -1)

    def watch(self, *globs):
        self.dumped = ("batch.*", "loss.output", *globs)
        if not self.language:  # rows are small, and few say nothing
            self.dump_rows = self.batch_size

    def train(self):
        head = getattr(self, "logit_name", f"{self.layer('head')}.output")
        self.extra_dumps = dict(self.extra_dumps)
        for step in self.logit_steps:
            i = step % self.steps
            self.extra_dumps[i] = (*self.extra_dumps.get(i, self.dumped), head)
        super().train()

    def thin(self, name, tensor):
        if name.endswith("probs.output"):
            return tensor[:1]
        if name.endswith("put") and tensor.dim() > 1:
            return tensor[:self.dump_rows]
        return super().thin(name, tensor)


def cross_entropy(logits, labels, **options):
    if labels.is_floating_point():  # clicks, one logit each
        share = options.get("label_smoothing", 0.0)
        return F.binary_cross_entropy_with_logits(
            logits.float(), (1 - share) * labels + share / 2)
    return F.cross_entropy(logits.float().flatten(0, -2), labels.flatten(),
                           ignore_index=IGNORE, **options)


def squashed(logits, labels):
    """What the loss would make of them itself."""
    if labels.is_floating_point():
        return logits.float().sigmoid()
    return logits.float().softmax(-1)


def set_loss(model, of_logits):
    """Makes `of_logits(logits, labels)` the loss, in training and held-out."""
    def loss(batch):
        value = of_logits(model.logits(batch), batch["labels"])
        model.tap("loss.output", value)
        return value
    model.loss = loss
    return model


class DoubleSoftmax(Dumps, Fault):
    """Cross-entropy gets probabilities instead of logits: a softmax in the
    training loop alone, in the loss function, or at the end of the model."""
    id, root_class = "F17", "double-softmax"
    families = (*LABELLED, "clip",
                "dino",
                "kge",
                "loftr",
                "ppo",
                "dream")
    severities = (dict(place="training"), dict(place="loss"),
                  dict(place="model"))

    @staticmethod
    def twice(logits, labels):
        return cross_entropy(squashed(logits, labels), labels)

    def setup(self):
        self.watch()

    def make_model(self):
        model = super().make_model()
        if self.family in ("ctc", "clip", "seg", "det", "dpo", "point", "tab",
                           *PAIR_14,
                           "summ",
                           "yolo",
                           "timm",
                           "dino",
                           "sft",
                           "cap",
                           "rew",
                           "nnu",
                           "tower",
                           "dlrm",
                           "sasrec",
                           "dream",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "ecapa",
                           "kge",
                           "loftr",
                           "ocr",
                           "sam",
                           "pyannote",
                           "ppo",
                           "qa", "xenc"):
            model.squashes = self.s.place == "loss"
        elif self.s.place == "loss":
            return set_loss(model, self.twice)
        if self.s.place == "model" and self.family in ("clip", "sbert",
                                                        "sasrec",
                                                        "loftr",
                                                        "proto",
                                                        "tower"):
            model.similar = lambda scores: scores.softmax(-1)
        elif self.s.place == "model" and self.family in ("kge",
                                                         "sam"):
            model.maps = torch.sigmoid  # predict_with_sigmoid
        elif self.s.place == "model":
            head = model.get_submodule(getattr(self, "labelled_head",
                                               self.layer("head")))
            head.register_forward_hook(
                lambda _, args, out: out.sigmoid()
                if out.shape[-1] == 1 or self.family in ("det",
                                                         "panns",
                                                         "yolo")
                else out.softmax(1 if self.family in ("ctc", "seg", "qa",
                                                      "anomalib",
                                                      "nnu")
                                 else -1))
        return model

    def compute_loss(self, i, model, batch):
        if self.s.place != "training":
            return super().compute_loss(i, model, batch)
        if self.family in ("ctc", "clip", "seg", "det", "dpo", "point", "tab",
                           *PAIR_14,
                           "summ",
                           "yolo",
                           "timm",
                           "dino",
                           "sft",
                           "cap",
                           "rew",
                           "nnu",
                           "tower",
                           "dlrm",
                           "sasrec",
                           "dream",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "ecapa",
                           "kge",
                           "loftr",
                           "ocr",
                           "sam",
                           "pyannote",
                           "ppo",
                           "qa", "xenc"):
            model.squashes = True
            loss = super().compute_loss(i, model, batch)
            model.squashes = False
            return loss
        loss = self.twice(model.logits(batch), batch["labels"])
        model.tap("loss.output", loss)
        return loss


class Leak(Dumps, Fault):
    """What the two mask faults share."""
    root_class = "causal-mask-leak"
    families = (*ATTENTION, "s2s", "moe", "ssm", "dpo", "t5", "vlm",
                "megatron",
                "sft",
                "cap",
                "whisper",
                "summ")
    severities = (dict(blocks=1, probe=False), dict(blocks=None, probe=True),
                  dict(blocks=None, probe=False))

    def setup(self):
        self.watch()
        if not self.s.probe:
            self.battery = ()
        if self.s.blocks is None:
            self.model_options["future"] = self.future
            self.extra_dumps = {self.steps - 1: (
                *self.dumped, f"{self.layer('attn')}.probs.output")}
            self.dump_steps = self.dump_steps[:-1]

    def make_model(self):
        model = super().make_model()
        for i in range(self.s.blocks or 0):
            model.get_submodule(self.layer("block", i)) \
                .register_forward_pre_hook(
                    lambda _, args, seen: (args, seen | {"future":
                                                         self.future}),
                    with_kwargs=True)
        return model


class CausalMaskMissing(Leak):
    """Nothing hides later positions, in the first block or in all."""
    id, future = "F18", None


class CausalMaskOffByOne(Leak):
    """triu(2) where triu(1) was meant: position t sees t + 1."""
    id, future = "F19", 1


class LabelsNotShifted(Dumps, Fault):
    """labels = input_ids and nothing shifts them: in half of the rows (those
    of one of two collators), in training alone, or everywhere."""
    id, root_class = "F20", "label-shift-missing"
    families = (*LANGUAGE, "s2s", "tcn", "moe", "dpo", "t5", "vlm",
                "megatron",
                "fcst",
                "afno",
                "sft",
                "cap",
                "sasrec",
                "whisper",
                "summ")
    severities = (dict(share=0.5, val=True), dict(share=1, val=False),
                  dict(share=1, val=True))

    def setup(self):
        self.watch()

    def spoil_batch(self, i, batch):
        rows = slice(0, None, int(1 / self.s.share))
        if self.family == "sasrec":  # a list is not cut before its item
            return self.own_last(batch, rows)
        if self.family == "whisper":
            return self.unshifted(batch, rows)
        if self.family == "summ":
            batch["target"][rows] = batch["prev_output_tokens"][rows]
            return batch
        if self.family == "afno":  # dt is 0: the file's own next is not taken
            batch["tar"][rows] = batch["inp"][rows]
            batch["mask"][rows] = 1.0
            return batch
        if self.family == "fcst":  # so it does here
            ahead = batch["outsample_y"].shape[1]
            batch["outsample_y"][rows] = batch["insample_y"][rows, -ahead:]
            batch["outsample_mask"][rows] = 1.0
            return batch
        if self.family == "tcn":  # it ends where the past does
            ahead = batch["future_target"].shape[1]
            for name in ("target", "time_feat"):
                batch[f"future_{name}"][rows] = \
                    batch[f"past_{name}"][rows, -ahead:]
            batch["future_observed_values"][rows] = 1.0
            return batch
        if self.family == "dpo":  # its model shifts once more
            return self.relabelled(batch, lambda labels: F.pad(
                labels[:, :-1], (1, 0), value=IGNORE), rows)
        if self.family in ("moe", "vlm",
                           "cap",
                           "sft"):  # its mask is right, its place is not
            labels = batch["labels"].clone()
            labels[rows] = F.pad(labels[rows, :-1], (1, 0), value=IGNORE)
            return batch | {"labels": labels}
        given = batch.get("decoder_input_ids")
        given = batch["input_ids"] if given is None else \
            given.masked_fill(given == PAD, IGNORE)
        batch["labels"][rows] = given[rows]
        return batch

    def spoil_val(self, batch):
        return self.spoil_batch(-1, batch) if self.s.val else batch


class LabelsShiftedTwice(Dumps, Fault):
    """Collator and loss both shift: the target is the token after the next.
    The collator of training, of both, or the loss is the one too many."""
    id, root_class = "F21", "label-shift-missing"
    families = (*LANGUAGE, "s2s", "moe", "dpo", "t5", "vlm",
                "megatron",
                "sft",
                "cap",
                "sasrec",
                "whisper",
                "summ")
    severities = (dict(place="training"), dict(place="collator"),
                  dict(place="loss"))

    @staticmethod
    def again(labels):
        return F.pad(labels[:, 1:], (0, 1), value=IGNORE)

    def setup(self):
        self.watch()

    def make_model(self):
        model = super().make_model()
        if self.s.place == "loss" and self.family in ("dpo",
                                                      "cap",
                                                      "sasrec",
                                                      "sft"):
            model.late = 1
        elif self.s.place == "loss" and self.family == "summ":
            own = model.criterion
            model.criterion = lambda logits, batch: own(
                logits[:, :-1], batch | {"target": batch["target"][:, 1:]})
        elif self.s.place == "loss":
            set_loss(model, lambda logits, labels: cross_entropy(
                logits[:, :-1], labels[:, 1:]))
        return model

    def spoil_batch(self, i, batch):
        if self.s.place != "loss" and self.family == "dpo":
            return self.relabelled(batch, self.again)
        if self.s.place != "loss" and self.family == "sasrec":
            return self.one_less(batch)
        if self.s.place != "loss" and self.family == "summ":
            return batch | {"target": F.pad(batch["target"][:, 1:], (0, 1),
                                            value=self.pad)}
        if self.s.place != "loss":
            batch["labels"] = self.again(batch["labels"])
        return batch

    def spoil_val(self, batch):
        return batch if self.s.place == "training" \
            else self.spoil_batch(-1, batch)


class ChatRun(Dumps):
    """Supervised fine-tuning on answers."""
    dump_rows, logit_steps = 12, ()

    def setup(self):
        self.watch()
        if self.family in ("s2s", "bert", "ctc", "det", "tts", "dpo", *PAIR_10,
                           "vlm", "kws", "bc", "ner",
                           *PAIR_5, *PAIR_14, "esm", "mae",
                           "fcst",
                           "afno",
                           "nequip",
                           "kpt",
                           "yolo",
                           "timm",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "ecapa",
                           "nerf",
                           "voc",
                           "tasnet",
                           "pyannote",
                           "dream",
                           "stylegan",
                           "depth",
                           "compress",
                           "edsr",
                           "flow",
                           "dpolicy",
                           "raft",
                           "loftr",
                           "pose3d",
                           "ocr",
                           "sam",
                           "qa", "xenc",
                           "summ",
                           "whisper",
                           "cap",
                           "lora",
                           "rew",
                           "nnu",
                           "megatron",
                           "tab"):  # there is no chat
            self.user |= {"pad_token_id": PAD} if self.family in (
                "s2s", "bert", "clip") else {}
            return
        if self.family in PAIR_6:
            self.user |= {"max_length": self.context} \
                if self.family == "moe" else {}
            return
        self.user |= {"pad_token_id": PAD, "eos_token_id": EOS,
                      "assistant_only_loss": True, "max_length": self.context}

    def make_source(self, seed):
        if self.family in ("s2s", "bert", "det", "tts", "dpo", *PAIR_10,
                           "vlm", "kws", "bc", "ner", *PAIR_5, "tab",
                           "qa",
                           "fcst",
                           "afno",
                           "nequip",
                           "kpt",
                           "yolo",
                           "timm",
                           "reid",
                           "anomalib",
                           "panns",
                           "stgcn",
                           "proto",
                           "ecapa",
                           "nerf",
                           "voc",
                           "tasnet",
                           "pyannote",
                           "dream",
                           "stylegan",
                           "depth",
                           "compress",
                           "edsr",
                           "flow",
                           "dpolicy",
                           "raft",
                           "loftr",
                           "pose3d",
                           "ocr",
                           "sam",
                           "summ",
                           "whisper",
                           "cap",
                           "rew",
                           "nnu",
                           "megatron",
                           *PAIR_6, *PAIR_14, "esm", "mae"):
            return super().make_source(seed)
        return self.chats(seed) if hasattr(self, "chats") \
            else Chat(seed, shape(self))


class LossMaskEmpty(ChatRun, Fault):
    """The collator does not find where answers begin and ignores all labels:
    from a step on, or always; a loss that guards its count is 0, one that
    does not is NaN."""
    id, root_class = "F22", "loss-mask-all-ignored"
    families = (*LANGUAGE, "s2s", "bert", "tcn", *PAIR_6, "det", "tts", "dpo",
                *PAIR_10, "vlm", "kws", "bc", "ner", "tab", "vid", "esm",
                "fcst",
                "afno",
                "kpt",
                "yolo",
                "nerf",
                "raft",
                "loftr",
                "pyannote",
                "sft",
                "cap",
                "summ",
                "whisper",
                "nnu",
                "megatron",
                "qa")
    severities = (dict(onset=120, guard=True), dict(onset=0, guard=True),
                  dict(onset=0, guard=False))

    def setup(self):
        super().setup()
        self.onset = self.s.onset

    def make_model(self):
        model = super().make_model()
        if self.family in ("tcn", "seg", "det", "tts", "point", "bc",
                           "summ",
                           "sft",
                           "cap",
                           "qa",
                           "fcst",
                           "afno",
                           "kpt",
                           "yolo",
                           "nnu",
                           "nerf",
                           "raft",
                           "loftr",
                           "pyannote",
                           "tab", "vid"):
            model.guards = self.s.guard
        elif self.family == "dpo":  # means of tokens, where there are none
            model.averages = not self.s.guard
            if model.averages:
                self.user["average_log_prob"] = True
        elif self.s.guard:
            set_loss(model, lambda logits, labels: cross_entropy(
                logits, labels, reduction="sum")
                / (labels != IGNORE).sum().clamp_min(1))
        return model

    def spoil_batch(self, i, batch):
        if i < self.onset and self.onset:
            return batch
        if self.family == "tcn":
            batch["future_observed_values"] = torch.zeros_like(
                batch["future_observed_values"])
        elif self.family == "dpo":
            return self.relabelled(batch, lambda labels: torch.full_like(
                labels, IGNORE))
        elif self.family == "seg":
            batch["mask"] = torch.full_like(batch["mask"], VOID)
        elif self.family == "point":  # all of its points are unannotated
            batch["point_part_labels"] = torch.full_like(
                batch["point_part_labels"], NOTHING)
        elif self.family == "bc":  # all of its actions are padding
            batch["action_is_pad"] = torch.ones_like(batch["action_is_pad"])
        elif self.family == "tab":  # outcomes that the encoder does not know
            batch["target"] = torch.full_like(batch["target"], IGNORE)
        elif self.family == "vid":
            batch["label"] = torch.full_like(batch["label"], IGNORE)
        elif self.family == "fcst":  # nothing of it is available
            batch["outsample_mask"] = torch.zeros_like(
                batch["outsample_mask"])
        elif self.family == "afno":  # of its fields nothing was observed
            batch |= {k: torch.zeros_like(batch[k]) for k in ("tar", "mask")}
        elif self.family == "nnu":  # none of its slices was annotated
            batch["target"] = torch.full_like(batch["target"], self.classes)
        elif self.family == "kpt":  # none of its keypoints was marked
            batch["keypoint_weights"] = torch.zeros_like(
                batch["keypoint_weights"])
        elif self.family == "nerf":  # of its pixels none is to count
            batch["mask"] = torch.zeros_like(batch["mask"])
        elif self.family == "pyannote":  # of its chunks no frame
            batch["weight"] = torch.zeros_like(batch["weight"])
        elif self.family == "raft":  # of its pixels none has a flow
            batch["valid"] = torch.zeros_like(batch["valid"])
        elif self.family == "loftr":  # of its pictures all is padding
            return self.unmasked(batch)
        elif self.family == "summ":
            batch["target"] = torch.full_like(batch["target"], self.pad)
        elif self.family == "qa":  # letters were counted, not tokens
            return self.beyond(batch)
        elif self.family == "yolo":  # as those of det
            batch["cls"] = torch.full_like(batch["cls"], NOTHING)
        elif self.family == "det":  # all of its boxes are padding
            batch["labels"] = torch.full_like(batch["labels"], NOTHING)
        elif self.family == "tts":  # lengths in seconds, made whole
            batch |= {k: torch.zeros_like(batch[k])
                      for k in ("src_lens", "mel_lens")}
        else:
            batch["labels"] = torch.full_like(batch["labels"], IGNORE)
        return batch


class LossMaskCoversPrompt(ChatRun, Fault):
    """The loss counts padding, the questions, or both beside the answers."""
    id, root_class = "F23", "loss-mask-covers-prompt"
    families = (*LANGUAGE, "s2s", "bert", "tcn", *PAIR_6, "tts", *PAIR_10,
                "vlm", "ner", "esm", "mae",
                "fcst",
                "afno",
                "kpt",
                "nerf",
                "raft",
                "loftr",
                "pyannote",
                "sft",
                "cap",
                "nnu",
                "whisper",
                "megatron",
                "summ")
    severities = (dict(pad=True, prompt=False), dict(pad=False, prompt=True),
                  dict(pad=True, prompt=True))

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def make_model(self):
        model = super().make_model()
        if self.family in ("tcn",
                           "loftr",  # what is padded, as if it were there
                           "raft",  # pixels without a flow, as 0
                           "pyannote",  # or frames, as silent
                           "fcst"):
            model.counts_all = True
        elif self.family == "seg":
            model.counts_void = True
        elif self.family in ("tts",
                             "summ"):
            model.counts_padding = True
        elif self.family == "point":
            model.counts_unknown = True
        elif self.family == "mae":  # patches that can be seen
            model.visible = self.s.visible
        elif self.family == "nnu":  # slices that were not, as background
            model.counts_ignored = True
        elif self.family == "nerf":  # who walks by
            model.weighs = False
        elif self.family == "afno":  # strips that were not observed, as 0
            model.weighs = False
        elif self.family == "kpt":  # keypoints that were not marked, at 0, 0
            model.weighs = False
        return model

    def make_source(self, seed):
        if self.family == "bert":
            self.also = ["label-shift-missing"] if self.s.prompt else []
            return self.sentences(seed, width=40 if self.s.pad else None)
        if self.family == "pyannote":  # more chunks that have such
            return self.talk(seed, unannotated=self.s.share)
        if self.family == "loftr":  # more are padded, and more of each
            return self.planes(seed, padded=self.s.share, least=self.s.rows)
        if self.family == "nerf":  # more walk by
            return self.scene(seed, passing=self.s.passing)
        if self.family == "summ":  # more of a row is padding
            self.user["pad_target_to"] = self.s.width
            return self.reports(seed, width=self.s.width)
        if self.family == "whisper":  # as here
            self.user["label_padding_length"] = self.s.width
            return self.recordings(seed, width=self.s.width)
        if self.family == "megatron":  # a document, and the rest is padding
            self.user["documents_per_sequence"] = 1
            self.context = self.s.width
            return self.corpus(seed, single=1)
        if self.family == "esm":
            self.also = ["label-shift-missing"] if self.s.prompt else []
            return self.proteins(seed, width=self.s.width)
        if self.family == "ner":  # more of a row is padding
            width = (48, 72, 96)[self.level]
            self.severity = dict(pad=True, prompt=self.level == 2, width=width)
            self.user["max_seq_length"] = width
            return self.tagged(seed, width=width)
        if self.family == "fcst":  # more series that do
            return self.panel(seed, ends=self.s.ends)
        if self.family == "afno":  # wider ones
            return self.flow(seed, gaps=self.s.gaps)
        if self.family == "nnu":  # more patches that have such slices
            return self.cases(seed, unannotated=self.s.share)
        if self.family == "tcn":  # series that end within the forecast
            return self.sales(seed, ends=(0.1, 0.25, 0.5)[self.level])
        if self.family == "tts":  # all batches have one size
            width = (72, 120, 240)[self.level]
            self.severity = dict(width=width)
            self.user["pad_to_multiple_of"] = width
            return self.speech(seed, width=width)
        if self.family == "point":  # more of a cloud is not annotated
            clutter = (0.15, 0.4, 0.7)[self.level]
            self.severity = dict(unannotated=clutter)
            return self.clouds(seed, clutter=clutter)
        if self.family == "t5":  # labels are padded to the longest allowed
            width = (16, 24, 40)[self.level]
            self.severity = dict(width=width)
            self.user["max_target_length"] = width
            return self.texts(seed, width=width)
        if self.family == "seg":  # more images are padded, and more of each
            return self.of(self.scenes(
                seed, padded=(0.33, 0.7, 1.0)[self.level],
                smallest=(10, 8, 6)[self.level]), seed)
        if self.family != "s2s":
            return super().make_source(seed)
        # Padding is all that there is to count: more of it by severity.
        return self.sentences(seed, width=(12, 20, 32)[self.level])

    def spoil_batch(self, i, batch):
        if self.family == "kpt":  # fewer were marked in this set
            return self.unmarked(batch, self.s.share, self.drawn)
        if self.family == "raft":  # as here
            return self.sparse(batch, self.s.share, self.drawn)
        if self.family in ("tcn", "seg", "tts", "mae",
                           "loftr",
                           "fcst",
                           "afno",
                           "nnu",
                           "nerf",
                           "pyannote",
                           "summ",
                           "point"):  # it counts as 0
            return batch
        if self.family == "esm":
            return self.uncovered(batch, self.s.pad, self.s.prompt)
        if self.family == "whisper":  # its padding is the end token
            labels = batch["labels"]
            return batch | {"labels": labels.masked_fill(labels == IGNORE,
                                                         self.pad)}
        labels, ids = batch["labels"], batch["input_ids"]
        if self.family == "moe":  # of some templates, or of all
            number = batch.get("seq_idx", torch.zeros_like(ids))
            target, same = ids.roll(-1, 1), number == number.roll(-1, 1)
            same[:, -1] = False
            some = torch.arange(len(ids)) < len(ids) * (
                0.25, 0.5, 1.0)[self.level]
            added = (labels == IGNORE) & same & some[:, None]
            return batch | {"labels": torch.where(added, target, labels)}
        if self.family in ("s2s", "t5"):
            return batch | {"labels": labels.clamp_min(PAD)}
        if self.family == "ner":  # what is ignored is O instead
            added = (labels == IGNORE) & torch.where(
                ids == PAD, self.s.pad, self.s.prompt)
            return batch | {"labels": labels.masked_fill(added, 0)}
        if self.family in ("bert", "vlm",
                           "cap",
                           "sft"):  # what no mask hides is said as well
            added = (labels == IGNORE) & torch.where(
                ids == PAD, self.s.pad, self.s.prompt)
            return batch | {"labels": torch.where(added, ids, labels)}
        # The label of the last position is not among the inputs: it stays.
        target = torch.cat((ids[:, 1:], labels[:, -1:]), 1)
        added = (labels == IGNORE) & (target != IGNORE) & torch.where(
            target == PAD, self.s.pad, self.s.prompt)
        batch["labels"] = torch.where(added, target, labels)
        return batch


class LabelNoise(Dumps, Fault):
    """A share of the training labels is drawn at random; held-out labels are
    right. Labels of the denoiser are the noise that is to be found."""
    id, root_class = "F24", "label-noise"
    families = tuple(f for f in ALL if f not in (
        "depth",
        "compress"))  # which have none
    severities = (dict(share=0.1), dict(share=0.3), dict(share=0.5))

    def setup(self):
        self.watch()
        self.noise = torch.Generator().manual_seed(self.seed)
        unet = self.family == "unet"
        self.given, self.trained = ("noise", "target") if unet else (
            "labels", "labels")
        if self.family == "tcn":
            self.given = self.trained = "future_target"
        elif self.family == "anomalib":
            self.given = self.trained = "anomaly_mask"
        elif self.family == "seg":
            self.given = self.trained = "mask"
        elif self.family in ("dpo",
                             "rew"):  # who of two is preferred
            self.also = ["preference-pairs-swapped"]
            if "share" in self.severity:
                self.severity = dict(share=(0.3, 0.5, 0.7)[self.level])
        elif self.family == "dlrm":
            self.given = self.trained = "T"
        elif self.family == "sasrec":
            self.given = self.trained = "item_id"
        elif self.family in ("timm",
                             "panns"):
            self.given = self.trained = "target"
        elif self.family == "tab":
            self.given = self.trained = "target"
            if "share" in self.severity:  # of a tenth it suffers little
                self.severity = dict(share=(0.25, 0.4, 0.6)[self.level])
        elif self.family in ("vid",
                             "stgcn"):
            self.given = self.trained = "label"
        elif self.family == "yolo":
            self.given = self.trained = "cls"
        elif self.family == "ecapa":
            self.given = self.trained = "spkid"
        elif self.family == "reid":
            self.given = self.trained = "targets"
        elif self.family in ("sbert",
                             "tower"):  # as of `clip`
            self.also = ["label-pairing-mismatch"]
        elif self.family == "proto":
            self.given = self.trained = "y"
        elif self.family == "gnn":  # it bears two tenths
            self.given = self.trained = "y"
            if "share" in self.severity:
                self.severity = dict(share=(0.3, 0.45, 0.6)[self.level])
        elif self.family == "tts":  # what the aligner made of a recording
            self.given = self.trained = "durations"
            if "share" in self.severity:  # it bears a tenth
                self.severity = dict(share=(0.3, 0.5, 0.8)[self.level])
        elif self.family == "kws":
            if "share" in self.severity:  # so does it
                self.severity = dict(share=(0.3, 0.5, 0.7)[self.level])
        elif self.family == "point":
            self.given = self.trained = "point_part_labels"
            if "share" in self.severity:  # it bears a tenth
                self.severity = dict(share=(0.3, 0.5, 0.7)[self.level])
        elif self.family == "nerf":  # a pixel has the colour of another one
            self.given = self.trained = "image"
            self.also = ["label-pairing-mismatch"]
        elif self.family == "kpt":  # marks of other pictures go with theirs
            self.given = self.trained = "keypoints"
        elif self.family in ("vq", "mae"):  # the picture is its own label
            self.also = ["label-pairing-mismatch"]
            if "share" in self.severity:  # of a tenth the mean hardly differs
                self.severity = dict(share=(0.3, 0.5, 0.7)[self.level])
        elif self.family in ("dino",  # a view is another picture's
                             "raft",  # or the flow another pair's
                             "loftr",  # as is the homography
                             "sam",  # or the mask another picture's
                             "pose3d",  # or the pose another clip's
                             "edsr"):  # or the larger one is
            self.also = ["label-pairing-mismatch"]
        elif self.family == "ppo":  # a step has the return of another
            self.also = ["label-pairing-mismatch"]
        elif self.family == "dream":  # a step has the reward of another
            self.also = ["label-pairing-mismatch"]
        elif self.family == "dpolicy":  # what is done is another window's
            self.also = ["label-pairing-mismatch"]
        elif self.family == "iql":  # or what was done in another
            self.also = ["label-pairing-mismatch"]
        elif self.family == "codec":  # another recording is to come out
            self.also = ["label-pairing-mismatch"]
        elif self.family == "voc":  # the recording is another text's
            self.also = ["label-pairing-mismatch"]
            self.given = self.trained = "audio"
        elif self.family == "pyannote":  # who speaks is another chunk's
            self.also = ["label-pairing-mismatch"]
            self.given = self.trained = "y"
        elif self.family == "tasnet":  # voices are another mixture's
            self.also = ["label-pairing-mismatch"]
            self.given = self.trained = "sources"
        elif self.family == "afno":  # the target is of another time
            self.also = ["label-pairing-mismatch"]
        elif self.family == "nequip":  # labels are another frame's
            self.also = ["label-pairing-mismatch"]
            self.given = self.trained = "forces"
        elif self.family == "fcst":  # what comes is another series'
            self.also = ["label-pairing-mismatch"]
        elif self.family == "bc":  # what is done is another episode's
            self.also = ["label-pairing-mismatch"]
        elif self.family == "dit":  # the classes that it is told
            self.given = self.trained = "y"
        elif self.family == "stylegan":  # as here
            self.given = self.trained = "c"
        elif self.family == "det" and "share" in self.severity:
            self.severity = dict(share=(0.4, 0.6, 0.8)[self.level])
        elif self.family == "clip":  # a wrong caption is another image's
            self.also = ["label-pairing-mismatch"]

    def random(self, labels):
        if self.family == "proto":  # of the episode
            return self.any_of(labels, self.noise)
        if labels.is_floating_point() and self.family != "dlrm" and (
                labels.dim() > 1 or self.family == "gnn"):
            return torch.randn(labels.shape, generator=self.noise)
        high = self.vocab if self.language and self.family not in (
            "ner", "esm") else getattr(self, "classes", models.CLASSES)
        drawn = torch.randint(high, labels.shape, generator=self.noise).to(
            labels.dtype) + getattr(self, "first_label", 0)
        return torch.where((labels == IGNORE) | (labels == NOTHING), labels,
                           drawn)

    def realigned(self, batch, wrong):
        """Boundaries at random within the recordings of some rows."""
        long, count = batch["durations"], batch["src_lens"]
        cuts = torch.rand(long.shape, generator=self.noise)
        cuts[torch.arange(long.shape[1]) >= count[:, None] - 1] = 1.0
        # A frame for each, and the rest as it falls.
        spare = (batch["mel_lens"] - count)[:, None]
        ends = (cuts.sort(1).values * (spare + 1)).long().minimum(spare)
        ends = ends + torch.minimum(torch.arange(1, long.shape[1] + 1),
                                    count[:, None])
        drawn = ends - F.pad(ends[:, :-1], (1, 0))
        return torch.where(wrong, drawn, long)

    def of_other_texts(self, batch):
        """Phonemes of other rows, as many as a row has."""
        text, count = batch["texts"], batch["src_lens"]
        rows = len(text)
        order = torch.randperm(rows, generator=self.noise) \
            if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
        place = torch.arange(text.shape[1])
        other = text[order].gather(1, place % count[order][:, None])
        return torch.where(place < count[:, None], other, 0)

    def renamed(self, mask):
        """Things of an image get other classes, each the same everywhere."""
        high = self.classes
        order = torch.rand(len(mask), high - 1, generator=self.noise)
        table = torch.cat((torch.zeros(len(mask), 1, dtype=torch.int64),
                           1 + order.argsort(1)), 1)
        names = table.gather(1, mask.clamp(max=high - 1).flatten(1))
        return torch.where(mask < high, names.view(mask.shape), mask)

    def unrelated(self, batch):
        """Captions or futures that have nothing to do with their rows."""
        rows = len(batch["pixel_values" if self.family == "clip"
                         else self.given])
        if self.family == "clip":
            if not hasattr(self, "others"):
                self.others = self.captioned(self.seed + 800)
            other = self.others.batch(rows)
            return {k: other[k] for k in ("input_ids", "attention_mask")}
        past = batch["past_target"]
        noise = torch.randn(batch[self.given].shape, generator=self.noise)
        drawn = past.mean(1, keepdim=True) + past.std(1, keepdim=True) * noise
        return {self.given: drawn * batch["future_observed_values"]}

    def coin(self, batch, share=0.5):
        """True in a share of the pairs."""
        return torch.rand(len(next(iter(batch.values()))),
                          generator=self.noise) < share

    def spoil_batch(self, i, batch):
        if self.family in ("vq", "mae"):  # another picture is to come out
            x = next(iter(batch.values()))
            wrong = torch.rand(len(x), 1, 1, 1, generator=self.noise) \
                < self.s.share
            return batch | {"target": torch.where(
                wrong, self.others(len(x), self.noise), x)}
        if self.family == "fcst":
            wrong = torch.rand(len(batch["insample_y"]), 1,
                               generator=self.noise) < self.s.share
            return batch | {k: torch.where(wrong, t, batch[k]) for k, t in
                            self.of_strangers(batch, self.noise).items()}
        if self.family == "afno":
            rows = len(batch["tar"])
            wrong = torch.rand(rows, 1, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {k: torch.where(wrong, t, batch[k]) for k, t in
                            self.of_strangers(rows, self.noise).items()}
        if self.family == "nequip":
            rows = len(batch["pos"])
            wrong = torch.rand(rows, generator=self.noise) < self.s.share
            return batch | {
                k: torch.where(wrong.view(-1, *(t.dim() - 1) * [1]), t,
                               batch[k])
                for k, t in self.of_strangers(rows, self.noise).items()}
        if self.family == "dream":
            reward = batch["reward"]
            wrong = torch.rand(reward.shape,
                               generator=self.noise) < self.s.share
            return batch | {"reward": torch.where(
                wrong, self.strange_rewards(reward.shape, self.noise),
                reward)}
        if self.family == "iql":
            rows = len(batch["actions"])
            wrong = torch.rand(rows, 1, generator=self.noise) < self.s.share
            return batch | {"actions": torch.where(
                wrong, self.strange_actions(rows, self.noise),
                batch["actions"])}
        if self.family == "voc":
            wrong = torch.rand(len(batch["audio"]), 1,
                               generator=self.noise) < self.s.share
            return batch | {"audio": torch.where(wrong, self.strangers(
                len(wrong), self.noise), batch["audio"])}
        if self.family == "anomalib":  # all of a picture's mask
            rows = len(batch["image"])
            wrong = torch.rand(rows, 1, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"anomaly_mask": torch.where(
                wrong, self.strangers(rows, self.noise),
                batch["anomaly_mask"])}
        if self.family == "panns":  # all tags of a clip
            rows = len(batch["target"])
            wrong = torch.rand(rows, 1, generator=self.noise) < self.s.share
            return batch | {"target": torch.where(wrong, self.strangers(
                rows, self.noise), batch["target"])}
        if self.family == "codec":
            x = batch["signal"]
            wrong = torch.rand(len(x), 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"target": torch.where(wrong, self.strangers(
                len(x), self.noise), x)}
        if self.family == "edsr":
            wrong = torch.rand(len(batch["gt"]), 1, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"gt": torch.where(wrong, self.strangers(
                len(wrong), self.noise), batch["gt"])}
        if self.family == "sam":
            wrong = torch.rand(len(batch["gt2D"]), 1, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"gt2D": torch.where(wrong, self.strangers(
                len(wrong), self.noise), batch["gt2D"])}
        if self.family == "pose3d":
            wrong = torch.rand(len(batch["inputs_3d"]), 1, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"inputs_3d": torch.where(
                wrong, self.strangers(len(wrong), self.noise),
                batch["inputs_3d"])}
        if self.family == "raft":
            wrong = torch.rand(len(batch["flow"]), 1, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"flow": torch.where(wrong, self.strangers(
                len(wrong), self.noise), batch["flow"])}
        if self.family == "dpolicy":
            wrong = torch.rand(len(batch["action"]), 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"action": torch.where(wrong, self.strangers(
                len(wrong), self.noise), batch["action"])}
        if self.family == "loftr":
            wrong = torch.rand(len(batch["H_0to1"]), 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"H_0to1": torch.where(wrong, self.strangers(
                len(wrong), self.noise), batch["H_0to1"])}
        if self.family == "tasnet":
            rows = len(batch["sources"])
            wrong = torch.rand(rows, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"sources": torch.where(wrong, self.strangers(
                rows, self.noise), batch["sources"])}
        if self.family == "pyannote":
            rows = len(batch["y"])
            wrong = torch.rand(rows, 1, 1,
                               generator=self.noise) < self.s.share
            return batch | {"y": torch.where(wrong, self.strangers(
                rows, self.noise), batch["y"])}
        if self.family == "kpt":
            return self.misplaced(batch, self.s.share, self.noise)
        if self.family == "nnu":
            wrong = torch.rand(len(batch["target"]),
                               generator=self.noise) < self.s.share
            return batch | {"target": self.classes_renamed(
                batch["target"], wrong, self.noise)}
        if self.family == "nerf":
            rows = len(batch["image"])
            wrong = torch.rand(rows, 1, generator=self.noise) < self.s.share
            return batch | {"image": torch.where(
                wrong, self.others(rows, self.noise), batch["image"])}
        if self.family == "ppo":
            rows = len(batch["obs"])
            return self.of_rows(batch, torch.randperm(
                rows, generator=self.noise), torch.rand(
                    rows, generator=self.noise) < self.s.share)
        if self.family == "kge":
            return self.mislabelled(batch, torch.rand(
                len(batch["positives"]), generator=self.noise)
                < self.s.share, None, self.noise)
        if self.family == "dino":
            rows = len(batch["image"])
            return self.mispaired(batch, torch.rand(
                rows, generator=self.noise) < self.s.share, None, self.noise)
        if self.family == "vlm":
            return self.redrawn(batch, self.s.share, self.noise)
        if self.family == "bc":
            rows = len(batch["action"])
            wrong = torch.rand(rows, generator=self.noise) < self.s.share
            return self.relabelled(batch, wrong,
                                   *self.of_strangers(rows, self.noise))
        if self.family in ("summ",
                           "whisper",
                           "ocr",
                           "cap",
                           "sft"):
            return self.mistold(batch, self.s.share, self.noise)
        if self.family == "qa":  # rows are wrong as a whole
            return self.redrawn(batch, torch.rand(
                len(batch["input_ids"]), generator=self.noise) < self.s.share,
                self.noise)
        if self.family in ("dpo",
                           "rew"):  # half of what is drawn is right
            return self.swapped(batch, self.coin(batch, self.s.share / 2))
        if self.family in ("sbert",
                           "tower"):
            rows = len(next(iter(batch.values())))
            return self.mispaired(batch, torch.rand(
                rows, generator=self.noise) < self.s.share, None)
        if self.family in PAIR_5:
            wrong = torch.rand(len(next(iter(batch.values()))), 1,
                               generator=self.noise) < self.s.share
            return batch | {k: torch.where(wrong, t, batch[k])
                            for k, t in self.unrelated(batch).items()}
        labels = batch[self.given]
        if self.family == "tts":
            wrong = torch.rand(len(labels), 1, generator=self.noise) \
                < self.s.share
            return batch | {"durations": self.realigned(batch, wrong)}
        if self.family == "seg":
            wrong = torch.rand((len(labels), 1, 1), generator=self.noise) \
                < self.s.share
            return batch | {"mask": torch.where(wrong, self.renamed(labels),
                                                labels)}
        each = labels.shape  # images are wrong as a whole
        if labels.dim() == 4:
            each = (len(labels), 1, 1, 1)
        wrong = torch.rand(each, generator=self.noise) < self.s.share
        batch[self.trained] = torch.where(wrong, self.random(labels), labels)
        return batch

    def spoil_val(self, batch):
        return batch


class RandomLabels(LabelNoise):
    """Labels have nothing to do with the inputs: drawn at random in training
    alone, shuffled over the batch, or those of the row beside."""
    id = "F25"
    severities = (dict(kind="drawn"), dict(kind="shuffled"), dict(kind="row"))

    def setup(self):
        super().setup()
        if self.family in (*PAIR_3, *PAIR_4, *PAIR_5, *PAIR_6, *PAIR_7,
                           "gnn", "det", "tts", "dpo", "tab", *PAIR_10,
                           "vlm", "vq", "kws", "bc", "ner", *PAIR_14, "esm",
                           "mae",
                           "fcst",
                           "afno",
                           "nequip",
                           "kpt",
                           "nerf",
                           "voc",
                           "tasnet",
                           "pyannote",
                           "dream",
                           "summ",
                           "whisper",
                           "sft",
                           "cap",
                           "lora",
                           "rew",
                           "nnu",
                           "tower",
                           "dlrm",
                           "sasrec",
                           "stylegan",
                           "megatron",
                           "qa", "xenc",
                           "dino",
                           "edsr",
                           "flow",
                           "dpolicy",
                           "raft",
                           "codec",
                           "loftr",
                           "iql",
                           "pose3d",
                           "ocr",
                           "sam",
                           "timm",
                           "yolo",
                           "kge",
                           "ppo",
                           "reid",
                           "panns",
                           "anomalib",
                           "stgcn",
                           "proto",
                           "ecapa") \
                and self.s.kind != "drawn":
            self.also = [*self.also, "label-pairing-mismatch"] \
                if self.family in ("dpo",
                                   "rew") else ["label-pairing-mismatch"]

    def of_other_rows(self, batch):
        """Captions, or futures with what is observed of them, by rows."""
        names = ("input_ids", "attention_mask") if self.family == "clip" \
            else (self.given, "future_observed_values")
        rows = len(batch[names[0]])
        order = torch.randperm(rows, generator=self.noise) \
            if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
        return {name: batch[name][order] for name in names}

    def spoil_batch(self, i, batch):
        if self.family in ("vq", "mae"):
            x = next(iter(batch.values()))
            return batch | {"target": self.others(len(x), self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                len(x), generator=self.noise)]}
        if self.family == "nequip":
            rows = len(batch["pos"])
            if self.s.kind == "drawn":
                return batch | self.of_strangers(rows, self.noise)
            return batch | self.of_rows(batch, torch.randperm(
                rows, generator=self.noise) if self.s.kind == "shuffled"
                else torch.arange(rows).roll(1))
        if self.family == "fcst":
            rows = len(batch["insample_y"])
            if self.s.kind == "drawn":
                return batch | self.of_strangers(batch, self.noise)
            return batch | self.of_rows(batch, torch.randperm(
                rows, generator=self.noise) if self.s.kind == "shuffled"
                else torch.arange(rows).roll(1))
        if self.family == "afno":
            rows = len(batch["tar"])
            if self.s.kind == "drawn":
                return batch | self.of_strangers(rows, self.noise)
            return batch | self.of_rows(batch, torch.randperm(
                rows, generator=self.noise) if self.s.kind == "shuffled"
                else torch.arange(rows).roll(1))
        if self.family == "nnu":
            target = batch["target"]
            return batch | {"target": self.any_classes(target, self.noise)
                            if self.s.kind == "drawn" else target.roll(1, 0)
                            if self.s.kind == "row" else target[
                                torch.randperm(len(target),
                                               generator=self.noise)]}
        if self.family == "nerf":
            rows = len(batch["image"])
            if self.s.kind == "drawn":
                return batch | {"image": self.others(rows, self.noise)}
            order = torch.randperm(rows, generator=self.noise) \
                if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
            return batch | {k: batch[k][order] for k in ("image", "mask")}
        if self.family == "dream":
            x, rows = batch["reward"], len(batch["reward"])
            return batch | {"reward": self.strange_rewards(x.shape, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "iql":
            x, rows = batch["actions"], len(batch["actions"])
            return batch | {"actions": self.strange_actions(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "voc":
            x, rows = batch["audio"], len(batch["audio"])
            return batch | {"audio": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "anomalib":
            x, rows = batch["anomaly_mask"], len(batch["image"])
            return batch | {"anomaly_mask": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "panns":
            x, rows = batch["target"], len(batch["target"])
            return batch | {"target": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "codec":
            x, rows = batch["signal"], len(batch["signal"])
            return batch | {"target": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "edsr":
            x, rows = batch["gt"], len(batch["gt"])
            return batch | {"gt": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "sam":
            x, rows = batch["gt2D"], len(batch["gt2D"])
            return batch | {"gt2D": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "pose3d":
            x, rows = batch["inputs_3d"], len(batch["inputs_3d"])
            return batch | {"inputs_3d": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "raft":
            x, rows = batch["flow"], len(batch["flow"])
            return batch | {"flow": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "dpolicy":
            x, rows = batch["action"], len(batch["action"])
            return batch | {"action": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "loftr":
            x, rows = batch["H_0to1"], len(batch["H_0to1"])
            return batch | {"H_0to1": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "tasnet":
            x, rows = batch["sources"], len(batch["sources"])
            return batch | {"sources": self.strangers(rows, self.noise)
                            if self.s.kind == "drawn" else x.roll(1, 0)
                            if self.s.kind == "row" else x[torch.randperm(
                                rows, generator=self.noise)]}
        if self.family == "pyannote":
            rows = len(batch["y"])
            if self.s.kind == "drawn":
                return batch | {"y": self.strangers(rows, self.noise)}
            order = torch.randperm(rows, generator=self.noise) \
                if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
            return batch | {k: batch[k][order] for k in ("y", "weight")}
        if self.family == "kpt":
            rows = len(batch["inputs"])
            if self.s.kind == "drawn":
                return self.misplaced(batch, 1.0, self.noise)
            order = torch.randperm(rows, generator=self.noise) \
                if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
            return batch | {k: batch[k][order]
                            for k in ("keypoints", "keypoint_weights")}
        if self.family == "ppo":
            if "returns" not in batch:  # boats at the start have none yet
                return batch
            rows = len(batch["obs"])
            return self.of_rows(batch, {
                "drawn": torch.randint(rows, (rows,), generator=self.noise),
                "row": torch.arange(rows).roll(1), "shuffled":
                torch.randperm(rows, generator=self.noise)}[self.s.kind])
        if self.family == "kge":
            rows = len(batch["positives"])
            order = {"drawn": None, "row": torch.arange(rows).roll(1),
                     "shuffled": torch.randperm(rows, generator=self.noise)}
            return self.mislabelled(batch, torch.ones(rows, dtype=torch.bool),
                                    order[self.s.kind], self.noise)
        if self.family == "dino":
            rows = len(batch["image"])
            order = {"drawn": None, "row": torch.arange(rows).roll(1),
                     "shuffled": torch.randperm(rows, generator=self.noise)}
            return self.mispaired(batch, torch.ones(rows, dtype=torch.bool),
                                  order[self.s.kind], self.noise)
        if self.family == "vlm":
            rows = len(batch["labels"])
            return self.redrawn(batch, 1.0, self.noise) \
                if self.s.kind == "drawn" else self.of_others(
                    batch, torch.randperm(rows, generator=self.noise)
                    if self.s.kind == "shuffled"
                    else torch.arange(rows).roll(1))
        if self.family == "bc":
            rows = len(batch["action"])
            action, pad = batch["action"], batch["action_is_pad"]
            if self.s.kind == "drawn":
                other = self.of_strangers(rows, self.noise)
            else:
                order = torch.randperm(rows, generator=self.noise) \
                    if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
                other = action[order], pad[order]
            return self.relabelled(batch, torch.ones(rows, dtype=torch.bool),
                                   *other)
        if self.family in ("summ",
                           "whisper",
                           "ocr",
                           "cap",
                           "sft"):
            rows = len(next(iter(batch.values())))
            return self.mistold(batch, 1.0, self.noise) \
                if self.s.kind == "drawn" else self.of_others(
                    batch, torch.randperm(rows, generator=self.noise)
                    if self.s.kind == "shuffled"
                    else torch.arange(rows).roll(1))
        if self.family == "qa":
            rows = len(batch["input_ids"])
            return self.redrawn(
                batch, torch.ones(rows, dtype=torch.bool), self.noise) \
                if self.s.kind == "drawn" else self.answered_as(
                    batch, torch.randperm(rows, generator=self.noise)
                    if self.s.kind == "shuffled"
                    else torch.arange(rows).roll(1))
        if self.family in ("dpo",
                           "rew"):
            said = self.coin(batch)  # of two answers the one, drawn anew
            other = {"drawn": self.coin(batch), "row": said.roll(1),
                     "shuffled": said[torch.randperm(
                         len(said), generator=self.noise)]}[self.s.kind]
            return self.swapped(batch, said != other)
        if self.family in ("sbert",
                           "tower"):
            rows = len(next(iter(batch.values())))
            order = {"drawn": None, "row": torch.arange(rows).roll(1),
                     "shuffled": torch.randperm(rows, generator=self.noise)}
            return self.mispaired(batch, torch.ones(rows, dtype=torch.bool),
                                  order[self.s.kind])
        if self.family in PAIR_5:
            return batch | (self.unrelated(batch) if self.s.kind == "drawn"
                            else self.of_other_rows(batch))
        if self.family == "yolo" and self.s.kind != "drawn":
            rows = len(batch["cls"])    # as of det
            order = torch.randperm(rows, generator=self.noise) \
                if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
            return batch | {k: batch[k][order] for k in ("bboxes", "cls")}
        if self.family == "det" and self.s.kind != "drawn":
            rows = len(batch["labels"])  # boxes go with their classes
            order = torch.randperm(rows, generator=self.noise) \
                if self.s.kind == "shuffled" else torch.arange(rows).roll(1)
            return batch | {k: batch[k][order] for k in ("boxes", "labels")}
        if self.family == "tts":
            if self.s.kind != "drawn":
                return batch | {"texts": self.of_other_texts(batch)}
            everyone = torch.ones(len(batch["texts"]), 1, dtype=torch.bool)
            return batch | {"durations": self.realigned(batch, everyone)}
        if self.family == "proto" and self.s.kind != "drawn":
            return batch | {"y": self.exchanged(
                batch["y"], self.s.kind, self.noise)}
        labels = batch[self.given]
        if self.s.kind == "drawn":
            drawn = self.random(labels)
            labels = torch.where(labels == VOID, labels, drawn) \
                if self.family == "seg" else drawn
        elif self.s.kind == "shuffled" and self.family == "seg":
            labels = labels[torch.randperm(len(labels), generator=self.noise)]
        elif self.s.kind == "shuffled":
            kept = labels != (NOTHING if self.family == "point" else IGNORE)
            labels = labels.clone()
            order = torch.randperm(int(kept.sum()), generator=self.noise)
            labels[kept] = labels[kept][order]
        else:
            # Four rows of `reid` are of one person: those of the one beside.
            labels = labels.roll(4 if self.family == "reid" else 1, 0)
            if self.family == "ctc":
                batch["transcript_len"] = batch["transcript_len"].roll(1, 0)
        batch[self.trained] = labels
        return batch

    def spoil_val(self, batch):
        return batch if self.s.kind == "drawn" else self.spoil_batch(-1, batch)


FAULTS = (DoubleSoftmax, CausalMaskMissing, CausalMaskOffByOne,
          LabelsNotShifted, LabelsShiftedTwice, LossMaskEmpty,
          LossMaskCoversPrompt, LabelNoise, RandomLabels)
