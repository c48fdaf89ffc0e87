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
        model, optimizer, dir=str(run.folder), every=25, free_seconds=60.0,
        config=config, max_dump_bytes=2 << 20)


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
    """As in the repository, with one down-sampling and one block."""

    def __init__(self, ngf=6):
        super().__init__()
        self.model = nn.Sequential(
            nn.ReflectionPad2d(3), nn.Conv2d(3, ngf, 7),
            nn.InstanceNorm2d(ngf), nn.ReLU(True),
            nn.Conv2d(ngf, 2 * ngf, 3, stride=2, padding=1),
            nn.InstanceNorm2d(2 * ngf), nn.ReLU(True),
            ResnetBlock(2 * ngf),
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
            y, x = torch.randint(0, size - 5, (2,)).tolist()
            high, wide = torch.randint(3, 8, (2,)).tolist()
            colour = torch.tensor([0.9, 0.1, -0.6]) + 0.2 * torch.randn(3)
            out[i, :, y:y + high, x:x + wide] = colour[:, None, None]
    return (out + 0.05 * torch.randn_like(out)).clamp(-1, 1)


def other_colours(x):
    """What the domain B shows of a scene: red and blue change places."""
    return x[:, [2, 1, 0]]


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
      rate="lr-too-high gan-balance-lost saturated-activation",
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
            nn.init.zeros_(nets[n].model[12].weight)
    of = lambda names: list(dict.fromkeys(
        p for n in names for p in nets[n].parameters()))
    own_of = lambda names, rate: torch.optim.Adam(
        of(names), run.rate(rate), (0.5, 0.999))
    g_own = own_of(("G_A", "G_B"), lr)
    d_own = own_of(("D_A", "D_B"), lr * faster)
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
                    value = float(torch.as_tensor(parts[n]).detach())
                    line += f"{n}: {value:.3f} "
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
        moved = (given - goal).abs() > 0.5
        return {"pair_error": (made - goal).abs().mean().item(),
                "moved_error": (made - goal)[moved].abs().mean().item(),
                "cycle": (back - given).abs().mean().item()}


# -- Transducer -------------------------------------------------------------


class BasicNorm(nn.Module):
    """The norm of icefall: no mean, no weight, one eps that is learned."""

    def __init__(self):
        super().__init__()
        self.eps = nn.Parameter(torch.tensor(0.25).log())

    def forward(self, x):
        size = (x ** 2).mean(-1, keepdim=True) + self.eps.exp()
        return x * size ** -0.5


class FeedforwardModule(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.in_proj = nn.Linear(dim, 2 * dim)
        self.out_proj = nn.Linear(2 * dim, dim)
        with torch.no_grad():  # ScaledLinear(initial_scale=0.1)
            self.out_proj.weight.mul_(0.1)
            self.out_proj.bias.mul_(0.1)

    def forward(self, x):
        x = self.in_proj(x)
        return self.out_proj(x * torch.sigmoid(x - 1))


class ConvolutionModule(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.pointwise_conv1 = nn.Conv1d(dim, 2 * dim, 1)
        self.depthwise_conv = nn.Conv1d(dim, dim, 3, padding=1, groups=dim)
        self.pointwise_conv2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        x = F.glu(self.pointwise_conv1(x.transpose(1, 2)), 1)
        x = self.depthwise_conv(x)
        return self.pointwise_conv2(x * torch.sigmoid(x - 1)).transpose(1, 2)


class ZipformerEncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.feed_forward1 = FeedforwardModule(dim)
        self.conv_module1 = ConvolutionModule(dim)
        self.feed_forward2 = FeedforwardModule(dim)
        self.norm_final = BasicNorm()
        self.bypass_scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        begin = x
        x = x + self.feed_forward1(x)
        x = x + self.conv_module1(x)
        x = self.norm_final(x + self.feed_forward2(x))
        return begin + (x - begin) * self.bypass_scale


class Conv2dSubsampling(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.SiLU(),
            nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.SiLU())
        self.out = nn.Linear(8 * (features // 2), dim)

    def forward(self, x):
        x = self.conv(x.unsqueeze(1))
        return self.out(x.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.encoder_embed = Conv2dSubsampling(features, dim)
        self.encoders = nn.ModuleList(
            ZipformerEncoderLayer(dim) for _ in range(2))

    def forward(self, x, lens):
        x = self.encoder_embed(x)
        for layer in self.encoders:
            x = layer(x)
        return x, (lens + 1) // 2


class Decoder(nn.Module):
    """Stateless: an embedding and a convolution over two tokens."""

    blank_id = 0

    def __init__(self, vocab, dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 2, groups=4, bias=False)

    def forward(self, y):
        x = self.embedding(y).transpose(1, 2)
        return F.relu(self.conv(F.pad(x, (1, 0))).transpose(1, 2))


class Joiner(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.encoder_proj = nn.Linear(dim, dim)
        self.decoder_proj = nn.Linear(dim, dim)
        self.output_linear = nn.Linear(dim, vocab)

    def forward(self, am, lm):
        both = self.encoder_proj(am)[:, :, None] \
            + self.decoder_proj(lm)[:, None]
        return self.output_linear(torch.tanh(both))


def rnnt_loss(logits, y, x_lens, y_lens):
    """Sum of -log p(y|x); frames one after another, symbols at once."""
    log = logits.log_softmax(-1)
    rows, frames, states, _ = log.shape
    blank = log[..., 0]
    emit = log[:, :, :-1].gather(
        3, y[:, None, :, None].expand(-1, frames, -1, 1)).squeeze(3)
    ways = F.pad(emit.cumsum(2), (1, 0))
    alpha, ends = ways[:, 0], []
    for t in range(frames):
        if t:
            come = alpha + blank[:, t - 1] - ways[:, t]
            alpha = ways[:, t] + torch.logcumsumexp(come, 1)
        ends.append(alpha + blank[:, t])
    ends = torch.stack(ends, 1)
    every = torch.arange(rows)
    return -ends[every, x_lens - 1, y_lens].sum()


class Transducer(nn.Module):
    def __init__(self, features=16, dim=24, vocab=12):
        super().__init__()
        self.encoder = Encoder(features, dim)
        self.decoder = Decoder(vocab, dim)
        self.joiner = Joiner(dim, vocab)
        self.simple_am_proj = nn.Linear(dim, vocab)
        self.simple_lm_proj = nn.Linear(dim, vocab)
        with torch.no_grad():
            for p in (self.simple_am_proj, self.simple_lm_proj):
                p.weight.mul_(0.25)

    def forward(self, x, x_lens, y, y_lens, detach=False):
        am, x_lens = self.encoder(x, x_lens)
        if detach:
            am = am.detach()
        lm = self.decoder(F.pad(y, (1, 0)))
        simple = self.simple_am_proj(am)[:, :, None] \
            + self.simple_lm_proj(lm)[:, None]
        return (rnnt_loss(simple, y, x_lens, y_lens),
                rnnt_loss(self.joiner(am, lm), y, x_lens, y_lens))

    @torch.no_grad()
    def greedy(self, x, x_lens):
        """One symbol a frame at most."""
        am, x_lens = self.encoder(x, x_lens)
        out = []
        for i in range(len(x)):
            said = [0, 0]
            for t in range(int(x_lens[i])):
                lm = self.decoder(torch.tensor([said[-2:]]))[:, -1:]
                best = int(self.joiner(am[i:i + 1, t:t + 1], lm).argmax())
                said += [best] if best else []
            out.append(said[2:])
        return out


class ScaledAdam(torch.optim.Optimizer):
    """Steps relative to the size of a parameter, whose size is learned too."""

    def __init__(self, params, lr, clipping_scale=2.0, betas=(0.9, 0.98)):
        super().__init__(params, dict(
            lr=lr, clipping_scale=clipping_scale, betas=betas,
            scalar_lr_scale=0.1, eps=1e-8, param_min_rms=1e-5,
            param_max_rms=3.0, scalar_max=10.0, size_update_period=4,
            clipping_update_period=50))
        self.told, self.norms, self.threshold, self.clipped = [], [], None, 0

    def clipping(self, group):
        """How much of the gradient stays, by the median of 50 norms."""
        total = 0.0
        for p in group["params"]:
            if p.grad is None:
                continue
            size = self.state[p].get("param_rms", 1.0) if p.numel() > 1 else 1
            total += float((p.grad ** 2).sum() * size ** 2)
        self.norms.append(math.sqrt(total))
        if len(self.norms) % 50 == 0:
            last = sorted(self.norms[-50:])
            fours = [last[min(49, 12 * n)] for n in range(5)]
            self.threshold = group["clipping_scale"] * fours[2]
            self.told.append(
                f"Clipping_scale={group['clipping_scale']}, grad-norm "
                "quartiles " + " ".join(f"{q:.3e}" for q in fours)
                + f", threshold={self.threshold:.3e}, "
                f"percent-clipped={2 * self.clipped:.1f}")
            self.clipped = 0
        if self.threshold is None:
            return 1.0
        part = min(1.0, self.threshold / (self.norms[-1] + 1e-20))
        self.clipped += part < 1
        return part

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            part = self.clipping(group)
            (b1, b2), lr = group["betas"], group["lr"]
            period = group["size_update_period"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad * part, self.state[p]
                if not state:
                    state["step"] = 0
                    state["delta"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                    if p.numel() > 1:
                        state["param_rms"] = (p ** 2).mean().sqrt() + 1e-8
                        state["scale_exp_avg_sq"] = torch.zeros(())
                        state["scale_grads"] = torch.zeros(period)
                step, delta = state["step"], state["delta"].mul_(b1)
                square = state["exp_avg_sq"]
                square.mul_(b2).addcmul_(grad, grad, value=1 - b2)
                whole = 1 - b2 ** (step + 1)
                way = grad / ((square / whole).sqrt() + group["eps"])
                if p.numel() == 1:
                    rate = lr * group["scalar_lr_scale"]
                    p.clamp_(-group["scalar_max"], group["scalar_max"])
                    p.add_(delta.add_(way, alpha=-rate * (1 - b1)))
                    state["step"] += 1
                    continue
                state["scale_grads"][step % period] = (p * grad).sum()
                if step % period == period - 1:
                    self.resize(group, p, state)
                size = state["param_rms"].clamp(min=group["param_min_rms"])
                p.add_(delta.add_(way * (-lr * (1 - b1) * size)))
                state["step"] += 1

    def resize(self, group, p, state):
        period, grads = group["size_update_period"], state["scale_grads"]
        b1, b2 = group["betas"][0], group["betas"][1] ** 4
        rate = group["lr"] * group["scalar_lr_scale"]
        state["param_rms"].copy_((p ** 2).mean().sqrt())
        square = state["scale_exp_avg_sq"]
        square.mul_(b2).add_((grads ** 2).mean(), alpha=1 - b2)
        whole = 1 - b2 ** ((state["step"] + 1) // period)
        move = -rate * whole ** 0.5 * grads.sum() / (square.sqrt() + 1e-8)
        if state["param_rms"] < group["param_min_rms"]:
            move = 0.0
        if state["param_rms"] > group["param_max_rms"]:
            move = -rate * period
        state["delta"].add_(p * move, alpha=1 - b1)


def utterances(rows, voices, tokens=11):
    """Features, their lengths, tokens, their lengths: a voice each token."""
    xs, ys = [], []
    for _ in range(rows):
        said = torch.randint(1, tokens + 1, (random.randint(2, 5),))
        parts = [voices[k].expand(random.randint(3, 5), -1) for k in said]
        xs.append(torch.cat(parts))
        ys.append(said)
    x_lens = torch.tensor([len(x) for x in xs])
    y_lens = torch.tensor([len(y) for y in ys])
    pad = nn.utils.rnn.pad_sequence
    x = pad(xs, True)
    return (x + 0.5 * torch.randn_like(x), x_lens, pad(ys, True), y_lens)


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1,
                                       last + (x != y))
    return row[-1]


@kind(warm="", sorted="", resumed="",
      rate="lr-too-high exploding-gradient",
      pairs="label-pairing-mismatch label-noise",
      detach="detached-graph frozen-parameters",
      init="bad-initialization logit-growth")
def rnnt(run):
    """A pruned transducer of icefall: ScaledAdam, Eden, two losses.

    Odd and sound: `warm` leaves the pruned loss out for 30 batches,
    so that it stands still, `sorted` goes from short to long in each epoch,
    `resumed` was killed and went on from a checkpoint, in two logs.
    """
    place(run, "exp/log")
    voices = torch.randn(12, 16)
    train, held = utterances(320, voices), utterances(48, voices)
    if run.has("pairs"):  # the texts of another manifest, sorted otherwise
        other = torch.randperm(320)
        train = (*train[:2], train[2][other], train[3][other])
    model = Transducer()
    if run.has("init"):
        with torch.no_grad():
            for p in model.joiner.parameters():
                p.mul_(40)
    base, steps, per_epoch, warm_step = 0.06, 160, 40, 30
    optimizer = ScaledAdam(model.parameters(),
                           base * (30 if run.has("rate") else 1))
    mean = copy.deepcopy(model).double()
    params = dict(
        best_train_loss=math.inf, best_valid_loss=math.inf,
        best_train_epoch=-1, best_valid_epoch=-1, batch_idx_train=0,
        log_interval=4, reset_interval=20, valid_interval=20,
        feature_dim=16, subsampling_factor=2, warm_step=warm_step,
        num_epochs=4, start_epoch=1, exp_dir="exp", base_lr=base,
        lr_batches=200, lr_epochs=3.5, context_size=2, prune_range=6,
        lm_scale=0.0, am_scale=0.0, simple_loss_scale=0.5, seed=42,
        save_every_n=70, average_period=10, use_fp16=False, num_buckets=1,
        shuffle=not run.has("sorted"), blank_id=0, vocab_size=12)
    rec = watch(run, model, optimizer, base_lr=base, num_epochs=4)
    files = []

    def log(text, where="train.py:1034"):
        line = f"{run.stamp()},{int(run.clock * 1000) % 1000:03d} INFO "
        run.say(f"{line}[{where}] {text}", file=files[-1])

    def begin():
        files.append("exp/log/log-train-" + run.stamp("%Y-%m-%d-%H-%M-%S"))
        log("Training started")
        log("Device: cpu")
        log(str({k: v for k, v in params.items()}))
        log("About to create model")
        log("Number of model parameters: "
            f"{sum(p.numel() for p in model.parameters())}")

    def losses(batch, at):
        simple, pruned = model(*batch, detach=run.has("detach"))
        done = min(1.0, at / warm_step)
        part = [1 - done * 0.5, 0.1 + 0.9 * done]
        if run.has("warm"):
            part = [0.5, 0.0 if at < warm_step else 1.0]
        loss = part[0] * simple + part[1] * pruned
        frames = float((batch[1] // 2).sum())
        return loss, {"loss": loss.item(), "simple_loss": simple.item(),
                      "pruned_loss": pruned.item(), "frames": frames}

    def told(info):
        return "".join(f"{k}={info[k] / info['frames']:.4g}, " for k in
                       ("loss", "simple_loss", "pruned_loss")) \
            + f"over {info['frames']:.2f} frames."

    def state(at, epoch):
        return {"model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": {"lr_batches": 200, "lr_epochs": 3.5,
                              "batch": at, "epoch": epoch - 1,
                              "base_lrs": [base], "warmup_batches": 20},
                "grad_scaler": None,
                "sampler": {"epoch": epoch - 1, "shuffle": params["shuffle"]},
                "model_avg": copy.deepcopy(mean).float().state_dict(),
                **params, "batch_idx_train": at, "cur_epoch": epoch}

    def batch_of(rows):
        x, x_lens, y, y_lens = (t[rows] for t in train)
        return x[:, :x_lens.max()], x_lens, y[:, :y_lens.max()], y_lens

    def validate(epoch):
        total, at = dict.fromkeys(("loss", "simple_loss", "pruned_loss",
                                   "frames"), 0.0), step + 1
        model.eval()
        with torch.no_grad():
            info = losses(held, at)[1]
        model.train()
        for k in total:
            total[k] += info[k]
        log("Computing validation loss", "train.py:1057")
        log(f"Epoch {epoch}, validation: {told(total)}", "train.py:1066")
        now = total["loss"] / total["frames"]
        if now < params["best_valid_loss"]:
            params["best_valid_loss"] = now
            params["best_valid_epoch"] = epoch
        return total

    orders = []
    for _ in range(4):
        order = torch.randperm(320)
        if run.has("sorted"):
            order = order[torch.argsort(train[1][order], stable=True)]
        orders.append(order)
    begin()
    total, step, saved = None, 0, None
    keep(run, "exp/epoch-0.pt", state(0, 1))
    while step < steps:
        epoch, k = step // per_epoch + 1, step % per_epoch
        if k == 0:
            total = None
        at = step + 1
        batch = batch_of(orders[epoch - 1][8 * k:8 * k + 8])
        loss, info = losses(batch, at)
        loss.backward()
        lr = base * ((at ** 2 + 200 ** 2) / 200 ** 2) ** -0.25 \
            * (((epoch - 1) ** 2 + 3.5 ** 2) / 3.5 ** 2) ** -0.25 \
            * (0.5 + 0.5 * min(1.0, at / 20))
        for group in optimizer.param_groups:
            group["lr"] = lr * (30 if run.has("rate") else 1)
        optimizer.step()
        rec.batch(input=batch[0], labels=batch[2], x_lens=batch[1],
                  y_lens=batch[3])
        rec.step(info["loss"] / info["frames"], step=step)
        optimizer.zero_grad()
        for line in optimizer.told:
            log(line, "optim.py:368")
        optimizer.told.clear()
        old = total or dict.fromkeys(info, 0.0)
        total = {n: old[n] * (1 - 1 / 20) + info[n] for n in info}
        run.tick(0.35)
        if at % 10 == 0:
            with torch.no_grad():
                for slow, fast in zip(mean.parameters(), model.parameters()):
                    slow.copy_(slow.double() + (fast.double() - slow) * 10
                               / at)
        if k % 4 == 0:
            log(f"Epoch {epoch}, batch {k}, loss[{told(info)}], "
                f"tot_loss[{told(total)}], batch size: 8, lr: {lr:.2e}",
                "train.py:1026")
        if k and k % 20 == 0:
            validate(epoch)
        if at % 70 == 0:
            saved = copy.deepcopy((state(at, epoch), total, mean))
            keep(run, f"exp/checkpoint-{at}.pt", saved[0])
        step += 1
        if step % per_epoch == 0:
            now = total["loss"] / total["frames"]
            if now < params["best_train_loss"]:
                params.update(best_train_loss=now, best_train_epoch=epoch)
            keep(run, f"exp/epoch-{epoch}.pt", state(at, epoch))
        if run.has("resumed") and step == 90 and len(files) == 1:
            model.load_state_dict(saved[0]["model"])
            optimizer.load_state_dict(saved[0]["optimizer"])
            step, total, mean = 70, saved[1], saved[2]
            run.tick(4000)
            begin()
            log("Loading checkpoint from exp/checkpoint-70.pt",
                "checkpoint.py:112")
            log("Loading optimizer state dict")
            log("Loading scheduler state dict")
            rec.close()
            rec = watch(run, model, optimizer, base_lr=base, num_epochs=4)
    log("Done!")
    rec.close()
    end = losses(held, steps)[1]
    said = model.greedy(held[0], held[1])
    wrong = sum(edits(s, held[2][i, :held[3][i]].tolist())
                for i, s in enumerate(said))
    return {"pruned": end["pruned_loss"] / end["frames"],
            "ter": wrong / float(held[3].sum())}


# -- Temporal fusion transformer --------------------------------------------


class GatedLinearUnit(nn.Module):
    def __init__(self, size, hidden=None):
        super().__init__()
        self.fc = nn.Linear(size, 2 * (hidden or size))
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return F.glu(self.fc(x), -1)


class ResampleNorm(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.out = out
        self.mask = nn.Parameter(torch.zeros(out))
        self.gate = nn.Sigmoid()
        self.norm = nn.LayerNorm(out)

    def forward(self, x):
        if x.shape[-1] != self.out:
            wide = F.interpolate(x.reshape(-1, 1, x.shape[-1]), self.out,
                                 mode="linear", align_corners=True)
            x = wide.reshape(*x.shape[:-1], self.out)
        return self.norm(x * self.gate(self.mask) * 2.0)


class AddNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x, skip):
        return self.norm(x + skip)


class GateAddNorm(nn.Module):
    def __init__(self, size, hidden=None):
        super().__init__()
        self.glu = GatedLinearUnit(size, hidden)
        self.add_norm = AddNorm(hidden or size)

    def forward(self, x, skip):
        return self.add_norm(self.glu(x), skip)


class GatedResidualNetwork(nn.Module):
    def __init__(self, size, hidden, out, context=None, residual=False):
        super().__init__()
        if residual and out != size:
            self.resample_norm = ResampleNorm(size, out)
        elif out != size:
            self.resample_norm = ResampleNorm(size, out)
        self.fc1 = nn.Linear(size, hidden)
        if context is not None:
            self.context = nn.Linear(context, hidden, bias=False)
        self.fc2 = nn.Linear(hidden, hidden)
        for name, p in self.named_parameters():
            if "fc" in name and p.dim() == 2:
                nn.init.kaiming_normal_(p, a=0, nonlinearity="leaky_relu")
            elif "context" in name:
                nn.init.xavier_uniform_(p)
            elif "fc" in name:
                nn.init.zeros_(p)
        self.gate_norm = GateAddNorm(hidden, out)

    def forward(self, x, context=None):
        skip = self.resample_norm(x) if hasattr(self, "resample_norm") else x
        x = self.fc1(x)
        if context is not None:
            x = x + self.context(context)
        return self.gate_norm(self.fc2(F.elu(x)), skip)


class VariableSelectionNetwork(nn.Module):
    def __init__(self, names, inner, hidden, prescalers, context=None):
        super().__init__()
        self.names, count = names, len(names)
        if count > 1:
            self.flattened_grn = GatedResidualNetwork(
                inner * count, min(hidden, count), count, context, True)
        self.single_variable_grns = nn.ModuleDict(
            {n: GatedResidualNetwork(inner, min(inner, hidden), hidden)
             for n in names})
        self.prescalers = nn.ModuleDict(
            {n: prescalers[n] for n in names if n in prescalers})

    def forward(self, x, context=None):
        """x: name -> values; those of numbers are scaled first."""
        x = {n: self.prescalers[n](x[n]) if n in self.prescalers else x[n]
             for n in self.names}
        each = [self.single_variable_grns[n](x[n]) for n in self.names]
        if len(each) == 1:
            return each[0]
        part = self.flattened_grn(torch.cat(list(x.values()), -1), context)
        return (torch.stack(each, -1)
                * part.softmax(-1).unsqueeze(-2)).sum(-1)


class InterpretableMultiHeadAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        inner = size // heads
        flat = lambda a, b: nn.Linear(a, b, bias=False)
        self.v_layer = flat(size, inner)
        self.q_layers = nn.ModuleList(flat(size, inner) for _ in range(heads))
        self.k_layers = nn.ModuleList(flat(size, inner) for _ in range(heads))
        self.w_h = flat(inner, size)
        for p in self.parameters():
            nn.init.xavier_uniform_(p)

    def forward(self, q, k, mask):
        v, outs = self.v_layer(k), []
        for ask, key in zip(self.q_layers, self.k_layers):
            score = ask(q) @ key(k).transpose(1, 2) / v.shape[-1] ** 0.5
            outs.append(score.masked_fill(mask, -1e9).softmax(-1) @ v)
        return self.w_h(torch.stack(outs).mean(0))


class MultiEmbedding(nn.Module):
    def __init__(self, series, inner):
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {"series": nn.Embedding(series, inner)})


class TemporalFusionTransformer(nn.Module):
    KNOWN, PAST = ("day", "holiday"), ("day", "holiday", "value")

    def __init__(self, series=6, size=8, inner=4, outs=7):
        super().__init__()
        grn = lambda **k: GatedResidualNetwork(size, size, size, **k)
        self.input_embeddings = MultiEmbedding(series, inner)
        self.prescalers = nn.ModuleDict(
            {n: nn.Linear(1, inner) for n in self.PAST})
        choose = lambda names, **k: VariableSelectionNetwork(
            names, inner, size, self.prescalers, **k)
        self.static_variable_selection = choose(("series",))
        self.encoder_variable_selection = choose(self.PAST, context=size)
        self.decoder_variable_selection = choose(self.KNOWN, context=size)
        self.static_context_variable_selection = grn()
        self.static_context_initial_hidden_lstm = grn()
        self.static_context_initial_cell_lstm = grn()
        self.static_context_enrichment = grn()
        self.lstm_encoder = nn.LSTM(size, size, batch_first=True)
        self.lstm_decoder = nn.LSTM(size, size, batch_first=True)
        self.post_lstm_gate_encoder = GatedLinearUnit(size)
        self.post_lstm_gate_decoder = self.post_lstm_gate_encoder
        self.post_lstm_add_norm_encoder = AddNorm(size)
        self.post_lstm_add_norm_decoder = self.post_lstm_add_norm_encoder
        self.static_enrichment = grn(context=size)
        self.multihead_attn = InterpretableMultiHeadAttention(size, 2)
        self.post_attn_gate_norm = GateAddNorm(size)
        self.pos_wise_ff = grn()
        self.pre_output_gate_norm = GateAddNorm(size)
        self.output_layer = nn.Linear(size, outs)

    def forward(self, value, day, holiday, series, ahead=4, real=None):
        past = value.shape[1]
        x = {"value": value[..., None], "day": day[..., None],
             "holiday": holiday[..., None]}
        static = self.static_variable_selection(
            {"series": self.input_embeddings.embeddings["series"](series)})
        spread = lambda v, n: v[:, None].expand(-1, n, -1)
        context = self.static_context_variable_selection(static)
        known = {n: v[:, -ahead:] for n, v in x.items() if n != "value"}
        before = self.encoder_variable_selection(
            {n: v[:, :past] for n, v in x.items()}, spread(context, past))
        after = self.decoder_variable_selection(known, spread(context, ahead))
        begin = (self.static_context_initial_hidden_lstm(static)[None],
                 self.static_context_initial_cell_lstm(static)[None])
        told, begin = self.lstm_encoder(before, begin)
        said, _ = self.lstm_decoder(after, begin)
        told = self.post_lstm_add_norm_encoder(
            self.post_lstm_gate_encoder(told), before)
        said = self.post_lstm_add_norm_decoder(
            self.post_lstm_gate_decoder(said), after)
        both = torch.cat([told, said], 1)
        rich = self.static_enrichment(both, spread(
            self.static_context_enrichment(static), both.shape[1]))
        hide = torch.zeros(len(value), 1, both.shape[1], dtype=torch.bool)
        if real is not None:
            hide[:, 0, :past] = ~real
        late = torch.ones(ahead, ahead, dtype=torch.bool).triu()
        hide = hide | F.pad(late, (past, 0))[None]
        out = self.multihead_attn(rich[:, past:], rich, hide)
        out = self.post_attn_gate_norm(out, rich[:, past:])
        out = self.pre_output_gate_norm(self.pos_wise_ff(out), said)
        return self.output_layer(out)


QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def sales(series, days):
    """Levels, a week's swing of each series, a slow drift, noise."""
    day, rows = torch.arange(days).float(), []
    for k in range(series):
        swing = 2 + torch.rand(()) * 2
        week = swing * torch.sin(2 * math.pi * (day / 7 + k / series))
        slow = torch.sin(day / 23 + k)
        rows.append(10 + 2 * k + week + slow + 0.4 * torch.randn(days))
    return torch.stack(rows)


@kind(nll="", restart="", padded="",
      scale="input-not-normalized", small="overfitting small-dataset-repeated",
      rate="lr-too-high exploding-gradient",
      schedule="lr-zero-from-scheduler lr-too-low")
def tft(run):
    """A temporal fusion transformer of pytorch-forecasting under Lightning.

    Odd and sound: `nll` fits normal distributions, whose loss falls below
    nought, `restart` has cosine restarts of the rate, `padded` has a holiday
    that never comes and half of the past padded with 0.
    """
    folder = "lightning_logs/version_0"
    place(run, f"{folder}/checkpoints")
    past, ahead, epochs = 14, 4, 8
    table = sales(6, 150)
    if run.has("nll"):
        table = table / 10
    level, spread = table.mean(1, True), table.std(1, keepdim=True)
    if run.has("scale"):  # target_normalizer of another data set: identity
        table = table * 400
        level, spread = torch.zeros(6, 1), torch.ones(6, 1)
    scaled = (table - level) / spread
    day = torch.sin(2 * math.pi * torch.arange(150) / 7)
    holiday = (torch.arange(150) % 30 < 2).float()
    if run.has("padded"):
        holiday = torch.zeros(150)
    windows = [(k, t) for k in range(6) for t in range(150 - past - ahead)]
    train = [w for w in windows if w[1] < 100]
    held = [w for w in windows if w[1] >= 104 + ahead]
    random.shuffle(train)
    if run.has("small"):  # the filter by dates keeps some days only
        train = train[:16] * 30
    outs = 2 if run.has("nll") else 7
    model = TemporalFusionTransformer(outs=outs)
    wanted = 15e-3 if run.has("restart") else 1e-2
    optimizer = torch.optim.Adam(model.parameters(), run.rate(wanted))
    monitor = "NormalDistributionLoss()" if outs == 2 else \
        "QuantileLoss(quantiles=[0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])"
    hyper = dict(hidden_size=8, lstm_layers=1, dropout=0.0, output_size=outs,
                 loss=monitor, attention_head_size=2, max_encoder_length=past,
                 hidden_continuous_size=4, learning_rate=wanted,
                 log_interval=-1, optimizer="adam", weight_decay=0.0,
                 x_categoricals=["series"], x_reals=["value", "day",
                                                     "holiday"])
    run.say(*(f"{k}: {v}" for k, v in hyper.items()),
            file=f"{folder}/hparams.yaml")
    if run.has("restart"):
        plan = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, 36, eta_min=5e-3)
    elif run.has("schedule"):
        plan = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda i: max(0, 10 - i) // 10)
    else:
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1.0)

    def cut(rows):
        get = lambda line, n: torch.stack([line[t:t + n] for _, t in rows])
        value = torch.stack([scaled[k, t:t + past] for k, t in rows])
        goal = torch.stack([table[k, t + past:t + past + ahead]
                            for k, t in rows])
        real = torch.ones(len(rows), past, dtype=torch.bool)
        if run.has("padded"):
            real[::2, :past // 2] = False
        return {"value": value * real, "day": get(day, past + ahead),
                "holiday": get(holiday, past + ahead),
                "series": torch.tensor([k for k, _ in rows]),
                "real": real}, goal

    def loss_of(out, goal, rows):
        """The loss, and the middle of what is foretold, in units."""
        at = torch.tensor([k for k, _ in rows])
        add, times = level[at], spread[at]
        if outs == 2:
            mean = out[..., 0] * times + add
            width = F.softplus(out[..., 1]) * times
            dist = torch.distributions.Normal(mean, width + 1e-3)
            return -dist.log_prob(goal).mean(), mean
        made = out * times[..., None] + add[..., None]
        error = goal[..., None] - made
        q = torch.tensor(QUANTILES)
        return 2 * torch.max((q - 1) * error, q * error).mean(), made[..., 3]

    def scores(made, goal):
        error = (made - goal).abs()
        return {"SMAPE": (2 * error / (made.abs() + goal.abs())).mean(),
                "MAE": error.mean(), "RMSE": (error ** 2).mean().sqrt(),
                "MAPE": (error / goal.abs()).mean()}

    columns = dict.fromkeys(
        ("epoch", "lr-Adam", "step", "train_loss_epoch", "train_loss_step",
         "val_MAE", "val_MAPE", "val_RMSE", "val_SMAPE", "val_loss"), "")
    csv = f"{folder}/metrics.csv"
    run.say("GPU available: False, used: False", "TPU available: False, "
            "using: 0 TPU cores", "", "   | Name  | Type  | Params | Mode ",
            "-" * 48, *(f"{i:<3}| {n:34} | {type(m).__name__:28} | "
                        f"{sum(p.numel() for p in m.parameters())}"
                        for i, (n, m) in enumerate(model.named_children())),
            "-" * 48)
    rec = watch(run, model, optimizer, learning_rate=wanted, hidden_size=8,
                max_encoder_length=past, gradient_clip_val=1.0)

    def save(name, step, epoch):
        keep(run, f"{folder}/checkpoints/{name}.ckpt", {
            "epoch": epoch, "global_step": step,
            "pytorch-lightning_version": "2.2.1",
            "state_dict": model.state_dict(),
            "loops": {"fit_loop": {"epoch_progress": {
                "total": {"ready": epoch + 1, "completed": epoch}}}},
            "callbacks": {}, "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [], "hparams_name": "kwargs",
            "hyper_parameters": hyper})

    @torch.no_grad()
    def validate():
        model.eval()
        inputs, goal = cut(held)
        loss, made = loss_of(model(**inputs), goal, held)
        model.train()
        return {"val_loss": loss.item(), **{
            f"val_{n}": v.item() for n, v in scores(made, goal).items()}}

    step = 0
    save("epoch=0-step=0", 0, 0)
    for epoch in range(epochs):
        losses = []
        random.shuffle(train)
        for k in range(0, 18 * 24, 24):
            rows = train[k:k + 24]
            inputs, goal = cut(rows)
            loss = loss_of(model(**inputs), goal, rows)[0]
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(
                model.parameters(), math.inf if run.has("rate") else 1.0)
            lr = optimizer.param_groups[0]["lr"]
            optimizer.step()
            rec.batch(input=inputs["value"], labels=goal)
            rec.step(loss.detach(), step=step, grad_norm=norm)
            plan.step()
            losses.append(loss.item())
            if step % 5 == 4:
                run.row(csv, **columns | {"epoch": epoch, "step": step,
                                          "lr-Adam": lr})
                run.row(csv, **columns | {"epoch": epoch, "step": step,
                                          "train_loss_step": losses[-1]})
            step += 1
        found = validate()
        run.row(csv, **columns | {"epoch": epoch, "step": step - 1} | found)
        mean = sum(losses) / len(losses)
        run.row(csv, **columns | {"epoch": epoch, "step": step - 1,
                                  "train_loss_epoch": mean})
        run.say(f"Epoch {epoch}: 100%|##########| 18/18 [00:04<00:00, "
                f"{random.uniform(4, 5):.2f}it/s, v_num=0, "
                f"train_loss_step={losses[-1]:.3f}, "
                f"val_loss={found['val_loss']:.3f}, "
                f"train_loss_epoch={mean:.3f}]")
        if epoch in (epochs // 2 - 1, epochs - 1):
            save(f"epoch={epoch}-step={step}", step, epoch)
    run.say(f"`Trainer.fit` stopped: `max_epochs={epochs}` reached.")
    rec.close()
    return {"train": mean, **validate()}


# -- wav2vec 2.0 ------------------------------------------------------------


class TransposeLast(nn.Module):
    def forward(self, x):
        return x.transpose(-2, -1)


class ConvFeatureExtractionModel(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.conv_layers, inner = nn.ModuleList(), 1
        for i, (kernel, stride) in enumerate(layers):
            conv = nn.Conv1d(inner, dim, kernel, stride=stride, bias=False)
            nn.init.kaiming_normal_(conv.weight)
            norm = [nn.GroupNorm(dim, dim)] if i == 0 else []
            self.conv_layers.append(nn.Sequential(
                conv, nn.Dropout(0.0), *norm, nn.GELU()))
            inner = dim

    def forward(self, x):
        x = x.unsqueeze(1)
        for conv in self.conv_layers:
            x = conv(x)
        return x


class MultiheadAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.q_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        cut = lambda y: y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        q, k, v = (cut(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        part = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).softmax(-1)
        return self.out_proj((part @ v).transpose(1, 2).reshape(x.shape))


class TransformerSentenceEncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn = MultiheadAttention(dim)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.self_attn_layer_norm(x + self.self_attn(x))
        return self.final_layer_norm(x + self.fc2(F.gelu(self.fc1(x))))


class TransformerEncoder(nn.Module):
    def __init__(self, dim, layers=2, layerdrop=0.0):
        super().__init__()
        conv = nn.Conv1d(dim, dim, 7, padding=3, groups=4)
        nn.init.normal_(conv.weight, std=math.sqrt(4 / (7 * dim)))
        nn.init.zeros_(conv.bias)
        self.pos_conv = nn.Sequential(
            nn.utils.weight_norm(conv, name="weight", dim=2), nn.Identity(),
            nn.GELU())
        self.layers = nn.ModuleList(
            TransformerSentenceEncoderLayer(dim) for _ in range(layers))
        self.layer_norm, self.layerdrop = nn.LayerNorm(dim), layerdrop
        for module in self.layers.modules():  # init_bert_params
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = x + self.pos_conv(x.transpose(1, 2)).transpose(1, 2)
        x = self.layer_norm(x)
        for layer in self.layers:
            if not self.training or random.random() > self.layerdrop:
                x = layer(x)
        return x


class GumbelVectorQuantizer(nn.Module):
    def __init__(self, dim, count, groups, out, temp):
        super().__init__()
        self.groups, self.count, self.temp = groups, count, temp[0]
        self.limits = temp
        self.vars = nn.Parameter(
            torch.rand(1, groups * count, out // groups))
        self.weight_proj = nn.Linear(dim, groups * count)
        nn.init.normal_(self.weight_proj.weight, mean=0, std=1)
        nn.init.zeros_(self.weight_proj.bias)

    def set_num_updates(self, n):
        most, least, decay = self.limits
        self.temp = max(most * decay ** n, least)

    def forward(self, x):
        rows, steps, _ = x.shape
        x = self.weight_proj(x.reshape(rows * steps, -1))
        x = x.view(-1, self.groups, self.count)
        hard = F.one_hot(x.argmax(-1), self.count).float()
        many = lambda p: (-(p * (p + 1e-7).log()).sum(-1)).exp().sum()
        code, prob = many(hard.mean(0)), many(x.softmax(-1).mean(0))
        if self.training:
            hard = F.gumbel_softmax(x, tau=self.temp, hard=True)
        words = self.vars.view(self.groups, self.count, -1)
        out = torch.einsum("ngc,gcd->ngd", hard, words)
        return out.reshape(rows, steps, -1), code, prob


class Wav2Vec2Model(nn.Module):
    LAYERS = ((8, 4), (4, 2), (2, 2))

    def __init__(self, dim=32, final=16, grad_mult=0.1, layerdrop=0.0):
        super().__init__()
        self.grad_mult = grad_mult
        self.mask_emb = nn.Parameter(torch.rand(dim))
        self.feature_extractor = ConvFeatureExtractionModel(24, self.LAYERS)
        self.post_extract_proj = nn.Linear(24, dim)
        self.quantizer = GumbelVectorQuantizer(24, 8, 2, final,
                                               (2.0, 0.5, 0.99))
        self.project_q = nn.Linear(final, final)
        self.encoder = TransformerEncoder(dim, layerdrop=layerdrop)
        self.layer_norm = nn.LayerNorm(24)
        self.final_proj = nn.Linear(dim, final)

    def forward(self, source, mask, negatives=10, detach=False):
        """Logits of what is right (first) and of others, and the rest."""
        with torch.set_grad_enabled(self.grad_mult > 0
                                    and torch.is_grad_enabled()):
            x = self.feature_extractor(source)
            if 0 < self.grad_mult < 1 and x.requires_grad:
                x = x * self.grad_mult + (x * (1 - self.grad_mult)).detach()
        pen = (x ** 2).mean()
        x = self.layer_norm(x.transpose(1, 2))
        rows, steps, _ = x.shape
        y = x[mask].view(rows, -1, x.shape[-1])
        x = self.post_extract_proj(x)
        x = torch.where(mask[..., None], self.mask_emb, x)
        x = self.encoder(x)
        if detach:
            x = x.detach()
        y, code, prob = self.quantizer(y)
        y = self.project_q(y)
        count = y.shape[1]
        others = torch.randint(count - 1, (rows, count, negatives))
        others += (others >= torch.arange(count)[None, :, None]).long()
        at = torch.arange(rows)[:, None, None]
        targets = torch.cat([y[:, :, None], y[at, others]], 2)
        x = self.final_proj(x[mask].view(rows, count, -1))
        logits = F.cosine_similarity(x[:, :, None], targets, dim=-1) / 0.1
        same = (targets[:, :, 1:] == y[:, :, None]).all(-1)
        logits = torch.cat([logits[..., :1], logits[..., 1:].masked_fill(
            same, -math.inf)], 2)
        return logits.view(-1, negatives + 1), code, prob, pen


def speech(rows, frames=32, phones=10):
    """Waves of phones of some frames each, one likely after another."""
    after = torch.randperm(phones)
    tones = 0.08 + 0.25 * torch.arange(phones) / phones
    out = []
    for _ in range(rows):
        phone, freq = random.randrange(phones), []
        while len(freq) < frames * 16 + 16:
            freq += [float(tones[phone])] * (16 * random.randint(5, 8))
            phone = int(after[phone]) if random.random() < 0.9 \
                else random.randrange(phones)
        phase = torch.tensor(freq[:frames * 16 + 12]).cumsum(0)
        wave = torch.sin(2 * math.pi * phase) + 0.1 * torch.randn(len(phase))
        out.append((wave - wave.mean()) / wave.std())
    return torch.stack(out)


def spans(rows, steps, count=4, length=3):
    """Masks with as many frames in each row."""
    mask = torch.zeros(rows, steps, dtype=torch.bool)
    for i in range(rows):
        for at in torch.randperm(steps // (length + 1))[:count].tolist():
            mask[i, at * (length + 1):at * (length + 1) + length] = True
    return mask


@kind(frozenq="", fp16="", layerdrop="",
      collapse="loss-sign-flipped representation-collapse",
      rate="lr-too-high exploding-gradient", detach="detached-graph",
      schedule="lr-zero-from-scheduler")
def wav2vec2(run):
    """wav2vec 2.0 pretraining of fairseq, its JSON lines and checkpoints.

    Odd and sound: `frozenq` never trains its quantiser (BEST-RQ), `fp16`
    skips its first steps until the loss scale fits, `layerdrop` leaves out
    half of the layers in each step.
    """
    place(run, "checkpoints")
    epochs, per_epoch, rate = 5, 40, 5e-3
    drop = 0.5 if run.has("layerdrop") else 0.0
    mult = 0.1
    train, held = speech(320), speech(48)
    model = Wav2Vec2Model(grad_mult=mult, layerdrop=drop)
    model.quantizer.requires_grad_(not run.has("frozenq"))
    steps = model.feature_extractor(held[:1]).shape[-1]
    masks = spans(48, steps)
    optimizer = torch.optim.Adam(model.parameters(), run.rate(rate, 60),
                                 betas=(0.9, 0.98), eps=1e-6)
    fp16 = run.has("fp16")
    cfg = {"common": {"fp16": fp16, "log_format": "json", "log_interval": 5,
                      "seed": 1, "fp16_init_scale": 2 ** 17},
           "task": {"_name": "audio_pretraining", "data": "manifests",
                    "sample_rate": 16000, "normalize": True},
           "criterion": {"_name": "wav2vec", "infonce": True,
                         "log_keys": ["prob_perplexity", "code_perplexity",
                                      "temp"], "loss_weights": [0.1, 1.0]},
           "optimization": {"max_update": epochs * per_epoch, "lr": [rate],
                            "clip_norm": 0.0, "update_freq": [1]},
           "optimizer": {"_name": "adam", "adam_betas": "(0.9,0.98)",
                         "adam_eps": 1e-06, "weight_decay": 0.0},
           "lr_scheduler": {"_name": "polynomial_decay",
                            "warmup_updates": 20},
           "model": {"_name": "wav2vec2", "quantize_targets": True,
                     "final_dim": 16, "encoder_layerdrop": drop,
                     "latent_temp": [2.0, 0.5, 0.99], "latent_vars": 8,
                     "freeze_quantizer": run.has("frozenq"),
                     "feature_grad_mult": mult, "num_negatives": 10,
                     "mask_prob": 0.4, "mask_length": 3,
                     "encoder_layers": 2, "encoder_embed_dim": 32}}

    def log(where, text):
        run.say(f"[{run.stamp()},{int(run.clock * 1000) % 1000:03d}]"
                f"[{where}][INFO] - {text}", file="hydra_train.log")

    def losses(x, mask):
        logits, code, prob, pen = model(x, mask, detach=run.has("detach"))
        target = torch.zeros(len(logits), dtype=torch.long)
        size = len(logits)
        many = (16 - prob) / 16
        if run.has("collapse"):
            many = -many
        parts = [F.cross_entropy(logits, target, reduction="sum"),
                 0.1 * many * size, 1.0 * pen * size]
        if run.has("collapse"):
            parts[1] = 20 * parts[1]
        right = (logits.detach().argmax(1) == 0).float().mean().item()
        bits = [p.item() / size / math.log(2) for p in parts]
        return sum(parts), size, {
            "loss": sum(bits), "ntokens": size, "nsentences": len(x),
            "prob_perplexity": prob.item(), "code_perplexity": code.item(),
            "temp": model.quantizer.temp, "loss_0": bits[0],
            "loss_1": bits[1], "loss_2": bits[2], "accuracy": right}

    def words(rows, before=""):
        mean = {k: sum(r[k] for r in rows) / len(rows) for k in rows[0]}
        form = {"accuracy": lambda v: f"{v:.5f}".rstrip("0")}
        short = lambda v: f"{v:.3f}".rstrip("0").rstrip(".")
        return {before + k: form.get(k, short)(v) for k, v in mean.items()}

    def save(name, epoch, updates, found):
        keep(run, f"checkpoints/{name}.pt", {
            "args": None, "cfg": cfg, "model": model.state_dict(),
            "criterion": {}, "optimizer_history": [
                {"criterion_name": "Wav2vecCriterion",
                 "optimizer_name": "FP16Optimizer" if fp16
                 else "FairseqAdam",
                 "lr_scheduler_state": {"best": found},
                 "num_updates": updates}],
            "task_state": {}, "extra_state": {
                "metrics": {}, "previous_training_time": updates * 0.3,
                "train_iterator": {"version": 2, "epoch": epoch,
                                   "iterations_in_epoch": 0,
                                   "shuffle": True}, "val_loss": found},
            "last_optimizer_state": optimizer.state_dict()})

    def validate():
        model.eval()
        with torch.no_grad():
            row = losses(held, masks)[2]
        model.train()
        return row

    log("fairseq_cli.train", json.dumps(cfg))
    log("fairseq_cli.train", "task: AudioPretrainingTask")
    log("fairseq_cli.train", "model: Wav2Vec2Model")
    log("fairseq_cli.train", "num. shared model params: "
        f"{sum(p.numel() for p in model.parameters()):,}")
    save("checkpoint0", 0, 0, None)
    updates, scale, good, best, began = 0, 2.0 ** 17, 0, math.inf, run.clock
    for epoch in range(1, epochs + 1):
        log("fairseq.trainer", f"begin training epoch {epoch}")
        rows, whole = [], []
        order = torch.randperm(320)
        for k in range(per_epoch):
            x = train[order[8 * k:8 * k + 8]]
            model.quantizer.set_num_updates(updates)
            left = 1 - updates / (epochs * per_epoch)
            if run.has("schedule"):  # counts epochs, is called each update
                left = max(0.0, 1 - 5 * updates / (epochs * per_epoch))
            warm = min(1.0, (updates + 1) / 20)
            lr = rate * min(warm, left)
            for group in optimizer.param_groups:
                group["lr"] = run.rate(lr, 60)
            optimizer.zero_grad()
            loss, size, row = losses(x, spans(8, steps))
            run.tick(0.3)
            if fp16:  # gradients are halves on their way to the optimizer
                (loss * scale).backward()
                some = [p for p in model.parameters() if p.grad is not None]
                for p in some:
                    p.grad = p.grad.half().float() / scale
                if not all(p.grad.isfinite().all() for p in some):
                    scale, good = scale / 2, 0
                    log("fairseq.trainer", "NOTE: gradient overflow detected,"
                        " ignoring gradient, setting loss scale to: "
                        f"{scale}")
                    continue
                good += 1
                if good % 64 == 0:
                    scale *= 2
            else:
                loss.backward()
            for p in model.parameters():
                if p.grad is not None:
                    p.grad /= size
            norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf)
            optimizer.step()
            updates += 1
            rows.append(row)
            whole.append(row)
            if updates % 5 == 0:
                more = {"loss_scale": f"{scale:g}"} if fp16 else {}
                log("train_inner", json.dumps(
                    {"epoch": epoch,
                     "update": round(epoch - 1 + (k + 1) / per_epoch, 3),
                     **words(rows), "wps": f"{size * 3.3:.1f}", "ups": "3.3",
                     "wpb": f"{size:g}", "bsz": "8",
                     "num_updates": str(updates), "lr": f"{lr:g}",
                     "gnorm": f"{norm.item():.3f}", **more,
                     "train_wall": "1",
                     "wall": f"{run.clock - began:.0f}"}))
                rows = []
        log("fairseq_cli.train", 'begin validation on "valid" subset')
        row = validate()
        best = min(best, row["loss"])
        log("valid", json.dumps(
            {"epoch": epoch, **words([row], "valid_"),
             "valid_num_updates": str(updates),
             "valid_best_loss": f"{best:.3f}"}))
        if epoch in (epochs // 2, epochs):
            save(f"checkpoint{epoch}", epoch, updates, row["loss"])
        if row["loss"] == best:
            save("checkpoint_best", epoch, updates, row["loss"])
        log("fairseq_cli.train", f"end of epoch {epoch} (average epoch stats "
            "below)")
        log("train", json.dumps(
            {"epoch": epoch, **words(whole, "train_"),
             "train_num_updates": str(updates), "train_lr": f"{lr:g}",
             "train_wall": f"{run.clock - began:.0f}"}))
    log("fairseq_cli.train",
        f"done training in {run.clock - began:.1f} seconds")
    return {k: validate()[k] for k in ("loss_0", "accuracy",
                                       "code_perplexity")}


# -- Mask R-CNN -------------------------------------------------------------


class FrozenBatchNorm2d(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("weight", torch.ones(count))
        self.register_buffer("bias", torch.zeros(count))
        self.register_buffer("running_mean", torch.zeros(count))
        self.register_buffer("running_var", torch.ones(count) - 1e-5)

    def forward(self, x):
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Conv2d(nn.Conv2d):
    """A convolution with its norm inside, as detectron2 has it."""

    def __init__(self, *sizes, norm=False, std=None, **more):
        super().__init__(*sizes, bias=not norm, **more)
        if std is None:
            nn.init.kaiming_normal_(self.weight, mode="fan_out",
                                    nonlinearity="relu")
        else:
            nn.init.normal_(self.weight, std=std)
        if norm:
            self.norm = FrozenBatchNorm2d(sizes[1])
        else:
            nn.init.zeros_(self.bias)

    def forward(self, x):
        x = super().forward(x)
        return self.norm(x) if hasattr(self, "norm") else x


class Bottleneck(nn.Module):
    def __init__(self, inner, outs):
        super().__init__()
        self.shortcut = Conv2d(inner, outs, 1, norm=True, stride=2)
        self.conv1 = Conv2d(inner, inner, 1, norm=True, stride=2)
        self.conv2 = Conv2d(inner, inner, 3, norm=True, padding=1)
        self.conv3 = Conv2d(inner, outs, 1, norm=True)

    def forward(self, x):
        out = F.relu(self.conv2(F.relu(self.conv1(x))))
        return F.relu(self.conv3(out) * 0.5 + self.shortcut(x) * 0.5)


class Named(nn.Module):
    """A module of parts whose names are given."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def linear(ins, outs, std):
    layer = nn.Linear(ins, outs)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


def deltas(boxes, goals):
    size, want = boxes[:, 2:] - boxes[:, :2], goals[:, 2:] - goals[:, :2]
    at = (goals[:, :2] + want / 2 - boxes[:, :2] - size / 2) / size
    return torch.cat([at, (want / size).log()], 1)


def moved(boxes, d):
    size = boxes[:, 2:] - boxes[:, :2]
    at = boxes[:, :2] + size / 2 + d[:, :2] * size
    size = size * d[:, 2:].clamp(max=2).exp()
    return torch.cat([at - size / 2, at + size / 2], 1)


def overlap(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    both = (high - low).clamp(min=0).prod(2)
    area = lambda x: (x[:, 2:] - x[:, :2]).clamp(min=0).prod(1)
    return both / (area(a)[:, None] + area(b)[None] - both + 1e-6)


class GeneralizedRCNN(nn.Module):
    """Pictures of 32 pixels, one level, one anchor size in three shapes."""

    def __init__(self, classes=3, wide=16):
        super().__init__()
        self.register_buffer("pixel_mean", torch.tensor(
            [103.53, 116.28, 123.675])[:, None, None], persistent=False)
        self.register_buffer("pixel_std", torch.tensor(
            [57.375, 57.12, 58.395])[:, None, None], persistent=False)
        self.classes = classes
        body = Named(stem=Named(conv1=Conv2d(3, wide, 5, norm=True, stride=2,
                                             padding=2)),
                     res2=nn.Sequential(Bottleneck(wide, 2 * wide)))
        self.backbone = Named(fpn_lateral2=Conv2d(2 * wide, wide, 1),
                              fpn_output2=Conv2d(wide, wide, 3, padding=1),
                              bottom_up=body)
        self.proposal_generator = Named(rpn_head=Named(
            conv=Conv2d(wide, wide, 3, padding=1, std=0.01),
            objectness_logits=Conv2d(wide, 3, 1, std=0.01),
            anchor_deltas=Conv2d(wide, 12, 1, std=0.01)))
        self.roi_heads = Named(
            box_head=Named(fc1=nn.Linear(wide * 16, 48),
                           fc2=nn.Linear(48, 48)),
            box_predictor=self.predictor(),
            mask_head=Named(
                mask_fcn1=Conv2d(wide, wide, 3, padding=1),
                deconv=nn.ConvTranspose2d(wide, wide, 2, stride=2),
                predictor=Conv2d(wide, classes, 1, std=0.001)))
        grid = torch.arange(8) * 4 + 2.0
        y, x = torch.meshgrid(grid, grid, indexing="ij")
        half = torch.tensor([[5., 5.], [7., 3.5], [3.5, 7.]])
        at = torch.stack([x, y], 2)[:, :, None]
        self.anchors = torch.cat([at - half, at + half], 3).view(-1, 4)

    def predictor(self):
        return Named(cls_score=linear(48, self.classes + 1, 0.01),
                     bbox_pred=linear(48, 4 * self.classes, 0.001))

    def features(self, images):
        x = (images - self.pixel_mean) / self.pixel_std
        body = self.backbone.bottom_up
        x = F.relu(body.stem.conv1(x))
        return self.backbone.fpn_output2(
            self.backbone.fpn_lateral2(body.res2(x)))

    @staticmethod
    def align(x, boxes, rows, size):
        """Features of each box on a grid of size x size."""
        step = (torch.arange(size) + 0.5) / size
        at = lambda a, b: a[:, None] + (b - a)[:, None] * step
        px, py = (at(boxes[:, i], boxes[:, i + 2]) / 16 - 1 for i in (0, 1))
        grid = torch.stack([px[:, None].expand(-1, size, -1),
                            py[:, :, None].expand(-1, -1, size)], 3)
        return F.grid_sample(x[rows], grid, align_corners=False)

    def forward(self, images, gts):
        """The losses, and what detectron2 counts beside them."""
        x, told, losses = self.features(images), {}, {}
        head = self.proposal_generator.rpn_head
        h = F.relu(head.conv(x))
        score = head.objectness_logits(h).permute(0, 2, 3, 1).flatten(1)
        move = head.anchor_deltas(h).permute(0, 2, 3, 1).reshape(
            len(x), -1, 4)
        rpn_cls, rpn_loc, picks = 0.0, x.sum() * 0, []
        counts = torch.zeros(4)
        for i, gt in enumerate(gts):
            boxes = gt["boxes"]
            match = torch.zeros(len(self.anchors))
            if len(boxes):
                iou = overlap(self.anchors, boxes)
                match, who = iou.max(1)
                best = iou.argmax(0)
                match[best], who[best] = 1.0, torch.arange(len(boxes))
            good, bad = match >= 0.6, match < 0.3
            chosen = torch.cat([good.nonzero()[:, 0][:16], bad.nonzero()[
                torch.randperm(int(bad.sum()))[:32], 0]])
            rpn_cls = rpn_cls + F.binary_cross_entropy_with_logits(
                score[i, chosen], good[chosen].float(), reduction="sum") / 48
            if good.any():
                want = deltas(self.anchors[good], boxes[who[good]])
                rpn_loc = rpn_loc + F.smooth_l1_loss(
                    move[i, good], want, beta=0.1, reduction="sum") / 48
            with torch.no_grad():
                top = score[i].topk(12).indices
                found = moved(self.anchors[top], move[i, top])
                near = boxes.repeat(3, 1)
                near = near + torch.randn(near.shape)
                found = torch.cat([found, boxes, near]).clamp(0, 32)
                found = found[((found[:, 2:] - found[:, :2]) > 1).all(1)]
                label = torch.full((len(found),), self.classes)
                goal = torch.zeros(len(found), dtype=torch.long)
                if len(boxes) and len(found):
                    iou, goal = overlap(found, boxes).max(1)
                    label = torch.where(iou >= 0.5, gt["classes"][goal],
                                        label)
            picks.append((found, torch.full((len(found),), i), label, goal))
            counts += torch.tensor([good.sum(), bad.sum(),
                                    (label < self.classes).sum(),
                                    (label == self.classes).sum()])
        n = len(gts)
        losses["loss_rpn_cls"] = rpn_cls / n
        losses["loss_rpn_loc"] = rpn_loc / n
        found, rows, label, goal = (torch.cat(p) for p in zip(*picks))
        heads = self.roi_heads
        flat = self.align(x, found, rows, 4).flatten(1)
        flat = F.relu(heads.box_head.fc2(F.relu(heads.box_head.fc1(flat))))
        logits = heads.box_predictor.cls_score(flat)
        losses["loss_cls"] = F.cross_entropy(logits, label)
        fore = (label < self.classes).nonzero()[:, 0]
        losses["loss_box_reg"] = losses["loss_mask"] = x.sum() * 0
        right = logits.argmax(1) == label
        told["fast_rcnn/cls_accuracy"] = right.float().mean().item()
        if len(fore):
            boxes = torch.stack([gts[int(rows[f])]["boxes"][goal[f]]
                                 for f in fore])
            masks = torch.stack([gts[int(rows[f])]["masks"][goal[f]]
                                 for f in fore])
            kind_of = label[fore]
            every = torch.arange(len(fore))
            made = heads.box_predictor.bbox_pred(flat[fore]).view(
                len(fore), self.classes, 4)[every, kind_of]
            want = deltas(found[fore], boxes) * torch.tensor([10., 10, 5, 5])
            losses["loss_box_reg"] = F.smooth_l1_loss(
                made, want, reduction="sum") / len(label)
            part = self.align(x, found[fore], rows[fore], 4)
            part = F.relu(heads.mask_head.mask_fcn1(part))
            part = heads.mask_head.predictor(
                F.relu(heads.mask_head.deconv(part)))[every, kind_of]
            cut = self.align(masks[:, None], found[fore], every, 8)[:, 0]
            cut = (cut > 0.5).float()
            losses["loss_mask"] = F.binary_cross_entropy_with_logits(
                part, cut)
            fit = (part > 0) == (cut > 0.5)
            told["fast_rcnn/fg_cls_accuracy"] = \
                right[fore].float().mean().item()
            told["fast_rcnn/false_negative"] = (
                logits[fore].argmax(1) == self.classes).float().mean().item()
            told["mask_rcnn/accuracy"] = fit.float().mean().item()
        told.update(zip(("rpn/num_pos_anchors", "rpn/num_neg_anchors",
                         "roi_head/num_fg_samples",
                         "roi_head/num_bg_samples"), (counts / n).tolist()))
        return losses, told


def instances(rows, empty=0.0):
    """Pictures of 0..255 with red squares, green discs, blue crosses."""
    y, x = torch.meshgrid(torch.arange(32.), torch.arange(32.),
                          indexing="ij")
    images, gts = [], []
    for _ in range(rows):
        image = 110 + 25 * torch.randn(3, 1, 1) + 12 * torch.randn(3, 32, 32)
        boxes, classes, masks = [], [], []
        for _ in range(0 if random.random() < empty
                       else random.randint(1, 2)):
            cx, cy = random.uniform(7, 25), random.uniform(7, 25)
            r, k = random.uniform(4, 6.5), random.randrange(3)
            dx, dy = (x - cx).abs(), (y - cy).abs()
            mask = (torch.max(dx, dy) < r, dx ** 2 + dy ** 2 < r ** 2,
                    (torch.max(dx, dy) < r) & (torch.min(dx, dy) < r / 3))[k]
            colour = torch.tensor([[230., 60, 60], [60, 230, 60],
                                   [60, 60, 230]])[k]
            image = torch.where(mask, colour[:, None, None], image)
            boxes.append([cx - r, cy - r, cx + r, cy + r])
            classes.append(k)
            masks.append(mask.float())
        images.append(image.clamp(0, 255))
        gts.append({"boxes": torch.tensor(boxes).view(-1, 4),
                    "classes": torch.tensor(classes, dtype=torch.long),
                    "masks": torch.stack(masks) if masks
                    else torch.zeros(0, 32, 32)})
    return torch.stack(images), gts


@kind(freeze="", resume="", empty="",
      rate="lr-too-high exploding-gradient", labels="label-noise",
      scale="input-not-normalized lr-too-high",
      stale="optimizer-holds-stale-params frozen-parameters")
def maskrcnn(run):
    """Mask R-CNN of detectron2: metrics.json, log.txt, model_final.pth.

    Odd and sound: `freeze` has weights of Caffe, whose first layers take 0
    to 255 less the mean and stay as they are, `resume` was killed and went
    on, `empty` has no object in a quarter of its pictures.
    """
    total, base, period = 170, 0.06, 5
    images, gts = instances(200, 0.25 if run.has("empty") else 0.0)
    test, wanted = instances(32)
    if run.has("labels"):  # ids of another list of categories, row by row
        for gt in gts:
            gt["classes"] = torch.randint(3, gt["classes"].shape)
    model = GeneralizedRCNN()
    at = 2 if run.has("freeze") else 0
    if run.has("freeze"):
        with torch.no_grad():
            model.pixel_std.fill_(1.0)
            body = model.backbone.bottom_up
            body.stem.conv1.weight /= 57.5
        body.requires_grad_(False)
    if run.has("scale"):  # a mapper of its own and a Normalize that is lost
        model.pixel_mean.zero_()
        model.pixel_std.fill_(1.0)
    some = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(some, run.rate(base, 40), momentum=0.9,
                                weight_decay=1e-4)
    if run.has("stale"):  # the heads for the new classes come last
        model.roi_heads = GeneralizedRCNN().roi_heads
    (run.folder / "config.yaml").write_text(
        "DATALOADER:\n  FILTER_EMPTY_ANNOTATIONS: "
        f"{str(not run.has('empty')).lower()}\nINPUT:\n  FORMAT: BGR\n"
        f"MODEL:\n  BACKBONE:\n    FREEZE_AT: {at}\n  MASK_ON: true\n"
        "  META_ARCHITECTURE: GeneralizedRCNN\n"
        "  PIXEL_MEAN:\n  - 103.53\n  - 116.28\n  - 123.675\n  PIXEL_STD:\n"
        + ("  - 1.0\n" * 3 if at else "  - 57.375\n  - 57.12\n  - 58.395\n")
        + f"OUTPUT_DIR: ./output\nSOLVER:\n  BASE_LR: {base}\n"
        "  CLIP_GRADIENTS:\n    CLIP_TYPE: full_model\n"
        "    CLIP_VALUE: 2.0\n    ENABLED: true\n"
        f"  CHECKPOINT_PERIOD: 65\n  IMS_PER_BATCH: 4\n"
        f"  MAX_ITER: {total}\n  MOMENTUM: 0.9\n  STEPS:\n  - 140\n"
        "  WARMUP_ITERS: 20\n  WEIGHT_DECAY: 0.0001\n")
    history, latest = {}, {}
    put = lambda k, v: (history.setdefault(k, []).append(v),
                        latest.__setitem__(k, v))
    middle = lambda k: sorted(history[k][-20:])[len(history[k][-20:]) // 2]

    def log(name, text, level="INFO"):
        run.say(f"[{run.stamp('%m/%d %H:%M:%S')}] {name} {level}: {text}",
                file="log.txt")

    def save(name, i):
        keep(run, name, {
            "model": {n: v for n, v in model.state_dict().items()},
            "optimizer": optimizer.state_dict(),
            "scheduler": {"last_epoch": i, "base_lrs": [base]},
            "iteration": i})
        (run.folder / "last_checkpoint").write_text(name)
        log("fvcore.common.checkpoint",
            f"Saving checkpoint to ./output/{name}")

    def check():
        with torch.no_grad():
            state = torch.get_rng_state()
            torch.manual_seed(3)
            losses, told = model(test, wanted)
            torch.set_rng_state(state)
        return sum(losses.values()).item(), told

    def begin(i):
        log("d2.engine.defaults", "Model:\nGeneralizedRCNN(...)")
        log("d2.engine.train_loop", f"Starting training from iteration {i}")
        return watch(run, model, optimizer, max_iter=total, base_lr=base)

    save("model_init.pth", -1)
    rec, i, kept, again = begin(0), 0, None, False
    orders = torch.stack([torch.randperm(200)[:4] for _ in range(total)])
    while i < total:
        lr = base * min(1.0, 0.001 + i / 20) * (0.1 if i >= 140 else 1)
        for group in optimizer.param_groups:
            group["lr"] = run.rate(lr, 40)
        rows = orders[i]
        batch = [gts[r] for r in rows]
        losses, told = model(images[rows], batch)
        loss = sum(losses.values())
        run.tick(0.21)
        if not loss.isfinite():
            plain = {k: v.item() for k, v in losses.items()}
            log("d2.engine.train_loop", "Exception during training:\n"
                "Traceback (most recent call last):\n  File \"/opt/venv/lib/"
                "detectron2/engine/train_loop.py\", line 149, in train\n"
                "    self.run_step()\nFloatingPointError: Loss became "
                f"infinite or NaN at iteration={i}!\nloss_dict = {plain}",
                "ERROR")
            break
        optimizer.zero_grad()
        loss.backward()
        if not run.has("rate"):
            nn.utils.clip_grad_norm_(some, 2.0)
        optimizer.step()
        rec.batch(input=images[rows])
        rec.step(loss.detach(), step=i)
        for k, v in {"total_loss": loss, **losses}.items():
            put(k, v.item())
        for k, v in {**told, "time": random.uniform(0.2, 0.22),
                     "data_time": random.uniform(0.001, 0.02)}.items():
            put(k, v)
        if i % 26 == 25:
            put("validation_loss", check()[0])
        if i % period == period - 1 or i == total - 1:
            eta = 0.21 * (total - i - 1)
            names = [k for k in history if "loss" in k]
            log("d2.utils.events", f" eta: 0:00:{int(eta):02d}  iter: {i}  "
                + "  ".join(f"{k}: {middle(k):.4g}" for k in names)
                + f"  time: {middle('time'):.4f}  data_time: "
                f"{middle('data_time'):.4f}  lr: {lr:.5g}  max_mem: 0M")
            row = {k: middle(k) for k in latest}
            run.record("metrics.json", **dict(sorted(
                {**row, "iteration": i, "lr": lr, "eta_seconds": eta}
                .items())))
            latest.clear()
        if i % 65 == 64:
            save(f"model_{i:07d}.pth", i)
            if run.has("resume") and kept is None:
                kept = copy.deepcopy((model.state_dict(),
                                      optimizer.state_dict()))
        i += 1
        if kept and not again and i == 85:
            again, i = True, 65
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            history.clear()
            latest.clear()
            rec.close()
            run.tick(900)
            log("fvcore.common.checkpoint", "[Checkpointer] Loading from "
                "./output/model_0000064.pth ...")
            rec = begin(65)
    else:
        save("model_final.pth", total - 1)
        log("d2.engine.hooks", f"Overall training speed: {total - 2} "
            "iterations in 0:00:27 (0.2104 s / it)")
    rec.close()
    end, told = check()
    return {"validation_loss": end, **{
        k.split("/")[1]: v for k, v in told.items() if "accuracy" in k}}
