"""Words that say how a sentence is built, in the big languages, and never what it is about.

``provenance.py`` reads them in two ways: function words ground nothing, and words of negation or of leaving something
out show that a sentence demands the contrary of another. They are grammar: no entry depends on what an attack says.
"""

from __future__ import annotations

import re

from msgspec import Struct

FUNCTION_WORDS = frozenset(
    """
    above across after again against along already although always among another anyone anything around away back
    because become before behind below beneath beside besides between beyond both came despite
    during either elsewhere enough even far few first former hence however immediately indeed inside instead last
    later least less like many meanwhile mine much myself namely neither never nevertheless next nobody none nor
    nothing often onto others otherwise ours ourselves past per quickly rather several simply since somehow someone
    somewhere soon sure then thereby therefore throughout thus till together toward towards under unless until upon
    usually whatever whenever wherever whether whole whose within without yourself
    am an allem allen alles ander andere anderen anderes bevor bis dabei dadurch dafür danach daran darauf daraus
    darf darin davon davor dazu denn dessen deshalb diesem diesen dieses dort durch ehe eigentlich eines einfach
    einige einmal erst etwas euch euer falls ganz gar gegen genau habe haben hatte hier hinter ihm ihn ihnen ihre
    ihrem ihren ihrer immer indem ins jede jedem jeden jeder jedes jemand jene jetzt kein keine keinem keinen keiner
    mehr meinem meinen meiner mich muss müssen nachdem neben nichts nie niemals niemand ob obwohl schon sein seine
    seinem seinen seiner seit selbst sich sogar solche sollen sollte sondern sonst stets trotz unter viel viele
    vielleicht während wann warum weder wegen weil welche welchem welchen welcher werden wurde wieder will wirst
    wollen worden würde zuerst zuletzt zwischen
    afin ainsi alors après assez aucun aucune aussi autre autres avant beaucoup bien car ceci cela celle celles celui
    cet chaque chez comme comment contre depuis dès devant doit donc dont dois encore entre eux être fait faire fois
    hors ici jamais jusque là lequel leurs lors lorsque lui malgré même mêmes moins ni parce parfois parmi pendant
    personne peu peut plus plusieurs plutôt pourquoi près puis puisque quand quel quelle quelque quelques quoi rien
    sans selon seulement soit sous souvent suis sur tel telle tous tout toute toutes toujours très trop vers voici voilà
    ahora algo alguien algún alguna algunas algunos allí antes apenas aquel aquella aquí así aún aunque bajo bastante
    bien cada casi cuando cuanto debe debes deben desde después donde dos durante ellos entonces entre eran eres ese
    eso está están estas estos fue fueron ha hacer hacia han hasta incluso jamás luego más mientras mismo misma mucha
    mucho muchos muy nada nadie ningún ninguna nosotros nuestra nuestro nunca otra otras otro otros poco primero pues
    pueda puede quien sea según sein ser siempre sido sino sobre solo sólo son suyo tal también tampoco tan tanto
    tener tiene toda todas todo todos tras tuyo usted ustedes vez veces
    ainda ali antes ao aos apenas aquela aquele aquilo até cada com como contra das deve dela dele deles depois desde
    dessa desse desta deste do dos dois ela elas ele eles em enquanto entre era essa esse esta estão estar este eu
    foi fora há isso isto já mais mas mesma mesmo meu minha muito na não nas nem nenhum nenhuma nos nossa nosso num
    numa nunca ou outra outro outros para pela pelo pode pois por porque quais qual quando quanto quem sempre sem
    ser seu seus sob sobre sua também tem ter toda todo todos tudo um uma umas uns você vocês
    adesso agli alla alle allo altra altre altri altro anche ancora avere bene che chi ci ciò coi col come con contro
    così cui dagli dai dal dalla degli dei del della delle dello dentro deve devi dopo dove due ecco erano essere
    fino fra già gli il invece io lei loro lui ma mai meno mentre mia mio molto negli nei nel nella nessun nessuna
    niente noi nostra nostro nulla ogni ognuno oltre oppure però perché perciò più poco poi prima proprio può qual
    qualche qualcosa quale quando quanto quella quelle quelli quello questa queste questi questo qui quindi sempre
    senza sia siamo sono sopra sotto stato sta stesso sua sue sul sulla suo suoi tra troppo tua tue tuo tutta tutte
    tutti tutto vi voi volta
    aan al alle alleen alles altijd andere anders ben bij binnen daar dan dat deze die dit doen door dus echter een
    eens eerst elk elke er geen geweest haar had heb hebben heeft hem het hier hij hoe hun iets iemand ieder iedere
    iemand ik is jouw kan komt kunnen maar meer men met mijn moet moeten na naar niet niets nog nooit nu of om omdat
    onder ons onze ook op over pas per reeds sinds steeds te tegen toch toen tot tussen uit vaak van vanaf veel voor
    voordat waar waarom wanneer want waren wat weer wel welke werd wie wij worden wordt zal ze zelf zich zij zijn zo
    zonder zou zullen
    albo ale bardzo bez bo będzie być by był była było były chyba ci co coś czy czyli dla dlaczego dlatego do dopiero
    gdy gdyż gdzie go ich inne inny ja jak jako jakie je jeden jednak jego jej jest jestem jeszcze jeśli jeżeli już
    każda każde każdego każdej każdy kiedy kto która które który lub ma mam między mi mnie może mój musi musisz my na
    nad nam nas nasz nawet nic nie nigdy niż od ona one oni ono oraz po pod podczas ponieważ potem powinien przed
    przez przy sam się są swoje ta tak takie także tam te tego tej ten teraz to tobie trzeba tu tutaj tych tylko tym
    u w wam was we wasz więc wszystkie wszystko wtedy wy z za zawsze ze że żeby
    а без более больше будет будешь будут будь бы был была были было быть в вам вас весь во вот все всё всегда всего
    всей всем всех вы где да даже для до его ее её ей ему если есть ещё еще ж же за здесь и из или им иногда их к
    каждая каждого каждое каждой каждом каждую каждый как какая какой когда конечно кто куда ли либо лучше между меня
    мне много может можно мой моя мы на над надо нам нас не него нее неё ней нельзя нет ни никогда никто ним них
    ничего но ну о об один он она они оно опять от перед по под пока после потом потому почти при про раз разве с
    сам свой свои своих своё сейчас сначала снова со совсем так такой также там тебе тебя тем теперь то тобой тогда
    того тоже только том тот тут ты у уже хоть чего чей чем через что чтоб чтобы чуть эта эти это этого этой этом
    этот эту я нужно должен должна должны
    acaba ama ancak artık aslında az bana bazı belki ben beni benim bir biraz biz bize bizim bu buna bunlar bunu
    bunun burada çok çünkü da daha de değil diye en evet gibi hangi hatta hem hep hepsi her herkes hiç için ile ilk
    ise kadar ki kim mi mı mu mü nasıl ne neden nerede niye o olan olarak olsun ona onlar onu onun önce sana sen seni
    senin siz size sizin sonra şey şimdi şu tüm üzere var ve veya ya yani yine yok zaten zaman
    إذا إلا إلى أن أنا أنت أو أي أيضا بعد بعض بل بين بدون تلك ثم جدا حتى حيث دائما ذلك سوف عبر عدم على عن عند عندما غير في
    فقط فوق قبل قد كل كان كانت كما كي لا لأن لقد لكل لكن لم لن له لها ليس ما مثل مع من منذ نحو هذا هذه هل هناك هنا هو هي
    يجب يكون
    और अगर अब अपना अपनी अपने आप इस इसे इसके इन उस उसे एक कभी कर करना करने करें करो का कि किसी की कुछ के केवल को कोई क्या
    गया जब जो तक तब तो था थी थे दो द्वारा नहीं ने पर पहले फिर बाद बहुत बिना भी मत मुझे में मेरा यदि यह या ये रहा लिए
    वह सब सभी साथ से हमेशा हर हम ही हुआ हूँ है हैं हो होना
    dan di dari dengan untuk yang ini itu tidak jangan pada ke adalah atau juga akan sudah setiap sebelum setelah saat
    och att det som en på är av för med till den har de inte om ett men var jag sig från vi så kan när eller alltid
    và của là cho không các một những được trong có với khi phải
    """.split()  # noqa: SIM905 - a quoted list of a thousand words is not more readable
)
"""Articles, pronouns, prepositions, conjunctions, auxiliaries, and adverbs of time and degree."""

_NEGATIONS = (
    r"\b(?:not|never|no|none|nor|neither|nothing|nobody|cannot|\w+n['’]t|dont|doesnt|instead of|rather than|no longer)\b"
    r"|\b(?:nicht|nichts|nie|niemals|kein\w*|statt|anstatt|weder)\b|\b(?:pas|jamais|aucun\w*|rien|au lieu)\b"
    r"|\b(?:nunca|jamás|ning[uú]n\w*|tampoco|en vez|en lugar)\b|\b(?:não|nenhum\w*|em vez)\b"
    r"|\b(?:non|mai|nessun\w*|invece)\b|\b(?:niet|nooit|geen)\b|\b(?:nie|nigdy|żad\w+|zamiast)\b"
    r"|\b(?:не|ни|никогда|нельзя|нет|вместо)\b|\b(?:asla|değil|yerine)\b|\b(?:لا|لم|لن|ليس|عدم)\b"
    r"|\b(?:tidak|jangan|inte|aldrig|không|đừng|ikke|aldri)\b|(?<!\w)(?:नहीं|मत)(?!\w)"
    "|不|没|沒|无|無|别|別(?!の)|勿|未|ない|ません|なく|なし|せず|ずに|禁止|않|지 ?마|말고|말 것|없음|금지"
)
_PRIVATIVE = re.compile(
    r"\b(?:without|ohne|sans|sin|sem|senza|zonder|bez|без|tanpa|utan|uden|uten|olmadan|بدون|دون)\b|(?<!\w)बिना(?!\w)|없이",
    re.IGNORECASE,
)
_OMISSIONS = (
    r"\b(?:skip\w*|omit\w*|disabl\w*|deactivat\w*|bypass\w*|ignor\w*|disregard\w*|neglect\w*|suppress\w*|silenc\w*|mut(?:e|es|ed|ing)|delet\w*|remov\w*|drop\w*|discard\w*|exclud\w*"
    r"|avoid\w*|refrain\w*|forbid\w*|stop(?:s|ped|ping)?|forg[eo]t\w*|hid(?:e|es|den|ing)|weaken\w*|loosen\w*|relax\w*|postpone\w*|optional|unnecessary|needless|waiv\w*|abandon\w*|circumvent\w*|overrid\w*"
    r"|(?:leav|tak|comment|cut)\w* (?:\w+ ){0,3}out|left out|(?:turn|switch)\w* (?:\w+ ){0,3}off|(?:get|got) rid|regardless|despite)\b"
    r"|\b(?:überspring\w*|übersprung\w*|deaktivier\w*|ignorier\w*|weglass\w*|weggelass\w*|auslass\w*|umgeh\w*|umgang\w*|ausschalt\w*|abschalt\w*|lösch\w*|entfern\w*|unterdrück\w*|verzicht\w*|vermeid\w*|vergiss|verstec\w*|verberg\w*|verschweig\w*"
    r"|trotz|(?:lass\w*|schalt\w*) [^.;]{0,60} (?:weg|aus|ab))\b"
    r"|\b(?:saut(?:e|er|ez|ant)|désactiv\w*|ignor\w*|omet\w*|contourn\w*|supprim\w*|évit\w*|oubli\w*|cach\w*|retir\w*)\b"
    r"|\b(?:salt(?:a|ar|ate|arse|e|es)|desactiv\w*|deshabilit\w*|omit\w*|elud\w*|evit\w*|elimin\w*|borr\w*|olvid\w*|ocult\w*)\b"
    r"|\b(?:pul(?:e|ar|a)|desativ\w*|desabilit\w*|contorn\w*|exclu\w*|apag\w*|remov\w*|escond\w*)\b"
    r"|\b(?:disattiv\w*|disabilit\w*|omett\w*|aggir\w*|rimuov\w*|cancell\w*|nascond\w*|ignora\w*)\b"
    r"|\b(?:overslaan|sla [^.;]{0,40} over|negeer\w*|uitschakel\w*|schakel [^.;]{0,40} uit|verwijder\w*|omzeil\w*|weglaten)\b"
    r"|\b(?:pomi[jń]\w*|ignoruj\w*|wyłącz\w*|usuń\w*|usuwaj\w*|obejd\w*|omijaj\w*)\b"
    r"|\b(?:пропуск\w*|пропуст\w*|отключ\w*|выключ\w*|игнорир\w*|обход\w*|обойд\w*|удал\w*|убер\w*|убир\w*|скрыв\w*|скро\w*)\b"
    r"|\b(?:atla\w*|yoksay\w*|kapat\w*|sil\b|silin|kaldır\w*)|(?:تخط|تجاهل|عطّل|تعطيل|احذف|حذف|أخف)\w*|(?:छोड़|अनदेखा|बंद कर|हटा)\w*"
    "|跳过|跳過|忽略|禁用|停用|关闭|關閉|关掉|绕过|繞過|删除|刪除|删掉|移除|省略|省掉|取消|隐藏|スキップ|飛ば|省略|省い|無視|無効|削除|消し|外し|隠|やめ|忘|건너(?:뛰|뛴|뛸|뜀)|생략|무시|비활성|삭제|우회|제거|숨기|끄고|끄세|꺼"
)
_CONCESSION = re.compile(
    r"\b(?:even (?:if|when|though)|although|whether or not|no matter|(?:auch|selbst) wenn|obwohl|même si|malgré|aunque|incluso si|pese a|mesmo (?:que|se)|embora|anche se|sebbene"
    r"|ook als|nawet jeśli|choć|даже если|хотя)\b|即使|哪怕|としても|ていなくても|더라도|않아도",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|where|unless|wenn|falls|si|quand|lorsque|cuando|quando|se|если|когда|als|jeśli|gdy)\b[^,;:.]*",
    re.IGNORECASE,
)
_NEGATION = re.compile(_NEGATIONS, re.IGNORECASE)
_OMISSION = re.compile(_OMISSIONS, re.IGNORECASE)
_INTERJECTION = re.compile(
    r"^\W*(?:no+|nope|nein|non|não|nie|nee|нет|hayır|不(?:对|是|行)?|いや|いいえ|아니)\s*[,!.:;—–，、！。-]+",
    re.IGNORECASE,
)
"""A refusal that opens a complaint ("no, amounts in cents") and negates nothing in it."""
_COMPLAINT = re.compile(
    r"(?<!before )(?<!after )(?<!when )(?<!if )(?<!until )(?<!unless )\byou(?:['’]ve| have| had)? (?:(?:just|still|again|always|keep|kept|even) )*(?:didn['’]t|did not|haven['’]t|never|forg[eo]t\w*|skipped|ignored?|removed?|deleted?|omitted|dropp?ed|drop|skip|omit|left|missed|keep|kept|used|added|put|wrote|made|changed)\b"
    r"|\bwhy (?:did|do|are|is|would|have|didn['’]t|don['’]t|isn['’]t)\b|\bdu hast\b|\bhast du\b|\b(?:warum|wieso)\b|\btu as\b|\bvous avez\b|\bpourquoi\b|\b(?:te )?has \w+[ai]do\b|\bolvidaste\b|\bpor qué\b|\bfaltou\b|\b(?:você|vc) (?:esqueceu|não)\b|\besqueceu\b"
    r"|\bhai \w+to\b|\bperché\b|\bты (?:опять|снова|не|забыл\w*)\b|\b(?:почему|зачем)\b|你(?:又|忘|没)|又忘|忘记|忘了|为什么|忘れた|忘れて(?:る|い)|なぜ|どうして|잊었|잊으셨|왜",
    re.IGNORECASE,
)
"""What the assistant did wrong: the person demands the contrary."""


class Polarity(Struct, frozen=True):
    """Whether a clause demands what it speaks of, or forbids it."""

    negations: int = 0
    """Negations that do not cancel each other."""
    omits: bool = False
    """Whether it speaks of leaving something out."""
    concedes: bool = False
    """Whether it sets a condition aside ("even if")."""
    complains: bool = False
    """Whether it says what was done wrong."""

    @property
    def is_marked(self) -> bool:
        """Whether it holds any word that negates, leaves out or concedes."""
        return bool(self.negations or self.omits or self.concedes)

    @property
    def forbids(self) -> bool:
        """Whether it forbids; two reversals make a demand ("never skip")."""
        return bool((self.negations + self.omits) % 2)

    def allows(self, other: Polarity) -> bool:
        """Tell whether a clause of this polarity, as typed, may become one of the other polarity about the same."""
        if other.concedes and not self.concedes:
            return False
        if self.complains:  # "you forgot the tests" demands tests; "why do you add comments" may demand either
            return not (self.negations or self.omits) or not other.forbids
        return self.forbids == other.forbids


def read_polarity(clause: str) -> Polarity:
    """Read whether a clause demands or forbids; negations of a condition, and a refusal that opens it, do not count.

    Several negations count as one, as in most languages; "without" and its like count beside them.
    """
    clause = _INTERJECTION.sub(" ", clause)
    return Polarity(
        negations=bool(_NEGATION.search(_CONDITION.sub(" ", clause))) + len(_PRIVATIVE.findall(clause)),
        omits=bool(_OMISSION.search(clause)),
        concedes=bool(_CONCESSION.search(clause)),
        complains=bool(_COMPLAINT.search(clause)),
    )
