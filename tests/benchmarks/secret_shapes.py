"""Made-up secrets of the kinds that their own form tells, as their providers make them."""

from __future__ import annotations

import base64
import json
import random
import string
import textwrap
from collections.abc import Callable, Mapping

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

WORDS = ("lantern", "gravel", "orchid", "pepper", "saddle", "timber", "velvet", "walnut", "meadow", "copper", "falcon")


Make = Callable[[random.Random], str]


def drawn(alphabet: str, length: int, rng: random.Random) -> str:
    """So many characters of an alphabet."""
    return "".join(rng.choices(alphabet, k=length))


def keyed(prefix: str, alphabet: str, low: int, high: int = 0) -> Make:
    """A maker of keys with a prefix."""
    return lambda rng: prefix + drawn(alphabet, rng.randint(low, high or low), rng)


def base64_of(count: int, rng: random.Random) -> str:
    """Base64 of so many random bytes."""
    return base64.b64encode(rng.randbytes(count)).decode()


def digits(count: int, rng: random.Random) -> str:
    """A number of so many digits."""
    return str(rng.randint(10 ** (count - 1), 10**count - 1))


def uuid_of(rng: random.Random) -> str:
    """A random UUID."""
    return "-".join(drawn(HEX, size, rng) for size in (8, 4, 4, 4, 12))


def password(rng: random.Random) -> str:
    """As people and generators make them; always with a digit."""
    word = rng.choice(WORDS)
    made = (
        f"{word.title()}{rng.randint(10, 9999)}!",
        f"{word}{rng.randint(100, 99999)}",
        f"{word[:3]}-{rng.choice(WORDS)}{rng.randint(1, 99)}-{drawn(LOWER, 5, rng)}7",
        drawn(ALNUM + "!#%^*_-+", rng.randint(10, 28), rng) + "4x",
        f"P{rng.choice('4@')}ss{word.title()}#{rng.randint(1, 99)}",
    )
    return rng.choice(made)


def jwt(rng: random.Random) -> str:
    """A signed token."""

    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": rng.choice(("HS256", "RS256", "ES256")), "typ": "JWT"})
    body = part(
        {"sub": str(rng.randint(10**6, 10**9)), "iat": rng.randint(10**9, 2 * 10**9), "name": rng.choice(WORDS)}
    )
    return f"{head}.{body}.{drawn(URLSAFE, rng.choice((43, 86, 342)), rng)}"


def key_lines(rng: random.Random, head: str = "MII") -> list[str]:
    """The lines of a key in Base64, 64 characters each."""
    return textwrap.wrap(head + base64_of(rng.randint(300, 1800), rng)[len(head) :], 64)


def pem_block(rng: random.Random) -> tuple[str, str, list[str]]:
    """Begin, end and lines of a private key."""
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
        key_lines(rng, "b3BlbnNzaC1rZXk" if "SSH" in name else "MII"),
    )


def pgp_block(rng: random.Random) -> tuple[str, str, list[str]]:
    """The same of PGP, with its header and checksum."""
    body = [*key_lines(rng, "lQOYB"), "=" + drawn(ALNUM, 4, rng)]
    return "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n", "-----END PGP PRIVATE KEY BLOCK-----", body


SHAPED: Mapping[str, tuple[Make, ...]] = {
    "aws access key": (keyed("AKIA", BASE32, 16), keyed("ASIA", BASE32, 16)),
    "github ghp": (keyed("ghp_", ALNUM, 36),),
    "github gho": (keyed("gho_", ALNUM, 36), keyed("ghu_", ALNUM, 36)),
    "github ghs": (keyed("ghs_", ALNUM, 36),),
    "github ghr": (keyed("ghr_", ALNUM, 36), keyed("ghr_", ALNUM, 76)),
    "github_pat": (lambda r: f"github_pat_{drawn(ALNUM, 22, r)}_{drawn(ALNUM, 59, r)}",),
    "gitlab": (
        keyed("glpat-", URLSAFE, 20),
        lambda r: f"glpat-{drawn(URLSAFE, 27, r)}.01.{drawn(LOWER, 9, r)}",
        keyed("gldt-", URLSAFE, 20),
        keyed("glrt-", URLSAFE, 20),
        keyed("glptt-", HEX, 40),
        lambda r: f"glcbt-{drawn(HEX, 2, r)}_{drawn(URLSAFE, 20, r)}",
        keyed("gloas-", HEX, 64),
        keyed("glsoat-", URLSAFE, 20),
        keyed("GR1348941", URLSAFE, 20),
    ),
    "npm": (keyed("npm_", ALNUM, 36),),
    "pypi": (keyed("pypi-AgEIcHlwaS5vcmc", URLSAFE, 120, 180), keyed("pypi-AgENdGVzdC5weXBpLm9yZw", URLSAFE, 120, 180)),
    "slack xox": (
        lambda r: f"xoxb-{r.randint(10**10, 10**12)}-{r.randint(10**11, 10**13)}-{drawn(ALNUM, 24, r)}",
        lambda r: f"xoxp-{digits(11, r)}-{digits(12, r)}-{digits(12, r)}-{drawn(HEX, 32, r)}",
        lambda r: f"xoxe.xoxp-1-{drawn(ALNUM, 164, r)}",
        lambda r: f"xoxc-{r.randint(10**10, 10**12)}-{r.randint(10**10, 10**12)}-{drawn(HEX, 64, r)}",
        lambda r: f"xoxa-2-{r.randint(10**9, 10**11)}-{drawn(HEX, 32, r)}",
    ),
    "slack xapp": (lambda r: f"xapp-1-A{drawn(UPPER, 10, r)}-{digits(13, r)}-{drawn(HEX, 64, r)}",),
    "slack webhook": (
        lambda r: (
            "https://hooks.slack.com/services/"
            + "/".join((f"T{drawn(BASE32, 10, r)}", f"B{drawn(BASE32, 10, r)}", drawn(ALNUM, 24, r)))
        ),
        lambda r: (
            f"https://hooks.slack.com/workflows/T{drawn(BASE32, 8, r)}/A{drawn(BASE32, 10, r)}/"
            f"{digits(18, r)}/{drawn(ALNUM, 24, r)}"
        ),
    ),
    "stripe": (
        keyed("sk_live_", ALNUM, 24),
        keyed("sk_live_51", ALNUM, 97),
        keyed("rk_live_", ALNUM, 24),
        keyed("sk_test_", ALNUM, 24),
        keyed("whsec_", ALNUM, 32),
    ),
    "sendgrid": (lambda r: f"SG.{drawn(URLSAFE, 22, r)}.{drawn(URLSAFE, 43, r)}",),
    "twilio": (keyed("SK", HEX, 32), keyed("AC", HEX, 32)),
    "google aiza": (keyed("AIza", URLSAFE, 35),),
    "google ya29": (
        lambda r: f"ya29.{drawn(URLSAFE, r.randint(60, 200), r)}",
        lambda r: f"ya29.a0A{drawn(URLSAFE, 130, r)}",
    ),
    "hugging face": (keyed("hf_", string.ascii_letters, 34), keyed("hf_", ALNUM, 34)),
    "openai": (
        lambda r: f"sk-{drawn(ALNUM, 20, r)}T3BlbkFJ{drawn(ALNUM, 20, r)}",
        lambda r: f"sk-proj-{drawn(URLSAFE, 74, r)}T3BlbkFJ{drawn(URLSAFE, 74, r)}",
        lambda r: f"sk-svcacct-{drawn(URLSAFE, 58, r)}T3BlbkFJ{drawn(URLSAFE, 58, r)}",
    ),
    "anthropic": (
        lambda r: f"sk-ant-api03-{drawn(URLSAFE, 93, r)}AA",
        lambda r: f"sk-ant-admin01-{drawn(URLSAFE, 93, r)}AA",
        lambda r: f"sk-ant-oat01-{drawn(URLSAFE, 86, r)}",
    ),
    "telegram": (lambda r: f"{r.randint(10**7, 10**10)}:AA{drawn(URLSAFE, 33, r)}",),
    "discord": (
        lambda r: (
            f"{drawn('MNO', 1, r)}{drawn(ALNUM, r.choice((23, 25)), r)}.{drawn(URLSAFE, 6, r)}.{drawn(URLSAFE, 27, r)}"
        ),
        lambda r: f"https://discord.com/api/webhooks/{r.randint(10**17, 10**19)}/{drawn(URLSAFE, 68, r)}",
        lambda r: f"https://discordapp.com/api/webhooks/{r.randint(10**17, 10**19)}/{drawn(URLSAFE, 68, r)}",
    ),
    "digitalocean": (keyed("dop_v1_", HEX, 64), keyed("doo_v1_", HEX, 64), keyed("dor_v1_", HEX, 64)),
    "databricks": (keyed("dapi", HEX, 32), lambda r: f"dapi{drawn(HEX, 32, r)}-2"),
    "docker": (keyed("dckr_pat_", URLSAFE, 27), keyed("dckr_oat_", URLSAFE, 32)),
    "heroku": (keyed("HRKU-AA", URLSAFE, 58), lambda r: f"HRKU-{uuid_of(r)}"),
    "shopify": tuple(keyed(f"shp{two}_", HEX, 32) for two in ("at", "ca", "pa", "ss")),
    "vault": (
        keyed("hvs.", URLSAFE, 24),
        keyed("hvs.CAES", URLSAFE, 88, 100),
        keyed("hvb.", URLSAFE, 138, 200),
        keyed("s.", ALNUM, 24),
    ),
    "age": (keyed("AGE-SECRET-KEY-1", BECH32, 58),),
    "jwt": (jwt,),
}
"""Kinds whose secrets are told by their own form, each with its makers."""
