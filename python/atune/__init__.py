"""atune: hyperparameter studies on one crash-safe file for many workers.

A study is created with :func:`create_study`, in a file or in memory, and run with
:meth:`Study.optimize`, or with :meth:`Study.ask` and :meth:`Study.tell`. Other processes join with
:func:`load_study`. `atune.optuna` has a storage for code that uses Optuna.
"""

from atune._distributions import (
    BoolDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from atune._study import Sampler, Scheduler, Study, create_study, load_study, set_verbosity
from atune._trial import FrozenTrial, Trial, TrialPruned, TrialState, create_trial
from atune.errors import Error

__all__ = [
    "BoolDistribution",
    "CategoricalDistribution",
    "Error",
    "FloatDistribution",
    "FrozenTrial",
    "IntDistribution",
    "Sampler",
    "Scheduler",
    "Study",
    "Trial",
    "TrialPruned",
    "TrialState",
    "create_study",
    "create_trial",
    "load_study",
    "set_verbosity",
]
