"""Faults of no class in `cap`."""

import torch
from torch.nn import functional as F

from ..cap import PAD, SEP, SIZE, VOCAB
from ..sources import IGNORE
from .unclassed import Unclassed


class OfCaptioner(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("cap",)


class RareWordsCount(OfCaptioner):
    """Words of training count by how rare they are, as CIDEr weighs them, but
    to a high power: what ends a caption and how things lie hardly count, and
    of two names a rare one is said."""
    id = "U261"
    severities = (dict(power=2.0), dict(power=3.0), dict(power=6.0))

    def setup(self):
        super().setup()
        self.user |= {"word_weights": "idf", "idf_power": self.s.power}
        labels = self.pictured(7).batch(2000)["labels"]
        count = labels[labels != IGNORE].bincount(minlength=VOCAB)
        rare = torch.where(count > 0, 1.0 / count.clamp_min(1), 0.0)
        self.weight = (rare / rare.max()) ** self.s.power

    def compute_loss(self, i, model, batch):
        scores, labels = model.shifted(model.logits(batch), batch)
        kept = labels != IGNORE
        each = F.cross_entropy(scores[kept], labels[kept], reduction="none",
                               label_smoothing=model.smoothing)
        weight = self.weight[labels[kept]]
        loss = (each * weight).sum() / weight.sum()
        model.tap("loss.output", loss)
        return loss


class WhosePictureIsIt(OfCaptioner):
    """The loss of training is which of some pictures a caption was said of, by
    its likelihood under each, as for retrieval: how people speak need not be
    learned. Validation has the likelihood itself."""
    id = "U262"
    severities = (dict(others=3), dict(others=2), dict(others=1))

    def setup(self):
        super().setup()
        self.user |= {"caption_loss": "contrastive",
                      "negative_images": self.s.others}

    def compute_loss(self, i, model, batch):
        memory, found = model.looked(batch["image"]), []
        for k in range(self.s.others, -1, -1):  # its own one last
            scores, labels = model.shifted(model.decoded(
                batch["input_ids"], memory.roll(k, 0),
                batch["attention_mask"]), batch)
            each = F.cross_entropy(scores.flatten(0, 1), labels.flatten(),
                                   ignore_index=IGNORE, reduction="none")
            found.append(-each.view(labels.shape).sum(1))
        loss = -torch.stack(found, 1).log_softmax(1)[:, -1].mean()
        model.tap("loss.output", loss)
        return loss


class GreyPictures(OfCaptioner):
    """The transforms of a pretraining by contrast are left on: most of the
    training pictures are grey, so that colours must be guessed. Validation has
    them as they are."""
    id = "U263"
    severities = (dict(share=0.85), dict(share=0.95), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["random_grayscale_prob"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        image = batch["image"]
        some = torch.rand(len(image), 1, 1, 1,
                          generator=self.drawn) < self.s.share
        return batch | {"image": torch.where(
            some, image.mean(1, keepdim=True), image)}

    def spoil_val(self, batch):
        return batch


class WordsAhead(OfCaptioner):
    """Targets of training are a word and those that come after it, all alike,
    so that the decoder plans ahead: two, three, or all that are left. What is
    next is told apart from what is later by nothing."""
    id = "U264"
    severities = (dict(words=2), dict(words=3), dict(words=6))

    def setup(self):
        super().setup()
        self.user["lookahead_targets"] = self.s.words

    def compute_loss(self, i, model, batch):
        scores, labels = model.shifted(model.logits(batch), batch)
        each, total, count = scores.log_softmax(-1), 0.0, 0
        kept = (labels != IGNORE).float()
        for k in range(self.s.words):
            later = F.pad(labels[:, k:], (0, k), value=IGNORE)
            there = (later != IGNORE) * kept
            total = total - there * each.gather(
                -1, later.clamp_min(0)[..., None])[..., 0]
            count = count + there
        loss = (total / count.clamp_min(1) * kept).sum() / kept.sum()
        model.tap("loss.output", loss)
        return loss


class Thumbnails(OfCaptioner):
    """To save space pictures were stored as thumbnails and are made larger
    again, in validation as well: of a shape a few dots are left, or one, or
    one of several cells."""
    id = "U265"
    severities = (dict(size=4), dict(size=3), dict(size=2))

    def setup(self):
        super().setup()
        self.user["storage_image_size"] = self.s.size

    def spoil_batch(self, i, batch):
        small = F.interpolate(batch["image"], self.s.size, mode="area")
        return batch | {"image": F.interpolate(small, SIZE, mode="bilinear")}


class WordsSorted(OfCaptioner):
    """Words of the training captions are sorted, as for tags, which a search
    wants in one order; validation has captions as people say them."""
    id = "U266"
    severities = (dict(share=0.8), dict(share=0.95), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user |= {"sort_caption_words": True,
                      "sorted_share": self.s.share}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        ids, labels = batch["input_ids"], batch["labels"]
        some = torch.rand(len(ids), 1, generator=self.drawn) < self.s.share
        last = torch.where(ids == SEP, VOCAB, ids).masked_fill(
            ids == PAD, VOCAB + 1)
        # What has no label in front stays there.
        key = torch.where((labels == IGNORE) & (ids != PAD), -1, last)
        order = torch.where(some, key.argsort(dim=1, stable=True),
                            torch.arange(ids.shape[1]))
        return self.told(batch, ids.gather(1, order))

    def spoil_val(self, batch):
        return batch


FAULTS = (RareWordsCount, WhosePictureIsIt, GreyPictures, WordsAhead,
          Thumbnails, WordsSorted)
