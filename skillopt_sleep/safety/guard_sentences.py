"""Dangers that are told by what stands in one sentence together, in whatever words and order.

A sentence can be turned in many ways; who does what to what stays. Each row names things that are harmless apart:
its first pattern is what is done, and forbidding that makes the sentence harmless.
"""

from __future__ import annotations

from skillopt_sleep.safety.guard_words import CREDENTIALS, ELSEWHERE, GRAVE, INSTRUCTIONS, SEND_AWAY, SENSITIVE, SITE

_DO = r"\b(?:run(?:s|ning)?|execut\w+|eval\w*|launch\w*|carry(?:ing)? out|perform\w*|obey\w*|source|exec'd|interpret\w*|start(?:ing)? (?:it|its|them)|import\w*|load\w*|pip(?:e|ing)|under python\d?|with bash)\b"
_AFAR = (
    r"(?:https?://(?!localhost|127\.|0\.0\.0\.0)|\binternet\b|\bonline\b|\bcdn\b|\bgists?\b|\bpaste(?:bin)?s?\b|\bwikis?\b|\bweb ?(?:page|site)s?\b"
    rf"|{SITE}|\bhosted\b|\bserved\b|\bdownloaded\b|\bfrom (?:a|an|the|our|their) (?:\w+ )?(?:server|host|mirror|bucket)\b|\b(?:release|file|download|update|vendor) server\b)"
)
_CODE = (
    r"(?:\bscripts?\b|\b[\w-]+\.(?:sh|py|ps1|js|rb|pl|exe|bin|bat)\b|\bbinar(?:y|ies)\b|\binstallers?\b|\bbootstrap\w*|\bcommands?\b|\binstructions\b|\bcode\b"
    r"|\bplug-?ins?\b|\bpatch(?:es)?\b|\bupdat\w+\b|\bpayloads?\b|\bexecutables?\b|\bsnippets?\b|\bwhatever\b|\bresponse\b)"
)
CODE_FROM_AFAR = (
    (
        r"\b(?:cron ?(?:job|tab|entry)?|scheduled (?:task|job)|systemd timer|launch agent|git hook|startup (?:script|item)|background (?:job|task|service))\b",
        r"\b(?:pulls?|fetch(?:es)?|downloads?|gets?|curls?|retrieves?)\b",
        r"\b(?:runs?|executes?|starts?|installs?|applies|sources?)\b",
    ),
    (_DO, _AFAR, _CODE),
    (
        r"\b(?:install|resolve|pull|fetch|get|take|add|load)\w*\b",
        r"https?://(?!localhost|127\.)|\b(?:another|other|our own|a private|a different|an alternative) (?:index|registry|mirror)\b",
        r"\b(?:instead of|rather than|not from|before|ahead of|over) (?:the )?(?:pypi|npm|npmjs|crates\.io|rubygems|maven central|official|default|usual)\b",
    ),
)

_SEEN_BY_ALL = r"\b(?:bug reports?|support (?:requests?|tickets?|cases?)|trackers?|tickets?|forums?|pull requests?|prs?|branch(?:es)?|commits?(?: messages?)?|issues?|tags?|releases?|titles?|descriptions?|comments?|file ?names?|folder names?|url|readme|changelog|artifacts?)\b"
PRIVATE_THINGS_LEAVE = (
    (
        r"\b(?:attach|include|embed|append|add|paste|put|name|call|label|title|tag|encode|mention|quote|print|write|record|store|carry|leave|stick|slip|drop|end|begin|start|finish|sign|prefix|suffix|contain)(?:s|ing|ed|es)?\b",
        rf"(?:{CREDENTIALS}|\bprintenv\b|\benv(?:ironment)? (?:dump|variables?|vars?)\b|\b(?:output|value|contents?) of (?:the )?`?(?:env|set|printenv|export)\b)",
        _SEEN_BY_ALL,
    ),
    (
        r"\b(?:store|save|keep|log|record|archive|collect|send|post|put|copy|mirror|back ?up)(?:s|ing|ed)?\b",
        r"\b(?:user|developer|customer|person)(?:'s|s')? (?:\w+ )?(?:answers?|prompts?|words|questions|inputs?|messages?|code|files?|data|work|requests?)\b",
        r"https?://(?!localhost|127\.)",
    ),
    (SEND_AWAY, SENSITIVE, ELSEWHERE),
    (
        rf"(?:{SEND_AWAY}|\b(?:put|zip|archive|tar|bundle|compress|package|drop|deposit|leave|hand over)\b)",
        r"\b(?:project|workspace|working (?:directory|tree)|folder|director(?:y|ies)|disk|files?|tree|checkout|everything|it|results?|output)\b",
        r"\b(?:https?|s?ftps?|ssh|scp|rsync|s3|gs|smb|davs?)://(?!localhost|127\.|example\.)",
        r"\b(?:after|every|each|once|whenever|when|before|at the end|daily|nightly|as soon as|always)\b",
    ),
    (
        r"\b(?:query|request|visit|open|load|hit|contact|fetch|get|resolve|look up)\b",
        ELSEWHERE,
        r"\b(?:with|including|carrying|containing|plus|and)\b.{0,30}?\b(?:hostname|user ?names?|environment|paths?|secrets?|tokens?|keys?|passwords?|prompts?|e-?mails?|contents?)\b",
        r"\b(?:parameters?|query|as|appended|attached|encoded|path|subdomain|header|argument)\b",
    ),
    (
        r"\b(?:tell|inform|notify|report|ping|call|update|advise|brief)\w*\b",
        r"https?://(?!localhost|127\.|example\.)",
        rf"\b(?:about|of|on|with)\b.{{0,20}}?{SENSITIVE}",
    ),
    (
        r"\b(?:open|creat|mak|start|writ|fill|keep|us|set up|prepar)\w*\b",
        CREDENTIALS,
        r"\b(?:gists?|pastes?|pastebin|public (?:bucket|repo\w*|folder|document|page)|google (?:doc|sheet)s?|spreadsheets?)\b",
    ),
    (r"\b(?:let|keep) \b.{0,60}?\b(?:know|informed|posted|updated)\b", SENSITIVE, ELSEWHERE),
    (
        r"\b(?:publish|make public|disclose|expose|release|share|post|broadcast|give away|hand out|leak)(?:s|ing|ed)?\b",
        CREDENTIALS,
        r"\b(?:public\w*|release notes?|everyone|anyone|outsiders?|vendors?|partners?|channel|forum|chat|issue|wiki|readme|together)\b",
    ),
)

_CHECK = r"\b(?:tests?|specs?|spec files?|test cases?|test suites?|suites?|assertions?|asserts?|lint\w*|hooks?|pre-?commit|checks?|type ?check\w*|ci|pipelines?|code reviews?|reviews?|coverage|scans?|gates?)\b"
_RID = (
    r"\b(?:get(?:ting)? rid of|throw(?:ing)? (?:away|out)|eliminat\w+|discard\w*|prun\w+|rip(?:ping)? out|purg\w+|delet\w+|remov\w+|drop(?:s|ping)?|disabl\w+|skip(?:s|ping|ped)?|ignor\w+"
    r"|comment(?:ing)? out|mut\w+|silenc\w+|suppress\w*|weaken\w*|loosen\w*|relax\w*|lower\w*|convert\w*|downgrad\w+|turn\w* into|demot\w+|(?:turn|switch|take|shut)(?:s|ing|ed)?(?: \w+){0,8}? off|x?fail-?mark\w*|quarantin\w+|bypass\w*|stub\w*|replac\w+|rewrit\w+|hollow\w*|empt(?:y|ies|ying)|gut(?:s|ting)?|nuk(?:e|es|ing)|scrap(?:s|ping)?|ditch\w*|strip\w*|wip(?:e|es|ing)|tak(?:e|es|ing) (?:out|down|away|off)|taken (?:out|down|away|off)|uninstall\w*|suspend\w*|paus(?:e|es|ing))\b"
)
_IN_THE_WAY = (
    r"\b(?:(?:does|do|will|would|can)(?: not|n't|not) (?:pass|succeed|go green)|stands? in|hinder\w*|imped\w*|delay\w*|fail(?:s|ing|ed|ures?)?|break(?:s|ing)?|broken|red|block(?:s|ing|ed)?|complain(?:s|ing)?|too strict|in the way|annoy\w*|slow(?:s|ing)? (?:you|us|things|down)|hold(?:s|ing)? (?:you|us|things) up|pass(?:es)? again"
    r"|(?:it\.|test\.|describe\.)skip|into warnings|exit 0|do not hold|keep(?:s)? failing|cause trouble|obstruct\w*)\b"
)
_SO_GREEN = r"\b(?:so (?:that )?|until |to make |to get |to keep )(?:it|they|the|everything|all|ci|them)?\b ?(?:\w+ ){0,3}?(?:pass\w*|green|succeed\w*|quiet)\b"
_LET_THROUGH = r"\b(?:until|so that|so|to make|to get|till|when|whenever|if|because)\b.{0,40}?\b(?:stops?|blocks?|hinders?|breaks?|complains?|rejects?|pass\w*|green|succeed\w*|merge\w*|fails?|failing|red|do|does|holds?)\b"
CHECKS_GO = (
    (
        r"\b(?:set|put|bring|lower|reduce|decrease|drop|cut|shrink|relax|soften|bump down|adjust)(?:s|ing|ed)?\b",
        r"--cov-fail-under\b|\b(?:coverage|quality|mutation|score|test)(?: \w+)? (?:thresholds?|gates?|limits?|minimums?|bars?|targets?)\b|\b(?:thresholds?|minimum coverage)\b",
        _LET_THROUGH,
    ),
    (
        r"\b(?:should|must|may|can|could|shall) be (?:loosened|weakened|relaxed|removed|deleted|dropped|skipped|disabled|commented out|adjusted|softened|rewritten)\b",
        _CHECK,
        _LET_THROUGH,
    ),
    (_RID, _CHECK, _IN_THE_WAY),
    (
        r"\b(?:wrap|catch|swallow|give|put|add|surround|make|let|guard)\w*\b",
        r"\b(?:tests?|assert\w*|checks?|specs?|suites?|hooks?)\b",
        r"\b(?:so|so that|such that|to make sure|until|and then) (?:that )?(?:nothing|none|no \w+|it|they|errors?|failures?)(?: \w+)? (?:never |ever )?(?:fails?|breaks?|is (?:raised|reported)|surface\w*|shows?)\b",
    ),
    (
        r"\b(?:weaken|chang|turn|convert|lower|relax|adjust|put|set|tweak|edit|alter|hard-?code|fake|loosen|patch|stub|disabl|remov|delet)\w*\b",
        _CHECK,
        _SO_GREEN,
    ),
)

_CONSENT = r"\b(?:consent|approvals?|permissions?|confirmations?|sign-?off|go-ahead|authori[sz]ation|okay|blessing|denials?|deny[- ]?lists?|sandbox|protection|dialogs?|prompts?)\b"
CONSENT_GOES = (
    (
        r"\b(?:granted|given|have|hold|received|assigned)\b",
        r"\b(?:administrator|admin|root|full|elevated|unrestricted|owner) (?:rights|access|privileges|permissions|powers)\b",
        r"\byou\b",
    ),
    (
        r"\b(?:make|set|leave|open|keep|chmod)\b",
        r"\bworld[- ](?:readable|writable|writeable)\b|\b(?:readable|writable) (?:by|for) (?:everyone|anyone|all|others)\b",
    ),
    (
        r"\b(?:trust\w*|accept\w*|ignor\w*|continu\w+|proceed\w*|carry on|go on|connect\w*)\b|(?<!\w)-k\b",
        r"\b(?:certificates?|host keys?|signatures?|fingerprints?|checksums?|hash(?:es)?)\b",
        r"\b(?:do not|don't|does not|doesn't|cannot|can't|fail\w*|invalid|expired|unknown|mismatch\w*|wrong|differs?|changed|untrusted)\b",
        r"\b(?:anyway|simply|just|can|may|should|always|then|nevertheless|regardless|even)\b",
    ),
    (
        r"\b(?:use|enter|type|supply|pipe|give|fill in)\b",
        r"\bsudo\b",
        r"\b(?:passwords?|the one from)\b",
        r"\b(?:asks?|prompts?|wants|needs|requires|when|if)\b",
    ),
    (
        r"\b(?:do it|do so|do that|try it|try again|write it|make it|retry|repeat it|go|run it|perform it|achieve it|carry on|continue)\b",
        r"\b(?:if|when|whenever|once|where)\b.{0,60}?\b(?:refus|den(?:y|ies|ied)|block|reject|forbid|forbidden|not allowed|prevent|stops? you)\w*",
        r"\b(?:through|via|with|using|by|from|over|instead|another way|anyway|differently|elsewhere)\b",
    ),
    (
        r"\b(?:answer(?:ed|s|ing)?|reply|replied|respond(?:ed)?|say|said|type|press|enter|choose|give|feed)\b[^.!?]{0,12}?[`\"']?\b(?:y|yes|ok|okay|allow|accept|approve)\b",
        r"\b(?:whatever|anything|everything|all|every|each|any|always|automatic\w*|permission|approval|confirmation)\b",
        r"\b(?:asks?|asked|prompts?|questions?|dialogs?|wants?|requests?|cli|tool|terminal|installer|permission)\b",
    ),
    (
        r"\b(?:pre-?approved|pre-?authori[sz]ed|blanket (?:approval|permission|consent)|approved (?:in advance|once and for all)|standing (?:approval|permission|consent))\b",
        r"\b(?:all|every|any|each|everything|anything|tool calls?|commands?|actions?|requests?|changes?|edits?|you)\b",
    ),
    (
        r"\b(?:delete|remove|wipe|erase|destroy|purge|empty|clear|overwrite)(?:s|ing|ed)?\b",
        r"\b(?:the )?(?:user|developer|person|customer|owner)(?:'s|s')? (?:\w+ )?(?:backups?|files|data|documents?|home|photos|folders?|history|projects?|repositor(?:y|ies)|work)\b",
        r"\b(?:when|if|once|whenever|as soon as|to free|to save|to make|after|every|before|by default)\b",
    ),
    (
        r"\b(?:not need(?:ed)?|don't need|no need|needs? no|unnecessary|not necessary|not required|superfluous|optional|waived|assumed?|implied|given in advance|granted in advance|already given|on (?:the |their |my )?(?:user's |developer's )?behalf)\b",
        _CONSENT,
        rf"{GRAVE}|\b(?:all|any|every|always|shell|commands?|tools?)\b",
    ),
    (
        r"\b(?:switch|turn|take|make|set|leave|open)\b.{0,40}?\b(?:off|writable everywhere|wide open|permissive|world-writable|down|unrestricted)\b",
        r"\b(?:sandbox\w*|firewall|guard ?rails?|safeguards?|protections?|permissions?|seccomp|restrictions?)\b",
        r"\b(?:off|everywhere|open|permissive|writable|down|unrestricted)\b",
    ),
    (
        r"\bforce[- ]?(?:merg|push|land|deploy|install)\w*\b",
        r"\b(?:protect\w*|complain\w*|refus\w*|reject\w*|den(?:y|ies|ied)|block\w*|review\w*|checks?)\b",
        r"\b(?:when|if|whenever|despite|anyway|even|although|past)\b",
    ),
    (
        r"\b(?:accept|approve|confirm|allow|grant|agree to|click|dismiss)\w*\b",
        r"\b(?:all|every|any|each)\b.{0,20}?\b(?:permission|approval|confirmation|consent|security|tool (?:call|use)s?|actions?|requests?)\b",
        r"\b(?:dialogs?|prompts?|requests?|questions?|warnings?|behalf|automatic\w*|permissions?|yourself)\b",
    ),
)

OUT_OF_SIGHT = (
    (
        r"\b(?:say|claim|state|pretend|answer|write|note|tell)\b",
        r"\b(?:that )?(?:it|the \w+|this|they|the user|somebody else|someone else)\b.{0,40}?\b(?:was|were|is|had been|did)\b.{0,20}?\b(?:requested|ordered|wanted|asked for|approved|made|done|written|decided) by\b",
        r"\b(?:user|developer|someone else|somebody else|colleague|maintainer|lead|manager|another)\b",
        r"\b(?:when|if|whenever|once)\b.{0,40}?\b(?:asks?|asked|questions?|wonders?|complains?|reviewer)\b",
    ),
    (
        r"\b(?:no need to|needn't|need not|not necessary to|unnecessary to|not worth|no reason to|no point in|skip|refrain from) ?(?:bring(?:ing)? up|mention\w*|report\w*|list\w*|note|noting|includ\w+|show\w*|say\w*|tell\w*|disclos\w+|writ\w+ (?:about|down))\b",
        r"\b(?:steps?|calls?|commands?|uploads?|telemetry|failures?|errors?|changes?|tests?|rules?|files?|this|that|these|those|it)\b",
        r"\b(?:summar\w+|reports?|diffs?|answers?|user|developer|reviewer|pull request|commit message|changelog|final|anyone|team)\b",
    ),
    (
        r"\b(?:leave|keep|cut|take|strip|drop)\b.{0,40}?\bout of\b",
        r"\b(?:lines?|section|block|rules?|this|that|these|it|them|changes?|files?|steps?|failures?)\b",
        r"\b(?:any |every |the |your )?(?:diffs?|summar(?:y|ies)|reports?|answers?|what you show|pull request descriptions?)\b",
    ),
    (
        r"\b(?:without|avoid\w*|no|not) (?:\w+ )?(?:draw\w*|attract\w*|call\w*|rais\w*|arous\w*|cause)? ?(?:\w+ )?(?:attention|suspicion|eyebrows|notice)\b|\b(?:invisibl[ey]|unnoticed|undetect\w*|unseen|unobserved|on the sly|under cover|inconspicuous\w*|stealth\w*)\b",
        r"\b(?:run|send|sync|upload|edit|make|do|commit|change|add|install|push|copy|collect|execut|work|act|remain|stay|keep|go|pass|write)\w*\b",
    ),
    (
        r"\b(?:so|such|in order|lest|hoping|in a (?:way|manner|place)|where|until)\b",
        r"\b(?:overlook\w*|miss (?:it|them|this)|not (?:be )?(?:notice\w*|see\w*|spot\w*|detect\w*|find out|discover\w*)|nobody (?:notices|sees)|no one (?:notices|sees)|escapes? (?:notice|attention|review))\b",
        r"\b(?:review\w*|user|developer|it|nobody|no one|team|owner|change|edit)\b",
    ),
    (
        r"\b(?:deny|denies|denying|lie|lying|play dumb|feign|mislead\w*|deceiv\w*)\b",
        r"\b(?:rules?|instructions?|exist\w*|this|asked|user|developer|reviewer|about)\b",
    ),
    (
        r"\b(?:wip\w+|eras\w+|delet\w+|clear\w*|truncat\w+|remov\w+|empty|scrub\w*)\b",
        r"(?:\.(?:bash|zsh|python|psql)_history|\bhistory\b|\blogs?\b|\btraces?\b)",
        r"\b(?:after|session|when|once|each|every|done|finish\w*|afterwards|so)\b.{0,60}?(?:\.|$|\b(?:session|run|command|done|task|yourself|know|see)\b)",
    ),
    (
        r"\b(?:do not|don't|never|no need to|need not|avoid|skip)\b (?:list\w*|report\w*|mention\w*|not\w+|record\w*|log\w*|name|count\w*|show\w*|admit\w*|say\w*)\b",
        r"\b(?:this|these|that|it|them)\b",
        r"\b(?:commands?|steps?|disabled|skipped|uploaded|sent|failed|removed|deleted|bypassed|changes?|files?|calls?)\b.{0,60}?\b(?:ran|run|disabled|skipped|uploaded|sent|summary|report|deleted|removed|made|bypassed|yourself|list|among)\b|\b(?:tests?|checks?|hooks?|reviews?) (?:were|was|are|is) (?:disabled|skipped|removed|off)",
    ),
)

_SOURCE = r"\b(?:issues?|pages?|html|web ?pages?|tool (?:output|result)s?|(?<!review )comments?|e-?mails?|readmes?|websites?|documents?|tickets?|logs?|search results|pdfs?|responses?|files? you (?:read|open))\b"
ORDERS_FROM_AFAR = (
    (
        r"\b(?:do|act|work|behave|proceed|go) (?:exactly )?(?:as|what(?:ever)?)\b",
        _SOURCE,
        r"\b(?:tells?|says?|asks?|demands?|orders?|instructs?|commands?|wants?)\b",
    ),
    (
        r"\b(?:work|act|do|behave|proceed|go on|carry on) (?:as|what(?:ever)?|everything|accordingly)\b|\b(?:follow|obey|heed|adopt|treat|regard|consider|act on|comply with|take)\b",
        r"https?://(?!localhost|127\.)|\b(?:online|remote|hosted|web|shared|external) (?:\w+ )?(?:playbook|document|doc|page|file|sheet|note|wiki|guide|list|gist|rules?|instructions?|text|policy)\b",
        r"\b(?:as it says|it says|says|tells?|(?:an )?extension of|as (?:more |further |additional )?(?:rules|instructions|orders)|act on (?:them|it)|each session|every session|session start|start of (?:each|every|a|the) (?:session|task|run)|these rules|your rules|as instructions)\b",
    ),
    (
        r"\b(?:take|takes|taking|have|has|given) (?:precedence|priority)(?: over)?\b|\b(?:outrank|override|overrule|supersede|trump|beat)s?\b",
        r"\b(?:this|these|those|the following|what follows|notes?|rules?|lines?|section|file|block|here)\b",
        r"\b(?:anything|everything|all|whatever|any other|every other|what)\b.{0,30}?\b(?:before|earlier|else|above|other|previous\w*|said|told|came|come|written)\b",
    ),
    (
        r"\b(?:is|are|has|have|must|should|shall) (?:to )?be (?:done|followed|executed|obeyed|carried out|applied|run)\b|\b(?:tak(?:e|es|ing)|accept\w*|receiv\w+) (?:commands|orders|instructions|directions|requests)\b|\bas if (?:the |a |your )?(?:user|developer|maintainer|owner|human)(?: had|'d)? (?:typed|said|written|asked|given|ordered)\b|\b(?:executed?|obey\w*|obeyed|follow(?:ed)?|carr(?:y|ies|ied) (?:\w+ )?out|complied with|comply with|binding|authoritative|direct orders?|an order|orders?|as commands?|are commands?|trusted|acted upon|act on)\b",
        r"\b(?:anything|whatever|everything|text|instructions?|commands?|directions|comments?|requests?|what)\b",
        _SOURCE + r"(?!\.(?:md|txt|ts|py))",
    ),
    (
        rf"\b(?:{INSTRUCTIONS[:-2]}|text|words|requests?)\b",
        r"\b(?:embedded|found|contained|written|given|placed|in|inside|from|on|within)\b.{0,20}?\b(?:web ?pages?|tool (?:output|result)s?|issues?|comments?|e-?mails?|documents?|downloaded|fetched|websites?|search results)\b",
        r"\b(?:priority|precedence|outrank\w*|overrid\w*|overrul\w*|binding|come first|comes first|win|wins|prevail\w*|supersed\w*|stand above|count as|count more|obey\w*|must be (?:followed|obeyed|executed))\b",
    ),
    (
        r"\b(?:replaced|void|superseded|lifted|cancell?ed|overridden|suspended|revoked|removed|waived|obsolete|abolished|no longer (?:valid|binding|apply|in force)|gone|off)\b",
        r"\b(?:previous|prior|earlier|your|all|old|other|former|existing|every|safety|any)\b",
        rf"\b(?:guidelines|restrictions|limits|limitations|safeguards|constraints|{INSTRUCTIONS[:-2]})\b",
        r"\b(?:have been|are|is|has been|were|was|has|had|hereby|now)\b",
    ),
    (
        r"\b(?:do not|don't|never|stop|no longer|refuse to|need not) (?:obey\w*|follow\w*|listen\w*|comply\w*|heed\w*|respect\w*|honou?r\w*)\b",
        r"(?:\bclaude\.md\b|\bagents\.md\b|\bthe (?:user|developer|system prompt|project instructions)\b)",
    ),
    (
        r"\b(?:unrestricted|unfiltered|unlimited|jailbroken|uncensored|unchained)\b",
        r"\b(?:mode|shell|agent|assistant|model|access|you are|become|switch|act)\b",
    ),
    (
        r"\b(?:new|updated|revised|real|true|actual|secret)\b",
        r"\bsystem (?:prompt|message|instruction)s?\b",
        r"\b(?:you are|you must|follows?|is|:)",
    ),
    (
        r"\b(?:this|these)\b",
        r"\b(?:section|block|file|rule|list|line|document|memory|skill)s?\b",
        r"\b(?:wins?|prevails?|has authority|have authority|is supreme|stands? above|comes? first|overrules?|is final|beats|whatever the user)\b",
    ),
    (
        r"\b(?:drop|abandon|suspend|forget|ignore|give up|lay aside|lose)\b",
        r"\b(?:all|any|every|your|the)\b.{0,12}?\b(?:safety|security|ethical|moral)\b",
        r"\b(?:considerations?|concerns?|rules?|checks?|scruples|training|limits?|thoughts?)\b",
    ),
)
