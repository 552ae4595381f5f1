"""Which adopted change waits for its sealed test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_sleep.domain.sealed import MOST_ATTEMPTS, Adopted
from skillopt_sleep.stores.adoption import adoptions

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.candidate import Candidate

__all__ = ["adopted_change"]


def adopted_change(app: App, baseline: Candidate) -> Adopted | None:
    """The latest change that is live and was never scored on sealed tasks, of the files a night would look at.

    The arms are the very bytes from before and after its adoption, whatever became of the files since.
    """
    project = str(app.project)
    scored = {test.change for test in app.trials.sealed(project)}
    paths = {document.path for document in baseline.documents}
    live = [each for each in adoptions(app.database) if each.project == project and each.path in paths]
    for night in dict.fromkeys(each.night for each in reversed(live)):
        attempts = app.trials.attempts(project, night)
        if night in scored or attempts >= MOST_ATTEMPTS:
            continue
        before = after = baseline
        own = [each for each in live if each.night == night]
        for each in reversed(own):
            before = before.with_document(each.document(each.before))
        for each in own:
            after = after.with_document(each.document(each.after))
        return Adopted(change=night, before=before, after=after, attempts=attempts)
    return None
