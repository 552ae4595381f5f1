"""A world for training: topics, each with one rule; an answer is right when the skill states the rule of its topic."""

from __future__ import annotations

import json
import re
import threading
import time

from skillopt_sleep.model.call import Health, Reply, Usage
from skillopt_sleep.train import RolloutResult, SkillEnv

TOPICS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


def rule(topic):
    """The rule that makes answers of a topic right."""
    return f"Answer {topic} questions in metres."


def items(count, prefix, topics=TOPICS):
    """Make items that take the topics in turn."""
    return [
        {"id": f"{prefix}{n}", "topic": topics[n % len(topics)], "task_type": topics[n % len(topics)]}
        for n in range(count)
    ]


class SchoolEnv(SkillEnv):
    """Asks one question for each item; the hard score is 1 for "metres"."""

    name = "school"

    def __init__(self, train=12, val=6, test=6, topics=TOPICS):
        self.splits = {
            "train": items(train, "t", topics),
            "val": items(val, "v", topics),
            "test": items(test, "x", topics),
        }

    def get_items(self, split):
        return self.splits[split]

    def get_task_types(self):
        return list(TOPICS)

    def rollout_one(self, *, item, skill, target_client):
        text, _ = target_client.chat(system=skill, user=f"A {item['topic']} question, number {item['id']}")
        right = text == "metres"
        return RolloutResult(
            id=item["id"],
            hard=float(right),
            soft=float(right),
            predicted_answer=text,
            question=f"a {item['topic']} question",
            fail_reason="" if right else f"{item['topic']} wants metres",
            task_type=item["topic"],
        )


class School:
    """``ports.Backend`` for both roles, a pure function of the prompt; ``calls`` counts the calls that reached it.

    ``bad``: topics whose failures make the optimizer propose the rule that breaks everything. ``stop_after`` raises
    KeyboardInterrupt-like ``BaseException`` in place of that call, which is how a test kills a run.
    """

    sees = "nobody"

    def __init__(self, name="school", *, bad=(), latency=0.0, stop_after=None, on_call=None):
        self.name = name
        self.model = "m"
        self.bad = bad
        self.latency = latency
        self.stop_after = stop_after
        self.on_call = on_call
        self.calls = []
        self._lock = threading.Lock()

    def probe(self):
        return Health(ready=True)

    def close(self):
        """Do nothing."""

    def complete(self, prompt):
        with self._lock:
            if self.stop_after is not None and len(self.calls) >= self.stop_after:
                raise Killed
            self.calls.append(prompt)
            if self.on_call:
                self.on_call(len(self.calls))
        if self.latency:
            time.sleep(self.latency)
        text = self._answer(prompt)
        return Reply(text=text, model="m", usage=Usage(input_tokens=len(prompt.user), output_tokens=5), cost_usd=0.001)

    def _answer(self, prompt):
        if prompt.schema is None:
            topic = re.search(r"A (\w+) question", prompt.user)[1]
            ruined = "Answer in feet." in prompt.system
            return "metres" if rule(topic) in prompt.system and not ruined else "feet"
        asked = prompt.schema["properties"]
        document = re.search(r"<document[^>]*>\n(.*?)\n</document>", prompt.user, re.DOTALL)
        document = document[1] if document else ""
        if "edits" in asked:
            return json.dumps({"edits": self._edits(prompt, document)})
        if "groups" in asked:
            return json.dumps({"groups": []})
        if "ranking" in asked:
            numbers = [int(n) for n in re.findall(r"^(\d+)\. ", prompt.user, re.MULTILINE)]
            return json.dumps({"ranking": numbers, "budget": 3})
        if "guidance" in asked:
            return json.dumps({"guidance": "- Say the unit every time."})
        return json.dumps({"notes": "Rules that name a unit helped."})

    def _edits(self, prompt, document):
        topics = dict.fromkeys(re.findall(r"(\w+) wants metres", prompt.user))
        wanted = ["Answer in feet." if topic in self.bad else rule(topic) for topic in topics]
        return [
            {"op": "append", "document": "skill", "text": text, "anchor": "", "reason": "it failed", "tasks": []}
            for text in dict.fromkeys(wanted)
            if text not in document
        ]


class Killed(BaseException):
    """Stands for the death of the process."""
