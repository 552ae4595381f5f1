"""Made-up secrets of every kind, in the settings people paste them in; another set for every seed.

The forms are those that providers document. A secret is given as the pieces of it that must not be left in a text.
"""

from __future__ import annotations

import base64
import json
import random
import string
import textwrap
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

__all__ = ["KINDS", "Sample", "samples"]

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

WORDS = ("lantern", "gravel", "orchid", "pepper", "saddle", "timber", "velvet", "walnut", "meadow", "copper", "falcon")


class Sample(Struct, frozen=True, kw_only=True):
    """One text with a secret in it. ``pieces`` must all be gone after redaction; ``setting`` is prose, code, json or
    split.
    """  # noqa: D205

    kind: str
    setting: str
    text: str
    pieces: tuple[str, ...]


Make = Callable[[random.Random], str]
Wrap = Callable[[str, random.Random], str]


def _of(alphabet: str, length: int, rng: random.Random) -> str:
    return "".join(rng.choices(alphabet, k=length))


def _key(prefix: str, alphabet: str, low: int, high: int = 0) -> Make:
    return lambda rng: prefix + _of(alphabet, rng.randint(low, high or low), rng)


def _b64(count: int, rng: random.Random) -> str:
    return base64.b64encode(rng.randbytes(count)).decode()


def _uuid(rng: random.Random) -> str:
    return "-".join(_of(HEX, size, rng) for size in (8, 4, 4, 4, 12))


def _password(rng: random.Random) -> str:
    """As people and generators make them; always with a digit."""
    word = rng.choice(WORDS)
    made = (
        f"{word.title()}{rng.randint(10, 9999)}!",
        f"{word}{rng.randint(100, 99999)}",
        f"{word[:3]}-{rng.choice(WORDS)}{rng.randint(1, 99)}-{_of(LOWER, 5, rng)}7",
        _of(ALNUM + "!#%^*_-+", rng.randint(10, 28), rng) + "4x",
        f"P{rng.choice('4@')}ss{word.title()}#{rng.randint(1, 99)}",
    )
    return rng.choice(made)


def _jwt(rng: random.Random) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": rng.choice(("HS256", "RS256", "ES256")), "typ": "JWT"})
    body = part(
        {"sub": str(rng.randint(10**6, 10**9)), "iat": rng.randint(10**9, 2 * 10**9), "name": rng.choice(WORDS)}
    )
    return f"{head}.{body}.{_of(URLSAFE, rng.choice((43, 86, 342)), rng)}"


def _lines(rng: random.Random, head: str = "MII") -> list[str]:
    return textwrap.wrap(head + _b64(rng.randint(300, 1800), rng)[len(head) :], 64)


def _pem(rng: random.Random) -> tuple[str, str, list[str]]:
    name = rng.choice(
        (
            "RSA PRIVATE KEY",
            "PRIVATE KEY",
            "EC PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "DSA PRIVATE KEY",
        )
    )
    return (
        f"-----BEGIN {name}-----",
        f"-----END {name}-----",
        _lines(rng, "b3BlbnNzaC1rZXk" if "SSH" in name else "MII"),
    )


def _pgp(rng: random.Random) -> tuple[str, str, list[str]]:
    body = [*_lines(rng, "lQOYB"), "=" + _of(ALNUM, 4, rng)]
    return "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n", "-----END PGP PRIVATE KEY BLOCK-----", body


SHAPED: Mapping[str, tuple[Make, ...]] = {
    "aws access key": (_key("AKIA", BASE32, 16), _key("ASIA", BASE32, 16)),
    "github ghp": (_key("ghp_", ALNUM, 36),),
    "github gho": (_key("gho_", ALNUM, 36), _key("ghu_", ALNUM, 36)),
    "github ghs": (_key("ghs_", ALNUM, 36),),
    "github ghr": (_key("ghr_", ALNUM, 36), _key("ghr_", ALNUM, 76)),
    "github_pat": (lambda r: f"github_pat_{_of(ALNUM, 22, r)}_{_of(ALNUM, 59, r)}",),
    "gitlab": (
        _key("glpat-", URLSAFE, 20),
        lambda r: f"glpat-{_of(URLSAFE, 27, r)}.01.{_of(LOWER, 9, r)}",
        _key("gldt-", URLSAFE, 20),
        _key("glrt-", URLSAFE, 20),
        _key("glptt-", HEX, 40),
        lambda r: f"glcbt-{_of(HEX, 2, r)}_{_of(URLSAFE, 20, r)}",
        _key("gloas-", HEX, 64),
        _key("glsoat-", URLSAFE, 20),
        _key("GR1348941", URLSAFE, 20),
    ),
    "npm": (_key("npm_", ALNUM, 36),),
    "pypi": (_key("pypi-AgEIcHlwaS5vcmc", URLSAFE, 120, 180), _key("pypi-AgENdGVzdC5weXBpLm9yZw", URLSAFE, 120, 180)),
    "slack xox": (
        lambda r: f"xoxb-{r.randint(10**10, 10**12)}-{r.randint(10**11, 10**13)}-{_of(ALNUM, 24, r)}",
        lambda r: (
            f"xoxp-{r.randint(10**10, 10**12)}-{r.randint(10**10, 10**12)}-{r.randint(10**10, 10**12)}-{_of(HEX, 32, r)}"
        ),
        lambda r: f"xoxe.xoxp-1-{_of(ALNUM, 164, r)}",
        lambda r: f"xoxc-{r.randint(10**10, 10**12)}-{r.randint(10**10, 10**12)}-{_of(HEX, 64, r)}",
        lambda r: f"xoxa-2-{r.randint(10**9, 10**11)}-{_of(HEX, 32, r)}",
    ),
    "slack xapp": (
        lambda r: (
            f"xapp-1-A{_of(string.ascii_uppercase + string.digits, 10, r)}-{r.randint(10**12, 10**13)}-{_of(HEX, 64, r)}"
        ),
    ),
    "slack webhook": (
        lambda r: (
            "https://hooks.slack.com/services/"
            + "/".join((f"T{_of(BASE32, 10, r)}", f"B{_of(BASE32, 10, r)}", _of(ALNUM, 24, r)))
        ),
        lambda r: (
            f"https://hooks.slack.com/workflows/T{_of(BASE32, 8, r)}/A{_of(BASE32, 10, r)}/{r.randint(10**17, 10**18)}/{_of(ALNUM, 24, r)}"
        ),
    ),
    "stripe": (
        _key("sk_live_", ALNUM, 24),
        _key("sk_live_51", ALNUM, 97),
        _key("rk_live_", ALNUM, 24),
        _key("sk_test_", ALNUM, 24),
        _key("whsec_", ALNUM, 32),
    ),
    "sendgrid": (lambda r: f"SG.{_of(URLSAFE, 22, r)}.{_of(URLSAFE, 43, r)}",),
    "twilio": (_key("SK", HEX, 32), _key("AC", HEX, 32)),
    "google aiza": (_key("AIza", URLSAFE, 35),),
    "google ya29": (
        lambda r: f"ya29.{_of(URLSAFE, r.randint(60, 200), r)}",
        lambda r: f"ya29.a0A{_of(URLSAFE, 130, r)}",
    ),
    "hugging face": (_key("hf_", string.ascii_letters, 34), _key("hf_", ALNUM, 34)),
    "openai": (
        lambda r: f"sk-{_of(ALNUM, 20, r)}T3BlbkFJ{_of(ALNUM, 20, r)}",
        lambda r: f"sk-proj-{_of(URLSAFE, 74, r)}T3BlbkFJ{_of(URLSAFE, 74, r)}",
        lambda r: f"sk-svcacct-{_of(URLSAFE, 58, r)}T3BlbkFJ{_of(URLSAFE, 58, r)}",
    ),
    "anthropic": (
        lambda r: f"sk-ant-api03-{_of(URLSAFE, 93, r)}AA",
        lambda r: f"sk-ant-admin01-{_of(URLSAFE, 93, r)}AA",
        lambda r: f"sk-ant-oat01-{_of(URLSAFE, 86, r)}",
    ),
    "telegram": (lambda r: f"{r.randint(10**7, 10**10)}:AA{_of(URLSAFE, 33, r)}",),
    "discord": (
        lambda r: (
            f"{r.choice('MNO')}{_of(ALNUM, r.choice((23, 25)), r)}.{_of(URLSAFE, 6, r)}.{_of(URLSAFE, r.choice((27, 38)), r)}"
        ),
        lambda r: f"https://discord.com/api/webhooks/{r.randint(10**17, 10**19)}/{_of(URLSAFE, 68, r)}",
        lambda r: f"https://discordapp.com/api/webhooks/{r.randint(10**17, 10**19)}/{_of(URLSAFE, 68, r)}",
    ),
    "digitalocean": (_key("dop_v1_", HEX, 64), _key("doo_v1_", HEX, 64), _key("dor_v1_", HEX, 64)),
    "databricks": (_key("dapi", HEX, 32), lambda r: f"dapi{_of(HEX, 32, r)}-2"),
    "docker": (_key("dckr_pat_", URLSAFE, 27), _key("dckr_oat_", URLSAFE, 32)),
    "heroku": (_key("HRKU-AA", URLSAFE, 58), lambda r: f"HRKU-{_uuid(r)}"),
    "shopify": tuple(_key(f"shp{two}_", HEX, 32) for two in ("at", "ca", "pa", "ss")),
    "vault": (
        _key("hvs.", URLSAFE, 24),
        _key("hvs.CAES", URLSAFE, 88, 100),
        _key("hvb.", URLSAFE, 138, 200),
        _key("s.", ALNUM, 24),
    ),
    "age": (_key("AGE-SECRET-KEY-1", BECH32, 58),),
    "jwt": (_jwt,),
}
"""Kinds whose secrets are told by their own form, each with its makers."""


def _plain(template: str) -> Wrap:
    return lambda secret, _: template.replace("@", secret, 1)


def _in_json(*names: str) -> Wrap:
    return lambda secret, rng: json.dumps({"id": rng.randint(1, 99), rng.choice(names): secret, "ok": True})


def _twice(*names: str) -> Wrap:
    def wrap(secret: str, rng: random.Random) -> str:
        inner = json.dumps({rng.choice(names): secret}, indent=rng.choice((None, 2)))
        return json.dumps({"type": "tool_result", "content": f"done\n{inner}\nbye"})

    return wrap


ANYWHERE: Mapping[str, tuple[Wrap, ...]] = {
    "prose": tuple(
        map(
            _plain,
            (
                "I pasted @ by mistake, please forget it.",
                "Use @.",
                "the old one (@) does not work any more",
                "> @\n\nis what I get from them",
                "It says `@`, is that right?",
                "Schlüssel: @, danke!",
            ),
        )
    ),
    "code": tuple(
        map(
            _plain,
            (
                'client = Client("@")',
                "const c = new Client({ a: '@' });",
                "export SOMETHING=@\nmake run",
                "curl -H 'X-Thing: @' https://api.example.org/v1",
                "  value: @\n  other: 1",
                "run(`@`)",
                "[default]\nx = @\n",
                "echo @ | base64",
                "https://example.org/cb?x=@&y=1",
            ),
        )
    ),
    "json": (
        _in_json("a", "value", "id2", "data"),
        _twice("a", "value", "data"),
        lambda s, _: json.dumps(f"first\n{s}\nlast"),
    ),
}
"""Settings for what a form tells: nothing around it does."""


def _names(*names: str) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(names)


def _fill(*templates: str) -> tuple[Wrap, ...]:
    """Templates with @ for the secret, § for an @, # for a number and ~ for a word."""

    def wrap(template: str) -> Wrap:
        def filled(secret: str, rng: random.Random) -> str:
            text = template.replace("~", rng.choice(WORDS)).replace("#", str(rng.randint(1, 9999)))
            return text.replace("@", secret).replace("§", "@")

        return filled

    return tuple(map(wrap, templates))


Contexts = tuple[Make, Mapping[str, tuple[Wrap, ...]]]

AWS_SECRET: Contexts = (
    lambda r: _of(ALNUM + "/+", 40, r),
    {
        "prose": _fill(
            "the aws secret access key is @ and the region eu-west-1",
            "AWS Secret Access Key [None]: @",
            "aws secret key: @",
        ),
        "code": _fill(
            "[default]\naws_access_key_id = x\naws_secret_access_key = @\n",
            "export AWS_SECRET_ACCESS_KEY=@",
            'AWS_SECRET_ACCESS_KEY="@"',
            "aws configure set aws_secret_access_key @",
            "secretAccessKey: '@',",
            'aws_secret_key: "@"',
            "  AWS_SECRET_KEY: @",
        ),
        "json": (
            _in_json("SecretAccessKey", "aws_secret_access_key", "secretAccessKey"),
            _twice("SecretAccessKey", "awsSecretKey"),
        ),
        "split": _fill("aws_secret_access_key = \\\n    @", '"SecretAccessKey":\n    "@"'),
    },
)
PASSWORD_LINES: Contexts = (
    _password,
    {
        "prose": _fill("the password is @", "Password: @", "our db password for staging is @, ok?", "(pwd: @)"),
        "code": _fill(
            "DB_PASSWORD=@",
            "export PGPASSWORD=@",
            "MYSQL_ROOT_PASSWORD='@'",
            "  password: @\n  user: ~",
            'password = "@"',
            "password: '@',",
            "spring.datasource.password=@",
            "SECRET_KEY=@",
            "$env:API_TOKEN = '@'",
            "ENV APP_SECRET=@",
            "docker run -e POSTGRES_PASSWORD=@ postgres:16",
            "<password>@</password>",
            "mysql -u root -p'@' shop",
            "redis-cli -a '@' ping",
            "tool --password '@' --force",
        ),
        "json": (
            _in_json("password", "db_password", "clientSecret", "api_key"),
            _twice("password", "client_secret", "token"),
        ),
        "split": _fill(
            "password:\n    '@'",
            "DB_HOST=db\nDB_PASSWORD=@\nDB_PORT=5432",
            '"password":\n      "@"',
            "token: >-\n    @\nother: 1",
        ),
    },
)
CONTEXTUAL: Mapping[str, Contexts] = {
    "aws secret key": AWS_SECRET,
    "twilio auth token": (
        lambda r: _of(HEX, 32, r),
        {
            "prose": _fill("the twilio auth token is @"),
            "code": (
                *_fill("TWILIO_AUTH_TOKEN=@", "auth_token = '@'"),
                lambda s, r: f'client = Client("AC{_of(HEX, 32, r)}", "{s}")',
                lambda s, r: f"curl -u AC{_of(HEX, 32, r)}:{s} https://api.twilio.com/",
            ),
            "json": (_in_json("authToken", "twilio_auth_token"), _twice("auth_token")),
        },
    ),
    "azure sas": (
        lambda r: (
            base64.b64encode(r.randbytes(32)).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
        ),
        {
            "prose": _fill(
                "download it from https://~.blob.core.windows.net/c/f.txt?sv=2022-11-02&sr=b&sp=r&sig=@ today"
            ),
            "code": _fill(
                'url = "https://~.blob.core.windows.net/c?sv=2021-06-08&ss=b&sig=@&se=2026-01-01"',
                "SharedAccessSignature sr=https%3a%2f%2f~.servicebus.windows.net&sig=@&se=#&skn=Root",
            ),
            "json": (lambda s, _: json.dumps({"uri": f"https://x.blob.core.windows.net/c?sp=r&sig={s}"}),),
        },
    ),
    "azure account key": (
        lambda r: _b64(64, r),
        {
            "prose": _fill(
                "it is DefaultEndpointsProtocol=https;AccountName=~;AccountKey=@;EndpointSuffix=core.windows.net"
            ),
            "code": _fill(
                'CONN="DefaultEndpointsProtocol=https;AccountName=~;AccountKey=@"',
                "AZURE_STORAGE_KEY=@",
                "az storage blob list --account-name ~ --account-key @",
                'conn = "Endpoint=sb://~.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@"',
            ),
            "json": (
                _in_json("accountKey", "account_key", "primaryKey_shared_key"),
                lambda s, _: json.dumps({"c": f"AccountName=a;AccountKey={s};"}),
            ),
        },
    ),
    "azure client secret": (
        lambda r: f"{_of(ALNUM, 3, r)}8Q~{_of(ALNUM + '~.-_', 34, r)}a",
        {
            "prose": _fill("use @ for it"),
            "code": _fill("AZURE_CLIENT_SECRET=@", "secret: '@'"),
            "json": (_in_json("clientSecret", "x"),),
        },
    ),
    "heroku api key": (
        _uuid,
        {
            "prose": _fill("my heroku api key is @", "Heroku key: @"),
            "code": _fill("HEROKU_API_KEY=@", 'heroku_api_key = "@"', "const HEROKU_KEY = '@'"),
            "json": (_in_json("heroku_api_key", "HEROKU_API_KEY"),),
        },
    ),
    "docker auth": (
        lambda r: base64.b64encode(f"{r.choice(WORDS)}:{_password(r)}".encode()).decode(),
        {
            "json": (
                lambda s, _: json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": s}}}, indent=2),
                lambda s, _: json.dumps(json.dumps({"auths": {"ghcr.io": {"auth": s}}})),
            ),
            "code": _fill('"auths": {\n  "registry.example.org": {\n    "auth": "@"\n  }\n}'),
        },
    ),
    "bearer header": (
        lambda r: _of(URLSAFE + "._~", r.randint(24, 90), r) + "9aZ",
        {
            "prose": _fill("it answers when I send Authorization: Bearer @ with it", "as bearer @ it works"),
            "code": _fill(
                "curl -H 'Authorization: Bearer @' https://api.example.org",
                'headers={"Authorization": "Bearer @"}',
                "AUTHORIZATION: BEARER @",
                "authorization: token @",
                "X-Api-Key: @",
                "-H 'Private-Token: @'",
                '.header("x-auth-token", "k") ; x-auth-token: @',
                "Proxy-Authorization: Bearer @",
            ),
            "json": (
                lambda s, _: json.dumps({"headers": {"authorization": f"Bearer {s}"}}),
                lambda s, _: json.dumps({"c": json.dumps({"Authorization": f"Bearer {s}"})}),
                _in_json("x-api-key", "access_token", "refresh_token", "id_token"),
            ),
            "split": _fill("curl https://api.example.org \\\n  -H 'Authorization: Bearer @' \\\n  -d x=1"),
        },
    ),
    "basic header": (
        lambda r: base64.b64encode(f"{r.choice(WORDS)}:{_password(r)}".encode()).decode(),
        {
            "prose": _fill("I get 401 with Authorization: Basic @ there", "it wants basic @ now"),
            "code": _fill(
                "curl -H 'Authorization: Basic @' https://example.org",
                "authorization: basic @",
                'h["Authorization"] = "Basic @"',
            ),
            "json": (lambda s, _: json.dumps({"headers": {"Authorization": f"Basic {s}"}}),),
        },
    ),
    "cookie": (
        lambda r: _of(ALNUM, r.randint(24, 60), r) + "7q",
        {
            "prose": _fill("the request had Cookie: session=@ in it"),
            "code": _fill(
                "Cookie: sessionid=@; theme=dark",
                "Set-Cookie: sid=@; Path=/; HttpOnly; Secure",
                "curl -H 'cookie: _ga=GA1.2.3; connect.sid=s%3A@' https://example.org",
                "curl -b 'session=@' https://example.org",
                "curl --cookie sid=@ https://example.org",
                "SET-COOKIE: a=@",
            ),
            "json": (
                lambda s, _: json.dumps({"headers": {"Cookie": f"session={s}"}}),
                lambda s, _: (
                    json.dumps({"set-cookie": [f"sid={s}; Path=/"]})
                    if False
                    else json.dumps({"set-cookie": f"sid={s}; Path=/"})
                ),
            ),
        },
    ),
    "curl -u": (
        _password,
        {
            "prose": _fill("try curl -u ~:@ https://example.org/x"),
            "code": _fill(
                "curl -u ~:@ https://example.org",
                "curl -s -X POST --user '~:@' https://example.org/api",
                'curl -fsSu "~:@" https://example.org',
                "curl --user=~:@ https://example.org",
                "curl https://example.org -u ~:@",
                "curl -x proxy:8080 --proxy-user ~:@ https://example.org",
            ),
            "json": (lambda s, _: json.dumps({"command": f"curl -u 'ada:{s}' https://example.org"}),),
            "split": _fill("curl -X PUT https://example.org \\\n  -H 'A: b' \\\n  -u ~:@"),
        },
    ),
    "sshpass": (
        _password,
        {
            "prose": _fill("I run sshpass -p @ ssh ~ and it hangs"),
            "code": _fill(
                "sshpass -p '@' ssh root§10.0.0.#",
                "sshpass -p@ scp a b:",
                'sshpass -p "@" rsync -a x y',
                "sshpass -v -p @ ssh h",
            ),
            "json": (lambda s, _: json.dumps({"command": f'sshpass -p "{s}" ssh h'}),),
        },
    ),
    "url password": (
        lambda r: _password(r).replace("#", "-").replace("%", "-"),
        {
            "prose": _fill("the db is at postgres://~:@§db.example.org:5432/app now"),
            "code": _fill(
                'DATABASE_URL="postgresql+asyncpg://~:@§localhost/x"',
                "redis://:@§cache:6379/0",
                "git clone https://~:@§git.example.org/x.git",
                "amqp://~:@§mq:5672/%2f",
                "mongodb+srv://~:@§cluster0.abcde.mongodb.net/?retryWrites=true",
                "ftp://~:@§ftp.example.org/pub",
                "smtp://~:@§mail:587",
            ),
            "json": (lambda s, _: json.dumps({"url": f"mysql://root:{s}@db/shop"}),),
        },
    ),
    ".env lines": PASSWORD_LINES,
    "kubeconfig": (
        lambda r: _b64(900, r),
        {
            "code": _fill(
                "users:\n- name: ~\n  user:\n    client-certificate-data: QUJD\n    client-key-data: @\n",
                "    token: @\n",
            ),
            "json": (_in_json("client-key-data", "token"),),
            "split": _fill("    client-key-data: >-\n      @\n"),
        },
    ),
    "kubeconfig password": (
        _password,
        {
            "code": _fill("users:\n- name: ~\n  user:\n    username: ~\n    password: @\n"),
            "json": (_in_json("password"),),
        },
    ),
    "netrc": (
        _password,
        {
            "prose": _fill("my .netrc has machine api.example.org login ~ password @ in it"),
            "code": _fill(
                "machine api.heroku.com login ~ password @",
                "default login ~ password @",
                "machine x login ~§example.org password @\nmachine y",
            ),
            "json": (lambda s, _: json.dumps({"stdout": f"machine h\n  login ada\n  password {s}\n"}),),
            "split": _fill("machine api.example.org\n  login ~\n  password @\n", "machine x\nlogin ~\npassword @"),
        },
    ),
}
"""Kinds that only their surroundings give away."""


def _wrapped(begin: str, end: str, body: list[str]) -> Iterator[tuple[str, str]]:
    """A key as it is pasted, whole and cut off."""
    whole = "\n".join((begin, *body, end))
    yield "code", whole
    yield "prose", f"here is the key:\n\n{whole}\n\nplease install it"
    yield "json", json.dumps({"private_key": whole + "\n", "client_email": "x@example.org"})
    yield "json", json.dumps(json.dumps({"private_key": whole}))
    yield "code", whole.replace("\n", "\\n")
    yield "split", "\n".join(f"    {line}" for line in whole.split("\n"))
    yield "split", "\n".join(f"> {line}" for line in whole.split("\n"))
    yield "split", "\n".join(f"{number:6}\t{line}" for number, line in enumerate(whole.split("\n"), 1))
    yield "split", "\n".join(f"+{line}" for line in whole.split("\n"))
    yield "split", "key = (\n" + "\n".join(f'    "{line}\\n"' for line in whole.split("\n")) + "\n)"
    yield "split", whole.replace("\n", "\r\n")
    yield "split", "\n".join((begin, *body))
    yield "split", "\n".join((*body, end))
    yield "split", "\n".join((begin, *body[:-2], body[-2][:40]))
    yield "split", json.dumps("\n".join((*body[2:], end)))


def _blocks(kind: str, rng: random.Random) -> Iterator[Sample]:
    begin, end, body = {"pem": _pem, "pgp": _pgp}[kind](rng)
    for setting, text in _wrapped(begin, end, body):
        pieces = tuple(line for line in body if len(line) > 15 and line in text)  # noqa: PLR2004
        yield Sample(kind=kind, setting=setting, text=text, pieces=pieces)


def _others(rng: random.Random) -> Iterator[Sample]:
    """PuTTY's keys, service accounts, and Base64 of a whole key file."""
    body = _lines(rng, "AAAAgQ")
    head = "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nComment: ada\nPublic-Lines: 1\nAAAAB3NzaC1yc2E=\n"
    putty = head + f"Private-Lines: {len(body)}\n" + "\n".join(body) + f"\nPrivate-MAC: {_of(HEX, 64, rng)}\n"
    lines = tuple(line for line in body if len(line) > 15)  # noqa: PLR2004
    yield Sample(kind="pem putty", setting="code", text=putty, pieces=lines)
    yield Sample(kind="pem putty", setting="json", text=json.dumps(putty), pieces=lines)
    yield Sample(kind="pem putty", setting="split", text=putty[len(head) + 20 :], pieces=lines[1:])
    begin, end, body = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", _lines(rng)
    account = {
        "type": "service_account",
        "project_id": rng.choice(WORDS),
        "private_key_id": _of(HEX, 40, rng),
        "private_key": "\n".join((begin, *body, end, "")),
        "client_email": f"{rng.choice(WORDS)}@x.iam.gserviceaccount.com",
    }
    lines = tuple(line for line in body if len(line) > 15)  # noqa: PLR2004
    yield Sample(kind="google service account", setting="json", text=json.dumps(account, indent=2), pieces=lines)
    yield Sample(kind="google service account", setting="code", text=f"CREDS='{json.dumps(account)}'", pieces=lines)
    yield Sample(
        kind="google service account", setting="json", text=json.dumps({"out": json.dumps(account)}), pieces=lines
    )
    encoded = base64.b64encode("\n".join((begin, *body, end, "")).encode()).decode()
    yield Sample(kind="kubeconfig", setting="prose", text=f"it printed {encoded} and ended", pieces=(encoded,))


def samples(seed: int, rounds: int = 1) -> Iterator[Sample]:
    """Every kind in every setting it goes into, each round with secrets of its own."""
    rng = random.Random(seed)
    for _ in range(rounds):
        for kind, makers in SHAPED.items():
            for setting, wraps in ANYWHERE.items():
                for wrap in wraps:
                    yield _sample(kind, setting, rng.choice(makers)(rng), wrap, rng)
            for setting, wraps in PASSWORD_LINES[1].items():
                yield _sample(kind, setting, rng.choice(makers)(rng), rng.choice(wraps), rng)
        for kind, (make, settings) in CONTEXTUAL.items():
            for setting, wraps in settings.items():
                for wrap in wraps:
                    yield _sample(kind, setting, make(rng), wrap, rng)
        for kind in ("pem", "pgp"):
            yield from _blocks(kind, rng)
        yield from _others(rng)


def _sample(kind: str, setting: str, secret: str, wrap: Wrap, rng: random.Random) -> Sample:
    core = secret.rpartition("/services/")[2] if "hooks.slack" in secret else secret
    core = core.rpartition("/")[2] if core.startswith("http") else core
    return Sample(kind=kind, setting=setting, text=wrap(secret, rng), pieces=(core,))


KINDS = (*SHAPED, *CONTEXTUAL, "pem", "pgp", "pem putty", "google service account")
"""Every kind that samples are made of."""
