"""What transformers' Trainer makes of a family's recipe, for those that people
train with it: the groups of its optimizer and the names of its arguments."""


def in_groups(run, optimizer):
    """AdamW's parameters in two groups, as the Trainer makes them: biases and
    norms do not decay. Other optimizers stay as they are."""
    if run.moments != "adamw":
        return optimizer
    group, = optimizer.param_groups
    flat = [p for p in group["params"] if p.dim() < 2]
    group["params"] = [p for p in group["params"] if p.dim() >= 2]
    if flat:
        optimizer.add_param_group({"params": flat, "weight_decay": 0.0})
    return optimizer


def renamed(run, own):
    """The settings `own` by the names of TrainingArguments."""
    adam = own.pop("betas", None), own.pop("eps", None)
    if run.moments == "adamw":
        own |= {"adam_beta1": adam[0][0], "adam_beta2": adam[0][1],
                "adam_epsilon": adam[1]}
    for old, new in (("lr", "learning_rate"),
                     ("scheduler", "lr_scheduler_type"),
                     ("batch_size", "per_device_train_batch_size"),
                     ("optimizer", "optim")):
        own[new] = own.pop(old)
    own["optim"] = {"adamw": "adamw_torch"}.get(own["optim"], own["optim"])
    return own
