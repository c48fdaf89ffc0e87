"""Control, unpaired pictures, speech, forecasts and instances in the files of
their own trainers, each with odd designs that are sound.

SAC of CleanRL, CycleGAN of its authors, a transducer of icefall, TFT of
pytorch-forecasting, wav2vec 2.0 of fairseq, Mask R-CNN of detectron2. Every
kind returns how well its run ended, measured on what it did not train on.
"""

import copy
import json
import math
import random

import torch
from torch import nn
from torch.nn import functional as F

import culprit_recorder
from kinds.base import kind


def keep(run, file, value):
    """A checkpoint where its trainer puts it."""
    path = run.folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(copy.deepcopy(value), path)


def place(run, *folders):
    for folder in folders:
        (run.folder / folder).mkdir(parents=True, exist_ok=True)


def watch(run, model, optimizer, **config):
    """The recorder as a user puts it into the loop."""
    return culprit_recorder.watch(
        model, optimizer, dir=str(run.folder), every=20, free_seconds=60.0,
        config=config, max_dump_bytes=3 << 20)


# -- Soft actor-critic ------------------------------------------------------


class Masses:
    """Masses on a line that want to rest at the origin."""

    LENGTH = 40

    def __init__(self, count):
        self.state = torch.empty(count, 2).uniform_(-1.5, 1.5)
        self.age = torch.randint(self.LENGTH, (count,))
        self.sums = torch.zeros(count)

    def step(self, action):
        """Next states, rewards, and the returns of what has ended."""
        x, v = self.state.unbind(1)
        v = (v + 0.15 * action[:, 0]).clamp(-2, 2)
        x = (x + 0.15 * v).clamp(-3, 3)
        reward = -(x ** 2 + 0.1 * v ** 2 + 0.01 * action[:, 0] ** 2)
        after = torch.stack([x, v], 1)
        self.age += 1
        self.sums += reward
        done = self.age >= self.LENGTH
        ended = self.sums[done].tolist()
        self.state = after.clone()
        self.state[done] = torch.empty(int(done.sum()), 2).uniform_(-1.5, 1.5)
        self.age[done], self.sums[done] = 0, 0.0
        return after, reward, ended


class SoftQNetwork(nn.Module):
    def __init__(self, wide=64):
        super().__init__()
        self.fc1 = nn.Linear(3, wide)
        self.fc2 = nn.Linear(wide, wide)
        self.fc3 = nn.Linear(wide, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x)))


class Actor(nn.Module):
    def __init__(self, wide=64):
        super().__init__()
        self.fc1 = nn.Linear(2, wide)
        self.fc2 = nn.Linear(wide, wide)
        self.fc_mean = nn.Linear(wide, 1)
        self.fc_logstd = nn.Linear(wide, 1)
        self.register_buffer("action_scale", torch.tensor([2.0]))
        self.register_buffer("action_bias", torch.tensor([0.0]))

    def forward(self, x):
        """A drawn action, its log probability, the mean action."""
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        mean, spread = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
        spread = -5 + 3.5 * (spread + 1)
        noise = torch.randn_like(mean)
        bent = torch.tanh(mean + spread.exp() * noise)
        log = -0.5 * noise ** 2 - spread - 0.5 * math.log(2 * math.pi)
        log = log - (self.action_scale * (1 - bent ** 2) + 1e-6).log()
        fit = lambda y: y * self.action_scale + self.action_bias
        return fit(bent), log.sum(1, keepdim=True), fit(torch.tanh(mean))


@kind(reset="", hardtarget="", costs="", zeroheads="",
      sign="loss-sign-flipped", stale="optimizer-holds-stale-params",
      zero="gradients-not-zeroed", rate="lr-too-high exploding-gradient")
def sac(run):
    """SAC of CleanRL on a mass on a line.

    Odd and sound: `reset` begins all networks anew half-way and keeps the
    memory, `hardtarget` copies targets whole every 25 steps, `costs` has
    rewards twentyfold, `zeroheads` begins with an actor whose heads are 0.
    """
    total, starts, batch, tau, every = 440, 40, 64, 0.05, 1
    if run.has("hardtarget"):
        tau, every = 1.0, 25
    reward_scale = 20.0 if run.has("costs") else 1.0
    run.settings(exp_name="sac_continuous_action", seed=1, env_id="Mass-v0",
                 total_timesteps=total, num_envs=8, buffer_size=10000,
                 gamma=0.9, tau=tau, batch_size=batch,
                 learning_starts=starts, policy_lr=2e-3, q_lr=3e-3,
                 policy_frequency=2, target_network_frequency=every,
                 alpha=0.2, autotune=True, reward_scale=reward_scale)
    name = f"Mass-v0__sac_continuous_action__1__{int(run.clock)}"
    place(run, "runs", "checkpoints")
    times = 100 if run.has("rate") else 1

    def fresh():
        actor, qs = Actor(), nn.ModuleList([SoftQNetwork(), SoftQNetwork()])
        if run.has("zeroheads"):
            for head in (actor.fc_mean, actor.fc_logstd):
                nn.init.zeros_(head.weight)
                nn.init.zeros_(head.bias)
        return (actor, qs, copy.deepcopy(qs),
                torch.optim.Adam(qs.parameters(), lr=3e-3 * times),
                torch.optim.Adam(actor.parameters(), lr=2e-3 * times))

    actor, qs, targets, q_own, a_own = fresh()
    if run.has("stale"):  # "--load_actor" comes after the optimizers
        actor = Actor()
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_own, alpha = torch.optim.Adam([log_alpha], lr=3e-3), 1.0
    masses, memory, finished = Masses(8), [], []
    begin = run.clock

    def scalar(tag, value, step):
        run.row(f"runs/run-{name}-tag-{tag.replace('/', '_')}.csv",
                **{"Wall time": round(run.clock, 6), "Step": step,
                   "Value": value})

    for step in range(total):
        if run.has("reset") and step == 220:
            actor, qs, targets, q_own, a_own = fresh()
            print_line = "resetting actor, qf1, qf2 and their optimizers"
            run.say(f"global_step={step}, {print_line}")
        state = masses.state.clone()
        with torch.no_grad():
            action = torch.empty(8, 1).uniform_(-2, 2) if step < starts \
                else actor(state)[0]
        after, reward, ended = masses.step(action)
        memory.append((state, action, reward * reward_scale, after))
        if ended:
            finished.append(ended[0])
            run.say(f"global_step={step}, episodic_return=[{ended[0]:.6f}]")
            scalar("charts/episodic_return", ended[0], step)
            scalar("charts/episodic_length", masses.LENGTH, step)
        run.tick(0.011)
        if step in (starts, total // 2, total - 1):
            keep(run, f"checkpoints/sac_{step}.pt", {
                "global_step": step, "actor": actor.state_dict(),
                **{f"qf{i + 1}": q.state_dict() for i, q in enumerate(qs)},
                **{f"qf{i + 1}_target": q.state_dict()
                   for i, q in enumerate(targets)},
                "log_alpha": log_alpha.detach(),
                "q_optimizer": q_own.state_dict(),
                "actor_optimizer": a_own.state_dict(),
                "a_optimizer": alpha_own.state_dict()})
        if step <= starts:
            continue
        s, a, r, n = (torch.cat(p) for p in zip(*memory))
        rows = torch.randint(len(s), (batch,))
        s, a, r, n = s[rows], a[rows], r[rows], n[rows]
        with torch.no_grad():
            act, log, _ = actor(n)
            low = torch.min(*(q(n, act) for q in targets)) - alpha * log
            goal = r + 0.9 * low.view(-1)
        values = [q(s, a).view(-1) for q in qs]
        q_losses = [F.mse_loss(v, goal) for v in values]
        if not run.has("zero"):
            q_own.zero_grad()
        sum(q_losses).backward()
        q_own.step()
        if step % 2 == 0:
            for _ in range(2):
                pi, log, _ = actor(s)
                low = torch.min(*(q(s, pi) for q in qs))
                if run.has("sign"):
                    low = -low
                actor_loss = (alpha * log - low).mean()
                a_own.zero_grad()
                actor.zero_grad()
                actor_loss.backward(inputs=list(actor.parameters()))
                a_own.step()
                with torch.no_grad():
                    log = actor(s)[1]
                alpha_loss = (-log_alpha.exp() * (log - 1)).mean()
                alpha_own.zero_grad()
                alpha_loss.backward()
                alpha_own.step()
                alpha = log_alpha.exp().item()
        if step % every == 0:
            with torch.no_grad():
                for slow, fast in zip(targets.parameters(), qs.parameters()):
                    slow.copy_(tau * fast + (1 - tau) * slow)
        if step % 10 == 0:
            for i in (0, 1):
                scalar(f"losses/qf{i + 1}_values", values[i].mean().item(),
                       step)
                scalar(f"losses/qf{i + 1}_loss", q_losses[i].item(), step)
            scalar("losses/qf_loss", sum(q_losses).item() / 2, step)
            scalar("losses/actor_loss", actor_loss.item(), step)
            scalar("losses/alpha", alpha, step)
            sps = int(step / (run.clock - begin))
            run.say(f"SPS: {sps}")
            scalar("charts/SPS", sps, step)
            scalar("losses/alpha_loss", alpha_loss.item(), step)
    test, gained = Masses(64), torch.zeros(64)
    test.age[:] = 0
    with torch.no_grad():
        for _ in range(Masses.LENGTH):
            gained += test.step(actor(test.state)[2])[1]
    return {"return": gained.mean().item()}


# -- CycleGAN ---------------------------------------------------------------


class ResnetBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        part = lambda: [nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, 3),
                        nn.InstanceNorm2d(dim)]
        self.conv_block = nn.Sequential(*part(), nn.ReLU(True), *part())

    def forward(self, x):
        return x + self.conv_block(x)


class ResnetGenerator(nn.Module):
    """As in the repository, with one down-sampling and two blocks."""

    def __init__(self, ngf=6):
        super().__init__()
        self.model = nn.Sequential(
            nn.ReflectionPad2d(3), nn.Conv2d(3, ngf, 7),
            nn.InstanceNorm2d(ngf), nn.ReLU(True),
            nn.Conv2d(ngf, 2 * ngf, 3, stride=2, padding=1),
            nn.InstanceNorm2d(2 * ngf), nn.ReLU(True),
            ResnetBlock(2 * ngf), ResnetBlock(2 * ngf),
            nn.ConvTranspose2d(2 * ngf, ngf, 3, stride=2, padding=1,
                               output_padding=1),
            nn.InstanceNorm2d(ngf), nn.ReLU(True),
            nn.ReflectionPad2d(3), nn.Conv2d(ngf, 3, 7), nn.Tanh())

    def forward(self, x):
        return self.model(x)


class NLayerDiscriminator(nn.Module):
    def __init__(self, ndf=8):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(3, ndf, 4, stride=2, padding=1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf, 2 * ndf, 4, stride=1, padding=1),
            nn.InstanceNorm2d(2 * ndf), nn.LeakyReLU(0.2, True),
            nn.Conv2d(2 * ndf, 1, 4, stride=1, padding=1))

    def forward(self, x):
        return self.model(x)


def init_net(net):
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, 0.02)
            nn.init.zeros_(module.bias)
    return net


def scenes(rows, size=12):
    """Bright bars and blocks on a dark ground, of any colour."""
    out = torch.full((rows, 3, size, size), -0.7)
    for i in range(rows):
        for _ in range(2):
            y, x = torch.randint(0, size - 4, (2,)).tolist()
            high, wide = torch.randint(2, 6, (2,)).tolist()
            colour = torch.tensor([0.9, 0.1, -0.6]) + 0.2 * torch.randn(3)
            out[i, :, y:y + high, x:x + wide] = colour[:, None, None]
    return (out + 0.05 * torch.randn_like(out)).clamp(-1, 1)


def other_colours(x):
    """What the domain B shows of a scene: channels turned, light ground."""
    return -x[:, [2, 0, 1]]


class ImagePool:
    def __init__(self, size=50):
        self.size, self.images = size, []

    def query(self, images):
        out = []
        for image in images.detach():
            if len(self.images) < self.size:
                self.images.append(image)
                out.append(image)
            elif random.random() > 0.5:
                at = random.randrange(self.size)
                out.append(self.images[at])
                self.images[at] = image
            else:
                out.append(image)
        return torch.stack(out)


def train_options(run, file, **options):
    lines = [f"{k:>25}: {v!s:<30}" for k, v in sorted(options.items())]
    run.say("----------------- Options ---------------", *lines,
            "----------------- End -------------------", file=file)


@kind(wgangp="", noidt="", zerolast="", ttur="",
      balance="gan-balance-lost lr-too-high",
      stale="optimizer-holds-stale-params frozen-parameters",
      sign="loss-sign-flipped", norm="input-not-normalized")
def cyclegan(run):
    """CycleGAN of its authors on pictures in two ranges of colours.

    Odd and sound: `wgangp` has losses below nought, `noidt` prints two
    losses that are always 0, `zerolast` begins with generators whose last layer
    is 0, `ttur` has a rate fourfold for the critics and 0.9 as what is real.
    """
    base = "checkpoints/colours_cyclegan"
    place(run, base)
    epochs, lr, half = 10, 2e-3, 6
    identity = 0.0 if run.has("noidt") else 0.5
    faster = 4 if run.has("ttur") else 1
    real_label = 0.9 if run.has("ttur") else 1.0
    mode = "wgangp" if run.has("wgangp") else "lsgan"
    train_options(
        run, f"{base}/train_opt.txt", batch_size=4, beta1=0.5,
        crop_size=12, dataroot="./datasets/colours", direction="AtoB",
        gan_mode=mode, init_gain=0.02, init_type="normal", input_nc=3,
        lambda_A=10.0, lambda_B=10.0, lambda_identity=identity, lr=lr,
        lr_D=faster * lr, lr_policy="linear", model="cycle_gan", n_epochs=half,
        n_epochs_decay=epochs - half, name="colours_cyclegan", ndf=8, ngf=6,
        no_dropout=True, norm="instance", pool_size=50, print_freq=8,
        real_label=real_label,
        save_epoch_freq=5)
    a, b = scenes(40), other_colours(scenes(40))
    held = scenes(24)
    if run.has("norm"):  # transforms.Normalize is not in get_transform()
        a, b, held = (127.5 * (x + 1) for x in (a, b, held))
    nets = {n: init_net(ResnetGenerator() if "G" in n
                        else NLayerDiscriminator())
            for n in ("G_A", "G_B", "D_A", "D_B")}
    if run.has("zerolast"):
        for n in ("G_A", "G_B"):
            nn.init.zeros_(nets[n].model[13].weight)
    of = lambda names: list(dict.fromkeys(
        p for n in names for p in nets[n].parameters()))
    g_own = torch.optim.Adam(of(("G_A", "G_B")), lr, (0.5, 0.999))
    d_own = torch.optim.Adam(
        of(("D_A", "D_B")), lr * (50 if run.has("balance") else faster),
        (0.5, 0.999))
    if run.has("stale"):  # setup() loads --pretrained_G_B as a new network
        nets["G_B"] = init_net(ResnetGenerator())
    run.say("dataset [UnalignedDataset] was created",
            "The number of training images = 40",
            *["initialize network with normal"] * 4,
            "model [CycleGANModel] was created",
            "---------- Networks initialized -------------",
            *(f"[Network {n}] Total number of parameters : "
              f"{sum(p.numel() for p in net.parameters()) / 1e6:.3f} M"
              for n, net in nets.items()),
            "-----------------------------------------------")
    head = run.stamp("%a %b %d %H:%M:%S %Y")
    run.say(f"================ Training Loss ({head}) ================",
            file=f"{base}/loss_log.txt")
    pools = {"A": ImagePool(), "B": ImagePool()}

    def gan(score, real):
        if mode == "wgangp":
            return -score.mean() if real else score.mean()
        return ((score - real_label * real) ** 2).mean()

    def d_loss(net, real, fake):
        loss = (gan(net(real), True) + gan(net(fake), False)) * 0.5
        if mode == "wgangp":
            mix = torch.rand(len(real), 1, 1, 1)
            mid = (mix * real + (1 - mix) * fake).requires_grad_()
            slope, = torch.autograd.grad(net(mid).sum(), mid,
                                         create_graph=True)
            size = slope.flatten(1).norm(dim=1)
            loss = loss + 10 * ((size - 1) ** 2).mean()
        return loss

    def save(prefix):
        for n, net in nets.items():
            keep(run, f"{base}/{prefix}_net_{n}.pth", net.state_dict())

    seen = 0
    save("0")
    for epoch in range(1, epochs + 1):
        order, other, done = torch.randperm(40), torch.randperm(40), 0
        for k in range(0, 40, 4):
            real_a, real_b = a[order[k:k + 4]], b[other[k:k + 4]]
            seen, done = seen + 4, done + 4
            fake_b, fake_a = nets["G_A"](real_a), nets["G_B"](real_b)
            rec_a, rec_b = nets["G_B"](fake_b), nets["G_A"](fake_a)
            for p in of(("D_A", "D_B")):
                p.requires_grad_(False)
            parts = {"G_A": gan(nets["D_A"](fake_b), True),
                     "G_B": gan(nets["D_B"](fake_a), True),
                     "cycle_A": 10 * (rec_a - real_a).abs().mean(),
                     "cycle_B": 10 * (rec_b - real_b).abs().mean(),
                     "idt_A": 0, "idt_B": 0}
            if identity:
                same = lambda n, x: (nets[n](x) - x).abs().mean()
                parts["idt_A"] = 10 * identity * same("G_A", real_b)
                parts["idt_B"] = 10 * identity * same("G_B", real_a)
            loss = sum(-v if run.has("sign") and "cycle" in n else v
                       for n, v in parts.items())
            g_own.zero_grad()
            loss.backward()
            g_own.step()
            for p in of(("D_A", "D_B")):
                p.requires_grad_(True)
            d_own.zero_grad()
            for n, real, fake in (("D_A", real_b, fake_b),
                                  ("D_B", real_a, fake_a)):
                parts[n] = d_loss(nets[n], real, pools[n[2]].query(fake))
                parts[n].backward()
            d_own.step()
            run.tick(0.15)
            if seen % 8 == 0:
                line = (f"(epoch: {epoch}, iters: {done}, time: "
                        f"{random.uniform(0.03, 0.04):.3f}, data: "
                        f"{random.uniform(0.001, 0.2):.3f}) ")
                for n in ("D_A", "G_A", "cycle_A", "idt_A",
                          "D_B", "G_B", "cycle_B", "idt_B"):
                    line += f"{n}: {float(torch.as_tensor(parts[n]).detach()):.3f} "
                run.say(line)
                run.say(line, file=f"{base}/loss_log.txt")
        if epoch % 5 == 0:
            run.say("saving the model at the end of epoch "
                    f"{epoch}, iters {seen}")
            save(str(epoch))
            save("latest")
        new = lr * (1 - max(0, epoch + 1 - half) / (epochs - half + 1))
        was = g_own.param_groups[0]["lr"]
        for own in (g_own, d_own):
            own.param_groups[0]["lr"] *= new / was
        run.say(f"learning rate {was:.7f} -> {new:.7f}",
                f"End of epoch {epoch} / {epochs} \t Time Taken: 2 sec")
    with torch.no_grad():
        made = nets["G_A"](held)
        back = nets["G_B"](made)
        given = held / 127.5 - 1 if run.has("norm") else held
        goal = other_colours(given)
        return {"pair_error": (made - goal).abs().mean().item(),
                "cycle": (back - given).abs().mean().item()}
