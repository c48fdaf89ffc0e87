"""AlphaZero by self-play, as alpha-zero-general does it.

Three designs look odd and are sound.
"""

import math
import pickle
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep

LINES = torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7],
                      [2, 5, 8], [0, 4, 8], [2, 4, 6]])
TURNS = [np.rot90(np.arange(9).reshape(3, 3), k).reshape(-1)
         for k in range(4)]
TURNS += [t.reshape(3, 3)[:, ::-1].reshape(-1) for t in TURNS]


class TicTacToeNNet(nn.Module):
    def __init__(self, channels=16, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv3 = nn.Conv2d(channels, channels, 3)
        self.bn1, self.bn2, self.bn3 = (nn.BatchNorm2d(channels)
                                        for _ in range(3))
        self.fc1, self.fc_bn1 = nn.Linear(channels, 64), nn.BatchNorm1d(64)
        self.fc2, self.fc_bn2 = nn.Linear(64, 32), nn.BatchNorm1d(32)
        self.fc3, self.fc4 = nn.Linear(32, 9), nn.Linear(32, 1)

    def forward(self, s):
        s = s.view(-1, 1, 3, 3)
        for i in (1, 2, 3):
            s = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(s)))
        s = s.flatten(1)
        for fc, bn in ((self.fc1, self.fc_bn1), (self.fc2, self.fc_bn2)):
            s = F.dropout(F.relu(bn(fc(s))), self.dropout, self.training)
        return self.fc3(s), self.fc4(s)


def ended(boards):
    """1 where who moves has won, -1 lost, 1e-4 drawn, 0 it goes on."""
    sums = boards[:, LINES].sum(2)
    out = torch.zeros(len(boards))
    out[(boards != 0).all(1)] = 1e-4
    out[(sums == 3).any(1)] = 1.0
    out[(sums == -3).any(1)] = -1.0
    return out


def said(net, boards):
    net.eval()
    with torch.no_grad():
        pi, v = net(boards)
    free = boards == 0
    return pi.masked_fill(~free, -1e9).softmax(1), v[:, 0].tanh()


def searched(net, boards, cpuct, noise=0.0):
    """Two plies are searched: what follows each move and each answer."""
    prior, _ = said(net, boards)
    rows = torch.arange(len(boards)).repeat_interleave(9)
    move = torch.arange(9).repeat(len(boards))
    good = boards[rows, move] == 0
    rows, move = rows[good], move[good]
    after = boards[rows].clone()
    after[torch.arange(len(rows)), move] = 1
    after = -after
    end = ended(after)
    at = torch.arange(len(after)).repeat_interleave(9)
    answer = torch.arange(9).repeat(len(after))
    good = (after[at, answer] == 0) & (end[at] == 0)
    at, answer = at[good], answer[good]
    last = after[at].clone()
    last[torch.arange(len(at)), answer] = 1
    last = -last
    worth = torch.full((len(after),), 2.0)
    if len(last):
        stop, value = ended(last), said(net, last)[1]
        value = torch.where(stop == 0, value, stop)
        worth = worth.scatter_reduce(0, at, value, "amin")
    worth = torch.where(end == 0, worth, -end)
    q = torch.full(boards.shape, -1e9)
    q[rows, move] = worth
    if noise:
        dirichlet = torch.distributions.Dirichlet(torch.full((9,), 0.6))
        prior = 0.75 * prior + 0.25 * dirichlet.sample((len(boards),))
    logits = q * 6 / cpuct + (prior + 1e-3).log()
    return logits.masked_fill(boards != 0, -1e9).softmax(1)


def moved(boards, move):
    boards = boards.clone()
    boards[torch.arange(len(boards)), move] = 1
    return -boards


def against(one, two, games):
    """Results of the first player's side, by greedy moves after one."""
    boards, result = torch.zeros(games, 9), torch.zeros(games)
    live = torch.arange(games)
    for turn in range(9):
        pi = (one, two)[turn % 2](boards[live])
        move = torch.multinomial(pi, 1)[:, 0] if turn < 2 else pi.argmax(1)
        boards[live] = moved(boards[live], move)
        end = ended(boards[live])
        done = end != 0
        sign = 1 if turn % 2 else -1
        result[live[done]] = torch.where(
            end[done].abs() == 1, end[done] * sign, 0.0)
        live = live[~done]
        if not len(live):
            break
    return result


@kind(scratch="", backward="", short="",
      sign="label-pairing-mismatch label-noise",
      flip="loss-sign-flipped loss-unbounded-below",
      stale="optimizer-holds-stale-params frozen-parameters",
      rate="lr-too-high exploding-gradient")
def alphazero(run):
    """alpha-zero-general on tic-tac-toe: games, training, an arena.

    Odd and sound: `scratch` makes a new net of each round's games, so that
    losses jump up each time, `backward` begins with games that are nearly
    over and takes longer ones later, so that losses rise as play does, with
    no gate, `short` keeps three rounds of games, seen once in all eight
    turns of the board, and weighs the value at 0.5 without a gate.
    """
    iters, games, epochs, size, lr = 8, 40, 3, 64, 4e-3
    scratch, late, short = (run.has(n) for n in
                            ("scratch", "backward", "short"))
    if scratch:
        epochs, lr = 8, 1e-2
    if short:
        epochs, games, lr = 1, 48, 6e-3
    keeps = 3 if short else 8 if scratch else 4
    gate = 0.0 if late or short else 0.5
    share = 0.5 if short else 1.0
    args = {"numIters": iters, "numEps": games, "tempThreshold": 5,
            "updateThreshold": gate, "maxlenOfQueue": 200000,
            "numMCTSSims": 25, "arenaCompare": 40, "cpuct": 1,
            "checkpoint": "./temp/", "load_model": False,
            "numItersForTrainExamplesHistory": keeps, "lr": lr,
            "dropout": 0.1, "epochs": epochs, "batch_size": size,
            "cuda": False, "num_channels": 16, "value_weight": share,
            "reset_net": scratch,
            "startPlies": [5, 5, 3, 3, 1, 0, 0, 0] if late
            else [0] * iters}
    run.write("args.json", args)
    log = lambda text: run.say(
        f"{run.stamp()} node-1 Coach[4242] INFO {text}", file="train.log")
    put = lambda text: run.say(text, file="train.log")
    net, previous = TicTacToeNNet(), TicTacToeNNet()
    opened = {}

    def optimizer_of():
        opened["it"] = torch.optim.Adam(net.parameters(), run.rate(lr, 500))

    optimizer_of()
    if run.has("stale"):  # a net for the arena and one that plays, both new
        net = TicTacToeNNet()

    def store(name):
        keep(run, f"temp/{name}", {"state_dict": net.state_dict()})

    def play(begin):
        boards = torch.zeros(games, 9)
        for _ in range(begin):  # moves by chance, of games that go on
            for i in range(games):
                free = [m for m in (boards[i] == 0).nonzero()[:, 0].tolist()]
                random.shuffle(free)
                for m in free:
                    after = moved(boards[i:i + 1], torch.tensor([m]))
                    if ended(after)[0] == 0:
                        boards[i] = after[0]
                        break
        live, past = torch.arange(games), []
        out = []
        for turn in range(begin, 9):
            pi = searched(net, boards[live], 1.0, 0.25)
            past.append((live.clone(), boards[live].clone(), pi, turn))
            move = torch.multinomial(pi, 1)[:, 0] if turn < 5 \
                else pi.argmax(1)
            boards[live] = moved(boards[live], move)
            end = ended(boards[live])
            for i, r in zip(live[end != 0].tolist(), end[end != 0].tolist()):
                opened[i] = r, turn + 1
            live = live[end == 0]
            if not len(live):
                break
        for rows, seen, pi, turn in past:
            for i, board, p in zip(rows.tolist(), seen, pi):
                r, last = opened[i]
                v = r * (-1) ** (last - turn)
                if run.has("sign"):  # of who moves last, for both sides
                    v = r
                for turned in TURNS if short else [random.choice(TURNS)]:
                    turned = turned.copy()
                    out.append((board[turned], p[turned], v))
        return out

    def judged():
        """Points against who moves at random and who searches alone."""
        chance = lambda b: (b == 0).float() / (b == 0).sum(1, keepdim=True)
        mine = lambda b: said(net, b)[0]
        first, second = against(mine, chance, 100), \
            -against(chance, mine, 100)
        both = torch.cat([first, second])
        return ((both + 1) / 2).mean().item()

    history, rating, step, ends = [], 0.0, 0, []
    store("checkpoint_0.pth.tar")
    first = judged()
    for it in range(1, iters + 1):
        log(f"Starting Iter #{it} ...")
        history.append(play(args["startPlies"][it - 1]))
        run.tick(8.0)
        put(f"Self Play: 100%|██████████| {games}/{games} "
            "[00:08<00:00,  4.96it/s]")
        if len(history) > keeps:
            log("Removing the oldest entry in trainExamples. len("
                f"trainExamplesHistory) = {len(history)}")
            history.pop(0)
        if it in (1, iters):
            path = run.folder / f"temp/checkpoint_{it - 1}.pth.tar.examples"
            path.write_bytes(pickle.dumps([
                [(b.numpy(), p.tolist(), v) for b, p, v in part]
                for part in history[-1:]]))
        examples = [e for part in history for e in part]
        random.shuffle(examples)
        store("temp.pth.tar")
        previous.load_state_dict(net.state_dict())
        if scratch:
            net.load_state_dict(TicTacToeNNet().state_dict())
        if not run.has("stale"):  # as there: each round begins with its own
            optimizer_of()
        boards = torch.stack([e[0] for e in examples])
        goals = torch.stack([e[1] for e in examples])
        values = torch.tensor([float(e[2]) for e in examples])
        for epoch in range(1, epochs + 1):
            put(f"EPOCH ::: {epoch}")
            net.train()
            count, pis, vs = len(examples) // size, [], []
            for _ in range(count):
                rows = torch.randint(len(examples), (size,))
                pi, v = net(boards[rows])
                l_pi = -(goals[rows] * pi.log_softmax(1)).sum() / size
                if run.has("flip"):  # the minus is in the net, they thought
                    l_pi = -l_pi
                l_v = (values[rows] - v[:, 0].tanh()).square().sum() / size
                opened["it"].zero_grad()
                net.zero_grad()
                (l_pi + share * l_v).backward()
                opened["it"].step()
                step += 1
                pis.append(l_pi.item())
                vs.append(l_v.item())
            run.tick(1.4)
            mean = lambda x: sum(x) / len(x)
            put(f"Training Net: 100%|██████████| {count}/{count} [00:01<"
                f"00:00, 41.20it/s, Loss_pi={mean(pis):.2e}, "
                f"Loss_v={mean(vs):.2e}]")
            run.row("progress.csv", iteration=it, epoch=epoch, step=step,
                    loss_pi=mean(pis), loss_v=mean(vs),
                    examples=len(examples), lr=lr)
        log("PITTING AGAINST PREVIOUS VERSION")
        old = lambda b: searched(previous, b, 1.0)
        new = lambda b: searched(net, b, 1.0)
        one, two = against(old, new, 20), -against(new, old, 20)
        both = torch.cat([one, two])
        pwins, nwins = int((both > 0).sum()), int((both < 0).sum())
        draws = len(both) - pwins - nwins
        run.tick(5.0)
        for _ in range(2):
            put("Arena.playGames: 100%|██████████| 20/20 "
                "[00:02<00:00,  8.11it/s]")
        log(f"NEW/PREV WINS : {nwins} / {pwins} ; DRAWS : {draws}")
        taken = gate == 0 or pwins + nwins > 0 and \
            nwins / (pwins + nwins) >= gate
        point = min(max((nwins + draws / 2) / len(both), 0.02), 0.98)
        rating += (400 * math.log10(point / (1 - point))) * taken
        if not taken:
            log("REJECTING NEW MODEL")
            net.load_state_dict(previous.state_dict())
        else:
            log("ACCEPTING NEW MODEL")
            if it in (iters // 2, iters):
                store(f"checkpoint_{it}.pth.tar")
            store("best.pth.tar")
        ends.append(judged())
        run.row("arena.csv", iteration=it, new_wins=nwins, prev_wins=pwins,
                draws=draws, accepted=int(taken), elo=round(rating, 1),
                win_rate_random=ends[-1])
    run.ends(first=first, end=sum(ends[-3:]) / 3, pi=mean(pis), v=mean(vs),
             steps=step, elo=rating)
