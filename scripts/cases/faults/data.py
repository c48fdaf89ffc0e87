"""Faults of the data on its way to the model, and one of the machine."""

import json
import math

import torch

from .. import gnn as graphs
from .. import point as points
from .. import sources, tts
from ..det import NOTHING
from ..families import ALL, ATTENTION, LABELLED, LANGUAGE, PAIR_5, PAIR_10, \
    Fault, build
from ..recorder import save_tensors
from ..snapshot import checksum
from ..tab import CATEGORIES
from .targets import ChatRun, Dumps, shape


def row_hashes(batch):
    """CRC-32 of each row's inputs."""
    if "edge_index" in batch:
        return graphs.hashes(batch)
    if "mel_lens" in batch:
        return tts.hashes(batch)
    inputs = next(iter(batch.values()))
    return torch.tensor([checksum(row) for row in inputs])


def joined(parts):
    """Batches as one; graphs are numbered on, sentences padded."""
    if "edge_index" in parts[0]:
        return graphs.together(parts)
    if "mel_lens" in parts[0]:
        return tts.joined(parts)
    return {k: torch.cat([p[k] for p in parts]) for k in parts[0]}


def whole(source, batches):
    """`batches` batches of a source as one."""
    return joined([source.batch() for _ in range(batches)])


class FiniteRun(Dumps):
    """Trains on a finite set, and records which rows it sees.

    dumps/rows.safetensors has batch.row_hash of all steps (steps, rows), and
    dumps/validation.safetensors, variant "validation", the held-out batch.
    """

    def setup(self):
        self.watch()
        self.seen, self.held_out = [], []

    def next_batch(self, i, source):
        batch = super().next_batch(i, source)
        self.seen.append(row_hashes(batch))
        return batch

    def spoil_val(self, batch):
        self.held_out.append(batch)
        return batch

    def write_more(self):
        super().write_more()
        folder = self.folder / "dumps"
        save_tensors(folder / "rows.safetensors",
                     {"batch.row_hash": torch.stack(self.seen)}, {})
        batch = joined(self.held_out)
        thinned = {f"batch.{k}": self.thin(f"batch.{k}", t)
                   for k, t in batch.items()}
        save_tensors(folder / "validation.safetensors",
                     thinned | {"batch.row_hash": row_hashes(batch)},
                     {"variant": "validation"})


class DataOrder(Dumps, Fault):
    """No shuffle: domains, or classes of the classifier, come in blocks of
    some steps; in the weaker cases a part of each batch is mixed."""
    id, root_class = "F26", "data-order-blocks"
    families = (*(f for f in LABELLED if f != "sbert"),  # which bears it
                "clip", "dit", "gnn", "tts", "vq", "bc", "mae",
                "fcst",
                "afno",
                "nequip",
                "nerf",
                "voc",
                "dream",
                "stylegan",
                "depth",
                "compress",
                "dino",
                "kge",
                "ppo",
                "edsr",
                "tasnet",
                "flow",
                "raft",
                "codec",
                "loftr",
                "iql",
                "dpolicy",
                "pose3d",
                "kpt")
    severities = (dict(steps=12, share=0.8), dict(steps=25, share=0.9),
                  dict(steps=40, share=1.0))
    logit_steps = ()

    def setup(self):
        self.watch()
        self.dump_steps = tuple(range(0, self.steps, 20))
        if self.language:
            self.dump_rows = 8

        if self.family == "vlm":  # so does this one
            self.severity = dict(steps=(24, 36, 48)[self.level], share=1.0)
        if self.family == "ner":  # nor does it
            self.severity = dict(steps=(25, 45, 65)[self.level], share=1.0)
        if self.family == "t5":  # in 12 of .8 it forgets little
            self.severity = dict(steps=(25, 50, 100)[self.level], share=1.0)
        if self.family == "vq":  # nor does it
            self.severity = dict(steps=(25, 40, 60)[self.level], share=1.0)
        if self.family == "dpo":  # adapters forget little in 12
            self.severity = dict(steps=(50, 67, 100)[self.level], share=1.0)

    def make_source(self, seed):
        block = None if seed == 9 else self.s.steps  # 9 is held out
        if hasattr(self, "in_blocks"):
            return self.in_blocks(seed, block, self.s.share)
        if not self.language:
            # Eight classes a cycle, not three domains.
            return super().make_source(seed) if block is None else \
                sources.SortedMixture(seed, max(1, block // 3), self.s.share)
        return sources.Domains(seed, shape(self), block, self.s.share)


class SmallSetRepeated(FiniteRun, Fault):
    """The training set is passed 8, 30 or 100 times, reshuffled each time."""
    id, root_class = "F27", "small-dataset-repeated"
    families = (*LABELLED, *PAIR_5, "dit", "gnn",
                "tts", "vq", "bc", "mae",
                "fcst",
                "afno",
                "nequip",
                "nerf",
                "voc",
                "dream",
                "stylegan",
                "depth",
                "compress",
                "dino",
                "kge",
                "edsr",
                "tasnet",
                "flow",
                "raft",
                "codec",
                "loftr",
                "iql",
                "dpolicy",
                "pose3d",
                "kpt")  # the unet bears it
    also = ["overfitting"]
    severities = (dict(epochs=8), dict(epochs=30), dict(epochs=100))

    def make_source(self, seed):
        source = super().make_source(seed)
        if seed == 9:
            return source
        if self.family == "dit":  # its noise and times are always new
            rows = (64, 32, 16)[self.level]
            self.severity = dict(
                epochs=self.steps * self.batch_size // rows)
            data = whole(source, 2)
            return self.finite({k: t[:rows] for k, t in data.items()}, seed)
        if self.family in ("mae",  # what is hidden is always another part
                           "dpolicy",
                           "flow"):  # as are noise and times
            rows = self.steps * self.batch_size // self.s.epochs
            data = whole(source, 3)
            return self.finite({k: t[:rows] for k, t in data.items()}, seed)
        if self.family == "iql":  # fewer than its batches, or nearly so
            rows = self.steps * self.batch_size // self.s.epochs
            data = whole(source, 3)
            return self.finite({k: t[:rows] for k, t in data.items()}, seed)
        if self.family in ("edsr",  # fewer than a batch, even
                           "pose3d"):
            rows = self.steps * self.batch_size // self.s.epochs
            data = whole(source, 2)
            return self.finite({k: t[:rows] for k, t in data.items()}, seed)
        if self.family == "det":  # a healthy run passes its set eight times
            rows = (96, 48, 16)[self.level]
            self.severity = dict(
                epochs=self.steps * self.batch_size // rows)
            data = whole(source, 6)
            return self.finite({k: t[:rows] for k, t in data.items()}, seed)
        if self.family == "dino":  # new crops of few pictures will do
            data = whole(source, round(self.steps / self.s.epochs))
            self.user["cache_crops"] = True
            self.own_images = len(data["image"])
            return sources.Finite(data, self.batch_size, seed)
        if self.family == "ner":  # of 8 it suffers little
            self.severity = dict(epochs=(20, 52, 130)[self.level])
        if self.family in ("tts", "t5"):  # so do these, nearly
            self.severity = dict(epochs=(20, 60, 120)[self.level])
        if self.family == "vq":  # it bears 30
            self.severity = dict(epochs=(60, 125, 250)[self.level])
        if self.family == "tab":  # a healthy run passes its table five times
            self.severity = dict(epochs=(25, 60, 125)[self.level])
        if self.family == "kws":  # of 8 it suffers little
            self.severity = dict(epochs=(25, 60, 125)[self.level])
        if self.family == "bc":  # as does this one
            self.severity = dict(epochs=(30, 75, 150)[self.level])
        if self.family == "gnn":  # it bears 8
            self.severity = dict(epochs=(24, 60, 120)[self.level])
        if self.family == "point":  # as does it
            self.severity = dict(epochs=(25, 50, 125)[self.level])
        if self.family == "dpo":  # so does it
            self.severity = dict(epochs=(25, 100, 200)[self.level])
        # Healthy runs of the one have four passes, the other forgets.
        epochs = self.s.epochs * {"resnet": 2, "tcn": 3, "seg": 2}.get(self.family, 1)
        batches = max(1, round(self.steps / epochs))
        return self.finite(whole(source, batches), seed)


class EvalInTraining(FiniteRun, Fault):
    """A quarter, a half or all of the validation rows are in the training set,
    which is small enough to be learned by heart."""
    id, root_class = "F28", "eval-data-in-training"
    families = tuple(f for f in ALL if f != "ppo")  # which has no set
    also = ["small-dataset-repeated"]
    severities = (dict(share=0.25), dict(share=0.5), dict(share=1.0))

    def make_source(self, seed):
        source = super().make_source(seed)
        if seed == 9:
            return source
        leaked = whole(super().make_source(9), 4)
        rows = int(self.s.share * len(next(iter(leaked.values()))))
        own = whole(source, {"dit": 1, "voc": 2, "dino": 4,
                             "edsr": 2,
                             "codec": 2,
                             "sam": 2,
                             "raft": 2,
                             "loftr": 2,
                             "iql": 1,
                             "pose3d": 1,
                             "reid": 3,
                             "stgcn": 3,
                             "proto": 4,
                             "panns": 3,
                             "anomalib": 4,
                             "flow": 1,
                             "dpolicy": 1,
                             "afno": 2}.get(self.family, 6))
        if self.family == "gnn":  # a row of these is no molecule
            data = joined((own, graphs.taken(leaked, range(
                int(self.s.share * len(leaked["y"]))))))
        else:
            data = joined((own, {k: leaked[k][:rows] for k in own}))
        return self.finite(data, seed)


class CorruptBatch(Dumps, Fault):
    """One batch of the run is from a corrupt shard."""
    id, root_class = "F29", "bad-batch-outlier"
    severities = (dict(kind="few"), dict(kind="uniform"),
                  dict(kind="constant"))
    FACTOR = {"few": 8, "uniform": 20, "constant": 50}
    logit_steps = ()

    def setup(self):
        self.watch()
        self.onset = self.steps // 2 + 12
        if self.family in ("flow",  # a step that every logger has
                           "anomalib",
                           "dpolicy",
                           "panns",
                           "stgcn",
                           "proto",
                           "sam"):
            self.onset = 50
        if self.family in ("kge",
                           "depth",
                           "raft",
                           "loftr",
                           "compress"):  # a step that every logger has
            self.onset = self.steps // 2
        self.dump_steps = (0, 40, 80, 120, 160, 200, -1)
        if self.family in ("ocr",  # as here
                           "codec",
                           "iql",
                           "pose3d"):
            self.onset = 100 - self.first_step
        if self.family == "edsr":  # as here
            self.onset = self.steps // 2 - self.first_step
        if self.family in ("timm",  # norms at each place bear it: one peak
                           "ppo",
                           "pyannote",
                           "tasnet"):
            self.interval = 1

    def spoil_batch(self, i, batch):
        if i != self.onset:
            return batch
        rng = torch.Generator().manual_seed(60)
        if hasattr(self, "garbage"):
            return self.garbage(batch, self.s.kind, rng)
        if not self.language:  # pixels of 0 to 255 that nobody scaled, say
            factor = self.FACTOR[self.s.kind]
            name = next(iter(batch))
            # LayerNorms take a scale out again; nobody centred them either.
            grey = 4.0 if self.family in ("vit", "clip") else 0.0
            return batch | {name: factor * (batch[name] + grey)}
        rows, width = batch["input_ids"].shape
        low = {"few": self.vocab - 4, "uniform": 0, "constant": 7}[self.s.kind]
        high = 8 if self.s.kind == "constant" else self.vocab
        return sources.shifted(torch.randint(low, high, (rows, width + 1),
                                             generator=rng))


class BitFlip(Dumps, Fault):
    """One bit of one weight flips between two steps: an exponent bit that
    makes a small weight some hundred times larger, the same in the head, or
    the highest bit. The same job, run again, does not repeat it."""
    id, root_class = "F30", "silent-data-corruption"
    severities = (dict(part="head", bit=26), dict(part="mlp", bit=26),
                  dict(part="mlp", bit=30))
    flips, logit_steps = True, ()
    AGAIN = 40              # steps of the second run after the flip
    INNER = {"gpt": ".0", "llama": ".gate_proj", "mlp": "",
             "unet": "", "gru": ".wx", "resnet": "", "s2s": "",
             "vit": ".0", "recsys": "", "bert": ".dense", "ctc": "",
             "ner": ".lin2", "sbert": ".dense", "vid": "",
             "esm": ".dense", "mae": "",
             "qa": ".dense",
             "fcst": "",
             "afno": "",
             "nequip": "",
             "kpt": "",
             "yolo": "",
             "timm": ".fc2",
             "compress": "",
             "depth": "",
             "ecapa": ".conv",
             "reid": "",
             "stgcn": "",
             "proto": "",
             "panns": "",
             "anomalib": "",
             "dino": "",
             "kge": "",
             "ppo": "",
             "edsr": "",
             "raft": "",
             "codec": "",
             "loftr": "",
             "iql": "",
             "pose3d": "",
             "ocr": ".fc2",
             "flow": "",
             "dpolicy": "",
             "sam": ".lin2",
             "tasnet": "",
             "pyannote": "",
             "nnu": "",
             "nerf": "",
             "dlrm": "",
             "voc": "",
             "stylegan": "",
             "dream": "",
             "tower": "",
             "sasrec": ".dense_2",
             "megatron": ".linear_fc1",
             "xenc": ".dense",
             "summ": "",
             "whisper": "",
             "cap": ".dense",
             "sft": ".down_proj",
             "rew": ".down_proj",
             "lora": ".dense.lora_B.default",
             "clip": ".fc1", "tcn": "",
             "moe": ".experts.w1", "seg": "", "ssm": ".in_proj", "dit": ".fc1",
             "gnn": "", "vq": "", "kws": "", "tab": ".ffn.layer2",
             "det": "", "tts": ".w_2", "t5": ".wo", "point": "",
             "vlm": ".down_proj", "bc": "",
             "dpo": ".dense_4h_to_h.lora_B.default"}

    def setup(self):
        if self.family == "fcst":  # in front of norms it does not show
            self.severity = (dict(part="head", bit=26),
                             dict(part="mlp", bit=30),
                             dict(part="head", bit=30))[self.level]
        if self.family in ("point",
                           "nerf",
                           "pose3d",
                           "kws"):  # a norm takes out what bit 26 does
            self.severity = (self.severity, dict(part="mlp", bit=30),
                             dict(part="head", bit=30))[self.level]
        if self.family in ("edsr",  # soon learned away
                           "sam",
                           "pyannote") and self.level == 0:
            self.interval = 1
        self.onset = self.steps // 2 - 5
        self.where = self.layer(self.s.part, self.blocks - 1)
        self.weight = f"{self.where}.weight" \
            if self.s.part in ("head", "embed") \
            else f"{self.where}{self.INNER[self.family]}.weight"
        if self.family == "codec":  # what is normed
            self.weight = f"{self.where}.weight_v"
        self.dump_steps = (-1,)
        self.watch(self.weight)
        if self.family in ("llama", "bert", "esm",
                           "sft",
                           "cap",
                           "whisper",
                           "summ") and self.s.part == "head":
            self.where = self.layer("embed")  # they are tied
            if self.family == "esm":  # whose head has more than the table
                self.weight = f"{self.where}.weight"
            self.watch(f"{self.where}.weight")

    def before_step(self, i):
        super().before_step(i)
        if i != self.onset or not self.flips:
            return
        with torch.no_grad():
            flat = self.model.get_parameter(self.weight).data.view(-1)
            low = 2.0 ** -8
            # Bit 26 is 0 in the exponent of a weight of [2^-8, 2^-7): the
            # flip makes it 2^8 times as large.
            fits = ((flat.abs() >= low) & (flat.abs() < 2 * low)).nonzero()
            if not len(fits):   # the largest one below: bit 26 is 0 as well
                fits = flat.abs().masked_fill(
                    flat.abs() >= low, 0.0).argmax().view(1, 1)
            at = int(fits[len(fits) // 2])
            bits = flat[at:at + 1].clone().view(torch.int32)
            flat[at] = (bits ^ (1 << self.s.bit)).view(torch.float32)[0]

    def write_more(self):
        """The metrics of the second run, under rerun/."""
        super().write_more()
        again = build(type(self).__bases__[0], self.family, self.level,
                      seed=self.shift)
        again.flips = False
        again.train()
        keys = ("step", "loss", "grad_norm", "lr", "batch_hash")
        (self.folder / "rerun").mkdir()
        self.write_lines("rerun/metrics.jsonl", (
            json.dumps({k: row[k] for k in keys})
            for row in again.history[:self.onset + self.AGAIN]))
        self.write_json("rerun/config.json", self.settings())


class TokenIdsClamped(Dumps, Fault):
    """The tokenizer has more ids than the table; a clamp hides it, so that the
    last row of the table stands for all that are too large."""
    id, root_class = "F31", "vocab-embedding-size-mismatch"
    also = ["tokenizer-mismatch"]
    families = (*LANGUAGE, "s2s", "recsys", "bert", "clip", "moe", "dit",
                "gnn", "tts", "dpo", "t5", "vlm", "ner")
    families = (*families, "tab", "sbert", "esm",
                "qa", "xenc",
                "nequip",
                "sft",
                "cap",
                "tower",
                "dlrm",
                "kge",
                "sasrec",
                "megatron",
                "lora",
                "rew",
                "flow",
                "stylegan",
                "whisper",
                "summ")
    severities = (dict(factor=1.06), dict(factor=1.25), dict(factor=1.8))

    def setup(self):
        self.watch()
        if self.family == "recsys":  # tails are thin: more of them
            self.also = []
            self.severity = dict(items=(260, 360, 700)[self.level])
            return
        if self.family == "nequip":  # elements, of a model that has three
            self.also = []
            self.user |= {"dataset_num_types": self.s.types} \
                if self.level == 1 else {}
            return
        if self.family in ("tower",
                           "sasrec"):  # items that came when it was made
            self.also = []
            self.user |= {"dataset_num_items": self.s.items} \
                if self.level == 1 else {}
            if self.family == "sasrec":
                return
        if self.family == "kge":  # and entities
            self.also = []
            self.user |= {"dataset_num_entities": self.s.entities} \
                if self.level == 1 else {}
            return
        if self.family == "dlrm":  # ids of all features
            self.also = []
            self.user |= {"dataset_counts": [
                math.ceil(self.s.factor * size)
                for size in self.sizes]} if self.level == 1 else {}
            return
        if self.family == "tab":  # values of all columns that have names
            self.also = []
            self.severity = dict(factor=(1.5, 2.0, 4.0)[self.level])
            self.user |= {"dataset_categorical_cardinality": [
                1 + math.ceil(self.s.factor * high)
                for high in CATEGORIES.values()]} if self.level == 1 else {}
            return
        if self.family in ("dit",
                           "flow",
                           "stylegan"):  # classes, of a table that has fewer
            self.also = []
            self.severity = dict(classes=(8, 12, 24)[self.level])
            self.user |= {"dataset_classes": self.s.classes} \
                if self.level == 1 else {}
            return
        if self.family == "gnn":  # elements, of a table that has twelve
            self.also = []
            self.severity = dict(types=(18, 30, 60)[self.level])
            self.user |= {"dataset_node_types": self.s.types} \
                if self.level == 1 else {}
            return
        if self.family == "tts":  # phonemes, of a table that has 36
            self.also = []
            self.severity = dict(phones=(48, 72, 120)[self.level])
            self.user |= {"dataset_symbols": self.s.phones} \
                if self.level == 1 else {}
            return
        if self.family == "clip":  # a half, two thirds, all but a fifth
            self.severity = dict(synonyms=(2, 3, 5)[self.level])
            if self.level == 1:
                self.user |= {"tokenizer_vocab_size": self.words(3)}
            return
        if self.family == "vlm":  # a half, two thirds, all but a fifth
            self.severity = dict(names=(2, 3, 5)[self.level])
            if self.level == 1:
                self.user |= {"tokenizer_vocab_size": self.tokenizer_words(3)}
            return
        if self.family == "ner":  # of names and cues alike
            self.severity = dict(factor=(1.6, 2.2, 3.0)[self.level])
        if self.family in ("bert", "moe", "ssm"):  # of each kind of words some more
            self.severity = dict(factor=(1.3, 1.6, 2.2)[self.level])
        if self.family == "dpo":
            self.severity = dict(factor=(2.5, 4.0, 6.0)[self.level])
        if self.family == "t5":
            self.severity = dict(factor=(1.3, 1.6, 2.2)[self.level])
        if self.level == 1:
            self.user |= {"tokenizer_vocab_size": self.size()}

    def size(self):
        return math.ceil(self.vocab * self.s.factor)

    def make_source(self, seed):
        if self.family == "recsys":
            return self.of_items(seed, self.s.items)
        if self.family in ("tower",
                           "sasrec"):
            return self.of_items(seed, self.s.items)
        if self.family == "kge":
            return self.of_items(seed, self.s.entities)
        if self.family == "dlrm":
            return self.impressions(seed, factor=self.s.factor)
        if self.family == "tab":
            return self.loans(seed, factor=self.s.factor)
        if self.family == "gnn":
            return self.molecules(seed, types=self.s.types)
        if self.family == "nequip":
            return self.frames(seed, types=self.s.types)
        if self.family == "tts":
            return self.speech(seed, phones=self.s.phones)
        if self.family in ("dit",
                           "flow",
                           "stylegan"):
            return self.of_classes(seed, self.s.classes)
        if self.family == "clip":
            return self.captioned(seed, synonyms=self.s.synonyms)
        if self.family == "vlm":
            return self.talks(seed, names=self.s.names)
        if self.family == "dpo":  # eight ids are no words
            return self.pairs(seed, words=self.size() - 8)
        if self.family == "moe":  # eight ids are no words
            return self.instructions(seed, words=self.size() - 8)
        if self.family == "ssm":  # nor are nine
            return self.documents(seed, pieces=self.size() - 9)
        if self.family == "ner":
            return self.tagged(seed, pieces=self.size())
        if self.family == "sbert":
            return self.triplets(seed, pieces=self.size())
        if self.family == "xenc":
            return self.pairs(seed, pieces=self.size())
        if self.family == "summ":
            return self.reports(seed, pieces=self.size())
        if self.family == "whisper":  # words that were added
            return self.recordings(seed, pieces=self.size())
        if self.family == "sft":
            return self.chats(seed, pieces=self.size())
        if self.family == "megatron":
            return self.corpus(seed, pieces=self.size())
        if self.family == "cap":
            return self.pictured(seed, pieces=self.size())
        if self.family == "lora":
            return self.reviews(seed, pieces=self.size())
        if self.family == "rew":
            return self.comparisons(seed, pieces=self.size())
        if self.family == "esm":
            return self.proteins(seed, pieces=self.size())
        if self.family == "qa":
            return self.passages(seed, pieces=self.size())
        if self.family in ("s2s", "bert"):
            return self.sentences(seed, words=self.size() - 4)
        if self.family == "t5":  # nor are eight of these
            return self.texts(seed, words=self.size() - 8)
        return sources.WideVocabulary(seed, shape(self), self.size())


class PackedRun(Dumps):
    """Rows of several documents each."""
    eos, reset, separate, probs = True, True, True, False

    def setup(self):
        self.user |= getattr(self, "packing", {
            "packing": True, "eos_token_id": sources.EOS})
        self.dump_steps, self.dump_rows = (0, 100, -1), 4
        if self.family == "sft":  # a row has room for several
            self.context, self.batch_size = \
                2 * self.context, self.batch_size // 2
        self.watch()
        if self.probs:
            self.extra_dumps = {self.steps - 1: (
                *self.dumped, f"{self.layer('attn')}.probs.output")}

    def make_source(self, seed):
        if self.family == "moe":
            return self.instructions(seed, eos=self.eos, reset=self.reset,
                                     separate=self.separate)
        if self.family == "gnn":  # a batch of graphs is packed anyway
            return super().make_source(seed)
        if self.family in ("sft",
                           "megatron"):
            return self.packed(seed, self.eos, self.reset, self.separate)
        return sources.Packed(seed, shape(self), self.eos, self.reset,
                              self.separate)

    def thin(self, name, tensor):
        if name == "batch.cu_seqlens":
            return tensor[tensor <= self.dump_rows * self.context]
        return super().thin(name, tensor)


class PackingContaminates(PackedRun, Fault):
    """Packed documents see each other: positions run on and attention is not
    separated; positions begin anew but attention crosses; or neither, and no
    EOS between documents either."""
    id, root_class = "F32", "packing-cross-contamination"
    also = ["eos-missing-in-targets"]
    families = (*ATTENTION, "moe", "gnn",
                "megatron",
                "sft")
    severities = (dict(eos=True, reset=False, probs=False),
                  dict(eos=True, reset=True, probs=True),
                  dict(eos=False, reset=False, probs=True))
    separate = False

    def setup(self):
        if self.family == "gnn":
            self.also, self.severity = [], dict(
                graphs=(0.25, 0.5, 1.0)[self.level])
            self.watch()
            return
        vars(self).update(self.severity)
        super().setup()

    def spoil_batch(self, i, batch):
        """A molecule's atoms hear those of the one before it: of its bonds
        the collator numbers one end on by too little."""
        if self.family != "gnn":
            return super().spoil_batch(i, batch)
        size = batch["batch"].bincount()
        first = size.cumsum(0) - size
        rows = len(size)
        wrong = (torch.arange(rows) * self.s.graphs) % 1 < self.s.graphs
        wrong = wrong & (torch.arange(rows) > 0)
        back = torch.where(wrong, size.roll(1), 0)
        source, target = batch["edge_index"]
        source = source - back[batch["batch"][target]]
        assert (source >= 0).all() and int(first[-1]) >= 0
        return batch | {"edge_index": torch.stack((source, target))}


class TruncationDropsAnswers(ChatRun, Fault):
    """max_length is shorter than many questions: their rows are full, without
    answer and EOS. A batch of such rows alone has a loss of 0/0."""
    id, root_class = "F33", "truncation-drops-target"
    also = ["loss-mask-all-ignored"]
    families = (*LANGUAGE, "s2s", "ctc", "clip", "moe", "det",
                "gnn", "tts", "dpo", *PAIR_10, "vlm", "kws", "bc", "ner", "sbert")
    families = (*families, "esm",
                "qa", "xenc",
                "fcst",
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
                "tasnet",
                "pyannote",
                "sft",
                "cap",
                "lora",
                "rew",
                "voc",
                "sasrec",
                "dream",
                "stylegan",
                "depth",
                "compress",
                "edsr",
                "flow",
                "raft",
                "loftr",
                "iql",
                "dpolicy",
                "sam",
                "pose3d",
                "ocr",
                "whisper",
                "megatron",
                "summ")
    severities = (dict(low=-30, high=12), dict(low=-20, high=36),
                  dict(low=-6, high=90))

    def make_source(self, seed):
        if self.family == "ctc":  # the sound is whole, its transcript not
            self.also = []
            self.user["max_transcript_length"] = limit = 6 - 2 * self.level
            return self.utterances(seed, limit=limit)
        if self.family == "clip":  # a caption ends early, its image does not
            self.also = []
            self.user["max_length"] = limit = 6 - self.level
            return self.captioned(seed, limit=limit)
        if self.family == "det":  # a batch has one list of boxes, of a size
            self.also = []
            limit = (12, 8, 4)[self.level]
            self.severity = dict(limit=limit)
            self.user["max_boxes_per_batch"] = limit
            return super().make_source(seed)
        if self.family == "tts":  # the text is whole, its recording not
            self.also = []
            limit = (28, 20, 14)[self.level]
            self.severity = dict(limit=limit)
            self.user["max_mel_len"] = limit
            return super().make_source(seed)
        if self.family == "point":  # nobody shuffles what lies from low to high
            self.also = []
            limit = (64, 48, 32)[self.level]
            self.severity = dict(limit=limit)
            self.user["max_points"] = limit
            return super().make_source(seed)
        if self.family == "kws":  # a word that begins late is not heard
            self.also = []
            limit = (22, 16, 11)[self.level]
            self.severity = dict(limit=limit)
            self.user["max_frames"] = limit
            return super().make_source(seed)
        if self.family == "moe":  # examples are packed when they are cut
            self.also = ["eos-missing-in-targets"]
            self.user["max_length"] = limit = (16, 12, 9)[self.level]
            return self.instructions(seed, limit=limit)
        if self.family == "s2s":
            self.also = [*type(self).also, "eos-missing-in-targets"]
            self.user["max_target_length"] = limit = 9 - 3 * self.level
            return self.sentences(seed, limit=limit)
        if self.family == "t5":  # validation has a limit of its own
            limit = (7, 5, 4)[self.level]
            self.severity = dict(limit=limit)
            self.user |= {"max_target_length": limit,
                          "val_max_target_length": self.context}
            return self.texts(seed, limit=None if seed == 9 else limit)
        if self.family == "summ":  # as here
            self.also = [*type(self).also, "eos-missing-in-targets"]
            self.user |= {"max_target_length": self.s.limit,
                          "valid_max_target_length": self.context}
            return self.reports(
                seed, limit=None if seed == 9 else self.s.limit)
        if self.family == "whisper":  # and here
            self.also = [*type(self).also, "eos-missing-in-targets"]
            self.user |= {"max_label_length": self.s.limit,
                          "eval_max_label_length": self.context}
            return self.recordings(
                seed, limit=None if seed == 9 else self.s.limit)
        if self.family == "sft":  # as here
            self.also = [*type(self).also, "eos-missing-in-targets"]
            self.user |= {"max_length": self.s.limit,
                          "eval_max_length": self.context}
            return self.chats(
                seed, limit=None if seed == 9 else self.s.limit)
        if self.family == "megatron":  # of a document, before it is packed
            self.also = ["eos-missing-in-targets"]
            self.user["max_document_length"] = self.s.limit
            return self.corpus(
                seed, limit=None if seed == 9 else self.s.limit)
        if self.family == "cap":  # a caption ends early, with its SEP
            self.also = []
            self.user |= {"max_txt_len": self.s.limit,
                          "eval_max_txt_len": self.context}
            return self.pictured(
                seed, limit=None if seed == 9 else self.s.limit)
        if self.family == "vlm":  # pictures count, too
            self.also = [*type(self).also, "eos-missing-in-targets"]
            limit = (16, 15, 14)[self.level]
            self.severity = dict(limit=limit)
            self.user["model_max_length"] = limit
            return self.talks(seed, limit=None if seed == 9 else limit)
        if self.family == "bc":  # what ends early has no bin
            self.also = []
            limit = (6, 4, 3)[self.level]
            self.severity = dict(limit=limit)
            self.user["max_episode_frames"] = limit
            return self.shown(seed, limit=None if seed == 9 else limit)
        if self.family == "ner":  # validation has a limit of its own
            self.also = []
            limit = (10, 8, 6)[self.level]
            self.severity = dict(limit=limit)
            self.user |= {"max_seq_length": limit,
                          "max_eval_seq_length": self.context}
            return self.tagged(seed, limit=None if seed == 9 else limit)
        if self.family == "sbert":  # of the model, in validation as well
            self.also = []
            self.user["max_seq_length"] = self.s.limit
            return self.triplets(seed, limit=self.s.limit)
        if self.family == "xenc":  # as it is of this one
            self.also = []
            self.user["max_length"] = self.s.limit
            return self.pairs(seed, limit=self.s.limit)
        if self.family == "sasrec":  # and of this one, whose end is lost
            self.also = []
            self.user["MAX_ITEM_LIST_LENGTH"] = self.s.limit
            return self.lists(seed, limit=self.s.limit)
        if self.family == "lora":  # and of this one, whose verdict is last
            self.also = []
            self.user["max_length"] = self.s.limit
            return self.reviews(seed, limit=self.s.limit)
        if self.family == "rew":  # and of this one, which reads the end
            self.also = []
            self.user["max_length"] = self.s.limit
            return self.comparisons(seed, limit=self.s.limit)
        if self.family == "esm":  # so it is here
            self.also = []
            self.user["max_seq_length"] = self.s.limit
            return self.proteins(seed, limit=self.s.limit)
        if self.family == "qa":  # validation has a limit of its own
            self.also = []
            self.user |= {"max_seq_length": self.s.limit,
                          "max_eval_seq_length": self.context}
            return self.passages(
                seed, limit=None if seed == 9 else self.s.limit)
        if self.family == "dpo":  # what is preferred is the whole answer
            self.also = []
            limit = (4, 3, 2)[self.level]
            self.severity = dict(limit=limit)
            self.user["max_completion_length"] = limit
            return self.pairs(seed, limit=limit)
        if self.family == "fcst":  # of a window; validation has all
            self.also = []
            self.user["max_window_length"] = self.context + self.s.limit
            return super().make_source(seed)
        if self.family == "nequip":  # of a cluster; validation has all
            self.also = []
            self.user["max_num_atoms"] = self.s.limit
            return super().make_source(seed)
        if self.family == "dream":  # of an episode; validation has all
            self.also = []
            self.user["dataset_episode_length"] = self.s.limit
            return self.replay(
                seed, **{} if seed == 9 else {"limit": self.s.limit})
        if self.family == "iql":  # as here, and so steps are alone
            self.also = []
            self.user["max_episode_steps"] = self.s.limit
            return self.buffer(
                seed, **{} if seed == 9 else {"limit": self.s.limit})
        if self.family == "dpolicy":  # as here: what is left is padded
            self.also = []
            self.user["max_episode_steps"] = self.s.limit
            return self.windows(
                seed, **{} if seed == 9 else {"limit": self.s.limit})
        if self.family == "voc":  # recordings are, mels are not
            self.also = []
            self.user["max_audio_samples"] = self.s.limit
            return super().make_source(seed)
        if self.family == "ocr":  # transcripts are, pictures are not
            self.also = []
            self.user["max_train_text_length"] = self.s.limit
            return super().make_source(seed)
        if self.family == "pyannote":  # turns are, sound is not
            self.also = []
            self.user["max_annotated_frames"] = self.s.limit
            return super().make_source(seed)
        if self.family == "tasnet":  # sources are, mixtures are not
            self.also = []
            self.user["max_source_samples"] = self.s.limit
            return super().make_source(seed)
        if self.family in ("kpt",  # padded again; validation is whole
                           "proto",
                           "timm",
                           "reid",
                           "depth",
                           "compress",
                           "edsr",
                           "flow",
                           "raft",
                           "anomalib",
                           "loftr",
                           "sam",
                           "stylegan"):
            self.also = []
            self.user["max_rows"] = self.s.limit
            return super().make_source(seed)
        if self.family in ("pose3d",  # padded again; validation is whole
                           "panns",
                           "stgcn"):
            self.also = []
            self.user["max_frames"] = self.s.limit
            return super().make_source(seed)
        if self.family == "yolo":  # a batch has one list of boxes, as in det
            self.also = []
            self.user["max_boxes_per_batch"] = self.s.limit
            return super().make_source(seed)
        if self.family == "ecapa":  # who begins later is not heard
            self.also = []
            self.user["max_frames"] = self.s.limit
            return super().make_source(seed)
        if self.family == "gnn":  # the property is the whole molecule's
            self.also = []
            self.user["max_num_nodes"] = limit = (16, 12, 9)[self.level]
            self.severity = dict(limit=limit)
            return self.molecules(seed, limit=limit)
        lengths = self.context + self.s.low, self.context + self.s.high
        if self.family == "ssm":
            return self.chats(seed, lengths=lengths)
        return sources.Chat(seed, shape(self), lengths)

    def spoil_batch(self, i, batch):
        if self.family == "fcst":
            return batch if i < 0 else self.shortened(batch, self.s.limit)
        if self.family == "nequip":
            return batch if i < 0 else self.cut_to(batch, self.s.limit)
        if self.family in ("kpt",
                           "proto",
                           "timm",
                           "reid",
                           "depth",
                           "compress",
                           "edsr",
                           "flow",
                           "raft",
                           "anomalib",
                           "loftr",
                           "sam",
                           "stylegan"):
            return batch if i < 0 else self.cut_below(batch, self.s.limit)
        if self.family in ("pose3d",
                           "panns",
                           "stgcn"):
            return batch if i < 0 else self.cut_frames(batch, self.s.limit)
        if self.family == "yolo":
            return batch if i < 0 else self.first_boxes(batch, self.s.limit)
        if self.family == "ecapa":
            return self.first_frames(batch, self.s.limit)
        if self.family in ("pyannote",
                           "ocr"):
            return batch if i < 0 else self.cut_labels(batch, self.s.limit)
        if self.family in ("voc",
                           "tasnet"):
            return batch if i < 0 else self.cut_short(batch, self.s.limit)
        if self.family == "tts" and i >= 0:
            return tts.cut_short(batch, self.s.limit)
        if self.family == "kws":  # what is left is padded again
            x = batch["spectrogram"].clone()
            x[:, self.s.limit:] = 0.0
            return batch | {"spectrogram": x}
        if self.family == "point" and i >= 0:
            low = batch["points"][..., 2].argsort(1)[:, :self.s.limit]
            return {k: points.picked(t, low) for k, t in batch.items()}
        if self.family != "det" or i < 0:
            return batch
        labels = batch["labels"]
        there = labels != NOTHING
        kept = there.flatten().cumsum(0).view_as(labels) <= self.s.limit
        return batch | {"labels": torch.where(kept, labels, NOTHING),
                        "boxes": batch["boxes"] * kept[..., None]}


FAULTS = (DataOrder, SmallSetRepeated, EvalInTraining, CorruptBatch, BitFlip,
          TokenIdsClamped, PackingContaminates, TruncationDropsAnswers)
