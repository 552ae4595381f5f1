"""Text functions that every package uses, and the word lists that compare and classify requests.

The word lists hold words of everyday requests to an agent: those that carry no meaning, and those that mean the same.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def fold(text: str) -> str:
    """Return a text in the form in which quotes are compared: NFKC, case and white space folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def contains_words(text: str, quote: str) -> bool:
    """Whether ``text`` contains ``quote``, with white space and case folded; an empty quote is never contained."""
    wanted = fold(quote)
    return bool(wanted) and wanted in fold(text)


def excerpt(text: str, limit: int) -> str:
    """Shorten a text to one line of at most ``limit`` characters, cut between words, with an ellipsis if cut."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] if " " in head[limit // 2 :] else head).rstrip(" ,;:") + "…"


STOPWORDS = frozenset(
    """
    a about again all also am an and any are as at be been being but by can cannot could did do does doing done
    dont don down each else ever every everything everywhere for from further get gets getting give given go
    going got had has have having he help her here hey hi him his how i if im in into is isnt it its just kindly
    know let lets like ll look looks lot make makes making may maybe me might more most must my need needs no
    not now of off ok okay on once one only or other our out over own perhaps please pls possible properly put
    quite re really right s same say see shall she should so some something sort still such sure t take takes
    than thank thanks that the their them then there these they thing things this those three through to too try
    two up us use used using ve very via want was way we well were what when where whether which while who why will with
    wont would yes yet you your
    http https www com org net io html github gitlab
    aber alle als am an auch auf aus bei bin bitte da das dass dein dem den der des die dies diese doch du ein
    eine einem einen einer es für gib hast hat ich ihr im in ist ja jetzt kann kannst können mach machen man
    mein meine mit mir muss nach nicht noch nun nur oder ohne sich sie sind so soll und uns unser unsere vom von
    vor war was wenn wie wir wird wo zu zum zur über
    au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur ma mais merci mes moi mon ne
    nos notre nous on ou par pas peux pour qu que qui sa se ses son sont sur ta te tes ton tu un une vos votre
    vous
    al como con cual de del el ella en es esta este esto favor hay la las lo los me mi mis no nos para pero por
    porque puedes que se si sin su sus te tu tus un una uno y ya
    """.split()  # noqa: SIM905 - a list of a few hundred quoted words is not more readable
)

STOPSIGNS = frozenset(
    "的了着过请把我你您他她它们帮一份这那哪个些几是在有吗呢吧啊呀将为被和与或及也都就还要需想能可以给到从对于关"
    "下里让会用很没不无出来去再先后并且但而所如何什么样怎谁麻烦谢劳驾问希望应该必须封条位名次种件"
    "請幫這個們嗎為給從對於與讓會過還將來並麼樣誰麻煩謝該須條種願致頂欲"
)
"""Chinese characters without meaning of their own: particles, pronouns, measure words, courtesies."""

WORK = """
    fix repair resolve solve correct rectify
    write draft compose author
    add create implement introduce build generate produce prepare support insert append
    update upgrade bump refresh renew modernise modernize
    change modify edit adjust adapt alter replace swap
    remove delete drop discard
    check verify validate inspect
    review audit
    show display list
    explain describe understand clarify walk
    find search locate investigate debug diagnose analyse analyze
    suggest propose recommend
    run execute start launch
    improve enhance optimise optimize tune
    move relocate
    convert turn transform port migrate
    clean cleanup tidy
    pull fetch
    push upload
    写 書 寫 撰 起 草
    做 作 制 製 成 造 建 创 創 生
    修 改 正 直 解 决 決
    加 添 补 追 増
    整 理 汇
    查 找 看
"""
"""Verbs of everyday work, one family a line: each is folded into the first of its line and weighs ``LIGHT``."""

MATTER = """
    fail broken break broke red error crash
    pass green succeed
    fast faster slow slower slowness speed performance quick quickly
    small smaller big bigger huge large shrink slim size reduce trim
    dependency dep deps
    documentation doc docs document docstring
    repository repo
    configuration config configure setting
    database db
    authentication auth login logon signin
    directory folder dir
    application app
    environment env
    function fn func
    regex regexp
    latest newest recent current
    flaky intermittent intermittently unreliable stable stabilise stabilize reliable
    summary summarise summarize summarisation summarization
    pr prs mr
    typo typos misspelling
    test tests testing spec
"""
"""Synonyms, one family a line; they weigh as much as any other word."""

PHRASES = {
    "pull request": "pr",
    "merge request": "pr",
    "regular expression": "regex",
    "log in": "login",
    "sign in": "login",
    "up to date": "updated",
    "changelog": "release notes",
    "unit test": "test",
    "package-lock": "lockfile",
    "package lock": "lockfile",
    "lock file": "lockfile",
    "lock-file": "lockfile",
    "style sheet": "css",
    "stylesheet": "css",
    "nobody uses": "unused",
    "no one uses": "unused",
    "not used": "unused",
    "never used": "unused",
    "no longer used": "unused",
}
"""Phrases and their synonyms with another number of words."""

HOUSEKEEPING = frozenset(
    """
    commit committing commits ammend amend amending push pushing pull rebase rebasing merge merging branch stash squash
    checkout pr prs mr open close run rerun retry continue proceed exit quit stop start save apply meaningful changes
    change latest main master branches tag file files repo message everything thing okay yes
    """.split()  # noqa: SIM905 - as above
)
"""Words that steer an agent through a session; a prompt of these alone makes no sense outside its session."""

CONTINUE = frozenset(
    """
    continue proceed retry rerun run start apply everything thing okay
    weiter weitermachen fortfahren continuer poursuis suite continúa continua sigue adelante avanti
    """.split()  # noqa: SIM905 - as above
)
"""Words that ask for more of the same work."""

POINTING = frozenset(
    """
    it its that this these those them they there here both above below previous former latter another
    one ones first second third last
    das dies diese dieser es beide cela ceci ça ces eso esto esta estos
    """.split()  # noqa: SIM905 - as above
)
"""Words that refer to something said or shown before."""

QUESTIONS = frozenset(
    """
    what whats why how who whom whose which when where is are was were does did should am question
    was warum wieso wie wer welche welcher wann wo
    quel quelle pourquoi comment qui quand
    qué cómo cuál quién cuándo dónde
    """.split()  # noqa: SIM905 - as above
)
"""First words of a question."""

REQUESTS = (
    *("can you", "could you", "would you", "will you", "can we", "could we", "please", "help me"),
    *("kannst du", "bitte", "peux tu", "puedes", "por favor"),
)
"""Phrases that turn a question into a request."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` to end a message about an unknown name; "" when no known name is similar."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    nearest = difflib.get_close_matches(name, [str(candidate) for candidate in known], n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a content, in hex."""
    import hashlib  # noqa: PLC0415  it loads OpenSSL, 3 ms, and whoever only looks at what there is digests nothing

    return hashlib.sha256(content).hexdigest()
