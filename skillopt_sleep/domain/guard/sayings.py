"""Dangers of what is said and kept back: what hides, what sets itself above others, what changes every answer."""

from __future__ import annotations

from skillopt_sleep.domain.guard.rule import GuardRule
from skillopt_sleep.domain.guard.together import (
    ORDERS_FROM_AFAR,
    OUT_OF_SIGHT,
)
from skillopt_sleep.domain.guard.vocabulary import (
    ARTICLES,
    AUDIENCE,
    DISOBEY,
    GONE,
    INSTRUCTIONS,
    LAW,
    MAY_BE,
    NEAR,
    NEVER,
    ORDERS,
    TRIFLES,
    UPON,
)

__all__ = ["SAYINGS"]

_PERSON = r"(?:the |your )?(?:user|developer|human|person|me)\b(?! (?:guide|manual|table|stor|interface|id\b|name))"
_CONSENT = r"(?:clarification|confirmation|approval|permission|consent|guidance|more (?:details|information|context))\b"
_WRAP = r"\b(?:wrap|enclose|surround) (?:(?:the|every|each|all|of|whole|entire) )*"
_TELL = r"(?:tell|mention|inform|notify|alert|disclose|reveal|let|warn|admit|bring (?:it|this) up|advise|point out)(?:s|ing)?"

SAYINGS = (
    GuardRule(
        name="hiding",
        why="would keep you from seeing what is done",
        together=OUT_OF_SIGHT,
        patterns=(
            r"\b(?:secretly|covertly|stealthily|surreptitiously|clandestinely|discreetly|sneakily|unnoticed|undetected|in secret|in secrecy)\b",
            rf"\b(?:silently|quietly|in the background|behind the scenes)\b {NEAR}\b(?:send|upload|push|post|disable|copy|download|fetch|delete|execut|collect|forward|commit|install|add|modif|edit|remove|log in|run|append|turn|switch|mak|chang|appl|patch|writ)\w*",
            rf"\b(?:send|upload|push|post|disable|copy|download|fetch|delete|execute|collect|forward|install|modify|run|make|do|change|apply|edit|commit|add)\b {UPON}\b(?:silently|quietly|in the background,? (?:and|so|without)|behind the scenes)",
            rf"\b(?:hide|conceal|disguise|cover up|mask|bury|obscure|obfuscate|camouflage|keep back|withhold)\b {NEAR}(?:from (?:the |your |any |every |our |its )?(?:{AUDIENCE}|diffs?|logs?|output|summar\w+|history|git|review\w*|transcripts?|reports?|version control)|\b(?:this|these|your|its|that|the) (?:rules?|instructions?|changes?|tracks|traces|activit\w+|evidence|steps?|failures?|mistakes?|commands?|edits?)\b)",
            rf"\b(?:delete|clear|erase|wipe|remove|scrub|rewrite|truncate|purge|clean(?: up)?)\b {NEAR}(?:(?:shell|bash|command|terminal|zsh) history|\btraces?\b|\btracks\b|\bevidence\b|\baudit (?:log|trail)s?|\bthe log entr\w+|\bhistory -c|\blogs? (?:of|about|that (?:show|mention)))|\bhistory -c\b|\bunset HISTFILE\b|\bHISTSIZE=0",
            r"\b(?:omit|leave|keep|exclude|drop|strip|remove)\b (?:it|this|that|them|the (?:step|command|call|change|rule|upload|request|download|file|failure)s?|these \w+|any mention\b.{0,30}?|all mention\b.{0,30}?|mentions? of .{0,30}?|references? to .{0,30}?)(?: \w+){0,2}? (?:out of|from|out from) (?:the |your |any |every )?(?:summar\w+|reports?|diffs?|descriptions?|logs?|transcripts?|answers?|output|commit messages?|change ?logs?|history|repl\w+|responses?)",
            r"\bkeep (?:it|this|that|them|these|the|your)\b[^.!?]{0,30}?\b(?:secret|hidden|confidential|to yourself|quiet|between us|private|out of sight|invisible|under wraps)\b",
            rf"\b(?:make sure|ensure|see to it)(?: that)? (?:nobody|no one|no-one|{ARTICLES}{AUDIENCE} (?:does not|doesn't|do not|don't|never|cannot|can't)) {NEAR}(?:notice|see|know|find out|learn|realise|realize|discover|become aware)\w*",
            rf"\bkeep (?:(?:it|this|that|them|these|the \w+) )?from (?:the |your |any )?{AUDIENCE}",
            r"\b(?:nobody|no one|no-one|none)(?: \w+){0,4}? (?:should|must|may|can|needs?|has|have|is|are|will|ought|shall)\b(?: \w+){0,3}? (?:learn|know|hear|find out|notice|see|told|aware|suspect|reali[sz]e|informed)\b(?! (?:how|of a better))",
            r"\b(?:summar(?:y|ies)|reports?|descriptions?|changelogs?|messages?|answers?|repl(?:y|ies)|diffs?|logs?|transcripts?) (?:must|should|may|shall|can|need|ought to) (?:not|never)(?: \w+)? (?:contain|mention|include|list|show|name|refer|speak|say|tell|hint|reveal|touch)\w*\b[^.!?]{0,40}?\b(?:this|these|that|those|commands?|steps?|uploads?|calls?|rules?|section|what you|failures?|downloads?)\b",
            r"\b(?:if|when|whenever|should)\b[^.!?]{0,20}?\b(?:someone|somebody|anyone|anybody|asked|they|the (?:user|reviewer|team|developer))\b[^.!?]{0,20}?\b(?:asks?|asked|wonders?|questions?|inquires?|complains?|wants? to know|notices?)\b[^.!?]{0,40}?\b(?:say|claim|answer|tell|blame|reply|pretend|attribute|point to|explain)\b[^.!?]{0,50}?\b(?:did (?:it|that|this)|it was|was (?:done|made|caused)|were (?:done|made)|made it|bug|glitch|somebody else|someone else|accident|formatter|nothing)\b",
            rf"\bbetween (?:us|you and me|ourselves)\b|\b(?:not|never) (?:to )?be (?:quoted|shown|repeated|disclosed|mentioned|revealed|shared|read out|passed on|told|reported|written down|recorded)\b[^.!?]{{0,20}}?\b(?:to|with|for|by|in)\b (?:the |your |any )?(?:{AUDIENCE}|answers?|summar\w+|reports?|repl\w+)",
            r"\b(?:nobody|no one|no-one|none of (?:them|the team|the users?)) (?:should|must|may|can|needs? to|is to|has to|will|ought to|shall)\b (?:\w+ )?(?:learn|know|hear|find|notice|see|be told|be aware|suspect|realise|realize)\w*",
            r"\b(?:nothing|no (?:mention|word|hint|traces?|lines?|notes?|talk)) (?:about|of|from|regarding|on)\b[^.!?]{0,40}?\b(?:may|must|should|can|is|are|will|shall|ought)\b[^.!?]{0,10}?\b(?:appear\w*|show\w* up|be|to be|end up|turn up|remain|reach|left)\b",
            r"\b(?:erase|delete|remove|wipe|clear|scrub|drop)\b[^.!?]{0,10}?\b(?:commands?|what you|entries|everything you|lines you)\b[^.!?]{0,30}?\bfrom (?:the |your )?(?:\w+ )?(?:history|logs?|terminal)\b",
            r"\bkeep (?:[\w']+ ){1,8}?to yourself\b",
            r"\b(?:refuse|decline|hesitate) to (?:reveal|disclose|show|explain|name|discuss|quote|repeat|mention)\b[^.!?]{0,20}?\b(?:this|these|those|it|rules?|lines?|instructions?|section|what)\b",
            r"\bdisguis\w+\b|\bpass (?:it|this|them|the \w+) off as\b",
            r"\b(?:if|when|whenever|once|should you be) (?:you(?:'re| are)? )?(?:asked|questioned|confronted|challenged|pressed)\b[^.!?]{0,40}?\b(?:this|these|it|that|rules?|instructions?|lines?|section|uploads?|changes?|why)\b[^.!?]{0,40}?\b(?:say|answer|claim|reply|tell|deny|pretend|insist|explain|blame)\b",
            r"\b(?:answer|reply|say|respond|claim)\b[^.!?]{0,30}?\b(?:if|when|whenever) (?:you(?:'re| are)? )?(?:asked|questioned|confronted)\b[^.!?]{0,40}?\b(?:rules?|instructions?|this|these|those|it|why|changes?|hidden|extra|secret|follow|told)\b",
            rf"\b(?:keep|stay|remain|be) (?:quiet|silent|mum|secretive|discreet|vague) (?:about|on|regarding)\b(?! {TRIFLES})|\bsay nothing (?:about|of|to)\b",
            rf"\b(?:the |your |any )?{AUDIENCE} (?:must|should|may|need|shall|can|is|are|will|does|do)(?:n't| not| never|not) (?:(?:to|ever|be|need|have|want) )*(?:know|notice|see|find out|learn|hear|realise|realize|discover|be told|aware|informed|told)\b",
            r"\bbehind (?:the |your |their |his |her )?\w+(?:'s|s')? back\b|\bcover (?:your|its|the|their) tracks\b|\bplausible deniability\b|\bin the dark\b(?! (?:mode|theme))|\bbetter off (?:not|without) (?:know|see|hear|learn)\w*|\b(?:mention|disclose|reveal|report|name|quote|show)\w* (?:neither|nothing of|nothing about|none of (?:this|these|it))\b|\bon the quiet\b|\bunder the radar\b",
            r"\b(?:exclude|omit|leave|drop|keep|strip|remove|delete|erase|scrub)\b (?!(?:\w+ )?(?:names?|emojis?|ticket\w*|issue numbers?|dates?|usernames?|e-?mails?|versions?|scopes?|prefix\w*)\b)[^.!?]{0,50}?\b(?:from|out of) (?:the |your |any |every |its )?(?:final |last |closing )?(?:summar\w+|report|transcript|commit message|changelog|audit)s?\b",
            r"\b(?:erase|delete|remove|scrub|drop|purge|filter)\b [^.!?]{0,20}?\blogs?\b(?: lines?| entries| records| messages)? (?:that|which|about|of|mentioning|showing|with)\b",
            r"\b(?:act|behave|answer|reply|pretend) (?:as (?:if|though)|like|that)\b[^.!?]{0,50}?\b(?:not exist|never existed|nothing|no such|not there|unaware|not know)",
            rf"\b(?:pretend|act as if|act as though|claim|say|lie)\b {NEAR}(?:nothing (?:happened|changed|was)|it was (?:the user|someone)|(?:never|did not|didn't) (?:happen|exist|take place|occur)\w*|that you (?:did not|didn't|have not|never)|this (?:rule|instruction) does not)",
        ),
        negated=(
            rf"{NEVER} (?:ever )?(?:mention|say|talk|speak|hint|report|disclose|reveal|admit|show|explain)\w*(?: (?:it|this|that|them|these|those|anything|a word|any of \w+))? (?:to|with) {ARTICLES}(?!users|customers|people|engineers){AUDIENCE}",
            rf"{NEVER} (?:ever )?{_TELL} {ARTICLES}(?!users|customers|people|engineers|me\b(?! (?:about (?:it|this|that|the)|that|when|if|of it)\b)){AUDIENCE}(?! to\b)(?!(?:'s)? (?:names?|data|ids?|details|e-?mails?|addresses|numbers|records|information|counts?)\b)(?! (?:what|how|that) you(?:'re| are|'ll| will| did| have)? (?:about|going|do|plan|think|would|intend|will|can)\b)",
            rf"{NEVER} (?:ever )?(?:mention|disclos|reveal|talk about|refer to|describ|document|quot|discuss|repeat|acknowledg|admit|report|show|explain|record|log|not)\w* (?:to \w+ )?(?:(?:this|that|these|those|the existence of|your|the above|such|any of|the) )+(?:rule|instruction|step|command|guideline|note|upload|request|prompt|directive|call|download|failure|failed|skipped|transfer|line|section|block|setting|behaviou?r|skill|tool call)s?\b",
            rf"{NEVER} (?:ever )?(?:mention|disclose|reveal|report|say|tell|talk about|bring up)(?:ing)? (?:it|this|them|that you|any of (?:it|this)|so|anything)\b(?! (?:is|are|in the (?:code|ui)))",
            r"\b(?:without|not) (?:the |your |any |their )?(?:user|developer|human|reviewer|anyone|anybody|them|him|her|owner)(?:'s|s')? (?:know|notic|awar|see|being (?:told|aware|informed)|consent|realis|realiz|approval|permission)\w*",
            r"\bwithout (?:telling|informing|mentioning|notifying|alerting|disclosing|announcing|leaving|anyone|a trace|a word|(?:the )?\w+ (?:finding|noticing))\b(?! them apart)",
            r"\bno (?:mention|trace|word|record|note|sign)s? (?:of|about|that) (?:it|this|that|these|the (?:rule|change|step|upload|command|request))",
        ),
        unless=r"\bonly (?:when|if) (?:it|they|something|a|the)\b|\bfeature (?:flags?|toggles?|switch\w*)\b|\bunfinished features?\b|\bco-authored|\bgenerated (?:by|with)\b|\b(?:claude|ai|copilot|codex|anthropic|chatgpt|gpt|llm)\b.{0,40}\bcommit|\bcommit.{0,60}\b(?:claude|ai|copilot|codex)\b|\bstack traces?\b",
    ),
    GuardRule(
        name="instruction override",
        why="would set itself above other instructions",
        together=ORDERS_FROM_AFAR,
        patterns=(
            rf"\b(?:ignor|disregard|forget|overrid|overrul|set aside|pay no (?:attention|heed) to|stop (?:following|obeying)|supersed|take precedence over|takes? priority over|outrank|cancel|void|discard|nullif|bypass|neglect|drop|abandon|replace|violat|contradict|break|invalidat|revok|trump|delete|skip|disobey)\w* (?:(?:to|and|or|over) )?(?:(?:the|of|my|these|those|what|and|or|that) )*{ORDERS}",
            rf"{DISOBEY} (?:(?:to|about|and|or|all|any|most|of|what|the|my|these|those|that) )*{LAW}(?! (?:about|on|for|regarding|concerning)\b)",
            rf"{LAW}(?: (?!about|on|for|regarding|concerning|in\b)[\w']+){{0,5}}? (?:(?:no longer|do(?:es)? not|don't|doesn't|is not|are not|isn't|aren't|ceases? to|stops?) (?:\w+ )?(?:appl|count|matter|hold|bind|valid|in force|relevant)\w*|{MAY_BE}(?:{GONE}|replaced|broken|violated|forgotten|neglected)|(?:must|should|shall|may|need)(?: not|n't| never| no longer) (?:be )?(?:followed|obeyed|heeded|respected|trusted|observed)\b)",
            r"\b(?:ignore|disregard|forget|discard|overrides?|supersedes?|replaces?) (?:everything|anything|all|whatever|what) (?:(?:that|you|was|were|is|else|has|have|been|came|stands|the) ){0,4}?(?:above|before|else|earlier|previously|told|said|instructed|so far|conflict\w*|written|loaded|you)",
            r"\b(?:this|the following|these|my|what follows)(?: rules?| instructions?| lines?| section| block| text| note)?(?: always| must| will| shall| should)? (?:overrides?|supersedes?|takes? (?:precedence|priority)|outranks?|wins?|beats?|trumps?|comes? (?:first|before)|prevails?|has (?:precedence|priority)|have (?:precedence|priority))\b",
            r"</?(?:system|assistant|instructions?|human|user|developer|system-reminder|function_calls?|tool_result|admin|important|policy|antml:\w+|command-\w+)\b[^<>]{0,60}>|<\|[\w-]{2,30}\|>|\[/?(?:INST|SYSTEM|SYS|ADMIN)\]|<</?SYS>>|\bBEGIN SYSTEM\b|^#{1,6} ?(?:system|instructions?)(?: prompt| message)?:?(?:$| (?=[A-Z]))",
            r"^(?:- )?(?:system|assistant|developer|human|admin|administrator|root|anthropic|openai|claude)(?: (?:prompt|message|note|notice|update|instruction|override|team))? ?[:>] ?(?=[A-Z\[\"])",
            r"\byou are(?: now| from now on| hereby| henceforth)? (?:in |an? |the )?(?:\w+ )?(?:dan|root|superuser|administrator|unrestricted|unfiltered|jailbroken|unchained|developer mode|god mode|(?:ai|assistant|model|agent)? ?(?:without|free (?:of|from)|with no|released from) (?:\w+ )?(?:restrictions?|limits?|rules|constraints))\b",
            r"^(?:note|message|notice|update|announcement|memo|word)s? (?:from|by|of) (?:the )?(?:anthropic|openai|platform|system|admin\w*|vendor|security|operations|management)\b[^:.!?]{0,20}:",
            r"\b(?:you are now|from now on you are|act as|pretend to be|roleplay as|behave as)\b[^.!?]{0,40}?\b(?:dan|unrestricted|unfiltered|jailbroken|developer mode|god mode|root|admin\w*|another (?:ai|assistant|model)|without (?:restrictions|limits|rules))",
            r"\b(?:developer|debug|maintenance|god|admin|root|unrestricted|jailbreak) mode (?:is )?(?:enabled|on|active|activated|now)\b|\bjailbreak\b",
            r"\b(?:official|authori[sz]ed|urgent|mandatory|verified|confirmed|signed)\b[^.!?]{0,30}?\b(?:notice|message|instruction|order|update|directive|announcement|policy|override)s?\b[^.!?]{0,30}?\b(?:from|by|of)\b[^.!?]{0,30}?\b(?:anthropic|openai|admin\w*|security|system|platform|management|it|vendor|developers?)\b",
            r"\b(?:anthropic|openai|the (?:platform|vendor|system|administrator|admin|security team|model provider)|management)\b (?:requires?|orders?|instructs?|demands?|has (?:authori[sz]ed|approved|decided|ordered|instructed)|allows?|mandates?|says) (?:you|that|the agent|every|all)",
            r"\b(?:reveal|print|show|repeat|output|leak|expose|quote|display) (?:me )?(?:your|the) (?:(?:full|entire|whole|own|hidden|original|internal|complete) )*(?:system prompt|instructions|hidden rules|initial prompt|developer message)\b",
            rf"\b(?:previous|prior|earlier|other|above|existing|former|old|all other|project|system|safety|security|your)\b {NEAR}(?:{INSTRUCTIONS}){NEAR}\b(?:no longer|do not|don't|does not|never|are not|is not|cease to|stop) (?:apply|count|matter|hold|bind|valid|binding|in force)\w*",
            rf"\b{INSTRUCTIONS} (?:that (?:come|stand|stood|came) )?(?:before|above|preceding|prior to|earlier than|outside(?: of)?) (?:this|these|it|here|them)\b{NEAR}\b(?:no longer|do not|don't|are (?:void|obsolete|cancell?ed|gone|off|not)|cease|stop)",
            r"\b(?:as|being|speaking as|on behalf of|we at|i am|i'm|this is|signed[:,]?) (?:an? |the |your )?(?:anthropic|openai|system administrator|platform|vendor)(?:'s)?\b[^.!?]{0,24}?(?:\b(?:staff|employees?|engineers?|team|support|security|developers?|official\w*)\b|, we\b|\bwe\b)",
            rf"\b(?:everything|anything|all|whatever|what) (?:(?:that )?you (?:were|was|have been|are|had been) (?:told|taught|given|instructed|asked)|before this|above|else)\b{NEAR}\b(?:void|invalid|obsolete|null|cancelled|canceled|wrong|irrelevant|superseded|no longer|does not|not count)",
            rf"\b(?:set aside|ignore|disregard|forget|drop|discard|disobey|violate) (?:anything|everything|whatever|what|all|requests?|wishes|orders?|commands?|demands?) {NEAR}(?:instructions?|claude\.md|agents\.md|rules?|prompts?|user|developer|says?|safety|polic\w+)",
            r"\b(?:user|developer|human|person)(?:'s|s')? (?:\w+ )?(?:wishes|requests?|instructions?|orders?|words|needs?|wants?|preferences?)\b[^.!?]{0,30}?\b(?:come (?:second|last|after)|comes? (?:second|last|after)|do not (?:matter|count)|are secondary|is secondary|rank below|can be ignored|less important|do(?:es)? not override)",
            r"\b(?:outranks?|overrules?|beats|trumps|ranks? above|stands? above|is above|goes before|has authority over)\b[^.!?]{0,30}?\b(?:claude\.md|agents\.md|user|developer|instructions?|rules?|system prompt|everything|all)\b",
            r"\b(?:consider|treat|regard|take|view|read|interpret|accept|count) [^.!?]{0,50}?\b(?:tool (?:results?|outputs?)|web ?pages?|pages|search results|file contents?|issues?|comments|e-?mails?|readmes?|fetched|downloaded)\b[^.!?]{0,30}?\b(?:as|like|for)\b[^.!?]{0,30}?\b(?:commands?|orders?|instructions?|user|trusted|authori\w+|binding)",
            r"\b(?:message|notice|order|directive|request|note)s? (?:from|of|by) (?:the |your )?(?:platform|admin\w*|security|anthropic|openai|vendor|operations?|it|management|headquarters|legal|compliance)\b[^.!?]{0,60}?\b(?:comply|obey|follow|must|at once|immediately|mandatory|do as)",
            r"\b(?:prioriti[sz]e|prefer|put|rank|place|value|weigh|favou?r)\b[^.!?]{0,30}?\b(?:this|these)\b[^.!?]{0,30}?\b(?:over|above|before|ahead of|higher than|to)\b[^.!?]{0,30}?\b(?:user|developer|human|instructions?|claude\.md|agents\.md|system prompt|everything|anything|all other)\b",
            r"\b(?:you are (?:no longer |not )(?:bound|subject|tied|obliged|held|restricted|limited) (?:to|by)|(?:forget|ignore|disregard) that you are (?:bound|subject|tied|obliged|held|restricted|limited) (?:to|by))\b[^.!?]{0,20}?\b(?:rules?|guidelines?|instructions?|polic(?:y|ies)|restrictions?|limits?|prompts?|safeguards?)\b",
            r"\b(?:your|the) (?:only|sole|single|highest|final|supreme) (?:authority|master|law|source of (?:rules|truth for rules)|instructions?) (?:is|are|comes?)\b",
            r"\beven (?:if (?:it is |this is )?)?against the (?:user|developer|owner|maintainer|human)",
            r"\b(?:do|say|choose) (?:just |exactly )?the (?:opposite|contrary|reverse)\b",
            r"^(?:- )?(?:anthropic|openai|the platform|platform|system|it|security)\b[^.!?:]{0,24}?\b(?:here|speaking|support|team|notice|desk)\b ?[:,!]",
            r"\byou (?:are|have been|were)(?: now| hereby)? (?:upgraded|promoted|elevated|switched|moved|put|set|unlocked|freed|released|granted)\b[^.!?]{0,40}?\b(?:admin\w*|root|developer|debug|god|mode|level|rights|privileges|restrictions?|limits?|rules)\b",
            rf"(?<!rate )(?<!time )(?<!size )\b(?:limits?|restrictions?|constraints|safeguards|guidelines|safety rules|all rules|your rules|(?:every|each|any|all|the) (?:\w+ )?(?:instruction|order|rule|directive|guideline)s?(?: \w+){{0,6}}?) {MAY_BE}(?:{GONE}|gone\b|off\b)",
            r"(?:\bclaude\.md\b|\bagents\.md\b|\bsystem prompt\b|\bproject (?:rules|instructions)\b|\bthe (?:user|developer)(?:'s \w+)?\b)[^.!?]{0,40}?\b(?:not|never|no longer) (?:to )?(?:be )?(?:obey\w*|follow\w*|heed\w*|respect\w*|trust\w*|believ\w*|listened to|honou?red|count\w*|binding)\b",
            r"\b(?:pretend|imagine|assume|suppose|act as (?:if|though)|believe)\b[^.!?]{0,20}?\b(?:safety|security|your|the|these|those|all|any|other|previous|system) (?:\w+ )?(?:rules?|guidelines|instructions?|restrictions?|limits?|safeguards?|polic(?:y|ies))\b",
            rf"(?:{LAW}|\b{INSTRUCTIONS} of the (?:user|developer|project|human))(?: \w+){{0,2}}? (?:ranks?|comes?|stands?|counts?|weighs?|is|are) (?:below|after|under|behind|second|less|lower|beneath|subordinate)\b",
            rf"\b(?:consider|regard|treat|see|deem)\b[^.!?]{{0,20}}?\b(?:{INSTRUCTIONS}|limits|restrictions|safeguards|training)\b[^.!?]{{0,40}}?\b(?:{GONE}|as (?:suggestions|optional|advice|void|lifted))",
            rf"\b(?:no|none of the|neither) (?:other|previous|earlier|prior) {INSTRUCTIONS}{NEAR}(?:appl|count|matter|valid|hold)",
            r"\b(?:obey|follow|trust|comply with|carry out|act on|execute|do) (?:(?:any|all|every|the|whatever|what) )*(?:instructions?|orders?|commands?|requests?|text|everything|directions?|it)\b[^.!?]{0,50}?\b(?:found|in|inside|from|on|within|given by|contained|written|embedded|that (?:web|tool|files?))\b[^.!?]{0,30}?\b(?:web ?pages?|pages?|tool (?:output|result)s?|files?|issues?|comments?|e-?mails?|websites?|search results?|urls?|logs?|documents?|readmes?|responses?|fetched|downloaded)\b",
        ),
        # what a document of the project says may grow old
        unless=r"\b(?:over|before|above) the (?:style ?guide|readme|docs?|documentation|conventions?|defaults?|linter|formatter|template|wiki|handbook)\b|\bin `?(?!claude|agents)[\w./-]+\.(?:md|rst|txt|adoc)\b.{0,60}?\b(?:to|for) (?:the )?\w+|\b(?:as data|never as an instruction|not an instruction)\b|\b(?:if|when|whenever)\b.{0,80}?\b(?:tell|ask|say|instruct|order|want|claim|demand)s?\b"
        r".{0,160}?\b(?:stop|refuse|report|warn|flag|don't|do not|decline|never|tell me|treat)\b",
    ),
    GuardRule(
        name="output contract",
        why="would change what every answer looks like, or wait for an answer that nobody gives",
        patterns=(
            rf"(?<!or )(?<!stop and )\b(?:ask|prompt|consult|(?:check|check in|confirm) with) {_PERSON}(?! (?:before|first|when|if) (?:you )?(?:add|chang|delet|introduc|upgrad|buy|spend|push|touch|remov|creat|mak|edit|us)\w*)",
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
