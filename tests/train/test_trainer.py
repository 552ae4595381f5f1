"""Training as a whole: what is learnt, kept apart, gated, written, and never paid for twice."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from skillopt_sleep.errors import BudgetSpent, DiskError, NightRunning, Refused
from skillopt_sleep.storage.ledger import open_training_folder
from skillopt_sleep.train import RolloutResult, SkillEnv, SkillOptConfig, SkillOptTrainer
from skillopt_sleep.train.epoch import is_due
from skillopt_sleep.train.run import Run
from skillopt_sleep.train.skill_text import get_part
from skillopt_sleep.train.trainer import is_stuck
from tests.fakes.school import TOPICS, School, SchoolEnv, rule


def trainer(folder, school=None, env=None, *, skill="# Skill\n", **config):
    school = school or School()
    given = {"num_epochs": 2, "batch_size": 6, "minibatch_size": 3, "verbose": False, **config}
    return SkillOptTrainer(
        config=SkillOptConfig(out_root=folder / "run", **given),
        env=env or SchoolEnv(),
        optimizer_client=school,
        target_client=school,
        initial_skill=skill,
    )


def written(folder, name):
    return json.loads((folder / "run" / name).read_text())


def prompts(school, *properties):
    """What the optimizer was asked with a schema of these properties."""
    return [each for each in school.calls if each.schema and list(each.schema["properties"]) == list(properties)]


def test_a_skill_is_learnt(tmp_path):
    """Training learns every topic's rule; the test split is scored before and after, by task type."""
    made = trainer(tmp_path)
    summary = made.train()
    assert (summary["baseline_test_hard"], summary["test_hard"], summary["test_delta_hard"]) == (0.0, 1.0, 1.0)
    assert (made.best_score, made.best_step, len(made.history)) == (1.0, summary["best_step"], 4)
    assert made.best_skill == made.current_skill == (tmp_path / "run" / "best_skill.md").read_text()
    assert {name: row["hard"] for name, row in summary["test_by_type"]["best"].items()} == {
        **dict.fromkeys(TOPICS, 1.0),
        "overall": 1.0,
    }
    best = (tmp_path / "run" / "best_skill.md").read_text()
    assert all(rule(topic) in best for topic in TOPICS)


def test_artefacts_have_the_published_names(tmp_path):
    """Config, history, state, skills, every stage of every step, both tests, summary."""
    summary = trainer(tmp_path).train()
    found = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    step = {
        f"steps/step_0001/{name}"
        for name in (
            "rollout_results.json",
            "raw_patches.json",
            "merged_patch.json",
            "ranked_patch.json",
            "candidate_skill.md",
            "edit_apply_report.json",
            "selection_eval/results.json",
            "step_record.json",
        )
    }
    top = {"config.json", "history.json", "runtime_state.json", "best_skill.md", "current_skill.md", "summary.json"}
    top |= {"summary.md", *(f"skills/skill_v{number:04d}.md" for number in range(5))}
    top |= {"test_eval_baseline/results.json", "test_eval_best/results.json", "test_eval_best/buckets.json"}
    assert step | top <= found
    assert written(tmp_path, "summary.json") == json.loads(json.dumps(summary))
    history = written(tmp_path, "history.json")
    assert [record["step"] for record in history] == [1, 2, 3, 4]
    assert written(tmp_path, "runtime_state.json")["last_completed_step"] == 4
    assert written(tmp_path, "config.json")["batch_size"] == 6


def test_finished_run_makes_no_calls(tmp_path):
    """Run again, it gives the same summary without a call."""
    first = trainer(tmp_path).train()
    school = School()
    again = trainer(tmp_path, school).train()
    assert school.calls == []
    assert again | {"wall_time_s": 0} == first | {"wall_time_s": 0}


def test_every_epoch_sees_every_item_once(tmp_path):
    """Batches are shuffled anew each epoch, and no item is missing or repeated."""
    trainer(tmp_path).train()
    steps = [written(tmp_path, f"steps/step_{number:04d}/rollout_results.json") for number in range(1, 5)]
    ids = [[result["id"] for result in step] for step in steps]
    everything = {f"t{number}" for number in range(12)}
    assert {*ids[0], *ids[1]} == {*ids[2], *ids[3]} == everything
    assert len(ids[0]) == len(ids[2]) == 6
    assert ids[0] != ids[2]


def test_edit_budget_bounds_every_step(tmp_path):
    """No step applies more edits than its budget, which falls; analysts may always propose the largest number.

    A step without edits has no budget, and uses up none of the schedule.
    """
    school = School()
    trainer(tmp_path, school, num_epochs=4, edit_budget=3, min_edit_budget=1, lr_scheduler="linear").train()
    history = written(tmp_path, "history.json")
    budgets = [record["edit_budget"] for record in history]
    assert [budget for budget in budgets if budget] == [3, 2, 2, 2, 2, 2, 1, 1][: len(budgets) - budgets.count(None)]
    assert [record["n_edits_merged"] > 0 for record in history] == [budget is not None for budget in budgets]
    assert all(record["apply_report"]["applied"] <= (record["edit_budget"] or 0) for record in history)
    assert all("at most 3 edits" in prompt.system for prompt in prompts(school, "edits"))


def test_autonomous_budget_is_what_the_optimizer_asks_for(tmp_path):
    """It asks for 3 between 2 and 4 and gets 3, and a resumed schedule continues from there."""
    trainer(tmp_path, lr_scheduler="autonomous", minibatch_size=6).train()
    first = written(tmp_path, "history.json")[0]
    assert (first["n_edits_merged"], first["edit_budget"], first["apply_report"]["applied"]) == (4, 3, 3)


def test_rejected_edits_are_shown_to_later_reflections(tmp_path):
    """They come with the drop in score and are not tried again; with the buffer off, they are."""
    school = School(bad=("alpha",))
    trainer(tmp_path, school, env=SchoolEnv(topics=("alpha", "beta")), skill=f"- {rule('beta')}\n").train()
    history = written(tmp_path, "history.json")
    assert [record["action"] for record in history] == ["reject"] + ["skip_no_patches"] * 3
    assert "(-0.500)" in prompts(school, "edits")[-1].user
    other = School(bad=("alpha",))
    env = SchoolEnv(topics=("alpha", "beta"))
    trainer(tmp_path / "off", other, env=env, skill=f"- {rule('beta')}\n", use_rejected_buffer=False).train()
    assert [record["action"] for record in written(tmp_path / "off", "history.json")] == ["reject"] * 4


def test_gate_off_accepts_harm_and_keeps_the_best(tmp_path):
    """The current skill gets worse, and the best one is still the best on validation."""
    summary = trainer(
        tmp_path,
        School(bad=("alpha",)),
        env=SchoolEnv(topics=("alpha", "beta")),
        skill=f"- {rule('beta')}\n",
        gate="off",
        eval_current_on_test=True,
    ).train()
    assert summary["total_accepts"] > 0
    assert (summary["test_hard"], summary["current_test_hard"]) == (0.5, 0.0)
    assert (tmp_path / "run" / "best_skill.md").read_text() == f"- {rule('beta')}\n"


def test_paired_gate(tmp_path):
    """A clear win is accepted by pairs, with a tally in the artefacts; a harmful edit is not."""
    env = SchoolEnv(train=12, val=12)
    trainer(tmp_path, env=env, gate="paired", num_epochs=1, edit_budget=4).train()
    first = written(tmp_path, "history.json")[0]
    assert (first["action"], first["gate"]) == ("accept_new_best", "paired")
    trial = written(tmp_path, "steps/step_0001/selection_eval/trial.json")
    assert trial["tally"]["wins"] >= 6
    bad = School(bad=("alpha",))
    trainer(
        tmp_path / "bad",
        bad,
        env=SchoolEnv(12, 12, topics=("alpha", "beta")),
        skill=f"- {rule('beta')}\n",
        gate="paired",
    ).train()
    first = written(tmp_path / "bad", "history.json")[0]
    assert first["action"] in {"reject", "undecided"}
    assert first["candidate_gate_score"] < 0.5
    assert (tmp_path / "bad" / "run" / "best_skill.md").read_text() == f"- {rule('beta')}\n"


def test_selection_scores_are_reused(tmp_path):
    """A skill that was scored before is not rolled out on the selection split again."""
    school = School(bad=("alpha",))
    trainer(
        tmp_path,
        school,
        env=SchoolEnv(topics=("alpha", "beta")),
        skill=f"- {rule('beta')}\n",
        use_rejected_buffer=False,
    ).train()
    asked = Counter((each.system, each.user) for each in school.calls if ", number v" in each.user)
    assert set(asked.values()) == {1}


def test_slow_update_is_gated_like_any_change(tmp_path):
    """Guidance that gains nothing is rejected; forced, it is accepted, in a region steps cannot edit."""
    gated = trainer(tmp_path, num_epochs=3).train()
    assert [each["action"] for each in gated["slow_updates"]] == ["reject", "reject"]
    forced = trainer(tmp_path / "f", num_epochs=3, slow_update_gate="force").train()
    assert forced["slow_updates"][0]["action"] == "greedy_applied"
    skill = (tmp_path / "f" / "run" / "current_skill.md").read_text()
    assert get_part(skill) == "- Say the unit every time."


def test_epoch_boundary_begins_with_the_second(tmp_path):
    """The same sample under both skills, sorted by its course; off with its switch."""
    school = School()
    summary = trainer(tmp_path, school, num_epochs=2, batch_size=12, edit_budget=2, slow_update_samples=5).train()
    (update,) = summary["slow_updates"]
    assert (update["epoch"], update["sample"]) == (2, 5)
    named = [name for names in update["courses"].values() for name in names]
    assert len(named) == len(set(named)) == 5
    assert set(update["courses"]) == {"improved", "regressed", "persistent_fail", "stable_success"}
    assert update["courses"]["improved"]
    off = School()
    trainer(tmp_path / "off", off, num_epochs=3, use_slow_update=False, use_meta_skill=False).train()
    assert not prompts(off, "guidance")
    assert not prompts(off, "notes")


def test_notes_reach_the_optimizer_and_never_the_target(tmp_path):
    """After the second epoch every analyst sees them, and nobody else."""
    school = School(bad=("zeta",))
    trainer(tmp_path, school, num_epochs=4).train()
    notes = "Rules that name a unit helped."
    assert any(notes in each.user for each in prompts(school, "edits"))
    assert not any(notes in each.system + each.user for each in school.calls if each.schema is None)


def test_failure_only(tmp_path):
    """No analyst sees successes."""
    both, only = School(), School()
    trainer(tmp_path, both).train()
    trainer(tmp_path / "only", only, failure_only=True).train()
    well = re.compile("did well")
    assert any(well.search(each.system) for each in prompts(both, "edits"))
    assert not any(well.search(each.system) for each in prompts(only, "edits"))


@pytest.mark.parametrize(("reflection", "shown"), [("deep", 3), ("shallow", 1)])
def test_reflection_crosses_trajectories_or_not(tmp_path, reflection, shown):
    """A deep analyst sees a minibatch, a shallow one a single trajectory."""
    school = School()
    trainer(tmp_path, school, reflection=reflection, num_epochs=1).train()
    assert max(each.user.count("<request id=") for each in prompts(school, "edits")) == shown


class Moody(SchoolEnv):
    """Every second attempt at an item is right."""

    def rollout_one(self, *, item, skill, target_client):
        self.tries = getattr(self, "tries", Counter())
        self.tries[item["id"]] += 1
        good = self.tries[item["id"]] % 2 == 0
        return RolloutResult(item["id"], float(good), float(good), predicted_answer="metres" if good else "feet")


def test_several_attempts_are_contrasted(tmp_path):
    """Items whose attempts differ are shown with the better and the worse answer."""
    school = School()
    trainer(tmp_path, school, Moody(), rollouts_k=2, num_epochs=1, workers=1).train()
    assert "<better-answer>\nmetres" in prompts(school, "edits")[0].user


def test_run_stops_before_a_cap_and_resumes(tmp_path):
    """Each process may spend up to the cap again, and nothing is paid twice."""
    whole = School()
    expected = trainer(tmp_path / "whole", whole).train()
    sizes = []
    for _ in range(20):
        school = School()
        try:
            summary = trainer(tmp_path, school, max_calls=20).train()
        except BudgetSpent:
            sizes.append(len(school.calls))
            continue
        sizes.append(len(school.calls))
        break
    assert max(sizes) <= 20
    assert sum(sizes) == len(whole.calls)
    assert summary["test_by_type"] == expected["test_by_type"]


def test_another_run_in_the_folder_is_refused(tmp_path):
    """The refusal names what differs before any call; settings without effect on the outcome may differ."""
    trainer(tmp_path).train()
    school = School()
    for difference in ({"num_epochs": 3}, {"env": SchoolEnv(train=11)}, {"skill": "# Other\n"}):
        with pytest.raises(Refused, match=r"num_epochs is 2 there, 3 now|items of train|initial skill"):
            trainer(tmp_path, school, **difference).train()
    trainer(tmp_path, school, workers=3).train()
    assert school.calls == []


def test_one_process_at_a_time(tmp_path):
    """A second process is refused."""
    with open_training_folder(tmp_path / "run"), pytest.raises(NightRunning, match="another process trains"):
        trainer(tmp_path).train()


def test_prompts_can_be_overridden(tmp_path):
    """Only the system part is replaced; an unknown name is an error."""
    school = School()
    base = trainer(tmp_path, school)
    SkillOptTrainer(
        config=base.config,
        env=base.env,
        optimizer_client=school,
        target_client=school,
        initial_skill="# Skill\n",
        prompt_overrides={"analyst_error": "Look hard."},
    ).train()
    assert {each.system for each in prompts(school, "edits")} >= {"Look hard."}
    with pytest.raises(ValueError, match="did you mean 'ranking'"):
        SkillOptTrainer(
            config=base.config,
            env=base.env,
            optimizer_client=school,
            target_client=school,
            prompt_overrides={"rankin": ""},
        )


class Batches(SchoolEnv):
    """Rolls out whole batches, through the client it was set up with."""

    def setup(self, config, *, optimizer_client, target_client):
        self.client = target_client

    def rollout_batch(self, *, items, skill, split, seed, out_dir):
        return [self.rollout_one(item=item, skill=skill, target_client=self.client) for item in items]


def test_batch_environment_asks_anew_in_every_draw(tmp_path):
    """Epochs and pairs are attempts of their own; no reply answers two of them."""
    school = School()
    summary = trainer(tmp_path, school, Batches(train=6, val=12), gate="paired", skill="").train()
    one = Counter((each.system, each.user, each.sample) for each in school.calls if each.schema is None)
    assert set(one.values()) == {1}
    assert summary["calls"]["rollout"] == 12
    assert {"selection", "slow update", "test"} <= summary["calls"].keys()
    again = Counter((each.system, each.user) for each in school.calls if ", number v" in each.user)
    assert max(again.values()) > 1


class Planned(SkillEnv):
    """Two items, and an initial skill of its own."""

    name = "planned"

    def get_initial_skill(self):
        return "# Its own\n"

    def get_items(self, split):
        return [{"id": f"{split}1"}, {"id": f"{split}2"}]

    def rollout_one(self, *, item, skill, target_client):
        return RolloutResult(item["id"], 1, 1)


def test_initial_skill_of_the_environment(tmp_path):
    """It is used if the trainer is given none."""
    trainer(tmp_path, env=Planned(), skill=None).train()
    assert (tmp_path / "run" / "skills" / "skill_v0000.md").read_text() == "# Its own\n"


def test_price_is_an_upper_bound(tmp_path):
    """No stage of a run takes more calls than its price said, and pricing makes no calls."""
    for config in (
        {"num_epochs": 3, "minibatch_size": 2, "merge_batch_size": 2, "eval_current_on_test": True},
        {"reflection": "shallow", "gate": "paired"},
    ):
        school = School()
        priced = trainer(tmp_path / str(len(str(config))), school, **config)
        price = priced.price()
        assert school.calls == []
        calls = priced.train()["calls"]
        assert all(calls[stage] <= price.stages.get(stage, 0) for stage in calls), (calls, price.stages)


@pytest.mark.slow
def test_trial_of_a_slow_update_has_draws_of_its_own(tmp_path, monkeypatch):
    """Two trials of one skill on the same draws would count the same luck twice."""
    drawn = {}
    rolled = Run.roll_one

    def noted(self, item, skill, draw):
        if draw.phase == "selection" and "draw_" in draw.folder:
            drawn.setdefault((skill, draw.number, item["id"]), set()).add(draw.folder.split("/draw_")[0])
        return rolled(self, item, skill, draw)

    monkeypatch.setattr(Run, "roll_one", noted)
    env = SchoolEnv(train=12, val=12, test=3)
    trainer(tmp_path, env=env, num_epochs=3, gate="paired", edit_budget=1, min_edit_budget=1).train()
    trials = set().union(*drawn.values())
    assert any(each.startswith("slow_update") for each in trials)
    assert any(each.startswith("steps") for each in trials)
    assert [places for places in drawn.values() if len(places) > 1] == []


def test_omitted_data_is_reported(tmp_path, capsys):
    """At the beginning, in the summary and on its page."""
    env = SchoolEnv()
    env.notes = ("2 items of train left out: test asks the same",)
    summary = trainer(tmp_path, env=env, verbose=True, num_epochs=1).train()
    assert "data: 2 items of train left out" in capsys.readouterr().err
    assert summary["data_notes"] == ["2 items of train left out: test asks the same"]
    assert "2 items of train left out: test asks the same." in (tmp_path / "run" / "summary.md").read_text()


def test_limit_without_effect_is_reported(tmp_path, capsys):
    """A backend with limits of its own ignores ours, and a line says so."""
    trainer(tmp_path, verbose=True, num_epochs=1, optimizer_max_completion_tokens=77).train()
    assert "school takes no limit: optimizer_max_completion_tokens = 77" in capsys.readouterr().err


def test_damaged_run_says_what_helps(tmp_path):
    """The message does not suggest the repair of the user's own database."""
    trainer(tmp_path, num_epochs=1).train()
    (tmp_path / "run" / "ledger.db").write_bytes(b"garbage" * 100)
    with pytest.raises(DiskError, match=r"ledger\.db is damaged.*remove .*run to start over") as raised:
        trainer(tmp_path, num_epochs=1).train()
    assert "doctor" not in str(raised.value)


def test_files_of_a_run_are_private(tmp_path):
    """Folders and files hold prompts and answers, so only their owner may read them."""
    trainer(tmp_path, num_epochs=1).train()
    found = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in found} == {0}


def test_summary_has_no_call_time(tmp_path):
    """Spend is calls, tokens and dollars; the time is ``wall_time_s``."""
    assert "seconds" not in trainer(tmp_path, num_epochs=1).train()["spend"]


def test_batch_larger_than_the_data(tmp_path):
    """It is all of the data, also for an environment that plans its epochs."""

    class Planning(SchoolEnv):
        def plan_epoch(self, *, epoch, steps, batch_size, seed):
            heard.append((steps, batch_size))

    heard = []
    trainer(tmp_path, env=Planning(), num_epochs=1, batch_size=40).train()
    assert heard == [(1, 12)]


def test_step_of_several_batches_makes_one_change(tmp_path):
    """Each batch is rolled out and reflected on by itself; the step makes one candidate of all their edits."""
    plain = trainer(tmp_path / "plain", num_epochs=1, batch_size=3, minibatch_size=3)
    wide = trainer(tmp_path / "wide", num_epochs=1, batch_size=3, minibatch_size=3, accumulation=2)
    assert wide.price().steps * 2 == plain.price().steps
    plain.train()
    wide.train()
    assert len(wide.history) * 2 == len(plain.history)
    assert {record["rollout_n"] for record in wide.history} == {6}
    assert written(tmp_path / "wide", "steps/step_0001/step_record.json")["n_failure_patches"] == 2


@pytest.mark.parametrize(("refusals", "steps"), [(0, 12), (1, 1)])
def test_run_stops_when_the_gate_refuses_again_and_again(tmp_path, refusals, steps):
    """After so many refusals in a row the run ends and is scored like any other; run again, it has nothing to do."""
    school = School(bad=TOPICS)
    skill = "\n".join(map(rule, TOPICS[:3]))
    made = trainer(tmp_path, school, num_epochs=6, early_stop=refusals, skill=skill)
    summary = made.train()
    assert (len(made.history), made.history[0]["action"]) == (steps, "reject")
    assert summary["test_hard"] == summary["baseline_test_hard"] == 0.5
    calls = len(school.calls)
    again = trainer(tmp_path, school, num_epochs=6, early_stop=refusals, skill=skill)
    assert (again.train()["test_hard"], len(school.calls)) == (0.5, calls)


def test_refusals_in_a_row():
    """Steps without a candidate neither break the row nor count."""
    actions = ["accept", "reject", "skip_no_patches", "undecided"]
    history = [{"action": action} for action in actions]
    assert [is_stuck(history, refusals) for refusals in range(4)] == [False, True, True, False]


def test_what_does_not_pay_is_tried_less_often():
    """After one refusal it is tried again, then after two more epochs, then after four more."""
    assert [misses for misses in range(20) if is_due(misses)] == [0, 1, 3, 7, 15]
