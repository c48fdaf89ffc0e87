"""Writes logs that hold carriage returns and colours, and tables in Excel's encodings.

usage: trainer_bars.py FOLDER
"""

import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[1])
FOLDER.mkdir(parents=True, exist_ok=True)


def write(name, text):
    FOLDER.joinpath(name).write_bytes(text if isinstance(text, bytes) else text.encode())


def bar(at, of, postfix="", front=""):
    return f"{front}{100 * at // of:3d}%|{'█' * (10 * at // of):10s}| {at}/{of} [00:01<00:19,  2.00it/s{postfix}]"


# Lightning-AI/pytorch-lightning src/lightning/pytorch/callbacks/progress/tqdm_progress.py: the bar of an epoch.
write("lightning.log", "\r".join(bar(n, 40, f", v_num=3, train_loss={loss}", f"Epoch {epoch}: ")
                                 for epoch, n, loss in ((0, 0, "4.000"), (0, 2, "2.500"), (0, 4, "2.250"), (1, 2, "nan"))) + "\n")
# tqdm's set_postfix(loss=..., lr=...), and a bar that was drawn after it on the same line.
write("tqdm.log", "\r".join(bar(n, 40, f", loss={loss}, lr=0.001") for n, loss in ((2, "2.5"), (4, "1.5"), (6, "inf"))) +
      "\r" + bar(6, 40) + "\n")
# pytorch/torchtune recipes/full_finetune_distributed.py: pbar.set_description(f"{curr_epoch + 1}|{self.global_step}|Loss: {loss_to_log}")
write("torchtune-bar.log", "\r".join(bar(n, 400, "", f"2|{400 + n}|Loss: {loss}: ") for n, loss in ((10, 1.5), (11, 1.25))) + "\n")
# pytorch/torchtitan torchtitan/components/metrics.py: MetricsProcessor.log() and log_validation(), with torchtitan/tools/utils.py Color.
FRONT = "[rank0]:[titan] 2025-03-12 11:10:21,511 - root - INFO - "
write("torchtitan.log",
      FRONT + "\033[31mstep: 10  \033[32mloss:  7.5000  \033[38;2;180;60;0mgrad_norm:  1.5000  \033[36mmemory: 12.50GiB(15.79%)  "
      "\033[34mtps: 8,192  \033[96mtflops: 48.50  \033[35mmfu: 15.50%\033[39m\n" +
      FRONT + "\033[33mvalidate step: 10  \033[32mloss:  8.2500  \033[36mmemory: 12.50GiB(15.79%)  \033[34mtps: 9,000\033[39m\n")

# What PowerShell's > writes.
write("utf16.log", b"\xff\xfe" + "step 1 loss: 2.5\r\nstep 2 loss: nan\r\n".encode("utf-16-le"))
# Excel's "Unicode text", the same the other way round, cut inside a character, and its CSV where the comma is decimal.
TABLE = "step\tloss\r\n1\t2.5\r\n2\tnan\r\n"
write("utf16le.csv", b"\xff\xfe" + TABLE.encode("utf-16-le"))
write("utf16be.csv", b"\xfe\xff" + TABLE.encode("utf-16-be"))
write("utf16cut.csv", b"\xff\xfe" + TABLE.replace("nan\r\n", "1.5\r\nx").encode("utf-16-le")[:-3])
write("commas.csv", "\ufeffstep;loss;grad_norm\r\n1;2,5;1.234,5\r\n2;0,125;2,25\r\n")
write("thousands.csv", "step;tokens;loss\r\n1;1,024;2\r\n2;2,048;1\r\n")
