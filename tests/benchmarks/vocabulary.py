"""The vocabulary of the benchmark corpora: English words if frequent, derived and compound ones if rare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

_FUNCTION_WORDS_TEXT = """
the of to and a in is for that on with as it by this be are from or at an not when which if can we you was will has
have but its each more than into after before only then also one all may should must there their our no such
"""
FUNCTION_WORDS = _FUNCTION_WORDS_TEXT.split()

_STEMS_TEXT = """
account accept access action adapt address agent alarm alert allocate amber anchor answer apply archive arrange
article assess asset assign audit author balance banner barrel basket batch beacon bench binary blank block board
border bottle branch bridge bucket budget buffer build bundle cable cache calendar call camera canvas capture carbon
card cargo carry castle catalog cell census change channel chapter charge chart check circle claim clear client
clock cluster coach coast collect column combine comment commit compare compass compile compose condition connect
consent console contact contain content contract control convert copper copy corner correct count course cover craft
credit cross crystal current curve custom damage data deal debate decide declare decode default defend define delay
delete deliver demand deploy depth derive design detail detect device dialog digest direct discard discuss display
divide domain double draft drain drive drop echo edge edit effect elect element embed encode end engine enrol enter
entry equal error escape event evidence exact examine exchange exhibit expand expect expire explain export expose
extend extract fabric factor fail family feature fetch fiber field figure file filter find finish flag flash fleet
flight float floor flow focus fold follow forest forge fork form forward frame freight front fuel function garden
gate gather gauge general glass grace graph grant gravel group guard guide hammer handle harbor harvest hash header
heat hedge height history hold hollow honor host hour hover image impact import include index inform inherit input
inquire insert inspect install instruct invest invoice island issue item join journal journey judge jump key kernel
label ladder lantern laser launch layer lead learn lease ledger lens letter level lever library license lift light
limit line link list load local lock log loop lower machine magnet mail manage manual map margin mark market master
match matter measure medal member memory mention menu merge message metal meter method migrate mineral mirror
mission mobile model module monitor motion mount move narrow native negotiate network node note notice number object
observe offer office open operate orbit order origin output oven own pack page paint panel paper parcel parse part
pass patch path pattern pause payment permit phase phrase pipe pivot place plan plant plate point policy pool port
post power prefer present press price print process produce profile program project promise prompt proof protect
prove provide publish pull pulse pump purchase push query question queue quota radar rail range rank rate reach read
reason receive record recover reduce refer reflect refuse region register reject relay release remain remote remove
render rent repair repeat replace report request require reserve reset resolve resource respond rest restore result
retain retry return reveal review revise reward ridge ring river road robot roll root rotate route rule run safety
sail sample satellite scale scan scatter schedule schema scope score screen script search season secret section
secure select sender sensor sequence serial serve session settle shadow shape share shelf shield shift ship signal
silver sketch sleep slice socket sort source space span spark special split spool spread spring stable stack staff
stage stamp standard start state station steam step stock stone stop store storm stream street strength stretch
strict string strip structure study style submit subscribe summary supply support surface survey switch symbol sync
system table tag target task team temper tenant term test theme thread threshold ticket timber time token tool topic
total tower trace track trade traffic train transfer transit translate transport travel tree trial trigger trust
tunnel turbine turn type union unit update upgrade upload usage valid valley value valve vapor vector vendor verify
vessel view village virtual visit voice volume voltage vote wagon wait walk wall warrant watch water wave weight
wheel width wind window winter wire witness word work worker workshop worth wrap write yard yield zone
"""
STEMS = _STEMS_TEXT.split()

SUFFIXES = ("s", "ed", "ing", "er", "able", "ment", "less", "ward", "ship", "ness")
ZIPF_EXPONENT = 1.07
TOPIC_EXPONENT = 0.6
"""A page repeats its subject's words more evenly than a language its articles."""
TOPICS = 64
WORDS_A_TOPIC = 90


@dataclass(frozen=True, slots=True)
class Weighted:
    """Words to draw from, with cumulative weights as `Random.choices` wants them."""

    words: Sequence[str]
    cumulative: Sequence[float]

    def draw(self, rng: Random, count: int) -> list[str]:
        """Return `count` words, frequent ones often."""
        return rng.choices(self.words, cum_weights=self.cumulative, k=count)


@dataclass(frozen=True, slots=True)
class Topic:
    """A directory's subject: its name, and its pages' preferred words."""

    name: str
    words: Weighted


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of everything on a page."""

    common: Weighted
    topics: Sequence[Topic]


def zipf(words: Sequence[str], exponent: float = ZIPF_EXPONENT) -> Weighted:
    """Return `words` weighted by their rank, as natural text has them."""
    return Weighted(words, list(accumulate(1 / (rank + 2) ** exponent for rank in range(len(words)))))


def build(rng: Random, size: int = 30_000) -> Vocabulary:
    """Return a vocabulary of `size` words and its topics; the same `rng` state gives the same one."""
    stems = list(STEMS)
    rng.shuffle(stems)
    tail = [derive(stem, suffix) for stem in STEMS for suffix in SUFFIXES]
    tail += compounds(rng, size - len(FUNCTION_WORDS) - len(stems) - len(tail))
    rng.shuffle(tail)
    content = [*stems, *tail]
    topics = [_topic(rng, stems, tail) for _ in range(TOPICS)]
    return Vocabulary(zipf([*FUNCTION_WORDS, *content]), topics)


def derive(stem: str, suffix: str) -> str:
    """Return `stem` with `suffix`, mostly spelled as in English."""
    if suffix != "ing" and len(stem) > 2 and stem[-1] == "y" and stem[-2] not in "aeou":
        return stem[:-1] + ("ies" if suffix == "s" else "i" + suffix)
    if suffix[0] in "eia" and stem.endswith("e"):
        return stem[:-1] + suffix
    return stem + suffix


def compounds(rng: Random, count: int) -> list[str]:
    """Return `count` different words of two stems: the long tail, such as names of products and systems."""
    found: dict[str, None] = {}
    while len(found) < count:
        first, second = rng.sample(STEMS, 2)
        found.setdefault(first + second)
    return list(found)


def _topic(rng: Random, stems: Sequence[str], tail: Sequence[str]) -> Topic:
    own = [*rng.sample(stems, 30), *rng.sample(tail, WORDS_A_TOPIC - 30)]
    return Topic(f"{own[0]}-{own[1]}", zipf(own, TOPIC_EXPONENT))
