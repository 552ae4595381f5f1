"""Texts without a secret, though much in them looks like one: hashes, placeholders, code and talk about secrets."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from tests.benchmarks.secret_shapes import ALNUM, HEX, URLSAFE, Make, base64_of, drawn, uuid_of

_NIX = "0123456789abcdfghijklmnpqrsvwxyz"
_MADE: dict[str, Make] = {
    "short": lambda rng: drawn(HEX, 9, rng),
    "md5": lambda rng: drawn(HEX, 32, rng),
    "sha1": lambda rng: drawn(HEX, 40, rng),
    "sha256": lambda rng: drawn(HEX, 64, rng),
    "uuid": uuid_of,
    "base64": lambda rng: base64_of(32, rng),
    "sha512": lambda rng: base64_of(64, rng),
    "long": lambda rng: base64_of(300, rng),
    "nix": lambda rng: drawn(_NIX, 52, rng),
    "id": lambda rng: drawn(ALNUM, 22, rng),
    "urlsafe": lambda rng: drawn(URLSAFE, 43, rng),
}

HASHES = (
    "commit §sha1§\nAuthor: Ada <ada@example.org>",
    "index §short§..§short§ 100644",
    "§short§ (tag: v1.2.0) Rotate secrets nightly",
    "the token refresh was fixed in §sha1§",
    "§sha256§  dist/app-1.2.3.tar.gz",
    '"integrity": "sha512-§sha512§",',
    'resolved "https://registry.yarnpkg.com/lodash/-/lodash-4.17.21.tgz#§sha1§"',
    "github.com/pkg/errors v0.9.1 h1:§base64§",
    "github.com/pkg/errors v0.9.1 h1:AeJt71SOO7kSqpgTJDcbOImjRsF01I19qHI+Mef+oh0=",
    'checksum = "§sha256§"',
    "    --hash=sha256:§sha256§ \\",
    "FROM python:3.12@sha256:§sha256§",
    'sha256 = "§nix§";',
    'hash = "sha256-§base64§";',
    'ETag: W/"§id§"',
    "traceparent: 00-§md5§-00f067aa0ba902b7-01",
    "x-request-id: §uuid§",
    "client_id: §uuid§",
    "AZURE_CLIENT_ID=§uuid§",
    "heroku release §uuid§ deployed",
    '"private_key_id": "§sha1§"',
    "CACHE_KEY=deps-v3-§sha256§",
    "PYTHON_SHA256=§sha256§",
    "GPG_KEY=§sha1§",
    "PUBLIC_KEY=§sha256§",
    "cf-ray: §md5§-FRA",
    "ObjectId('507f1f77bcf86cd799439011')",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
)
PUBLIC = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI§urlsafe§ ada@laptop",
    "-----BEGIN CERTIFICATE-----\nMIIDXTCCAkWgAwIBAgIJA§base64§\n§base64§\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A§base64§\n-----END PUBLIC KEY-----",
    "-----BEGIN PGP SIGNATURE-----\n\n§base64§\n=aB3d\n-----END PGP SIGNATURE-----",
    "certificate-authority-data: §long§",
    "caBundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t§long§",
    '<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA§long§">',
    "@font-face{src:url(data:font/woff2;base64,d09GMgABAAAA§long§)}",
    '<script src="x.js" integrity="sha384-§sha512§" crossorigin="anonymous"></script>',
    "SHA256:§urlsafe§ ada@laptop (ED25519)",
    "https://docs.google.com/document/d/1§urlsafe§/edit",
    "https://example.com/orders/§uuid§?tab=items&utm_campaign=spring_2024&key=summary",
    "s3://bucket/data/2024/01/02/part-00000-§uuid§-c000.snappy.parquet",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
)
PLACEHOLDERS = tuple(
    f"{name}={value}"
    for name in ("API_KEY", "DB_PASSWORD", "token")
    for value in (
        *(
            "YOUR_API_KEY",
            "<token>",
            "xxxxxxxx",
            "changeme",
            "...",
            "********",
            "${API_KEY}",
            "$API_KEY",
            "{{ api_key }}",
        ),
        *(
            "your-api-key-here",
            "REPLACE_ME",
            "null",
            '""',
            "[REDACTED]",
            "sk-...",
            "not-a-real-key",
            "$(pass show api/key)",
        ),
        *("`cat token.txt`", "required", "undefined", "my-secret-key", "/run/secrets/api", "%API_KEY%"),
    )
)
CODE = (
    "token = get_token()",
    "password = request.form['password']",
    "const token = process.env.API_TOKEN;",
    "let password = prompt('Password?')",
    'secretKey := viper.GetString("jwt.secret")',
    "api_key = Rails.application.credentials.dig(:stripe, :key)",
    "password: <%= ENV['DB_PASSWORD'] %>",
    "password: !Ref DBPassword",
    "define('DB_PASSWORD', getenv('DB_PASSWORD'));",
    'variable "db_password" {\n  type = string\n  sensitive = true\n}',
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db\n      key: password",
    "hashedPassword1 = hashedPassword2",
    "def __init__(self, password: _PasswordType, token: Token2) -> None: ...",
    "class Token:\n    __slots__ = ()",
    "using arrival_token = __barrier_phase_t; bool is(AsmToken::TokenKind kind);",
    "styles = {Token: '#f8f8f2'}",
    "IMAGE_REL_TOKEN = 0x000C",
    'GRANT_TYPE_TOKEN = "urn:ietf:params:oauth:token-type:jwt"',
    "return s.handleUploadPackV2LSRefs(w)",
    "token_exchange_url=_X509_TOKEN_EXCHANGE_URL",
    "Authorization: Bearer ${TOKEN}",
    "headers = {'Authorization': f'Bearer {token}'}",
    '<input type="password" name="password" placeholder="Enter your password">',
    "SELECT password_hash, token FROM users WHERE id = $1",
    "| Name | Type |\n| --- | --- |\n| token | string |\n| password | required |",
    "key: ${{ runner.os }}-node-${{ hashFiles('**/package-lock.json') }}",
    "--- PASS: TestLogin2 (0.00s)",
    "src/auth/token_refresh2.py:120:14: error: bad",
    "build.txt:1546:2025-11-10T13:49:21.8085505Z",
)
COMMANDS = (
    "mysql -u root -p shop",
    "mysql -p3306 -u root",
    "ssh -p 2222 host && mkdir -p src/components/deep && cp -p a b",
    "docker run -u 1000:1000 -p 8080:80 nginx",
    "python -u train.py -p config1",
    'curl -u "$USER:$PASS" https://example.org',
    "use curl -u user:pass for basic auth",
    'sshpass -p "$PASSWORD" ssh h',
    'echo "$TOKEN" | docker login --password-stdin',
    "git push -u origin main",
    "kubectl get secret db-credentials -o yaml",
    "vault kv get secret/app/prod",
    "postgres://user:${DB_PASSWORD}@host/db",
    "postgres://localhost:5432/app",
)
PROSE = (
    "default login page password field1",
    "machine translation login password page",
    "Tokens expire after 24 hours, refresh tokens after thirty days.",
    "The password must be at least 12 characters long and contain one number.",
    "It's no secret: performance2 matters",
    "Basic Options are explained below; basic auth is used for staging.",
    "Password:\nada@host:~$ ls -la",
    "[sudo] password for ada:",
    "encryption key: AES-256-GCM, signing key: RS256",
    "token: the JWT returned by /login",
    "the password is stored in the vault",
    "Error: invalid token < at position 3",
)


def innocents(seed: int) -> Iterator[str]:
    """All of them; what is random in them is drawn anew for every seed."""
    rng = random.Random(seed)
    for text in (*HASHES, *PUBLIC, *PLACEHOLDERS, *CODE, *COMMANDS, *PROSE):
        yield re.sub("§([a-z0-9]+)§", lambda match: _MADE[match[1]](rng), text)
