"""Words by which statements are read: what bounds a figure, what names a version or a case, what only joins. Tables. Pure."""

from __future__ import annotations

import re

from knowledge.merge.claims.polarity import NOT_NEGATING, listed, phrases
from knowledge.merge.claims.quantities import DAY, MONTHS, NUMBER_WORDS

NO_KEYS = listed(
    """
    note notes example examples see warning hint tip hinweis beispiel siehe achtung tipp important caution nb todo
    http https
    """
)
LABELS = listed(
    """
    section sections step steps phase tier level stage chapter figure fig table appendix rfc pep eip iso din issue
    bug part page line item rule article paragraph clause class category grade group layer option method example
    exercise question volume type abschnitt schritt stufe kapitel abbildung abb tabelle anhang teil seite zeile
    artikel art absatz abs nummer nr no satz klasse kategorie gruppe ebene regel beispiel frage band titel buch
    \u00a7 \u00a7\u00a7 # room raum gate route week
    """
)
LEAST_BEFORE = phrases(
    """
    at least; minimum of; a minimum of; minimum; min; no less than; not less than; no fewer than; more than; over;
    greater than; higher than; larger than; longer than; above; starting at; older than; exceeds; exceed; exceeding;
    mindestens; wenigstens; mehr als; über; größer als; älter als; länger als; minimal; > =; >; ≥; later than; newer
    than; beyond; upwards of
    """
)
MOST_BEFORE = phrases(
    """
    at most; maximum of; a maximum of; maximum; max; no more than; not more than; less than; fewer than; up to;
    under; below; within; lower than; smaller than; shorter than; no longer than; not exceed; younger than; not to
    exceed; no later than; not later than; höchstens; maximal; bis zu; weniger als; unter; kleiner als; kürzer als;
    nicht mehr als; innerhalb von; binnen; innerhalb; längstens; spätestens; jünger als; < =; <; ≤
    """
)
LEAST_AFTER = phrases(
    """
    or more; or later; or newer; or higher; or above; or greater; or longer; and above; and later; and newer; and
    up; or older; and higher; +; oder mehr; at least; oder höher; oder neuer; oder länger; und höher; und mehr; und
    neuer; onwards; oder später; oder älter
    """
)
MOST_AFTER = phrases(
    """
    or less; or fewer; or earlier; or lower; or below; or younger; oder weniger; oder niedriger; oder kürzer; at
    most; maximum; höchstens; maximal
    """
)
ABOUT = listed(
    """
    about around approximately roughly circa ca approx nearly almost some ungefähr etwa rund zirka knapp ~ \u2248
    """
)
BETWEEN = listed(
    """
    of a an the von einem einer eines der die das $ \u20ac \u00a3 \u00a5 is be ist
    """
)
UNIT_ARTICLES = frozenset(("a", "an", "ein", "eine", "einen", "einer", "einem", "every", "jede", "jeden"))
MAYBE_FIGURES = frozenset(MONTHS) | frozenset(NUMBER_WORDS) | UNIT_ARTICLES
BOUND_BEGINS = frozenset(phrase.split()[0] for phrase in LEAST_AFTER | MOST_AFTER)
BOUND_ENDS = frozenset(phrase.split()[-1] for phrase in LEAST_BEFORE | MOST_BEFORE)
FIGURES = frozenset(("number", "version", "iso", "dmy"))
SPARING = re.compile(r"\b(?:" + "|".join(sorted(NOT_NEGATING, key=len, reverse=True)) + r")\b")
RANGE = listed(
    """
    - \u2013 \u2014 to bis through .. until
    """
)
GUARDS = frozenset(("with", "at", "for", "aged", "under", "over", "bei", "mit", "für", "unter", "über"))
CURRENCIES = listed(
    """
    $ \u20ac \u00a3 \u00a5 usd eur gbp chf jpy us
    """
)
DATE_BEFORE = listed(
    """
    for für fiscal fy
    in since from until till by of before after during im seit ab bis vor nach jahr jahre jahres year through ende
    mitte anfang early late mid spring summer autumn fall winter
    """
)
SCOPE_BEFORE = listed(
    """
    in on with for under using when as at im in bei mit unter für auf
    """
)
SCOPE_STATES = listed(
    """
    new neu neue appeared lts active
    added introduced available since removed deprecated supported supports support requires require required need
    needs minimum released fixed changed dropped latest current stable newest upgrade upgraded update
    updated shipped compatible tested works until from starting runs run installed uses use based built expires ends
    end due starts begins deadline ends scheduled effective valid eingeführt verfügbar seit entfernt veraltet
    unterstützt erfordert benötigt voraussetzt veröffentlicht aktuelle aktuell neueste ab geändert hinzugefügt
    erschienen kompatibel mindestens läuft endet frist gültig kraft tritt stand founded born died established
    created became gegründet geboren gestorben
    """
)
VERSIONED = listed(
    """
    version versions release python java jdk php ruby node node.js nodejs go golang redis postgresql postgres mysql
    mariadb mongodb kubernetes docker nginx apache windows macos ubuntu debian fedora rhel centos android ios django
    rails react vue angular typescript rust gcc clang openssl tls ssl http linux kernel elasticsearch kafka couchdb
    prometheus grafana symfony contao laravel chrome firefox safari etcd git npm helm terraform sqlite c++ .net
    dotnet opengl cuda usb bluetooth swift kotlin scala erlang otp
    """
)
EMPTY = listed(
    """
    between every each within during since via per ab beträgt pro je bzw ca zwischen binnen very really quite rather
    sehr ganz recht innerhalb until einem einen et etc ll ve re
    """
)
"""Words that join, beside the stop words."""
SEPARATE_UNITS = frozenset("WVhslAgmkKMGL")
"""Letters that are units also after a blank."""
TIME_OF = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
PER = listed(
    """
    per / pro je a an each every
    """
)
