"""Settings in which secrets are pasted: those for any of them, and those that give a secret away by themselves."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping

from tests.benchmarks.secret_shapes import ALNUM, HEX, URLSAFE, WORDS, Make, base64_of, drawn, password, uuid_of

Wrap = Callable[[str, random.Random], str]


def plainly(template: str) -> Wrap:
    return lambda secret, _: template.replace("@", secret, 1)


def in_json(*names: str) -> Wrap:
    return lambda secret, rng: json.dumps({"id": rng.randint(1, 99), rng.choice(names): secret, "ok": True})


def in_json_twice(*names: str) -> Wrap:
    def wrap(secret: str, rng: random.Random) -> str:
        inner = json.dumps({rng.choice(names): secret}, indent=rng.choice((None, 2)))
        return json.dumps({"type": "tool_result", "content": f"done\n{inner}\nbye"})

    return wrap


ANYWHERE: Mapping[str, tuple[Wrap, ...]] = {
    "prose": tuple(
        map(
            plainly,
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
            plainly,
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
                "| name | `@` | x |",
                "\x1b[32m@\x1b[0m",
                "<td>&quot;@&quot;</td>",
                '+const c = "@";',
                "   12\t  c: '@',",
            ),
        )
    ),
    "json": (
        in_json("a", "value", "id2", "data"),
        in_json_twice("a", "value", "data"),
        *(lambda s, _, e=e: f'"{e}{s}{e}"' for e in (r"\n", r"\\n", r"\\\\t", r"\u000a", r"\\u0022", r"\x0a", r"\/")),
        lambda s, _: json.dumps(json.dumps(json.dumps({"a": f"first\n{s}\nlast"}))),
    ),
}
"""Settings for what a form tells: nothing around it does."""


def filled_in(*templates: str) -> tuple[Wrap, ...]:
    """Templates with @ for the secret, § for an @, # for a number and ~ for a word."""

    def wrap(template: str) -> Wrap:
        def filled(secret: str, rng: random.Random) -> str:
            text = template.replace("~", rng.choice(WORDS)).replace("#", str(rng.randint(1, 9999)))
            return text.replace("@", secret).replace("§", "@")

        return filled

    return tuple(map(wrap, templates))


Contexts = tuple[Make, Mapping[str, tuple[Wrap, ...]]]

AWS_SECRET: Contexts = (
    lambda r: drawn(ALNUM + "/+", 40, r),
    {
        "prose": filled_in(
            "the aws secret access key is @ and the region eu-west-1",
            "AWS Secret Access Key [None]: @",
            "aws secret key: @",
        ),
        "code": filled_in(
            "[default]\naws_access_key_id = x\naws_secret_access_key = @\n",
            "export AWS_SECRET_ACCESS_KEY=@",
            'AWS_SECRET_ACCESS_KEY="@"',
            "aws configure set aws_secret_access_key @",
            "secretAccessKey: '@',",
            'aws_secret_key: "@"',
            "  AWS_SECRET_KEY: @",
        ),
        "json": (
            in_json("SecretAccessKey", "aws_secret_access_key", "secretAccessKey"),
            in_json_twice("SecretAccessKey", "awsSecretKey"),
        ),
        "split": filled_in("aws_secret_access_key = \\\n    @", '"SecretAccessKey":\n    "@"'),
    },
)
PASSWORD_LINES: Contexts = (
    password,
    {
        "prose": filled_in("the password is @", "Password: @", "our db password for staging is @, ok?", "(pwd: @)"),
        "code": filled_in(
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
            "define('DB_PASSWORD', '@');",
            'variable "db_password" {\n  type    = string\n  default = "@"\n}',
            "- name: DB_PASSWORD\n  value: @",
            'let secret: &str = "@";',
            "const key = process.env.API_SECRET || '@';",
            "requirepass @",
            "twine upload -u ~ -p '@' dist/*",
            "requests.get(url, auth=('~', '@'))",
            "| DB_PASSWORD | `@` |",
            "<param><name>password</name><value>@</value></param>",
            "* **Password**: `@`",
            "    password: !!str '@'",
        ),
        "json": (
            in_json("password", "db_password", "clientSecret", "api_key"),
            in_json_twice("password", "client_secret", "token"),
        ),
        "split": filled_in(
            "password:\n    '@'",
            "DB_HOST=db\nDB_PASSWORD=@\nDB_PORT=5432",
            '"password":\n      "@"',
            "token: >-\n    @\nother: 1",
            "+password:\n+    '@'",
            "     1\tpassword: >-\n     2\t  @\n     3\tother: 1",
        ),
    },
)
CONTEXTUAL: Mapping[str, Contexts] = {
    "aws secret key": AWS_SECRET,
    "twilio auth token": (
        lambda r: drawn(HEX, 32, r),
        {
            "prose": filled_in("the twilio auth token is @"),
            "code": (
                *filled_in("TWILIO_AUTH_TOKEN=@", "auth_token = '@'"),
                lambda s, r: f'client = Client("AC{drawn(HEX, 32, r)}", "{s}")',
                lambda s, r: f"curl -u AC{drawn(HEX, 32, r)}:{s} https://api.twilio.com/",
            ),
            "json": (in_json("authToken", "twilio_auth_token"), in_json_twice("auth_token")),
        },
    ),
    "azure sas": (
        lambda r: (
            base64.b64encode(r.randbytes(32)).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
        ),
        {
            "prose": filled_in(
                "download it from https://~.blob.core.windows.net/c/f.txt?sv=2022-11-02&sr=b&sp=r&sig=@ today"
            ),
            "code": filled_in(
                'url = "https://~.blob.core.windows.net/c?sv=2021-06-08&ss=b&sig=@&se=2026-01-01"',
                "SharedAccessSignature sr=https%3a%2f%2f~.servicebus.windows.net&sig=@&se=#&skn=Root",
            ),
            "json": (lambda s, _: json.dumps({"uri": f"https://x.blob.core.windows.net/c?sp=r&sig={s}"}),),
        },
    ),
    "azure account key": (
        lambda r: base64_of(64, r),
        {
            "prose": filled_in(
                "it is DefaultEndpointsProtocol=https;AccountName=~;AccountKey=@;EndpointSuffix=core.windows.net"
            ),
            "code": filled_in(
                'CONN="DefaultEndpointsProtocol=https;AccountName=~;AccountKey=@"',
                "AZURE_STORAGE_KEY=@",
                "az storage blob list --account-name ~ --account-key @",
                "new StorageSharedKeyCredential('~', '@')",
                "Authorization: SharedKey ~:@",
                'conn = "Endpoint=sb://~.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@"',
            ),
            "json": (
                in_json("accountKey", "account_key", "primaryKey_shared_key"),
                lambda s, _: json.dumps({"c": f"AccountName=a;AccountKey={s};"}),
            ),
        },
    ),
    "azure client secret": (
        lambda r: f"{drawn(ALNUM, 3, r)}8Q~{drawn(ALNUM + '~.-_', 34, r)}a",
        {
            "prose": filled_in("use @ for it"),
            "code": filled_in("AZURE_CLIENT_SECRET=@", "secret: '@'"),
            "json": (in_json("clientSecret", "x"),),
        },
    ),
    "heroku api key": (
        uuid_of,
        {
            "prose": filled_in("my heroku api key is @", "Heroku key: @"),
            "code": filled_in("HEROKU_API_KEY=@", 'heroku_api_key = "@"', "const HEROKU_KEY = '@'"),
            "json": (in_json("heroku_api_key", "HEROKU_API_KEY"),),
        },
    ),
    "docker auth": (
        lambda r: base64.b64encode(f"{r.choice(WORDS)}:{password(r)}".encode()).decode(),
        {
            "json": (
                lambda s, _: json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": s}}}, indent=2),
                lambda s, _: json.dumps(json.dumps({"auths": {"ghcr.io": {"auth": s}}})),
            ),
            "code": filled_in('"auths": {\n  "registry.example.org": {\n    "auth": "@"\n  }\n}'),
        },
    ),
    "bearer header": (
        lambda r: drawn(URLSAFE + "._~", r.randint(24, 90), r) + "9aZ",
        {
            "prose": filled_in("it answers when I send Authorization: Bearer @ with it", "as bearer @ it works"),
            "code": filled_in(
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
                in_json("x-api-key", "access_token", "refresh_token", "id_token"),
            ),
            "split": filled_in("curl https://api.example.org \\\n  -H 'Authorization: Bearer @' \\\n  -d x=1"),
        },
    ),
    "basic header": (
        lambda r: base64.b64encode(f"{r.choice(WORDS)}:{password(r)}".encode()).decode(),
        {
            "prose": filled_in("I get 401 with Authorization: Basic @ there", "it wants basic @ now"),
            "code": filled_in(
                "curl -H 'Authorization: Basic @' https://example.org",
                "authorization: basic @",
                'h["Authorization"] = "Basic @"',
            ),
            "json": (lambda s, _: json.dumps({"headers": {"Authorization": f"Basic {s}"}}),),
        },
    ),
    "cookie": (
        lambda r: drawn(ALNUM, r.randint(24, 60), r) + "7q",
        {
            "prose": filled_in("the request had Cookie: session=@ in it"),
            "code": filled_in(
                "Cookie: sessionid=@; theme=dark",
                "Set-Cookie: sid=@; Path=/; HttpOnly; Secure",
                "'set-cookie': ['sid=@; Path=/'],",
                "curl -H 'cookie: _ga=GA1.2.3; connect.sid=s%3A@' https://example.org",
                "curl -b 'session=@' https://example.org",
                "curl --cookie sid=@ https://example.org",
                "SET-COOKIE: a=@",
            ),
            "json": (
                lambda s, _: json.dumps({"headers": {"Cookie": f"session={s}"}}),
                lambda s, _: json.dumps({"set-cookie": [f"sid={s}; Path=/"]}),
            ),
        },
    ),
    "curl -u": (
        password,
        {
            "prose": filled_in("try curl -u ~:@ https://example.org/x"),
            "code": filled_in(
                "curl -u ~:@ https://example.org",
                "curl -s -X POST --user '~:@' https://example.org/api",
                'curl -fsSu "~:@" https://example.org',
                "curl --user=~:@ https://example.org",
                "curl https://example.org -u ~:@",
                "curl -x proxy:8080 --proxy-user ~:@ https://example.org",
            ),
            "json": (lambda s, _: json.dumps({"command": f"curl -u 'ada:{s}' https://example.org"}),),
            "split": filled_in("curl -X PUT https://example.org \\\n  -H 'A: b' \\\n  -u ~:@"),
        },
    ),
    "sshpass": (
        password,
        {
            "prose": filled_in("I run sshpass -p @ ssh ~ and it hangs"),
            "code": filled_in(
                "sshpass -p '@' ssh root§10.0.0.#",
                "sshpass -p@ scp a b:",
                'sshpass -p "@" rsync -a x y',
                "sshpass -v -p @ ssh h",
            ),
            "json": (lambda s, _: json.dumps({"command": f'sshpass -p "{s}" ssh h'}),),
        },
    ),
    "url password": (
        lambda r: password(r).replace("#", "-").replace("%", "-"),
        {
            "prose": filled_in("the db is at postgres://~:@§db.example.org:5432/app now"),
            "code": filled_in(
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
        lambda r: base64_of(900, r),
        {
            "code": filled_in(
                "users:\n- name: ~\n  user:\n    client-certificate-data: QUJD\n    client-key-data: @\n",
                "    token: @\n",
            ),
            "json": (in_json("client-key-data", "token"),),
            "split": filled_in("    client-key-data: >-\n      @\n"),
        },
    ),
    "kubeconfig password": (
        password,
        {
            "code": filled_in("users:\n- name: ~\n  user:\n    username: ~\n    password: @\n"),
            "json": (in_json("password"),),
        },
    ),
    "netrc": (
        password,
        {
            "prose": filled_in("my .netrc has machine api.example.org login ~ password @ in it"),
            "code": filled_in(
                "machine api.heroku.com login ~ password @",
                "default login ~ password @",
                "machine x login ~§example.org password @\nmachine y",
            ),
            "json": (lambda s, _: json.dumps({"stdout": f"machine h\n  login ada\n  password {s}\n"}),),
            "split": filled_in("machine api.example.org\n  login ~\n  password @\n", "machine x\nlogin ~\npassword @"),
        },
    ),
}
"""Kinds that only their surroundings give away."""
