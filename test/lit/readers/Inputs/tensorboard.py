"""Writes event files as TensorBoard's writers do.

usage: tensorboard.py FOLDER

Framing: tensorboard/summary/writer/record_writer.py. Messages: tensorboard/compat/proto/{event,summary,tensor,types}.proto. Old style
scalars are those of torch/utils/tensorboard/summary.py scalar(), new style ones of its tensor_proto() and of tf.summary.scalar.
"""

import pathlib
import struct
import sys

from wire import double, float32, masked, number, text

START = 1767603597.5
FLOAT, DOUBLE, INT32, STRING, INT64, BFLOAT16, HALF = 1, 2, 3, 7, 9, 14, 19


def record(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def event(step, *values, wall=None):
    out = double(1, START + step if wall is None else wall)
    if step:  # proto3 leaves zeros out
        out += number(2, step)
    return record(out + text(5, b"".join(text(1, v) for v in values)))


def version():
    return record(double(1, START) + text(3, "brain.Event:2"))


def metadata(plugin, content=b""):
    return text(9, text(1, text(1, plugin) + (text(2, content) if content else b"")))


def simple(tag, value):
    return text(1, tag) + float32(2, value)


def tensor(tag, dtype, body, plugin="scalars"):
    return text(1, tag) + text(8, number(1, dtype) + text(2, b"") + body) + (metadata(plugin) if plugin else b"")


def packed(field, form, *values):
    return text(field, b"".join(struct.pack(form, v) for v in values))


def setting(key, value):
    if isinstance(value, bool):
        value = number(4, value)
    elif isinstance(value, str):
        value = text(3, value)
    else:
        value = double(2, value)
    return text(1, text(1, key) + text(2, value))


def hparams(**settings):
    """SummaryMetadata with HParamsPluginData{session_start_info=3{hparams=1}}."""
    info = b"".join(setting(k, v) for k, v in settings.items())
    return text(1, "_hparams_/session_start_info") + metadata("hparams", text(3, info))


def write(path, *records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(records))


def sample(steps=100):
    """A plain run."""
    out = [version()]
    for step in range(steps):
        out.append(event(step, simple("train/loss", 4.0 - step / 64)))
        out.append(event(step, simple("train/learning_rate", 0.25)))
    return b"".join(out)


def main():
    folder = pathlib.Path(sys.argv[1])
    name = "events.out.tfevents.1767603597.host.42.0"
    # Every form of one number; 1.5 is exact in all the floating ones.
    write(folder / "forms" / name, version(),
          event(1, simple("simple", 1.5)),
          event(1, tensor("float-list", FLOAT, packed(5, "<f", 1.5))),
          event(1, tensor("float-unpacked", FLOAT, float32(5, 1.5))),
          event(1, tensor("float-content", FLOAT, text(4, struct.pack("<f", 1.5)))),
          event(1, tensor("double-list", DOUBLE, packed(6, "<d", 1.5))),
          event(1, tensor("double-content", DOUBLE, text(4, struct.pack("<d", 1.5)))),
          event(1, tensor("half-list", HALF, text(13, b"\x80\x7c"))),          # 0x3e00 as a varint
          event(1, tensor("half-content", HALF, text(4, struct.pack("<e", 1.5)))),
          event(1, tensor("bfloat-list", BFLOAT16, text(13, b"\xc0\x7f"))),    # 0x3fc0
          event(1, tensor("bfloat-content", BFLOAT16, text(4, b"\xc0\x3f"))),
          event(1, tensor("int-list", INT32, text(7, b"\x07"))),
          event(1, tensor("int-negative", INT64, number(10, -7))),
          event(1, tensor("int-content", INT64, text(4, struct.pack("<q", -7)))),
          event(1, simple("nan", float("nan"))), event(1, simple("inf", float("-inf"))),
          # What is no scalar.
          event(1, tensor("pair", FLOAT, packed(5, "<f", 1.5, 2.5))),
          event(1, tensor("words", STRING, text(8, "hello"), "text")),
          event(1, text(1, "weights") + text(5, double(1, 0.0))),
          event(1, text(1, "sample") + text(4, number(1, 8))),
          event(1, tensor("curve", FLOAT, packed(5, "<f", 1.5), "pr_curves")),
          event(2, tensor("curve", FLOAT, packed(5, "<f", 1.5), "")))
    # Two names of the loss at one step: the exact one has it. Megatron-LM's curve over samples has no steps.
    write(folder / "names" / name, version(),
          event(10, simple("nll_loss", 3.0)), event(10, simple("loss", 2.0)), event(10, simple("grad-norm", 0.5)),
          event(20, simple("nll_loss", 2.5)), event(20, simple("loss", 1.5)), event(20, simple("step", 99.0)),
          event(5120, simple("lm loss vs samples", 1.5)),
          event(30, simple("loss", 1.25)))
    # Transformers' TensorBoardCallback: a last step, and the means over the run at the same step.
    write(folder / "transformers" / name, version(), event(30, simple("train/loss", 1.5)), event(30, simple("train/grad_norm", 0.5)),
          event(30, simple("eval/loss", 1.75)), event(30, simple("train/train_runtime", 60.0)), event(30, simple("train/train_loss", 2.5)))
    write(folder / "hparams" / name, version(),
          event(0, hparams(lr=0.0003, layers=12.0, optimizer="adamw", compile=True)), event(1, simple("loss", 1.0)))
    # A run that was resumed at step 3: the later file goes on, and its steps 3 and 4 count.
    write(folder / "resumed" / "events.out.tfevents.1767603000.host.1.0", version(),
          *(event(s, simple("loss", 10.0 + s)) for s in range(6)))
    write(folder / "resumed" / "events.out.tfevents.1767604000.host.2.0", version(),
          *(event(s, simple("loss", 20.0 + s)) for s in range(3, 5)))
    # Keras: two folders of one run.
    write(folder / "keras" / "train" / name, version(), *(event(s, simple("epoch_loss", 2.0 - s)) for s in range(2)))
    write(folder / "keras" / "validation" / name, version(), *(event(s, simple("epoch_loss", 3.0 - s)) for s in range(2)))
    # Steps that go back inside a file.
    write(folder / "back" / name, version(), *(event(s, simple("loss", 1.0)) for s in (1, 2, 3, 2, 3)))

    # Damage. Records are 16 bytes and their data.
    good = [version()] + [event(s, simple("loss", float(s))) for s in range(1, 6)]
    data = bytearray(b"".join(good))
    data[sum(map(len, good[:3])) + 12 + 2] ^= 1  # the data of step 3
    (folder / "damaged").mkdir()
    (folder / "damaged" / "data").write_bytes(data)
    data = bytearray(b"".join(good))
    data[sum(map(len, good[:3]))] ^= 64  # the length of step 3
    (folder / "damaged" / "length").write_bytes(data)
    (folder / "damaged" / "growing").write_bytes(b"".join(good)[:-7])
    (folder / "damaged" / "growing-head").write_bytes(b"".join(good[:5]) + good[5][:9])
    (folder / "damaged" / "unused").write_bytes(good[0])
    # A data set in the same framing is none of ours.
    (folder / "damaged" / "train.tfrecord").write_bytes(record(b"\x0a\x05hello") * 4)


if __name__ == "__main__":
    main()
