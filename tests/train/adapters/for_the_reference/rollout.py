"""Asks the target: as a chat model, through a client, or as an agent in a workspace."""

from __future__ import annotations

from pathlib import Path

from skillopt.envs.for_the_reference.evaluator import score
from skillopt.model import azure_openai as llm
from skillopt.model import chat_target, chat_target_messages, get_codex_exec_config, is_target_exec_backend
from skillopt.model.codex_harness import prepare_workspace, render_skill_md, run_target_exec
from skillopt.prompts import load_prompt


def ask_in_workspace(item: dict, skill: str, folder: Path) -> str:
    """As an agent's command line."""
    skill_path, task_path = prepare_workspace(
        work_dir=str(folder / "work"),
        skill_md=render_skill_md(skill, preamble=load_prompt("rollout_system", env="for_the_reference")),
        task_text=item["question"],
        extra_files={"notes/readme.txt": "Use the skill `skillopt-target`. Answer in one line."},
    )
    assert Path(skill_path).is_file()
    answer, _raw = run_target_exec(
        work_dir=str(folder / "work"),
        prompt=Path(task_path).read_text(encoding="utf-8"),
        model=llm.TARGET_DEPLOYMENT,
        timeout=60,
        sandbox=str(get_codex_exec_config()["sandbox"]),
    )
    return answer


def ask(item: dict, skill: str, folder: Path) -> str:
    """In one of the ways the reference's environments know."""
    if is_target_exec_backend():
        return ask_in_workspace(item, skill, folder)
    system = f"{load_prompt('rollout_system', env='for_the_reference')}\n{skill}"
    if item["id"] % 3 == 0:
        return chat_target(system=system, user=item["question"], max_completion_tokens=256)[0]
    messages = [{"role": "system", "content": system}, {"role": "user", "content": item["question"]}]
    if item["id"] % 3 == 1:
        return chat_target_messages(messages, max_completion_tokens=256)[0]
    assert not llm._needs_responses_api("m")
    reply = llm.get_target_client().chat.completions.create(
        model=llm.TARGET_DEPLOYMENT,
        messages=messages,
        max_completion_tokens=256,
        reasoning_effort=llm.get_reasoning_effort(),
    )
    llm.tracker.record("rollout", reply.usage.prompt_tokens, reply.usage.completion_tokens)
    return reply.choices[0].message.content


def roll_out(item: dict, skill: str, out_dir: str) -> dict:
    """One item."""
    folder = Path(out_dir, "predictions", str(item["id"]))
    folder.mkdir(parents=True, exist_ok=True)
    answer = ask(item, skill, folder)
    right = score(answer, item["ground_truth"])
    return {
        "id": item["id"],
        "hard": right,
        "soft": float(right),
        "question": item["question"],
        "predicted_answer": answer,
        "reference_text": item["ground_truth"],
        "fail_reason": "" if right else "not the house style",
    }
