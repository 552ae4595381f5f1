"""The rules of a night as a reader meets them: in groups by how they ended, each with the words it rests on.

Strings are plain: on one line, bounded, without control or bidirectional characters, but not escaped.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditRecord, EditStatus
from skillopt_sleep.model.lexicon import is_standing_wish
from skillopt_sleep.night.report import NightReport, PendingReport
from skillopt_sleep.reports.formatting import DOCUMENTS, WORDS, number, plain
from skillopt_sleep.reports.measurements import chance, describe_pending, describe_trial
from skillopt_sleep.reports.rows import (
    OPERATIONS,
    QUOTE_CHARACTERS,
    Place,
    describe_moments,
    list_held_back,
    name_day,
    relative_to_project,
    without_bullet,
)

QUOTES = 3
"""Quotations shown for one rule; the evidence file has all of them."""
RULE_CHARACTERS = 2_000
REASON_CHARACTERS = 400
MOST = 60
"""Rules of one group in a report."""


class State(enum.StrEnum):
    """What became of a rule; the members are in the order in which reports list them."""

    PROVEN = "proven"
    UNTESTED = "untested"
    PROMISING = "promising"
    SAID = "you said so"
    WAITING = "waiting"
    HELD = "held back"
    DROPPED = "dropped"


class Quote(Struct, frozen=True, kw_only=True):
    """What the person said, and where."""

    words: str
    day: str = ""
    """In words, "" when unknown."""
    session: str = ""
    """The agent and the beginning of the session's id."""


class RuleView(Struct, frozen=True, kw_only=True):
    """One rule with everything that is known of it."""

    id: str
    """The id of the edit; "" when it cannot be named in a command."""
    state: State
    text: str
    does: str
    """What happens to which document: "new in the skill"."""
    path: str = ""
    """The document's file, "" when nothing is staged for it."""
    instead_of: str = ""
    """The rule that is replaced, "" when none is."""
    reason: str = ""
    quotes: tuple[Quote, ...] = ()
    """The person's own corrections that the rule rests on."""
    why: str = ""
    """Why it ended as it did, or what it still needs."""
    moments: str = ""
    """What came of it where the person stepped in, and where its lesson applies besides."""
    wins: int = 0
    losses: int = 0
    ties: int = 0
    """Pairs of replays over all nights."""
    requests: int = 0
    """Different requests it was tried at, in all nights."""
    trial: str = ""
    """The comparison on one line."""
    odds: str = ""
    """How often chance alone proves a useless rule; "" for one that is not proven."""
    cost: str = ""
    """What trying it took tonight."""
    places: tuple[Place, ...] = ()
    live: str = ""
    """Since when it is live, in words; "" when it is not."""

    @property
    def tally(self) -> str:
        """The pairs in words: "9 better, none worse, 2 the same"; "" before any."""
        if not self.wins + self.losses + self.ties:
            return ""
        said = f"{self.wins or 'none'} better, {self.losses or 'none'} worse, {self.ties or 'none'} the same"
        if not self.requests:
            return said
        pairs = number(self.wins + self.losses + self.ties, "comparison")
        return f"{said}: {pairs} on {number(self.requests, 'request')}"

    @property
    def adopt(self) -> str:
        """The options that adopt it, "" when it cannot be chosen."""
        if not self.id or self.live:
            return ""
        return {State.DROPPED: "", State.WAITING: "", State.PROMISING: f"--edit {self.id} --undecided"}.get(
            self.state, f"--edit {self.id}"
        )


class Group(Struct, frozen=True, kw_only=True):
    """The rules that ended alike."""

    state: State
    title: str
    note: str
    rules: tuple[RuleView, ...]


def list_groups(
    report: NightReport, places: Mapping[str, tuple[Place, ...]], live: Mapping[str, str]
) -> Iterator[Group]:
    """Yield the rules of the night, those that ended alike together.

    ``places`` has the answers by the id of the edit, and ``live`` tells since when an edit is live.
    """
    rules: defaultdict[State, list[RuleView]] = defaultdict(list)
    tested = report.gate_mode != "off"
    for applied in report.applied_edits:
        state = State.PROVEN if tested else State.UNTESTED
        rules[state].append(_describe_rule(applied, state, report, places, live))
    held = {applied.edit.id: applied for applied in report.held_edits}
    for pending in report.pending:
        state = State.SAID if pending.you_said_so else State.PROMISING if pending.promising else State.WAITING
        found = [held[edit] for edit in pending.edits if edit in held]
        views = [_describe_rule(applied, state, report, places, live) for applied in found]
        rules[state] += [_add_tally(view, pending, report) for view in views or _describe_unseen(pending, state)]
    for state, edits in ((State.HELD, list_held_back(report)), (State.DROPPED, report.rejected_edits)):
        rules[state] += [_describe_rule(applied, state, report, places, live) for applied in edits]
    for state in State:
        if rules[state]:
            title, note = WORDS["groups"][state]
            yield Group(state=state, title=title, note=note, rules=tuple(rules[state][:MOST]))


def _describe_rule(
    applied: AppliedEdit,
    state: State,
    report: NightReport,
    places: Mapping[str, tuple[Place, ...]],
    live: Mapping[str, str],
) -> RuleView:
    edit = applied.edit
    paths = [
        relative_to_project(change.path, report.project) for change in report.documents if change.kind == edit.document
    ]
    trial = next((trial for trial in report.trials if edit.id in trial.edits), None)
    proven = trial is not None and trial.k is not None and trial.decision.verdict is Verdict.ACCEPT
    pairs = trial.decision.pairs if trial else 0
    quotes = _list_quotes(edit, report, wishes_first=state is State.SAID)
    can_be_named = applied.status is EditStatus.GUARDED or state is not State.HELD
    fits = all(change.adoptable for change in report.documents)
    return RuleView(
        id=plain(edit.id) if can_be_named and fits else "",
        state=state,
        text=_clip_rule(edit.anchor if edit.op is EditOp.DELETE else edit.text),
        does=f"{OPERATIONS[edit.op]} the {DOCUMENTS[edit.document]}",
        path=" and ".join(paths),
        instead_of=_clip_rule(edit.anchor) if edit.op is EditOp.REPLACE else "",
        reason=plain(edit.reason, REASON_CHARACTERS),
        quotes=quotes,
        why=plain(applied.why, REASON_CHARACTERS),
        moments=describe_moments(applied, report, len(quotes)),
        wins=trial.decision.wins if trial else 0,
        losses=trial.decision.losses if trial else 0,
        ties=(trial.ties or 0) if trial else 0,
        requests=max(trial.tasks, trial.tasks_in_all) if trial else 0,
        trial=describe_trial(trial) if trial and trial.k is not None else "",
        odds=f"A useless rule looks proven in at most {chance(trial.k or 0)} of cases." if proven and trial else "",
        cost=f"{number(2 * pairs, 'replay')} tonight, one with and one without it for each comparison" if pairs else "",
        places=places.get(edit.id, ()),
        live=name_day(live.get(edit.id, "")),
    )


def _describe_unseen(pending: PendingReport, state: State) -> list[RuleView]:
    """Return rules that tonight only carried on; what else is known of them is in the nights that tried them."""
    document = DOCUMENTS.get(pending.document, plain(pending.document))
    return [RuleView(id="", state=state, text=_clip_rule(rule), does=f"for the {document}") for rule in pending.rules]


def _add_tally(view: RuleView, pending: PendingReport, report: NightReport) -> RuleView:
    why = describe_pending(pending, report.night)
    return replace(view, wins=pending.wins, losses=pending.losses, ties=pending.ties, why=why, trial="")


def _clip_rule(text: str) -> str:
    return plain(without_bullet(text), RULE_CHARACTERS)


def _list_quotes(edit: EditRecord, report: NightReport, *, wishes_first: bool) -> tuple[Quote, ...]:
    """Return what the person said where the rule comes from; what shares no word with it only if nothing does."""
    from skillopt_sleep.model.rules import find_heavy  # noqa: PLC0415  `status` compares no texts

    wanted = find_heavy(f"{edit.text} {edit.anchor}")
    labels = {label.id: label for label in report.tasks}
    found: dict[str, Quote] = {}
    for label in (labels[task] for task in edit.task_ids if task in labels):
        last = label.origins[-1] if label.origins else None
        session = f"{last.source} {last.session_id[:8]}" if last else ""
        for words in label.words:
            quoted = plain(words, QUOTE_CHARACTERS)
            quote = Quote(words=quoted, day=name_day(last.day) if last else "", session=plain(session))
            found.setdefault(quoted, quote)
    about = [quote for quote in found.values() if wanted & find_heavy(quote.words)]
    quotes = sorted(about or found.values(), key=lambda quote: wishes_first and not is_standing_wish(quote.words))
    return tuple(quotes)[:QUOTES]
