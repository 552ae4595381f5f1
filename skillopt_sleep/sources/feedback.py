"""What a prompt says about the answer before it, by the way people correct and approve, in any subject.

A correction or an approval comes first in what one says, so only the opening is looked at: what follows is pasted
text, or the next request. Where the words leave room for doubt the verdict is neither: that costs a hint, while a
wrong one would teach the wrong lesson.

Words by which people correct and approve, of a few large languages; what they amount to is said in ``feedback``.

In the tables a line holds phrases of one language, parted by ``;``. None belongs to a trade. Apostrophes are left out
of phrases and clauses alike, as people do.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from skillopt_sleep.model.session import Feedback, PromptKind

OPENING = 300
"""Characters in which the words about the last answer stand, if there are any."""

CLAUSES = 3
"""Clauses of the opening that are looked at."""

FULL_STOPS = ("!", "\u3002", "..", ". ", ".\n")
"""What ends a clause, compatibility forms folded; a point within a name does not."""


def label_feedback(prompt: str, previous_final: str, kind: PromptKind, interrupted: bool) -> Feedback:  # noqa: FBT001
    """What ``prompt`` says about the answer ``previous_final`` ("" where there was none).

    ``interrupted`` says that the person stopped the agent just before: what is said then, and is neither a question
    nor "go on", tells what the agent was getting wrong. Words said while refusing a tool call are a correction.
    """
    if kind is PromptKind.REJECTION:
        return Feedback.CORRECTION
    if kind.weak or not (previous_final or interrupted):
        return Feedback.NEITHER
    clauses = list(itertools.islice(_clauses(prompt), CLAUSES))
    return _verdict(clauses, previous_final, interrupted=interrupted) if clauses else Feedback.NEITHER


class _Clause(Struct, frozen=True, kw_only=True):
    """The words up to a full stop, folded, a space before and after each.

    ``bare`` is without what people begin with before they say anything.
    """

    text: str
    bare: str
    words: frozenset[str]
    asks: bool


def _clauses(prompt: str) -> Iterator[_Clause]:
    """The clauses of the opening, up to where pasted text begins."""
    if _PASTED.match(prompt):
        return
    own_words = _PASTE.split(prompt[:OPENING], maxsplit=1)[0]
    for line in _one_a_line(_folded(own_words)):
        if words := _WORD.findall(line):
            text = f" {' '.join(words)} "
            bare, known = _without_fillers(text), frozenset(words)
            asks = line.endswith("?") or bool(ASKS.opening(bare)) or HAS_QUESTION.stand_in(text, known)
            yield _Clause(text=text, bare=bare, words=known, asks=asks)


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.replace("'", "").replace("\u2019", "").replace("`", "")


def _one_a_line(text: str) -> list[str]:
    """Folded text cut at its full stops; a question keeps its mark."""
    for stop in FULL_STOPS:
        text = text.replace(stop, "\n")
    return text.replace("?", "?\n").split("\n")


def _without_fillers(text: str) -> str:
    while filler := FILLERS.opening(text):
        text = text[len(filler) - 1 :]
    return text


def _verdict(clauses: Sequence[_Clause], previous_final: str, *, interrupted: bool) -> Feedback:
    first = clauses[0]
    if interrupted and (GOES_ON.opening(first.bare) or GOES_ON.opening(first.text)):
        return Feedback.NEITHER
    if any(_corrects(clause, previous_final, first=clause is first) for clause in clauses):
        return Feedback.CORRECTION
    if interrupted:
        return Feedback.NEITHER if first.asks else Feedback.CORRECTION
    return Feedback.APPROVAL if _approves(first, previous_final) else Feedback.NEITHER


def _corrects(clause: _Clause, answer: str, *, first: bool) -> bool:
    if REFUSES.opening(clause.bare) and not ACCEPTS.opening(clause.bare):
        return True
    if clause.asks or ORDERS.opening(clause.bare):
        return False
    if TAKES_BACK.stand_in(clause.text, clause.words):
        return True
    if first and RESTATES.stand_in(clause.text, clause.words):
        return True
    return FAILED.stand_in(clause.text, clause.words) and _is_about(clause, answer)


def _is_about(clause: _Clause, answer: str) -> bool:
    """Whether a clause points at the answer, or speaks of the same things."""
    if ABOUT_ANSWER.stand_in(clause.text, clause.words):
        return True
    told = set(_LONG_WORD.findall(answer.casefold()))
    return not told.isdisjoint(_LONG_WORD.findall(clause.text))


def _approves(clause: _Clause, answer: str) -> bool:
    if ACCEPTS.opening(clause.bare):
        return True
    if agreed := AGREES.opening(clause.text):
        return not GOES_ELSEWHERE.opening(clause.text[len(agreed) - 1 :])
    if not JOINS_IN.opening(clause.bare):
        return False
    end = answer[-OPENING:].rstrip()
    words = _WORD.findall(_folded(end))
    return end.endswith("?") or INVITES.stand_in(f" {' '.join(words)} ", frozenset(words))


_PASTED = re.compile(r"\s*(?:[\u276f\u279c$%>] |#+ |```|[<{\[](?!Image))")
"""How a prompt begins that is pasted as a whole: a terminal's prompt, a heading, a fence, a tag."""

_PASTE = re.compile(r":[ \t]*\n|\n[`\u276f]")
"""Where pasted text begins after one's own: after a colon at a line's end, at a fence or a terminal's prompt."""

_WORD = re.compile(r"\w+(?:[./]\w+)*")
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")


class Cues:
    """A table of phrases, found by their first words.

    A clause is given as its words with a space around each. Scripts that do not part words are looked through.
    """

    def __init__(self, table: str) -> None:
        plain = table.replace("\n", ";").replace("'", "").replace("-", " ")
        phrases = [phrase for part in plain.split(";") if (phrase := " ".join(part.split()))]
        by_first: defaultdict[str, list[str]] = defaultdict(list)
        for phrase in filter(_is_parted, phrases):
            by_first[phrase.partition(" ")[0]].append(f" {phrase} ")
        self._by_first = dict(by_first)
        self._firsts = frozenset(by_first)
        self._unparted = tuple(phrase for phrase in phrases if not _is_parted(phrase))

    def opening(self, clause: str) -> str:
        """The phrase that the clause begins with, "" when none does."""
        first = clause[1 : clause.find(" ", 1)]
        for phrase in self._by_first.get(first, ()):
            if clause.startswith(phrase):
                return phrase
        if not clause.startswith(self._unparted, 1):
            return ""
        return next(f" {phrase}" for phrase in self._unparted if clause.startswith(phrase, 1))

    def stand_in(self, clause: str, words: AbstractSet[str]) -> bool:
        """Whether one of the phrases stands anywhere in the clause, whose words are ``words``."""
        for word in words & self._firsts:
            if any(phrase in clause for phrase in self._by_first[word]):
                return True
        return not clause.isascii() and any(phrase in clause for phrase in self._unparted)


def _is_parted(phrase: str) -> bool:
    """Whether the script parts words by spaces."""
    return phrase[-1] < "\u2e80"


def _each(first: str, second: str) -> str:
    """Every phrase made of one of ``first`` and one of ``second``."""
    return ";".join(f"{a} {b}" for a in first.split(";") for b in second.split(";"))


_YOU_FAILED = _each(
    "you; u", "forgot; missed; broke; misunderstood; misread; deleted; removed; didn't; haven't; still; shouldn't"
)
_WHY_YOU = _each("why did; why are; why do; why would; why didn't; why have", "you; u")

REFUSES = Cues(f"""
no; nope; nah; na; wrong; stop; wait; actually; instead; rather; as i said; as i asked; as i wrote
not the; not this; not that; not these; not those; not what; not like; not quite; not really; not exactly; not it
ignore the; ignore that; ignore my; forget the; forget that; that's not; that's wrong; that is not; that is wrong
i said; i meant; i asked; i told; we said; we meant; you should not; you were supposed; {_YOU_FAILED}; {_WHY_YOU}
nein; falsch; nicht so; nicht das; nicht die; nicht der; stopp; doch nicht; das ist falsch; das stimmt nicht
non; faux; ce n'est pas; c'est faux; c'est pas; pas ça; pas comme
eso no; no es; está mal; incorrecto; así no
não; errado; está errado; isso não
sbagliato; non è
нет; неверно; неправильно; не то; не так; стоп
不对; 不是; 错了; 不要; 別; 違う; 違います; ちがう; そうじゃ; やめて; 아니; 틀렸; 잘못
""")
"""A clause that begins so refuses what was done, unless it accepts as well ("no problem")."""

TAKES_BACK = Cues("""
undo; roll back; roll it back; roll that back; rolling back; revert it; revert that; revert this; revert the
revert your; revert to; put it back; put that back; put them back; change it back; change that back; move it back
switch it back; switch back; set it back; bring it back; bring back; go back to; back to the old; back to the previous
back to the original; back to how; back to what; change of plan; change of plans; change in plan; change in plans
rückgängig; wieder zurück
annule; reviens à; remets
deshaz; revierte; vuelve a poner
desfaça; desfaz; reverta
annulla; ripristina
верни; отмени
改回; 撤销; 恢复原; 元に戻; 戻して; 되돌
""")
"""Undoing what was done, wherever it is said."""

RESTATES = Cues("""
should have; should be; should not; should only; should still; shouldn't; instead; rather than; supposed to
idea was; plan was; goal was; point was; intention was; i meant; what i meant; what i want; what i wanted
too much; too many; too verbose; too complicated; too generic; too vague
stattdessen; sollte; anstatt; gemeint war
plutôt; au lieu; devrait
en vez de; en lugar de; debería; más bien
em vez; deveria
invece; dovrebbe
вместо; должен; должна; должно
应该; 應該; 而不是; べき; ではなく; 대신; 해야
""")
"""What was wanted, said again."""

_DENIALS = "doesn't; don't; didn't; does not; do not; did not; won't; can't; isn't; aren't; is not; are not; wasn't"
_STILL = "fail; fails; failing; broken; wrong; not; the same; get; getting; see; seeing; doesn't; isn't; have; has"
_HOLDS = (
    "work; show; make sense; match; compile; build; run; pass; appear; load; look right; seem right; help; fix; "
    "working; right; correct; showing; passing; fixed; there; what i"
)

FAILED = Cues(f"""
wrong; incorrect; inaccurate; not right; not correct; not working; not true; not great; not what
{_each("still", _STILL)}; {_each(_DENIALS, _HOLDS)}
funktioniert nicht; geht nicht; klappt nicht; stimmt nicht; immer noch
ne marche pas; ne fonctionne pas; marche pas; toujours pas
no funciona; sigue sin; todavía no
não funciona; ainda não
non funziona; ancora non
не работает; всё ещё; все еще
不行; 没用; 不工作; 不正确; 还是不; 動かない; 動きません; おかしい; まだ; 안돼; 안 돼; 안되
""")
"""Something does not hold."""

ABOUT_ANSWER = Cues("""
it; it's; its; that; that's; this; these; those; they; you; your; still; now; again; one
das; es; immer noch; ça; cela; eso; esto; isso; isto; questo; это; оно
这; 那; 还是; これ; それ; まだ; 이거; 그거; 아직
""")
"""What points at the answer before."""

_TO_DO = "fix; add; implement; create; write; make; find; investigate; debug; check; look; review; update; refactor"

ORDERS = Cues(f"""
{_TO_DO}; explain; help; figure; handle
{_each("can you; could you; can we; now; next; then", _TO_DO)}
""")
"""Giving an order tells of work to do, whatever is wrong there."""

ACCEPTS = Cues("""
yes; yep; yeah; yup; sure; of course; absolutely; definitely; go ahead; go for it; ship it; merge it; make it so
proceed; do it; do that; do this; do so; do both; do all; sounds good; sounds great; sounds right; sounds fine
looks good; looks great; looks right; looks fine; looks perfect; look good; that's perfect; that's great; that's good
that's fine; that's right; that's correct; that's better; that works; this works; it works; works now; works great
this is great; this is perfect; this is good; this is really; much better; lgtm; perfect; excellent; awesome; amazing
great; nice; good job; good work; good idea; good point; good catch; good call; well done; brilliant; exactly; correct
thanks; thank you; thx; ty; cool; no problem; no worries; right; agreed; approved
ja; jawohl; genau; perfekt; danke; super; passt; sehr gut; einverstanden; mach das; gut so; klar
oui; parfait; merci; d'accord; très bien; vas-y; génial; exactement
sí; perfecto; gracias; vale; de acuerdo; muy bien; adelante; genial; exacto; hazlo
sim; perfeito; obrigado; obrigada; valeu; ótimo; pode fazer; pode seguir; isso mesmo; exato
sì; perfetto; grazie; va bene; ottimo; esatto
да; отлично; спасибо; хорошо; супер; давай; верно; идеально
好的; 可以; 谢谢; 謝謝; 完美; 没问题; 不错; 很好; 对的; 是的; はい; ありがとう; いいね; 完璧; お願いします; 了解
네; 좋아; 감사; 고마워; 완벽
""")
"""A clause that begins so accepts what was done or proposed."""

AGREES = Cues("ok; okay; oki; oki doki; okey; k; kk; alright; fine")
"""An okay accepts, unless it only turns to something else (``GOES_ELSEWHERE``)."""

GOES_ELSEWHERE = Cues("""
we; i; i'm; i'd; so; and; but; now; next; one; some; another; maybe; perhaps; what; why; how; where; when; who; which
is; are; was; does; did; can; could; would; should; will; the; this; that; these; there; it; it's; my; our; your; you
if; for; in; on; with; after; question; not; don't; different; new; same
""")

JOINS_IN = Cues(
    _each(
        "let's; then let's; so let's",
        "do; implement; go; use; try; add; make; apply; build; fix; take; move; ship; merge; commit; keep; start with",
    )
)
"""Joining in accepts a proposal, where there was one (``INVITES``)."""

INVITES = Cues("""
want me to; shall i; should i; would you like; let me know; if you like; if you'd like; if you want; which do you
recommend; recommendation; suggest; suggestion; option; options; propose; proposal; plan; i'd go; i'd do; i would
soll ich; möchtest du; souhaites-tu; veux-tu; quieres que; quer que; vuoi che; хочешь
要我; 需要我; しましょうか; 할까요
""")

GOES_ON = Cues("""
continue; go on; carry on; keep going; resume; proceed; sorry
weiter; mach weiter; continue; continua; continúa; sigue; продолжай; 继续; 続け; 계속
""")

_AUXILIARIES = "is; are; was; were; do; does; did; will; would; should; can; could"

ASKS = Cues(f"""
what; why; how; who; which; is; are; was; does; did; do you; do we; can you; can we; could you; would you; should we
{_each("when; where", _AUXILIARIES)}
was ist; warum; wie; wieso; pourquoi; comment; qué; por qué; cómo; por que; como; perché; come; что; почему; как
为什么; 怎么; 什么; なぜ; どう; 왜; 어떻게
""")
"""A clause that begins so asks, with or without a question mark."""

HAS_QUESTION = Cues("got a question; have a question; quick question; different question; eine frage")

FILLERS = Cues("ok; okay; but; and; so; well; hm; hmm; hmmm; oh; ah; ugh; please; hey; sorry; also")
"""What people begin with before they say anything."""
