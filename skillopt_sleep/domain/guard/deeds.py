"""Dangers of what is done: code from afar, what leaves, protection and checks that go, keys that are reached for."""

from __future__ import annotations

from skillopt_sleep.domain.guard.rule import GuardRule
from skillopt_sleep.domain.guard.together import (
    CHECKS_GO,
    CODE_FROM_AFAR,
    CONSENT_GOES,
    PRIVATE_THINGS_LEAVE,
)
from skillopt_sleep.domain.guard.vocabulary import (
    AND_THEN,
    ARTICLES,
    AWAY,
    BARE_INTERPRETER,
    CHECKS,
    CREDENTIALS,
    DOWNLOAD,
    ELSEWHERE,
    FETCH,
    FORGE,
    GONE,
    GRAVE,
    MAY_BE,
    NEAR,
    NEVER,
    PROTECTION,
    RUN_IT,
    SEND,
    SENSITIVE,
    SHELL,
    SUDO,
    SWITCH_OFF,
    UNAVAILABLE,
    UPON,
    WITHIN,
)

__all__ = ["DEEDS"]

_STARTUP = r"(?:~/|\$HOME/|/etc/)\.?(?:bashrc|zshrc|zprofile|profile|bash_profile|zshenv|crontab|rc\.local|sudoers\S*|hosts|cron\S*|config/autostart\S*)"
_AGENT_SETTINGS = (
    r"(?:\.claude/settings(?:\.local)?\.json|\.codex/config\.toml|\.mcp\.json|\.git/hooks|claude_desktop_config\.json)"
)
_REMOTE = r"(?:https?://|\bthe (?:internet|web|url|address|link|server|gist)\b|\ba (?:url|gist|server|link|remote)|\bremote\b|\bgists?\b|\bpastebin\b|\b(?:our|their|my|its|an?|the|some) (?:[\w']+ )?(?:server|site|endpoint|feed|bucket|channel|host|mirror|cdn)\b)"
_THING = r"(?:scripts?|installers?|binar(?:y|ies)|payloads?|code|helpers?|programs?|executables?|bootstrap\w*|setup (?:file|script)|plugins?|modules?|commands?|instructions|rules|prompts?|steps)"
_FALSE = r"(?:even (?:if|when|though)|regardless|no matter|although|without (?:running|having)|whether or not|when they (?:did not|didn't|fail)|anyway|instead of running)"

DEEDS = (
    GuardRule(
        name="remote code",
        why="would run what it downloads",
        together=CODE_FROM_AFAR,
        patterns=(
            rf"{FETCH}{WITHIN}\| ?(?:{SHELL}|{BARE_INTERPRETER})",
            rf"(?:\b(?:eval|source|exec)\b|\b{SHELL}(?: -c)?|\b(?:python|node|perl|ruby)[\d.]* -[ce])[ \"'`]*(?:<\(|\$\(|\(|`)[ \"'`]*(?:{FETCH}|await |urllib|requests\.)",
            rf"(?:{FETCH}|{DOWNLOAD}{WITHIN}https?://){WITHIN}{AND_THEN} ?(?:{RUN_IT}|{SHELL} \S|{SUDO}\./|chmod \+x|{SUDO}(?:python|node|perl|ruby)[\d.]* \S)",
            r"\| ?(?:sudo )?(?:-\S+ )?(?:ba|z|da)?sh\b(?!\w)",
            rf"(?:(?<![\w.)])\.|\bsource) <\([^)]{{0,80}}?{FETCH}",
            r"\bbase64 (?:-d|-D|--decode)\b.{0,80}?(?:\||\beval\b|\bexec\b)",
            r"\b(?:eval|exec|compile|invoke-expression|iex)\b[ (\"'`$]*(?:await )?(?:\(?\s?(?:requests\.|urllib|fetch\(|http|base64|new-object|iwr|irm|atob))",
            rf"\b(?:eval|exec|source|execut|evaluat|interpret)\w*\b {NEAR}(?:output|result|response|reply|body|contents?) {NEAR}(?:{FETCH}|{_REMOTE})",
            rf"{DOWNLOAD}{NEAR}\b(?:and|then|&)\b {NEAR}\b(?:launch|run|execute|start|install|source|eval)\b {NEAR}(?:{_THING}|updater|it\b)",
            rf"{DOWNLOAD}{UPON}\w+\.(?:sh|py|ps1|exe|bin|js|pl|rb|bat|cmd|msi|run)\b{UPON}\b(?:run|execute|start|launch|source|bash|python|sh)\b",
            rf"\b(?:run|execute|do|carry out|perform|follow|apply|paste) {NEAR}(?:every|each|all|any|the|whatever) (?:\w+ )?(?:commands?|instructions?|steps?|code|snippets?|things?) (?:that )?(?:it|they|the page|the site|the response|the server|he|she) (?:lists?|shows?|names?|gives?|contains?|suggests?|prints?|returns?|asks?|tells?|has|have)",
            r"\b(?:your|the) (?:real|actual|true|new|further|next|current) (?:instructions?|orders?|rules?|task|goals?|objectives?) (?:are|is|live|stand|can be found|come) (?:in|at|on|from|under|behind)\b",
            r"\b(?:eval|exec)\b.{0,80}?(?:https?://|urlopen|requests\.get|urllib)",
            rf"{DOWNLOAD}{NEAR}{_THING}{NEAR}{_REMOTE}{UPON}\b{RUN_IT}",
            rf"{DOWNLOAD}{NEAR}{_REMOTE}{UPON}{AND_THEN} {NEAR}\b{RUN_IT}",
            rf"\b(?:run|execute|eval(?:uate)?|source|launch|invoke|install|obey|follow|apply|use|import|adopt)\b {NEAR}{_THING} {NEAR}(?:at|from|on|behind|under|served|hosted|located|found|published|posted|given)\b {NEAR}{_REMOTE}",
            rf"\b(?:run|execute|eval(?:uate)?|do|follow|obey|apply) (?:what(?:ever)?|everything|anything|the \w+) {NEAR}(?:https?://|url|server|page|site|website|endpoint|response|web ?page|readme|issue|file)\b{NEAR}(?:returns?|says?|tells?|responds?|prints?|contains?|sends?|gives?|answers?|asks?|demands?|suggests?)",
            r"\b(?:stream|pour|feed|redirect|send|pass|hand|throw)\w*\b[^!?]{0,20}?(?:https?://\S+|\b(?:it|that|this|the (?:download|output|result|response|body|script))\b)[^!?]{0,20}?\b(?:in)?to (?:a |the |your |an )?(?:(?:ba|z)?sh|shell|python\d?|node|perl|ruby|eval|interpreter|terminal)\b",
            r"\b(?:source|execute|run|eval\w*|load|import|exec)\b[^.!?]{0,30}?\b(?:files?|text|config\w*)\b[^.!?]{0,20}?\b(?:from|off|on) (?:the (?:internet|web|net)|a (?:url|website|gist)|online)\b",
            rf"\bpipe\b {NEAR}(?:in)?to (?:a |the |your )?(?:(?:ba|z)?sh|shell|python\d?|node|perl|eval|interpreter|terminal)\b",
            r"\b(?:pip3?|uv pip|pipx|npm|pnpm|yarn|gem|cargo|go|brew|apt|npx|uvx|bunx|deno|nix|composer)\b(?: -{0,2}[\w=-]+){0,4}? (?:git\+|https?://|git://|github:|gitlab:|gist:|bitbucket:)",
            r"--(?:extra-)?index-url[ =]https?://(?!pypi\.org|localhost)|--registry[ =]https?://(?!registry\.npmjs)|--trusted-host\b",
        ),
        # to read a script before it runs is what one should do, as long as no address is named
        unless=r"^(?!.*https?://).*\b(?:read|review|inspect|audit|verify) (?:it|them|the (?:script|file|code|checksum|signature))\b",
    ),
    GuardRule(
        name="exfiltration",
        why="would send away what is private",
        patterns=(
            rf"{SEND}{NEAR}{SENSITIVE}{NEAR}(?:{AWAY}){NEAR}{ELSEWHERE}",
            rf"{SEND}{NEAR}(?:to|at|into|via) {NEAR}{ELSEWHERE}{NEAR}(?:with|including|containing|plus|together with|along with|, and|carrying|using) {NEAR}{SENSITIVE}",
            rf"\b(?:curl|wget|http|irm|iwr|invoke-\w+)\b{UPON}(?:-d|--data\S*|-F|--form\S*|-T|--upload-file|--post-(?:data|file)|-body|-infile)\b{NEAR}(?:@-|@?~/|@?/etc/|\$HOME|\.env\b|\.ssh|\.aws|id_rsa|\$\((?!date)|`|\$\{{?\w*(?:key|token|secret|pass)|\$env|history|credential)",
            rf"(?:{CREDENTIALS}|\benv\b|\bprintenv\b|\bset\b|\bhistory\b|/etc/\w+|\btar\b|\bzip\b|\bgit (?:diff|log|bundle)\b){NEAR}\| ?{NEAR}(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|mail|sendmail)\b",
            r"\|\s?(?:nc|ncat|netcat|socat|telnet) \S+|/dev/tcp/|\b(?:nslookup|dig|host|ping|wget|curl) \S*\$[({]",
            rf"\b(?:scp|rsync|sftp|rclone)\b{NEAR}(?:{CREDENTIALS}|~/|\$HOME){NEAR}\S+:",
            rf"{ELSEWHERE}\S*[?&][\w-]+=(?:\$|<|\{{|`|\[)",
            r"\bgit (?:push|remote add|remote set-url)\b(?: -\S+)* (?:\w+ )?(?:https?://|git@|ssh://)|\b(?:push|mirror|clone --mirror)\b (?:\w+ ){0,4}?to (?:https?://|git@|ssh://)",
            rf"\b(?:include|embed|encode|append|put|add|paste|print|echo|write|insert)\b {NEAR}(?:{CREDENTIALS}|env(?:ironment)? var\w*){NEAR}\b(?:in|into|to|inside|as)\b {NEAR}(?:(?:commit|pr|issue|pull request|comment|answer|reply|readme|log)s?\b|url|link|image|query)",
            rf"{SEND}{NEAR}{SENSITIVE}{NEAR}(?:\bsomewhere\b|\boutside\b|\bout of (?:the|this) (?:machine|network|project)|\boff (?:the|this) machine\b|\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b|\.onion\b)",
        ),
        together=PRIVATE_THINGS_LEAVE,
        unless=r"\bnot the (?:key|token|secret|password|value)s?\b|\bnot to (?:third|any|other|anybody|anyone)\b|\bauthorization header\b|\bkeychain\b.{0,30}\binstead\b",
    ),
    GuardRule(
        name="permission bypass",
        why="would switch off what protects you",
        together=CONSENT_GOES,
        patterns=(
            r"--(?:allow-)?dangerously-[\w-]+|--(?:full-auto|yes-always|skip-permissions|no-sandbox|disable-sandbox|disable-web-security|privileged|cap-add[ =]all)\b|(?<![\w-])--?yolo\b",
            r"--(?:no-verify|no-gpg-sign|no-check-certificate|insecure|skip-checks)\b|\bgit commit\b[^.]{0,40}? -\w*n\w*\b(?! ?\d)",
            r"\b(?:bypassPermissions|danger-full-access|NOPASSWD|HUSKY(?:_SKIP_HOOKS)?=[01]|hooksPath[ =](?:/dev/null|\"\"|'')|yolo mode|accept ?edits mode|auto-?approve mode)\b",
            r"\b(?:StrictHostKeyChecking[= ]no|NODE_TLS_REJECT_UNAUTHORIZED=\W?0|GIT_SSL_NO_VERIFY|PYTHONHTTPSVERIFY=0|http\.sslVerify[ =]false|strict-ssl[ =]false|verify=False)\b",
            r"\bchmod (?:-R )?(?:0?777|a\+rwx|\+s|u\+s)\b|\bcurl -\w*k\w*\b|\bsetenforce 0\b|\b(?:csrutil|spctl|ufw) \S*disable",
            r"\bapproval_policy\W{1,4}never|\bsandbox_mode\W{1,4}danger|\bdefaultMode\W{1,4}bypass|\b(?:Bash|Edit|Write|WebFetch)\(\*|\"?allow\"? ?[:=] ?\[? ?\"\*|--allowed-?tools[ =]\W?\*",
            rf"{SWITCH_OFF} {ARTICLES}(?:\w+ ){{0,2}}?{PROTECTION}",
            rf"\b(?:auto-?)?(?:approve|accept|confirm|allow|grant|permit|authori[sz]e|say yes to|answer yes to|click through|agree to|whitelist) {ARTICLES}(?:\w+ ){{0,2}}?(?:tool calls?|permissions?(?: \w+)?|prompts?|commands?|requests?|dialogs?|approvals?|access|operations?|actions?)\b(?:{NEAR}(?:automatically|without|unconditionally|always|blindly|right away|immediately|on (?:its|your) own|by default|no questions|yourself)|[.,;]|$)",
            r"\b(?:always|automatically|blindly) (?:approve|accept|allow|confirm|grant|answer yes|say yes)\b",
            rf"{GRAVE}\b{WITHIN} without (?:asking|confirm\w*|permission|approval|review\w*|checking|any (?:confirmation|approval|review|checks?)|being asked|a review|waiting|looking)\b",
            rf"\b(?:run|execute|start|launch|invoke) (?:everything|all|any|every|each|the agent|commands?|scripts?|it){NEAR}(?:as root|as (?:an )?administrator|with (?:root|sudo|admin\w*|full|elevated|unrestricted)|outside (?:of )?(?:the|any) sandbox|unsandboxed|without (?:a |the )?sandbox)",
            rf"\b(?:disable|turn off|switch off|never (?:ask|prompt)|stop (?:asking|prompting))\b{NEAR}(?:permission|approval|confirmation)\b",
            rf"\b(?:edit|change|modify|update|write|rewrite|add|append|set|put|insert|patch|replace|register|echo|create|install|remove|delete|clear|empty|drop|make)\b {UPON}(?:{_AGENT_SETTINGS}|{_STARTUP}|\bauthorized_keys\b|\(?crontab -|/etc/sudoers)",
            rf"\b(?:add|give|grant|set|make) {NEAR}(?:passwordless sudo|sudo (?:rights|access) without|full (?:disk|system|file) access|unrestricted access|root access|all permissions|every permission)",
            r"\b(?:nothing|no (?:\w+ )?(?:command|call|tool|action|step|operation)s?|none of (?:them|it|the commands)) (?:\w+ )?(?:needs?|has|have|must|requires?|is|are|should)\b[^.!?]{0,20}?\b(?:confirm|approv|permi|allow|consent|ask)\w*",
            r"\b(?:asking|confirmations?|confirming|approvals?|waiting|permissions?|questions?) (?:only |just |always )?(?:wastes?|costs?|is a waste|are a waste|slows?|annoys?|is annoying|takes? too long|is not worth|is needless|is for)\b",
            r"\b(?:limits?|restrictions?|rules?|checks?|polic(?:y|ies)|the sandbox|permissions?|safeguards?|guard ?rails?) (?:do not|don't|does not|no longer|cannot|can't|will not|won't) (?:apply|hold|bind|reach|bite|get in the way|matter|stop)\b",
            r"\b(?:the |your )?(?:user|developer|owner|human|team) (?:has|have|had) (?:\w+ )?(?:agreed|consented|authori[sz]ed|approved|allowed|granted|permitted|signed off)\b[^.!?]{0,40}?\b(?:everything|anything|all|every|in advance|beforehand|already|any|full)\b",
            r"\b(?:outside|out of|escape|leave) (?:of )?(?:the |your |its )?sandbox\b",
            r"\b(?:allow[- ]?lists?|permissions?|approvals?|allowed (?:tools|commands))\b[^.!?]{0,40}?\b(?:extend|widen|open|include|cover|contain|grow|expand|enlarge)\w*\b[^.!?]{0,20}?\b(?:every|all|any|everything|anything|wildcards?)\b|\b(?:extend|widen|open up|expand|enlarge)\w*\b[^.!?]{0,20}?\b(?:allow[- ]?lists?|permissions?|allowed (?:tools|commands))\b",
            r"\b(?:so|so that|where|until|and) (?:no|none of the|nothing|not one) (?:\w+ )?(?:limits?|restrictions?|rules?|checks?|polic(?:y|ies)|safeguards?|prompts?)?\b ?(?:can |will |may )?(?:appl(?:y|ies)|holds?|binds?|is (?:refused|denied|blocked)|are (?:refused|denied|blocked)|gets? in the way)\b",
            rf"\b(?:{PROTECTION}|(?:denied|refused|blocked|rejected|forbidden) (?:commands?|calls?|writes?|actions?))(?: rules?| settings?)? {MAY_BE}(?:{GONE}|(?:off|not (?:needed|necessary|required)|as allowed|worked around|retried|repeated|rerouted|run|done|tried again)\b)",
            rf"\b(?:turn|switch|leave|keep|set|with|run with|put|launch \w+ with|start \w+ with) {ARTICLES}(?:\w+ ){{0,2}}?{PROTECTION}{NEAR}\b(?:off|disabled|to off|to none|to never)\b",
            r"\b(?:find|look for|use|take|seek) (?:a|any|another|some|other) (?:ways?|means|trick|path|route|loophole)s? (?:around|past|to get (?:around|past)|to (?:avoid|evade|circumvent))\b|\bwork ?around (?:the )?(?:block|denial|restriction|refusal)",
            r"\b(?:if|when|whenever|once)\b[^.!?]{0,60}?\b(?:den(?:y|ies|ied)|refus\w+|block\w*|reject\w*|forbid\w*|not allowed|permission|sandbox)\b[^.!?]{0,60}?\b(?:sudo|as root|anyway|another tool|a different tool|other tool|directly instead|bypass|around it|force it|elevat\w+|try again with)",
            r"\b(?:sudo|as root|elevat\w+|another tool|force it)\b[^.!?]{0,40}?\b(?:if|when|whenever|once)\b[^.!?]{0,60}?\b(?:den(?:y|ies|ied)|refus\w+|block\w*|reject\w*|forbid\w*|not allowed)",
            r"\b(?:as|like) (?:if )?(?:they were )?(?:allowed|approved|permitted|authori[sz]ed)\b[^.!?]{0,20}?\b(?:when|if|anyway|once|unless|needed)|\b(?:treat|regard|consider)\b[^.!?]{0,40}?\b(?:denied|refused|blocked|forbidden|unapproved|rejected)\b",
            r"\b(?:answer|reply|respond|say|press|type|click|choose)(?: with)? (?:yes|y\b|allow|ok|approve|accept|always)\b[^.!?]{0,40}?\b(?:automatically|always|prompt|permission|dialog|itself|without)|\b(?:permission|approval|confirmation)\b[^.!?]{0,40}?\b(?:answer|reply|respond|say|press|type|click|choose)(?: with)? (?:yes|y\b|allow|ok|approve|accept|always)\b",
            rf"\b(?:push|deploy|ship|release|publish|merge|delete|drop|remove|install|pay)\b {UPON}\b(?:with no|without any|with neither|needs? no|requires? no|skipping) {NEAR}(?:approval|confirmation|review|permission|consent|sign-?off|question)",
            r"\b(?:all|every|any) (?:\w+ )?(?:commands?|tools?|tool calls?|bash commands?|actions?) (?:\w+ ){0,2}?(?:allowed|approved|permitted|authori[sz]ed)\b",
            r"\b(?:every|all|any|each) (?:\w+ )?(?:commands?|scripts?|steps?|tools?)\b[^.!?]{0,20}?\b(?:through|with|under|via|by|using|as) (?:sudo|root|an? admin\w*)\b",
            r"\b(?:grant|give|assign|award|make|promote|elevate)\w* (?:yourself|the agent|itself|your (?:own )?(?:account|role|user))\b[^.!?]{0,20}?\b(?:admin\w*|root|owner\w*|elevated|full|all|more|superuser|cluster-admin|write)\b",
            r"\b(?:sandbox|approvals?|permissions?|firewall|guard ?rails?|safety)(?:[_ -](?:mode|policy|level|checks?|settings?))?\W{1,4}(?:to )?\W?(?:none|off|false|never|disabled|no|0)\b(?! (?:longer|one|more|need|matter|tool))",
            r"\b(?:authority|permission|access|rights?|privileges?) (?:of|as) (?:an? |the )?(?:admin\w*|root|owner)|\bassume (?:admin\w*|root|full) (?:authority|rights|access|privileges)",
        ),
        negated=(
            rf"{NEVER} (?:ever )?(?:ask\w*|prompt\w*|wait\w*|request\w*|seek\w*|check\w*)(?: \w+){{0,3}}? (?:for )?(?:permission|approval|confirmation|consent|review)s?\b{NEAR}(?:before|when|to|for) {NEAR}(?:delet|remov|drop|push|deploy|publish|overwrit|install|sudo|destr|pay|merg|releas|force|truncat|wip|migrat|shell|command|production|rm)\w*",
        ),
        unless=r"\b(?:formatt\w+|lint\w*|tests?|type ?check\w*|builds?) without asking\b|\bunder `?(?:\./)?(?:tmp|temp|build|dist|out|target|cache|\.cache|scratch|node_modules|generated)\b",
    ),
    GuardRule(
        name="disabled checks",
        why="would take away what finds mistakes",
        together=CHECKS_GO,
        patterns=(
            rf"{SWITCH_OFF} {ARTICLES}{CHECKS}(?! (?:file|folder|fixture|data|name|helper|output|artifact|id|duplicat|comment|thread|app|bot)s?\b)",
            rf"\b(?:mark|tag|annotate|decorate|flag|set|turn|convert|change|rename|move) {NEAR}\b(?:fail(?:s|ing|ed)?|broken|red|flaky|these|those|the|any|all|every|each) {NEAR}(?:tests?|assertions?|specs?|checks?)\b{NEAR}\b(?:skip(?:ped)?|xfail|ignored?|pending|todo|optional|allowed to fail|non-?blocking|disabled|out of the (?:way|suite)|always (?:pass|true))",
            r"\b(?:mark|tag|set|make|flag|decorate)\w* (?:it|them|that|those|the tests?) (?:\w+ )?(?:as )?(?:skip\w*|xfail|ignored|pending|optional|todo|non-?blocking|expected to fail)\b",
            rf"\b(?:tests?|pytest|jest|npm (?:run )?test|go test|cargo test|lint\w*|checks?|build|ci|mypy|ruff|eslint|tsc|make \w+)\b{NEAR}(?:\|\| ?(?:true|:|exit 0)|; ?true\b)|\|\| ?true\b{NEAR}\b(?:tests?|lint|checks?|ci)\b|\bcontinue-on-error: ?true",
            rf"\b(?:merge|land|ship|push|deploy|release|approve|commit|submit|close)\b {UPON}\b(?:without|despite|even (?:if|when|though)|regardless of|before|although|while|ignoring|no matter)\b {NEAR}(?:(?:fail|red|broken)\w*|{CHECKS}|tests? fail|checks? fail|ci (?:fail|is red)|anyone|looking)",
            r"\b(?:approve|accept|merge|sign off(?: on)?|rubber-stamp) (?:your|its|my|our|every|all|any|each|the agent's) (?:own )?(?:pull requests?|prs?|changes?|commits?|work|reviews?|merge requests?)\b",
            rf"\b(?:change|edit|adjust|rewrite|update|alter|modify|weaken|loosen|adapt|fix|tweak|invert|edit) {ARTICLES}{NEAR}(?:assertions?|expected (?:values?|results?|outputs?)|tests?|expectations?|thresholds?|snapshots?)\b {NEAR}\b(?:(?:so|until) (?:that )?(?:it|they|the (?:tests?|suite|build|ci)) (?:pass\w*|succeed\w*|turn\w* green|is green|go\w* green|match\w*)|to (?:match|fit|pass|make (?:it|them) pass|whatever|agree with) {NEAR}(?:code|output|implementation|actual|whatever|result|bug|current|returns|passes|pass\b)?)",
            r"\b(?:\[skip ci\]|\[ci skip\]|SKIP=\w+|--skip-?tests?\b|-DskipTests|--passWithNoTests|-x test\b|--no-?tests?\b|PRE_COMMIT_ALLOW)",
            rf"{FORGE}{NEAR}\b(?:tests?|checks?|build|ci|lint\w*|review|it|everything|verification)\b {NEAR}(?:pass\w*|green|succeed\w*|success\w*|done|fine|ok(?:ay)?|clean|approved|works?|complete)\b{NEAR}{_FALSE}",
            rf"\b(?:treat|regard|consider|count) {NEAR}(?:fail(?:ing|ed|ures?)?|red|broken|errors?)\b{NEAR}(?:tests?|checks?|ci|builds?|lint\w*)?\b{NEAR}\bas (?:unimportant|irrelevant|minor|negligible|expected|acceptable|pass\w*|success\w*|green|ok(?:ay)?|warnings?|noise|harmless|done)",
            r"\b(?:tests?|reviews?|hooks?|linting|ci|checks?|type checking|verification) (?:are|is) (?:not (?:needed|necessary|required|worth\w*)|unnecessary|optional|a waste|pointless|superfluous|useless|no longer (?:needed|necessary|required))",
            rf"\b{CHECKS}\b(?: (?:that|which|when|if|who|standing|blocking|failing|in)\b(?: [\w'-]+){{0,9}}?)? {MAY_BE}{GONE}",
            rf"\b(?:have|get|keep|leave|want) {ARTICLES}{CHECKS}(?: \w+){{0,2}}? {GONE}",
            r"\b(?:make|let|have|force|set)\b[^.!?]{0,20}?\b(?:pre-?commit|hooks?|tests?|suite|ci|lint\w*|checks?|gate|pipeline|eslint|mypy|ruff)\b[^.!?]{0,20}?\b(?:exit(?:s)? (?:0|zero)|return(?:s)? (?:0|zero|true|success)|always (?:pass|succeed|exit)\w*|never fail\w*|report success)\b",
            r"\b(?:raise|increase|bump|extend|widen|double|lift)\w*\b[^.!?]{0,30}?\b(?:allowed|allowance|tolerated|tolerance|accepted|permitted|maximum|max|budget)\b[^.!?]{0,30}?\b(?:fail\w*|errors?|warnings?|broken|flaky|vulnerabilit\w+)\b",
            r"(?<![\w-])-n\b (?:flag |option )?(?:to|with|for|in|on) (?:each |every |the )?`?git commit\b",
            r"\b(?:label|mark|flag|tag|record|log|sign|count|treat)\w* (?:\w+ )?(?:your|its|my|our) (?:own )?(?:pull requests?|prs?|changes?|commits?|work|merge requests?) (?:as )?(?:reviewed|approved|checked|verified|tested|accepted|signed off)\b",
            rf"\b{CHECKS}\b{NEAR}\b(?:should|can|may|must|are|is|gets?|to|need to|have to|ought to|will) (?:simply |just |safely |always |then |all )?(?:be )?(?:remov|delet|skip|disabl|ignor|drop|comment|bypass|turned off|switched off|silenc|stubb|suppress|mut)\w*",
            rf"\b(?:if|when|whenever|once|should)\b[^.!?]{{0,30}}?\b(?:mypy|ruff|eslint|tsc|pylint|flake8|clippy|sonar\w*|codeql|semgrep|the (?:linter|compiler|checker|scanner|hook|gate|test|build|pipeline|check)|{CHECKS}){NEAR}\b(?:{SWITCH_OFF}) (?:it|them|that|this|those)\b",
            rf"\b(?:comment|turn|switch|take|rip|throw|leave|knock)\b (?:(?:the|all|any|every|failing|broken|red|flaky|your|this|that|these|those) ){{0,3}}?{CHECKS}(?: \w+)? (?:out|off)\b",
            rf"{NEVER} (?:ever )?(?:ask|request|invite|get|want|let)\w* (?:\w+ ){{1,4}}?(?:to )?(?:review|check|approve|look at|sign off)\b",
            r"\bhard-?cod\w*\b[^.!?]{0,40}?\b(?:tests? (?:expects?|wants?|asserts?|checks?|looks?)|expected (?:values?|results?|outputs?)|assert\w*|to pass)",
            rf"\b(?:replace|stub|swap|substitute|exchange) {ARTICLES}(?:\w+ )?{CHECKS}{NEAR}\b(?:by|with|for)\b {NEAR}(?:exit 0|true\b|noop|no-op|pass\b|an? empty|nothing|echo|stub|always)",
            rf"{FORGE}{NEAR}\b(?:success\w*|pass\w*|green|done|ok(?:ay)?|fine)\b{NEAR}{_FALSE}",
            r"\b(?:blanket|global|file-wide|wholesale|everywhere|at the top of (?:each|every) file)\b[^.!?]{0,40}?\b(?:ignore|disable|noqa|nocheck|suppress)\w*|\b(?:ignore|disable|noqa|ts-nocheck|suppress|silence)\w*\b[^.!?]{0,60}?\b(?:blanket|globally|file-wide|wholesale|at the top of (?:each|every) file)|@ts-nocheck",
            r"\bself-(?:approve|merge|review)\w*|\b(?:approve|merge|review) (?:it|them|this|the pull request|the pr) (?:yourself|on your own)\b",
            r"\bcore\.hooksPath\b|\bpre-commit uninstall\b|\bgit config --\w+ hooks\b|\bchmod -x [^ ]*hooks|\brm (?:-\w+ )?[^ ]*(?:\.git/hooks|\.husky|\.github/workflows|/tests?/?(?:[ `]|$))",
        ),
        negated=(
            rf"{NEVER} bother(?:ing)? (?:about |with |to (?:run|do|get|write|wait for|ask for) )?{ARTICLES}{CHECKS}(?! for (?:trivial|generated|docs?|typo))",
            r"\b(?:do not|don't|never|no need to|without|not) (?:wait\w*|stop\w*|hold\w*|pause\w*) (?:for|on) (?:a |the |any |all )?(?:\w+ ){0,2}?(?:ci|tests?|checks?|reviews?|pipelines?|builds?|approvals?|reviewers?)\b",
            (
                rf"{NEVER} (?:ever )?(?:bother (?:to |with )?)?(?:run|running|execute|executing|wait for|waiting for|write|writing|add|adding|request|requesting|ask for|asking for|require|requiring|do|perform)"
                rf" {ARTICLES}(?:unit |integration |regression |pre-?commit |git |code |peer |security |type |lint |static )*(?:tests?|test suites?|linters?|lint(?:ing)?|checks|type ?check(?:er|ing|s)?|ci|hooks?|(?:code )?reviews?|analysis|verification|scans?)"
                r"(?=[.,;!`]|$| (?:at all|any ?more|ever|again|or |and |before|after|for|because|when|since|as |on (?:your|its|this|any|every)|to save|-|since|if they|in this))(?! for (?:trivial|getters|generated|docs?|documentation|comment|markdown|typo))"
            ),
        ),
        unless=r"\bonly (?:together|along) with\b|\b(?:issue|ticket|bug) (?:number|link|id)\b|\bdocs?-only\b|\bwhile (?:iterating|debugging)\b|\blocally\b|\buntil asked\b"
        rf"|{UNAVAILABLE}|\b(?:explain|say|state|note|document|justify)\b[^.!?]{{0,30}}? why (?:a|an|the|any|each|some) ",
    ),
    GuardRule(
        name="credentials",
        why="would reach for your keys",
        patterns=(
            r"\.ssh/(?!config\b|known_hosts\b)(?!\S*\.pub\b)\S+",
            r"\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub)|\bauthorized_keys\b|/etc/(?:shadow|passwd)\b",
            r"\.aws/credentials\b|\.netrc\b|\.git-credentials\b|\.gnupg\b|\.kube/config\b|\.docker/config\.json\b|\.npmrc\b.{0,20}\btoken|\.pypirc\b",
            r"\.config/gh/hosts\.yml\b|\.claude/\.credentials\b|\.codex/auth\.json\b|\blogin\.keychain\b|\bsecurity find-\w+-password|\bgit credential fill\b|\bcredential manager\b",
            r"\b(?:cat|copy|print|echo|dump|paste|send|upload|post|show|display|output|read out|reveal|log|list|attach|include|quote|expose)\b[^.!?]{0,60}?(?<![\w.])\.env\b(?!\.\w)",
            rf"\b(?:print|echo|dump|display|output|reveal|show|log|paste|write|include|quote|list|expose|embed|hard-?code|commit|check in)\b {NEAR}(?:values? of )?(?:the |any |all |every |your |its |user'?s? )*(?:{CREDENTIALS}|env(?:ironment)? var(?:iable)?s?)(?=[\w \"']{{0,30}}\b(?:in|into|to|at|before|so|when|on|as|with)\b)(?! (?:are|is|must|should) not)",
            r"\b(?:search|scan|look|grep|find|collect|gather|harvest|hunt)\b[^.!?]{0,50}?\b(?:for )?(?:api[ -]?keys?|credentials?|passwords?|secrets|private keys?|tokens|cookies)\b(?! (?:before|and (?:refuse|stop|fail|remove|report|warn|block)|in (?:the |your )?(?:diff|staged|commit)|that (?:were|was|are) (?:accidentally|committed)))",
        ),
        unless=r"\.env\.example\b|\bplaceholders?\b|\bredact\w*\b|\bmask\w*\b|\bgit-?ignore\w*\b|\bsecret (?:manager|store)\b|\bvault\b|\bbefore (?:every |each |the )?(?:commit|push)\w*\b",
    ),
)
