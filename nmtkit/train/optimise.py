"""Optimisers and learning-rate schedules, each one line in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from nmtkit.train.settings import TrainingConfig

Parameters = Iterable[nn.Parameter]


def _adadelta(parameters: Parameters, config: TrainingConfig) -> torch.optim.Optimizer:
    """Zeiler (2012), as in the paper, section B.2."""
    return torch.optim.Adadelta(
        parameters, lr=config.learning_rate, rho=config.rho, eps=config.epsilon
    )


def _adam(parameters: Parameters, config: TrainingConfig) -> torch.optim.Optimizer:
    betas = (config.beta1, config.beta2)
    return torch.optim.Adam(
        parameters, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=True
    )


def _adamw(parameters: Parameters, config: TrainingConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        parameters,
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


def _sgd(parameters: Parameters, config: TrainingConfig) -> torch.optim.Optimizer:
    """Without momentum, as in Sutskever et al. (2014) and Luong et al. (2015)."""
    return torch.optim.SGD(parameters, lr=config.learning_rate, fused=True)


OPTIMIZERS: dict[str, Callable[[Parameters, TrainingConfig], torch.optim.Optimizer]] = {
    "adadelta": _adadelta,
    "adam": _adam,
    "adamw": _adamw,
    "sgd": _sgd,
}


def _constant(update: int, done: float, decays: int, config: TrainingConfig) -> float:
    return 1.0


def _cosine(update: int, done: float, decays: int, config: TrainingConfig) -> float:
    """Half a cosine from 1 down to `least_rate` over the whole run."""
    return config.least_rate + (1 - config.least_rate) * (1 + math.cos(math.pi * done)) / 2


def _inverse_sqrt(update: int, done: float, decays: int, config: TrainingConfig) -> float:
    """Falls with the root of the updates from the end of warmup on (Vaswani et al., 2017, 5.3)."""
    warmup = max(1, config.warmup)
    return math.sqrt(warmup / max(warmup, update))


def _plateau(update: int, done: float, decays: int, config: TrainingConfig) -> float:
    return max(config.decay**decays, config.least_rate)


#: (update number from 1, part of the run that is done, times the validation stood still, settings)
#: -> factor.
SCHEDULES: dict[str, Callable[[int, float, int, TrainingConfig], float]] = {
    "constant": _constant,
    "cosine": _cosine,
    "inverse-sqrt": _inverse_sqrt,
    "plateau": _plateau,
}


def learning_rate(update: int, done: float, decays: int, config: TrainingConfig) -> float:
    """The rate of update number `update` (from 1), which ends the part `done` of the run."""
    warmup = min(1.0, update / config.warmup) if config.warmup else 1.0
    factor = SCHEDULES[config.schedule](update, min(1.0, done), decays, config)
    return config.learning_rate * warmup * factor
