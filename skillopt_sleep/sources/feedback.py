"""Labels what a prompt says about the answer before it: a correction, an approval, or neither.

Structure decides first: words typed while refusing a call or after stopping the agent. For all other prompts, points
are added up: for what the words do (refuse, undo, report a failure ...), and for the situation they were typed in (did
the agent just write files, did it ask a question?). ``lexicon.toml`` holds the phrases, the points and the threshold.
In doubt the label is neither: that loses a hint, while a wrong label would teach the wrong lesson.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.model.lexicon import (
    ENDING,
    Sentence,
    fold_words,
    get_table,
    load_lexicon,
    makes_offer,
    read_words,
    split_sentences,
    strip_pasted,
)
from skillopt_sleep.model.session import Feedback, PromptKind
from skillopt_sleep.model.text import STOPWORDS

OPENING = 400
"""Characters at the start of a person's own words that are searched for feedback; a new request may follow them."""

SENTENCES = 4
"""Maximum sentences of a prompt's opening that are searched for feedback."""

LONG = 60
"""Number of words above which a prompt is more likely a new request than a remark."""

SHORT = 5
"""Maximum words of a remark that can only be about what was just said or done."""

SEEN = 3_000
"""Characters at the end of an answer whose words are compared with the prompt's."""

SHARED = 1 / 3
"""Minimum share of a remark's content words that must be in the answer it is about; two shared words also suffice."""

SAME_REQUEST = 0.6
"""Minimum share of the content words, three or more, that a prompt shares with the prompt it repeats."""

QUOTED = 12
"""Minimum characters of a line that counts as quoted when both the prompt and the answer contain it."""

PROSE = 10
"""Minimum words of a line that names a place in a file to count as a person's remark, not as a tool's output."""

_PLACE = re.compile(r"([\w.-]+\.\w+):\d+")
_PASTED = re.compile(r"\s*(?:[\u276f\u279c$%>] |#+ |```|[<{\[](?!Image))")
"""The beginning of a prompt that is pasted as a whole: a terminal's prompt, a heading, a fence, a tag."""

_PASTE = re.compile(r":[ \t]*\n|\n[`\u276f]")
"""The start of pasted text after a person's own words: after a colon at a line's end, at a fence or terminal prompt."""

_SPEECH = re.compile(
    "[\"\u201c\u201e\u00ab][^\"\u201d\u201c\u00bb\n]{25,}[\"\u201d\u201c\u00bb]|(?<=: )'[^'\n].{20,}?'(?=\\W|$)"
)
"""Words of somebody else in quotation marks; fewer than about 25 characters count as a name and stay."""

_CHANGING = re.compile(
    r"(?:^|[;&|(]\s*)(?:sudo\s+)?(?:git\s+(?:commit|push|merge|rebase|reset|checkout|switch|tag|cherry-pick|stash|rm|mv)"
    r"|gh\s+\w+\s+(?:create|edit|merge|close|comment|review|delete)|mv|cp|rm|mkdir|touch|tee|ln|chmod|sed\s+-i|install"
    r"|npm\s+i|pip\s+install|docker|kubectl|terraform|ffmpeg|convert|python\S*\s+-\s|curl\s+-X)\b|>\s*[\w./~]"
)
"""A shell command that changes something, unlike commands that only show or test something."""

_LONG_WORD = re.compile(r"[^\W\d_]{4,}")


class Before(Struct, frozen=True, kw_only=True):
    """What a person had seen of the session when they typed a prompt."""

    asked: str = ""
    """The person's previous prompt."""
    answer: str = ""
    """The agent's last text, or "" when the agent wrote none."""
    files: tuple[str, ...] = ()
    """The files that the agent had written or edited since the previous prompt."""
    commands: tuple[str, ...] = ()
    """The shell commands that the agent had run since the previous prompt."""
    used_tools: bool = False

    @property
    def has_made(self) -> bool:
        """Whether the agent just made something: files, changes by a command, or an answer that is itself the work."""
        return bool(self.files) or not self.used_tools or any(map(_CHANGING.search, self.commands))


class Label(Struct, frozen=True, kw_only=True):
    """What a prompt says about the answer before it, and the reason for this label."""

    feedback: Feedback
    cause: str = ""
    """What the words of a correction do, as in "asks to undo it"; "" for prompts that are no correction."""


_NEITHER = Label(feedback=Feedback.NEITHER)


def label_feedback(prompt: str, before: Before, kind: PromptKind, *, interrupted: bool) -> Label:
    """Return the label of a prompt: whether it corrects or approves what the agent did ``before``, or does neither.

    ``interrupted``: the person stopped the agent just before. Words typed then are a correction, unless they are a
    question, an apology or "go on". Words typed while refusing a tool call are a correction, unless they say "go on".
    """
    is_refusal = kind is PromptKind.REJECTION
    if kind.weak or not (before.answer or before.files or interrupted or is_refusal):
        return _NEITHER
    remark = _read_remark(prompt, before)
    cues = _find_cues(remark, before) if remark.sentences else {}
    if is_refusal:
        goes_on = remark.goes_on and not cues
        return _NEITHER if goes_on else Label(feedback=Feedback.CORRECTION, cause="refuses a call")
    if not remark.sentences:
        return _NEITHER
    cues |= _read_structure(remark, before, interrupted=interrupted)
    if cues and sum(cues.values()) + _add_support(remark, before, kind) >= load_lexicon().threshold:
        return Label(feedback=Feedback.CORRECTION, cause=max(cues, key=cues.__getitem__))
    return Label(feedback=Feedback.APPROVAL) if not interrupted and _is_approval(remark) else _NEITHER


class _Remark(Struct, frozen=True, kw_only=True):
    """A person's own words at the beginning of a prompt."""

    sentences: tuple[Sentence, ...]
    goes_on: bool
    """Whether the words begin by telling the agent to go on, or by apologising for having stopped it."""
    length: int
    """Number of words in the whole prompt, without pasted text."""
    quotes: bool
    """Whether the prompt repeats a line of the agent's answer."""
    content: frozenset[str]
    """The prompt's words of four letters or more that carry meaning."""
    findings: bool
    """Whether the prompt says in prose what is wrong in a line of a file that the agent had just written."""


def _read_remark(prompt: str, before: Before) -> _Remark:
    own, quotes = _drop_quotations(_SPEECH.sub(" ", prompt), before.answer)
    own = "" if _PASTED.match(own) else strip_pasted(own)
    opening = _PASTE.split(own, maxsplit=1)[0][:OPENING]
    sentences = tuple(itertools.islice(split_sentences(opening), SENTENCES))
    return _Remark(
        sentences=sentences,
        goes_on=bool(sentences) and sentences[0].begins_with(get_table("goes_on")),
        length=len(own.split()),
        quotes=quotes,
        content=_find_content(own[: 2 * OPENING]),
        findings=_has_findings(own, before.files),
    )


def _drop_quotations(prompt: str, answer: str) -> tuple[str, bool]:
    """Return the prompt without the lines that it copies from the answer, and whether it had such a line."""
    if "\n" not in prompt:
        return prompt, False
    seen = " ".join(answer.split())
    kept, quotes = [], False
    for line in prompt.splitlines():
        bare = " ".join(line.strip(" \t>-*").split())
        if len(bare) >= QUOTED and bare in seen:
            quotes = True
        else:
            kept.append(line)
    return "\n".join(kept).strip(), quotes


def _has_findings(own: str, files: Sequence[str]) -> bool:
    """Tell whether a line names a place in one of the files, as ``name.py:12``, and says something about the place."""
    names = set(map(_get_name, files))
    return bool(names) and any(
        len(line.split()) >= PROSE and not names.isdisjoint(_PLACE.findall(line)) for line in own.splitlines()
    )


def _get_name(path: str) -> str:
    return re.split(r"[\\/]", path)[-1]


def _find_content(text: str) -> frozenset[str]:
    return frozenset(_LONG_WORD.findall(fold_words(text))) - STOPWORDS


def _find_cues(remark: _Remark, before: Before) -> dict[str, int]:
    """Return the points of each cause that the words suggest, minus the points that the situation takes off."""
    lexicon = load_lexicon()
    comma = lexicon.counters["comma"]
    raised = [(cue, max(cue.weigh(sentence, comma) for sentence in remark.sentences)) for cue in lexicon.cues]
    raised = [(cue, points) for cue, points in raised if points > 0]
    situation = _read_situation(remark, before) if raised else frozenset()
    found: dict[str, int] = {}
    for cue, most in raised:
        points = most + sum(lexicon.counters[name] for name in cue.loses_to & situation)
        if points > 0 and cue.needs <= situation:
            found[cue.cause] = max(points, found.get(cue.cause, 0))
    return found


def _read_situation(remark: _Remark, before: Before) -> frozenset[str]:
    """Return the facts that cues may need or lose points to, by their names in ``lexicon.toml``."""
    facts = {
        "made": before.has_made,
        "files": bool(before.files),
        "about": _is_about(remark, before),
        "answers": makes_offer(before.answer),
        "orders": remark.sentences[0].begins_with(get_table("orders")),
        "praises": any(map(_praises, remark.sentences)),
        "reports": get_table("asks_result").occurs_in(*read_words(before.answer[-ENDING:])),
    }
    return frozenset(name for name, is_so in facts.items() if is_so)


def _is_about(remark: _Remark, before: Before) -> bool:
    """Tell whether a remark points at the answer, shares words or a file's name with it, or has only a few words."""
    if len(remark.sentences) == 1 and len(remark.sentences[0].words) <= SHORT:
        return True
    if any(said.contains(get_table("about")) for said in remark.sentences[:2]):
        return True
    names = _find_content(" ".join(map(_get_name, before.files)))
    shared = len(remark.content & _find_content(before.answer[-SEEN:]))
    return shared > 1 or SHARED * len(remark.content) <= shared > 0 or not remark.content.isdisjoint(names)


def _read_structure(remark: _Remark, before: Before, *, interrupted: bool) -> dict[str, int]:
    """Return the points of each cause that is recognised without a phrase of the lexicon."""
    first, points = remark.sentences[0], load_lexicon().structure
    is_question = first.asks or (len(first.words) <= SHORT and any(said.asks for said in remark.sentences[1:2]))
    found: dict[str, int] = {}
    if interrupted and not (remark.goes_on or is_question):
        found["stops the agent"] = points["interrupted"]
    if remark.findings:
        found["lists what is wrong in files just written"] = points["findings"]
    asked = _find_content(before.asked[: 2 * OPENING])
    most = max(len(remark.content), len(asked))
    if most > 2 and len(remark.content & asked) >= SAME_REQUEST * most:  # noqa: PLR2004 - SAME_REQUEST says why three
        found["asks for the same again"] = points["repeats"]
    return found


def _add_support(remark: _Remark, before: Before, kind: PromptKind) -> int:
    """Return the points that the situation adds to a correction, whatever its cause."""
    points = load_lexicon().supports
    return (
        points["made"] * before.has_made
        + points["about"] * _is_about(remark, before)
        + points["quotes"] * remark.quotes
        + points["queued"] * (kind is PromptKind.QUEUED)
        + points["long"] * (remark.length > LONG)
        + points["slip"] * any(said.contains(get_table("slip")) for said in remark.sentences[:2])
    )


def _is_approval(remark: _Remark) -> bool:
    """Tell whether the first sentence praises or thanks, or a later one does in a short remark that orders nothing."""
    first, later = remark.sentences[0], remark.sentences[1:]
    if _praises(first):
        return True
    is_remark = remark.length <= 2 * SHORT and not (first.asks or first.contains(get_table("orders")))
    return is_remark and any(map(_praises, later))


def _praises(said: Sentence) -> bool:
    praises = get_table("praises")
    return not said.asks and (said.begins_with(praises) or any(map(praises.find_opening, said.trailing)))
