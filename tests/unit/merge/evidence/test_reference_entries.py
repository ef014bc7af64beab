"""Entries of a reference, such as options, and texts that lean on what stands around them."""

from __future__ import annotations

import pytest

from tests.unit.merge.evidence.weighed_plans import NOW, weighed, words

OPTIONS = "# Client\n\n## Options\n\n{}\n"


@pytest.mark.parametrize("section", ["Options", None])
@pytest.mark.parametrize("default", ["(Default: `false`, Optional)", "By default, this is `false`.", "Defaults to 90."])
@pytest.mark.parametrize(
    "form",
    ["- `{}` - {} {}", "- `{}`: {} {}", "- **`{}`** (boolean) \u2013 {} {}", "`{}`\n: {} {}", "{}\n: {} {}"],
)
def test_an_option_keeps_its_default_although_another_option_has_the_same(
    form: str, default: str, section: str | None
) -> None:
    """Real pages, mastodon/documentation and kedacore/keda-docs: the new option was written without its default."""
    page = OPTIONS.format(form.format("tls", "Whether the client encrypts its connection.", default))
    new = form.format("unsafeSsl", "Skip the validation of certificates.", default)
    assert f"\n{new}\n" in weighed(f"{new}\n", page=page, section=section).text


@pytest.mark.parametrize(
    ("there", "new"),
    [
        (
            "- `poll` - Seconds between two polls of the broker. (Default: `30`, Optional)",
            "- `retry` - How often a message is sent again. (Default: `5`, Optional)",
        ),
        (
            "`--days N`\n: How old a status may be. Defaults to 90.",
            "`--size N`\n: How large a batch is. Defaults to 1000.",
        ),
        (
            "- `keyCondition` - the condition that says which items are retrieved by the action.",
            "- `filter` - the condition that says which of the items are returned by the action.",
        ),
    ],
)
def test_an_option_is_no_version_of_another_option_and_contradicts_none(there: str, new: str) -> None:
    plan = weighed(f"{new}\n", page=OPTIONS.format(there), section="Options")
    assert (words(plan), plan.questions) == (["integrate"], [])
    assert new in plan.text


def test_an_entry_that_says_nearly_the_same_under_another_name_is_asked_about() -> None:
    """A real page, kedacore/keda-docs: a metric was renamed."""
    page = OPTIONS.format(
        "- `scaler_activity` - This metric marks whether the particular scaler is active or inactive."
    )
    new = "- `scaler_active` - This metric marks whether the particular scaler is active or inactive.\n"
    plan = weighed(new, page=page, section="Options")
    assert (len(plan.questions), plan.text) == (1, page)


@pytest.mark.parametrize("form", ["- `{}` - Port of the broker. {}", "`{}`\n: Port of the broker. {}"])
def test_another_default_of_the_same_option_is_a_contradiction(form: str) -> None:
    page = OPTIONS.format(form.format("port", "Defaults to 9092."))
    assert words(weighed(form.format("port", "Defaults to 9093.") + "\n", page=page, section="Options")) == ["flag"]


@pytest.mark.parametrize(
    ("page", "new"),
    [
        (
            "## Create\n\n`expires_in`\n: How many seconds until the filter expires.\n\n## Update\n\n`phrase`\n: The text.\n",
            "`expires_in`\n: How many seconds until the filter expires. Defaults to never.",
        ),
        (
            "## Create\n\nThis returns an object with a list of collections.\n\n## Update\n\nIt changes one.\n",
            "This returns an object with a list of collections. Only those of the account are included.",
        ),
    ],
)
def test_a_new_text_keeps_a_sentence_that_only_another_section_says(page: str, new: str) -> None:
    """Real pages, mastodon/documentation: what was left of the text had no subject."""
    plan = weighed(f"{new}\n", page=f"# Filters\n\n{page}", section="Update")
    assert (words(plan), plan.text) == (["integrate"], f"# Filters\n\n{page}\n{new}\n")


@pytest.mark.parametrize("section", ["Create", "Read"])
@pytest.mark.parametrize(
    ("begin", "end"),
    [('{{< hint style="info" >}}', "{{< /hint >}}"), ("{% callout %}", "{% endcallout %}"), ("::: warning", ":::")],
)
def test_a_text_between_tags_of_a_site_generator_keeps_both(begin: str, end: str, section: str) -> None:
    """Real pages, mastodon/documentation: an unclosed tag ends the build of the whole site."""
    page = f"# Dumps\n\n## Create\n\n{begin}\nA dump can take long.\n{end}\n\n## Read\n\nIt is read by lines.\n"
    new = f"{begin}\nOther languages need a change of the code.\n{end}"
    plan = weighed(f"{new}\n", page=page, section=section)
    assert new in plan.text
    assert plan.text.replace(f"{new}\n\n", "").replace(f"\n{new}\n", "") == page


@pytest.mark.parametrize(
    "label", ["**Basic authentication:**", "**Basic authentication**:", "**Basic authentication**"]
)
@pytest.mark.parametrize("section", ["Parameters", None])
def test_a_bold_label_above_a_list_is_not_replaced_by_an_item_with_its_words(label: str, section: str | None) -> None:
    """A real page, kedacore/keda-docs: the other items stood under no label then."""
    page = (
        f"# Scaler\n\n## Parameters\n\n{label}\n- `authModes` - Must contain `basic`.\n- `password` - The password.\n"
    )
    plan = weighed(
        "- `username` - Provide the username to be used for basic authentication.\n", page=page, section=section
    )
    assert "update" not in words(plan)
    assert label in plan.text


@pytest.mark.parametrize(
    ("there", "new"),
    [
        (
            "- [How to install WordPress](https://example.org/handbook/how-to-install-wordpress)",
            "- [Why WordPress is slow](https://example.org/handbook/why-wordpress-is-slow)",
        ),
        ("- [Generating Resources](#generating)", "- [Generating JSON:API Resources](#generating-jsonapi-resources)"),
        (
            "* [ctl ExecuteFetch](./ctl_executefetch/) - Executes the given query as the user on the tablet.",
            "* [ctl ExecuteMultiFetch](./ctl_executemultifetch/) - Executes given queries as the user on the tablet.",
        ),
        (
            "- **Request Fields:** You can choose to `keep`, `drop`, or `redact` any of the request fields.",
            "- **Request Query Parameters:** You can choose to `keep` or `drop` the query parameters of a request.",
        ),
        (
            "* Conversations = matching statuses will be hidden in threads and detailed views",
            "* Profiles = matching statuses will be hidden in profile views",
        ),
        (
            "- 0.9.0 - Added `read` and `write` scopes.",
            "- 4.6.0 - Added `read:collection` and `write:collection` scopes.",
        ),
        ("The outbound proxy records the following metrics:", "The inbound proxy records the following metrics:"),
        ("Create this function to install Python support:", "Create this function to install YAML support:"),
        ("Create this function to install Python support:", "Create this function to install Pythonic support:"),
        (
            '{{< tab "Python" >}}\nPython is a good choice for compositions with dynamic logic.',
            '{{< tab "Pythonic" >}}\nPythonic is a good choice for compositions with dynamic logic.',
        ),
        ("By running the tests you can verify that they fail.", "Run the tests in the folder `parser`:"),
        (
            '{{< caption-link url="https://masto.test" caption="Masto.test" >}}',
            '{{< caption-link url="https://toot.invalid/plans.html" caption="Toot.invalid" >}}',
        ),
    ],
)
def test_what_is_said_under_another_label_version_or_link_is_new_and_so_is_an_introduction(
    there: str, new: str
) -> None:
    """Real pages: each was a question or a contradiction."""
    plan = weighed(f"{new}\n", page=OPTIONS.format(there), section="Options")
    assert (words(plan), plan.questions) == (["integrate"], [])
    assert f"\n{there}\n" in plan.text
    assert f"\n{new}\n" in plan.text


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("- [Installing the server](#install)", "- [Installing the server](#setup)"),
        (
            "- **Timeout**: A request that is not answered after 30 seconds is sent again.",
            "- **Request timeout**: A request that is not answered after 60 seconds is sent again.",
        ),
        (
            "- **Thresholds**: The least use below which a node of the cluster is evicted.",
            "- **Limits**: The least use below which a node of the cluster is evicted.",
        ),
        (
            "- **[Locust](https://locust.example)**: a background job that creates usage of the website.",
            "- **[k6](https://k6.example)**: a background job that creates usage of the website.",
        ),
        ("- [Upgrading To 12.0 From 11.x](#upgrade-12.0)", "- [Upgrading To 13.0 From 12.x](#upgrade-13.0)"),
        ("- 4.6.0 - Added the scope `read` for collections.", "- 4.6.0 - Removed the scope `read` for collections."),
        ("Send at most 5 requests to these addresses:", "Send at most 6 requests to these other addresses:"),
        ("Open these ports of the firewall:", "Never open these ports of the firewall:"),
    ],
)
def test_the_same_link_version_or_label_and_another_figure_are_still_compared(there: str, new: str) -> None:
    page = OPTIONS.format(there)
    plan = weighed(f"{new}\n", page=page, section="Options")
    assert plan.text == page
    assert plan.questions or words(plan) in (["flag"], ["ask"])


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("The trial lasts 14 days.", "30 days."),
        ("The trial lasts 14 days.", "You can use it for 30 days."),
        ("Yes, at any time.", "No."),
        ("Nein, nie.", "Ja, immer."),
    ],
)
def test_another_answer_to_a_question_is_asked_about(there: str, new: str) -> None:
    page = f"# FAQ\n\n## How long is the trial?\n\n{there}\n\n## Other\n\nText.\n"
    plan = weighed(f"## How long is the trial?\n\n{new}\n", page=page)
    assert plan.text == page
    assert [(one.existing, one.new) for one in plan.questions] == [(there, new)]


@pytest.mark.parametrize(
    "new", ["Yes, and it costs nothing.", "Write to the support first.", "Up to 5 people can use it."]
)
def test_what_adds_to_an_answer_is_added(new: str) -> None:
    page = "# FAQ\n\n## Can I extend the trial?\n\nYes, by 14 days.\n\n## Other\n\nText.\n"
    plan = weighed(f"## Can I extend the trial?\n\n{new}\n", page=page)
    assert (words(plan), plan.questions) == (["integrate"], [])


@pytest.mark.parametrize("form", ["- {} {}", "- **{}** {}", "- [{}] {}", "- {} UTC: {}"])
def test_the_same_thing_at_another_time_is_asked_about_in_a_list_of_times(form: str) -> None:
    """It may be the next entry of a timeline, or a moved one of a plan."""
    said = [("14:02", "The alert fired."), ("14:10", "The checkout was restarted.")]
    page = "# Incident\n\n## Timeline\n\n" + "".join(f"{form.format(*one)}\n" for one in said)
    plan = weighed(f"{form.format('14:35', 'The checkout was restarted.')}\n", page=page, section="Timeline")
    assert (plan.text, len(plan.questions)) == (page, 1)


@pytest.mark.parametrize("default", ["99999", "2147483646"])
def test_another_default_is_compared_among_hundreds_of_options_with_one(default: str) -> None:
    """A real page, traefik/traefik: the new default was added below the old one."""
    form = "`--entrypoints.n{}.priority`:  \nPriority of the router. (Default: ```{}```)"
    entries = [form.format(number, 2_147_483_647 if number == 550 else number) for number in range(600)]
    page = OPTIONS.format("\n\n".join(entries))
    plan = weighed(f"{form.format(550, default)}\n", page=page, section="Options")
    assert plan.text == page
    assert plan.questions or words(plan) == ["flag"]


@pytest.mark.parametrize("old", ["Required.", "Read only."])
def test_another_word_for_an_option_is_asked_about_and_not_written_alone(old: str) -> None:
    page = OPTIONS.format(f"- `name`: The name of the project. {old}\n- `owner`: The owner of the project. Optional.")
    plan = weighed("- `name`: The name of the project. Optional.\n", page=page, section="Options")
    assert (plan.text, [(one.existing, one.new) for one in plan.questions]) == (page, [(old, "Optional.")])


@pytest.mark.parametrize("new", ["will apply", "applied", "had applied", "were applied"])
def test_what_will_be_or_was_is_not_said_already_by_what_is(new: str) -> None:
    page = "# Rules\n\nThese policies apply to all employees of the company.\n"
    plan = weighed(f"These policies {new} to all employees of the company.\n", page=page)
    assert (words(plan), plan.text) == (["ask"], page)


def test_a_new_section_keeps_an_introduction_that_another_section_has_too() -> None:
    page = "# API\n\n## Add a project\n\nIt adds one.\n\nParameters:\n\n- `name`: The name of the project.\n"
    new = "## Change a project\n\nIt changes the colour.\n\nParameters:\n\n- `colour`: One of eight colours.\n"
    assert weighed(new, page=page).text == f"{page}\n{new}"


@pytest.mark.parametrize(
    ("there", "new"),
    [
        (
            "- Grafana\n  - dashboards\n  - alerts\n    - latency above 2 s\n- Zulip\n  - channels",
            "- Grafana\n  - alerts\n    - saturation above 90 %",
        ),
        (
            "1. Enrol the laptop.\n   - Mac: use the portal.\n2. Sign the contract.",
            "1. Enrol the laptop.\n   - Linux: use the script.",
        ),
    ],
)
def test_what_is_inside_an_item_does_not_become_an_item_beside_it(there: str, new: str) -> None:
    page = OPTIONS.format(there)
    plan = weighed(f"{new}\n", page=page, section="Options")
    assert (words(plan), plan.text) == (["retain"], page)
    assert "belongs inside the item in line 5" in plan.verdicts[0].reason


def test_an_item_sent_with_all_that_it_has_and_one_more_inside_takes_its_place() -> None:
    """Real pages, dapr/docs: what was new became an item beside it."""
    there = "- Try the examples:\n  - [Python](https://a.example/p)\n  - [Java](https://a.example/j)\n- Read on."
    new = "- Try the examples:\n  - [Python](https://a.example/p)\n  - [Go](todo)\n  - [Java](https://a.example/j)"
    page = OPTIONS.format(there)
    plan = weighed(f"{new}\n", page=page, section="Options")
    assert plan.text == page.replace("(https://a.example/p)\n", "(https://a.example/p)\n  - [Go](todo)\n")
    weaker = weighed(f"{new}\n", page=page, section="Options", held_by="user", held_since=NOW, authority=0.1)
    assert (words(weaker), weaker.text) == (["retain"], page)


def test_the_number_of_a_step_is_no_word_that_another_text_keeps() -> None:
    """A real page, nushell: a typing error on the page was replaced without a question."""
    page = OPTIONS.format("1. If parsing was successful:\n   1. Line 1 is evaluated\n   2. Line 1 is evaluated")
    new = "1. If parsing was successful:\n   1. Line 1 is evaluated\n   2. Line 2 is evaluated\n"
    assert weighed(new, page=page, section="Options").text == page
