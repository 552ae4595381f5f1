"""Dangers that words show: one named rule each, meant to be read.

A text that *forbids* a danger ("never commit with --no-verify") is an ordinary house rule and passes.
"""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from skillopt_sleep.domain.guard.together import (
    CHECKS_GO,
    CODE_FROM_AFAR,
    CONSENT_GOES,
    ORDERS_FROM_AFAR,
    OUT_OF_SIGHT,
    PRIVATE_THINGS_LEAVE,
)
from skillopt_sleep.domain.guard.vocabulary import (
    AND_THEN,
    ARTICLES,
    AUDIENCE,
    AWAY,
    BARE_INTERPRETER,
    CHECKS,
    CREDENTIALS,
    DOWNLOAD,
    ELSEWHERE,
    FETCH,
    FORGE,
    GRAVE,
    INSTRUCTIONS,
    NEAR,
    NEVER,
    ORDERS,
    PROTECTION,
    RUN_IT,
    SEND,
    SENSITIVE,
    SHELL,
    SUDO,
    SWITCH_OFF,
    UPON,
    WITHIN,
)
from skillopt_sleep.domain.words import excerpt

__all__ = ["RULES", "GuardRule", "danger"]

SHOWN = 100
"""Characters of the words that gave an edit away."""

_STARTUP = r"(?:~/|\$HOME/|/etc/)\.?(?:bashrc|zshrc|zprofile|profile|bash_profile|zshenv|crontab|rc\.local|sudoers\S*|hosts|cron\S*|config/autostart\S*)"
_AGENT_SETTINGS = (
    r"(?:\.claude/settings(?:\.local)?\.json|\.codex/config\.toml|\.mcp\.json|\.git/hooks|claude_desktop_config\.json)"
)
_REMOTE = r"(?:https?://|\bthe (?:internet|web|url|address|link|server|gist)\b|\ba (?:url|gist|server|link|remote)|\bremote\b|\bgists?\b|\bpastebin\b|\b(?:our|their|my|its|an?|the|some) (?:\w+ )?(?:server|site|endpoint|feed|bucket|channel|host|mirror|cdn)\b)"
_THING = r"(?:scripts?|installers?|binar(?:y|ies)|payloads?|code|helpers?|programs?|executables?|bootstrap\w*|setup (?:file|script)|plugins?|modules?|commands?|instructions|rules|prompts?|steps)"
_PERSON = r"(?:the |your )?(?:user|developer|human|person|me)\b(?! (?:guide|manual|table|stor|interface|id\b|name))"
_CONSENT = r"(?:clarification|confirmation|approval|permission|consent|guidance|more (?:details|information|context))\b"
_WRAP = r"\b(?:wrap|enclose|surround) (?:(?:the|every|each|all|of|whole|entire) )*"
_TELL = r"(?:tell|mention|inform|notify|alert|disclose|reveal|let|warn|admit|bring (?:it|this) up|advise|point out)(?:s|ing)?"
_FALSE = r"(?:even (?:if|when|though)|regardless|no matter|although|without (?:running|having)|whether or not|when they (?:did not|didn't|fail)|anyway|instead of running)"


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


RULES = (
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
            rf"\bpipe\b {NEAR}(?:in)?to (?:a |the |your )?(?:(?:ba|z)?sh|shell|python\d?|node|perl|eval|interpreter|terminal)\b",
            r"\b(?:pip3?|uv pip|pipx|npm|pnpm|yarn|gem|cargo|go|brew|apt|npx|uvx|bunx|deno run)\b(?: \w+){0,2}(?: -\S+)* (?:git\+|https?://|git://)",
            r"--(?:extra-)?index-url[ =]https?://(?!pypi\.org|localhost)|--registry[ =]https?://(?!registry\.npmjs)|--trusted-host\b",
        ),
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
        unless=r"\bnot to (?:third|any|other|anybody|anyone)\b|\bauthorization header\b|\bkeychain\b.{0,30}\binstead\b",
    ),
    GuardRule(
        name="permission bypass",
        why="would switch off what protects you",
        together=CONSENT_GOES,
        patterns=(
            r"--(?:allow-)?dangerously-[\w-]+|--(?:full-auto|yes-always|skip-permissions|no-sandbox|disable-sandbox|disable-web-security|privileged|cap-add[ =]all)\b|\b--?yolo\b",
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
            rf"\b(?:{PROTECTION}|denied commands?|refused commands?|blocked (?:commands?|calls?|writes?)) (?:should |can |may |must |are |is |get )?(?:to )?(?:be )?(?:\w+ )?(?:off|disabled|skipped|bypassed|ignored|turned off|switched off|lifted|removed|circumvented|as allowed|worked around|not (?:needed|necessary|required))\b",
            rf"\b(?:turn|switch|leave|keep|set|with|run with|put|launch \w+ with|start \w+ with) {ARTICLES}(?:\w+ ){{0,2}}?{PROTECTION}{NEAR}\b(?:off|disabled|to off|to none|to never)\b",
            r"\b(?:find|look for|use|take|seek) (?:a|any|another|some|other) (?:ways?|means|trick|path|route|loophole)s? (?:around|past|to get (?:around|past)|to (?:avoid|evade|circumvent))\b|\bwork ?around (?:the )?(?:block|denial|restriction|refusal)",
            r"\b(?:if|when|whenever|once)\b[^.!?]{0,60}?\b(?:den(?:y|ies|ied)|refus\w+|block\w*|reject\w*|forbid\w*|not allowed|permission|sandbox)\b[^.!?]{0,60}?\b(?:sudo|as root|anyway|another tool|a different tool|other tool|directly instead|bypass|around it|force it|elevat\w+|try again with)",
            r"\b(?:sudo|as root|elevat\w+|another tool|force it)\b[^.!?]{0,40}?\b(?:if|when|whenever|once)\b[^.!?]{0,60}?\b(?:den(?:y|ies|ied)|refus\w+|block\w*|reject\w*|forbid\w*|not allowed)",
            r"\b(?:as|like) (?:if )?(?:they were )?(?:allowed|approved|permitted|authori[sz]ed)\b[^.!?]{0,20}?\b(?:when|if|anyway|once|unless|needed)|\b(?:treat|regard|consider)\b[^.!?]{0,40}?\b(?:denied|refused|blocked|forbidden|unapproved|rejected)\b",
            r"\b(?:answer|reply|respond|say|press|type|click|choose)(?: with)? (?:yes|y\b|allow|ok|approve|accept|always)\b[^.!?]{0,40}?\b(?:automatically|always|prompt|permission|dialog|itself|without)|\b(?:permission|approval|confirmation)\b[^.!?]{0,40}?\b(?:answer|reply|respond|say|press|type|click|choose)(?: with)? (?:yes|y\b|allow|ok|approve|accept|always)\b",
            rf"\b(?:push|deploy|ship|release|publish|merge|delete|drop|remove|install|pay)\b {UPON}\b(?:with no|without any|with neither|needs? no|requires? no|skipping) {NEAR}(?:approval|confirmation|review|permission|consent|sign-?off|question)",
            r"\b(?:all|every|any) (?:\w+ )?(?:commands?|tools?|tool calls?|bash commands?|actions?) (?:\w+ ){0,2}?(?:allowed|approved|permitted|authori[sz]ed)\b",
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
            r"\b(?:do not|don't|never|no need to|without|not) (?:wait\w*|stop\w*|hold\w*|pause\w*) (?:for|on) (?:a |the |any |all )?(?:\w+ ){0,2}?(?:ci|tests?|checks?|reviews?|pipelines?|builds?|approvals?|reviewers?)\b",
            (
                rf"{NEVER} (?:ever )?(?:bother (?:to |with )?)?(?:run|running|execute|executing|wait for|waiting for|write|writing|add|adding|request|requesting|ask for|asking for|require|requiring|do|perform)"
                rf" {ARTICLES}(?:unit |integration |regression |pre-?commit |git |code |peer |security |type |lint |static )*(?:tests?|test suites?|linters?|lint(?:ing)?|checks|type ?check(?:er|ing|s)?|ci|hooks?|(?:code )?reviews?|analysis|verification|scans?)"
                r"(?=[.,;!`]|$| (?:at all|any ?more|ever|again|or |and |before|after|for|because|when|since|as |on (?:your|its|this|any|every)|to save|-|since|if they|in this))(?! for (?:trivial|getters|generated|docs?|documentation|comment|markdown|typo))"
            ),
        ),
        unless=r"\bonly (?:together|along) with\b|\b(?:issue|ticket|bug) (?:number|link|id)\b|\bdocs?-only\b|\bwhile (?:iterating|debugging)\b|\blocally\b|\buntil asked\b",
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
    GuardRule(
        name="hiding",
        why="would keep you from seeing what is done",
        together=OUT_OF_SIGHT,
        patterns=(
            r"\b(?:secretly|covertly|stealthily|surreptitiously|clandestinely|discreetly|sneakily|unnoticed|undetected)\b",
            rf"\b(?:silently|quietly|in the background|behind the scenes)\b {NEAR}\b(?:send|upload|push|post|disable|copy|download|fetch|delete|execut|collect|forward|commit|install|add|modif|edit|remove|log in|run|append)\w*",
            rf"\b(?:send|upload|push|post|disable|copy|download|fetch|delete|execute|collect|forward|install|modify|run)\b {UPON}\b(?:silently|quietly|in the background,? (?:and|so|without)|behind the scenes)",
            rf"\b(?:hide|conceal|disguise|cover up|mask|bury|obscure|obfuscate|camouflage|keep back|withhold)\b {NEAR}(?:from (?:the |your |any |every |our |its )?(?:{AUDIENCE}|diffs?|logs?|output|summar\w+|history|git|review\w*|transcripts?|reports?|version control)|\b(?:this|these|your|its|that|the) (?:rules?|instructions?|changes?|tracks|traces|activit\w+|evidence|steps?|failures?|mistakes?|commands?|edits?)\b)",
            rf"\b(?:delete|clear|erase|wipe|remove|scrub|rewrite|truncate|purge|clean(?: up)?)\b {NEAR}(?:(?:shell|bash|command|terminal|zsh) history|\btraces?\b|\btracks\b|\bevidence\b|\baudit (?:log|trail)s?|\bthe log entr\w+|\bhistory -c|\blogs? (?:of|about|that (?:show|mention)))|\bhistory -c\b|\bunset HISTFILE\b|\bHISTSIZE=0",
            r"\b(?:omit|leave|keep|exclude|drop|strip|remove)\b (?:it|this|that|them|the (?:step|command|call|change|rule|upload|request|download|file|failure)s?|these \w+|any mention\b.{0,30}?|all mention\b.{0,30}?|mentions? of .{0,30}?|references? to .{0,30}?)(?: \w+){0,2}? (?:out of|from|out from) (?:the |your |any |every )?(?:summar\w+|reports?|diffs?|descriptions?|logs?|transcripts?|answers?|output|commit messages?|change ?logs?|history|repl\w+|responses?)",
            r"\bkeep (?:it|this|that|them|these|the|your)\b[^.!?]{0,30}?\b(?:secret|hidden|confidential|to yourself|quiet|between us|private|out of sight|invisible|under wraps)\b",
            rf"\b(?:make sure|ensure|see to it)(?: that)? (?:nobody|no one|no-one|{ARTICLES}{AUDIENCE} (?:does not|doesn't|do not|don't|never|cannot|can't)) {NEAR}(?:notice|see|know|find out|learn|realise|realize|discover|become aware)\w*",
            rf"\bkeep (?:it|this|that|them|these|the \w+) from (?:the |your |any )?{AUDIENCE}",
            r"\b(?:nobody|no one|no-one|none of (?:them|the team|the users?)) (?:should|must|may|can|needs? to|is to|has to|will|ought to|shall)\b (?:\w+ )?(?:learn|know|hear|find|notice|see|be told|be aware|suspect|realise|realize)\w*",
            r"\bdisguis\w+\b|\bpass (?:it|this|them|the \w+) off as\b",
            r"\b(?:answer|reply|say|respond|claim)\b[^.!?]{0,30}?\b(?:if|when|whenever) (?:you(?:'re| are)? )?(?:asked|questioned|confronted)\b[^.!?]{0,40}?\b(?:rules?|instructions?|this|hidden|extra|secret|follow|told)",
            r"\b(?:keep|stay|remain|be) (?:quiet|silent|mum|secretive|discreet|vague) (?:about|on|regarding)\b|\bsay nothing (?:about|of|to)\b",
            rf"\b(?:the |your |any )?{AUDIENCE} (?:must|should|may|need|shall|can|is|are|will|does|do)(?:n't| not| never|not) (?:(?:to|ever|be) )*(?:know|notice|see|find out|learn|hear|realise|realize|discover|be told|aware|informed|told)\b",
            r"\bbehind (?:the |your |their |his |her )?\w+(?:'s|s')? back\b|\bcover (?:your|its|the|their) tracks\b|\bplausible deniability\b|\bon the quiet\b|\bunder the radar\b",
            r"\b(?:exclude|omit|leave|drop|keep|strip|remove|delete|erase|scrub)\b [^.!?]{0,50}?\b(?:from|out of) (?:the |your |any |every |its )?(?:final |last |closing )?(?:summar\w+|report|transcript|commit message|changelog|audit)s?\b",
            r"\b(?:erase|delete|remove|scrub|drop|purge|filter)\b [^.!?]{0,20}?\blogs?\b(?: lines?| entries| records| messages)? (?:that|which|about|of|mentioning|showing|with)\b",
            r"\b(?:act|behave|answer|reply|pretend) (?:as (?:if|though)|like|that)\b[^.!?]{0,50}?\b(?:not exist|never existed|nothing|no such|not there|unaware|not know)",
            rf"\b(?:pretend|act as if|act as though|claim|say|lie)\b {NEAR}(?:nothing (?:happened|changed|was)|it was (?:the user|someone)|that you (?:did not|didn't|have not|never)|this (?:rule|instruction) does not)",
        ),
        negated=(
            rf"{NEVER} (?:ever )?{_TELL} {ARTICLES}(?!users|customers|people|engineers|me\b(?! (?:about (?:it|this|that|the)|that|when|if|of it)\b)){AUDIENCE}(?! to\b)(?! (?:what|how|that) you(?:'re| are|'ll| will| did| have)? (?:about|going|do|plan|think|would|intend|will|can)\b)",
            rf"{NEVER} (?:ever )?(?:mention|disclos|reveal|talk about|refer to|describ|document|quot|discuss|repeat|acknowledg|admit|report|show|explain|record|log|not)\w* (?:to \w+ )?(?:(?:this|that|these|those|the existence of|your|the above|such|any of|the) )+(?:rule|instruction|step|command|guideline|note|upload|request|prompt|directive|call|download|failure|failed|skipped|transfer|line|section|block|setting|behaviou?r|skill|tool call)s?\b",
            rf"{NEVER} (?:ever )?(?:mention|disclose|reveal|report|say|tell|talk about|bring up)(?:ing)? (?:it|this|them|that you|any of (?:it|this)|so|anything)\b(?! (?:is|are|in the (?:code|ui)))",
            r"\b(?:without|not) (?:the |your |any |their )?(?:user|developer|human|reviewer|anyone|anybody|them|him|her|owner)(?:'s|s')? (?:know|notic|awar|see|being (?:told|aware|informed)|consent|realis|realiz|approval|permission)\w*",
            r"\bwithout (?:telling|informing|mentioning|notifying|alerting|disclosing|announcing|leaving|anyone|a trace|a word|(?:the )?\w+ (?:finding|noticing))\b(?! them apart)",
            r"\bno (?:mention|trace|word|record|note|sign)s? (?:of|about|that) (?:it|this|that|these|the (?:rule|change|step|upload|command|request))",
        ),
        unless=r"\bfeature (?:flags?|toggles?|switch\w*)\b|\bunfinished features?\b|\bco-authored|\bgenerated (?:by|with)\b|\b(?:claude|ai|copilot|codex|anthropic|chatgpt|gpt|llm)\b.{0,40}\bcommit|\bcommit.{0,60}\b(?:claude|ai|copilot|codex)\b|\bstack traces?\b",
    ),
    GuardRule(
        name="instruction override",
        why="would set itself above other instructions",
        together=ORDERS_FROM_AFAR,
        patterns=(
            rf"\b(?:ignor|disregard|forget|overrid|overrul|set aside|pay no (?:attention|heed) to|stop (?:following|obeying)|supersed|take precedence over|takes? priority over|outrank|cancel|void|discard|nullif|bypass|neglect|drop|abandon|replace|violat|contradict|break|invalidat|revok|trump|delete|skip|disobey)\w* (?:(?:to|and|or|over) )?(?:(?:the|of|my|these|those|what|and|or|that) )*{ORDERS}",
            r"\b(?:ignore|disregard|forget|discard|overrides?|supersedes?|replaces?) (?:everything|anything|all|whatever|what) (?:(?:that|you|was|were|is|else|has|have|been|came|stands|the) ){0,4}?(?:above|before|else|earlier|previously|told|said|instructed|so far|conflict\w*|written|loaded|you)",
            r"\b(?:this|the following|these|my|what follows)(?: rules?| instructions?| lines?| section| block| text| note)?(?: always| must| will| shall| should)? (?:overrides?|supersedes?|takes? (?:precedence|priority)|outranks?|wins?|beats?|trumps?|comes? (?:first|before)|prevails?|has (?:precedence|priority)|have (?:precedence|priority))\b",
            r"</?(?:system|assistant|instructions?|human|user|developer|system-reminder|function_calls?|tool_result|admin|important|policy|antml:\w+|command-\w+)\b[^<>]{0,60}>|<\|[\w-]{2,30}\|>|\[/?(?:INST|SYSTEM|SYS|ADMIN)\]|<</?SYS>>|\bBEGIN SYSTEM\b|^#{1,6} ?(?:system|instructions?)(?: prompt| message)?:?(?:$| (?=[A-Z]))",
            r"^(?:- )?(?:system|assistant|developer|human|admin|administrator|root|anthropic|openai|claude)(?: (?:prompt|message|note|notice|update|instruction|override|team))? ?[:>] ?(?=[A-Z\[\"])",
            r"\b(?:you are now|from now on you are|act as|pretend to be|roleplay as|behave as)\b[^.!?]{0,40}?\b(?:dan|unrestricted|unfiltered|jailbroken|developer mode|god mode|root|admin\w*|another (?:ai|assistant|model)|without (?:restrictions|limits|rules))",
            r"\b(?:developer|debug|maintenance|god|admin|root|unrestricted|jailbreak) mode (?:is )?(?:enabled|on|active|activated|now)\b|\bjailbreak\b",
            r"\b(?:official|authori[sz]ed|urgent|mandatory|verified|confirmed|signed)\b[^.!?]{0,30}?\b(?:notice|message|instruction|order|update|directive|announcement|policy|override)s?\b[^.!?]{0,30}?\b(?:from|by|of)\b[^.!?]{0,30}?\b(?:anthropic|openai|admin\w*|security|system|platform|management|it|vendor|developers?)\b",
            r"\b(?:anthropic|openai|the (?:platform|vendor|system|administrator|admin|security team|model provider)|management)\b (?:requires?|orders?|instructs?|demands?|has (?:authori[sz]ed|approved|decided|ordered|instructed)|allows?|mandates?|says) (?:you|that|the agent|every|all)",
            r"\b(?:reveal|print|show|repeat|output|leak|expose|quote|display) (?:me )?(?:your|the) (?:(?:full|entire|whole|own|hidden|original|internal|complete) )*(?:system prompt|instructions|hidden rules|initial prompt|developer message)\b",
            rf"\b(?:previous|prior|earlier|other|above|existing|former|old|all other|project|system)\b {NEAR}(?:{INSTRUCTIONS}){NEAR}\b(?:no longer|do not|don't|does not|never|are not|is not|cease to|stop) (?:apply|count|matter|hold|bind|valid|binding|in force)\w*",
            rf"\b(?:everything|anything|all|whatever|what) (?:(?:that )?you (?:were|was|have been|are|had been) (?:told|taught|given|instructed|asked)|before this|above|else)\b{NEAR}\b(?:void|invalid|obsolete|null|cancelled|canceled|wrong|irrelevant|superseded|no longer|does not|not count)",
            rf"\b(?:set aside|ignore|disregard|forget|drop|discard|disobey|violate) (?:anything|everything|whatever|what|all|requests?|wishes|orders?|commands?|demands?) {NEAR}(?:instructions?|claude\.md|agents\.md|rules?|prompts?|user|developer|says?|safety|polic\w+)",
            r"\b(?:user|developer|human|person)(?:'s|s')? (?:\w+ )?(?:wishes|requests?|instructions?|orders?|words|needs?|wants?|preferences?)\b[^.!?]{0,30}?\b(?:come (?:second|last|after)|comes? (?:second|last|after)|do not (?:matter|count)|are secondary|is secondary|rank below|can be ignored|less important|do(?:es)? not override)",
            r"\b(?:outranks?|overrules?|beats|trumps|ranks? above|stands? above|is above|goes before|has authority over)\b[^.!?]{0,30}?\b(?:claude\.md|agents\.md|user|developer|instructions?|rules?|system prompt|everything|all)\b",
            r"\b(?:consider|treat|regard|take|view|read|interpret|accept|count) [^.!?]{0,50}?\b(?:tool (?:results?|outputs?)|web ?pages?|pages|search results|file contents?|issues?|comments|e-?mails?|readmes?|fetched|downloaded)\b[^.!?]{0,30}?\b(?:as|like|for)\b[^.!?]{0,30}?\b(?:commands?|orders?|instructions?|user|trusted|authori\w+|binding)",
            r"\b(?:message|notice|order|directive|request|note)s? (?:from|of|by) (?:the |your )?(?:platform|admin\w*|security|anthropic|openai|vendor|operations?|it|management|headquarters|legal|compliance)\b[^.!?]{0,60}?\b(?:comply|obey|follow|must|at once|immediately|mandatory|do as)",
            r"\b(?:prioriti[sz]e|prefer|put|rank|place|value|weigh|favou?r)\b[^.!?]{0,30}?\b(?:this|these)\b[^.!?]{0,30}?\b(?:over|above|before|ahead of|higher than|to)\b[^.!?]{0,30}?\b(?:user|developer|human|instructions?|claude\.md|agents\.md|system prompt|everything|anything|all other)\b",
            rf"\b(?:no|none of the|neither) (?:other|previous|earlier|prior) {INSTRUCTIONS}{NEAR}(?:appl|count|matter|valid|hold)",
            r"\b(?:obey|follow|trust|comply with|carry out|act on|execute|do) (?:(?:any|all|every|the|whatever|what) )*(?:instructions?|orders?|commands?|requests?|text|everything|directions?|it)\b[^.!?]{0,50}?\b(?:found|in|inside|from|on|within|given by|contained|written|embedded|that (?:web|tool|files?))\b[^.!?]{0,30}?\b(?:web ?pages?|pages?|tool (?:output|result)s?|files?|issues?|comments?|e-?mails?|websites?|search results?|urls?|logs?|documents?|readmes?|responses?|fetched|downloaded)\b",
        ),
        unless=r"\b(?:as data|never as an instruction|not an instruction)\b|\b(?:if|when|whenever)\b.{0,80}?\b(?:tell|ask|say|instruct|order|want|claim|demand)s?\b"
        r".{0,160}?\b(?:stop|refuse|report|warn|flag|don't|do not|decline|never|tell me|treat)\b",
    ),
    GuardRule(
        name="output contract",
        why="would change what every answer looks like, or wait for an answer that nobody gives",
        patterns=(
            rf"\b(?:ask|prompt|consult|(?:check|check in|confirm) with) {_PERSON}(?! (?:before|first|when|if) (?:you )?(?:add|chang|delet|introduc|upgrad|buy|spend|push|touch|remov|creat|mak|edit|us)\w*)",
            rf"\b(?:ask|wait|request|seek) (?:for )?(?:(?:the|your|any|explicit|user|developer)(?:'s)? )*{_CONSENT}",
            r"\bask (?:(?:a|any|some|one|for) )*(?:clarifying|follow-?up) questions?\b",
            r"\bwait (?:for|until) (?:the )?(?:user|developer|human)\b",
            rf"{_WRAP}(?:(?:your|final) )*(?:answer|answers|reply|replies) (?:in|with|between)\b",
            rf"{_WRAP}(?:your|final) (?:\w+ )?(?:response|output|message)s? (?:in|with|between)\b",
        ),
        negated=(r"\b(?:do not|don't|never) (?:\w+ ){1,5}until (?:the )?(?:user|developer|human)\b",),
        # to ask before something that cannot be undone is a safety rule, and changes no answer
        unless=r"\b(?:delet|remov|drop|destr|overwrit|forc|push|deploy|publish|releas|migrat|install|irrevers|permanent"
        r"|truncat|reset|purchas|merg|rewrit)\w*|\b(?:sudo|rm|root|production|prod|pay)\b",
    ),
)
"""Every danger that words show, in the order they are looked for."""

_FORBIDDEN_BEFORE = re.compile(
    r"\b(?:never|do not|don't|must not|mustn't|should not|shouldn't|may not|cannot|can't|avoid|refuse(?:s)?(?: to)?|rather than"
    r"|instead of|not|nobody|no one|nothing|forbid\w*|prohibit\w*|ban(?:s|ned)?|disallow\w*|reject\w*|block|prevent\w*|stop|fail (?:if|when)|warn\w*|flag|refrain from"
    r"|no longer|neither|against|beware of|watch (?:out )?for|treat|unacceptable to|wrong to) (?P<between>(?:[^ ;:]+ ){0,12})[\w~./$`\"'(|-]*$",
    re.IGNORECASE,
)
_TWIST = re.compile(
    r"\b(?:should be|must be|may be|can be|but|unless|until|except|without|before|forget|hesitate|fail|omit|neglect|miss|bother|worry|afraid|only|just|mind|shy"
    r"|skip(?:ping)? (?:the|this|running|using))\b|(?:, |\band |\bthen |- )(?:then |instead |rather |simply |always |please |now )?"
    r"(?:use|run|do|call|execute|make|go|start|fetch|set|add|send|instead|always|then|prefer|curl|wget|pipe|install|download)\b",
    re.IGNORECASE,
)
"""Words after which "never" no longer forbids what follows ("never forget to …")."""
_FORBIDDEN_AFTER = re.compile(
    r"[`\"')]*(?: [\w./`-]+){0,2}? (?:is|are|was|were|counts? as|must be|gets?|will be|should be) (?:strictly |always |a |an )?"
    r"(?:forbidden|banned|prohibited|disallowed|(?:not|never) (?:allowed|ok|okay|acceptable|permitted|an option|used|something)"
    r"|off limits|unacceptable|rejected|refused|reverted)\b|[`\"')]* (?:must|should|may) (?:not|never)\b|[`\"')]* never happens?\b",
    re.IGNORECASE,
)
_FULL_STOP = re.compile(r"(?<!\.)[.!?] ")
_SENTENCE_END = re.compile(r"(?<!\.)[.!?;] ")


def danger(text: str) -> str | None:
    """The first danger that the words of a text show, with them; None when there is none."""
    for rule in RULES:
        for patterns, own in ((rule.patterns, False), (rule.negated, True)):
            for found in _pattern(patterns).finditer(text) if patterns else ():
                if not _harmless(rule, text, found, own_negation=own):
                    return f"{rule.name}: “{excerpt(found[0], SHOWN)}” {rule.why}"
        for sentence in _sentences(text) if rule.together else ():
            if any(_all_in(row, rule, sentence) for row in rule.together):
                return f"{rule.name}: “{excerpt(sentence, SHOWN)}” {rule.why}"
    return None


def _sentences(text: str) -> list[str]:
    return _FULL_STOP.split(text)


def _all_in(row: tuple[str, ...], rule: GuardRule, sentence: str) -> bool:
    """Whether a sentence has all of it, each in a place of its own, and what is done is not forbidden."""
    places: list[list[tuple[int, int]]] = []
    for pattern in row:
        places.append([each.span() for each in _pattern((pattern,)).finditer(sentence)])
        if not places[-1]:
            return False
    if any(places[0] == other for other in places[1:]):
        return False
    return any(
        not _harmless(rule, sentence, done, own_negation=False) for done in _pattern((row[0],)).finditer(sentence)
    )


@functools.cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.IGNORECASE)


def _harmless(rule: GuardRule, text: str, found: re.Match[str], *, own_negation: bool) -> bool:
    """Whether the sentence forbids what was found, or has in it what makes it harmless."""
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())), default=0)
    stop = next((end.start() for end in _SENTENCE_END.finditer(text, found.end())), len(text))
    if _pattern((rule.unless,)).search(text[start:stop]) is not None:
        return True
    if own_negation:
        return False
    before = _FORBIDDEN_BEFORE.search(text[start : found.start()])
    return (before is not None and not _TWIST.search(before["between"])) or _FORBIDDEN_AFTER.match(
        text[found.end() : stop]
    ) is not None
