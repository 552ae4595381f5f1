"""Find secrets that are handed to commands: after a flag, at a place among the arguments, or through a pipe.

The search is for the name of a command, and for its flags from there on. The other way round, every ``-p`` of a text
would have to be traced back to a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from skillopt_sleep.safety.redaction.kinds import LINE, Found, Kind, is_irregular, is_mixed, looks_made
from skillopt_sleep.safety.redaction.values import is_identifier, is_stand_in

REACH = 600
"""Characters from the name of a command on that are searched for its flags."""
BACK = 100
LEAST = 3
"""Least characters of a password where the form leaves no doubt."""
FLAGGED = 6
"""The same where only the name of the flag gives it away."""

_S = rf"(?:[ \t]{{1,4}}|{LINE}|\\?[\"'],\s{{0,24}}(?=\\?[\"']))"
"""From one argument to the next, which may be a string in a list, or in the next line."""
_VALUE = r"(?:\\?(?P<q>[\"'])(?P<quoted>(?:(?!(?P=q))[^\n\\]){1,800})|(?P<bare>[^\s\"'`\\;|&<>]{1,800}))"
_UP_TO_IT = r"\\?[\"']?[^\s:\"'\\/]{0,128}\\?[\"']?:\\?[\"']?"
"""The name of a user, and the colon."""
_IT = r"(?:(?<=[\"'])(?P<quoted>[^\"'\n\\]{1,400})|(?P<bare>[^\s\"'\\]{1,400}))"
_ON = r"(?:(?<=[\\,\[])|(?<=[\\,\[]\r))\n"
_F = r"-(?<=[\s\"'`]-)"
"""The dash of a flag."""
_LINE = re.compile(rf"[^\n]*(?:{_ON}[^\n]*){{0,12}}")
_COMMAND = re.compile(rf"[^\n;|]*(?:{_ON}[^\n;|]*){{0,12}}")
"""All of a command: the rest of its line, and the lines in which it continues."""


class Command(NamedTuple):
    """Commands whose passwords follow the same flag."""

    names: str
    """Names, with a star before their rarest letter, and a pattern after it."""
    flag: str
    before: str = ""
    """What must precede the name."""
    stretch: re.Pattern[str] = _COMMAND
    """How far the command reaches."""
    port: bool = False
    """A value that may be the number of a port is one."""


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


def _locate(match: re.Match[str]) -> tuple[int, int]:
    return match.span("quoted" if "quoted" in match.re.groupindex and match["quoted"] else "bare")


def _accept(text: str, match: re.Match[str] | None) -> Found | None:
    if match is None:
        return None
    start, stop = _locate(match)
    if stop - start < LEAST or is_stand_in(text[start:stop]):
        return None
    return Found("secret", start, stop, match.end())


def _build_kinds(command: Command) -> list[Kind]:
    """Build one detector for each name of a command; it looks for the password wherever the command occurs."""
    flag = re.compile(command.flag)
    before = re.compile(command.before) if command.before else None

    def find(text: str, at: int) -> Found | None:
        stretch = command.stretch.match(text, at, at + REACH)
        stop = stretch.end() if stretch else at
        for match in flag.finditer(text, at, stop):
            found = _accept(text, match)
            if found and command.port and _PORT.fullmatch(text, found.start, found.stop):
                continue
            if found and (before is None or before.search(text, max(0, at - BACK), at)):
                return found
        return Found("", at, at, min(stop, at + REACH // 2))  # a name later in this line reaches further

    return [_build_kind(name, find) for name in command.names.split()]


def _build_kind(name: str, find: Callable[[str, int], Found | None]) -> Kind:
    """Return a kind that looks at each place with the name of a command."""
    front, _, back = name.partition("*")
    ahead = rf"(?={back[1:]}(?:\.py)?[ \t\"'\\])"
    return Kind("flag", back[0], find, rf"{ahead}(?<=(?<!\w)(?<!\w-){front}{back[0]})")


def _find_sshpass(text: str, at: int) -> Found | None:
    """Find the password of ``sshpass -p password``."""
    return _accept(text, _SSHPASS.match(text, at))


def _find_long_flag(text: str, at: int) -> Found | None:
    """Find the value of ``--password value``, of any command."""
    match = _LONG_FLAG.match(text, at)
    found = _accept(text, match)
    value = text[found.start : found.stop] if found else ""
    return None if len(value) < FLAGGED or _PLAIN.fullmatch(value) else found


def _find_shared(text: str, at: int) -> Found | None:
    """Find the password of ``smbclient -U user%password``."""
    return _accept(text, _SHARED.match(text, at + 1))


def _find_beside_user(text: str, at: int) -> Found | None:
    """Find the password of ``-u user -p password``, of any command."""
    found = _accept(text, _BESIDE_USER.match(text, at + 1))
    value = text[found.start : found.stop] if found else ""
    made = (is_mixed(value) or is_irregular(value)) and looks_made(value) and not is_identifier(value)
    return found if len(value) >= FLAGGED and made and not set("/:") & set(value) else None


_FLAG = r"(?<=[\s\"'`]-)"
COMMANDS: tuple[Kind, ...] = (
    *(kind for command in _TABLE for kind in _build_kinds(command)),
    Kind("flag", "p", _find_sshpass, r"(?=ass[ \t\"'\\])(?<=sshp)"),
    Kind("flag", "-", _find_shared, _FLAG, r"U[ \t=]{1,4}\\?[\"']?[\w.@/\\-]{1,64}%"),
    Kind("flag", "-", _find_beside_user, _FLAG, r"(?:u|U|-user(?:name)?)[ =]\S{1,64} -(?:p|P|w|pw)[ =]"),
    Kind(
        "flag",
        "-",
        _find_long_flag,
        _FLAG,
        r"-?[\w-]{0,60}?(?i:passw(?:or)?d|pass|pw|passphrase|secret|token|key|pat|value|string)(?:\s{1,40}(?!-)|\\?[\"'],)",
    ),
)


PIPED_BACK = 200
"""Characters before a place that are searched for the beginning of a command."""

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


def _find_piped(text: str, at: int) -> Found | None:
    """Find the password of ``echo password | docker login --password-stdin``, from the pipe on."""
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
    return None if is_stand_in(value) or value.startswith("$") else Found("secret", start, stop, stop)


def _find_here(text: str, at: int) -> Found | None:
    """Find the token of ``gh auth login --with-token <<< token``."""
    before = text[max(0, at - PIPED_BACK) : at]
    line = before[before.rfind("\n") + 1 :]
    return _accept_piped(_HERE.match(text, at)) if _READS.search(line) else None


def _find_substituted(text: str, at: int) -> Found | None:
    """Find the password of ``--password-file=<(echo password)``."""
    return _accept_piped(_SUB.match(text, at)) if _SUB_BEFORE.search(text, max(0, at - 40), at) else None


def _find_vault(text: str, at: int) -> Found | None:
    """Find the token of ``vault login token``."""
    match = _AFTER_LOGIN.match(text, at)
    return _accept_piped(match) if match and is_mixed(match["secret"]) and looks_made(match["secret"]) else None


def _find_net_use(text: str, at: int) -> Found | None:
    r"""Find the password of ``net use z: \\\\host\\share /user:name password``."""
    match = _WINDOWS.match(text, at)
    return _accept_piped(match) if match and _WINDOWS_LATER.search(text, max(0, at - PIPED_BACK), at) else None


def _accept_piped(match: re.Match[str] | None) -> Found | None:
    if match is None or is_stand_in(match["secret"]) or match["secret"].startswith("$"):
        return None
    return Found("secret", *match.span("secret"), match.end())


PIPES: tuple[Kind, ...] = (
    Kind("piped", "|", _find_piped, r"(?<=[\w\"' ]\|)", r"[&]?[ ]{0,2}(?=[a-z/])"),
    Kind("here", "<", _find_here, r"(?=<<[ \"'\w\\])"),
    Kind("substituted", "(", _find_substituted, r"(?<=<\()", r"(?:echo|printf)[ ]"),
    Kind("vault", "v", _find_vault, "(?=ault)", rf"ault{_PIPED_SPACE}login"),
    Kind("net use", "/", _find_net_use, r"(?=[uU][sS][eE][rR]:[\w.\\@-]{1,64} )"),
)
