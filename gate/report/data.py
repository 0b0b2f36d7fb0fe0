"""The summary for programs: one JSON object, `gate.run/1`."""

from __future__ import annotations

from gate.model import Json
from gate.report.cost import cost_json
from gate.summary import Summary


def run_json(run: dict[str, Json], summary: Summary, *, head: str) -> dict[str, Json]:
    """What `summary.json` holds: the counts of one run, without any path; `cost` where a model was asked.

    Args:
        run: What `run.json` holds.
        summary: The counts that its ledger adds up to.
        head: SHA-256 of the ledger's last line.
    """
    hidden, spent = summary.hidden, cost_json(run, summary)
    return {
        "schema": "gate.run/1",
        "bank": run["bank"]["name"],
        "tasks": summary.tasks,
        "delivered": summary.delivered,
        "refused": summary.refused,
        "infra": summary.infra,
        "not_run": summary.not_run,
        "draws": summary.draws,
        "calls_per_task": round(summary.calls_per_task, 4),
        "reasons": summary.reasons,
        "refusals": summary.refusals,
        "isolation": run["options"]["isolation"],
        "visible_subset_of_hidden": summary.containment.holds,
        "strength": summary.weakness.as_json(),
        "hidden": None
        if hidden is None
        else {
            "success": hidden.success,
            "wrong_delivered": hidden.wrong_delivered,
            "unmeasured": hidden.unmeasured,
        },
        **({} if spent is None else {"cost": spent}),
        "head": head,
    }
