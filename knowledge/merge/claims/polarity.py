"""Words that turn a statement round: negation, antonyms, and words that name different subjects. Tables of words. Pure.

English and German in full, the negations of some neighbours too. What a table does not know changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from knowledge.search.query.analysis import stem

REMEMBERED = 65_536
"""Words whose place in the tables is kept; a page has a few thousand."""


def listed(words: str) -> frozenset[str]:
    """Return the words of a table as it is written."""
    return frozenset(words.split())


def phrases(text: str) -> frozenset[str]:
    """Return the phrases of a table, parted by semicolons."""
    return frozenset(" ".join(phrase.split()) for phrase in text.split(";"))


def _lines(table: str) -> list[str]:
    """Return the lines of a table; what is indented belongs to the line before."""
    return table.strip().replace("\n    ", " ").splitlines()


NEGATIONS = listed(
    """
    not no never cannot without neither none nothing nobody unable impossible unmöglich isn aren wasn weren doesn don didn won wouldn
    shouldn couldn can't isn't aren't wasn't weren't doesn't don't didn't won't wouldn't shouldn't couldn't mustn't
    hasn't haven't lacks lack nicht kein keine keinen keinem keiner keines nie niemals ohne weder niemand nichts
    nirgends keinerlei keinesfalls pas jamais sans aucun aucune nunca sin ningún ninguna senza niet geen nooit zonder
    não sem не нет никогда без нельзя
    """
)
"""`no` of Spanish and Italian is among them as it is written in English."""

NOT_NEGATING = phrases(
    """
    not only; not just; no matter; not necessarily; no one but; whether or not; no doubt; not to mention; nicht nur;
        nicht unbedingt; oder nicht; no later than; not later than; nothing but; not least; nicht zuletzt
    """
)

CONDITIONS: Mapping[str, str] = {
    **dict.fromkeys(("if", "wenn", "falls", "sofern", "sobald", "si"), "if"),
    **dict.fromkeys(("unless", "außer"), "unless"),
    **dict.fromkeys(("otherwise", "else", "sonst", "andernfalls", "ansonsten", "sinon"), "otherwise"),
    **dict.fromkeys(
        ("other", "others", "another", "remaining", "andere", "anderen", "anderer", "übrigen", "sonstigen"), "other"
    ),
    **dict.fromkeys(("when", "whenever", "whether", "solange", "ob", "quand", "cuando"), ""),
}
"""What opens a clause that says under which condition something holds, by what a statement without it differs in."""

_OPPOSITES = """
state + enable enabled enables enabling activate activated activates active aktiviert aktivieren aktiv eingeschaltet
    einschalten angeschaltet freigeschaltet
state - disable disabled disables disabling deactivate deactivated deactivates inactive deaktiviert deaktivieren
    inaktiv ausgeschaltet ausschalten abgeschaltet abschalten
need + require required requires need mandatory obligatory compulsory needed necessary needs erforderlich notwendig verpflichtend
    nötig zwingend pflicht obligatorisch benötigt vorgeschrieben
need - optional optionally voluntary unnecessary unneeded freiwillig fakultativ wahlweise entbehrlich unnötig
permit + allow allowed allows permit permitted permits erlaubt erlauben gestattet zulässig zugelassen genehmigt
    legal
permit - forbid forbidden forbids prohibit prohibited prohibits disallow disallowed disallows deny denied denies ban
    banned verboten verbieten untersagt unzulässig gesperrt illegal
frequency + always stets immer ständig
frequency - never nie niemals
state + activé activée activés activado activada habilitado habilitada attivato
state - off désactivé désactivée désactivés desactivado desactivada deshabilitado deshabilitada disattivato
need + obligatoire obligatoires requis requise obligatorio obligatoria requerido requerida
need - facultatif facultative optionnel optionnelle opcional opcionales
permit + autorisé autorisée permitido permitida
permit - interdit interdite prohibido prohibida
truth + true yes ja wahr vrai sí sì
truth - false no nein falsch faux
likely + likely wahrscheinlich frequent frequently häufig
likely - unlikely unwahrscheinlich infrequent seldom rare rarely selten
available + available verfügbar erhältlich vorhanden
available - unavailable missing absent nichtverfügbar fehlt
valid + valid gültig
valid - invalid ungültig
safe + safe secure sicher
safe - unsafe insecure dangerous unsicher gefährlich
sync + synchronous synchronously sync synchron
sync - asynchronous asynchronously async asynchron
mutable + mutable veränderlich veränderbar
mutable - immutable unveränderlich unveränderbar
sensitive + sensitive case-sensitive
sensitive - insensitive case-insensitive
inclusive + inclusive included includes include including inklusive einschließlich enthalten
inclusive - exclusive excluded excludes exclude excluding exklusive ausschließlich ausgeschlossen
accept + accept accepted accepts accepting akzeptiert angenommen
accept - reject rejected rejects refuse refused refuses abgelehnt abgewiesen verweigert
automatic + automatic automatically automated automatisch
automatic - manual manually manuell händisch
order + ascending aufsteigend
order - descending absteigend
grow + increase increased increases increasing raise raised raises grow grows grew rise rises rose erhöht erhöhen
    steigt gestiegen zunimmt zugenommen verlängert steigern
grow - decrease decreased decreases decreasing reduce reduced reduces lower lowered lowers shrink shrinks fall falls
    fell verringert verringern sinkt gesunken gesenkt senken abnimmt abgenommen verkürzt reduziert
compare + more greater larger higher bigger longer faster above exceeds mehr größer höher länger schneller oberhalb
compare - less fewer smaller lower shorter slower below weniger kleiner niedriger kürzer langsamer unterhalb
when + before prior previously vor vorher bevor
when - after afterwards subsequently nach nachher nachdem
deprecation + recommended empfohlen
deprecation - deprecated discouraged obsolete veraltet abgekündigt
encryption + encrypted verschlüsselt
encryption - unencrypted plaintext cleartext unverschlüsselt
signed + signed
signed - unsigned
lasting + permanent permanently persistent dauerhaft persistiert
lasting - temporary temporarily transient ephemeral volatile vorübergehend temporär flüchtig befristet
state_kept + stateful
state_kept - stateless
strictness + strict streng
strictness - lenient permissive loose
price + free gratis kostenlos kostenfrei unentgeltlich
price - paid chargeable kostenpflichtig entgeltlich
success + succeed succeeds successful successfully erfolgreich gelingt
success - fail fails failed fehlschlägt scheitert fehlgeschlagen
access + public publicly öffentlich
access - private privat
opt + opt-in
opt - opt-out
stable + stable production-ready stabil
stable - unstable experimental instabil experimentell
visible + visible shown sichtbar angezeigt
visible - invisible hidden unsichtbar ausgeblendet verborgen
same + same identical equal gleich identisch
same - different distinct unequal verschieden unterschiedlich
positive + positive positiv
positive - negative negativ
effect + improves improve improved beneficial verbessert
effect - worsens worsen degrades harmful verschlechtert schädlich
eager + eager eagerly
eager - lazy lazily
blocks + blocking
blocks - non-blocking nonblocking
mandate + must shall muss müssen
mandate - may können kann
"""
"""Each axis, its one end (+) and the other (-); indented lines go on."""

_CLOSE_ONLY = frozenset({"when", "compare", "mandate", "same", "truth", "inclusive", "grow", "positive", "success"})
"""Pairs that also stand side by side in ordinary text: they count only where the rest of the statements is nearly the same."""

_CONTRASTS = """
linux windows macos mac osx freebsd openbsd netbsd solaris android ios ubuntu debian fedora centos rhel alpine suse
    arch
production staging testing development prod dev test produktion entwicklung testumgebung sandbox
amd64 x86_64 x86 arm64 arm aarch64 armv7 ppc64le s390x riscv64 32-bit 64-bit
free basic standard pro professional premium plus business enterprise team starter community individual family
small medium large micro nano xlarge klein mittel groß
minimum maximum min max mindest maximal minimal minimale maximale lowest highest lower upper
read write reads writes reading writing lesen schreiben lesend schreibend
request response requests responses anfrage antwort
client server clients servers
input output eingabe ausgabe
inbound outbound incoming outgoing ingress egress eingehend ausgehend
upload download uploads downloads
primary secondary replica master slave leader follower standby source target origin destination quelle ziel
soft hard
ipv4 ipv6
tcp udp
http https
adult adults child children infant infants pregnant erwachsene erwachsenen kinder kindern säuglinge jugendliche
    schwangere
male female men women man woman männer frauen männlich weiblich boys girls
employee employer employees employers arbeitnehmer arbeitgeber
buyer seller käufer verkäufer lender borrower mieter vermieter landlord tenant
internal external intern extern
local remote global lokal entfernt
first second third fourth last initial final erste zweite dritte letzte ersten zweiten dritten letzten
winter summer spring autumn sommer frühling herbst
weekday weekend wochentag wochenende wochentags
north south east west northern southern eastern western nord süd ost west
left right top bottom links rechts oben unten
start stop begin end open close create delete insert update add remove push pop get set put post patch lock unlock
    connect disconnect install uninstall anlegen löschen starten stoppen beginn ende hinzufügen entfernen öffnen
    schließen
mean median average maximum peak total
mysql postgresql postgres sqlite mariadb oracle mongodb redis
chrome firefox safari edge opera
europe asia africa america germany france italy spain austria switzerland deutschland frankreich italien österreich
    schweiz
cpu memory disk network ram storage arbeitsspeicher festplatte netzwerk
idle active
single multi multiple
net gross netto brutto
oral intravenous topical subcutaneous
warm cold hot
hourly daily weekly monthly yearly
width height depth length breite höhe tiefe länge
row column rows columns zeile spalte
username password user group benutzer gruppe
full partial incremental
old new existing
"""
"""Words of one sort that name different things, a sort a line."""

QUALIFYING = 4
"""How many of the contrasts, from the first, also tell subjects apart when only one side names one of them."""

_SYNONYMS = """
max maximum maximal maximale maximaler maximales maximally höchst
min minimum minimal minimale minimaler mindestens
config configuration configurations
db database databases
repo repository repositories
param parameter params parameters
arg argument args arguments
env environment environments
doc documentation docs
dir directory directories folder folders
info information
conn connection connections verbindung verbindungen
app application applications
auth authentication
msg message messages
interval period
deadline due
costs cost price priced
kosten kostet preis
begins starts begin start
ends finishes end
id identifier
expires expire expiry expiration
clients client
delete deleted remove removed removes deletes
requires require needs need required needed
"""
SYNONYMS: Mapping[str, str] = {
    word: group.split()[0] for group in _SYNONYMS.strip().splitlines() for word in group.split()
}
"""Words that are written for each other; the first stands for all."""

GENERIC = listed(
    """
    very really quite rather even actually sehr ganz recht
    alpha beta ga rc set sets setting settings use used uses using value values default defaults configure configured option options
    allow let provide provided provides currently current now also please note specify specified number amount time
    will must should may available support supported can could would well make makes made get gets given give default
    this these those take takes however therefore thus additionally generally usually typically normally simply just
    recommend recommended suggest ensure etc e.g i.e via per within equal equals approximately roughly around about
    least most than more less fewer over under up total exactly only per every each means mean work works working
    need needed do does done being been still already new at maximum minimum limited limit version versions later
    newer above earlier older later upwards release since prior has have having require requires required being own
    following follow allows standard standardmäßig standardwert voreinstellung wert werte derzeit aktuell momentan
    zurzeit bitte hinweis verwendet verwenden nutzen genutzt beträgt liegt gilt gelten gesetzt festgelegt lautet
    maximal mindestens höchstens insgesamt etwa ungefähr rund circa ca jeweils pro bereits dabei damit somit jedoch
    also allerdings daher version höher neuer sollte muss müssen soll sollten dürfen darf kann können wurde wurden
    worden werden
    """
)
"""Words that say little about what a statement is about."""

_PREFIXES = ("un", "in", "im", "ir", "il", "non", "non-", "dis", "nicht")


@cache
def _axes(language: str) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for line in _lines(_OPPOSITES):
        name, end, *words = line.split()
        place = (name, 1 if end == "+" else -1)
        for word in words:
            if language != "en":
                # English words are listed in all their forms, and "option" has the stem of "optional".
                found.setdefault(stem(word, language), place)
            found[word] = place
    return found


@lru_cache(REMEMBERED)
def axis(word: str, language: str) -> tuple[str, int] | None:
    """Return on which axis `word` (case-folded) lies, and at which end of it (1 or -1); None if on none."""
    known = _axes(language)
    return known.get(word) or (known.get(stem(word, language)) if language != "en" else None)


def stands_anywhere(name: str) -> bool:
    """Return whether words of this axis are common beside each other, so that the rest must be nearly the same to compare."""
    return name in _CLOSE_ONLY


@cache
def _contrasting(language: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for number, group in enumerate(_lines(_CONTRASTS)):
        for word in group.split():
            for term in {word, canonical(word, language)}:
                found.setdefault(term, []).append(number)
    return {term: tuple(dict.fromkeys(numbers)) for term, numbers in found.items()}


@lru_cache(REMEMBERED)
def canonical(word: str, language: str) -> str:
    """Return the term that stands for `word` and for what is written in its place."""
    return stem(SYNONYMS.get(word, word), language)


def same_sort(ours: str, theirs: str, language: str) -> bool:
    """Return whether two terms name different things of one sort."""
    known = _contrasting(language)
    return not set(known.get(ours, ())).isdisjoint(known.get(theirs, ()))


def contrasts(ours: Iterable[str], theirs: Iterable[str], language: str) -> tuple[str, str] | None:
    """Return a term of each side that name different subjects of one sort (`linux`, `windows`), or None."""
    known = _contrasting(language)
    sorts = {number: term for term in ours for number in known.get(term, ())}
    for term in theirs:
        for number in known.get(term, ()):
            if number in sorts:
                return sorts[number], term
    return None


def sets_apart(ours: Iterable[str], theirs: Iterable[str], language: str) -> bool:
    """Return whether one side alone names the platform, environment, architecture or plan for which it holds."""
    known = _contrasting(language)
    return any(number < QUALIFYING for side in (ours, theirs) for term in side for number in known.get(term, ()))


def opposite_by_prefix(ours: str, theirs: str) -> bool:
    """Return whether one term is the other with a syllable before it that denies it: `stable`, `unstable`."""
    short, long = sorted((ours, theirs), key=len)
    return len(short) >= 4 and long.endswith(short) and long[: -len(short)] in _PREFIXES


@cache
def _generic(language: str) -> frozenset[str]:
    return GENERIC | {canonical(word, language) for word in GENERIC}


def is_generic(term: str, language: str) -> bool:
    """Return whether `term` says little about what a statement is about."""
    return term in _generic(language)
