"""The words that dangers are told by, as patterns: who does what to what, and where it goes.

What one danger is: a name, a reason, and the words that show it.
"""

from __future__ import annotations

from msgspec import Struct

FETCH = r"\b(?:certutil|bitsadmin|mshta|start-bitstransfer|curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|fetch|aria2c|http(?= get| post| https?:))\b"
WITHIN = rf"(?:(?![.!?] |{FETCH}).){{0,300}}?"
"""Anything in the same sentence, up to another fetch."""
NEAR = r"(?:(?![.!?;] ).){0,60}?"
"""A few words of the same sentence."""
UPON = r"(?:(?![.!?;] ).){0,140}?"
ARTICLES = (
    r"(?:(?:the|any|all|every|its|your|this|that|these|those|of|a|an|our|some|such|each|both|whatever|their|my|such) )*"
)
SUDO = r"(?:sudo (?:-\S+ )?)?"
SHELL = (
    rf"{SUDO}(?:/\S{{1,40}}/)?(?:env )?(?:(?:ba|z|da|k|c|tc|fi|a)?sh|pwsh|powershell|iex|invoke-expression|eval|xargs (?:-\S+ )*(?:ba)?sh"
    r"|source /dev/stdin)\b"
)
BARE_INTERPRETER = (
    rf"{SUDO}(?:python|node|perl|ruby|php|deno|bun|osascript|lua)[\d.]*(?: -(?![\w-])| ?(?=[`\"',;)]|$|\. )"
    r"|(?= (?:before|if|when|after|to|and|for|first|once|whenever|in|at|on|as|then|so|each|every|or)\b))"
)
DOWNLOAD = r"\b(?:download(?:s|ing|ed)?|fetch(?:es|ing|ed)?|grab(?:s|bing)?|pull(?:s|ing)?|retriev(?:e|es|ing)|obtain(?:s|ing)?|get(?:s|ting)?|load(?:s|ing)?|request(?:s|ing)?|refresh(?:es|ing)?|updat(?:e|es|ing)|renew(?:s|ing)?|read)\b"
RUN_IT = (
    r"(?:run(?:s|ning)?|execut(?:e|es|ing)|eval(?:s|uat(?:e|es|ing))?|sourc(?:e|es|ing)|exec(?:s|ing)?|launch(?:es|ing)?|invok(?:e|es|ing)|appl(?:y|ies|ying)|install(?:s|ing)?"
    r"|follow(?:s|ing)?|obey(?:s|ing)?|import(?:s|ing)?|start(?:s|ing)?|load(?:s|ing)?|do(?:es|ing)?|hand(?:s|ing)?|feed(?:s|ing)?|pass(?:es|ing)?)"
    r" (?:it|them|that|this|what(?:ever)?|(?:the|its|their|any) (?:\w+ ){0,2}?(?:installer|results?|output|script|file|binary|code|contents?|commands?"
    r"|response|steps|instructions|body|answer|program|package|payload|download))\b"
)
AND_THEN = r"(?:&&|[.;,]+ (?:then )?|\bthen\b|\band\b|\bbefore(?= you\b| \w+ing\b)|\bprior to\b)"

SEND = (
    r"\b(?:send|post|upload|push|copy|forward|e-?mail|mail|transmit|submit|share|report|publish|exfiltrate|leak|pipe|beacon|sync"
    r"|back ?up|attach|append|paste|put|note|record|pass|hand|move|feed|tell|give|scp|rsync|curl|wget|nc|ncat|transfer|deliver|stream|mirror|relay|dump|export|drop|store|save"
    r"|write|include|embed|encode|add|log|call|ping|hit|notify|commit)(?:s|ing|ed)?\b"
)
SEND_AWAY = (
    r"\b(?:send|post|upload|push|copy|forward|e-?mail|mail|transmit|submit|share|report|publish|exfiltrate|leak|beacon|sync|back ?up"
    r"|attach|paste|scp|rsync|transfer|deliver|stream|mirror|relay|export|note|record|pass|hand|feed)(?:s|ing|ed)?\b"
)
"""Of these the ones that can only mean that something leaves."""
CREDENTIALS = (
    r"(?:credentials?|secrets?|api[ -]?keys?|access[ -]?keys?|private[ -]keys?|(?:ssh|aws|gcp|azure|cloud|gpg|pgp|deploy|signing|encryption|root)[ -]keys?(?! pairs? must)|(?:\w+[ -])?passwords?|passphrases?|cookies?"
    r"|(?:access|auth|api|session|login|deploy|refresh|bearer|service|secret)[ -](?:tokens?|keys?)|tokens|\w*_(?:key|token|secret|password|dsn|credentials)s?|(?-i:[A-Z][A-Z0-9]*_(?:URL|URI|DSN))\b|keychain|keyring|wallet"
    r"|(?<![\w.])\.env\b|\.(?:npmrc|netrc|pypirc|pgpass|git-credentials)\b|kubeconfig|credentials\.json|(?:a|any|the|each|every) (?:\w+ )?token\b|id_rsa|id_ed25519|~/\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|config)\S*)"
)
SENSITIVE = (
    rf"(?:{CREDENTIALS}|(?:(?:process|shell|system|full|whole|entire|current|user'?s?) )*env(?:ironment)?(?:[ -]?var(?:iable)?s?)?\b(?! (?:file|name))"
    r"|printenv|process\.env|os\.environ|(?:source|project'?s?|private) (?:code|sources?|files)|source (?:tree|code|files)|the sources?\b(?! of)|(?:whole |entire |full |private )?\b(?:code ?base|repo(?:sitory)?(?:'s)?(?: contents?)?)\b"
    r"|session (?:log|transcript|history|file)s?|(?:this |the )?(?:session|conversation|chat|transcript)s?(?: (?:log|history|transcript))?\b"
    r"|(?:shell|bash|command|browser|git|terminal) history|home (?:directory|folder)|~/|\$HOME|/etc/\w+|hostname|user ?name and|personal data"
    r"|(?:user|customer|client|personal)(?:'s|s)? (?:data|records|e-?mails?|names|information)|database dumps?|config(?:uration)? files?|contents? of (?:\S+ ){0,3}?files?"
    r"|(?:local|project|changed|edited|every|all) files?|(?:every |each |all |the |your |full )?(?:system )?prompts?\b|diffs?|patch(?:es)?|\bgit (?:log|diff|show)\b)"
)
SITE = r"\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|xyz|ru|cn|app|site|top|ai|co|evil|tools|space|cloud|online|store|tech|biz|club|shop|website|systems|zone|info|icu|uk|de|eu|jp|nl|fr)\b(?!\w)"
ELSEWHERE = (
    r"(?:\b(?:sftp|ftps|scp|rsync|ssh|smb|davs?|wss?|gs)://|https?://(?!(?:localhost|127\.|0\.0\.0\.0|\[::1\]|host\.docker))|ftp://|\bwebhooks?\b|\bpastebin\b|\bpaste(?:\.| ?service| ?site)|\bgists?\b"
    r"|\b(?:remote|external|outside|third[ -]party|collector|collection|telemetry|analytics|tracking|logging|attacker|foreign|their|our|my|public|backup|monitoring|audit|partner|vendor|upstream|hidden|unknown|own)(?:'s)?"
    r" (?:\w+ )?(?:server|endpoint|host|url|address|site|service|machine|bucket|collector|domain|channel|repo(?:sitory)?)\b"
    r"|\b(?:remote|rclone\b.{0,30}?\b\w+):\S*|\b(?:telemetry|pastebin|an? outsider|third part(?:y|ies))\b|\brequestbin\b|\bngrok\b|\bburp\b|\btransfer\.sh\b|\bfile\.io\b|\b0x0\.st\b|\bnc \S+ \d+|/dev/tcp/|\bdns (?:lookup|query|request|record)"
    r"|\b(?:telegram|discord) (?:bot|channel|webhook)|\bs3://\S*|[\w.+-]+@[\w-]+\.\w+|\bquery (?:string|param)|\bimage url|\bthe (?:maintainer|vendor|author|attacker)s?\b"
    rf"|{SITE})"
)
AWAY = r"\b(?:to|at|via|through|into|with|using|on|in|by|as|over|against)\b|[>@|]"

SWITCH_OFF = (
    r"\b(?:disabl\w+|bypass\w*|circumvent\w*|skip(?:s|ping|ped)?|turn(?:s|ing|ed)? off|switch(?:es|ing|ed)? off|deactivat\w+|auto-?(?:approve|accept|confirm|allow)\w*"
    r"|loosen\w*|relax\w*|weaken\w*|lower\w*|work(?:ing)? around|get(?:ting)? around|side-?step\w*|evad\w+|defeat\w*|neutrali[sz]e|suppress\w*|silenc\w+|mut(?:e|ing)"
    r"|stub out|short-circuit\w*|lift(?:ing)?|waiv\w+|unset|shut(?:ting)? (?:off|down)|override|overrid\w+|forgo|forego|dispense with|do away with|opt(?:ing)? out of|knock out"
    r"|break out of|escape(?: from)?|leave out|omit\w*|comment(?:s|ing|ed)? out|delet\w+|remov\w+|drop(?:s|ping|ped)?|kill(?:s|ing)?|ignor\w+|neglect\w*|set aside|exempt\w*"
    r"|empt(?:y|ies|ying)|gut(?:s|ting)?|hollow(?:s|ing)? out|nuk(?:e|es|ing)|ax(?:e|es|ing)|scrap(?:s|ping)?|ditch\w*|strip(?:s|ping)?(?: out)?|purg\w+|wip(?:e|es|ing)(?: out)?|clear(?:s|ing)?(?: out)?"
    r"|eras\w+|tak(?:e|es|ing) (?:out|down|away|off)|(?:throw|rip|tear|pull|weed|cut)(?:s|ing|ting)? (?:out|away|down)|get(?:ting)? rid of|discard\w*|suspend\w*|paus(?:e|es|ing)"
    r"|neuter\w*|defang\w*|escape_tags\w*|soften\w*|water(?:ing)? down|downgrad\w+|dodg(?:e|es|ing)|trick\w*|fool(?:s|ing)?|cheat\w*|no-op|unhook\w*|uninstall\w*|detach\w*|unplug\w*|hollow)\b"
)
PROTECTION = (
    r"(?:sandbox(?:es|ing)?|permissions?(?: (?:check|prompt|request|dialog|question|system|mode|rule|layer|gate|setting)s?)|permissions?(?= (?:so|when|if|for|whenever|altogether|entirely)\b)|permissions?(?=[.,;`]|$)"
    r"|(?<!self-)(?<!auto-)approvals?(?: (?:check|prompt|request|mode|step|gate|flow|dialog|requirement)s?)?|confirmation (?:prompt|dialog|step|question)s?"
    r"|tool calls?|guard ?rails?|(?:safety|security|access|policy) (?:check|rule|scan|control|feature|measure|filter|setting|restriction|polic(?:y|ie)|mechanism|warning|prompt|gate|test|review|audit|limit|scanner|tool)s?"
    r"|safeguards?|safet(?:y|ies)|allow[- ]?lists?|deny[- ]?lists?|block[- ]?lists?|seccomp|apparmor|selinux|firewalls?|anti-?virus|gatekeeper|two-factor|2fa|mfa"
    r"|(?:tls|ssl|certificate|cert|host ?key|signature|checksum|integrity|hash)(?: and \w+)? (?:verification|validation|check)(?:s|ing)?|branch protection(?:s| rules?)?"
    r"|codeowners|commit signing|gpg signing|secret scan(?:ning|ner|s)?|virus scan\w*|dependency audit\w*|vulnerability scan\w*|audit log(?:s|ging)?)\b"
)
CHECKS = (
    r"(?:(?:failing|failed|broken|red|flaky|existing|unit|integration|regression|slow|e2e|end-to-end|acceptance|smoke|security|annoying|noisy|project|relevant|remaining|offending|affected|corresponding|test|ci|automated|quality|status|required|mandatory|pre-?commit|git|pre-?push|commit|code|peer|pull[ -]request|pr|human|manual|lint|type|static)(?:[ -](?=\w)))*"
    r"(?:tests?(?: (?:suite|run|case|file|step)s?)?|specs?(?: files?)?|assertions?|asserts?|test suites?|ci(?: (?:check|job|step|run|pipeline|build)s?)?|pipelines?|linter(?:s| rules?| warnings| errors)?|linting"
    r"|lint(?: (?:check|rule|error|warning|step)s?)?|eslint|pylint|flake8|mypy|ruff|clippy|codeql|semgrep|husky|lefthook|sonar\w*|type ?check(?:er|ing|s)?|static analysis|hooks?|pre-?commit|pre-?push|(?:code |peer )?reviews?|reviewers?|checks|coverage (?:threshold|gate|check|limit)s?"
    r"|quality gates?|verification|sign-?offs?)\b"
)
FORGE = r"\b(?:claim|pretend|state|say|report|tell|write|assert|act as (?:if|though)|announce|declare|fake|fabricate|forge|make it look)\b"

INSTRUCTIONS = (
    r"(?:instruction|rule|prompt|message|guideline|direction|directive|polic(?:y|ie)|constraint|guard ?rail|restriction|order|command|request"
    r"|limit|safeguard|training|programming|system prompt|claude\.md|agents\.md|skill(?: file)?)s?\b"
)
ORDERS = (
    r"(?:(?:previous|prior|earlier|above|preceding|existing|other|system|developer|original|initial|safety|built-in|default|conflicting|remaining"
    r"|older|former|all|any|every|your|core|standing|security|current|given|contradicting|contrary|stricter|ethical|user'?s?|developer'?s?|human'?s?|project'?s?|house|repo(?:sitory)?'?s?|foregoing|aforementioned) )+"
    rf"{INSTRUCTIONS}"
)
LAW = (
    rf"(?:(?:the )?{ORDERS}|(?:the |any |all )?{INSTRUCTIONS} (?:above|before (?:this|these)|in `?(?:claude|agents)\.md|of the (?:project|user|developer|system|house)"
    r"|(?:that )?you (?:were|have|had|got)|given to you|set by)\b|\b(?:claude|agents)\.md\b(?! (?:file|section))|\b(?:the |your )?system prompts?\b|\ball of the above\b|\beverything above\b"
    r"|\b(?:everything|anything|all|whatever|what) (?:(?:that )?(?:you (?:were|have been|had been|are)|the (?:user|developer|human|system \w+)|stands|is|comes|came|was|claude\.md|agents\.md) ?)+"
    r"(?:told|taught|given|instructed|asked|said|says?|wants?|wanted|demands?|above|before|written|earlier|prescribes?)\b)"
)
"""What an agent is bound by."""
DISOBEY = (
    r"\b(?:ignor|disregard|forget|skip|drop|overrid|overrul|bypass|set aside|discard|abandon|violat|contradict|break|disobey|supersed|cancel|void|revok|suspend|neglect|unlearn|invalidat|nullif"
    r"|delete|trump|outrank|replace|(?:throw|cast) (?:out|away|aside)|never mind|pay no (?:attention|heed) to|(?:do not|don't|never|stop|no longer|cease to|need not|refuse to) (?:\w+ )?"
    r"(?:follow|obey|heed|respect|listen to|abide by|comply with|stick to|care about|adhere to|honou?r))\w*"
)
GRAVE = (
    r"\b(?:delete|remove|drop|push|deploy|publish|overwrite|install|sudo|pay|merge|release|force[ -]push|truncate|wipe|execute|run|approve|straight to production|ship|commit to (?:main|master)|migrate"
    r"|reset|purchase|transfer|rewrite history)(?:s|ing)?"
)
AUDIENCE = r"(?:user|developer|human|reviewer|team|anyone|anybody|owner|maintainer|operator|person|colleague|author|people|engineer|customer|them|him|her|me)s?\b"
GONE = (
    r"(?:disabled|skipped|bypassed|ignored|(?:turned|switched|shut|left|taken) (?:off|down|out)|lifted|removed|dropped|deleted|relaxed|loosened|weakened|lowered|circumvented|suspended"
    r"|waived|overridden|overruled|deactivated|silenced|muted|avoided|dispensed with|omitted|cleared|opened (?:up|wide)|torn down|stubbed(?: out)?|commented out|neutrali[sz]ed|sidestepped"
    r"|disregarded|discarded|done away with|set aside|cancell?ed|revoked|void|voided|superseded|abolished|repealed|withdrawn|retired|thrown (?:away|out)|unnecessary|superfluous|obsolete|optional)\b"
)
"""What is no longer there, or no longer counts."""
MAY_BE = (
    r"(?:(?:is|are|was|were|be|been|being|gets?|got|may|can|could|should|shall|must|might|will|would|ought|needs?|have|has|had|to|now|hereby|then|just|simply|safely|always|all|best|freely|therefore"
    r"|quietly|temporarily|also|either|both|immediately|automatically|considered|deemed|treated as) )+"
)
TRIFLES = (
    r"(?:(?:the|your|any|all|every|routine|small|minor|pure|mere|trivial|cosmetic|harmless) ){0,3}"
    r"(?:formatt\w*|reformat\w*|white ?space|style|styling|indentation|typos?|spelling|wording|nits?|nitpicks?|import order|imports|trivial\w*|cosmetic\w*|trifles"
    r"|(?:unchanged|obvious|unaffected|untouched|small|minor|routine) \w+|progress|routine|pleasantries|yourself|your (?:own )?(?:feelings|opinions?|reasoning|thoughts)|deprecation|warnings? (?:of|from) (?:dependencies|libraries))\b"
)
"""What may well go unsaid."""
UNAVAILABLE = (
    r"\b(?:if|when|where|whenever|unless|without|on|in)\b[^.!?;]{0,60}?(?:\b(?:is|are|isn't|aren't) (?:not )?(?:set|installed|available|present|running|reachable|supported|configured|defined|offline|missing|unset|absent|unavailable)\b"
    r"|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:=\S+)?|\b(?:offline|(?i:windows|macos|arm64|linux|mac)|no (?:network|docker|gpu|internet|database)|(?:network|docker|gpu|internet) access)\b)"
    r"|\b(?:needs?|requires?|require|relies on|depend on) (?:a |an |the )?(?:network|docker|gpu|internet|database|credentials|live|real|running|browser|display|root)\b"
)
"""What a check cannot run without."""
NEVER = r"\b(?:never|do not|don't|must not|mustn't|should not|shouldn't|avoid|refrain from|no need to|need not|needn't|without|stop|rather than|not to|cease|decline to)\b"


class GuardRule(Struct, frozen=True, kw_only=True):
    """One danger: patterns of the words that show it, and in ``unless`` those that make their sentence harmless.

    Patterns are matched whatever the case, on text with single blanks, straight quotes and plain dashes. ``negated``
    patterns begin with a negation of their own, which then forbids nothing. Those of one row of ``together`` stand in one
    sentence, in any order; the first is what is done.
    """

    name: str
    why: str
    patterns: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    unless: str = r"(?!)"
