"""The progress bar of a run."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from atune._trial import FrozenTrial, TrialState

if TYPE_CHECKING:
    from atune._study import Study


class Progress:
    """A bar over the trials of a run or of a study's budget, or else over its seconds.

    It needs ``tqdm``. Behind it stands the best value so far, of a study with one objective.
    """

    def __init__(self, study: Study, n_trials: int | None, budget: int | None, timeout: float | None) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._study = study
        self._budget = budget
        self._timeout = timeout if n_trials is None and budget is None else None
        total = budget if budget is not None else n_trials
        self._bar = tqdm(
            total=self._timeout if total is None else total,
            unit="s" if self._timeout is not None else "trial",
            initial=self._ended() if budget is not None else 0,
        )

    def _ended(self) -> int:
        # A failed trial that is tried again counts once.
        trials = self._study.trials
        return sum(trial.state.is_finished() and trial.retry_of is None for trial in trials)

    def note(self, study: Study, trial: FrozenTrial) -> None:
        """Move on after a trial."""
        with self._lock:
            if self._budget is not None:
                at: float = min(self._ended(), self._budget)
            elif self._timeout is not None:
                at = min(time.monotonic() - self._begun, self._timeout)
            else:
                at = self._bar.n + 1
            if len(study.directions) == 1 and trial.state is TrialState.COMPLETE:
                try:
                    best = study.best_trial
                except ValueError:
                    # None meets its constraints yet.
                    pass
                else:
                    self._bar.set_postfix_str(f"best {best.value:g} (trial {best.number})", refresh=False)
            self._bar.update(at - self._bar.n)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
