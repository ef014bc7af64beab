"""A small handbook of a harbour, and honest works of research and of a small change over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """A question that the handbook answers: the section, the sentence there, and an answer in other words."""

    id: str
    category: str
    path: str
    section: str
    question: str
    sentence: str
    answer: str

    def answered(self, **changed: Any) -> dict[str, Any]:
        """Return the answer as a work has it."""
        quoted = {"path": self.path, "section": self.section, "quote": self.sentence}
        return {"id": self.id, "text": self.answer, "citations": [quoted], **changed}


FACTS = (
    Fact(
        "q1",
        "c1",
        "berths/visitors.md",
        "Booking",
        "How long before arrival must a visitor book a berth?",
        "Visitors book a berth at least two days before arrival.",
        "A visitor has to book the berth two days before arrival or earlier.",
    ),
    Fact(
        "q2",
        "c1",
        "berths/visitors.md",
        "Fees",
        "Which fee does a visitor pay for a night at a berth?",
        "A night at a visitor berth costs 18 euros for boats up to ten metres.",
        "For boats up to ten metres the fee is 18 euros a night.",
    ),
    Fact(
        "q3",
        "c1",
        "berths/permanent.md",
        "Waiting list",
        "How is the waiting list for permanent berths ordered?",
        "The waiting list for permanent berths is ordered by date of application, and residents come first.",
        "By date of application; residents come before all others on the list.",
    ),
    Fact(
        "q4",
        "c2",
        "safety/fire.md",
        "Extinguishers",
        "How often are the fire extinguishers on the pontoons checked?",
        "The fire extinguishers on the pontoons are checked every six months by the fire brigade.",
        "The fire brigade checks the extinguishers every six months.",
    ),
    Fact(
        "q5",
        "c2",
        "safety/fire.md",
        "Fuelling",
        "Which rule applies to engines during fuelling?",
        "During fuelling all engines are off and nobody smokes within 15 metres.",
        "Engines must be off during fuelling, and smoking is forbidden within 15 metres.",
    ),
    Fact(
        "q6",
        "c2",
        "safety/storm.md",
        "Warning",
        "Who is told when a storm warning arrives?",
        "At a storm warning the harbour master calls every owner whose boat lies on the outer pontoon.",
        "The harbour master calls the owners of boats on the outer pontoon.",
    ),
    Fact(
        "q7",
        "c2",
        "safety/storm.md",
        "Lines",
        "How many lines must hold a boat in a storm?",
        "In a storm each boat is held by six lines, two of them springs.",
        "Six lines, of which two are springs, must hold each boat.",
    ),
    Fact(
        "q8",
        "c3",
        "services/water.md",
        "Drinking water",
        "Where can crews get drinking water in winter?",
        "In winter drinking water is only available at the tap beside the office, because the pontoon pipes are drained.",
        "Only at the tap beside the office, since the pipes on the pontoons are drained in winter.",
    ),
    Fact(
        "q9",
        "c3",
        "services/power.md",
        "Meters",
        "How is electricity on the pontoons charged?",
        "Electricity on the pontoons is metered and charged monthly at 40 cents per kilowatt hour.",
        "It is metered; owners pay 40 cents per kilowatt hour each month.",
    ),
    Fact(
        "q10",
        "c3",
        "services/waste.md",
        "Oil",
        "Where does used engine oil go?",
        "Used engine oil goes into the red tank behind the workshop, never into the bilge drain.",
        "Into the red tank behind the workshop.",
    ),
    Fact(
        "q11",
        "c3",
        "services/crane.md",
        "Appointments",
        "How are appointments for the crane made?",
        "Appointments for the crane are made at the office by noon of the day before.",
        "At the office, by noon of the day before.",
    ),
)
CATEGORIES = {"c1": "Berths", "c2": "Safety", "c3": "Services"}
_MORE = (
    "This section is kept by the harbour office. It was read aloud at the spring meeting of the club, where the members "
    "agreed to keep it short. Questions about it go to the harbour master on channel nine or in the office on weekdays."
)


def pages() -> Mapping[str, str]:
    """Return the handbook: each page with its facts among other text, and a map for each directory."""
    found: dict[str, str] = {"_index.md": "---\ntitle: Harbour\nsummary: The harbour's handbook.\n---\n# Harbour\n"}
    for fact in FACTS:
        folder, name = fact.path.split("/")
        index = f"---\ntitle: {folder.title()}\nsummary: Rules about {folder}.\n---\n# {folder.title()}\n"
        found.setdefault(f"{folder}/_index.md", index)
        title = f"# {name.removesuffix('.md').title()}\n\nHow the harbour deals with {name.removesuffix('.md')}.\n"
        page = found.setdefault(fact.path, title)
        found[fact.path] = f"{page}\n## {fact.section}\n\n{fact.sentence} {_MORE}\n"
    return found


TREE: Mapping[str, Any] = {
    "categories": [{"id": id_, "title": title, "why": "crews ask about it"} for id_, title in CATEGORIES.items()],
    "questions": [
        {"id": fact.id, "category": fact.category, "text": fact.question, "why": "a guest needs it to plan"}
        for fact in FACTS
    ],
}
INSIGHTS: Mapping[str, Any] = {
    "insights": [
        {
            "id": "c1",
            "text": "Berths are planned ahead: visitors book two days before, permanent berths follow a list that prefers residents.",
            "rests_on": ["q1", "q2", "q3"],
        },
        {
            "id": "c2",
            "text": "Fire and storm are met with fixed habits: checks, engines off, calls to owners on the outer pontoon, six lines.",
            "rests_on": ["q4", "q5", "q6", "q7"],
        },
        {
            "id": "c3",
            "text": "The office is the hub of all services, from winter water to crane appointments; power is paid by meter.",
            "rests_on": ["q8", "q9", "q10", "q11"],
        },
    ]
}
FRONTIER: Mapping[str, Any] = {
    "adjacent_questions": [
        {"id": "a1", "text": "What does a permanent berth cost in a year?", "why": "it follows the list", "near": "q3"},
        {"id": "a2", "text": "Who repairs a broken meter on a pontoon?", "why": "power is paid by meter", "near": "q9"},
        {"id": "a3", "text": "Is the crane used when a storm is near?", "why": "both need the office", "near": "q11"},
    ]
}
