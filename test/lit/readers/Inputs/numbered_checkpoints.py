"""Checkpoints that are numbered, and do not say by what."""
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
from torch_file import floats, save

out = sys.argv[1]


def write(path, thing):
    path = os.path.join(out, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    save(path, thing)


def weights(x):
    return {"fc.weight": floats(x, x, shape=(1, 2))}


def adam(updates):
    return {"state": {0: {"step": floats(updates, shape=()),
                          "exp_avg": floats(0.5, 0.5, shape=(1, 2))}},
            "param_groups": [{"lr": 0.1, "params": [0]}]}


for n in (500, 1000):
    # guided-diffusion: a file each for weights, average and optimizer.
    write("guided/model%06d.pt" % n, weights(n))
    write("guided/ema_0.9999_%06d.pt" % n, weights(-n))
    write("guided/opt%06d.pt" % n, adam(n))
for n in (1, 2):
    # DINO and timm: the number is that of the epoch, 50 updates each.
    write("dino/checkpoint%04d.pth" % n,
          {"student": weights(n), "optimizer": adam(50 * n), "epoch": n})
    # Epochs from 0, and a file that names no optimizer beside each.
    write("zero/epoch_%d.pt" % (n - 1),
          {"model": weights(n), "optimizer": adam(40 * n), "epoch": n - 1})
    write("zero/ema_epoch_%d.pt" % (n - 1), weights(-n))
    write("plain/epoch_%d.pt" % n, {"model": weights(n)})
    # Several models of one run, and of no time.
    write("folds/model_fold%d.pt" % n, {"model": weights(n)})
    write("sizes/resnet%d.pt" % (n * 50),
          {"model": {"fc.weight": floats(*[1] * n, shape=(1, n))}})
    # Scores, rates, dates, resolutions, clients, and a tensor a file.
    write("scores/best_0.9%d.pth" % n, {"model": weights(n)})
    write("dates/model_2024010%d.pt" % n, {"model": weights(n)})
    write("sides/ldm_%d.pt" % (256 * n), {"model": weights(n)})
    write("clients/client_10%d.pt" % n, {"model": weights(n)})
    write("samples/model_000%d.pt" % n, floats(n, n))
    # Runs of their own, of one update each.
    write("runs/model_00%d.pt" % n,
          {"model": weights(n), "optimizer": adam(1)})
    # The folder has the number, and the file another one.
    write("folder/%d/model_bf16.pt" % (100 * n), {"model": weights(n)})
# Named by what they are: the epochs inside tell the order.
write("named/last.pt", {"model": weights(2), "current_epoch": 30})
write("named/best.pt", {"model": weights(1), "current_epoch": 20})
for n, updates in ((2, 100), (6, 100)):
    # The optimizer began anew on the way: its count tells no step.
    write("anew/epoch_%d.pt" % n,
          {"model": weights(n), "optimizer": adam(updates), "epoch": n})
for n in (10, 20):
    # Composer, below keys of its own.
    write("composer/ep1-ba%d-rank0.pt" % n,
          {"state": {"model": weights(n),
                     "timestamp": {"Timestamp": {"epoch": 1, "batch": n}}},
           "rng": []})
