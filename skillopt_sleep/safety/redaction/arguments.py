"""Secrets that are arguments of a command: each command with the flag that its password follows.

What is looked for is the name of a command, and its flags from there on. The other way round, every ``-p`` of a text would
have to be asked where it comes from.

Passwords that are handed to a command by another one, or stand at a place of their own among its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from skillopt_sleep.safety.redaction.kinds import LINE, Found, Kind, irregular, mixed, telling
from skillopt_sleep.safety.redaction.values import is_identifier, stands_for

REACH = 600
"""Characters from the name of a command in which its flags are looked for."""
BACK = 100
LEAST = 3
"""Characters of a password where the form leaves no doubt that one stands there."""
FLAGGED = 6
"""The same where only the name of the flag says so."""

_S = rf"(?:[ \t]{{1,4}}|{LINE}|\\?[\"'],\s{{0,24}}(?=\\?[\"']))"
"""From one argument of a command to the next, which may be a string in a list, or in the next line."""
_VALUE = r"(?:\\?(?P<q>[\"'])(?P<quoted>(?:(?!(?P=q))[^\n\\]){1,800})|(?P<bare>[^\s\"'`\\;|&<>]{1,800}))"
_UP_TO_IT = r"\\?[\"']?[^\s:\"'\\/]{0,128}\\?[\"']?:\\?[\"']?"
"""The name of a user, and the colon."""
_IT = r"(?:(?<=[\"'])(?P<quoted>[^\"'\n\\]{1,400})|(?P<bare>[^\s\"'\\]{1,400}))"
_ON = r"(?:(?<=[\\,\[])|(?<=[\\,\[]\r))\n"
_F = r"-(?<=[\s\"'`]-)"
"""The dash of a flag."""
_LINE = re.compile(rf"[^\n]*(?:{_ON}[^\n]*){{0,12}}")
_COMMAND = re.compile(rf"[^\n;|]*(?:{_ON}[^\n;|]*){{0,12}}")
"""What belongs to a command: all of its line, and of the next ones where it goes on in them."""


class Command(NamedTuple):
    """Commands whose passwords follow the same flag.

    A name in ``names`` is given by the letters before a star, the letter of it that texts have least of, and a pattern.
    ``before`` is what must precede the name, ``stretch`` how far the command goes. With ``port``, what may be the number
    of a port is taken for one.
    """

    names: str
    flag: str
    before: str = ""
    stretch: re.Pattern[str] = _COMMAND
    port: bool = False


_TABLE = (
    Command("*curl", rf"{_F}(?:-(?:proxy-)?user|[A-Za-z]{{0,6}}[uU])(?:=|{_S}|){_UP_TO_IT}{_IT}", stretch=_LINE),
    Command("htt*ps? *xh", rf"{_F}(?:-auth|a)(?:=|{_S}){_UP_TO_IT}{_IT}"),
    Command(
        "*curl htt*p htt*ps *xh",
        rf"{_F}(?:b|-cookie)[ \t=]{{1,4}}\\?[\"']?[\w.-]{{1,64}}=(?P<bare>[^\s\"'\\]{{4,4000}})",
    ),
    Command("mys*ql[a-z]{0,9} mariad*b[a-z-]{0,9}", rf"{_F}p{_VALUE}", port=True),
    Command("7*za?", rf"{_F}p{_VALUE}"),
    Command("mon*go[a-z]{0,9} t*wine c*qlsh", rf"{_F}p(?:{_S}|=){_VALUE}"),
    Command(
        "lo*gin",
        rf"{_F}p(?:{_S}|=){_VALUE}",
        before=r"\b(?:docker|podman|helm|nerdctl|buildah|skopeo|az|oc|oras|cf)\b[^;|\n]*\Z",
    ),
    Command("redis*-cli", rf"{_F}a(?:{_S}|=){_VALUE}"),
    Command(
        "lda*p[a-z]{1,9} *zip un*zip",
        rf"{_F}[wP](?:{_S}|=){_VALUE}",
    ),
    Command("s*qlcmd *bcp os*ql is*ql ts*ql mos*quitto_[ps]ub", rf"{_F}P(?:{_S}|=)?{_VALUE}"),
    Command("o*penssl", rf"{_F}[kK]{_S}{_VALUE}"),
    Command("lft*p", rf"{_F}u[ \t]{{1,4}}[^\s,]{{1,64}},(?P<bare>[^\s\"'\\;|]{{3,200}})"),
    Command("ht*passwd", rf"{_F}\w{{0,6}}b\w{{0,6}} \S{{1,200}} [\w.@-]{{1,64}} (?P<bare>[^\s\"'\\;|]{{3,200}})"),
    Command("*gh", rf"{_F}(?:b|-body)(?:{_S}|=){_VALUE}", stretch=re.compile(r"gh secret set[^\n;|]*")),
    Command("s*qlplus im*pdp ex*pdp", r"[ ][\w$#.]{1,64}/(?P<bare>[^\s\"'\\@/]{3,100})(?=@)"),
    Command("ansi*ble-vault", rf"encrypt_string[ ]{_VALUE}"),
    Command("freerd*p xfreerd*p wlfreerd*p rdeskto*p msts*c", r"/p:(?P<bare>[^\s\"'\\]{3,200})"),
    Command(
        "psexe*c wmiexe*c smbexe*c secretsdum*p mss*qlclient impac*ket-[a-zA-Z]{1,20}",
        r":(?P<bare>[^\s\"'\\/:@]{3,200})@[\w.-]{1,100}(?![\w.-])",
    ),
)
_SSHPASS = re.compile(
    rf"pass(?:{_S}-[vhP]\S{{0,60}}(?:{_S}(?![-\"'])\S{{1,200}})?){{0,4}}{_S}\\?[\"']?-p(?:{_S}|=)?{_VALUE}"
)
_LONG_FLAG = re.compile(
    r"--?(?:[a-z0-9]{1,24}-){0,4}(?:passw(?:or)?d|pass|pw|passphrase|secret|token|(?:api|access|account|secret|auth)-?key|pat"
    rf"|(?:src|dest)?(?:store|key)pass)(?:-(?:string|value))?{_S}{_VALUE}",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[A-Za-z]{1,99}(?:[._/-][A-Za-z]{1,99}){0,9}\W{0,3}|[\d.,:]*|-.*")
_SHARED = re.compile(r"U(?:[ \t]{1,4}|=)\\?[\"']?[\w.@/\\-]{1,64}%(?P<bare>[^\s\"'\\;|]{3,200})")
_BESIDE_USER = re.compile(rf"(?:u|U|-user(?:name)?)[ =]\S{{1,64}} -(?:p|P|w|pw)[ =]{_VALUE}")
_PORT = re.compile(r"[0-9]{2,5}")


def _value(match: re.Match[str]) -> tuple[int, int]:
    return match.span("quoted" if "quoted" in match.re.groupindex and match["quoted"] else "bare")


def _found(text: str, match: re.Match[str] | None) -> Found | None:
    if match is None:
        return None
    start, stop = _value(match)
    if stop - start < LEAST or stands_for(text[start:stop]):
        return None
    return Found("secret", start, stop, match.end())


def _kinds(command: Command) -> list[Kind]:
    """A kind for each name of a command."""
    flag = re.compile(command.flag)
    before = re.compile(command.before) if command.before else None

    def find(text: str, at: int) -> Found | None:
        stretch = command.stretch.match(text, at, at + REACH)
        stop = stretch.end() if stretch else at
        for match in flag.finditer(text, at, stop):
            found = _found(text, match)
            if found and command.port and _PORT.fullmatch(text, found.start, found.stop):
                continue
            if found and (before is None or before.search(text, max(0, at - BACK), at)):
                return found
        return Found("", at, at, min(stop, at + REACH // 2))  # a name that comes later in this line reaches further

    return [_named(name, find) for name in command.names.split()]


def _named(name: str, find: Callable[[str, int], Found | None]) -> Kind:
    """A kind that is asked where the name of a command stands."""
    front, _, back = name.partition("*")
    ahead = rf"(?={back[1:]}(?:\.py)?[ \t\"'\\])"
    return Kind("flag", back[0], find, rf"{ahead}(?<=(?<!\w)(?<!\w-){front}{back[0]})")


def _sshpass(text: str, at: int) -> Found | None:
    """``sshpass -p password``."""
    return _found(text, _SSHPASS.match(text, at))


def _long_flag(text: str, at: int) -> Found | None:
    """``--password value``, of any command."""
    match = _LONG_FLAG.match(text, at)
    found = _found(text, match)
    value = text[found.start : found.stop] if found else ""
    return None if len(value) < FLAGGED or _PLAIN.fullmatch(value) else found


def _shared(text: str, at: int) -> Found | None:
    """``smbclient -U user%password``."""
    return _found(text, _SHARED.match(text, at + 1))


def _beside_user(text: str, at: int) -> Found | None:
    """``-u user -p password``, of any command."""
    found = _found(text, _BESIDE_USER.match(text, at + 1))
    value = text[found.start : found.stop] if found else ""
    made = (mixed(value) or irregular(value)) and telling(value) and not is_identifier(value)
    return found if len(value) >= FLAGGED and made and not set("/:") & set(value) else None


_FLAG = r"(?<=[\s\"'`]-)"
COMMANDS: tuple[Kind, ...] = (
    *(kind for command in _TABLE for kind in _kinds(command)),
    Kind("flag", "p", _sshpass, r"(?=ass[ \t\"'\\])(?<=sshp)"),
    Kind("flag", "-", _shared, _FLAG, r"U[ \t=]{1,4}\\?[\"']?[\w.@/\\-]{1,64}%"),
    Kind("flag", "-", _beside_user, _FLAG, r"(?:u|U|-user(?:name)?)[ =]\S{1,64} -(?:p|P|w|pw)[ =]"),
    Kind(
        "flag",
        "-",
        _long_flag,
        _FLAG,
        r"-?[\w-]{0,60}?(?i:passw(?:or)?d|pass|pw|passphrase|secret|token|key|pat|value|string)(?:\s{1,40}(?!-)|\\?[\"'],)",
    ),
)


PIPED_LEAST = 3
PIPED_BACK = 200
"""Characters of a command in which its beginning is looked for."""

_PIPED_SPACE = r"(?:[ \t]{1,4}|\\?[\"'],[ \t]{0,4}\\?[\"'])"
_ASKS = re.compile(
    r"\|[&]?[ ]{0,2}[^\n|]{0,120}?(?:--password-stdin|--passphrase-fd|sudo (?:-\w{1,20} ){0,3}-\w{0,9}S|su\b|chpasswd|passwd\b|--stdin|--with-token"
    r"|vault login|cryptsetup|gh auth|kinit|-passin stdin|--password\b|-K\b)"
)
_ECHOED = re.compile(
    r"(?:echo|printf|print|Write-Output)(?: -{1,2}\w{1,8}){0,3} (?:\\?[\"']?%s\n?\\?[\"']? )?"
    r"\\?(?:[\"'](?P<quoted>[^\"'\\\n|]{3,400})\n?\\?[\"']|(?P<bare>[^\s\"'\\|;&()]{3,400})) ?\Z"
)
_PAIR = re.compile(r"[\w.@-]{1,64}:(?P<secret>.{3,400})\Z")
_HERE = re.compile(r"<<<[ ]?\\?[\"']?(?P<secret>[^\s\"'\\;|&<>()]{3,400})")
_READS = re.compile(r"--with-token|--password|-stdin|pwprompt|passw|login|sudo|token|secret|cryptsetup|kinit")
_SUB = re.compile(r"\((?:echo|printf)(?: -\w{1,3})? \\?[\"']?(?P<secret>[^\s\"'\\()]{3,400})")
_SUB_BEFORE = re.compile(r"(?:pass|key|secret|token)[\w-]{0,16}[= ]<\Z")
_AFTER_LOGIN = re.compile(
    rf"vault{_PIPED_SPACE}login{_PIPED_SPACE}(?:(?:-[\w-]{{1,40}}(?:=\S{{1,200}})?|token=){_PIPED_SPACE}?)?(?P<secret>[\w.-]{{6,400}})"
)
_WINDOWS = re.compile(r"/[uU][sS][eE][rR]:[\w.\\@-]{1,64} (?P<secret>[^\s/\"'\\][^\s\"'\\]{2,100})")
_WINDOWS_LATER = re.compile(r"net use[^\n|;]*\Z")


def _piped(text: str, at: int) -> Found | None:
    """``echo password | docker login --password-stdin``, from the pipe on."""
    if not _ASKS.match(text, at):
        return None
    echoed = _ECHOED.search(text, max(0, at - PIPED_BACK), at)
    if echoed is None:
        return None
    group = "quoted" if echoed["quoted"] else "bare"
    start, stop = echoed.span(group)
    value = text[start:stop]
    pair = _PAIR.match(value)
    if pair and "chpasswd" in text[at : at + PIPED_BACK]:
        start += pair.start("secret")
        value = pair["secret"]
    return None if stands_for(value) or value.startswith("$") else Found("secret", start, stop, stop)


def _here(text: str, at: int) -> Found | None:
    """``gh auth login --with-token <<< token``."""
    before = text[max(0, at - PIPED_BACK) : at]
    line = before[before.rfind("\n") + 1 :]
    return _told(_HERE.match(text, at)) if _READS.search(line) else None


def _substituted(text: str, at: int) -> Found | None:
    """``--password-file=<(echo password)``."""
    return _told(_SUB.match(text, at)) if _SUB_BEFORE.search(text, max(0, at - 40), at) else None


def _vault(text: str, at: int) -> Found | None:
    """``vault login token``."""
    match = _AFTER_LOGIN.match(text, at)
    return _told(match) if match and mixed(match["secret"]) and telling(match["secret"]) else None


def _net_use(text: str, at: int) -> Found | None:
    r"""``net use z: \\\\host\\share /user:name password``."""
    match = _WINDOWS.match(text, at)
    return _told(match) if match and _WINDOWS_LATER.search(text, max(0, at - PIPED_BACK), at) else None


def _told(match: re.Match[str] | None) -> Found | None:
    if match is None or stands_for(match["secret"]) or match["secret"].startswith("$"):
        return None
    return Found("secret", *match.span("secret"), match.end())


PIPES: tuple[Kind, ...] = (
    Kind("piped", "|", _piped, r"(?<=[\w\"' ]\|)", r"[&]?[ ]{0,2}(?=[a-z/])"),
    Kind("here", "<", _here, r"(?=<<[ \"'\w\\])"),
    Kind("substituted", "(", _substituted, r"(?<=<\()", r"(?:echo|printf)[ ]"),
    Kind("vault", "v", _vault, "(?=ault)", rf"ault{_PIPED_SPACE}login"),
    Kind("net use", "/", _net_use, r"(?=[uU][sS][eE][rR]:[\w.\\@-]{1,64} )"),
)
