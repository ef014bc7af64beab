"""A page already contains a statement only if no deciding word differs."""

from __future__ import annotations

import pytest

from knowledge.merge.claims.claim import unread_statements
from knowledge.merge.claims.statements import covers, implies, read_statement, sentences


def says_already(existing: str, new: str) -> bool:
    return implies(read_statement(existing, "en"), read_statement(new, "en"))


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("Clients must retry.", "Clients should retry."),
        ("Clients must retry and should back off.", "Clients should retry."),
        ("Clients may retry the request.", "Clients must retry the request."),
        ("Teammates have access by default.", "Teammates can have access by default."),
        ("All teammates have access by default.", "No teammates have access by default."),
        (
            "The `foo` gate (disabled by default) lets you do X and is enabled by the admin.",
            "The foo gate (enabled by default) lets you do X.",
        ),
        ("The server returns a 200 code.", "The server returns a 2xx code."),
        ("The server returns a 2xx code.", "The server returns a 200 code."),
        ("The API is in beta; the old API was alpha.", "The API is in alpha."),
        ("The API is in beta.", "The API is stable."),
        ("This works with Go 1.20 and Python 3.11.", "This works with Python 1.20."),
        ("Please vote by the end of 2025/08/17.", "Please vote by the end of 2025-02-17."),
        ("The token expires after 30 days.", "The token expires after 30 hours."),
        ("Teammates may go to 1-2 events a year.", "Teammates may go to 1 event a year."),
        ("Metrics are at localhost:8090 in this guide.", "Metrics are at localhost:8090/metrics in this guide."),
        ("The power operator is `*` here.", "The power operator is `^` here."),
        ("You can use both maps and lists.", "You can use maps and lists."),
        ("Use staging for tests and production for users.", "Use production for tests."),
        ("The office is in Berlin and the server in Oslo.", "The office is in Oslo."),
        ("Releases happen every week, security fixes every day.", "Security fixes happen every week."),
        ("The limit is 5 MB for free users and 50 MB for paid users.", "The limit is 50 MB for free users."),
        ("Deploys run on Monday, reviews on Friday.", "Deploys run on Friday."),
        ("The tool was released on 1 Mar. 2019.", "The tool was released on 1 Mar. 2020."),
        ("Am 3. Mrz. 2019 wurde das Werkzeug freigegeben.", "Am 3. Mrz. 2020 wurde das Werkzeug freigegeben."),
        ("We can\u2019t skip a step for transfers.", "We can skip a step for transfers."),
        ('See [jobs]({{< ref "a.md" >}}).', 'See [jobs]({{< ref "b.md" >}}).'),
    ],
)
def test_a_statement_in_which_a_deciding_word_differs_is_not_said_already(existing: str, new: str) -> None:
    assert not says_already(existing, new)


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("The primary copies the log to the replica.", "The replica copies the log to the primary."),
        ("First stop the service, then remove the data.", "First remove the data, then stop the service."),
        ("Stop the service before you remove the data.", "Remove the data before you stop the service."),
        ("Use tabs instead of spaces in code.", "Use spaces instead of tabs in code."),
        ("Merge the branch with rebase, not squash.", "Merge the branch with squash, not rebase."),
        ("Log in before the test.", "Log out before the test."),
        ("Everyone but guests can post messages.", "Everyone and guests can post messages."),
        ("Prices rise by 5% to 20 EUR.", "Prices rise to 5% by 20 EUR."),
        ("Use the flag -f to overwrite files.", "Use the flag -F to overwrite files."),
        ("Set `max_size` in the config file.", "Set `MAX_SIZE` in the config file."),
        ("Call getUser to read the profile.", "Call GetUser to read the profile."),
        ("Write to US for help.", "Write to us for help."),
        ("The limit is 5 MB for images.", "The limit is 5 MiB for images."),
        ("The limit is 5 Mb for images.", "The limit is 5 MB for images."),
        ("The limit is 1,500 files for images.", "The limit is 1.5 files for images."),
        ("The value is \u00bd of the default.", "The value is \u00bc of the default."),
        ("The latency is \u00b15 ms in the room.", "The latency is 5 ms in the room."),
        ("The room holds two dozen people at once.", "The room holds two people at once."),
        ("The API is ~~not~~ public.", "The API is not public."),
        ("See [the guide](https://a.org/v1) for the setup.", "See [the guide](https://a.org/v2) for the setup."),
        ("See [[Old guide|the guide]] for the setup.", "See [[New guide|the guide]] for the setup."),
        ('See <a href="one.html">the guide</a> for the setup.', 'See <a href="two.html">the guide</a> for the setup.'),
        ("It falls from -5 to 5 degrees.", "It falls from 5 to -5 degrees."),
        ("Use `a < b` or `a > c` here.", "Use `a > b` or `a < c` here."),
        ("Is the cache on by default?", "The cache is on by default."),
        ("Доступ разрешён всем кроме гостей.", "Доступ разрешён всем."),
        ("يجب إعادة تشغيل الخادم.", "يمكن إعادة تشغيل الخادم."),
        ("word " * 1000 + "begins.", "word " * 1000 + "ends."),
    ],
)
def test_an_order_a_short_word_a_spelling_a_sign_or_a_link_may_decide(existing: str, new: str) -> None:
    """No table of words knows these; each was once answered with "said already"."""
    assert not says_already(existing, new)
    assert not covers(read_statement(new, "en"), read_statement(existing, "en"))


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("The default of the option is `[]`.", "The default of the option is `{}`."),
        ("By default the mark is `!`.", "By default the mark is `:`."),
        ("Set `builds` of the archive to `b1`.", "Set `builds` of the archive to `[b1]`."),
        ("Run the script from `.` in the tree.", "Run the script from `..` in the tree."),
        ("It turns `[]` into `{}` on request.", "It turns `{}` into `[]` on request."),
        ("Files such as `.env` are read first.", "Files such as `env` are read first."),
        (
            "Add the build to the archive:\n  ```yaml\n  builds: b1\n  ```",
            "Add the build to the archive:\n  ```yaml\n  builds: [b1]\n  ```",
        ),
        (
            "Add the build to the file:\n  ```yaml\n  one:\n    two: 2\n  ```",
            "Add the build to the file:\n  ```yaml\n  one:\n  two: 2\n  ```",
        ),
    ],
)
def test_a_statement_in_whose_code_a_bracket_a_stop_or_an_indent_differs_is_not_said_already(
    existing: str, new: str
) -> None:
    assert not says_already(existing, new)
    assert not covers(read_statement(new, "en"), read_statement(existing, "en"))


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("Files such as .env are read first.", "Files such as `.env` are read first."),
        ("Call `close()` at the end.", "Call close() at the end"),
        ("Set `builds` first, then run it.", "Set `builds`, first then run it."),
        (
            "Add the build to the archive:\n  ```yaml\n  builds: [b1]\n  ```",
            "Add the build to the archive:\n\n    ```yaml\n    builds: [b1]\n    ```",
        ),
    ],
)
def test_the_same_code_is_said_already_with_and_without_ticks_and_at_another_indent(existing: str, new: str) -> None:
    assert says_already(existing, new)


def test_an_item_of_a_list_in_a_code_block_is_no_statement_of_its_own() -> None:
    text = "- Add an archive:\n  ```yaml\n  archives:\n  - id: a1\n    builds: [b1]\n  ```\n  - And test it.\n"
    assert [text[one.start : one.end] for one in sentences(text)] == [text[2:-18], "And test it."]


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("Confirm that you can open the console, you may need it.", "Confirm that you can open the console."),
        ("The emergency team should restart the alerts service.", "Restart the alerts service."),
        (
            "Receivers may return a 5xx code to show errors, that should be retried.",
            "Receivers may return a 5xx code to show errors.",
        ),
        ("We can't skip a step; we keep the usual standards.", "We keep the usual standards."),
        (
            "There are two ways to check the usage: the console and the shell.",
            "Check the usage: the console and the shell.",
        ),
        ("Commit to circling back during your next 1:1 session.", "Commit to circling back."),
        ("The project runs in beta and reads CSV files.", "The project reads CSV files."),
        ("The timeout is 5 seconds.", "The timeout is 5."),
        ("The limit is 5 MB or 6 MB.", "The limit is 5 MB."),
        ("Use Python 3.11 for the service.", "Use Python for the service."),
        ("The report is sent by mail on Monday.", "The report is sent by mail."),
        ("The report is sent by mail in march.", "The report is sent by mail."),
        ("Ada and Bob own the importer.", "Bob owns the importer."),
        ("Every file is checked for viruses and stored in Oslo.", "Every file is checked for viruses."),
        ("Set `retries` and the timeout in the file.", "Set the timeout in the file."),
        ("Only admins restart the server.", "Admins restart the server."),
        ("Everyone has access except contractors.", "Everyone has access."),
        ("The cache is cleared if the disk is full.", "The cache is cleared."),
        ("The cache is kept unless the disk is full.", "The cache is kept."),
        ("On linux the cache is shared.", "The cache is shared."),
        ("The cache is shared by default.", "The cache is shared."),
        ("A password has at least eight letters.", "A password has eight letters."),
        ("A request is retried while the server starts.", "A request is retried."),
        ("A request is usually retried.", "A request is retried."),
        ("Der Server antwortet nur im Testnetz.", "Der Server antwortet im Testnetz."),
    ],
)
def test_a_text_without_what_decides_or_narrows_a_statement_is_not_said_already(existing: str, new: str) -> None:
    """Of real changes that only take words away, these were taken for the same: kb/reference/merging-on-real-pages.md."""
    assert not says_already(existing, new)


@pytest.mark.parametrize(
    ("existing", "new"),
    [
        ("An upload may be 32 MiB at most.", "an upload may be **32 MiB** at most"),
        ("An upload may be 32 MiB at most.", "An upload may be 32768 KiB at most."),
        ("Every file is checked for viruses and stored in plain folders.", "Every file is checked for viruses."),
        ("The importer reads CSV files slowly.", "The importer reads CSV files."),
        ("You don't have to restart the server.", "You do not have to restart the server."),
        ("The backup job takes 1 hour.", "The backup job takes 60 minutes."),
        ("The importer reads CSV files from the share.", "The importer reads the CSV files from a share"),
        ("Please vote by the end of 2025/08/17.", "Please vote by the end of 2025-08-17."),
        ("See [the guide](https://a.org/v1) for the setup.", "See the guide for the setup."),
        ("It is also possible to restart the server.", "It is possible to restart the servers."),
    ],
)
def test_the_same_in_other_words_and_a_part_of_it_are_said_already(existing: str, new: str) -> None:
    assert says_already(existing, new)


def test_cached_statements_share_the_beginnings_of_their_words() -> None:
    """Thousands are cached, so a server would hold each common word as often."""
    (one,), (other,) = unread_statements("Retention is long."), unread_statements("Long retention costs more.")
    found = {word: word for word in one.rough}
    assert {"rete", "long"} <= one.rough & other.rough
    assert all(found[word] is word for word in other.rough & one.rough)
