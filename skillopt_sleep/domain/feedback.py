"""What a prompt says about the answer before it, by the way people correct and approve, in any subject.

A correction or an approval comes first in what one says, so only the opening is looked at: what follows is pasted
text, or the next request. Cues are words of correcting and approving alone, never of a trade. Where they leave room
for doubt the verdict is neither: it costs a hint, while a wrong one teaches the wrong lesson.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from skillopt_sleep.domain.session import Feedback, PromptKind

__all__ = ["label_feedback"]

OPENING = 400
"""Characters in which the words about the last answer stand, if there are any."""

CLAUSES = 3
"""Clauses of the opening that are looked at."""


def label_feedback(prompt: str, previous_final: str, kind: PromptKind, interrupted: bool) -> Feedback:  # noqa: FBT001
    """What ``prompt`` says about the answer ``previous_final`` ("" where there was none).

    ``interrupted`` says that the person stopped the agent just before: what is said then, and is neither a question
    nor "go on", says what the agent was getting wrong. Words said while refusing a tool call are a correction.
    """
    if kind is PromptKind.REJECTION:
        return Feedback.CORRECTION
    if kind.weak or not (previous_final or interrupted):
        return Feedback.NEITHER
    clauses = list(itertools.islice(_clauses(prompt), CLAUSES))
    if not clauses:
        return Feedback.NEITHER
    first, asks = clauses[0]
    if _corrects(clauses, previous_final):
        return Feedback.CORRECTION
    if interrupted:
        return Feedback.NEITHER if asks or _GO_ON.match(first) else Feedback.CORRECTION
    return Feedback.APPROVAL if _approves(first, previous_final) else Feedback.NEITHER


def _clauses(prompt: str) -> Iterator[tuple[str, bool]]:
    """The clauses of the opening in lower case, each with whether it is a question, up to where a paste begins."""
    own_words = _PASTE.split(prompt[:OPENING], maxsplit=1)[0]
    folded = unicodedata.normalize("NFKC", own_words).casefold().translate(_APOSTROPHES)
    for match in _CLAUSE.finditer(folded):
        if clause := match["words"].strip(_TRIM):
            yield clause, "?" in match["end"] or bool(_ASKS.match(clause))


def _corrects(clauses: list[tuple[str, bool]], answer: str) -> bool:
    for number, (clause, asks) in enumerate(clauses):
        if _REFUSES.match(clause) or (_TAKES_BACK.search(clause) and not asks):
            return True
        if asks or _ORDERS.match(clause):
            continue
        if number == 0 and _RESTATES.search(clause):
            return True
        if _FAILED.search(clause) and (_ABOUT_ANSWER.search(clause) or _shares_a_word(clause, answer)):
            return True
    return False


def _approves(clause: str, answer: str) -> bool:
    if _YES.match(clause) or _ACCEPTS.match(clause):
        return True
    if agreed := _AGREES.match(clause):
        return not _GOES_ELSEWHERE.match(clause[agreed.end() :].lstrip(_TRIM))
    return bool(_JOINS_IN.match(clause) and _INVITES.search(answer))


def _shares_a_word(clause: str, answer: str) -> bool:
    words = set(_LONG_WORD.findall(answer.casefold()))
    return any(word in words for word in _LONG_WORD.findall(clause))


def _any_of(*phrases: str) -> str:
    """Phrases as one pattern; an end of word is wanted where the writing system has words."""
    spaced = [phrase for phrase in phrases if phrase[-1].isascii() or phrase[-1].isalpha() and phrase[-1] < "\u2e80"]
    unspaced = [phrase for phrase in phrases if phrase not in spaced]
    return "|".join(filter(None, [rf"(?:{'|'.join(spaced)})(?!\w)" if spaced else "", *unspaced]))


_APOSTROPHES = str.maketrans({"\u2018": "'", "\u2019": "'", "`": None})
_TRIM = " \t,:;-–—()\"'*>"
_PASTE = re.compile(r"\A\s*[❯➜$%>#`<{\[]|:[ \t]*\n|\n```|\n❯")
"""Where pasted text begins: at a terminal's prompt, a heading, a fence or a tag, or after a colon at a line's end."""

_CLAUSE = re.compile(r"(?P<words>[^.?!\n。？！…]*(?:\.(?=\w)[^.?!\n。？！…]*)*)(?P<end>[.?!\n。？！…]+|\Z)")
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")

_REFUSES = re.compile(
    _any_of(
        r"(?:ok(?:ay)?,? |but |and |so |well,? |hm+,? |oh,? |ah,? )?(?:no(?:pe)?|nah?|wrong|stop|wait)(?!\w| (?:problem|worries|need|idea))",
        r"not (?:the|this|that|these|those|what|like|quite|really|exactly|it|in)",
        r"(?:ok(?:ay)?,? |but |so )?(?:actually|instead|rather)",
        r"(?:please )?(?:ignore|forget) (?:the|that|my|it|what)",
        r"(?:you|u) (?:forgot|missed|broke|misunderstood|misread|deleted|removed|didn't|haven't|still|should(?:n't| not)|were supposed)",
        r"why (?:did|are|do|would|didn't|have) (?:you|u)",
        r"that(?:'s| is|s) (?:not|wrong|incorrect)",
        r"(?:i|we) (?:said|meant|asked|told)",
        r"as i (?:said|asked|wrote)",
        r"nein|falsch|nicht (?:so|das|die|der)|stopp|halt",
        r"non|faux|ce n'est pas|c'est (?:faux|pas)|pas (?:ça|comme|le|la)",
        r"no es|eso no|está mal|incorrecto|para",
        r"não|nao|errado|está errado|isso não",
        r"sbagliato|non è",
        r"нет|неверно|неправильно|не то|не так|стоп",
        r"不对|不是|错了|不要|别|停|違う|違います|ちがう|そうじゃ|やめて|아니|틀렸|잘못",
    )
)  # fmt: skip
"""A clause that begins so refuses what was done."""

_TAKES_BACK = re.compile(
    r"(?<!\w)(?:undo|roll(?:ing)? (?:it |that |this )?back|revert (?:it|that|this|the|your|to)|"
    r"(?:put|change|move|switch|set|bring) \S+(?: \S+)? back(?! up)|go back to|back to (?:the )?(?:old|previous|original|before)|"
    r"change (?:of|in) plans?|mach(?:e|en)? .{0,20}rückgängig|annule|reviens|deshaz|revierte|desfa[çz]|reverta|"
    r"верни|отмени)(?!\w)|改回|撤销|恢复原|元に戻|戻して|되돌"
)
"""Undoing is a correction wherever it stands, but for "how do I undo".. """

_RESTATES = re.compile(
    r"(?<!\w)(?:should (?:have|be|not|only|still)|shouldn't|instead|rather than|"
    r"(?:the )?(?:idea|plan|goal|point|intention) was|supposed to|i meant|what i (?:meant|want(?:ed)?)|"
    r"too (?:much|many|verbose|complicated|generic|vague)|stattdessen|sollte|plutôt|au lieu|devrait|"
    r"en (?:vez|lugar) de|debería|em vez|deveria|invece|вместо|должн[оаы]?)(?!\w)|应该|應該|而不是|べき|ではなく|대신|해야"
)
"""What was wanted, said again: a correction where it opens the prompt."""

_FAILED = re.compile(
    r"(?<!\w)(?:wrong|incorrect|inaccurate|not (?:right|correct|working|what|true|great|good|quite)|"
    r"(?:does|do|did|is|are|was|has|have|can|could|would|wo|ca)n'?t (?:\w+ )?(?:work|show|make|match|compile|build|run|pass|exist|appear|load|look|seem|help|fix|right|correct|working)\w*|"
    r"(?:doesnt|dont|didnt|isnt|arent|wont|cant) (?:\w+ )?(?:work|show|make|match|compile|build|run|pass|exist|appear|load|look|seem|help|fix|right|correct)\w*|"
    r"still (?:fail|broken|wrong|not|the same|get|see|does|doesn|isn|have|has)\w*|"
    r"funktioniert nicht|geht nicht|stimmt nicht|ne (?:marche|fonctionne) pas|no funciona|não funciona|non funziona|"
    r"не работает)(?!\w)|不行|没用|不工作|不正确|動かない|動きません|おかしい|안 ?돼|안 ?되"
)
"""Something does not hold: a correction if it is about the answer, else a bug like any other."""

_ABOUT_ANSWER = re.compile(
    r"(?<!\w)(?:it|it's|its|that|that's|this|these|those|they|you|your|still|now|again|one|das|es|ça|cela|eso|esto|"
    r"isso|isto|это|оно)(?!\w)|这|那|还是|これ|それ|まだ|이거|그거|아직"
)
_ORDERS = re.compile(
    r"(?:please |can you |could you |can we |now |also |next,? |then |ok(?:ay)?,? )*(?:fix|add|implement|create|write|"
    r"make|find|investigate|debug|check|look|review|update|refactor|explain|help|figure|handle)(?!\w)"
)
"""A clause that gives an order tells of work to do, whatever is wrong there."""

_ACCEPTS = re.compile(
    _any_of(
        r"(?:ok(?:ay)?,? |so |and )?(?:please )?(?:go (?:ahead|for it)|do (?:it|that|this|so|both|all)|ship it|merge it|make it so|proceed|sounds (?:good|great|right|fine)|looks? (?:good|great|right|fine|perfect))",
        r"(?:that|this|it)(?:'s| is|s| looks| sounds| works)? ?(?:perfect|great|good|fine|right|correct|works|exactly|awesome|much better|better)",
        r"lgtm|perfect|excellent|awesome|amazing|great|nice|good (?:job|work|idea|point|catch|call)|brilliant|exactly|agreed?|approved?|correct|thanks?(?: you)?|thx|ty|cool|works (?:great|well|fine|now)",
        r"genau|perfekt|danke|super|passt|sehr gut|einverstanden|mach das|gut so",
        r"parfait|merci|d'accord|très bien|super|vas-y|génial|exactement",
        r"perfecto|gracias|vale|de acuerdo|muy bien|adelante|genial|exacto|hazlo",
        r"perfeito|obrigad[oa]|valeu|ótimo|pode (?:fazer|seguir|ir)|isso mesmo|exato",
        r"perfetto|grazie|va bene|ottimo|esatto|d'accordo",
        r"отлично|спасибо|хорошо|супер|давай|верно|идеально",
        r"好的|可以|谢谢|謝謝|完美|没问题|不错|很好|对的|ありがとう|いいね|完璧|お願いします|了解|좋아|감사|고마워|완벽|네",
    )
)  # fmt: skip
_YES = re.compile(
    _any_of(r"yes|yep|yeah|yup|ya|sure|of course|absolutely|definitely|ja|jawohl|oui|sí|si|sim|да|はい|是的|对")
)
"""A yes approves, whatever follows."""

_AGREES = re.compile(_any_of(r"ok(?:ay|ey|i)?(?: doki)?|k|kk|alright|fine"))
"""An okay approves unless it only turns to something else."""

_GOES_ELSEWHERE = re.compile(
    r"(?:we|i|i'm|i'd|so|and|but|now|next|one|some|another|maybe|perhaps|what|why|how|where|when|who|which|is|are|was|"
    r"does|did|can|could|would|should|will|the|this|that|these|there|it|it's|my|our|your|you|if|for|in|on|with|after|"
    r"question|not|don't|different|new|same)(?!\w)"
)
_JOINS_IN = re.compile(r"(?:then |so )?let'?s(?! (?:see|check|look|talk|think|discuss|start|begin)(?!\w))(?!\w)")
_INVITES = re.compile(
    r"\?\s*\Z|(?<!\w)(?:want me to|shall i|should i|would you like|let me know|if you(?:'d| would)? (?:like|want)|"
    r"recommend|suggest|option|propos|my plan|i'd (?:go|do)|i would)",
    re.IGNORECASE,
)
_GO_ON = re.compile(
    r"(?:ok(?:ay)?,? |please |sorry,? (?:\w+ ?){0,3},? ?)*(?:continue|go on|carry on|keep going|resume|proceed|weiter|continu[ae]r?|"
    r"sigue|продолж\w*)(?!\w)|继续|続け|계속"
)
_ASKS = re.compile(r"(?:what|why|how|where|when|who|which|is|are|does|did|do you|can you|could you)(?!\w)|question")
