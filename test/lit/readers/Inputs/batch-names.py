"""Dumps of one batch each, or of two, under the names of several trainers."""
import json
import os
import struct

SIZES = {"I64": 8, "F32": 4}


def write(folder, step, tensors):
    """A safetensors file of { name: (type, shape, values) }; values are 0, 1, ... where none are given."""
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b""
    for name, (kind, shape, *values) in tensors.items():
        count = 1
        for size in shape:
            count *= size
        numbers = values[0] if values else [i % 7 for i in range(count)]
        begin = len(data)
        data += struct.pack(f"<{count}{'q' if kind == 'I64' else 'f'}", *numbers)
        header["batch." + name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/step{step:06d}.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def ints(*shape):
    return "I64", list(shape)


def floats(*shape):
    return "F32", list(shape)


write("nanogpt", 0, {"x": ints(2, 8), "y": ints(2, 8)})
write("t5x", 0, {"encoder_input_tokens": ints(2, 8), "decoder_input_tokens": ints(2, 6),
                 "decoder_target_tokens": ints(2, 6)})
write("fairseq", 0, {"src_tokens": ints(2, 8), "prev_output_tokens": ints(2, 6), "target": ints(2, 6)})
write("detectron", 0, {"image": floats(2, 3, 8, 8), "gt_boxes": floats(2, 5, 4), "gt_classes": ints(2, 5)})
write("segment", 0, {"x": floats(2, 3, 8, 8), "y": ints(2, 8, 8)})
write("speech", 0, {"text": ints(2, 4), "text_lens": ("I64", [2], [3, 4]), "spec_lens": ("I64", [2], [6, 6]),
                    "durs": ("I64", [2, 4], [3, 1, 2, 0, 2, 2, 1, 1]), "spec": floats(2, 6, 3)})
write("pairs", 0, {"chosen_ids": ints(2, 8), "reject_ids": ints(2, 8)})
write("forecast", 0, {"insample_y": floats(2, 12), "outsample_y": floats(2, 4)})
write("ogb", 0, {"node_feat": ints(5, 1), "edge_index": ints(2, 8), "batch": ("I64", [5], [0, 0, 1, 1, 1]),
                 "energy": floats(2)})
# Features of a table and a class for each row; the ids of users beside those of items, three each.
write("table", 0, {"x": ints(16, 8), "y": ints(16), "tokens": ints(16, 3), "target": ints(16, 3)})
# Once a class for each place, once a class for each row: y is not one thing.
write("twice", 0, {"x": ints(4, 8), "y": ints(4, 8)})
write("twice", 1, {"x": ints(4, 8), "y": ints(4)})
